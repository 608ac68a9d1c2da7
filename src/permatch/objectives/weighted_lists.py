"""Losses of lists whose documents have weights of their own.

With L(grades) the loss of a query, and w_i the weight of document i, its loss is

    integral over thresholds u > 0 of L(grade of i where w_i >= u, else 0)  du.

Only the weights of documents of grade 1 or higher matter.  Let u_1 < u_2 < ... be those
that occur in a query: its loss is the sum of ``(u_k - u_{k-1}) L`` over copies of it,
copy k having the grades of documents of weight u_k or more.  So it is convex and at least 0
if L is, and ``w L`` if all weights are w.  Documents of weight 0 are left out.

Weights of clicks are the inverse of the chance that a document was looked at.  The label of
a document then enters as if all had been looked at, on average.  All else depends on the
number of clicks alone, so documents of equal relevance get equal scores from whole lists,
and nearly so from pairs, wherever they were shown.
"""

import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch._validation import enough_memory
from permatch.queries import QuerySet

# Of a document in a copy, about, in all arrays that a loss keeps of it.
_BYTES = 100.0


@dataclass(frozen=True, eq=False)
class Copies:
    """Queries without documents, copied for every threshold of the weights.

    `rows` are the documents of all copies and `owners` their queries, None where there is
    one copy of every query, in the same order.
    """

    queries: QuerySet
    n_queries: int
    n_documents: int
    rows: IntArray | None = None
    owners: IntArray | None = None

    def add_up(self, values: Any) -> FloatArray:
        """Return sums over the copies of every query, (q,)."""
        if self.owners is None:
            return values
        return np.bincount(self.owners, values, self.n_queries).astype(float, copy=False)

    def most(self, values: Any) -> Any:
        """Return the largest value of the copies of every query, (q,), at least 0."""
        if self.owners is None:
            return values
        largest = np.zeros(self.n_queries, dtype=np.asarray(values).dtype)
        np.maximum.at(largest, self.owners, values)
        return largest


def copy_queries(queries: QuerySet) -> Copies:
    """Return a copy of every query for every threshold of its documents' weights."""
    sizes = queries.n_queries, queries.n_documents
    weights = queries.document_weights
    if weights is None:
        return Copies(queries, *sizes)
    owners, grades = queries.owners, queries.grades
    relevant = np.flatnonzero((grades > 0) & (weights > 0.0))
    relevant = relevant[np.lexsort((weights[relevant], owners[relevant]))]
    queried, thresholds = owners[relevant], weights[relevant]
    is_first = np.append(True, queried[1:] != queried[:-1])[: len(relevant)]
    is_new = is_first | np.append(True, thresholds[1:] != thresholds[:-1])[: len(relevant)]
    # One entry for every copy from here on.
    queried, thresholds, is_first = queried[is_new], thresholds[is_new], is_first[is_new]
    below = np.where(is_first, 0.0, np.append(0.0, thresholds)[:-1])
    n_in = np.bincount(owners, weights > 0.0, queries.n_queries).astype(np.intp)
    kept = np.flatnonzero(weights > 0.0)
    starts = np.concatenate([[0], np.cumsum(n_in[queried])]).astype(np.intp)
    begins = np.concatenate([[0], np.cumsum(n_in)])[queried]
    what = f"{len(thresholds):,} lists, one per weight of a relevant document and query,"
    with enough_memory(
        what, _BYTES * starts[-1], "Round the weights, so that fewer differ."
    ):
        copies = np.repeat(np.arange(len(queried)), n_in[queried])
        rows = kept[np.arange(starts[-1]) - starts[copies] + begins[copies]]
        seen = np.where(weights[rows] >= thresholds[copies], grades[rows], 0)
    own = seen, starts, queries.ids[queried], thresholds - below, queries.first
    return Copies(QuerySet(None, *own), *sizes, rows, queried)


class _Taken:
    """Rows of documents that are taken when they are asked for, some at a time."""

    def __init__(self, documents: Any, rows: IntArray) -> None:
        self._documents, self._rows = documents, rows
        self.shape = len(rows), documents.shape[1]

    def __getitem__(self, rows: Any) -> Any:
        return self._documents[self._rows[rows]]


class CopiedLoss:
    """A loss of copies of queries, as one of the queries themselves.

    The names are those of `WholeListLikelihood` and `PairLikelihood`.
    """

    def __init__(self, loss: Any, copies: Copies) -> None:
        self._loss = loss
        self._copies = copies
        self._rows: Any = copies.rows

    @property
    def forms(self) -> np.ndarray:
        """The form of every query (q,), "profile" if any copy has it."""
        own, forms = self._loss.forms, np.full(self._copies.n_queries, "skipped", "U7")
        for form in ("exact", "profile"):
            forms[self._copies.owners[own == form]] = form  # type: ignore[index]
        return forms

    def in_form(self, form: str) -> Self:
        """Return the loss in another form."""
        other = copy.copy(self)
        other._loss = self._loss.in_form(form)
        return other

    def value_and_slope(self, scores: FloatArray) -> tuple[float, FloatArray]:
        """Return the loss and its derivative by every score."""
        value, slope = self._loss.value_and_slope(scores[self._rows])
        return value, self._add_up(slope)

    def derivatives(self, scores: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return the loss, and its first and second derivative by every score alone."""
        value, slope, curvature = self._loss.derivatives(scores[self._rows])
        return value, self._add_up(slope), self._add_up(curvature)

    def evaluate_curved(
        self, scores: FloatArray, documents: Any
    ) -> tuple[float, FloatArray, FloatArray]:
        """Return the loss, its slope, and about its second derivatives."""
        own = scores[self._rows], _Taken(documents, self._rows)
        value, slope, hessian = self._loss.evaluate_curved(*own)
        return value, self._add_up(slope), hessian

    def hessian(self, scores: FloatArray, documents: Any) -> FloatArray:
        """Return the second derivatives by the coefficients of a linear score, (d, d)."""
        return self._loss.hessian(scores[self._rows], _Taken(documents, self._rows))

    def _add_up(self, values: FloatArray) -> FloatArray:
        n_documents = self._copies.n_documents
        return np.bincount(self._rows, values, n_documents).astype(float, copy=False)
