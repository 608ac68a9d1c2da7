"""Components whose nodes may have several links, by the frontier with counters."""

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from permatch._memory import LITTLE, available_memory
from permatch._parallel import Job, run_slices
from permatch._types import BoolArray, FloatArray, IntArray
from permatch._validation import enough_memory
from permatch.errors import SizeLimitError
from permatch.inference._words import bytes_in_words, seconds_in_words
from permatch.inference.answer import Diagnostics, InferenceResult
from permatch.inference.capacities import counted_components
from permatch.inference.components import Assembly, no_matching
from permatch.inference.counted_logs import solve_by_logs
from permatch.inference.frontier_walk import Found
from permatch.kernels import counts_plan as planning
from permatch.kernels import frontier_counts as kernel
from permatch.kernels.frontier import LOST
from permatch.kernels.frontier_plan import MOST_KEPT, planned_sides
from permatch.problems import Problem, Structure

# log2 of the seconds of an entry, of the entries of what takes long, and of one task.
_LOG2_SECONDS, _LOG2_LONG, _LOG2_TASK = -27.0, 23.0, 20.0


@dataclass(frozen=True, eq=False)
class CountsPlan:
    """How components with counters are walked, and what each costs.

    Attributes
    ----------
    width : ndarray of shape (n_components,)
        log2 of the entries of the largest table; at least this where `log2_cost` is
        infinite and the walk was given up.
    log2_cost, log2_bytes : ndarray of shape (n_components,)
        log2 of the entries computed on the way there, and of the bytes of the tables.
    walks_right : ndarray of shape (n_components,)
        Whether right nodes are walked.
    ops, op_starts : ndarray
        Operations: see `kernels.counts_plan`; those of component c are
        ``op_starts[c]:op_starts[c + 1]``.
    """

    width: FloatArray
    log2_cost: FloatArray
    log2_bytes: FloatArray
    walks_right: BoolArray
    ops: IntArray
    op_starts: IntArray

    @cached_property
    def widest(self) -> int:
        """The width of the widest component, rounded up."""
        return math.ceil(self.width.max(initial=0.0))

    @cached_property
    def largest(self) -> float:
        """log2 of the bytes of the component that needs most."""
        return float(self.log2_bytes.max(initial=0.0))

    @cached_property
    def log2_seconds(self) -> FloatArray:
        """log2 of the seconds that each component takes on one thread, about."""
        return self.log2_cost + _LOG2_SECONDS

    @cached_property
    def is_long(self) -> BoolArray:
        """Whether each component takes so long that Ctrl-C must be heard meanwhile."""
        return self.log2_cost > _LOG2_LONG

    @cached_property
    def tasks(self) -> list[int]:
        """Where tasks begin and the last ends; a long component is a task of its own."""
        costs = np.cumsum(np.exp2(self.log2_cost - _LOG2_TASK))
        is_cut = np.diff(np.floor(costs)) > 0
        is_cut |= self.is_long[1:] | self.is_long[:-1]
        return [0, *(np.nonzero(is_cut)[0] + 1).tolist(), len(costs)]


# The plan of a structure, and the capacities that it is for.
_plans: WeakKeyDictionary[Structure, tuple[Any, Any, CountsPlan]] = WeakKeyDictionary()


def counts_plan(problem: Problem) -> CountsPlan:
    """Return the plan of all components of a problem with capacities.

    It is made once for a structure and capacities, whatever the scores.
    """
    left, right, plan = _plans.get(problem.structure, (None, None, None))
    is_same = left is problem.capacity_left and right is problem.capacity_right
    if plan is None or not is_same:
        plan = _make_plan(problem)
        own = problem.capacity_left, problem.capacity_right
        _plans[problem.structure] = (*own, plan)
    return plan


