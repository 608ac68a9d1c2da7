"""Which edges lie in some perfect matching, and the blocks they fall into.

Given one perfect matching, row i points to row k if i could take the column that k holds.
An edge can be matched if and only if its two rows are in one strong component (Tassa 2012),
and the components are blocks that share no possible edge.
"""

import numpy as np
from numba import njit

from permatch.kernels.assignment import solve
from permatch.kernels.scaling import reduce_one


@njit(cache=True, nogil=True)
def reduce_and_match(scores, reduced, col_of):
    """Fill `reduced` as `reduce_one` does, and `col_of` with a best matching.

    Return the best score, ``-inf`` when there is no perfect matching.
    """
    best = reduce_one(scores, reduced)
    if best == -np.inf:
        return best
    m = scores.shape[0]
    # A best matching of the reduced scores uses zeros only; most rows find theirs at once.
    solve(-reduced, np.empty(m), np.empty(m), col_of, np.empty(m, np.int64))
    return best


@njit(cache=True, nogil=True)
def components(scores, col_of, labels):
    """Label rows by strong component of the finite scores; return their number.

    Row i points to row k if ``scores[i, col_of[k]]`` is finite.  Tarjan's algorithm
    without recursion, O(m^2).
    """
    m = scores.shape[0]
    order = np.full(m, -1)  # when a row was first met
    lowest = np.empty(m, np.int64)  # the earliest row reachable from it
    following = np.zeros(m, np.int64)  # the next row to look at
    path = np.empty(m, np.int64)
    waiting = np.empty(m, np.int64)
    n_path = 0
    n_waiting = 0
    n_met = 0
    n_labels = 0
    labels[:] = -1
    for start in range(m):
        if order[start] >= 0:
            continue
        path[0] = start
        n_path = 1
        while n_path:
            i = path[n_path - 1]
            if order[i] < 0:
                order[i] = n_met
                lowest[i] = n_met
                n_met += 1
                waiting[n_waiting] = i
                n_waiting += 1
            is_done = True
            while following[i] < m:
                k = following[i]
                following[i] += 1
                if scores[i, col_of[k]] == -np.inf or labels[k] >= 0:
                    continue
                if order[k] < 0:
                    path[n_path] = k
                    n_path += 1
                    is_done = False
                    break
                lowest[i] = min(lowest[i], order[k])
            if not is_done:
                continue
            n_path -= 1
            if n_path:
                parent = path[n_path - 1]
                lowest[parent] = min(lowest[parent], lowest[i])
            if lowest[i] == order[i]:
                while True:
                    n_waiting -= 1
                    k = waiting[n_waiting]
                    labels[k] = n_labels
                    if k == i:
                        break
                n_labels += 1
    return n_labels


@njit(cache=True, nogil=True)
def forbid_impossible(scores, col_of, labels):
    """Set to ``-inf``, in place, every edge between two components; return their number."""
    m = scores.shape[0]
    n_labels = components(scores, col_of, labels)
    if n_labels > 1:
        for i in range(m):
            for k in range(m):
                if labels[i] != labels[k]:
                    scores[i, col_of[k]] = -np.inf
    return n_labels
