"""Alpha chosen on queries held out, and rankers inside scikit-learn's tools."""

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score
from sklearn.pipeline import make_pipeline

import permatch as pm
from permatch import errors
from permatch._shards import HeldShards
from permatch.queries import check_queries
from tests.estimators.test_rank_match import judged_lists

ALPHAS = [1e-2, 1e-1, 1.0, 10.0, 100.0]

# On little data the choice often lies at the end of the grid.
pytestmark = pytest.mark.filterwarnings("ignore:the chosen alpha")


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.parametrize("kind", [pm.RankMatchCV, pm.DORMCV])
def test_a_validation_set_chooses_and_never_trains(kind):
    X, y, qid = judged_lists(n_queries=20)
    held_X, held_y, held_qid = judged_lists(seed=1, n_queries=10)
    model = kind(alphas=ALPHAS).fit(X, y, qid, validation=(held_X, held_y, held_qid))
    plain = {pm.RankMatchCV: pm.RankMatch, pm.DORMCV: pm.DORM}[kind]
    scores = []
    for alpha in sorted(ALPHAS, reverse=True):
        fitted = plain(alpha=alpha, tol=1e-6).fit(X, y, qid)
        found = pm.metrics.ndcg(held_y, fitted.predict(held_X), held_qid, range(1, 11))
        scores.append(np.mean(found))
    np.testing.assert_allclose(model.cv_results_["scores"][:, 0], scores, atol=0.02)
    best = int(np.argmax(model.cv_results_["mean_score"]))
    assert model.alpha_ == sorted(ALPHAS, reverse=True)[best]
    assert model.best_score_ == model.cv_results_["mean_score"][best]
    np.testing.assert_allclose(model.coef_, model.coef_path_[best, 0], rtol=5e-2)
    expected = plain(alpha=model.alpha_).fit(X, y, qid)
    atol = {pm.RankMatchCV: 1e-5, pm.DORMCV: 2e-2}[kind]
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=atol)


def test_planes_are_handed_on_along_the_path(rng):
    X, y, qid = judged_lists(n_queries=20)
    problem = pm.DORM()._problem(HeldShards([check_queries(X, y, qid)]), 1)
    path = problem.path({"tol": 1e-3, "max_iter": 1000})
    last = None
    for alpha in (1.0, 0.1, 0.01):
        found = path.advance(alpha)
        alone = problem.solve(alpha, last, tol=1e-3, max_iter=1000)
        assert found.is_converged
        assert found.gap <= 1e-3
        assert found.lower_bound <= alone.value
        assert alone.lower_bound <= found.value
        last = found.coef


@pytest.mark.parametrize("subset_size", ["all", "pairs", 3])
def test_the_path_chooses_as_fits_to_the_full_tolerance_do(subset_size):
    X, y, qid = judged_lists(n_queries=40)
    quick, full = (
        pm.RankMatchCV(subset_size, tol=tol).fit(X, y, qid) for tol in (1e-6, 1e-10)
    )
    assert quick.alpha_ == full.alpha_
    results = [fit.cv_results_["mean_score"] for fit in (quick, full)]
    np.testing.assert_allclose(*results, atol=1e-3)
    np.testing.assert_allclose(quick.coef_, full.coef_, atol=1e-5)
    away = np.linalg.norm(quick.coef_path_ - full.coef_path_, axis=2)
    assert (away <= 3e-3 * np.linalg.norm(full.coef_path_, axis=2)).all()


@pytest.mark.parametrize("subset_size", ["all", "pairs"])
def test_folds_side_by_side_are_as_one_after_the_other(subset_size):
    X, y, qid = judged_lists(n_queries=20)
    fits = [
        pm.RankMatchCV(subset_size, alphas=ALPHAS, n_jobs=n).fit(X, y, qid)
        for n in (None, 2, 5)
    ]
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.coef_path_, fits[0].coef_path_)
        np.testing.assert_array_equal(fit.coef_, fits[0].coef_)


def test_test_labels_cannot_reach_the_choice():
    X, y, qid = judged_lists(n_queries=20)
    held = judged_lists(seed=1, n_queries=10)
    models = [
        pm.RankMatchCV(3, alphas=ALPHAS).fit(X, labels, qid, validation=held)
        for labels in (y, np.array(y))
    ]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)


@pytest.mark.parametrize("subset_size", ["all", "pairs", 3])
def test_folds_hold_whole_queries_and_the_model_is_fitted_on_all(subset_size):
    X, y, qid = judged_lists(n_queries=20)
    model = pm.RankMatchCV(subset_size, alphas=ALPHAS, cv=4).fit(X, y, qid)
    assert model.cv_results_["scores"].shape == (5, 4)
    again = pm.RankMatch(subset_size, alpha=model.alpha_).fit(X, y, qid)
    np.testing.assert_allclose(model.coef_, again.coef_, atol=1e-4)
    assert model.n_observations_ == again.n_observations_


