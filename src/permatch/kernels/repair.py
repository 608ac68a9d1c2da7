"""Give rows and columns what they lack of a sum of one, wherever that can be done at all.

The table is first scaled down until no row and no column sums to more than one.  What rows
then lack is brought to the columns that lack as much along the shortest paths

    row -> column   on an edge that may carry more
    column -> row   on an edge that has something to give back

as in the maximum flow of Edmonds and Karp: if some doubly stochastic table lives on the
edges that may carry more, nothing is lacking in the end.
"""

import numpy as np
from numba import njit

# Rows and columns that lack less are left as they are.
_LEAST = 1e-15
# The search for paths is given up after so many looks at every pair.
_MOST_LOOKS = 400


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
    worst = 0.0
    for i in range(m):
        row_sum = 0.0
        col_sum = 0.0
        for j in range(m):
            row_sum += table[i, j]
            col_sum += table[j, i]
        worst = max(worst, max(abs(row_sum - 1.0), abs(col_sum - 1.0)))
    return worst
