"""Nesting importance sampling: draws of known weight, one column after the other.

With a bound that nests (`kernels.bounds`), ``bounds[i, c]`` of row i over columns c and
after, and U = prod_i bounds[i, 0], column c takes the free row i with probability
proportional to

    ratios[c, i] = A[i, c] / bounds[i, c + 1],      t_c = sum of the ratios of free rows,

and the draw has the weight X = prod_c t_c bounds[i_c, c + 1] / bounds[i_c, 0].  Then

    E X = Z / U   whatever the bounds,     0 <= X <= 1   because they nest,

so U mean(X) estimates Z without bias, and a coin that shows heads with probability X turns
a draw into an exact sample.  The last k columns are not drawn: X is multiplied by the
permanent of what is left there, whose marginals stand for those of the draw.

The first d columns, the head, may be drawn without any loss: the table

    head[r + 1, S] = head[r, S] f_r + sum_{c in S} A[r, c] head[r, S - c],
    f_r = bounds[r, d]

holds the weight of giving the columns of S to rows 0 .. r, the other rows going to the
tail; walking it backwards draws the head, and U_d = head[n, all] <= U replaces U.

Estimates and their errors follow from sums over the draws (`Sums`).  Weights are kept
relative to a reference, the first one; it moves when one is much larger. The last k columns
of a draw enter by the marginals of its minor instead of a choice.

Sixteen draws go side by side, one per element of a vector: for every row one vector step
adds its weight to sixteen running sums, and a second pass counts how many running sums lie
below sixteen targets, which is the row chosen. Sixteen on every machine, so that a seed
gives the same draws everywhere.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from permatch.kernels.intrinsics import WIDTH, count_up, store, uniform, vectors
from permatch.kernels.subset_dp import SmallSets, fill_flows, fill_minors

LANES = 16
load, splat = vectors(LANES)

# Products of factors are turned into logarithms before they leave this range.
_SMALLEST = 1e-100
_LARGEST = 1e100
# Ratios above this are as good as certain; any positive ratios give unbiased weights.
_LARGEST_RATIO = 1e30
# Stands for the logarithm of 0 where it is multiplied by 0.
_DEAD = -1e9
# The reference moves when a weight is so much larger, in logs.
_MOVE = 30.0


class Proposal(NamedTuple):
    """What the kernels need to draw: see the module docstring.

    `head_weights` (n, d) and `head` (n + 1, 2^d), each layer divided by its maximum;
    `head_tail` (n,) are the f_r.  `ratios`, `gains` (n_mid, n): the columns that are drawn,
    a gain being what the weight is multiplied by, besides t_c, when row i is chosen.
    `tail` (n, k): the last columns, rows divided by f_r.  `lookahead` (n_mid, n):
    ``log(bounds[i, c + 1] / bounds[i, 0])``, what a free row may still contribute.
    """

    head_weights: np.ndarray
    head: np.ndarray
    head_tail: np.ndarray
    ratios: np.ndarray
    gains: np.ndarray
    tail: np.ndarray
    lookahead: np.ndarray
    sets: SmallSets


@njit(cache=True, nogil=True)
def fill_head(weights, tail_bounds, head):
    """Fill the head table; return the log of its last entry, log U_d."""
    n, d = weights.shape
    log_scale = 0.0
    head[0, :] = 0.0
    head[0, 0] = 1.0
    for row in range(n):
        log_scale += _add_head_row(weights[row], tail_bounds[row], head, row)
    last = head[n, (1 << d) - 1]
    return log_scale + (math.log(last) if last > 0.0 else -np.inf)


@njit(cache=True, nogil=True)
def _add_head_row(weights, tail_bound, head, row):
    """Fill the table after one row more; return the log of what was divided out."""
    d = len(weights)
    largest = 0.0
    for state in range(1 << d):
        value = head[row, state] * tail_bound
        for c in range(d):
            if state >> c & 1:
                value += weights[c] * head[row, state ^ (1 << c)]
        head[row + 1, state] = value
        largest = max(largest, value)
    for state in range(1 << d):
        head[row + 1, state] /= largest
    return math.log(largest)


@njit(cache=True, nogil=True)
def fill_proposal(weights, bounds, scale, ratios, gains, tail, lookahead):
    """Fill the tables of `Proposal` from weights and bounds of the columns after the head.

    `scale[i]` is ``1 / bounds[i, 0]``, or 0 for a row without weight there.
    """
    n_mid, n = ratios.shape
    for c in range(n_mid):
        for i in range(n):
            weight = weights[i, c]
            after = bounds[i, c + 1]
            if weight == 0.0 or scale[i] == 0.0:
                ratios[c, i] = 0.0
                gains[c, i] = 0.0
            else:
                ratio = (
                    weight / after if after * _LARGEST_RATIO > weight else _LARGEST_RATIO
                )
                ratios[c, i] = ratio
                gains[c, i] = weight / ratio * scale[i]
            rest = after * scale[i]
            lookahead[c, i] = math.log(rest) if rest > 0.0 else _DEAD
    for i in range(n):
        for j in range(tail.shape[1]):
            tail[i, j] = weights[i, n_mid + j] * scale[i]


@njit(cache=True, nogil=True)
def draw_head(proposal, lane, free, state, rows):
    """Draw the rows of the head columns of one lane, and mark them as used."""
    n, d = proposal.head_weights.shape
    left = (1 << d) - 1
    for row in range(n - 1, -1, -1):
        if left == 0:
            break
        stays = proposal.head[row, left] * proposal.head_tail[row]
        total = stays
        for c in range(d):
            if left >> c & 1:
                total += proposal.head_weights[row, c] * proposal.head[row, left ^ (1 << c)]
        target = uniform(state) * total - stays
        if target < 0.0:
            continue
        chosen = -1
        for c in range(d):
            if left >> c & 1:
                mass = proposal.head_weights[row, c] * proposal.head[row, left ^ (1 << c)]
                if mass > 0.0:
                    chosen = c
                    target -= mass
                    if target < 0.0:
                        break
        if chosen >= 0:
            rows[chosen, lane] = row
            free[row, lane] = 0.0
            left ^= 1 << chosen


@njit(cache=True, nogil=True)
def draw_block(proposal, state, free, rows, logs):
    """Draw all but the last k columns of one block; `rows` (n, LANES) receives the rows.

    The last k places of `rows` receive the rows that are left; `logs` the log-weights.
    """
    n = proposal.tail.shape[0]
    d = proposal.head_weights.shape[1]
    k = proposal.tail.shape[1]
    products = np.ones(LANES)
    totals = np.empty((3, LANES))
    chosen = np.empty(LANES, np.int64)
    free[:] = 1.0
    logs[:] = 0.0
    if d > 0:
        for lane in range(LANES):
            draw_head(proposal, lane, free, state, rows)
    for col in range(n - d - k):
        choose_rows(proposal.ratios, col, free, state, totals, chosen)
        for lane in range(LANES):
            row = chosen[lane]
            rows[d + col, lane] = row
            multiply(products, logs, lane, totals[0, lane] * proposal.gains[col, row])
    settle(products, logs)
    for lane in range(LANES):
        place = n - k
        for row in range(n):
            if free[row, lane] > 0.0:
                rows[place, lane] = row
                place += 1


@njit(cache=True, nogil=True)
def fill_minor(proposal, rows, first_lane, minor):
    """Copy what `WIDTH` lanes have left into `minor` (k, k, WIDTH)."""
    n, k = proposal.tail.shape
    for lane in range(WIDTH):
        for r in range(k):
            row = rows[n - k + r, first_lane + lane]
            for j in range(k):
                minor[r, j, lane] = proposal.tail[row, j]


class Scratch(NamedTuple):
    """Tables for the minors of `WIDTH` lanes."""

    minor: np.ndarray
    flows: np.ndarray
    forward: np.ndarray
    backward: np.ndarray


@njit(cache=True, nogil=True)
def make_scratch(k):
    """Return tables for minors of size k."""
    return Scratch(
        np.empty((k, k, WIDTH)),
        np.empty((k, k, WIDTH)),
        np.empty((1 << k, WIDTH)),
        np.empty((1 << k, WIDTH)),
    )


class Sums(NamedTuple):
    """Sums over draws of weights w = exp(log X - reference) and edge beliefs b.

    `totals`: reference, sum of w, sum of w^2, largest w, number of draws.  The others are
    (m, m), by column in the order drawn, then row: sums of w b, w^2 b and w^2 b^2.
    """

    totals: np.ndarray
    first: np.ndarray
    cross: np.ndarray
    second: np.ndarray


@njit(cache=True, nogil=True)
def add_block(proposal, rows, logs, scratch, sums):
    """Finish the draws of a block by the permanents of their minors; add them up."""
    n, k = proposal.tail.shape
    n_drawn = n - k
    full = (1 << k) - 1
    minor, flows, forward, backward = scratch
    for first_lane in range(0, LANES, WIDTH):
        fill_minor(proposal, rows, first_lane, minor)
        fill_minors(minor, proposal.sets, forward)
        fill_flows(minor, proposal.sets, forward, backward, flows)
        for q in range(WIDTH):
            lane = first_lane + q
            permanent = forward[full, q]
            sums.totals[4] += 1.0
            if permanent == 0.0 or logs[lane] == -np.inf:
                continue
            weight = add_weight(sums, logs[lane] + math.log(permanent))
            square = weight * weight
            for c in range(n_drawn):
                row = rows[c, lane]
                sums.first[c, row] += weight
                sums.cross[c, row] += square
            for r in range(k):
                row = rows[n_drawn + r, lane]
                for j in range(k):
                    belief = flows[r, j, q] / permanent
                    sums.first[n_drawn + j, row] += weight * belief
                    sums.cross[n_drawn + j, row] += square * belief
                    sums.second[n_drawn + j, row] += square * belief * belief


@njit(cache=True, nogil=True)
def add_chunk(proposal, state, n_draws, sums):
    """Add `n_draws` draws, a multiple of `LANES`, to the sums."""
    n, k = proposal.tail.shape
    free = np.empty((n, LANES))
    rows = np.empty((n, LANES), np.int64)
    logs = np.empty(LANES)
    scratch = make_scratch(k)
    for _ in range(n_draws // LANES):
        draw_block(proposal, state, free, rows, logs)
        add_block(proposal, rows, logs, scratch, sums)
    sums.second[: n - k] = sums.cross[: n - k]  # a belief of 0 or 1 is its own square


@njit(cache=True, nogil=True)
def add_weight(sums, log_weight):
    """Count a draw's weight and return it, relative to the reference."""
    totals = sums.totals
    if totals[1] == 0.0:
        totals[0] = log_weight
    elif log_weight - totals[0] > _MOVE:
        factor = math.exp(totals[0] - log_weight)
        totals[0] = log_weight
        totals[1] *= factor
        totals[2] *= factor * factor
        totals[3] *= factor
        sums.first[:] *= factor
        sums.cross[:] *= factor * factor
        sums.second[:] *= factor * factor
    weight = math.exp(log_weight - totals[0])
    totals[1] += weight
    totals[2] += weight * weight
    totals[3] = max(totals[3], weight)
    return weight


