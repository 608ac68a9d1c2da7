"""Permanents of small minors, four draws at a time, with the marginals of their edges.

The subset recursion of `subset_dp`, one draw per element of a vector: every draw has its
own k rows left for the same last k columns.  The states, sets of columns, are walked in
order of size with the same loops for all, so the tables of `SmallSets` are built once.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from numba import njit

from permatch.kernels.simd import WIDTH, load, splat, store


class SmallSets(NamedTuple):
    """The subsets of k columns in order of size, and the columns in and out of each.

    `starts[r] : starts[r + 1]` are the positions in `states` of the sets with r columns;
    `members[p, :r]` and `others[p, :k - r]` list columns of the set at position p.
    """

    states: np.ndarray
    starts: np.ndarray
    members: np.ndarray
    others: np.ndarray


@cache
def small_sets(k):
    """Return the tables for k columns."""
    states = sorted(range(1 << k), key=lambda state: (state.bit_count(), state))
    starts = np.zeros(k + 2, np.int64)
    for state in states:
        starts[state.bit_count() + 1] += 1
    members = np.zeros((1 << k, max(k, 1)), np.int64)
    others = np.zeros((1 << k, max(k, 1)), np.int64)
    for p, state in enumerate(states):
        inside = [j for j in range(k) if state >> j & 1]
        outside = [j for j in range(k) if not state >> j & 1]
        members[p, : len(inside)] = inside
        others[p, : len(outside)] = outside
    return SmallSets(np.array(states, np.int64), np.cumsum(starts), members, others)


@njit(cache=True, nogil=True)
def fill_forward(minor, sets, forward):
    """Fill the forward table; its last `WIDTH` entries are the permanents.

    Parameters
    ----------
    minor : (k, k, WIDTH) array
        Weights of the rows that are left, for each draw.
    forward : (2^k, WIDTH) array
        ``forward[s]``: total weight of matching the first ``|s|`` rows onto set s.
    """
    k = minor.shape[0]
    store(forward, 0, splat(1.0))
    for size in range(1, k + 1):
        row = (size - 1) * k
        for p in range(sets.starts[size], sets.starts[size + 1]):
            state = sets.states[p]
            value = splat(0.0)
            for q in range(size):
                col = sets.members[p, q]
                before = load(forward, (state ^ (1 << col)) * WIDTH)
                value = value + load(minor, (row + col) * WIDTH) * before
            store(forward, state * WIDTH, value)


@njit(cache=True, nogil=True)
def fill_marginals(minor, sets, forward, backward, flows):
    """Fill `flows` (k, k, WIDTH) with the total weight of the matchings through each edge.

    `forward` must be filled; `backward` is scratch of the same shape.
    """
    k = minor.shape[0]
    flows[:] = 0.0
    store(backward, ((1 << k) - 1) * WIDTH, splat(1.0))
    for size in range(k - 1, -1, -1):
        row = size * k
        for p in range(sets.starts[size], sets.starts[size + 1]):
            state = sets.states[p]
            before = load(forward, state * WIDTH)
            value = splat(0.0)
            for q in range(k - size):
                col = sets.others[p, q]
                at = (row + col) * WIDTH
                after = load(backward, (state | (1 << col)) * WIDTH)
                value = value + load(minor, at) * after
                store(flows, at, load(flows, at) + before * after)
            store(backward, state * WIDTH, value)
    for at in range(0, k * k * WIDTH, WIDTH):
        store(flows, at, load(flows, at) * load(minor, at))


@njit(cache=True, nogil=True)
def draw_matching(minor, lane, forward, numbers, cols):
    """Draw the columns of the k rows of one lane exactly; `numbers` are k uniform ones."""
    k = minor.shape[0]
    state = (1 << k) - 1
    for row in range(k - 1, -1, -1):
        target = numbers[row] * forward[state, lane]
        chosen = -1
        for col in range(k):
            if state >> col & 1:
                mass = minor[row, col, lane] * forward[state ^ (1 << col), lane]
                if mass > 0.0:
                    chosen = col  # rounding may leave a rest: then the last possible one
                    target -= mass
                    if target < 0.0:
                        break
        cols[row] = chosen
        state ^= 1 << chosen
