"""Sums that do not depend on the order of their terms.

A term t is taken as the nearest whole number of 2^-60, in two halves:

    high = floor(t 2^30),   low = round((t 2^30 - high) 2^30)

Whole numbers add up exactly, so the sum is the same in any order and in any parts.  Terms
are below 2^3 and at most 2^30 at a time, so that nothing overflows.
"""

import math

import numpy as np
from numba import njit

from permatch._types import FloatArray

_HALF = float(1 << 30)


@njit(cache=True, nogil=True)
def add_halves(values: FloatArray) -> tuple[int, int, int, int]:
    """Return the sums of p and of p (1 - p), each as its high and its low half."""
    high = low = spread_high = spread_low = np.int64(0)
    for p in values:
        scaled = p * _HALF
        whole = math.floor(scaled)
        high += np.int64(whole)
        low += np.int64(np.rint((scaled - whole) * _HALF))
        scaled = p * (1.0 - p) * _HALF
        whole = math.floor(scaled)
        spread_high += np.int64(whole)
        spread_low += np.int64(np.rint((scaled - whole) * _HALF))
    return high, low, spread_high, spread_low
