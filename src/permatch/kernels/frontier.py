"""Log-partition and marginals of components by a walk with a frontier.

The nodes of one side are taken one at a time, as `frontier_plan` says.  The state is the
set of open nodes of the other side that have a partner, as a bit mask.  With weights
exp(score), u of staying unmatched on the walked side and v on the other,

    an open node j joins       its bit is the highest; all new states have weight 0
    node i is taken            new[x] = u_i old[x] + sum_{j in N(i), j in x} w_ij old[x - j]
    node j is closed           new[x] = v_j old[x] + old[x + j],  x without j

Every sum has positive terms only, so nothing cancels.  A node with a single neighbour i has
no bit: it multiplies everything by v, but for the term in which i takes it.  States that
have more bits than nodes taken are skipped, block by block.

The tables are kept.  A sweep backwards over them gives every marginal: edge (i, j) carries
``w_ij old[x] back[x + j]`` over all states x without j.

Scores come reduced by the prices of the best matching, so that weights are at most 1 and
those of the best matching are 1.  Tables are scaled by powers of two, on the way to the
next.  A state lost to underflow weighs nothing as long as the sum over a step of both
tables, each with a largest entry of about 1, does not; `lowest` reports the least.

States go in blocks of 32.  The bits 0 to 2 lie within a vector: a vector loaded from
`bit` elements before has the states without the bit, and weights that are 0 in every other
lane select them.  So the memory around a table must hold finite numbers.
"""

import math

import numpy as np
from numba import njit

from permatch.kernels.frontier_plan import BEFORE, CLOSE, LINK, NODE, OPEN
from permatch.kernels.intrinsics import (
    aligned,
    count_ones,
    lowest_one,
    maximum,
    store,
    vectors,
)
from permatch.kernels.intrinsics import total as sum_of

LANES = 8
load, splat = vectors(LANES)
# States of a block, as a power of two.
_BLOCK_BITS = 5
_BLOCK = 1 << _BLOCK_BITS
_LN2 = math.log(2.0)


@njit(cache=True, nogil=True)
def fill_weights(steps, links, scores, own_free, other_free, first, last, stays, weights):
    """Fill the weights of the links of some steps and of staying unmatched.

    Both with the weights of the nodes with a single neighbour that stay unmatched.
    """
    base = steps[first, LINK]
    for t in range(first, last):
        begin, end = steps[t, LINK], steps[t + 1, LINK]
        stay = math.exp(own_free[steps[t, NODE]])
        all_free = 1.0
        for at in range(begin, end):
            weights[at - base] = math.exp(scores[links[at, 0]])
            if links[at, 1] < 0:
                # Of those before it; those after it follow.
                weights[at - base] *= all_free
                all_free *= math.exp(other_free[links[at, 2]])
        after = 1.0
        for at in range(end - 1, begin - 1, -1):
            if links[at, 1] < 0:
                weights[at - base] *= after
                after *= math.exp(other_free[links[at, 2]])
            else:
                weights[at - base] *= all_free
        stays[t - first] = stay * all_free


@njit(cache=True, nogil=True)
def fill_places(steps, first, last, places):
    """Fill where the tables of a walk begin; return the length of all."""
    at = LANES
    length = 0
    for t in range(first, last):
        places[t - first] = at
        at += max(1 << steps[t, BEFORE], LANES) + LANES
        length = max(length, at + (1 << steps[t, OPEN]) + 2 * LANES)
    places[last - first] = at
    return max(length, at + 2 * LANES)


@njit(cache=True, nogil=True)
def _spread(by_bit, low):
    """Fill the weights of bits 0 to 2 in the lanes whose bit is set, 0 elsewhere."""
    for bit in range(3):
        for lane in range(LANES):
            low[bit * LANES + lane] = by_bit[bit] if lane >> bit & 1 else 0.0


