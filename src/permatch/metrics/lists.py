"""Judged lists brought into the order of their scores: what all measures of ranking share.

The rows of all queries are sorted at once, by query and falling score, and the documents
with equal scores of one query make a tie.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch._validation import check_count, refuse_masked
from permatch.errors import InvalidOptionError, InvalidQueriesError
from permatch.queries import check_grades, query_rows

#: What becomes of documents with equal scores.
TIES = ("stable", "expected")


@dataclass(frozen=True, eq=False)
class RankedLists:
    """Grades of all documents, query after query, each from the highest score down.

    Attributes
    ----------
    grades, scores : ndarray of shape (n,)
        Query k has the rows ``starts[k]:starts[k + 1]``.
    starts : ndarray of shape (q + 1,)
        Where the queries begin.
    ranks : ndarray of shape (n,)
        Position of a row in its list, from 0.
    """

    grades: IntArray
    scores: FloatArray
    starts: IntArray
    ranks: IntArray

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

    def sums_at(self, values: FloatArray, cuts: list[int | None]) -> FloatArray:
        """Return the sums (q, len(cuts)) over the first so many documents of every list."""
        columns = [
            self.sums(values if cut is None else np.where(self.ranks < cut, values, 0.0))
            for cut in cuts
        ]
        return np.column_stack(columns)

    def above(self, values: np.ndarray) -> np.ndarray:
        """Return for every row the sum of whole `values` above it in its list."""
        running = np.cumsum(values) - values
        return running - np.repeat(running[self.starts[:-1]], self.lengths)

    def by_grade(self, gains: FloatArray) -> FloatArray:
        """Return the gains of the documents in the best order of every list."""
        owners = np.repeat(np.arange(self.n_queries), self.lengths)
        return gains[np.lexsort((-self.grades, owners))]

    def tie_starts(self) -> IntArray:
        """Return the first row of every tie, one document alone included."""
        is_first = self.ranks == 0
        is_first[1:] |= self.scores[1:] != self.scores[:-1]
        return np.flatnonzero(is_first)

    def tie_means(self, values: FloatArray) -> FloatArray:
        """Return `values` with the mean of its tie in place of every one."""
        first = self.tie_starts()
        sizes = np.diff(np.append(first, len(values)))
        if len(first) == len(values):
            return values
        return np.repeat(np.add.reduceat(values, first) / sizes, sizes)


def rank_lists(y: Any, score: Any, qid: Any, group: Any) -> RankedLists:
    """Check grades, scores and queries, and sort every list by falling score.

    Equal scores keep the order given; without `qid` and `group` all is one list.
    """
    scores = _check_scores(score)
    grades = check_grades(y, len(scores))
    if qid is None and group is None:
        group = [len(scores)]
    rows = query_rows(qid, group, len(scores))
    grades, scores = rows.gather(grades), rows.gather(scores)
    lengths = np.diff(rows.starts)
    owners = np.repeat(np.arange(len(lengths)), lengths)
    order = np.lexsort((-scores, owners))
    ranks = np.arange(len(scores)) - np.repeat(rows.starts[:-1], lengths)
    return RankedLists(grades[order], scores[order], rows.starts, ranks)


def check_cuts(k: Any) -> tuple[list[int | None], bool]:
    """Return the cuts as a list, and whether `k` is a sequence of them."""
    if k is None or isinstance(k, str) or not hasattr(k, "__iter__"):
        return [None if k is None else check_count(k, "k", 1)], False
    cuts: list[int | None] = [
        None if cut is None else check_count(cut, "k", 1) for cut in k
    ]
    if not cuts:
        raise InvalidOptionError("k must hold at least one position to cut at; got none.")
    return cuts, True


def check_threshold(threshold: Any) -> int:
    """Return the lowest relevant grade; 0 would make all documents relevant."""
    return check_count(threshold, "threshold", 1)


def check_choice(value: Any, name: str, choices: tuple[str, ...]) -> None:
    """Refuse an option that is none of its choices."""
    if value not in choices:
        raise InvalidOptionError(
            f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}."
        )


def summarise(values: FloatArray, is_sequence: bool, per_query: bool) -> float | FloatArray:
    """Return values (q, len(cuts)) in the shape asked for; means leave out NaN."""
    if per_query:
        return values if is_sequence else values[:, 0]
    is_known = ~np.isnan(values)
    n_known = is_known.sum(axis=0)
    sums = np.where(is_known, values, 0.0).sum(axis=0)
    means = np.where(n_known > 0, sums / np.maximum(n_known, 1), np.nan)
    return means if is_sequence else float(means[0])


def _check_scores(score: Any) -> FloatArray:
    advice = "Use score.filled(-np.inf) for documents that come last."
    refuse_masked(score, "score", InvalidQueriesError, advice)
    try:
        scores = np.asarray(score, dtype=np.float64)
    except (TypeError, ValueError) as err:
        raise InvalidQueriesError(
            f"score must hold one number per document; {err}. Give what predict returns."
        ) from err
    if scores.ndim == 2 and scores.shape[1] == 1:
        scores = scores[:, 0]
    if scores.ndim != 1 or len(scores) == 0:
        raise InvalidQueriesError(
            "score must hold one number per document, for at least one document; got shape "
            f"{scores.shape}."
        )
    if np.isnan(scores).any():
        raise InvalidQueriesError(
            f"score must not contain NaN; got {np.isnan(scores).sum()} of them, the first "
            f"at row {int(np.argmax(np.isnan(scores)))}. Use -np.inf for documents that "
            "come last."
        )
    return scores
