"""Covariance of the position weights of the documents of small lists.

The model and the weights ``exp(r_ij)`` are those of `subsets`.  Documents are placed in the
order of their scores.  A state is the set of positions used, held as a bit mask, so the
number of bits set is also the next document.  With mu_i the expected c of document i,

    forward[used]    weight of placing the first |used| documents on `used`
    backward[used]   weight of placing the others on the other positions
    leaving[used]    sum_j w_ij (c_j - mu_i) backward[used + j],     i = |used|
    tagged[used]     forward of one document k, each path times (c_j - mu_k),

    cov(c of k, c of i) = sum over |used| = i of tagged[used] leaving[used] / permanent

for k < i.  Nothing cancels but what has to.  O(M^2 2^M) time and 2^M memory a list.
"""

import math

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def fill_weights(ordered, c, weights):
    """Fill exp(r_ij) from scores in decreasing order."""
    m = len(c)
    for i in range(m):
        weights[i, i] = 1.0
        total = 0.0
        for j in range(i + 1, m):
            middle = 0.5 * (ordered[j - 1] + ordered[j])
            total -= (c[j - 1] - c[j]) * (ordered[i] - middle)
            weights[i, j] = math.exp(total)
        total = 0.0
        for j in range(i - 1, -1, -1):
            middle = 0.5 * (ordered[j + 1] + ordered[j])
            total -= (c[j] - c[j + 1]) * (middle - ordered[i])
            weights[i, j] = math.exp(total)


@njit(cache=True, nogil=True)
def fill_ways(weights, n_used, forward, backward):
    """Fill the tables of placements before and after every state."""
    m = weights.shape[0]
    full = (1 << m) - 1
    forward[:] = 0.0
    backward[:] = 0.0
    forward[0] = 1.0
    backward[full] = 1.0
    for used in range(full):
        row = n_used[used]
        for j in range(m):
            if not used >> j & 1:
                forward[used | 1 << j] += forward[used] * weights[row, j]
    for used in range(full - 1, -1, -1):
        row = n_used[used]
        for j in range(m):
            if not used >> j & 1:
                backward[used] += weights[row, j] * backward[used | 1 << j]


@njit(cache=True, nogil=True, error_model="numpy")
def fill_means(weights, c, n_used, forward, backward, means, variances):
    """Fill mean and variance of the position weight of every document."""
    m = len(c)
    full = (1 << m) - 1
    chances = np.zeros((m, m))
    for used in range(full):
        row = n_used[used]
        for j in range(m):
            if not used >> j & 1:
                flow = weights[row, j] * backward[used | 1 << j]
                chances[row, j] += forward[used] * flow
    for i in range(m):
        means[i] = 0.0
        variances[i] = 0.0
        for j in range(m):
            chances[i, j] /= forward[full]
            means[i] += chances[i, j] * c[j]
        for j in range(m):
            variances[i] += chances[i, j] * (c[j] - means[i]) ** 2


@njit(cache=True, nogil=True)
def fill_leaving(weights, c, means, n_used, backward, leaving):
    """Fill the weighted ways on from every state."""
    for used in range(len(leaving) - 1):
        row = n_used[used]
        leaving[used] = 0.0
        for j in range(len(c)):
            if not used >> j & 1:
                away = c[j] - means[row]
                leaving[used] += weights[row, j] * away * backward[used | 1 << j]


@njit(cache=True, nogil=True)
def fill_tagged(weights, c, mean, k, n_used, forward, tagged):
    """Fill the ways to every state that has placed document k."""
    tagged[:] = 0.0
    for used in range(len(tagged) - 1):
        row = n_used[used]
        if row < k:
            continue
        for j in range(len(c)):
            if not used >> j & 1:
                step = forward[used] * (c[j] - mean) if row == k else tagged[used]
                tagged[used | 1 << j] += step * weights[row, j]


@njit(cache=True, nogil=True, error_model="numpy")
def fill_covariances(scores, rows, c, covariances):
    """Fill the covariances (n, m, m) of the lists of documents `rows` (n, m)."""
    m = len(c)
    n_states = 1 << m
    n_used = np.zeros(n_states, np.int64)
    for used in range(1, n_states):
        n_used[used] = n_used[used >> 1] + (used & 1)
    weights = np.empty((m, m))
    forward, backward = np.empty(n_states), np.empty(n_states)
    leaving, tagged = np.zeros(n_states), np.empty(n_states)
    means, variances = np.empty(m), np.empty(m)
    for n in range(len(rows)):
        own = scores[rows[n]] - scores[rows[n, 0]]
        order = np.argsort(-own, kind="mergesort")
        fill_weights(own[order], c, weights)
        fill_ways(weights, n_used, forward, backward)
        fill_means(weights, c, n_used, forward, backward, means, variances)
        fill_leaving(weights, c, means, n_used, backward, leaving)
        for k in range(m):
            covariances[n, order[k], order[k]] = variances[k]
            if k == m - 1:
                continue
            fill_tagged(weights, c, means[k], k, n_used, forward, tagged)
            sums = np.zeros(m)
            for used in range(n_states - 1):
                if n_used[used] > k:
                    sums[n_used[used]] += tagged[used] * leaving[used]
            for i in range(k + 1, m):
                together = sums[i] / forward[n_states - 1]
                covariances[n, order[k], order[i]] = together
                covariances[n, order[i], order[k]] = together
