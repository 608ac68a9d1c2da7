"""Minimisation by estimated gradients, on a parabola with noise that is known."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from permatch.optimizers import minimize, minimize_noisy

GOAL = np.array([1.0, -2.0, 0.5])


@dataclass(frozen=True)
class Point:
    value: float
    grad: np.ndarray
    grad_bounds: np.ndarray
    is_exact: bool
    doubts: tuple = (7,)


@dataclass(frozen=True)
class Parabola:
    """Half the squared distance from a goal that draws move by `noise / sqrt(effort)`."""

    noise: float = 0.0
    bound: float = 0.0
    is_exact: bool = False
    effort: float = 1.0
    seed: int = 0

    @property
    def draws(self):
        return self.noise > 0.0

    def evaluate(self, coef):
        moved = np.random.default_rng(self.seed).normal(size=len(GOAL))
        step = coef - GOAL - self.noise / np.sqrt(self.effort) * moved
        bounds = np.full(len(GOAL), self.bound)
        return Point(0.5 * step @ step, step, bounds, self.is_exact)

    def with_effort(self, factor):
        LOG.append(factor)
        return replace(self, effort=self.effort * factor)

    def with_seed(self, number):
        return replace(self, seed=self.seed + number)


LOG = []


@pytest.fixture(autouse=True)
def _no_log():
    LOG.clear()


def test_an_exact_objective_makes_one_run():
    found = minimize_noisy(Parabola(is_exact=True), np.zeros(3), tol=1e-8, max_iter=50)
    plain = minimize(
        lambda x: (0.5 * (x - GOAL) @ (x - GOAL), x - GOAL), np.zeros(3), tol=1e-8
    )
    np.testing.assert_array_equal(found.coef, plain.coef)
    assert found.n_evaluations == plain.n_evaluations
    assert found.is_converged
    assert found.is_exact
    assert found.gradient_error == 0.0
    assert LOG == [1.0]


def test_draws_grow_until_all_are_used():
    found = minimize_noisy(Parabola(noise=0.1), np.zeros(3), tol=1e-6, max_iter=200)
    assert LOG == [1 / 16, 1 / 4, 1.0]
    assert found.is_converged
    assert not found.is_exact
    assert 0.03 < found.gradient_error < 0.3
    assert np.abs(found.coef - GOAL).max() < 0.4
    assert found.doubts == (7,)
    counts = [row["evaluations"] for row in found.history]
    assert counts == sorted(counts)


def test_more_draws_than_all_if_they_bring_the_tolerance_within_reach():
    found = minimize_noisy(Parabola(noise=0.1), np.zeros(3), tol=0.05, max_iter=200)
    assert max(LOG) > 1.0
    assert found.is_converged
    assert 2.0 * found.gradient_error <= 0.05


def test_bounds_that_are_unknown_stay_unknown():
    found = minimize_noisy(Parabola(bound=np.nan), np.zeros(3), tol=1e-8, max_iter=50)
    assert np.isnan(found.gradient_error)
    assert found.is_converged
    assert LOG == [1.0]


def test_steps_run_out():
    found = minimize_noisy(Parabola(noise=1e-3), np.full(3, 100.0), tol=1e-9, max_iter=1)
    assert not found.is_converged
    assert found.message == "max_iter=1 was reached"
