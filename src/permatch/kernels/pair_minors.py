"""All second derivatives of a permanent in one walk over sign vectors.

With the column sums s_j(d) of Glynn's formula (see `glynn`), the permanent of what is left
of B without rows i, k and columns j, l is

    minor[ik, jl] = 2^(1-m) sum_d (prod_r d_r) d_i d_k prod_{c != j, l} s_c(d)

and the probability that a matching has both edges (i, j) and (k, l)

    B_ij B_kl minor[ik, jl] / per(B).

At every d all m (m - 1) / 2 leave-two-out products are needed, two multiplications each:
``prefix_j * (s_{j+1} .. s_{l-1})``, which grows with l, times ``suffix_{l+1}``.  Their sums
signed by d_i d_k, for all pairs of rows, share the work as those of `glynn` do:

    lane rows     the last three; their sign patterns lie in the lanes of a vector, so that
                  every sum below is one per pattern until the end
    block rows    the three before: eight patterns in the same pass, and the sums signed by
                  one or two of these rows by 23 additions
    walked rows   change sign one at a time, in Gray-code order.  With V(t) the sum of all
                  products so far and R_r(t) that signed by row r, row q that flips at time
                  t from sign d adds 2 d V(t) to what is picked up for q, and 2 d R_r(t) to
                  that for every pair (r, q) with r a row that flips more often.  That is
                  two updates per step on average, and one for each block row

So a step costs about 100 vector operations for each pair of columns and 64 sign vectors,
m / 2 times as many as the first derivatives.  Memory of a thread: eight doubles for each
pair of columns and each pair of rows that are not lane rows, 1.7 MB at m = 20 and 7 MB at
m = 28, and 0.3 and 1.1 MB for the minors of one graph.  Nothing else of the size edges x
edges is kept: `contract` goes through the minors once, for all directions.
"""

import numpy as np
from numba import njit

from permatch.kernels.intrinsics import aligned, store, vectors

_LANE_ROWS = 3
LANES = 1 << _LANE_ROWS
load, splat = vectors(LANES)
_BLOCK_ROWS = 3
_PATTERNS = 1 << _BLOCK_ROWS
#: Row 0, the block rows and the lane rows.
MIN_SIZE = 1 + _BLOCK_ROWS + _LANE_ROWS
# Gray-code updates of the column sums are redone from scratch this often, against drift.
_REFRESH = 1024


@njit(cache=True, nogil=True)
def _multiply(lanes, lane_signs, bases, signs, m, factors, prefix, suffix):
    """Fill the column sums of all block patterns, and their products from both ends."""
    for p in range(_PATTERNS):
        first = p * (m + 1)
        product = load(lane_signs, 0)
        store(prefix, first * LANES, product)
        for j in range(m):
            factor = load(lanes, j * LANES) + splat(bases[p * m + j])
            store(factors, (first + j) * LANES, factor)
            product = product * factor
            store(prefix, (first + j + 1) * LANES, product)
        product = splat(signs[p])
        store(suffix, (first + m) * LANES, product)
        for j in range(m - 1, -1, -1):
            product = product * load(factors, (first + j) * LANES)
            store(suffix, (first + j) * LANES, product)


