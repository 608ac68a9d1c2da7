"""Perfect samples under a bound that need not nest: adaptive partitioning.

Soules' bound of a matrix is the product over rows of  sum_k (g_k - g_k-1) a_(k)  with the
row sorted, largest first, and g_k = (k!)^(1/k).  It is tighter than the bounds that nest,
yet the children of a node may sum to more than the node.  AdaPart then replaces children by
their own children, of the heaviest member first, until the list, still a partition, sums to
no more; it ends because the list of all matchings sums to the permanent.

At every node the column is taken whose children sum to least.
"""

import numpy as np
from numba import njit

from permatch.kernels.bounds import SOULES, fill_steps
from permatch.kernels.intrinsics import count_ones, uniform

# Sums above the bound by rounding only are not refined.
_SLACK = 1e-12


def soules_steps(n):
    """Return the factors ``g_k - g_k-1`` of a sorted row, k = 1 .. n."""
    steps = np.empty(n)
    fill_steps(SOULES, steps)
    return steps


@njit(cache=True, nogil=True)
def soules_factors(weights, order, steps, factors):
    """Fill the factors of all rows over all columns; `order` sorts each row's columns."""
    n = weights.shape[0]
    for i in range(n):
        total = 0.0
        for k in range(n):
            total += steps[k] * weights[i, order[i, k]]
        factors[i] = total


@njit(cache=True, nogil=True)
def split(weights, order, steps, rows, cols, without, children):
    """Fill `children[i]`, the bounds of matching row i to the best column; return it.

    `rows` and `cols` are the masks of what is left; `without` is scratch (n, n).
    """
    n = weights.shape[0]
    entries = np.empty(n)
    members = np.empty(n, np.int64)
    for i in range(n):
        if not rows >> i & 1:
            continue
        count = 0
        for k in range(n):
            c = order[i, k]
            if cols >> c & 1:
                entries[count] = weights[i, c]
                members[count] = c
                count += 1
        # Without the entry of rank k, those after it move up by one.
        after = 0.0
        for k in range(count - 1, -1, -1):
            without[i, members[k]] = after
            if k > 0:
                after += steps[k - 1] * entries[k]
        before = 0.0
        for k in range(count):
            without[i, members[k]] += before
            before += steps[k] * entries[k]
    best_col = -1
    best_total = np.inf
    trial = np.empty(n)
    for c in range(n):
        if not cols >> c & 1:
            continue
        total = child_bounds(weights, rows, c, without, trial)
        if total < best_total:
            best_total = total
            best_col = c
            children[:] = trial
    return best_col


@njit(cache=True, nogil=True)
def child_bounds(weights, rows, col, without, bounds):
    """Fill the bounds of matching every free row to `col`; return their sum."""
    n = weights.shape[0]
    product = 1.0
    for i in range(n):  # the product of the others, before and after, without division
        bounds[i] = 0.0
        if rows >> i & 1:
            bounds[i] = product
            product *= without[i, col]
    product = 1.0
    total = 0.0
    for i in range(n - 1, -1, -1):
        if rows >> i & 1:
            bounds[i] *= product * weights[i, col]
            product *= without[i, col]
            total += bounds[i]
    return total


@njit(cache=True, nogil=True)
def try_chunk(weights, order, steps, max_list, state, n_trials, trials, matchings, counts):
    """Make `n_trials` trials; return how many were accepted, or -1 if a list grew too long.

    `matchings` receives for every accepted trial the column of each row; `counts` the
    number of splits and of refinements.
    """
    n = weights.shape[0]
    factors = np.empty(n)
    soules_factors(weights, order, steps, factors)
    root = 1.0
    for i in range(n):
        root *= factors[i]
    without = np.zeros((n, n))
    children = np.empty(n)
    list_rows = np.empty(max_list + n, np.int64)
    list_cols = np.empty(max_list + n, np.int64)
    list_weight = np.empty(max_list + n)
    list_bound = np.empty(max_list + n)
    list_match = np.empty((max_list + n, n), np.int64)
    matching = np.full(n, -1)
    all_ones = (1 << n) - 1
    n_accepted = 0
    for trial in range(n_trials):
        rows = all_ones
        cols = all_ones
        bound = root
        matching[:] = -1
        is_accepted = True
        while rows:
            list_rows[0] = rows
            list_cols[0] = cols
            list_weight[0] = 1.0
            list_bound[0] = bound
            list_match[0] = matching
            length = 1
            widest = 0
            counts[0] += 1
            while True:
                # Replace one member by its children.
                old_rows = list_rows[widest]
                old_cols = list_cols[widest]
                old_weight = list_weight[widest]
                matching[:] = list_match[widest]
                length -= 1
                list_rows[widest] = list_rows[length]
                list_cols[widest] = list_cols[length]
                list_weight[widest] = list_weight[length]
                list_bound[widest] = list_bound[length]
                list_match[widest] = list_match[length]
                col = split(weights, order, steps, old_rows, old_cols, without, children)
                for i in range(n):
                    if old_rows >> i & 1 and children[i] > 0.0:
                        list_rows[length] = old_rows ^ (1 << i)
                        list_cols[length] = old_cols ^ (1 << col)
                        list_weight[length] = old_weight * weights[i, col]
                        list_bound[length] = old_weight * children[i]
                        list_match[length] = matching
                        list_match[length, i] = col
                        length += 1
                total = 0.0
                widest = -1
                for q in range(length):
                    total += list_bound[q]
                    if count_ones(list_rows[q]) >= 2 and (
                        widest < 0 or list_bound[q] > list_bound[widest]
                    ):
                        widest = q
                if total <= bound * (1.0 + _SLACK) or widest < 0:
                    break
                if length > max_list:
                    return -1
                counts[1] += 1
            target = uniform(state) * bound
            chosen = -1
            for q in range(length):
                target -= list_bound[q]
                if target < 0.0:
                    chosen = q
                    break
            if chosen < 0:
                is_accepted = False
                break
            rows = list_rows[chosen]
            cols = list_cols[chosen]
            bound = list_bound[chosen] / list_weight[chosen]
            matching[:] = list_match[chosen]
        if is_accepted:
            trials[n_accepted] = trial
            matchings[n_accepted, :] = matching
            n_accepted += 1
    return n_accepted
