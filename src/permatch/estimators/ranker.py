"""The contract of rankers: fit on judged lists, score documents, measure, save."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np

from permatch._shards import HeldShards, Shards
from permatch._types import FloatArray, IntArray
from permatch.distributed import Opened, is_in_parts, open_queries, predict_in_parts
from permatch.errors import InvalidOptionError, InvalidQueriesError
from permatch.estimators.base import BaseModel
from permatch.estimators.checks import check_feature_names, column_names
from permatch.estimators.query_scaler import METHODS, scale_within_queries
from permatch.metrics import NDCG
from permatch.queries import (
    QuerySet,
    check_documents,
    check_grades,
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

    def _fit_shards(self, shards: Shards) -> Any:
        """Learn from training lists in shards, as `_fit` does from those in memory."""
        if not isinstance(shards, HeldShards):
            raise InvalidOptionError(
                f"{type(self).__name__} learns from data in memory only; got data in "
                "parts. Load them into an array, or use a linear ranker."
            )
        return self._fit(*shards.shards)

    @abstractmethod
    def _predict(self, documents: Any) -> FloatArray:
        """Return the scores (n,) of checked, scaled documents (n, d)."""

    def _warn(self, optimum: Any) -> None:
        """Warn the caller of `fit` of unreliable results."""

    def fit(
        self,
        X: Any,
        y: Any = None,
        qid: Any = None,
        group: Any = None,
        *,
        sample_weight: Any = None,
        feature_names: Sequence[str] | None = None,
    ) -> Self:
        """Learn from judged lists.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n, d), or data in parts
            One row of features per document.  See the notes for data that do not fit.
        y : array of shape (n,), or str
            Grades: whole numbers from 0, the best highest.  Of tables in parts: the name
            of their column, likewise below.
        qid : array of shape (n,) or str, optional
            The query of every document.
        group : array of shape (q,), optional
            Instead of `qid`: the number of consecutive rows of each query.
        sample_weight : array of shape (n,) or str, optional
            The weight of each document's query, equal for all documents of a query; it
            multiplies the other weights of the query.
        feature_names : sequence of str, optional
            A name per feature, saved with the model; default: the columns of a DataFrame.
            Of tables in parts: the columns to learn from; default: all other numeric ones.

        Returns
        -------
        BaseRanker
            Itself.

        Notes
        -----
        Linear rankers learn from data in parts too, with the same result:

        - ``fit("folder", "grade", "query")``: a folder of Parquet files, or a
          ``pyarrow.dataset.Dataset``, read from disk in every pass;
        - ``fit("folder")``: a folder of SVMlight (LETOR) files, likewise;
        - ``fit(ddf, "grade", "query")``: a Dask DataFrame, computed where its partitions
          are; ``fit(X, y, qid)``: Dask arrays, or a Dask DataFrame and two series;
        - ``fit([part, ...])``: a list of delayed ``(X, y, qid)``, or with weights
          ``(X, y, qid, sample_weight)``.

        Rows must be sorted by query; a query may go on in the next part.
        """
        opened = open_queries(
            X,
            y,
            qid,
            group,
            sample_weight=sample_weight,
            feature_names=feature_names,
            prepare=self._prepare(),
        )
        names, columns = self._name(X, feature_names, opened)
        optimum = self._fit_shards(opened.shards)
        self.feature_names_, self.columns_ = names, columns
        self._warn(optimum)
        return self

    def predict(self, X: Any, qid: Any = None, group: Any = None) -> Any:
        """Return the score of every document; within a query, higher is better.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n, d), or data in parts
            One row of features per document; in parts as in `fit`.
        qid : array of shape (n,) or str, optional
            The query of every document; needed only with `scaling`.
        group : array of shape (q,), optional
            Instead of `qid`: the number of consecutive rows of each query.

        Returns
        -------
        ndarray of shape (n,)
            In the order of the rows of `X`.  Of a Dask DataFrame a Dask Series, of a Dask
            array a Dask array, and of delayed parts delayed arrays: nothing is computed
            yet.
        """
        if is_in_parts(X):
            return self._predict_parts(X, qid, group)
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
        y: Any = None,
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
        if is_in_parts(X):
            return self._score_parts(X, y, qid, group, sample_weight)
        documents = self._check_new(X)
        grades = check_grades(y, documents.shape[0])
        rows = query_rows(qid, group, documents.shape[0])
        scores = self.predict(X, qid, group)
        weights = query_weights(sample_weight, rows, documents.shape[0])
        figures = (NDCG @ 10)(grades, scores, qid, group=group, per_query=True)
        return float(np.average(figures, weights=weights))

    def scaled(self, queries: QuerySet) -> QuerySet:
        """Return the queries as the model sees them: scaled if `scaling` is set."""
        prepare = self._prepare()
        return queries if prepare is None else prepare(queries)

    def _prepare(self) -> partial[QuerySet] | None:
        """Return what scales queries, None if nothing does."""
        if self.scaling is None:
            return None
        if self.scaling not in METHODS:
            raise InvalidOptionError(
                f"scaling must be None or one of {', '.join(map(repr, METHODS))}; got "
                f"{self.scaling!r}."
            )
        return partial(_scale_queries, method=self.scaling)

    def _name(
        self, X: Any, names: Sequence[str] | None, opened: Opened
    ) -> tuple[list[str] | None, list[str] | None]:
        """Return the names of the features, and those of the columns of a table."""
        columns = opened.columns if is_in_parts(X) else column_names(X)
        chosen = columns if names is None else names
        return check_feature_names(chosen, opened.n_features), columns

    def _score_parts(self, X: Any, y: Any, qid: Any, group: Any, weight: Any) -> float:
        """Return the mean NDCG of data in parts."""
        self._check_fitted()
        opened = open_queries(
            X,
            y,
            qid,
            group,
            sample_weight=weight,
            feature_names=self.columns_ or self.feature_names_,
            prepare=self._prepare(),
        )
        if opened.n_features != self.n_features_in_:
            raise InvalidQueriesError(
                f"documents must have the {self.n_features_in_} features of the fitted "
                f"model; got {opened.n_features}."
            )
        figures, weights = opened.shards.total(_weigh_figures, self)
        return figures / weights

    def _predict_parts(self, X: Any, qid: Any, group: Any) -> Any:
        """Return the scores of data in parts, of the same kind."""
        self._check_fitted()
        if group is not None:
            raise InvalidQueriesError(
                "data in parts must have their queries given by qid; got group. Add a "
                "column of query ids."
            )
        score = partial(_score_rows, self)
        known = self.columns_ or self.feature_names_
        how = (self.scaling is not None), self.n_features_in_, known
        return predict_in_parts(X, qid, score, *how)

    def _check_new(self, X: Any) -> Any:
        """Return documents with the features of the fitted model, in their order."""
        self._check_fitted()
        check_columns(X, self.columns_ or self.feature_names_)
        return check_documents(X, self.n_features_in_)


def _scale_queries(queries: QuerySet, method: str) -> QuerySet:
    scaled = scale_within_queries(queries.documents, queries.starts, method)
    return replace(queries, documents=scaled)


def _weigh_figures(queries: QuerySet, model: BaseRanker) -> tuple[float, float]:
    """Return the sums of the weighted NDCG of queries, and of their weights."""
    scores = model._predict(queries.documents)
    figures = (NDCG @ 10)(queries.grades, scores, group=queries.lengths, per_query=True)
    return float(figures @ queries.weights), float(queries.weights.sum())


def _score_rows(model: BaseRanker, documents: Any, qid: Any) -> FloatArray:
    """Score documents in memory; no query has rows elsewhere."""
    if not documents.shape[0]:
        return np.zeros(0)
    return model.predict(documents, qid)


def check_columns(X: Any, names: list[str] | None) -> None:
    """Refuse a DataFrame whose columns are not those of the training data, in order."""
    pairs = zip(column_names(X) or (), names or (), strict=False)
    for k, (column, name) in enumerate(pairs):
        if column != name:
            raise InvalidQueriesError(
                "the columns of X must be those of the training data, in the same order; "
                f"column {k} is {column!r} instead of {name!r}. Reorder the columns."
            )
