"""Inference for a table of pairs: exact where components are narrow, bounded elsewhere."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from permatch._memory import available_memory
from permatch._parallel import Allowance, Job
from permatch._types import BoolArray, FloatArray, IntArray
from permatch.errors import SizeLimitError
from permatch.inference._words import seconds_in_words
from permatch.inference.answer import InferenceResult
from permatch.inference.bethe import Bethe
from permatch.inference.capacities import Loosened, counted_components, loosen
from permatch.inference.counted import CountsPlan, counts_plan
from permatch.inference.frontier import Frontier
from permatch.kernels.frontier_plan import MOST_OPEN, frontier_plan
from permatch.linking.bounding import Bounded, bound_wide, refine
from permatch.linking.totals import Total
from permatch.problems import Problem, Selection

_FRONTIER = Frontier(max_width=MOST_OPEN)
# Good enough to count links.
_BETHE = Bethe(bounds=False, tol=1e-4)
# Share of the memory left that the exact engine may take.
_SHARE = 0.5
# Share of the time that one step of the search for the constant may take.
_SHARE_OF_STEP = 0.1
# Seconds beyond which no longer budget is advised.
_LONGEST = 86400.0


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


class Solver:
    """Solves a problem at any constant added to its scores.

    Parameters
    ----------
    problem : Problem
        One graph all of whose nodes may stay unmatched, and may have several links.
    tol : float
        Width of the intervals asked for where components are too wide for exact engines.
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
        self._tol, self._budget, self._seed, self._job = tol, budget, seed, job
        self._last: tuple[float, InferenceResult] | None = None
        self._wide: _Wide | None = None

    @property
    def kind(self) -> str:
        """What is solved, in words."""
        return kind_of(self._loose is not None)

    @property
    def is_interrupted(self) -> bool:
        """Whether Ctrl-C has ended the narrowing of intervals."""
        return self._wide is not None and self._wide.time.is_ended

    # ---- which components are solved exactly

    @cached_property
    def is_narrow(self) -> BoolArray:
        """Whether each component is solved exactly: the cheapest, as time allows."""
        return self._affordable(1.0)

    @property
    def has_wide(self) -> bool:
        """Whether a component is too wide for exact engines."""
        return self._parts[1] is not None

    def _affordable(self, share: float) -> BoolArray:
        """Return which components the exact engine solves within a share of the time."""
        plan = frontier_plan(self.problem.structure)
        is_able = (plan.width <= MOST_OPEN) & ~counted_components(self.problem)
        is_able &= plan.log2_bytes <= np.log2(_SHARE * max(available_memory(), 2.0))
        cost = np.where(is_able, np.exp2(np.minimum(plan.log2_seconds, 60.0)), np.inf)
        order = np.argsort(cost, kind="stable")
        is_cheap = np.empty(len(cost), dtype=bool)
        seconds = np.inf if self._budget is None else share * self._budget
        is_cheap[order] = np.cumsum(cost[order]) <= seconds
        return is_cheap & is_able

    @cached_property
    def _parts(self) -> tuple[Selection | None, Selection | None]:
        return self._split(self.is_narrow)

    @cached_property
    def _quick_parts(self) -> tuple[Selection | None, Selection | None]:
        is_quick = self._affordable(_SHARE_OF_STEP)
        is_same = (is_quick == self.is_narrow).all()
        return self._parts if is_same else self._split(is_quick)

    def _split(self, is_first: BoolArray) -> tuple[Selection | None, Selection | None]:
        is_second = ~is_first & ~counted_components(self.problem)
        return self._select(np.flatnonzero(is_first)), self._select(
            np.flatnonzero(is_second)
        )

    @cached_property
    def _counted(self) -> Selection | None:
        """The components whose links have to be counted: exactly, or not at all."""
        part = self._select(np.flatnonzero(counted_components(self.problem)))
        if part is not None and self._budget is not None:
            plan = counts_plan(part.problem)
            log2_seconds = float(np.logaddexp2.reduce(plan.log2_seconds))
            if log2_seconds > np.log2(self._budget):
                raise _too_many(part.problem, plan, log2_seconds, self._budget)
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

    # ---- how many links there are

    @cached_property
    def quick(self) -> IntArray:
        """The components whose links are counted exactly, and quickly."""
        return np.flatnonzero(self._affordable(_SHARE_OF_STEP))

    def part(self, components: IntArray) -> tuple[Problem, IntArray]:
        """Return some components as a problem of one graph, and the edges they have."""
        part = self._select(components)
        if part is None:
            raise ValueError("a part needs components")
        return part.problem, self.whole_edges(part.edges)

    def whole_edges(self, edges: IntArray) -> IntArray:
        """Return which edges some edges of `problem` were when it was given."""
        return edges if self._loose is None else self._loose.edges[edges]

    def like(self, problem: Problem) -> "Solver":
        """Return what solves another problem with the same options."""
        return Solver(problem, self._tol, self._budget, self._seed, self._job)

    def total(self, offset: float) -> Total:
        """Return the expected number of links at a constant, exact where that is quick."""
        total = Total()
        for part, engine in zip(self._quick_parts, (_FRONTIER, _BETHE), strict=True):
            if part is None:
                continue
            answer = engine.infer_problem(_shifted(part.problem, offset), self._job)
            total += Total.of(answer.marginals)
            if part is self._parts[0]:
                self._last = offset, answer
        if self._counted is not None:
            total += Total.of(self._solve_counted(self._counted, offset).marginals)
        return total

    # ---- all probabilities

    def solve(self, offset: float) -> Answer:
        """Return all probabilities at a constant."""
        whole = _Whole(self.problem, self._loose)
        narrow, wide = self._parts
        for part, solve in (
            (narrow, self._solve_narrow),
            (self._counted, self._solve_counted),
        ):
            if part is not None:
                answer = solve(part, offset)
                whole.edges[:, part.edges] = answer.marginals
                whole.left[:, part.left] = answer.unmatched_left
                whole.right[:, part.right] = answer.unmatched_right
        if wide is not None:
            problem = _shifted(wide.problem, offset)
            time = Allowance(self._budget)
            found = bound_wide(problem, self._tol, time, self._seed, self._job)
            self._wide = _Wide(wide, problem, found, time)
            whole.put(wide, found)
            whole.is_exact[wide.edges] = False
        self._whole = whole
        return whole.answer()

    def refine(self, edges: IntArray, tol: float) -> Answer | None:
        """Narrow the intervals of some edges of wide components, as time allows.

        None if there is no time left.
        """
        known = self._wide
        if known is None or not known.time.left:
            return None
        place = np.empty(self.problem.structure.n_edges, dtype=np.intp)
        place[known.part.edges] = np.arange(len(known.part.edges))
        if self._loose is not None:
            place = self._loose.on_edges(place)
        refine(known.problem, known.found, place[edges], tol, known.time, self._job)
        self._whole.put(known.part, known.found)
        return self._whole.answer()

    def _solve_narrow(self, part: Selection, offset: float) -> InferenceResult:
        if self._last is not None and self._last[0] == offset:
            return self._last[1]
        return _FRONTIER.infer_problem(_shifted(part.problem, offset), self._job)

    def _solve_counted(self, part: Selection, offset: float) -> InferenceResult:
        # As it is: nodes without a limit have fallen apart before.
        return _FRONTIER._infer_problem(_shifted(part.problem, offset), self._job)


