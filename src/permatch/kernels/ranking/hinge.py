"""The structured hinge of many small lists of documents.

A list is M rows of one score vector; document i at position j scores ``c_j s_i`` and costs
``losses[i, j]``.  With t the observed weights of its documents a list adds

    max over placements pi of  sum_i losses[i, pi(i)] + (c_pi(i) - t_i) s_i.

Up to M = 7 the best placement is found over sets of positions, in the order of documents,

    best[used] = max over j in used of best[used - j] + losses[i, j] + c_j s_i

with ``i = |used| - 1``, which is O(M 2^M); longer lists are assignment problems, O(M^3).
"""

import numpy as np
from numba import njit

from permatch.kernels.assignment import solve
from permatch.kernels.intrinsics import count_ones, lowest_one

#: Longest lists for which the sets of positions are quicker than an assignment.
MAX_SET_SIZE = 7


@njit(cache=True, nogil=True, inline="always")
def place_by_sets(gains, best, choices, placement):
    """Fill `placement` with the positions of largest summed gain, (m, m)."""
    m = gains.shape[0]
    best[0] = 0.0
    for used in range(1, 1 << m):
        i = count_ones(used) - 1
        highest = -np.inf
        choice = lowest_one(used)
        left = used
        while left:
            j = lowest_one(left)
            value = best[used ^ 1 << j] + gains[i, j]
            if value > highest:
                highest = value
                choice = j
            left &= left - 1
        best[used] = highest
        choices[used] = choice
    used = (1 << m) - 1
    for i in range(m - 1, -1, -1):
        placement[i] = choices[used]
        used ^= 1 << choices[used]


@njit(cache=True, nogil=True)
def add_hinges(
    scores, rows, patterns, targets, losses, weights, position_weights, slope, first, last
):
    """Add the slopes of lists ``first .. last - 1`` to `slope`; return their summed risk.

    List n has the documents ``rows[n]``, whose observed position weights are
    ``targets[patterns[n]]``, with the sum of `position_weights`, and whose losses are
    ``losses[patterns[n]]`` (m, m); it counts ``weights[n]`` times.  The
    risk is NaN where a score is.
    """
    m = rows.shape[1]
    n_sets = 1 << m if m <= MAX_SET_SIZE else 1
    best = np.empty(n_sets)
    choices = np.empty(n_sets, np.int64)
    own = np.empty(m)
    gains = np.empty((m, m))
    u = np.empty(m)
    v = np.empty(m)
    placement = np.empty(m, np.int64)
    row_of = np.empty(m, np.int64)
    value = 0.0
    for n in range(first, last):
        pattern = patterns[n]
        for i in range(m):
            # Only differences count: without a common offset they keep their digits.
            own[i] = scores[rows[n, i]] - scores[rows[n, 0]]
            for j in range(m):
                gains[i, j] = losses[pattern, i, j] + position_weights[j] * own[i]
        if m <= MAX_SET_SIZE:
            place_by_sets(gains, best, choices, placement)
        else:
            for i in range(m):
                top = gains[i].max()
                for j in range(m):
                    gains[i, j] = top - gains[i, j]
            if not solve(gains, u, v, placement, row_of):
                return np.nan
        hinge = 0.0
        for i in range(m):
            shift = position_weights[placement[i]] - targets[pattern, i]
            hinge += losses[pattern, i, placement[i]] + shift * own[i]
            slope[rows[n, i]] += weights[n] * shift
        # Rounding must not push a list below what its observed placement attains.
        value += weights[n] * (hinge if not hinge < 0.0 else 0.0)
    return value
