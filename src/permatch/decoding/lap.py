"""The single best matching: a linear assignment problem."""

from typing import Any

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch._validation import (
    as_floats,
    check_scores,
    is_list_of_graphs,
    is_sparse,
    no_perfect_matching,
)
from permatch.assignment import best_assignment
from permatch.scores import Unmatched, check_problem

# From here on SciPy's solver, which does not hear Ctrl-C, may take over a second.
_LARGE = 1000


def subtract_row_maxima(scores: FloatArray) -> FloatArray:
    """Shift every row so that its best edge scores 0.

    All matchings lose the same amount, so their order is unchanged; scores that share a
    large offset keep their digits.  A row without allowed edges is left unchanged.
    """
    tops = scores.max(axis=1, keepdims=True, initial=-np.inf)
    return scores - np.where(tops > -np.inf, tops, 0.0)


def best_matching(
    scores: Any, *, unmatched_left: Unmatched = None, unmatched_right: Unmatched = None
) -> Any:
    """Return the matching with the highest total score (the MAP matching).

    Parameters
    ----------
    scores : array (n, k), sparse array, EdgeScores, stack (b, n, k) or list of these
        Score of each edge; ``-inf``, or no entry, forbids an edge.
    unmatched_left, unmatched_right : number, array, None, or a list of these
        Score of staying unmatched; ``-inf``: must be matched.  None: every node must be
        matched, except that on the larger side of an unequal graph it is 0.

    Returns
    -------
    matching : ndarray of shape (n,), stack (b, n) or list, like `scores`
        Left node i is matched to right node ``matching[i]``; -1: unmatched.

    Raises
    ------
    InfeasibleGraphError
        If no matching of allowed edges includes every node that must be matched.

    Notes
    -----
    Dense squares whose nodes must all be matched take O(m^3), by
    `scipy.optimize.linear_sum_assignment`, beyond 1000 nodes by shortest augmenting paths
    of our own, as fast, between which Ctrl-C is heard.  For others such paths run on edges:
    200,000 nodes with 300,000 edges in small components take about 0.02 s.

    Examples
    --------
    >>> import numpy as np
    >>> import permatch as pm
    >>> best_matching(np.array([[3.0, 2.0], [2.0, 0.0]]))
    array([1, 0])
    >>> edges = pm.EdgeScores([0, 1, 1], [0, 0, 1], [3.0, 2.0, -1.0])
    >>> best_matching(edges, unmatched_left=0.0, unmatched_right=0.0)
    array([ 0, -1])
    """
    if unmatched_left is None and unmatched_right is None and is_one_square(scores):
        return _best_of_square(check_scores(scores))
    problem, layout = check_problem(scores, unmatched_left, unmatched_right)
    return layout.matchings(best_assignment(problem).matching)


def is_one_square(scores: Any) -> bool:
    """Return whether scores are a single dense graph with equal sides."""
    if is_sparse(scores) or is_list_of_graphs(scores):
        return False
    shape = as_floats(scores, "scores").shape
    return len(shape) == 2 and shape[0] == shape[1]


def _best_of_square(scores: FloatArray) -> IntArray:
    """Return the best perfect matching of a checked dense graph (m, m)."""
    if len(scores) > _LARGE:
        return _best_of_large(scores)
    from scipy.optimize import linear_sum_assignment  # 0.5 s: only when it is needed

    try:
        _, matching = linear_sum_assignment(subtract_row_maxima(scores), maximize=True)
    except ValueError as err:
        raise no_perfect_matching(scores) from err
    return matching.astype(np.intp, copy=False)


def _best_of_large(scores: FloatArray) -> IntArray:
    """Return the best matching of a graph on which SciPy would be deaf for long."""
    from permatch.kernels.sliced import best_matchings  # slow to import, rarely needed

    found = np.empty((1, len(scores)), dtype=np.int64)
    if not best_matchings(scores[None], found, 0, 1):
        raise no_perfect_matching(scores)
    return found[0].astype(np.intp, copy=False)
