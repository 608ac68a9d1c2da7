"""Log-partition and edge marginals of many small graphs, one graph per SIMD lane.

Rows are matched in the order 0, 1, ..., m - 1.  A state is a set of columns, held as a bit
mask.

    forward[used]   total weight of matching the first |used| rows onto `used`
                    = sum over col in used of weights[|used| - 1, col] forward[used - col]
    backward[left]  total weight of matching the last |left| rows onto `left`
                    = sum over col in left of weights[m - |left|, col] backward[left - col]

With `left` the columns not in `used`, and the sum over all `used` of size `row`,

    permanent            = forward[all columns]
    marginals[row, col]  = weights[row, col] / permanent
                           * sum forward[used] backward[left - col].

Every term is positive, so nothing cancels.  Both recursions are written out for every size
by `unrolled`; their values stay in registers and the fastest cache.

Rows and columns are first shifted by their maxima, which is cheap and nearly always leaves
a permanent of ordinary size and keeps all digits.  Where it does not, assignment prices
take over for that graph.  Lanes never mix, so a result does not depend on which graphs are
worked on together, nor on the width of the machine's vectors.

Only `infer_groups` is compiled for every size; what it calls is compiled once.
"""

import numpy as np
from numba import njit

from permatch.kernels.assignment import reduce_one
from permatch.kernels.intrinsics import (
    WIDTH,
    aligned,
    exponent,
    load,
    maximum,
    minimum,
    power_of_two,
    splat,
    store,
)
from permatch.kernels.unrolled import LANES, from_lanes, sum_over_subsets, to_lanes

# What underflow drops is below 1e-307, hence negligible beside a permanent above this.
SMALL_PERMANENT = 1e-150
# Column maxima this far down are rounded by no more than 1e-12.
LARGE_DEPTH = 1e4
# Below every score, yet a sum of 2 m such numbers is finite.
FLOOR = -1e305

LOWEST_EXPONENT = -709.1  # below 2^-1022: `power_of_two` makes it 0
LOG2_E = 1.4426950408889634
LN2_HIGH = 0.6931471804855391  # short, so that its product with a whole number is exact
LN2_LOW = 7.440617110012397e-11
ROUND = 1.5 * 2.0**52  # adding it rounds to a whole number


@njit(cache=True, nogil=True)
def exp_in_place(x, n):
    """Replace `n` entries, none positive, by their exponentials; 0 where that underflows.

    ``exp(x) = 2^k exp(r)`` with ``|r| <= log(2) / 2``, and a polynomial for exp(r) that is
    right to 0.15 units in the last place.
    """
    for e in range(0, n, WIDTH):
        clipped = maximum(load(x, e), splat(LOWEST_EXPONENT))
        shifted = clipped * splat(LOG2_E) + splat(ROUND)
        k = shifted - splat(ROUND)
        r = (clipped - k * splat(LN2_HIGH)) - k * splat(LN2_LOW)
        p = splat(2.5100424157005067e-08)
        p = p * r + splat(2.7620138719733994e-07)
        p = p * r + splat(2.7557268378684192e-06)
        p = p * r + splat(2.480152119021773e-05)
        p = p * r + splat(0.00019841269863105968)
        p = p * r + splat(0.0013888888917281794)
        p = p * r + splat(0.008333333333330051)
        p = p * r + splat(0.04166666666662399)
        p = p * r + splat(0.16666666666666669)
        p = p * r + splat(0.5)
        p = (p * r * r + r) + splat(1.0)
        store(x, e, p * power_of_two(shifted))


@njit(cache=True, nogil=True)
def log_in_place(x, n):
    """Replace `n` entries, positive and not tiny, by their logarithms.

    ``log(x) = k log(2) + log(1 + f)`` with 1 + f around 1, and FDLIBM's polynomial in
    ``f / (2 + f)``: right to one unit in the last place.
    """
    for e in range(0, n, WIDTH):
        number = load(x, e)
        shifted = exponent(number)
        k = shifted - splat(ROUND)
        f = number * power_of_two(splat(2.0 * ROUND) - shifted) - splat(1.0)
        s = f / (f + splat(2.0))
        z = s * s
        p = splat(0.1479819860511658591)
        p = p * z + splat(0.1531383769920937332)
        p = p * z + splat(0.1818357216161805012)
        p = p * z + splat(0.2222219843214978396)
        p = p * z + splat(0.2857142874366239149)
        p = p * z + splat(0.3999999999940941908)
        p = p * z + splat(0.6666666666666735130)
        half = splat(0.5) * f * f
        rest = s * (p * z + half) + k * splat(LN2_LOW)
        store(x, e, k * splat(LN2_HIGH) - ((half - rest) - f))


