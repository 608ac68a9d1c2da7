"""Permanent, edge marginals and exact samples by dynamic programming over column subsets.

Rows are matched in the order 0, 1, ..., m - 1.  A state is the set of columns already used,
held as a bit mask, so the number of bits set is also the next row to match.

    forward[used]   total weight of matching rows 0 .. |used|-1 onto `used`
    backward[used]  total weight of matching the other rows onto the other columns

Every sum has positive terms only, so nothing cancels: the relative error is about m
roundings.  Time O(m 2^m), memory 2^m doubles a table.
"""

import numpy as np
from numba import njit

from permatch.kernels.bits import count_ones, lowest_one


@njit(cache=True, nogil=True)
def fill_forward(weights, forward):
    """Fill the forward table (2^m); its last entry is the permanent."""
    m = weights.shape[0]
    forward[0] = 1.0
    for used in range(1, 1 << m):
        row = count_ones(used) - 1
        value = 0.0
        left = used
        while left:
            col = lowest_one(left)
            bit = 1 << col
            value += weights[row, col] * forward[used ^ bit]
            left ^= bit
        forward[used] = value


@njit(cache=True, nogil=True)
def permanent_and_marginals(weights, marginals, forward, backward):
    """Fill `marginals`; return the permanent.  The tables are scratch of length 2^m."""
    m = weights.shape[0]
    full = (1 << m) - 1
    fill_forward(weights, forward)
    marginals[:] = 0.0
    backward[full] = 1.0
    # One backward sweep gives the marginals too: edge (row, col) carries the weight of
    # every path through the state before it and the state after it.
    for used in range(full - 1, -1, -1):
        row = count_ones(used)
        before = forward[used]
        value = 0.0
        left = full ^ used
        while left:
            col = lowest_one(left)
            bit = 1 << col
            after = backward[used | bit]
            value += weights[row, col] * after
            marginals[row, col] += before * after
            left ^= bit
        backward[used] = value
    permanent = forward[full]
    for i in range(m):
        for j in range(m):
            marginals[i, j] = min(marginals[i, j] * weights[i, j] / permanent, 1.0)
    return permanent


@njit(cache=True, nogil=True)
def infer_one(weights, marginals):
    """Fill `marginals` and return the permanent, allocating the tables."""
    size = 1 << weights.shape[0]
    return permanent_and_marginals(weights, marginals, np.empty(size), np.empty(size))


@njit(cache=True, nogil=True)
def draw(weights, forward, favourites, uniforms, matchings, first, last):
    """Draw matchings ``first .. last - 1`` exactly, one uniform number per row.

    Row m - 1 is matched first: with `used` still to be covered it takes column c with
    probability ``weights[row, c] * forward[used - c] / forward[used]``.  `favourites[row]`
    is its heaviest column, tried first: where scores are peaked most searches end there.
    """
    m = weights.shape[0]
    for s in range(first, last):
        used = (1 << m) - 1
        for row in range(m - 1, -1, -1):
            target = uniforms[s, row] * forward[used]
            left = used
            col = favourites[row]
            if not used >> col & 1:
                col = lowest_one(left)
            chosen = -1
            while True:
                bit = 1 << col
                left ^= bit
                mass = weights[row, col] * forward[used ^ bit]
                if mass > 0.0:
                    chosen = col  # rounding may leave a rest: then the last possible column
                    target -= mass
                    if target < 0.0:
                        break
                if not left:
                    break
                col = lowest_one(left)
            matchings[s, row] = chosen
            used ^= 1 << chosen
