"""Belief propagation on perfect matchings, the Bethe value, and a bracket around log Z.

With weights ``a`` and messages ``u`` (rows), ``v`` (columns), one sweep is

    u[i, j] = 1 / sum_{k != j} a[i, k] v[i, k]        v = 1 at the start
    v[i, j] = 1 / sum_{k != i} a[k, j] u[k, j]
    belief[i, j] = x / (1 + x),  x = a[i, j] u[i, j] v[i, j]

Sums that leave one entry out lose no digits: the largest entry is kept apart from the sum
of the others, and no other entry is more than half of all.  Scores are first reduced by
assignment prices: weights are then at most one and one on the best matching, so plain
numbers do where logarithms would cost an ``exp`` and a ``log`` an entry.  Where the best
beliefs are 0 or 1 messages grow for ever; they are held within 1e-140 .. 1e140, beyond
which no belief changes.

The Bethe value is the maximum over doubly stochastic b of the concave

    F(b) = sum  b log a - b log b + (1 - b) log(1 - b)

and ``F(b) <= max F <= log permanent <= max F + (m/2) log 2`` for *every* such b.  Beliefs
are made doubly stochastic by Sinkhorn's sweeps, so the lower end holds whether or not the
messages have settled.  For the upper end ``max F <= F(b) + max over matchings y of
sum (y - b) * gradient F(b)``, one assignment; Soules' bound is taken where it is lower.

References
----------
P. O. Vontobel, "The Bethe permanent of a nonnegative matrix", IEEE Transactions on
Information Theory 59 (2013).
N. Anari and A. Rezaei, "A tight analysis of Bethe approximation for permanent", FOCS
(2019).
"""

import math

import numpy as np
from numba import njit

from permatch.kernels.assignment import balance, forbid_impossible, reduce_and_match, solve
from permatch.kernels.bounds import log_bound
from permatch.kernels.projection import MANY_SWEEPS, project

# Sums are held in this range, and with them messages, their inverses.
_LEAST = 1e-140
_MOST = 1e140
# Sweeps without progress before messages are damped, and by how much.
_PATIENCE = 50
_FALLBACK_DAMPING = 0.5
# Reduced scores are raised to this before they become weights: an upper bound stays one.
LOWEST_SCORE = -700.0


@njit(cache=True, nogil=True)
def pass_messages(weights, beliefs, tol, max_iter, damping):
    """Fill `beliefs` (m, m); return sweeps made and the last change of a belief."""
    m = weights.shape[0]
    to_col = np.ones((m, m))  # u
    to_row = np.ones((m, m))  # v
    beliefs[:] = 0.0
    progress = np.array([0.0, np.inf, np.inf, 0.0, damping])
    sweep_messages(weights, beliefs, to_col, to_row, tol, progress, 0, max_iter)
    return int(progress[0]), progress[1]


