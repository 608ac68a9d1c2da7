"""Prepared features: by hand, against scikit-learn, in pipelines and searches."""

import math
import pickle
from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import permatch as pm
from permatch.errors import (
    DocumentTypeError,
    InvalidOptionError,
    InvalidQueriesError,
    NaNDocumentError,
    NotFittedError,
)
from permatch.estimators.prepared_columns import MISSING

OPTIONS = {"log1p": ["clicks"], "categories": ["brand"], "missing": "indicator"}
FRAMES = {
    "pandas": lambda table: table,
    "polars": pl.from_pandas,
    "lazy": lambda table: pl.from_pandas(table).lazy(),
    "arrow": lambda table: pa.Table.from_pandas(table, preserve_index=False),
}


@pytest.fixture
def table():
    return pd.DataFrame(
        {
            "query": [1, 1, 2, 2],
            "clicks": [0, 9, 99, 999],
            "rating": [4.0, np.nan, 3.0, 1.0],
            "brand": ["b", None, "a", "b"],
            "title": [0.5, 0.25, 0.0, 1.0],
        }
    )


@pytest.fixture(scope="module")
def lists():
    """Thirty queries of eight documents with counts, gaps and brands that matter."""
    rng = np.random.default_rng(7)
    n = 240
    clicks = np.floor(rng.lognormal(2.0, 2.0, n))
    rating = rng.normal(3.0, 1.0, n)
    brand = rng.choice(["acme", "b & c", "none of it"], n)
    merit = np.log1p(clicks) + rating + (brand == "acme") + 0.5 * rng.normal(size=n)
    rating[rng.random(n) < 0.3] = np.nan
    table = pd.DataFrame(
        {
            "query": np.repeat([f"q{k}" for k in range(30)], 8),
            "clicks": clicks,
            "rating": rating,
            "brand": np.where(rng.random(n) < 0.1, None, brand),
        }
    )
    return table, np.digitize(merit, [5.0, 7.0])


def as_pandas(table):
    return table.to_pandas() if hasattr(table, "to_pandas") else table


# ---- what becomes of columns -----------------------------------------------------------


@pytest.mark.parametrize("library", FRAMES)
def test_by_hand(table, library):
    given = FRAMES[library](table)
    preparation = pm.FeaturePreparation(**OPTIONS)
    found = preparation.fit_transform(given)
    assert type(found) is type(given if library != "lazy" else given.collect())
    expected = {
        "query": [1, 1, 2, 2],
        "clicks_log1p": np.log1p([0, 9, 99, 999]),
        "rating": [4.0, 3.0, 3.0, 1.0],
        "rating_missing": [0.0, 1.0, 0.0, 0.0],
        "brand=a": [0.0, 0.0, 1.0, 0.0],
        "brand=b": [1.0, 0.0, 0.0, 1.0],
        "brand_missing": [0.0, 1.0, 0.0, 0.0],
        "title": [0.5, 0.25, 0.0, 1.0],
    }
    pd.testing.assert_frame_equal(as_pandas(found), pd.DataFrame(expected))
    assert preparation.get_feature_names_out().tolist() == list(expected)
    assert preparation.feature_names_in_.tolist() == list(table.columns)
    assert preparation.n_features_in_ == 5
    assert preparation.categories_ == {"brand": ["a", "b"]}
    assert preparation.fill_["rating"] == 3.0


