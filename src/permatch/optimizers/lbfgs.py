"""Quasi-Newton minimisation of smooth convex functions, by SciPy.

Stops when the largest entry of the projected gradient is at most `tol`:

    projected gradient = x - clip(x - gradient, low, high)      (the gradient, if unbounded)

SciPy's other stopping rules, on the reduction of the value, are switched off.  Near the
optimum, differences between values are lost in rounding while the gradient still has
digits.  When a line search fails there, the run continues with values rebuilt from
gradients around the best point by the trapezoid rule,

    value(x) - value(best)  ~  1/2 <x - best, gradient(x) + gradient(best)>,

whose error falls with the cube of the distance.

A gradient that is an estimate is also accepted once `is_zero` says that it may be noise.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize

from permatch._types import FloatArray
from permatch._validation import check_choice
from permatch.errors import InvalidOptionError

ValueAndGrad = Callable[[FloatArray], tuple[float, FloatArray]]

#: SciPy's name and the options of each solver; none stops before the gradient is small.
_SOLVERS: dict[str, tuple[str, dict[str, Any]]] = {
    # An evaluation costs far more than a step, so the memory is large: fewer of them.
    "lbfgs": ("L-BFGS-B", {"ftol": 0.0, "maxcor": 80, "maxfun": 10**9}),
    "bfgs": ("BFGS", {"norm": np.inf, "xrtol": 0.0}),
}
SOLVERS = tuple(_SOLVERS)
#: The solver that takes second derivatives too: `minimize_newton`.
NEWTON = "newton-cg"

# Noise makes line searches fail; where there is some, they give up sooner (default: 20).
_FEW_TRIALS = {"lbfgs": {"maxls": 6}}

# A restart has to shrink the gradient at least by this factor to be followed by another.
_PROGRESS = 0.5


@dataclass(frozen=True, eq=False, kw_only=True)
class BaseOptimum:
    """Result of a minimisation."""

    coef: FloatArray  # the best point seen, (d,)
    value: float  # the objective there
    n_iter: int  # steps taken
    n_evaluations: int  # evaluations of value and gradient
    is_converged: bool
    is_interrupted: bool  # whether Ctrl-C ended the run
    message: str  # why it ended
    history: list[dict[str, float]]  # cumulative; the first entry is the start


@dataclass(frozen=True, eq=False, kw_only=True)
class Optimum(BaseOptimum):
    """The minimum of a smooth function, converged if its gradient is small or noise.

    The history has ``iteration``, ``loss``, ``grad_norm``, ``evaluations`` and ``seconds``;
    its last entry is the point returned.
    """

    grad_norm: float  # largest entry of the projected gradient at `coef`
    has_no_end: bool = False  # the function keeps falling towards infinity
    gradient_error: float = 0.0  # largest standard error of an entry, NaN if unknown
    is_exact: bool = True  # whether all gradients were exact
    doubts: tuple[int, ...] = ()  # parts that an estimated objective calls unreliable


class History:
    """The entries of a history, with the time since it began; each is shown when made."""

    def __init__(self, on_iteration: Callable[[dict[str, float]], None] | None) -> None:
        self.rows: list[dict[str, float]] = []
        self._on_iteration = on_iteration
        self._began = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Time since the beginning."""
        return time.perf_counter() - self._began

    def add(self, **row: float) -> None:
        """Add an entry."""
        self.rows.append(row | {"seconds": self.seconds})
        if self._on_iteration is not None:
            self._on_iteration(self.rows[-1])


def count_on(row: dict[str, float], before: Mapping[str, float]) -> dict[str, float]:
    """Return an entry of a history with the counts of what came before added."""
    return row | {
        name: row[name] + before[name] for name in ("iteration", "evaluations", "seconds")
    }


