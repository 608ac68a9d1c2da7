"""The pairs of documents of different grade within queries: listed, or added up."""

from abc import abstractmethod
from typing import NamedTuple

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch.queries import QuerySet


class Pairs(NamedTuple):
    """Row numbers of the better and the worse document of every pair, and its query."""

    above: IntArray
    below: IntArray
    owners: IntArray


def graded_pairs(queries: QuerySet) -> Pairs:
    """Return all pairs of documents of different grade, query by query.

    Examples
    --------
    >>> from permatch.queries import check_queries
    >>> queries = check_queries([[0.0], [1.0], [2.0]], [1, 0, 2], group=[3])
    >>> pairs = graded_pairs(queries)
    >>> pairs.above.tolist(), pairs.below.tolist()
    ([0, 2, 2], [1, 0, 1])
    """
    above, below = [], []
    for first, last in zip(queries.starts[:-1], queries.starts[1:], strict=True):
        grades = queries.grades[first:last]
        better, worse = np.nonzero(grades[:, None] > grades)
        above.append(better + first)
        below.append(worse + first)
    better, worse = np.concatenate(above), np.concatenate(below)
    return Pairs(better, worse, queries.owners[better])


def weight_of_pairs(queries: QuerySet, pairs: Pairs, *, is_by_query: bool) -> FloatArray:
    """Return the weight of every pair, in all one.

    They follow the weights of the queries, shared by the pairs of a query if `is_by_query`.
    """
    weights = queries.weights[pairs.owners]
    if is_by_query:
        weights = weights / np.bincount(pairs.owners)[pairs.owners]
    return weights / weights.sum()


def by_document(rows: IntArray, weights: FloatArray, n_documents: int) -> FloatArray:
    """Return the sum of the weights of the pairs that have each document in `rows`."""
    return np.bincount(rows, weights, n_documents).astype(np.float64)


class DuelLoss:
    """A loss of scores that adds up what each grade of a query has to beat: all lower ones.

    All documents of a grade beat the same others, so pairs need not be listed.

    Parameters
    ----------
    queries : QuerySet
        The judged lists.
    weights : ndarray of shape (q,)
        The weight of a term of every query; those of weight 0 are left out.
    """

    def __init__(self, queries: QuerySet, weights: FloatArray) -> None:
        self._n_documents = queries.n_documents
        self._duels: list[tuple[float, IntArray, IntArray]] = []
        for k in np.flatnonzero(weights):
            rows = np.arange(queries.starts[k], queries.starts[k + 1])
            grades = queries.grades[rows]
            for grade in np.unique(grades)[1:]:
                sides = rows[grades == grade], rows[grades < grade]
                self._duels.append((float(weights[k]), *sides))

    @abstractmethod
    def _lose(
        self, above: FloatArray, below: FloatArray
    ) -> tuple[float, FloatArray, FloatArray]:
        """Return the loss of the scores of two sides, and its slopes by either's."""

    def value_and_slope(self, scores: FloatArray) -> tuple[float, FloatArray]:
        """Return the loss and a (sub)gradient by every score."""
        value, slope = 0.0, np.zeros(self._n_documents)
        for weight, above, below in self._duels:
            lost, *slopes = self._lose(scores[above], scores[below])
            value += weight * lost
            slope[above] += weight * slopes[0]
            slope[below] += weight * slopes[1]
        return value, slope
