"""Counts of levels of independent documents: their covariance, and solving with it.

With p_il the chance of document i to take level l, and level 0 left out as the others
determine it,

    cov(count_l, count_m) = -sum_i p_il p_im,     var(count_l) = sum_i p_il (1 - p_il).
"""

import math

from numba import njit

RIDGE = 1e-12

# Sums may be added up in lanes; NaN and infinities keep their meaning.
FAST = {"reassoc", "contract", "nsz"}


@njit(cache=True, nogil=True, fastmath=FAST)
def dot_of(table, k, m, n):
    """Return the inner product of the first `n` entries of two rows."""
    total = 0.0
    for i in range(n):
        total += table[k, i] * table[m, i]
    return total


@njit(cache=True, nogil=True)
def fill_products(chances, n, products):
    """Fill ``sum_i p_il p_im`` for every pair of levels."""
    for k in range(chances.shape[0]):
        for m in range(k, chances.shape[0]):
            products[k, m] = dot_of(chances, k, m, n)
            products[m, k] = products[k, m]


@njit(cache=True, nogil=True)
def fill_covariance(products, covariance):
    """Fill the covariance of the counts of all levels but the first."""
    size = covariance.shape[0]
    for k in range(size):
        for m in range(size):
            covariance[k, m] = -products[k + 1, m + 1]
        # p (1 - p) as a sum over the other levels: no digits lost where p is close to 1
        covariance[k, k] = 0.0
        for m in range(size + 1):
            if m != k + 1:
                covariance[k, k] += products[k + 1, m]


@njit(cache=True, nogil=True, error_model="numpy")
def factor_in_place(matrix):
    """Add `RIDGE` to a covariance and turn its lower triangle into the Cholesky factor."""
    for j in range(matrix.shape[0]):
        matrix[j, j] += RIDGE
        for k in range(j):
            matrix[j, j] -= matrix[j, k] * matrix[j, k]
        matrix[j, j] = math.sqrt(max(matrix[j, j], 1e-300))
        for i in range(j + 1, matrix.shape[0]):
            for k in range(j):
                matrix[i, j] -= matrix[i, k] * matrix[j, k]
            matrix[i, j] /= matrix[j, j]


@njit(cache=True, nogil=True, error_model="numpy")
def solve_in_place(factor, x):
    """Solve with a Cholesky factor; `x` becomes the solution."""
    size = x.shape[0]
    for i in range(size):
        for k in range(i):
            x[i] -= factor[i, k] * x[k]
        x[i] /= factor[i, i]
    for i in range(size - 1, -1, -1):
        for k in range(i + 1, size):
            x[i] -= factor[k, i] * x[k]
        x[i] /= factor[i, i]
