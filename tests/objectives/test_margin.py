"""The structured hinge against its definition, and its planes against itself."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from permatch.errors import PrecisionError
from permatch.graphs import BipartiteGraph
from permatch.inference import all_matchings
from permatch.objectives import MatchingHinge, margin
from permatch.optimizers import minimize_bundle
from tests.objectives import parts_of

N_FEATURES = 3
# Risks here are sums of a few dozen terms of order one to a hundred.
ROUNDING = 1e-12


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


def hinge(graphs, matchings, weights=None, **options):
    if weights is None:
        weights = np.full(len(graphs), 1.0 / len(graphs))
    return MatchingHinge(parts_of(graphs, matchings), weights, **options)


def competitors(graph, label):
    """Loss and feature difference of every allowed matching, (n,) and (n, d)."""
    rows, matchings = np.arange(graph.size), all_matchings(graph.size)
    if graph.allowed is not None:
        matchings = matchings[graph.allowed[rows, matchings].all(axis=1)]
    losses = (matchings != label).sum(axis=1) / max(graph.size, 1)
    joint = graph.features[rows, matchings].sum(axis=1)
    return losses, joint - graph.features[rows, label].sum(axis=0)


def enumerated_risk(graphs, matchings, weights, coef):
    risk = 0.0
    for graph, label, weight in zip(graphs, matchings, weights, strict=True):
        losses, differences = competitors(graph, label)
        risk += weight * np.max(losses + differences @ coef)
    return risk


CASES = {
    "one size": ([4, 4, 4], 0.0),
    "mixed sizes": ([3, 5, 0, 3, 1, 6], 0.0),
    "forbidden edges": ([4, 5, 4, 6], 0.4),
    "hardly an edge": ([5, 4, 6], 0.9),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("spread", [0.0, 0.1, 1.0, 30.0])
def test_risk_is_its_definition(name, spread, rng):
    graphs, matchings = labelled_graphs(rng, *CASES[name])
    weights = rng.dirichlet(np.ones(len(graphs)))
    coef = spread * rng.normal(size=N_FEATURES)
    risk, _ = hinge(graphs, matchings, weights).risk_and_subgradient(coef)
    expected = enumerated_risk(graphs, matchings, weights, coef)
    assert risk == pytest.approx(expected, rel=1e-12, abs=1e-14)


@given(
    seed=st.integers(0, 2**32 - 1),
    name=st.sampled_from(sorted(CASES)),
    spread=st.sampled_from([0.0, 0.1, 2.0]),
)
def test_subgradient_inequality(seed, name, spread):
    rng = np.random.default_rng(seed)
    objective = hinge(*labelled_graphs(rng, *CASES[name]))
    at = spread * rng.normal(size=N_FEATURES)
    height, slope = objective.risk_and_subgradient(at)
    for x in rng.normal(size=(20, N_FEATURES)) * rng.choice([0.1, 1.0, 5.0], size=(20, 1)):
        risk, _ = objective.risk_and_subgradient(x)
        assert risk >= 0.0
        assert height + slope @ (x - at) <= risk + ROUNDING


def test_at_zero_the_risk_is_the_greatest_loss(rng):
    # From two nodes on there is a matching that gets every row wrong.
    risk, _ = hinge(*labelled_graphs(rng, [4, 5, 2])).risk_and_subgradient(np.zeros(3))
    assert risk == pytest.approx(1.0, rel=1e-15)
    risk, slope = hinge(*labelled_graphs(rng, [1, 0])).risk_and_subgradient(np.zeros(3))
    assert risk == 0.0
    assert slope.tolist() == [0.0] * 3


def test_labels_that_win_by_the_margin_cost_nothing():
    label = np.array([1, 2, 0])
    features = np.zeros((3, 3, 1))
    features[np.arange(3), label] = 1.0
    objective = hinge([BipartiteGraph(features)], [label])
    # Every wrong row costs 1/3 and gives up one edge.
    for coef, expected in ((1.0, 0.0), (0.4, 0.0), (0.2, 1.0 - 3 * 0.2), (0.0, 1.0)):
        risk, slope = objective.risk_and_subgradient(np.array([coef]))
        assert risk == pytest.approx(expected, abs=1e-15)
        assert slope[0] == (-3.0 if expected else 0.0)


def test_weights_and_order_of_graphs(rng):
    graphs, matchings = labelled_graphs(rng, [3, 5, 3, 4], 0.2)
    weights = np.array([0.1, 0.2, 0.3, 0.4])
    coef = 0.3 * rng.normal(size=N_FEATURES)
    risk, slope = hinge(graphs, matchings, weights).risk_and_subgradient(coef)
    order = [2, 0, 3, 1]
    other = hinge(
        [graphs[k] for k in order], [matchings[k] for k in order], weights[order]
    ).risk_and_subgradient(coef)
    assert other[0] == pytest.approx(risk, rel=1e-14)
    np.testing.assert_allclose(other[1], slope, rtol=1e-12)
    alone = [
        hinge([graph], [matching]).risk_and_subgradient(coef)
        for graph, matching in zip(graphs, matchings, strict=True)
    ]
    assert risk == pytest.approx(weights @ [part for part, _ in alone], rel=1e-14)
    np.testing.assert_allclose(slope, weights @ [part for _, part in alone], rtol=1e-12)


def test_threads_change_nothing(rng, monkeypatch):
    monkeypatch.setattr(margin, "_TASK_COST", 1)  # a task for every graph
    graphs, matchings = labelled_graphs(rng, [6] * 9 + [4] * 3)
    coef = rng.normal(size=N_FEATURES)
    one = hinge(graphs, matchings).risk_and_subgradient(coef)
    four = hinge(graphs, matchings, n_jobs=4).risk_and_subgradient(coef)
    assert one[0] == four[0]
    assert one[1].tolist() == four[1].tolist()


def slack_program_minimum(graphs, matchings, weights, alpha):
    """The penalised minimum, from every constraint of the n-slack program."""
    rows, heights = [], []
    for k, (graph, label) in enumerate(zip(graphs, matchings, strict=True)):
        losses, differences = competitors(graph, label)
        slack = np.zeros((len(losses), len(graphs)))
        slack[:, k] = 1.0
        rows.append(np.hstack([-differences, slack]))
        heights.append(losses)
    matrix, height = np.vstack(rows), np.concatenate(heights)
    d = N_FEATURES

    found = minimize(
        lambda z: 0.5 * alpha * z[:d] @ z[:d] + weights @ z[d:],
        np.concatenate([np.zeros(d), np.ones(len(graphs))]),
        jac=lambda z: np.concatenate([alpha * z[:d], weights]),
        method="SLSQP",
        constraints=[
            {"type": "ineq", "fun": lambda z: matrix @ z - height, "jac": lambda z: matrix}
        ],
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert found.success
    assert (matrix @ found.x - height).min() > -1e-9
    return found.fun


@pytest.mark.parametrize("alpha", [1e-3, 1e-2, 0.1, 1.0])
@pytest.mark.parametrize("forbidden", [0.0, 0.3])
def test_minimum_against_a_generic_convex_solver(alpha, forbidden, rng):
    graphs, matchings = labelled_graphs(rng, [3] * 6, forbidden)
    weights = rng.dirichlet(np.ones(6))
    objective = hinge(graphs, matchings, weights)
    minimum = slack_program_minimum(graphs, matchings, weights, alpha)
    for tol in (1e-3, 1e-6):
        optimum = minimize_bundle(
            objective.risk_and_subgradient, N_FEATURES, alpha=alpha, tol=tol
        )
        generic = 1e-6 * minimum  # what the other solver may be off by
        assert optimum.is_converged
        assert optimum.lower_bound - generic <= minimum <= optimum.value + generic
        assert optimum.value - minimum <= tol * optimum.value + generic


def test_scores_beyond_float64_are_refused(rng):
    graphs, matchings = labelled_graphs(rng, [3])
    with (
        np.errstate(all="ignore"),
        pytest.raises(PrecisionError, match="scores must stay finite"),
    ):
        hinge(graphs, matchings).risk_and_subgradient(np.full(N_FEATURES, np.nan))
