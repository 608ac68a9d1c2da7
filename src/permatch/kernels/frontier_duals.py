"""Derivatives of the marginals of components along one direction, states side by side.

`frontier_tangents` has many directions in the lanes of a vector; for one direction most
lanes would idle.  Here the lanes are states, as in `frontier`, and every table has its
tangents beside it: `frontier_dual_steps`.

A closed node takes ``v (old'[x] + direction old[x])``, so its direction is added to the
tangents of the states without it.
"""

import math

import numpy as np
from numba import njit

from permatch.kernels.frontier import LOST, fill_places, start_walk
from permatch.kernels.frontier_dual_steps import (
    take_blocks,
    take_few,
    untake_blocks,
    untake_few,
)
from permatch.kernels.frontier_plan import BEFORE, CLOSE, LINK, OPEN
from permatch.kernels.frontier_steps import (
    BLOCK_BITS,
    LANES,
    close_bit,
    collect,
    exponent_of,
    load,
    open_again,
)
from permatch.kernels.frontier_tangents import (
    IDLE,
    collect_slopes,
    direct_options,
    report_tangents,
)
from permatch.kernels.intrinsics import aligned, store
from permatch.kernels.intrinsics import total as sum_of


@njit(cache=True, nogil=True)
def _add_direction(table, tangents, at, width, bit, direction, low):
    """Add ``direction * table`` to the tangents of the states without a bit."""
    if direction == 0.0:
        return
    step, end = 1 << bit, at + (1 << width)
    if width < 3:
        for x in range(end - at):
            if not x & step:
                tangents[at + x] += direction * table[at + x]
        return
    for lane in range(LANES):
        low[lane] = 0.0 if lane & step else direction
    change, length = load(low, 0), max(step, LANES)
    for first in range(at, end, 2 * length if step >= LANES else length):
        for x in range(first, first + length, LANES):
            store(tangents, x, load(tangents, x) + change * load(table, x))


@njit(cache=True, nogil=True)
def _collect(
    steps, links, weights, taken, t, base, stay, stay_dirs, factor, by_bit, slopes, table
):
    """Fill the weights of step t and their derivatives by bit; return the bits.

    What changes no state is kept last.
    """
    rest, bits = collect(steps, links, weights, t, base, factor, by_bit)
    by_bit[IDLE] = factor * (stay + rest)
    n_open = max(steps[t, OPEN], BLOCK_BITS)
    table[: LANES * n_open] = 0.0
    collect_slopes(steps, links, weights, taken, t, base, stay, stay_dirs, factor, table)
    for bit in range(n_open):
        slopes[bit] = table[bit * LANES]
    slopes[IDLE] = table[IDLE * LANES]
    return bits


@njit(cache=True, nogil=True)
def sweep_forward(
    steps, links, closes, other_free, other_dirs, start, stays, weights, stay_dirs, taken,
    places, exponents, table, tangents, first, last,
):  # fmt: skip
    """Take nodes ``first .. last - 1`` of the walk whose steps begin at `start`."""
    base = steps[start, LINK]
    by_bit, slopes, low = np.empty(IDLE + 1), np.empty(IDLE + 1), aligned(6 * LANES)
    collected = aligned((IDLE + 1) * LANES)
    if first == 0:
        table[: 2 * LANES] = 0.0
        tangents[: 2 * LANES] = 0.0
        table[places[0]] = 1.0
        exponents[0] = 1
    for n_taken in range(first, last):
        t = start + n_taken
        before, width = steps[t, BEFORE], steps[t, OPEN]
        at, to, most = places[n_taken], places[n_taken + 1], n_taken + 1
        n_states = 1 << width
        factor = math.ldexp(1.0, -int(exponents[n_taken]))
        bits = _collect(steps, links, weights, taken, t, base, stays[n_taken],
            stay_dirs[n_taken * LANES :], factor, by_bit, slopes, collected)  # fmt: skip
        for own in (table, tangents):
            own[to - LANES : to] = 0.0
        if before < BLOCK_BITS:
            take_few(table, tangents, at, to, before, width, bits, by_bit, slopes)
        else:
            take_blocks(table, tangents, at, to, before, width, bits, by_bit, slopes,
                low, most)  # fmt: skip
        for own in (table, tangents):
            own[to + n_states : to + n_states + LANES] = 0.0
        for k in range(steps[t, CLOSE], steps[t + 1, CLOSE]):
            bit, j = closes[k, 0], closes[k, 1]
            weight = math.exp(other_free[j])
            _add_direction(table, tangents, to, width, bit, other_dirs[j, 0], low)
            for own in (table, tangents):
                close_bit(own, to, width, bit, weight, low)
            width -= 1
        exponents[n_taken + 1] = exponent_of(table, to, 1 << width, most, low)


