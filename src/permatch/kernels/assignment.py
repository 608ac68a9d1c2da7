"""Minimum-cost assignment by shortest augmenting paths, keeping the dual prices.

`cost` is (m, m), entries finite or ``+inf`` (forbidden).  Prices `u` (rows) and `v`
(columns) always satisfy ``cost[i, j] - u[i] - v[j] >= 0`` up to rounding, with equality on
matched edges. `col_of[i]` and `row_of[j]` hold the current partial matching, -1 where free.

`augment` alone repairs an assignment from which one edge was taken away: that is what makes
the k-best search cheap.

References
----------
R. Jonker and A. Volgenant, "A shortest augmenting path algorithm for dense and sparse
linear assignment problems", Computing 38 (1987).
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def augment(cost, start, u, v, col_of, row_of, distance, via, is_done):
    """Match the free row `start` by a cheapest alternating path, updating all prices.

    Return False, leaving everything as it was, when no path exists.  `distance`, `via` and
    `is_done` are scratch of length m.
    """
    m = cost.shape[0]
    for j in range(m):
        distance[j] = np.inf
        via[j] = -1
        is_done[j] = False
    row = start
    shortest = 0.0
    sink = -1
    while sink < 0:
        nearest = -1
        lowest = np.inf
        for j in range(m):
            if is_done[j]:
                continue
            # max: rounding may leave a reduced cost slightly below zero
            reach = shortest + max(cost[row, j] - u[row] - v[j], 0.0)
            if reach < distance[j]:
                distance[j] = reach
                via[j] = row
            # prefer a free column among equals: it ends the search
            if distance[j] < lowest or (distance[j] == lowest and row_of[j] < 0):
                lowest = distance[j]
                nearest = j
        if nearest < 0 or lowest == np.inf:
            return False
        shortest = lowest
        is_done[nearest] = True
        if row_of[nearest] < 0:
            sink = nearest
        else:
            row = row_of[nearest]
    u[start] += shortest
    for j in range(m):
        if is_done[j] and j != sink:
            u[row_of[j]] += shortest - distance[j]
            v[j] -= shortest - distance[j]
    j = sink
    while True:
        row = via[j]
        row_of[j] = row
        previous = col_of[row]
        col_of[row] = j
        if row == start:
            return True
        j = previous


@njit(cache=True, nogil=True)
def fill_cost(scores, cost):
    """Fill `cost` with what edges fall short of the best one of their row.

    Taking the row maximum off first keeps the digits of scores that share a large offset.
    Return False if a row has no edge.
    """
    m = scores.shape[0]
    for i in range(m):
        top = -np.inf
        for j in range(m):
            top = max(top, scores[i, j])
        if top == -np.inf:
            return False
        for j in range(m):
            cost[i, j] = top - scores[i, j]
    return True


@njit(cache=True, nogil=True)
def begin(cost, u, v, col_of, row_of):
    """Fill first prices, and a matching of what finds its cheapest column free.

    Return False if a row or a column has no edge.
    """
    m = cost.shape[0]
    for j in range(m):
        lowest = np.inf
        for i in range(m):
            lowest = min(lowest, cost[i, j])
        if lowest == np.inf:
            return False
        v[j] = lowest
        row_of[j] = -1
    for i in range(m):
        lowest = np.inf
        nearest = -1
        for j in range(m):
            reduced = cost[i, j] - v[j]
            if reduced < lowest:
                lowest = reduced
                nearest = j
        if nearest < 0:
            return False
        u[i] = lowest
        # a column nobody holds yet can be taken at once: its reduced cost is zero
        col_of[i] = -1
        if row_of[nearest] < 0:
            row_of[nearest] = i
            col_of[i] = nearest
    return True


@njit(cache=True, nogil=True)
def solve(cost, u, v, col_of, row_of):
    """Fill prices and matching with an optimal assignment; return whether one exists."""
    if not begin(cost, u, v, col_of, row_of):
        return False
    m = cost.shape[0]
    distance = np.empty(m)
    via = np.empty(m, np.int64)
    is_done = np.empty(m, np.bool_)
    for i in range(m):
        if col_of[i] < 0 and not augment(
            cost, i, u, v, col_of, row_of, distance, via, is_done
        ):
            return False
    return True


@njit(cache=True, nogil=True)
def best_matchings(scores, matchings, first, last):
    """Fill `matchings` (b, m) for graphs ``first .. last - 1`` of `scores` (b, m, m).

    Return False if one of them has no perfect matching, or scores that are no numbers.
    """
    m = scores.shape[1]
    cost = np.empty((m, m))
    u = np.empty(m)
    v = np.empty(m)
    row_of = np.empty(m, np.int64)
    for g in range(first, last):
        if not fill_cost(scores[g], cost):
            return False
        if not solve(cost, u, v, matchings[g], row_of):
            return False
    return True
