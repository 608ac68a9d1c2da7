"""Scaling within queries: by hand, against scikit-learn's scalers, and in a pipeline."""

import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from permatch.errors import (
    InvalidOptionError,
    InvalidQueriesError,
    NaNDocumentError,
    NotFittedError,
)
from permatch.estimators.query_scaler import (
    METHODS,
    QueryScaler,
    scale_within_queries,
)

THEIRS = {"minmax": MinMaxScaler, "standard": StandardScaler}


@pytest.fixture
def lists(rng):
    """Documents of ten queries, with a feature that is constant within each."""
    lengths = rng.integers(2, 12, 10)
    qid = np.repeat(rng.permutation(10), lengths)
    X = rng.normal(3.0, 20.0, size=(len(qid), 5))
    X[:, 2] = 0.1 * qid
    return X, qid


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def by_query(X, qid, method):
    """Return what scikit-learn's scaler makes of every query on its own."""
    out = np.empty_like(X)
    for query in np.unique(qid):
        rows = qid == query
        out[rows] = THEIRS[method]().fit_transform(X[rows])
    return out


def test_by_hand():
    X = [[1, 7, -1], [3, 7, 1], [2, 7, 0], [5, 0, 0]]
    found = QueryScaler().fit_transform(X, qid=[1, 1, 1, 2])
    np.testing.assert_array_equal(found, [[0, 0, 0], [1, 0, 1], [0.5, 0, 0.5], [0, 0, 0]])
    found = QueryScaler("standard").fit_transform(X, group=[3, 1])
    root = np.sqrt(1.5)
    expected = [[-root, 0, -root], [root, 0, root], [0, 0, 0], [0, 0, 0]]
    np.testing.assert_allclose(found, expected, atol=1e-15)


@pytest.mark.parametrize("method", METHODS)
def test_every_query_is_scaled_on_its_own(lists, method):
    X, qid = lists
    found = QueryScaler(method).fit_transform(X, qid=qid)
    np.testing.assert_allclose(found, by_query(X, qid, method), atol=1e-13)
    assert (found[:, 2] == 0.0).all()  # constant within every query
    if method == "minmax":
        assert found.min() == 0.0
        assert found.max() == 1.0


@pytest.mark.parametrize("method", METHODS)
def test_rows_of_a_query_may_be_apart(lists, rng, method):
    X, qid = lists
    expected = QueryScaler(method).fit_transform(X, qid=qid)
    order = rng.permutation(len(X))
    for copy in (True, False):
        found = QueryScaler(method, copy=copy).fit_transform(X[order], qid=qid[order])
        np.testing.assert_allclose(found, expected[order], atol=1e-14)
    sizes = np.diff(np.flatnonzero(np.append(np.append(True, qid[1:] != qid[:-1]), True)))
    found = QueryScaler(method).fit_transform(X, group=sizes)
    np.testing.assert_array_equal(found, expected)


def test_nothing_is_learnt_from_other_queries(lists, rng):
    X, qid = lists
    scaler = QueryScaler().fit(100.0 * rng.normal(size=(4, 5)), qid=[0, 0, 1, 1])
    np.testing.assert_array_equal(
        scaler.transform(X, qid=qid), QueryScaler().fit_transform(X, qid=qid)
    )


def test_one_query_without_ids(lists):
    X, _ = lists
    found = QueryScaler().fit(X).transform(X)
    np.testing.assert_allclose(found, MinMaxScaler().fit_transform(X), atol=1e-14)


def test_queries_must_not_get_lost_on_the_way(lists):
    X, qid = lists
    scaler = QueryScaler().fit(X, qid=qid)
    with pytest.raises(
        InvalidQueriesError, match="needs the queries.*set_transform_request"
    ):
        scaler.transform(X)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, bool])
def test_types(lists, method, dtype):
    X, qid = lists
    X = X.astype(dtype)
    given = X.copy()
    found = QueryScaler(method).fit_transform(X, qid=qid)
    assert found.dtype == (np.float32 if dtype == np.float32 else np.float64)
    np.testing.assert_array_equal(X, given)
    expected = by_query(X.astype(np.float64), qid, method)
    np.testing.assert_allclose(found, expected, atol=1e-5 if dtype == np.float32 else 1e-13)


