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

from permatch.kernels.bounds import EXTENDED, EXTENDED_TIGHT, fill_steps

_E = math.e


def extended_steps(n, is_tight=True):
    """Return the factors ``(g_k - g_k-1) / e`` of a sorted row, k = 1 .. n."""
    steps = np.empty(n)
    fill_steps(EXTENDED_TIGHT if is_tight else EXTENDED, steps)
    return steps


def huber_law_nodes(n):
    """Return the tight ``h`` at 0, 1, .., n + 1."""
    return np.concatenate([[1.0 / _E], np.cumsum(extended_steps(n + 1))])


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
