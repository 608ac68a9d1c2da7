"""The scores of matchings, and of a problem on the edges of another."""

import math

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch.problems import Problem

# Entries of tables of matchings that are looked at together.
_AT_ONCE = 1 << 20


def on_edges_of(problem: Problem, other: Problem) -> Problem:
    """Return another problem on the edges of this one; those it lacks score ``-inf``."""
    structure = problem.structure
    places = other.structure.find(structure.left, structure.right)
    scores = np.append(other.scores, -np.inf)[places]
    return Problem(structure, scores, other.unmatched_left, other.unmatched_right)


def total_scores(
    problem: Problem, matchings: IntArray, *, is_rounded_once: bool = False
) -> FloatArray:
    """Return the total scores of matchings of a problem with one graph.

    Parameters
    ----------
    problem : Problem
        One graph.
    matchings : ndarray of shape (r, n_left)
        Right nodes, -1 for unmatched.
    is_rounded_once : bool
        Whether sums are exact but for their last rounding; slower.

    Returns
    -------
    ndarray of shape (r,)
        ``-inf`` for matchings that are not allowed.

    Examples
    --------
    >>> import numpy as np
    >>> from permatch.scores import check_problem
    >>> problem, _ = check_problem(np.array([[1.0, 2.0]]), -1.0, 0.5)
    >>> total_scores(problem, np.array([[0], [1], [-1]]))
    array([1.5, 2.5, 0. ])
    """
    n, k = problem.structure.n_left, problem.structure.n_right
    (may_be_free,) = np.nonzero(problem.unmatched_right > -np.inf)
    must_be_taken = k - len(may_be_free)
    scores = np.append(problem.scores, -np.inf)
    free = problem.unmatched_right[may_be_free]
    totals = np.empty(len(matchings))
    at_once = max(_AT_ONCE // (n + k + 1), 1)
    for first in range(0, len(matchings), at_once):
        some = matchings[first : first + at_once]
        edges = problem.structure.find(np.arange(n), some)
        terms = np.where(some < 0, problem.unmatched_left, scores[edges])
        if len(may_be_free):
            is_taken = np.zeros((len(some), k + 1), dtype=bool)
            np.put_along_axis(is_taken, some, True, axis=1)  # the last column: unmatched
            terms = np.hstack([terms, np.where(is_taken[:, may_be_free], 0.0, free)])
            n_taken = is_taken[:, :k].sum(axis=1) - is_taken[:, may_be_free].sum(axis=1)
        else:
            n_taken = (some >= 0).sum(axis=1)
        sums = (
            np.array([math.fsum(row) for row in terms.tolist()])
            if is_rounded_once
            else terms.sum(axis=1)
        )
        totals[first : first + at_once] = np.where(n_taken == must_be_taken, sums, -np.inf)
    return totals