def test_in_place_if_wanted(lists):
    X, qid = lists
    expected = QueryScaler().fit_transform(X, qid=qid)
    assert not np.shares_memory(expected, X)
    found = QueryScaler(copy=False).fit_transform(X, qid=qid)
    assert found is X
    np.testing.assert_array_equal(X, expected)
    frozen = X.copy()
    frozen.flags.writeable = False
    found = QueryScaler(copy=False).fit_transform(frozen, qid=qid)
    np.testing.assert_array_equal(found, QueryScaler().fit_transform(X, qid=qid))


@pytest.mark.parametrize("order", ["C", "F"])
def test_memory_orders(lists, order):
    X, qid = lists
    given = np.asarray(X, order=order)
    found = QueryScaler().fit_transform(given, qid=qid)
    np.testing.assert_array_equal(found, QueryScaler().fit_transform(X, qid=qid))
    np.testing.assert_array_equal(given, X)


def test_writing_where_one_reads(lists):
    X, qid = lists
    starts = np.append(np.flatnonzero(np.append(True, qid[1:] != qid[:-1])), len(qid))
    for method in METHODS:
        expected = scale_within_queries(X, starts, method)
        own = X.copy()
        assert scale_within_queries(own, starts, method, out=own) is own
        np.testing.assert_array_equal(own, expected)


def test_a_constant_that_has_no_exact_mean():
    X = np.full((7, 1), 0.1)
    assert (QueryScaler("standard").fit_transform(X) == 0.0).all()


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix, sparse.coo_array])
def test_sparse_features_that_are_not_negative(rng, kind):
    X = rng.random((40, 6)) * (rng.random((40, 6)) < 0.4)
    X[:, 0] = 1.0 + rng.random(40)  # no zeros at all
    X[:, 1] = 0.0
    X[:10, 2] = -1.0 - rng.random(10)  # negative, but without a zero in its query
    X[10:, 2] = 0.0
    qid = np.repeat(np.arange(4), 10)
    found = QueryScaler().fit_transform(kind(X), qid=qid)
    assert sparse.issparse(found)
    np.testing.assert_allclose(found.toarray(), by_query(X, qid, "minmax"), atol=1e-14)
    order = rng.permutation(40)
    found = QueryScaler().fit_transform(kind(X[order]), qid=qid[order])
    np.testing.assert_allclose(
        found.toarray(), by_query(X, qid, "minmax")[order], atol=1e-14
    )


def test_sparse_entries_given_twice():
    X = sparse.csr_array(
        (np.array([1.0, 2.0, 6.0]), np.array([0, 0, 0]), np.array([0, 2, 3, 3])),
        shape=(3, 1),
    )
    found = QueryScaler().fit_transform(X, qid=[1, 1, 1])
    np.testing.assert_array_equal(found.toarray(), [[0.5], [1.0], [0.0]])
    assert X.nnz == 3


def test_sparse_features_that_would_become_dense():
    X = sparse.csr_array(np.array([[0.0, 0.0], [0.0, -1.0]]))
    with pytest.raises(
        InvalidQueriesError, match=r"feature 1 is negative in query.*toarray\(\)"
    ):
        QueryScaler().fit_transform(X, qid=[1, 1])
    with pytest.raises(InvalidQueriesError, match="only be scaled by 'minmax'.*dense"):
        QueryScaler("standard").fit_transform(abs(X), qid=[1, 1])


def test_data_frames(lists):
    pandas = pytest.importorskip("pandas", reason="needs pandas (extra 'tables')")
    X, qid = lists
    frame = pandas.DataFrame(X, columns=list("abcde"), index=np.arange(len(X)) + 7)
    expected = QueryScaler().fit_transform(X, qid=qid)
    scaler = QueryScaler().fit(frame, qid=pandas.Series(qid))
    np.testing.assert_array_equal(scaler.transform(frame, qid=qid), expected)
    assert scaler.get_feature_names_out().tolist() == list("abcde")
    assert scaler.feature_names_in_.tolist() == list("abcde")
    np.testing.assert_array_equal(frame.to_numpy(), X)
    scaler.set_output(transform="pandas")
    found = scaler.transform(frame, qid=qid)
    pandas.testing.assert_frame_equal(
        found, pandas.DataFrame(expected, columns=list("abcde"), index=frame.index)
    )
    scaler.set_output(transform="default")
    mixed = frame.assign(query=qid)[["query", *"eabcd"]]
    np.testing.assert_array_equal(scaler.transform(mixed, qid=qid), expected)
    with pytest.raises(InvalidQueriesError, match="it lacks 'e'"):
        scaler.transform(frame[list("abcd")], qid=qid)
    scaler.fit(X, qid=qid)
    assert not hasattr(scaler, "feature_names_in_")