def by_rows(train, table, missing, most):
    """Prepare clicks (log1p), a number and a code, cell by cell."""
    names, columns = [], []

    def add(name, values):
        names.append(name)
        columns.append([float(value) for value in values])

    for name in ("clicks", "number"):
        is_log = name == "clicks"
        change = math.log1p if is_log else float
        present = sorted(change(cell) for cell in train[name] if cell is not None)
        fill = present[(len(present) - 1) // 2] if present and missing != "zero" else 0.0
        values = [fill if cell is None else change(cell) for cell in table[name]]
        add("clicks_log1p" if is_log else name, values)
        if missing == "indicator" and None in train[name]:
            add(f"{name}_missing", [cell is None for cell in table[name]])
    counts = Counter(str(cell) for cell in train["code"] if cell is not None)
    frequent = sorted(counts, key=lambda word: (-counts[word], word))[:most]
    for word in sorted(frequent):
        add(f"code={word}", [str(cell) == word for cell in table["code"]])
    if missing == "indicator" and None in train["code"]:
        add("code_missing", [cell is None for cell in table["code"]])
    return names, np.array(columns).T


COUNTS = st.none() | st.integers(0, 10**9) | st.floats(0, 1e300)
NUMBERS = st.none() | st.floats(-1e300, 1e300)
CODES = st.none() | st.integers(-2, 2) | st.sampled_from(["a", "b", "2", "none of these"])
ROWS = st.lists(st.tuples(COUNTS, NUMBERS, CODES), min_size=1, max_size=8)


@given(ROWS, ROWS, st.sampled_from(["indicator", "median", "zero"]), st.integers(1, 4))
def test_against_a_slow_definition(train, new, missing, most):
    def as_columns(rows):
        return dict(zip(("clicks", "number", "code"), zip(*rows, strict=True), strict=True))

    train, new = as_columns(train), as_columns(new)
    names, expected = by_rows(train, new, missing, most)
    preparation = pm.FeaturePreparation(
        log1p=[0], missing=missing, categories=[2], max_categories=most
    )

    def as_array(table):
        return np.array(list(table.values()), dtype=object).T

    preparation.fit(as_array(train))
    assert preparation.get_feature_names_out(list(train)).tolist() == names
    found = preparation.transform(as_array(new))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_columns_by_position():
    X = np.array([[1.0, 0.0, 2.0], [np.nan, np.e - 1.0, 1.0]])
    preparation = pm.FeaturePreparation(log1p=1, missing="indicator", categories=[2])
    found = preparation.fit_transform(X)
    expected = [[1.0, 0.0, 0.0, 0.0, 1.0], [1.0, 1.0, 1.0, 1.0, 0.0]]
    np.testing.assert_array_equal(found, expected)
    names = preparation.get_feature_names_out()
    assert names.tolist() == ["x0", "x0_missing", "x1_log1p", "x2=1", "x2=2"]
    assert preparation.get_feature_names_out(["a", "b", "c"])[1] == "a_missing"
    assert not hasattr(preparation, "feature_names_in_")
    assert preparation.fill_ == {0: 1.0, 1: 0.0}
    assert preparation.transform(X.astype(np.float32)).dtype == np.float32
    assert preparation.transform(X.tolist()).dtype == np.float64
    assert preparation.transform(X[:0]).shape == (0, 5)
    objects = np.array([[1.0, "a"], [None, "b"]], dtype=object)
    found = pm.FeaturePreparation(missing="zero", categories=[1]).fit_transform(objects)
    np.testing.assert_array_equal(found, [[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])


def test_against_scikit_learn(rng):
    X = rng.normal(size=(51, 4))
    X[rng.random(X.shape) < 0.3] = np.nan
    theirs = SimpleImputer(strategy="median", add_indicator=True).fit_transform(X)
    preparation = pm.FeaturePreparation(missing="indicator")
    ours = preparation.fit_transform(X)[:, [0, 2, 4, 6, 1, 3, 5, 7]]
    np.testing.assert_array_equal(ours[:, 4:], theirs[:, 4:])
    for k in range(4):  # of an even number of values ours is the lower of two
        own = np.sort(X[~np.isnan(X[:, k]), k])
        assert preparation.fill_[k] == own[(len(own) - 1) // 2]
        if len(own) % 2:
            np.testing.assert_array_equal(ours[:, k], theirs[:, k])
    brands = rng.choice(["x", "y", "z"], size=(51, 1)).astype(object)
    theirs = OneHotEncoder(sparse_output=False).fit_transform(brands)
    ours = pm.FeaturePreparation(categories=[0]).fit_transform(brands)
    np.testing.assert_array_equal(ours, theirs)


def test_medians_are_of_training_and_after_the_logarithm(table):
    table["clicks"] = [np.nan, 1.0, 7.0, 8.0]
    options = {**OPTIONS, "missing": "median"}
    preparation = pm.FeaturePreparation(**options).fit(table)
    assert "clicks_missing" not in preparation.get_feature_names_out()
    new = table.assign(clicks=np.nan, rating=np.nan, brand=None)
    found = preparation.transform(new)
    assert (found["clicks_log1p"] == np.log1p(7.0)).all()
    assert (found["rating"] == 3.0).all()
    assert not found[["brand=a", "brand=b"]].to_numpy().any()
    # Missing only after training: filled in, and no column appears.
    new["title"] = np.nan
    found = preparation.transform(new)
    assert (found["title"] == 0.25).all()
    assert list(found) == preparation.get_feature_names_out().tolist()
    zeros = pm.FeaturePreparation(**{**OPTIONS, "missing": "zero"}).fit(table)
    assert not zeros.transform(new)[["clicks_log1p", "rating", "title"]].to_numpy().any()


@pytest.mark.parametrize("missing", ["indicator", "median", "zero"])
def test_columns_without_any_value(table, missing):
    empty = table.assign(rating=np.nan, brand=pd.Series([None] * 4, dtype=object))
    preparation = pm.FeaturePreparation(**{**OPTIONS, "missing": missing})
    found = preparation.fit_transform(empty)
    assert (found["rating"] == 0.0).all()
    assert "brand=a" not in found
    is_there = missing == "indicator"
    assert ("rating_missing" in found) == ("brand_missing" in found) == is_there
    assert (preparation.transform(table)["rating"] == [4.0, 0.0, 3.0, 1.0]).all()


def test_extreme_values():
    X = np.array([[1.7e308], [1.7e308], [np.nan], [5e-324]])
    preparation = pm.FeaturePreparation(missing="median")
    assert preparation.fit_transform(X)[2] == 1.7e308  # a mean of two would be infinite
    found = pm.FeaturePreparation(log1p=0, missing="median").fit_transform(X)
    np.testing.assert_array_equal(found[[0, 3], 0], np.log1p([1.7e308, 5e-324]))
    assert np.isfinite(found).all()


def test_unknown_and_rare_categories(table):
    preparation = pm.FeaturePreparation(**OPTIONS).fit(table)
    found = preparation.transform(table.assign(brand=["new", "a", "", "B"]))
    assert found["brand=a"].tolist() == [0.0, 1.0, 0.0, 0.0]
    assert found["brand=b"].tolist() == [0.0] * 4
    assert found["brand_missing"].tolist() == [0.0, 0.0, 1.0, 0.0]
    preparation.set_params(max_categories=1).fit(table)
    assert preparation.categories_ == {"brand": ["b"]}
    # Among equally frequent ones the first in the alphabet.
    preparation.fit(table.assign(brand=list("dbca")))
    assert preparation.categories_ == {"brand": ["a"]}


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([3, 11, 3], ["11", "3"]),
        ([3.0, None, 11.0], ["11", "3"]),
        ([True, False, True], ["false", "true"]),
        (pd.Categorical(["x", None, "y"]), ["x", "y"]),
        (pd.array([5, None, 6], dtype="Int64"), ["5", "6"]),
        (pd.array(["u", None, "v"], dtype="string"), ["u", "v"]),
        (["3", 3, "x"], ["3", "x"]),
    ],
    ids=["whole", "floats", "truth", "categorical", "Int64", "string", "mixed"],
)
def test_kinds_of_categories(cells, expected):
    table = pd.DataFrame({"code": cells})
    preparation = pm.FeaturePreparation(categories="code", missing="zero").fit(table)
    assert preparation.categories_ == {"code": expected}
    ones = preparation.transform(table).to_numpy().sum()
    assert ones == 3 - table["code"].isna().sum()


@pytest.mark.parametrize("kind", [pl.Categorical, pl.String, pl.Enum(["u", "v"])])
def test_categories_of_polars(kind):
    table = pl.DataFrame({"code": pl.Series(["v", None, "u"], dtype=kind)})
    preparation = pm.FeaturePreparation(categories="code", missing="indicator")
    found = preparation.fit_transform(table)
    assert found.columns == ["code=u", "code=v", "code_missing"]
    assert found.to_numpy().tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]


