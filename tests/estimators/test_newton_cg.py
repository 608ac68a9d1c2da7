"""MAPMatching by Newton's method: the same optimum in fewer evaluations."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import permatch as pm
from permatch.errors import InvalidOptionError
from permatch.objectives import MatchingLikelihood
from tests.estimators import planted

NEWTON = {"solver": "newton-cg"}


def evaluations(model):
    return model.history_[-1]["evaluations"]


def partial_graphs(rng, hidden=0.0):
    """Sparse graphs of unequal sides, some nodes unmatched, some labels hidden."""
    graphs, labels = [], []
    for _ in range(25):
        n, k = rng.integers(3, 6, 2)
        left, right = np.nonzero(rng.random((n, k)) < 0.7)
        features = rng.normal(size=(len(left), 2))
        scores = pm.EdgeScores(left, right, features @ [1.5, -1.0], n, k)
        law = pm.MatchingDistribution(scores, unmatched_left=0.2, unmatched_right=0.2)
        label = law.sample(1, rng=rng)[0]
        label[rng.random(n) < hidden] = -2
        graphs.append(pm.BipartiteGraph.from_edges(left, right, features, n, k))
        labels.append(label)
    return graphs, labels


@pytest.mark.parametrize("kind", ["squares", "partial", "incomplete"])
def test_the_same_optimum_in_fewer_evaluations(kind, rng):
    if kind == "squares":
        data = planted(rng, 30, sizes=(3, 9))
    else:
        data = partial_graphs(rng, 0.3 if kind == "incomplete" else 0.0)
    first = pm.MAPMatching(1e-3).fit(*data)
    newton = pm.MAPMatching(1e-3, **NEWTON).fit(*data)
    assert newton.is_converged_
    assert newton.is_convex_ == (kind != "incomplete")
    assert newton.history_[-1]["grad_norm"] <= 1e-6
    np.testing.assert_allclose(newton.coef_, first.coef_, atol=1e-4)
    assert newton.unmatched_intercept_ == pytest.approx(
        first.unmatched_intercept_, abs=1e-4
    )
    assert evaluations(newton) < evaluations(first)
    several = pm.MAPMatching(1e-3, n_jobs=3, **NEWTON).fit(*data)
    np.testing.assert_array_equal(several.coef_, newton.coef_)


@pytest.mark.filterwarnings("ignore:the chosen alpha")
def test_cross_validation(rng):
    data, alphas = planted(rng, 20, sizes=(3, 4)), [100.0, 0.1, 1e-6]
    options = {"cv": 3, "random_state": 0, "scoring": "log_likelihood"}
    found = pm.MAPMatchingCV(alphas, **options, **NEWTON).fit(*data)
    first = pm.MAPMatchingCV(alphas, **options).fit(*data)
    assert found.alpha_ == first.alpha_
    np.testing.assert_allclose(found.coef_path_, first.coef_path_, atol=1e-4)


def test_an_interrupt_keeps_the_best_so_far(rng, monkeypatch):
    data = planted(rng, 10, sizes=(4,))
    calls = iter(range(3))

    def interrupt(self, coef, own=MatchingLikelihood.hessian):
        if next(calls) == 2:
            raise KeyboardInterrupt
        return own(self, coef)

    monkeypatch.setattr(MatchingLikelihood, "hessian", interrupt)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = pm.MAPMatching(1e-3, **NEWTON).fit(*data)
    assert model.n_iter_ >= 2
    assert model.history_[-1]["loss"] < model.history_[0]["loss"]


@pytest.mark.parametrize("engine", ["bethe", "nesting"])
def test_approximate_engines_are_refused(engine, rng):
    data = planted(rng, 5, sizes=(4,))
    with pytest.raises(InvalidOptionError, match="needs exact inference.*solver='lbfgs'"):
        pm.MAPMatching(engine=engine, **NEWTON).fit(*data)


def test_graphs_that_are_too_wide_are_refused(rng):
    graphs = [rng.normal(size=(40, 40, 2))]
    with pytest.raises(InvalidOptionError, match="needs exact inference.*solver='lbfgs'"):
        pm.MAPMatching(**NEWTON).fit(graphs, [np.arange(40)])


def test_bounds_are_refused(rng):
    data = planted(rng, 5, sizes=(4,))
    with pytest.raises(InvalidOptionError, match="'newton-cg' does not support bounds"):
        pm.MAPMatching(bounds="non-negative", **NEWTON).fit(*data)
