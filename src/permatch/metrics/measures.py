"""Measures of ranking as values: ``NDCG(discount="letor") @ 10``.

A new measure is a class here, with its options as fields and one method that computes, and
an entry in the table `MEASURES`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from permatch._types import FloatArray
from permatch.errors import GradeError
from permatch.kernels.ranking.lists import expected_stops, kendall_tau_b
from permatch.metrics.base import Measure
from permatch.metrics.lists import RankedLists

Ties = Literal["stable", "expected"]


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class NDCG(Measure):
    """Normalised discounted cumulative gain.

    The sum of gain times discount over the first `k` documents (default: 10), divided by
    that of the best order.

    Parameters
    ----------
    k, ties, no_relevant
        See `Measure`.
    discount : {"paper", "letor"}
        ``1 / log2(1 + j)`` at position j; or that of LETOR's evaluation script, 1 for the
        first two positions, then ``1 / log2(j)``.
    gain : {"exponential", "linear"}
        ``2^r - 1`` for grade r, or r itself.

    Notes
    -----
    The two discounts agree only at ``k=1``; on LETOR's data their means differ by up to
    0.005, so report which one was used.  LETOR averages the means of its folds, which is
    not the mean over all queries.

    Examples
    --------
    >>> from permatch.metrics import NDCG
    >>> y, score = [2, 0, 1], [0.1, 0.5, 0.3]
    >>> round((NDCG @ 3)(y, score), 4), round((NDCG(gain="linear") @ 3)(y, score), 4)
    (0.5869, 0.6199)
    """

    k: int | None = 10
    ties: Ties = "stable"
    no_relevant: float = 0.0
    discount: Literal["paper", "letor"] = "paper"
    gain: Literal["exponential", "linear"] = "exponential"

    def _values(self, lists: RankedLists) -> FloatArray:
        return self._at(lists, [self.k])

    def _at(self, lists: RankedLists, cuts: Sequence[int | None]) -> FloatArray:
        worth = np.arange(lists.grades.max() + 1.0)
        worth = np.exp2(worth) - 1.0 if self.gain == "exponential" else worth
        positions = np.arange(1.0, lists.lengths.max() + 1.0)
        if self.discount == "paper":
            weights = (1.0 / np.log2(1.0 + positions))[lists.ranks]
        else:
            weights = (1.0 / np.log2(np.maximum(positions, 2.0)))[lists.ranks]
        gains = worth[lists.grades]
        reached = lists.tie_means(gains) if self.ties == "expected" else gains
        found = lists.sums_at(reached * weights, cuts)
        best = lists.sums_at(gains[lists.best_order] * weights, cuts)
        values = np.full_like(found, self.no_relevant)
        return np.divide(found, best, out=values, where=best > 0.0)


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class MeanNDCG(NDCG):
    """The mean of NDCG@1, NDCG@2, ... NDCG@k; the options are those of `NDCG`.

    Examples
    --------
    >>> from permatch.metrics import MeanNDCG, ndcg
    >>> y, score = [2, 0, 1], [0.1, 0.5, 0.3]
    >>> round((MeanNDCG @ 3)(y, score), 4), ndcg(y, score, k=[1, 2, 3]).round(4)
    (0.2535, array([0.    , 0.1738, 0.5869]))
    """

    def _values(self, lists: RankedLists) -> FloatArray:
        longest = int(lists.lengths.max())
        k = longest if self.k is None else self.k
        values = self._at(lists, range(1, 1 + min(k, longest)))
        if k == values.shape[1]:
            return values
        return np.pad(values, ((0, 0), (0, k - values.shape[1])), mode="edge")


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class P(Measure):
    """Precision: the share of relevant documents among the first `k` (default: 10).

    In a list shorter than `k`, missing positions count as not relevant, as in LETOR and
    trec_eval.  Options: `threshold`, `ties`; see `Measure`.

    Examples
    --------
    >>> from permatch.metrics import P
    >>> (P @ 2)([2, 0, 1], [0.1, 0.5, 0.3])
    0.5
    """

    k: int | None = 10
    threshold: int = 1
    ties: Ties = "stable"

    def _values(self, lists: RankedLists) -> FloatArray:
        is_relevant = (lists.grades >= self.threshold).astype(np.float64)
        if self.ties == "expected":
            is_relevant = lists.tie_means(is_relevant)
        n_places = lists.lengths[:, None] if self.k is None else self.k
        return lists.sums_at(is_relevant, [self.k]) / n_places


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class MAP(Measure):
    """Mean average precision.

    The average precision of a list is the mean of the precision at each of its relevant
    documents.  Options: `threshold`, `ties`, `no_relevant`; see `Measure`.

    Examples
    --------
    >>> from permatch.metrics import MAP
    >>> round(MAP()([2, 0, 1], [0.1, 0.5, 0.3]), 4)
    0.5833
    """

    threshold: int = 1
    ties: Ties = "stable"
    no_relevant: float = 0.0

    def _values(self, lists: RankedLists) -> FloatArray:
        is_relevant = (lists.grades >= self.threshold).astype(np.int64)
        n_relevant = lists.sums(is_relevant)
        if self.ties == "expected":
            precisions = _expected_precisions(lists, is_relevant)
        else:
            hits = lists.above(is_relevant) + 1.0
            precisions = is_relevant * hits / (lists.ranks + 1.0)
        values = np.full(lists.n_queries, self.no_relevant, dtype=np.float64)
        np.divide(lists.sums(precisions), n_relevant, out=values, where=n_relevant > 0)
        return values[:, None]


def _expected_precisions(lists: RankedLists, is_relevant: np.ndarray) -> FloatArray:
    """Return the mean of [relevant] times precision at every position, ties in any order.

    With r relevant among the n documents of a tie and a above it, place i of the tie is
    relevant with probability r / n, and there are then a + 1 + (i - 1) (r - 1) / (n - 1)
    relevant ones down to it.
    """
    first, sizes = lists.ties[:-1], np.diff(lists.ties)
    tied = np.repeat(np.add.reduceat(is_relevant, first), sizes)
    before = np.repeat(lists.above(is_relevant)[first], sizes)
    place = np.arange(len(is_relevant)) - np.repeat(first, sizes)
    size = np.repeat(sizes, sizes)
    among = place * (tied - 1.0) / np.maximum(size - 1, 1)
    return tied / size * (before + 1.0 + among) / (lists.ranks + 1.0)


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class MRR(Measure):
    """Mean reciprocal rank: one over the position of the first relevant document.

    A list without a relevant document among the first `k` counts 0.  Options:
    `threshold`, `ties`, `no_relevant`; see `Measure`.

    Examples
    --------
    >>> from permatch.metrics import MRR
    >>> MRR()([2, 0, 1], [0.1, 0.5, 0.3])
    0.5
    """

    k: int | None = None
    threshold: int = 1
    ties: Ties = "stable"
    no_relevant: float = 0.0

    def _values(self, lists: RankedLists) -> FloatArray:
        is_relevant = (lists.grades >= self.threshold).astype(np.float64)
        values = _stops(lists, is_relevant, self.k, self.ties)
        values[lists.sums(is_relevant) == 0.0] = self.no_relevant
        return values


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class ERR(Measure):
    """Expected reciprocal rank: one over the position where a reader stops.

    A reader of the first `k` documents (default: 10) is satisfied by one of grade r with
    probability ``(2^r - 1) / 2^max_grade`` (Chapelle et al., CIKM 2009).

    Parameters
    ----------
    k, ties
        See `Measure`.
    max_grade : int, optional
        The highest possible grade; default: the highest in the data.  Set it to compare
        several sets of queries.

    Notes
    -----
    ``ties="expected"`` takes n min(n, k) steps for n documents of equal score.

    Examples
    --------
    >>> from permatch.metrics import ERR
    >>> ERR()([2, 0, 1], [0.1, 0.5, 0.3])
    0.3125
    """

    k: int | None = 10
    ties: Ties = "stable"
    max_grade: int | None = None

    def _values(self, lists: RankedLists) -> FloatArray:
        highest = int(lists.grades.max())
        if self.max_grade is not None and self.max_grade < highest:
            raise GradeError(
                f"max_grade must be at least the highest grade; got {self.max_grade} "
                f"and a grade of {highest}. Raise max_grade."
            )
        top = highest if self.max_grade is None else self.max_grade
        stops = (np.exp2(lists.grades) - 1.0) / np.exp2(top)
        return _stops(lists, stops, self.k, self.ties)


def _stops(lists: RankedLists, stops: FloatArray, k: int | None, ties: str) -> FloatArray:
    """Return the mean of 1 / position of the stop (q, 1)."""
    bounds = lists.ties if ties == "expected" else np.arange(len(stops) + 1)
    values = np.empty(lists.n_queries)
    expected_stops(stops, lists.starts, bounds, len(stops) if k is None else k, values)
    return values[:, None]


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class Tau(Measure):
    """Kendall's tau-b between scores and grades, from -1 to 1.

    Concordant minus discordant pairs, divided by the geometric mean of the number of pairs
    with different grades and of those with different scores.

    Parameters
    ----------
    undefined : float
        The value of a query with a single grade; NaN leaves it out of the mean.

    Notes
    -----
    A pair with equal grades or equal scores is neither.  If all scores of a query are
    equal, tau is 0.

    Examples
    --------
    >>> from permatch.metrics import Tau
    >>> Tau()([2, 0, 1], [0.1, 0.5, 0.3])
    -1.0
    """

    undefined: float = np.nan

    def _values(self, lists: RankedLists) -> FloatArray:
        values = np.empty(lists.n_queries)
        n_grades = int(lists.grades.max()) + 1
        kendall_tau_b(lists.grades, lists.starts, lists.ties, n_grades, values)
        values[np.isnan(values)] = self.undefined
        return values[:, None]


#: Every measure by name; parsing and messages use it.
MEASURES: dict[str, type[Measure]] = {
    measure.__name__: measure for measure in (NDCG, MeanNDCG, MAP, P, ERR, MRR, Tau)
}
