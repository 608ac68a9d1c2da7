"""The likelihood of sparse, unequal and partial graphs, and of incomplete labels."""

from itertools import product

import numpy as np
import pytest

import permatch as pm
from permatch.graphs import BipartiteGraph
from permatch.inference import find_engine
from permatch.labels import check_known
from permatch.objectives import MatchingHinge, MatchingLikelihood, Parameters, arrange

ALPHA = 0.3
# Central differences at this step: rounding and curvature each leave about 1e-10.
STEP = 1e-4
DIFFERENCE_TOL = 1e-7


def every_matching(graph):
    """Yield all matchings of a small graph, perfect or not, as arrays with -1."""
    structure = graph.structure
    choices = [
        [-1, *structure.right[structure.starts[i] : structure.starts[i + 1]].tolist()]
        for i in range(graph.n_left)
    ]
    for choice in product(*choices):
        partners = [j for j in choice if j >= 0]
        if len(set(partners)) == len(partners):
            yield np.array(choice, dtype=int)


def is_possible(graph, matching, is_any):
    n_links = (matching >= 0).sum()
    return is_any or n_links == min(graph.n_left, graph.n_right)


def score(graph, matching, weights, parameters):
    """The score of a matching, from its definition."""
    coef, left, right, intercept = parameters.split(weights)
    total = 0.0
    for i, j in enumerate(matching):
        if j >= 0:
            total += graph.features[i, j] @ coef
        else:
            total += intercept + graph.left_features[i] @ left
    for j in set(range(graph.n_right)) - set(matching.tolist()):
        total += intercept + graph.right_features[j] @ right
    return total


def random_graph(rng, shape, p_edge, is_listed, n_nodes=(0, 0)):
    n, k = shape
    features = rng.normal(size=(n, k, 2))
    allowed = rng.random((n, k)) < p_edge
    allowed[np.arange(min(n, k)), rng.permutation(k)[: min(n, k)]] = True
    nodes = {
        "left_features": rng.normal(size=(n, n_nodes[0])),
        "right_features": rng.normal(size=(k, n_nodes[1])),
    }
    if not is_listed:
        return BipartiteGraph(features, allowed, **nodes)
    left, right = np.nonzero(allowed)
    order = rng.permutation(len(left))
    left, right = left[order], right[order]
    return BipartiteGraph.from_edges(left, right, features[left, right], n, k, **nodes)


def labelled(rng, is_any, n_nodes=(0, 0), hidden=0.0):
    """Random graphs, each with one of its matchings, some of it hidden."""
    graphs = [
        random_graph(rng, shape, 0.6, is_listed, n_nodes)
        for shape, is_listed in (
            ((3, 3), False),
            ((2, 4), False),
            ((4, 2), True),
            ((3, 3), True),
            ((1, 1), True),
            ((1, 3), True),
        )
    ]
    labels = []
    for graph in graphs:
        possible = [m for m in every_matching(graph) if is_possible(graph, m, is_any)]
        label = possible[rng.integers(len(possible))].copy()
        label[rng.random(len(label)) < hidden] = -2
        labels.append(label)
    return graphs, labels


def likelihood(graphs, labels, is_any, shares, alpha=ALPHA):
    parameters = Parameters.of(graphs[0], is_any=is_any)
    parts = arrange(graphs, check_known(graphs, labels), parameters)
    return parameters, MatchingLikelihood(parts, shares, alpha, find_engine("enumeration"))


CASES = {
    "left over": (False, (0, 0), 0.0),
    "left over, nodes": (False, (1, 2), 0.0),
    "partial": (True, (0, 0), 0.0),
    "partial, nodes": (True, (2, 1), 0.0),
    "incomplete": (True, (1, 0), 0.5),
    "left over, incomplete": (False, (0, 1), 0.5),
}


@pytest.mark.parametrize("name", CASES)
def test_value_is_its_definition(name, rng):
    is_any, n_nodes, hidden = CASES[name]
    graphs, labels = labelled(rng, is_any, n_nodes, hidden)
    shares = rng.dirichlet(np.ones(len(graphs)))
    parameters, objective = likelihood(graphs, labels, is_any, shares)
    weights = rng.normal(size=len(parameters))
    expected = 0.5 * ALPHA * np.sum(weights[parameters.is_penalised] ** 2)
    for graph, label, share in zip(graphs, labels, shares, strict=True):
        possible = [m for m in every_matching(graph) if is_possible(graph, m, is_any)]
        totals = [np.exp(score(graph, m, weights, parameters)) for m in possible]
        fits = [((label == -2) | (label == m)).all() for m in possible]
        expected -= share * np.log(np.sum(np.array(totals)[fits]) / np.sum(totals))
    value, _ = objective.value_and_grad(weights)
    assert value == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("name", CASES)