@dataclass(frozen=True, eq=False)
class _Wide:
    """The components that are too wide, what is known of them, and the time left."""

    part: Selection
    problem: Problem
    found: Bounded
    time: Allowance


class _Whole:
    """Estimates, lower ends and upper ends, put together from parts."""

    def __init__(self, problem: Problem, loose: Loosened | None) -> None:
        structure = problem.structure
        self.edges = np.zeros((3, structure.n_edges))
        self.left = np.ones((3, structure.n_left))
        self.right = np.ones((3, structure.n_right))
        self.is_exact = np.ones(structure.n_edges, dtype=bool)
        self._loose = loose

    def put(self, part: Selection, found: Bounded) -> None:
        """Put what is known of some components in its place."""
        self.edges[:, part.edges] = found.edges
        self.left[:, part.left] = found.left
        self.right[:, part.right] = found.right

    def answer(self) -> Answer:
        """Return everything."""
        edges, left, right = self.edges, self.left, self.right
        is_exact, loose = self.is_exact, self._loose
        if loose is not None:
            edges = np.array([loose.on_edges(row) for row in edges])
            left = np.array([loose.on_left(row) for row in left])
            right = np.array([loose.on_right(row) for row in right])
            is_exact = loose.on_edges(is_exact)
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


def kind_of(has_capacities: bool) -> str:
    """Say what is linked, in words."""
    return "these capacities" if has_capacities else "one-to-one links"


def _too_many(
    problem: Problem, plan: CountsPlan, log2_seconds: float, budget: float
) -> SizeLimitError:
    """Return the error to raise where links cannot be counted in time."""
    found, c = problem.structure.components, int(plan.width.argmax())
    n, k = (int(sizes[c]) for sizes in found.sizes)
    is_feasible = log2_seconds < np.log2(_LONGEST)
    cost = seconds_in_words(log2_seconds) if is_feasible else "far too long"
    return SizeLimitError(
        "where records may have several links they are counted exactly, and too many "
        f"records depend on each other for that: the largest group has {n:,} left "
        f"and {k:,} right records and {int(found.n_edges[c]):,} pairs. "
        f"It would take {cost}; the budget is {budget:g} s. Give fewer "
        "candidates per record, for example without pairs of low probability, allow one "
        "link per record, or lift the limit (math.inf, or any large number)"
        f"{', or raise budget=' if is_feasible else ''}."
    )


def _shifted(problem: Problem, offset: float) -> Problem:
    return replace(problem, scores=problem.scores + offset)
