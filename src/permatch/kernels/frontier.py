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
"""

import math

import numpy as np
from numba import njit

from permatch.kernels.frontier_plan import BEFORE, CLOSE, LINK, NODE, OPEN
from permatch.kernels.frontier_steps import (
    BLOCK_BITS,
    LANES,
    close_bit,
    collect,
    exponent_of,
    load,
    take_blocks,
    take_few,
    undo_step,
)
from permatch.kernels.intrinsics import aligned
from permatch.kernels.intrinsics import total as sum_of

_LN2 = math.log(2.0)
#: log2 of a sum over a step that may have lost states that count.
LOST = -900


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
def fill_places(steps, start, first, last, places):
    """Fill where the tables of steps ``first .. last`` begin; return the length of all."""
    at = LANES
    length = 0
    for n_taken in range(first, last):
        places[n_taken] = at
        at += max(1 << steps[start + n_taken, BEFORE], LANES) + LANES
        length = max(length, at + (1 << steps[start + n_taken, OPEN]) + 2 * LANES)
    places[last] = at
    return length


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
        factor = math.ldexp(1.0, -int(exponents[n_taken]))
        rest, bits = collect(steps, links, weights, t, base, factor, by_bit)
        stay = factor * (stays[n_taken] + rest)
        begin, end = steps[t, CLOSE], steps[t + 1, CLOSE]
        table[to - LANES : to] = 0.0
        if before < BLOCK_BITS:
            take_few(table, at, to, before, width, bits, stay, by_bit)
        else:
            must_fill = end > begin or width > before
            take_blocks(table, at, to, before, width, bits, stay, by_bit, low,
                n_taken + 1, must_fill)  # fmt: skip
        n_states = 1 << width
        table[to + n_states : to + n_states + LANES] = 0.0
        for k in range(begin, end):
            close_bit(
                table, to, width, closes[k, 0], math.exp(other_free[closes[k, 1]]), low
            )
            width -= 1
        exponents[n_taken + 1] = exponent_of(table, to, 1 << width, n_taken + 1, low)


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
    if not total > 0.0:
        return 0.0
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
        back, new = buffers[state[0]], buffers[1 - state[0]]
        factor = math.ldexp(1.0, -int(state[1]))
        undo_step(steps, links, closes, other_free, t, base, stays[n_taken], weights,
            factor, back, table, places[n_taken], new, n_taken, by_bit, low, flows,
        )  # fmt: skip
        total = _report(steps, links, weights, t, base, stays[n_taken], flows, marginals,
            own_out, other_out)  # fmt: skip
        height = math.frexp(total)[1] - exponents[n_taken] - state[1]
        state[2] = min(state[2], height if total > 0.0 else LOST)
        state[0] = 1 - state[0]
        state[1] = exponent_of(new, LANES, 1 << steps[t, BEFORE], n_taken, low)


@njit(cache=True, nogil=True)
def log_total(exponents, places, table):
    """Return the log of the last table's only entry."""
    last = len(places) - 1
    value = table[places[last]]
    if not value > 0.0:
        return -np.inf
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
    """Return the weights of a walk, and room for the places and scales of its tables."""
    n_steps = stop - start
    stays = np.empty(n_steps)
    weights = np.empty(steps[stop, LINK] - steps[start, LINK])
    places = np.empty(n_steps + 1, np.int64)
    exponents = np.empty(n_steps + 1, np.int64)
    fill_weights(steps, links, scores, own_free, other_free, start, stop, stays, weights)
    return stays, weights, places, exponents


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
        stays, weights, places, exponents = start_walk(
            steps, links, scores, own_free, other_free, start, stop
        )
        table = aligned(fill_places(steps, start, 0, n_steps, places))
        sweep_forward(steps, links, closes, other_free, start, stays, weights, places,
            exponents, table, 0, n_steps)  # fmt: skip
        buffers, state = start_back(steps, start, stop)
        sweep_back(steps, links, closes, other_free, start, stays, weights, places,
            exponents, table, buffers, state, marginals, own_out, other_out, 0, n_steps,
        )  # fmt: skip
        settle_free(steps, links, start, stop, other_free, other_out)
        logs[c] = log_total(exponents, places, table)
        lowest[c] = state[2]
