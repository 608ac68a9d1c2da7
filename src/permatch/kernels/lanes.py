"""Sixteen draws side by side: four vectors, one draw per element.

A draw chooses, column after column, one of the rows that are still free.  Sixteen draws do
it together: for every row one vector step adds its weight to sixteen running sums, and a
second pass counts how many running sums lie below sixteen targets, which is the row chosen.
"""

import math

import numpy as np
from llvmlite import ir
from numba import njit
from numba.core import config
from numba.extending import intrinsic

from permatch.kernels.random import uniform
from permatch.kernels.simd import _VECTOR, WIDTH, load, splat, store, vector

LANES = 4 * WIDTH

# Products of factors are turned into logarithms before they leave this range.
_SMALLEST = 1e-100
_LARGEST = 1e100


@intrinsic
def count_up(typing_context, count, value, target):
    """Return `count`, plus one where ``value <= target``."""

    def lower(context, builder, sig, args):
        is_below = builder.fcmp_ordered("<=", args[1], args[2])
        one = ir.Constant(_VECTOR, [1.0] * WIDTH)
        zero = ir.Constant(_VECTOR, [0.0] * WIDTH)
        return builder.fadd(args[0], builder.select(is_below, one, zero))

    return vector(vector, vector, vector), lower


if config.DISABLE_JIT:  # intrinsics exist in compiled code only

    def count_up(count, value, target):  # noqa: F811
        """Return `count`, plus one where ``value <= target``."""
        return count + (value <= target)


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
    a = splat(0.0)
    b = splat(0.0)
    c = splat(0.0)
    d = splat(0.0)
    for k in range(n):
        ratio = splat(ratios[col, k])
        at = k * LANES
        a = a + ratio * load(free, at)
        b = b + ratio * load(free, at + WIDTH)
        c = c + ratio * load(free, at + 2 * WIDTH)
        d = d + ratio * load(free, at + 3 * WIDTH)
    store(totals, 0, a)
    store(totals, WIDTH, b)
    store(totals, 2 * WIDTH, c)
    store(totals, 3 * WIDTH, d)
    target_a = a * load(totals, LANES)
    target_b = b * load(totals, LANES + WIDTH)
    target_c = c * load(totals, LANES + 2 * WIDTH)
    target_d = d * load(totals, LANES + 3 * WIDTH)
    a = splat(0.0)
    b = splat(0.0)
    c = splat(0.0)
    d = splat(0.0)
    below_a = splat(0.0)
    below_b = splat(0.0)
    below_c = splat(0.0)
    below_d = splat(0.0)
    for k in range(n):
        ratio = splat(ratios[col, k])
        at = k * LANES
        a = a + ratio * load(free, at)
        b = b + ratio * load(free, at + WIDTH)
        c = c + ratio * load(free, at + 2 * WIDTH)
        d = d + ratio * load(free, at + 3 * WIDTH)
        below_a = count_up(below_a, a, target_a)
        below_b = count_up(below_b, b, target_b)
        below_c = count_up(below_c, c, target_c)
        below_d = count_up(below_d, d, target_d)
    store(totals, 2 * LANES, below_a)
    store(totals, 2 * LANES + WIDTH, below_b)
    store(totals, 2 * LANES + 2 * WIDTH, below_c)
    store(totals, 2 * LANES + 3 * WIDTH, below_d)
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
