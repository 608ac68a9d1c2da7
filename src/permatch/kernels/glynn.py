"""Permanent and all its first derivatives by Glynn's formula: O(m 2^m) time, O(m^2) memory.

For sign vectors d with d[0] = +1 and column sums s_j(d) = sum_i d_i B_ij,

    per(B)        = 2^(1-m) sum_d (prod_k d_k) prod_j s_j(d)
    d per / d B_ij = 2^(1-m) sum_d (prod_k d_k) d_i prod_{k != j} s_k(d)

The second line needs, at every d, all leave-one-out products (prefix times suffix
products), and for every row their sum signed by d_i.  The rows share that work as follows:

    row 0         is +1 throughout
    walked rows   change sign one at a time, in Gray-code order.  `running` holds the sum
                  of all products so far; a row that flips at time t from sign d contributes
                  2 d running(t), so a flip costs O(m) and nothing else is stored
    pair row      is taken with both signs in the same pass, so it never flips
    lane rows     the last LANE_ROWS rows; all their sign patterns lie side by side in SIMD
                  lanes, and `lane_sums` keeps one sum per pattern until the end

The walk is cut into chunks by fixing the signs of the last few walked rows.  A chunk's sums
do not depend on who computes it, so chunks may run on any thread and are added in order.

References
----------
D. G. Glynn, "The permanent of a square matrix", European Journal of Combinatorics 31
(2010).
"""

import math

import numpy as np
from numba import njit

from permatch.kernels.intrinsics import WIDTH, aligned, load, splat, store, total

LANE_ROWS = 6
LANES = 1 << LANE_ROWS
#: Row 0, one walked row, the pair row and the lane rows: smaller matrices must be padded.
MIN_SIZE = LANE_ROWS + 3

# Gray-code updates of the column sums are redone from scratch this often, against drift.
_REFRESH = 1024


@njit(cache=True, nogil=True)
def _pass_over_lanes(lanes, plus, minus, sign, prefix_plus, prefix_minus, suffix_plus,
                     suffix_minus, lane_sums, running, pair_sums, n_pairs):  # fmt: skip
    """Add the leave-one-out products of all lane patterns, for both signs of the pair row.

    `plus` and `minus` are the column sums of all other rows with the pair row added or
    taken off. Columns go two at a time: that halves the prefix and suffix traffic.
    """
    for pair in range(n_pairs - 1):
        column = 2 * pair
        plus0 = splat(plus[column])
        plus1 = splat(plus[column + 1])
        minus0 = splat(minus[column])
        minus1 = splat(minus[column + 1])
        at0 = column * LANES
        at1 = at0 + LANES
        here = pair * LANES
        after = here + LANES
        for lane in range(0, LANES, WIDTH):
            x0 = load(lanes, at0 + lane)
            x1 = load(lanes, at1 + lane)
            product = (x0 + plus0) * (x1 + plus1)
            store(prefix_plus, after + lane, load(prefix_plus, here + lane) * product)
            product = (x0 + minus0) * (x1 + minus1)
            store(prefix_minus, after + lane, load(prefix_minus, here + lane) * product)

    start = splat(sign)
    for lane in range(0, LANES, WIDTH):
        store(suffix_plus, lane, start)
        store(suffix_minus, lane, start)
    zero = splat(0.0)
    for pair in range(n_pairs - 1, -1, -1):
        column = 2 * pair
        plus0 = splat(plus[column])
        plus1 = splat(plus[column + 1])
        minus0 = splat(minus[column])
        minus1 = splat(minus[column + 1])
        at0 = column * LANES
        at1 = at0 + LANES
        here = pair * LANES
        both0 = zero
        both1 = zero
        lower0 = zero
        lower1 = zero
        for lane in range(0, LANES, WIDTH):
            x0 = load(lanes, at0 + lane)
            x1 = load(lanes, at1 + lane)
            s0 = x0 + minus0
            s1 = x1 + minus1
            suffix = load(suffix_minus, lane)
            others = load(prefix_minus, here + lane) * suffix
            store(suffix_minus, lane, suffix * (s0 * s1))
            without0 = others * s1
            without1 = others * s0
            lower0 = lower0 + without0
            lower1 = lower1 + without1
            s0 = x0 + plus0
            s1 = x1 + plus1
            suffix = load(suffix_plus, lane)
            others = load(prefix_plus, here + lane) * suffix
            store(suffix_plus, lane, suffix * (s0 * s1))
            without0 = without0 + others * s1
            without1 = without1 + others * s0
            both0 = both0 + without0
            both1 = both1 + without1
            store(lane_sums, at0 + lane, load(lane_sums, at0 + lane) + without0)
            store(lane_sums, at1 + lane, load(lane_sums, at1 + lane) + without1)
        at = column * WIDTH
        store(running, at, load(running, at) + both0)
        store(pair_sums, at, load(pair_sums, at) + (both0 - (lower0 + lower0)))
        at += WIDTH
        store(running, at, load(running, at) + both1)
        store(pair_sums, at, load(pair_sums, at) + (both1 - (lower1 + lower1)))


@njit(cache=True, nogil=True)
def _column_sums(weights, signs, n_rows, sums):
    """Fill `sums` with the signed column sums of the first `n_rows` rows."""
    m = weights.shape[0]
    for j in range(m):
        sums[j] = 0.0
    for i in range(n_rows):
        for j in range(m):
            sums[j] += signs[i] * weights[i, j]


