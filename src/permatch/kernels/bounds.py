"""Upper bounds on the permanent: products over rows.

For non-negative weights, a row sorted so that ``a[0] >= a[1] >= ...``, and steps c:

    permanent <= prod_i  f(row i),      f(a) = sum_k c[k] a[k]

Soules        ``c[k] = g(k+1) - g(k)``, ``g(k) = (k!)^(1/k)``, ``g(0) = 0``: the sharpest
extended      ``c[k] = (g(k+1) - g(k)) / e``, ``g(0) = 0``, ``g(1) = e``, and either
Huber         ``g(k+1) = g(k) + 1 + 0.5/g(k) + 0.6/g(k)^2`` (published) or
              ``g(k+1) = g(k) exp(1/g(k))`` (tight: the least for which the proof holds)
Huber-Law     ``permanent <= prod_i h(sum of row i)`` for entries of at most 1, with
              ``e h(r) = 1 + (e-1) r`` below 1 and ``r + ln(r)/2 + e - 1`` above, or with
              ``e h`` linear between ``g(0) = 1, g(k+1) = g(k) exp(1/g(k))`` (tight)

Scaling columns by x leaves ``log bound - sum log x`` a bound.  If made of steps, that is
convex in ``log x``, with gradient "column sum of the shares of the rows, less one", a
share being the part of f(row) that an entry makes up.  `sharpen` therefore repeats
``log x -= eta log(column sum of shares)``: Sinkhorn's sweep when all steps are one.

A bound nests if fixing a column never raises it: with U(A) the bound of a matrix and A / ic
what is left without row i and column c,

    sum_i A[i, c] U(A / ic)  <=  U(A)     for every column c.                         (P1)

Then the children of a node can be chosen with probability bound(child) / bound(node), and
what is missing to one rejects.  Columns leave in the order 0, 1, ..., so the tables hold
``bounds[i, c]``, the bound of row i over columns c, c + 1, ... .  Huber and Law's bound and
the extended one nest; the latter is homogeneous in every row, so it wants no scaling of
rows.  Why they nest: with g = e h and x_i = A[i, c] / g(r_i - A[i, c]), the left side of
(P1) is prod_k h(r_k - A[k, c]) times e sum_i x_i <= exp(sum_i x_i), and g(s + a) >= g(s)
exp(a / g(s)) for a in [0, 1] closes it.  The extended bound is linear on chains of 0/1
rows, where the same argument holds at whole numbers.

References
----------
G. W. Soules, "New permanental upper bounds for nonnegative matrices", Linear and
Multilinear Algebra 51 (2003).
M. Huber and J. Law, "Fast approximation of the permanent for very dense problems", SODA
(2008).
J. Harviainen, A. Röyskö and M. Koivisto, "Approximating the permanent with deep rejection
sampling", NeurIPS (2021).
"""

import math

import numpy as np
from numba import njit

#: Codes of the bounds, in the order of `permatch.inference.bounds.METHODS`.
SOULES, EXTENDED, EXTENDED_TIGHT, HUBER_LAW, HUBER_LAW_TIGHT = range(5)
_E = math.e


@njit(cache=True, nogil=True)
def fill_steps(code, steps):
    """Fill `steps` (m,) with the c[k] of a bound made of steps."""
    growth = 0.0
    for k in range(len(steps)):
        if code == SOULES:
            following = math.exp(math.lgamma(k + 2.0) / (k + 1.0))
        elif k == 0:
            following = math.e
        elif code == EXTENDED:
            following = growth + 1.0 + 0.5 / growth + 0.6 / (growth * growth)
        else:
            following = growth * math.exp(1.0 / growth)
        steps[k] = following - growth
        if code != SOULES:
            steps[k] /= math.e
        growth = following


@njit(cache=True, nogil=True)
def log_huber_law(weights, is_tight):
    """Return the logarithm of Huber and Law's bound, rows scaled to a largest entry of 1.

    A row of zeros gives ``-inf``.
    """
    m = weights.shape[0]
    growth = np.empty(m + 2)
    growth[0] = 1.0
    for k in range(m + 1):
        growth[k + 1] = growth[k] * math.exp(1.0 / growth[k])
    total = 0.0
    for i in range(m):
        top = 0.0
        row_sum = 0.0
        for j in range(m):
            top = max(top, weights[i, j])
            row_sum += weights[i, j]
        if top == 0.0:
            return -np.inf
        r = row_sum / top
        if is_tight:
            k = min(int(r), m)
            value = growth[k] + (r - k) * (growth[k + 1] - growth[k])
        elif r <= 1.0:
            value = 1.0 + (math.e - 1.0) * r
        else:
            value = r + 0.5 * math.log(r) + math.e - 1.0
        total += math.log(top) + math.log(value) - 1.0
    return total


# `sharpen` stops after so many sweeps that change the bound by less than so much a row.
_PATIENCE = 2
_LEAST_CHANGE = 1e-9


@njit(cache=True, nogil=True)
def first_gap(row, order):
    """Return the gap to begin `rank_entries` with, by how far `order` is out of order.

    Ties that rounding breaks anew put every entry out of place, and to sort by insertion
    from there would take O(m^2).
    """
    n_falls = 0
    for k in range(1, len(row)):
        if row[order[k - 1]] < row[order[k]]:
            n_falls += 1
    return 701 if 16 * n_falls > len(row) else 1


