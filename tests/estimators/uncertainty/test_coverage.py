"""95 % intervals of planted weights cover them in 92 to 98 % of simulated data sets."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import permatch as pm

N_SETS = 200
COEF = np.array([1.0, -0.5])
LEVELS = np.repeat([2.0, 1.0, 0.0], [2, 2, 4])


@pytest.fixture
def rng():
    return np.random.default_rng(20)


@pytest.fixture(autouse=True)
def one_thread():
    """Small fits: threads of BLAS would only wait for each other."""
    with threadpool_limits(1):
        yield


def drawn_graphs(rng, n_graphs, *shape):
    features = rng.normal(size=(n_graphs, *shape, 2))
    return [pm.BipartiteGraph(own) for own in features]


def draws(graphs, unmatched=None, n_sets=N_SETS):
    """Labels of all graphs in every data set."""
    score = (
        {}
        if unmatched is None
        else dict.fromkeys(("unmatched_left", "unmatched_right"), unmatched)
    )
    return np.stack(
        [
            pm.MatchingDistribution(graph.features @ COEF, **score).sample(n_sets, rng=k)
            for k, graph in enumerate(graphs)
        ],
        axis=1,
    )


def coverage(truth, posteriors):
    inside = []
    for posterior in posteriors:
        low, high = posterior.conf_int().T
        inside.append((low <= truth) & (truth <= high))
    return np.mean(inside)


def fit_all(model, graphs, labels, **options):
    """Fit every data set, each starting where the last one ended."""
    for own in labels:
        yield model.fit(graphs, list(own)).inference(graphs, list(own), **options)


@pytest.mark.slow
def test_perfect_matchings(rng):
    graphs = drawn_graphs(rng, 25, 6, 6)
    model = pm.MAPMatching(1e-6, engine="small_batch", warm_start=True, tol=1e-4)
    found = fit_all(model, graphs, draws(graphs), cov_type="laplace")
    assert 0.92 <= coverage(COEF, found) <= 0.98


@pytest.mark.slow
def test_partial_matchings(rng):
    graphs = drawn_graphs(rng, 25, 4, 3)
    options = {"engine": "frontier", "unmatched": "any", "warm_start": True, "tol": 1e-4}
    model = pm.MAPMatching(1e-6, **options)
    found = fit_all(model, graphs, draws(graphs, 0.3), cov_type="laplace")
    assert 0.92 <= coverage([*COEF, 0.3], found) <= 0.98


@pytest.mark.slow
def test_rankings(rng):
    X = rng.normal(size=(40, 8, 2))
    orders = [
        pm.RankingDistribution(own @ COEF, LEVELS).sample(N_SETS, rng=k)
        for k, own in enumerate(X)
    ]
    grades = np.empty((N_SETS, 40, 8), dtype=int)
    np.put_along_axis(grades, np.stack(orders, axis=1), LEVELS.astype(int), axis=2)
    model = pm.RankMatch(alpha=1e-6, warm_start=True, tol=1e-4)
    X, group, found = X.reshape(-1, 2), [8] * 40, []
    for own in grades.reshape(N_SETS, -1):
        model.fit(X, own, group=group)
        found.append(model.inference(X, own, group=group, cov_type="laplace"))
    assert 0.92 <= coverage(COEF, found) <= 0.98


@pytest.mark.slow
def test_graphs_that_repeat_are_a_cluster(rng):
    graphs = drawn_graphs(rng, 40, 3, 3)
    labels = np.tile(draws(graphs), (1, 2, 1))  # every graph twice
    clusters = np.tile(np.arange(40), 2)
    model = pm.MAPMatching(1e-6, engine="small_batch", warm_start=True, tol=1e-4)
    found = list(fit_all(model, graphs * 2, labels, clusters=clusters))
    assert 0.92 <= coverage(COEF, found) <= 0.98
    # Laplace takes all for independent.
    (plain,) = fit_all(model, graphs * 2, labels[-1:], cov_type="laplace")
    errors = np.mean([posterior.bse for posterior in found], axis=0)
    np.testing.assert_allclose(errors / plain.bse, np.sqrt(2.0), rtol=0.2)
