"""The k cheapest perfect matchings: Murty's partition, each part solved by one repair.

A node is the cheapest matching of one part of the search space: rows ``order[:n_fixed]``
keep their columns, and row ``order[n_fixed]`` is denied the columns it had in the ancestors
that were split at the same place.  Splitting a node gives one child per free row: child t
keeps the rows before t in `order` and takes the column away from row ``order[t]``.  The
children make up the node's part without the node's matching, so nothing is found twice.

Three things make this cheap (the first two after Miller, Stone and Cox):

- A child differs from its node by one lost edge.  The node's prices stay feasible, so one
  cheapest alternating path gives the child's matching and its prices.
- Children with a high bound are put first, where most rows are free, and are rarely solved;
  the ones which will be solved, and split again, have few free rows left.
- A child waits under a lower bound and is solved when it comes up.  The path is given up as
  soon as k cheaper matchings are known.

``slack[p, q]`` is what row p loses when it takes the column of row q.  A different matching
hands columns round in cycles, so a child costs at least the cheapest cycle through its row:
into some q, then straight back or out of q again, and at last into the row's own column.

Costs are counted from the optimum: the matrix is first reduced by the optimal prices, and
prices are then relative to those.  Row prices follow from the matched edges, so only column
prices are kept: O(k m) memory, and O(m^2) time for a split or a repair.

Only the first `n_branch` rows need to be split by.  Where other rows merely fill up, as the
copies of right nodes do in a graph whose nodes may stay unmatched, matchings that differ in
them alone are one matching, and only the cheapest of them is found.

References
----------
K. G. Murty, "An algorithm for ranking all the assignments in order of increasing cost",
Operations Research 16 (1968).
M. L. Miller, H. S. Stone and I. J. Cox, "Optimizing Murty's ranked assignment method",
IEEE Transactions on Aerospace and Electronic Systems 33 (1997).
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from permatch._parallel import run_slices
from permatch._types import BoolArray, FloatArray, IntArray
from permatch.kernels.heap import Heap, drop, empty_heap, put
from permatch.kernels.sliced import solve

# Entries of tables that a first slice looks at, matchings that it copies, and room on the
# heap to begin with.
_FEW_STEPS, _FEW_TAKEN, _FEW_WAITING = 1 << 22, 1 << 12, 1 << 16


class Nodes(NamedTuple):
    """Solved parts of the search space, one slot (row of each array) per node."""

    matching: IntArray  # (slots, m)
    order: IntArray  # (slots, m)
    price: FloatArray  # (slots, m): column prices, on top of the root's
    n_fixed: IntArray  # (slots,)
    parent: IntArray  # (slots,): -1 for the root
    excess: FloatArray  # (slots,): cost above the optimum


class Scratch(NamedTuple):
    """Work space of `_split` and `_repair`, allocated once."""

    slack: FloatArray  # (m, m)
    bound: FloatArray  # (m,), as are all that follow
    low_out: FloatArray
    low_in: FloatArray
    distance: FloatArray
    row_price: FloatArray
    sequence: IntArray
    row_of: IntArray
    via: IntArray
    waiting: IntArray
    done: IntArray
    is_denied: BoolArray


@njit(cache=True, nogil=True)
def _deny(nodes, slot, is_denied):
    """Mark the columns the node's first free row may not use."""
    place = nodes.n_fixed[slot]
    while nodes.parent[slot] >= 0 and nodes.n_fixed[slot] == place:
        row = nodes.order[slot, place]
        slot = nodes.parent[slot]
        is_denied[nodes.matching[slot, row]] = True


@njit(cache=True, nogil=True)
def _fill_slack(cost, matching, order, first, price, work):
    """Fill `slack` among the rows ``order[first:]``, and its row and column minima."""
    n = len(order) - first
    for q in range(n):
        work.low_in[q] = np.inf
    for p in range(n):
        row = order[first + p]
        row_price = cost[row, matching[row]] - price[matching[row]]
        low = np.inf
        for q in range(n):
            col = matching[order[first + q]]
            # max: rounding may leave a slack slightly below zero
            slack = max(cost[row, col] - row_price - price[col], 0.0)
            if p == q or (p == 0 and work.is_denied[col]):
                slack = np.inf
            work.slack[p, q] = slack
            low = min(low, slack)
            work.low_in[q] = min(work.low_in[q], slack)
        work.low_out[p] = low


