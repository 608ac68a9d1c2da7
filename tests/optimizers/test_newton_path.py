"""Minima along a path of penalties, next to those of separate fits."""

import numpy as np
import pytest

from permatch.optimizers import NewtonPath, minimize
from tests.optimizers.test_newton import Logistic

ALPHAS = [10.0, 1.0, 0.1, 1e-2, 1e-3]
D = 6


class Path:
    """A path over a logistic loss, with second derivatives at some cost."""

    def __init__(
        self, rng, *, cost, tol=1e-4, max_iter=100, is_free=False, n=200, **options
    ):
        self.loss = Logistic(rng, n=n, alpha=0.0)
        self.is_penalised = np.ones(D, dtype=bool)
        self.is_penalised[0] = not is_free
        self.path = NewtonPath(
            self.curved if cost < 1 else self.plain,
            self.loss.hessian,
            self.is_penalised,
            cost=cost,
            tol=tol,
            max_iter=max_iter,
            **options,
        )

    def plain(self, x):
        return *self.loss(x), None

    def curved(self, x):
        return *self.loss(x), self.loss.hessian(x)

    def expected(self, alpha, bounds=None):
        def penalised(x):
            value, grad = self.loss(x)
            held = alpha * self.is_penalised * x
            return value + 0.5 * x @ held, grad + held

        return minimize(penalised, np.zeros(D), tol=1e-10, bounds=bounds).coef


@pytest.mark.parametrize("cost", [0.0, 3.0, 1000.0])
@pytest.mark.parametrize("is_free", [False, True])
def test_every_minimum_is_near_that_of_a_fit_from_zero(rng, cost, is_free):
    tol = 1e-4
    run = Path(rng, cost=cost, tol=tol, is_free=is_free)
    for alpha in ALPHAS:
        found = run.path.advance(alpha)
        expected = run.expected(alpha)
        assert found.is_converged
        away = np.linalg.norm(found.coef - expected)
        assert away <= 10 * tol * np.linalg.norm(expected)
        assert found.n_iter == found.n_evaluations - (alpha == ALPHAS[0])
        assert found.history[-1]["grad_norm"] == found.grad_norm


def test_second_derivatives_are_computed_where_they_pay(rng):
    counts = {}
    for cost in (0.0, 1.0, 1000.0):
        run = Path(np.random.default_rng(0), cost=cost, n=20)
        found = [run.path.advance(alpha) for alpha in (1.0, 1e-3, 1e-6)]
        n_evaluations = sum(one.n_evaluations for one in found)
        counts[cost] = n_evaluations, run.loss.n_hessians
    assert counts[1000.0][1] == 1
    assert 1 < counts[1.0][1] < counts[0.0][1]
    assert counts[0.0][0] <= counts[1.0][0] <= counts[1000.0][0]


def test_curvature_of_a_sister_saves_second_derivatives(rng):
    first, second = (Path(np.random.default_rng(k), cost=1000.0) for k in range(2))
    first.path.advance(1.0)
    second.path.follow(first.path)
    found = second.path.advance(1.0)
    assert second.loss.n_hessians == 0
    np.testing.assert_allclose(found.coef, second.expected(1.0), atol=1e-4)


def test_the_penalty_may_draw_elsewhere(rng):
    centre = rng.normal(size=D)
    run = Path(rng, cost=3.0, centre=centre)
    near = run.path.advance(1e6)
    np.testing.assert_allclose(near.coef, centre, atol=1e-4)
    for alpha in ALPHAS:
        found = run.path.advance(alpha)
        expected = minimize(
            lambda x, alpha=alpha: (
                run.loss(x)[0] + 0.5 * alpha * np.sum((x - centre) ** 2),
                run.loss(x)[1] + alpha * (x - centre),
            ),
            centre,
            tol=1e-10,
        )
        away = np.linalg.norm(found.coef - expected.coef)
        assert away <= 1e-3 * np.linalg.norm(expected.coef)


@pytest.mark.parametrize("cost", [0.0, 3.0, 1000.0])
def test_bounds(rng, cost):
    bounds = np.zeros(D), np.full(D, np.inf)
    bounds[0][0], bounds[1][1] = -np.inf, 0.1
    run = Path(rng, cost=cost, bounds=bounds)
    for alpha in ALPHAS:
        found = run.path.advance(alpha)
        expected = run.expected(alpha, bounds)
        assert (found.coef >= bounds[0]).all()
        assert (found.coef <= bounds[1]).all()
        np.testing.assert_allclose(found.coef, expected, atol=2e-4)
    assert (found.coef == 0.0).any()


def test_steps_that_overshoot_are_cut():
    path = NewtonPath(
        lambda x: (float(np.sqrt(1.0 + x @ x)), x / np.sqrt(1.0 + x @ x), None),
        lambda x: np.full((1, 1), 1e-6),  # far too flat
        np.ones(1, dtype=bool),
        cost=1000.0,
        tol=1e-8,
        max_iter=100,
    )
    path.coef = np.array([3.0])
    assert path.advance(1e-3).coef == pytest.approx([0.0], abs=1e-6)


def test_too_few_steps(rng):
    found = Path(rng, cost=1000.0, max_iter=1).path.advance(1e-3)
    assert not found.is_converged
    assert found.n_iter == 1
    assert "max_iter=1 was reached" in found.message


def test_nothing_to_learn():
    zero = np.zeros(2)
    path = NewtonPath(
        lambda x: (0.0, zero, np.zeros((2, 2))),
        lambda x: np.zeros((2, 2)),
        np.ones(2, dtype=bool),
        cost=0.0,
        tol=1e-3,
        max_iter=5,
    )
    assert [path.advance(alpha).is_converged for alpha in (1.0, 0.1)] == [True, True]
    np.testing.assert_array_equal(path.coef, zero)


@pytest.mark.parametrize("n_calls", [1, 3])
def test_interrupts(rng, n_calls):
    run = Path(rng, cost=1000.0)
    calls = []

    def interrupted(x):
        calls.append(1)
        if len(calls) == n_calls:
            raise KeyboardInterrupt
        return run.plain(x)

    run.path._evaluate = interrupted
    found = run.path.advance(1e-3)
    assert found.is_interrupted
    assert not found.is_converged
    assert found.message == "interrupted"
    assert np.isfinite(found.coef).all()
    assert bool(found.coef.any()) == (n_calls == 3)
