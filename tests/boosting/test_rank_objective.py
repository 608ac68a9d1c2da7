"""The likelihood of lists as LightGBM and XGBoost want it."""

import copy
import inspect
import pickle
import sys

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import clone

import permatch as pm
from permatch.boosting import RankMatchObjective
from permatch.boosting.rank_objective import ListLoss
from permatch.errors import GradeError, InvalidOptionError, InvalidQueriesError
from tests.objectives.test_whole_list import single_derivatives

STEP = 1e-5
# What boosting libraries, which compute in single precision, cannot tell from exact.
TOL = 1e-7

GRADES = [[0, 2, 1, 0, 1, 0, 2], [0, 2, 2, 0], [1, 2, 2, 1], [1, 0], [2], [1, 1, 1]]
SIZES = [len(grades) for grades in GRADES]
Y = np.concatenate(GRADES)


@pytest.fixture
def scores(rng):
    return rng.normal(size=len(Y)).round(1)  # some tie


def expected(scores, lists, levels, weights):
    """Gradient and second derivatives by enumeration."""
    parts = np.split(scores, np.cumsum([len(grades) for grades in lists])[:-1])
    found = [
        [w * part for part in single_derivatives(own, grades, levels)[1:]]
        for own, grades, w in zip(parts, lists, weights, strict=True)
    ]
    return [np.concatenate(parts) for parts in zip(*found, strict=True)]


@pytest.mark.parametrize(
    ("levels", "values"),
    [("grades", [0, 1, 2]), ("gains", [0, 1, 3]), ([0, 0, 1], [0, 0, 1])],
    ids=str,
)
def test_derivatives_are_those_of_enumeration(levels, values, scores):
    objective = RankMatchObjective(levels=levels)
    gradient, hessian = objective(Y, scores, None, SIZES)
    values = np.array(values, dtype=float)
    for found, one in zip(
        (gradient, hessian), expected(scores, GRADES, values, np.ones(6)), strict=True
    ):
        np.testing.assert_allclose(found, one, atol=TOL)
    assert (hessian >= 0.0).all()


def test_two_documents_are_logistic_regression(rng):
    scores = rng.normal(size=20)
    gradient, hessian = RankMatchObjective()([1, 0] * 10, scores, None, [2] * 10)
    chances = expit(np.diff(scores.reshape(-1, 2))[:, 0])  # of the wrong order
    np.testing.assert_allclose(gradient[0::2], -chances, atol=TOL)
    np.testing.assert_allclose(gradient[1::2], chances, atol=TOL)
    np.testing.assert_allclose(hessian, np.repeat(chances * (1 - chances), 2), atol=TOL)


@pytest.mark.parametrize("form", ["exact", "profile"])
def test_derivatives_against_finite_differences(form, rng):
    sizes = [40, 15, 90]
    grades = rng.integers(5, size=145)
    queries = pm.queries.check_queries(np.zeros((145, 1)), grades, group=sizes)
    loss = ListLoss(queries, "grades", "observations", form, 1)
    scores = rng.normal(size=145)
    _, slope, curvature = loss.derivatives(scores)
    way = rng.normal(size=145)
    higher, lower = (3 * loss.derivatives(scores + s * way)[0] for s in (STEP, -STEP))
    assert slope @ way == pytest.approx((higher - lower) / (2 * STEP), abs=3e-4)
    for i in (0, 50, 144):
        step = STEP * np.eye(145)[i]
        after, before = (loss.derivatives(scores + s)[1][i] for s in (step, -step))
        assert curvature[i] == pytest.approx((after - before) / (2 * STEP), abs=2e-3)


def test_weights_of_documents_and_of_lists(scores, rng):
    weights = rng.uniform(0.5, 2.0, size=6)
    weights[1] = 0.0
    found = RankMatchObjective()(Y, scores, np.repeat(weights, SIZES), SIZES)
    for one, other in zip(
        found, expected(scores, GRADES, np.arange(3.0), weights), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=3 * TOL)
    short = RankMatchObjective()(Y, scores, weights, SIZES)
    np.testing.assert_array_equal(found, short)


