"""Directional derivatives of the marginals of components, by dual numbers.

The walk of `frontier` with every number a dual one: a value, and its derivatives in `LANES`
directions side by side in a vector.  With w' = w * direction the derivative of a weight,

    node i is taken      new'[x] = u_i old'[x] + u_i' old[x]
                                   + sum_j ( w_ij old'[x - j] + w_ij' old[x - j] )
    node j is closed     new'[x] = v_j old'[x] + v_j' old[x] + old'[x + j]

and likewise on the way back.  What passes through edge (i, j), the sum f of
``w_ij old[x] back[x + j]``, has a derivative by the product rule, and the marginal f / Z
has ``(f' - (f / Z) Z') / Z``.  Values and derivatives share the powers of two by which
tables are scaled.  Directions are to be 0 on the best matching, so that large parts common
to all matchings do not cancel.

About two fused products per direction for each one of the walk without derivatives, and
`LANES` + 1 times its tables.
"""

import math

import numpy as np
from numba import njit

from permatch.kernels.frontier import LOST, start_walk
from permatch.kernels.frontier_plan import BEFORE, CLOSE, LINK, NODE, OPEN
from permatch.kernels.frontier_steps import LANES, collect, exponent_of, load, splat
from permatch.kernels.intrinsics import aligned, count_ones, lowest_one, store

#: What does not change the state is kept behind the 64 bits.
IDLE = 64


@njit(cache=True, nogil=True)
def direct_options(steps, links, edges, own, other, start, stop):
    """Return the directions of staying unmatched at every step, and of every link.

    Both with those of the nodes with a single neighbour that stay unmatched meanwhile.
    """
    base, n_lanes = steps[start, LINK], edges.shape[1]
    stays = np.empty((stop - start, n_lanes))
    taken = np.empty((steps[stop, LINK] - base, n_lanes))
    for t in range(start, stop):
        begin, end = steps[t, LINK], steps[t + 1, LINK]
        for k in range(n_lanes):
            free = 0.0
            for at in range(begin, end):
                if links[at, 1] < 0:
                    free += other[links[at, 2], k]
            for at in range(begin, end):
                own_free = other[links[at, 2], k] if links[at, 1] < 0 else 0.0
                taken[at - base, k] = edges[links[at, 0], k] + (free - own_free)
            stays[t - start, k] = own[steps[t, NODE], k] + free
    return stays, taken


@njit(cache=True, nogil=True)
def collect_slopes(steps, links, weights, taken, t, base, stay, stay_dirs, factor, slopes):
    """Fill the derivatives of the weights of step t by bit, and of what is idle last."""
    idle = splat(factor * stay) * load(stay_dirs, 0)
    for at in range(steps[t, LINK], steps[t + 1, LINK]):
        slope = splat(factor * weights[at - base]) * load(taken, (at - base) * LANES)
        if links[at, 1] < 0:
            idle = idle + slope
        else:
            store(slopes, links[at, 1] * LANES, slope)
    store(slopes, IDLE * LANES, idle)


@njit(cache=True, nogil=True)
def _take(table, tangents, at, to, before, opened, bits, stay, by_bit, slopes, most):
    """Take a node; states with more than `most` bits are 0."""
    n_before = 1 << before
    zero = splat(0.0)
    idle, keep = load(slopes, IDLE * LANES), splat(stay)
    for x in range(1 << opened):
        value, tangent = 0.0, zero
        if count_ones(x) <= most:
            if x < n_before:
                old = table[at + x]
                value = stay * old
                tangent = keep * load(tangents, (at + x) * LANES) + idle * splat(old)
            left = x & bits
            while left:
                bit = lowest_one(left)
                left &= left - 1
                source = at + x - (1 << bit)
                if source < at + n_before:
                    old, weight = table[source], by_bit[bit]
                    value += weight * old
                    tangent = tangent + splat(weight) * load(tangents, source * LANES)
                    tangent = tangent + load(slopes, bit * LANES) * splat(old)
        table[to + x] = value
        store(tangents, (to + x) * LANES, tangent)


