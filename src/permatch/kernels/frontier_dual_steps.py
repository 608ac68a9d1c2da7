"""Steps of the frontier with one derivative beside every value, forwards and backwards.

The steps of `frontier_steps` on two tables at once, values and tangents.  With w' the
derivative of a weight w, and dashes likewise for tables,

    taken       new'[x] = u old'[x] + u' old[x]
                          + sum_j ( w_j old'[x - j] + w'_j old[x - j] )
    undone      new'[x] = u back'[x] + u' back[x]
                          + sum_j ( w_j back'[x + j] + w'_j back[x + j] )
    flow of j   sum over x of old[x] back[x + j],  and of
                old'[x] back[x + j] + old[x] back'[x + j]

Every table is read once a step: large ones do not fit into the cache.  States go in blocks
of 16; weights are kept by bit, `IDLE` for what changes no state.
"""

from numba import njit

from permatch.kernels.frontier_steps import LANES, load, splat
from permatch.kernels.frontier_tangents import IDLE
from permatch.kernels.intrinsics import count_ones, lowest_one, store

_BLOCK = 2 * LANES


@njit(cache=True, nogil=True)
def _spread(by_bit, is_set, low):
    """Fill the weights of bits 0 to 2 in the lanes whose bit is set, or is not."""
    for bit in range(3):
        for lane in range(LANES):
            low[bit * LANES + lane] = by_bit[bit] if (lane >> bit & 1) == is_set else 0.0


@njit(cache=True, nogil=True, inline="always")
def _beside(table, at, step, one, two, three):
    """Return the three neighbours of a vector whose states differ in bits 0 to 2."""
    value = one * load(table, at + step) + two * load(table, at + 2 * step)
    return value + three * load(table, at + 4 * step)


@njit(cache=True, nogil=True)
def take_few(table, tangents, at, to, before, opened, bits, by_bit, slopes):
    """Take a node whose tables have less than a block of `frontier_steps`."""
    n_states = 1 << before
    table[to + n_states : to + (1 << opened)] = 0.0
    tangents[to + n_states : to + (1 << opened)] = 0.0
    for x in range(at, at + n_states):
        value = by_bit[IDLE] * table[x]
        tangent = by_bit[IDLE] * tangents[x] + slopes[IDLE] * table[x]
        left = (x - at) & bits
        while left:
            bit = lowest_one(left)
            left &= left - 1
            old = table[x - (1 << bit)]
            value += by_bit[bit] * old
            tangent += by_bit[bit] * tangents[x - (1 << bit)] + slopes[bit] * old
        table[to + x - at] = value
        tangents[to + x - at] = tangent
        for bit in range(before, opened):
            joined = to + x - at + (1 << bit)
            table[joined] = by_bit[bit] * table[x]
            tangents[joined] = by_bit[bit] * tangents[x] + slopes[bit] * table[x]