@njit(cache=True, nogil=True)
def rank_entries(row, order, gap):
    """Sort `order`, indices of `row`, by decreasing entry: Shell's sort.

    Begin with ``gap=1`` where little has changed since the last time, with 701 otherwise.
    """
    m = len(row)
    while gap > 0:
        for k in range(gap, m):
            col = order[k]
            entry = row[col]
            place = k
            while place >= gap and row[order[place - gap]] < entry:
                order[place] = order[place - gap]
                place -= gap
            order[place] = col
        gap = gap * 4 // 9 if gap > 4 else gap // 2


@njit(cache=True, nogil=True)
def sharpen(weights, steps, n_sweeps):
    """Return the smallest logarithm of a bound made of steps that sweeps over columns find.

    No sweeps: the bound as it is.  The weights are scaled in place.  It ends early where
    sweeps change nothing any more.
    """
    m = weights.shape[0]
    order = np.empty((m, m), np.int64)
    order[:] = np.arange(m)
    shares = np.empty(m)
    factors = np.ones(m)
    shifted = 0.0  # sum of log x
    best = np.inf
    last = np.inf
    n_idle = 0
    for sweep in range(n_sweeps + 1):
        value = _share_out(weights, steps, factors, order, shares, sweep == 0, -shifted)
        if value == -np.inf:
            return value
        best = min(best, value)
        n_idle = n_idle + 1 if abs(value - last) <= _LEAST_CHANGE * m else 0
        last = value
        if n_idle >= _PATIENCE:
            break
        shifted = _next_factors(shares, 0.7 / (1.0 + 0.05 * sweep), factors, shifted)
    return best


@njit(cache=True, nogil=True)
def _share_out(weights, steps, factors, order, shares, is_first, value):
    """Scale columns by `factors`, fill `shares`; return `value` plus the log of the bound.

    A row of zeros gives ``-inf``.
    """
    m = weights.shape[0]
    shares[:] = 0.0
    for i in range(m):
        for j in range(m):
            weights[i, j] *= factors[j]
        gap = 701 if is_first else first_gap(weights[i], order[i])
        rank_entries(weights[i], order[i], gap)
        f = 0.0
        for k in range(m):
            f += steps[k] * weights[i, order[i, k]]
        if f == 0.0:
            return -np.inf
        value += math.log(f)
        for k in range(m):
            col = order[i, k]
            shares[col] += steps[k] * weights[i, col] / f
    return value


@njit(cache=True, nogil=True)
def _next_factors(shares, rate, factors, shifted):
    """Fill the factors of columns; return `shifted` plus their logarithms."""
    for j in range(len(shares)):
        factors[j] = shares[j] ** -rate if shares[j] > 0.0 else 1.0
        shifted += math.log(factors[j])
    return shifted


@njit(cache=True, nogil=True)
def log_bound(weights, code, n_sweeps):
    """Return the logarithm of one bound on the permanent, without touching `weights`."""
    if code in (HUBER_LAW, HUBER_LAW_TIGHT):
        return log_huber_law(weights, code == HUBER_LAW_TIGHT)
    steps = np.empty(weights.shape[0])
    fill_steps(code, steps)
    return sharpen(weights.copy(), steps, n_sweeps)


@njit(cache=True, nogil=True)
def log_minor_bounds(weights, bounds):
    """Fill ``bounds[i, j]`` with Soules' bound, in logarithms, without row i and column j.

    O(m^3): once column j is gone, entries of a row that ranked below move up one place.
    """
    m = weights.shape[0]
    steps = np.empty(m)
    fill_steps(SOULES, steps)
    without = np.empty((m, m))  # f of row i without column j
    order = np.arange(m)
    for i in range(m):
        _leave_out(weights[i], steps, order, without[i])
    for j in range(m):
        _sum_others(without[:, j], bounds[:, j])


@njit(cache=True, nogil=True)
def _leave_out(row, steps, order, without):
    """Fill `without` with the log of a row's factor without each of its columns."""
    m = len(row)
    rank_entries(row, order, 701)
    for k in range(m):
        f = 0.0
        for place in range(k):
            f += steps[place] * row[order[place]]
        for place in range(k + 1, m):
            f += steps[place - 1] * row[order[place]]
        without[order[k]] = math.log(f) if f > 0.0 else -np.inf


@njit(cache=True, nogil=True)
def _sum_others(values, sums):
    """Fill `sums` with the sum of all values but one."""
    for i in range(len(values)):
        total = 0.0
        for k in range(len(values)):
            if k != i:
                total += values[k]
        sums[i] = total


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
        _extend_row(weights[i], steps, ordered, bounds[i])


@njit(cache=True, nogil=True)
def _extend_row(row, steps, ordered, bounds):
    """Fill the bounds of one row; `ordered` is scratch."""
    n_cols = len(row)
    bounds[n_cols] = 0.0
    for c in range(n_cols - 1, -1, -1):
        # Insert the column that comes back into the sorted entries after it.
        new = row[c]
        place = n_cols - 1 - c
        while place > 0 and ordered[place - 1] < new:
            ordered[place] = ordered[place - 1]
            place -= 1
        ordered[place] = new
        total = 0.0
        for k in range(n_cols - c):
            total += steps[k] * ordered[k]
        bounds[c] = total


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
