"""Positions of documents that are sorted by grades nobody knows, ties in random order.

Documents are independent, document k having grade l with chance p_kl.  Every document
draws a label uniform in [0, 1] too, by which ties are broken.  Given grade l and label
1 - x of document i, the number of documents above it is a sum of independent indicators,

    q_k = P(grade of k > l) + x P(grade of k = l),      k other than i,

whose law, Poisson-binomial, is that of all documents with document i divided out:

    f(j) = (1 - q_i) g(j) + q_i g(j - 1).

The division goes up from the lowest j if q_i <= 1/2 and down from the highest otherwise, so
that errors never grow.  With scores in decreasing order the q do not rise, so that the
documents of either kind are next to each other and are divided out side by side.  Numbers
of documents whose chances are below `TAIL` are left out.

`integrate_ranks` adds up ``weight p_il g(j)`` over the nodes x of one shift.
"""

import math

import numpy as np
from numba import njit

from permatch.kernels.intrinsics import WIDTH, load, splat, store

#: Documents that are divided out side by side: two vectors, so that one need not wait.
LANES = 2 * WIDTH
#: What the law of n documents has room for beyond their numbers from 0 to n.
ROOM = 3 * WIDTH + 2
#: Minus the log of the largest chance that is left out of a law.
TAIL = 25.0
# Chances of a grade below which a document has no part in it.
_NOTHING = 1e-14


@njit(cache=True, nogil=True, error_model="numpy")
def fill_chances(scores, levels, offsets, t, chances, above):
    """Fill p (n, R), and the chances of a higher grade (n, R), at shift t."""
    n_levels = levels.shape[0]
    for i in range(scores.shape[0]):
        largest = -np.inf
        for k in range(n_levels):
            chances[i, k] = levels[k] * (scores[i] + t) + offsets[k]
            largest = max(largest, chances[i, k])
        total = 0.0
        for k in range(n_levels):
            chances[i, k] = math.exp(chances[i, k] - largest)
            total += chances[i, k]
        higher = 0.0
        for k in range(n_levels - 1, -1, -1):
            chances[i, k] /= total
            above[i, k] = min(1.0, higher)
            higher += chances[i, k]


@njit(cache=True, nogil=True, error_model="numpy")
def find_reach(variance):
    """Return how far from its mean a sum has chances worth counting (Bernstein)."""
    third = TAIL / 3.0
    return third + math.sqrt(third * third + 2.0 * TAIL * variance)


@njit(cache=True, nogil=True)
def add_document(law, more, q, low, high):
    """Fill the law `more` of a sum with one more indicator, from `low` on."""
    chance, rest = splat(q), splat(1.0 - q)
    j = low
    while j <= high:
        store(more, j + 1, rest * load(law, j + 1) + chance * load(law, j))
        j += WIDTH
    more[low] = 0.0
    store(more, j + 1, splat(0.0))  # what is left there of a longer one


@njit(cache=True, nogil=True, error_model="numpy")
def fill_law(chances, law, spare):
    """Fill the law of a sum of indicators; entry j + 1 is the chance of j.

    Return the lowest and the highest number that counts.
    """
    mean, variance = 0.0, 0.0
    for q in chances:
        mean += q
        variance += q * (1.0 - q)
    reach = find_reach(variance)
    law[:] = 0.0
    spare[:] = 0.0
    law[1] = 1.0
    one, other = law, spare
    mean, low, high = 0.0, 0, 0
    for i in range(chances.shape[0]):
        mean += chances[i]
        low = max(low, math.ceil(mean - reach))
        high = min(i + 1, high + 1, math.floor(mean + reach))
        add_document(one, other, chances[i], low, high)
        one, other = other, one
    if chances.shape[0] % 2 == 1:  # the last one was written to `spare`
        law[:] = spare
    law[: low + 1] = 0.0
    law[high + 2 :] = 0.0
    return low, high


@njit(cache=True, nogil=True)
def divide_up(law, low, high, factors, ratios, sums):
    """Divide documents out of a law from the lowest number up; add what is left.

    `factors` have the weights of the documents.
    """
    first, second = load(factors, 0), load(factors, WIDTH)
    one, two = load(ratios, 0), load(ratios, WIDTH)
    left, right = splat(0.0), splat(0.0)
    for j in range(low, high + 1):
        own = splat(law[j + 1])
        left = own * first - one * left
        right = own * second - two * right
        at = j * LANES
        store(sums, at, load(sums, at) + left)
        store(sums, at + WIDTH, load(sums, at + WIDTH) + right)


@njit(cache=True, nogil=True)
def divide_down(law, low, high, factors, ratios, sums):
    """Divide documents out of a law from the highest number down."""
    first, second = load(factors, 0), load(factors, WIDTH)
    one, two = load(ratios, 0), load(ratios, WIDTH)
    left, right = splat(0.0), splat(0.0)
    for j in range(high - 1, low - 2, -1):
        own = splat(law[j + 2])
        left = own * first - one * left
        right = own * second - two * right
        at = j * LANES
        store(sums, at, load(sums, at) + left)
        store(sums, at + WIDTH, load(sums, at + WIDTH) + right)


@njit(cache=True, nogil=True, error_model="numpy")
def integrate_ranks(scores, levels, offsets, t, weight, points, shares, point_starts, sums):
    """Add the chances of positions at one shift, by blocks of documents.

    `scores` are in decreasing order.  Level l has the nodes
    ``point_starts[l] .. point_starts[l+1] - 1`` of `points`, with weights `shares`.  `sums`
    (blocks, n, LANES) hold document ``LANES * block + lane`` at position j.
    """
    n, n_levels = scores.shape[0], levels.shape[0]
    chances, above = np.empty((n, n_levels)), np.empty((n, n_levels))
    fill_chances(scores, levels, offsets, t, chances, above)
    n_points = point_starts[n_levels]
    laws, spare, q = np.empty((n_points, n + ROOM)), np.empty(n + ROOM), np.empty(n)
    lows, highs = np.empty(n_points, np.int64), np.empty(n_points, np.int64)
    for k in range(n_levels):
        for p in range(point_starts[k], point_starts[k + 1]):
            for i in range(n):
                q[i] = min(1.0, above[i, k] + points[p] * chances[i, k])
            lows[p], highs[p] = fill_law(q, laws[p], spare)
    factors, ratios = np.empty(LANES), np.empty(LANES)
    for block in range(sums.shape[0]):
        begin = block * LANES
        for k in range(n_levels):
            largest = 0.0
            for i in range(begin, min(n, begin + LANES)):
                largest = max(largest, chances[i, k])
            if largest < _NOTHING:
                continue
            for p in range(point_starts[k], point_starts[k + 1]):
                for is_up in (True, False):
                    is_any = False
                    for b in range(LANES):
                        i = begin + b
                        factors[b], ratios[b] = 0.0, 0.0
                        if i >= n:
                            continue
                        own = min(1.0, above[i, k] + points[p] * chances[i, k])
                        if (own <= 0.5) != is_up:
                            continue
                        is_any = True
                        share = weight * shares[p] * chances[i, k]
                        if is_up:
                            factors[b] = share / (1.0 - own)
                            ratios[b] = own / (1.0 - own)
                        else:
                            factors[b] = share / own
                            ratios[b] = (1.0 - own) / own
                    if not is_any:
                        continue
                    own_law, table = laws[p], sums[block]
                    how = factors, ratios
                    if is_up:
                        divide_up(own_law, lows[p], min(highs[p], n - 1), *how, table)
                    else:
                        divide_down(own_law, max(lows[p], 1), highs[p], *how, table)
