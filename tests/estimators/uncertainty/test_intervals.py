"""Intervals of probabilities against draws, and how often they hold the true ones."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import permatch as pm
from permatch.errors import InvalidOptionError
from permatch.estimators.scored import Scored
from permatch.graphs import BipartiteGraph

COEF = np.array([1.0, -0.5])
LEVELS = np.repeat([2.0, 1.0, 0.0], [2, 2, 4])
ENDS = ("unmatched_left", "unmatched_right")


@pytest.fixture(autouse=True)
def one_thread():
    """Small fits: threads of BLAS would only wait for each other."""
    with threadpool_limits(1):
        yield


def labelled(rng, n_graphs, shape=(4, 4), ends=None):
    graphs = list(rng.normal(size=(n_graphs, *shape, 2)))
    more = {} if ends is None else dict.fromkeys(ENDS, ends)
    labels = [
        pm.MatchingDistribution(graph @ COEF, **more).sample(1, rng=k)[0]
        for k, graph in enumerate(graphs)
    ]
    return graphs, labels


@pytest.mark.parametrize("kind", ["perfect", "partial"])
def test_delta_method_agrees_with_draws(kind, rng):
    ends = None if kind == "perfect" else 0.3
    graphs, labels = labelled(rng, 200, (3, 3) if ends is None else (3, 2), ends)
    model = pm.MAPMatching(1e-4, unmatched="auto" if ends is None else "any")
    posterior = model.fit(graphs, labels).inference(graphs, labels)
    new = graphs[:2]
    delta = model.predict_marginals(new, uncertainty=posterior)
    drawn = model.predict_marginals(new, uncertainty=posterior, n_draws=400)
    plain = model.predict_marginals(new)
    assert [one.method for one in (*delta, *drawn)] == ["delta"] * 2 + ["draws"] * 2
    for one, two, values in zip(delta, drawn, plain, strict=True):
        np.testing.assert_array_equal(one.marginals, values)
        np.testing.assert_allclose(one.standard_errors, two.standard_errors, rtol=0.2)
        np.testing.assert_allclose(one.low, two.low, atol=0.03)
        np.testing.assert_allclose(one.high, two.high, atol=0.03)
        assert (one.low < one.marginals).all()
        assert (one.marginals < one.high).all()
        alone = [(one.unmatched_left, two.unmatched_left, values.sum(axis=1))]
        alone += [(one.unmatched_right, two.unmatched_right, values.sum(axis=0))]
        for own, other, sums in alone:
            np.testing.assert_allclose(own.marginals, 1.0 - sums, atol=1e-9)
            np.testing.assert_allclose(
                own.standard_errors, other.standard_errors, 0.2, 1e-12
            )
            np.testing.assert_allclose(own.low, other.low, atol=0.03)
            np.testing.assert_allclose(own.high, other.high, atol=0.03)
            assert (own.low <= own.marginals).all()
            assert (own.marginals <= own.high).all()


def test_standard_errors_are_those_of_differences(rng):
    graphs, labels = labelled(rng, 30, (3, 2), 0.3)
    edges = BipartiteGraph.from_edges([0, 0, 1], [0, 1, 1], rng.normal(size=(3, 2)))
    model = pm.MAPMatching(1e-2, unmatched="any").fit(graphs, labels)
    posterior = model.inference(graphs, labels)
    new = [graphs[0], edges]
    found = model.predict_marginals(new, uncertainty=posterior, level=0.5)
    root, step, weights = posterior.root(), 1e-5, posterior.params
    squares = [0.0, 0.0]
    for way in step * root.T:
        sides = []
        for sign in (1.0, -1.0):
            moved = weights + sign * way
            model.coef_, model.unmatched_intercept_ = moved[:2], moved[2]
            sides.append(model.predict_marginals(new))
        for k in range(2):
            squares[k] = squares[k] + ((sides[0][k] - sides[1][k]) / (2 * step)) ** 2
    for one, square in zip(found, squares, strict=True):
        assert one.marginals.shape == one.low.shape == square.shape
        np.testing.assert_allclose(one.standard_errors, np.sqrt(square), rtol=1e-6)
        assert one.level == 0.5


def test_intervals_of_ranks(rng):
    X = rng.normal(size=(100, 8, 2))
    orders = [
        pm.RankingDistribution(own @ COEF, LEVELS).sample(1, rng=k)[0]
        for k, own in enumerate(X)
    ]
    y = np.empty((100, 8), dtype=int)
    np.put_along_axis(y, np.array(orders), LEVELS.astype(int)[None], axis=1)
    X, y, group = X.reshape(-1, 2), y.ravel(), [8] * 100
    for scaling in (None, "standard"):
        model = pm.RankMatch(alpha=1e-3, scaling=scaling).fit(X, y, group=group)
        posterior = model.inference(X, y, group=group)
        new = rng.normal(size=(8, 2))
        delta = model.rank_marginals(new, uncertainty=posterior)
        drawn = model.rank_marginals(new, uncertainty=posterior, n_draws=200)
        np.testing.assert_array_equal(delta.marginals, model.rank_marginals(new))
        assert delta.low.shape == (8, 8)
        np.testing.assert_allclose(delta.low, drawn.low, atol=0.03)
        np.testing.assert_allclose(delta.high, drawn.high, atol=0.03)
        assert ((delta.low <= delta.marginals) & (delta.marginals <= delta.high)).all()
    weights = np.linspace(1.0, 0.0, 40)
    with pytest.raises(InvalidOptionError, match=r"needs exact probabilities.*n_draws=200"):
        model.rank_marginals(rng.normal(size=(40, 2)), weights, uncertainty=posterior)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["perfect", "partial"])
def test_intervals_hold_the_probabilities_of_the_true_weights(kind, rng):
    n_sets, ends = 40, None if kind == "perfect" else 0.3
    shape = (4, 4) if ends is None else (3, 2)
    more = {} if ends is None else dict.fromkeys(ENDS, ends)
    graphs, new = (
        list(rng.normal(size=(30, *shape, 2))),
        list(rng.normal(size=(5, *shape, 2))),
    )
    draws = [
        pm.MatchingDistribution(graph @ COEF, **more).sample(n_sets, rng=k)
        for k, graph in enumerate(graphs)
    ]
    true = [pm.MatchingDistribution(graph @ COEF, **more).marginals for graph in new]
    unmatched = "auto" if ends is None else "any"
    model = pm.MAPMatching(1e-6, unmatched=unmatched, warm_start=True, tol=1e-4)
    inside = []
    for labels in zip(*draws, strict=True):
        posterior = model.fit(graphs, labels).inference(graphs, labels, cov_type="laplace")
        found = model.predict_marginals(new, uncertainty=posterior)
        inside += [
            (one.low <= own) & (own <= one.high)
            for one, own in zip(found, true, strict=True)
        ]
    assert np.mean(inside) >= 0.90


def test_certain_probabilities_have_narrow_intervals(rng):
    graphs, labels = labelled(rng, 30, (3, 3))
    model = pm.MAPMatching(1e-2).fit(graphs, labels)
    posterior = model.inference(graphs, labels)
    far = 300.0 * np.eye(3)[:, :, None] * [1.0, 0.0]
    (found,) = model.predict_marginals([far], uncertainty=posterior)
    assert np.isfinite(found.low).all()
    assert (found.high - found.low < 1e-6).all()
    np.testing.assert_allclose(found.marginals, np.eye(3), atol=1e-12)


def test_approximate_probabilities_have_intervals_by_draws_alone(rng, monkeypatch):
    graphs, labels = labelled(rng, 20, (3, 3))
    model = pm.MAPMatching(0.1, engine="bethe").fit(graphs, labels)
    posterior = model.inference(graphs, labels)
    with monkeypatch.context() as patched:
        patched.setattr(Scored, "infer", None)  # refused before anything is computed
        with pytest.raises(InvalidOptionError, match=r"exact prob.*'bethe'.*--engine a"):
            model.predict_marginals(graphs[:2], uncertainty=posterior)
    (found,) = model.predict_marginals(graphs[:1], uncertainty=posterior, n_draws=50)
    assert found.method == "draws, approximate"
    assert (found.low < found.high).all()
    model.engine = "auto"
    (found,) = model.predict_marginals(graphs[:1], uncertainty=posterior)
    assert found.method == "delta"
    margins = pm.MaxMarginMatching().fit(graphs, labels)
    with pytest.raises(InvalidOptionError, match="need a model with a likelihood, MAPMat"):
        margins.predict_marginals(graphs, uncertainty=posterior)


def test_bad_options(rng):
    graphs, labels = labelled(rng, 20)
    model = pm.MAPMatching(1e-2).fit(graphs, labels)
    posterior = model.inference(graphs, labels)
    with pytest.raises(InvalidOptionError, match="uncertainty must be a Posterior"):
        model.predict_marginals(graphs, uncertainty=True)
    with pytest.raises(InvalidOptionError, match="level must be below 1"):
        model.predict_marginals(graphs, uncertainty=posterior, level=95)
    with pytest.raises(InvalidOptionError, match="n_draws must be 0, .* or at least 20"):
        model.predict_marginals(graphs, uncertainty=posterior, n_draws=3)
    model.fit(graphs[:10], labels[:10])
    with pytest.raises(InvalidOptionError, match="must be the posterior of this model"):
        model.predict_marginals(graphs, uncertainty=posterior)
