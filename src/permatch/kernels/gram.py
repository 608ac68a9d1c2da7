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
        for e in range(first, min(first + _BLOCK, n_rows)):
            share = shares[owners[e]]
            for a in range(p):
                weight = share * rows[e, a]
                for b in range(k):
                    part[a, b] += weight * columns[e, b]
        whole += part
    return whole
