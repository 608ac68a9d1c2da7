"""Second derivatives of the likelihood, and what each graph adds to the gradient."""

import numpy as np
import pytest

import permatch as pm
from permatch.inference import find_engine
from permatch.labels import check_known
from permatch.objectives import MatchingLikelihood, Parameters, arrange
from tests.objectives.test_partial_likelihood import ALPHA, CASES, labelled, likelihood

STEP = 1e-4


def differences(objective, weights):
    """The Hessian by central differences of the gradient, of fourth order."""
    columns = []
    for k in range(len(weights)):
        step = STEP * np.eye(len(weights))[k]
        near, far = (
            (objective.value_and_grad(weights + c * step)[1])
            - objective.value_and_grad(weights - c * step)[1]
            for c in (1, 2)
        )
        columns.append((8 * near - far) / (12 * STEP))
    return np.array(columns).T


@pytest.mark.parametrize("name", CASES)
def test_hessian_is_the_derivative_of_the_gradient(name, rng):
    is_any, n_nodes, hidden = CASES[name]
    graphs, labels = labelled(rng, is_any, n_nodes, hidden)
    shares = rng.dirichlet(np.ones(len(graphs)))
    parameters, objective = likelihood(graphs, labels, is_any, shares)
    weights = rng.normal(size=len(parameters))
    expected = differences(objective, weights)
    found = objective.hessian(weights)
    np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())
    np.testing.assert_array_equal(found, found.T)
    vectors = rng.normal(size=(len(parameters), 3))
    products = objective.hessian_product(weights, vectors)
    np.testing.assert_allclose(products, found @ vectors, atol=1e-12)
    # the penalty leaves the intercept alone
    bare = objective.with_alpha(0.0).hessian(weights)
    np.testing.assert_allclose(
        np.diag(found - bare), ALPHA * parameters.is_penalised, atol=1e-12
    )


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_graphs_add_up_to_the_gradient(name, rng):
    is_any, n_nodes, hidden = CASES[name]
    graphs, labels = labelled(rng, is_any, n_nodes, hidden)
    shares = rng.dirichlet(np.ones(len(graphs)))
    parameters, objective = likelihood(graphs, labels, is_any, shares)
    weights = rng.normal(size=len(parameters))
    grads = objective.gradients(weights)
    _, whole = objective.with_alpha(0.0).value_and_grad(weights)
    np.testing.assert_allclose(grads.sum(axis=0), whole, atol=1e-12)
    for k, share in enumerate(shares):  # each by itself
        _, alone = likelihood(graphs[k : k + 1], labels[k : k + 1], is_any, np.ones(1))
        _, own = alone.with_alpha(0.0).value_and_grad(weights)
        np.testing.assert_allclose(grads[k], share * own, atol=1e-12)


def stacked(rng, sizes, n_features=3, forbidden=0.2, **options):
    """The likelihood of square graphs of some sizes."""
    graphs, labels = [], []
    for m in sizes:
        features, label = rng.normal(size=(m, m, n_features)), rng.permutation(m)
        allowed = rng.random((m, m)) >= forbidden
        allowed[np.arange(m), label] = True
        graphs.append(pm.BipartiteGraph(features, allowed))
        labels.append(label)
    parameters = Parameters.of(graphs[0], is_any=False)
    parts = arrange(graphs, check_known(graphs, labels), parameters)
    shares = rng.dirichlet(np.ones(len(graphs)))
    engine = options.pop("engine", pm.AutoEngine())
    return MatchingLikelihood(parts, shares, ALPHA, engine, **options)


@pytest.mark.parametrize("forbidden", [0.0, 0.3])
def test_hessian_of_squares(forbidden, rng):
    objective = stacked(rng, [1, 2, 5, 5, 8, 9, 11], forbidden=forbidden)
    weights = rng.normal(size=3)
    expected = differences(objective, weights)
    found = objective.hessian(weights)
    np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())
    assert np.linalg.eigvalsh(found - ALPHA * np.eye(3)).min() > -1e-12
    again = MatchingLikelihood(
        objective.parts, objective._all_shares, ALPHA, pm.AutoEngine(), n_jobs=3
    )
    np.testing.assert_array_equal(again.hessian(weights), found)


def test_an_approximation_has_the_derivatives_of_its_own(rng):
    objective = stacked(rng, [5, 5], engine=pm.Bethe())
    weights = rng.normal(size=3)
    found = objective.curvature(weights)
    assert (found.method, found.is_exact) == ("differences of approximate gradients", False)
    expected = differences(objective, weights)
    np.testing.assert_allclose(found.product, expected, atol=1e-4)
    exact = objective.with_engine(pm.AutoEngine()).curvature(weights)
    assert exact.is_exact
    assert exact.error == 0.0


def test_an_engine_that_draws_has_the_exact_derivatives(rng):
    objective = stacked(rng, [5], engine=find_engine("nesting"))
    exact = objective.with_engine(pm.AutoEngine())
    weights = rng.normal(size=3)
    np.testing.assert_array_equal(objective.hessian(weights), exact.hessian(weights))
