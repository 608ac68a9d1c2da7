"""Permanent by Ryser's formula, the one the paper names; the value only, no derivatives.

    per(B) = (-1)^m sum over column sets S of (-1)^|S| prod_i sum_{j in S} B_ij

The column sets are walked in Gray-code order, O(m 2^m) time, O(m) memory.  Terms are far
larger than their sum; their absolute sum is kept, so that the digits lost can be told.

References
----------
H. J. Ryser, "Combinatorial Mathematics", Carus Mathematical Monographs 14 (1963).
"""

import numpy as np
from numba import njit

from permatch.kernels.bits import lowest_one

# Gray-code updates of the row sums are redone from scratch this often, against drift.
_REFRESH = 1024


@njit(cache=True, nogil=True)
def permanent_and_error(weights):
    """Return the permanent and an estimate of its relative rounding error."""
    m = weights.shape[0]
    columns = np.ascontiguousarray(weights.T)
    row_sums = np.zeros(m)
    if m == 0:
        return 1.0, 0.0  # the formula leaves out the empty set, here the only one
    value = 0.0
    magnitude = 0.0
    sign = -1.0 if m % 2 else 1.0
    for step in range(1, 1 << m):
        col = lowest_one(step)
        subset = step ^ (step >> 1)
        is_added = subset >> col & 1
        if step % _REFRESH == 0:
            row_sums[:] = 0.0
            for j in range(m):
                if subset >> j & 1:
                    row_sums += columns[j]
        elif is_added:
            row_sums += columns[col]
        else:
            row_sums -= columns[col]
        sign = -sign
        product = sign
        for i in range(m):
            product *= row_sums[i]
        value += product
        magnitude += abs(product)
    if not value > 0.0:
        return value, np.inf
    return value, m * np.finfo(np.float64).eps * magnitude / value
