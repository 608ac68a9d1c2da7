"""The contract of rankers: fit on judged lists, score documents, measure, save."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch.errors import InvalidOptionError, InvalidQueriesError
from permatch.estimators.base import BaseModel
from permatch.estimators.checks import check_feature_names, column_names
from permatch.estimators.query_scaler import METHODS, scale_within_queries
from permatch.metrics import NDCG
from permatch.queries import (
    QuerySet,
    check_documents,
    check_grades,
    check_queries,
    query_rows,
    query_weights,
)


class BaseRanker(BaseModel):
    """A model of relevance: the documents of a query are ranked by their scores.

    Subclasses have the parameter `scaling`, learn from judged lists in `_fit`, which sets
    ``n_features_in_``, and score documents in `_predict`.

    Examples
    --------
    >>> from permatch.estimators import DORM, BaseRanker, RankMatch
    >>> issubclass(RankMatch, BaseRanker), issubclass(DORM, BaseRanker)
    (True, True)
    """

    scaling: str | None
    columns_: list[str] | None = None  # of the DataFrame it was fitted on

    _fit_call = "fit(X, y, qid=qid)"

    # With metadata routing on, query ids are passed without a request.
    __metadata_request__fit = {"qid": True}
    __metadata_request__predict = {"qid": True}
    __metadata_request__score = {"qid": True}

    @abstractmethod
    def _fit(self, queries: QuerySet) -> Any:
        """Learn from checked, scaled training lists; return an argument for `_warn`."""

    @abstractmethod
    def _predict(self, documents: Any) -> FloatArray:
        """Return the scores (n,) of checked, scaled documents (n, d)."""

    def _warn(self, optimum: Any) -> None:
        """Warn the caller of `fit` of unreliable results."""

    def fit(
        self,
        X: Any,
        y: Any,
        qid: Any = None,
        group: Any = None,
        *,
        sample_weight: Any = None,
        feature_names: Sequence[str] | None = None,
    ) -> Self:
        """Learn from judged lists.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n, d)
            One row of features per document.
        y : array of shape (n,)
            Grades: whole numbers from 0, the best highest.
        qid : array of shape (n,), optional
            The query of every document.
        group : array of shape (q,), optional
            Instead of `qid`: the number of consecutive rows of each query.
        sample_weight : array of shape (n,), optional
            The weight of each document's query, equal for all documents of a query; it
            multiplies the other weights of the query.
        feature_names : sequence of str, optional
            A name per feature, saved with the model; default: the columns of a DataFrame.

        Returns
        -------
        BaseRanker
            Itself.
        """
        queries = self.scaled(check_queries(X, y, qid, group, sample_weight=sample_weight))
        names = name_features(X, feature_names, queries.n_features)
        optimum = self._fit(queries)
        self.feature_names_, self.columns_ = names, column_names(X)
        self._warn(optimum)
        return self

    def predict(self, X: Any, qid: Any = None, group: Any = None) -> FloatArray:
        """Return the score of every document; within a query, higher is better.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n, d)
            One row of features per document.
        qid : array of shape (n,), optional
            The query of every document; needed only with `scaling`.
        group : array of shape (q,), optional
            Instead of `qid`: the number of consecutive rows of each query.

        Returns
        -------
        ndarray of shape (n,)
            In the order of the rows of `X`.
        """
        documents = self._check_new(X)
        if self.scaling is None:
            return self._predict(documents)
        if qid is None and group is None:
            raise InvalidQueriesError(
                f"this model scales features within queries (scaling={self.scaling!r}) "
                "and needs qid or group; got neither. For the documents of one query pass "
                "group=[len(X)]."
            )
        rows = query_rows(qid, group, documents.shape[0])
        scaled = scale_within_queries(rows.gather(documents), rows.starts, self.scaling)
        return rows.scatter(self._predict(scaled))

    def rank(self, X: Any, qid: Any = None, group: Any = None) -> IntArray:
        """Return the rows of every query from the best document to the worst.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n, d)
            One row of features per document.
        qid : array of shape (n,), optional
            The query of every document; default: one query.
        group : array of shape (q,), optional
            Instead of `qid`: the number of consecutive rows of each query.

        Returns
        -------
        ndarray of shape (n,)
            Row numbers, query by query in the order of their first rows.  Equal scores
            keep the order of the rows.
        """
        n_documents = self._check_new(X).shape[0]
        if qid is None and group is None:
            group = [n_documents]
        rows = query_rows(qid, group, n_documents)
        order = rows.best_first(rows.gather(self.predict(X, qid, group)))
        return order if rows.order is None else rows.order[order]

    def score(
        self,
        X: Any,
        y: Any,
        qid: Any = None,
        group: Any = None,
        sample_weight: Any = None,
    ) -> float:
        """Return NDCG@10 with the paper's discount, averaged over queries.

        Parameters
        ----------
        X, y, qid, group
            As in `fit`.
        sample_weight : array of shape (n,), optional
            The weight of every document's query in the average.

        Returns
        -------
        float
            Between 0 and 1; see `permatch.metrics.NDCG`.
        """
        documents = self._check_new(X)
        grades = check_grades(y, documents.shape[0])
        rows = query_rows(qid, group, documents.shape[0])
        scores = self.predict(X, qid, group)
        weights = query_weights(sample_weight, rows, documents.shape[0])
        figures = (NDCG @ 10)(grades, scores, qid, group=group, per_query=True)
        return float(np.average(figures, weights=weights))

    def scaled(self, queries: QuerySet) -> QuerySet:
        """Return the queries as the model sees them: scaled if `scaling` is set."""
        if self.scaling is None:
            return queries
        if self.scaling not in METHODS:
            raise InvalidOptionError(
                f"scaling must be None or one of {', '.join(map(repr, METHODS))}; got "
                f"{self.scaling!r}."
            )
        documents = scale_within_queries(queries.documents, queries.starts, self.scaling)
        return replace(queries, documents=documents)

    def _check_new(self, X: Any) -> Any:
        """Return documents with the features of the fitted model, in their order."""
        self._check_fitted()
        check_columns(X, self.columns_ or self.feature_names_)
        return check_documents(X, self.n_features_in_)


def check_columns(X: Any, names: list[str] | None) -> None:
    """Refuse a DataFrame whose columns are not those of the training data, in order."""
    pairs = zip(column_names(X) or (), names or (), strict=False)
    for k, (column, name) in enumerate(pairs):
        if column != name:
            raise InvalidQueriesError(
                "the columns of X must be those of the training data, in the same order; "
                f"column {k} is {column!r} instead of {name!r}. Reorder the columns."
            )


def name_features(X: Any, names: Sequence[str] | None, n_features: int) -> list[str] | None:
    """Return the names given; default: the columns of a DataFrame."""
    return check_feature_names(column_names(X) if names is None else names, n_features)