def test_weights_that_differ_within_a_list(rng):
    grades, scores = np.array([1, 0, 1, 0, 0]), rng.normal(size=5)
    weights = np.array([4.0, 9.0, 1.5, 2.0, 0.0])  # the last is left out
    found = RankMatchObjective()(grades, scores, weights, [5])
    both, first = (np.array(own) for own in ([1, 0, 1, 0], [1, 0, 0, 0]))
    lower = expected(scores[:4], [both], np.arange(2.0), [1.5])
    upper = expected(scores[:4], [first], np.arange(2.0), [4.0 - 1.5])
    for one, low, high in zip(found, lower, upper, strict=True):
        np.testing.assert_allclose(one, [*(low + high), 0.0], atol=TOL)


@pytest.mark.parametrize("query_weight", ["per_document", "per_relevant"])
def test_query_weights_are_one_on_average(query_weight, scores):
    plain, _ = RankMatchObjective()(Y, scores, None, SIZES)
    found, _ = RankMatchObjective(query_weight=query_weight)(Y, scores, None, SIZES)
    n_relevant = np.array([4, 2, 4, 1, 1, 3])
    own = 1.0 / np.array(SIZES if query_weight == "per_document" else n_relevant)
    own /= own[:4].mean()  # the others have a single grade
    np.testing.assert_allclose(found, plain * np.repeat(own, SIZES), atol=TOL)


def test_forms():
    y = np.r_[np.arange(90) % 3, np.arange(90) % 5, [1, 1]]
    assert RankMatchObjective().forms(y, [90, 90, 2]) == {
        "exact": 1, "profile": 1, "skipped": 1,
    }  # fmt: skip
    exact = RankMatchObjective(form="exact").forms(y, [90, 90, 2])
    assert exact == {"exact": 2, "profile": 0, "skipped": 1}


# ---- prepared once per data set ----------------------------------------------------------


@pytest.fixture
def prepared(monkeypatch):
    """Count the data sets that are prepared."""
    made = []

    class Counted(ListLoss):
        def __init__(self, *own):
            made.append(self)
            super().__init__(*own)

    monkeypatch.setattr("permatch.boosting.rank_objective.ListLoss", Counted)
    return made


def test_lists_are_prepared_once_per_data_set(scores, prepared):
    objective = RankMatchObjective()
    for _ in range(3):
        objective(Y.copy(), scores, None, list(SIZES))
        objective(Y, scores, np.ones(6), SIZES)
    assert len(prepared) == 2


def test_changed_data_are_prepared_anew(scores, prepared):
    objective, y = RankMatchObjective(), Y.copy()
    before, _ = objective(y, scores, None, SIZES)
    y[:] = y[::-1].copy()  # the same array
    after, _ = objective(y, scores, None, SIZES)
    assert len(prepared) == 2
    assert not np.allclose(before, after)
    other, _ = objective(y, scores, None, [*SIZES[:-2], 4])
    assert len(prepared) == 3
    assert not np.allclose(other, after)


def test_only_a_few_data_sets_are_kept(scores, prepared):
    objective = RankMatchObjective()
    for k in range(12):
        objective(Y, scores, np.full(6, k + 1.0), SIZES)
    objective(Y, scores, np.full(6, 12.0), SIZES)
    assert len(prepared) == 12
    assert len(objective._prepared) < 12


def test_copies_are_without_the_lists(scores):
    objective = RankMatchObjective(levels="gains", form="exact")
    expected = objective(Y, scores, None, SIZES)
    for again in (
        pickle.loads(pickle.dumps(objective)),
        clone(objective),
        copy.deepcopy(objective),
    ):
        assert repr(again) == repr(objective)
        assert not again._prepared
        np.testing.assert_array_equal(again(Y, scores, None, SIZES), expected)


