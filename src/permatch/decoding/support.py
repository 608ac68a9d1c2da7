"""Which edges lie in some matching, and which nodes can stay unmatched."""

from typing import Any

import numpy as np

from permatch._types import BoolArray, IntArray
from permatch.assignment import best_assignment
from permatch.problems import Problem
from permatch.scores import Unmatched, check_problem


def possible_edges(
    scores: Any, *, unmatched_left: Unmatched = None, unmatched_right: Unmatched = None
) -> Any:
    """Return the edges that lie in at least one matching.

    An edge that is allowed need not be possible: it may leave another node, which must be
    matched, without a partner.

    Parameters
    ----------
    scores : array (n, k), sparse array, EdgeScores, stack (b, n, k) or list of these
        Score of each edge; ``-inf``, or no entry, forbids an edge.
    unmatched_left, unmatched_right : number, array, None, or a list of these
        Score of staying unmatched; ``-inf``: must be matched.  None: every node must be
        matched, except on the larger side of an unequal graph.

    Returns
    -------
    array, sparse array or list of booleans, in the form of the scores
        True for the edges of the support.

    Raises
    ------
    InfeasibleGraphError
        If no matching of allowed edges includes every node that must be matched.

    Notes
    -----
    One best matching and one search for strong components.

    References
    ----------
    T. Tassa, "Finding all maximally-matchable edges in a bipartite graph", Theoretical
    Computer Science 423 (2012).

    Examples
    --------
    >>> import numpy as np
    >>> possible_edges(np.array([[0.0, 0.0], [-np.inf, 0.0]]))
    array([[ True, False],
           [False,  True]])
    """
    problem, layout = check_problem(scores, unmatched_left, unmatched_right)
    return layout.edges(find_support(problem, best_assignment(problem).matching)[0])


def find_support(
    problem: Problem, matching: IntArray
) -> tuple[BoolArray, BoolArray, BoolArray]:
    """Return which edges are possible, and which left and right nodes may be unmatched.

    Parameters
    ----------
    problem : Problem
        Any number of graphs.
    matching : ndarray of shape (n_left,)
        Any matching that the problem allows, right nodes numbered as in the problem.

    Returns
    -------
    edges, left, right : ndarray of bool
        Shapes (n_edges,), (n_left,), (n_right,).

    Notes
    -----
    A matching is a flow: a unit leaves every left node, for a right node or for a hub, and
    a unit enters every right node, from a left node or from the hub.  What one flow does
    not use, another does if and only if it lies on a cycle of the residual graph.
    """
    structure = problem.structure
    left_free = problem.unmatched_left > -np.inf
    right_free = problem.unmatched_right > -np.inf
    n, k = structure.n_left, structure.n_right
    if problem.is_partial or problem.is_dense_square:
        return np.ones(structure.n_edges, dtype=bool), left_free, right_free
    is_used = matching[structure.left] == structure.right
    is_taken = np.zeros(k, dtype=bool)
    is_taken[matching[matching >= 0]] = True
    hub = n + k
    # Arcs from left to right nodes, to the hub, and from it; those in use are turned round.
    (some_left,), (some_right,) = np.nonzero(left_free), np.nonzero(right_free)
    tails = np.concatenate([structure.left, some_left, np.full(len(some_right), hub)])
    heads = np.concatenate(
        [n + structure.right, np.full(len(some_left), hub), n + some_right]
    )
    used = np.concatenate([is_used, matching[left_free] < 0, ~is_taken[right_free]])
    labels = _strong_labels(
        np.where(used, heads, tails), np.where(used, tails, heads), hub + 1
    )
    is_possible = used | (labels[tails] == labels[heads])
    n_edges = structure.n_edges
    edges, left, right = np.split(is_possible, [n_edges, n_edges + len(some_left)])
    left_free[left_free], right_free[right_free] = left, right
    return edges, left_free, right_free


def _strong_labels(tails: IntArray, heads: IntArray, n_nodes: int) -> IntArray:
    """Return the strong component of every node."""
    from scipy.sparse import coo_array  # slow to import, rarely needed
    from scipy.sparse.csgraph import connected_components

    arcs = coo_array((np.ones(len(tails), dtype=bool), (tails, heads)), (n_nodes, n_nodes))
    return connected_components(arcs.tocsr(), connection="strong")[1]
