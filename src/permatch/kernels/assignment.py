"""Assignment by shortest augmenting paths, and what its dual prices are good for: scaling.

`cost` is (m, m), entries finite or ``+inf`` (forbidden).  Prices `u` (rows) and `v`
(columns) always satisfy ``cost[i, j] - u[i] - v[j] >= 0`` up to rounding, with equality on
matched edges. `col_of[i]` and `row_of[j]` hold the current partial matching, -1 where free.

`augment` alone repairs an assignment from which one edge was taken away: that is what makes
the k-best search cheap.

`scale_stack` turns scores into weights that plain float64 sums can handle.  Adding ``a[i] +
b[j]`` to every score multiplies the weight of every perfect matching by the same constant.
Two such shifts are applied:

1. assignment prices: the best matching scores 0 and no reduced score is positive, hence
   ``1 <= permanent(weights) <= m!``;
2. a few Sinkhorn sweeps: rows and columns of the weights sum to about one, which keeps the
   signed sums of Glynn's formula from losing digits.

The edges that lie in no perfect matching are found too.  Given one perfect matching, row i
points to row k if i could take the column that k holds. An edge can be matched if and only
if its two rows are in one strong component (Tassa 2012), and the components are blocks that
share no possible edge.

References
----------
R. Jonker and A. Volgenant, "A shortest augmenting path algorithm for dense and sparse
linear assignment problems", Computing 38 (1987).
"""

import math

import numpy as np
from numba import njit

# A sweep costs O(m^2), so these are free beside O(m 2^m); more do not help the signed sums.
MAX_SWEEPS = 20
SWEEP_TOL = 1e-3


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


@njit(cache=True, nogil=True)
def reduce_one(scores, reduced):
    """Fill `reduced` with scores minus assignment prices.

    Return the best score (``-inf`` when the graph has no perfect matching).
    """
    return reduce_and_match(scores, reduced, np.empty(scores.shape[0], np.int64))


@njit(cache=True, nogil=True)
def reduce_and_match(scores, reduced, col_of):
    """Fill `reduced` as `reduce_one` does, and `col_of` with a best matching.

    Return the best score, ``-inf`` when there is no perfect matching.
    """
    m = scores.shape[0]
    cost = np.empty((m, m))
    if not fill_cost(scores, cost):
        return -np.inf
    u = np.empty(m)
    v = np.empty(m)
    row_of = np.empty(m, np.int64)
    if not solve(cost, u, v, col_of, row_of):
        return -np.inf
    return _fill_reduced(scores, cost, u, v, col_of, reduced)


@njit(cache=True, nogil=True)
def _fill_reduced(scores, cost, u, v, col_of, reduced):
    """Fill `reduced` by the prices of an assignment; return the score of its matching."""
    m = scores.shape[0]
    best = 0.0
    lost = 0.0  # Neumaier's correction: what the running sum rounds away
    for i in range(m):
        term = scores[i, col_of[i]]
        total = best + term
        if abs(best) >= abs(term):
            lost += (best - total) + term
        else:
            lost += (term - total) + best
        best = total
        u[i] = cost[i, col_of[i]] - v[col_of[i]]
    for i in range(m):
        for j in range(m):
            reduced[i, j] = min(u[i] + v[j] - cost[i, j], 0.0)
        reduced[i, col_of[i]] = 0.0
    return best + lost


@njit(cache=True, nogil=True)
def reduce_possible(scores, reduced):
    """Fill `reduced` as `reduce_one` does, with ``-inf`` for all edges no matching can use.

    Return the best score, ``-inf`` when there is no perfect matching.
    """
    m = scores.shape[0]
    col_of = np.empty(m, np.int64)
    best = reduce_and_match(scores, reduced, col_of)
    # Only where some edges are forbidden can others be impossible.
    if best > -np.inf and m > 0 and scores.min() == -np.inf:
        forbid_impossible(reduced, col_of, np.empty(m, np.int64))
    return best


@njit(cache=True, nogil=True)
def balance(weights):
    """Scale rows and columns in place until both sum to about one.

    Return the logarithm of what was divided out.
    """
    m = weights.shape[0]
    row_scale = np.ones(m)
    col_scale = np.ones(m)
    col_sum = np.empty(m)
    for _ in range(MAX_SWEEPS):
        if _balance_sweep(weights, row_scale, col_scale, col_sum) < SWEEP_TOL:
            break
    return _rescale(weights, row_scale, col_scale)