def test_what_is_passed_on_unread(table):
    large = 2**60 + np.arange(4)  # not to be told apart as floats
    table = table.assign(query=large, text=["p", None, "q", "r"], day=pd.Timestamp(0))
    found = pm.FeaturePreparation(**OPTIONS).fit_transform(table)
    assert found["query"].tolist() == large.tolist()
    assert found["text"].tolist() == table["text"].tolist()
    assert (found["day"] == pd.Timestamp(0)).all()
    # Ids are not filled in where they are named.
    gaps = table.assign(query=[1.0, np.nan, 2.0, 2.0])
    assert pm.FeaturePreparation(**OPTIONS).fit_transform(gaps)["query"].notna().all()
    kept = pm.FeaturePreparation(**OPTIONS, keep="query")
    assert kept.fit_transform(gaps)["query"].isna().tolist() == [False, True, False, False]


def test_numbers_kept_as_objects(table):
    objects = table.assign(
        rating=table["rating"].astype(object).where(table["rating"].notna(), None),
        title=[True, None, False, None],
        text=["1", None, "2", "3"],
        empty=None,
    )
    found = pm.FeaturePreparation(**OPTIONS).fit_transform(objects)
    expected = pm.FeaturePreparation(**OPTIONS).fit_transform(table)["rating_missing"]
    pd.testing.assert_series_equal(found["rating_missing"], expected)
    assert found["title"].tolist() == [1.0, 0.0, 0.0, 0.0]
    assert found["text"].tolist() == objects["text"].tolist()
    assert found["empty"].isna().all()


