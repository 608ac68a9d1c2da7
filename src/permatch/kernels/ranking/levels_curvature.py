"""Second derivatives of the log-partition of a whole list, by Fourier inversion.

By the coefficients of a linear score they are the covariance, given the counts, of

    sum_i v_{a_i} x_i,

with x_i the features of document i.  At a point of the grid of `levels_fourier` documents
are independent, with complex weights ``p_il e^{i x_l}``.  With m_i the mean of v given the
counts, and

    phi_i = sum_l p_il e^{i x_l},     r_i = sum_l p_il e^{i x_l} (v_l - m_i) / phi_i,

the covariance of two different documents is a sum over points of ``weight phi r_i r_j /
P(n)``.  So a point adds ``weight phi r r'`` with the vector ``r = sum_i r_i x_i``, less
what that holds of a document with itself, which is collected by document.  No array has
documents on two axes.

Where phi_i is 0 or nearly so there is no dividing by it.  Such documents, which are few at
any point that counts, are taken up one by one by the product rule.
"""

import math

import numpy as np
from numba import njit

from permatch.kernels.ranking.levels import table_of
from permatch.kernels.ranking.levels_fourier import (
    EXACT_TO,
    choose_points,
    fill_periods,
)
from permatch.kernels.ranking.levels_tilt import FAST, fill_covariance, fill_products

#: The square of the smallest phi_i that is divided by.
SMALL_SQUARE = 0.01


@njit(cache=True, nogil=True, error_model="numpy")
def mean_and_variance(given, values, i):
    """Return the mean and the variance of the level of document i."""
    mean, variance = 0.0, 0.0
    for k in range(values.shape[0]):
        mean += given[k, i] * values[k]
    for k in range(values.shape[0]):
        variance += given[k, i] * (values[k] - mean) ** 2
    return mean, variance


@njit(cache=True, nogil=True, fastmath=FAST)
def add_scaled(vector, factor, row):
    """Add a complex multiple of a row to a complex vector, (2, d)."""
    for f in range(row.shape[0]):
        vector[0, f] += factor.real * row[f]
        vector[1, f] += factor.imag * row[f]


@njit(cache=True, nogil=True, fastmath=FAST)
def add_product(total, factor, left, right):
    """Add the real part of ``factor left right'`` to a matrix, (d, d)."""
    for f in range(left.shape[1]):
        a = factor.real * left[0, f] - factor.imag * left[1, f]
        b = factor.real * left[1, f] + factor.imag * left[0, f]
        for g in range(left.shape[1]):
            total[f, g] += a * right[0, g] - b * right[1, g]


@njit(cache=True, nogil=True, fastmath=FAST)
def turn_in_place(vector, factor):
    """Multiply a complex vector, (2, d), by a complex number."""
    for f in range(vector.shape[1]):
        real = vector[0, f]
        vector[0, f] = factor.real * real - factor.imag * vector[1, f]
        vector[1, f] = factor.real * vector[1, f] + factor.imag * real


@njit(cache=True, nogil=True, error_model="numpy")
def join_small(documents, small, phis, tops, vector, product, total):
    """Take up documents whose phi is small; return the product with theirs.

    On entry `product` is that of all other documents, and `vector` the sum of their
    ``r_i x_i``.  Pairs with a small document are added to `total`, (d, d), one way round.
    """
    turn_in_place(vector, product)
    one = np.zeros((2, documents.shape[1]))
    for s in range(len(small)):
        # Pairs with all documents before this one; those after it are in no pair yet.
        later = 1.0 + 0.0j
        for t in range(s + 1, len(small)):
            later *= phis[t]
        one[0] = documents[small[s]]
        add_product(total, tops[s] * later, vector, one)
        turn_in_place(vector, phis[s])
        add_scaled(vector, tops[s] * product, documents[small[s]])
        product *= phis[s]
    return product


