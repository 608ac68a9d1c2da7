"""Perfect samples by accept-reject, as Huber and Law proposed.

Columns are matched in the order 0, 1, ... .  With the row bounds of `kernels.bounds`,
``bounds[i, c]`` over columns c, c + 1, .., the set of matchings that are left is bounded by
the product over the free rows.  Column c takes the free row i with probability

    p_i = prod_{free k} bounds[k, c + 1] / bounds[k, c]  *  A[i, c] / bounds[i, c + 1],

the bound of what is then left over the bound of what was; what is missing to one rejects
and begins again.  A matching that reaches the end has the probability weight / U.
"""

import numpy as np
from numba import njit

from permatch.kernels.intrinsics import uniform


@njit(cache=True, nogil=True)
def fill_ratios(weights, bounds, shrinks, ratios):
    """Fill `shrinks` and `ratios` (n, n), what columns need to know of rows.

    Every weight is in [0, 1]; `bounds` (n, n + 1) are row bounds that nest.
    """
    n = weights.shape[0]
    for c in range(n):
        for i in range(n):
            shrinks[c, i] = bounds[i, c + 1] / bounds[i, c]
            ratios[c, i] = weights[i, c] / bounds[i, c + 1]


@njit(cache=True, nogil=True)
def try_some(shrinks, ratios, state, n_accepted, trials, matchings, first, last):
    """Make trials ``first .. last - 1``; return how many were accepted so far.

    Parameters
    ----------
    shrinks, ratios : (n, n) arrays
        From `fill_ratios`.
    n_accepted : int
        How many were accepted before.
    trials : array of int
        Receives the numbers, from 0, of the accepted trials.
    matchings : array of int
        Receives for every accepted trial the row of each column.
    """
    n = shrinks.shape[0]
    free = np.empty(n, np.int64)
    chosen = np.empty(n, np.int64)
    for trial in range(first, last):
        for i in range(n):
            free[i] = i
        is_accepted = True
        for c in range(n):
            n_free = n - c
            shrink = 1.0
            total = 0.0
            for q in range(n_free):
                row = free[q]
                shrink *= shrinks[c, row]
                total += ratios[c, row]
            target = uniform(state)
            if target >= shrink * total:
                is_accepted = False
                break
            target /= shrink
            place = -1
            for q in range(n_free):
                ratio = ratios[c, free[q]]
                if ratio > 0.0:
                    place = q
                    target -= ratio
                    if target < 0.0:
                        break
            chosen[c] = free[place]
            free[place] = free[n_free - 1]
        if is_accepted:
            trials[n_accepted] = trial
            matchings[n_accepted, :] = chosen
            n_accepted += 1
    return n_accepted