@njit(cache=True, nogil=True)
def _close(table, tangents, at, width, bit, weight, direction):
    """Close the node of a bit; the node of the highest bit takes the bit over."""
    top, step = 1 << (width - 1), 1 << bit
    free, slope = splat(weight), splat(weight) * load(direction, 0)
    is_last = bit == width - 1
    for x in range(top):
        if x & step and not is_last:
            continue
        for half in range(1 if is_last else 2):
            shift = half * top
            here = at + x + shift
            there = here + step
            # The highest bit moves to the one that becomes free.
            to = at + x + (step if shift else 0)
            old = table[here]
            tangent = free * load(tangents, here * LANES) + slope * splat(old)
            store(tangents, to * LANES, tangent + load(tangents, there * LANES))
            table[to] = weight * old + table[there]


@njit(cache=True, nogil=True)
def _open_again(back, tangents, width, bit, weight, direction):
    """Undo `_close` on the way back; `width` is that before closing."""
    top, step = 1 << (width - 1), 1 << bit
    free, slope = splat(weight), splat(weight) * load(direction, 0)
    is_last = bit == width - 1
    for x in range(top):
        if x & step and not is_last:
            continue
        for half in range(0 if is_last else 1, -1, -1):
            shift = half * top
            here = x + shift
            there = here + step
            source = x + (step if shift else 0)
            value, tangent = back[source], load(tangents, source * LANES)
            back[there] = value
            store(tangents, there * LANES, tangent)
            back[here] = weight * value
            store(tangents, here * LANES, free * tangent + slope * splat(value))


@njit(cache=True, nogil=True)
def _untake(
    table, tangents, at, back, back_tangents, new, new_tangents, before, bits, stay, by_bit,
    slopes, most, flows, flow_tangents,
):  # fmt: skip
    """Fill the table before a node is taken, and what passes through its links."""
    zero = splat(0.0)
    idle, keep = load(slopes, IDLE * LANES), splat(stay)
    for x in range(1 << before):
        if count_ones(x) > most:
            new[x] = 0.0
            store(new_tangents, x * LANES, zero)
            continue
        mass, after = table[at + x], back[x]
        tangent = load(tangents, (at + x) * LANES)
        after_tangent = load(back_tangents, x * LANES)
        flows[IDLE] += mass * after
        place = IDLE * LANES
        flow = load(flow_tangents, place) + tangent * splat(after)
        store(flow_tangents, place, flow + splat(mass) * after_tangent)
        value = stay * after
        slope = keep * after_tangent + idle * splat(after)
        left = bits & ~x
        while left:
            bit = lowest_one(left)
            left &= left - 1
            after = back[x + (1 << bit)]
            after_tangent = load(back_tangents, (x + (1 << bit)) * LANES)
            flows[bit] += mass * after
            place = bit * LANES
            flow = load(flow_tangents, place) + tangent * splat(after)
            store(flow_tangents, place, flow + splat(mass) * after_tangent)
            value += by_bit[bit] * after
            slope = slope + splat(by_bit[bit]) * after_tangent
            slope = slope + load(slopes, place) * splat(after)
        new[x] = value
        store(new_tangents, x * LANES, slope)