@njit(cache=True, nogil=True)
def _split(cost, nodes, slot, n_branch, work):
    """Reorder the free rows; fill `bound` with the least each child adds to the cost."""
    first = nodes.n_fixed[slot]
    order = nodes.order[slot]
    n = len(order) - first
    _fill_slack(cost, nodes.matching[slot], order, first, nodes.price[slot], work)
    slack, bound, sequence = work.slack, work.bound, work.sequence
    low_out, low_in = work.low_out, work.low_in
    # Insertion sort, expensive rows first: the parent's order is nearly right already.  The
    # branching row stays in front, for only the first child may see denied columns, and the
    # rows that are not split by stay at the end.
    n_pinned = 0 if nodes.parent[slot] < 0 else 1
    for p in range(n):
        bound[p] = low_out[p] + low_in[p]
        at = p
        while n_pinned < at and first + p < n_branch and bound[sequence[at - 1]] < bound[p]:
            sequence[at] = sequence[at - 1]
            at -= 1
        sequence[at] = p
    for t in range(n):
        work.via[t] = order[first + sequence[t]]
        low_out[t] = np.inf
    for t in range(n):
        order[first + t] = work.via[t]
    # From the last child to the first, `low_out` taken over the rows free in that child.
    for t in range(n - 1, -1, -1):
        p = sequence[t]
        into = np.inf
        out = np.inf
        for later in range(t + 1, n):
            q = sequence[later]
            into = min(into, slack[q, p])
            out = min(out, slack[p, q])
        lowest = np.inf
        for later in range(t + 1, n):
            q = sequence[later]
            lowest = min(lowest, slack[p, q] + min(slack[q, p], low_out[q] + into))
            low_out[q] = min(low_out[q], slack[q, p])
        low_out[p] = out
        bound[t] = lowest


@njit(cache=True, nogil=True)
def _repair(cost, nodes, slot, place, limit, child, work):
    """Solve the child that takes the column away from row ``order[place]``.

    Write its matching, order and prices to the slot `child` and return what it adds to the
    node's cost, or return ``inf`` and write nothing when that is not below `limit`.
    """
    m = cost.shape[0]
    matching, order, price = nodes.matching[slot], nodes.order[slot], nodes.price[slot]
    distance, via, row_of, row_price = work.distance, work.via, work.row_of, work.row_price
    waiting, done = work.waiting, work.done
    start = order[place]
    sink = matching[start]
    start_price = cost[start, sink] - price[sink]

    # The sink's price may rise until some other row would take it.  All path lengths drop
    # by as much, and the search ends sooner.
    sink_price = np.inf
    lowest = np.inf
    nearest = -1
    n_waiting = 0
    for p in range(place + 1, m):
        row = order[p]
        col = matching[row]
        row_of[col] = row
        row_price[row] = cost[row, col] - price[col]
        sink_price = min(sink_price, cost[row, sink] - row_price[row])
        via[col] = start
        distance[col] = np.inf
        if not work.is_denied[col]:
            distance[col] = max(cost[start, col] - start_price - price[col], 0.0)
        if distance[col] < lowest:
            lowest = distance[col]
            nearest = n_waiting
        waiting[n_waiting] = col
        n_waiting += 1
    if sink_price == np.inf:
        return np.inf
    rise = max(sink_price - price[sink], 0.0)
    sink_price = price[sink] + rise
    limit -= rise

    length = np.inf  # of the best path found so far
    last = -1  # its last row
    n_done = 0
    while lowest < length:
        if lowest >= limit:
            return np.inf
        shortest = lowest
        col = waiting[nearest]
        done[n_done] = col
        n_done += 1
        n_waiting -= 1
        waiting[nearest] = waiting[n_waiting]
        row = row_of[col]
        reach = shortest + max(cost[row, sink] - row_price[row] - sink_price, 0.0)
        if reach < length:
            length = reach
            last = row
        lowest = np.inf
        for w in range(n_waiting):
            col = waiting[w]
            reach = shortest + max(cost[row, col] - row_price[row] - price[col], 0.0)
            if reach < distance[col]:
                distance[col] = reach
                via[col] = row
            if distance[col] < lowest:
                lowest = distance[col]
                nearest = w
    if length >= limit:
        return np.inf

    for i in range(m):
        nodes.matching[child, i] = matching[i]
        nodes.order[child, i] = order[i]
        nodes.price[child, i] = price[i]
    nodes.price[child, sink] = sink_price
    for d in range(n_done):
        nodes.price[child, done[d]] -= length - distance[done[d]]
    row = last
    col = sink
    while row != start:
        nodes.matching[child, row] = col
        col = matching[row]
        row = via[col]
    nodes.matching[child, start] = col
    return length + rise


