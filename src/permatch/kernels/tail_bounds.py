"""Bounds on permanents that nest: a product over rows of a bound on each row.

A bound nests if fixing a column never raises it: with U(A) the bound of a matrix and A / ic
what is left without row i and column c,

    sum_i A[i, c] U(A / ic)  <=  U(A)     for every column c.                         (P1)

Then the children of a node can be chosen with probability bound(child) / bound(node), and
what is missing to one rejects.  All bounds here have the form U = prod_i f_i, where f_i
sees the entries of row i over the columns that are left; columns leave in the order 0, 1,
..., so the tables hold ``bounds[i, c]``, the bound of row i over columns c, c + 1, ... .

Huber and Law: entries in [0, 1], f = h(sum of the row), with

    published   e h(r) = 1 + (e - 1) r for r <= 1,  r + log(r) / 2 + e - 1 for r >= 1
    tight       e h(k) = g_k at whole k, linear between: g_0 = 1, g_k+1 = g_k exp(1 / g_k)

Extended (rows sorted, largest first): f = sum_k (g_k - g_k-1) a_(k) / e with g_0 = 0, g_1 =
e and then either the published g_k+1 = g_k + 1 + .5 / g_k + .6 / g_k^2 or the tight
recursion above.  It is homogeneous in every row, so it wants no scaling of rows.

Why they nest: with g = e h and x_i = A[i, c] / g(r_i - A[i, c]), the left side of (P1) is
prod_k h(r_k - A[k, c]) times e sum_i x_i <= exp(sum_i x_i), and g(s + a) >= g(s) exp(a /
g(s)) for a in [0, 1] closes it.  The extended bound is linear on chains of 0/1 rows, where
the same argument holds at whole numbers.
"""

import math

import numpy as np
from numba import njit

_E = math.e


def growth(n, is_tight=True):
    """Return g_1 .. g_n of the extended bound, both of whose recursions begin at e."""
    values = np.empty(n)
    value = _E
    for k in range(n):
        values[k] = value
        if is_tight:
            value *= math.exp(1.0 / value)
        else:
            value += 1.0 + 0.5 / value + 0.6 / value**2
    return values


def extended_steps(n, is_tight=True):
    """Return the factors ``(g_k - g_k-1) / e`` of a sorted row, k = 1 .. n."""
    return np.diff(growth(n, is_tight), prepend=0.0) / _E


def huber_law_nodes(n):
    """Return the tight ``h`` at 0, 1, .., n + 1."""
    return np.concatenate([[1.0 / _E], growth(n + 1) / _E])


@njit(cache=True, nogil=True)
def fill_extended(weights, steps, bounds):
    """Fill ``bounds[i, c]`` (n, n_cols + 1) with the extended bound, 0 past the end."""
    n, n_cols = weights.shape
    ordered = np.empty(n_cols)
    for i in range(n):
        bounds[i, n_cols] = 0.0
        for c in range(n_cols - 1, -1, -1):
            # Insert the column that comes back into the sorted entries after it.
            new = weights[i, c]
            place = n_cols - 1 - c
            while place > 0 and ordered[place - 1] < new:
                ordered[place] = ordered[place - 1]
                place -= 1
            ordered[place] = new
            total = 0.0
            for k in range(n_cols - c):
                total += steps[k] * ordered[k]
            bounds[i, c] = total


@njit(cache=True, nogil=True)
def huber_law_factor(total, nodes):
    """Return ``h`` of a row sum: the published one if `nodes` is empty, else the tight."""
    if len(nodes) == 0:
        if total <= 1.0:
            return (1.0 + (_E - 1.0) * total) / _E
        return (total + 0.5 * math.log(total) + _E - 1.0) / _E
    k = min(int(total), len(nodes) - 2)
    return nodes[k] + (total - k) * (nodes[k + 1] - nodes[k])


@njit(cache=True, nogil=True)
def fill_huber_law(weights, nodes, bounds):
    """Fill ``bounds[i, c]`` with Huber and Law's bound; entries must be in [0, 1]."""
    n, n_cols = weights.shape
    for i in range(n):
        total = 0.0
        bounds[i, n_cols] = huber_law_factor(0.0, nodes)
        for c in range(n_cols - 1, -1, -1):
            total += weights[i, c]
            bounds[i, c] = huber_law_factor(total, nodes)


@njit(cache=True, nogil=True)
def sharpen(weights, steps, n_sweeps):
    """Scale columns in place so that the extended bound of the whole matrix is smaller.

    The log of the bound, less the logs of the column scales, is convex in these logs; its
    slope is the share of each column in the bounds minus one.  Return the log of what was
    divided out.
    """
    n = weights.shape[0]
    log_scale = np.zeros(n)
    best_scale = np.zeros(n)
    best = np.inf
    shares = np.empty(n)
    scaled = np.empty(n)
    orders = np.empty((n, n), np.int64)
    for i in range(n):
        for j in range(n):
            orders[i, j] = j
    for sweep in range(n_sweeps):
        shares[:] = 0.0
        value = 0.0
        for j in range(n):
            value -= log_scale[j]
        for i in range(n):
            for j in range(n):
                scaled[j] = weights[i, j] * math.exp(log_scale[j])
            order = orders[i]
            for k in range(1, n):  # all but sorted by the sweep before
                col = order[k]
                place = k
                while place > 0 and scaled[order[place - 1]] < scaled[col]:
                    order[place] = order[place - 1]
                    place -= 1
                order[place] = col
            bound = 0.0
            for k in range(n):
                bound += steps[k] * scaled[order[k]]
            for k in range(n):
                shares[order[k]] += steps[k] * scaled[order[k]] / bound
            value += math.log(bound)
        if value < best:
            best = value
            best_scale[:] = log_scale
        speed = 0.7 / (1.0 + 0.05 * sweep)
        for j in range(n):
            log_scale[j] -= speed * math.log(shares[j])
    offset = 0.0
    for j in range(n):
        offset -= best_scale[j]
        factor = math.exp(best_scale[j])
        for i in range(n):
            weights[i, j] *= factor
    return offset
