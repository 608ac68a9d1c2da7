"""Rankers in the tools of scikit-learn, by a query column and by metadata routing."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from joblib import parallel_config
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    HalvingGridSearchCV,
    cross_val_score,
    cross_validate,
    learning_curve,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import permatch as pm
from permatch.errors import (
    InvalidQueriesError,
    MissingQueriesError,
    UnroutedQueriesError,
)
from permatch.metrics import MAP, NDCG, make_scorer

CV = GroupKFold(4)
GRID = {"alpha": [0.1, 10.0]}


@pytest.fixture(scope="module")
def lists():
    """Twenty queries of eight documents."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(160, 3))
    y = np.digitize(X[:, 0] - 0.5 * X[:, 1] + rng.normal(size=160), [0.5, 1.5])
    return X, y, np.repeat(np.arange(20), 8)


@pytest.fixture(scope="module")
def frame(lists):
    """The same documents with their queries."""
    X, _, qid = lists
    return pd.DataFrame(X, columns=["a", "b", "c"]).assign(query=qid)


@pytest.fixture
def routing():
    """Turn metadata routing on."""
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def by_hand(model, lists, measure):
    """Return the measure of every fold."""
    X, y, qid = lists
    scores = []
    for train, test in CV.split(X, y, qid):
        model.fit(X[train], y[train], qid[train])
        scores.append(measure(y[test], model.predict(X[test]), qid[test]))
    return scores


@pytest.mark.parametrize("measure", [None, NDCG() @ 3, "MAP(threshold=2)"])
def test_cross_validation(lists, frame, measure):
    _, y, qid = lists
    scoring = None if measure is None else make_scorer(measure)
    expected = by_hand(pm.RankMatch(), lists, pm.metrics.find_measure(measure or NDCG @ 10))
    scores = cross_val_score(
        pm.RankMatch(qid="query"), frame, y, groups=qid, cv=CV, scoring=scoring
    )
    np.testing.assert_array_equal(scores, expected)


def test_cross_validation_by_routing(lists, routing):
    X, y, qid = lists
    params = {"qid": qid, "groups": qid}
    for model in (pm.RankMatch(), pm.RankMatch().set_fit_request(qid=True)):
        model.set_score_request(qid=True)
        scores = cross_val_score(model, X, y, cv=CV, params=params)
        np.testing.assert_array_equal(scores, by_hand(pm.RankMatch(), lists, NDCG @ 10))
    scoring = {"ndcg": make_scorer(NDCG @ 3), "map": make_scorer(MAP)}
    found = cross_validate(pm.RankMatch(), X, y, cv=CV, params=params, scoring=scoring)
    for name, measure in {"ndcg": NDCG() @ 3, "map": MAP()}.items():
        expected = by_hand(pm.RankMatch(), lists, measure)
        np.testing.assert_array_equal(found[f"test_{name}"], expected)


def test_grid_search(lists, frame):
    X, y, qid = lists
    search = GridSearchCV(pm.RankMatch(qid="query"), GRID, cv=CV).fit(frame, y, groups=qid)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    with sklearn.config_context(enable_metadata_routing=True):
        routed = GridSearchCV(pm.RankMatch(), GRID, cv=CV).fit(X, y, qid=qid, groups=qid)
    assert search.best_params_ == routed.best_params_
    assert search.best_score_ == routed.best_score_
    np.testing.assert_array_equal(search.predict(frame), routed.predict(X))
    assert search.score(frame, y) == pm.RankMatch(**search.best_params_).fit(
        X, y, qid
    ).score(X, y, qid)


@pytest.mark.parametrize("is_routed", [False, True])
def test_halving_search(lists, frame, is_routed):
    X, y, qid = lists
    options = {"cv": CV, "min_resources": 80, "factor": 2, "random_state": 0}
    with sklearn.config_context(enable_metadata_routing=is_routed):
        if is_routed:
            search = HalvingGridSearchCV(pm.RankMatch(), GRID, **options)
            search.fit(X, y, qid=qid, groups=qid)
        else:
            search = HalvingGridSearchCV(pm.RankMatch(qid="query"), GRID, **options)
            search.fit(frame, y, groups=qid)
    assert search.best_score_ > 0.5
    assert search.n_resources_ == [80, 160]