def test_columns_in_any_order_new_ones_and_those_not_needed(table):
    preparation = pm.FeaturePreparation(**OPTIONS).fit(table)
    expected = preparation.transform(table)
    mixed = table[["title", "brand", "rating", "clicks", "query"]].assign(new=1)
    pd.testing.assert_frame_equal(preparation.transform(mixed), expected)
    fewer = preparation.transform(table.drop(columns=["query", "title"]))
    pd.testing.assert_frame_equal(fewer, expected.drop(columns=["query", "title"]))
    message = r"the columns of the training data; it lacks 'brand'. It has 'query'"
    with pytest.raises(InvalidQueriesError, match=message):
        preparation.transform(table.drop(columns="brand"))


def test_the_index_stays(table):
    table.index = [7, 7, 1, 2]
    found = pm.FeaturePreparation(**OPTIONS).fit_transform(table)
    assert found.index.tolist() == [7, 7, 1, 2]
    assert found["query"].tolist() == [1, 1, 2, 2]


def test_parts_of_a_dask_data_frame(table):
    dask = pytest.importorskip("dask.dataframe", reason="Dask is not installed")
    preparation = pm.FeaturePreparation(**OPTIONS).fit(table)
    parts = dask.from_pandas(table, npartitions=2)
    found = parts.map_partitions(preparation.transform).compute()
    expected = preparation.transform(table)
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)
    with pytest.raises(InvalidOptionError, match=r"map_partitions\(preparation.transform"):
        preparation.fit(parts)


def test_copies_by_pickle(table):
    preparation = pm.FeaturePreparation(**OPTIONS).fit(table)
    preparation.get_feature_names_out()
    again = pickle.loads(pickle.dumps(preparation))
    assert again.plan_ == preparation.plan_
    pd.testing.assert_frame_equal(again.transform(table), preparation.transform(table))


# ---- in scikit-learn -------------------------------------------------------------------


def test_parameters_and_output(table):
    preparation = pm.FeaturePreparation(**OPTIONS)
    copy = clone(preparation)
    assert copy.get_params() == preparation.get_params()
    assert "log1p=['clicks']" in repr(preparation)
    copy.set_output(transform="polars")
    assert isinstance(copy.fit_transform(table), pl.DataFrame)
    arrays = clone(pm.FeaturePreparation(log1p=[1])).set_output(transform="pandas")
    found = arrays.fit_transform(np.ones((3, 2)))
    assert list(found) == ["x0", "x1_log1p"]
    with pytest.raises(NotFittedError, match="FeaturePreparation is required.*fit"):
        preparation.transform(table)


def test_a_pipeline_by_hand(lists):
    table, grade = lists
    pipeline = make_pipeline(pm.FeaturePreparation(**OPTIONS), pm.RankMatch(qid="query"))
    pipeline.fit(table, grade)
    assert pipeline[-1].columns_ == [
        "clicks_log1p", "rating", "rating_missing", "brand=acme", "brand=b & c",
        "brand=none of it", "brand_missing",
    ]  # fmt: skip
    ready = pipeline[0].transform(table)
    alone = pm.RankMatch(qid="query").fit(ready, grade)
    np.testing.assert_array_equal(alone.coef_, pipeline[-1].coef_)
    np.testing.assert_array_equal(pipeline.predict(table), alone.predict(ready))
    assert pipeline.score(table, grade) > 0.85
    by_name = clone(pipeline).fit(table.assign(grade=grade), "grade")
    np.testing.assert_array_equal(by_name[-1].coef_, alone.coef_)
    np.testing.assert_array_equal(by_name.predict(table), alone.predict(ready))