def minimize(
    value_and_grad: ValueAndGrad,
    start: FloatArray,
    *,
    method: str = "lbfgs",
    bounds: tuple[FloatArray, FloatArray] | None = None,
    tol: float = 1e-6,
    max_iter: int = 500,
    on_iteration: Callable[[dict[str, float]], None] | None = None,
    is_zero: Callable[[FloatArray, FloatArray], bool] | None = None,
) -> Optimum:
    """Minimise a smooth convex function.

    Parameters
    ----------
    value_and_grad : callable
        Takes a point (d,) and returns the value and the gradient (d,).
    start : ndarray of shape (d,)
        Starting point; moved inside the bounds.
    method : {"lbfgs", "bfgs"}
        Limited-memory BFGS, or BFGS with a full (d, d) matrix, which supports no bounds.
    bounds : pair of ndarrays of shape (d,), optional
        Lowest and highest value of every coordinate; may be infinite.
    tol : float
        Largest entry of the projected gradient to reach.
    max_iter : int
        Maximum number of steps.
    on_iteration : callable, optional
        Called with every new entry of the history.
    is_zero : callable, optional
        Takes a point just evaluated and its projected gradient, and returns whether the
        gradient may be noise.

    Returns
    -------
    Optimum
        The best point seen, converged or not, also after Ctrl-C.

    Examples
    --------
    >>> import numpy as np
    >>> goal = np.array([1.0, -2.0])
    >>> optimum = minimize(lambda x: (np.sum((x - goal) ** 2), 2 * (x - goal)), np.zeros(2))
    >>> optimum.coef.round(6), optimum.is_converged
    (array([ 1., -2.]), True)
    """
    check_choice(method, "method", SOLVERS)
    check_solver(method, is_bounded=bounds is not None)
    trace = _Trace(value_and_grad, bounds, tol, on_iteration, is_zero)
    point = trace.clip(np.array(start, dtype=np.float64))
    is_interrupted = False
    message = f"the largest entry of the gradient is at most {tol:g}"
    try:
        _run(trace, trace.evaluate, point, method, tol, max_iter)
        norm_before = np.inf
        while trace.best.grad_norm > tol:
            if trace.n_iter >= max_iter:
                message = f"max_iter={max_iter} was reached"
                break
            if not trace.best.grad_norm <= _PROGRESS * norm_before:
                message = "rounding errors leave no direction of descent"
                break
            norm_before = trace.best.grad_norm
            trace.are_values_noise = True
            around_best = _trapezoid(trace.evaluate, trace.best)
            _run(trace, around_best, trace.best.coef, method, tol, max_iter)
    except _WithinNoise:
        message = "the gradient is zero within its noise"
    except KeyboardInterrupt:
        is_interrupted = True
        message = "interrupted"
    best = trace.best if trace.n_evaluations else _Point(point, np.nan, point, np.inf)
    trace.end_with_best()
    return Optimum(
        coef=best.coef,
        value=best.value,
        grad_norm=best.grad_norm,
        n_iter=trace.n_iter,
        n_evaluations=trace.n_evaluations,
        is_converged=best.grad_norm <= tol or trace.is_within_noise,
        is_interrupted=is_interrupted,
        message=message,
        history=trace.history.rows,
    )


def check_solver(method: Any, *, is_bounded: bool) -> None:
    """Refuse an unknown solver, or bounds it does not support."""
    check_choice(method, "solver", (*SOLVERS, NEWTON))
    if is_bounded and method != "lbfgs":
        raise InvalidOptionError(
            f"solver {method!r} does not support bounds on the coefficients. Use "
            "solver='lbfgs', or bounds=None."
        )


class _WithinNoise(Exception):
    """Leaves SciPy's loop at a point whose gradient may be noise."""


@dataclass(frozen=True, eq=False)
class _Point:
    """An evaluated point; `grad_norm` is that of the projected gradient."""

    coef: FloatArray
    value: float
    grad: FloatArray
    grad_norm: float


