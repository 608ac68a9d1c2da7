"""Inference for a table of pairs: exact where components are narrow, bounded elsewhere."""

import warnings
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from permatch._memory import available_memory
from permatch._parallel import Job
from permatch._types import BoolArray, FloatArray, IntArray
from permatch.inference.answer import InferenceResult
from permatch.inference.auto import AutoEngine
from permatch.inference.bethe import Bethe
from permatch.inference.capacities import counted_components, loosen
from permatch.inference.counted import counts_plan, too_wide
from permatch.inference.frontier import Frontier
from permatch.kernels.frontier_plan import MOST_OPEN, frontier_plan
from permatch.linking.counting import Count
from permatch.problems import Problem, Selection

_FRONTIER = Frontier(max_width=MOST_OPEN)
_BETHE = Bethe(bounds=False)
# Share of the memory left that the exact engine may take.
_SHARE = 0.5
# Share of the time that a search for the constant may take for one exact evaluation.
_SHARE_OF_STEP = 0.1


@dataclass(frozen=True, eq=False)
class Answer:
    """Probabilities on the edges and nodes of a problem, and what is known of them.

    Attributes
    ----------
    marginals, low, high : ndarray of shape (n_edges,)
        Probability of every pair, and the ends of an interval that holds for certain.
    left, right : ndarray of shape (n_left,), (n_right,)
        Probability of every record of having no partner.
    left_ends, right_ends : pair of such ndarrays
        Intervals likewise.
    is_exact : ndarray of shape (n_edges,)
        Whether a probability is exact up to rounding.
    """

    marginals: FloatArray
    low: FloatArray
    high: FloatArray
    left: FloatArray
    right: FloatArray
    left_ends: tuple[FloatArray, FloatArray]
    right_ends: tuple[FloatArray, FloatArray]
    is_exact: BoolArray

    @property
    def number(self) -> float:
        """The expected number of links."""
        return float(self.marginals.sum())


