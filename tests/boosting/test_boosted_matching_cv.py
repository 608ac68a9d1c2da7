"""`BoostedMatchingCV`: leaves and rounds chosen on held-out graphs."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import permatch as pm
from permatch.boosting import base, search
from permatch.boosting.trees import grow_together
from permatch.errors import InvalidMatchingError, InvalidOptionError
from tests.boosting.test_boosted_matching import planted

pytest.importorskip("lightgbm")

FEW = {"leaf_counts": (2, 6), "n_rounds": 30, "learning_rate": 0.3, "patience": 4, "cv": 3}


@pytest.fixture(scope="module")
def data():
    return planted(np.random.default_rng(0), 60)


@pytest.fixture(scope="module")
def model(data):
    return pm.BoostedMatchingCV(**FEW).fit(*data, feature_names=list("abc"))


def test_chooses_trees_that_see_products(model, data):
    assert model.num_leaves_ == 6
    results = model.cv_results_
    assert results["num_leaves"].tolist() == [2, 6]
    assert results["scores"].shape == (2, 3)
    np.testing.assert_allclose(results["scores"].mean(axis=1), results["mean_score"])
    assert model.best_score_ == results["mean_score"][1] > results["mean_score"][0]
    assert model.n_rounds_ == results["n_rounds"][1]
    # Grown again on all graphs.
    whole = pm.BoostedMatching(num_leaves=6, n_rounds=model.n_rounds_, learning_rate=0.3)
    assert whole.fit(*data).trees_.text == model.trees_.text
    assert model.is_converged_


def test_the_scores_are_those_of_held_out_graphs(model, data):
    graphs, matchings = data
    held_out, rest = np.arange(20), np.arange(20, 60)
    cv = [(rest, held_out)]
    options = FEW | {"cv": cv, "leaf_counts": [6]}
    own = pm.BoostedMatchingCV(**options).fit(graphs, matchings)
    labels = [matchings[k] for k in held_out]
    one = pm.BoostedMatching(num_leaves=6, n_rounds=own.n_rounds_, learning_rate=0.3)
    one.fit(graphs[rest], [matchings[k] for k in rest])
    assert own.best_score_ == pytest.approx(one.log_likelihood(graphs[held_out], labels))


def test_a_validation_set_never_trains(data):
    graphs, matchings = data
    train, held_out = (graphs[:40], matchings[:40]), (graphs[40:], matchings[40:])
    model = pm.BoostedMatchingCV(**FEW).fit(*train, validation=held_out)
    assert model.cv_results_["scores"].shape == (2, 1)
    assert model.log_likelihood(*held_out) == pytest.approx(model.best_score_)
    n = model.n_rounds_
    alone = pm.BoostedMatching(num_leaves=6, n_rounds=n, learning_rate=0.3).fit(*train)
    assert alone.trees_.text == model.trees_.text


def test_hamming_loss_may_choose(data):
    graphs, matchings = data
    held_out = graphs[40:], matchings[40:]
    options = FEW | {"scoring": "hamming", "leaf_counts": [6]}
    model = pm.BoostedMatchingCV(**options).fit(
        graphs[:40], matchings[:40], validation=held_out
    )
    assert model.best_score_ == pytest.approx(model.score(*held_out) - 1.0)


def test_one_graph_is_split_by_its_nodes(rng):
    n = 60
    left, right = np.repeat(np.arange(n), 3), rng.integers(0, n, 3 * n)
    right[::3] = np.arange(n)
    _, first = np.unique(left * n + right, return_index=True)
    left, right = left[first], right[first]
    features = rng.normal(size=(len(left), 2)) + 2.0 * (left == right)[:, None]
    graph = pm.BipartiteGraph.from_edges(left, right, features, n, n)
    matching = np.where(np.arange(n) < 40, np.arange(n), -1)
    model = pm.BoostedMatchingCV(**FEW).fit([graph], [matching])
    assert model.cv_results_["scores"].shape == (2, 3)
    assert model.unmatched_ == "any"
    assert model.score([graph], [matching]) > 0.6


def test_saved_models_have_what_was_tried(model, data, tmp_path):
    model.save(tmp_path / "model.json")
    again = pm.load(tmp_path / "model.json")
    np.testing.assert_array_equal(again.cv_results_["scores"], model.cv_results_["scores"])
    assert again.num_leaves_ == 6
    assert again.get_params() == model.get_params()
    assert again.score(*data) == model.score(*data)


def interrupting(monkeypatch, at, done=0):
    """Interrupt the growth with this number: before it begins, or after some rounds."""
    calls = []

    def grow(growths, judges, n_rounds, patience, show=None):
        calls.append(1)
        if len(calls) < at:
            return grow_together(growths, judges, n_rounds, patience, show)
        if not done:
            raise KeyboardInterrupt
        grown = grow_together(growths, judges, done, patience, show)
        grown.is_interrupted = True
        return grown

    for module in (search, base):  # the last growth is that of all graphs
        monkeypatch.setattr(module, "grow_together", grow)


@pytest.mark.parametrize(
    ("at", "done", "tried"), [(1, 2, [2]), (2, 0, [2]), (2, 3, [2, 6]), (3, 0, [2, 6])]
)
def test_ctrl_c_keeps_the_best_so_far(data, monkeypatch, at, done, tried):
    interrupting(monkeypatch, at, done)
    with pytest.warns(ConvergenceWarning, match="interrupted after trying .* best trees"):
        model = pm.BoostedMatchingCV(**FEW).fit(*data)
    assert not model.is_converged_
    assert model.cv_results_["num_leaves"].tolist() == tried
    assert model.trees_.sizes[1] == model.n_rounds_
    model.predict(data[0][:2])


def test_ctrl_c_before_anything_is_known(data, monkeypatch):
    interrupting(monkeypatch, 1)
    with pytest.raises(KeyboardInterrupt):
        pm.BoostedMatchingCV(**FEW).fit(*data)


def test_warns_if_more_rounds_may_be_better(data):
    with pytest.warns(UserWarning, match="best after the last of 3 rounds"):
        pm.BoostedMatchingCV(**FEW | {"n_rounds": 3}).fit(*data)


BAD = {
    "leaf_counts": (7, "leaf_counts must be a sequence"),
    "leaf_counts ": ([], "leaf_counts must have at least one number"),
    " leaf_counts": ([1], "every leaf count must be"),
    "cv": (1, "cv must be"),
    "scoring": ("f1", "scoring"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_options(data, name):
    value, message = BAD[name]
    with pytest.raises(InvalidOptionError, match=message):
        pm.BoostedMatchingCV(**FEW | {name.strip(): value}).fit(*data)


def test_folds_without_partners(data):
    graphs, _ = data
    labels = [pm.EdgeLabels(np.where(np.eye(4), -1, 0))] * 60  # nobody has a known partner
    model = pm.BoostedMatchingCV(**FEW | {"scoring": "hamming"})
    with pytest.raises(InvalidMatchingError, match="needs held-out graphs with a left"):
        model.fit(graphs, labels)
