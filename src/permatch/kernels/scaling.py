"""Scale scores to weights that plain float64 sums can handle; the distribution stays.

Adding ``a[i] + b[j]`` to every score multiplies the weight of every perfect matching by the
same constant.  Two such shifts are applied:

1. assignment prices: the best matching scores 0 and no reduced score is positive, hence
   ``1 <= permanent(weights) <= m!``;
2. a few Sinkhorn sweeps: rows and columns of the weights sum to about one, which keeps the
   signed sums of Glynn's formula from losing digits.
"""

import math

import numpy as np
from numba import njit

from permatch.kernels.assignment import solve

# A sweep costs O(m^2), so these are free beside O(m 2^m); more do not help the signed sums.
MAX_SWEEPS = 20
SWEEP_TOL = 1e-3


@njit(cache=True, nogil=True)
def reduce_one(scores, reduced):
    """Fill `reduced` with scores minus assignment prices.

    Return the best score (``-inf`` when the graph has no perfect matching).
    """
    m = scores.shape[0]
    cost = np.empty((m, m))
    for i in range(m):
        # Taking the row maximum off first keeps the digits of scores that share a large
        # offset.
        top = -np.inf
        for j in range(m):
            top = max(top, scores[i, j])
        if top == -np.inf:
            return -np.inf
        for j in range(m):
            cost[i, j] = top - scores[i, j]
    u = np.empty(m)
    v = np.empty(m)
    col_of = np.empty(m, np.int64)
    row_of = np.empty(m, np.int64)
    if not solve(cost, u, v, col_of, row_of):
        return -np.inf
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
def balance(weights):
    """Scale rows and columns in place until both sum to about one.

    Return the logarithm of what was divided out.
    """
    m = weights.shape[0]
    row_scale = np.ones(m)
    col_scale = np.ones(m)
    col_sum = np.empty(m)
    for _ in range(MAX_SWEEPS):
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
        if worst < SWEEP_TOL:
            break
    offset = 0.0
    for i in range(m):
        offset -= math.log(row_scale[i]) + math.log(col_scale[i])
        for j in range(m):
            weights[i, j] *= row_scale[i] * col_scale[j]
    return offset


@njit(cache=True, nogil=True)
def scale_stack(scores, weights, offsets, first, last):
    """Scale graphs ``first .. last - 1``: ``log Z = offset + log permanent(weights)``.

    An infeasible graph gets the offset ``-inf``.
    """
    m = scores.shape[1]
    for g in range(first, last):
        offset = reduce_one(scores[g], weights[g])
        if offset > -np.inf:
            for i in range(m):
                for j in range(m):
                    weights[g, i, j] = math.exp(weights[g, i, j])
            offset += balance(weights[g])
        offsets[g] = offset
