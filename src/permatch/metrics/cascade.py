"""How soon the reader of a ranked list is satisfied, and how well orders agree."""

from typing import Any, Literal

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch._validation import check_count
from permatch.errors import GradeError
from permatch.kernels.ranking.lists import expected_stops, kendall_tau_b
from permatch.metrics.lists import (
    TIES,
    RankedLists,
    check_choice,
    check_cuts,
    check_threshold,
    rank_lists,
    summarise,
)
from permatch.metrics.ranking import Cut


def reciprocal_rank(
    y: Any,
    score: Any,
    qid: Any = None,
    k: Cut = None,
    *,
    group: Any = None,
    threshold: int = 1,
    ties: Literal["stable", "expected"] = "stable",
    no_relevant: float = 0.0,
    per_query: bool = False,
) -> float | FloatArray:
    """Return the mean reciprocal rank (MRR), one over the first relevant position.

    Parameters
    ----------
    y : array of shape (n,)
        Grades: whole numbers, 0 and up.
    score : array of shape (n,)
        Predicted scores; the highest comes first.
    qid : array of shape (n,), optional
        The query of every document, in any order; by default all are of one query.
    k : int, None or sequence of them
        A list counts 0 if none of its first `k` documents is relevant; None for all.
    group : array of shape (q,), optional
        Instead of `qid`: how many consecutive rows each query has.
    threshold : int
        The lowest grade that is relevant.
    ties : {"stable", "expected"}
        Documents with equal scores keep the order given, or the mean over all of their
        orders is taken.
    no_relevant : float
        The value of a query without any relevant document; NaN leaves it out of the mean.
    per_query : bool
        Return a value for every query, in the order of their first rows.

    Returns
    -------
    float or ndarray
        The mean over queries; with a sequence `k` an array with a mean for each; with
        `per_query` an array of shape (q,) or (q, len(k)).

    Examples
    --------
    >>> reciprocal_rank([2, 0, 1], [0.1, 0.5, 0.3])
    0.5
    """
    check_choice(ties, "ties", TIES)
    threshold = check_threshold(threshold)
    cuts, is_sequence = check_cuts(k)
    lists = rank_lists(y, score, qid, group)
    is_relevant = (lists.grades >= threshold).astype(np.float64)
    values = _stops_at(lists, is_relevant, cuts, ties)
    values[lists.sums(is_relevant) == 0.0] = no_relevant
    return summarise(values, is_sequence, per_query)


def expected_reciprocal_rank(
    y: Any,
    score: Any,
    qid: Any = None,
    k: Cut = 10,
    *,
    group: Any = None,
    max_grade: int | None = None,
    ties: Literal["stable", "expected"] = "stable",
    per_query: bool = False,
) -> float | FloatArray:
    """Return the expected reciprocal rank (ERR): one over where a reader stops.

    Someone reads down the list and is satisfied by a document of grade r with probability
    ``(2^r - 1) / 2^max_grade`` (Chapelle et al., CIKM 2009).

    Parameters
    ----------
    y : array of shape (n,)
        Grades: whole numbers, 0 and up.
    score : array of shape (n,)
        Predicted scores; the highest comes first.
    qid : array of shape (n,), optional
        The query of every document, in any order; by default all are of one query.
    k : int, None or sequence of them
        How many documents are read; None for all.
    group : array of shape (q,), optional
        Instead of `qid`: how many consecutive rows each query has.
    max_grade : int, optional
        The highest grade there can be; by default the highest there is in `y`.  Give it
        when figures of several sets of queries are compared.
    ties : {"stable", "expected"}
        Documents with equal scores keep the order given, or the mean over all of their
        orders is taken.
    per_query : bool
        Return a value for every query, in the order of their first rows.

    Returns
    -------
    float or ndarray
        The mean over queries; with a sequence `k` an array with a mean for each; with
        `per_query` an array of shape (q,) or (q, len(k)).

    Notes
    -----
    ``ties="expected"`` takes n min(n, k) steps for n documents of equal score.

    Examples
    --------
    >>> expected_reciprocal_rank([2, 0, 1], [0.1, 0.5, 0.3])
    0.3125
    """
    check_choice(ties, "ties", TIES)
    cuts, is_sequence = check_cuts(k)
    lists = rank_lists(y, score, qid, group)
    highest = int(lists.grades.max())
    if max_grade is not None and check_count(max_grade, "max_grade", 0) < highest:
        raise GradeError(
            f"max_grade must be at least as high as all grades; got {max_grade} and a "
            f"grade of {highest}. Raise max_grade."
        )
    top = highest if max_grade is None else max_grade
    stops = (np.exp2(lists.grades) - 1.0) / np.exp2(top)
    return summarise(_stops_at(lists, stops, cuts, ties), is_sequence, per_query)


def kendall_tau(
    y: Any,
    score: Any,
    qid: Any = None,
    *,
    group: Any = None,
    undefined: float = np.nan,
    per_query: bool = False,
) -> float | FloatArray:
    """Return Kendall's tau-b between scores and grades, from -1 to 1.

    Pairs in the right order less pairs in the wrong one, divided by the geometric mean of
    the number of pairs with different grades and of pairs with different scores.

    Parameters
    ----------
    y : array of shape (n,)
        Grades: whole numbers, 0 and up.
    score : array of shape (n,)
        Predicted scores; the highest comes first.
    qid : array of shape (n,), optional
        The query of every document, in any order; by default all are of one query.
    group : array of shape (q,), optional
        Instead of `qid`: how many consecutive rows each query has.
    undefined : float
        The value of a query whose documents all have one grade; NaN leaves it out of the
        mean.
    per_query : bool
        Return a value for every query, in the order of their first rows.

    Returns
    -------
    float or ndarray
        The mean over queries, or with `per_query` an array of shape (q,).

    Notes
    -----
    A pair with equal grades or equal scores is in neither order.  If all scores of a query
    are equal, tau is 0.

    Examples
    --------
    >>> kendall_tau([2, 0, 1], [0.1, 0.5, 0.3])
    -1.0
    """
    lists = rank_lists(y, score, qid, group)
    values = np.empty(lists.n_queries)
    n_grades = int(lists.grades.max()) + 1
    kendall_tau_b(lists.grades, lists.starts, _ties(lists), n_grades, values)
    values[np.isnan(values)] = undefined
    return summarise(values[:, None], False, per_query)


def _stops_at(
    lists: RankedLists, stops: FloatArray, cuts: list[int | None], ties: str
) -> FloatArray:
    """Return the mean of 1 / position of the stop (q, len(cuts))."""
    bounds = _ties(lists) if ties == "expected" else np.arange(len(stops) + 1)
    values = np.empty((len(cuts), lists.n_queries))
    for row, cut in zip(values, cuts, strict=True):
        expected_stops(stops, lists.starts, bounds, len(stops) if cut is None else cut, row)
    return values.T.copy()


def _ties(lists: RankedLists) -> IntArray:
    return np.append(lists.tie_starts(), len(lists.grades))