@njit(cache=True, nogil=True)
def _add_products(factors, prefix, suffix, m, running, n_sums):
    """Add all leave-two-out products to the running sums, `n_sums` numbers each.

    Bits 0 to 2 of the number of a sum tell by which block rows it is signed; that by all
    three is not needed.
    """
    by = (m + 1) * LANES  # from one pattern to the next
    at = 0
    for j in range(m - 1):
        here = j * LANES
        a0, a1 = load(prefix, here), load(prefix, here + by)
        a2, a3 = load(prefix, here + 2 * by), load(prefix, here + 3 * by)
        a4, a5 = load(prefix, here + 4 * by), load(prefix, here + 5 * by)
        a6, a7 = load(prefix, here + 6 * by), load(prefix, here + 7 * by)
        for c in range(here + LANES, m * LANES, LANES):
            after = c + LANES
            p0, p1 = a0 * load(suffix, after), a1 * load(suffix, after + by)
            p2, p3 = a2 * load(suffix, after + 2 * by), a3 * load(suffix, after + 3 * by)
            p4, p5 = a4 * load(suffix, after + 4 * by), a5 * load(suffix, after + 5 * by)
            p6, p7 = a6 * load(suffix, after + 6 * by), a7 * load(suffix, after + 7 * by)
            a0, a1 = a0 * load(factors, c), a1 * load(factors, c + by)
            a2, a3 = a2 * load(factors, c + 2 * by), a3 * load(factors, c + 3 * by)
            a4, a5 = a4 * load(factors, c + 4 * by), a5 * load(factors, c + 5 * by)
            a6, a7 = a6 * load(factors, c + 6 * by), a7 * load(factors, c + 7 * by)
            p0, p1, p2, p3 = p0 + p1, p0 - p1, p2 + p3, p2 - p3
            p4, p5, p6, p7 = p4 + p5, p4 - p5, p6 + p7, p6 - p7
            p0, p2, p1, p3 = p0 + p2, p0 - p2, p1 + p3, p1 - p3
            p4, p6, p5, p7 = p4 + p6, p4 - p6, p5 + p7, p5 - p7
            store(running, at, load(running, at) + (p0 + p4))
            place = at + n_sums
            store(running, place, load(running, place) + (p1 + p5))
            place += n_sums
            store(running, place, load(running, place) + (p2 + p6))
            place += n_sums
            store(running, place, load(running, place) + (p3 + p7))
            place += n_sums
            store(running, place, load(running, place) + (p0 - p4))
            place += n_sums
            store(running, place, load(running, place) + (p1 - p5))
            place += n_sums
            store(running, place, load(running, place) + (p2 - p6))
            at += LANES


@njit(cache=True, nogil=True)
def _pick_up(running, picked, pairs, signs, q, factor, n_sums):
    """Pick up the sums so far, times a factor, for row q and its pairs with faster rows."""
    twice = splat(factor * signs[q])
    own = q * n_sums
    for e in range(0, n_sums, LANES):
        store(picked, own + e, load(picked, own + e) + twice * load(running, e))
    for b in range(_BLOCK_ROWS):
        place = _pair_place(b, q, n_sums)
        source = (1 << b) * n_sums
        for e in range(0, n_sums, LANES):
            value = load(pairs, place + e) + twice * load(running, source + e)
            store(pairs, place + e, value)
    for r in range(1, q):
        place = _pair_place(r + _BLOCK_ROWS - 1, q, n_sums)
        source, sign = r * n_sums, splat(signs[r])
        for e in range(0, n_sums, LANES):
            signed = load(picked, source + e) + sign * load(running, e)
            store(pairs, place + e, load(pairs, place + e) + twice * signed)


@njit(cache=True, nogil=True)
def _pair_place(faster, q, n_sums):
    """Return where the sums of walked row q and a faster row begin.

    The faster ones are the block rows, then the walked rows from 1 on.
    """
    before = (q - 1) * (q - 2) // 2 + (q - 1) * _BLOCK_ROWS
    return (before + faster) * n_sums


@njit(cache=True, nogil=True)
def _set_bases(weights, signs, n_rows, bases):
    """Fill the column sums of all rows but lane rows, for all block patterns."""
    m = weights.shape[0]
    for j in range(m):
        value = 0.0
        for i in range(n_rows):
            value += signs[i] * weights[i, j]
        for p in range(_PATTERNS):
            shifted = value
            for b in range(_BLOCK_ROWS):
                weight = weights[n_rows + b, j]
                shifted += -weight if p >> b & 1 else weight
            bases[p * m + j] = shifted


@njit(cache=True, nogil=True)
def _set_lanes(weights, lanes, lane_signs):
    """Fill the column sums of the lane rows, and the products of their signs."""
    m = weights.shape[0]
    for lane in range(LANES):
        sign = 1.0
        for k in range(_LANE_ROWS):
            sign = -sign if lane >> k & 1 else sign
        lane_signs[lane] = sign
        for j in range(m):
            value = 0.0
            for k in range(_LANE_ROWS):
                weight = weights[m - 1 - k, j]
                value += -weight if lane >> k & 1 else weight
            lanes[j * LANES + lane] = value


