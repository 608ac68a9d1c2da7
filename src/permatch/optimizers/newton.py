"""Newton's method for smooth convex functions with expensive evaluations.

    step = -hessian(x)^-1 gradient(x),  halved until the value has fallen enough

The Hessian may be approximate, and is recomputed only when the last step shrank the
gradient by less than a factor `_FAST`.  A matrix that is not positive definite, or only by
rounding, gets a ridge.  Coordinates that change nothing, whose derivatives are rounding
errors, stay where they are.  Where no step leads down, because of rounding or a poor
Hessian, `minimize` takes over from the best point.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from permatch._types import BoolArray, FloatArray
from permatch.optimizers.lbfgs import History, Optimum, ValueAndGrad, count_on, minimize

_lapack: Any = lapack  # compiled, and its stubs are incomplete

_FAST = 0.1
_ARMIJO = 1e-4
_MAX_HALVINGS = 10
_ROUNDING = 1e-14  # of the value, below which a fall cannot be seen
_RIDGES = (0.0, 1e-9, 1e-6, 1e-3, 1.0)  # of the largest entry of the diagonal
_SINGULAR = 1e-13  # of an entry of the diagonal, what is left of it if rounding is all
_SETTLED = 1e-3  # of `tol`: coordinates with less of a gradient are not moved


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

    Takes and returns what `minimize` does, and `hessian`: from a point (d,) to the second
    derivatives (d, d), possibly approximate.

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
    trace = _Trace(value_and_grad, np.array(start, dtype=np.float64), tol, on_iteration)
    message = f"the largest entry of the gradient is at most {tol:g}"
    is_interrupted = False
    try:
        trace.begin()
        while trace.grad_norm > tol:
            if trace.n_iter >= max_iter:
                message = f"max_iter={max_iter} was reached"
                break
            if not trace.step(hessian):
                return _fall_back(trace, value_and_grad, tol, max_iter, on_iteration)
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
        history=trace.history.rows,
    )


class _Trace:
    """The best point so far, the Hessian's factor, and what happened by iteration."""

    def __init__(
        self,
        value_and_grad: ValueAndGrad,
        start: FloatArray,
        tol: float,
        on_iteration: Callable[[dict[str, float]], None] | None,
    ) -> None:
        self.coef, self.grad = start, np.zeros_like(start)
        self.tol = tol
        self.value, self.grad_norm = np.nan, np.inf
        self.n_iter = self.n_evaluations = 0
        self.history = History(on_iteration)
        self._value_and_grad = value_and_grad
        self._factor: tuple[FloatArray, bool] | None = None

    def begin(self) -> None:
        """Evaluate the start."""
        self.value, self.grad = self._evaluate(self.coef)
        self.grad_norm = _largest(self.grad)
        self._note()

    def step(self, hessian: Callable[[FloatArray], FloatArray]) -> bool:
        """Take one step; return False if none leads down."""
        is_fresh = self._factor is None
        if self._factor is None:
            is_settled = np.abs(self.grad) <= _SETTLED * self.tol
            self._factor = _factorise(_hold(hessian(self.coef), is_settled))
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
                self._note()
                return True
            share *= 0.5
        return False

    def _evaluate(self, coef: FloatArray) -> tuple[float, FloatArray]:
        value, grad = self._value_and_grad(coef)
        self.n_evaluations += 1
        return float(value), grad

    def _note(self) -> None:
        self.history.add(
            iteration=self.n_iter,
            loss=self.value,
            grad_norm=self.grad_norm,
            evaluations=self.n_evaluations,
        )


def _fall_back(
    trace: _Trace,
    value_and_grad: ValueAndGrad,
    tol: float,
    max_iter: int,
    show: Callable[[dict[str, float]], None] | None,
) -> Optimum:
    """Continue from the best point by quasi-Newton steps."""
    before = {
        "iteration": trace.n_iter,
        "evaluations": trace.n_evaluations,
        "seconds": trace.history.seconds,
    }

    def on_iteration(row: dict[str, float]) -> None:
        if show is not None and row["iteration"]:  # the start was shown already
            show(count_on(row, before))

    rest = minimize(
        value_and_grad,
        trace.coef,
        tol=tol,
        max_iter=max_iter - trace.n_iter,
        on_iteration=on_iteration,
    )
    if not rest.n_evaluations:  # interrupted at once
        rest = replace(rest, value=trace.value, grad_norm=trace.grad_norm)
    return replace(
        rest,
        n_iter=trace.n_iter + rest.n_iter,
        n_evaluations=trace.n_evaluations + rest.n_evaluations,
        history=trace.history.rows + [count_on(row, before) for row in rest.history[1:]],
    )


def _hold(matrix: FloatArray, is_settled: BoolArray) -> FloatArray:
    """Return second derivatives by which coordinates that are settled stay where they are.

    They are taken for independent of the others.
    """
    largest = np.abs(np.diagonal(matrix)).max(initial=0.0) or 1.0
    held = np.where(is_settled | is_settled[:, None], 0.0, matrix)
    return held + np.diag(np.where(is_settled, largest, 0.0))


def _factorise(matrix: FloatArray) -> tuple[FloatArray, bool] | None:
    """Return a Cholesky factor, of the matrix with a ridge if need be."""
    if not np.isfinite(matrix).all():
        return None
    diagonal = np.abs(np.diagonal(matrix)).max(initial=0.0) or 1.0
    for ridge in _RIDGES:
        try:
            ridged = matrix + ridge * diagonal * np.eye(len(matrix))
            factor = linalg.cho_factor(ridged, lower=True, check_finite=False)
        except linalg.LinAlgError:
            continue
        left = np.square(np.diagonal(factor[0]))
        if (left > _SINGULAR * np.diagonal(ridged)).all():
            return factor
    return None


def cholesky_solve(matrix: FloatArray, vector: FloatArray) -> FloatArray:
    """Return the inverse of a positive matrix times a vector; NaN if it is not finite."""
    # LAPACK itself: for few coefficients, checks would take longer than the solution.
    _, found, failure = _lapack.dposv(matrix, vector, lower=1)
    if not failure:
        return found
    factor = _factorise(matrix)
    if factor is None:
        return np.full_like(vector, np.nan)
    return linalg.cho_solve(factor, vector, check_finite=False)


def _largest(grad: FloatArray) -> float:
    return float(np.max(np.abs(grad), initial=0.0))
