"""Log-partition and expected position weights of many small lists of documents.

A list is M rows of one score vector.  Placing its document i at position j scores
``c_j s_i``, with c non-increasing, so the best placement is a sort.  Let the scores be
sorted, ``s_1 >= ... >= s_M``, and m_k the middle of s_k and s_k+1.  The numbers

    r_ij = - sum_{k=i}^{j-1} (c_k - c_k+1) (s_i - m_k)     for i < j
    r_ij = - sum_{k=j}^{i-1} (c_k - c_k+1) (m_k - s_i)     for i > j,  r_ii = 0

are c_j s_i less a price for every document and one for every position.  All are at most 0
whatever the spread of the scores, and the best placement has 0; so ``1 <= P <= M!`` for the
permanent P of exp(r), found by the sums over subsets of `small_batch`, one list per SIMD
lane, and with t the observed weights of the documents

    log Z - <t, s> = <c sorted as the scores - t, s> + log P
    slope          = expected c of every document - t.

Of M! placements no table is ever made: a list costs O(M^2) exponentials and O(M 2^M) sums,
or M - 1 exponentials where c falls in even steps.
"""

import math

import numpy as np
from numba import njit

from permatch.kernels.intrinsics import WIDTH, aligned, load, splat, store
from permatch.kernels.small_batch import exp_in_place
from permatch.kernels.unrolled import LANES, sum_over_subsets

#: Longest lists worked on in lanes: their tables fit the fastest cache.
MAX_LANE_SIZE = 8


@njit(cache=True, nogil=True)
def rank_lanes(own, m, ranks):
    """Fill `ranks` with the position of every score in decreasing order, ties by index.

    Counting comparisons takes no branch, which pays for a handful of scores.
    """
    lanes = np.uint64(LANES)
    for i in range(np.uint64(m)):
        for lane in range(lanes):
            ranks[i * lanes + lane] = i
        for j in range(i):
            for lane in range(lanes):
                is_ahead = np.uint64(own[i * lanes + lane] > own[j * lanes + lane])
                ranks[i * lanes + lane] -= is_ahead
                ranks[j * lanes + lane] += is_ahead


@njit(cache=True, nogil=True)
def reduce_lanes(ordered, drops, m, reduced):
    """Fill `reduced` (m * m lanes) with r_ij; `drops` holds ``c_k - c_k+1``."""
    half = splat(0.5)
    for lane in range(0, LANES, WIDTH):
        for i in range(m):
            score = load(ordered, i * LANES + lane)
            store(reduced, (i * m + i) * LANES + lane, splat(0.0))
            total = splat(0.0)
            below = score
            for j in range(i + 1, m):
                above, below = below, load(ordered, j * LANES + lane)
                middle = (above + below) * half
                total = total - splat(drops[j - 1]) * (score - middle)
                store(reduced, (i * m + j) * LANES + lane, total)
            total = splat(0.0)
            above = score
            for j in range(i - 1, -1, -1):
                below, above = above, load(ordered, j * LANES + lane)
                middle = (above + below) * half
                total = total - splat(drops[j]) * (middle - score)
                store(reduced, (i * m + j) * LANES + lane, total)


@njit(cache=True, nogil=True)
def weigh_even_lanes(ordered, drop, m, halves, weights):
    """Fill `weights` (m * m lanes) with exp(r_ij) when all ``c_k - c_k+1`` are `drop`.

    They are products of ``exp(-drop (s_k - s_k+1) / 2)``, only m - 1 exponentials a list.
    """
    scale = splat(0.5 * drop)
    for e in range(0, (m - 1) * LANES, WIDTH):
        store(halves, e, (load(ordered, e + LANES) - load(ordered, e)) * scale)
    exp_in_place(halves, (m - 1) * LANES)
    for lane in range(0, LANES, WIDTH):
        for i in range(m):
            store(weights, (i * m + i) * LANES + lane, splat(1.0))
            total = splat(1.0)
            reach = splat(1.0)
            for j in range(i + 1, m):
                half = load(halves, (j - 1) * LANES + lane)
                total = total * (reach * half)
                reach = reach * (half * half)
                store(weights, (i * m + j) * LANES + lane, total)
            total = splat(1.0)
            reach = splat(1.0)
            for j in range(i - 1, -1, -1):
                half = load(halves, j * LANES + lane)
                total = total * (reach * half)
                reach = reach * (half * half)
                store(weights, (i * m + j) * LANES + lane, total)


