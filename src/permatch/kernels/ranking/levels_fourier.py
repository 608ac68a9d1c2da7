"""Probability of given level counts, and levels given the counts, by Fourier inversion.

Independent documents take level l with probability p_il; level 0 is the reference.  The
counts of the other levels have the characteristic function

    phi(x) = prod_i phi_i(x),     phi_i(x) = p_i0 + sum_l p_il e^{i x_l},

and with a grid of N_l points around each circle, and the counts n expected on average,

    sum over the grid of e^{-i<x, n>} phi(x) / prod_l N_l  =  P(n) + aliases
    the same without document i, times p_il e^{i x_l}      =  P(n, document i on level l).

Two bounds make this exact to rounding with few points, for lists of any length:

    aliases   <= sum_l 2 exp(-var_l h(N_l / var_l)),   h(u) = (1 + u) log(1 + u) - u
    |phi(x)|  <= exp(-sum_{l<m} S_lm (1 - cos(x_l - x_m))),   S_lm = sum_i p_il p_im

(Bennett's inequality; x_0 = 0).  The first gives N_l, a few standard deviations; the second
leaves out all points but those near 0.  Both errors are kept below ``exp(-EXACT_TO)``,
1e-14, of P(n), or below ``exp(-SINGLE_TO)``, 1e-7, for answers in single precision.  With R
levels some 20^(R-1) / 4 points are left, or 10^(R-1) / 4.  Points come in pairs of
conjugates; one is kept.

Products without a document are products of those before it and those after it, as
division by phi_i would fail where that is 0.  Tiles of `TILE` points run through all
documents, so the memory is small whatever the number of points.
"""

import math

import numpy as np
from numba import njit

from permatch.kernels.intrinsics import WIDTH, load, splat, store, total
from permatch.kernels.ranking.levels_tilt import factor_in_place

TILE = 2 * WIDTH
EXACT_TO, SINGLE_TO = 32.0, 16.0


@njit(cache=True, nogil=True, error_model="numpy")
def fill_periods(covariance, counts, periods, exponent):
    """Fill the number of grid points of every axis, odd, so that aliases are negligible.

    They are at most about ``exp(-exponent)``.
    """
    n_documents = counts.sum()
    for k in range(covariance.shape[0]):
        variance = covariance[k, k]
        n = counts[k + 1]
        # counts from 0 to the number of documents have no alias beyond that
        longest = max(n, n_documents - n) + 1
        period = 1
        while period < longest:
            log_ratio = math.log1p(period / max(variance, 1e-300))
            if (variance + period) * log_ratio - period >= exponent:
                break
            period += 1
        periods[k] = period | 1


@njit(cache=True, nogil=True, error_model="numpy")
def expected_points(covariance, periods, exponent):
    """Return about how many points will be kept, from the volume of an ellipsoid."""
    size = covariance.shape[0]
    factor = covariance.copy()
    factor_in_place(factor)
    volume, full = 1.0, 1.0
    for k in range(size):
        volume *= math.sqrt(2.0 * exponent) * periods[k] / (2.0 * math.pi * factor[k, k])
        full *= periods[k]
    ball = 2.0 if size % 2 else 1.0
    for k in range(2 + size % 2, size + 1, 2):
        ball *= 2.0 * math.pi / k
    return 0.5 * min(full, ball * volume)