@njit(cache=True, nogil=True)
def add_chunk(weights, chunk, chunk_bits, minors):
    """Add one chunk's part of 2^(m-1) times all minors to `minors` (pairs, pairs).

    The last `chunk_bits` walked rows take their signs from the bits of `chunk`.  Pairs of
    rows, and of columns, are (0, 1), (0, 2), .., (1, 2), ..
    """
    m = weights.shape[0]
    n_rows = m - _LANE_ROWS - _BLOCK_ROWS  # row 0 and the walked rows
    n_walked = n_rows - 1 - chunk_bits
    n_sums = m * (m - 1) // 2 * LANES
    lanes, lane_signs = aligned(m * LANES), aligned(LANES)
    _set_lanes(weights, lanes, lane_signs)
    room = _PATTERNS * (m + 1) * LANES
    factors, prefix, suffix = aligned(room), aligned(room), aligned(room)
    running, picked = aligned(_PATTERNS * n_sums), aligned(n_rows * n_sums)
    pairs = aligned(_pair_place(0, n_rows, n_sums))
    running[:] = 0.0
    picked[:] = 0.0
    pairs[:] = 0.0
    signs, sign = np.ones(n_rows), 1.0
    for bit in range(chunk_bits):
        if chunk >> bit & 1:
            signs[1 + n_walked + bit] = -1.0
            sign = -sign
    bases, pattern_signs = np.empty(_PATTERNS * m), np.empty(_PATTERNS)
    _set_bases(weights, signs, n_rows, bases)
    n_steps = 1 << n_walked
    for step in range(1, n_steps + 1):
        for p in range(_PATTERNS):
            pattern_signs[p] = -sign if (p ^ p >> 1 ^ p >> 2) & 1 else sign
        _multiply(lanes, lane_signs, bases, pattern_signs, m, factors, prefix, suffix)
        _add_products(factors, prefix, suffix, m, running, n_sums)
        if step == n_steps:
            break
        row = 1
        while not step >> (row - 1) & 1:
            row += 1
        _pick_up(running, picked, pairs, signs, row, 2.0, n_sums)
        for j in range(m):
            change = 2.0 * signs[row] * weights[row, j]
            for p in range(_PATTERNS):
                bases[p * m + j] -= change
        signs[row] = -signs[row]
        sign = -sign
        if step % _REFRESH == 0:
            _set_bases(weights, signs, n_rows, bases)
    # At the end once instead of twice; slow rows first, as they need what fast ones have
    # picked up until now.
    for row in range(n_rows - 1, 0, -1):
        _pick_up(running, picked, pairs, signs, row, 1.0, n_sums)
    _unfold(running, picked, pairs, m, n_rows, n_sums, minors)


