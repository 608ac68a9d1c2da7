"""Moves of a Markov chain over perfect matchings, each leaving exp(beta * score) invariant.

A pass shuffles the rows and moves disjoint groups of them, so that every row is moved once.

    swap        two rows exchange columns with the heat-bath probability
    block       k rows draw their columns anew, exactly, by the subset recursion
    sequential  k rows choose one after the other among the columns the group has left, by
                softmax; Metropolis-Hastings corrects for the order

`tally` (m, m), when `is_tallied`, gains the probability of every edge *given what the pass
leaves alone* (Rao-Blackwell) rather than the edges drawn; a pass adds one to every row and
column.  Forbidden edges have score ``-inf``; the matching moved never uses one.

References
----------
M. Volkovs and R. Zemel, "Efficient sampling for bipartite matching problems", NIPS 2012
(the sequential proposal).
"""

import math

import numpy as np
from numba import njit

from permatch.kernels.intrinsics import uniform
from permatch.kernels.subset_dp import draw, fill_forward, permanent_and_marginals


@njit(cache=True, nogil=True)
def shuffle(items, rng):
    """Bring `items` into uniformly random order."""
    for last in range(len(items) - 1, 0, -1):
        k = int(uniform(rng) * (last + 1))
        items[last], items[k] = items[k], items[last]


@njit(cache=True, nogil=True)
def swap_pass(scores, beta, matching, rows, rng, tally, is_tallied):
    """Let random disjoint pairs of rows exchange columns; return how many did."""
    m = len(matching)
    shuffle(rows, rng)
    n_moved = 0
    for first in range(0, m - 1, 2):
        i = rows[first]
        k = rows[first + 1]
        p = matching[i]
        q = matching[k]
        gain = beta * (scores[i, q] + scores[k, p] - scores[i, p] - scores[k, q])
        if gain >= 0.0:
            chance = 1.0 / (1.0 + math.exp(-gain))
        else:
            odds = math.exp(gain)
            chance = odds / (1.0 + odds)
        if is_tallied:
            tally[i, q] += chance
            tally[k, p] += chance
            tally[i, p] += 1.0 - chance
            tally[k, q] += 1.0 - chance
        if uniform(rng) < chance:
            matching[i] = q
            matching[k] = p
            n_moved += 1
    if m % 2 and is_tallied:
        tally[rows[m - 1], matching[rows[m - 1]]] += 1.0
    return n_moved


@njit(cache=True, nogil=True)
def block_pass(scores, beta, matching, rows, block_size, rng, tally, is_tallied):
    """Draw the columns of random disjoint blocks of rows from their exact conditional.

    Return the number of rows that got another column.
    """
    m = len(matching)
    shuffle(rows, rng)
    n_blocks = (m + block_size - 1) // block_size
    low = m // n_blocks  # blocks differ in size by one at most
    n_high = m % n_blocks
    middle = n_high * (low + 1)
    n_moved = 0
    if n_high:
        n_moved += draw_blocks(
            scores, beta, matching, rows[:middle], low + 1, rng, tally, is_tallied
        )
    return n_moved + draw_blocks(
        scores, beta, matching, rows[middle:], low, rng, tally, is_tallied
    )


@njit(cache=True, nogil=True)
def draw_blocks(scores, beta, matching, rows, k, rng, tally, is_tallied):
    """Do `block_pass` for blocks of exactly `k` rows."""
    weights = np.empty((k, k))
    chances = np.empty((k, k))
    forward = np.empty(1 << k)
    backward = np.empty(1 << k)
    favourites = np.empty(k, np.int64)
    columns = np.empty(k, np.int64)
    uniforms = np.empty((1, k))
    chosen = np.empty((1, k), np.int64)
    n_moved = 0
    for first in range(0, len(rows), k):
        for a in range(k):
            columns[a] = matching[rows[first + a]]
            uniforms[0, a] = uniform(rng)
        for a in range(k):
            row = rows[first + a]
            top = -np.inf
            for c in range(k):
                value = beta * scores[row, columns[c]]
                weights[a, c] = value
                if value > top:
                    top = value
                    favourites[a] = c
            for c in range(k):
                weights[a, c] = math.exp(weights[a, c] - top)
        if is_tallied:
            total = permanent_and_marginals(weights, chances, forward, backward)
        else:
            fill_forward(weights, forward)
            total = forward[(1 << k) - 1]
        if not total > 0.0:
            # Every matching of the block underflows, whichever of them it is in: leave it.
            if is_tallied:
                for a in range(k):
                    tally[rows[first + a], columns[a]] += 1.0
            continue
        draw(weights, forward, favourites, uniforms, chosen, 0, 1)
        for a in range(k):
            row = rows[first + a]
            if is_tallied:
                for c in range(k):
                    tally[row, columns[c]] += chances[a, c]
            matching[row] = columns[chosen[0, a]]
            n_moved += chosen[0, a] != a
    return n_moved