def _make_plan(problem: Problem) -> CountsPlan:
    structure = problem.structure
    found = structure.components
    degrees = np.diff(structure.starts), np.diff(structure.by_right[0])
    digits = (
        _digits(problem.capacity_left, degrees[0]),
        _digits(problem.capacity_right, degrees[1]),
    )
    n_found, n_nodes = len(found), structure.n_left + structure.n_right
    most = max(int(own.max(initial=0)) for own in degrees)
    ops = np.empty((structure.n_edges + 2 * n_nodes, planning.N_COLUMNS), np.int64)
    op_starts = np.zeros(n_found + 1, np.int64)
    width, log2_cost, log2_bytes = np.empty((3, n_found))
    walks_right = np.zeros(n_found, dtype=np.bool_)
    left, right = planned_sides(structure)
    nodes = found.left_nodes, found.left_starts, found.right_nodes, found.right_starts
    edges = structure.all_edges, structure.by_right[1]
    figures = width, log2_cost, log2_bytes, walks_right
    n_ops = planning.plan_counts(
        left, right, *nodes, edges, digits, most, MOST_KEPT, ops, op_starts, *figures
    )
    return CountsPlan(width, log2_cost, log2_bytes, walks_right, ops[:n_ops], op_starts)


def _digits(capacity: IntArray | None, degree: IntArray) -> IntArray:
    """Return the radix of the digit of every node, 1 for none, and whether it absorbs."""
    room = np.ones_like(degree) if capacity is None else capacity
    is_full = (room >= degree) & (degree > 1)
    radix = np.where(degree <= 1, 1, np.where(is_full, 2, room + 1))
    return np.column_stack([radix, is_full.astype(np.int64)])


@dataclass(frozen=True, eq=False)
class CountedWalk:
    """The walk of one component of a problem with capacities."""

    plan: CountsPlan
    component: int
    problem: Problem

    @property
    def _range(self) -> tuple[int, int]:
        first, last = self.plan.op_starts[self.component : self.component + 2].tolist()
        return first, last

    def _sides(self, left: Any, right: Any) -> tuple[Any, Any]:
        """Return what belongs to the walked side, and to the other."""
        return (right, left) if self.plan.walks_right[self.component] else (left, right)

    def solve(self, found: Found) -> None:
        """Solve the component, in slices between which Ctrl-C is heard."""
        (start, stop), ops = self._range, self.plan.ops
        n_ops = stop - start
        frees = self._sides(self.problem.unmatched_left, self.problem.unmatched_right)
        low, high = np.empty((2, n_ops))
        shift = kernel.fill_factors(
            ops, start, stop, self.problem.scores, *frees, low, high
        )
        places, exponents = np.empty((2, n_ops + 1), np.int64)
        ends, _ = planning.cut_ops(ops, start, stop, MOST_KEPT)
        parts = list(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True))
        table = np.empty(max(kernel.fill_places(ops, start, *p, places) for p in parts))
        walk = ops, start, low, high, places, exponents, table
        kept: list[FloatArray] = []

        def forward(first: int, last: int) -> None:
            kernel.fill_places(ops, start, first, last, places)
            if first > 0:
                table[: len(kept[-1])] = kept[-1]
            sweep = partial(kernel.sweep_forward, *walk)
            run_slices(lambda a, b: sweep(first + a, first + b), last - first)

        for first, last in parts:
            forward(first, last)
            if last < n_ops:
                begin, n_states = places[last], ops[start + last, planning.SIZE]
                kept.append(table[begin : begin + n_states].copy())
        found.totals[self.component] = kernel.log_total(exponents, places, table, shift)
        buffers = np.empty((2, kernel.largest_table(ops, start, stop)))
        state = np.zeros(4, np.int64)
        out = found.marginals, *self._sides(found.left, found.right)
        back = partial(kernel.sweep_back, *walk, buffers, state, *out)
        for first, last in reversed(parts):
            if last < n_ops:
                forward(first, last)
            done = n_ops - last
            run_slices(lambda a, b, done=done: back(done + a, done + b), last - first)
            if kept:
                kept.pop()
        found.lowest[self.component] = state[2]

    def solve_by_logs(self, found: Found) -> None:
        """Solve the component on logarithms, where floats have lost states that count."""
        start, stop = self._range
        frees = self._sides(self.problem.unmatched_left, self.problem.unmatched_right)
        out = found.marginals, *self._sides(found.left, found.right)
        n_entries = float(self.plan.ops[start:stop, planning.SIZE].sum())
        with enough_memory("Frontier on logarithms", 8.0 * n_entries):
            found.totals[self.component] = solve_by_logs(
                self.plan.ops[start:stop], self.problem.scores, *frees, *out
            )


