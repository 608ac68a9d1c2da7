"""Features scaled within each query, using only the documents of that query.

Raw values of different queries are hardly comparable.  Nothing is learned from the training
data, so nothing leaks into the test data.
"""

from typing import Any, Literal, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin

from permatch._tables import column_names, take_features
from permatch._types import IntArray
from permatch._validation import check_choice
from permatch.errors import InvalidQueriesError, NotFittedError
from permatch.kernels.ranking.query_scaling import (
    scale_minmax,
    scale_minmax_sparse,
    scale_standard,
)
from permatch.queries import QueryRows, check_documents, query_rows

#: How features are scaled.
METHODS = ("minmax", "standard")


class QueryScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Scale every feature within each query.

    Parameters
    ----------
    method : {"minmax", "standard"}
        To the range 0 to 1, or to mean 0 and variance 1, over the documents of a query.  A
        constant feature becomes 0.
    copy : bool
        If False, float arrays are scaled in place to save memory.

    Attributes
    ----------
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if `fit` was given a data frame.
    has_queries_ : bool
        Whether `fit` was given the queries; `transform` then needs them too.

    Notes
    -----
    In a pipeline the queries reach the scaler by metadata routing:
    ``sklearn.set_config(enable_metadata_routing=True)``, then
    ``pipeline.fit(X, y, qid=qid)``.

    Sparse features can be scaled by ``"minmax"`` if none is negative, so that zeros stay
    zeros; the result is sparse.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 5.0], [3.0, 5.0], [10.0, 0.0], [20.0, 1.0]])
    >>> QueryScaler().fit_transform(X, qid=[1, 1, 2, 2])
    array([[0., 0.],
           [1., 0.],
           [0., 0.],
           [1., 1.]])
    """

    n_features_in_: int
    feature_names_in_: np.ndarray
    has_queries_: bool

    # With metadata routing on, query ids are passed without a request.
    __metadata_request__fit = {"qid": True}
    __metadata_request__transform = {"qid": True}

    def __init__(
        self, method: Literal["minmax", "standard"] = "minmax", *, copy: bool = True
    ) -> None:
        self.method = method
        self.copy = copy

    def fit(self, X: Any, y: Any = None, qid: Any = None, group: Any = None) -> Self:
        """Check the features; nothing else is learned.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n, d)
            One row of features per document.
        y : ignored
            Accepted for scikit-learn.
        qid : array of shape (n,), optional
            The query of every document; default: one query.
        group : array of shape (q,), optional
            Instead of `qid`: the number of consecutive rows of each query.

        Returns
        -------
        QueryScaler
            Itself.
        """
        self._learn(X, check_documents(X), qid, group)
        return self

    def _learn(self, X: Any, documents: Any, qid: Any, group: Any) -> QueryRows:
        check_choice(self.method, "method", METHODS)
        rows = query_rows(qid, group, documents.shape[0], is_one_default=True)
        names = column_names(X)
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.n_features_in_ = documents.shape[1]
        self.has_queries_ = qid is not None or group is not None
        return rows

    def transform(self, X: Any, qid: Any = None, group: Any = None) -> Any:
        """Return the documents with features scaled within each query.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n, d)
            One row of features per document.
        qid : array of shape (n,), optional
            The query of every document, in any order.
        group : array of shape (q,), optional
            Instead of `qid`: the number of consecutive rows of each query.

        Returns
        -------
        ndarray or sparse matrix of shape (n, d)
            In the order of the rows given; float32 stays float32.
        """
        if not hasattr(self, "n_features_in_"):
            raise NotFittedError(
                "a fitted QueryScaler is required; this one is not fitted. Call fit or "
                "fit_transform first."
            )
        known = getattr(self, "feature_names_in_", None)
        if known is not None and column_names(X) is not None:
            X = take_features(X, list(known))
        documents = check_documents(X, self.n_features_in_)
        if self.has_queries_ and qid is None and group is None:
            raise InvalidQueriesError(
                "transform needs the queries, by qid or group, as fit did; got neither. "
                "In a pipeline, enable metadata routing and call "
                "set_transform_request(qid=True)."
            )
        rows = query_rows(qid, group, documents.shape[0], is_one_default=True)
        return self._scale(X, documents, rows)

    def _scale(self, X: Any, documents: Any, rows: QueryRows) -> Any:
        is_reused = not self.copy or not _shares_memory(documents, X)
        is_reused &= not sparse.issparse(documents) and documents.flags.writeable
        if rows.order is None:
            out = documents if is_reused else None
            return scale_within_queries(documents, rows.starts, self.method, out)
        scaled = scale_within_queries(rows.gather(documents), rows.starts, self.method)
        if sparse.issparse(scaled):
            return scaled[np.argsort(rows.order)]
        out = documents if is_reused else np.empty_like(documents)
        out[rows.order] = scaled
        return out

    def fit_transform(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, X: Any, y: Any = None, qid: Any = None, group: Any = None
    ) -> Any:
        """Fit, then return the documents scaled.

        Parameters
        ----------
        X, y, qid, group
            As in `fit`.

        Returns
        -------
        ndarray or sparse matrix of shape (n, d)
            In the order of the rows given.
        """
        documents = check_documents(X)
        return self._scale(X, documents, self._learn(X, documents, qid, group))


def scale_within_queries(
    documents: Any, starts: IntArray, method: str = "minmax", out: Any = None
) -> Any:
    """Return checked features (n, d), sorted by query, scaled within each query.

    Query k has the rows ``starts[k]:starts[k + 1]``.  `out`, not for sparse rows, may be
    `documents` itself.
    """
    check_choice(method, "method", METHODS)
    starts = np.ascontiguousarray(starts, dtype=np.int64)
    if sparse.issparse(documents):
        return _scale_sparse(documents, starts, method)
    scaled = np.empty_like(documents) if out is None else out
    scale = scale_minmax if method == "minmax" else scale_standard
    query, feature = scale(documents, starts, scaled)
    if query >= 0:
        raise InvalidQueriesError(
            "features must be small enough for their range and variance to be finite; "
            f"those of feature {feature} in query number {query} are not. Divide it by a "
            "large number."
        )
    return scaled


def _scale_sparse(documents: Any, starts: IntArray, method: str) -> Any:
    if method != "minmax":
        raise InvalidQueriesError(
            f"sparse features can only be scaled by 'minmax', since {method!r} would "
            "change zeros. Use minmax, or a dense array (X.toarray())."
        )
    if not documents.has_canonical_format:
        documents = documents.copy()
        documents.sum_duplicates()
    values = np.empty_like(documents.data)
    query, feature = scale_minmax_sparse(
        documents.data,
        documents.indices,
        documents.indptr,
        documents.shape[1],
        starts,
        values,
    )
    if query >= 0:
        raise InvalidQueriesError(
            "sparse features must be non-negative to be scaled, since zeros would change; "
            f"feature {feature} is negative in query number {query}. Use a dense array "
            "(X.toarray())."
        )
    return type(documents)(
        (values, documents.indices, documents.indptr), shape=documents.shape
    )


def _shares_memory(documents: Any, X: Any) -> bool:
    """Return whether the checked documents may share memory with those given."""
    if isinstance(X, np.ndarray):
        return np.may_share_memory(documents, X)
    return not isinstance(X, list | tuple)
