"""BoostedRankMatch: what it learns, and the contract of rankers."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, GroupKFold

import permatch as pm
from permatch.boosting import RankMatchObjective
from permatch.boosting.rank_objective import ListLoss
from permatch.errors import (
    InvalidOptionError,
    InvalidQueriesError,
    MissingDependencyError,
    ModelFileError,
    NaNDocumentError,
    NotFittedError,
)
from permatch.pages.rank_explorer import rank_view
from tests.boosting.lists import crossed_lists

lightgbm = pytest.importorskip("lightgbm")

SMALL = {"num_leaves": 6, "n_rounds": 12, "learning_rate": 0.3, "min_data_in_leaf": 5}


@pytest.fixture(scope="module")
def lists():
    return crossed_lists()


@pytest.fixture(scope="module")
def fresh():
    return crossed_lists(1)


@pytest.fixture(scope="module")
def model(lists):
    return pm.BoostedRankMatch(**SMALL).fit(*lists, feature_names=["a", "b", "c"])


# ---- what it learns ----------------------------------------------------------------------


def test_it_learns_interactions_that_linear_models_cannot(model, lists, fresh):
    assert model.score(*fresh) > 0.9
    assert pm.RankMatch().fit(*lists).score(*fresh) < 0.8


def test_it_is_lightgbm_with_the_objective(model, lists):
    X, y, qid = lists
    names = {"num_leaves": 6, "n_estimators": 12, "learning_rate": 0.3}
    ranker = lightgbm.LGBMRanker(
        objective=RankMatchObjective(),
        min_child_samples=5,
        deterministic=True,
        force_col_wise=True,
        verbose=-1,
        random_state=0,
        n_jobs=1,
        **names,
    )
    ranker.fit(X, y, group=np.bincount(qid))
    np.testing.assert_allclose(model.predict(X), ranker.predict(X), atol=1e-12)


def test_the_loss_falls(model):
    losses = [row["loss"] for row in model.history_]
    assert [row["round"] for row in model.history_] == list(range(1, 13))
    assert all(np.diff(losses) < 0.0)
    assert model.n_rounds_ == model.trees_.sizes[1] == 12
    assert model.is_converged_
    assert np.isnan(model.best_score_)


def test_constant_features_and_constants_of_queries_change_nothing(model, lists):
    X, y, qid = lists
    more = np.column_stack([X, np.ones(len(X))])
    again = pm.BoostedRankMatch(**SMALL).fit(more, y, qid)
    assert again.trees_.gains()[1][3] == 0
    np.testing.assert_allclose(again.predict(more), model.predict(X), atol=1e-12)


def test_order_of_documents_and_kind_of_group_do_not_matter(model, lists, rng):
    X, y, qid = lists
    order = rng.permutation(len(X))
    shuffled = pm.BoostedRankMatch(**SMALL).fit(X[order], y[order], qid[order])
    assert shuffled.score(X, y, qid) == pytest.approx(model.score(X, y, qid), abs=0.05)
    grouped = pm.BoostedRankMatch(**SMALL).fit(X, y, group=np.bincount(qid))
    assert grouped.trees_ == model.trees_


@pytest.mark.parametrize("form", [sparse.csr_array, np.float32])
def test_sparse_and_single_precision(form, lists):
    X, y, qid = lists
    X = X.round(2)
    rows = form(X)
    model = pm.BoostedRankMatch(**SMALL).fit(rows, y, qid)
    expected = pm.BoostedRankMatch(**SMALL).fit(X, y, qid).predict(X)
    np.testing.assert_allclose(model.predict(rows), expected, atol=1e-6)


def test_threads_do_not_matter(model, lists):
    again = pm.BoostedRankMatch(**SMALL, n_jobs=3).fit(*lists)
    assert again.trees_ == model.trees_


def test_seeds_reproduce(lists):
    one, same, other = (
        pm.BoostedRankMatch(**SMALL, feature_fraction=0.5, random_state=seed).fit(*lists)
        for seed in (1, 1, 2)
    )
    assert one.trees_ == same.trees_ != other.trees_


def test_weights_are_those_of_repeated_lists(lists):
    X, y, qid = lists
    weights = np.where(qid < 10, 2.0, 1.0)
    X2, y2 = np.vstack([X[:120], X]), np.concatenate([y[:120], y])
    qid2 = np.concatenate([qid[:120] + 100, qid])
    options = SMALL | {
        "min_data_in_leaf": 1,
        "tree_options": {"min_data_in_bin": 1, "max_bin": 999},
    }
    model = pm.BoostedRankMatch(**options, lambda_l2=1.0)
    scores = model.fit(X, y, qid, sample_weight=weights).predict(X)
    np.testing.assert_allclose(model.fit(X2, y2, qid2).predict(X), scores, atol=1e-5)


def test_levels_and_forms(lists):
    X, y, qid = lists
    model = pm.BoostedRankMatch(**SMALL, levels="gains", form="profile").fit(X, y, qid)
    assert model.level_weights_.tolist() == [3.0, 1.0, 0.0]
    assert model.forms_ == {"exact": 0, "profile": 40, "skipped": 0}
    assert model.n_observations_ == 40


def test_monotone_constraints(lists):
    X, y, qid = lists
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = pm.BoostedRankMatch(**SMALL, monotone_constraints={"b": -1})
    model.fit(frame, y, qid)
    rising = np.column_stack([np.ones(50), np.linspace(-2, 2, 50), np.zeros(50)])
    assert (np.diff(model.predict(rising)) <= 0.0).all()


def test_distribution_is_that_of_the_scores(model, fresh):
    X, y, _ = fresh
    law = model.distribution(X[:12])
    weights = np.repeat(model.level_weights_, law.level_sizes)
    expected = pm.RankingDistribution(model.predict(X[:12]), weights)
    np.testing.assert_allclose(law.marginals, expected.marginals)
    assert law.is_exact
    assert model.prob_above(X[:12], np.argmax(y[:12]), np.argmin(y[:12])) > 0.5


def test_importances(model):
    shares = model.feature_importances_
    assert shares.sum() == pytest.approx(1.0)
    assert shares.argmin() == 2


def test_the_page_shows_what_features_add(model, fresh):
    X, y, _ = fresh
    view = rank_view("q", [f"d{i}" for i in range(12)], X[:12], y[:12], model)
    assert view.pushes.shape == (12, 3)
    away = view.scores - view.scores.mean()
    np.testing.assert_allclose(view.pushes.sum(axis=1), away, atol=1e-9)
    assert np.abs(view.pushes[:, 2]).max() < np.abs(view.pushes[:, :2]).max()
    assert view.distribution is not None


# ---- validation lists --------------------------------------------------------------------


def test_validation_lists_end_the_training(lists, fresh):
    options = SMALL | {"n_rounds": 400, "patience": 5}
    model = pm.BoostedRankMatch(**options).fit(*lists, validation=fresh)
    assert len(model.history_) == model.n_rounds_ + 5
    measure = pm.metrics.MeanNDCG @ 10
    X, y, qid = fresh
    assert model.best_score_ == pytest.approx(measure(y, model.predict(X), qid))
    assert model.best_score_ == max(row["score"] for row in model.history_)
    plain = pm.BoostedRankMatch(**options | {"n_rounds": model.n_rounds_}).fit(*lists)
    assert plain.trees_ == model.trees_


def test_scoring_may_be_a_function(lists, fresh):
    seen = []

    def judge(grades, scores, queries):
        seen.append(len(np.unique(queries)))
        return float(len(seen) <= 3) * len(seen)

    options = SMALL | {"scoring": judge, "patience": 4}
    model = pm.BoostedRankMatch(**options).fit(*lists, validation=fresh)
    assert seen == [40] * 7
    assert (model.n_rounds_, model.best_score_) == (3, 3.0)


def test_a_score_that_still_rises_is_told(lists, fresh):
    options = SMALL | {"learning_rate": 0.01, "scoring": lambda *_: next(rising)}
    rising = iter(range(100))
    with pytest.warns(UserWarning, match=r"last of 12 rounds; more may be better\. Raise"):
        pm.BoostedRankMatch(**options).fit(*lists, validation=fresh)


def test_ctrl_c_keeps_the_trees_so_far(lists, monkeypatch):
    n_left = 5

    def interrupt(self, scores):
        nonlocal n_left
        n_left -= 1
        if n_left < 0:
            raise KeyboardInterrupt
        return derivatives(self, scores)

    derivatives = ListLoss.derivatives
    monkeypatch.setattr(ListLoss, "derivatives", interrupt)
    with pytest.warns(ConvergenceWarning, match="interrupted after 5 rounds; the best"):
        model = pm.BoostedRankMatch(**SMALL).fit(*lists)
    assert model.trees_.sizes == (3, 5)
    assert not model.is_converged_
    with pytest.raises(KeyboardInterrupt):
        pm.BoostedRankMatch(**SMALL).fit(*lists)


# ---- the contract ------------------------------------------------------------------------


def test_data_frames(model, lists):
    X, y, qid = lists
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    named = pm.BoostedRankMatch(**SMALL).fit(frame, y, qid)
    assert named.feature_names_ == ["a", "b", "c"]
    np.testing.assert_array_equal(named.predict(frame), model.predict(X))
    np.testing.assert_array_equal(named.predict(frame[["c", "a", "b"]]), model.predict(X))
    frame["query"], frame["grade"] = qid, y
    column = pm.BoostedRankMatch(**SMALL, qid="query").fit(frame, "grade")
    assert column.trees_ == model.trees_
    assert column.score(frame, "grade") == model.score(X, y, qid)


def test_scaling_within_queries(lists):
    X, y, qid = lists
    moved = X + 10.0 * qid[:, None]
    model = pm.BoostedRankMatch(**SMALL, scaling="minmax").fit(moved, y, qid)
    assert model.score(moved, y, qid) > 0.9
    with pytest.raises(InvalidQueriesError, match="needs the query of every document"):
        model.predict(moved)


def test_models_survive_files_pickle_and_clone(model, fresh, tmp_path):
    X, y, qid = fresh
    model.save(tmp_path / "model.json")
    loaded = pm.load(tmp_path / "model.json")
    for again in (loaded, pickle.loads(pickle.dumps(model))):
        assert again.get_params() == model.get_params()
        assert again.feature_names_ == ["a", "b", "c"]
        assert again.trees_ == model.trees_
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        np.testing.assert_array_equal(again.rank(X, qid), model.rank(X, qid))
        law = again.distribution(X[:12]).level_marginals
        np.testing.assert_array_equal(law, model.distribution(X[:12]).level_marginals)
    assert loaded.score(X, y, qid) == model.score(X, y, qid)
    unfitted = clone(model)
    with pytest.raises(NotFittedError, match="fitted BoostedRankMatch"):
        unfitted.predict(X)


def test_lightgbm_reads_the_text_in_the_file(model, fresh, tmp_path):
    model.save(tmp_path / "model.json")
    document = json.loads((tmp_path / "model.json").read_text(encoding="utf-8"))
    booster = lightgbm.Booster(model_str=document["fitted"]["trees_"]["lightgbm"])
    np.testing.assert_array_equal(booster.predict(fresh[0]), model.predict(fresh[0]))


def text_of(document):
    return document["fitted"]["trees_"]["lightgbm"]


DAMAGES = {
    "truncated": (
        lambda d: d["fitted"].update(trees_={"lightgbm": text_of(d)[:-99]}),
        "trees_ cannot be read",
    ),
    "foreign": (
        lambda d: d["fitted"].update(trees_={"lightgbm": "<xml/>"}),
        r"trees_ cannot be read \(.*begins with 'tree'",
    ),
    "no text": (lambda d: d["fitted"].update(trees_=7), "trees_ cannot be read"),
    "no trees": (lambda d: d["fitted"].pop("trees_"), "trees_"),
    "other features": (
        lambda d: d.update(n_features=2, feature_names=None),
        "must have the 2 features of the model, got 3",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_files_are_refused(name, model, tmp_path):
    path = tmp_path / "model.json"
    model.save(path)
    document = json.loads(path.read_text(encoding="utf-8"))
    change, message = DAMAGES[name]
    change(document)
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(ModelFileError, match=rf"is damaged: .*{message}"):
        pm.load(path)


def test_grid_search_with_routing(lists, fresh):
    X, y, qid = lists
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(
            pm.BoostedRankMatch(**SMALL), {"num_leaves": [2, 6]}, cv=GroupKFold(3)
        )
        search.fit(X, y, qid=qid, groups=qid)
    assert search.best_params_ == {"num_leaves": 6}
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_.score(*fresh) > 0.9


# ---- bad input ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_leaves": 1}, "num_leaves must be a whole number of at least 2, got 1"),
        ({"n_rounds": 0}, "n_rounds must be"),
        ({"patience": 0}, "patience must be"),
        ({"learning_rate": 0.0}, "learning_rate must be a finite number above 0"),
        ({"learning_rate": np.nan}, "learning_rate must be"),
        ({"lambda_l2": -1.0}, "lambda_l2 must be"),
        ({"feature_fraction": 1.5}, "feature_fraction must be above 0 and at most 1"),
        ({"min_data_in_leaf": 2.5}, "min_data_in_leaf must be"),
        ({"random_state": -1}, "random_state must be"),
        ({"n_jobs": 0}, "n_jobs must be"),
        ({"scaling": "log"}, "scaling must be None or one of"),
        ({"form": "fast"}, "form must be one of"),
        ({"levels": "ranks"}, "levels must be"),
        ({"scoring": 3}, "scoring must be a measure"),
        ({"tree_options": {"device": "gpu"}}, "tree_options must be some of .*'device'"),
        ({"tree_options": {"max_bin": "many"}}, "LightGBM must accept .*max_bin"),
        ({"monotone_constraints": [1, 2]}, "monotone_constraints must be -1, 0 or 1"),
    ],
    ids=str,
)
def test_unknown_options(options, message, lists):
    with pytest.raises(InvalidOptionError, match=message):
        pm.BoostedRankMatch(**SMALL | options).fit(*lists)


def test_bad_data(model, lists, tmp_path):
    X, y, qid = lists
    spoiled = X.copy()
    spoiled[3, 1] = np.nan
    with pytest.raises(NaNDocumentError, match="row 3, column 1"):
        pm.BoostedRankMatch().fit(spoiled, y, qid)
    with pytest.raises(InvalidQueriesError, match="needs the query of every document"):
        pm.BoostedRankMatch().fit(X, y)
    with pytest.raises(InvalidQueriesError, match="the 3 features of the fitted model"):
        model.predict(X[:, :2])
    with pytest.raises(InvalidOptionError, match=r"validation must be a tuple \(X, y, qid"):
        pm.BoostedRankMatch().fit(X, y, qid, validation=(X,))
    with pytest.raises(InvalidQueriesError, match="features"):
        pm.BoostedRankMatch().fit(X, y, qid, validation=(X[:, :2], y, qid))


def test_data_in_parts_are_refused(tmp_path):
    (tmp_path / "part.txt").write_text("1 qid:1 1:1\n0 qid:1 1:0\n")
    with pytest.raises(InvalidOptionError, match="BoostedRankMatch learns from data in"):
        pm.BoostedRankMatch().fit(str(tmp_path))


def test_without_lightgbm(model, lists, fresh, tmp_path, monkeypatch):
    model.save(tmp_path / "model.json")
    monkeypatch.setattr("permatch._optional.find_spec", lambda name: None)
    message = "boosted trees needs lightgbm: install the extra 'boosting'"
    with pytest.raises(MissingDependencyError, match=message):
        pm.BoostedRankMatch().fit(*lists)
    loaded = pm.load(tmp_path / "model.json")
    with pytest.raises(MissingDependencyError, match=message):
        loaded.predict(fresh[0])
