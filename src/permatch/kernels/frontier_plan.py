"""How the frontier walks every component, and what that costs.

The nodes of either side are walked as they are numbered, or by a greedy choice from one of
many nodes on, whichever is cheapest; the first order that is cheap enough is taken.

The plan is three arrays.  A row of `steps` is a node of the walked side, where its rows of
`links` and `closes` begin, and the number of open nodes before and after it opens its own.
A row of `links` is an edge, the bit that its other node has in the states, -1 for one with
a single neighbour, and that node.  A row of `closes` is the bit of a node that is closed,
and that node; the node with the highest bit takes over its bit.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numba import njit

from permatch._types import BoolArray, FloatArray, IntArray
from permatch.kernels.frontier_order import (
    AS_NUMBERED,
    FAR_OUT,
    MOST_OPEN,
    close_all,
    try_order,
)

# log2 of the seconds of an elementary step, and of the steps of what takes long.
_LOG2_SECONDS, _LOG2_LONG = -31.5, 24.0
#: Entries of tables that are all kept; beyond, some are computed a second time.
MOST_KEPT = 2.0**27
# Elementary steps per edge of a walk that is good enough, at first and per start tried:
# looking for a better one takes longer than it.
_ENOUGH, _TRIAL = 128.0, 512.0
# Edges that are looked at to find a better start.
_MOST_EDGES = 1 << 17
# Elementary steps of one task.
_STEPS_PER_TASK = 2.0**24

# Columns of steps.
NODE, LINK, CLOSE, BEFORE, OPEN = range(5)


@njit(cache=True, nogil=True)
def cut_walk(steps, start, stop, most_kept):
    """Return where parts of a walk begin and the last ends, and the doubles it needs.

    The tables of one part at a time are kept, and the first of every other; there is one
    part unless all tables have more than `most_kept` entries.
    """
    n_steps = stop - start
    total = 0.0
    widest = 0
    for t in range(start, stop):
        total += 2.0 ** max(steps[t, BEFORE], 3) + 8.0
        widest = max(widest, steps[t, OPEN])
    ends = np.empty(n_steps + 1, np.int64)
    ends[0] = 0
    most = total + 1.0
    if total > most_kept:
        most = max(total / np.sqrt(n_steps), 2.0**widest)
    n_parts = 0
    kept = 0.0
    part = 0.0
    longest = 0.0
    for t in range(start, stop):
        size = 2.0 ** max(steps[t, BEFORE], 3) + 8.0
        if part + size > most:
            n_parts += 1
            ends[n_parts] = t - start
            kept += size
            part = 0.0
        part += size
        longest = max(longest, part)
    ends[n_parts + 1] = n_steps
    # The last table of a part, and two more on the way back.
    return ends[: n_parts + 2], kept + longest + 3.0 * 2.0**widest


@njit(cache=True, nogil=True)
def _emit(order, side, edges, bit_of, steps, links, closes, counts, most_kept):
    """Write down a walk after `counts` rows; return log2 of the bytes of its tables."""
    starts, ends, other_starts, _, rest = side[:5]
    at_bit = np.empty(MOST_OPEN + 1, np.int64)
    n_steps, n_links, n_closes = counts
    n_open = 0
    for i in order:
        steps[n_steps, NODE] = i
        steps[n_steps, LINK] = n_links
        steps[n_steps, CLOSE] = n_closes
        steps[n_steps, BEFORE] = n_open
        for at in range(starts[i], starts[i + 1]):
            j = ends[at]
            degree = other_starts[j + 1] - other_starts[j]
            if degree == 1:
                bit_of[j] = -1
            elif rest[j] == degree:
                bit_of[j] = n_open
                at_bit[n_open] = j
                n_open += 1
            links[n_links, 0] = edges[at]
            links[n_links, 1] = bit_of[j]
            links[n_links, 2] = j
            n_links += 1
        steps[n_steps, OPEN] = n_open
        for at in range(starts[i], starts[i + 1]):
            j = ends[at]
            rest[j] -= 1
            if rest[j] > 0 or bit_of[j] < 0:
                continue
            closes[n_closes, 0] = bit_of[j]
            closes[n_closes, 1] = j
            n_closes += 1
            n_open -= 1
            last = at_bit[n_open]
            at_bit[bit_of[j]] = last
            bit_of[last] = bit_of[j]
        n_steps += 1
    _, n_kept = cut_walk(steps, counts[0], n_steps, most_kept)
    counts[0] = n_steps
    counts[1] = n_links
    counts[2] = n_closes
    close_all(order, starts, ends, rest)
    return np.log2(8.0 * n_kept)


@njit(cache=True, nogil=True)
def _choose(left, right, own, other):
    """Return cost and width of the walk to take, whether it is of right nodes, its order.

    `own` and `other` are the left and right nodes of a component.
    """
    n_edges = 0
    for i in own:
        n_edges += left[0][i + 1] - left[0][i]
    n_starts = 4 + min(2 * max(len(own), len(other)), _MOST_EDGES // n_edges)
    if n_edges == len(own) * len(other):
        n_starts = 2  # any order is as good
    cost, width, is_right, best = np.inf, MOST_OPEN + 1, False, own
    for trial in range(n_starts):
        if cost <= (_ENOUGH if trial < 4 else _TRIAL * trial) * n_edges:
            break
        walks_right = trial % 2 == 1
        nodes = other if walks_right else own
        first = AS_NUMBERED if trial < 2 else FAR_OUT
        if trial >= 4:
            first = nodes[trial // 2 * 7919 % len(nodes)]
        # A wider walk may be the cheaper one, if it is not much wider.
        most_open = min(MOST_OPEN, width + 1)
        order = np.empty(len(nodes), np.int64)
        if walks_right:
            found, n_open = try_order(right, nodes, order, first, cost, most_open)
        else:
            found, n_open = try_order(left, nodes, order, first, cost, most_open)
        if found < cost:
            cost, width, is_right, best = found, n_open, walks_right, order
    return cost, width, is_right, best


@njit(cache=True, nogil=True)
def plan_all(
    left,
    right,
    left_nodes,
    left_starts,
    right_nodes,
    right_starts,
    edges,
    steps,
    links,
    closes,
    step_starts,
    width,
    log2_cost,
    log2_bytes,
    walks_right,
    most_kept,
):
    """Plan every component; return the rows written of steps, links and closes.

    `left` and `right` are the sides as `try_order` takes them, `edges` the edges in the
    order of either; `most_kept` see `cut_walk`.
    """
    counts = np.zeros(3, np.int64)
    left_bits = np.empty(len(left[5]), np.int64)
    right_bits = np.empty(len(right[5]), np.int64)
    for c in range(len(width)):
        step_starts[c] = counts[0]
        own = left_nodes[left_starts[c] : left_starts[c + 1]]
        other = right_nodes[right_starts[c] : right_starts[c + 1]]
        cost, width[c], walks_right[c], order = _choose(left, right, own, other)
        log2_cost[c] = np.log2(cost)
        log2_bytes[c] = np.inf
        if cost == np.inf:
            continue
        if walks_right[c]:
            log2_bytes[c] = _emit(order, right, edges[1], left_bits, steps, links, closes,
                counts, most_kept)  # fmt: skip
        else:
            log2_bytes[c] = _emit(order, left, edges[0], right_bits, steps, links, closes,
                counts, most_kept)  # fmt: skip
    step_starts[len(width)] = counts[0]
    steps[counts[0], LINK] = counts[1]
    steps[counts[0], CLOSE] = counts[2]
    return counts


@dataclass(frozen=True, eq=False)
class FrontierPlan:
    """How the frontier walks the components of a structure, and what each costs.

    Attributes
    ----------
    width : ndarray of shape (n_components,)
        Most nodes open at a time; where `log2_cost` is infinite the walk was given up and
        the width is at least this.
    log2_cost : ndarray of shape (n_components,)
        log2 of the number of elementary steps.
    log2_bytes : ndarray of shape (n_components,)
        log2 of the bytes of the tables.
    walks_right : ndarray of shape (n_components,)
        Whether right nodes are walked.
    step_starts : ndarray of shape (n_components + 1,)
        The steps of component c are ``step_starts[c]:step_starts[c + 1]``; none where the
        walk was given up.
    steps, links, closes : ndarray
        See the module.
    """

    width: IntArray
    log2_cost: FloatArray
    log2_bytes: FloatArray
    walks_right: BoolArray
    step_starts: IntArray
    steps: IntArray
    links: IntArray
    closes: IntArray

    @cached_property
    def widest(self) -> int:
        """The width of the widest component."""
        return int(self.width.max(initial=0))

    @cached_property
    def largest(self) -> float:
        """log2 of the bytes of the component that needs most."""
        return float(self.log2_bytes.max(initial=0.0))

    @cached_property
    def log2_seconds(self) -> FloatArray:
        """log2 of the seconds that each component takes on one thread, about."""
        return self.log2_cost + _LOG2_SECONDS

    @cached_property
    def seconds(self) -> float:
        """Seconds that all components take on one thread, about."""
        return float(np.exp2(self.log2_seconds).sum())

    @cached_property
    def is_long(self) -> BoolArray:
        """Whether each component takes so long that Ctrl-C must be heard meanwhile."""
        return self.log2_cost > _LOG2_LONG

    @cached_property
    def tasks(self) -> list[int]:
        """Where tasks begin and the last ends: ranges of components of about one cost.

        A component that takes long is the first of its task.
        """
        if not len(self.width):
            return [0]
        costs = np.cumsum(np.exp2(self.log2_cost))
        is_cut = np.diff(np.floor(costs / _STEPS_PER_TASK)) > 0
        cuts = np.nonzero(is_cut | self.is_long[1:])[0] + 1
        return [0, *cuts.tolist(), len(costs)]


_plans: WeakKeyDictionary[Any, FrontierPlan] = WeakKeyDictionary()


def frontier_plan(structure: Any) -> FrontierPlan:
    """Return the plan of a `Structure`, made once."""
    plan = _plans.get(structure)
    if plan is None:
        plan = _plans[structure] = _make_plan(structure)
    return plan


def planned_sides(structure: Any) -> list[tuple[Any, ...]]:
    """Return the left and the right side of a `Structure` as `try_order` takes them."""
    right_starts, right_edges = structure.by_right
    ends = structure.right, structure.left[right_edges]
    starts = structure.starts, right_starts
    sides = []
    for own, other in ((0, 1), (1, 0)):
        n, k = len(starts[own]) - 1, len(starts[other]) - 1
        sides.append(
            (
                starts[own],
                ends[own],
                starts[other],
                ends[other],
                np.diff(starts[other]),
                np.full(n, -1),
                np.zeros(k, dtype=np.bool_),
                np.empty(n, np.int64),
            )
        )
    return sides


def _make_plan(structure: Any) -> FrontierPlan:
    found = structure.components
    sides, right_edges = planned_sides(structure), structure.by_right[1]
    n_found, n_edges = len(found), structure.n_edges
    most = int(np.maximum(*found.sizes).sum())
    steps = np.zeros((most + 1, 5), np.int64)
    links, closes = np.empty((n_edges, 3), np.int64), np.empty((most, 2), np.int64)
    step_starts, width = np.empty(n_found + 1, np.int64), np.empty(n_found, np.int64)
    log2_cost, log2_bytes = np.empty((2, n_found))
    walks_right = np.zeros(n_found, dtype=np.bool_)
    nodes = found.left_nodes, found.left_starts, found.right_nodes, found.right_starts
    edges = structure.all_edges, right_edges
    figures = width, log2_cost, log2_bytes, walks_right
    counts = plan_all(
        *sides, *nodes, edges, steps, links, closes, step_starts, *figures, MOST_KEPT
    )
    return FrontierPlan(
        *figures,
        step_starts,
        steps[: counts[0] + 1],
        links[: counts[1]],
        closes[: counts[2]],
    )
