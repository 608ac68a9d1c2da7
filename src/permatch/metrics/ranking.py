"""How good rankings are: measures by the relevance of what stands on top."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from permatch._types import FloatArray
from permatch.metrics.lists import (
    TIES,
    RankedLists,
    check_choice,
    check_cuts,
    check_threshold,
    rank_lists,
    summarise,
)

#: How little a position counts, the further down it is.
DISCOUNTS = ("paper", "letor")

#: What a grade is worth.
GAINS = ("exponential", "linear")

#: A position to cut lists at, None for whole lists, or several of these.
Cut = int | None | Sequence[int | None]


def ndcg(
    y: Any,
    score: Any,
    qid: Any = None,
    k: Cut = 10,
    *,
    group: Any = None,
    discount: Literal["paper", "letor"] = "paper",
    gain: Literal["exponential", "linear"] = "exponential",
    ties: Literal["stable", "expected"] = "stable",
    no_relevant: float = 0.0,
    per_query: bool = False,
) -> float | FloatArray:
    """Return the normalised discounted cumulative gain (NDCG) of ranked lists.

    The gains of the first `k` documents, each times the discount of its position, are added
    up and divided by what the best order of the list would have.

    Parameters
    ----------
    y : array of shape (n,)
        Grades: whole numbers, 0 (not relevant) and up.
    score : array of shape (n,)
        Predicted scores; the highest comes first.
    qid : array of shape (n,), optional
        The query of every document, in any order; by default all are of one query.
    k : int, None or sequence of them
        How many documents count; None for all.  A shorter list is taken as it is.
    group : array of shape (q,), optional
        Instead of `qid`: how many consecutive rows each query has.
    discount : {"paper", "letor"}
        Of position j: ``1 / log2(1 + j)``; or that of LETOR's evaluation script, 1 for the
        first two positions, then ``1 / log2(j)``.
    gain : {"exponential", "linear"}
        Of grade r: ``2^r - 1``, or r itself.
    ties : {"stable", "expected"}
        Documents with equal scores keep the order given, as in LETOR's script; or all of
        their orders are equally likely and the mean over them is taken.
    no_relevant : float
        The value of a query without any relevant document; LETOR has 0.  NaN leaves such
        queries out of the mean.
    per_query : bool
        Return a value for every query, in the order of their first rows.

    Returns
    -------
    float or ndarray
        The mean over queries; with a sequence `k` an array with a mean for each; with
        `per_query` an array of shape (q,) or (q, len(k)).

    Notes
    -----
    The two discounts agree at ``k=1`` only.  On LETOR's own data their means differ by up
    to 0.005, so say which one a figure is of.  A mean over all queries is not LETOR's mean
    of the means of its folds, which have different numbers of queries.

    Examples
    --------
    >>> ndcg([2, 0, 1], [0.1, 0.5, 0.3], k=[1, 3]).round(4)
    array([0.    , 0.5869])
    """
    check_choice(discount, "discount", DISCOUNTS)
    check_choice(gain, "gain", GAINS)
    check_choice(ties, "ties", TIES)
    cuts, is_sequence = check_cuts(k)
    lists = rank_lists(y, score, qid, group)
    worth = np.arange(lists.grades.max() + 1.0)
    gains = (np.exp2(worth) - 1.0 if gain == "exponential" else worth)[lists.grades]
    weights = _discounts(int(lists.lengths.max()), discount)[lists.ranks]
    reached = lists.tie_means(gains) if ties == "expected" else gains
    found = lists.sums_at(reached * weights, cuts)
    best = lists.sums_at(lists.by_grade(gains) * weights, cuts)
    values = np.full_like(found, no_relevant)
    np.divide(found, best, out=values, where=best > 0.0)
    return summarise(values, is_sequence, per_query)


def precision_at(
    y: Any,
    score: Any,
    qid: Any = None,
    k: Cut = 10,
    *,
    group: Any = None,
    threshold: int = 1,
    ties: Literal["stable", "expected"] = "stable",
    per_query: bool = False,
) -> float | FloatArray:
    """Return the share of relevant documents among the first `k`.

    Parameters
    ----------
    y : array of shape (n,)
        Grades: whole numbers, 0 and up.
    score : array of shape (n,)
        Predicted scores; the highest comes first.
    qid : array of shape (n,), optional
        The query of every document, in any order; by default all are of one query.
    k : int, None or sequence of them
        How many documents count; None for all.  The places that a list shorter than `k`
        lacks count as not relevant, as in LETOR and trec_eval.
    group : array of shape (q,), optional
        Instead of `qid`: how many consecutive rows each query has.
    threshold : int
        The lowest grade that is relevant.
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

    Examples
    --------
    >>> precision_at([2, 0, 1], [0.1, 0.5, 0.3], k=2)
    0.5
    """
    check_choice(ties, "ties", TIES)
    threshold = check_threshold(threshold)
    cuts, is_sequence = check_cuts(k)
    lists = rank_lists(y, score, qid, group)
    is_relevant = (lists.grades >= threshold).astype(np.float64)
    if ties == "expected":
        is_relevant = lists.tie_means(is_relevant)
    values = lists.sums_at(is_relevant, cuts)
    for column, cut in enumerate(cuts):
        values[:, column] /= lists.lengths if cut is None else cut
    return summarise(values, is_sequence, per_query)


def average_precision(
    y: Any,
    score: Any,
    qid: Any = None,
    *,
    group: Any = None,
    threshold: int = 1,
    ties: Literal["stable", "expected"] = "stable",
    no_relevant: float = 0.0,
    per_query: bool = False,
) -> float | FloatArray:
    """Return the mean average precision (MAP) of ranked lists.

    The average precision of a list is the mean, over its relevant documents, of the share
    of relevant documents from the top down to that one.

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
        The mean over queries, or with `per_query` an array of shape (q,).

    Examples
    --------
    >>> round(average_precision([2, 0, 1], [0.1, 0.5, 0.3]), 4)
    0.5833
    """
    check_choice(ties, "ties", TIES)
    threshold = check_threshold(threshold)
    lists = rank_lists(y, score, qid, group)
    is_relevant = (lists.grades >= threshold).astype(np.int64)
    n_relevant = lists.sums(is_relevant)
    if ties == "expected":
        precisions = _expected_precisions(lists, is_relevant)
    else:
        precisions = is_relevant * (lists.above(is_relevant) + 1.0) / (lists.ranks + 1.0)
    values = np.full((lists.n_queries, 1), no_relevant, dtype=np.float64)
    has_any = n_relevant > 0
    values[has_any, 0] = lists.sums(precisions)[has_any] / n_relevant[has_any]
    return summarise(values, False, per_query)


def _discounts(length: int, discount: str) -> FloatArray:
    """Return the discount of the positions 1 .. length."""
    positions = np.arange(1.0, length + 1.0)
    if discount == "paper":
        return 1.0 / np.log2(1.0 + positions)
    return 1.0 / np.log2(np.maximum(positions, 2.0))


def _expected_precisions(lists: RankedLists, is_relevant: Any) -> FloatArray:
    """Return the mean of [relevant] times precision at every position, ties in any order.

    With r relevant among the n documents of a tie and a above it, place i of the tie is
    relevant with probability r / n, and there are then a + 1 + (i - 1) (r - 1) / (n - 1)
    relevant ones down to it.
    """
    first = lists.tie_starts()
    sizes = np.diff(np.append(first, len(is_relevant)))
    tied = np.repeat(np.add.reduceat(is_relevant, first), sizes)
    before = np.repeat(lists.above(is_relevant)[first], sizes)
    place = np.arange(len(is_relevant)) - np.repeat(first, sizes)
    size = np.repeat(sizes, sizes)
    among = place * (tied - 1.0) / np.maximum(size - 1, 1)
    return tied / size * (before + 1.0 + among) / (lists.ranks + 1.0)
