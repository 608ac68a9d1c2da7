"""The engine that chooses an engine.

Beyond the exact sizes, engines make an attempt in turn, from cheap to expensive, until the
tolerance is reached.  Each estimates its own cost, gets the remaining time, and reports
whether it reached the tolerance.
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from permatch._parallel import Allowance
from permatch._types import FloatArray, IntArray
from permatch._validation import check_count
from permatch.errors import InvalidOptionError, PrecisionError
from permatch.inference._limits import AUTO_SIZE, MOST_AUTO_SIZE
from permatch.inference._options import (
    RandomEngine,
    check_budget,
    check_fraction,
    reduce_stack,
    seed_of,
    smaller_error,
)
from permatch.inference._words import warn_of_misses
from permatch.inference.answer import Diagnostics, InferenceResult, stack
from permatch.inference.base import LARGEST_MASK, AbstractEngine, Goal, Job, factor_for_all
from permatch.inference.bethe import Bethe
from permatch.inference.blocks import Sparsification, certain_interval
from permatch.inference.glynn import Glynn
from permatch.inference.mixed import solve_problem, solve_sparse
from permatch.inference.nesting import Nesting
from permatch.inference.small_batch import SmallBatch
from permatch.inference.sparsified import Sparsified
from permatch.inference.swap_chain import SwapChain
from permatch.problems import Problem

_SMALL, _SPARSIFIED = SmallBatch(), Sparsified()
#: What is tried, after `Sparsified`, on the blocks that are left: cheap ones first.
_LAST_RESORT = SwapChain()
_ENGINES = (Bethe(), Nesting(), _LAST_RESORT)
# Errors asked for with less effort stay below this.
_LARGEST_TOL = 0.25
# An estimate so many standard errors outside an interval that holds is not to be trusted.
_FAR_OUT = 4.0
# Samplers with fewer effective samples, or a larger log error, are no better than beliefs.
_FEWEST_EFFECTIVE, _LARGEST_LOG_ERROR = 100.0, 0.5

Interval = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class AutoEngine(RandomEngine):
    """Choose the fastest exact engine; beyond the exact sizes, try cheap ones first.

    ==========  ==============  =======================================================
    size        engine          why
    ==========  ==============  =======================================================
    0 to 8      `SmallBatch`    one graph per SIMD lane
    9 to 30     `Glynn`         fewest operations; falls back to `SubsetDP` if its own
                                check finds that digits were lost
    above 30    `Sparsified`    large graphs fall into small blocks if scores are peaked
                `Bethe`         a rigorous interval for the log-partition
                `Nesting`       draws until the tolerance or the budget is reached
                `SwapChain`     where those draws are unreliable
    ==========  ==============  =======================================================

    That is for dense squares whose nodes must all be matched.  Sparse, unequal and partial
    graphs are split into connected components, of any number and size: narrow ones are
    solved by `Frontier`, or by the engines above where those are faster.  The width of a
    dense component is its smaller side; the default budget allows widths up to about 24.  A
    component that is too wide goes to `Sparsified` and `PathTree` if all its nodes may stay
    unmatched, to `Bethe` if only some may, then to samplers; it is refused if links have to
    be counted.  ``diagnostics.parts`` says what was done.

    Where no exact engine will do, engines are tried in turn until the marginals are known
    to within `tol`, and the best result is returned, with standard errors or bounds, a
    rigorous interval for the log-partition where there is one, and the engines tried in
    ``diagnostics.steps``.  A `RuntimeWarning`, and ``diagnostics.is_converged``, report
    that the tolerance was not reached.

    Parameters
    ----------
    max_size : int
        Largest dense graph accepted; sparse ones may have any size.
    random_state : int
        Seed; the same scores and seed give the same result.
    exact_size : int
        Largest dense graph, and largest width of a sparse one, solved exactly if the budget
        allows; 0 for none.
    tol : float
        Error to reach beyond the exact sizes, for all marginals at once with probability
        1 - delta.
    delta : float
        Probability that the tolerance is missed.
    budget : float or None
        Seconds per graph; None for no limit.  It is exceeded by at most half, apart from
        compiling kernels on first use; a budget too short even for the beliefs of `Bethe`
        (0.4 s at m = 1000) is an error.  Results that use it up depend on the machine.

    Notes
    -----
    Beyond the exact sizes O(m^3) to prepare, then O(m^2) per draw: 0.3 s at m = 40 and 1 s
    at m = 100 for normal scores of spread 2.

    Examples
    --------
    >>> import numpy as np
    >>> import permatch as pm
    >>> result = pm.infer(np.random.default_rng(0).normal(size=(40, 40)))
    >>> result.is_exact, result.diagnostics.engine, result.diagnostics.is_converged
    (False, 'nesting', True)
    >>> [step.engine for step in result.diagnostics.steps]
    ['sparsified', 'bethe', 'nesting']
    """

    max_size: int = AUTO_SIZE
    exact_size: int = 30
    tol: float = 0.01
    delta: float = 0.05
    budget: float | None = 10.0

    name = "auto"
    counts_links = True
    largest_max_size: ClassVar[int] = MOST_AUTO_SIZE

    def __post_init__(self) -> None:
        super().__post_init__()
        limit = check_count(self.exact_size, "exact_size of AutoEngine", 0)
        if limit > LARGEST_MASK:
            raise InvalidOptionError(
                f"exact_size of AutoEngine must be at most {LARGEST_MASK}, got {limit}. "
                "Larger graphs would take too long."
            )
        check_fraction(self.tol, "tol of AutoEngine")
        check_fraction(self.delta, "delta of AutoEngine")
        check_budget(self.budget, "budget of AutoEngine")

    def select(self, size: int) -> AbstractEngine | None:
        """Return the exact engine for graphs of this size; None if there is none."""
        if size <= min(_SMALL.max_size, max(self.exact_size, 1)):
            return _SMALL
        if size > self.exact_size:
            return None
        engine = Glynn(max_size=self.exact_size)
        limit = math.inf if self.budget is None else math.log2(self.budget)
        return engine if engine.log2_seconds(size) <= limit else None

    def is_exact_for(self, size: int) -> bool:
        """Return whether graphs of a size are solved exactly, rare fallbacks aside."""
        return self.select(size) is not None

    def log2_seconds(self, size: int) -> float:
        """Estimate log2 of the seconds one graph takes on one thread."""
        engine = self.select(size)
        if engine is not None:
            return engine.log2_seconds(size)
        seconds = Nesting().log2_seconds(size)
        return seconds if self.budget is None else min(seconds, math.log2(self.budget))

    def log2_bytes(self, size: int) -> float:
        """Estimate log2 of the bytes one graph needs."""
        return (self.select(size) or Nesting()).log2_bytes(size)

    def with_effort(self, factor: float) -> Self:
        """Return the engine that draws `factor` times as much."""
        return replace(self, tol=smaller_error(self.tol, factor, _LARGEST_TOL))

    def _infer_stack(
        self, scores: FloatArray, members: IntArray, job: Job
    ) -> InferenceResult:
        size = scores.shape[1]
        if size > _SMALL.max_size and self.exact_size and scores.min() == -np.inf:
            exact = solve_sparse(scores, self, job)
            if exact is not None:
                return exact
        engine = self.select(size)
        if engine is not None:
            choice = f"auto: the fastest exact engine at size {size} is {engine.name}"
            with suppress(PrecisionError):  # flat graphs too large for `Glynn`'s fallback
                return engine._infer_stack(scores, members, job).told(choice=choice)
        self._check_time(size)
        reduced, offsets = reduce_stack(scores, members)
        # One graph after the other, each on all threads.
        answers = [
            self._escalate(graph, int(member), job).shifted(float(offset))
            for graph, member, offset in zip(reduced, members, offsets, strict=True)
        ]
        whole = stack(answers, scores.shape, Diagnostics(self.name, "", size, 0))
        if len(answers) != 1:
            choice = "auto: beyond the exact engines: see parts"
            parts = tuple(answer.diagnostics for answer in answers)
            whole = whole.told(engine=self.name, choice=choice, parts=parts, notes=())
        self._warn_if_missed(whole.diagnostics, members)
        return whole

    def _infer_problem(self, problem: Problem, job: Job) -> InferenceResult:
        answer, graphs = solve_problem(problem, self, job, self._dense)
        self._warn_if_missed(answer.diagnostics, graphs)
        return answer

    def _dense(self, problem: Problem, member: int, job: Job) -> InferenceResult:
        """Solve a large component without unmatched nodes as an array."""
        self.check_size(problem.structure.n_left)
        self._check_time(problem.structure.n_left)
        scores = problem.dense()
        reduced, offsets = reduce_stack(scores[None], np.array([member]))
        return self._escalate(reduced[0], member, job).shifted(float(offsets[0]))

    def _escalate(self, scores: FloatArray, member: int, job: Job) -> InferenceResult:
        """Try engines on one graph until its tolerance is reached."""
        time = Allowance(self.budget)
        goal = Goal(self.tol, self.delta, self.random_state, time)
        split, answers, notes = _SPARSIFIED._split(scores, self.exact_size, goal, job)
        best = [_Best(answer) for answer in answers]
        steps = [self._step("sparsified", split, answers, notes, time, 0.0)]
        parts = split.parts(scores)
        tol = self.tol - split.log_error_bound
        for engine in _ENGINES:
            places = [k for k, known in enumerate(best) if not known.is_settled]
            if engine is _LAST_RESORT:  # no chain beats draws that are to be trusted
                places = [k for k in places if not best[k].is_trusted]
            if not places:
                continue
            start = time.seconds
            answers = [known.answer for known in best]
            notes = ()
            for n_done, k in enumerate(places):
                seed = seed_of(self.random_state, member, k)
                share = 1.0 / (len(places) - n_done)
                goal = Goal(tol, self.delta / len(places), seed, time, share)
                answers[k], remarks = engine._attempt(parts[k], goal, job)
                notes += tuple(note for note in remarks if note not in notes)
                best[k].add(answers[k])
            steps.append(self._step(engine.name, split, answers, notes, time, start))
        return self._finish(scores, split, best, steps, time)

    def _step(
        self,
        name: str,
        split: Sparsification,
        answers: Sequence[InferenceResult | None],
        notes: tuple[str, ...],
        time: Allowance,
        start: float,
    ) -> Diagnostics:
        """Return what an engine says of the whole graph, and why it will not do."""
        known = [answer for answer in answers if answer is not None]
        size = sum(len(rows) for rows, _ in split.blocks)
        told = Diagnostics(name, "", size, certificate="heuristic", is_converged=False)
        if len(known) == len(answers):
            told = split.join(known).diagnostics
            if told.certificate == "asymptotic" and told.marginal_error is not None:
                reach = factor_for_all(size, self.delta) * told.marginal_error
                note = f"marginals within {reach:.2g}"
                notes += (note if told.is_converged else f"{note}, not {self.tol:g}",)
        seconds = time.seconds - start
        return replace(
            told, engine=name, choice="", notes=notes, seconds=seconds, figures={}
        )

    def _finish(
        self,
        scores: FloatArray,
        split: Sparsification,
        best: list["_Best"],
        steps: list[Diagnostics],
        time: Allowance,
    ) -> InferenceResult:
        """Return the best result, with the steps taken."""
        kept = [known.answer for known in best if known.answer is not None]
        whole = split.join(kept)
        told = whole.diagnostics
        engines = {"sparsified", *(answer.diagnostics.engine for answer in kept)}
        last = next(step for step in steps[::-1] if step.engine in engines)
        tried = " -> ".join(step.engine for step in steps)
        ending = "tolerance reached" if told.is_converged else "tolerance not reached"
        interval = split.add(known.bracket for known in best)
        is_exact = told.certificate == "exact"
        is_bracketed = math.isfinite(interval[1]) and not is_exact
        # Belief propagation alone knows of no error.
        is_known = not is_exact and not math.isnan(whole.log_partition_error)
        errors = np.where(scores > -np.inf, whole.marginal_errors, 0.0)
        return replace(
            whole,
            is_exact=is_exact,
            log_partition_error=whole.log_partition_error if is_known else None,
            marginal_errors=errors if is_known else None,
        ).told(
            engine=last.engine,
            choice=f"auto: beyond the exact engines: {tried}; {ending}",
            interval=interval if is_bracketed else None,
            interval_certificate="rigorous" if is_bracketed else "",
            delta=0.0,
            seconds=time.seconds,
            steps=tuple(steps),
            notes=(),
            figures={},
        )

    def _check_time(self, size: int) -> None:
        """Refuse a budget that is too short for any engine."""
        least = Bethe.least_seconds(size)
        if self.budget is not None and self.budget < least:
            raise InvalidOptionError(
                f"budget of AutoEngine must be at least {least:.2g} s for graphs of size "
                f"{size}, got {self.budget:g}: belief propagation alone takes that long. "
                "Raise budget."
            )

    def _warn_if_missed(self, told: Diagnostics, members: IntArray) -> None:
        """Warn the caller of `infer` of graphs whose tolerance was not reached."""
        reports = told.parts or (told,)
        missed = [k for k, report in enumerate(reports) if not report.is_converged]
        if missed:
            first = missed[0]
            graph, n_missed = int(members[first]), len(missed)
            warn_of_misses(reports[first], graph, n_missed, self.tol, self.budget)


@dataclass(eq=False)
class _Best:
    """The best result so far for a block, and a rigorous interval."""

    answer: InferenceResult | None
    bracket: Interval = (-math.inf, math.inf)

    def __post_init__(self) -> None:
        if self.answer is not None:
            self.bracket = certain_interval(self.answer)

    @property
    def is_trusted(self) -> bool:
        """Whether something stands behind the errors."""
        return self.answer is not None and self.answer.diagnostics.is_trusted

    @property
    def is_settled(self) -> bool:
        """Whether the errors are known and within the tolerance."""
        return self.answer is not None and self.answer.diagnostics.is_settled

    def add(self, later: InferenceResult | None) -> None:
        """Keep the better result, within the intersection of the intervals."""
        if later is None:
            return
        low, high = certain_interval(later)
        self.bracket = max(self.bracket[0], low), min(self.bracket[1], high)
        before = self.answer
        if before is None:
            self.answer = later
            return
        one, other = (_confined(answer, self.bracket) for answer in (before, later))
        is_later = _rank(later, other) < _rank(before, one)
        self.answer = other if is_later else one


def _confined(answer: InferenceResult, interval: Interval) -> InferenceResult:
    """Return a result confined to a rigorous interval; not trusted if far outside."""
    low, high = interval
    value = answer.log_partition
    inside = 0.5 * (low + high) if math.isnan(value) else min(max(value, low), high)
    gap, error = abs(inside - value), answer.log_partition_error or 0.0
    answer = replace(answer, log_partition=inside)
    if answer.diagnostics.is_trusted and not gap <= _FAR_OUT * error + 1e-9:
        return answer.told(certificate="heuristic", is_converged=False)
    return answer


def _rank(
    answer: InferenceResult, confined: InferenceResult
) -> tuple[bool, bool, bool, float]:
    """Return what answers are compared by: the least is kept.

    `confined` is the answer within the interval that holds.
    """
    error = answer.largest_error
    return (
        not confined.diagnostics.is_settled,
        not confined.diagnostics.is_trusted,
        not math.isnan(error) and _is_poor(answer, confined),
        # Belief propagation knows no error: worse than many samples, better than few.
        math.inf if math.isnan(error) else error,
    )


def _is_poor(answer: InferenceResult, confined: InferenceResult) -> bool:
    """Return whether a sampler's answer is worse than that of belief propagation."""
    effective = answer.diagnostics.effective_samples
    if effective is not None and effective < _FEWEST_EFFECTIVE:
        return True
    log_error = answer.log_partition_error or 0.0
    if math.isnan(log_error):  # chains without rungs know marginals only
        return False
    gap = abs(confined.log_partition - answer.log_partition)
    return log_error > _LARGEST_LOG_ERROR or gap > _FAR_OUT * log_error + 1e-9
