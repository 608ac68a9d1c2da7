"""Whole lists of documents over levels: log-partitions, slopes and curvature by query.

The model and the tilt are those of `levels_tilt`.  With ``log P`` the log-probability of
the counts under the tilted model, and a_i the observed level of document i,

    log Z - sum_i v_{a_i} s_i  =  -sum_i log p_{i, a_i} + log P            (exact form)
                               <= -sum_i log p_{i, a_i}                    (profile form)

where the sum over p has positive terms only, so that nothing cancels.  The slopes by score
are ``E v_{a_i} - v_{a_i}``, the expectation being that given the counts in the exact form
and that of p_i in the profile form.

The kernels work on queries `first` to ``last - 1`` of `LevelLists`.  Their tables of
marginals, levels by padded documents, lie one behind the other in a flat array.  `forms`
says which queries are skipped, and which take the exact form.

The steps are kernels of their own, as each compiles all that it calls.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from permatch.kernels.ranking.levels_dp import (
    count_cells,
    counting_room,
    infer_by_counting,
)
from permatch.kernels.ranking.levels_fourier import (
    expected_points,
    fill_periods,
    fourier_room,
    infer_by_fourier,
)
from permatch.kernels.ranking.levels_tilt import (
    factor_in_place,
    fill_covariance,
    fill_products,
    minimise_tilt,
)

#: Time of a point of the Fourier sum in states of the recursion over counts.
POINT_COST = 0.7

SKIPPED, EXACT, PROFILE = 0, 1, 2


class LevelLists(NamedTuple):
    """Queries one behind the other, with the levels of each.

    Attributes
    ----------
    starts : ndarray of shape (q + 1,)
        Query q has the documents ``starts[q] .. starts[q+1] - 1``.
    places : ndarray of shape (n,)
        The level of every document, as a position among those of its query.
    level_starts : ndarray of shape (q + 1,)
        Query q has the levels ``level_starts[q] .. level_starts[q+1] - 1``: the commonest
        first, then by rising counts, as `levels_dp` likes it.
    values, counts : ndarrays of shape (number of levels,)
        Their values, and the number of documents of each, at least 1.
    marginal_starts : ndarray of shape (q + 1,)
        Where the table of marginals of each query begins in one array.
    """

    starts: np.ndarray
    places: np.ndarray
    level_starts: np.ndarray
    values: np.ndarray
    counts: np.ndarray
    marginal_starts: np.ndarray


@njit(cache=True, nogil=True)
def table_of(lists, marginals, first, q):
    """Return the table of query q in the `marginals` of queries from `first` on."""
    begin, end = lists.marginal_starts[q], lists.marginal_starts[q + 1]
    n_levels = lists.level_starts[q + 1] - lists.level_starts[q]
    at = begin - lists.marginal_starts[first]
    table = marginals[at : at + end - begin]
    return table.reshape((n_levels, (end - begin) // n_levels))


@njit(cache=True, nogil=True)
def tilt_queries(scores, lists, forms, first, last, marginals, losses):
    """Fill tilted marginals and profile losses."""
    for q in range(first, last):
        losses[q] = 0.0
        begin, n = lists.starts[q], lists.starts[q + 1] - lists.starts[q]
        if forms[q] == SKIPPED:
            continue
        levels = lists.values[lists.level_starts[q] : lists.level_starts[q + 1]]
        n_of = lists.counts[lists.level_starts[q] : lists.level_starts[q + 1]]
        table = table_of(lists, marginals, first, q)
        centre = 0.0
        for i in range(n):
            centre += scores[begin + i] / n
        centred = scores[begin : begin + n] - centre
        observed = lists.places[begin : begin + n]
        losses[q] = minimise_tilt(centred, levels, n_of, observed, table)


@njit(cache=True, nogil=True)
def count_queries(lists, forms, first, last, marginals, losses, work, exponent):
    """Turn tilted marginals into those given the counts, profile losses into exact ones.

    Takes the recursion over counts or Fourier inversion, whichever is quicker, the latter
    with errors of about ``exp(-exponent)``; leaves queries alone that are not exact.  Works
    in the array `work`, or in a longer one, and returns it for the next call: where free
    memory goes back to the system at once, as on the workers of Dask, a new array every
    time would be paged in again and again.
    """
    for q in range(first, last):
        if forms[q] != EXACT:
            continue
        n = lists.starts[q + 1] - lists.starts[q]
        n_of = lists.counts[lists.level_starts[q] : lists.level_starts[q + 1]]
        n_levels = n_of.shape[0]
        table = table_of(lists, marginals, first, q)
        products = np.empty((n_levels, n_levels))
        fill_products(table, n, products)
        covariance = np.empty((n_levels - 1, n_levels - 1))
        fill_covariance(products, covariance)
        periods = np.empty(n_levels - 1, np.int64)
        fill_periods(covariance, n_of, periods, exponent)
        n_points = expected_points(covariance, periods, exponent)
        is_counted = count_cells(n_of) <= POINT_COST * n_points
        room = counting_room(n_of, n) if is_counted else fourier_room(n_of, n)
        if room > work.shape[0]:
            work = np.empty(room)
        if is_counted:
            losses[q] += infer_by_counting(table, n_of, n, work)
        else:
            losses[q] += infer_by_fourier(table, n_of, products, periods, n, work, exponent)
    return work


@njit(cache=True, nogil=True)
def slope_queries(lists, forms, first, last, marginals, slopes):
    """Fill the slopes of the documents."""
    for q in range(first, last):
        begin, n = lists.starts[q], lists.starts[q + 1] - lists.starts[q]
        slopes[begin : begin + n] = 0.0
        if forms[q] == SKIPPED:
            continue
        levels = lists.values[lists.level_starts[q] : lists.level_starts[q + 1]]
        table = table_of(lists, marginals, first, q)
        for k in range(levels.shape[0]):
            for i in range(n):
                observed = levels[lists.places[begin + i]]
                slopes[begin + i] += table[k, i] * (levels[k] - observed)


@njit(cache=True, nogil=True, error_model="numpy")
def derive_queries(lists, forms, first, last, marginals, slopes, variances):
    """Fill the slopes of the documents and the second derivatives by single scores.

    In the exact form these are the variances of the levels given the counts, in the profile
    form the diagonal of what `curve_queries` fills; none is below 0.
    """
    for q in range(first, last):
        begin, end = lists.starts[q], lists.starts[q + 1]
        slopes[begin:end] = 0.0
        variances[begin:end] = 0.0
        if forms[q] == SKIPPED:
            continue
        n = end - begin
        levels = lists.values[lists.level_starts[q] : lists.level_starts[q + 1]]
        n_levels = levels.shape[0]
        table = table_of(lists, marginals, first, q)
        for k in range(n_levels):
            for i in range(n):
                slopes[begin + i] += table[k, i] * levels[k]
        for k in range(n_levels):
            for i in range(n):
                away = levels[k] - slopes[begin + i]
                variances[begin + i] += table[k, i] * away * away
        if forms[q] == PROFILE:
            lessen_by_counts(table, levels, slopes[begin:end], variances[begin:end])
        for i in range(n):
            slopes[begin + i] -= levels[lists.places[begin + i]]


@njit(cache=True, nogil=True, error_model="numpy")
def lessen_by_counts(table, levels, means, variances):
    """Subtract from the variances of levels what the tilt takes back when a score moves."""
    n, n_levels = means.shape[0], levels.shape[0]
    products = np.empty((n_levels, n_levels))
    fill_products(table, n, products)
    factor = np.empty((n_levels - 1, n_levels - 1))
    fill_covariance(products, factor)
    factor_in_place(factor)
    loadings = np.empty((n_levels - 1, n))
    for k in range(n_levels - 1):
        for i in range(n):
            loadings[k, i] = table[k + 1, i] * (levels[k + 1] - means[i])
        for m in range(k):
            for i in range(n):
                loadings[k, i] -= factor[k, m] * loadings[m, i]
        for i in range(n):
            loadings[k, i] /= factor[k, k]
            variances[i] -= loadings[k, i] * loadings[k, i]
    for i in range(n):
        variances[i] = max(variances[i], 0.0)


@njit(cache=True, nogil=True, error_model="numpy")
def curve_queries(lists, forms, first, last, marginals, variances, loadings):
    """Fill what makes up the curvature.

    The covariance of the levels of a query's documents is about ``diag(variances) -
    loadings loadings'``, exactly so in the profile form; `loadings` has one column for each
    of the query's levels but one.  Both are 0 on entry; the marginals are the tilted ones.
    """
    for q in range(first, last):
        begin, n = lists.starts[q], lists.starts[q + 1] - lists.starts[q]
        if forms[q] == SKIPPED:
            continue
        levels = lists.values[lists.level_starts[q] : lists.level_starts[q + 1]]
        n_levels = levels.shape[0]
        table = table_of(lists, marginals, first, q)
        products = np.empty((n_levels, n_levels))
        fill_products(table, n, products)
        factor = np.empty((n_levels - 1, n_levels - 1))
        fill_covariance(products, factor)
        factor_in_place(factor)
        for i in range(n):
            mean = 0.0
            for k in range(n_levels):
                mean += table[k, i] * levels[k]
            for k in range(n_levels):
                variances[begin + i] += table[k, i] * (levels[k] - mean) ** 2
            # loadings loadings' = U covariance^-1 U' with U = p_il (v_l - mean)
            for k in range(n_levels - 1):
                load = table[k + 1, i] * (levels[k + 1] - mean)
                for m in range(k):
                    load -= factor[k, m] * loadings[begin + i, m]
                loadings[begin + i, k] = load / factor[k, k]