def test_searches_by_column_and_by_routing(lists):
    table, grade = lists
    preparation = pm.FeaturePreparation(**OPTIONS)
    grid = {
        "featurepreparation__missing": ["median", "indicator"],
        "featurepreparation__max_categories": [1, 3],
        "rankmatch__alpha": [1.0, 10.0],
    }
    ids, folds = table["query"], GroupKFold(3)
    pipeline = make_pipeline(preparation, pm.RankMatch(qid="query"))
    search = GridSearchCV(pipeline, grid, cv=folds).fit(table, grade, groups=ids)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    plain = make_pipeline(
        pm.FeaturePreparation(missing="median"), pm.RankMatch(qid="query")
    )
    found = cross_val_score(plain, table, grade, groups=ids, cv=folds)
    assert search.best_score_ > found.mean()  # which sees neither logarithms nor brands
    with sklearn.config_context(enable_metadata_routing=True):
        routed = GridSearchCV(make_pipeline(preparation, pm.RankMatch()), grid, cv=folds)
        routed.fit(table.drop(columns="query"), grade, qid=ids, groups=ids)
    assert routed.best_score_ == search.best_score_
    assert routed.best_params_ == search.best_params_


def test_a_table_of_candidate_pairs():
    pairs = pd.DataFrame(
        {
            "left": [0, 0, 1, 1],
            "right": [0, 1, 0, 1],
            "distance": [1.0, 100.0, np.nan, 2.0],
            "match": [1, 0, 0, 1],
        }
    )
    preparation = pm.FeaturePreparation(
        log1p="distance", missing="indicator", keep=["left", "right", "match"]
    )
    ready = preparation.fit_transform(pairs)
    roles = {"left": "left", "right": "right", "label": "match"}
    table = pm.datasets.read_edge_table(ready, **roles)
    assert table.feature_names == ["distance_log1p", "distance_missing"]


# ---- refusals --------------------------------------------------------------------------


def test_missing_values_without_preparation_say_what_to_do(table):
    ready = table[["query", "rating"]]
    message = r"nan at row 1, column 'rating'. Fill in .*FeaturePreparation\(missing='indic"
    with pytest.raises(NaNDocumentError, match=message):
        pm.RankMatch(qid="query").fit(ready, [0, 1, 0, 1])
    message = r"column 'brand' is not. .*FeaturePreparation\(categories="
    with pytest.raises(DocumentTypeError, match=message):
        pm.RankMatch(qid="query").fit(
            table, [0, 1, 0, 1], feature_names=["rating", "brand"]
        )


def test_missing_values_are_refused_by_default(table):
    whole = table.assign(rating=1.0, brand="a")
    preparation = pm.FeaturePreparation(categories=["brand"]).fit(whole)
    for name, row in (("rating", 1), ("brand", 1)):
        gap = whole.assign(**{name: table[name]})
        message = f"column '{name}' has no value in row {row}. .*missing='indicator'"
        with pytest.raises(NaNDocumentError, match=message):
            preparation.transform(gap)
        with pytest.raises(NaNDocumentError, match=message):
            clone(preparation).fit(gap)
    assert preparation.fill_ == {}


@pytest.mark.parametrize("missing", MISSING)
def test_infinite_and_negative_values(table, missing):
    table = table.assign(rating=1.0, brand="a")
    preparation = pm.FeaturePreparation(**{**OPTIONS, "missing": missing}).fit(table)
    infinite = table.assign(title=[0.0, 1.0, -np.inf, 0.0])
    negative = table.assign(clicks=[0, 1, 2, -1])
    for call in (preparation.transform, clone(preparation).fit):
        with pytest.raises(NaNDocumentError, match="got -inf at row 2, column 'title'"):
            call(infinite)
        message = r"log1p needs .* at least 0; column 'clicks' has -1.0 in row 3. .*log1p="
        with pytest.raises(InvalidQueriesError, match=message):
            call(negative)


