"""The best matchings of a component in order, from the tables of maxima of the frontier.

A matching is a choice at every step of the walk: staying unmatched, 0, or link number
``choice - 1`` of the step.  The tables tell what the best of all that may follow a choice
is worth, so the best matching follows the best choices.  Any other departs from one found
before at some step, where it makes another choice, and from there follows the best ones.
The departures wait on a heap, for every matching found and every step the best one that was
not made yet; so each matching comes once, and takes one walk.

A `loss` is a score below 0, that of the best matching, with the sign changed.
"""

import numpy as np
from numba import njit

from permatch.kernels.frontier_logs import (
    close_nodes,
    fill_back_logs,
    start_logs,
    value_after,
)
from permatch.kernels.frontier_plan import LINK, NODE
from permatch.kernels.heap import drop, put


@njit(cache=True, nogil=True)
def _next_best(
    steps, links, closes, other_free, start, stays, weights, places, tables, n_taken, x,
    gain, least, last,
):  # fmt: skip
    """Return the loss of the best choice that comes after choice `last` of loss `least`.

    And the choice; an infinite loss if there is none.
    """
    t = start + n_taken
    begin, end = steps[t, LINK], steps[t + 1, LINK]
    base = steps[start, LINK]
    idle = value_after(steps, closes, other_free, start, places, tables, n_taken, x)
    best = np.inf
    chosen = -1
    for choice in range(end - begin + 1):
        value = stays[n_taken] + idle
        if choice > 0:
            at = begin + choice - 1
            bit = links[at, 1]
            if bit < 0:
                value = weights[at - base] + idle
            elif x >> bit & 1:
                continue
            else:
                value = weights[at - base] + value_after(steps, closes, other_free, start,
                    places, tables, n_taken, x | 1 << bit)  # fmt: skip
        loss = -(gain + value)
        is_after = loss > least or (loss == least and choice > last)
        if is_after and loss < best:
            best = loss
            chosen = choice
    return best, chosen


@njit(cache=True, nogil=True)
def _make_choice(
    steps, links, closes, other_free, start, stays, weights, n_taken, x, gain, choice
):
    """Return the state and the score after a choice."""
    t = start + n_taken
    score = stays[n_taken]
    if choice > 0:
        at = steps[t, LINK] + choice - 1
        score = weights[at - steps[start, LINK]]
        if links[at, 1] >= 0:
            x |= 1 << links[at, 1]
    x, more = close_nodes(steps, closes, other_free, t, x)
    return x, gain + (score + more)


@njit(cache=True, nogil=True)
def find_best(
    steps, links, closes, other_free, start, stays, weights, places, tables, choices,
    states, gains, losses, heap, counts, first, last,
):  # fmt: skip
    """Find matchings ``first .. last - 1``; return whether there are no more.

    `choices`, `states` and `gains` have a row for each; `counts` are those found, and those
    on the heap, which must have room for as many as there are choices, and one more each.
    """
    n_steps = len(stays)
    n_heap = counts[1]
    for r in range(first, last):
        begin = 0
        losses[r] = 0.0
        if r == 0:
            states[0, 0] = 0
            gains[0, 0] = 0.0
        else:
            if n_heap == 0:
                counts[1] = 0
                return True
            loss, place, choice = heap.key[0], heap.place[0], heap.slot[0]
            drop(heap, n_heap)
            n_heap -= 1
            parent, begin = place // n_steps, place % n_steps
            choices[r, :begin] = choices[parent, :begin]
            states[r, : begin + 1] = states[parent, : begin + 1]
            gains[r, : begin + 1] = gains[parent, : begin + 1]
            choices[r, begin] = choice
            losses[r] = loss
            more, other = _next_best(steps, links, closes, other_free, start, stays,
                weights, places, tables, begin, states[r, begin], gains[r, begin], loss,
                choice)  # fmt: skip
            if more < np.inf:
                put(heap, n_heap, more, place, other)
                n_heap += 1
        for n_taken in range(begin, n_steps):
            x, gain = states[r, n_taken], gains[r, n_taken]
            if r == 0 or n_taken > begin:
                loss, choice = _next_best(steps, links, closes, other_free, start, stays,
                    weights, places, tables, n_taken, x, gain, -np.inf, -1)  # fmt: skip
                choices[r, n_taken] = choice
                more, other = _next_best(steps, links, closes, other_free, start, stays,
                    weights, places, tables, n_taken, x, gain, loss, choice)  # fmt: skip
                if more < np.inf:
                    put(heap, n_heap, more, r * n_steps + n_taken, other)
                    n_heap += 1
            if n_taken + 1 < n_steps:
                states[r, n_taken + 1], gains[r, n_taken + 1] = _make_choice(steps, links,
                    closes, other_free, start, stays, weights, n_taken, x, gain,
                    choices[r, n_taken])  # fmt: skip
        counts[0] = r + 1
    counts[1] = n_heap
    return False


@njit(cache=True, nogil=True)
def fill_gaps(
    steps, links, closes, step_starts, walks_right, scores, free_left, free_right, chosen,
    gaps, first, last,
):  # fmt: skip
    """Fill what the second best matching of some components loses to the best.

    Infinite if there is no other.
    """
    for c in chosen[first:last]:
        start, stop = step_starts[c], step_starts[c + 1]
        own_free, other_free = free_left, free_right
        if walks_right[c]:
            own_free, other_free = free_right, free_left
        stays, weights, places = start_logs(
            steps, links, scores, own_free, other_free, start, stop
        )
        tables = np.empty(places[-1])
        fill_back_logs(steps, links, closes, other_free, start, stays, weights, places,
            tables, True, 0, stop - start)  # fmt: skip
        gap = np.inf
        x = 0
        gain = 0.0
        for n_taken in range(stop - start):
            loss, choice = _next_best(steps, links, closes, other_free, start, stays,
                weights, places, tables, n_taken, x, gain, -np.inf, -1)  # fmt: skip
            more, _ = _next_best(steps, links, closes, other_free, start, stays, weights,
                places, tables, n_taken, x, gain, loss, choice)  # fmt: skip
            gap = min(gap, more)
            x, gain = _make_choice(steps, links, closes, other_free, start, stays, weights,
                n_taken, x, gain, choice)  # fmt: skip
        gaps[c] = gap


@njit(cache=True, nogil=True)
def write_matchings(steps, links, start, walks_right, nodes, choices, matchings):
    """Fill matchings (r, n) of left nodes `nodes`, which are -1, from choices."""
    for r in range(len(matchings)):
        for n_taken in range(choices.shape[1]):
            choice = choices[r, n_taken]
            if choice == 0:
                continue
            at = steps[start + n_taken, LINK] + choice - 1
            own, other = steps[start + n_taken, NODE], links[at, 2]
            if walks_right:
                own, other = other, own
            matchings[r, np.searchsorted(nodes, own)] = other