def test_splitters_get_the_queries_as_groups(rng):
    X, y, qid = judged_lists(n_queries=12)
    by_number = pm.RankMatchCV(alphas=ALPHAS, cv=GroupKFold(3)).fit(X, y, qid)
    assert by_number.cv_results_["scores"].shape == (5, 3)
    splits = [(np.flatnonzero(qid < 6), np.flatnonzero(qid >= 6))]
    given = pm.RankMatchCV(alphas=ALPHAS, cv=splits).fit(X, y, qid)
    assert given.cv_results_["scores"].shape == (5, 1)
    mixed = rng.permutation(len(X))
    splits = [(np.flatnonzero(qid[mixed] < 6), np.flatnonzero(qid[mixed] >= 6))]
    apart = pm.RankMatchCV(alphas=ALPHAS, cv=splits).fit(X[mixed], y[mixed], qid[mixed])
    np.testing.assert_allclose(
        apart.cv_results_["scores"], given.cv_results_["scores"], atol=1e-9
    )


@pytest.mark.parametrize("scoring", ["ndcg@3", "map", "mean_ndcg"])
def test_scorings(scoring):
    X, y, qid = judged_lists(n_queries=10)
    held = judged_lists(seed=1, n_queries=10)
    model = pm.RankMatchCV(alphas=ALPHAS, scoring=scoring).fit(X, y, qid, validation=held)
    scores = model.predict(held[0])
    expected = {
        "ndcg@3": lambda: pm.metrics.ndcg(held[1], scores, held[2], 3),
        "map": lambda: pm.metrics.average_precision(held[1], scores, held[2]),
        "mean_ndcg": lambda: np.mean(
            pm.metrics.ndcg(held[1], scores, held[2], range(1, 11))
        ),
    }[scoring]()
    assert model.best_score_ == pytest.approx(expected)


def test_a_measure_as_scoring_is_kept_with_the_model(tmp_path):
    X, y, qid = judged_lists(n_queries=10)
    measure = pm.metrics.NDCG(discount="letor") @ 5
    by_value, by_text = (
        pm.RankMatchCV(alphas=ALPHAS, cv=2, scoring=scoring).fit(X, y, qid)
        for scoring in (measure, str(measure))
    )
    assert by_value.best_score_ == by_text.best_score_
    assert clone(by_value).scoring == measure
    by_value.save(tmp_path / "model.json")
    assert pm.load(tmp_path / "model.json").scoring == 'NDCG(discount="letor")@5'


def test_a_callable_scoring_sees_grades_scores_and_query_numbers():
    X, y, qid = judged_lists(n_queries=10)
    seen = []

    def scoring(grades, scores, queries):
        seen.append((len(grades), len(scores), len(set(queries))))
        return -len(seen)

    with pytest.warns(UserWarning, match="largest one tried"):
        model = pm.RankMatchCV(alphas=[1, 10], cv=2, scoring=scoring).fit(X, y, qid)
    assert seen == [(35, 35, 5)] * 4
    assert model.alpha_ == 10


def test_ties_go_to_the_strongest_and_edges_are_told():
    X, y, qid = judged_lists(n_queries=10)
    with pytest.warns(UserWarning, match="chosen alpha, 10, is the largest one tried"):
        model = pm.RankMatchCV(alphas=[1, 10], cv=2, scoring=lambda *_: 0.5).fit(X, y, qid)
    assert model.alpha_ == 10


WRONG = {
    "alphas": ({"alphas": []}, "at least one number"),
    "cv": ({"cv": 99}, "at most the number of queries, 12; got 99"),
    "cv word": ({"cv": "five"}, "cv must be a number of folds"),
    "rows apart": (
        {"cv": KFold(3, shuffle=True, random_state=0)},
        r"query \d+ on both sides",
    ),
    "no splits": ({"cv": []}, "at least one split"),
    "empty side": ({"cv": [([], np.arange(84))]}, r"\(0, 12\)"),
    "nothing held out": ({"cv": [(np.arange(84), [])]}, r"\(12, 0\)"),
    "scoring nan": ({"scoring": lambda *_: np.nan}, "got NaN at alpha"),
    "scoring": ({"scoring": "ndcf"}, "a measure must be one of NDCG.*got 'ndcf'"),
    "scoring of another kind": ({"scoring": 10}, "measure such as NDCG @ 10.*got 10"),
}


@pytest.mark.parametrize("case", WRONG)
def test_bad_options_are_refused_in_words(case):
    options, message = WRONG[case]
    with pytest.raises(errors.InvalidOptionError, match=message):
        pm.RankMatchCV(**options).fit(*judged_lists())


