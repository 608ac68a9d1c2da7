"""The marginal likelihood of the grades of lists whose shift is not known.

Given the shift t of a list, its documents are independent,

    P(y_i = l | t)  =  exp( u_l (s_i + t) + a_l ) / Z_i(t),       t ~ N(m, sigma^2),

with levels u that rise from 0 to 1.  The log of the integrand over t,

    h(t) = sum_i log P(y_i | t)  -  (t - m)^2 / (2 sigma^2),

is concave; Newton's method within a bracket finds its mode T, and Gauss-Hermite nodes are
laid out around it, ``t_k = T + sqrt(2) x_k / sqrt(-h''(T))``.  With the weights of the
nodes in the integral, which are those of t given the grades, Fisher's identity gives all
derivatives:

    by a_l            E[ n_l - sum_i P(l | t) ]
    by m              E[ t - m ] / sigma^2
    by log sigma      E[ (t - m)^2 ] / sigma^2 - 1
    by log of a factor of all s     E[ sum_i (u_{y_i} - E u) s_i ]

Exponentials are taken once a document: those of the nodes are products.
"""

import math

import numpy as np
from numba import njit

# Newton steps that a mode takes at most; each at least halves what the bracket leaves.
_MOST_STEPS = 60
# Largest error of a mode, in standard deviations of t given the grades.
_CLOSE = 1e-7
# Products are folded into a log before they leave float64.
_LARGE, _SMALL = 1e150, 1e-150


@njit(cache=True, nogil=True, error_model="numpy")
def slope_at(scores, codes, levels, offsets, mean, sigma, t):
    """Return the first derivative of h at t, and minus the second."""
    n_levels = levels.shape[0]
    slope, curvature = 0.0, 0.0
    chances = np.empty(n_levels)
    for i in range(scores.shape[0]):
        largest = -np.inf
        for k in range(n_levels):
            chances[k] = levels[k] * (scores[i] + t) + offsets[k]
            largest = max(largest, chances[k])
        total, first, second = 0.0, 0.0, 0.0
        for k in range(n_levels):
            weight = math.exp(chances[k] - largest)
            total += weight
            first += weight * levels[k]
            second += weight * levels[k] * levels[k]
        first /= total
        slope += levels[codes[i]] - first
        curvature += max(0.0, second / total - first * first)
    slope -= (t - mean) / (sigma * sigma)
    return slope, curvature + 1.0 / (sigma * sigma)


@njit(cache=True, nogil=True, error_model="numpy")
def find_mode(scores, codes, levels, offsets, mean, sigma, start):
    """Return the mode of h and minus its second derivative there."""
    # The slope of the grades is within their number, so that of h is 0 within.
    reach = sigma * sigma * scores.shape[0] + sigma
    low, high = mean - reach, mean + reach
    t = min(max(start, low), high)
    curvature = 1.0
    for _ in range(_MOST_STEPS):
        slope, curvature = slope_at(scores, codes, levels, offsets, mean, sigma, t)
        if slope > 0.0:
            low = t
        else:
            high = t
        step = slope / curvature
        if abs(step) * math.sqrt(curvature) < _CLOSE:
            break
        t += step
        if not low < t < high:
            t = 0.5 * (low + high)
    return t, curvature


@njit(cache=True, nogil=True, error_model="numpy")
def integrate_list(
    scores, codes, levels, offsets, mean, sigma, t, curvature, nodes, log_weights, grads
):
    """Return the log of the marginal likelihood; fill its derivatives.

    `nodes` and `log_weights` are those of Gauss-Hermite, the latter with the square of the
    node added; `grads` are by all offsets but the first, m, log sigma, and a factor of s.
    """
    n_levels, n_nodes = levels.shape[0], nodes.shape[0]
    width = math.sqrt(2.0 / curvature)
    tilts = np.empty((n_nodes, n_levels))
    for j in range(n_nodes):
        for k in range(n_levels):
            tilts[j, k] = math.exp(levels[k] * width * nodes[j])
    logs, products = np.zeros(n_nodes), np.ones(n_nodes)
    sums, steep = np.zeros((n_nodes, n_levels)), np.zeros(n_nodes)
    base, weights = np.empty(n_levels), np.empty(n_levels)
    observed, level_sum = 0.0, 0.0
    for i in range(scores.shape[0]):
        largest = -np.inf
        for k in range(n_levels):
            base[k] = levels[k] * (scores[i] + t) + offsets[k]
            largest = max(largest, base[k])
        observed += base[codes[i]] - largest
        level_sum += levels[codes[i]]
        for k in range(n_levels):
            base[k] = math.exp(base[k] - largest)
        for j in range(n_nodes):
            total, mean_level = 0.0, 0.0
            for k in range(n_levels):
                weights[k] = base[k] * tilts[j, k]
                total += weights[k]
            share = 1.0 / total
            for k in range(1, n_levels):
                weights[k] *= share
                sums[j, k] += weights[k]
                mean_level += weights[k] * levels[k]
            steep[j] += scores[i] * (levels[codes[i]] - mean_level)
            products[j] *= total
            if not _SMALL < products[j] < _LARGE:
                logs[j] += math.log(products[j])
                products[j] = 1.0
    largest = -np.inf
    for j in range(n_nodes):
        away = t + width * nodes[j] - mean
        logs[j] = (
            log_weights[j]
            + observed
            + level_sum * width * nodes[j]
            - logs[j]
            - math.log(products[j])
            - 0.5 * (away / sigma) ** 2
        )
        largest = max(largest, logs[j])
    total = 0.0
    for j in range(n_nodes):
        logs[j] = math.exp(logs[j] - largest)
        total += logs[j]
    grads[:] = 0.0
    for k in range(1, n_levels):
        for i in range(scores.shape[0]):
            grads[k - 1] += codes[i] == k
    for j in range(n_nodes):
        chance = logs[j] / total
        away = t + width * nodes[j] - mean
        for k in range(1, n_levels):
            grads[k - 1] -= chance * sums[j, k]
        grads[n_levels - 1] += chance * away / (sigma * sigma)
        grads[n_levels] += chance * ((away / sigma) ** 2 - 1.0)
        grads[n_levels + 1] += chance * steep[j]
    return largest + math.log(total) + math.log(width / (sigma * math.sqrt(2.0 * math.pi)))


@njit(cache=True, nogil=True, error_model="numpy")
def integrate_lists(
    starts,
    scores,
    codes,
    levels,
    offsets,
    means,
    sigma,
    nodes,
    log_weights,
    first,
    last,
    modes,
    values,
    grads,
):
    """Fill log-likelihoods (q,) and derivatives (q, R + 2) of lists `first` to `last` - 1.

    `modes` (q,) hold where the search for the mode of every list begins, and its end.
    """
    for q in range(first, last):
        begin, end = starts[q], starts[q + 1]
        own, kinds = scores[begin:end], codes[begin:end]
        modes[q], curvature = find_mode(
            own, kinds, levels, offsets, means[q], sigma, modes[q]
        )
        values[q] = integrate_list(
            own,
            kinds,
            levels,
            offsets,
            means[q],
            sigma,
            modes[q],
            curvature,
            nodes,
            log_weights,
            grads[q],
        )
