"""In which order the frontier walks the nodes of a component.

A walk takes the nodes of one side one at a time.  A node of the other side is *open* from
its first neighbour in the walk to its last; one with a single neighbour never is.  The
open nodes at a step are its width: the tables of `frontier` have 2^width entries there.

A side has its nodes in two orders: as they are numbered, and by a greedy choice, which
takes the node that opens least and closes most, and of several the one that was met first.
It begins anywhere, at first as far out as it can.  An order takes a time near linear in
the edges; a walk that grows too wide is given up at once.
"""

import numpy as np
from numba import njit

#: Walks of more open nodes are not planned: they would take years.
MOST_OPEN = 40
#: Where an order begins, if not at a node.
AS_NUMBERED, FAR_OUT = -2, -1
#: Tables are at least so large, as a power of two: narrower walks cost the same.
NARROW = 5


@njit(cache=True, nogil=True)
def _step_cost(width, degree):
    """Return the elementary steps of one step of a walk."""
    return 2.0 ** max(width, NARROW) * (degree + 4.0)


@njit(cache=True, nogil=True)
def close_all(nodes, starts, ends, rest):
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
    close_all(order, starts, ends, rest)
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
def copy_nodes(nodes, target):
    """Copy numbers; an assignment to a slice takes seconds to compile."""
    for k in range(len(nodes)):
        target[k] = nodes[k]


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
def _fill_gain(nodes, starts, ends, other_starts, gain):
    """Fill what each node opens while none is taken; return the number of edges."""
    n_edges = 0
    for i in nodes:
        n_edges += starts[i + 1] - starts[i]
        gain[i] = 0
        for at in range(starts[i], starts[i + 1]):
            j = ends[at]
            if other_starts[j + 1] - other_starts[j] > 1:
                gain[i] += 1
    return n_edges


@njit(cache=True, nogil=True)
def _fill_greedy(
    first, starts, ends, other_starts, other_ends, rest, met, gain, order, most_open
):
    """Fill `order` by the greedy choice; return whether it stays narrow enough to do so.

    `met` numbers the nodes of the walked side as they are met, else -1; `gain` is what each
    opens less what it closes.
    """
    n = len(order)
    n_edges = _fill_gain(order, starts, ends, other_starts, gain)
    heap = np.empty(2 * n_edges + 1, np.int64)
    seen = np.empty(n, np.int64)
    nodes = np.empty(n, np.int64)
    copy_nodes(order, nodes)
    seen[0] = first
    met[first] = 0
    n_seen = 1
    heap[0] = (_EVEN + gain[first]) << _BITS
    n_heap = 1
    n_open = 0
    n_done = 0
    while n_heap > 0 and n_open <= most_open:
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
    close_all(nodes, starts, ends, rest)
    if not is_done:
        copy_nodes(nodes, order)
    return is_done


@njit(cache=True, nogil=True)
def try_order(side, nodes, order, first, limit, most_open):
    """Fill an order of one side; return its cost, infinite if above `limit`, and width.

    The nodes are taken as they are numbered if `first` is `AS_NUMBERED`, else greedily from
    node `first` on, or from `FAR_OUT`, and given up if more than `most_open` are open.
    """
    starts, ends, other_starts, other_ends, rest, met, other_met, gain = side
    copy_nodes(nodes, order)
    if first != AS_NUMBERED:
        if first == FAR_OUT:
            first = _farthest(
                nodes, starts, ends, other_starts, other_ends, met, other_met, gain
            )
        if not _fill_greedy(
            first, starts, ends, other_starts, other_ends, rest, met, gain, order, most_open
        ):
            return np.inf, most_open + 1
    return _cost_of(order, starts, ends, other_starts, rest, limit)
