"""Connected components of a bipartite graph given by the edges of its left nodes.

Union-find with path halving; components are numbered by their first left node, so that the
numbering does not depend on the order of edges.
"""

import numpy as np
from numba import njit

from permatch._types import IntArray


@njit(cache=True, nogil=True)
def find_root(parent: IntArray, node: int) -> int:
    """Return the root of a node, halving the path to it."""
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


@njit(cache=True, nogil=True)
def label_components(
    starts: IntArray, right: IntArray, of_left: IntArray, of_right: IntArray
) -> int:
    """Fill in the component of every node, -1 if it has no edge; return their number."""
    n_left, n_right = len(of_left), len(of_right)
    parent = np.arange(n_left + n_right)
    for i in range(n_left):
        for e in range(starts[i], starts[i + 1]):
            one, other = find_root(parent, i), find_root(parent, n_left + right[e])
            # The smaller number leads: roots are left nodes.
            if one < other:
                parent[other] = one
            else:
                parent[one] = other
    n_found = 0
    for i in range(n_left):
        root = find_root(parent, i)
        if starts[i] == starts[i + 1]:
            of_left[i] = -1
        elif root == i:
            of_left[i] = n_found
            n_found += 1
        else:
            of_left[i] = of_left[root]
    for j in range(n_right):
        root = find_root(parent, n_left + j)
        of_right[j] = of_left[root] if root < n_left else -1
    return n_found


@njit(cache=True, nogil=True)
def group_by_label(labels: IntArray, n_labels: int) -> tuple[IntArray, IntArray]:
    """Return ``(starts, nodes)``: the nodes of a label, ascending; -1 belongs to none."""
    starts = np.zeros(n_labels + 1, dtype=np.int64)
    for label in labels:
        if label >= 0:
            starts[label + 1] += 1
    for k in range(n_labels):
        starts[k + 1] += starts[k]
    place = starts[:-1].copy()
    nodes = np.empty(starts[n_labels], dtype=np.int64)
    for node in range(len(labels)):
        label = labels[node]
        if label >= 0:
            nodes[place[label]] = node
            place[label] += 1
    return starts, nodes