@njit(cache=True, nogil=True)
def sweep_messages(weights, beliefs, to_col, to_row, tol, progress, first, last):
    """Make sweeps ``first .. last - 1``; return whether the messages have settled.

    `progress` holds the sweeps made, the last change of a belief, the lowest so far and its
    sweep, and the damping.
    """
    m = weights.shape[0]
    flow = np.empty(m)
    top = np.empty(m)  # of the flows of each column the largest ...
    others = np.empty(m)  # ... and the sum of the others
    damping = progress[4]
    for sweep in range(first + 1, last + 1):
        top[:] = 0.0
        others[:] = 0.0
        for i in range(m):
            row_top = 0.0
            row_others = 0.0
            for j in range(m):
                x = weights[i, j] * to_row[i, j]
                flow[j] = x
                row_others += x if x < row_top else row_top
                row_top = row_top if x < row_top else x
            if damping == 0.0:
                for j in range(m):
                    to_col[i, j] = 1.0 / _all_but(flow[j], row_top, row_others)
            else:
                for j in range(m):
                    rest = _all_but(flow[j], row_top, row_others)
                    to_col[i, j] = _damped(to_col[i, j], rest, damping)
            for j in range(m):
                x = weights[i, j] * to_col[i, j]
                highest = top[j]
                others[j] += x if x < highest else highest
                top[j] = highest if x < highest else x
        change = 0.0
        for i in range(m):
            if damping == 0.0:
                for j in range(m):
                    flow[j] = weights[i, j] * to_col[i, j]
                    to_row[i, j] = 1.0 / _all_but(flow[j], top[j], others[j])
            else:
                for j in range(m):
                    flow[j] = weights[i, j] * to_col[i, j]
                    rest = _all_but(flow[j], top[j], others[j])
                    to_row[i, j] = _damped(to_row[i, j], rest, damping)
            for j in range(m):
                odds = flow[j] * to_row[i, j]
                belief = odds / (1.0 + odds)
                change = max(change, abs(belief - beliefs[i, j]))
                beliefs[i, j] = belief
        progress[0] = sweep
        progress[1] = change
        if change < tol:
            return True
        if change < progress[2]:
            progress[2] = change
            progress[3] = sweep
        elif sweep - progress[3] >= _PATIENCE:
            damping = max(damping, _FALLBACK_DAMPING)
            progress[3] = sweep
            progress[4] = damping
    return False


@njit(cache=True, nogil=True, inline="always")
def _all_but(x, top, others):
    """Return the sum of flows without `x`, given the largest and the sum of the others."""
    rest = others if x == top else top + (others - x)
    rest = rest if rest > _LEAST else _LEAST
    return rest if rest < _MOST else _MOST


@njit(cache=True, nogil=True)
def _damped(message, rest, damping):
    """Return the message 1 / rest, held back towards the old one in logarithms."""
    return math.exp(damping * math.log(message) - (1.0 - damping) * math.log(rest))


@njit(cache=True, nogil=True)
def bethe_value(reduced, beliefs):
    """Return F(b), the reduced scores being the logarithms of the weights."""
    m = reduced.shape[0]
    total = 0.0
    for i in range(m):
        total += _value_of_row(reduced[i], beliefs[i])
    return total


@njit(cache=True, nogil=True)
def _value_of_row(reduced, beliefs):
    """Return what one row adds to F(b)."""
    total = 0.0
    for j in range(len(reduced)):
        b = beliefs[j]
        if b > 0.0:
            total += b * (reduced[j] - math.log(b))
            if b < 1.0:
                total += (1.0 - b) * math.log1p(-b)
    return total


@njit(cache=True, nogil=True)
def _shortfall(reduced, beliefs):
    """Return a bound on ``max F - F(b)``: how far one assignment climbs the tangent."""
    m = reduced.shape[0]
    cost = np.full((m, m), np.inf)
    here = 0.0
    for i in range(m):
        here = _fill_slopes(reduced[i], beliefs[i], cost[i], here)
        if here == np.inf:
            return here
    u = np.empty(m)
    v = np.empty(m)
    col_of = np.empty(m, np.int64)
    if not solve(cost, u, v, col_of, np.empty(m, np.int64)):
        return np.inf
    climbed = 0.0
    for i in range(m):
        climbed -= cost[i, col_of[i]]
    return max(climbed - here, 0.0)


@njit(cache=True, nogil=True)
def _fill_slopes(reduced, beliefs, cost, here):
    """Fill `cost` with a row of F's gradient; return `here` plus its height.

    Return ``inf`` where the gradient is infinite.
    """
    for j in range(len(reduced)):
        if reduced[j] == -np.inf:
            continue
        b = beliefs[j]
        if b <= 0.0:
            return np.inf
        if b > 1.0 - 1e-15:
            cost[j] = 0.0  # the only edge of its row: no way to climb
            continue
        slope = reduced[j] - math.log(b) - math.log1p(-b) - 2.0
        cost[j] = -slope
        here += b * slope
    return here


