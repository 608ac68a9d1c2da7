"""Particle filters over matchings whose nodes may stay unmatched, on edges.

Left nodes choose in turn among the right nodes that are free, or none.  With messages l as
in belief propagation (`kernels.bethe_edges`) and

    rest[e] = b[j] + sum of w l over the edges of j to left nodes whose turn is later
    q[e] = w[e] / rest[e],        d[e] = rest[e] / (rest[e] + w[e] l[e]),

node i chooses e with probability q[e] / t, none with a[i] / t, t = a[i] + sum of q over
free right nodes, and the weight of the draw is multiplied by

    t * product of d over the free right nodes of i, the chosen one among them,

whatever it chooses.  A right node that must be matched, and has no later chance, is chosen;
the factor is then w / (w l) times the d of the others.  Begun with the product of b[j] plus
all w l of j, the weight ends as that of the matching divided by its probability: E weight =
Z, whatever the messages.  Where they are right, on trees, it does not vary; elsewhere
rest[e] is what is expected of the other nodes, so that it varies little on the
way.  Particles are drawn anew, in proportion to their weights, when these have come to vary
much; the mean weights until then multiply up.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from permatch._types import FloatArray, IntArray
from permatch.kernels.intrinsics import uniform

# Marks, in place of d = 0, the last chance of a right node that must be matched.
_LAST_CHANCE = 0.0
# Products of factors are turned into logarithms before they leave this range.
_SMALLEST = 1e-100
_LARGEST = 1e100
# Left nodes between two looks at the weights, and the effective share of particles below
# which they are drawn anew.
_PATIENCE = 4
_FEWEST = 0.5


class FilterPlan(NamedTuple):
    """What filters need: see the module docstring.

    Graph c has the left nodes ``order[left_starts[c]:left_starts[c + 1]]``, in this order.
    `begin` (n_graphs,): logarithms of the weights at the beginning.
    """

    starts: IntArray
    right: IntArray
    left_starts: IntArray
    right_starts: IntArray
    order: IntArray
    free_left: FloatArray
    q: FloatArray
    d: FloatArray
    begin: FloatArray


@njit(cache=True, nogil=True)
def fill_order(starts, right, right_edge_starts, right_edges, left, order):
    """Fill left nodes in breadth-first order, component after component."""
    is_met = np.zeros(len(order), np.bool_)
    is_done = np.zeros(len(right_edge_starts) - 1, np.bool_)
    n_met = 0
    at = 0
    for root in range(len(order)):
        if is_met[root]:
            continue
        is_met[root] = True
        order[n_met] = root
        n_met += 1
        while at < n_met:
            i = order[at]
            at += 1
            for e in range(starts[i], starts[i + 1]):
                j = right[e]
                if is_done[j]:
                    continue
                is_done[j] = True
                for k in range(right_edge_starts[j], right_edge_starts[j + 1]):
                    other = left[right_edges[k]]
                    if not is_met[other]:
                        is_met[other] = True
                        order[n_met] = other
                        n_met += 1


@njit(cache=True, nogil=True)
def fill_tables(starts, right, order, weights, messages, free_right, q, d, sums):
    """Fill q and d of every edge, and `sums`: b[j] plus all w l of j."""
    sums[:] = free_right
    for at in range(len(order) - 1, -1, -1):
        i = order[at]
        for e in range(starts[i], starts[i + 1]):
            rest = sums[right[e]]
            flow = weights[e] * messages[e]
            if rest > 0.0:
                q[e] = weights[e] / rest
                d[e] = rest / (rest + flow)
            elif flow > 0.0:
                q[e] = weights[e] / flow
                d[e] = _LAST_CHANCE
            else:
                q[e] = 0.0
                d[e] = 1.0
            sums[right[e]] += flow


@njit(cache=True, nogil=True)
def run_filters(plan, n_particles, streams, graphs, log_means, effective, beliefs):
    """Run one filter in each of some graphs.

    Filled: the logarithm of the mean weight, the effective number of particles at the end
    (both (n_graphs,)), and the share of every edge (n_edges,).
    """
    for c in graphs:
        _run_filter(plan, n_particles[c], streams[c], c, log_means, effective, beliefs)


@njit(cache=True, nogil=True)
def _run_filter(plan, n_particles, rng, c, log_means, effective, beliefs):
    first, last = plan.left_starts[c], plan.left_starts[c + 1]
    shift = plan.right_starts[c]
    is_free = np.ones((n_particles, plan.right_starts[c + 1] - shift), np.bool_)
    chosen = np.empty((n_particles, last - first), np.int32)
    products = np.ones(n_particles)
    logs = np.zeros(n_particles)
    weights = np.empty(n_particles)
    total = plan.begin[c]
    for at in range(first, last):
        i = plan.order[at]
        for p in range(n_particles):
            factor, lost, e = _choose(plan, i, is_free[p], shift, rng)
            logs[p] += lost
            product = products[p] * factor
            if not _SMALLEST < product < _LARGEST:
                logs[p] += math.log(product) if product > 0.0 else -np.inf
                product = 1.0
            products[p] = product
            chosen[p, at - first] = e
        if (at - first) % _PATIENCE == _PATIENCE - 1 and at + 1 < last:
            top, mean, n_left = _weigh(products, logs, weights)
            if mean == 0.0:
                break
            if n_left < _FEWEST * n_particles:
                total += top + math.log(mean)
                _draw_anew(weights, mean, rng, is_free, chosen, at + 1 - first)
                products[:] = 1.0
                logs[:] = 0.0
    top, mean, n_left = _weigh(products, logs, weights)
    effective[c] = n_left
    if mean == 0.0:
        log_means[c] = -np.inf
        return
    log_means[c] = total + top + math.log(mean)
    for p in range(n_particles):
        share = weights[p] / (mean * n_particles)
        for at in range(last - first):
            if chosen[p, at] >= 0:
                beliefs[chosen[p, at]] += share


@njit(cache=True, nogil=True)
def _choose(plan, i, is_free, shift, rng):
    """Let a left node choose.

    Return the factor of the weight, a logarithm to add to it, and the edge, -1 for none.
    """
    first, last = plan.starts[i], plan.starts[i + 1]
    total = plan.free_left[i]
    factor = 1.0
    lost = 0.0
    forced = -1
    for e in range(first, last):
        if is_free[plan.right[e] - shift]:
            if plan.d[e] == _LAST_CHANCE:
                if forced >= 0:
                    return 0.0, 0.0, -1
                forced = e
                continue
            total += plan.q[e]
            factor *= plan.d[e]
            if factor < _SMALLEST:
                lost += math.log(factor)
                factor = 1.0
    if forced >= 0:
        is_free[plan.right[forced] - shift] = False
        return plan.q[forced] * factor, lost, forced
    if not total > 0.0:
        return 0.0, 0.0, -1
    target = uniform(rng) * total - plan.free_left[i]
    found = -1
    if target >= 0.0:
        for e in range(first, last):
            if is_free[plan.right[e] - shift] and plan.q[e] > 0.0:
                found = e
                target -= plan.q[e]
                if target < 0.0:
                    break
    if found >= 0:
        is_free[plan.right[found] - shift] = False
    return total * factor, lost, found


@njit(cache=True, nogil=True)
def _weigh(products, logs, weights):
    """Fill weights relative to the largest; return its log, their mean, their number."""
    top = -np.inf
    for p in range(len(weights)):
        weights[p] = logs[p] + math.log(products[p])
        top = max(top, weights[p])
    if top == -np.inf:
        return top, 0.0, 0.0
    total = 0.0
    squares = 0.0
    for p in range(len(weights)):
        weights[p] = math.exp(weights[p] - top)
        total += weights[p]
        squares += weights[p] * weights[p]
    return top, total / len(weights), total * total / squares


@njit(cache=True, nogil=True)
def _draw_anew(weights, mean, rng, is_free, chosen, n_done):
    """Replace particles by copies of others in proportion to weights, evenly spaced."""
    n = len(weights)
    counts = np.zeros(n, np.int64)
    reached = 0.0
    target = uniform(rng)
    for p in range(n):
        reached += weights[p] / mean
        while target < reached:
            counts[p] += 1
            target += 1.0
    missing = n - counts.sum()  # rounding
    counts[np.argmax(weights)] += missing
    source = 0
    for p in range(n):
        if counts[p] > 0:
            continue
        while counts[source] < 2:
            source += 1
        counts[source] -= 1
        counts[p] = 1
        is_free[p] = is_free[source]
        chosen[p, :n_done] = chosen[source, :n_done]
