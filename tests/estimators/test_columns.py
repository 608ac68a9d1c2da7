"""Tables of judged documents: columns with roles, and features found by name."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import permatch as pm
from permatch import errors
from tests.distributed.judged import FEATURES, frame_of, judged_lists

X, Y, QID = judged_lists(n_queries=12)
FRAME = frame_of(X, Y, QID)
# With columns that are no features: text, and a row number that is kept out by name.
WHOLE = FRAME.assign(title="a title", n=np.arange(len(X)))


def fitted(model=None, frame=FRAME, **more):
    model = pm.RankMatch(alpha=0.1, qid="query") if model is None else model
    return model.fit(frame, "grade", sample_weight="weight", **more)


@pytest.fixture(scope="module")
def held():
    """The same model from arrays."""
    return pm.RankMatch(alpha=0.1).fit(X, Y, QID, sample_weight=FRAME["weight"])


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
@pytest.mark.parametrize("is_named_by", ["model", "call"])
def test_roles_of_columns(held, kind, is_named_by):
    table = kind(FRAME)
    if is_named_by == "model":
        model = fitted(frame=table)
        score = model.score(table, "grade")
    else:
        model = pm.RankMatch(alpha=0.1)
        model.fit(table, "grade", "query", sample_weight="weight")
        score = model.score(table, "grade", "query")
    np.testing.assert_array_equal(model.coef_, held.coef_)
    assert model.feature_names_ == model.columns_ == FEATURES
    np.testing.assert_array_equal(model.predict(table), held.predict(X))
    assert score == held.score(X, Y, QID)
    np.testing.assert_array_equal(
        model.rank(table, None if is_named_by == "model" else "query"), held.rank(X, QID)
    )


def test_columns_are_found_by_name_in_any_order_and_others_ignored(held, tmp_path):
    fitted().save(tmp_path / "model.json")
    model = pm.load(tmp_path / "model.json")
    mixed = WHOLE[WHOLE.columns[::-1]]
    np.testing.assert_array_equal(model.predict(mixed), held.predict(X))
    assert model.score(mixed, Y) == held.score(X, Y, QID)
    with pytest.raises(
        errors.InvalidQueriesError, match="lacks 'b', 'd'. It has 'a', 'c'. Add or rename"
    ):
        model.predict(FRAME[["a", "c"]])
    np.testing.assert_array_equal(model.predict(X), held.predict(X))  # by position
    with pytest.raises(errors.InvalidQueriesError, match="the 4 features.*got 3"):
        model.predict(X[:, :3])


def test_names_of_an_array_are_those_of_columns_later(held):
    model = pm.RankMatch(alpha=0.1).fit(X, Y, QID, feature_names=FEATURES)
    np.testing.assert_array_equal(model.predict(FRAME[FEATURES[::-1]]), model.predict(X))
    with pytest.raises(errors.InvalidQueriesError, match="lacks 'a'"):
        model.predict(FRAME[["b", "c", "d"]])


def test_features_by_type_or_by_list(held):
    model = fitted(frame=WHOLE.drop(columns="n"))
    assert (model.columns_, model.left_out_) == (FEATURES, ["title"])
    np.testing.assert_array_equal(model.coef_, held.coef_)
    model = fitted(frame=WHOLE, feature_names=["d", "a"])
    assert (model.columns_, model.left_out_) == (["d", "a"], [])
    np.testing.assert_array_equal(model.predict(WHOLE), model.predict(X[:, [3, 0]]))
    with pytest.raises(errors.DocumentTypeError, match="X: .* 'title' is not. Encode"):
        fitted(frame=WHOLE, feature_names=["a", "title"])
    with pytest.raises(errors.InvalidQueriesError, match="it lacks 'x'"):
        fitted(feature_names=["a", "x"])
    model = fitted()
    with pytest.raises(errors.DocumentTypeError, match="column 'a' is not"):
        model.predict(FRAME.assign(a="x"))


def test_columns_of_other_types(held):
    frame = FRAME.astype({"a": object, "b": "Float64"})
    np.testing.assert_array_equal(fitted(frame=frame).coef_, held.coef_)
    np.testing.assert_array_equal(fitted().predict(frame), held.predict(X))
    single = fitted(frame=FRAME.astype(dict.fromkeys(FEATURES, np.float32)))
    np.testing.assert_allclose(single.coef_, held.coef_, rtol=1e-3)
    is_lower = fitted(frame=FRAME.assign(a=FRAME["a"] < 0))
    assert is_lower.columns_ == FEATURES


def test_numbered_columns_beside_named_ones(held):
    frame = pd.DataFrame(X).assign(query=QID)
    model = pm.RankMatch(alpha=0.1, qid="query").fit(frame, Y, sample_weight=FRAME.weight)
    np.testing.assert_array_equal(model.coef_, held.coef_)
    assert (model.columns_, model.feature_names_) == (None, None)
    np.testing.assert_array_equal(model.predict(frame), held.predict(X))
    np.testing.assert_array_equal(model.predict(X), held.predict(X))
    numbered = pm.RankMatch(alpha=0.1).fit(pd.DataFrame(X), Y, QID)
    assert numbered.columns_ is None


def test_queries_passed_take_the_place_of_the_column(held):
    model = pm.RankMatch(alpha=0.1, qid="query")
    other = np.arange(len(X)) // 10
    model.fit(FRAME[[*FEATURES, "query"]], Y, other)
    assert model.columns_ == FEATURES
    direct = pm.RankMatch(alpha=0.1).fit(X, Y, other)
    np.testing.assert_array_equal(model.coef_, direct.coef_)
    model.fit(X, Y, QID)  # arrays have no columns
    assert model.columns_ is None


@pytest.mark.parametrize("scaling", ["minmax", "standard"])
def test_scaling_within_the_queries_of_a_column(scaling):
    model = pm.RankMatch(alpha=0.1, scaling=scaling, qid="query")
    model.fit(FRAME[[*FEATURES, "query"]], Y)
    direct = pm.RankMatch(alpha=0.1, scaling=scaling).fit(X, Y, QID)
    np.testing.assert_array_equal(model.predict(FRAME), direct.predict(X, QID))
    with pytest.raises(errors.InvalidQueriesError, match="must have a column 'query'"):
        model.predict(FRAME.drop(columns="query"))
    with pytest.raises(
        errors.MissingQueriesError, match="qid='query' names a column, .*; got ndarray"
    ):
        model.predict(X)
    is_last = QID[-1] == QID
    np.testing.assert_array_equal(
        model.rank_marginals(FRAME[is_last]),
        direct.rank_marginals(X[is_last]),
    )


def test_inference_with_roles(held):
    model = fitted()
    expected = held.inference(X, Y, QID, sample_weight=FRAME["weight"])
    found = model.inference(FRAME, "grade", sample_weight="weight", clusters=QID)
    np.testing.assert_allclose(found.bse, expected.bse, rtol=1e-12)
    assert list(found.names) == FEATURES


MISSING = {
    "fit": lambda model: model.fit(X, Y),
    "score": lambda model: model.fit(X, Y, QID).score(X, Y),
    "predict": lambda model: model.set_params(scaling="minmax").fit(X, Y, QID).predict(X),
    "inference": lambda model: model.fit(X, Y, QID).inference(X, Y),
    "search": lambda model: pm.RankMatchCV().fit(X, Y),
}


@pytest.mark.parametrize("call", MISSING)
def test_missing_queries(call):
    message = (
        r'of every document; got none. Name the column of a DataFrame, .*qid="query"\)'
        r".* qid=ids, .* group=sizes. For a single query pass group=\[len\(X\)\]."
    )
    with pytest.raises(errors.MissingQueriesError, match=message):
        MISSING[call](pm.RankMatch())


def test_roles_need_a_table_with_these_columns():
    with pytest.raises(errors.InvalidQueriesError, match="y='grade' names a column, so X"):
        pm.RankMatch().fit(X, "grade", QID)
    with pytest.raises(errors.InvalidQueriesError, match="qid='q'.*got ndarray"):
        pm.RankMatch().fit(X, Y, "q")
    with pytest.raises(errors.InvalidQueriesError, match="must have a column 'q'; it has"):
        pm.RankMatch(qid="q").fit(FRAME, "grade")
    with pytest.raises(errors.InvalidQueriesError, match="none is numeric"):
        pm.RankMatch(qid="query").fit(FRAME[["query", "grade"]], "grade")
    with pytest.raises(errors.NaNDocumentError, match="nan at row 3, column 'b'"):
        fitted(frame=FRAME.assign(b=np.where(np.arange(len(X)) == 3, np.nan, X[:, 1])))


def test_the_column_of_the_model_names_that_of_data_in_parts(held, tmp_path):
    parts = pytest.importorskip("dask.dataframe").from_pandas(FRAME, npartitions=3)
    FRAME.to_parquet(tmp_path / "lists.parquet")
    for data in (parts, tmp_path):
        model = pm.RankMatch(alpha=0.1, qid="query")
        model.fit(data, "grade", sample_weight="weight")
        np.testing.assert_allclose(model.coef_, held.coef_, atol=1e-9)
        assert model.score(data, "grade") == pytest.approx(held.score(X, Y, QID))
    model.set_params(scaling="minmax").fit(FRAME, "grade", feature_names=FEATURES)
    np.testing.assert_array_equal(model.predict(tmp_path), model.predict(FRAME))
