"""The choice of leaves and rounds."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupKFold

import permatch as pm
from permatch.boosting.rank_objective import ListLoss
from permatch.errors import InvalidOptionError
from tests.boosting.lists import crossed_lists

pytest.importorskip("lightgbm")

SMALL = {"learning_rate": 0.3, "min_data_in_leaf": 5, "n_rounds": 40, "patience": 3}


@pytest.fixture(scope="module")
def lists():
    return crossed_lists()


@pytest.fixture(scope="module")
def model(lists):
    search = pm.BoostedRankMatchCV(leaf_counts=[6, 2, 6, 3], cv=GroupKFold(3), **SMALL)
    return search.fit(*lists)


def test_every_number_is_that_of_a_fit_by_hand(model, lists):
    X, y, qid = lists
    results = model.cv_results_
    assert results["num_leaves"].tolist() == [2, 3, 6]
    assert results["scores"].shape == (3, 3)
    np.testing.assert_allclose(results["mean_score"], results["scores"].mean(axis=1))
    for k, num_leaves in enumerate([2, 3, 6]):
        n_rounds = int(results["n_rounds"][k])
        options = SMALL | {"n_rounds": n_rounds, "num_leaves": num_leaves}
        scores = []
        for train, test in GroupKFold(3).split(X, y, qid):
            own = pm.BoostedRankMatch(**options).fit(X[train], y[train], qid[train])
            measure = pm.metrics.MeanNDCG @ 10
            scores.append(measure(y[test], own.predict(X[test]), qid[test]))
        np.testing.assert_allclose(results["scores"][k], scores)
        curve = results["curves"][k]
        assert np.argmax(curve) + 1 == n_rounds
        assert curve[n_rounds - 1] == pytest.approx(np.mean(scores))


def test_the_best_is_fitted_again_on_all_lists(model, lists):
    best = int(np.argmax(model.cv_results_["mean_score"]))
    assert model.num_leaves_ == [2, 3, 6][best]
    assert model.n_rounds_ == model.cv_results_["n_rounds"][best] == len(model.history_)
    assert model.best_score_ == model.cv_results_["mean_score"][best]
    options = SMALL | {"num_leaves": model.num_leaves_, "n_rounds": model.n_rounds_}
    assert pm.BoostedRankMatch(**options).fit(*lists).trees_ == model.trees_


def test_a_validation_set_keeps_the_trees_of_the_path(lists):
    fresh = crossed_lists(1)
    search = pm.BoostedRankMatchCV(leaf_counts=[2, 6], **SMALL).fit(
        *lists, validation=fresh
    )
    assert search.cv_results_["scores"].shape == (2, 1)
    options = SMALL | {"num_leaves": search.num_leaves_}
    plain = pm.BoostedRankMatch(**options).fit(*lists, validation=fresh)
    assert plain.trees_ == search.trees_
    assert plain.best_score_ == search.best_score_


def test_number_of_folds_shuffles_queries(lists):
    one, other = (
        pm.BoostedRankMatchCV(leaf_counts=[4], cv=2, random_state=seed, **SMALL).fit(*lists)
        for seed in (0, 1)
    )
    assert not np.allclose(one.cv_results_["scores"], other.cv_results_["scores"])


def test_it_is_saved_with_its_results(model, lists, tmp_path):
    model.set_params(cv=3).save(tmp_path / "model.json")
    loaded = pm.load(tmp_path / "model.json")
    assert loaded.trees_ == model.trees_
    assert loaded.num_leaves_ == model.num_leaves_
    np.testing.assert_equal(loaded.cv_results_, model.cv_results_)
    assert clone(loaded).get_params() == model.get_params()
    assert "num_leaves" not in model.get_params()


def interrupted_after(n_left, monkeypatch):
    """Have Ctrl-C pressed after some evaluations of losses."""

    def interrupt(self, scores):
        nonlocal n_left
        n_left -= 1
        if n_left < 0:
            raise KeyboardInterrupt
        return derivatives(self, scores)

    derivatives = ListLoss.derivatives
    monkeypatch.setattr(ListLoss, "derivatives", interrupt)


@pytest.mark.parametrize(("n_rounds", "n_tried"), [(3, 1), (5, 2), (8, 2), (9, 2)])
def test_ctrl_c_keeps_the_best_so_far(n_rounds, n_tried, lists, monkeypatch):
    # four rounds of both splits for each number of leaves, then the refit
    options = SMALL | {"n_rounds": 4, "patience": 9, "scoring": lambda *_: next(rising)}
    rising = iter(range(100))
    interrupted_after(2 * n_rounds if n_rounds < 9 else 18, monkeypatch)
    search = pm.BoostedRankMatchCV(leaf_counts=[2, 4], cv=2, **options)
    with pytest.warns(ConvergenceWarning, match=r"after trying 2(, 4)? leaves; the best"):
        search.fit(*lists)
    assert len(search.cv_results_["num_leaves"]) == n_tried
    assert not search.is_converged_
    assert search.trees_.sizes[1] == search.n_rounds_
    assert search.predict(lists[0]).std() > 0


def test_ctrl_c_before_the_first_round(lists, monkeypatch):
    interrupted_after(1, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        pm.BoostedRankMatchCV(leaf_counts=[2, 4], cv=2, **SMALL).fit(*lists)


def test_the_last_round_is_told(lists):
    rising = iter(range(100))
    options = SMALL | {"n_rounds": 3, "scoring": lambda *_: next(rising)}
    with pytest.warns(UserWarning, match="after the last of 3 rounds"):
        pm.BoostedRankMatchCV(leaf_counts=[2], cv=2, **options).fit(*lists)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"leaf_counts": []}, "at least one number; got none"),
        ({"leaf_counts": 7}, "must be a sequence of whole numbers; got 7"),
        ({"leaf_counts": "7"}, "must be a sequence of whole numbers; got '7'"),
        ({"leaf_counts": [7, 1]}, "every leaf count must be a whole number of at least 2"),
        ({"cv": 1}, "cv must be"),
        ({"cv": 41}, "cv must be at most the number of queries, 40"),
        ({"cv": "many"}, "cv must be a number of folds"),
    ],
    ids=str,
)
def test_unknown_options(options, message, lists):
    with pytest.raises(InvalidOptionError, match=message):
        pm.BoostedRankMatchCV(**SMALL | options).fit(*lists)
