"""In which order the frontier walks a component, and what that costs.

A walk takes the nodes of one side one at a time.  A node of the other side is *open* from
its first neighbour in the walk to its last; one with a single neighbour never is.  The
open nodes at a step are its width: the tables of `frontier` have 2^width entries there.

Every component has its nodes in four orders: those of either side as they are numbered,
and those of either side by a greedy choice, which takes the node that opens least and
closes most, and of several the one that was met first.  It begins as far out as it can.
The cheapest of the four is kept, or the first that is narrow enough not to matter.  All
this is near linear in the edges; a walk that grows too wide is given up at once.

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

#: Walks of more open nodes are not planned: they would take years.
MOST_OPEN = 40
# Tables are at least so large, as a power of two: narrower walks cost the same.
_NARROW = 5

# log2 of the seconds of an elementary step, and of the steps of what takes long.
_LOG2_SECONDS, _LOG2_LONG = -32.0, 24.0
# Elementary steps of one task.
_STEPS_PER_TASK = 2.0**24

# Columns of steps.
NODE, LINK, CLOSE, BEFORE, OPEN = range(5)


@njit(cache=True, nogil=True)
def _step_cost(width, degree):
    """Return the elementary steps of one step of a walk."""
    return 2.0 ** max(width, _NARROW) * (degree + 4.0)


@njit(cache=True, nogil=True)
def _close_all(nodes, starts, ends, rest):
    """Count the nodes that are met as not met."""
    for i in nodes:
        for at in range(starts[i], starts[i + 1]):
            rest[ends[at]] = 0
    for i in nodes:
        for at in range(starts[i], starts[i + 1]):
            rest[ends[at]] += 1


@njit(cache=True, nogil=True)
def _advance(i, starts, ends, other_starts, rest, n_open):
    """Take node i; return the number of open nodes with its own, and after it."""
    for at in range(starts[i], starts[i + 1]):
        j = ends[at]
        degree = other_starts[j + 1] - other_starts[j]
        if degree > 1 and rest[j] == degree:
            n_open += 1
    width = n_open
    for at in range(starts[i], starts[i + 1]):
        j = ends[at]
        rest[j] -= 1
        if rest[j] == 0 and other_starts[j + 1] - other_starts[j] > 1:
            n_open -= 1
    return width, n_open


@njit(cache=True, nogil=True)
def _cost_of(order, starts, ends, other_starts, rest, limit):
    """Return cost and width of an order; infinite if above `limit`, or too wide."""
    cost = 0.0
    widest = 0
    n_open = 0
    for i in order:
        width, n_open = _advance(i, starts, ends, other_starts, rest, n_open)
        widest = max(widest, width)
        cost += _step_cost(width, starts[i + 1] - starts[i])
        if widest > MOST_OPEN or cost >= limit:
            cost = np.inf
            break
    _close_all(order, starts, ends, rest)
    return cost, widest


@njit(cache=True, nogil=True)
def _farthest(nodes, starts, ends, other_starts, other_ends, met, other_met, queue):
    """Return a node far from the first, with few edges; marks are as before after it."""
    first = nodes[0]
    queue[0] = first
    met[first] = 0
    n_met = 1
    at = 0
    while at < n_met:
        i = queue[at]
        at += 1
        for edge in range(starts[i], starts[i + 1]):
            j = ends[edge]
            if other_met[j]:
                continue
            other_met[j] = True
            for edge_too in range(other_starts[j], other_starts[j + 1]):
                near = other_ends[edge_too]
                if met[near] < 0:
                    met[near] = met[i] + 1
                    queue[n_met] = near
                    n_met += 1
    last = queue[n_met - 1]
    best = last
    while n_met > 0 and met[queue[n_met - 1]] == met[last]:
        n_met -= 1
        i = queue[n_met]
        if starts[i + 1] - starts[i] < starts[best + 1] - starts[best]:
            best = i
    for i in nodes:
        met[i] = -1
        for edge in range(starts[i], starts[i + 1]):
            other_met[ends[edge]] = False
    return best


@njit(cache=True, nogil=True)
def _push(heap, n, value):
    """Put a number on the heap."""
    while n > 0 and value < heap[(n - 1) // 2]:
        heap[n] = heap[(n - 1) // 2]
        n = (n - 1) // 2
    heap[n] = value


@njit(cache=True, nogil=True)
def _pop(heap, n):
    """Take the least of `n` numbers off the heap and return it."""
    first = heap[0]
    value = heap[n - 1]
    n -= 1
    at = 0
    while 2 * at + 1 < n:
        child = 2 * at + 1
        if child + 1 < n and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = value
    return first


# What is on the heap: how many nodes it opens less those it closes, when it was met, and
# which it is among those met.
_BITS = 31
_EVEN = 1 << 30


@njit(cache=True, nogil=True)
def _fill_greedy(first, starts, ends, other_starts, other_ends, rest, met, gain, order):
    """Fill `order` by the greedy choice; return whether it stays narrow enough to do so.

    `met` numbers the nodes of the walked side as they are met, else -1; `gain` is what each
    opens less what it closes.
    """
    n = len(order)
    n_edges = 0
    for i in order:
        n_edges += starts[i + 1] - starts[i]
        gain[i] = 0
        for at in range(starts[i], starts[i + 1]):
            j = ends[at]
            if other_starts[j + 1] - other_starts[j] > 1:
                gain[i] += 1
    heap = np.empty(2 * n_edges + 1, np.int64)
    seen = np.empty(n, np.int64)
    nodes = order.copy()
    seen[0] = first
    met[first] = 0
    n_seen = 1
    heap[0] = (_EVEN + gain[first]) << _BITS
    n_heap = 1
    n_open = 0
    n_done = 0
    while n_heap > 0 and n_open <= MOST_OPEN:
        top = _pop(heap, n_heap)
        n_heap -= 1
        i = seen[top & ((1 << _BITS) - 1)]
        if met[i] == -2 or (top >> _BITS) - _EVEN != gain[i]:
            continue
        met[i] = -2
        order[n_done] = i
        n_done += 1
        for at in range(starts[i], starts[i + 1]):
            j = ends[at]
            degree = other_starts[j + 1] - other_starts[j]
            if degree == 1:
                continue
            is_new = rest[j] == degree
            rest[j] -= 1
            n_open += is_new
            n_open -= rest[j] == 0
            if not is_new and rest[j] != 1:
                continue
            for edge in range(other_starts[j], other_starts[j + 1]):
                near = other_ends[edge]
                if met[near] == -2:
                    continue
                if met[near] == -1:
                    met[near] = n_seen
                    seen[n_seen] = near
                    n_seen += 1
                gain[near] -= is_new
                gain[near] -= rest[j] == 1
                heap_value = (_EVEN + gain[near]) << _BITS | met[near]
                _push(heap, n_heap, heap_value)
                n_heap += 1
    is_done = n_done == n
    for i in nodes:
        met[i] = -1
    _close_all(nodes, starts, ends, rest)
    if not is_done:
        order[:] = nodes
    return is_done


@njit(cache=True, nogil=True)
def _try_side(side, nodes, order, limit):
    """Fill the cheapest order of one side; return its cost and width."""
    starts, ends, other_starts, other_ends, rest, met, other_met, gain = side
    order[:] = nodes
    cost, width = _cost_of(order, starts, ends, other_starts, rest, limit)
    if width <= _NARROW and cost < np.inf:
        return cost, width
    first = _farthest(nodes, starts, ends, other_starts, other_ends, met, other_met, gain)
    if _fill_greedy(first, starts, ends, other_starts, other_ends, rest, met, gain, order):
        other_cost, other_width = _cost_of(
            order, starts, ends, other_starts, rest, min(limit, cost)
        )
        if other_cost < cost:
            return other_cost, other_width
    order[:] = nodes
    return cost, width


@njit(cache=True, nogil=True)
def _emit(order, side, edges, bit_of, steps, links, closes, counts):
    """Write down a walk after `counts` rows; return log2 of the bytes of its tables."""
    starts, ends, other_starts, _, rest = side[:5]
    at_bit = np.empty(MOST_OPEN + 1, np.int64)
    n_steps, n_links, n_closes = counts
    n_open = 0
    n_bytes = 0.0
    for i in order:
        steps[n_steps, NODE] = i
        steps[n_steps, LINK] = n_links
        steps[n_steps, CLOSE] = n_closes
        steps[n_steps, BEFORE] = n_open
        n_bytes += 8.0 * (2.0 ** max(n_open, 3) + 8.0)
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
        n_bytes = max(n_bytes, 8.0 * 2.0**n_open)
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
    counts[0] = n_steps
    counts[1] = n_links
    counts[2] = n_closes
    _close_all(order, starts, ends, rest)
    return np.log2(n_bytes)


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
):
    """Plan every component; return the rows written of steps, links and closes.

    `left` and `right` are the sides as `_try_side` takes them, `edges` the edges in the
    order of either.
    """
    counts = np.zeros(3, np.int64)
    left_bits = np.empty(len(left[5]), np.int64)
    right_bits = np.empty(len(right[5]), np.int64)
    for c in range(len(width)):
        step_starts[c] = counts[0]
        own = left_nodes[left_starts[c] : left_starts[c + 1]]
        other = right_nodes[right_starts[c] : right_starts[c + 1]]
        order = own.copy()
        other_order = other.copy()
        cost, width[c] = _try_side(left, own, order, np.inf)
        if width[c] > _NARROW or cost == np.inf:
            other_cost, other_width = _try_side(right, other, other_order, cost)
            if other_cost < cost:
                cost = other_cost
                width[c] = other_width
                walks_right[c] = True
        log2_cost[c] = np.log2(cost)
        log2_bytes[c] = np.inf
        if cost == np.inf:
            continue
        if walks_right[c]:
            log2_bytes[c] = _emit(
                other_order, right, edges[1], left_bits, steps, links, closes, counts
            )
        else:
            log2_bytes[c] = _emit(
                order, left, edges[0], right_bits, steps, links, closes, counts
            )
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


def _make_plan(structure: Any) -> FrontierPlan:
    found = structure.components
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
    counts = plan_all(*sides, *nodes, edges, steps, links, closes, step_starts, *figures)
    return FrontierPlan(
        *figures,
        step_starts,
        steps[: counts[0] + 1],
        links[: counts[1]],
        closes[: counts[2]],
    )