@njit(cache=True, nogil=True, error_model="numpy")
def choose_points(products, periods, exponent):
    """Return the kept grid points as whole numbers, the origin first, and their number."""
    size = periods.shape[0]
    most = periods.max()
    cosines = np.empty((size, most))
    sines = np.empty((size, most))
    for k in range(size):
        for j in range(periods[k]):
            angle = 2.0 * math.pi * (j - periods[k] // 2) / periods[k]
            cosines[k, j] = math.cos(angle)
            sines[k, j] = math.sin(angle)
    capacity = 256
    points = np.empty((capacity, size), np.int64)
    n_points = 0
    here = periods // 2  # the origin; what follows it in this order is half of the others
    while True:
        decay = 0.0
        for k in range(size):
            c, s = cosines[k, here[k]], sines[k, here[k]]
            decay += products[0, k + 1] * (1.0 - c)
            for m in range(k):
                aligned = c * cosines[m, here[m]] + s * sines[m, here[m]]
                decay += products[k + 1, m + 1] * (1.0 - aligned)
        if decay < exponent:
            if n_points == capacity:
                larger = np.empty((2 * capacity, size), np.int64)
                larger[:capacity] = points
                points = larger
                capacity *= 2
            for k in range(size):
                points[n_points, k] = here[k] - periods[k] // 2
            n_points += 1
        k = size - 1
        while k >= 0 and here[k] == periods[k] - 1:
            here[k] = 0
            k -= 1
        if k < 0:
            return points, n_points
        here[k] += 1


@njit(cache=True, nogil=True, error_model="numpy")
def tabulate_points(points, n_points, periods, counts, circles, starts):
    """Fill ``e^{i x_l}`` and the weights ``e^{-i<x, n>} / prod N`` of points.

    `circles` is (tiles, R-1, 2, TILE) and `starts` (tiles, 2, TILE), cosines before sines.
    """
    size = periods.shape[0]
    grid = 1.0
    for k in range(size):
        grid *= periods[k]
    for j in range(n_points):
        tile, lane = j // TILE, j % TILE
        phase = 0.0
        for k in range(size):
            angle = 2.0 * math.pi * points[j, k] / periods[k]
            circles[tile, k, 0, lane] = math.cos(angle)
            circles[tile, k, 1, lane] = math.sin(angle)
            phase += (points[j, k] * counts[k + 1]) % periods[k] / periods[k]
        weight = (1.0 if j == 0 else 2.0) / grid
        starts[tile, 0, lane] = weight * math.cos(-2.0 * math.pi * phase)
        starts[tile, 1, lane] = weight * math.sin(-2.0 * math.pi * phase)


@njit(cache=True, nogil=True, inline="always")
def characteristic(marginals, circles, origin, i):
    """Return phi_i at the points of a tile: two vectors of real, two of other parts."""
    a = splat(marginals[0, i])
    b = a
    c = splat(0.0)
    d = c
    for k in range(1, marginals.shape[0]):
        p = splat(marginals[k, i])
        at = origin + (k - 1) * 2 * TILE
        a = a + p * load(circles, at)
        b = b + p * load(circles, at + WIDTH)
        c = c + p * load(circles, at + TILE)
        d = d + p * load(circles, at + TILE + WIDTH)
    return a, b, c, d


@njit(cache=True, nogil=True, error_model="numpy")
def sweep_forward(marginals, n, circles, starts, tile, before):
    """Fill the products of all documents before each; return the sum over the points."""
    origin = tile * (marginals.shape[0] - 1) * 2 * TILE
    at = tile * 2 * TILE
    a, b = load(starts, at), load(starts, at + WIDTH)
    c, d = load(starts, at + TILE), load(starts, at + TILE + WIDTH)
    for i in range(n):
        at = i * 2 * TILE
        store(before, at, a)
        store(before, at + WIDTH, b)
        store(before, at + TILE, c)
        store(before, at + TILE + WIDTH, d)
        p, q, r, s = characteristic(marginals, circles, origin, i)
        a, c = a * p - c * r, a * r + c * p
        b, d = b * q - d * s, b * s + d * q
    return total(a + b)


@njit(cache=True, nogil=True, error_model="numpy")
def sweep_backward(marginals, n, circles, tile, before, sums):
    """Add, by document and level, the points' products without the document."""
    size = marginals.shape[0] - 1
    origin = tile * size * 2 * TILE
    a = splat(1.0)
    b = a
    c = splat(0.0)
    d = c
    for i in range(n - 1, -1, -1):
        at = i * 2 * TILE
        p, r = load(before, at), load(before, at + TILE)
        q, s = load(before, at + WIDTH), load(before, at + TILE + WIDTH)
        p, r = a * p - c * r, a * r + c * p
        q, s = b * q - d * s, b * s + d * q
        for k in range(size):
            at = origin + k * 2 * TILE
            x = p * load(circles, at) - r * load(circles, at + TILE)
            y = q * load(circles, at + WIDTH) - s * load(circles, at + TILE + WIDTH)
            at = (k * n + i) * WIDTH
            store(sums, at, load(sums, at) + (x + y))
        p, q, r, s = characteristic(marginals, circles, origin, i)
        a, c = a * p - c * r, a * r + c * p
        b, d = b * q - d * s, b * s + d * q


@njit(cache=True, nogil=True, error_model="numpy")
def fourier_room(counts, n):
    """Return the length of the array that `infer_by_fourier` works in."""
    return n * (2 * TILE + (counts.shape[0] - 1) * WIDTH)


@njit(cache=True, nogil=True, error_model="numpy")
def infer_by_fourier(marginals, counts, products, periods, n, work, exponent):
    """Turn the marginals p_il of `n` documents into those given the counts.

    Returns the log-probability of the counts.  `products` are ``S_lm``, `periods` what
    `fill_periods` gave for the same `exponent`; `work` has `fourier_room`.
    """
    size = periods.shape[0]
    points, n_points = choose_points(products, periods, exponent)
    n_tiles = (n_points + TILE - 1) // TILE
    circles = np.zeros((n_tiles, size, 2, TILE))
    starts = np.zeros((n_tiles, 2, TILE))
    tabulate_points(points, n_points, periods, counts, circles, starts)
    before = work[: n * 2 * TILE]
    sums = work[n * 2 * TILE : fourier_room(counts, n)]
    sums[:] = 0.0
    probability = 0.0
    for tile in range(n_tiles):
        probability += sweep_forward(marginals, n, circles, starts, tile, before)
        sweep_backward(marginals, n, circles, tile, before, sums)
    for i in range(n):
        rest = 1.0
        for k in range(size):
            joint = marginals[k + 1, i] * total(load(sums, (k * n + i) * WIDTH))
            marginals[k + 1, i] = min(max(joint / probability, 0.0), 1.0)
            rest -= marginals[k + 1, i]
        marginals[0, i] = max(rest, 0.0)
    return math.log(probability)
