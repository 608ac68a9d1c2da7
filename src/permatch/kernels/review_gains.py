"""What knowing the truth about one edge is worth for decisions on those that share a node.

An edge that is taken for a link with probability p costs ``false (1 - p)``, one that is not
``missed p``; the cheaper is done, at the cost ``L(p) = min(missed p, false (1 - p))``.
Edges of one node exclude each other: if one with probability p is a link the others are
not, and if it is not, their probabilities q become ``q / (1 - p)``.  So knowing about it
saves ``L(p)`` on itself and, on each of the others,

    L(q) - (1 - p) L(q / (1 - p)) = L(q) - min(missed q, false (1 - p - q)).
"""

import numpy as np
from numba import njit

from permatch._types import FloatArray, IntArray


@njit(cache=True, nogil=True)
def add_gains(
    starts: IntArray,
    edges: IntArray,
    chances: FloatArray,
    missed: float,
    false: float,
    least: float,
    gains: FloatArray,
) -> None:
    """Add what each edge saves on the other edges of its node, for all nodes of a side.

    The edges of node i are ``edges[starts[i]:starts[i + 1]]``; those less probable than
    `least` are left out.
    """
    n_nodes = len(starts) - 1
    most = 0
    for i in range(n_nodes):
        most = max(most, starts[i + 1] - starts[i])
    own = np.empty(most, np.int64)
    for i in range(n_nodes):
        n_own = 0
        for k in range(starts[i], starts[i + 1]):
            if chances[edges[k]] >= least:
                own[n_own] = edges[k]
                n_own += 1
        for a in range(n_own):
            p = chances[own[a]]
            total = 0.0
            for b in range(n_own):
                if b != a:
                    q = chances[own[b]]
                    before = min(missed * q, false * (1.0 - q))
                    total += before - min(missed * q, false * max(1.0 - p - q, 0.0))
            gains[own[a]] += total
