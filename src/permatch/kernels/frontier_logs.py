"""The frontier on logarithms: sums that leave no float's range, and maxima.

`tables` hold for every step of a walk, and every state before it, the log of the total
weight of all that may follow, or the score of the best of it.  See `frontier` for the
states and `frontier_plan` for the plan.  It takes fifty times as long as `frontier`: sums
are made like this only where those of floats have lost too much.
"""

import math

import numpy as np
from numba import njit

from permatch.kernels.frontier_plan import BEFORE, CLOSE, LINK, NODE, OPEN


@njit(cache=True, nogil=True)
def add_logs(one, other):
    """Return the log of the sum of two exponentials."""
    if one < other:
        one, other = other, one
    if other == -np.inf:
        return one
    return one + math.log1p(math.exp(other - one))


@njit(cache=True, nogil=True)
def start_logs(steps, links, scores, own_free, other_free, start, stop):
    """Return the scores of staying unmatched and of links, and where tables begin.

    Both with the scores of the nodes with a single neighbour that stay unmatched.  The last
    place is the length of all tables.
    """
    base = steps[start, LINK]
    stays = np.empty(stop - start)
    weights = np.empty(steps[stop, LINK] - base)
    places = np.zeros(stop - start + 1, np.int64)
    for t in range(start, stop):
        begin, end = steps[t, LINK], steps[t + 1, LINK]
        all_free = 0.0
        for at in range(begin, end):
            weights[at - base] = scores[links[at, 0]]
            if links[at, 1] < 0:
                weights[at - base] += all_free
                all_free += other_free[links[at, 2]]
        after = 0.0
        for at in range(end - 1, begin - 1, -1):
            if links[at, 1] < 0:
                weights[at - base] += after
                after += other_free[links[at, 2]]
            else:
                weights[at - base] += all_free
        stays[t - start] = own_free[steps[t, NODE]] + all_free
        places[t - start + 1] = places[t - start] + (1 << steps[t, BEFORE])
    return stays, weights, places


@njit(cache=True, nogil=True)
def close_nodes(steps, closes, other_free, t, x):
    """Return the state after the nodes of step t are closed, and the score of that."""
    width = steps[t, OPEN]
    score = 0.0
    for k in range(steps[t, CLOSE], steps[t + 1, CLOSE]):
        width -= 1
        bit = closes[k, 0]
        if not x >> bit & 1:
            score += other_free[closes[k, 1]]
        x &= ~(1 << bit)
        if x >> width & 1:
            x ^= 1 << width | 1 << bit
    return x, score


@njit(cache=True, nogil=True)
def value_after(steps, closes, other_free, start, places, tables, n_taken, x):
    """Return the value of a state after a node was taken and before others are closed."""
    y, score = close_nodes(steps, closes, other_free, start + n_taken, x)
    if n_taken + 2 < len(places):
        score += tables[places[n_taken + 1] + y]
    return score


@njit(cache=True, nogil=True)
def _open_again(back, width, bit, score):
    """Undo the closing of a bit; `width` is that before closing."""
    top = 1 << (width - 1)
    step = 1 << bit
    if bit == width - 1:
        for x in range(top):
            back[x + top] = back[x]
            back[x] += score
        return
    for first in range(0, top, 2 * step):
        for x in range(first, first + step):
            one, other = back[x], back[x + step]
            back[x] = one + score
            back[x + step] = one
            back[x + top] = other + score
            back[x + top + step] = other


@njit(cache=True, nogil=True)
def _join(new, first, n, back, source, score, is_max):
    """Join `n` entries of a table with those of another, to which a score is added."""
    if is_max:
        for k in range(n):
            new[first + k] = max(new[first + k], score + back[source + k])
    else:
        for k in range(n):
            new[first + k] = add_logs(new[first + k], score + back[source + k])


