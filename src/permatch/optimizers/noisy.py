"""Quasi-Newton steps with estimated gradients: few draws first, more at the end.

The standard error of a gradient is estimated by evaluating it at the same point with eight
seeds.  A run ends where the root mean square of the gradient, in units of these errors, is
at most 1; it has converged if no entry is significantly different from zero.  The next run
starts there with four times as many draws, which halves the errors.  An objective uses
1/16, 1/4, and then all of its draws; more only if they bring `tol` within reach.  Within a
run the seed is the same at every point, so that neighbouring points share most errors.

An objective that does not draw makes a single run.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, Protocol, Self

import numpy as np

from permatch._types import FloatArray
from permatch.optimizers.lbfgs import Optimum, count_on, minimize

# Evaluations of one gradient to estimate its standard error.
_SEEDS = 8
# Probability of taking a zero gradient for a non-zero one.
_LEVEL = 0.05
# Share of the draws in the first run, their growth from run to run, and the most that a
# tolerance may ask for.
_FIRST_SHARE = 1 / 16
_GROWTH = 4.0
_MOST_SHARE = 64.0
# Standard errors that must fit into a tolerance, and what is needed for that roughly.
_WITHIN_TOL, _MARGIN = 2.0, 1.2
# Runs with the same draws: errors may turn out smaller at the end than at the start.
_MOST_RUNS = 4


class Estimate(Protocol):
    """An objective at one point, and how exact it is there."""

    @property
    def value(self) -> float:
        """The objective."""
        ...

    @property
    def grad(self) -> FloatArray:
        """Its gradient, (d,)."""
        ...

    @property
    def grad_bounds(self) -> FloatArray:
        """Bounds on the error of the gradient other than noise, (d,), or NaN."""
        ...

    @property
    def is_exact(self) -> bool:
        """Whether value and gradient are exact."""
        ...

    @property
    def doubts(self) -> tuple[int, ...]:
        """Parts that the objective itself reports as unreliable."""
        ...


class NoisyObjective(Protocol):
    """A smooth convex function whose gradients may come from draws."""

    @property
    def draws(self) -> bool:
        """Whether it draws at all."""
        ...

    def evaluate(self, coef: FloatArray) -> Estimate:
        """Return value and gradient at a point, the same for the same point."""
        ...

    def with_effort(self, factor: float) -> Self:
        """Return the same function with `factor` times as many draws."""
        ...

    def with_seed(self, number: int) -> Self:
        """Return the same function with different draws for every number from 1."""
        ...


def minimize_noisy(
    objective: NoisyObjective,
    start: FloatArray,
    *,
    tol: float,
    max_iter: int,
    on_iteration: Callable[[dict[str, float]], None] | None = None,
    **options: Any,
) -> Optimum:
    """Minimise an objective that may be exact, approximate or sampled.

    Takes what `minimize` does, `method` and `bounds` among the options, and returns the end
    of the last run; counts and history cover all runs, including evaluations with other
    seeds.
    """
    share = _FIRST_SHARE if objective.draws else 1.0
    run = _Run(objective.with_effort(share), tol)
    whole = _nothing_known(start)
    n_runs = 0  # with this share of the draws
    try:
        run.measure(start)
    except KeyboardInterrupt:
        return whole

    def show(row: dict[str, float]) -> None:
        if on_iteration is not None:
            on_iteration(count_on(row, _counts(whole)))

    while True:
        found = minimize(
            run.value_and_grad,
            whole.coef,
            tol=tol,
            max_iter=max_iter - whole.n_iter,
            on_iteration=show,
            is_zero=run.is_zero if run.is_noisy else None,
            **options,
        )
        n_runs += 1
        if not found.n_evaluations:  # interrupted at once
            return replace(whole, is_interrupted=True, is_converged=False)
        whole = run.end(whole, found, share)
        if whole.is_interrupted or whole.is_exact:
            return whole
        if whole.n_iter >= max_iter:  # before all draws were used
            message = f"max_iter={max_iter} was reached"
            return whole if whole.is_converged else replace(whole, message=message)
        more = _next_share(share, whole.gradient_error, tol)
        if more is not None:
            run = run.with_draws(objective.with_effort(more), more / share)
            share, n_runs = more, 0
        elif not run.is_noisy or run.passes(found.coef) or n_runs == _MOST_RUNS:
            return whole


def _next_share(share: float, error: float, tol: float) -> float | None:
    """Return the share of the draws for another run; None if not worthwhile."""
    floor = _WITHIN_TOL * error
    if not floor > tol:  # exact, good enough, or nothing known
        return None
    if share < 1.0:
        return share * _GROWTH
    needed = share * _MARGIN * (floor / tol) ** 2
    return min(share * _GROWTH, needed) if needed <= _MOST_SHARE else None


def _nothing_known(start: FloatArray) -> Optimum:
    """Return the result of a minimisation interrupted at once."""
    return Optimum(
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
    )


class _Run:
    """The objective with a number of draws, and the errors of its gradients."""

    def __init__(
        self, objective: NoisyObjective, tol: float, spread: FloatArray | None = None
    ) -> None:
        self._objective = objective
        self._tol = tol
        # Standard errors of the gradient, as far as they come from draws.
        self._spread = np.zeros(1) if spread is None else spread
        self._known: dict[bytes, Estimate] = {}
        self._projected: dict[bytes, FloatArray] = {}
        self._n_measured = 0  # evaluations with other seeds

    @property
    def is_noisy(self) -> bool:
        """Whether the gradient is noisy, as far as is known."""
        return bool(self._spread.any())

    def with_draws(self, objective: NoisyObjective, factor: float) -> "_Run":
        """Return the run that follows, with `factor` times as many draws."""
        return _Run(objective, self._tol, self._spread / math.sqrt(factor))

    def value_and_grad(self, coef: FloatArray) -> tuple[float, FloatArray]:
        """Return value and gradient."""
        found = self._at(coef)
        return found.value, found.grad

    def measure(self, coef: FloatArray) -> None:
        """Estimate the standard errors of the gradient here."""
        first = self._at(coef)
        if first.is_exact or not self._objective.draws:
            self._spread = np.zeros_like(first.grad)
            return
        grads = [first.grad]
        for k in range(1, _SEEDS):
            grads.append(self._objective.with_seed(k).evaluate(coef).grad)
            self._n_measured += 1
        self._spread = np.std(grads, axis=0, ddof=1)

    def is_zero(self, coef: FloatArray, projected: FloatArray) -> bool:
        """Return whether a gradient is below its own errors."""
        self._projected[coef.tobytes()] = projected
        ratios = self._ratios(coef)
        return bool(np.mean(ratios**2) <= 1.0 and ratios.max() <= _told_apart(len(ratios)))

    def passes(self, coef: FloatArray) -> bool:
        """Return whether no entry of the gradient differs significantly from zero."""
        ratios = self._ratios(coef)
        return bool(ratios.max(initial=0.0) <= _told_apart(len(ratios)))

    def end(self, before: Optimum, found: Optimum, share: float) -> Optimum:
        """Return the end of this run, with the counts of all."""
        here, is_interrupted = self._at(found.coef), found.is_interrupted
        is_between = _FIRST_SHARE < share < 1.0  # there the errors follow from the draws
        if not is_interrupted and not is_between:
            try:
                self.measure(found.coef)
            except KeyboardInterrupt:
                is_interrupted = True
        counts = _counts(before)
        n_evaluations = before.n_evaluations + found.n_evaluations + self._n_measured
        self._n_measured = 0
        error = float(np.max(self._errors(found.coef), initial=0.0))
        is_converged = found.is_converged
        if self.is_noisy:
            is_close = share >= 1.0 or _WITHIN_TOL * error <= self._tol
            is_converged = is_close and self.passes(found.coef)
        return replace(
            found,
            n_iter=before.n_iter + found.n_iter,
            n_evaluations=n_evaluations,
            is_converged=is_converged and not is_interrupted,
            is_interrupted=is_interrupted,
            history=before.history + [count_on(row, counts) for row in found.history],
            gradient_error=error,
            is_exact=here.is_exact and (before.is_exact or not before.n_evaluations),
            doubts=here.doubts,
        )

    def _at(self, coef: FloatArray) -> Estimate:
        """Evaluate the objective, once per point."""
        key = coef.tobytes()
        if key not in self._known:
            self._known[key] = self._objective.evaluate(coef)
        return self._known[key]

    def _errors(self, coef: FloatArray) -> FloatArray:
        """Return the errors of the gradient at a known point."""
        return np.hypot(self._known[coef.tobytes()].grad_bounds, self._spread)

    def _ratios(self, coef: FloatArray) -> FloatArray:
        """Return the projected gradient at a known point, in units of errors or `tol`."""
        units = np.fmax(self._errors(coef), self._tol)
        key = coef.tobytes()
        return np.abs(self._projected.get(key, self._known[key].grad)) / units


@cache
def _told_apart(n_entries: int) -> float:
    """Return how many standard errors make one of `n_entries` significant."""
    from scipy import stats  # half a second: only when it is needed

    # The errors themselves come from few seeds: Student's quantile.
    return float(stats.t.isf(_LEVEL / (2 * max(n_entries, 1)), _SEEDS - 1))


def _counts(before: Optimum) -> dict[str, float]:
    """Return the counts of all runs so far."""
    seconds = before.history[-1]["seconds"] if before.history else 0
    evaluations = before.n_evaluations
    return {"iteration": before.n_iter, "evaluations": evaluations, "seconds": seconds}
