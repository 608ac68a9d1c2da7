"""Derivatives of the permanent's derivatives along a direction: Glynn's formula on duals.

With weights B, their change B' along a direction, sign vectors d with d[0] = +1 and column
sums s_j(d) = sum_i d_i B_ij, s'_j(d) = sum_i d_i B'_ij,

    D_ij  = d per / d B_ij = 2^(1-m) sum_d (prod_k d_k) d_i prod_{k != j} s_k(d)
    D'_ij = the same sum with every product replaced by its derivative,

that is the sum of `glynn` with dual numbers s + s' e, e^2 = 0, in the place of floats: a
product costs three multiplications instead of one.  The walk is that of `glynn`, less the
row that is taken with both signs: row 0 is +1 throughout, walked rows change sign in
Gray-code order, the last `LANE_ROWS` rows lie side by side in SIMD lanes.

From both follow the derivatives of the marginals ``p_ij = B_ij D_ij / per``, with B' = B v,

    p'_ij = B_ij D'_ij / per + p_ij v_ij - p_ij sum p v.
"""

import numpy as np
from numba import njit

from permatch.kernels.intrinsics import WIDTH, aligned, load, splat, store, total

LANE_ROWS = 5
LANES = 1 << LANE_ROWS
#: Row 0, one walked row and the lane rows: smaller matrices must be padded.
MIN_SIZE = LANE_ROWS + 2

# Gray-code updates of the column sums are redone from scratch this often, against drift.
_REFRESH = 1024


@njit(cache=True, nogil=True)
def _pass_over_lanes(lanes, d_lanes, base, d_base, sign, prefix, d_prefix, suffix,
                     d_suffix, lane_sums, d_lane_sums, running, d_running, m):  # fmt: skip
    """Add the leave-one-out products of all lane patterns, and their derivatives."""
    for column in range(m - 1):
        value = splat(base[column])
        slope = splat(d_base[column])
        for at in range(column * LANES, (column + 1) * LANES, WIDTH):
            s = load(lanes, at) + value
            t = load(d_lanes, at) + slope
            p = load(prefix, at)
            store(prefix, at + LANES, p * s)
            store(d_prefix, at + LANES, p * t + load(d_prefix, at) * s)
    start = splat(sign)
    zero = splat(0.0)
    for lane in range(0, LANES, WIDTH):
        store(suffix, lane, start)
        store(d_suffix, lane, zero)
    for column in range(m - 1, -1, -1):
        value = splat(base[column])
        slope = splat(d_base[column])
        everything = zero
        d_everything = zero
        for lane in range(0, LANES, WIDTH):
            at = column * LANES + lane
            s = load(lanes, at) + value
            t = load(d_lanes, at) + slope
            after = load(suffix, lane)
            d_after = load(d_suffix, lane)
            p = load(prefix, at)
            without = p * after
            d_without = p * d_after + load(d_prefix, at) * after
            store(suffix, lane, after * s)
            store(d_suffix, lane, after * t + d_after * s)
            everything = everything + without
            d_everything = d_everything + d_without
            store(lane_sums, at, load(lane_sums, at) + without)
            store(d_lane_sums, at, load(d_lane_sums, at) + d_without)
        at = column * WIDTH
        store(running, at, load(running, at) + everything)
        store(d_running, at, load(d_running, at) + d_everything)


@njit(cache=True, nogil=True)
def _fill_lanes(weights, lanes):
    """Fill the column sums of the lane rows for every pattern of their signs."""
    m = weights.shape[0]
    for j in range(m):
        at = j * LANES
        lanes[at] = 0.0
        for i in range(m - LANE_ROWS, m):
            lanes[at] += weights[i, j]
        for k in range(LANE_ROWS):
            for lane in range(1 << k):
                lanes[at + (lane | 1 << k)] = lanes[at + lane] - 2.0 * weights[m - 1 - k, j]


@njit(cache=True, nogil=True)
def _column_sums(weights, signs, n_rows, sums):
    """Fill `sums` with the signed column sums of the first `n_rows` rows."""
    for j in range(weights.shape[0]):
        sums[j] = 0.0
        for i in range(n_rows):
            sums[j] += signs[i] * weights[i, j]


@njit(cache=True, nogil=True)
def _gather(running, picked, lane_sums, signs, n_walking, derivatives):
    """Turn the sums of a walk into those for every row and column."""
    m = derivatives.shape[0]
    for j in range(m):
        everything = total(load(running, j * WIDTH))
        derivatives[0, j] = everything
        for i in range(1, n_walking):
            flipped = total(load(picked, (i * m + j) * WIDTH))
            derivatives[i, j] = 2.0 * flipped + signs[i] * everything
        for k in range(LANE_ROWS):
            signed = 0.0
            for lane in range(LANES):
                term = lane_sums[j * LANES + lane]
                signed += -term if lane >> k & 1 else term
            derivatives[m - 1 - k, j] = signed


