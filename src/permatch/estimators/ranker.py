"""What all rankers share: a coefficient for every feature, learned from judged lists."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from permatch._progress import progress_bar
from permatch._types import FloatArray, IntArray
from permatch._validation import check_count, check_jobs
from permatch.errors import (
    InvalidOptionError,
    InvalidQueriesError,
    NotFittedError,
    PrecisionError,
)
from permatch.estimators.base import check_feature_names, check_number
from permatch.estimators.convergence import warn_unless_converged
from permatch.estimators.persistence import save_model
from permatch.estimators.query_scaler import METHODS, scale_within_queries
from permatch.estimators.rank_problem import RankingProblem
from permatch.metrics import ndcg
from permatch.objectives.ranking import LinearScores
from permatch.queries import (
    QueryRows,
    QuerySet,
    check_documents,
    check_grades,
    check_queries,
    query_rows,
    query_weights,
)


class BaseRanker(BaseEstimator):
    """A linear model of relevance: documents are ranked by ``<coef_, features>``.

    Subclasses have the parameters named below and say in `_problem` what is minimised.

    Examples
    --------
    >>> from permatch.estimators import DORM, BaseRanker, RankMatch
    >>> issubclass(RankMatch, BaseRanker), issubclass(DORM, BaseRanker)
    (True, True)
    """

    alpha: float
    scaling: str | None
    scale_features: bool
    tol: float
    max_iter: int
    warm_start: bool
    random_state: int
    n_jobs: int | None
    verbose: bool
    coef_: FloatArray
    scale_: FloatArray
    n_features_in_: int
    feature_names_: list[str] | None
    columns_: list[str] | None = None  # of the DataFrame it was fitted on
    n_iter_: int
    is_converged_: bool
    history_: list[dict[str, float]]
    n_observations_: int

    # With metadata routing on, ids of queries find their way without being asked for.
    __metadata_request__fit = {"qid": True}
    __metadata_request__predict = {"qid": True}
    __metadata_request__score = {"qid": True}

    @abstractmethod
    def _problem(self, queries: QuerySet, n_jobs: int) -> RankingProblem:
        """Return what is to be minimised over checked, scaled training lists."""

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
        """Learn the coefficients.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n, d)
            One row of features per document.
        y : array of shape (n,)
            Grades: whole numbers, 0 and up, best highest.
        qid : array of shape (n,), optional
            The query of every document.
        group : array of shape (q,), optional
            Instead of `qid`: how many consecutive rows each query has.
        sample_weight : array of shape (n,), optional
            The weight of every document's query, the same for all documents of a query;
            it multiplies what the query weighs otherwise.
        feature_names : sequence of str, optional
            A name for every feature, kept with the model; by default the columns of a
            DataFrame.

        Returns
        -------
        BaseRanker
            Itself.
        """
        alpha = check_number(self.alpha, "alpha", is_zero_allowed=self._is_zero_allowed)
        tol, max_iter, n_jobs = self._check_options()
        names = name_features(X, feature_names)
        queries = self.scaled(check_queries(X, y, qid, group, sample_weight=sample_weight))
        names = check_feature_names(names, queries.n_features)
        problem = self._problem(queries, n_jobs)
        start = None
        if self.warm_start and len(getattr(self, "coef_", ())) == queries.n_features:
            start = self.coef_ * problem.linear.scale
        with progress_bar(type(self).__name__, 100, 0.0, bool(self.verbose)) as show:
            optimum = problem.solve(
                alpha,
                start,
                tol=tol,
                max_iter=max_iter,
                on_iteration=None if show is None else problem.percent(tol, show),
            )
        self._adopt(queries, problem, optimum)
        self.feature_names_, self.columns_ = names, column_names(X)
        warn_unless_converged(optimum, type(self).__name__, tol)
        return self

    #: Whether alpha may be 0.
    _is_zero_allowed = True

    def predict(self, X: Any, qid: Any = None, group: Any = None) -> FloatArray:
        """Return a score for every document; within a query, more is better.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n, d)
            One row of features per document.
        qid : array of shape (n,), optional
            The query of every document; needed only by a model with `scaling`.
        group : array of shape (q,), optional
            Instead of `qid`: how many consecutive rows each query has.

        Returns
        -------
        ndarray of shape (n,)
            In the order of the rows of `X`.
        """
        documents = self._check_new(X)
        if self.scaling is None:
            return LinearScores(documents, np.ones(self.n_features_in_)).scores(self.coef_)
        if qid is None and group is None:
            raise InvalidQueriesError(
                f"this model scales features within every query (scaling="
                f"{self.scaling!r}), so it has to know the queries; got neither qid nor "
                "group. For the documents of one query pass group=[len(X)]."
            )
        rows = query_rows(qid, group, documents.shape[0])
        scaled = scale_within_queries(rows.gather(documents), rows.starts, self.scaling)
        scores = LinearScores(scaled, np.ones(self.n_features_in_)).scores(self.coef_)
        return rows.scatter(scores)

    def rank(self, X: Any, qid: Any = None, group: Any = None) -> IntArray:
        """Return the rows of every query from the best document to the worst.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n, d)
            One row of features per document.
        qid : array of shape (n,), optional
            The query of every document; without it and `group`, all rows are one query.
        group : array of shape (q,), optional
            Instead of `qid`: how many consecutive rows each query has.

        Returns
        -------
        ndarray of shape (n,)
            Row numbers, query by query in the order of their first rows.  Equal scores
            keep the order of the rows.
        """
        rows = self._rows(X, qid, group)
        scores = rows.gather(self._scores(X, qid, group, rows))
        owners = np.repeat(np.arange(len(rows.ids)), np.diff(rows.starts))
        order = np.lexsort((-scores, owners))
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
        X : array, sparse matrix or DataFrame of shape (n, d)
            One row of features per document.
        y : array of shape (n,)
            Grades.
        qid : array of shape (n,), optional
            The query of every document.
        group : array of shape (q,), optional
            Instead of `qid`: how many consecutive rows each query has.
        sample_weight : array of shape (n,), optional
            The weight of every document's query in the average.

        Returns
        -------
        float
            Between 0 and 1; see `permatch.metrics.ndcg`.
        """
        documents = self._check_new(X)
        grades = check_grades(y, documents.shape[0])
        rows = query_rows(qid, group, documents.shape[0])
        scores = self._scores(X, qid, group, rows)
        weights = query_weights(sample_weight, rows, documents.shape[0])
        figures = ndcg(grades, scores, qid, 10, group=group, per_query=True)
        return float(np.average(figures, weights=weights))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model to a JSON file, to be read by `permatch.load`.

        Parameters
        ----------
        path : str or path
            An existing file is replaced, and never left half-written.
        """
        self._check_fitted()
        save_model(self, path)

    def scaled(self, queries: QuerySet) -> QuerySet:
        """Return the queries as the model sees them: scaled within every query, if so."""
        if self.scaling is None:
            return queries
        if self.scaling not in METHODS:
            raise InvalidOptionError(
                f"scaling must be None or one of {', '.join(map(repr, METHODS))}; got "
                f"{self.scaling!r}."
            )
        documents = scale_within_queries(queries.documents, queries.starts, self.scaling)
        return replace(queries, documents=documents)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"this needs a fitted {type(self).__name__}, and this one has not been "
                "fitted. Call fit(X, y, qid=qid) first, or read a fitted model with "
                "permatch.load."
            )

    def _check_options(self) -> tuple[float, int, int]:
        return (
            check_number(self.tol, "tol", is_zero_allowed=False),
            check_count(self.max_iter, "max_iter", 1),
            check_jobs(self.n_jobs),
        )

    def _check_seed(self) -> int:
        return check_count(self.random_state, "random_state", 0)

    def _check_new(self, X: Any) -> Any:
        """Return documents with the features of the fitted model, in their order."""
        self._check_fitted()
        check_columns(X, self.columns_ or self.feature_names_)
        return check_documents(X, self.n_features_in_)

    def _rows(self, X: Any, qid: Any, group: Any) -> QueryRows:
        n_documents = self._check_new(X).shape[0]
        if qid is None and group is None:
            group = [n_documents]
        return query_rows(qid, group, n_documents)

    def _scores(self, X: Any, qid: Any, group: Any, rows: QueryRows) -> FloatArray:
        if qid is None and group is None:
            group = np.diff(rows.starts)
        return self.predict(X, qid, group)

    def _adopt(self, queries: QuerySet, problem: RankingProblem, optimum: Any) -> None:
        """Set the fitted attributes."""
        scale = problem.linear.scale
        with np.errstate(over="ignore"):  # caught at once
            coef = optimum.coef / scale
        if not np.isfinite(coef).all():
            worst = int(np.argmin(np.isfinite(coef)))
            raise PrecisionError(
                f"coefficients must be finite; feature {worst} varies by only "
                f"{scale[worst]:.2g}, too little for float64. Give it in a smaller unit."
            )
        self.coef_, self.scale_ = coef, scale
        self.n_features_in_ = queries.n_features
        self.n_iter_ = optimum.n_iter
        self.is_converged_ = optimum.is_converged
        self.history_ = optimum.history
        self.n_observations_ = problem.n_observations
        for name, value in problem.fitted.items():
            setattr(self, name, value)


def column_names(X: Any) -> list[str] | None:
    """Return the names of the columns of a DataFrame; None of anything else."""
    columns = getattr(X, "columns", None)
    if columns is None or not all(isinstance(name, str) for name in columns):
        return None
    return list(columns)


def check_columns(X: Any, names: list[str] | None) -> None:
    """Refuse a DataFrame whose columns are not those of the training data, in order."""
    pairs = zip(column_names(X) or (), names or (), strict=False)
    for k, (column, name) in enumerate(pairs):
        if column != name:
            raise InvalidQueriesError(
                "the columns of X must be those the model is fitted with, in the same "
                f"order; column {k} is {column!r}, not {name!r}. Pass X with its columns "
                "in that order."
            )


def name_features(X: Any, names: Sequence[str] | None) -> Sequence[str] | None:
    """Return the names given, or else those of the columns of a DataFrame."""
    return column_names(X) if names is None else names
