"""Make approximate marginals doubly stochastic: rows and columns sum to one.

Sinkhorn's sweeps do most of it; what is left, for they may be slow, is moved along the
edges of a spanning tree, where there is exactly one way to do so.  Where that would take
more from an edge than it has, `repair` gives rows and columns what they lack, wherever that
can be done at all.  The table is first scaled down until no row and no column sums to more
than one.  What rows then lack is brought to the columns that lack as much along the
shortest paths

    row -> column   on an edge that may carry more
    column -> row   on an edge that has something to give back

as in the maximum flow of Edmonds and Karp: if some doubly stochastic table lives on the
edges that may carry more, nothing is lacking in the end.
"""

import numpy as np
from numba import njit

from permatch.kernels.assignment import forbid_impossible

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
# Rows and columns that lack less are left as they are.
_LEAST = 1e-15
# The search for paths is given up after so many looks at every pair.
_MOST_LOOKS = 400


@njit(cache=True, nogil=True)
def _sinkhorn(table, n_sweeps):
    """Scale rows and columns in place to sum to one; return what is left of the error."""
    m = table.shape[0]
    factors = np.empty(m)
    error = np.inf
    for _ in range(n_sweeps):
        error = _sinkhorn_sweep(table, factors)
        if error <= _TOL or error == np.inf:
            break
    return error


@njit(cache=True, nogil=True)
def _sinkhorn_sweep(table, factors):
    """Scale once; return the error of row sums before, ``inf`` if one is zero."""
    m = table.shape[0]
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
        best = repair(beliefs, given > 0.0)
    if best > _HOPELESS:
        beliefs[:] = 0.0
        for i in range(m):
            beliefs[i, col_of[i]] = 1.0
        best = 0.0
    return best


@njit(cache=True, nogil=True)
def _scale_down(table, lacking):
    """Scale what sums to more than one; fill `lacking` (2m,): rows, then columns."""
    m = table.shape[0]
    for i in range(m):
        total = 0.0
        for j in range(m):
            total += table[i, j]
        if total > 1.0:
            for j in range(m):
                table[i, j] /= total
    for j in range(m):
        total = 0.0
        for i in range(m):
            total += table[i, j]
        if total > 1.0:
            for i in range(m):
                table[i, j] /= total
    lacking[:] = 1.0
    for i in range(m):
        for j in range(m):
            lacking[i] -= table[i, j]
            lacking[m + j] -= table[i, j]


@njit(cache=True, nogil=True)
def _neighbours(table, may_carry, starts, others):
    """List, node by node, where paths may go on: rows, then columns."""
    m = table.shape[0]
    count = 0
    for i in range(m):
        starts[i] = count
        for j in range(m):
            if may_carry[i, j]:
                others[count] = m + j
                count += 1
    for j in range(m):
        starts[m + j] = count
        for i in range(m):
            if may_carry[i, j] or table[i, j] > 0.0:
                others[count] = i
                count += 1
    starts[2 * m] = count


@njit(cache=True, nogil=True)
def _find_path(table, starts, others, lacking, parent, queue):
    """Fill `parent`; return the column a shortest path ends in, -1 if none, and the looks.

    A row that a path begins with is its own parent.
    """
    m = table.shape[0]
    n_looks = 2 * m
    n_queued = 0
    for node in range(2 * m):
        parent[node] = -1
        if node < m and lacking[node] > _LEAST:
            parent[node] = node
            queue[n_queued] = node
            n_queued += 1
    place = 0
    while place < n_queued:
        node = queue[place]
        place += 1
        n_looks += starts[node + 1] - starts[node]
        for k in range(starts[node], starts[node + 1]):
            other = others[k]
            if parent[other] >= 0 or (node >= m and table[other, node - m] <= 0.0):
                continue
            parent[other] = node
            if node < m and lacking[other] > _LEAST:
                return other, n_looks
            queue[n_queued] = other
            n_queued += 1
    return -1, n_looks


@njit(cache=True, nogil=True)
def _push(table, lacking, parent, end):
    """Send as much as fits along the path that ends in column `end`."""
    m = table.shape[0]
    amount = lacking[end]
    node = end
    while parent[node] != node:
        above = parent[node]
        if node < m:
            amount = min(amount, table[node, above - m])
        node = above
    amount = min(amount, lacking[node])
    lacking[node] -= amount
    lacking[end] -= amount
    node = end
    while parent[node] != node:
        above = parent[node]
        if node < m:
            table[node, above - m] -= amount
        else:
            table[above, node - m] += amount
        node = above


@njit(cache=True, nogil=True)
def repair(table, may_carry):
    """Make rows and columns sum to one in place; return the largest error left.

    `may_carry` (m, m) has the edges that may be given more; a perfect matching of them is
    enough for an error of rounding only, unless there are too many paths to find.
    """
    m = table.shape[0]
    lacking = np.empty(2 * m)
    _scale_down(table, lacking)
    starts = np.empty(2 * m + 1, np.int64)
    others = np.empty(2 * m * m, np.int64)
    _neighbours(table, may_carry, starts, others)
    parent = np.empty(2 * m, np.int64)
    queue = np.empty(2 * m, np.int64)
    n_left = _MOST_LOOKS * m * m
    while n_left > 0:
        end, n_looks = _find_path(table, starts, others, lacking, parent, queue)
        if end < 0:
            break
        n_left -= n_looks
        _push(table, lacking, parent, end)
    return _largest_error(table)


@njit(cache=True, nogil=True)
def _largest_error(table):
    """Return by how much a row or a column misses one at most."""
    m = table.shape[0]
    worst = 0.0
    for i in range(m):
        row_sum = 0.0
        col_sum = 0.0
        for j in range(m):
            row_sum += table[i, j]
            col_sum += table[j, i]
        worst = max(worst, max(abs(row_sum - 1.0), abs(col_sum - 1.0)))
    return worst
