"""The best matching of every graph of a stack."""

import numpy as np
from numba import njit

from permatch.kernels.assignment import solve


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
        for i in range(m):
            # Taking the row maximum off keeps the digits of scores that share an offset.
            top = -np.inf
            for j in range(m):
                top = max(top, scores[g, i, j])
            if top == -np.inf:
                return False
            for j in range(m):
                cost[i, j] = top - scores[g, i, j]
        if not solve(cost, u, v, matchings[g], row_of):
            return False
    return True