@njit(cache=True, nogil=True)
def _unfold(running, picked, pairs, m, n_rows, n_sums, minors):
    """Add the sums of every pair of rows over lanes, signed if a row is a lane row."""
    row_pair = 0
    for i in range(m):
        for k in range(i + 1, m):
            mask = 0  # of the lane rows among the two
            for row in (i, k):
                if row >= m - _LANE_ROWS:
                    mask |= 1 << (m - 1 - row)
            one = i if i < m - _LANE_ROWS else 0
            two = k if k < m - _LANE_ROWS else 0
            source, at = _sums_of(one, two, n_rows, n_sums)
            for c in range(n_sums // LANES):
                value = 0.0
                for lane in range(LANES):
                    place = at + c * LANES + lane
                    term = running[place]
                    if source == 1:
                        term = picked[place]
                    elif source == 2:
                        term = pairs[place]
                    ones = lane & mask
                    is_odd = (ones ^ ones >> 1 ^ ones >> 2) & 1
                    value += -term if is_odd else term
                minors[row_pair, c] += value
            row_pair += 1


@njit(cache=True, nogil=True)
def _sums_of(one, two, n_rows, n_sums):
    """Return where the sums signed by two rows are, 0 for none: array and place."""
    low, high = min(one, two), max(one, two)
    if low >= n_rows:
        return 0, ((1 << (low - n_rows)) + (1 << (high - n_rows))) * n_sums
    if high >= n_rows:
        block = high - n_rows
        return (2, _pair_place(block, low, n_sums)) if low else (0, n_sums << block)
    if low:
        return 2, _pair_place(low + _BLOCK_ROWS - 1, high, n_sums)
    return (1, high * n_sums) if high else (0, 0)


@njit(cache=True, nogil=True)
def finish(weights, minors, marginals):
    """Divide minors by the permanent; fill marginals, return the residual.

    The sum over j and l of ``B_ij B_kl minor[ik, jl]`` is the permanent for every pair of
    rows, but only after the signed sums have cancelled: the largest relative disagreement
    is the residual.
    """
    m = weights.shape[0]
    n_pairs = m * (m - 1) // 2
    estimates = np.zeros(n_pairs)
    marginals[:] = 0.0
    row_pair = 0
    for i in range(m):
        for k in range(i + 1, m):
            column_pair = 0
            for j in range(m):
                for c in range(j + 1, m):
                    minor = minors[row_pair, column_pair]
                    one = weights[i, j] * weights[k, c] * minor
                    other = weights[i, c] * weights[k, j] * minor
                    estimates[row_pair] += one + other
                    marginals[i, j] += one
                    marginals[k, c] += one
                    marginals[i, c] += other
                    marginals[k, j] += other
                    column_pair += 1
            row_pair += 1
    permanent = np.sum(estimates) / n_pairs
    if not permanent > 0.0:
        return np.inf
    marginals /= (m - 1) * permanent
    minors /= permanent
    return np.max(np.abs(estimates - permanent)) / permanent


@njit(cache=True, nogil=True)
def _add_block(chances, m, source, along, target, tangents, n_columns):
    """Add ``chances (m, m) @ directions`` of one row to the derivatives of another.

    Four columns and `LANES` directions at a time stay in registers.
    """
    for n in range(0, n_columns, LANES):
        for j in range(0, m, 4):
            a0, a1, a2, a3 = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
            for c in range(m):
                direction = load(along, (source + c) * n_columns + n)
                place = c * (m + 3) + j
                a0 = a0 + splat(chances[place]) * direction
                a1 = a1 + splat(chances[place + 1]) * direction
                a2 = a2 + splat(chances[place + 2]) * direction
                a3 = a3 + splat(chances[place + 3]) * direction
            at, by = (target + j) * n_columns + n, n_columns
            store(tangents, at, load(tangents, at) + a0)
            if j + 1 < m:
                store(tangents, at + by, load(tangents, at + by) + a1)
            if j + 2 < m:
                store(tangents, at + 2 * by, load(tangents, at + 2 * by) + a2)
            if j + 3 < m:
                store(tangents, at + 3 * by, load(tangents, at + 3 * by) + a3)


@njit(cache=True, nogil=True)
def contract(weights, minors, marginals, directions, tangents):
    """Fill the derivatives of marginals (m^2, K) in K directions on scores (m^2, K).

    K is a multiple of `LANES`.  One pair of rows after the other.
    """
    m = weights.shape[0]
    n_columns = directions.shape[1]
    mean = np.zeros(n_columns)
    for e in range(m * m):
        share = marginals[e // m, e % m]
        for n in range(n_columns):
            tangents[e, n] = share * directions[e, n]
            mean[n] += tangents[e, n]
    along, out = directions.reshape(-1), tangents.reshape(-1)
    there, back = np.zeros(m * (m + 3)), np.zeros(m * (m + 3))
    row_pair = 0
    for i in range(m):
        for k in range(i + 1, m):
            column_pair = 0
            for j in range(m):
                for c in range(j + 1, m):
                    minor = minors[row_pair, column_pair]
                    column_pair += 1
                    one = weights[i, j] * weights[k, c] * minor
                    other = weights[i, c] * weights[k, j] * minor
                    there[c * (m + 3) + j] = back[j * (m + 3) + c] = one
                    there[j * (m + 3) + c] = back[c * (m + 3) + j] = other
            _add_block(there, m, k * m, along, i * m, out, n_columns)
            _add_block(back, m, i * m, along, k * m, out, n_columns)
            row_pair += 1
    for e in range(m * m):
        share = marginals[e // m, e % m]
        for n in range(n_columns):
            tangents[e, n] -= share * mean[n]


@njit(cache=True, nogil=True)
def solve_stack(weights, directions, tangents, residuals, first, last):
    """Whole graphs ``first .. last - 1``, each as one chunk."""
    m = weights.shape[1]
    n_pairs = m * (m - 1) // 2
    minors, marginals = np.empty((n_pairs, n_pairs)), np.empty((m, m))
    for g in range(first, last):
        minors[:] = 0.0
        add_chunk(weights[g], 0, 0, minors)
        residuals[g] = finish(weights[g], minors, marginals)
        contract(weights[g], minors, marginals, directions[g], tangents[g])