@njit(cache=True, nogil=True)
def take_blocks(table, tangents, at, to, before, opened, bits, by_bit, slopes, low, most):
    """Take a node; blocks with more than `most` bits are 0."""
    n_states = 1 << before
    table[to + n_states : to + (1 << opened)] = 0.0
    tangents[to + n_states : to + (1 << opened)] = 0.0
    changed = low[3 * LANES :]
    _spread(by_bit, 1, low)
    _spread(slopes, 1, changed)
    zero, free, change = splat(0.0), splat(by_bit[IDLE]), splat(slopes[IDLE])
    w0, w1, w2 = load(low, 0), load(low, LANES), load(low, 2 * LANES)
    d0, d1, d2 = load(changed, 0), load(changed, LANES), load(changed, 2 * LANES)
    w3, d3 = splat(by_bit[3]), splat(slopes[3])
    high = bits & (n_states - 1) & ~(_BLOCK - 1)
    for block in range(0, n_states, _BLOCK):
        here, end = at + block, to + block
        if count_ones(block) > most:
            for own in (table, tangents):
                store(own, end, zero)
                store(own, end + LANES, zero)
            continue
        there = here + LANES
        old0, old1 = load(table, here), load(table, there)
        tan0, tan1 = load(tangents, here), load(tangents, there)
        new0 = free * old0 + _beside(table, here, -1, w0, w1, w2)
        new1 = free * old1 + _beside(table, there, -1, w0, w1, w2) + w3 * old0
        sum0 = free * tan0 + change * old0 + _beside(tangents, here, -1, w0, w1, w2)
        sum1 = free * tan1 + change * old1 + _beside(tangents, there, -1, w0, w1, w2)
        sum0 = sum0 + _beside(table, here, -1, d0, d1, d2)
        sum1 = sum1 + _beside(table, there, -1, d0, d1, d2) + (w3 * tan0 + d3 * old0)
        left = block & high
        while left:
            bit = lowest_one(left)
            left &= left - 1
            weight, slope, source = (
                splat(by_bit[bit]),
                splat(slopes[bit]),
                here - (1 << bit),
            )
            one0, one1 = load(table, source), load(table, source + LANES)
            new0 = new0 + weight * one0
            new1 = new1 + weight * one1
            sum0 = sum0 + weight * load(tangents, source) + slope * one0
            sum1 = sum1 + weight * load(tangents, source + LANES) + slope * one1
        store(table, end, new0)
        store(table, end + LANES, new1)
        store(tangents, end, sum0)
        store(tangents, end + LANES, sum1)
        for bit in range(before, opened):
            weight, slope, joined = splat(by_bit[bit]), splat(slopes[bit]), end + (1 << bit)
            store(table, joined, weight * old0)
            store(table, joined + LANES, weight * old1)
            store(tangents, joined, weight * tan0 + slope * old0)
            store(tangents, joined + LANES, weight * tan1 + slope * old1)


@njit(cache=True, nogil=True)
def untake_few(
    table, tangents, at, back, slope_back, new, slope_new, before, bits, by_bit, slopes,
    flows, slope_flows,
):  # fmt: skip
    """Fill the tables before a node is taken, and what passes through its links."""
    for x in range(1 << before):
        old, tangent, here = table[at + x], tangents[at + x], LANES + x
        flows[IDLE * LANES] += old * back[here]
        slope_flows[IDLE * LANES] += old * slope_back[here] + tangent * back[here]
        value = by_bit[IDLE] * back[here]
        slope = by_bit[IDLE] * slope_back[here] + slopes[IDLE] * back[here]
        left = bits & ~x
        while left:
            bit = lowest_one(left)
            left &= left - 1
            after, slope_after = back[here + (1 << bit)], slope_back[here + (1 << bit)]
            value += by_bit[bit] * after
            slope += by_bit[bit] * slope_after + slopes[bit] * after
            flows[bit * LANES] += old * after
            slope_flows[bit * LANES] += old * slope_after + tangent * after
        new[here], slope_new[here] = value, slope


@njit(cache=True, nogil=True)
def _store_flows(flows, flow, flow0, flow1, flow2, flow3, low):
    """Store what passes through bits 0 to 3 and what is idle, of lanes without the bit."""
    store(flows, IDLE * LANES, flow)
    store(flows, 0, load(low, 0) * flow0)
    store(flows, LANES, load(low, LANES) * flow1)
    store(flows, 2 * LANES, load(low, 2 * LANES) * flow2)
    store(flows, 3 * LANES, flow3)


