"""The best set of links where nodes may have several: a matching of copies of the nodes.

A node of capacity c has c copies, which any of its edges may use; one with room for all its
edges has a copy for each.  An edge both of whose nodes have several copies that all edges
use could be taken twice.  It becomes a path of three: from a copy of the left node, through
two nodes of its own that must be matched, to a copy of the right node.  Those two are
matched to each other if the edge is not used, and each to its end if it is.
"""

import numpy as np

from permatch._types import BoolArray, FloatArray, IntArray
from permatch.assignment import best_assignment
from permatch.problems import Problem, Structure


def best_links(problem: Problem, gains: FloatArray) -> BoolArray:
    """Return the set of links that gains most, within the capacities of a problem.

    Parameters
    ----------
    problem : Problem
        The allowed edges and the capacities; its scores are not used.
    gains : ndarray of shape (n_edges,)
        What each link gains; those that gain nothing are not used.

    Returns
    -------
    ndarray of shape (n_edges,), bool
        The links that are used.

    Examples
    --------
    >>> import numpy as np
    >>> from permatch.scores import check_problem
    >>> gains = np.array([[3.0, 1.0], [2.0, 1.5], [1.0, -1.0]])
    >>> problem, _ = check_problem(gains, 0.0, 0.0, capacity_right=[2, 1])
    >>> best_links(problem, gains.ravel()).reshape(3, 2)
    array([[ True, False],
           [False,  True],
           [ True, False]])
    """
    (edges,) = np.nonzero(gains > 0.0)
    structure = problem.structure
    left, right = structure.left[edges], structure.right[edges]
    n_left, left_pairs, left_room = _copies(left, problem.capacity_left, structure.n_left)
    n_right, right_pairs, right_room = _copies(
        right, problem.capacity_right, structure.n_right
    )
    # Edges that could be taken twice, numbered; their own nodes follow the copies.
    is_double = (left_room > 1) & (right_room > 1)
    double = np.cumsum(is_double) - 1
    own = double[is_double]
    copies, of = (values[is_double[left_pairs[1]]] for values in left_pairs)
    others, of_others = (values[is_double[right_pairs[1]]] for values in right_pairs)
    pieces = (  # from, to, and the edge whose gain it has
        (own + n_left, own + n_right, np.full(len(own), -1)),
        (copies, double[of] + n_right, np.full(len(of), -1)),
        (double[of_others] + n_left, others, of_others),
        _simple(left_pairs, right_pairs, is_double),
    )
    starts, ends, which = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    order = np.lexsort((ends, starts))
    starts, ends, which = starts[order], ends[order], which[order]
    n, k = n_left + len(own), n_right + len(own)
    counts = np.bincount(starts, minlength=n)
    graph = Structure(
        np.concatenate([[0], np.cumsum(counts)]), ends, np.array([0, n]), np.array([0, k])
    )
    worth = np.where(which >= 0, gains[edges][which], 0.0)
    free = np.zeros(n), np.zeros(k)
    free[0][n_left:] = free[1][n_right:] = -np.inf
    matching = best_assignment(Problem(graph, worth, *free)).matching
    is_used = np.zeros(structure.n_edges, dtype=bool)
    is_used[edges[which[(matching[starts] == ends) & (which >= 0)]]] = True
    return is_used


def _copies(
    nodes: IntArray, capacity: IntArray | None, n: int
) -> tuple[int, tuple[IntArray, IntArray], IntArray]:
    """Return the copies of all nodes, the pairs of a copy and an edge, and the room.

    The room of an edge is the number of copies of its node that other edges use too.
    """
    degree = np.bincount(nodes, minlength=n)
    room = np.ones(n, np.int64) if capacity is None else capacity
    is_free = degree <= room
    first = np.concatenate([[0], np.cumsum(np.where(is_free, degree, room))])
    order = np.argsort(nodes, kind="stable")
    rank = np.empty(len(nodes), np.int64)
    rank[order] = np.arange(len(nodes)) - np.repeat(np.cumsum(degree) - degree, degree)
    shared = np.where(is_free, 1, room)[nodes]
    start = first[nodes] + np.where(is_free[nodes], rank, 0)
    within = np.arange(int(shared.sum())) - np.repeat(np.cumsum(shared) - shared, shared)
    pairs = np.repeat(start, shared) + within, np.repeat(np.arange(len(nodes)), shared)
    return int(first[-1]), pairs, shared


def _simple(
    left: tuple[IntArray, IntArray], right: tuple[IntArray, IntArray], is_double: BoolArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Return the edges between copies of pairs that cannot be taken twice."""
    sides = []
    for copies, edges in (left, right):
        counts = np.bincount(edges, minlength=len(is_double))
        sides.append((copies, np.cumsum(counts) - counts, counts))
    (left_copies, left_at, n_left), (right_copies, right_at, n_right) = sides
    n = np.where(is_double, 0, n_left * n_right)
    edges = np.repeat(np.arange(len(n)), n)
    within = np.arange(int(n.sum())) - np.repeat(np.cumsum(n) - n, n)
    return (
        left_copies[left_at[edges] + within // n_right[edges]],
        right_copies[right_at[edges] + within % n_right[edges]],
        edges,
    )