@njit(cache=True, nogil=True)
def add_dual_chunk(weights, d_weights, chunk, chunk_bits, derivatives, d_derivatives):
    """Fill one chunk's part of 2^(m-1) D and 2^(m-1) D', both (m, m).

    The last `chunk_bits` walked rows take their signs from the bits of `chunk`.
    """
    m = weights.shape[0]
    n_walking = m - LANE_ROWS
    n_walked = n_walking - 1 - chunk_bits
    lanes, d_lanes = aligned(m * LANES), aligned(m * LANES)
    prefix, d_prefix = aligned(m * LANES), aligned(m * LANES)
    suffix, d_suffix = aligned(LANES), aligned(LANES)
    lane_sums, d_lane_sums = aligned(m * LANES), aligned(m * LANES)
    running, d_running = aligned(m * WIDTH), aligned(m * WIDTH)
    picked, d_picked = aligned(n_walking * m * WIDTH), aligned(n_walking * m * WIDTH)
    for table in (lane_sums, d_lane_sums, running, d_running, picked, d_picked, d_prefix):
        table[:] = 0.0
    _fill_lanes(weights, lanes)
    _fill_lanes(d_weights, d_lanes)
    prefix[0] = 1.0
    for k in range(LANE_ROWS):
        for lane in range(1 << k):
            prefix[lane | 1 << k] = -prefix[lane]
    signs = np.ones(m)
    sign = 1.0
    for bit in range(chunk_bits):
        if chunk >> bit & 1:
            signs[1 + n_walked + bit] = -1.0
            sign = -sign
    base, d_base = np.empty(m), np.empty(m)
    _column_sums(weights, signs, n_walking, base)
    _column_sums(d_weights, signs, n_walking, d_base)
    n_steps = 1 << n_walked
    for step in range(1, n_steps + 1):
        _pass_over_lanes(lanes, d_lanes, base, d_base, sign, prefix, d_prefix, suffix,
            d_suffix, lane_sums, d_lane_sums, running, d_running, m)  # fmt: skip
        if step == n_steps:
            break
        row = 1
        while not step >> (row - 1) & 1:
            row += 1
        before = signs[row]
        for j in range(m):
            base[j] -= 2.0 * before * weights[row, j]
            d_base[j] -= 2.0 * before * d_weights[row, j]
        signed = splat(before)
        for j in range(0, m * WIDTH, WIDTH):
            at = row * m * WIDTH + j
            store(picked, at, load(picked, at) + signed * load(running, j))
            store(d_picked, at, load(d_picked, at) + signed * load(d_running, j))
        signs[row] = -before
        sign = -sign
        if step % _REFRESH == 0:
            _column_sums(weights, signs, n_walking, base)
            _column_sums(d_weights, signs, n_walking, d_base)
    _gather(running, picked, lane_sums, signs, n_walking, derivatives)
    _gather(d_running, d_picked, d_lane_sums, signs, n_walking, d_derivatives)


@njit(cache=True, nogil=True)
def finish_tangents(weights, direction, derivatives, d_derivatives, tangents):
    """Fill the derivatives of the marginals; return the residuals of both.

    Rows of marginals sum to 1 and rows of their derivatives to 0, but only after the signed
    sums have cancelled: what is left measures the digits lost, for the derivatives in units
    of the largest entry of the direction.
    """
    m = weights.shape[0]
    permanent = 0.0
    for i in range(m):
        for j in range(m):
            permanent += weights[i, j] * derivatives[i, j]
    permanent /= m
    if not permanent > 0.0:
        return np.inf, np.inf
    mean = 0.0
    largest = 0.0
    residual = 0.0
    for i in range(m):
        row_sum = 0.0
        for j in range(m):
            marginal = weights[i, j] * derivatives[i, j] / permanent
            row_sum += marginal
            mean += marginal * direction[i, j]
            largest = max(largest, abs(direction[i, j]))
        residual = max(residual, abs(row_sum - 1.0))
    d_residual = 0.0
    for i in range(m):
        row_sum = 0.0
        for j in range(m):
            scale = weights[i, j] / permanent
            slope = scale * d_derivatives[i, j]
            slope += scale * derivatives[i, j] * (direction[i, j] - mean)
            tangents[i, j] = slope + 0.0
            row_sum += slope
        d_residual = max(d_residual, abs(row_sum))
    return residual, d_residual / largest if largest > 0.0 else 0.0


@njit(cache=True, nogil=True)
def tangents_of_stack(weights, directions, tangents, residuals, first, last):
    """Fill the derivatives of graphs ``first .. last - 1``, each in one walk."""
    m = weights.shape[1]
    derivatives, d_derivatives = np.empty((m, m)), np.empty((m, m))
    for g in range(first, last):
        changes = weights[g] * directions[g]
        add_dual_chunk(weights[g], changes, 0, 0, derivatives, d_derivatives)
        residuals[g] = max(
            *finish_tangents(
                weights[g], directions[g], derivatives, d_derivatives, tangents[g]
            )
        )