class Kept(RegressorMixin, BaseEstimator):
    """Keeps what it is fitted on."""

    def fit(self, X, y, qid=None):
        self.X_, self.qid_ = X, qid
        self.ridge_ = Ridge().fit(X, y)
        return self

    def predict(self, X):
        self.seen_ = X
        return self.ridge_.predict(X)


def routed(**options):
    return (
        QueryScaler(**options)
        .set_fit_request(qid=True)
        .set_transform_request(qid=True)
    )  # fmt: skip


@pytest.mark.usefixtures("routing")
def test_in_a_pipeline_with_metadata_routing(lists, rng):
    X, qid = lists
    y = rng.integers(0, 3, len(X))
    pipeline = make_pipeline(routed(), Kept().set_fit_request(qid=True))
    pipeline.fit(X, y, qid=qid)
    expected = QueryScaler().fit_transform(X, qid=qid)
    np.testing.assert_array_equal(pipeline[-1].X_, expected)
    np.testing.assert_array_equal(pipeline[-1].qid_, qid)
    pipeline.predict(X, qid=qid)
    np.testing.assert_array_equal(pipeline[-1].seen_, expected)
    assert pipeline[:-1].get_feature_names_out().tolist() == [f"x{k}" for k in range(5)]


@pytest.mark.usefixtures("routing")
def test_in_cross_validation_with_groups(lists, rng):
    X, qid = lists
    y = rng.integers(0, 3, len(X)).astype(float)
    pipeline = Pipeline([("scale", routed()), ("ridge", Ridge())])
    params = {"qid": qid, "groups": qid}
    found = cross_val_score(pipeline, X, y, cv=GroupKFold(3), params=params)
    expected = []
    for train, test in GroupKFold(3).split(X, y, qid):
        scaled = QueryScaler().fit_transform(X, qid=qid)
        expected.append(Ridge().fit(scaled[train], y[train]).score(scaled[test], y[test]))
    np.testing.assert_allclose(found, expected)
    search = GridSearchCV(pipeline, {"scale__method": METHODS}, cv=GroupKFold(3))
    search.fit(X, y, **params)
    assert search.best_params_["scale__method"] in METHODS


def test_without_routing_a_pipeline_says_what_is_missing(lists, rng):
    X, qid = lists
    y = rng.integers(0, 3, len(X)).astype(float)
    pipeline = Pipeline([("scale", QueryScaler()), ("ridge", Ridge())])
    with pytest.raises(
        (InvalidQueriesError, TypeError), match="queries|unexpected keyword"
    ):
        pipeline.fit(X, y, scale__qid=qid).predict(X)


def test_clones_and_options():
    scaler = clone(QueryScaler("standard", copy=False))
    assert scaler.get_params() == {"method": "standard", "copy": False}
    assert repr(scaler) == "QueryScaler(copy=False, method='standard')"


def test_bad_input(lists):
    X, qid = lists
    with pytest.raises(InvalidOptionError, match="'minmax', 'standard'; got 'max'"):
        QueryScaler("max").fit(X)
    with pytest.raises(NotFittedError, match="Call fit"):
        QueryScaler().transform(X)
    scaler = QueryScaler().fit(X, qid=qid)
    with pytest.raises(InvalidQueriesError, match="5 features.*got 3"):
        scaler.transform(X[:, :3], qid=qid)
    with pytest.raises(InvalidQueriesError, match="one id per document"):
        scaler.transform(X, qid=qid[1:])
    with pytest.raises(InvalidQueriesError, match="one id per document"):
        scaler.fit(X, qid=qid[1:])
    with pytest.raises(NaNDocumentError, match="nan at row 0, column 1"):
        scaler.transform([[1.0, np.nan, 0.0, 0.0, 0.0]], group=[1])


@pytest.mark.parametrize("method", METHODS)
def test_ranges_beyond_floats(method):
    X = np.array([[0.0, 1.7e308], [1.0, -1.7e308]])
    with pytest.raises(InvalidQueriesError, match="feature 1 in query number 0"):
        QueryScaler(method).fit_transform(X)
    X = np.array([[3.4e38], [-3.4e38]], dtype=np.float32)
    found = QueryScaler(method).fit_transform(X)
    np.testing.assert_array_equal(np.abs(found[0] - found[1]), [1 + (method == "standard")])