@njit(cache=True, nogil=True)
def _search(cost, k, n_branch, nodes, work, heap, kept, counts, n_steps):
    """Take `n_steps` entries off the heap; return whether all that is needed is found.

    `counts` holds the entries of `heap` and of `kept`.  Return early, with False, when the
    heap may not have room for the next step.
    """
    m = cost.shape[0]
    n_waiting, n_kept = counts[0], counts[1]
    spare = counts[2]
    worst = -kept.key[0] if n_kept == k else np.inf
    is_done = False
    for _ in range(n_steps):
        if n_waiting + m > len(heap.key):
            break
        if n_waiting == 0 or heap.key[0] >= worst:
            is_done = True
            break
        key, place, slot = heap.key[0], -heap.place[0], heap.slot[0]
        drop(heap, n_waiting)
        n_waiting -= 1
        first = nodes.n_fixed[slot]
        for j in range(m):
            work.is_denied[j] = False
        if place in (m, first):
            _deny(nodes, slot, work.is_denied)
        if place == m:
            _split(cost, nodes, slot, n_branch, work)
            # The last free row alone has nowhere to go.
            for t in range(min(n_branch, m - 1) - first):
                bound = nodes.excess[slot] + work.bound[t]
                if bound < worst:
                    put(heap, n_waiting, bound, -(first + t), slot)
                    n_waiting += 1
            continue
        limit = worst - nodes.excess[slot]
        added = _repair(cost, nodes, slot, place, limit, spare, work)
        # max: rounding must not undercut the bound.  Keys then never fall, so a node that
        # was split is cheaper than `worst` and its slot is never given up.
        excess = max(nodes.excess[slot] + added, key)
        if excess >= worst:
            continue
        nodes.n_fixed[spare] = place
        nodes.parent[spare] = slot
        nodes.excess[spare] = excess
        put(heap, n_waiting, excess, -m, spare)
        n_waiting += 1
        put(kept, n_kept, -excess, 0, spare)
        n_kept += 1
        spare = n_kept
        if n_kept > k:
            spare = kept.slot[0]
            drop(kept, n_kept)
            n_kept -= 1
        if n_kept == k:
            worst = -kept.key[0]
    counts[0], counts[1], counts[2] = n_waiting, n_kept, spare
    return is_done


@njit(cache=True, nogil=True)
def _place_root(cost, nodes, reduced):
    """Fill `reduced`, the costs above the optimum in slot 0, and make that the root."""
    m = cost.shape[0]
    matching = nodes.matching[0]
    price = nodes.price[0]
    for i in range(m):
        row_price = cost[i, matching[i]] - price[matching[i]]
        for j in range(m):
            reduced[i, j] = max(cost[i, j] - row_price - price[j], 0.0)
        reduced[i, matching[i]] = 0.0
        nodes.order[0, i] = i
    for j in range(m):
        price[j] = 0.0
    nodes.n_fixed[0] = 0
    nodes.parent[0] = -1
    nodes.excess[0] = 0.0


@njit(cache=True, nogil=True)
def _take(nodes, kept, matchings, excess, first, last):
    """Fill ranks ``last - 1`` down to `first` with the most expensive that are kept."""
    for rank in range(last - 1, first - 1, -1):
        slot = kept.slot[0]
        drop(kept, rank + 1)
        excess[rank] = nodes.excess[slot]
        for i in range(matchings.shape[1]):
            matchings[rank, i] = nodes.matching[slot, i]


def k_best(
    cost: FloatArray, k: int, matchings: IntArray, excess: FloatArray, n_branch: int
) -> int:
    """Fill `matchings` (k, m) and `excess` (k,), cheapest first; return how many exist.

    `cost` is (m, m), entries finite or ``+inf`` (forbidden).  `excess` is the cost above
    the optimum.  Matchings that agree in the first `n_branch` rows count as one.  Fewer
    than k are filled when there are fewer.
    """
    m = len(cost)
    nodes = Nodes(
        np.empty((k + 1, m), np.int64),
        np.empty((k + 1, m), np.int64),
        np.empty((k + 1, m)),
        np.empty(k + 1, np.int64),
        np.empty(k + 1, np.int64),
        np.empty(k + 1),
    )
    work = Scratch(
        np.empty((m, m)),
        *(np.empty(m) for _ in range(5)),
        *(np.empty(m, np.int64) for _ in range(5)),
        np.empty(m, np.bool_),
    )
    if not solve(cost, work.row_price, nodes.price[0], nodes.matching[0], work.row_of):
        return 0
    reduced = np.empty((m, m))
    _place_root(cost, nodes, reduced)
    # Entries are (key, -place, slot): a child waiting at its place in the node's order, or
    # with place m the node itself, waiting to be split.  Equal keys: smallest part first.
    heap = empty_heap(1 + 2 * m + min(k * m, _FEW_WAITING))
    heap.key[0], heap.place[0], heap.slot[0] = 0.0, -m, 0
    # The k cheapest so far, most expensive in front.  One slot more than k is the spare.
    kept = empty_heap(k + 1)
    kept.key[0], kept.place[0], kept.slot[0] = -0.0, 0, 0
    counts = np.ones(3, np.int64)

    def search(first: int, last: int) -> bool:
        nonlocal heap
        if counts[0] + m > len(heap.key):
            heap = Heap(*(np.concatenate([part, np.empty_like(part)]) for part in heap))
        n_steps = last - first
        return _search(reduced, k, n_branch, nodes, work, heap, kept, counts, n_steps)

    run_slices(search, 1 << 62, max(_FEW_STEPS // (m * m + 1), 1))
    n_found = int(counts[1])

    def take(first: int, last: int) -> None:
        _take(nodes, kept, matchings, excess, n_found - last, n_found - first)

    run_slices(take, n_found, _FEW_TAKEN)
    return n_found