@njit(cache=True, nogil=True)
def choose_rows(ratios, col, free, state, totals, chosen):
    """Choose a free row for every lane with probability proportional to its ratio.

    Parameters
    ----------
    ratios : (n_cols, n) array
        Row `col` holds the weights of the rows.
    free : (n, LANES) array
        1.0 where a lane's row is free; the chosen row is set to 0.0.
    totals : (3, LANES) array
        Row 0 receives the sums of the free weights; the others are scratch.
    chosen : (LANES,) array of int
        Receives the rows.  Where the sum is 0 it is any free row.
    """
    n = ratios.shape[1]
    for lane in range(LANES):
        totals[1, lane] = uniform(state)
    reached = splat(0.0)
    for k in range(n):
        reached = reached + splat(ratios[col, k]) * load(free, k * LANES)
    store(totals, 0, reached)
    target = reached * load(totals, LANES)
    reached = splat(0.0)
    n_below = splat(0.0)
    for k in range(n):
        reached = reached + splat(ratios[col, k]) * load(free, k * LANES)
        n_below = count_up(n_below, reached, target)
    store(totals, 2 * LANES, n_below)
    for lane in range(LANES):
        row = int(totals[2, lane])
        if row >= n:  # nothing to choose from, or a target rounded up to the sum
            row = _last_free(ratios, col, free, lane)
        free[row, lane] = 0.0
        chosen[lane] = row


@njit(cache=True, nogil=True)
def _last_free(ratios, col, free, lane):
    """Return the last free row of positive ratio, or just the last free row."""
    found = -1
    for row in range(ratios.shape[1] - 1, -1, -1):
        if free[row, lane] > 0.0:
            if ratios[col, row] > 0.0:
                return row
            found = max(found, row)
    return found


@njit(cache=True, nogil=True)
def multiply(products, logs, lane, factor):
    """Multiply a lane's weight ``exp(logs) * products`` by a factor of any size."""
    product = products[lane] * factor
    if not _SMALLEST < product < _LARGEST:
        logs[lane] += math.log(product) if product > 0.0 else -np.inf
        product = 1.0
    products[lane] = product


@njit(cache=True, nogil=True)
def settle(products, logs):
    """Move what is left of the products into the logarithms."""
    for lane in range(LANES):
        logs[lane] += math.log(products[lane])
        products[lane] = 1.0
