"""Which edges lie in some matching of all nodes that must be matched.

Given one such matching, walk

    left i  -> right j      over an edge that the matching does not use
    right j -> left i       over one that it uses
    left i  -> hub          if i has a partner and may stay unmatched
    hub     -> left i       if i has none
    hub     -> right j      if j has a partner and may stay unmatched
    right j -> hub          if j has none

A round trip changes the matching into another one, and every change is made of round
trips.  So an edge lies in some matching if it is used by the given one, or if its ends are
in one strongly connected component (Tarjan's algorithm, with a stack of its own).
"""

import numpy as np
from numba import njit

from permatch._types import BoolArray, FloatArray, IntArray


@njit(cache=True, nogil=True)
def forbid_impossible(
    starts: IntArray,
    right: IntArray,
    left_mate: IntArray,
    right_mate: IntArray,
    may_left: BoolArray,
    may_right: BoolArray,
    weights: FloatArray,
) -> None:
    """Set the weights of edges that lie in no matching to 0.

    An edge of weight 0 counts as forbidden.  `may_left`, `may_right`: which nodes may stay
    unmatched.
    """
    n, k = len(left_mate), len(right_mate)
    labels = np.full(n + k + 1, -1)
    _label(starts, right, left_mate, right_mate, may_left, may_right, weights > 0.0, labels)
    for i in range(n):
        for e in range(starts[i], starts[i + 1]):
            j = right[e]
            if labels[i] != labels[n + j] and left_mate[i] != j:
                weights[e] = 0.0


@njit(cache=True, nogil=True)
def _next_node(
    starts, right, left_mate, right_mate, may_left, may_right, is_open, node, step
):
    """Return where step number `step` from a node leads, -1 if nowhere, -2 after the last.

    A left node has a step for each of its edges and one to the hub.
    """
    n, k = len(left_mate), len(right_mate)
    if node < n:
        e = starts[node] + step
        if e < starts[node + 1]:
            is_used = left_mate[node] == right[e]
            return n + right[e] if is_open[e] and not is_used else -1
        if e > starts[node + 1]:
            return -2
        return n + k if left_mate[node] >= 0 and may_left[node] else -1
    if node < n + k:
        if step > 0:
            return -2
        return right_mate[node - n] if right_mate[node - n] >= 0 else n + k
    if step >= n + k:
        return -2
    if step < n:
        return step if left_mate[step] < 0 else -1
    return step if right_mate[step - n] >= 0 and may_right[step - n] else -1


@njit(cache=True, nogil=True)
def _label(starts, right, left_mate, right_mate, may_left, may_right, is_open, labels):
    """Fill the strongly connected component of every node."""
    n_nodes = len(labels)
    index = np.full(n_nodes, -1)  # the order in which nodes are met
    low = np.empty(n_nodes, np.int64)
    steps = np.zeros(n_nodes, np.int64)
    path = np.empty(n_nodes, np.int64)
    waiting = np.empty(n_nodes, np.int64)
    n_met = 0
    n_waiting = 0
    n_found = 0
    for root in range(n_nodes):
        if index[root] >= 0:
            continue
        depth = 0
        path[0] = root
        while depth >= 0:
            node = path[depth]
            if index[node] < 0:
                index[node] = low[node] = n_met
                n_met += 1
                waiting[n_waiting] = node
                n_waiting += 1
            after = _next_node(
                starts,
                right,
                left_mate,
                right_mate,
                may_left,
                may_right,
                is_open,
                node,
                steps[node],
            )
            steps[node] += 1
            if after >= 0:
                if index[after] < 0:
                    depth += 1
                    path[depth] = after
                elif labels[after] < 0:
                    low[node] = min(low[node], index[after])
            elif after == -2:
                if low[node] == index[node]:
                    while labels[node] < 0:
                        n_waiting -= 1
                        labels[waiting[n_waiting]] = n_found
                    n_found += 1
                depth -= 1
                if depth >= 0:
                    low[path[depth]] = min(low[path[depth]], low[node])