class _Trace:
    """Evaluates, counts, and remembers the best point and what happened by iteration."""

    best: _Point

    def __init__(
        self,
        value_and_grad: ValueAndGrad,
        bounds: tuple[FloatArray, FloatArray] | None,
        tol: float,
        on_iteration: Callable[[dict[str, float]], None] | None,
        is_zero: Callable[[FloatArray, FloatArray], bool] | None,
    ) -> None:
        self.bounds = bounds
        self.is_within_noise = False
        self.are_values_noise = False
        self.n_evaluations = self.n_iter = 0
        self.history = History(on_iteration)
        self._value_and_grad = value_and_grad
        self._tol = tol
        self.is_zero = is_zero
        self._recent: list[_Point] = []  # evaluated since the last iteration ended
        self._noted: _Point | None = None  # that of the last entry of the history

    @property
    def _known(self) -> list[_Point]:
        return [*self._recent, self.best] if self._recent else []

    def clip(self, coef: FloatArray) -> FloatArray:
        """Return the nearest point inside the bounds."""
        return coef if self.bounds is None else np.clip(coef, *self.bounds)

    def evaluate(self, coef: FloatArray) -> _Point:
        """Return value and gradient at `coef`; no point is computed twice in a row."""
        for point in self._known:
            if np.array_equal(point.coef, coef):
                return point
        coef = coef.copy()  # SciPy goes on to change its array
        value, grad = self._value_and_grad(coef)
        projected = coef - self.clip(coef - grad) if self.bounds is not None else grad
        norm = float(np.max(np.abs(projected), initial=0.0))
        point = _Point(coef, float(value), grad, norm)
        self.n_evaluations += 1
        if self.n_evaluations == 1 or self._is_best(point):
            self.best = point
        self._recent.append(point)
        if self.n_evaluations == 1:
            self._note(point)
        if self.is_zero is not None and self.is_zero(coef, projected):
            self._end_within_noise(point)
        return point

    def end_iteration(self, intermediate_result: optimize.OptimizeResult) -> None:
        """Note the point a step led to (SciPy looks at the name of the argument)."""
        self.n_iter += 1
        accepted = [
            point
            for point in self._recent
            if np.array_equal(point.coef, intermediate_result.x)
        ]
        point = (accepted or self._recent)[-1]
        self._recent = [point]
        self._note(point)

    def end_with_best(self) -> None:
        """End the history with the best point, even one that a line search rejected."""
        if self._noted is None or self._noted is self.best:
            return
        if self.n_iter == 0:  # the start stays as it is
            self.n_iter = 1
            self._note(self.best)
        else:
            self.history.rows[-1] |= {
                "loss": self.best.value,
                "grad_norm": self.best.grad_norm,
            }

    def _end_within_noise(self, point: _Point) -> None:
        self.best = point
        self.is_within_noise = True
        if self.n_evaluations > 1:
            self.n_iter += 1
            self._note(point)
        raise _WithinNoise

    def _is_best(self, point: _Point) -> bool:
        smaller = min(point.grad_norm, self.best.grad_norm)
        if self.are_values_noise or smaller <= self._tol:
            return point.grad_norm < self.best.grad_norm
        return point.value < self.best.value

    def _note(self, point: _Point) -> None:
        self._noted = point
        self.history.add(
            iteration=self.n_iter,
            loss=point.value,
            grad_norm=point.grad_norm,
            evaluations=self.n_evaluations,
        )


def _run(
    trace: _Trace,
    evaluate: Callable[[FloatArray], _Point],
    start: FloatArray,
    method: str,
    tol: float,
    max_iter: int,
) -> None:
    """Run SciPy's solver from `start`; the trace keeps what it finds."""
    if evaluate(start).grad_norm <= tol:  # kept for the solver, which asks for it first
        return
    name, options = _SOLVERS[method]
    if trace.is_zero is not None:  # values are noise too: no use in a long search
        options = options | _FEW_TRIALS.get(method, {})

    def value_and_grad(coef: FloatArray) -> tuple[float, FloatArray]:
        point = evaluate(coef)
        return point.value, point.grad

    optimize.minimize(
        value_and_grad,
        start,
        jac=True,
        method=name,
        bounds=None if trace.bounds is None else list(zip(*trace.bounds, strict=True)),
        callback=trace.end_iteration,
        options={**options, "gtol": tol, "maxiter": max_iter - trace.n_iter},
    )


def _trapezoid(
    evaluate: Callable[[FloatArray], _Point], center: _Point
) -> Callable[[FloatArray], _Point]:
    """Return an evaluation whose values are differences rebuilt from gradients."""

    def evaluate_around(coef: FloatArray) -> _Point:
        point = evaluate(coef)
        step = point.coef - center.coef
        value = 0.5 * float(step @ (point.grad + center.grad))
        return _Point(point.coef, value, point.grad, point.grad_norm)

    return evaluate_around