class Solver:
    """Solves a problem at any constant added to its scores.

    Parameters
    ----------
    problem : Problem
        One graph all of whose nodes may stay unmatched, and may have several links.
    tol : float
        Error asked for where components are too wide for the exact engine.
    budget : float or None
        Seconds for the exact engine, and for what is too wide for it.
    seed : int
        Of the engines that draw.
    job : Job
        Threads and progress.
    """

    def __init__(
        self, problem: Problem, tol: float, budget: float | None, seed: int, job: Job
    ) -> None:
        self._loose = loosen(problem) if problem.has_capacities else None
        self.problem = problem if self._loose is None else self._loose.problem
        self._options = {"tol": tol, "budget": budget, "random_state": seed}
        self._budget = np.inf if budget is None else budget
        self._job = job

    @property
    def kind(self) -> str:
        """What is solved, in words."""
        return "one-to-one links" if self._loose is None else "so few links per record"

    @cached_property
    def is_narrow(self) -> BoolArray:
        """Whether each component is solved exactly: the cheapest, as time allows."""
        return self._affordable(self._budget)

    def _affordable(self, seconds: float) -> BoolArray:
        plan = frontier_plan(self.problem.structure)
        cost = np.exp2(np.minimum(plan.log2_seconds, 60.0))
        is_able = (plan.width <= MOST_OPEN) & ~counted_components(self.problem)
        is_able &= plan.log2_bytes <= np.log2(_SHARE * max(available_memory(), 2.0))
        cost[~is_able] = np.inf
        order = np.argsort(cost, kind="stable")
        is_cheap = np.empty(len(cost), dtype=bool)
        is_cheap[order] = np.cumsum(cost[order]) <= seconds
        return is_cheap & is_able

    @cached_property
    def _parts(self) -> tuple[Selection | None, Selection | None]:
        return self._split(self.is_narrow)

    @cached_property
    def _quick_parts(self) -> tuple[Selection | None, Selection | None]:
        is_quick = self._affordable(_SHARE_OF_STEP * self._budget)
        if (is_quick == self.is_narrow).all():
            return self._parts
        return self._split(is_quick)

    def _split(self, is_narrow: BoolArray) -> tuple[Selection | None, Selection | None]:
        is_wide = ~is_narrow & ~counted_components(self.problem)
        return self._select(np.flatnonzero(is_narrow)), self._select(
            np.flatnonzero(is_wide)
        )

    @cached_property
    def _counted(self) -> Selection | None:
        """The components whose links have to be counted: exactly, or not at all."""
        part = self._select(np.flatnonzero(counted_components(self.problem)))
        if part is not None:
            plan = counts_plan(part.problem)
            if np.logaddexp2.reduce(plan.log2_seconds) > np.log2(self._budget):
                limit = f"the budget for counting links is {self._budget:g} s"
                raise too_wide(part.problem, plan, limit)
        return part

    def _select(self, components: IntArray) -> Selection | None:
        """Return some components as a problem of one graph."""
        if not len(components):
            return None
        problem, structure = self.problem, self.problem.structure
        if len(components) == len(structure.components):  # its plan is kept
            n, k = structure.n_left, structure.n_right
            every = np.arange(n), np.arange(k), structure.all_edges
            return Selection(problem, components, *every)
        part = problem.select(components)
        own = part.problem.structure
        one = replace(
            own,
            left_starts=np.array([0, own.n_left]),
            right_starts=np.array([0, own.n_right]),
        )
        return replace(part, problem=replace(part.problem, structure=one))

    def count(self, offset: float) -> Count:
        """Return the expected number of links at a constant, exact where that is quick."""
        number = slope = 0.0
        for part, engine in zip(self._quick_parts, (_FRONTIER, _BETHE), strict=True):
            if part is not None:
                answer = engine.infer_problem(_shifted(part.problem, offset), self._job)
                number += float(answer.marginals.sum())
                slope += float((answer.marginals * (1.0 - answer.marginals)).sum())
        if self._counted is not None:
            marginals = self._solve_counted(self._counted, offset).marginals
            number += float(marginals.sum())
            slope += float((marginals * (1.0 - marginals)).sum())
        return Count(number, slope)

    def solve(self, offset: float) -> Answer:
        """Return all probabilities at a constant."""
        structure = self.problem.structure
        n_edges, n, k = structure.n_edges, structure.n_left, structure.n_right
        edges = np.zeros((3, n_edges))
        left, right = np.ones((3, n)), np.ones((3, k))
        is_exact = np.ones(n_edges, dtype=bool)
        narrow, wide = self._parts
        for part, solve in (
            (narrow, self._solve_narrow),
            (self._counted, self._solve_counted),
        ):
            if part is not None:
                answer = solve(part, offset)
                edges[:, part.edges] = answer.marginals
                left[:, part.left] = answer.unmatched_left
                right[:, part.right] = answer.unmatched_right
        if wide is not None:
            answer = self._solve_wide(_shifted(wide.problem, offset))
            is_exact[wide.edges] = answer.is_exact
            for values, places, found, ends in (
                (edges, wide.edges, answer.marginals, answer.marginal_bounds),
                (left, wide.left, answer.unmatched_left, answer.unmatched_left_bounds),
                (right, wide.right, answer.unmatched_right, answer.unmatched_right_bounds),
            ):
                values[0, places] = found
                unknown = (found, found) if answer.is_exact else (0.0, 1.0)
                values[1, places], values[2, places] = unknown if ends is None else ends
        if self._loose is not None:
            edges = np.array([self._loose.on_edges(row) for row in edges])
            left = np.array([self._loose.on_left(row) for row in left])
            right = np.array([self._loose.on_right(row) for row in right])
            is_exact = self._loose.on_edges(is_exact)
        return Answer(
            edges[0],
            edges[1],
            edges[2],
            left[0],
            right[0],
            (left[1], left[2]),
            (right[1], right[2]),
            is_exact,
        )

    def _solve_narrow(self, part: Selection, offset: float) -> InferenceResult:
        return _FRONTIER.infer_problem(_shifted(part.problem, offset), self._job)

    def _solve_counted(self, part: Selection, offset: float) -> InferenceResult:
        # As it is: nodes without a limit have fallen apart before.
        return _FRONTIER._infer_problem(_shifted(part.problem, offset), self._job)

    def _solve_wide(self, problem: Problem) -> InferenceResult:
        engine = AutoEngine(exact_size=18, **self._options)
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
            return engine.infer_problem(problem, self._job)


def _shifted(problem: Problem, offset: float) -> Problem:
    return replace(problem, scores=problem.scores + offset)