def test_pipelines(lists, frame, routing):
    X, y, qid = lists
    pipeline = make_pipeline(StandardScaler(), pm.RankMatch(scale_features=False))
    grid = {"rankmatch__alpha": GRID["alpha"]}
    scoring = make_scorer(NDCG @ 5)
    search = GridSearchCV(pipeline, grid, cv=CV, scoring=scoring)
    search.fit(X, y, qid=qid, groups=qid)
    # The same with the column passed through the pipeline.
    scaler = ColumnTransformer(
        [("scaled", StandardScaler(), ["a", "b", "c"])],
        remainder="passthrough",
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    pipeline = make_pipeline(scaler, pm.RankMatch(scale_features=False, qid="query"))
    with sklearn.config_context(enable_metadata_routing=False):
        other = GridSearchCV(pipeline, grid, cv=CV, scoring=scoring)
        other.fit(frame, y, groups=qid)
    assert other.best_score_ == pytest.approx(search.best_score_, rel=1e-9)
    np.testing.assert_allclose(other.predict(frame), search.predict(X), rtol=1e-6)


@pytest.mark.parametrize("is_routed", [False, True])
def test_scaling_within_queries(lists, frame, is_routed):
    X, y, qid = lists
    model = pm.RankMatch(scaling="minmax")
    scoring = make_scorer("NDCG@5")
    with sklearn.config_context(enable_metadata_routing=is_routed):
        if is_routed:
            params = {"qid": qid, "groups": qid}
            found = cross_val_score(model, X, y, cv=CV, params=params, scoring=scoring)
        else:
            model.set_params(qid="query")
            found = cross_val_score(model, frame, y, groups=qid, cv=CV, scoring=scoring)
    assert found.min() > 0.5


def test_learning_curves(lists, frame):
    _, y, qid = lists
    sizes, train, test = learning_curve(
        pm.QueryRidge(qid="query"), frame, y, groups=qid, cv=CV, train_sizes=[0.5, 1.0]
    )
    assert sizes.tolist() == [60, 120]
    assert (train > 0.5).all()
    assert (test > 0.5).all()


class ByFirst(BaseEstimator):
    """Ranks by a column; knows nothing of queries."""

    def fit(self, X, y):
        return self

    def predict(self, X):
        return X["a"].to_numpy()


def test_the_scorer_of_other_estimators(lists, frame):
    X, y, qid = lists
    scorer = make_scorer(NDCG @ 5, qid="query")
    assert repr(scorer) == "RankingScorer(measure=NDCG@5, qid='query')"
    expected = (NDCG @ 5)(y, X[:, 0], qid)
    for same in (scorer, clone(scorer), pickle.loads(pickle.dumps(scorer))):
        assert same(ByFirst(), frame, y) == expected
    assert make_scorer(NDCG @ 5)(ByFirst(), frame, y, qid=qid) == expected
    with pytest.raises(MissingQueriesError, match="a scorer needs the query of every"):
        make_scorer(NDCG @ 5)(ByFirst(), frame, y)
    with pytest.raises(MissingQueriesError, match="names a column, so X must be"):
        scorer(ByFirst(), X, y)
    with pytest.raises(InvalidQueriesError, match="must have a column 'q'"):
        make_scorer(NDCG @ 5, qid="q")(ByFirst(), frame, y)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("scoring", [None, make_scorer(NDCG @ 10)])
def test_a_search_without_queries_to_score_by_stops_at_once(lists, n_jobs, scoring):
    X, y, qid = lists
    search = GridSearchCV(pm.RankMatch(), GRID, cv=CV, n_jobs=n_jobs, scoring=scoring)
    message = (
        r"needs the query of every document to be scored; .* passes qid to fit alone. "
        r'.*qid="query"\), or call sklearn.set_config\(enable_metadata_routing=True\)'
    )
    with (
        pytest.raises(UnroutedQueriesError, match=message),
        parallel_config("threading"),
    ):
        search.fit(X, y, groups=qid, qid=qid)


def test_a_search_without_any_queries_says_what_is_missing(lists):
    X, y, qid = lists
    with pytest.raises(ValueError, match="(?s)All the .* fits failed.*qid=ids, or the num"):
        cross_val_score(pm.RankMatch(), X, y, groups=qid, cv=CV)
    with pytest.raises(MissingQueriesError, match="query of every document; got none"):
        pm.RankMatch().fit(X, y, qid).score(X, y)
    assert not issubclass(UnroutedQueriesError, Exception)
