"""Quasi-Newton fits whose gradients may be estimates: few draws first, more near the end.

A run ends where the largest entry of the gradient is no larger than the largest of its
standard errors; up to twice that counts as converged.  The next run begins there with four
times as many draws, which halves the errors.  An engine uses a 16th, a 4th, and then all of
the draws it was asked for; more than that only if they bring `tol` within reach.  Within a
run the engine has the same seed at every point, so that neighbouring points share most of
their errors.

An engine that does not draw makes a single run.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np

from permatch._types import FloatArray
from permatch.errors import PrecisionError
from permatch.inference import AbstractEngine
from permatch.inference.bethe import Bethe
from permatch.inference.effort import draws, with_effort
from permatch.objectives import MatchingLikelihood
from permatch.optimizers import Optimum, minimize

#: A gradient of at most so many standard errors counts as zero.
ZERO_WITHIN = 2.0

# Share of the engine's draws in the first run, their growth from run to run, and the most
# that a tolerance may ask for.
_FIRST_SHARE = 1 / 16
_GROWTH = 4.0
_MOST_SHARE = 64.0
# What is needed for a tolerance is known only roughly.
_MARGIN = 1.2


@dataclass(frozen=True, eq=False)
class EstimatedOptimum(Optimum):
    """Where a fit ended, and how well its gradient is known there.

    Attributes
    ----------
    gradient_error : float
        Largest standard error of an entry of the gradient: 0 if inference was exact, NaN if
        the engine says nothing of its errors.
    is_exact : bool
        Whether all inference was exact.
    """

    gradient_error: float
    is_exact: bool


def accepted_norm(tol: float, gradient_error: float) -> float:
    """Return the largest entry of a gradient that counts as zero."""
    floor = ZERO_WITHIN * gradient_error
    return floor if floor > tol else tol  # NaN does not count


def engine_for_learning(engine: AbstractEngine) -> AbstractEngine:
    """Return an engine without what a fit does not look at."""
    return replace(engine, bounds=False) if isinstance(engine, Bethe) else engine


def minimize_estimated(
    objective: MatchingLikelihood,
    start: FloatArray,
    *,
    method: str,
    bounds: tuple[FloatArray, FloatArray] | None,
    tol: float,
    max_iter: int,
    on_iteration: Callable[[dict[str, float]], None] | None,
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
        The end of the last run; counts and history are those of all runs.
    """
    engine = objective.engine
    share = _FIRST_SHARE if draws(engine) else 1.0
    whole: EstimatedOptimum | None = None
    while True:
        noted = _Noted(objective.with_engine(with_effort(engine, share)))
        before = whole
        found = minimize(
            noted.value_and_grad,
            start if before is None else before.coef,
            method=method,
            bounds=bounds,
            tol=tol,
            max_iter=max_iter - (0 if before is None else before.n_iter),
            on_iteration=_counting_on(on_iteration, before),
            noise=lambda coef, noted=noted: noted.at(coef).error,
        )
        end = noted.at(found.coef)
        whole = _joined(before, found, end, tol)
        is_last = found.is_interrupted or whole.n_iter >= max_iter
        more = None if is_last else _next_share(share, end.error, tol)
        if more is None:
            break
        share = more
    for message in end.warnings:
        warnings.warn(message, RuntimeWarning, stacklevel=4)
    return whole


def _next_share(share: float, error: float, tol: float) -> float | None:
    """Return the share of the engine's draws for another run; None if none is worth it."""
    floor = ZERO_WITHIN * error
    if not floor > tol:  # exact, good enough, or nothing known
        return None
    if share < 1.0:
        return share * _GROWTH
    needed = share * _MARGIN * (floor / tol) ** 2
    return min(share * _GROWTH, needed) if needed <= _MOST_SHARE else None


class _Note(NamedTuple):
    """What is known of the gradient at a point."""

    error: float
    is_exact: bool
    warnings: tuple[str, ...]


class _Noted:
    """Evaluates the objective and keeps what it said about its errors."""

    def __init__(self, objective: MatchingLikelihood) -> None:
        self.objective = objective
        self._notes: dict[bytes, _Note] = {}

    def value_and_grad(self, coef: FloatArray) -> tuple[float, FloatArray]:
        """Return value and gradient, with the engine's warnings kept for later."""
        engine = self.objective.engine
        messages: tuple[str, ...] = ()
        if draws(engine):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", RuntimeWarning)
                found = self.objective.evaluate(coef)
            messages = tuple(dict.fromkeys(str(warning.message) for warning in caught))
        else:
            found = self.objective.evaluate(coef)
        if not math.isfinite(found.value):
            raise PrecisionError(
                f"learning needs log-partitions; {type(engine).__name__} has none, given "
                "these options. Change them (SwapChain: tempering=True), or the engine."
            )
        error = float(np.max(found.grad_errors, initial=0.0))
        self._notes[coef.tobytes()] = _Note(error, found.is_exact, messages)
        return found.value, found.grad

    def at(self, coef: FloatArray) -> _Note:
        """Return what is known of a point that was evaluated."""
        return self._notes.get(coef.tobytes(), _Note(math.nan, False, ()))


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


def _joined(
    before: EstimatedOptimum | None, found: Optimum, end: _Note, tol: float
) -> EstimatedOptimum:
    """Return the last run with the counts of all."""
    known = {option.name: getattr(found, option.name) for option in fields(found)}
    if before is not None:
        known["n_iter"] += before.n_iter
        known["n_evaluations"] += before.n_evaluations
        known["history"] = before.history + [_after(row, before) for row in found.history]
    known["is_converged"] = found.grad_norm <= accepted_norm(tol, end.error)
    is_exact = end.is_exact and (before is None or before.is_exact)
    return EstimatedOptimum(**known, gradient_error=end.error, is_exact=is_exact)
