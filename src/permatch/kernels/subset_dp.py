"""Permanent, edge marginals and exact samples by dynamic programming over column subsets.

Rows are matched in the order 0, 1, ..., m - 1.  A state is the set of columns already used,
held as a bit mask, so the number of bits set is also the next row to match.

    forward[used]   total weight of matching rows 0 .. |used|-1 onto `used`
    backward[used]  total weight of matching the other rows onto the other columns

Every sum has positive terms only, so nothing cancels: the relative error is about m
roundings.  Time O(m 2^m), memory 2^m doubles a table.

`fill_minors` and `fill_flows` are the same recursion for the small minors that draws leave,
one draw per element of a vector: every draw has its own k rows for the same last k
columns.  The states, sets of columns, are walked in order of size with the same loops for
all, so the tables of `SmallSets` are built once.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from numba import njit

from permatch.kernels.intrinsics import WIDTH, count_ones, load, lowest_one, splat, store


@njit(cache=True, nogil=True)
def sweep_forward(weights, forward, first, last):
    """Fill ``forward[first:last]``, what is before being filled."""
    for used in range(first, last):
        if used == 0:
            forward[0] = 1.0
            continue
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
def sweep_back(weights, forward, backward, flows, first, last):
    """Fill `backward` from the end, of its entries number ``first .. last - 1`` from there.

    One sweep gives the marginals too: edge (row, col) carries the weight of every path
    through the state before it and the state after it.  `flows` (m, m) gains these,
    without the weight of the edge.
    """
    full = (1 << weights.shape[0]) - 1
    for used in range(full - first, full - last, -1):
        if used == full:
            backward[full] = 1.0
            continue
        row = count_ones(used)
        before = forward[used]
        value = 0.0
        left = full ^ used
        while left:
            col = lowest_one(left)
            bit = 1 << col
            after = backward[used | bit]
            value += weights[row, col] * after
            flows[row, col] += before * after
            left ^= bit
        backward[used] = value


@njit(cache=True, nogil=True)
def to_marginals(weights, permanent, flows):
    """Turn the flows of `sweep_back` into marginals, in place."""
    m = weights.shape[0]
    for i in range(m):
        for j in range(m):
            flows[i, j] = min(flows[i, j] * weights[i, j] / permanent, 1.0)


@njit(cache=True, nogil=True)
def fill_forward(weights, forward):
    """Fill the forward table (2^m); its last entry is the permanent."""
    sweep_forward(weights, forward, 0, 1 << weights.shape[0])


@njit(cache=True, nogil=True)
def permanent_and_marginals(weights, marginals, forward, backward):
    """Fill `marginals`; return the permanent.  The tables are scratch of length 2^m."""
    n_states = 1 << weights.shape[0]
    sweep_forward(weights, forward, 0, n_states)
    marginals[:] = 0.0
    sweep_back(weights, forward, backward, marginals, 0, n_states)
    to_marginals(weights, forward[n_states - 1], marginals)
    return forward[n_states - 1]


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
def fill_minors(minor, sets, forward):
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
def fill_flows(minor, sets, forward, backward, flows):
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
def draw_minor(minor, lane, forward, numbers, cols):
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
