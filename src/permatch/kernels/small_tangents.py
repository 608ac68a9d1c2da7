"""Derivatives of the marginals of many small graphs, one graph per SIMD lane.

The recursions over sets of columns of `subset_dp`, with dual numbers in the place of
floats: beside every sum lies its derivative along the direction of its graph.

    forward[used]   total weight of matching the first |used| rows onto `used`
    backward[used]  total weight of matching the other rows onto the other columns
    flows[i, j]     sum of forward[used] backward[used + j] over all `used` of size i

With weights B, their change B' = B v, and dashes for derivatives,

    p'_ij = (B_ij flows'_ij + B_ij flows_ij (v_ij - permanent' / permanent)) / permanent.

Weights are positive, so sums of them lose nothing; their derivatives are right to rounding
in units of the direction.  Rows and columns are first shifted by their maxima; graphs whose
permanent is tiny all the same are left to others.
"""

from numba import njit

from permatch.kernels.intrinsics import WIDTH, aligned, load, maximum, splat, store
from permatch.kernels.small_batch import FLOOR, SMALL_PERMANENT, exp_in_place


@njit(cache=True, nogil=True)
def _shift(weights, m):
    """Take the maxima of rows, then of columns, off the scores of `WIDTH` graphs."""
    across, along = m * WIDTH, WIDTH
    for _ in range(2):
        for k in range(m):
            begin = k * across
            top = splat(FLOOR)
            for j in range(m):
                top = maximum(top, load(weights, begin + j * along))
            for j in range(m):
                at = begin + j * along
                store(weights, at, load(weights, at) - top)
        across, along = along, across


@njit(cache=True, nogil=True)
def _sweep_forward(weights, changes, sets, m, forward, d_forward):
    store(forward, 0, splat(1.0))
    store(d_forward, 0, splat(0.0))
    for size in range(1, m + 1):
        row = (size - 1) * m
        for p in range(sets.starts[size], sets.starts[size + 1]):
            state = sets.states[p]
            value = splat(0.0)
            slope = splat(0.0)
            for q in range(size):
                col = sets.members[p, q]
                at = (state ^ (1 << col)) * WIDTH
                before = load(forward, at)
                weight = load(weights, (row + col) * WIDTH)
                value = value + weight * before
                slope = slope + weight * load(d_forward, at)
                slope = slope + load(changes, (row + col) * WIDTH) * before
            store(forward, state * WIDTH, value)
            store(d_forward, state * WIDTH, slope)


@njit(cache=True, nogil=True)
def _sweep_back(weights, changes, sets, m, forward, d_forward, backward, d_backward,
                flows, d_flows):  # fmt: skip
    flows[:] = 0.0
    d_flows[:] = 0.0
    full = ((1 << m) - 1) * WIDTH
    store(backward, full, splat(1.0))
    store(d_backward, full, splat(0.0))
    for size in range(m - 1, -1, -1):
        row = size * m
        for p in range(sets.starts[size], sets.starts[size + 1]):
            state = sets.states[p]
            before = load(forward, state * WIDTH)
            d_before = load(d_forward, state * WIDTH)
            value = splat(0.0)
            slope = splat(0.0)
            for q in range(m - size):
                col = sets.others[p, q]
                at = (state | (1 << col)) * WIDTH
                after = load(backward, at)
                d_after = load(d_backward, at)
                edge = (row + col) * WIDTH
                weight = load(weights, edge)
                value = value + weight * after
                slope = slope + weight * d_after + load(changes, edge) * after
                store(flows, edge, load(flows, edge) + before * after)
                gain = before * d_after + d_before * after
                store(d_flows, edge, load(d_flows, edge) + gain)
            store(backward, state * WIDTH, value)
            store(d_backward, state * WIDTH, slope)


@njit(cache=True, nogil=True)
def tangents_in_lanes(scores, directions, sets, tangents, is_hard, first, last):
    """Fill the derivatives of graphs ``first .. last - 1``; mark those left to others."""
    m = scores.shape[1]
    n_entries = m * m
    source = scores.reshape(-1)
    along = directions.reshape(-1)
    target = tangents.reshape(-1)
    weights, changes = aligned(n_entries * WIDTH), aligned(n_entries * WIDTH)
    flows, d_flows = aligned(n_entries * WIDTH), aligned(n_entries * WIDTH)
    n_states = WIDTH << m
    forward, d_forward = aligned(n_states), aligned(n_states)
    backward, d_backward = aligned(n_states), aligned(n_states)
    for begin in range(first, last, WIDTH):
        for lane in range(WIDTH):  # the last group may repeat some graphs
            own = min(begin + lane, last - 1) * n_entries
            for e in range(n_entries):
                weights[e * WIDTH + lane] = source[own + e]
                changes[e * WIDTH + lane] = along[own + e]
        _shift(weights, m)
        exp_in_place(weights, n_entries * WIDTH)
        for e in range(0, n_entries * WIDTH, WIDTH):
            store(changes, e, load(changes, e) * load(weights, e))
        _sweep_forward(weights, changes, sets, m, forward, d_forward)
        _sweep_back(weights, changes, sets, m, forward, d_forward, backward, d_backward,
            flows, d_flows)  # fmt: skip
        full = n_states - WIDTH
        permanent = load(forward, full)
        inverse = splat(1.0) / permanent
        mean = load(d_forward, full) * inverse
        for e in range(0, n_entries * WIDTH, WIDTH):
            weight = load(weights, e)
            slope = weight * load(d_flows, e)
            slope = slope + load(flows, e) * (load(changes, e) - weight * mean)
            store(d_flows, e, slope * inverse)
        for lane in range(min(WIDTH, last - begin)):
            graph = begin + lane
            is_hard[graph] = not forward[full + lane] >= SMALL_PERMANENT
            for e in range(n_entries):
                target[graph * n_entries + e] = d_flows[e * WIDTH + lane] + 0.0
