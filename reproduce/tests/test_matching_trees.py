"""Boosted trees for edges: whole matchings, and pair by pair as LightGBM does it."""

import numpy as np
import pytest

from permatch.graphs import BipartiteGraph
from permatch.pages.demo_learning import Pairs
from reproduce.experiments.matching_trees import TREES, EdgeLoss, TreeGrid, learn_trees

lightgbm = pytest.importorskip("lightgbm", reason="needs LightGBM (extra 'boosting')")

GRID = TreeGrid((2, 4), (True, False), 0.2, 40, 10)


def draw(n, seed, size=5):
    """Graphs whose true edges are near in the first feature; the second tells nothing."""
    rng = np.random.default_rng(seed)
    graphs, matchings = [], []
    for _ in range(n):
        matching = rng.permutation(size)
        features = rng.exponential(size=(size, size, 2))
        features[np.arange(size), matching, 0] *= 0.1
        graphs.append(BipartiteGraph(features))
        matchings.append(matching)
    return Pairs(graphs, matchings)


@pytest.mark.parametrize("method", TREES)
def test_trees_learn_and_say_what_they_chose(method):
    train, validation, test = (draw(40, seed) for seed in range(3))
    shares = []
    fit = learn_trees(method, GRID, train, validation, on_progress=shares.append)
    assert shares == [0.5, 1.0]
    assert np.mean(fit.losses(test)) < 0.45  # blank scores: 0.8
    row = fit.to_row()
    assert row["validation_loss"] == pytest.approx(np.mean(fit.losses(validation)))
    assert row["validation_loss"] == min(step["validation_loss"] for step in fit.path)
    assert row["chosen"] == {name: fit.best[name] for name in row["chosen"]}
    assert {step["is_falling"] for step in fit.path} == {True, False}


@pytest.mark.parametrize("method", TREES)
def test_falling_scores_never_rise(method):
    train, validation = draw(30, 0), draw(30, 1)
    fit = learn_trees(method, TreeGrid((4,), (True,), 0.2, 30, 10), train, validation)
    steps = np.stack([np.linspace(0.0, 4.0, 25), np.full(25, 1.0)], axis=1)
    (scores,) = fit.scores([BipartiteGraph(steps.reshape(5, 5, 2))])
    assert (np.diff(scores.ravel()) <= 1e-12).all()


def test_pair_by_pair_is_what_lightgbm_does_with_its_own_objective():
    train, validation = draw(40, 0), draw(40, 1)
    grid = TreeGrid((4,), (False,), 0.2, 15, 15)
    fit = learn_trees("pairs", grid, train, validation)
    X = np.concatenate([graph.features.reshape(-1, 2) for graph in train.graphs])
    y = np.zeros((40, 5, 5))
    y[np.arange(40)[:, None], np.arange(5), np.array(train.matchings)] = 1.0
    options = {
        "objective": "binary",
        "num_leaves": 4,
        "learning_rate": 0.2,
        "min_data_in_leaf": 20,
        "num_threads": 1,
        "verbosity": -1,
        "deterministic": True,
        "force_col_wise": True,
        "feature_pre_filter": False,
    }
    data = lightgbm.Dataset(X, y.ravel(), params=options)
    own = lightgbm.train(options, data, num_boost_round=fit.best["n_rounds"])
    expected = own.predict(X, raw_score=True)
    found = np.concatenate([s.ravel() for s in fit.scores(train.graphs)])
    found += EdgeLoss(y.ravel()).constant
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_the_loss_of_edges_has_its_derivatives():
    is_match = np.array([1.0, 0.0, 0.0, 1.0, 0.0])
    loss, rng = EdgeLoss(is_match), np.random.default_rng(0)
    scores = rng.normal(size=5)
    value, slope, curvature = loss.derivatives(scores)
    for k in range(5):
        step = np.zeros(5)
        step[k] = 1e-5
        above, below = (loss.derivatives(scores + sign * step) for sign in (1, -1))
        assert slope[k] == pytest.approx(5 * (above[0] - below[0]) / 2e-5, abs=1e-7)
        assert curvature[k] == pytest.approx((above[1][k] - below[1][k]) / 2e-5, abs=1e-7)
    p = loss.probability(scores)
    expected = -np.mean(np.log(np.where(is_match == 1.0, p, 1.0 - p)))
    assert value == pytest.approx(expected)
    assert loss.probability(np.zeros(5))[0] == pytest.approx(0.4)


def test_of_equally_good_trees_the_smallest_falling_ones_count():
    blank = Pairs([BipartiteGraph(np.ones((3, 3, 1)))] * 30, [np.arange(3)] * 30)
    train = draw(30, 0, size=3)
    one = Pairs([BipartiteGraph(g.features[..., :1]) for g in train.graphs], train[1])
    fit = learn_trees("boosted", TreeGrid((4, 2), (True, False), 0.2, 3, 3), one, blank)
    assert (fit.best["num_leaves"], fit.best["is_falling"]) == (2, True)
