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

Every term is positive, so nothing cancels.  Both recursions walk the same list of (set, set
without a column).  ``backward[left]`` takes the place of ``forward[used]``, last read on
the way to it: one table of 2^m lanes stays in the fastest cache.

Rows and columns are first shifted by their maxima, which is cheap and nearly always leaves
a permanent of ordinary size and keeps all digits.  Where it does not, assignment prices
take over for that graph.  Lanes never mix, so a result does not depend on which graphs are
worked on together.

Arrays of lanes are flat, ``array[entry * LANES + lane]``.  The parts are inlined into
`infer_stack`, their only caller, which saves compiling them twice.
"""

import math

import numpy as np
from numba import njit

from permatch.kernels.scaling import reduce_one
from permatch.kernels.simd import WIDTH, aligned, load, maximum, power_of_two, splat, store

LANES = 2 * WIDTH  # two registers at a time hide the latency of one

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


@njit(cache=True, nogil=True, inline="always")
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


@njit(cache=True, nogil=True, inline="always")
def list_edges(m):
    """Return the nonempty sets of columns by size, and every way to take one column away.

    Sets of size k are ``sets[first_of[k] : first_of[k + 1]]``; the ways, set by set, are
    given by what is left (`without`) and by the column.  All but `first_of` are offsets
    into lanes.
    """
    n_sets = 1 << m
    first_of = np.empty(m + 2, np.int64)
    sets = np.empty(n_sets, np.int64)
    without = np.empty(m << m >> 1, np.int64)
    column = np.empty(m << m >> 1, np.int64)
    n = 0
    edge = 0
    # by size, so that the inner loops of a sweep have a predictable length
    for k in range(1, m + 1):
        first_of[k] = n
        for used in range(n_sets):
            size = 0
            for col in range(m):
                size += used >> col & 1
            if size != k:
                continue
            sets[n] = used * LANES
            n += 1
            for col in range(m):
                if used >> col & 1:
                    without[edge] = (used ^ 1 << col) * LANES
                    column[edge] = col * LANES
                    edge += 1
    first_of[m + 1] = n
    return first_of, sets, without, column


@njit(cache=True, nogil=True, inline="always")
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


@njit(cache=True, nogil=True, inline="always")
def sweep_forward(weights, m, edges, table):
    """Fill `table` with forward totals; the last entry is the permanent."""
    first_of, sets, without, column = edges
    store(table, 0, splat(1.0))
    store(table, WIDTH, splat(1.0))
    end = np.uint64(0)  # unsigned: Numba then spends no time on negative indices
    for k in range(1, m + 1):
        row = (k - 1) * m * LANES
        for n in range(first_of[k], first_of[k + 1]):
            low = splat(0.0)
            high = splat(0.0)
            begin, end = end, end + np.uint64(k)
            for edge in range(begin, end):
                e = row + column[edge]
                before = without[edge]
                low = low + load(weights, e) * load(table, before)
                high = high + load(weights, e + WIDTH) * load(table, before + WIDTH)
            store(table, sets[n], low)
            store(table, sets[n] + WIDTH, high)


@njit(cache=True, nogil=True, inline="always")
def sweep_backward(weights, m, edges, table, flows):
    """Overwrite forward by backward totals; fill `flows`, marginals times the permanent."""
    first_of, sets, without, column = edges
    for e in range(0, m * m * LANES, WIDTH):
        store(flows, e, splat(0.0))
    full = ((1 << m) - 1) * LANES
    store(table, full, splat(1.0))
    store(table, full + WIDTH, splat(1.0))
    end = np.uint64(0)
    for k in range(1, m + 1):
        row = (m - k) * m * LANES
        for n in range(first_of[k], first_of[k + 1]):
            used = full - sets[n]
            forward_low = load(table, used)
            forward_high = load(table, used + WIDTH)
            low = splat(0.0)
            high = splat(0.0)
            begin, end = end, end + np.uint64(k)
            for edge in range(begin, end):
                e = row + column[edge]
                after = full - without[edge]
                after_low = load(table, after)
                after_high = load(table, after + WIDTH)
                low = low + load(weights, e) * after_low
                high = high + load(weights, e + WIDTH) * after_high
                store(flows, e, load(flows, e) + forward_low * after_low)
                store(flows, e + WIDTH, load(flows, e + WIDTH) + forward_high * after_high)
            store(table, used, low)
            store(table, used + WIDTH, high)
    for e in range(0, m * m * LANES, WIDTH):
        store(flows, e, load(flows, e) * load(weights, e))


@njit(cache=True, nogil=True, inline="always")
def use_prices(scores, weights, lane):
    """Scale one graph by assignment prices instead; return its best score."""
    m = scores.shape[0]
    reduced = np.empty((m, m))
    best = reduce_one(scores, reduced)
    for i in range(m):
        for j in range(m):
            # weights of an infeasible graph only have to do no harm
            weight = math.exp(reduced[i, j]) if best > -np.inf else 1.0
            weights[(i * m + j) * LANES + lane] = weight
    return best


@njit(cache=True, nogil=True)
def infer_stack(scores, log_partitions, marginals, first, last):
    """Fill log-partitions and marginals of graphs ``first .. last - 1``.

    `scores` and `marginals` are (b, m, m), C-contiguous; `log_partitions` is (b,).  A graph
    without a perfect matching gets ``-inf`` and marginals that mean nothing.
    """
    m = scores.shape[1]
    source = scores.reshape(-1)
    target = marginals.reshape(-1)
    full = ((1 << m) - 1) * LANES
    edges = list_edges(m)
    weights = aligned(m * m * LANES)
    flows = aligned(m * m * LANES)
    table = aligned(full + LANES)
    offsets = np.empty(LANES)
    lost = np.empty(LANES)
    depths = np.empty(LANES)
    permanents = np.empty(LANES)
    for begin in range(first, last, LANES):
        n_lanes = min(LANES, last - begin)
        for lane in range(LANES):
            # idle lanes repeat the last graph
            graph = begin + min(lane, n_lanes - 1)
            for e in range(m * m):
                weights[e * LANES + lane] = source[graph * m * m + e]
        for lane in range(0, LANES, WIDTH):
            shift_by_maxima(weights, m, lane, offsets, lost, depths)
        exp_in_place(weights, m * m * LANES)
        is_done = False
        while not is_done:
            sweep_forward(weights, m, edges, table)
            is_done = True
            for lane in range(n_lanes):
                if table[full + lane] < SMALL_PERMANENT or depths[lane] > LARGE_DEPTH:
                    offsets[lane] = use_prices(scores[begin + lane], weights, lane)
                    lost[lane] = 0.0
                    depths[lane] = 0.0
                    is_done = False  # only once: prices make the permanent at least 1
        for lane in range(n_lanes):
            permanents[lane] = table[full + lane]
            log_partitions[begin + lane] = offsets[lane] + (
                lost[lane] + math.log(permanents[lane])
            )
        sweep_backward(weights, m, edges, table, flows)
        for lane in range(n_lanes):
            scale = 1.0 / permanents[lane]
            for e in range(m * m):
                marginal = flows[e * LANES + lane] * scale
                # rounding may carry a certain edge past one
                target[(begin + lane) * m * m + e] = marginal if marginal < 1.0 else 1.0
