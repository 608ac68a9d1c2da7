"""Whole lists of documents over levels: the tilt that centres the counts.

A list has documents with scores s_i, and levels with values v_l of which level l takes
exactly n_l documents.  The weight of an assignment a of documents to levels is
``exp(sum_i v_{a_i} s_i)``; Z is the sum over all assignments with the right counts.  For
any tilt t, one number a level,

    Z = exp(F(t)) P_t(counts = n),     F(t) = sum_i log sum_l e^{z_il} - sum_l n_l t_l,
    z_il = v_l s_i + t_l,              p_il = e^{z_il} / sum_m e^{z_im},

with P_t the probability that independent draws from the p_i produce the counts n.  F is
convex; at its minimum the expected counts are n, so the probability is never small and
nothing under- or overflows.  The minimum is an upper bound on log Z besides.

Newton's method with backtracking starts from the tilt that puts every boundary between
levels halfway between the two scores it separates in the sorted list.  F is measured from
its best assignment, which takes the large numbers out of it.  Level 0 is the reference,
``t_0 = 0``; the first row of every table over levels is the largest level.

Documents run along the last axis of all tables, padded to a multiple of `WIDTH`.
"""

import math

import numpy as np
from numba import njit

from permatch.kernels.simd import WIDTH
from permatch.kernels.small_batch import exp_in_place

RIDGE = 1e-12
MAX_STEPS = 100
MAX_HALVINGS = 50
SMALL_STEP = 1e-6  # Newton's next step would be about its square
SMALL_MISFIT = 1e-13  # of the expected counts
ARMIJO = 1e-4
ROUNDING = 1e-14
LOG_EVERY = 256  # factors between 1 and the number of levels, multiplied before the log

# Sums may be added up in lanes; NaN and infinities keep their meaning.
FAST = {"reassoc", "contract", "nsz", "arcp"}


@njit(cache=True, nogil=True)
def padded(n):
    """Return the length of a row for `n` documents."""
    return (n + WIDTH - 1) // WIDTH * WIDTH


@njit(cache=True, nogil=True, fastmath=FAST)
def sum_of(row, n):
    """Return the sum of the first `n` entries."""
    total = 0.0
    for i in range(n):
        total += row[i]
    return total


@njit(cache=True, nogil=True, fastmath=FAST)
def dot_of(left, right, n):
    """Return the inner product of the first `n` entries."""
    total = 0.0
    for i in range(n):
        total += left[i] * right[i]
    return total


@njit(cache=True, nogil=True, fastmath=FAST)
def sum_of_logs(factors, n):
    """Return the sum of the logs of `n` factors from 1 to a few dozen."""
    total = 0.0
    for begin in range(0, n, LOG_EVERY):
        product = 1.0
        for i in range(begin, min(begin + LOG_EVERY, n)):
            product *= factors[i]
            if product > 1e250:
                total += math.log(product)
                product = 1.0
        total += math.log(product)
    return total


@njit(cache=True, nogil=True, fastmath=FAST)
def fill_probabilities(scores, levels, tilt, probabilities, tops, sums):
    """Fill p_il, the largest z of every document and its sum of ``exp(z - largest)``."""
    n = scores.shape[0]
    n_levels, width = probabilities.shape
    for i in range(n):
        tops[i] = levels[0] * scores[i] + tilt[0]
    for k in range(1, n_levels):
        for i in range(n):
            tops[i] = max(tops[i], levels[k] * scores[i] + tilt[k])
    for k in range(n_levels):
        row = probabilities[k]
        for i in range(n):
            row[i] = levels[k] * scores[i] + tilt[k] - tops[i]
        for i in range(n, width):
            row[i] = 0.0
    exp_in_place(probabilities, n_levels * width)
    for i in range(n):
        sums[i] = probabilities[0, i]
    for k in range(1, n_levels):
        row = probabilities[k]
        for i in range(n):
            sums[i] += row[i]
    for k in range(n_levels):
        row = probabilities[k]
        for i in range(n):
            row[i] /= sums[i]


@njit(cache=True, nogil=True)
def fill_products(probabilities, n, products):
    """Fill ``sum_i p_il p_im`` for every pair of levels."""
    n_levels = probabilities.shape[0]
    for k in range(n_levels):
        for m in range(k, n_levels):
            products[k, m] = dot_of(probabilities[k], probabilities[m], n)
            products[m, k] = products[k, m]


