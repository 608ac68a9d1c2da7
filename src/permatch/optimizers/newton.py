"""Newton's method for smooth convex functions with expensive evaluations.

    step = -hessian(x)^-1 gradient(x),  halved until the value has fallen enough

The Hessian may be approximate, and is recomputed only when the last step shrank the
gradient by less than a factor `_FAST`.  A matrix that is not positive definite gets a
ridge.  Where no step leads down, because of rounding or a poor Hessian, `minimize` takes
over from the best point.
"""

import time
from collections.abc import Callable

import numpy as np
from scipy import linalg

from permatch._types import FloatArray
from permatch.optimizers.lbfgs import Optimum, ValueAndGrad, minimize

_FAST = 0.1
_ARMIJO = 1e-4
_MAX_HALVINGS = 10
_ROUNDING = 1e-14  # of the value, below which a fall cannot be seen
_RIDGES = (0.0, 1e-12, 1e-9, 1e-6, 1e-3, 1.0)  # of the largest entry of the diagonal


def minimize_newton(
    value_and_grad: ValueAndGrad,
    hessian: Callable[[FloatArray], FloatArray],
    start: FloatArray,
    *,
    tol: float = 1e-6,
    max_iter: int = 500,
    on_iteration: Callable[[dict[str, float]], None] | None = None,
) -> Optimum:
    """Minimise a smooth convex function using second derivatives.

    Parameters
    ----------
    value_and_grad : callable
        Takes a point (d,) and returns the value and the gradient (d,).
    hessian : callable
        Takes a point (d,) and returns the second derivatives (d, d), possibly approximate.
    start : ndarray of shape (d,)
        Starting point.
    tol : float
        Largest entry of the gradient to reach.
    max_iter : int
        Maximum number of steps.
    on_iteration : callable, optional
        Called with every new entry of the history.

    Returns
    -------
    Optimum
        The best point seen, converged or not, also after Ctrl-C.

    Examples
    --------
    >>> import numpy as np
    >>> goal = np.array([1.0, -2.0])
    >>> optimum = minimize_newton(
    ...     lambda x: (np.sum((x - goal) ** 2), 2 * (x - goal)),
    ...     lambda x: 2 * np.eye(2),
    ...     np.zeros(2),
    ... )
    >>> optimum.coef, optimum.n_evaluations
    (array([ 1., -2.]), 2)
    """
    trace = _Trace(value_and_grad, np.array(start, dtype=np.float64), on_iteration)
    message = f"the largest entry of the gradient is at most {tol:g}"
    is_interrupted = False
    try:
        trace.begin()
        while trace.grad_norm > tol:
            if trace.n_iter >= max_iter:
                message = f"max_iter={max_iter} was reached"
                break
            if not trace.step(hessian):
                return _fall_back(trace, value_and_grad, tol, max_iter)
    except KeyboardInterrupt:
        is_interrupted = True
        message = "interrupted"
    return Optimum(
        coef=trace.coef,
        value=trace.value,
        grad_norm=trace.grad_norm,
        n_iter=trace.n_iter,
        n_evaluations=trace.n_evaluations,
        is_converged=trace.grad_norm <= tol,
        is_interrupted=is_interrupted,
        message=message,
        history=trace.history,
    )