def test_gradient_against_finite_differences(name, rng):
    is_any, n_nodes, hidden = CASES[name]
    graphs, labels = labelled(rng, is_any, n_nodes, hidden)
    shares = rng.dirichlet(np.ones(len(graphs)))
    parameters, objective = likelihood(graphs, labels, is_any, shares)
    for spread in (0.0, 1.0, 5.0):
        weights = spread * rng.normal(size=len(parameters))
        found = objective.evaluate(weights)
        differences = [
            objective.value_and_grad(weights + step)[0]
            - objective.value_and_grad(weights - step)[0]
            for step in STEP * np.eye(len(parameters))
        ]
        expected = np.array(differences) / (2 * STEP)
        np.testing.assert_allclose(found.grad, expected, rtol=0, atol=DIFFERENCE_TOL)
        assert found.is_exact
        assert found.grad_bounds.tolist() == [0.0] * len(parameters)


def test_labels_of_edges_say_the_same_as_matchings(rng):
    graphs, labels = labelled(rng, True, hidden=0.4)
    by_edge = []
    for graph, label in zip(graphs, labels, strict=True):
        structure = graph.structure
        values = np.where(label[structure.left] == -2, -1, 0)
        values[label[structure.left] == structure.right] = 1
        by_edge.append(pm.EdgeLabels(graph.lay(values)))
    shares = np.full(len(graphs), 1 / len(graphs))
    weights = rng.normal(size=3)
    a, b = (
        likelihood(graphs, some, True, shares)[1].value_and_grad(weights)
        for some in (labels, by_edge)
    )
    assert a[0] == b[0]
    np.testing.assert_array_equal(a[1], b[1])


def test_a_square_is_the_same_in_a_stack_and_in_a_table(rng):
    features = rng.normal(size=(4, 3, 3, 2))
    left, right = (index.ravel() for index in np.indices((3, 3)))
    listed = [
        BipartiteGraph.from_edges(left, right, table.reshape(9, 2)) for table in features
    ]
    labels = [rng.permutation(3) for _ in features]
    shares = np.full(4, 0.25)
    weights = rng.normal(size=2)
    stacked, tabled = (
        likelihood(graphs, labels, False, shares)[1].value_and_grad(weights)
        for graphs in ([BipartiteGraph(table) for table in features], listed)
    )
    assert tabled[0] == pytest.approx(stacked[0], rel=1e-13)
    np.testing.assert_allclose(tabled[1], stacked[1], atol=1e-13)


def test_complete_labels_make_it_convex(rng):
    graphs, labels = labelled(rng, True, (1, 1))
    shares = np.full(len(graphs), 1 / len(graphs))
    parameters, objective = likelihood(graphs, labels, True, shares, alpha=0.0)
    for _ in range(20):
        a, b = 3 * rng.normal(size=(2, len(parameters)))
        (low, grad), (high, _) = objective.value_and_grad(a), objective.value_and_grad(b)
        middle, _ = objective.value_and_grad((a + b) / 2)
        assert middle <= (low + high) / 2 + 1e-12
        assert high >= low + grad @ (b - a) - 1e-12


# ---- the hinge -------------------------------------------------------------------------


@pytest.mark.parametrize("is_any", [False, True])
def test_the_hinge_is_its_definition_and_has_a_subgradient(is_any, rng):
    graphs, labels = labelled(rng, is_any, (1, 2))
    shares = rng.dirichlet(np.ones(len(graphs)))
    parameters = Parameters.of(graphs[0], is_any=is_any)
    parts = arrange(graphs, check_known(graphs, labels), parameters)
    hinge = MatchingHinge(parts, shares)

    def risk(weights):
        total = 0.0
        for graph, label, share in zip(graphs, labels, shares, strict=True):
            own = score(graph, label, weights, parameters)
            total += share * max(
                np.mean(m != label) + score(graph, m, weights, parameters) - own
                for m in every_matching(graph)
                if is_possible(graph, m, is_any)
            )
        return total

    for spread in (0.0, 0.3, 2.0):
        weights = spread * rng.normal(size=len(parameters))
        found, slope = hinge.risk_and_subgradient(weights)
        assert found == pytest.approx(risk(weights), rel=1e-12)
        for _ in range(10):
            step = rng.normal(size=len(parameters))
            assert risk(weights + step) >= found + slope @ step - 1e-10
