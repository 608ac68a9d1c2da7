"""Directional derivatives of the marginals of components, on logarithms.

Where the floats of `frontier_tangents` lose states that count, tables hold the log of a
total weight, and in place of its derivative the mean of the directions over what has that
weight: a ratio of derivative and value, which leaves no float's range.  Sums of weights
become weighted means.  With F the mean over what leads to a state and B that over what may
follow, the derivative of a marginal is

    sum over all ways through the edge of  p(way) ( F + direction of the edge + B - mean ).

See `frontier_logs` for the states.  As slow as that.
"""

import math

import numpy as np
from numba import njit

from permatch.kernels.frontier_logs import add_logs, close_nodes
from permatch.kernels.frontier_plan import BEFORE, CLOSE, LINK, NODE, OPEN


@njit(cache=True, nogil=True)
def _add_closed(steps, closes, other_dirs, t, x, direction):
    """Add the directions of the nodes that step t closes without a partner."""
    width = steps[t, OPEN]
    for k in range(steps[t, CLOSE], steps[t + 1, CLOSE]):
        width -= 1
        bit = closes[k, 0]
        if not x >> bit & 1:
            direction += other_dirs[closes[k, 1]]
        x &= ~(1 << bit)
        if x >> width & 1:
            x ^= 1 << width | 1 << bit


@njit(cache=True, nogil=True)
def _option(steps, links, closes, other_free, other_dirs, t, base, stay, weights, stay_dirs,
            taken, x, k, direction):  # fmt: skip
    """Return the score of option k of state x, and the state after it; -1 if it is none.

    Option 0 stays unmatched.  `direction` receives its directions.
    """
    score, z = stay, x
    if k == 0:
        direction[:] = stay_dirs
    else:
        at = steps[t, LINK] + k - 1
        bit = links[at, 1]
        score = weights[at - base]
        if bit >= 0 and x >> bit & 1:
            return -np.inf, -1
        if bit >= 0:
            z |= 1 << bit
        direction[:] = taken[at - base]
    y, closed = close_nodes(steps, closes, other_free, t, z)
    if score + closed == -np.inf:
        return -np.inf, -1
    _add_closed(steps, closes, other_dirs, t, z, direction)
    return score + closed, y


@njit(cache=True, nogil=True)
def fill_means(
    steps, links, closes, other_free, other_dirs, start, stays, weights, stay_dirs, taken,
    places, tables, means, first, last,
):  # fmt: skip
    """Fill the means over what may follow, for steps ``first .. last - 1`` from the end."""
    n_steps, base = len(stays), steps[start, LINK]
    direction = np.empty(means.shape[1])
    for n_taken in range(n_steps - 1 - first, n_steps - 1 - last, -1):
        t = start + n_taken
        for x in range(1 << steps[t, BEFORE]):
            here = places[n_taken] + x
            means[here] = 0.0
            if tables[here] == -np.inf:
                continue
            for k in range(steps[t + 1, LINK] - steps[t, LINK] + 1):
                score, y = _option(steps, links, closes, other_free, other_dirs, t, base,
                    stays[n_taken], weights, stay_dirs[n_taken], taken, x, k, direction,
                )  # fmt: skip
                if y < 0:
                    continue
                if n_taken + 1 < n_steps:
                    score += tables[places[n_taken + 1] + y]
                    direction += means[places[n_taken + 1] + y]
                if score > -np.inf:
                    means[here] += math.exp(score - tables[here]) * direction


@njit(cache=True, nogil=True)
def sweep_means(
    steps, links, closes, other_free, other_dirs, start, stays, weights, stay_dirs, taken,
    places, tables, means, buffers, buffer_means, edges_out, own_out, other_out, first,
    last,
):  # fmt: skip
    """Take nodes ``first .. last - 1`` of a walk and fill the derivatives.

    `buffers` are the tables of the way there, of even steps and odd ones.
    """
    n_steps, base = len(stays), steps[start, LINK]
    direction = np.empty(means.shape[1])
    if first == 0:
        buffers[0, 0] = 0.0
        buffer_means[0, 0] = 0.0
    for n_taken in range(first, last):
        t = start + n_taken
        old, new = buffers[n_taken % 2], buffers[(n_taken + 1) % 2]
        old_means, new_means = buffer_means[n_taken % 2], buffer_means[(n_taken + 1) % 2]
        new[:] = -np.inf
        new_means[:] = 0.0
        own_out[steps[t, NODE]] = 0.0
        for k in range(steps[t + 1, LINK] - steps[t, LINK] + 1):
            at = steps[t, LINK] + k - 1
            if k > 0:
                edges_out[links[at, 0]] = 0.0
            for x in range(1 << steps[t, BEFORE]):
                if old[x] == -np.inf:
                    continue
                score, y = _option(steps, links, closes, other_free, other_dirs, t, base,
                    stays[n_taken], weights, stay_dirs[n_taken], taken, x, k, direction,
                )  # fmt: skip
                if y < 0:
                    continue
                direction += old_means[x]
                mass = old[x] + score
                new[y] = add_logs(new[y], mass)
                new_means[y] += math.exp(mass - new[y]) * (direction - new_means[y])
                direction -= means[0]
                if n_taken + 1 < n_steps:
                    mass += tables[places[n_taken + 1] + y]
                    direction += means[places[n_taken + 1] + y]
                if mass == -np.inf:
                    continue
                direction *= math.exp(min(mass - tables[0], 0.0))
                if k == 0:
                    own_out[steps[t, NODE]] += direction
                else:
                    edges_out[links[at, 0]] += direction
                    other_out[links[at, 2]] -= direction
