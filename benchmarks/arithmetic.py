"""What the arithmetic alone would cost on this machine."""

import time
from functools import cache

import numpy as np
from numba import njit

from permatch.kernels.intrinsics import WIDTH, load, splat, store

# A multiplication with an addition in one instruction counts as one operation.
# Operations per sign vector and column in the Glynn kernel: 14 additions and 14
# multiplications for two columns under both signs of the pair row.
GLYNN_OPERATIONS = 28 / 4
# Per edge of a small graph: 18 for its exponential, 4 to shift it by maxima, 3 to turn a
# total into a marginal.  Per row and column: 7 for an exact sum of what was taken off.
EDGE_OPERATIONS = 18 + 4 + 3
LINE_OPERATIONS = 7


@njit(nogil=True)
def _burn(n, out):
    """Six chains of multiplications beside six of additions, to keep all units busy."""
    a0 = a1 = a2 = a3 = a4 = a5 = splat(1.0)
    b0 = b1 = b2 = b3 = b4 = b5 = splat(0.0)
    factor = load(out, 0)
    term = load(out, WIDTH)
    for _ in range(n):
        a0 = a0 * factor
        b0 = b0 + term
        a1 = a1 * factor
        b1 = b1 + term
        a2 = a2 * factor
        b2 = b2 + term
        a3 = a3 * factor
        b3 = b3 + term
        a4 = a4 * factor
        b4 = b4 + term
        a5 = a5 * factor
        b5 = b5 + term
    store(out, 0, ((a0 + a1) + (a2 + a3)) + (a4 + a5))
    store(out, WIDTH, ((b0 + b1) + (b2 + b3)) + (b4 + b5))


@cache
def peak_operations_per_second() -> float:
    """Measure double-precision additions and multiplications per second of one core."""
    n = 200_000
    best = float("inf")
    for _ in range(99):
        out = np.concatenate([np.full(WIDTH, 1.0 - 1e-9), np.full(WIDTH, 1e-9)])
        start = time.perf_counter()
        _burn(n, out)
        best = min(best, time.perf_counter() - start)
    return 12 * WIDTH * n / best


def glynn_floor(size: int) -> float:
    """Seconds one core needs for the arithmetic of one Glynn walk alone."""
    return GLYNN_OPERATIONS * size * 2.0 ** (size - 1) / peak_operations_per_second()


def small_floor(size: int) -> float:
    """Seconds one core needs for the arithmetic of one small graph alone."""
    sums = 3 * size * 2.0 ** (size - 1)  # one forward, two backward
    edges = EDGE_OPERATIONS * size**2 + LINE_OPERATIONS * 2 * size
    return (sums + edges) / peak_operations_per_second()
