"""Exact samples by a walk along the frontier: the tables of the way back, then draws.

`tables` hold for every step of a walk, and every state before it, the total weight of all
that may follow, up to a factor.  So the partner of the node taken at a step is drawn with
probability proportional to the weight of the link times the entry of the state that it
leads to, from the first step to the last.  See `frontier` for the states.

Arrays of all components go together: `stays` and `places` by step, `weights` by link,
`close_weights` by closed node.
"""

import math

import numpy as np
from numba import njit

from permatch.kernels.frontier import fill_weights
from permatch.kernels.frontier_plan import BEFORE, CLOSE, LINK, NODE, OPEN
from permatch.kernels.frontier_steps import LANES, exponent_of, undo_step
from permatch.kernels.intrinsics import aligned, uniform


@njit(cache=True, nogil=True)
def lay_out(steps, step_starts, places):
    """Fill where the table of every step begins; return the length of all."""
    at = LANES
    for t in range(step_starts[-1]):
        places[t] = at
        at += max(1 << steps[t, BEFORE], LANES)
    return at


@njit(cache=True, nogil=True)
def fill_all_weights(
    steps, links, closes, step_starts, walks_right, scores, free_left, free_right,
    stays, weights, close_weights,
):  # fmt: skip
    """Fill the weights of every component."""
    for c in range(len(walks_right)):
        start, stop = step_starts[c], step_starts[c + 1]
        own_free, other_free = free_left, free_right
        if walks_right[c]:
            own_free, other_free = free_right, free_left
        fill_weights(steps, links, scores, own_free, other_free, start, stop,
            stays[start:stop], weights[steps[start, LINK] : steps[stop, LINK]],
        )  # fmt: skip
        for k in range(steps[start, CLOSE], steps[stop, CLOSE]):
            close_weights[k] = math.exp(other_free[closes[k, 1]])


@njit(cache=True, nogil=True)
def make_buffer(steps, start, stop):
    """Return room for the widest table of a walk."""
    length = LANES
    for t in range(start, stop):
        length = max(length, 1 << steps[t, OPEN])
    buffer = aligned(length + 2 * LANES)
    buffer[:LANES] = 0.0
    return buffer


@njit(cache=True, nogil=True)
def fill_back(
    steps, links, closes, other_free, start, stop, stays, weights, places, exponents,
    tables, buffer, first, last,
):  # fmt: skip
    """Fill the tables of the steps that are ``first .. last - 1`` from the end."""
    by_bit, low, flows = np.empty(64), np.empty(3 * LANES), aligned(65 * LANES)
    for n_undone in range(first, last):
        t = stop - 1 - n_undone
        exponent = 0
        if t + 1 == stop:
            buffer[LANES] = 1.0
        else:
            exponent = exponents[t + 1]
            at = places[t + 1]
            n_states = 1 << steps[t + 1, BEFORE]
            buffer[LANES : LANES + n_states] = tables[at : at + n_states]
        new = tables[places[t] - LANES :]
        factor = math.ldexp(1.0, -int(exponent))
        undo_step(steps, links, closes, other_free, t, 0, stays[t], weights, factor, buffer,
            buffer, LANES, new, t - start, by_bit, low, flows)  # fmt: skip
        exponents[t] = exponent_of(new, LANES, 1 << steps[t, BEFORE], t - start, low)


@njit(cache=True, nogil=True)
def fill_components(
    steps, links, closes, step_starts, walks_right, free_left, free_right, stays, weights,
    places, exponents, tables, first, last,
):  # fmt: skip
    """Fill the tables of components ``first .. last - 1``."""
    for c in range(first, last):
        start, stop = step_starts[c], step_starts[c + 1]
        other_free = free_left if walks_right[c] else free_right
        fill_back(steps, links, closes, other_free, start, stop, stays, weights, places,
            exponents, tables, make_buffer(steps, start, stop), 0, stop - start,
        )  # fmt: skip


@njit(cache=True, nogil=True)
def follow(steps, closes, close_weights, t, x):
    """Return the state after the nodes of step t are closed, and the weight of that."""
    width = steps[t, OPEN]
    weight = 1.0
    for k in range(steps[t, CLOSE], steps[t + 1, CLOSE]):
        width -= 1
        bit = closes[k, 0]
        if not x >> bit & 1:
            weight *= close_weights[k]
        x &= ~(1 << bit)
        if x >> width & 1:
            x ^= 1 << width | 1 << bit
    return x, weight


@njit(cache=True, nogil=True)
def _draw_walk(
    steps, links, closes, close_weights, stays, weights, places, tables, start, stop,
    is_right, masses, state, matching,
):  # fmt: skip
    """Draw the matching of one component; return whether there was any to draw."""
    x = 0
    for t in range(start, stop):
        begin, end = steps[t, LINK], steps[t + 1, LINK]
        y, weight = follow(steps, closes, close_weights, t, x)
        if t + 1 < stop:
            weight *= tables[places[t + 1] + y]
        masses[0] = stays[t] * weight
        total = masses[0]
        for at in range(begin, end):
            bit = links[at, 1]
            mass = weights[at]
            if bit < 0:
                mass *= weight
            elif x >> bit & 1:
                mass = 0.0
            else:
                z, factor = follow(steps, closes, close_weights, t, x | 1 << bit)
                mass *= factor
                if t + 1 < stop:
                    mass *= tables[places[t + 1] + z]
            masses[at - begin + 1] = mass
            total += mass
        if not total > 0.0:
            return False
        target = uniform(state) * total
        chosen = 0
        for k in range(end - begin + 1):
            if masses[k] > 0.0:
                chosen = k  # rounding may leave a rest: then the last possible one
                target -= masses[k]
                if target < 0.0:
                    break
        if chosen > 0:
            at = begin + chosen - 1
            if links[at, 1] >= 0:
                x |= 1 << links[at, 1]
            if is_right:
                matching[links[at, 2]] = steps[t, NODE]
            else:
                matching[steps[t, NODE]] = links[at, 2]
        x, weight = follow(steps, closes, close_weights, t, x)
    return True


@njit(cache=True, nogil=True)
def draw(
    steps, links, closes, step_starts, walks_right, close_weights, stays, weights, places,
    tables, state, matchings, first, last,
):  # fmt: skip
    """Draw matchings ``first .. last - 1``, which are -1; return whether all went well."""
    most = 0
    for t in range(step_starts[-1]):
        most = max(most, steps[t + 1, LINK] - steps[t, LINK])
    masses = np.empty(most + 1)
    for s in range(first, last):
        for c in range(len(walks_right)):
            if not _draw_walk(steps, links, closes, close_weights, stays, weights, places,
                tables, step_starts[c], step_starts[c + 1], walks_right[c], masses, state,
                matchings[s]):  # fmt: skip
                return False
    return True
