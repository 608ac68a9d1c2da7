"""Whole lists of documents over levels: log-partitions, slopes and curvature by query.

The model and the tilt are those of `levels_tilt`.  With ``log P`` the log-probability of
the counts under the tilted model, and a_i the observed level of document i,

    log Z - sum_i v_{a_i} s_i  =  -sum_i log p_{i, a_i} + log P            (exact form)
                               <= -sum_i log p_{i, a_i}                    (profile form)

where the sum over p has positive terms only, so that nothing cancels.  The slopes by score
are ``E v_{a_i} - v_{a_i}``, the expectation being that given the counts in the exact form
and that of p_i in the profile form.

Queries lie one behind the other.  Query q has the documents ``starts[q] .. starts[q+1] -
1`` and the levels ``level_starts[q] .. level_starts[q+1] - 1`` with their values and
counts, none 0: the largest count first, then rising, as `levels_dp` likes it.  `places`
gives the position of every document's level among those of its query.
"""

import numpy as np
from numba import njit

from permatch.kernels.levels_dp import count_cells, infer_by_counting
from permatch.kernels.levels_fourier import (
    expected_points,
    fill_periods,
    infer_by_fourier,
)
from permatch.kernels.levels_tilt import (
    cholesky_in_place,
    covariance_of,
    fill_probabilities,
    fill_products,
    minimise_tilt,
    padded,
    sum_of_logs,
)

#: Time of a point of the Fourier sum in states of the recursion over counts.
POINT_COST = 0.7

SKIPPED, EXACT, PROFILE = 0, 1, 2


@njit(cache=True, nogil=True)
def tilt_one(scores, levels, counts, probabilities, tops, sums):
    """Return centred scores and the tilt; fill the tilted probabilities (R, padded)."""
    centred = scores - scores.mean()
    tilt = np.empty(levels.shape[0])
    minimise_tilt(centred, levels, counts, tilt)
    fill_probabilities(centred, levels, tilt, probabilities, tops, sums)
    return centred, tilt


@njit(cache=True, nogil=True)
def infer_counts(probabilities, counts, marginals):
    """Fill the level marginals (R, documents) given the counts; return ``log P(counts)``.

    Takes the recursion over counts or Fourier inversion, whichever is quicker.
    """
    n_levels, n = marginals.shape
    if n_levels == 1:
        marginals[:] = 1.0
        return 0.0
    products = np.empty((n_levels, n_levels))
    fill_products(probabilities, n, products)
    covariance = covariance_of(products)
    periods = np.empty(n_levels - 1, np.int64)
    fill_periods(covariance, counts, periods)
    n_points = expected_points(covariance, periods)
    if count_cells(counts) <= POINT_COST * n_points:
        return infer_by_counting(probabilities, counts, marginals)
    return infer_by_fourier(probabilities, counts, products, periods, marginals)


@njit(cache=True, nogil=True)
def infer_list(scores, levels, counts, marginals):
    """Fill the level marginals (R, documents) of one list; return its log-partition.

    The log-partition is measured from the assignment that sorts by score.
    """
    n, n_levels = scores.shape[0], levels.shape[0]
    width = padded(n)
    probabilities = np.empty((n_levels, width))
    tops, sums = np.empty(width), np.empty(width)
    centred, tilt = tilt_one(scores, levels, counts, probabilities, tops, sums)
    log_partition = sum_of_logs(sums, n)
    order = np.argsort(centred)
    position = 0
    for level in np.argsort(levels):
        for i in order[position : position + counts[level]]:
            log_partition += tops[i] - (levels[level] * centred[i] + tilt[level])
        position += counts[level]
    return log_partition + infer_counts(probabilities, counts, marginals)


@njit(cache=True, nogil=True)
def evaluate_queries(
    scores, starts, places, level_starts, values, counts, forms, first, last, losses, slopes
):
    """Fill losses of queries `first` to `last` - 1 and slopes of their documents."""
    for q in range(first, last):
        begin, n = starts[q], starts[q + 1] - starts[q]
        if forms[q] == SKIPPED:
            losses[q] = 0.0
            slopes[begin : begin + n] = 0.0
            continue
        levels = values[level_starts[q] : level_starts[q + 1]]
        n_of = counts[level_starts[q] : level_starts[q + 1]]
        n_levels, width = levels.shape[0], padded(n)
        probabilities = np.empty((n_levels, width))
        tops, sums = np.empty(width), np.empty(width)
        here = scores[begin : begin + n]
        centred, tilt = tilt_one(here, levels, n_of, probabilities, tops, sums)
        loss = sum_of_logs(sums, n)
        for i in range(n):
            place = places[begin + i]
            loss += tops[i] - (levels[place] * centred[i] + tilt[place])
        chances = probabilities
        if forms[q] == EXACT:
            chances = np.empty((n_levels, n))
            loss += infer_counts(probabilities, n_of, chances)
        losses[q] = loss
        for i in range(n):
            observed = levels[places[begin + i]]
            slope = 0.0
            for k in range(n_levels):
                slope += chances[k, i] * (levels[k] - observed)
            slopes[begin + i] = slope


@njit(cache=True, nogil=True)
def curve_queries(
    scores, starts, level_starts, values, counts, forms, first, last, variances, loadings
):
    """Fill what makes up the curvature of queries `first` to `last` - 1.

    The covariance of the levels of a query's documents is about ``diag(variances) -
    loadings loadings'``, exactly so in the profile form; `loadings` has one column for each
    of the query's levels but one, the others stay 0.
    """
    for q in range(first, last):
        begin, n = starts[q], starts[q + 1] - starts[q]
        variances[begin : begin + n] = 0.0
        loadings[begin : begin + n] = 0.0
        if forms[q] == SKIPPED:
            continue
        levels = values[level_starts[q] : level_starts[q + 1]]
        n_of = counts[level_starts[q] : level_starts[q + 1]]
        n_levels, width = levels.shape[0], padded(n)
        probabilities = np.empty((n_levels, width))
        tops, sums = np.empty(width), np.empty(width)
        tilt_one(scores[begin : begin + n], levels, n_of, probabilities, tops, sums)
        products = np.empty((n_levels, n_levels))
        fill_products(probabilities, n, products)
        factor = covariance_of(products)
        for k in range(n_levels - 1):
            factor[k, k] += 1e-12
        cholesky_in_place(factor)
        for i in range(n):
            mean = 0.0
            for k in range(n_levels):
                mean += probabilities[k, i] * levels[k]
            variance = 0.0
            for k in range(n_levels):
                variance += probabilities[k, i] * (levels[k] - mean) ** 2
            variances[begin + i] = variance
            # loadings loadings' = U covariance^-1 U' with U = p_il (v_l - mean)
            for k in range(n_levels - 1):
                load = probabilities[k + 1, i] * (levels[k + 1] - mean)
                for m in range(k):
                    load -= factor[k, m] * loadings[begin + i, m]
                loadings[begin + i, k] = load / factor[k, k]