OPTION_ERRORS = {
    "missing": ({"missing": "mean"}, "missing must be .*'indicator'"),
    "max_categories": ({"max_categories": 0}, "max_categories must be"),
    "unknown": ({"log1p": ["click"]}, "log1p must name columns of X; it lacks 'click'"),
    "position": ({"keep": [0]}, "keep must be a list of names of columns; got .0."),
    "number": ({"categories": 3.5}, "categories must be a list of names"),
    "twice": ({"log1p": "clicks", "keep": ["clicks"]}, "'clicks' is in log1p and keep"),
}


@pytest.mark.parametrize("name", OPTION_ERRORS)
def test_options(table, name):
    options, message = OPTION_ERRORS[name]
    with pytest.raises(InvalidOptionError, match=message):
        pm.FeaturePreparation(**options).fit(table)


def test_positions_that_are_none():
    for wrong in (["a"], [True], 2.5):
        with pytest.raises(InvalidOptionError, match="list of positions of columns"):
            pm.FeaturePreparation(log1p=wrong).fit(np.ones((2, 2)))
    with pytest.raises(InvalidOptionError, match="it lacks 2. It has 0, 1."):
        pm.FeaturePreparation(log1p=[2]).fit(np.ones((2, 2)))


def test_names_that_would_occur_twice(table):
    with pytest.raises(InvalidOptionError, match="called 'rating_missing'. Rename a col"):
        pm.FeaturePreparation(**OPTIONS).fit(table.assign(rating_missing=0.0))


def test_tables_that_are_none(table):
    preparation = pm.FeaturePreparation(missing="zero").fit(np.ones((2, 3)))
    of_table = pm.FeaturePreparation(**OPTIONS).fit(table)
    fit = pm.FeaturePreparation().fit
    cases = [
        (lambda: fit(np.ones(3)), InvalidQueriesError, r"shape \(n, d\); got shape \(3,\)"),
        (lambda: fit(np.ones((0, 3))), InvalidQueriesError, "at least one row.*got 0 rows"),
        (lambda: fit(sparse.eye(3)), DocumentTypeError, "got a sparse matrix. Use X.toarr"),
        (
            lambda: fit("folder"),
            InvalidOptionError,
            r"got data in parts \(str\). Fit it on a sample",
        ),
        (lambda: fit(np.ma.ones((2, 2))), DocumentTypeError, "mask"),
        (
            lambda: fit(pd.DataFrame(np.ones((2, 2)))),
            InvalidQueriesError,
            "names that are text; got 0. Rename them, such as X.rename",
        ),
        (
            lambda: fit(pd.DataFrame(np.ones((2, 2)), columns=["a", "a"])),
            InvalidQueriesError,
            "different names; got 'a' more than once",
        ),
        (
            lambda: preparation.transform(np.ones((2, 2))),
            InvalidQueriesError,
            "the 3 columns of the training data; got 2",
        ),
        (
            lambda: preparation.transform(table),
            InvalidQueriesError,
            "X must be an array, as in fit; got a table",
        ),
        (
            lambda: of_table.transform(table.to_numpy()),
            InvalidQueriesError,
            "X must be a table, as in fit; got an array",
        ),
        (
            lambda: fit(np.array([["a", "1"]], dtype=object)),
            DocumentTypeError,
            "column 'x0' has 'a' in row 0. .*categories=, or in keep=",
        ),
        (
            lambda: pm.FeaturePreparation(keep=0).fit_transform(np.array([["a", "1"]])),
            DocumentTypeError,
            "all columns of an array must hold numbers, those in keep= too",
        ),
        (
            lambda: pm.FeaturePreparation(log1p="brand", missing="zero").fit(table),
            DocumentTypeError,
            "column 'brand' has 'b' in row 0",
        ),
        (
            lambda: pm.FeaturePreparation(categories="title", missing="zero").fit(table),
            DocumentTypeError,
            "text, whole numbers or truth values; column 'title' has 0.25",
        ),
        (
            lambda: preparation.get_feature_names_out(["a"]),
            InvalidOptionError,
            "must be 3 names, one per column; got 1",
        ),
    ]
    for call, error, message in cases:
        with pytest.raises(error, match=message):
            call()
