"""`AutoEngine` in a fit: for every component the same engine at all evaluations.

A fit asks for the same graphs again and again, at other scores.  What a component costs
depends on its edges alone, so which components are solved exactly is decided once, by a
limit on the time of a component.  The others are left to belief propagation, whose value
is smooth and has its marginals as gradient; or to samplers, if they are dense squares of
perfect matchings.
"""

import math
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np

from permatch._parallel import Allowance, Job, done_within
from permatch._types import FloatArray, IntArray
from permatch.inference._options import seed_of
from permatch.inference.answer import InferenceResult
from permatch.inference.auto import AutoEngine
from permatch.inference.base import AbstractEngine, Goal
from permatch.inference.belief_propagation import Beliefs
from permatch.inference.bethe import Bethe
from permatch.inference.components import Assembly, errors_of
from permatch.inference.glynn import Glynn
from permatch.inference.mixed import choose, solve_wide
from permatch.inference.small_batch import SmallBatch
from permatch.kernels.frontier_plan import frontier_plan
from permatch.problems import Problem, Selection
from permatch.scores import stacked_problem

#: Largest width that is solved exactly: beyond, `Glynn` has no fallback.
MOST_EXACT = Glynn.fallback.max_size
# Seconds that the smallest components take.
_LEAST_SECONDS = 1e-7
# Beliefs that start from those before settle to within this.
_WARM_TOL = 1e-6
# Seconds worth spending on a component to compare its beliefs.
_SECONDS_TO_COMPARE = 1.0


class _Divisions(WeakKeyDictionary[Any, Any]):
    """What is known of structures; not copied with the engine, nor to other processes."""

    def __reduce__(self) -> Any:
        return _Divisions, ()

    def __deepcopy__(self, memo: Any) -> "_Divisions":
        return _Divisions()


@dataclass(frozen=True, eq=False)
class Closer:
    """How far the approximate marginals are from closer ones."""

    n_checked: int = 0
    largest_difference: float = math.nan
    largest_error: float = math.nan  # with the errors of the closer ones
    is_certain: bool = False

    @classmethod
    def joined(cls, found: Sequence["Closer"]) -> "Closer":
        """Put findings together; an error that is unknown makes the largest unknown."""
        some = [one for one in found if one.n_checked]
        if not some:
            return cls()
        return cls(
            sum(one.n_checked for one in some),
            float(np.max([one.largest_difference for one in some])),
            float(np.max([one.largest_error for one in some])),
            all(one.is_certain for one in some),
        )


@dataclass(eq=False)
class _Group:
    """Components that one engine takes, and the beliefs about them at the last scores."""

    engine: AbstractEngine
    part: Selection
    last: Beliefs | None = None


@dataclass(frozen=True, kw_only=True)
class FitEngine(AbstractEngine):
    """Exact where a component takes at most `limit` seconds, else belief propagation.

    With `is_warm` messages start from those at the last scores, and settle to within
    `_WARM_TOL`: answers depend on what was asked before, by less than that.
    """

    auto: AutoEngine
    limit: float
    is_warm: bool = False
    divided: MutableMapping[Any, Any] = field(
        default_factory=_Divisions, compare=False, repr=False
    )

    name = "auto"

    def log2_seconds(self, size: int) -> float:
        """Estimate log2 of the seconds one graph takes on one thread."""
        engine = self._exact(size) or Bethe()
        return engine.log2_seconds(size)

    def log2_bytes(self, size: int) -> float:
        """Estimate log2 of the bytes one graph needs."""
        return (self._exact(size) or Bethe()).log2_bytes(size)

    def check_size(self, size: int, n_at_once: int = 1) -> None:
        """Raise SizeLimitError if `size` is too large for `AutoEngine`."""
        self.auto.check_size(size, n_at_once)

    def is_exact_for(self, size: int) -> bool:
        """Return whether graphs of a size are solved exactly."""
        return self._exact(size) is not None

    def may_be_exact_on(self, problem: Problem) -> bool:
        """Return whether all components of a problem are solved exactly."""
        return all(own.engine.is_always_exact for own in self._divide(problem))

    def _exact(self, size: int) -> AbstractEngine | None:
        most = min(self.auto.exact_size, MOST_EXACT)
        return replace(self.auto, exact_size=most, budget=self.limit).select(size)

    def _infer_stack(
        self, scores: FloatArray, members: IntArray, job: Job
    ) -> InferenceResult:
        size = scores.shape[1]
        if size > SmallBatch().max_size and scores.min() == -np.inf:
            answer = self._infer_problem(stacked_problem(scores), job)
            marginals = np.zeros_like(scores)
            marginals[scores > -np.inf] = answer.marginals
            return replace(answer, marginals=marginals, marginal_errors=None)
        engine = self._exact(size) or self._beyond(size)
        return engine._infer_stack(scores, members, job)

    def _beyond(self, size: int) -> AbstractEngine:
        """Return the engine for dense squares that are too large."""
        return Bethe(max_size=max(size, 1), bounds=False)

    def _infer_problem(self, problem: Problem, job: Job) -> InferenceResult:
        whole = Assembly(problem)
        for own in self._divide(problem):
            part = _fill(own.part, problem)
            if self.is_warm and isinstance(own.engine, Bethe):
                answer, own.last = own.engine.resume(part.problem, own.last, job)
            else:
                answer = own.engine._infer_problem(part.problem, job)
            whole.add(part, answer)
        return whole.result(self.name, "auto, in a fit: see parts")

    def _divide(self, problem: Problem) -> list[_Group]:
        """Return which components each engine takes, decided once per structure."""
        known = self.divided.get(problem.structure)
        if known is None:
            most = min(self.auto.exact_size, MOST_EXACT)
            seconds, groups = exact_seconds(problem, most)
            taken = [(one, own[seconds[own] <= self.limit]) for one, own in groups]
            wide = np.nonzero(~(seconds <= self.limit))[0]
            rough = Bethe(bounds=False, tol=_WARM_TOL if self.is_warm else Bethe.tol)
            taken.append((rough, wide))
            known = [_Group(one, problem.select(own)) for one, own in taken if len(own)]
            self.divided[problem.structure] = known
        return known

    def compare(self, problem: Problem, seconds: float, job: Job) -> Closer:
        """Compare approximate marginals with closer ones, as far as time allows.

        Some components are taken at random, each with its share of the time left.
        """
        groups = self._divide(problem)
        found = [own.part for own in groups if not own.engine.is_always_exact]
        if not found:
            return Closer()
        part = _fill(found[0], problem)
        answer = Bethe(bounds=False)._infer_problem(part.problem, job)
        time, own = Allowance(seconds, counts_compiling=True), part.problem
        n_all = own.structure.n_graphs
        n_some = min(n_all, max(int(seconds / _SECONDS_TO_COMPARE), 1))
        order = np.random.default_rng(0).permutation(n_all)[:n_some]
        seen: list[Closer] = []

        def look() -> None:
            for c in order.tolist():
                if not time.left:
                    return
                goal = Goal(
                    self.auto.tol,
                    self.auto.delta / n_all,
                    seed_of(self.auto.random_state, c),
                    time,
                    1.0 / (n_some - len(seen)),
                )
                one = own.select(np.array([c]))
                within = replace(self.auto, budget=max(goal.seconds, _least(one.problem)))
                closer = solve_wide(
                    one.problem, goal, job, within._dense, c, self.auto.exact_size
                )
                seen.append(_distance(closer, answer.marginals[one.edges], goal))

        done_within(seconds, look)
        return Closer.joined(seen)


