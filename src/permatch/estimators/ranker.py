"""The contract of rankers: fit on judged lists, score documents, measure, save."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np

from permatch._blas import one_blas_thread
from permatch._missing_queries import missing_queries
from permatch._shards import HeldShards, Shards
from permatch._tables import Roles, check_feature_names
from permatch._types import FloatArray, IntArray
from permatch.distributed import is_in_parts, open_queries, predict_in_parts
from permatch.errors import InvalidOptionError, InvalidQueriesError, ServingWarning
from permatch.estimators.base import BaseModel
from permatch.estimators.convergence import warn_caller
from permatch.estimators.export import ExportedRanker
from permatch.estimators.inputs import (
    Inputs,
    learn_inputs,
    own_queries,
    query_ids,
)
from permatch.estimators.query_scaler import METHODS, scale_within_queries
from permatch.metrics import NDCG
from permatch.queries import QueryRows, QuerySet, query_rows, refuse_document_weights


class BaseRanker(ExportedRanker, BaseModel):
    """A model of relevance: the documents of a query are ranked by their scores.

    Subclasses have the parameters `scaling` and `qid`, learn from judged lists in `_fit`,
    which sets ``n_features_in_``, and score documents in `_predict`.

    Examples
    --------
    >>> from permatch.estimators import DORM, BaseRanker, RankMatch
    >>> issubclass(RankMatch, BaseRanker), issubclass(DORM, BaseRanker)
    (True, True)
    """

    scaling: str | None
    qid: str | None = None
    columns_: list[str] | None = None
    left_out_: Sequence[str] = ()

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
        return self._fit(self._in_memory(shards))

    def _in_memory(self, shards: Shards) -> QuerySet:
        """Return data in memory as they are, and refuse others."""
        if not isinstance(shards, HeldShards):
            raise InvalidOptionError(
                f"{type(self).__name__} learns from data in memory only; got data in "
                "parts. Load them into an array, or use a linear ranker."
            )
        (queries,) = shards.shards
        return queries

    @abstractmethod
    def _predict(self, documents: Any) -> FloatArray:
        """Return the scores (n,) of checked, scaled documents (n, d)."""

    def _predict_lists(self, documents: Any, rows: QueryRows) -> FloatArray:
        """Return the scores (n,) of checked, scaled documents (n, d), sorted by query.

        For models whose scores depend on the other documents of a query.
        """
        return self._predict(documents)

    def _contributions(self, documents: Any) -> FloatArray:
        """Return what every feature adds to the scores of scaled documents, (n, d).

        Sums over features are the scores, up to a constant.
        """
        raise InvalidOptionError(
            "what each feature adds to a score is known of linear rankers and of trees; "
            f"got a {type(self).__name__}. Fit one of these with permatch rank fit."
        )

    def _warn(self, optimum: Any) -> None:
        """Warn the caller of `fit` of unreliable results."""

    @one_blas_thread()
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
            One row per document.  See the notes for data that do not fit.
        y : array of shape (n,), or str
            Grades: whole numbers from 0, the best highest; or the name of their column in
            `X`, likewise below.
        qid : array of shape (n,) or str, optional
            The query of every document, in any order; default: the column that the
            parameter `qid` of the model names.
        group : array of shape (q,), optional
            Instead of `qid`: the number of consecutive rows of each query.
        sample_weight : array of shape (n,) or str, optional
            The weight of each document's query, equal for all documents of a query; it
            multiplies the other weights of the query.  `RankMatch` on whole lists or pairs
            also takes weights that differ within a query, for clicks: see there.
        feature_names : sequence of str, optional
            Of a table: the columns to learn from; default: all that hold numbers and have
            no other role.  Of an array: a name per feature, saved with the model.

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

        Their rows must be sorted by query; a query may go on in the next part.
        """
        roles = self._roles(X, y, qid, group, sample_weight, feature_names)
        inputs, shards = self._open(X, roles, group)
        optimum = self._fit_shards(shards)
        vars(self).update(inputs.attributes)
        self._warn(optimum)
        return self

    def predict(self, X: Any, qid: Any = None, group: Any = None) -> Any:
        """Return the score of every document; within a query, higher is better.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n, d), or data in parts
            One row per document, as in `fit`.  Of tables the columns of the fit are found
            by name, in any order; others are ignored.
        qid : array of shape (n,) or str, optional
            The query of every document, as in `fit`; needed only with `scaling`.
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
        rows = query_rows(query_ids(self, X, qid, group), group, documents.shape[0])
        scaled = scale_within_queries(rows.gather(documents), rows.starts, self.scaling)
        return rows.scatter(self._predict_lists(scaled, rows))

    def rank(self, X: Any, qid: Any = None, group: Any = None) -> IntArray:
        """Return the rows of every query from the best document to the worst.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n, d)
            One row per document, as in `predict`.
        qid : array of shape (n,) or str, optional
            The query of every document; default: the column that the parameter `qid` of
            the model names; without it, one query.
        group : array of shape (q,), optional
            Instead of `qid`: the number of consecutive rows of each query.

        Returns
        -------
        ndarray of shape (n,)
            Row numbers, query by query in the order of their first rows.  Equal scores
            keep the order of the rows.
        """
        n_documents = self._check_new(X).shape[0]
        if own_queries(self, X, qid, group) is None and group is None:
            group = [n_documents]
        rows = query_rows(query_ids(self, X, qid, group), group, n_documents)
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
        self._check_fitted()
        roles = self._roles(X, y, qid, group, sample_weight)
        queries = self.scaled(Inputs.of(self).queries(X, roles, group))
        figures, weights = _weigh_figures(queries, self)
        return figures / weights

    def scaled(self, queries: QuerySet) -> QuerySet:
        """Return the queries as the model sees them: scaled if `scaling` is set."""
        prepare = self._prepare()
        return queries if prepare is None else prepare(queries)

    def _prepare(self) -> partial[QuerySet] | None:
        """Return what checks and scales queries, None if nothing does."""
        if self.scaling not in (None, *METHODS):
            raise InvalidOptionError(
                f"scaling must be None or one of {', '.join(map(repr, METHODS))}; got "
                f"{self.scaling!r}."
            )
        why = self._why_equal_weights()
        if self.scaling is None and why is None:
            return None
        return partial(_prepare_queries, method=self.scaling, why=why)

    def _warn_of_scaling(self) -> None:
        """Say before a fit that the model will not be one to serve."""
        if self.scaling is not None:
            warn_caller(
                f"scaling={self.scaling!r} uses all documents of a query, so this "
                f"{type(self).__name__} cannot be exported to ONNX, Solr or Elasticsearch, "
                "which score documents one by one. For a model to serve use scaling=None; "
                "otherwise ignore this, with "
                'warnings.simplefilter("ignore", permatch.errors.ServingWarning).',
                ServingWarning,
            )

    def _why_equal_weights(self) -> str | None:
        """Return what needs equal weights of the documents of a query; None: nothing."""
        return f"for {type(self).__name__}, which weighs whole queries"

    def _roles(
        self,
        X: Any,
        y: Any,
        qid: Any,
        group: Any,
        sample_weight: Any = None,
        feature_names: Any = None,
    ) -> Roles:
        """Return what of the data is what; without queries in memory, say so."""
        qid = own_queries(self, X, qid, group)
        if qid is None and group is None and not is_in_parts(X):
            raise missing_queries(type(self).__name__, X, self.qid)
        is_it = isinstance(qid, str) and qid == self.qid
        aside = () if self.qid is None or is_it else (self.qid,)
        return Roles(y, qid, sample_weight, feature_names, aside)

    def _open(self, X: Any, roles: Roles, group: Any) -> tuple[Inputs, Shards]:
        """Return training data as shards of what the model sees, and how to read more."""
        prepare = self._prepare()
        self._warn_of_scaling()
        if not is_in_parts(X):
            inputs, queries = learn_inputs(X, roles, group)
            return inputs, HeldShards([self.scaled(queries)])
        opened = open_queries(X, roles, group, prepare)
        names = opened.columns or roles.features
        known = check_feature_names(names, opened.n_features)
        return Inputs(opened.n_features, known, opened.columns), opened.shards

    def _open_new(
        self,
        X: Any,
        roles: Roles,
        group: Any,
        inputs: Inputs,
        owner: str = "the fitted model",
    ) -> Shards:
        """Return more judged lists as shards of what the model sees."""
        if not is_in_parts(X):
            queries = inputs.queries(X, roles, group, owner)
            return HeldShards([self.scaled(queries)])
        known = replace(roles, features=inputs.columns)
        opened = open_queries(X, known, group, self._prepare())
        if opened.n_features != inputs.n_features:
            raise InvalidQueriesError(
                f"documents must have the {inputs.n_features} features of {owner}; got "
                f"{opened.n_features}."
            )
        return opened.shards

    def _open_validation(self, validation: Any, inputs: Inputs) -> Shards:
        """Return the validation lists, read like the training lists."""
        if not isinstance(validation, tuple | list) or len(validation) not in (2, 3, 4):
            got = type(validation).__name__
            if isinstance(validation, tuple | list):
                got = f"{got} of {len(validation)}"
            raise InvalidOptionError(
                "validation must be a tuple (X, y, qid), or (X, y) if the model knows the "
                "column of the queries, or (X, y, None, group) with numbers of rows; got "
                f"{got}."
            )
        X, y, qid, group = (*validation, None, None)[:4]
        if qid is not None and not isinstance(qid, str) and not is_in_parts(X):
            _refuse_sizes(X, qid)
        roles = self._roles(X, y, qid, group)
        return self._open_new(X, roles, group, inputs, "the training data")

    def _score_parts(self, X: Any, y: Any, qid: Any, group: Any, weight: Any) -> float:
        """Return the mean NDCG of data in parts."""
        self._check_fitted()
        roles = self._roles(X, y, qid, group, weight)
        shards = self._open_new(X, roles, group, Inputs.of(self))
        figures, weights = shards.total(_weigh_figures, self)
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
        inputs = Inputs.of(self)
        how = (self.scaling is not None), inputs.n_features, inputs.columns
        return predict_in_parts(X, own_queries(self, X, qid, group), score, *how)

    def _check_new(self, X: Any) -> Any:
        """Return documents with the features of the fitted model, in their order."""
        self._check_fitted()
        if is_in_parts(X):
            raise InvalidOptionError(
                "rank, distribution and rank_marginals need documents in memory; got data "
                f"in parts ({type(X).__name__}). Load the documents of the queries to look "
                "at, or use predict or score, which take parts."
            )
        return Inputs.of(self).read(X)


def _refuse_sizes(X: Any, qid: Any) -> None:
    """Refuse numbers of rows of queries in place of the query of every document."""
    sizes = np.asarray(qid)
    n_documents = X.shape[0] if hasattr(X, "shape") else len(X)
    is_short = sizes.ndim == 1 and len(sizes) < n_documents
    if is_short and sizes.dtype.kind in "iuf" and sizes.sum() == n_documents:
        raise InvalidQueriesError(
            "the third of validation must be the query of every document; got "
            f"{len(sizes)} numbers that add up to the {n_documents} documents, as numbers "
            "of rows per query do. Pass (X, y, None, group), or "
            "(X, y, permatch.datasets.query_ids(group))."
        )


def _prepare_queries(queries: QuerySet, method: str | None, why: str | None) -> QuerySet:
    if why is not None:
        refuse_document_weights(queries, why)
    if method is None:
        return queries
    scaled = scale_within_queries(queries.documents, queries.starts, method)
    return replace(queries, documents=scaled)


def _weigh_figures(queries: QuerySet, model: BaseRanker) -> tuple[float, float]:
    """Return the sums of the weighted NDCG of queries, and of their weights."""
    refuse_document_weights(queries, "in score(), which averages over queries")
    rows = QueryRows(queries.starts, queries.ids, None)
    scores = model._predict_lists(queries.documents, rows)
    figures = (NDCG @ 10)(queries.grades, scores, group=queries.lengths, per_query=True)
    return float(figures @ queries.weights), float(queries.weights.sum())


def _score_rows(model: BaseRanker, documents: Any, qid: Any) -> FloatArray:
    """Score documents in memory; no query has rows elsewhere."""
    if not documents.shape[0]:
        return np.zeros(0)
    return model.predict(documents, qid)
