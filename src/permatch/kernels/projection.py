"""Make approximate marginals doubly stochastic: rows and columns sum to one.

Sinkhorn's sweeps do most of it; what is left, for they may be slow, is moved along the
edges of a spanning tree, where there is exactly one way to do so.  Where that would take
more from an edge than it has, `permatch.kernels.repair` finds other ways.
"""

import numpy as np
from numba import njit

from permatch.kernels.repair import repair
from permatch.kernels.support import forbid_impossible

# Sinkhorn's sweeps on beliefs before a spanning tree takes the rest: few, and where that
# fails many; and the error of row sums at which they end.
_FEW_SWEEPS, MANY_SWEEPS = 10, 300
_TOL = 1e-14
# Beliefs below are left out where Sinkhorn's sweeps are slow because of them.
_NEGLIGIBLE = 1e-7
# Sums further off are repaired at any cost ...
_TOO_FAR = 1e-10
# ... and where even that leaves more, the best matching is all that is believed in.
_HOPELESS = 1e-7


@njit(cache=True, nogil=True)
def _sinkhorn(table, n_sweeps):
    """Scale rows and columns in place to sum to one; return what is left of the error."""
    m = table.shape[0]
    factors = np.empty(m)
    error = np.inf
    for _ in range(n_sweeps):
        factors[:] = 0.0
        for i in range(m):
            for j in range(m):
                factors[j] += table[i, j]
        for j in range(m):
            if factors[j] <= 0.0:
                return np.inf
            factors[j] = 1.0 / factors[j]
        error = 0.0
        for i in range(m):
            total = 0.0
            for j in range(m):
                table[i, j] *= factors[j]
                total += table[i, j]
            if total <= 0.0:
                return np.inf
            error = max(error, abs(total - 1.0))
            for j in range(m):
                table[i, j] /= total
        if error <= _TOL:
            break
    return error


@njit(cache=True, nogil=True)
def _copy(source, target):
    """Copy one square table to another: slices take seconds to compile."""
    for i in range(source.shape[0]):
        for j in range(source.shape[0]):
            target[i, j] = source[i, j]


@njit(cache=True, nogil=True)
def _even_out(table, error):
    """Move what rows and columns have too much along the heaviest spanning tree (Prim).

    Return the error left; `table` and `error` stay when an edge of the tree is too light.
    """
    m = table.shape[0]
    excess = np.full(2 * m, -1.0)  # rows, then columns
    for i in range(m):
        for j in range(m):
            excess[i] += table[i, j]
            excess[m + j] += table[i, j]
    weight = np.zeros(2 * m)  # the heaviest edge to the tree
    parent = np.full(2 * m, -1)
    is_in = np.zeros(2 * m, np.bool_)
    order = np.empty(2 * m, np.int64)
    for count in range(2 * m):
        node = -1
        for k in range(2 * m):
            if not is_in[k] and (node < 0 or weight[k] > weight[node]):
                node = k
        is_in[node] = True
        order[count] = node
        for k in range(m):
            other = m + k if node < m else k
            edge = table[node, k] if node < m else table[k, node - m]
            if not is_in[other] and edge > weight[other]:
                weight[other] = edge
                parent[other] = node
    moved = table.copy()
    for count in range(2 * m - 1, -1, -1):
        node = order[count]
        above = parent[node]
        if above >= 0:
            i = min(node, above)
            j = max(node, above) - m
            moved[i, j] -= excess[node]
            excess[above] -= excess[node]
            if moved[i, j] < 0.0:
                return error
    worst = 0.0
    for i in range(m):
        row_sum = 0.0
        col_sum = 0.0
        for j in range(m):
            row_sum += moved[i, j]
            col_sum += moved[j, i]
        worst = max(worst, max(abs(row_sum - 1.0), abs(col_sum - 1.0)))
    if worst < error:
        _copy(moved, table)
        return worst
    return error


@njit(cache=True, nogil=True)
def _prune(table, col_of):
    """Leave out small beliefs, and those that lie in no perfect matching of the others."""
    m = table.shape[0]
    support = np.zeros((m, m))
    for i in range(m):
        table[i, col_of[i]] = max(table[i, col_of[i]], _NEGLIGIBLE)
        for j in range(m):
            if table[i, j] < _NEGLIGIBLE:
                support[i, j] = -np.inf
    forbid_impossible(support, col_of, np.empty(m, np.int64))
    for i in range(m):
        for j in range(m):
            if support[i, j] == -np.inf:
                table[i, j] = 0.0


@njit(cache=True, nogil=True)
def project(beliefs, col_of, is_patient):
    """Make beliefs doubly stochastic in place; return the error left in column sums.

    Small beliefs in one direction of a one-way street make Sinkhorn's sweeps slow; if so
    they are left out, together with what they leave in no perfect matching.  `col_of` is a
    perfect matching; it is what is left if nothing else helps, which takes long to find
    out: only if `is_patient`.
    """
    m = beliefs.shape[0]
    given = beliefs.copy()
    table = np.empty((m, m))
    best = np.inf
    for attempt in range(4 if is_patient else 2):
        _copy(given, table)
        if attempt % 2 == 1:
            _prune(table, col_of)
        n_sweeps = _FEW_SWEEPS if attempt < 2 else MANY_SWEEPS
        error = _even_out(table, _sinkhorn(table, n_sweeps))
        if error < best:
            best = error
            _copy(table, beliefs)
        if best <= 100.0 * _TOL:
            break
    if best <= _TOO_FAR:
        return best
    if is_patient:
        _prune(given, col_of)
        may_carry = np.zeros((m, m), np.bool_)
        for i in range(m):
            for j in range(m):
                may_carry[i, j] = given[i, j] > 0.0
        best = repair(beliefs, may_carry)
    if best > _HOPELESS:
        for i in range(m):
            for j in range(m):
                beliefs[i, j] = 1.0 if j == col_of[i] else 0.0
        best = 0.0
    return best