# ---- the libraries -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def curved():
    """Lists whose grades follow an interaction, so that no linear score ranks them."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(8, 24, size=50)
    X = rng.normal(size=(sizes.sum(), 4))
    latent = X[:, 0] * np.sign(X[:, 1]) + 0.2 * rng.normal(size=len(X))
    return X, np.digitize(latent, [0.4, 1.2]), sizes


def ndcg(y, scores, sizes):
    return (pm.metrics.NDCG @ 5)(y, scores, group=sizes)


def test_it_has_the_signature_that_makes_lightgbm_pass_groups():
    names = list(inspect.signature(RankMatchObjective()).parameters)
    assert names == ["y_true", "y_pred", "weight", "group"]


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")  # of 4.6
def test_lightgbm(curved):
    lightgbm = pytest.importorskip("lightgbm")
    X, y, sizes = curved
    weights = np.repeat(np.linspace(1, 2, 50), sizes)
    options = {"num_leaves": 8, "learning_rate": 0.3, "verbose": -1, "n_jobs": 1}
    ranker = lightgbm.LGBMRanker(objective=RankMatchObjective(), n_estimators=20, **options)
    scores = ranker.fit(X, y, group=sizes, sample_weight=weights).predict(X)
    assert ndcg(y, scores, sizes) > 0.9
    data = lightgbm.Dataset(X, y, group=sizes, weight=weights, params=options)
    params = {"objective": RankMatchObjective()} | options
    booster = lightgbm.train(params, data, 20)
    np.testing.assert_array_equal(booster.predict(X), scores)
    again = clone(ranker).fit(X, y, group=sizes, sample_weight=weights)
    np.testing.assert_array_equal(again.predict(X), scores)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(again)).predict(X), scores)


def test_xgboost(curved):
    xgboost = pytest.importorskip("xgboost")
    X, y, sizes = curved
    data = xgboost.DMatrix(X, y, qid=np.repeat(np.arange(50), sizes))
    params = {"max_depth": 3, "eta": 0.3, "nthread": 1}
    scores = xgboost.train(params, data, 20, obj=RankMatchObjective()).predict(data)
    assert ndcg(y, scores, sizes) > 0.9
    data.set_weight(np.full(50, 3.0))
    weighted = xgboost.train(params, data, 20, obj=RankMatchObjective()).predict(data)
    assert not np.allclose(weighted, scores)
    with pytest.raises(InvalidQueriesError, match="got no group"):
        xgboost.train(params, xgboost.DMatrix(X, y), 1, obj=RankMatchObjective())


def test_it_needs_neither(scores, monkeypatch):
    for name in ("lightgbm", "xgboost"):
        monkeypatch.setitem(sys.modules, name, None)
    gradient, _ = RankMatchObjective()(Y, scores, None, SIZES)
    assert gradient.shape == Y.shape


# ---- bad input ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ((Y, Y * 0.0, None, None), InvalidQueriesError, "got no group"),
        ((Y, Y * 0.0, None, [3, 4]), InvalidQueriesError, "2 sizes that add up to 7"),
        ((Y, Y * 0.0, None, [[20]]), InvalidQueriesError, "adding up to 21 rows"),
        (
            (Y, Y[:5] * 0.0, None, SIZES),
            InvalidQueriesError,
            r"shape \(21,\); got",
        ),
        ((Y, Y * np.nan, None, SIZES), InvalidQueriesError, "y_pred must be finite"),
        ((Y, Y * 0.0, [1.0], SIZES), InvalidQueriesError, "one per document"),
        ((Y, Y * 0.0, Y - 1.0, SIZES), InvalidQueriesError, "at least 0"),
        ((Y - 1, Y * 0.0, None, SIZES), GradeError, "whole numbers from 0"),
        ((Y + np.nan, Y * 0.0, None, SIZES), GradeError, "whole numbers from 0"),
        ((Y * 0, Y * 0.0, None, SIZES), GradeError, "documents of different grades"),
        (([], [], None, []), InvalidQueriesError, "grades of at least one document"),
    ],
)
def test_bad_input(given, error, message):
    with pytest.raises(error, match=message):
        RankMatchObjective()(*given)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"form": "fast"}, "form must be one of"),
        ({"levels": "ranks"}, "levels must be"),
        ({"query_weight": "most"}, "query_weight must be one of"),
        ({"n_jobs": 0}, "n_jobs must be"),
    ],
)
def test_unknown_options(options, message):
    with pytest.raises(InvalidOptionError, match=message):
        RankMatchObjective(**options)(Y, Y * 0.0, None, SIZES)
