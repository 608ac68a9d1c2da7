"""Quasi-Newton fits whose gradients may be estimates: few draws first, more near the end.

How much its draws move a gradient is seen by drawing again: the gradient is evaluated at
the same point with eight seeds.  A run ends where, in units of these standard errors, the
entries of the gradient are at most one in the root of their mean square; it counts as
converged if no entry can be told from zero.  The next run begins there with four times as
many draws, which halves the errors.  An engine uses a 16th, a 4th, and then all of the
draws it was asked for; more than that only if they bring `tol` within reach.  Within a run
the engine has the same seed at every point, so that neighbouring points share most of their
errors.

An engine that does not draw makes a single run.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cache

import numpy as np

from permatch._types import FloatArray
from permatch.errors import PrecisionError
from permatch.estimators.convergence import warn_caller
from permatch.inference import AbstractEngine
from permatch.objectives import MatchingLikelihood
from permatch.objectives.likelihood import Evaluation
from permatch.optimizers import Optimum, minimize

# Evaluations of one gradient that tell how much its draws move it.
_SEEDS = 8
# Their seeds stay clear of those that sizes of graphs are told apart by.
_SEED_STRIDE = 10_000
# Probability with which a gradient that is zero may be taken for another.
_LEVEL = 0.05
# Share of the engine's draws in the first run, their growth from run to run, and the most
# that a tolerance may ask for.
_FIRST_SHARE = 1 / 16
_GROWTH = 4.0
_MOST_SHARE = 64.0
# Standard errors that must fit into a tolerance, and what is needed for that roughly.
_WITHIN_TOL, _MARGIN = 2.0, 1.2
# Runs with the same draws: errors may turn out smaller at the end than at the start.
_MOST_RUNS = 4


@dataclass(frozen=True, eq=False, kw_only=True)
class EstimatedOptimum(Optimum):
    """Where a fit ended, and how well its gradient is known there.

    Attributes
    ----------
    gradient_error : float
        Largest standard error of an entry of the gradient: 0 if inference was exact, NaN if
        the engine says nothing of its errors.
    is_exact : bool
        Whether all inference was exact.
    doubtful_sizes : tuple of int
        Sizes of graphs for which the engine does not stand by its answer at the end.
    """

    gradient_error: float
    is_exact: bool
    doubtful_sizes: tuple[int, ...]


def minimize_estimated(
    objective: MatchingLikelihood,
    start: FloatArray,
    *,
    method: str,
    bounds: tuple[FloatArray, FloatArray] | None = None,
    tol: float,
    max_iter: int,
    on_iteration: Callable[[dict[str, float]], None] | None = None,
) -> EstimatedOptimum:
    """Minimise an objective whose engine may be exact, approximate or drawing.

    Parameters
    ----------
    objective : MatchingLikelihood
        What to minimise, with its engine.
    start : ndarray of shape (d,)
        Where to begin.
    method : {"lbfgs", "bfgs"}
        The solver.
    bounds : pair of ndarrays of shape (d,), optional
        Lowest and highest value of every coordinate.
    tol : float
        Largest entry of the projected gradient accepted.
    max_iter : int
        Most steps taken, all runs together.
    on_iteration : callable, optional
        Called with every new entry of the history.

    Returns
    -------
    EstimatedOptimum
        The end of the last run; counts and history are those of all runs, evaluations with
        other seeds included.
    """
    engine = objective.engine
    share = _FIRST_SHARE if engine.draws else 1.0
    run = _Run(objective.with_engine(engine.with_effort(share)), tol)
    whole: EstimatedOptimum | None = None
    n_runs = 0  # with this share of the draws
    try:
        run.measure(start)
    except KeyboardInterrupt:
        return _nothing_known(start)
    while True:
        before = whole
        found = minimize(
            run.value_and_grad,
            start if before is None else before.coef,
            method=method,
            bounds=bounds,
            tol=tol,
            max_iter=max_iter - (0 if before is None else before.n_iter),
            on_iteration=_counting_on(on_iteration, before),
            is_zero=run.is_zero if run.is_noisy else None,
        )
        n_runs += 1
        if before is not None and not found.n_evaluations:  # interrupted at once
            return replace(before, is_interrupted=True, is_converged=False)
        whole = run.end(before, found, share)
        if whole.is_interrupted or whole.is_exact:
            return whole
        if whole.n_iter >= max_iter:
            return whole if whole.is_converged else _stopped(whole, max_iter)
        more = _next_share(share, whole.gradient_error, tol)
        if more is not None:
            drawing_more = objective.with_engine(engine.with_effort(more))
            run = run.with_draws(drawing_more, more / share)
            share, n_runs = more, 0
        elif not run.is_noisy or run.passes(found.coef) or n_runs == _MOST_RUNS:
            return whole


def warn_of_doubts(optimum: EstimatedOptimum, engine: AbstractEngine) -> None:
    """Warn, on behalf of the caller of `fit`, of answers the engine does not stand by."""
    if optimum.doubtful_sizes:
        sizes = ", ".join(map(str, optimum.doubtful_sizes))
        warn_caller(
            f"at the coefficients found {type(engine).__name__} does not stand by its own "
            f"answers for graphs of size {sizes}: they may be further off than its errors "
            "say, and so may the coefficients. Let it draw or iterate more, or take "
            "another engine.",
            RuntimeWarning,
        )


def _next_share(share: float, error: float, tol: float) -> float | None:
    """Return the share of the engine's draws for another run; None if none is worth it."""
    floor = _WITHIN_TOL * error
    if not floor > tol:  # exact, good enough, or nothing known
        return None
    if share < 1.0:
        return share * _GROWTH
    needed = share * _MARGIN * (floor / tol) ** 2
    return min(share * _GROWTH, needed) if needed <= _MOST_SHARE else None


