"""Cut a graph into blocks, and bound what the matchings across blocks weigh.

Rows and columns are numbered so that the best matching is the diagonal; weights are at most
one, and one on the diagonal.  A partition of the numbers into blocks writes the weights as
``K + E``: K within blocks, E across.  With ``per`` the permanent, ``X(i|j)`` without row i
and column j, and

    C[i, j] = per(K(i|j)) / per(K)                 (0 for i, j of different blocks)
    P = E C^T

the theorem is

    per(K)  <=  per(K + E)  <=  per(K) / det(I - P)        if P has spectral radius < 1.

Proof.  Sort the matchings of K + E by the edges of E that they use, which join rows R to
columns T: ``per(K+E) = sum_{R,T} per(E[R,T]) per(K(R|T))``.  *Claim*:
``per(K(R|T)) <= per(K) per(C[R,T])``.  Lay a matching of K over a matching of K without R
and T.  From r in R runs a path, of edges of the one and the other in turn, that ends in
some t in T.  Exchange the two matchings along it: now r, t are left out of the first, and
R - r, T - t of the second.  As laying them over each other again finds the path, nothing is
counted twice, so
``per(K) per(K(R|T)) <= sum_t per(K(r|t)) per(K(R-r|T-t))``; the claim follows by induction.
Hence, expanding products (Cauchy and Binet, with terms to spare),
``per(K+E)/per(K) <= sum_R sum_T per(E[R,T]) per(C[R,T]) <= sum_R per(P[R,R]) = per(I+P)``.
That is a sum over sets of disjoint cycles of P, so at most ``exp(sum of all cycles)``, and
cycles of length l weigh at most ``trace(P^l)/l``: ``exp(sum_l trace(P^l)/l) = 1/det(I-P)``.

The bound does not change when rows or columns are scaled, and is second order in E: for
blocks of one node ``log per <= sum_{i<k} E[i,k] E[k,i] + cycles of length 3 and more``.
Every number below is a sum of positive terms, so bounds of 1e-30 have all their digits.
"""

import math

import numpy as np
from numba import njit

from permatch.kernels.subset_dp import sweep_back, sweep_forward

# Multiplications that are over in no time.
_FEW_STEPS = 10_000_000


@njit(cache=True, nogil=True)
def fill_regrets(losses, regrets):
    """Fill ``regrets[i, k]``: what the best matching loses when row i must take column k.

    ``losses[i, k] >= 0`` is what row i loses itself, ``inf`` where forbidden.  The rest of
    the matching loses the length of the shortest path from k back to i (Floyd, Warshall).
    """
    m = losses.shape[0]
    paths = losses.copy()
    for k in range(m):
        _go_through(paths, k)
    _close_paths(losses, paths, regrets)


@njit(cache=True, nogil=True)
def _go_through(paths, k):
    """Shorten paths by those through node k."""
    m = paths.shape[0]
    for i in range(m):
        head = paths[i, k]
        if head < np.inf:
            for j in range(m):
                paths[i, j] = min(paths[i, j], head + paths[k, j])


@njit(cache=True, nogil=True)
def _close_paths(losses, paths, regrets):
    """Fill the regrets with edges and the paths back."""
    m = losses.shape[0]
    for i in range(m):
        for k in range(m):
            regrets[i, k] = losses[i, k] + paths[k, i]


@njit(cache=True, nogil=True)
def merge_nodes(heads, tails, regrets, most, largest, labels):
    """Join nodes along edges, least regret first, into blocks of at most `largest` nodes.

    Edges with a regret above `most` join nothing.  Fill `labels` with the block of every
    node; return the number of blocks.
    """
    m = len(labels)
    parent = np.arange(m)
    size = np.ones(m, np.int64)
    for e in range(len(heads)):
        if regrets[e] > most:
            break
        a = heads[e]
        b = tails[e]
        while parent[a] != a:
            parent[a] = parent[parent[a]]
            a = parent[a]
        while parent[b] != b:
            parent[b] = parent[parent[b]]
            b = parent[b]
        if a != b and size[a] + size[b] <= largest:
            parent[b] = a
            size[a] += size[b]
    n_labels = 0
    for i in range(m):
        if parent[i] == i:
            labels[i] = n_labels
            n_labels += 1
    for i in range(m):
        root = i
        while parent[root] != root:
            root = parent[root]
        labels[i] = labels[root]
    return n_labels


@njit(cache=True, nogil=True)
def fill_cofactors(weights, cofactors):
    """Fill ``cofactors[i, j] = per(weights(i|j)) / per(weights)``: O(m 2^m), two tables."""
    n_states = 1 << weights.shape[0]
    forward = np.empty(n_states)
    sweep_forward(weights, forward, 0, n_states)
    cofactors[:] = 0.0
    sweep_back(weights, forward, np.empty(n_states), cofactors, 0, n_states)
    cofactors /= forward[n_states - 1]


@njit(cache=True, nogil=True)
def fill_transfer(weights, starts, cofactors, transfer):
    """Fill ``transfer = E C^T`` (P above), blocks being runs ``starts[b] : starts[b + 1]``.

    Return whether any edge across blocks has weight.
    """
    transfer[:] = 0.0
    is_cut = False
    m = weights.shape[0]
    for block in range(len(starts) - 1):
        first = starts[block]
        last = starts[block + 1]
        n_rows = 1 + _FEW_STEPS // (last - first) ** 2
        for row in range(0, m, n_rows):
            rows = (row, min(row + n_rows, m))
            if _add_transfer(weights, cofactors, rows, first, last, transfer):
                is_cut = True
    return is_cut


@njit(cache=True, nogil=True)
def _add_transfer(weights, cofactors, rows, first, last, transfer):
    """Add what some rows give to the block ``first : last``; return if they give any."""
    is_cut = False
    for i in range(rows[0], rows[1]):
        if first <= i < last:
            continue
        for j in range(first, last):
            if weights[i, j] > 0.0:
                is_cut = True
                for k in range(first, last):
                    transfer[i, k] += weights[i, j] * cofactors[k, j]
    return is_cut


@njit(cache=True, nogil=True)
def log_growth(transfer):
    """Return ``-log det(I - transfer)``, ``inf`` unless the spectral radius is below one.

    Elimination of one node after the other, in place.  Non-negative entries stay so:
    nothing is subtracted but the pivot from one.
    """
    m = transfer.shape[0]
    total = 0.0
    for k in range(m):
        if not transfer[k, k] < 1.0:
            return np.inf
        total -= _eliminate(transfer, k)
    return total


@njit(cache=True, nogil=True)
def _eliminate(transfer, k):
    """Eliminate node k; return the logarithm of one less the pivot."""
    m = transfer.shape[0]
    pivot = transfer[k, k]
    for i in range(k + 1, m):
        factor = transfer[i, k] / (1.0 - pivot)
        if factor > 0.0:
            for j in range(k + 1, m):
                transfer[i, j] += factor * transfer[k, j]
    return math.log1p(-pivot)
