"""The k best matchings, by Murty's algorithm."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from permatch._types import FloatArray, IntArray
from permatch._validation import (
    check_count,
    check_scores,
    enough_memory,
    no_perfect_matching,
)
from permatch.decoding.lap import best_matching, subtract_row_maxima
from permatch.kernels import murty

# Matchings whose scores are added up at a time.
_AT_ONCE = 1 << 14


@dataclass(frozen=True, eq=False)
class KBest:
    """Distinct matchings of one graph, best first.

    Attributes
    ----------
    matchings : ndarray of shape (n, m)
        Matching r sends row i to column ``matchings[r, i]``.
    scores : ndarray of shape (n,)
        Total score of each matching, descending.

    Examples
    --------
    >>> import permatch as pm
    >>> best = pm.k_best([[2.0, 1.0], [0.0, 1.5]], 5)
    >>> best.matchings.tolist(), best.scores.tolist()
    ([[0, 1], [1, 0]], [3.5, 1.0])
    """

    matchings: IntArray
    scores: FloatArray


def _count_bound(scores: FloatArray) -> int:
    """Return a number no smaller than the number of perfect matchings."""
    is_allowed = scores > -np.inf
    by_row = math.prod(is_allowed.sum(axis=1).tolist())
    by_col = math.prod(is_allowed.sum(axis=0).tolist())
    return min(by_row, by_col, math.factorial(len(scores)))


def k_best(scores: ArrayLike, k: int) -> KBest:
    """Return the k matchings with the highest total scores.

    The matchings are distinct, the first is that of `best_matching`, and fewer than `k` are
    returned if the graph has fewer.  Ties for the last place are broken arbitrarily but
    reproducibly.

    Parameters
    ----------
    scores : ndarray of shape (m, m)
        Score of each edge; ``-inf`` forbids an edge.
    k : int
        Number of matchings, at least 1.

    Returns
    -------
    KBest
        The matchings and their scores, best first.

    Raises
    ------
    InfeasibleGraphError
        If the allowed edges contain no perfect matching.
    InvalidOptionError
        If `k` is not an integer of at least 1.

    Notes
    -----
    O(m^3) for the first matching and O(m^2) per path searched after it: at least one per
    matching, usually two to four at m = 50, at worst m.  O(k m) memory.

    Examples
    --------
    >>> import numpy as np
    >>> best = k_best(np.array([[3.0, 2.0], [2.0, 0.0]]), 5)
    >>> best.matchings
    array([[1, 0],
           [0, 1]])
    >>> best.scores
    array([4., 3.])
    """
    scores = check_scores(scores)
    m = len(scores)
    k = min(check_count(k, "k", 1), max(_count_bound(scores), 1))
    cost = np.ascontiguousarray(-subtract_row_maxima(scores))
    # Matchings, order and prices of k nodes, and the matchings themselves.
    with enough_memory(f"k_best of {k} matchings at size {m}", 32.0 * k * m):
        matchings = np.empty((k, m), np.intp)
        n_found = murty.k_best(cost, k, matchings, np.empty(k))
    if n_found == 0:
        raise no_perfect_matching(scores)
    matchings = matchings[:n_found]
    # Sums of the original scores, each rounded once; they may order near ties differently.
    totals = np.concatenate(
        [
            _totals(scores, matchings[first : first + _AT_ONCE])
            for first in range(0, n_found, _AT_ONCE)
        ]
    )
    rank = np.argsort(-totals, kind="stable")
    return _lead_with(best_matching(scores), matchings[rank], totals[rank])


def _totals(scores: FloatArray, matchings: IntArray) -> FloatArray:
    """Return the scores of some matchings, each rounded once."""
    picked = scores[np.arange(len(scores)), matchings]
    return np.array([math.fsum(row) for row in picked.tolist()])


def _lead_with(mode: IntArray, matchings: IntArray, totals: FloatArray) -> KBest:
    """Put the matching of `best_matching` first among its equals."""
    (places,) = np.nonzero((matchings == mode).all(axis=1))
    if places.size == 0:  # one of more than k equals, which another one has to stand for
        matchings[0] = mode
    else:
        order = np.r_[places[0], np.delete(np.arange(len(matchings)), places[0])]
        matchings, totals = matchings[order], totals[order]
    return KBest(matchings, totals)