class SamplingFitEngine(FitEngine):
    """The same, with samplers for dense squares of perfect matchings that are too large."""

    draws = True

    def with_seed(self, number: int) -> Self:
        """Return the engine whose draws are independent of those of any other `number`."""
        return replace(self, auto=self.auto.with_seed(number))

    def with_effort(self, factor: float) -> Self:
        """Return the engine that draws `factor` times as much."""
        return replace(self, auto=self.auto.with_effort(factor))

    def _beyond(self, size: int) -> AbstractEngine:
        return replace(self.auto, exact_size=0)


def exact_seconds(
    problem: Problem, exact_size: int
) -> tuple[FloatArray, list[tuple[AbstractEngine, IntArray]]]:
    """Return what every component takes on one thread, infinite if no exact engine does.

    And the components that each engine would take.
    """
    groups = list(choose(problem, exact_size, None).groups)
    seconds = np.full(len(problem.structure.components), math.inf)
    n_left, _ = problem.structure.components.sizes
    for engine, own in groups:
        if isinstance(engine, Glynn):
            log2_seconds = np.array([engine.log2_seconds(m) for m in n_left[own].tolist()])
        elif isinstance(engine, SmallBatch):
            log2_seconds = np.full(len(own), math.log2(_LEAST_SECONDS))
        else:
            log2_seconds = frontier_plan(problem.structure).log2_seconds[own]
        seconds[own] = np.exp2(log2_seconds)
    return seconds, groups


def _least(problem: Problem) -> float:
    """Return the least budget that `AutoEngine` accepts for a component."""
    size = max(problem.structure.n_left, problem.structure.n_right)
    return 1.01 * Bethe.least_seconds(size)


def _fill(part: Selection, problem: Problem) -> Selection:
    """Return a selection with the scores of a problem."""
    own = Problem(
        part.problem.structure,
        np.ascontiguousarray(problem.scores[part.edges]),
        np.ascontiguousarray(problem.unmatched_left[part.left]),
        np.ascontiguousarray(problem.unmatched_right[part.right]),
    )
    return replace(part, problem=own)


def _distance(closer: InferenceResult, beliefs: FloatArray, goal: Goal) -> Closer:
    """Return how far the beliefs about a component are from closer marginals."""
    off = np.abs(beliefs - closer.marginals)
    most, is_certain = off, True
    if not closer.is_exact and closer.marginal_bounds is not None:
        low, high = closer.marginal_bounds
        most = np.maximum(high - beliefs, beliefs - low)
    elif not closer.is_exact:
        told, is_certain = closer.diagnostics, False
        scale = 1.0 if told.certificate == "rigorous" else goal.factor(len(beliefs))
        most = off + scale * (errors_of(closer) if told.is_trusted else np.nan)
    return Closer(1, float(np.max(off)), float(np.max(most)), is_certain)
