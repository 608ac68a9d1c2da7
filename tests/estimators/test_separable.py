"""Without a penalty, separable data have no best coefficients, and a fit says so."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import permatch as pm
from permatch.decoding import best_matching
from tests.estimators import planted

MESSAGE = "the data are separable.*Use alpha above 0"
RANKERS = ["all", 3, "grades", "pairs"]


def separable_graphs(rng, n_overlapping=0):
    """Return graphs whose first feature, the others aside, tells the matching."""
    graphs, labels = planted(rng, 12, sizes=(3, 4), coef=np.array([1.0, -0.5]))
    graphs = [np.concatenate([np.zeros((len(g), len(g), 1)), g], axis=2) for g in graphs]
    for k, (graph, label) in enumerate(zip(graphs, labels, strict=True)):
        if k >= n_overlapping:
            graph[np.arange(len(graph)), label, 0] = 1.0
    return graphs, labels


def judged_lists(rng, noise):
    X = rng.normal(size=(60, 3))
    signal = X @ [1.0, -2.0, 0.0] + noise * rng.normal(size=60)
    return X, np.digitize(signal, [-1.0, 1.0]), np.repeat(np.arange(6), 10)


@pytest.mark.parametrize("solver", ["lbfgs", "bfgs", "newton-cg"])
def test_matchings_that_the_scores_tell(solver, rng):
    graphs = rng.normal(size=(10, 4, 4, 3))
    labels = [best_matching(graph @ [1.0, -2.0, 0.5]) for graph in graphs]
    with pytest.warns(ConvergenceWarning, match=MESSAGE):
        model = pm.MAPMatching(alpha=0.0, solver=solver).fit(graphs, labels)
    assert not model.is_converged_
    assert model.score(graphs, labels) == 1.0
    assert pm.MAPMatching(alpha=1e-3, solver=solver).fit(graphs, labels).is_converged_
    bounds = (-5.0, 5.0)
    if solver == "lbfgs":  # within bounds there is a best point
        assert pm.MAPMatching(alpha=0.0, bounds=bounds).fit(graphs, labels).is_converged_


def test_one_feature_that_never_errs(rng):
    graphs, labels = separable_graphs(rng, n_overlapping=6)
    with pytest.warns(ConvergenceWarning, match=MESSAGE):
        model = pm.MAPMatching(alpha=0.0).fit(graphs, labels)
    assert not model.is_converged_


def test_a_second_fit_says_it_again(rng):
    graphs, labels = separable_graphs(rng)
    model = pm.MAPMatching(alpha=0.0, warm_start=True)
    for _ in range(2):
        with pytest.warns(ConvergenceWarning, match=MESSAGE):
            model.fit(graphs, labels)


@pytest.mark.parametrize("copies", [1, 2])
def test_overlapping_matchings_have_a_best_point(copies, rng):
    graphs, labels = planted(rng, 30, sizes=(3, 4))
    graphs = [
        np.tile(graph, copies) for graph in graphs
    ]  # perhaps with every feature twice
    model = pm.MAPMatching(alpha=0.0).fit(graphs, labels)
    assert model.is_converged_
    model.set_params(warm_start=True)
    assert model.fit(graphs, labels).is_converged_


@pytest.mark.parametrize("subset_size", RANKERS)
def test_lists_that_the_scores_tell(subset_size, rng):
    X, y, qid = judged_lists(rng, 0.0)
    with pytest.warns(ConvergenceWarning, match=MESSAGE):
        model = pm.RankMatch(subset_size, alpha=0.0).fit(X, y, qid=qid)
    assert not model.is_converged_
    assert pm.RankMatch(subset_size, alpha=1e-3).fit(X, y, qid=qid).is_converged_


@pytest.mark.parametrize("subset_size", RANKERS)
def test_overlapping_lists_have_a_best_point(subset_size, rng):
    X, y, qid = judged_lists(rng, 1.5)
    assert pm.RankMatch(subset_size, alpha=0.0).fit(X, y, qid=qid).is_converged_


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("is_scaled", [True, False])
def test_features_that_change_nothing_are_no_separation(seed, is_scaled):
    X, y, qid = judged_lists(np.random.default_rng(seed), 1.5)
    model = pm.RankMatch(alpha=0.0, scale_features=is_scaled)
    expected = model.fit(X, y, qid=qid).coef_
    for more in (np.ones(len(X)), qid, X[:, 0]):  # a constant, one per query, a copy
        found = model.fit(np.c_[X, more], y, qid=qid)
        assert found.is_converged_
        assert np.allclose(found.coef_[1:3], expected[1:], atol=1e-5)