@njit(cache=True, nogil=True)
def untake_blocks(
    table, tangents, at, back, slope_back, new, slope_new, before, bits, by_bit, slopes,
    flows, slope_flows, low, most,
):  # fmt: skip
    """Fill the tables before a node is taken, and what passes through its links."""
    changed = low[3 * LANES :]
    _spread(by_bit, 0, low)
    _spread(slopes, 0, changed)
    zero, free, change = splat(0.0), splat(by_bit[IDLE]), splat(slopes[IDLE])
    w0, w1, w2 = load(low, 0), load(low, LANES), load(low, 2 * LANES)
    d0, d1, d2 = load(changed, 0), load(changed, LANES), load(changed, 2 * LANES)
    w3, d3 = splat(by_bit[3]), splat(slopes[3])
    flow, flow0, flow1, flow2, flow3 = zero, zero, zero, zero, zero
    slope, slope0, slope1, slope2, slope3 = zero, zero, zero, zero, zero
    high = bits & ~(_BLOCK - 1)
    for block in range(0, 1 << before, _BLOCK):
        here, there, source = LANES + block, 2 * LANES + block, at + block
        if count_ones(block) > most:
            for own in (new, slope_new):
                store(own, here, zero)
                store(own, there, zero)
            continue
        old0, old1 = load(table, source), load(table, source + LANES)
        tan0, tan1 = load(tangents, source), load(tangents, source + LANES)
        one0, one1 = load(back, here), load(back, there)
        two0, two1 = load(slope_back, here), load(slope_back, there)
        flow = flow + (old0 * one0 + old1 * one1)
        slope = slope + (old0 * two0 + old1 * two1) + (tan0 * one0 + tan1 * one1)
        flow3 = flow3 + old0 * one1
        slope3 = slope3 + (old0 * two1 + tan0 * one1)
        new0, new1 = free * one0 + w3 * one1, free * one1
        sum0 = free * two0 + change * one0 + (w3 * two1 + d3 * one1)
        sum1 = free * two1 + change * one1

        one0, one1 = load(back, here + 1), load(back, there + 1)
        two0, two1 = load(slope_back, here + 1), load(slope_back, there + 1)
        flow0 = flow0 + (old0 * one0 + old1 * one1)
        slope0 = slope0 + (old0 * two0 + old1 * two1) + (tan0 * one0 + tan1 * one1)
        new0, new1 = new0 + w0 * one0, new1 + w0 * one1
        sum0, sum1 = sum0 + w0 * two0 + d0 * one0, sum1 + w0 * two1 + d0 * one1

        one0, one1 = load(back, here + 2), load(back, there + 2)
        two0, two1 = load(slope_back, here + 2), load(slope_back, there + 2)
        flow1 = flow1 + (old0 * one0 + old1 * one1)
        slope1 = slope1 + (old0 * two0 + old1 * two1) + (tan0 * one0 + tan1 * one1)
        new0, new1 = new0 + w1 * one0, new1 + w1 * one1
        sum0, sum1 = sum0 + w1 * two0 + d1 * one0, sum1 + w1 * two1 + d1 * one1

        one0, one1 = load(back, here + 4), load(back, there + 4)
        two0, two1 = load(slope_back, here + 4), load(slope_back, there + 4)
        flow2 = flow2 + (old0 * one0 + old1 * one1)
        slope2 = slope2 + (old0 * two0 + old1 * two1) + (tan0 * one0 + tan1 * one1)
        new0, new1 = new0 + w2 * one0, new1 + w2 * one1
        sum0, sum1 = sum0 + w2 * two0 + d2 * one0, sum1 + w2 * two1 + d2 * one1

        left = high & ~block
        while left:
            bit = lowest_one(left)
            left &= left - 1
            weight, turn = splat(by_bit[bit]), splat(slopes[bit])
            after = here + (1 << bit)
            one0, one1 = load(back, after), load(back, after + LANES)
            two0, two1 = load(slope_back, after), load(slope_back, after + LANES)
            new0, new1 = new0 + weight * one0, new1 + weight * one1
            sum0 = sum0 + weight * two0 + turn * one0
            sum1 = sum1 + weight * two1 + turn * one1
            through = load(flows, bit * LANES) + (old0 * one0 + old1 * one1)
            store(flows, bit * LANES, through)
            through = (old0 * two0 + old1 * two1) + (tan0 * one0 + tan1 * one1)
            store(slope_flows, bit * LANES, load(slope_flows, bit * LANES) + through)
        store(new, here, new0)
        store(new, there, new1)
        store(slope_new, here, sum0)
        store(slope_new, there, sum1)
    for bit in range(3):
        for lane in range(LANES):
            low[bit * LANES + lane] = 0.0 if lane >> bit & 1 else 1.0
    _store_flows(flows, flow, flow0, flow1, flow2, flow3, low)
    _store_flows(slope_flows, slope, slope0, slope1, slope2, slope3, low)
