"""Sixteen draws side by side, one draw per element of a vector.

A draw chooses, column after column, one of the rows that are still free.  Sixteen draws do
it together: for every row one vector step adds its weight to sixteen running sums, and a
second pass counts how many running sums lie below sixteen targets, which is the row chosen.
Sixteen on every machine, so that a seed gives the same draws everywhere.
"""

import math

import numpy as np
from numba import njit

from permatch.kernels.random import uniform
from permatch.kernels.simd import count_up, store, vectors

LANES = 16
load, splat = vectors(LANES)

# Products of factors are turned into logarithms before they leave this range.
_SMALLEST = 1e-100
_LARGEST = 1e100


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
