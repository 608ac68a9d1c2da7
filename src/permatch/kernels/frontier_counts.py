"""Log-partition and marginals of components whose nodes may have several links.

The operations of `counts_plan` on tables of states, forwards and then backwards:

    LINK   old[x] passes on  keep old[x]  to x, and  link old[x]  to x with a link more
    CLOSE  old[x] passes on  free old[x]  if the digit is 0, else  linked old[x]

All terms are positive.  The tables of the way there are kept; with those of the way back,
the shares of what passes through an edge used and not used are its probability, and
likewise for nodes.  `low` holds keep and free, `high` link and linked, the larger of the
two 1; tables are scaled by powers of two on the way to the next.  There are no prices of a
best matching, so that before it is scaled a table may be tiny as a whole, and states that
count be lost to underflow.  What is lost weighs nothing as long as the sum over a step of
both tables, one of them scaled and the other as it was computed, is not tiny, whichever of
them is scaled; `lowest` reports the least.
"""

import math

import numpy as np
from numba import njit

from permatch.kernels.counts_plan import (
    CLOSE,
    HIGH,
    HIGH_FULL,
    HIGH_RADIX,
    ITEM,
    KIND,
    LINK,
    LOW,
    LOW_FULL,
    LOW_RADIX,
    OPEN,
    OTHER,
    OWN,
    SIZE,
)
from permatch.kernels.frontier import LOST

_LN2 = math.log(2.0)
_FAST = {"reassoc", "nsz", "contract"}
# log2 of the largest factor: a table that needs more has lost states that count.
_MOST = 1000
# Runs that are too short to be worth their loop.
_SHORT = 8


@njit(cache=True, nogil=True)
def fill_factors(ops, start, stop, scores, own_free, other_free, low, high):
    """Fill the factors of all operations; return the log of what they are divided by."""
    shift = 0.0
    for t in range(start, stop):
        one = other = 0.0
        if ops[t, OWN] >= 0 and ops[t, KIND] != OPEN:
            one += own_free[ops[t, OWN]]
        if ops[t, OTHER] >= 0 and ops[t, KIND] != OPEN:
            one += other_free[ops[t, OTHER]]
        if ops[t, KIND] == LINK:
            other = scores[ops[t, ITEM]]
        top = max(one, other)
        shift += top
        low[t - start] = math.exp(one - top)
        high[t - start] = math.exp(other - top)
    return shift


@njit(cache=True, nogil=True)
def _sources(digit, radix, full):
    """Return the range of values from which a link leads to a value of a digit."""
    if radix == 1:
        return 0, 1
    if digit == 0:
        return 0, 0
    return (0, 2) if full else (digit - 1, digit)


@njit(cache=True, nogil=True)
def _target(digit, radix, full):
    """Return the value of a digit after a link more; `radix` if there is no room."""
    if radix == 1:
        return 0
    return 1 if full else digit + 1