def test_the_columns_of_a_validation_frame_are_found_by_name():
    pd = pytest.importorskip("pandas")
    X, y, qid = judged_lists()
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(grade=y, query=qid)
    search = pm.RankMatchCV(alphas=[1.0, 0.1], qid="query")
    search.fit(frame, "grade", validation=(frame[["query", "c", "b", "a"]], y))
    held = pm.RankMatchCV(alphas=[1.0, 0.1]).fit(X, y, qid, validation=(X, y, qid))
    np.testing.assert_array_equal(search.coef_, held.coef_)
    with pytest.raises(errors.InvalidQueriesError, match="it lacks 'a'"):
        search.fit(frame, "grade", validation=(frame[["query", "c", "b"]], y))
    with pytest.raises(errors.InvalidQueriesError, match="3 features of the training data"):
        pm.RankMatchCV().fit(X, y, qid, validation=(X[:, :2], y, qid))


def test_a_validation_set_with_numbers_of_rows():
    X, y, qid = judged_lists()
    sizes = pm.datasets.group_sizes(qid)
    search = pm.RankMatchCV(alphas=[1.0, 0.1])
    by_id = search.fit(X, y, qid, validation=(X, y, qid)).cv_results_
    by_size = search.fit(X, y, group=sizes, validation=(X, y, None, sizes)).cv_results_
    np.testing.assert_array_equal(by_id["mean_score"], by_size["mean_score"])
    words = r"as numbers of rows per query do\. Pass \(X, y, None, group\), or .*query_ids"
    with pytest.raises(errors.InvalidQueriesError, match=words):
        search.fit(X, y, group=sizes, validation=(X, y, sizes))


def test_a_bad_validation_set_is_refused_in_words():
    X, y, qid = judged_lists()
    with pytest.raises(errors.InvalidOptionError, match=r"\(X, y, qid\).*got tuple of 1"):
        pm.RankMatchCV().fit(X, y, qid, validation=(X,))
    with pytest.raises(errors.MissingQueriesError, match="query of every document"):
        pm.RankMatchCV().fit(X, y, qid, validation=(X, y))
    with pytest.raises(errors.InvalidQueriesError, match="3 features"):
        pm.RankMatchCV().fit(X, y, qid, validation=(X[:, :2], y, qid))
    with pytest.raises(errors.InvalidOptionError, match="above 0; got 0"):
        pm.DORMCV(alphas=[0.0, 1.0]).fit(X, y, qid)


def test_an_interrupted_search_keeps_the_best_so_far(monkeypatch):
    from permatch.objectives.pairs import PairLikelihood

    X, y, qid = judged_lists()
    whole, calls = PairLikelihood.value_and_slope, []

    def interrupted(self, scores):
        calls.append(1)
        if len(calls) == 12:
            raise KeyboardInterrupt
        return whole(self, scores)

    monkeypatch.setattr(PairLikelihood, "value_and_slope", interrupted)
    with pytest.warns(ConvergenceWarning, match="interrupted after . of 5 alphas"):
        model = pm.RankMatchCV("pairs", alphas=ALPHAS, cv=2).fit(X, y, qid)
    assert model.coef_.any()
    assert not model.is_converged_


def test_saved_searches_come_back(tmp_path):
    X, y, qid = judged_lists(n_queries=20)
    model = pm.RankMatchCV(alphas=ALPHAS, cv=3).fit(X, y, qid)
    model.save(tmp_path / "model.json")
    loaded = pm.load(tmp_path / "model.json")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.alpha_ == model.alpha_
    np.testing.assert_array_equal(loaded.cv_results_["scores"], model.cv_results_["scores"])


def test_cross_val_score_with_groups(routing):
    X, y, qid = judged_lists(n_queries=20)
    scores = cross_val_score(
        pm.RankMatch(), X, y, cv=GroupKFold(4), params={"qid": qid, "groups": qid}
    )
    assert scores.shape == (4,)
    assert scores.mean() > 0.7


def test_pipeline_and_grid_search_carry_the_queries_through(routing, rng):
    X, y, qid = judged_lists(n_queries=20)
    X = X + 50 * rng.normal(size=20)[qid, None]
    pipeline = make_pipeline(pm.QueryScaler(), pm.RankMatch())
    search = GridSearchCV(
        pipeline,
        {"rankmatch__alpha": [0.1, 1.0], "rankmatch__subset_size": ["all", 3]},
        cv=GroupKFold(3),
    )
    search.fit(X, y, qid=qid, groups=qid)
    assert search.best_score_ > 0.7
    inside = pm.RankMatch(scaling="minmax").fit(X, y, qid)
    pipeline.fit(X, y, qid=qid)
    np.testing.assert_allclose(
        pipeline.predict(X, qid=qid), inside.predict(X, qid), atol=1e-9
    )
