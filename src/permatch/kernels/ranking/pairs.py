"""The logistic loss of all pairs of documents of different grade, pair by pair.

Documents of a query stand in decreasing order of grade, so those below document i are one
range.  With ``r = exp(s_j - s_i)`` a pair loses ``log(1 + r)`` and has the slope
``r / (1 + r)``, up for j and down for i.  One exponential a document will do, as r is
a product; and one logarithm a tile of pairs, of the product of its ``1 + r``, where the
tile is short enough for that product to be finite.  Queries whose scores are too far apart
even for short tiles take an exponential and a logarithm for every pair.
"""

import math

import numpy as np
from numba import njit

# exp(700) is finite; shorter tiles than this save no logarithms worth having.
LARGEST_EXPONENT = 700.0
SHORTEST_TILE = 8
LONGEST_TILE = 256  # a tile of every array stays in the fastest cache


@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz", "contract"}, error_model="numpy")
def add_tile(up, down, pulls, first, last):
    """Add the shares of one document and those below to `pulls`.

    Return the sum of the shares and the product of ``1 + r``.
    """
    product = 1.0
    total = 0.0
    for j in range(first, last):
        ratio = up[j] * down
        one_more = 1.0 + ratio
        share = ratio / one_more
        pulls[j] += share
        total += share
        product *= one_more
    return total, product


@njit(cache=True, nogil=True)
def add_close_pairs(own, ends, middle, pulls):
    """Add the shares of all pairs of a query to `pulls`; return their summed loss."""
    n = len(own)
    up = np.empty(n)
    widest = 0.0
    for i in range(n):
        up[i] = math.exp(own[i] - middle)
        widest = max(widest, abs(own[i] - middle))
    # every factor of a product is at most 1 + exp(2 widest)
    tile = min(LONGEST_TILE, int(LARGEST_EXPONENT / (2.0 * widest + 0.7)))
    value = 0.0
    for i in range(n):
        total = 0.0
        loss = 0.0  # by document first: rounding grows with the length of a sum
        down = 1.0 / up[i]
        for first in range(ends[i], n, tile):
            part, product = add_tile(up, down, pulls, first, min(first + tile, n))
            total += part
            loss += math.log(product)
        pulls[i] -= total
        value += loss
    return value


@njit(cache=True, nogil=True)
def add_distant_pairs(own, ends, pulls):
    """Do what `add_close_pairs` does at any distance, one pair at a time."""
    value = 0.0
    for i in range(len(own)):
        total = 0.0
        loss = 0.0
        for j in range(ends[i], len(own)):
            margin = own[i] - own[j]
            ratio = math.exp(-abs(margin))
            share = (1.0 if margin < 0.0 else ratio) / (1.0 + ratio)
            loss += math.log1p(ratio) + max(-margin, 0.0)
            pulls[j] += share
            total += share
        pulls[i] -= total
        value += loss
    return value


@njit(cache=True, nogil=True)
def add_queries(scores, order, ends, starts, weights, slope, first, last):
    """Add the slopes of queries ``first .. last - 1``; return their summed value.

    `order` lists the documents of every query by decreasing grade; the documents of lower
    grade than ``order[t]`` are ``order[ends[t]:]`` up to the end of the query.
    ``weights[k]`` is the weight of a pair of query k.
    """
    value = 0.0
    for k in range(first, last):
        if weights[k] == 0.0:
            continue
        begin = starts[k]
        documents = order[begin : starts[k + 1]]
        own = scores[documents]
        lowest, highest = own.min(), own.max()
        middle = 0.5 * lowest + 0.5 * highest
        pulls = np.zeros(len(own))
        below = ends[begin : starts[k + 1]] - begin
        # false for scores that are not finite, which the loss then is not either
        if highest - lowest <= LARGEST_EXPONENT / SHORTEST_TILE - 1.0:
            loss = add_close_pairs(own, below, middle, pulls)
        else:
            loss = add_distant_pairs(own, below, pulls)
        value += weights[k] * loss
        for t in range(len(own)):
            slope[documents[t]] = weights[k] * pulls[t]
    return value