@njit(cache=True, nogil=True)
def add_chunk(weights, chunk, chunk_bits, derivatives):
    """Fill `derivatives` (m, m) with one chunk's part of 2^(m-1) d per / d weights.

    The last `chunk_bits` walked rows take their signs from the bits of `chunk`.
    """
    m = weights.shape[0]
    pair_row = m - 1 - LANE_ROWS
    n_walked = pair_row - 1 - chunk_bits
    n_pairs = (m + 1) // 2
    # Padding: a spare column of an odd matrix has the constant sum 1; the rest is never
    # read.
    width = (m + WIDTH) // WIDTH * WIDTH

    lanes = aligned(width * LANES)
    lane_sums = aligned(width * LANES)
    lanes[:] = 0.0
    lane_sums[:] = 0.0
    prefix_plus = aligned(n_pairs * LANES)
    prefix_minus = aligned(n_pairs * LANES)
    suffix_plus = aligned(LANES)
    suffix_minus = aligned(LANES)
    for j in range(m):
        for i in range(pair_row + 1, m):
            lanes[j * LANES] += weights[i, j]
    prefix_plus[0] = 1.0
    for k in range(LANE_ROWS):
        for lane in range(1 << k):
            flipped = lane | 1 << k
            prefix_plus[flipped] = -prefix_plus[lane]
            for j in range(m):
                at = j * LANES
                lanes[at + flipped] = lanes[at + lane] - 2.0 * weights[m - 1 - k, j]
    for lane in range(LANES):
        prefix_minus[lane] = -prefix_plus[lane]

    signs = np.ones(m)
    sign = 1.0
    for bit in range(chunk_bits):
        if chunk >> bit & 1:
            signs[1 + n_walked + bit] = -1.0
            sign = -sign
    # `doubled` and the vectors of column sums are padded to `width`, so that they can be
    # walked in whole SIMD vectors.  `running`, `pair_sums` and the rows of `picked` hold a
    # vector of partial sums for every column, which are added up at the end.
    doubled = np.zeros(pair_row * width)
    pair_weights = np.zeros(width)
    base = np.ones(width)
    plus = np.ones(width)
    minus = np.ones(width)
    n_sums = width * WIDTH
    picked = aligned(pair_row * n_sums)
    running = aligned(n_sums)
    pair_sums = aligned(n_sums)
    picked[:] = 0.0
    running[:] = 0.0
    pair_sums[:] = 0.0
    for j in range(m):
        pair_weights[j] = weights[pair_row, j]
        for i in range(pair_row):
            doubled[i * width + j] = 2.0 * weights[i, j]
    _column_sums(weights, signs, pair_row, base)

    n_steps = 1 << n_walked
    for step in range(1, n_steps + 1):
        for j in range(0, width, WIDTH):
            middle = load(base, j)
            offset = load(pair_weights, j)
            store(plus, j, middle + offset)
            store(minus, j, middle - offset)
        _pass_over_lanes(lanes, plus, minus, sign, prefix_plus, prefix_minus, suffix_plus,
            suffix_minus, lane_sums, running, pair_sums, n_pairs)  # fmt: skip
        if step == n_steps:
            break
        row = 1
        while not step >> (row - 1) & 1:
            row += 1
        before = splat(signs[row])
        for j in range(0, width, WIDTH):
            store(base, j, load(base, j) - before * load(doubled, row * width + j))
        for j in range(0, 2 * n_pairs * WIDTH, WIDTH):
            at = row * n_sums + j
            store(picked, at, load(picked, at) + before * load(running, j))
        signs[row] = -signs[row]
        sign = -sign
        if step % _REFRESH == 0:
            _column_sums(weights, signs, pair_row, base)

    for j in range(m):
        everything = total(load(running, j * WIDTH))
        derivatives[0, j] = everything
        for i in range(1, pair_row):
            flipped = total(load(picked, i * n_sums + j * WIDTH))
            derivatives[i, j] = 2.0 * flipped + signs[i] * everything
        derivatives[pair_row, j] = total(load(pair_sums, j * WIDTH))
        for k in range(LANE_ROWS):
            signed = 0.0
            for lane in range(LANES):
                term = lane_sums[j * LANES + lane]
                signed += -term if lane >> k & 1 else term
            derivatives[m - 1 - k, j] = signed


@njit(cache=True, nogil=True)
def finish(weights, chunks, marginals):
    """Add up chunk derivatives (n, m, m); fill `marginals`, return permanent and residual.

    ``sum_j weights[i, j] * derivative[i, j]`` equals the permanent for every row i, but
    only after the signed sums have cancelled; so the largest relative disagreement between
    the rows, the residual, measures what cancellation left behind.
    """
    m = weights.shape[0]
    permanent = 0.0
    for i in range(m):
        for j in range(m):
            derivative = 0.0
            for chunk in range(chunks.shape[0]):
                derivative += chunks[chunk, i, j]
            marginals[i, j] = weights[i, j] * derivative
            permanent += marginals[i, j]
    permanent /= m
    if not permanent > 0.0:
        return 0.0, np.inf
    residual = 0.0
    for i in range(m):
        row_sum = 0.0
        for j in range(m):
            marginals[i, j] /= permanent
            row_sum += marginals[i, j]
            # the sum with 0.0 turns -0.0, of forbidden edges, into 0.0
            marginals[i, j] = min(max(marginals[i, j], 0.0), 1.0) + 0.0
        residual = max(residual, abs(row_sum - 1.0))
    return math.ldexp(permanent, 1 - m), residual


@njit(cache=True, nogil=True)
def infer_stack(weights, permanents, marginals, residuals, first, last):
    """Whole graphs ``first .. last - 1``, each as one chunk."""
    m = weights.shape[1]
    derivatives = np.empty((1, m, m))
    for g in range(first, last):
        add_chunk(weights[g], 0, 0, derivatives[0])
        permanents[g], residuals[g] = finish(weights[g], derivatives, marginals[g])