def _stopped(optimum: EstimatedOptimum, max_iter: int) -> EstimatedOptimum:
    """Return the end of a fit whose steps ran out before all draws were used."""
    return replace(optimum, message=f"max_iter={max_iter} steps were taken")


def _nothing_known(start: FloatArray) -> EstimatedOptimum:
    """Return the end of a fit that was interrupted before anything was known."""
    return EstimatedOptimum(
        coef=start,
        value=math.nan,
        grad_norm=math.inf,
        n_iter=0,
        n_evaluations=0,
        is_converged=False,
        is_interrupted=True,
        message="interrupted",
        history=[],
        gradient_error=math.nan,
        is_exact=False,
        doubtful_sizes=(),
    )


class _Run:
    """The objective with so many draws, and how far its gradients are to be trusted."""

    def __init__(
        self, objective: MatchingLikelihood, tol: float, spread: FloatArray | None = None
    ) -> None:
        self._objective = objective
        self._tol = tol
        # Standard errors of the gradient, as far as they come from draws.
        self._spread = np.zeros(1) if spread is None else spread
        self._known: dict[bytes, Evaluation] = {}
        self._projected: dict[bytes, FloatArray] = {}
        self._n_measured = 0  # evaluations with other seeds

    @property
    def is_noisy(self) -> bool:
        """Whether draws move the gradient, as far as is known."""
        return bool(self._spread.any())

    def with_draws(self, objective: MatchingLikelihood, factor: float) -> "_Run":
        """Return the run that follows, with `factor` times as many draws."""
        return _Run(objective, self._tol, self._spread / math.sqrt(factor))

    def value_and_grad(self, coef: FloatArray) -> tuple[float, FloatArray]:
        """Return value and gradient."""
        found = self._at(coef)
        return found.value, found.grad

    def measure(self, coef: FloatArray) -> None:
        """Find out how much draws move the gradient here."""
        first = self._at(coef)
        engine = self._objective.engine
        if first.is_exact or not engine.draws:
            self._spread = np.zeros_like(first.grad)
            return
        grads = [first.grad]
        for k in range(1, _SEEDS):
            other = engine.with_seed(_SEED_STRIDE * k)
            with _quiet():
                grads.append(self._objective.with_engine(other).evaluate(coef).grad)
            self._n_measured += 1
        self._spread = np.std(grads, axis=0, ddof=1)

    def is_zero(self, coef: FloatArray, projected: FloatArray) -> bool:
        """Return whether a gradient is down to its own errors; what the solver asks."""
        self._projected[coef.tobytes()] = projected
        ratios = self._ratios(coef)
        return bool(np.mean(ratios**2) <= 1.0 and ratios.max() <= _told_apart(len(ratios)))

    def passes(self, coef: FloatArray) -> bool:
        """Return whether no entry of the gradient here can be told from zero."""
        ratios = self._ratios(coef)
        return bool(ratios.max(initial=0.0) <= _told_apart(len(ratios)))

    def end(
        self, before: EstimatedOptimum | None, found: Optimum, share: float
    ) -> EstimatedOptimum:
        """Return the end of this run, with that share of the draws and counts of all."""
        known = {option.name: getattr(found, option.name) for option in fields(found)}
        here = self._at(found.coef)
        is_between = _FIRST_SHARE < share < 1.0  # there the errors follow from the draws
        if not found.is_interrupted and not is_between:
            try:
                self.measure(found.coef)
            except KeyboardInterrupt:
                known["is_interrupted"] = True
        known["n_evaluations"] += self._n_measured
        self._n_measured = 0
        if before is not None:
            known["n_iter"] += before.n_iter
            known["n_evaluations"] += before.n_evaluations
            known["history"] = before.history + [
                _after(row, before) for row in found.history
            ]
        error = float(np.max(self._errors(found.coef), initial=0.0))
        if self.is_noisy:
            is_close = share >= 1.0 or _WITHIN_TOL * error <= self._tol
            known["is_converged"] = is_close and self.passes(found.coef)
        if known["is_interrupted"]:
            known["is_converged"] = False
        return EstimatedOptimum(
            **known,
            gradient_error=error,
            is_exact=here.is_exact and (before is None or before.is_exact),
            doubtful_sizes=here.doubtful_sizes,
        )

    def _at(self, coef: FloatArray) -> Evaluation:
        """Evaluate the objective, once per point."""
        key = coef.tobytes()
        if key not in self._known:
            with _quiet():
                found = self._objective.evaluate(coef)
            if not math.isfinite(found.value):
                name = type(self._objective.engine).__name__
                raise PrecisionError(
                    f"learning needs log-partitions; {name} has none, given these options. "
                    "Change them (SwapChain: tempering=True), or the engine."
                )
            self._known[key] = found
        return self._known[key]

    def _errors(self, coef: FloatArray) -> FloatArray:
        """Return how far off the entries of the gradient may be at a known point."""
        return np.hypot(self._known[coef.tobytes()].grad_bounds, self._spread)

    def _ratios(self, coef: FloatArray) -> FloatArray:
        """Return the projected gradient at a known point, in units of errors or `tol`."""
        units = np.fmax(self._errors(coef), self._tol)
        key = coef.tobytes()
        return np.abs(self._projected.get(key, self._known[key].grad)) / units


def _quiet() -> warnings.catch_warnings:
    """Keep an engine's warnings to itself: the fit says once what is to be said."""
    return warnings.catch_warnings(action="ignore", category=RuntimeWarning)


@cache
def _told_apart(n_entries: int) -> float:
    """Return how many standard errors tell one of so many entries from zero."""
    from scipy import stats  # half a second: only when it is needed

    # The errors themselves come from few seeds: Student's quantile.
    return float(stats.t.isf(_LEVEL / (2 * max(n_entries, 1)), _SEEDS - 1))


def _counting_on(
    on_iteration: Callable[[dict[str, float]], None] | None, before: Optimum | None
) -> Callable[[dict[str, float]], None] | None:
    """Return a callback that sees the counts of all runs."""
    if on_iteration is None or before is None:
        return on_iteration
    return lambda row: on_iteration(_after(row, before))


def _after(row: dict[str, float], before: Optimum) -> dict[str, float]:
    """Return an entry of the history with what came before added to its counts."""
    return row | {
        "iteration": row["iteration"] + before.n_iter,
        "evaluations": row["evaluations"] + before.n_evaluations,
        "seconds": row["seconds"]
        + (before.history[-1]["seconds"] if before.history else 0),
    }
