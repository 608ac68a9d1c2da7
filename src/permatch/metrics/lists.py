"""Judged lists sorted by score, shared by all measures of ranking.

All rows are sorted at once, by query and decreasing score; documents of a query with equal
scores form a tie.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch._validation import refuse_masked
from permatch.errors import InvalidQueriesError
from permatch.queries import check_grades, query_rows

# Lists are padded to the largest cut where that takes at most so many times their length.
_PADDING = 4


@dataclass(frozen=True, eq=False)
class RankedLists:
    """Grades of all documents, query by query, sorted by decreasing score."""

    grades: IntArray  # (n,); query k has the rows starts[k]:starts[k + 1]
    scores: FloatArray  # (n,)
    starts: IntArray  # where the queries begin, and the end, (q + 1,)
    ranks: IntArray  # position of a row in its list, from 0, (n,)

    @property
    def n_queries(self) -> int:
        """Number of lists, q."""
        return len(self.starts) - 1

    @property
    def lengths(self) -> IntArray:
        """Number of documents of every list."""
        return np.diff(self.starts)

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Return the sum of `values` over the documents of every query."""
        return np.add.reduceat(values, self.starts[:-1])

    def sums_at(self, values: FloatArray, cuts: Sequence[int | None]) -> FloatArray:
        """Return the sums (q, len(cuts)) over the top documents of every list."""
        tops = [cut for cut in cuts if cut is not None]
        if len(tops) == len(cuts) and self.n_queries * max(tops) <= _PADDING * len(values):
            return self._sums_at_each(values, max(tops))[:, np.array(tops) - 1]
        columns = [
            self.sums(values if cut is None else np.where(self.ranks < cut, values, 0.0))
            for cut in cuts
        ]
        return np.column_stack(columns)

    def _sums_at_each(self, values: FloatArray, n_tops: int) -> FloatArray:
        """Return the sums (q, n_tops) over the top 1, 2, ... documents of every list."""
        is_top = self.ranks < n_tops
        table = np.zeros((self.n_queries, n_tops))
        table[self._owners[is_top], self.ranks[is_top]] = values[is_top]
        return np.cumsum(table, axis=1)

    def above(self, values: np.ndarray) -> np.ndarray:
        """Return for every row the sum of whole `values` above it in its list."""
        running = np.cumsum(values) - values
        return running - np.repeat(running[self.starts[:-1]], self.lengths)

    @cached_property
    def best_order(self) -> IntArray:
        """The rows in the best order of every list."""
        return np.lexsort((-self.grades, self._owners))

    @cached_property
    def _owners(self) -> IntArray:
        """The query of every row."""
        return np.repeat(np.arange(self.n_queries), self.lengths)

    @cached_property
    def ties(self) -> IntArray:
        """The first row of every tie, one document alone included, and the end."""
        is_first = self.ranks == 0
        is_first[1:] |= self.scores[1:] != self.scores[:-1]
        return np.append(np.flatnonzero(is_first), len(is_first))

    def tie_means(self, values: FloatArray) -> FloatArray:
        """Return `values` averaged over each tie."""
        sizes = np.diff(self.ties)
        if len(sizes) == len(values):
            return values
        return np.repeat(np.add.reduceat(values, self.ties[:-1]) / sizes, sizes)


def rank_lists(y: Any, score: Any, qid: Any, group: Any) -> RankedLists:
    """Check grades, scores and queries, and sort every list by decreasing score.

    Equal scores keep the order given; without `qid` and `group` there is one list.
    """
    scores = check_scores(score)
    grades = check_grades(y, len(scores))
    rows = query_rows(qid, group, len(scores), is_one_default=True)
    grades, scores = rows.gather(grades), rows.gather(scores)
    order = rows.best_first(scores)
    ranks = np.arange(len(scores)) - rows.starts[rows.owners]
    return RankedLists(grades[order], scores[order], rows.starts, ranks)


def check_scores(score: Any) -> FloatArray:
    """Return one score per document, (n,), infinite ones among them."""
    advice = "Use score.filled(-np.inf) for documents that come last."
    refuse_masked(score, "score", InvalidQueriesError, advice)
    try:
        scores = np.asarray(score, dtype=np.float64)
    except (TypeError, ValueError) as err:
        raise InvalidQueriesError(
            f"score must have one number per document; {err}. Pass what predict returns."
        ) from err
    if scores.ndim == 2 and scores.shape[1] == 1:
        scores = scores[:, 0]
    if scores.ndim != 1 or len(scores) == 0:
        raise InvalidQueriesError(
            "score must have one number per document, at least one; got shape "
            f"{scores.shape}."
        )
    if np.isnan(scores).any():
        raise InvalidQueriesError(
            f"score must not contain NaN; got {np.isnan(scores).sum()} of them, the first "
            f"at row {int(np.argmax(np.isnan(scores)))}. Use -np.inf for documents that "
            "come last."
        )
    return scores
