"""Sums of outer products of rows, in a fixed order and on the calling thread.

BLAS would keep threads spinning that those of engines then have to share processors with.
"""

import numpy as np
from numba import njit

# Rows of a block: long loops, and partial sums that stay in the cache.
_BLOCK = 64


@njit(cache=True, nogil=True)
def weighted_gram(rows, owners, shares, columns):
    """Return the sum over e of ``shares[owners[e]] * rows[e] columns[e]'``, (p, k)."""
    n_rows, p = rows.shape
    k = columns.shape[1]
    whole = np.zeros((p, k))
    part = np.empty((p, k))
    for first in range(0, n_rows, _BLOCK):
        part[:] = 0.0
        last = min(first + _BLOCK, n_rows)
        for e in range(first, last - 3, 4):
            for a in range(p):
                w0 = shares[owners[e]] * rows[e, a]
                w1 = shares[owners[e + 1]] * rows[e + 1, a]
                w2 = shares[owners[e + 2]] * rows[e + 2, a]
                w3 = shares[owners[e + 3]] * rows[e + 3, a]
                for b in range(k):
                    one = w0 * columns[e, b] + w1 * columns[e + 1, b]
                    other = w2 * columns[e + 2, b] + w3 * columns[e + 3, b]
                    part[a, b] += one + other
        for e in range(last - (last - first) % 4, last):
            for a in range(p):
                weight = shares[owners[e]] * rows[e, a]
                for b in range(k):
                    part[a, b] += weight * columns[e, b]
        whole += part
    return whole