def solve_counted(problem: Problem, max_width: int, job: Job) -> InferenceResult:
    """Solve a problem, all of whose components have nodes with room for several links."""
    structure = problem.structure
    plan = counts_plan(problem)
    ends = plan.tasks
    at_once = min(job.n_jobs, max(len(ends) - 1, 1))
    _check(problem, plan, max_width, at_once)
    n_found = len(plan.width)
    found = Found(
        *(np.zeros(n_found), np.zeros(n_found), np.zeros(structure.n_edges)),
        *(np.ones(structure.n_left), np.ones(structure.n_right)),
    )

    def solve(k: int) -> None:
        first, last = ends[k], ends[k + 1]
        if plan.is_long[first]:
            CountedWalk(plan, first, problem).solve(found)
            return
        kernel.solve_counts(
            *(plan.ops, plan.op_starts, plan.walks_right, problem.scores),
            *(problem.unmatched_left, problem.unmatched_right, found.totals, found.lowest),
            *(found.marginals, found.left, found.right, first, last),
        )

    seconds = float(np.exp2(plan.log2_seconds).sum())
    with enough_memory(f"Frontier at width {plan.widest}", 2.0**plan.largest):
        job.run(solve, len(ends) - 1, "frontier", seconds)
    for c in np.nonzero(found.lowest <= LOST)[0].tolist():
        CountedWalk(plan, c, problem).solve_by_logs(found)
        if found.totals[c] == -np.inf:
            raise no_matching(problem, c)
    n_graphs = structure.n_graphs
    figures = {"width": plan.widest, "n_components": n_found}
    told = Diagnostics(
        "frontier", "asked for", structure.largest, n_graphs, figures=figures
    )
    return InferenceResult(
        np.bincount(structure.graph_of_component, found.totals, n_graphs)
        + Assembly(problem).alone(),
        found.marginals,
        True,
        told,
        unmatched_left=found.left,
        unmatched_right=found.right,
    )


def solve_with_counts(
    problem: Problem, max_width: int, job: Job, solve: Any
) -> InferenceResult:
    """Solve components with nodes that are counted, and by `solve` those without."""
    is_counted = counted_components(problem)
    if is_counted.all():  # no copy of the problem, whose plan is kept
        return solve_counted(problem, max_width, job)
    whole = Assembly(problem)
    for mask, own in (
        (is_counted, lambda part: solve_counted(part, max_width, job)),
        (~is_counted, lambda part: solve(part, job)),
    ):
        if mask.any():
            part = problem.select(np.nonzero(mask)[0])
            whole.add(part, own(part.problem))
    return whole.result("frontier", "asked for")


def _check(problem: Problem, plan: CountsPlan, max_width: int, at_once: int) -> None:
    """Refuse components that are wider than `max_width`, or need too much memory."""
    if plan.widest > max_width:
        limit = f"Frontier handles at most 2^{max_width} states"
        raise too_wide(problem, plan, limit, allow_width(plan))
    log2_bytes = plan.largest + math.log2(at_once)
    if log2_bytes > math.log2(LITTLE):
        left = math.log2(max(available_memory(), 1.0))
        if log2_bytes > left:
            raise too_wide(problem, plan, f"{bytes_in_words(left)} of memory are available")


def allow_width(plan: CountsPlan) -> str:
    """Return how to allow the widest component."""
    return f"allow it: engine=permatch.Frontier(max_width={plan.widest})"


def too_wide(
    problem: Problem, plan: CountsPlan, limit: str, allow: str = ""
) -> SizeLimitError:
    """Return the error to raise for the widest component.

    `limit` says what it exceeds, `allow` how to allow it nevertheless, if it is feasible.
    """
    c = int(plan.width.argmax())
    structure = problem.structure
    n, k = (int(sizes[c]) for sizes in structure.components.sizes)
    is_known = plan.log2_cost[c] < np.inf
    cost = "years and petabytes of memory"
    if is_known:
        cost = (
            f"{seconds_in_words(plan.log2_seconds[c])} on one thread and "
            f"{bytes_in_words(plan.log2_bytes[c])} of memory"
        )
    width = math.ceil(plan.width[c])
    return SizeLimitError(
        f"{limit}; counting the links of every node takes {'' if is_known else 'at least '}"
        f"2^{width} states. It would take {cost} for a component of {n} x {k} nodes and "
        f"{int(structure.components.n_edges[c])} edges. No other engine counts links. "
        "Leave out candidates that hardly matter, lower the capacities, or lift them "
        "(math.inf; an unmatched score of 0 then makes it simple)"
        f"{f', or {allow}' if allow and is_known else ''}."
    )