@njit(cache=True, nogil=True)
def log_upper(reduced, code, n_sweeps):
    """Return a product bound on the log-permanent of reduced scores, the lowest of four.

    By rows and by columns, of the weights as they are and of the balanced ones, which are
    sharpened.
    """
    weights = _raised_weights(reduced)
    lowest = np.inf
    offset = 0.0
    for sweeps in (0, n_sweeps):
        for _ in range(2):
            lowest = min(lowest, offset + log_bound(weights, code, sweeps))
            weights = weights.T.copy()
        if sweeps == 0:
            offset = balance(weights)
    return lowest


@njit(cache=True, nogil=True)
def _raised_weights(reduced):
    """Return weights of which none is zero but those of forbidden edges."""
    m = reduced.shape[0]
    weights = np.zeros((m, m))
    for i in range(m):
        for j in range(m):
            if reduced[i, j] > -np.inf:
                weights[i, j] = math.exp(max(reduced[i, j], LOWEST_SCORE))
    return weights


@njit(cache=True, nogil=True)
def _upper_end(reduced, beliefs, labels, value, loose, code, n_sweeps):
    """Return an upper bound on log Z of reduced scores, F(beliefs) being `value`."""
    m = reduced.shape[0]
    upper = log_upper(reduced, code, n_sweeps)
    if loose < 1.0:
        sizes = np.zeros(m, np.int64)
        for i in range(m):
            sizes[labels[i]] += 1
        n_open = 0
        for i in range(m):
            if sizes[labels[i]] > 1:  # rows with one possible edge are settled
                n_open += 1
        bethe_upper = value + 0.5 * n_open * math.log(2.0) + loose
        if bethe_upper < upper:
            upper = min(upper, bethe_upper + _shortfall(reduced, beliefs))
    return max(upper, 0.0)


@njit(cache=True, nogil=True)
def _fill_weights(scores, reduced, weights):
    """Fill `weights`; return the largest score and the lowest reduced one, in size."""
    m = scores.shape[0]
    largest = 0.0
    deepest = 0.0
    for i in range(m):
        for j in range(m):
            weights[i, j] = math.exp(reduced[i, j])
            if reduced[i, j] > -np.inf:
                deepest = max(deepest, -reduced[i, j])
                largest = max(largest, abs(scores[i, j]))
    return largest, deepest


@njit(cache=True, nogil=True)
def infer_stack(
    scores, tol, max_iter, damping, code, n_sweeps, values, beliefs, ends, first, last
):
    """Answer graphs ``first .. last - 1``: Bethe values, ``-inf`` where infeasible.

    ``ends[g]`` takes the lower and upper end for log Z, then sweeps and the last change of
    a belief.  No upper end is sought when `code` is negative.
    """
    m = scores.shape[1]
    reduced = np.empty((m, m))
    weights = np.empty((m, m))
    col_of = np.empty(m, np.int64)
    labels = np.empty(m, np.int64)
    for g in range(first, last):
        offset = reduce_and_match(scores[g], reduced, col_of)
        if offset == -np.inf:
            values[g] = offset
            continue
        forbid_impossible(reduced, col_of, labels)
        largest, deepest = _fill_weights(scores[g], reduced, weights)
        sweeps, change = pass_messages(weights, beliefs[g], tol, max_iter, damping)
        error = project(beliefs[g], col_of, max_iter >= MANY_SWEEPS)
        value = bethe_value(reduced, beliefs[g])
        # What rounding, and column sums off by `error`, can make of the value.
        slack = m * (1e-13 + 4e-16 * largest)
        loose = slack + m * error * (deepest + 40.0)
        values[g] = offset + max(value, 0.0)
        ends[g, 0] = offset + max(value - loose, -slack)
        ends[g, 1] = np.inf
        ends[g, 2] = sweeps
        ends[g, 3] = change
        if code >= 0:
            upper = _upper_end(reduced, beliefs[g], labels, value, loose, code, n_sweeps)
            ends[g, 1] = offset + upper + slack
