"""Belief propagation on the edges of matchings whose nodes may stay unmatched.

With weights w of edges, a of left nodes that stay unmatched and b of right ones, any of the
latter possibly 0, one sweep is

    l[e] = 1 / (a[i] + sum of w r over the other edges of i)         r = 1 at the start
    r[e] = 1 / (b[j] + sum of w l over the other edges of j)
    belief[e] = x / (1 + x),  x = w l r

and, with R[i] the sum of w r over all edges of i and L[j] that of w l over those of j,

    unmatched:  a[i] / (a[i] + R[i]),  b[j] / (b[j] + L[j])
    log Z_B = sum log(a[i] + R[i]) + sum log(b[j] + L[j]) - sum log(1 + x)

With a, b > 0 messages always settle (Williams and Lau); the value is exact on trees and,
for every p with sums of at most one, log Z is at least

    F(p) = sum p log(w / p) + (1 - p) log(1 - p)  +  sum q log(a / q)  +  sum q log(b / q),

q being what is left of one (Lelarge); its maximum is log Z_B.  Where odds are high,
messages are slow to settle in one direction only: l times a constant and r divided by
it.  Every sweep therefore finds the constant that makes both sides expect as many links;
not for ever, since only messages left alone are known to settle, and not on trees, where
they do at once.

Sums that leave one entry out lose no digits: the largest entry is kept apart from the sum
of the others.

The upper end: for all 0 < t[j] <= 1 / b[j]

    log Z <= sum log(a[i] + sum w t) - sum log t[j],

since every right node has the factor 1 / t[j] or less; the best t by Sinkhorn's sweeps, and
the same with the sides exchanged.

References
----------
J. Williams and R. Lau, "Approximate evaluation of marginal association probabilities with
belief propagation", IEEE Transactions on Aerospace and Electronic Systems 50 (2014).
M. Lelarge, "Counting matchings in irregular bipartite graphs and random lifts", SODA
(2017).
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from permatch._types import FloatArray, IntArray

# Sums are held in this range, and with them messages, their inverses.
_LEAST = 1e-140
_MOST = 1e140
# Sweeps without progress before messages are damped, and by how much.
_PATIENCE = 50
_FALLBACK_DAMPING = 0.5
# Steps towards the constant that does it, and the farthest it goes in a sweep, in logs.
_STEPS = 12
_FARTHEST = 40.0
# Sweeps for the upper end.
_CAPACITY_SWEEPS = 8


class Edges(NamedTuple):
    """The edges of a problem by left node, their weights, and its components."""

    starts: IntArray
    right: IntArray
    weights: FloatArray
    free_left: FloatArray
    free_right: FloatArray
    left_nodes: IntArray
    left_starts: IntArray
    right_nodes: IntArray
    right_starts: IntArray


class Messages(NamedTuple):
    """Messages, beliefs, and the sums they come from.

    `to_right` and `to_left` are l and r; `top` and `others` the largest of the flows into a
    right node and the sum of the others; `sums` those of left nodes.  `progress` (n, 6)
    holds for every component the sweeps made, the last change of a belief, the lowest so
    far and its sweep, the damping, and the sweep from which on sides are not balanced.
    """

    to_right: FloatArray
    to_left: FloatArray
    marginals: FloatArray
    unmatched_left: FloatArray
    unmatched_right: FloatArray
    sums: FloatArray
    top: FloatArray
    others: FloatArray
    progress: FloatArray


@njit(cache=True, nogil=True)
def pass_messages(edges, messages, tol, max_iter, kept, n_sweeps, first, last):
    """Make up to `n_sweeps` more sweeps in components ``first .. last - 1``.

    `kept` (n,) is the share of its own flow that a message does not leave out: 0 for
    beliefs.

    Return whether all have settled, or have made `max_iter` sweeps.
    """
    is_done = True
    for c in range(first, last):
        state = messages.progress[c]
        for _ in range(n_sweeps):
            if state[1] <= tol or state[0] >= max_iter:
                break
            change = _to_right(edges, messages, c, state[4], kept[c])
            scale = 1.0
            if state[0] < state[5]:
                scale = _balance(edges, messages, c)
            change = max(change, _to_left(edges, messages, c, state[4], kept[c], scale))
            state[0] += 1.0
            state[1] = change
            if change < state[2]:
                state[2] = change
                state[3] = state[0]
            elif state[0] - state[3] >= _PATIENCE:
                state[4] = max(state[4], _FALLBACK_DAMPING)
                state[3] = state[0]
        is_done = is_done and (state[1] <= tol or state[0] >= max_iter)
    return is_done


@njit(cache=True, nogil=True)
def _to_right(edges, messages, c, damping, kept):
    """Renew the messages of left nodes; return the largest change of an unmatched belief.

    Sums of flows into right nodes are kept, those without edges have none.
    """
    top, others = messages.top, messages.others
    for at in range(edges.right_starts[c], edges.right_starts[c + 1]):
        top[edges.right_nodes[at]] = 0.0
        others[edges.right_nodes[at]] = 0.0
    change = 0.0
    for at in range(edges.left_starts[c], edges.left_starts[c + 1]):
        i = edges.left_nodes[at]
        free = edges.free_left[i]
        first, last = edges.starts[i], edges.starts[i + 1]
        largest = 0.0
        rest = 0.0
        for e in range(first, last):
            x = edges.weights[e] * messages.to_left[e]
            rest += x if x < largest else largest
            largest = largest if x < largest else x
        messages.sums[i] = largest + rest
        belief = free / (free + messages.sums[i]) if free > 0.0 else 0.0
        change = max(change, abs(belief - messages.unmatched_left[i]))
        messages.unmatched_left[i] = belief
        for e in range(first, last):
            x = edges.weights[e] * messages.to_left[e]
            message = 1.0 / _all_but(free + kept * x, x, largest, rest)
            if damping > 0.0:
                message = _damped(messages.to_right[e], message, damping)
            messages.to_right[e] = message
            x = edges.weights[e] * message
            j = edges.right[e]
            highest = top[j]
            others[j] += x if x < highest else highest
            top[j] = highest if x < highest else x
    return change


@njit(cache=True, nogil=True)
def _to_left(edges, messages, c, damping, kept, scale):
    """Renew the messages of right nodes, those of left ones times `scale`, and all beliefs.

    Return the largest change of a belief.
    """
    top, others = messages.top, messages.others
    change = 0.0
    for at in range(edges.right_starts[c], edges.right_starts[c + 1]):
        j = edges.right_nodes[at]
        top[j] *= scale
        others[j] *= scale
        free = edges.free_right[j]
        belief = free / (free + (top[j] + others[j])) if free > 0.0 else 0.0
        change = max(change, abs(belief - messages.unmatched_right[j]))
        messages.unmatched_right[j] = belief
    for at in range(edges.left_starts[c], edges.left_starts[c + 1]):
        i = edges.left_nodes[at]
        for e in range(edges.starts[i], edges.starts[i + 1]):
            j = edges.right[e]
            messages.to_right[e] *= scale
            x = edges.weights[e] * messages.to_right[e]
            message = 1.0 / _all_but(edges.free_right[j] + kept * x, x, top[j], others[j])
            if damping > 0.0:
                message = _damped(messages.to_left[e], message, damping)
            messages.to_left[e] = message
            odds = x * message
            belief = odds / (1.0 + odds)
            change = max(change, abs(belief - messages.marginals[e]))
            messages.marginals[e] = belief
    return change


@njit(cache=True, nogil=True, inline="always")
def _all_but(free, x, top, others):
    """Return `free` and the sum of flows without `x`, held in a range."""
    rest = free + (others if x == top else top + (others - x))
    rest = rest if rest > _LEAST else _LEAST
    return rest if rest < _MOST else _MOST


@njit(cache=True, nogil=True)
def _damped(old, new, damping):
    """Return the message held back towards the old one, in logarithms."""
    return math.exp(damping * math.log(old) + (1.0 - damping) * math.log(new))


@njit(cache=True, nogil=True)
def _balance(edges, messages, c):
    """Return by what to multiply l, and divide r, so that both sides expect as many links.

    The difference rises with the constant; Newton's steps, halved where they leave what is
    known to hold the solution.
    """
    low, high = -_FARTHEST, _FARTHEST
    shift = 0.0
    for _ in range(_STEPS):
        scale = math.exp(shift)
        excess = 0.0
        slope = 0.0
        for at in range(edges.left_starts[c], edges.left_starts[c + 1]):
            i = edges.left_nodes[at]
            # Where a node must be matched, 1 whatever the constant.
            free = edges.free_left[i] * scale
            linked = messages.sums[i] / (free + messages.sums[i])
            excess -= linked
            slope += linked * (1.0 - linked)
        for at in range(edges.right_starts[c], edges.right_starts[c + 1]):
            j = edges.right_nodes[at]
            flow = (messages.top[j] + messages.others[j]) * scale
            linked = flow / (edges.free_right[j] + flow) if flow > 0.0 else 0.0
            excess += linked
            slope += linked * (1.0 - linked)
        if not slope > 1e-12 or abs(excess) <= 1e-9 * slope:
            break
        if excess > 0.0:
            high = shift
        else:
            low = shift
        shift -= excess / slope
        if not low < shift < high:
            shift = 0.5 * (low + high)
    return math.exp(shift)


@njit(cache=True, nogil=True)
def finish(edges, messages, values, first, last):
    """Fill the Bethe values of components, and the beliefs of left nodes once more."""
    for c in range(first, last):
        total = 0.0
        for at in range(edges.left_starts[c], edges.left_starts[c + 1]):
            i = edges.left_nodes[at]
            free = edges.free_left[i]
            flow = 0.0
            for e in range(edges.starts[i], edges.starts[i + 1]):
                x = edges.weights[e] * messages.to_left[e]
                flow += x
                total -= math.log1p(x * messages.to_right[e])
            messages.unmatched_left[i] = free / (free + flow) if free > 0.0 else 0.0
            total += math.log(free + flow)
        for at in range(edges.right_starts[c], edges.right_starts[c + 1]):
            j = edges.right_nodes[at]
            total += math.log(edges.free_right[j] + messages.top[j] + messages.others[j])
        values[c] = total


@njit(cache=True, nogil=True)
def fill_lower(
    edges, messages, scores, unmatched_left, unmatched_right, lowers, first, last
):
    """Fill F of the beliefs, scaled down where they add up to more than one.

    `scores` and `unmatched_*` are the logarithms of all weights, finite.  The sums of flows
    among the messages are overwritten.
    """
    marginals, scales, used = messages.marginals, messages.top, messages.others
    for c in range(first, last):
        for at in range(edges.right_starts[c], edges.right_starts[c + 1]):
            scales[edges.right_nodes[at]] = 0.0
            used[edges.right_nodes[at]] = 0.0
        for at in range(edges.left_starts[c], edges.left_starts[c + 1]):
            i = edges.left_nodes[at]
            for e in range(edges.starts[i], edges.starts[i + 1]):
                scales[edges.right[e]] += marginals[e]
        total = 0.0
        for at in range(edges.left_starts[c], edges.left_starts[c + 1]):
            i = edges.left_nodes[at]
            scale = 0.0
            for e in range(edges.starts[i], edges.starts[i + 1]):
                scale += marginals[e]
            here = 0.0
            for e in range(edges.starts[i], edges.starts[i + 1]):
                j = edges.right[e]
                b = marginals[e] / (max(scale, 1.0) * max(scales[j], 1.0))
                here += b
                used[j] += b
                if b > 0.0:
                    total += b * (scores[e] - math.log(b))
                    if b < 1.0:
                        total += (1.0 - b) * math.log1p(-b)
            total += _unmatched_part(1.0 - here, unmatched_left[i])
        for at in range(edges.right_starts[c], edges.right_starts[c + 1]):
            j = edges.right_nodes[at]
            total += _unmatched_part(1.0 - used[j], unmatched_right[j])
        lowers[c] = total


@njit(cache=True, nogil=True)
def _unmatched_part(q, score):
    return q * (score - math.log(q)) if q > 0.0 else 0.0


@njit(cache=True, nogil=True)
def fill_upper(edges, messages, uppers, first, last):
    """Fill upper ends, the lower of both sides; sums among the messages are overwritten."""
    t, sigma, sums = messages.top, messages.sums, messages.others
    for c in range(first, last):
        lowest = np.inf
        # Of left nodes all choices are summed, and right nodes are relaxed; then the other
        # way round.
        for side in range(2):
            for at in range(edges.right_starts[c], edges.right_starts[c + 1]):
                t[edges.right_nodes[at]] = 1.0
            for _ in range(_CAPACITY_SWEEPS):
                lowest = min(lowest, _sinkhorn(edges, t, sigma, sums, c, side == 0))
        uppers[c] = lowest


@njit(cache=True, nogil=True)
def _sinkhorn(edges, t, sigma, sums, c, sums_left):
    """Renew sigma from t, then t from sigma; return the bound that one of them gives."""
    for at in range(edges.right_starts[c], edges.right_starts[c + 1]):
        sums[edges.right_nodes[at]] = 0.0
    bound = 0.0
    if sums_left:
        for at in range(edges.right_starts[c], edges.right_starts[c + 1]):
            j = edges.right_nodes[at]
            bound += math.log(max(edges.free_right[j], 1.0 / t[j]))
    for at in range(edges.left_starts[c], edges.left_starts[c + 1]):
        i = edges.left_nodes[at]
        flow = 0.0
        for e in range(edges.starts[i], edges.starts[i + 1]):
            flow += edges.weights[e] * t[edges.right[e]]
        free = edges.free_left[i]
        total = free + flow if sums_left else max(free, flow)
        sigma[i] = 1.0 / min(max(total, _LEAST), _MOST)
        bound += math.log(max(total, _LEAST))
        for e in range(edges.starts[i], edges.starts[i + 1]):
            sums[edges.right[e]] += edges.weights[e] * sigma[i]
    for at in range(edges.right_starts[c], edges.right_starts[c + 1]):
        j = edges.right_nodes[at]
        free = edges.free_right[j]
        total = max(free, sums[j]) if sums_left else free + sums[j]
        t[j] = 1.0 / min(max(total, _LEAST), _MOST)
        if not sums_left:
            bound += math.log(max(total, _LEAST))
    return bound