class _Trace:
    """The best point so far, the Hessian's factor, and what happened by iteration."""

    def __init__(
        self,
        value_and_grad: ValueAndGrad,
        start: FloatArray,
        on_iteration: Callable[[dict[str, float]], None] | None,
    ) -> None:
        self.coef, self.grad = start, np.zeros_like(start)
        self.value, self.grad_norm = np.nan, np.inf
        self.n_iter = self.n_evaluations = 0
        self.history: list[dict[str, float]] = []
        self._value_and_grad = value_and_grad
        self.on_iteration = on_iteration
        self._factor: tuple[FloatArray, bool] | None = None
        self._began = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Time since the run began."""
        return time.perf_counter() - self._began

    def begin(self) -> None:
        """Evaluate the start."""
        self.value, self.grad = self._evaluate(self.coef)
        self.grad_norm = _largest(self.grad)
        self.note(self.value, self.grad_norm)

    def step(self, hessian: Callable[[FloatArray], FloatArray]) -> bool:
        """Take one step; return False if none leads down."""
        is_fresh = self._factor is None
        if self._factor is None:
            self._factor = _factorise(hessian(self.coef))
        if self._factor is not None and self._search(self._factor, is_fresh):
            return True
        if is_fresh:
            return False
        self._factor = None  # an old Hessian was at fault, perhaps
        return self.step(hessian)

    def _search(self, factor: tuple[FloatArray, bool], is_fresh: bool) -> bool:
        direction = -linalg.cho_solve(factor, self.grad, check_finite=False)
        slope = float(direction @ self.grad)
        if not (slope < 0.0 and np.isfinite(slope)):
            return False
        share = 1.0
        for _ in range(_MAX_HALVINGS if is_fresh else 2):
            coef = self.coef + share * direction
            value, grad = self._evaluate(coef)
            norm = _largest(grad)
            fall = self.value - value
            is_seen = -share * slope > _ROUNDING * abs(self.value)
            is_down = fall >= -_ARMIJO * share * slope if is_seen else norm < self.grad_norm
            if is_down and np.isfinite(norm):
                # too slow for an old Hessian: the next step takes a new one
                if norm > _FAST * self.grad_norm:
                    self._factor = None
                self.coef, self.value, self.grad, self.grad_norm = coef, value, grad, norm
                self.n_iter += 1
                self.note(value, norm)
                return True
            share *= 0.5
        return False

    def _evaluate(self, coef: FloatArray) -> tuple[float, FloatArray]:
        value, grad = self._value_and_grad(coef)
        self.n_evaluations += 1
        return float(value), grad

    def note(self, value: float, grad_norm: float) -> None:
        """Add an entry to the history."""
        row = {
            "iteration": self.n_iter,
            "loss": value,
            "grad_norm": grad_norm,
            "evaluations": self.n_evaluations,
            "seconds": self.seconds,
        }
        self.history.append(row)
        if self.on_iteration is not None:
            self.on_iteration(row)


def _fall_back(
    trace: _Trace, value_and_grad: ValueAndGrad, tol: float, max_iter: int
) -> Optimum:
    """Continue from the best point by quasi-Newton steps."""
    n_iter, n_evaluations = trace.n_iter, trace.n_evaluations
    seconds = trace.seconds
    show = trace.on_iteration

    def counted_on(row: dict[str, float]) -> dict[str, float]:
        return row | {
            "iteration": n_iter + row["iteration"],
            "evaluations": n_evaluations + row["evaluations"],
            "seconds": seconds + row["seconds"],
        }

    def on_iteration(row: dict[str, float]) -> None:
        if show is not None and row["iteration"]:  # the start was shown already
            show(counted_on(row))

    rest = minimize(
        value_and_grad,
        trace.coef,
        tol=tol,
        max_iter=max_iter - n_iter,
        on_iteration=on_iteration,
    )
    is_better = rest.n_evaluations > 0
    return Optimum(
        coef=rest.coef,
        value=rest.value if is_better else trace.value,
        grad_norm=rest.grad_norm if is_better else trace.grad_norm,
        n_iter=n_iter + rest.n_iter,
        n_evaluations=n_evaluations + rest.n_evaluations,
        is_converged=rest.is_converged,
        is_interrupted=rest.is_interrupted,
        message=rest.message,
        history=trace.history + [counted_on(row) for row in rest.history[1:]],
    )


def _factorise(matrix: FloatArray) -> tuple[FloatArray, bool] | None:
    """Return a Cholesky factor, of the matrix with a ridge if need be."""
    if not np.isfinite(matrix).all():
        return None
    diagonal = np.abs(np.diagonal(matrix)).max(initial=0.0) or 1.0
    for ridge in _RIDGES:
        try:
            ridged = matrix + ridge * diagonal * np.eye(len(matrix))
            return linalg.cho_factor(ridged, lower=True, check_finite=False)
        except linalg.LinAlgError:
            continue
    return None


def _largest(grad: FloatArray) -> float:
    return float(np.max(np.abs(grad), initial=0.0))
