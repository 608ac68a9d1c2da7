"""Objectives of a coefficient vector from losses of document scores.

    scores = documents @ (coef / scale)                        one score per document
    value(coef)    = alpha/2 |coef|^2 + loss(scores)
    gradient(coef) = alpha coef + documents' slope / scale     slope = d loss / d scores
    hessian(coef)  = alpha + documents' curvature documents / scale scale'

Features are read only here; losses know only scores, so no array of documents, positions
and features exists.
"""

from typing import Any, Protocol

import numpy as np
from scipy import sparse

from permatch._parallel import run_tasks
from permatch._shards import Shards, add_up
from permatch._types import FloatArray
from permatch._validation import MAX_SCORE
from permatch.errors import PrecisionError
from permatch.kernels.ranking.linear import add_rows, add_squares, score_rows
from permatch.objectives.query_gram import gradients_of_queries
from permatch.queries import QuerySet

# Values of a task; less is not worth a thread.
_VALUES_PER_TASK = 1 << 19


class ScoreLoss(Protocol):
    """A loss of document scores, with weights that sum to one."""

    def value_and_slope(self, scores: FloatArray) -> tuple[float, FloatArray]:
        """Return the loss and its derivative by every score."""
        ...


class LinearScores:
    """The linear map from scaled coefficients to document scores, and its transpose.

    `documents` (n, d) are dense or sparse rows, `scale` (d,) divides every feature.
    """

    def __init__(self, documents: Any, scale: FloatArray, n_jobs: int = 1) -> None:
        self.documents = documents
        self.scale = scale
        self.n_jobs = n_jobs
        self._per_task = max(1, _VALUES_PER_TASK // documents.shape[1])
        self._n_tasks = -(-documents.shape[0] // self._per_task)

    def scores(self, coef: FloatArray) -> FloatArray:
        """Return the score of every document, (n,)."""
        raw = coef / self.scale
        documents = self.documents
        if sparse.issparse(documents):
            scores = documents @ raw
        else:
            scores = np.empty(documents.shape[0])

            def score(k: int) -> None:
                score_rows(documents, raw, scores, *self._range(k))

            run_tasks(score, self._n_tasks, self.n_jobs)
        if not np.abs(scores).max(initial=0.0) < MAX_SCORE:  # false for NaN too
            raise PrecisionError(
                "scores must be finite; features times coefficients exceed float64. "
                "Divide the features by a large number, in both fit and predict."
            )
        return scores

    def pull_back(self, slope: FloatArray) -> FloatArray:
        """Return the derivative by every scaled coefficient, (d,)."""
        documents = self.documents
        if sparse.issparse(documents):
            return (documents.T @ slope) / self.scale
        totals = np.zeros((self._n_tasks, documents.shape[1]))

        def add(k: int) -> None:
            add_rows(documents, slope, totals[k], *self._range(k))

        run_tasks(add, self._n_tasks, self.n_jobs)
        return totals.sum(axis=0) / self.scale

    def _range(self, k: int) -> tuple[int, int]:
        first = k * self._per_task
        return first, min(first + self._per_task, self.documents.shape[0])


class LinearRanking:
    """A loss with a quadratic penalty, as a function of the scaled coefficients.

    `shards` are pairs of queries and the loss of their scores, which is taken in another
    `form` if one is given (see `WholeListLikelihood`).
    """

    def __init__(
        self,
        shards: Shards,
        scale: FloatArray,
        alpha: float,
        *,
        form: str | None = None,
        n_jobs: int = 1,
    ) -> None:
        self.shards = shards
        self.scale = scale
        self.alpha = alpha
        self._how = form, n_jobs

    def value_and_grad(self, coef: FloatArray) -> tuple[float, FloatArray]:
        """Return the objective and its gradient at `coef`."""
        value, grad = self.risk_and_subgradient(coef)
        return value + 0.5 * self.alpha * float(coef @ coef), grad + self.alpha * coef

    def risk_and_subgradient(self, coef: FloatArray) -> tuple[float, FloatArray]:
        """Return the loss without the penalty, and a (sub)gradient of it."""
        value, grad = self.shards.total(_risk_and_subgradient, coef, self.scale, *self._how)
        return value, grad

    def hessian(self, coef: FloatArray) -> FloatArray:
        """Return the second derivatives at `coef`, of losses that have them."""
        (curved,) = self.shards.total(_hessian, coef, self.scale, *self._how)
        scale = self.scale
        return curved / np.outer(scale, scale) + self.alpha * np.eye(len(scale))

    def evaluate_curved(self, coef: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return value, gradient and about the second derivatives, for whole lists.

        These are those of the profile form, which are at hand where it is evaluated.
        """
        value, grad, curved = self.shards.total(_evaluate, coef, self.scale, *self._how)
        scale, alpha = self.scale, self.alpha
        value += 0.5 * alpha * float(coef @ coef)
        hessian = curved / np.outer(scale, scale) + alpha * np.eye(len(scale))
        return value, grad + alpha * coef, hessian

    def gradients(self, coef: FloatArray) -> FloatArray:
        """Return the part of every query in the gradient of the loss, (q, d)."""
        parts = self.shards.map(_gradients, coef, self.scale, *self._how)
        return np.concatenate(parts) / self.scale


def _risk_and_subgradient(
    shard: tuple[QuerySet, Any],
    coef: FloatArray,
    scale: FloatArray,
    form: str | None,
    n_jobs: int,
) -> tuple[float, FloatArray]:
    queries, loss = shard
    linear = LinearScores(queries.documents, scale, n_jobs)
    own = loss if form is None else loss.in_form(form)
    value, slope = own.value_and_slope(linear.scores(coef))
    return value, linear.pull_back(slope)


def _hessian(
    shard: tuple[QuerySet, Any],
    coef: FloatArray,
    scale: FloatArray,
    form: str | None,
    n_jobs: int,
) -> tuple[FloatArray]:
    queries, loss = shard
    scores = LinearScores(queries.documents, scale, n_jobs).scores(coef)
    own = loss if form is None else loss.in_form(form)
    return (own.hessian(scores, queries.documents),)


def _evaluate(
    shard: tuple[QuerySet, Any],
    coef: FloatArray,
    scale: FloatArray,
    form: str | None,
    n_jobs: int,
) -> tuple[float, FloatArray, FloatArray]:
    queries, loss = shard
    linear = LinearScores(queries.documents, scale, n_jobs)
    own = loss if form is None else loss.in_form(form)
    value, slope, curved = own.evaluate_curved(linear.scores(coef), queries.documents)
    return value, linear.pull_back(slope), curved


def _gradients(
    shard: tuple[QuerySet, Any],
    coef: FloatArray,
    scale: FloatArray,
    form: str | None,
    n_jobs: int,
) -> FloatArray:
    queries, loss = shard
    scores = LinearScores(queries.documents, scale, n_jobs).scores(coef)
    own = loss if form is None else loss.in_form(form)
    _, slope = own.value_and_slope(scores)
    return gradients_of_queries(queries.starts, slope, queries.documents)


def spread_within_queries(shards: Shards, n_jobs: int = 1) -> FloatArray:
    """Return every feature's standard deviation within the queries of all shards, (d,).

    Only differences within a query matter, so this is the unit in which a feature acts.
    A feature that is constant in every query gets its largest value, or 1.
    """
    *sums, largest = zip(*shards.map(_squares, n_jobs), strict=True)
    squares, n_documents = add_up(list(zip(*sums, strict=True)))
    spread = np.sqrt(squares / n_documents)
    if not np.isfinite(spread).all():
        worst = int(np.argmin(np.isfinite(spread)))
        raise PrecisionError(
            f"the spread of every feature must be finite; that of feature {worst} exceeds "
            "float64. Divide the feature by a large number."
        )
    # Rounding leaves a constant feature a spread of some units in its last place.
    largest = np.max(largest, axis=0)
    return np.where(spread > 1e-12 * largest, spread, np.maximum(largest, 1.0))


def _squares(queries: QuerySet, n_jobs: int) -> tuple[FloatArray, int, FloatArray]:
    """Return squared distances from the means of queries, documents, largest values."""
    documents, starts = queries.documents, queries.starts
    n_documents, n_features = documents.shape
    if n_documents == 0:
        return np.zeros(n_features), 0, np.zeros(n_features)
    if sparse.issparse(documents):
        squares = np.zeros(n_features)
        for first, last in zip(starts[:-1], starts[1:], strict=True):
            rows = documents[first:last]
            n_rows = last - first
            mean = np.asarray(rows.sum(axis=0)).ravel() / n_rows
            # Around the mean: what is stored, then the zeros that are not.
            away = (rows.data - mean[rows.indices]) ** 2
            n_stored = np.bincount(rows.indices, minlength=n_features)
            squares += np.bincount(rows.indices, away, minlength=n_features)
            squares += (n_rows - n_stored) * mean**2
        return squares, n_documents, _largest(documents)
    per_task = max(1, _VALUES_PER_TASK * (len(starts) - 1) // documents.size)
    n_tasks = -(-(len(starts) - 1) // per_task)
    parts = np.zeros((n_tasks, n_features))

    def add(k: int) -> None:
        last = min((k + 1) * per_task, len(starts) - 1)
        scratch = np.empty(n_features)
        add_squares(documents, starts, scratch, parts[k], k * per_task, last)

    run_tasks(add, n_tasks, n_jobs)
    return parts.sum(axis=0), n_documents, _largest(documents)


def _largest(documents: Any) -> FloatArray:
    if sparse.issparse(documents):
        return np.asarray(abs(documents).max(axis=0).todense()).ravel()
    return np.maximum(documents.max(axis=0), -documents.min(axis=0))