@njit(cache=True, nogil=True)
def _collect(steps, links, weights, t, base, factor, by_bit):
    """Fill the weights of step t by bit; return those of the rest, and the bits."""
    by_bit[:] = 0.0
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
def _take_few(table, at, to, before, opened, bits, stay, by_bit):
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
def _take_blocks(table, at, to, before, opened, bits, stay, by_bit, low, most, must_fill):
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
def _close(table, at, width, bit, weight, low):
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
def _exponent(table, at, n_states, most, low):
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
def sweep_forward(
    steps, links, closes, other_free, start, stays, weights, places, exponents, table,
    first, last,
):  # fmt: skip
    """Take nodes ``first .. last - 1`` of the walk whose steps begin at `start`."""
    base = steps[start, LINK]
    by_bit, low = np.empty(64), np.empty(3 * LANES)
    if first == 0:
        table[: 2 * LANES] = 0.0
        table[places[0]] = 1.0
        exponents[0] = 1
    for n_taken in range(first, last):
        t = start + n_taken
        before, width = steps[t, BEFORE], steps[t, OPEN]
        at, to = places[n_taken], places[n_taken + 1]
        factor = math.ldexp(1.0, -exponents[n_taken])
        rest, bits = _collect(steps, links, weights, t, base, factor, by_bit)
        stay = factor * (stays[n_taken] + rest)
        begin, end = steps[t, CLOSE], steps[t + 1, CLOSE]
        table[to - LANES : to] = 0.0
        if before < _BLOCK_BITS:
            _take_few(table, at, to, before, width, bits, stay, by_bit)
        else:
            must_fill = end > begin or width > before
            _take_blocks(table, at, to, before, width, bits, stay, by_bit, low,
                n_taken + 1, must_fill)  # fmt: skip
        n_states = 1 << width
        table[to + n_states : to + n_states + LANES] = 0.0
        for k in range(begin, end):
            _close(table, to, width, closes[k, 0], math.exp(other_free[closes[k, 1]]), low)
            width -= 1
        exponents[n_taken + 1] = _exponent(table, to, 1 << width, n_taken + 1, low)


@njit(cache=True, nogil=True)
def _open_again(back, at, width, bit, weight, low):
    """Undo `_close` in a table of the sweep backwards; `width` is that before closing."""
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
def _untake_few(table, at, back, new, before, bits, stay, by_bit, flows):
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
def _untake_blocks(table, at, back, new, before, bits, stay, by_bit, low, flows, most):
    """Fill the table before a node is taken, and what passes through its links."""
    for bit in range(3):
        for lane in range(LANES):
            low[bit * LANES + lane] = 0.0 if lane >> bit & 1 else 1.0
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
    store(flows, 64 * LANES, flow)
    store(flows, 0, flow0)
    store(flows, LANES, flow1)
    store(flows, 2 * LANES, flow2)
    store(flows, 3 * LANES, flow3)
    store(flows, 4 * LANES, flow4)


@njit(cache=True, nogil=True)
def _report(steps, links, weights, t, base, stay, flows, marginals, own_out, other_out):
    """Turn what passes through the links of a step into marginals; return their sum."""
    idle = sum_of(load(flows, 64 * LANES))
    total = stay * idle
    for at in range(steps[t, LINK], steps[t + 1, LINK]):
        bit = links[at, 1]
        flow = idle if bit < 0 else sum_of(load(flows, bit * LANES))
        flow *= weights[at - base]
        marginals[links[at, 0]] = flow
        total += flow
    own_out[steps[t, NODE]] = stay * idle / total
    for at in range(steps[t, LINK], steps[t + 1, LINK]):
        share = min(marginals[links[at, 0]] / total, 1.0)
        marginals[links[at, 0]] = share
        other_out[links[at, 2]] -= share
    return total


