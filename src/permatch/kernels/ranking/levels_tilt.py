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

Newton's method with backtracking starts from the tilt that puts every boundary b_l between
levels halfway between the two scores it separates in the sorted list.  What is kept of the
tilt are shifts from there: with levels in rising order,

    z_il = sum over boundaries m <= l above s_i of d_im - sum over those m > l below it,
    d_im = (v_m - v_m-1) (s_i - b_m) + shift_m,

up to a constant by document.  Terms hardly ever differ in sign, so no digits are lost
however large the scores are.  F is measured from an assignment that is best at the start,
as -sum_i log p_{i, its level}.

Documents run along the last axis of all tables, padded to a multiple of `WIDTH`.  Tables
have the levels in the order given, the first being the reference for counts; `ladder` is
the rising order of the levels.

The counts of levels of independent documents have the covariance, level 0 left out as the
others determine it,

    cov(count_l, count_m) = -sum_i p_il p_im,     var(count_l) = sum_i p_il (1 - p_il).
"""

import math

import numpy as np
from numba import njit

from permatch.kernels.intrinsics import WIDTH
from permatch.kernels.small_batch import exp_in_place

MAX_STEPS = 100
SMALL_SHARE = 1e-12  # of a step that leads down
SMALL_STEP = 1e-6  # Newton's next step would be about its square
SMALL_MISFIT = 1e-13  # of the expected counts
ARMIJO = 1e-4
ROUNDING = 1e-14
SMALL_MARGINAL = 1e-50
SMALL_PRODUCT = 1e-200  # times a chance that is not small, still far from underflow
RIDGE = 1e-12

# Sums may be added up in lanes; NaN and infinities keep their meaning.
FAST = {"reassoc", "contract", "nsz"}


@njit(cache=True, nogil=True)
def padded(n):
    """Return the length of a row for `n` documents."""
    return (n + WIDTH - 1) // WIDTH * WIDTH


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def fill_marginals(scores, ladder, gaps, bounds, shifts, marginals, tops, sums):
    """Fill p_il, the largest z of every document and its sum of ``exp(z - largest)``."""
    n = scores.shape[0]
    n_levels, width = marginals.shape
    marginals[:] = 0.0
    sums[:] = 0.0
    tops[:] = 0.0
    for k in range(1, n_levels):
        # `sums` collects what lies above the document, `tops` what lies below
        row, gap, bound, shift = ladder[k], gaps[k], bounds[k], shifts[k]
        for i in range(n):
            ascent = gap * (scores[i] - bound) + shift
            sums[i] += 0.0 if scores[i] > bound else ascent
            marginals[row, i] += sums[i]
        m = n_levels - k
        row, gap, bound, shift = ladder[m - 1], gaps[m], bounds[m], shifts[m]
        for i in range(n):
            ascent = gap * (scores[i] - bound) + shift
            tops[i] -= ascent if scores[i] > bound else 0.0
            marginals[row, i] += tops[i]
    for i in range(n):
        tops[i] = marginals[0, i]
        sums[i] = 0.0
    for k in range(1, n_levels):
        for i in range(n):
            tops[i] = max(tops[i], marginals[k, i])
    for k in range(n_levels):
        for i in range(n):
            marginals[k, i] -= tops[i]
    exp_in_place(marginals, n_levels * width)
    for k in range(n_levels):
        for i in range(n):
            sums[i] += marginals[k, i]
    for k in range(n_levels):
        for i in range(n):
            marginals[k, i] /= sums[i]


@njit(cache=True, nogil=True)
def surprise(scores, ladder, gaps, bounds, shifts, marginals, tops, sums, places):
    """Return ``-sum_i log p_{i, places[i]}``, also where marginals underflow."""
    total = 0.0
    product = 1.0
    for i in range(scores.shape[0]):
        chance = marginals[places[i], i]
        if chance >= SMALL_MARGINAL:
            product *= chance
            if product < SMALL_PRODUCT:
                total -= math.log(product)
                product = 1.0
        else:
            total += tops[i] + math.log(sums[i])
            is_passed = False  # the level of the document, on the way up
            for k in range(1, ladder.shape[0]):
                is_passed = is_passed or ladder[k - 1] == places[i]
                ascent = gaps[k] * (scores[i] - bounds[k]) + shifts[k]
                if is_passed and scores[i] > bounds[k]:
                    total += ascent
                elif not is_passed and scores[i] <= bounds[k]:
                    total -= ascent
    return total - math.log(product)


@njit(cache=True, nogil=True)
def move_smallest(values, first, last, position):
    """Bring the smallest of ``values[first:last]`` before `position`, by partitioning."""
    low, high = first, last - 1
    while low < high:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if position <= j:
            high = j
        elif position >= i:
            low = i
        else:
            return


@njit(cache=True, nogil=True)
def fill_boundaries(scores, levels, counts, work, ladder, gaps, bounds):
    """Fill the rising order of the levels, their gaps, and the boundaries below them."""
    n, n_levels = scores.shape[0], levels.shape[0]
    work[:] = scores
    position = 0
    for rank in range(n_levels):
        level = -1  # the lowest above the one before
        for k in range(n_levels):
            is_above = rank == 0 or levels[k] > levels[ladder[rank - 1]]
            if is_above and (level < 0 or levels[k] < levels[level]):
                level = k
        ladder[rank] = level
        if rank > 0:
            below = ladder[rank - 1]
            begin, position = position, position + counts[below]
            move_smallest(work, begin, n, position)
            highest = work[begin]
            for i in range(begin, position):
                highest = max(highest, work[i])
            gaps[rank] = levels[level] - levels[below]
            bounds[rank] = 0.5 * (highest + work[position])


@njit(cache=True, nogil=True)
def fill_best_places(scores, counts, ladder, bounds, places):
    """Fill an assignment that sorts by score; at a boundary, any with the right counts."""
    n_levels = counts.shape[0]
    left, n_tied = counts[ladder], np.zeros(n_levels, np.int64)
    for i in range(scores.shape[0]):
        rank = 0
        while rank + 1 < n_levels and bounds[rank + 1] < scores[i]:
            rank += 1
        if rank + 1 < n_levels and bounds[rank + 1] == scores[i]:
            places[i] = -1
            n_tied[rank] += 1
        else:
            left[rank] -= 1
            places[i] = ladder[rank]
    # those at a boundary fill what the others leave, from the lowest up
    for lowest in range(n_levels):
        rank = lowest
        if n_tied[lowest] > 0:
            for i in range(scores.shape[0]):
                if places[i] < 0 and scores[i] == bounds[lowest + 1]:
                    while left[rank] == 0:
                        rank += 1
                    left[rank] -= 1
                    places[i] = ladder[rank]


@njit(cache=True, nogil=True)
def minimise_tilt(scores, levels, counts, observed, marginals):
    """Fill the marginals whose expected counts are `counts`; return F above `observed`.

    `counts` are above 0, levels differ; `observed` is an assignment with these counts.
    """
    n, n_levels = scores.shape[0], levels.shape[0]
    ladder, places = np.empty(n_levels, np.int64), np.empty(n, np.int64)
    gaps, bounds = np.empty(n_levels), np.empty(n_levels)
    shifts, trial = np.zeros(n_levels), np.zeros(n_levels)
    tops, sums = np.empty(n), np.empty(n)
    products = np.empty((n_levels, n_levels))
    factor = np.empty((n_levels - 1, n_levels - 1))
    step, gradient = np.empty(n_levels - 1), np.empty(n_levels - 1)
    fill_boundaries(scores, levels, counts, tops, ladder, gaps, bounds)
    fill_best_places(scores, counts, ladder, bounds, places)
    fill_marginals(scores, ladder, gaps, bounds, shifts, marginals, tops, sums)
    value = surprise(scores, ladder, gaps, bounds, shifts, marginals, tops, sums, places)
    for _ in range(MAX_STEPS):
        fill_products(marginals, n, products)
        misfit = 0.0
        for k in range(1, n_levels):
            expected = 0.0
            for m in range(n_levels):
                expected += products[k, m]  # as every document's p sums to one
            gradient[k - 1] = expected - counts[k]
            step[k - 1] = -gradient[k - 1]
            misfit = max(misfit, abs(step[k - 1]))
        if misfit <= SMALL_MISFIT:
            break
        fill_covariance(products, factor)
        factor_in_place(factor)
        solve_in_place(factor, step)
        slope, longest = 0.0, 0.0
        for k in range(n_levels - 1):
            slope += gradient[k] * step[k]
            longest = max(longest, abs(step[k]))
        share = 1.0
        is_lower = longest <= SMALL_STEP
        while True:
            for k in range(1, n_levels):
                level, below = ladder[k], ladder[k - 1]
                ahead = step[level - 1] if level > 0 else 0.0
                behind = step[below - 1] if below > 0 else 0.0
                trial[k] = shifts[k] + share * (ahead - behind)
            fill_marginals(scores, ladder, gaps, bounds, trial, marginals, tops, sums)
            if longest <= SMALL_STEP:
                break
            reached = surprise(
                scores, ladder, gaps, bounds, trial, marginals, tops, sums, places
            )
            is_lower = reached <= value + ARMIJO * share * slope + ROUNDING * n
            if is_lower or share < SMALL_SHARE:
                value = reached
                break
            share *= 0.5
        shifts[:] = trial
        if longest <= SMALL_STEP or not is_lower:
            break
    return surprise(scores, ladder, gaps, bounds, shifts, marginals, tops, sums, observed)


@njit(cache=True, nogil=True, fastmath=FAST)
def dot_of(table, k, m, n):
    """Return the inner product of the first `n` entries of two rows."""
    total = 0.0
    for i in range(n):
        total += table[k, i] * table[m, i]
    return total


@njit(cache=True, nogil=True)
def fill_products(marginals, n, products):
    """Fill ``sum_i p_il p_im`` for every pair of levels."""
    for k in range(marginals.shape[0]):
        for m in range(k, marginals.shape[0]):
            products[k, m] = dot_of(marginals, k, m, n)
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