@njit(cache=True, nogil=True)
def covariance_of(products):
    """Return the covariance of the counts of all levels but the first."""
    size = products.shape[0] - 1
    covariance = -products[1:, 1:].copy()
    for k in range(size):
        # p (1 - p) as a sum over the other levels: no digits lost where p is close to 1
        covariance[k, k] = 0.0
        for m in range(size + 1):
            if m != k + 1:
                covariance[k, k] += products[k + 1, m]
    return covariance


@njit(cache=True, nogil=True)
def cholesky_in_place(matrix):
    """Factor a positive definite matrix; its lower triangle becomes the factor."""
    for j in range(matrix.shape[0]):
        for k in range(j):
            matrix[j, j] -= matrix[j, k] * matrix[j, k]
        matrix[j, j] = math.sqrt(max(matrix[j, j], 1e-300))
        for i in range(j + 1, matrix.shape[0]):
            for k in range(j):
                matrix[i, j] -= matrix[i, k] * matrix[j, k]
            matrix[i, j] /= matrix[j, j]


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def start_tilt(ordered, levels, counts, by_value, tilt):
    """Put every boundary between levels between the scores on either side of it."""
    position = 0
    tilt[by_value[0]] = 0.0
    for k in range(1, levels.shape[0]):
        below, level = by_value[k - 1], by_value[k]
        position += counts[below]
        boundary = 0.5 * (ordered[position - 1] + ordered[position])
        tilt[level] = tilt[below] - (levels[level] - levels[below]) * boundary
    reference = tilt[0]
    for k in range(levels.shape[0]):
        tilt[k] -= reference


@njit(cache=True, nogil=True)
def height(ordered, levels, counts, by_value, tilt, tops, sums):
    """Return F above the value of the best assignment, which sorts by score."""
    total = sum_of_logs(sums, ordered.shape[0])
    position = 0
    for k in range(levels.shape[0]):
        level = by_value[k]
        for i in range(position, position + counts[level]):
            total += tops[i] - (levels[level] * ordered[i] + tilt[level])
        position += counts[level]
    return total


@njit(cache=True, nogil=True)
def minimise_tilt(scores, levels, counts, tilt):
    """Fill the tilt that makes expected counts equal `counts`, all above 0."""
    n, n_levels = scores.shape[0], levels.shape[0]
    tilt[:] = 0.0
    if n_levels == 1:
        return
    ordered = np.sort(scores)
    by_value = np.argsort(levels)
    start_tilt(ordered, levels, counts, by_value, tilt)
    width = padded(n)
    probabilities = np.empty((n_levels, width))
    tops, sums = np.empty(width), np.empty(width)
    products = np.empty((n_levels, n_levels))
    step, trial = np.empty(n_levels - 1), np.empty(n_levels)
    fill_probabilities(ordered, levels, tilt, probabilities, tops, sums)
    value = height(ordered, levels, counts, by_value, tilt, tops, sums)
    for _ in range(MAX_STEPS):
        misfit = 0.0
        for k in range(1, n_levels):
            step[k - 1] = counts[k] - sum_of(probabilities[k], n)
            misfit = max(misfit, abs(step[k - 1]))
        if misfit <= SMALL_MISFIT:
            return
        fill_products(probabilities, n, products)
        factor = covariance_of(products)
        for k in range(n_levels - 1):
            factor[k, k] += RIDGE
        gradient = -step
        cholesky_in_place(factor)
        solve_in_place(factor, step)
        slope, longest = 0.0, 0.0
        for k in range(n_levels - 1):
            slope += gradient[k] * step[k]
            longest = max(longest, abs(step[k]))
        if longest <= SMALL_STEP:
            tilt[1:] += step
            return
        share = 1.0
        for _ in range(MAX_HALVINGS):
            trial[0] = 0.0
            trial[1:] = tilt[1:] + share * step
            fill_probabilities(ordered, levels, trial, probabilities, tops, sums)
            reached = height(ordered, levels, counts, by_value, trial, tops, sums)
            if reached <= value + ARMIJO * share * slope + ROUNDING * n:
                break
            share *= 0.5
        else:
            return
        value = reached
        tilt[:] = trial