@njit(cache=True, nogil=True)
def sweep_back(
    steps, links, closes, other_free, start, stays, weights, places, exponents, table,
    buffers, state, marginals, own_out, other_out, first, last,
):  # fmt: skip
    """Undo the steps that are ``first .. last - 1`` from the end of a walk.

    `buffers` has two tables; `state` the number of that in use, its exponent, and log2 of
    the least sum over a step of both tables.
    """
    n_steps = len(places) - 1
    base = steps[start, LINK]
    by_bit, low, flows = np.empty(64), np.empty(3 * LANES), aligned(65 * LANES)
    if first == 0:
        buffers[:, :LANES] = 0.0
        buffers[0, LANES] = 1.0
        state[0], state[1], state[2] = 0, 1, 0
    for n_undone in range(first, last):
        n_taken = n_steps - 1 - n_undone
        t = start + n_taken
        before, width = steps[t, BEFORE], steps[t, OPEN]
        back, new = buffers[state[0]], buffers[1 - state[0]]
        begin, end = steps[t, CLOSE], steps[t + 1, CLOSE]
        n_open = width - (end - begin)
        for k in range(end - 1, begin - 1, -1):
            n_open += 1
            weight = math.exp(other_free[closes[k, 1]])
            back[LANES + (1 << (n_open - 1)) :][:LANES] = 0.0
            _open_again(back, LANES, n_open, closes[k, 0], weight, low)
        n_states = LANES + (1 << width)
        back[n_states : n_states + LANES] = 0.0
        factor = math.ldexp(1.0, -state[1])
        rest, bits = _collect(steps, links, weights, t, base, factor, by_bit)
        stay = factor * (stays[n_taken] + rest)
        flows[:] = 0.0
        at = places[n_taken]
        if before < _BLOCK_BITS:
            _untake_few(table, at, back, new, before, bits, stay, by_bit, flows)
        else:
            _untake_blocks(table, at, back, new, before, bits, stay, by_bit, low, flows,
                n_taken)  # fmt: skip
        total = _report(steps, links, weights, t, base, stays[n_taken], flows, marginals,
            own_out, other_out)  # fmt: skip
        height = math.frexp(total)[1] - exponents[n_taken] - state[1]
        state[2] = min(state[2], height)
        state[0] = 1 - state[0]
        state[1] = _exponent(new, LANES, 1 << before, n_taken, low)


@njit(cache=True, nogil=True)
def log_total(exponents, places, table):
    """Return the log of the last table's only entry."""
    last = len(places) - 1
    value = table[places[last]]
    return math.log(value) + _LN2 * np.sum(exponents[:last])


@njit(cache=True, nogil=True)
def settle_free(steps, links, start, stop, other_free, other_out):
    """Set what rounding leaves of nodes that must be matched, or nearly are, to 0."""
    for at in range(steps[start, LINK], steps[stop, LINK]):
        j = links[at, 2]
        if other_free[j] == -np.inf or other_out[j] < 0.0:
            other_out[j] = 0.0


@njit(cache=True, nogil=True)
def start_walk(steps, links, scores, own_free, other_free, start, stop):
    """Return the weights and the scales of a walk, where its tables begin, their length."""
    n_steps = stop - start
    stays = np.empty(n_steps)
    weights = np.empty(steps[stop, LINK] - steps[start, LINK])
    places = np.empty(n_steps + 1, np.int64)
    exponents = np.empty(n_steps + 1, np.int64)
    fill_weights(steps, links, scores, own_free, other_free, start, stop, stays, weights)
    length = fill_places(steps, start, stop, places)
    return stays, weights, places, exponents, length


@njit(cache=True, nogil=True)
def start_back(steps, start, stop):
    """Return the buffers and the state of the sweep backwards."""
    length = LANES
    for t in range(start, stop):
        length = max(length, 1 << steps[t, OPEN])
    length += 3 * LANES
    return aligned(2 * length).reshape(2, length), np.zeros(3, np.int64)


@njit(cache=True, nogil=True)
def solve_components(
    steps, links, closes, step_starts, walks_right, scores, free_left, free_right,
    logs, lowest, marginals, left_out, right_out, first, last,
):  # fmt: skip
    """Answer components ``first .. last - 1``, each in one go."""
    for c in range(first, last):
        start, stop = step_starts[c], step_starts[c + 1]
        n_steps = stop - start
        own_free, other_free = free_left, free_right
        own_out, other_out = left_out, right_out
        if walks_right[c]:
            own_free, other_free = free_right, free_left
            own_out, other_out = right_out, left_out
        stays, weights, places, exponents, length = start_walk(
            steps, links, scores, own_free, other_free, start, stop
        )
        table = aligned(length)
        sweep_forward(steps, links, closes, other_free, start, stays, weights, places,
            exponents, table, 0, n_steps)  # fmt: skip
        buffers, state = start_back(steps, start, stop)
        sweep_back(steps, links, closes, other_free, start, stays, weights, places,
            exponents, table, buffers, state, marginals, own_out, other_out, 0, n_steps,
        )  # fmt: skip
        settle_free(steps, links, start, stop, other_free, other_out)
        logs[c] = log_total(exponents, places, table)
        lowest[c] = state[2]
