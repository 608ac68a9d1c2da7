"""Single steps of the frontier, forwards and backwards, on tables of states.

See `frontier` for the recursions.

States go in blocks of 32.  The bits 0 to 2 lie within a vector: a vector loaded from
`bit` elements before has the states without the bit, and weights that are 0 in every other
lane select them.  So the memory around a table must hold finite numbers.
"""

import math

from numba import njit

from permatch.kernels.frontier_plan import BEFORE, CLOSE, LINK, OPEN
from permatch.kernels.intrinsics import count_ones, lowest_one, maximum, store, vectors

LANES = 8
load, splat = vectors(LANES)
# States of a block, as a power of two.
BLOCK_BITS = 5
_BLOCK = 1 << BLOCK_BITS


@njit(cache=True, nogil=True)
def _spread(by_bit, low):
    """Fill the weights of bits 0 to 2 in the lanes whose bit is set, 0 elsewhere."""
    for bit in range(3):
        for lane in range(LANES):
            low[bit * LANES + lane] = by_bit[bit] if lane >> bit & 1 else 0.0


@njit(cache=True, nogil=True)
def collect(steps, links, weights, t, base, factor, by_bit):
    """Fill the weights of step t by bit; return those of the rest, and the bits."""
    by_bit[: max(steps[t, OPEN], BLOCK_BITS)] = 0.0
    rest = 0.0
    bits = 0
    for at in range(steps[t, LINK], steps[t + 1, LINK]):
        bit = links[at, 1]
        if bit < 0:
            rest += weights[at - base]
        else:
            by_bit[bit] = factor * weights[at - base]
            bits |= 1 << bit
    return rest, bits


@njit(cache=True, nogil=True)
def take_few(table, at, to, before, opened, bits, stay, by_bit):
    """Take a node whose table has less than a block."""
    n_states = 1 << before
    table[to + n_states : to + (1 << opened)] = 0.0
    for x in range(n_states):
        value = stay * table[at + x]
        left = x & bits
        while left:
            bit = lowest_one(left)
            value += by_bit[bit] * table[at + x - (1 << bit)]
            left &= left - 1
        table[to + x] = value
    for bit in range(before, opened):
        for x in range(n_states):
            table[to + (1 << bit) + x] = by_bit[bit] * table[at + x]


@njit(cache=True, nogil=True)
def take_blocks(table, at, to, before, opened, bits, stay, by_bit, low, most, must_fill):
    """Take a node; blocks with more than `most` bits are skipped, or 0 if they must be."""
    n_states = 1 << before
    table[to + n_states : to + (1 << opened)] = 0.0
    _spread(by_bit, low)
    zero = splat(0.0)
    low0, low1, low2 = load(low, 0), load(low, LANES), load(low, 2 * LANES)
    w3, w4, free = splat(by_bit[3]), splat(by_bit[4]), splat(stay)
    high = bits & (n_states - 1) & ~(_BLOCK - 1)
    for block in range(0, n_states, _BLOCK):
        end = to + block
        n_ones = count_ones(block)
        if n_ones > most:
            if must_fill or n_ones == most + 1:
                store(table, end, zero)
                store(table, end + 8, zero)
                store(table, end + 16, zero)
            store(table, end + 24, zero)  # the next block loads from here on, times 0
            continue
        here = at + block
        old0, old1 = load(table, here), load(table, here + 8)
        old2, old3 = load(table, here + 16), load(table, here + 24)
        new0 = free * old0 + low0 * load(table, here - 1)
        new1 = free * old1 + low0 * load(table, here + 7)
        new2 = free * old2 + low0 * load(table, here + 15)
        new3 = free * old3 + low0 * load(table, here + 23)
        new0 = new0 + low1 * load(table, here - 2)
        new1 = new1 + low1 * load(table, here + 6)
        new2 = new2 + low1 * load(table, here + 14)
        new3 = new3 + low1 * load(table, here + 22)
        new0 = new0 + low2 * load(table, here - 4)
        new1 = new1 + low2 * load(table, here + 4)
        new2 = new2 + low2 * load(table, here + 12)
        new3 = new3 + low2 * load(table, here + 20)
        new1 = new1 + w3 * old0
        new3 = new3 + w3 * old2
        new2 = new2 + w4 * old0
        new3 = new3 + w4 * old1
        left = block & high
        while left:
            bit = lowest_one(left)
            left &= left - 1
            weight = splat(by_bit[bit])
            source = here - (1 << bit)
            new0 = new0 + weight * load(table, source)
            new1 = new1 + weight * load(table, source + 8)
            new2 = new2 + weight * load(table, source + 16)
            new3 = new3 + weight * load(table, source + 24)
        store(table, end, new0)
        store(table, end + 8, new1)
        store(table, end + 16, new2)
        store(table, end + 24, new3)
        for bit in range(before, opened):
            weight = splat(by_bit[bit])
            joined = end + (1 << bit)
            store(table, joined, weight * old0)
            store(table, joined + 8, weight * old1)
            store(table, joined + 16, weight * old2)
            store(table, joined + 24, weight * old3)


