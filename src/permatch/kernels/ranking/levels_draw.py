"""Draws of whole lists: exact ones by rejection, approximate ones by a chain of swaps.

Rejection draws the levels of all documents independently from the tilted probabilities of
`levels_tilt` and keeps the draw if the counts are right.  Every draw kept is exact and
independent; with R levels of n documents each about one in n^((R-1)/2) is.

The chain holds the document at every position.  A move picks two positions a < b and
redraws which of their two documents stands where, given all others:

    P(they change places) = 1 / (1 + exp((w_a - w_b) (s_first - s_second)))

for position weights w.  Moves leave the distribution over rankings as it is.
"""

import math

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def reject_levels(marginals, counts, rng, levels):
    """Fill rows of `levels` (n, documents) with independent draws given the counts."""
    n_levels, n = counts.shape[0], levels.shape[1]
    left = np.empty(n_levels, np.int64)
    for s in range(levels.shape[0]):
        i = 0
        while i < n:
            if i == 0:
                left[:] = counts
            target = rng.random()
            k = 0
            while k < n_levels - 1:
                target -= marginals[k, i]
                if target < 0.0:
                    break
                k += 1
            if left[k] == 0:
                i = 0  # one too many: begin again
                continue
            left[k] -= 1
            levels[s, i] = k
            i += 1


@njit(cache=True, nogil=True)
def run_swaps(scores, weights, order, n_swaps, rng):
    """Move a ranking, ``order[position] = document``, by `n_swaps` moves."""
    n = order.shape[0]
    if n < 2:
        return
    for _ in range(n_swaps):
        a = int(rng.random() * n)
        b = int(rng.random() * (n - 1))
        if b >= a:
            b += 1
        gain = (weights[a] - weights[b]) * (scores[order[b]] - scores[order[a]])
        if gain >= 0.0:
            chance = 1.0 / (1.0 + math.exp(-gain))
        else:
            odds = math.exp(gain)
            chance = odds / (1.0 + odds)
        if rng.random() < chance:
            order[a], order[b] = order[b], order[a]


@njit(cache=True, nogil=True)
def run_chain(scores, weights, order, n_swaps, rng, orders, totals):
    """Fill `orders` (n, documents) with every n_swaps-th state, and their total scores."""
    for s in range(orders.shape[0]):
        run_swaps(scores, weights, order, n_swaps, rng)
        total = 0.0
        for j in range(order.shape[0]):
            orders[s, j] = order[j]
            total += weights[j] * scores[order[j]]
        totals[s] = total