@njit(cache=True, nogil=True)
def _grid(op):
    """Return counts and strides of the states with given digits, the longest run last.

    Runs without a gap are the best; where they are short, a longer one with gaps is.
    """
    n_high, n_low = op[HIGH] * op[HIGH_RADIX], op[LOW] * op[LOW_RADIX]
    outer, inner = (op[SIZE] // n_high, n_high), (op[HIGH] // n_low, n_low)
    if op[LOW] >= _SHORT:
        return outer, inner, (op[LOW], 1)
    if inner[0] >= outer[0]:
        return (op[LOW], 1), outer, inner
    return (op[LOW], 1), inner, outer


@njit(cache=True, nogil=True)
def _add(table, to, source, factor, grid):
    """Add a factor times some states to others."""
    (n_first, by_first), (n_second, by_second), (n_third, by_third) = grid
    for i in range(n_first):
        for j in range(n_second):
            shift = i * by_first + j * by_second
            here, there = to + shift, source + shift
            if by_third == 1:
                for k in range(n_third):
                    table[here + k] += factor * table[there + k]
            else:
                for k in range(n_third):
                    table[here + k * by_third] += factor * table[there + k * by_third]


@njit(cache=True, nogil=True)
def _take(table, at, to, op, keep, link):
    """Take an edge or not."""
    for x in range(op[SIZE]):
        table[to + x] = keep * table[at + x]
    grid = _grid(op)
    for a in range(op[HIGH_RADIX]):
        first_a, last_a = _sources(a, op[HIGH_RADIX], op[HIGH_FULL])
        for before_a in range(first_a, last_a):
            for b in range(op[LOW_RADIX]):
                first_b, last_b = _sources(b, op[LOW_RADIX], op[LOW_FULL])
                for before_b in range(first_b, last_b):
                    _add(table, to + a * op[HIGH] + b * op[LOW],
                        at + before_a * op[HIGH] + before_b * op[LOW], link, grid,
                    )  # fmt: skip


@njit(cache=True, nogil=True)
def _close(table, at, to, op, free, linked):
    """Sum out a digit."""
    n, radix = op[HIGH], op[HIGH_RADIX]
    for outer in range(op[SIZE] // (n * radix)):
        here, there = to + outer * n, at + outer * n * radix
        for x in range(n):
            value = free * table[there + x]
            for digit in range(1, radix):
                value += linked * table[there + digit * n + x]
            table[here + x] = value


@njit(cache=True, nogil=True)
def _open(table, at, to, op, factor):
    for x in range(op[SIZE]):
        table[to + x] = factor * table[at + x]
    table[to + op[SIZE] : to + op[SIZE] * op[HIGH_RADIX]] = 0.0


@njit(cache=True, nogil=True, fastmath={"nnan", "ninf", "nsz"})
def _exponent_of(table, at, n):
    """Return k with the largest entry from 2^(k-1) to 2^k; 0 if all are 0."""
    largest = 0.0
    for x in range(at, at + n):
        largest = table[x] if table[x] > largest else largest
    return math.frexp(largest)[1]


@njit(cache=True, nogil=True)
def size_after(op):
    """Return the entries of the table after an operation."""
    if op[KIND] == OPEN:
        return op[SIZE] * op[HIGH_RADIX]
    return op[SIZE] // op[HIGH_RADIX] if op[KIND] == CLOSE else op[SIZE]


@njit(cache=True, nogil=True)
def fill_places(ops, start, first, last, places):
    """Fill where the tables of ``first .. last`` begin; return the length of all."""
    at = 0
    for k in range(first, last):
        places[k] = at
        at += ops[start + k, SIZE]
    places[last] = at
    return at + size_after(ops[start + last - 1])


@njit(cache=True, nogil=True)
def sweep_forward(ops, start, low, high, places, exponents, table, first, last):
    """Carry out operations ``first .. last - 1`` of the walk that begins at `start`."""
    if first == 0:
        table[places[0]] = 1.0
        exponents[0] = 0
    for k in range(first, last):
        op = ops[start + k]
        at, to = places[k], places[k + 1]
        factor = math.ldexp(1.0, min(-int(exponents[k]), _MOST))
        if op[KIND] == OPEN:
            _open(table, at, to, op, factor)
        elif op[KIND] == LINK:
            _take(table, at, to, op, factor * low[k], factor * high[k])
        else:
            _close(table, at, to, op, factor * low[k], factor * high[k])
        exponents[k + 1] = _exponent_of(table, to, size_after(op))


@njit(cache=True, nogil=True, fastmath=_FAST)
def _dot(table, at, back, there, n):
    total = 0.0
    for x in range(n):
        total += table[at + x] * back[there + x]
    return total


@njit(cache=True, nogil=True, fastmath=_FAST)
def _add_back(table, at, back, source, new, to, factor, grid):
    """Add a factor times some states to others; return what passes, less the factor."""
    (n_first, by_first), (n_second, by_second), (n_third, by_third) = grid
    flow = 0.0
    for i in range(n_first):
        for j in range(n_second):
            shift = i * by_first + j * by_second
            here, there = to + shift, source + shift
            if by_third == 1:
                for k in range(n_third):
                    new[here + k] += factor * back[there + k]
                    flow += table[at + here + k] * back[there + k]
            else:
                for k in range(0, n_third * by_third, by_third):
                    new[here + k] += factor * back[there + k]
                    flow += table[at + here + k] * back[there + k]
    return flow


@njit(cache=True, nogil=True)
def _untake(table, at, back, new, op, keep, link):
    """Fill the table before an edge; return what passes if it is not used, and if it is."""
    n, flow = op[SIZE], 0.0
    for x in range(n):
        new[x] = keep * back[x]
    grid = _grid(op)
    for a in range(op[HIGH_RADIX]):
        after_a = _target(a, op[HIGH_RADIX], op[HIGH_FULL])
        if after_a == op[HIGH_RADIX]:
            continue
        for b in range(op[LOW_RADIX]):
            after_b = _target(b, op[LOW_RADIX], op[LOW_FULL])
            if after_b < op[LOW_RADIX]:
                flow += _add_back(table, at, back, after_a * op[HIGH] + after_b * op[LOW],
                    new, a * op[HIGH] + b * op[LOW], link, grid)  # fmt: skip
    return keep * _dot(table, at, back, 0, n), link * flow


@njit(cache=True, nogil=True)
def _unclose(table, at, back, new, op, free, linked):
    """Fill the table before a digit is closed; return what passes with 0, and without."""
    n, radix = op[HIGH], op[HIGH_RADIX]
    none = some = 0.0
    for outer in range(op[SIZE] // (n * radix)):
        here, there = outer * n, outer * n * radix
        for x in range(n):
            new[there + x] = free * back[here + x]
        none += _dot(table, at + there, back, here, n)
        for digit in range(1, radix):
            for x in range(n):
                new[there + digit * n + x] = linked * back[here + x]
            some += _dot(table, at + there + digit * n, back, here, n)
    return free * none, linked * some


@njit(cache=True, nogil=True)
def sweep_back(
    ops, start, low, high, places, exponents, table, buffers, state, marginals, own_out,
    other_out, first, last,
):  # fmt: skip
    """Undo the operations that are ``first .. last - 1`` from the end of a walk.

    `buffers` has two tables; `state` the number of that in use, its exponent, log2 of the
    least sum over a step of both tables, and of the last one with the latter scaled.
    """
    n_ops = len(places) - 1
    if first == 0:
        buffers[0, 0] = 1.0
        state[0], state[1], state[2], state[3] = 0, 1, 0, 0
    for k in range(n_ops - 1 - first, n_ops - 1 - last, -1):
        op = ops[start + k]
        back, new = buffers[state[0]], buffers[1 - state[0]]
        if op[KIND] == OPEN:  # states with a link came from nowhere
            state[3] += exponents[k]
            state[2] = min(state[2], state[3])
            state[1] = _exponent_of(back, 0, op[SIZE])
            continue
        factor = math.ldexp(1.0, min(-int(state[1]), _MOST))
        one, other = factor * low[k], factor * high[k]
        if op[KIND] == LINK:
            no, yes = _untake(table, places[k], back, new, op, one, other)
            if no + yes > 0.0:
                marginals[ops[start + k, ITEM]] = yes / (no + yes)
        else:
            no, yes = _unclose(table, places[k], back, new, op, one, other)
        if no + yes > 0.0:
            if op[OWN] >= 0:
                own_out[op[OWN]] = no / (no + yes)
            if op[OTHER] >= 0:
                other_out[op[OTHER]] = no / (no + yes)
        state[3] = LOST
        if 0.0 < no + yes < np.inf:
            state[3] = math.frexp(no + yes)[1]
        state[2] = min(state[2], state[3], state[3] - exponents[k] + state[1])
        state[0] = 1 - state[0]
        state[1] = _exponent_of(new, 0, op[SIZE])


@njit(cache=True, nogil=True)
def log_total(exponents, places, table, shift):
    """Return the log of the last table's only entry."""
    last = len(places) - 1
    value = table[places[last]]
    if not value > 0.0:
        return -np.inf
    return math.log(value) + _LN2 * np.sum(exponents[:last]) + shift


@njit(cache=True, nogil=True)
def largest_table(ops, start, stop):
    """Return the entries of the largest table of a walk."""
    largest = 1
    for t in range(start, stop):
        largest = max(largest, ops[t, SIZE])
    return largest


@njit(cache=True, nogil=True)
def solve_counts(
    ops, op_starts, walks_right, scores, free_left, free_right, logs, lowest, marginals,
    left_out, right_out, first, last,
):  # fmt: skip
    """Answer components ``first .. last - 1``, each in one go."""
    for c in range(first, last):
        start, stop = op_starts[c], op_starts[c + 1]
        n_ops = stop - start
        own_free, other_free = free_left, free_right
        own_out, other_out = left_out, right_out
        if walks_right[c]:
            own_free, other_free = free_right, free_left
            own_out, other_out = right_out, left_out
        low, high = np.empty(n_ops), np.empty(n_ops)
        places, exponents = np.empty(n_ops + 1, np.int64), np.empty(n_ops + 1, np.int64)
        shift = fill_factors(ops, start, stop, scores, own_free, other_free, low, high)
        table = np.empty(fill_places(ops, start, 0, n_ops, places))
        sweep_forward(ops, start, low, high, places, exponents, table, 0, n_ops)
        buffers = np.empty((2, largest_table(ops, start, stop)))
        state = np.zeros(4, np.int64)
        sweep_back(ops, start, low, high, places, exponents, table, buffers, state,
            marginals, own_out, other_out, 0, n_ops)  # fmt: skip
        logs[c] = log_total(exponents, places, table, shift)
        lowest[c] = state[2]
