"""The single best matching: a linear assignment problem, on scores or on marginals."""

import numpy as np
from numpy.typing import ArrayLike

from permatch._types import BoolArray, FloatArray, IntArray
from permatch._validation import check_scores, no_perfect_matching, refuse_masked
from permatch.errors import ScoreTypeError

# From here on SciPy's solver, which does not hear Ctrl-C, may take over a second.
_LARGE = 1000


def subtract_row_maxima(scores: FloatArray) -> FloatArray:
    """Shift every row so that its best edge scores 0.

    All matchings lose the same amount, so their order is unchanged; scores that share a
    large offset keep their digits.  A row without allowed edges is left unchanged.
    """
    tops = scores.max(axis=1, keepdims=True, initial=-np.inf)
    return scores - np.where(tops > -np.inf, tops, 0.0)


def best_matching(scores: ArrayLike) -> IntArray:
    """Return the matching with the highest total score (the MAP matching).

    Parameters
    ----------
    scores : ndarray of shape (m, m)
        Score of each edge; ``-inf`` forbids an edge.

    Returns
    -------
    matching : ndarray of shape (m,)
        Row i is matched to column ``matching[i]``.

    Raises
    ------
    InfeasibleGraphError
        If the allowed edges contain no perfect matching.

    Notes
    -----
    O(m^3), by `scipy.optimize.linear_sum_assignment`, beyond 1000 nodes by shortest
    augmenting paths of our own, as fast, between which Ctrl-C is heard.

    Examples
    --------
    >>> import numpy as np
    >>> best_matching(np.array([[3.0, 2.0], [2.0, 0.0]]))
    array([1, 0])
    """
    scores = check_scores(scores)
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


def bayes_matching(marginals: ArrayLike, allowed: BoolArray | None = None) -> IntArray:
    """Return the matching with the fewest expected errors.

    The expected Hamming loss of a matching is ``m - sum(marginals[i, matching[i]])``, so
    the best choice is the assignment that collects the most probability.  It need not be
    the most probable matching; without `allowed` it may use an edge of probability zero.

    Parameters
    ----------
    marginals : ndarray of shape (m, m)
        Probability of each edge; rows and columns sum to one.
    allowed : ndarray of shape (m, m), optional
        False where an edge must not be used.

    Returns
    -------
    matching : ndarray of shape (m,)
        Row i is matched to column ``matching[i]``.

    Notes
    -----
    O(m^3), by `best_matching`.

    Examples
    --------
    >>> import numpy as np
    >>> bayes_matching(np.array([[0.4, 0.6], [0.6, 0.4]]))
    array([1, 0])
    """
    refuse_masked(marginals, "marginals", ScoreTypeError)
    refuse_masked(allowed, "allowed", ScoreTypeError)
    if allowed is None:
        return best_matching(marginals)
    return best_matching(np.where(allowed, marginals, -np.inf))