@njit(cache=True, nogil=True)
def report_tangents(
    steps, links, weights, taken, t, base, stay, stay_dirs, flows, flow_tangents, edges_out,
    own_out, other_out,
):  # fmt: skip
    """Turn what passes through the links of a step into derivatives; return its sum."""
    idle, idle_tangent = flows[IDLE], load(flow_tangents, IDLE * LANES)
    total = stay * idle
    total_tangent = splat(stay) * (load(stay_dirs, 0) * splat(idle) + idle_tangent)
    for at in range(steps[t, LINK], steps[t + 1, LINK]):
        bit = IDLE if links[at, 1] < 0 else links[at, 1]
        weight, flow = weights[at - base], flows[bit]
        total += weight * flow
        direction = load(taken, (at - base) * LANES)
        tangent = direction * splat(flow) + load(flow_tangents, bit * LANES)
        total_tangent = total_tangent + splat(weight) * tangent
    if not total > 0.0:
        return 0.0
    mean = total_tangent / splat(total)
    share = splat(stay * idle / total)
    own = share * (load(stay_dirs, 0) - mean) + splat(stay / total) * idle_tangent
    store(own_out, steps[t, NODE] * LANES, own)
    for at in range(steps[t, LINK], steps[t + 1, LINK]):
        bit = IDLE if links[at, 1] < 0 else links[at, 1]
        share = splat(weights[at - base] / total)
        direction = load(taken, (at - base) * LANES)
        tangent = splat(flows[bit]) * (direction - mean)
        tangent = share * (tangent + load(flow_tangents, bit * LANES))
        store(edges_out, links[at, 0] * LANES, tangent)
        place = links[at, 2] * LANES
        store(other_out, place, load(other_out, place) - tangent)
    return total


@njit(cache=True, nogil=True)
def fill_places(steps, start, stop, places):
    """Fill where the table of every step begins; return the length of all."""
    at, length = 0, 1
    for t in range(start, stop):
        places[t - start] = at
        at += 1 << steps[t, BEFORE]
        length = max(length, at + (1 << steps[t, OPEN]))
    places[stop - start] = at
    return length


@njit(cache=True, nogil=True)
def sweep_forward(
    steps, links, closes, other_free, other_dirs, start, stays, weights, stay_dirs, taken,
    places, exponents, table, tangents, first, last,
):  # fmt: skip
    """Take nodes ``first .. last - 1`` of the walk whose steps begin at `start`."""
    base = steps[start, LINK]
    by_bit, low = np.empty(64), np.empty(3 * LANES)
    slopes = aligned((IDLE + 1) * LANES)
    if first == 0:
        table[0] = 1.0
        tangents[:LANES] = 0.0
        exponents[0] = 1
    for n_taken in range(first, last):
        t = start + n_taken
        width = steps[t, OPEN]
        to = places[n_taken + 1]
        factor = math.ldexp(1.0, -int(exponents[n_taken]))
        rest, bits = collect(steps, links, weights, t, base, factor, by_bit)
        own_dirs = stay_dirs[n_taken * LANES :]
        collect_slopes(steps, links, weights, taken, t, base, stays[n_taken], own_dirs,
            factor, slopes)  # fmt: skip
        stay = factor * (stays[n_taken] + rest)
        _take(table, tangents, places[n_taken], to, steps[t, BEFORE], width, bits, stay,
            by_bit, slopes, n_taken + 1)  # fmt: skip
        for k in range(steps[t, CLOSE], steps[t + 1, CLOSE]):
            j = closes[k, 1]
            weight = math.exp(other_free[j])
            _close(table, tangents, to, width, closes[k, 0], weight, other_dirs[j])
            width -= 1
        exponents[n_taken + 1] = exponent_of(table, to, 1 << width, 64, low)