@njit(cache=True, nogil=True)
def shift_by_maxima(x, m, lane, offsets, lost, depths):
    """Take the row maxima, then the column maxima, off `WIDTH` graphs beginning at `lane`.

    Their sum goes to `offsets`, what that sum rounds away to `lost` (Knuth's two-sum).
    `depths` gets how far the maximum of a column lay below those of its rows: its rounding
    is in the sum, too.
    """
    total = splat(0.0)
    error = splat(0.0)
    depth = splat(0.0)
    # rows first: that keeps the digits of scores sharing a large offset
    across, along = m * LANES, LANES
    for _ in range(2):
        for k in range(m):
            begin = lane + k * across
            end = begin + m * along
            top = splat(FLOOR)
            for e in range(begin, end, along):
                top = maximum(top, load(x, e))
            for e in range(begin, end, along):
                store(x, e, load(x, e) - top)
            added = total + top
            part = added - total
            error = error + ((total - (added - part)) + (top - part))
            total = added
            if along > across:
                depth = maximum(depth, splat(0.0) - top)
        across, along = along, across
    store(depths, lane, depth)
    store(offsets, lane, total)
    store(lost, lane, error)


@njit(cache=True, nogil=True)
def scale_lanes(flows, n_entries, lane, permanent):
    """Divide flows by the permanents."""
    one = splat(1.0)
    scale = one / permanent
    for e in range(lane, lane + n_entries * LANES, LANES):
        # rounding may carry a certain edge past one
        store(flows, e, minimum(load(flows, e) * scale, one))


@njit(cache=True, nogil=True)
def infer_groups(scores, log_partitions, marginals, is_hard, size):
    """Answer a stack of `LANES` graphs or more; mark those that need prices as hard.

    Compiled once for every size, of which `size` is any tuple.
    """
    n_graphs = scores.shape[0]
    m = len(size)
    n_entries = m * m
    source = scores.reshape(-1)
    target = marginals.reshape(-1)
    weights = aligned(n_entries * LANES)
    flows = aligned(n_entries * LANES)
    offsets = aligned(LANES)
    lost = aligned(LANES)
    depths = aligned(LANES)
    permanents = aligned(LANES)
    for place in range(0, n_graphs, LANES):
        begin = min(place, n_graphs - LANES)  # the last group may repeat some graphs
        to_lanes(source, begin * n_entries, weights, size)
        for lane in range(0, LANES, WIDTH):
            shift_by_maxima(weights, m, lane, offsets, lost, depths)
        exp_in_place(weights, n_entries * LANES)
        for lane in range(0, LANES, WIDTH):
            permanent = sum_over_subsets(weights, flows, lane, size)
            store(permanents, lane, permanent)
            scale_lanes(flows, n_entries, lane, permanent)
        from_lanes(flows, target, begin * n_entries, size)
        for lane in range(LANES):
            is_hard[begin + lane] = (
                permanents[lane] < SMALL_PERMANENT or depths[lane] > LARGE_DEPTH
            )
        log_in_place(permanents, LANES)
        for lane in range(0, LANES, WIDTH):
            log_permanent = load(lost, lane) + load(permanents, lane)
            store(log_partitions, begin + lane, load(offsets, lane) + log_permanent)


@njit(cache=True, nogil=True)
def use_prices(scores, graphs, reduced, offsets):
    """Scale some graphs by assignment prices instead: their permanents are at least 1."""
    for k in range(len(graphs)):
        offsets[k] = reduce_one(scores[graphs[k]], reduced[k])
        if offsets[k] == -np.inf:
            reduced[k] = 0.0  # scores of an infeasible graph only have to do no harm


def infer_stack(scores, log_partitions, marginals, first, last):
    """Fill log-partitions and marginals of graphs ``first .. last - 1``.

    `scores` and `marginals` are (b, m, m), C-contiguous; `log_partitions` is (b,).  A graph
    without a perfect matching gets ``-inf`` and marginals that mean nothing.
    """
    scores, marginals = scores[first:last], marginals[first:last]
    log_partitions = log_partitions[first:last]
    hard = np.flatnonzero(_infer_easy(scores, log_partitions, marginals))
    if len(hard):
        reduced, answers = np.empty((2, len(hard), *scores.shape[1:]))
        offsets, values = np.empty((2, len(hard)))
        use_prices(scores, hard, reduced, offsets)
        _infer_easy(reduced, values, answers)
        log_partitions[hard] = offsets + values
        marginals[hard] = answers


def _infer_easy(scores, log_partitions, marginals):
    """Answer any number of graphs; return which are hard."""
    n_graphs, m = scores.shape[:2]
    if m == 0:
        log_partitions[:] = 0.0
    if n_graphs * m == 0:
        return np.zeros(n_graphs, bool)
    is_hard = np.empty(max(n_graphs, LANES), bool)
    if n_graphs >= LANES:
        infer_groups(scores, log_partitions, marginals, is_hard, (0,) * m)
    else:  # idle lanes repeat the last graph
        padded, answers = np.empty((2, LANES, m, m))
        padded[:n_graphs], padded[n_graphs:] = scores, scores[-1]
        values = np.empty(LANES)
        infer_groups(padded, values, answers, is_hard, (0,) * m)
        log_partitions[:], marginals[:] = values[:n_graphs], answers[:n_graphs]
    return is_hard[:n_graphs]