@njit(cache=True, nogil=True)
def fill_back_logs(
    steps, links, closes, other_free, start, stays, weights, places, tables, is_max,
    first, last,
):  # fmt: skip
    """Fill the tables of the steps that are ``first .. last - 1`` from the end."""
    base = steps[start, LINK]
    n_steps = len(stays)
    width = 0
    for t in range(start + n_steps - last, start + n_steps - first):
        width = max(width, steps[t, OPEN])
    back = np.empty(1 << width)
    for n_taken in range(n_steps - 1 - first, n_steps - 1 - last, -1):
        t = start + n_taken
        back[0] = 0.0
        if n_taken + 1 < n_steps:
            begin, end = places[n_taken + 1], places[n_taken + 2]
            back[: end - begin] = tables[begin:end]
        width = steps[t, OPEN] - (steps[t + 1, CLOSE] - steps[t, CLOSE])
        for k in range(steps[t + 1, CLOSE] - 1, steps[t, CLOSE] - 1, -1):
            width += 1
            _open_again(back, width, closes[k, 0], other_free[closes[k, 1]])
        stay = stays[n_taken]
        for at in range(steps[t, LINK], steps[t + 1, LINK]):
            if links[at, 1] < 0:
                score = weights[at - base]
                stay = max(stay, score) if is_max else add_logs(stay, score)
        new = tables[places[n_taken] : places[n_taken + 1]]
        for x in range(len(new)):
            new[x] = stay + back[x]
        for at in range(steps[t, LINK], steps[t + 1, LINK]):
            if links[at, 1] < 0:
                continue
            step = 1 << links[at, 1]
            n = min(step, len(new))
            for x in range(0, len(new), 2 * step):
                _join(new, x, n, back, x + step, weights[at - base], is_max)


@njit(cache=True, nogil=True)
def _take_logs(
    steps, links, closes, other_free, start, stays, weights, places, tables, table, new,
    n_taken, flows,
):  # fmt: skip
    """Take one node: fill the next table, and the logs of what passes through links."""
    t = start + n_taken
    begin, end = steps[t, LINK], steps[t + 1, LINK]
    base = steps[start, LINK]
    new[:] = -np.inf
    flows[: end - begin + 1] = -np.inf
    is_last = n_taken + 1 == len(stays)
    for x in range(1 << steps[t, BEFORE]):
        if table[x] == -np.inf:
            continue
        for k in range(end - begin + 1):
            mass = table[x] + stays[n_taken]
            z = x
            if k > 0:
                at = begin + k - 1
                mass = table[x] + weights[at - base]
                bit = links[at, 1]
                if bit >= 0 and x >> bit & 1:
                    continue
                if bit >= 0:
                    z |= 1 << bit
            y, score = close_nodes(steps, closes, other_free, t, z)
            mass += score
            new[y] = add_logs(new[y], mass)
            if not is_last:
                mass += tables[places[n_taken + 1] + y]
            flows[k] = add_logs(flows[k], mass)


@njit(cache=True, nogil=True)
def sweep_logs(
    steps, links, closes, other_free, start, stays, weights, places, tables, buffers,
    marginals, own_out, other_out, first, last,
):  # fmt: skip
    """Take nodes ``first .. last - 1`` of a walk and fill their marginals.

    `buffers` are the tables of the way there, of even steps and odd ones.
    """
    most = 0
    for t in range(start, start + len(stays)):
        most = max(most, steps[t + 1, LINK] - steps[t, LINK])
    flows = np.empty(most + 1)
    if first == 0:
        buffers[0, 0] = 0.0
    for n_taken in range(first, last):
        t = start + n_taken
        _take_logs(steps, links, closes, other_free, start, stays, weights, places, tables,
            buffers[n_taken % 2], buffers[(n_taken + 1) % 2], n_taken, flows)  # fmt: skip
        total = tables[0]
        own_out[steps[t, NODE]] = math.exp(min(flows[0] - total, 0.0))
        for at in range(steps[t, LINK], steps[t + 1, LINK]):
            share = math.exp(min(flows[at - steps[t, LINK] + 1] - total, 0.0))
            marginals[links[at, 0]] = share
            other_out[links[at, 2]] -= share