@njit(cache=True, nogil=True)
def sweep_back(
    steps, links, closes, other_free, other_dirs, start, stays, weights, stay_dirs, taken,
    places, exponents, table, tangents, buffers, buffer_tangents, state, edges_out, own_out,
    other_out, first, last,
):  # fmt: skip
    """Undo the steps that are ``first .. last - 1`` from the end; see `frontier`."""
    n_steps = len(places) - 1
    base = steps[start, LINK]
    by_bit, low = np.empty(64), np.empty(3 * LANES)
    slopes, flow_tangents = aligned((IDLE + 1) * LANES), aligned((IDLE + 1) * LANES)
    flows = np.empty(IDLE + 1)
    if first == 0:
        buffers[0, 0] = 1.0
        buffer_tangents[0, :LANES] = 0.0
        state[0], state[1], state[2] = 0, 1, 0
    for n_undone in range(first, last):
        n_taken = n_steps - 1 - n_undone
        t = start + n_taken
        back, new = buffers[state[0]], buffers[1 - state[0]]
        back_tangents, new_tangents = (
            buffer_tangents[state[0]],
            buffer_tangents[1 - state[0]],
        )
        n_open = steps[t, OPEN] - (steps[t + 1, CLOSE] - steps[t, CLOSE])
        for k in range(steps[t + 1, CLOSE] - 1, steps[t, CLOSE] - 1, -1):
            n_open += 1
            j = closes[k, 1]
            weight = math.exp(other_free[j])
            _open_again(back, back_tangents, n_open, closes[k, 0], weight, other_dirs[j])
        factor = math.ldexp(1.0, -int(state[1]))
        rest, bits = collect(steps, links, weights, t, base, factor, by_bit)
        own_dirs = stay_dirs[n_taken * LANES :]
        collect_slopes(steps, links, weights, taken, t, base, stays[n_taken], own_dirs,
            factor, slopes)  # fmt: skip
        flows[:] = 0.0
        flow_tangents[:] = 0.0
        _untake(table, tangents, places[n_taken], back, back_tangents, new, new_tangents,
            steps[t, BEFORE], bits, factor * (stays[n_taken] + rest), by_bit, slopes,
            n_taken, flows, flow_tangents)  # fmt: skip
        total = report_tangents(steps, links, weights, taken, t, base, stays[n_taken],
            own_dirs, flows, flow_tangents, edges_out, own_out, other_out)  # fmt: skip
        height = math.frexp(total)[1] - exponents[n_taken] - state[1]
        state[2] = min(state[2], height if total > 0.0 else LOST)
        state[0] = 1 - state[0]
        state[1] = exponent_of(new, 0, 1 << steps[t, BEFORE], 64, low)


@njit(cache=True, nogil=True)
def start_tangents(steps, links, problem, directions, start, stop):
    """Return the weights and directions of a walk, and its tables.

    `problem` has the scores of edges, and those of staying unmatched on the walked side and
    the other; `directions` likewise, `LANES` columns each.
    """
    stays, weights, places, exponents = start_walk(steps, links, *problem, start, stop)
    stay_dirs, taken = direct_options(steps, links, *directions, start, stop)
    length = fill_places(steps, start, stop, places)
    table, tangents = np.empty(length), aligned(length * LANES)
    widest = 0
    for t in range(start, stop):
        widest = max(widest, steps[t, OPEN])
    buffers = np.empty((2, 1 << widest))
    buffer_tangents = aligned((2 << widest) * LANES).reshape(2, -1)
    walk = stays, weights, stay_dirs.ravel(), taken.ravel(), places, exponents
    return walk, (table, tangents), (buffers, buffer_tangents), np.zeros(3, np.int64)


@njit(cache=True, nogil=True)
def solve_tangents(
    steps, links, closes, step_starts, walks_right, scores, free_left, free_right,
    edge_dirs, left_dirs, right_dirs, lowest, edges_out, left_out, right_out, first, last,
):  # fmt: skip
    """Fill the derivatives of components ``first .. last - 1``, each in one go."""
    for c in range(first, last):
        start, stop = step_starts[c], step_starts[c + 1]
        problem = scores, free_left, free_right
        directions = edge_dirs, left_dirs, right_dirs
        outs = edges_out, left_out, right_out
        if walks_right[c]:
            problem = scores, free_right, free_left
            directions = edge_dirs, right_dirs, left_dirs
            outs = edges_out, right_out, left_out
        walk, tables, buffers, state = start_tangents(
            steps, links, problem, directions, start, stop
        )
        rest = problem[2], directions[2], start
        sweep_forward(steps, links, closes, *rest, *walk, *tables, 0, stop - start)
        sweep_back(steps, links, closes, *rest, *walk, *tables, *buffers, state, *outs, 0,
            stop - start)  # fmt: skip
        lowest[c] = state[2]