@njit(cache=True, nogil=True)
def _balance_sweep(weights, row_scale, col_scale, col_sum):
    """Adapt the scales once; return how far off rows were."""
    m = weights.shape[0]
    col_sum[:] = 0.0
    for i in range(m):
        for j in range(m):
            col_sum[j] += row_scale[i] * weights[i, j]
    for j in range(m):
        col_scale[j] = 1.0 / col_sum[j]
    worst = 0.0
    for i in range(m):
        total = 0.0
        for j in range(m):
            total += weights[i, j] * col_scale[j]
        worst = max(worst, abs(row_scale[i] * total - 1.0))
        row_scale[i] = 1.0 / total
    return worst


@njit(cache=True, nogil=True)
def _rescale(weights, row_scale, col_scale):
    """Apply the scales; return the logarithm of what was divided out."""
    m = weights.shape[0]
    offset = 0.0
    for i in range(m):
        offset -= math.log(row_scale[i]) + math.log(col_scale[i])
        for j in range(m):
            weights[i, j] *= row_scale[i] * col_scale[j]
    return offset


@njit(cache=True, nogil=True)
def _exponentiate(table):
    """Turn logarithms into weights, in place."""
    for i in range(table.shape[0]):
        for j in range(table.shape[0]):
            table[i, j] = math.exp(table[i, j])


@njit(cache=True, nogil=True)
def scale_stack(scores, weights, offsets, first, last):
    """Scale graphs ``first .. last - 1``: ``log Z = offset + log permanent(weights)``.

    An infeasible graph gets the offset ``-inf``; an edge that lies in no perfect matching
    gets the weight 0, so that its marginal is 0 and not what rounding leaves of it.
    """
    for g in range(first, last):
        offset = reduce_possible(scores[g], weights[g])
        if offset > -np.inf:
            _exponentiate(weights[g])
            offset += balance(weights[g])
        offsets[g] = offset


@njit(cache=True, nogil=True)
def components(scores, col_of, labels):
    """Label rows by strong component of the finite scores; return their number.

    Row i points to row k if ``scores[i, col_of[k]]`` is finite.  Tarjan's algorithm
    without recursion, O(m^2).
    """
    m = scores.shape[0]
    order = np.full(m, -1)  # when a row was first met
    lowest = np.empty(m, np.int64)  # the earliest row reachable from it
    following = np.zeros(m, np.int64)  # the next row to look at
    path = np.empty(m, np.int64)
    waiting = np.empty(m, np.int64)
    n_path = 0
    n_waiting = 0
    n_met = 0
    n_labels = 0
    labels[:] = -1
    for start in range(m):
        if order[start] >= 0:
            continue
        path[0] = start
        n_path = 1
        while n_path:
            i = path[n_path - 1]
            if order[i] < 0:
                order[i] = n_met
                lowest[i] = n_met
                n_met += 1
                waiting[n_waiting] = i
                n_waiting += 1
            is_done = True
            while following[i] < m:
                k = following[i]
                following[i] += 1
                if scores[i, col_of[k]] == -np.inf or labels[k] >= 0:
                    continue
                if order[k] < 0:
                    path[n_path] = k
                    n_path += 1
                    is_done = False
                    break
                lowest[i] = min(lowest[i], order[k])
            if not is_done:
                continue
            n_path -= 1
            if n_path:
                parent = path[n_path - 1]
                lowest[parent] = min(lowest[parent], lowest[i])
            if lowest[i] == order[i]:
                while True:
                    n_waiting -= 1
                    k = waiting[n_waiting]
                    labels[k] = n_labels
                    if k == i:
                        break
                n_labels += 1
    return n_labels


@njit(cache=True, nogil=True)
def forbid_impossible(scores, col_of, labels):
    """Set to ``-inf``, in place, every edge between two components; return their number."""
    m = scores.shape[0]
    n_labels = components(scores, col_of, labels)
    if n_labels > 1:
        for i in range(m):
            for k in range(m):
                if labels[i] != labels[k]:
                    scores[i, col_of[k]] = -np.inf
    return n_labels
