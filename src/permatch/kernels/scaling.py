"""Scale scores to weights that plain float64 sums can handle; the distribution stays.

Adding ``a[i] + b[j]`` to every score multiplies the weight of every perfect matching by the
same constant.  Two such shifts are applied:

1. assignment prices: the best matching scores 0 and no reduced score is positive, hence
   ``1 <= permanent(weights) <= m!``;
2. a few Sinkhorn sweeps: rows and columns of the weights sum to about one, which keeps the
   signed sums of Glynn's formula from losing digits.

The edges that lie in no perfect matching are found too.  Given one perfect matching, row i
points to row k if i could take the column that k holds. An edge can be matched if and only
if its two rows are in one strong component (Tassa 2012), and the components are blocks that
share no possible edge.
"""

import math

import numpy as np
from numba import njit

from permatch.kernels.assignment import fill_cost, solve

# A sweep costs O(m^2), so these are free beside O(m 2^m); more do not help the signed sums.
MAX_SWEEPS = 20
SWEEP_TOL = 1e-3


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