@njit(cache=True, nogil=True)
def sweep_back(
    steps, links, closes, other_free, other_dirs, start, stays, weights, stay_dirs, taken,
    places, exponents, table, tangents, buffers, buffer_tangents, state, edges_out, own_out,
    other_out, first, last,
):  # fmt: skip
    """Undo the steps that are ``first .. last - 1`` from the end; see `frontier`."""
    n_steps = len(places) - 1
    base = steps[start, LINK]
    by_bit, slopes, low = np.empty(IDLE + 1), np.empty(IDLE + 1), aligned(6 * LANES)
    collected, flow_tangents = aligned((IDLE + 1) * LANES), np.zeros((IDLE + 1) * LANES)
    flows = np.empty(IDLE + 1)
    through, turned = aligned((IDLE + 1) * LANES), aligned((IDLE + 1) * LANES)
    if first == 0:
        for own in (buffers, buffer_tangents):
            own[:, :LANES] = 0.0
        buffers[0, LANES], buffer_tangents[0, LANES] = 1.0, 0.0
        state[0], state[1], state[2] = 0, 1, 0
    for n_undone in range(first, last):
        n_taken = n_steps - 1 - n_undone
        t = start + n_taken
        before, width, at = steps[t, BEFORE], steps[t, OPEN], places[n_taken]
        back, new = buffers[state[0]], buffers[1 - state[0]]
        slope_back, slope_new = buffer_tangents[state[0]], buffer_tangents[1 - state[0]]
        n_open = width - (steps[t + 1, CLOSE] - steps[t, CLOSE])
        for k in range(steps[t + 1, CLOSE] - 1, steps[t, CLOSE] - 1, -1):
            n_open += 1
            bit, j = closes[k, 0], closes[k, 1]
            weight, after = math.exp(other_free[j]), LANES + (1 << (n_open - 1))
            for own in (back, slope_back):
                own[after : after + LANES] = 0.0
                open_again(own, LANES, n_open, bit, weight, low)
            _add_direction(back, slope_back, LANES, n_open, bit, other_dirs[j, 0], low)
        after = LANES + (1 << width)
        for own in (back, slope_back):
            own[after : after + LANES] = 0.0
        factor = math.ldexp(1.0, -int(state[1]))
        own_dirs = stay_dirs[n_taken * LANES :]
        bits = _collect(steps, links, weights, taken, t, base, stays[n_taken], own_dirs,
            factor, by_bit, slopes, collected)  # fmt: skip
        through[:], turned[:] = 0.0, 0.0
        if before < BLOCK_BITS:
            untake_few(table, tangents, at, back, slope_back, new, slope_new, before, bits,
                by_bit, slopes, through, turned)  # fmt: skip
        else:
            untake_blocks(table, tangents, at, back, slope_back, new, slope_new, before,
                bits, by_bit, slopes, through, turned, low, n_taken)  # fmt: skip
        for bit in range(IDLE + 1):
            if bit < width or bit == IDLE:
                flows[bit] = sum_of(load(through, bit * LANES))
                flow_tangents[bit * LANES] = sum_of(load(turned, bit * LANES))
        total = report_tangents(steps, links, weights, taken, t, base, stays[n_taken],
            own_dirs, flows, flow_tangents, edges_out, own_out, other_out)  # fmt: skip
        height = math.frexp(total)[1] - exponents[n_taken] - state[1]
        state[2] = min(state[2], height if total > 0.0 else LOST)
        state[0] = 1 - state[0]
        state[1] = exponent_of(new, LANES, 1 << before, n_taken, low)


@njit(cache=True, nogil=True)
def _start(steps, links, problem, directions, start, stop):
    """Return the weights and the direction of a walk, and the lengths of its tables."""
    stays, weights, places, exponents = start_walk(steps, links, *problem, start, stop)
    stay_dirs, taken = direct_options(steps, links, *directions, start, stop)
    length = fill_places(steps, start, 0, stop - start, places)
    widest = LANES
    for t in range(start, stop):
        widest = max(widest, 1 << steps[t, OPEN])
    lengths = -(-length // LANES) * LANES, widest + 3 * LANES
    return (stays, weights, stay_dirs.ravel(), taken.ravel(), places, exponents), lengths


@njit(cache=True, nogil=True)
def _measure(lengths):
    """Return the length of the room for all tables of a walk."""
    return 2 * lengths[0] + 4 * lengths[1]


@njit(cache=True, nogil=True)
def _divide(room, lengths):
    """Return the tables of a walk and those of the way back, values and tangents each.

    All lie in one room: memory that is taken and given back as one piece stays with the
    process, where several pieces go to the system and come back a page fault at a time.
    """
    length, width = lengths
    table, tangents = room[:length], room[length : 2 * length]
    at = 2 * length
    buffers = room[at : at + 2 * width].reshape(2, width)
    at += 2 * width
    return (table, tangents), (buffers, room[at : at + 2 * width].reshape(2, width))


def start_tangents(steps, links, problem, directions, start, stop):
    """Return the weights and the direction of a walk, and its tables.

    As in `frontier_tangents`; the direction is the first of `LANES` columns, the others
    are 0.
    """
    walk, lengths = _start(steps, links, problem, directions, start, stop)
    # NumPy asks for large pages where compiled code does not.
    room = np.empty(_measure(lengths) + LANES)
    tables, buffers = _divide(room[-(room.ctypes.data >> 3) % LANES :], lengths)
    return walk, tables, buffers, np.zeros(3, np.int64)


@njit(cache=True, nogil=True)
def solve_tangents(
    steps, links, closes, step_starts, walks_right, scores, free_left, free_right,
    edge_dirs, left_dirs, right_dirs, lowest, edges_out, left_out, right_out, first, last,
):  # fmt: skip
    """Fill the derivatives of components ``first .. last - 1``, each in one go."""
    room, state = aligned(0), np.zeros(3, np.int64)
    for c in range(first, last):
        start, stop = step_starts[c], step_starts[c + 1]
        problem = scores, free_left, free_right
        directions = edge_dirs, left_dirs, right_dirs
        outs = edges_out, left_out, right_out
        if walks_right[c]:
            problem = scores, free_right, free_left
            directions = edge_dirs, right_dirs, left_dirs
            outs = edges_out, right_out, left_out
        walk, lengths = _start(steps, links, problem, directions, start, stop)
        if len(room) < _measure(lengths):
            room = aligned(_measure(lengths))
        tables, buffers = _divide(room, lengths)
        rest = problem[2], directions[2], start
        sweep_forward(steps, links, closes, *rest, *walk, *tables, 0, stop - start)
        sweep_back(steps, links, closes, *rest, *walk, *tables, *buffers, state, *outs, 0,
            stop - start)  # fmt: skip
        lowest[c] = state[2]
