"""Permanent by Ryser's formula, the one the paper names; the value only, no derivatives.

    per(B) = (-1)^m sum over column sets S of (-1)^|S| prod_i sum_{j in S} B_ij

The column sets are walked in Gray-code order, O(m 2^m) time, O(m) memory.  Terms are far
larger than their sum; their absolute sum is kept, so that the digits lost can be told.

References
----------
H. J. Ryser, "Combinatorial Mathematics", Carus Mathematical Monographs 14 (1963).
"""

from numba import njit

from permatch.kernels.intrinsics import lowest_one

# Gray-code updates of the row sums are redone from scratch this often, against drift.
_REFRESH = 1024


@njit(cache=True, nogil=True)
def add_terms(columns, row_sums, totals, first, last):
    """Add the terms of steps ``first .. last - 1``, from 1, of the Gray code to `totals`.

    `columns` is the transpose of the weights.  `row_sums` (m,), zero before step 1, goes
    from one call to the next, as do `totals`: the sum of the terms and of their sizes.
    """
    m = columns.shape[0]
    value = totals[0]
    magnitude = totals[1]
    sign = -1.0 if (m + first - 1) % 2 else 1.0
    for step in range(first, last):
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
    totals[0] = value
    totals[1] = magnitude