@njit(cache=True, nogil=True, error_model="numpy")
def curve_list(table, means, counts, values, documents, total, own):
    """Return P(counts); add the pairs of documents of a list to `total`, each both ways.

    `table` are the tilted marginals, `means` those of the levels given the counts,
    `documents` (n, d).  What `total` holds of a document with itself is added to `own`
    (n,).  All is to be divided by P.
    """
    n, n_levels = documents.shape[0], values.shape[0]
    products = np.empty((n_levels, n_levels))
    fill_products(table, n, products)
    covariance = np.empty((n_levels - 1, n_levels - 1))
    fill_covariance(products, covariance)
    periods = np.empty(n_levels - 1, np.int64)
    fill_periods(covariance, counts, periods, EXACT_TO)
    points, n_points = choose_points(products, periods, EXACT_TO)
    turns = np.ones(n_levels, np.complex128)
    ratios = np.empty(n, np.complex128)
    small = np.empty(n, np.int64)
    phis, tops = np.empty(n, np.complex128), np.empty(n, np.complex128)
    vector = np.empty((2, documents.shape[1]))
    half = np.zeros((documents.shape[1], documents.shape[1]))
    grid = 1.0
    for k in range(n_levels - 1):
        grid *= periods[k]
    probability = 0.0
    for j in range(n_points):
        phase = 0.0
        for k in range(n_levels - 1):
            angle = 2.0 * math.pi * points[j, k] / periods[k]
            turns[k + 1] = complex(math.cos(angle), math.sin(angle))
            phase -= (points[j, k] * counts[k + 1]) % periods[k] / periods[k]
        angle = 2.0 * math.pi * phase
        product = complex(math.cos(angle), math.sin(angle))
        product *= (1.0 if j == 0 else 2.0) / grid
        vector[:] = 0.0
        n_small = 0
        for i in range(n):
            phi, top = 0.0j, 0.0j
            for k in range(n_levels):
                part = table[k, i] * turns[k]
                phi += part
                top += part * (values[k] - means[i])
            if phi.real**2 + phi.imag**2 < SMALL_SQUARE:
                small[n_small], phis[n_small], tops[n_small] = i, phi, top
                n_small += 1
                ratios[i] = 0.0
                continue
            product *= phi
            ratios[i] = top / phi
            add_scaled(vector, ratios[i], documents[i])
        if n_small == 0:
            add_product(total, product, vector, vector)
        else:
            every = product
            for s in range(n_small):
                every *= phis[s]
            add_product(total, every, vector, vector)
            product = join_small(
                documents, small[:n_small], phis, tops, vector, product, half
            )
        probability += product.real
        for i in range(n):
            own[i] += (product * ratios[i] * ratios[i]).real
    for f in range(half.shape[0]):
        for g in range(half.shape[0]):
            total[f, g] += half[f, g] + half[g, f]
    return probability


@njit(cache=True, nogil=True, error_model="numpy")
def curve_exactly(lists, q, first, tilted, given, documents, weight, total, variances):
    """Add the second derivatives of `weight` times the log-partition of query q.

    They are what is added to `total` (d, d) plus ``sum_i variances_i x_i x_i'``; the
    `variances` (n,) of the query's `documents` (n, d), which may be negative, are filled.
    `tilted` and `given` are the marginals of queries from `first` on, before and after
    `count_queries`.
    """
    values = lists.values[lists.level_starts[q] : lists.level_starts[q + 1]]
    counts = lists.counts[lists.level_starts[q] : lists.level_starts[q + 1]]
    n = documents.shape[0]
    means, own = np.empty(n), np.zeros(n)
    after = table_of(lists, given, first, q)
    for i in range(n):
        means[i], variances[i] = mean_and_variance(after, values, i)
    pairs = np.zeros_like(total)
    before = table_of(lists, tilted, first, q)
    probability = curve_list(before, means, counts, values, documents, pairs, own)
    for i in range(n):
        variances[i] = weight * (variances[i] - own[i] / probability)
    for f in range(total.shape[0]):
        for g in range(total.shape[0]):
            total[f, g] += weight / probability * pairs[f, g]
