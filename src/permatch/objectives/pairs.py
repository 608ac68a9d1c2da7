"""The logistic loss of all pairs of documents of different grades.

    value(scores) = sum_k weight_k mean over pairs of log(1 + exp(s_j - s_i))

where document i of query k has a higher grade than its document j.  These are all subsets
of two documents, each once.  Pairs are never listed.  With p the logistic function of
``s_i - s_j``, the second derivatives by the coefficients of a linear score are

    sum_k weight_k mean over pairs of p (1 - p) (x_i - x_j)(x_i - x_j)'.
"""

import math
from typing import Any

import numpy as np
from scipy.special import expit

from permatch._types import FloatArray, IntArray
from permatch.kernels.ranking.pairs import add_queries
from permatch.objectives.query_gram import dense_rows, gram_of_queries
from permatch.objectives.subset_likelihood import check_finite, task_values
from permatch.objectives.subsets import sort_by_grade

# Pairs of a task: about a millisecond, so that a thread is worth its start.
_TASK_PAIRS = 500_000
# Documents of a query that meet the others at a time in second derivatives.
_BLOCK_SIZE = 256


class PairLikelihood:
    """Mean logistic loss of the pairs of different grade within queries.

    Query k has the documents ``starts[k]:starts[k + 1]``, and its pairs have the total
    weight ``query_weights[k]``, ignored if it has a single grade.

    Time grows with the number of pairs, 1 to 3 ns each while the scores of a query are
    within 80 of each other; memory with the number of documents.
    """

    def __init__(
        self,
        starts: IntArray,
        grades: IntArray,
        query_weights: FloatArray,
        n_jobs: int = 1,
    ) -> None:
        self.n_jobs = n_jobs
        self._starts = np.asarray(starts, dtype=np.intp)
        runs = sort_by_grade(self._starts, grades)
        self._order = runs.order
        self._ends = np.repeat(runs.begins + runs.sizes, runs.sizes)  # lower grades begin
        lengths = np.diff(self._starts)
        n_below = np.repeat(self._starts[1:], lengths) - self._ends
        owners = np.repeat(np.arange(len(lengths)), lengths)
        n_pairs = np.bincount(owners, n_below, len(lengths)).astype(np.intp)
        each = np.asarray(query_weights, dtype=np.float64) / np.maximum(n_pairs, 1)
        self._weights = np.where(n_pairs > 0, each, 0.0)
        totals = np.cumsum(n_pairs)
        wanted = np.arange(_TASK_PAIRS, totals[-1], _TASK_PAIRS)
        cuts = np.searchsorted(totals, wanted) + 1
        self._cuts = np.unique(np.concatenate([[0], cuts, [len(totals)]]))

    def value_and_slope(self, scores: FloatArray) -> tuple[float, FloatArray]:
        """Return the loss and its derivative by every score."""
        slope = np.zeros(len(self._order))
        own = self._order, self._ends, self._starts, self._weights

        def add(first: int, last: int) -> float:
            return add_queries(scores, *own, slope, first, last)

        values = task_values(add, self._cuts, self.n_jobs)
        return check_finite(math.fsum(values)), slope

    def hessian(self, scores: FloatArray, documents: Any) -> FloatArray:
        """Return the second derivatives by the coefficients of a linear score, (d, d).

        Time grows with pairs times d; some hundred documents of a query meet all others at
        a time.
        """
        result = np.zeros((documents.shape[1],) * 2)
        variances = np.zeros(len(self._order))
        for k in np.flatnonzero(self._weights):
            begin, end = self._starts[k], self._starts[k + 1]
            ordered = self._order[begin:end]
            own, below = scores[ordered], self._ends[begin:end] - begin
            rows = dense_rows(documents[ordered], 0, len(ordered))
            for first in range(0, len(rows), _BLOCK_SIZE):
                some = slice(first, first + _BLOCK_SIZE)
                margins = own[some, None] - own
                chance = self._weights[k] * expit(margins) * expit(-margins)
                chance[np.arange(len(rows)) < below[some, None]] = 0.0
                variances[ordered[some]] += chance.sum(axis=1)
                variances[ordered] += chance.sum(axis=0)
                across = rows[some].T @ (chance @ rows)
                result -= across + across.T
        no_loadings = np.zeros((len(variances), 0))
        own = variances, no_loadings, documents
        return result + gram_of_queries(self._starts, *own, self.n_jobs)