@njit(cache=True, nogil=True)
def close_bit(table, at, width, bit, weight, low):
    """Close the node of a bit; the node of the highest bit takes the bit over."""
    top = 1 << (width - 1)
    step = 1 << bit
    if top < LANES:
        for x in range(top):
            if bit == width - 1:
                table[at + x] = weight * table[at + x] + table[at + x + top]
            elif not x & step:
                here, there = at + x, at + x + step
                table[here] = weight * table[here] + table[there]
                table[there] = weight * table[here + top] + table[there + top]
        return
    free = splat(weight)
    if bit == width - 1:
        for x in range(at, at + top, LANES):
            store(table, x, free * load(table, x) + load(table, x + top))
    elif bit >= 3:
        for first in range(at, at + top, 2 * step):
            for here in range(first, first + step, LANES):
                there = here + step
                store(table, here, free * load(table, here) + load(table, there))
                value = free * load(table, here + top) + load(table, there + top)
                store(table, there, value)
    else:
        for lane in range(LANES):
            low[lane] = 0.0 if lane & step else 1.0
            low[LANES + lane] = 1.0 if lane & step else 0.0
        without, having = load(low, 0), load(low, LANES)
        for here in range(at, at + top, LANES):
            one = free * load(table, here) + load(table, here + step)
            other = free * load(table, here + top - step) + load(table, here + top)
            store(table, here, without * one + having * other)


@njit(cache=True, nogil=True)
def exponent_of(table, at, n_states, most, low):
    """Return n with the largest entry from 2^(n-1) to 2^n; 0 if all are 0.

    Blocks with more than `most` bits are skipped.
    """
    largest = 0.0
    if n_states < _BLOCK:
        for x in range(n_states):
            largest = max(largest, table[at + x])
        return math.frexp(largest)[1]
    top0, top1 = splat(0.0), splat(0.0)
    for block in range(0, n_states, _BLOCK):
        if count_ones(block) <= most:
            x = at + block
            top0 = maximum(maximum(load(table, x), load(table, x + 8)), top0)
            top1 = maximum(maximum(load(table, x + 16), load(table, x + 24)), top1)
    store(low, 0, maximum(top0, top1))
    for lane in range(LANES):
        largest = max(largest, low[lane])
    return math.frexp(largest)[1]


@njit(cache=True, nogil=True)
def open_again(back, at, width, bit, weight, low):
    """Undo `close_bit` on the way back; `width` is that before closing."""
    top = 1 << (width - 1)
    step = 1 << bit
    if top < LANES:
        for x in range(top):
            here, there = at + x, at + x + step
            if bit == width - 1:
                back[there] = back[here]
                back[here] *= weight
            elif not x & step:
                one, other = back[here], back[there]
                back[here], back[there] = weight * one, one
                back[here + top], back[there + top] = weight * other, other
        return
    free = splat(weight)
    if bit == width - 1:
        for here in range(at, at + top, LANES):
            one = load(back, here)
            store(back, here, free * one)
            store(back, here + top, one)
    elif bit >= 3:
        for first in range(at, at + top, 2 * step):
            for here in range(first, first + step, LANES):
                there = here + step
                one, other = load(back, here), load(back, there)
                store(back, here, free * one)
                store(back, there, one)
                store(back, here + top, free * other)
                store(back, there + top, other)
    else:
        for lane in range(LANES):
            low[lane] = 0.0 if lane & step else weight
            low[LANES + lane] = 1.0 if lane & step else 0.0
        without, having = load(low, 0), load(low, LANES)
        for here in range(at, at + top, LANES):
            value = load(back, here)
            after, before = load(back, here + step), load(back, here - step)
            store(back, here, without * value + having * before)
            store(back, here + top, without * after + having * value)


@njit(cache=True, nogil=True)
def untake_few(table, at, back, new, before, bits, stay, by_bit, flows):
    """Fill the table before a node is taken, and what passes through its links."""
    for x in range(1 << before):
        value = back[LANES + x]
        weight = table[at + x]
        flows[64 * LANES] += weight * value
        value *= stay
        left = bits & ~x
        while left:
            bit = lowest_one(left)
            after = back[LANES + x + (1 << bit)]
            value += by_bit[bit] * after
            flows[bit * LANES] += weight * after
            left &= left - 1
        new[LANES + x] = value


@njit(cache=True, nogil=True)
def _fill_unset(low):
    """Fill ones where a lane lacks one of its three bits."""
    for bit in range(3):
        for lane in range(LANES):
            low[bit * LANES + lane] = 0.0 if lane >> bit & 1 else 1.0


@njit(cache=True, nogil=True)
def _store_flows(flows, flow, flow0, flow1, flow2, flow3, flow4):
    store(flows, 64 * LANES, flow)
    store(flows, 0, flow0)
    store(flows, LANES, flow1)
    store(flows, 2 * LANES, flow2)
    store(flows, 3 * LANES, flow3)
    store(flows, 4 * LANES, flow4)


