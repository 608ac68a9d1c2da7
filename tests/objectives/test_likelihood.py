"""The likelihood against its definition, and its gradient against finite differences."""

import numpy as np
import pytest

import permatch as pm
from permatch.graphs import BipartiteGraph
from permatch.inference import all_matchings
from permatch.objectives import MatchingLikelihood
from tests.helpers import ENGINES_WITH_MARGINALS
from tests.objectives import parts_of

N_FEATURES = 3
ALPHA = 0.3
# Central differences at this step: rounding and curvature each leave about 1e-10.
STEP = 1e-4
DIFFERENCE_TOL = 1e-7


def labelled_graphs(rng, sizes, forbidden=0.0):
    """Random graphs with random labels on allowed edges."""
    graphs, matchings = [], []
    for size in sizes:
        matching = rng.permutation(size)
        allowed = rng.random((size, size)) >= forbidden
        allowed[np.arange(size), matching] = True
        features = rng.normal(size=(size, size, N_FEATURES))
        graphs.append(BipartiteGraph(features, allowed if forbidden else None))
        matchings.append(matching)
    return graphs, matchings


def likelihood(graphs, matchings, weights=None, alpha=ALPHA, engine=None, n_jobs=1):
    if weights is None:
        weights = np.full(len(graphs), 1.0 / len(graphs))
    engine = engine or pm.AutoEngine()
    parts = parts_of(graphs, matchings)
    return MatchingLikelihood(parts, weights, alpha, engine, n_jobs)


CASES = {
    "one size": ([4, 4, 4], 0.0),
    "mixed sizes": ([3, 5, 0, 3, 1, 6], 0.0),
    "forbidden edges": ([4, 5, 4, 6], 0.4),
    "beyond the small kernels": ([9, 3], 0.2),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("case", ENGINES_WITH_MARGINALS, ids=str)
def test_gradient_against_finite_differences(case, name, rng):
    sizes, forbidden = CASES[name]
    sizes = [min(size, case.largest) for size in sizes]
    graphs, matchings = labelled_graphs(rng, sizes, forbidden)
    weights = rng.dirichlet(np.ones(len(graphs)))
    objective = likelihood(graphs, matchings, weights, engine=case.engine)
    for spread in (0.0, 1.0, 5.0):
        coef = spread * rng.normal(size=N_FEATURES)
        _, grad = objective.value_and_grad(coef)
        differences = [
            objective.value_and_grad(coef + step)[0]
            - objective.value_and_grad(coef - step)[0]
            for step in STEP * np.eye(N_FEATURES)
        ]
        expected = np.array(differences) / (2 * STEP)
        np.testing.assert_allclose(grad, expected, rtol=0, atol=DIFFERENCE_TOL)


def test_value_is_its_definition(rng):
    graphs, matchings = labelled_graphs(rng, [4, 2, 3, 4], 0.3)
    weights = np.array([0.1, 0.2, 0.3, 0.4])
    coef = rng.normal(size=N_FEATURES)
    expected = 0.5 * ALPHA * np.sum(coef**2)
    for graph, matching, weight in zip(graphs, matchings, weights, strict=True):
        rows, scores = np.arange(graph.size), graph.scores(coef)
        totals = scores[rows, all_matchings(graph.size)].sum(axis=1)
        log_prob = scores[rows, matching].sum() - np.log(np.exp(totals).sum())
        expected -= weight * log_prob
    value, _ = likelihood(graphs, matchings, weights).value_and_grad(coef)
    assert value == pytest.approx(expected, rel=1e-12)


def test_is_convex_along_lines(rng):
    objective = likelihood(*labelled_graphs(rng, [3, 5, 4]), alpha=0.0)
    for _ in range(20):
        a, b = 3 * rng.normal(size=(2, N_FEATURES))
        (low, grad), (high, _) = objective.value_and_grad(a), objective.value_and_grad(b)
        middle, _ = objective.value_and_grad((a + b) / 2)
        assert middle <= (low + high) / 2 + 1e-12
        assert high >= low + grad @ (b - a) - 1e-12


def test_threads_change_no_bit(rng):
    graphs, matchings = labelled_graphs(rng, [9, 4, 9, 10, 4])
    coef = rng.normal(size=N_FEATURES)
    one, two = (
        likelihood(graphs, matchings, n_jobs=n).value_and_grad(coef) for n in (1, 2)
    )
    assert one[0] == two[0]
    np.testing.assert_array_equal(one[1], two[1])


def test_a_feature_constant_on_a_graph_says_nothing(rng):
    graphs, matchings = labelled_graphs(rng, [4, 5], 0.3)
    shifted = [
        BipartiteGraph(graph.features + rng.normal(size=N_FEATURES), graph.allowed)
        for graph in graphs
    ]
    coef = rng.normal(size=N_FEATURES)
    value, grad = likelihood(graphs, matchings).value_and_grad(coef)
    again, grad_again = likelihood(shifted, matchings).value_and_grad(coef)
    assert again == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(grad_again, grad, atol=1e-12)