@njit(cache=True, nogil=True)
def sequential_pass(scores, beta, matching, rows, block_size, rng, tally, is_tallied):
    """Propose new columns for random disjoint blocks of rows, row after row.

    Return the number of proposals accepted.
    """
    m = len(matching)
    shuffle(rows, rng)
    n_accepted = 0
    n_blocks = (m + block_size - 1) // block_size
    for b in range(n_blocks):
        first = b * m // n_blocks
        k = (b + 1) * m // n_blocks - first
        block = rows[first : first + k]
        old = np.empty(k, np.int64)
        for a in range(k):
            old[a] = matching[block[a]]
        new = np.empty(k, np.int64)
        forth = choose_in_turn(scores, beta, block, old, new, rng)
        if forth > -np.inf:  # else the rows came to a dead end
            back = chance_in_turn(scores, beta, block, new, old)
            gain = 0.0
            for a in range(k):
                gain += scores[block[a], new[a]] - scores[block[a], old[a]]
            ratio = beta * gain + back - forth
            if ratio >= 0.0 or uniform(rng) < math.exp(ratio):
                n_accepted += 1
                for a in range(k):
                    matching[block[a]] = new[a]
        if is_tallied:
            for a in range(k):
                tally[block[a], matching[block[a]]] += 1.0
    return n_accepted


@njit(cache=True, nogil=True)
def choose_in_turn(scores, beta, block, columns, chosen, rng):
    """Let rows choose in turn by softmax; fill `chosen`, return its log-probability.

    ``-inf`` if a row finds all the columns left forbidden.
    """
    k = len(block)
    left = columns.copy()
    weights = np.empty(k)
    log_chance = 0.0
    for a in range(k):
        row = block[a]
        n_left = k - a
        total = softmax_weights(scores, beta, row, left, n_left, weights)
        if not total > 0.0:
            return -np.inf
        target = uniform(rng) * total
        pick = -1
        for c in range(n_left):
            if weights[c] > 0.0:
                pick = c  # rounding may leave a rest: then the last possible column
                target -= weights[c]
                if target < 0.0:
                    break
        log_chance += math.log(weights[pick] / total)
        chosen[a] = left[pick]
        left[pick] = left[n_left - 1]
    return log_chance


@njit(cache=True, nogil=True)
def chance_in_turn(scores, beta, block, columns, chosen):
    """Return the log-probability that rows choosing in turn arrive at `chosen`."""
    k = len(block)
    left = columns.copy()
    weights = np.empty(k)
    log_chance = 0.0
    for a in range(k):
        n_left = k - a
        total = softmax_weights(scores, beta, block[a], left, n_left, weights)
        for c in range(n_left):
            if left[c] == chosen[a]:
                if not weights[c] > 0.0:
                    return -np.inf  # so unlikely that it underflows
                log_chance += math.log(weights[c] / total)
                left[c] = left[n_left - 1]
                break
    return log_chance


@njit(cache=True, nogil=True)
def softmax_weights(scores, beta, row, left, n_left, weights):
    """Fill `weights` with exp of the scores of the columns left; return their sum."""
    top = -np.inf
    for c in range(n_left):
        top = max(top, scores[row, left[c]])
    if top == -np.inf:
        return 0.0
    total = 0.0
    for c in range(n_left):
        weights[c] = math.exp(beta * (scores[row, left[c]] - top))
        total += weights[c]
    return total