@njit(cache=True, nogil=True)
def expect_lanes(flows, permanents, position_weights, m, expected):
    """Fill `expected` (m lanes) with the mean position weight of every sorted document."""
    for lane in range(LANES):
        permanents[lane] = 1.0 / permanents[lane]
    for lane in range(0, LANES, WIDTH):
        inverse = load(permanents, lane)
        for i in range(m):
            total = splat(0.0)
            for j in range(m):
                flow = load(flows, (i * m + j) * LANES + lane)
                total = total + splat(position_weights[j]) * flow
            store(expected, i * LANES + lane, total * inverse)


@njit(cache=True, nogil=True, error_model="numpy")
def add_short_lists(
    scores, rows, patterns, targets, weights, position_weights, slope, first, last, size
):
    """Add the slopes of lists ``first .. last - 1`` to `slope`; return their summed value.

    List n has the documents ``rows[n]``, whose observed position weights are
    ``targets[patterns[n]]``, which sum to what `position_weights` do, and counts
    ``weights[n]`` times.  M is at most 8; `size` is any tuple of that length.
    """
    m = len(size)
    n_documents = np.uint64(m)  # unsigned: Numba then spends no time on negative indices
    lanes = np.uint64(LANES)
    documents = rows.reshape(-1)
    observed = targets.reshape(-1)
    drops = position_weights[:-1] - position_weights[1:]
    is_even = drops.min() == drops.max()
    halves = np.empty(m * LANES)
    own = np.empty(LANES * m)
    ranks = np.empty(LANES * m, np.uint64)
    ordered = np.empty(m * LANES)
    reduced = aligned(m * m * LANES)
    flows = aligned(m * m * LANES)
    permanents = aligned(LANES)
    expected = np.empty(m * LANES)
    value = 0.0
    weight = 0.0
    product = 1.0
    for begin in range(first, last, LANES):
        n_lanes = min(LANES, last - begin)
        for lane in range(lanes):
            n = np.uint64(begin + min(lane, n_lanes - 1))  # idle lanes repeat the last list
            at = n * n_documents
            top = scores[np.uint64(documents[at])]
            for i in range(n_documents):
                # Only differences count: without a common offset they keep their digits.
                own[i * lanes + lane] = scores[np.uint64(documents[at + i])] - top
        rank_lanes(own, m, ranks)
        for e in range(np.uint64(m * LANES)):
            ordered[ranks[e] * lanes + e % lanes] = own[e]
        if is_even:
            weigh_even_lanes(ordered, drops[0], m, halves, reduced)
        else:
            reduce_lanes(ordered, drops, m, reduced)
            exp_in_place(reduced, m * m * LANES)
        for lane in range(0, LANES, WIDTH):
            store(permanents, lane, sum_over_subsets(reduced, flows, lane, size))
        for lane in range(n_lanes):
            # One logarithm for many lists: the permanent of each is between 1 and 8!.
            if weights[begin + lane] != weight or product > 1e300:
                value += weight * math.log(product)
                weight = weights[begin + lane]
                product = 1.0
            product *= permanents[lane]
        expect_lanes(flows, permanents, position_weights, m, expected)
        for lane in range(np.uint64(n_lanes)):
            n = np.uint64(begin) + lane
            at = n * n_documents
            target = np.uint64(patterns[n]) * n_documents
            gain = 0.0
            for i in range(n_documents):
                e = i * lanes + lane
                wanted = observed[target + i]
                gain += (position_weights[ranks[e]] - wanted) * own[e]
                mean = expected[ranks[e] * lanes + lane]
                slope[np.uint64(documents[at + i])] += weights[n] * (mean - wanted)
            value += weights[n] * gain
    return value + weight * math.log(product)