@njit(cache=True, nogil=True)
def untake_blocks(table, at, back, new, before, bits, stay, by_bit, low, flows, most):
    """Fill the table before a node is taken, and what passes through its links."""
    _fill_unset(low)
    zero = splat(0.0)
    low0, low1, low2 = load(low, 0), load(low, LANES), load(low, 2 * LANES)
    w0, w1, w2 = splat(by_bit[0]), splat(by_bit[1]), splat(by_bit[2])
    w3, w4, free = splat(by_bit[3]), splat(by_bit[4]), splat(stay)
    flow, flow0, flow1, flow2, flow3, flow4 = zero, zero, zero, zero, zero, zero
    high = bits & ~(_BLOCK - 1)
    for block in range(0, 1 << before, _BLOCK):
        here = LANES + block
        if count_ones(block) > most:
            for k in range(0, _BLOCK, LANES):
                store(new, here + k, zero)
            continue
        source = at + block
        old0, old1 = load(table, source), load(table, source + 8)
        old2, old3 = load(table, source + 16), load(table, source + 24)
        back0, back1 = load(back, here), load(back, here + 8)
        back2, back3 = load(back, here + 16), load(back, here + 24)
        flow = flow + (old0 * back0 + old1 * back1 + old2 * back2 + old3 * back3)
        one0, one1 = low0 * load(back, here + 1), low0 * load(back, here + 9)
        one2, one3 = low0 * load(back, here + 17), low0 * load(back, here + 25)
        flow0 = flow0 + (old0 * one0 + old1 * one1 + old2 * one2 + old3 * one3)
        new0, new1 = free * back0 + w0 * one0, free * back1 + w0 * one1
        new2, new3 = free * back2 + w0 * one2, free * back3 + w0 * one3
        one0, one1 = low1 * load(back, here + 2), low1 * load(back, here + 10)
        one2, one3 = low1 * load(back, here + 18), low1 * load(back, here + 26)
        flow1 = flow1 + (old0 * one0 + old1 * one1 + old2 * one2 + old3 * one3)
        new0, new1 = new0 + w1 * one0, new1 + w1 * one1
        new2, new3 = new2 + w1 * one2, new3 + w1 * one3
        one0, one1 = low2 * load(back, here + 4), low2 * load(back, here + 12)
        one2, one3 = low2 * load(back, here + 20), low2 * load(back, here + 28)
        flow2 = flow2 + (old0 * one0 + old1 * one1 + old2 * one2 + old3 * one3)
        new0, new1 = new0 + w2 * one0, new1 + w2 * one1
        new2, new3 = new2 + w2 * one2, new3 + w2 * one3
        flow3 = flow3 + (old0 * back1 + old2 * back3)
        flow4 = flow4 + (old0 * back2 + old1 * back3)
        new0 = new0 + w3 * back1 + w4 * back2
        new1 = new1 + w4 * back3
        new2 = new2 + w3 * back3
        left = high & ~block
        while left:
            bit = lowest_one(left)
            left &= left - 1
            weight = splat(by_bit[bit])
            there = here + (1 << bit)
            one0, one1 = load(back, there), load(back, there + 8)
            one2, one3 = load(back, there + 16), load(back, there + 24)
            new0 = new0 + weight * one0
            new1 = new1 + weight * one1
            new2 = new2 + weight * one2
            new3 = new3 + weight * one3
            one0 = old0 * one0 + old1 * one1
            one2 = old2 * one2 + old3 * one3
            store(flows, bit * LANES, load(flows, bit * LANES) + (one0 + one2))
        store(new, here, new0)
        store(new, here + 8, new1)
        store(new, here + 16, new2)
        store(new, here + 24, new3)
    _store_flows(flows, flow, flow0, flow1, flow2, flow3, flow4)


@njit(cache=True, nogil=True)
def undo_step(
    steps, links, closes, other_free, t, base, stay, weights, factor, back, table, at, new,
    most, by_bit, low, flows,
):  # fmt: skip
    """Fill `new` with the table before step t from that after it, which is in `back`.

    Tables begin at the element `LANES` of both; `flows` is what passes through the bits of
    step t, and last what does not change the state, given `table` of the way there.
    """
    before, width = steps[t, BEFORE], steps[t, OPEN]
    begin, end = steps[t, CLOSE], steps[t + 1, CLOSE]
    n_open = width - (end - begin)
    for k in range(end - 1, begin - 1, -1):
        n_open += 1
        after = LANES + (1 << (n_open - 1))
        back[after : after + LANES] = 0.0
        weight = math.exp(other_free[closes[k, 1]])
        open_again(back, LANES, n_open, closes[k, 0], weight, low)
    after = LANES + (1 << width)
    back[after : after + LANES] = 0.0
    rest, bits = collect(steps, links, weights, t, base, factor, by_bit)
    stay = factor * (stay + rest)
    flows[: LANES * max(width, BLOCK_BITS)] = 0.0
    flows[64 * LANES :] = 0.0
    if before < BLOCK_BITS:
        untake_few(table, at, back, new, before, bits, stay, by_bit, flows)
    else:
        untake_blocks(table, at, back, new, before, bits, stay, by_bit, low, flows, most)
