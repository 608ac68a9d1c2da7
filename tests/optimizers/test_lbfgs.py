"""The minimiser on functions whose minima are known."""

import numpy as np
import pytest

from permatch.errors import InvalidOptionError
from permatch.optimizers import SOLVERS, minimize

TOL = 1e-8


class Quadratic:
    """``1/2 (x - goal)' hessian (x - goal)``, counting calls; values may be noisy."""

    def __init__(self, rng, n=6, condition=1e3, noise=0.0):
        basis, _ = np.linalg.qr(rng.normal(size=(n, n)))
        self.hessian = basis @ np.diag(np.geomspace(1.0, condition, n)) @ basis.T
        self.goal = rng.normal(size=n)
        self.noise = noise
        self.rng = rng
        self.points = []

    def __call__(self, x):
        self.points.append(x.copy())
        grad = self.hessian @ (x - self.goal)
        value = 0.5 * grad @ (x - self.goal) + self.noise * self.rng.normal()
        return value, grad


@pytest.mark.parametrize("method", SOLVERS)
def test_finds_the_minimum(method, rng):
    quadratic = Quadratic(rng)
    optimum = minimize(quadratic, np.zeros(6), method=method, tol=TOL)
    np.testing.assert_allclose(optimum.coef, quadratic.goal, atol=TOL)
    assert optimum.is_converged
    assert not optimum.is_interrupted
    assert optimum.grad_norm <= TOL
    assert "at most 1e-08" in optimum.message


@pytest.mark.parametrize("method", SOLVERS)
def test_evaluates_no_point_twice(method, rng):
    quadratic = Quadratic(rng)
    optimum = minimize(quadratic, np.zeros(6), method=method, tol=TOL)
    assert optimum.n_evaluations == len(quadratic.points)
    assert len(np.unique(quadratic.points, axis=0)) == len(quadratic.points)


@pytest.mark.parametrize("method", SOLVERS)
def test_history_follows_the_iterations(method, rng):
    rows = []
    quadratic = Quadratic(rng)
    optimum = minimize(
        quadratic, np.zeros(6), method=method, tol=TOL, on_iteration=rows.append
    )
    assert rows == optimum.history
    assert [row["iteration"] for row in rows] == list(range(optimum.n_iter + 1))
    losses = [row["loss"] for row in rows]
    assert losses == sorted(losses, reverse=True)
    assert losses[0] == quadratic(np.zeros(6))[0]
    assert rows[-1]["grad_norm"] == optimum.grad_norm
    assert rows[-1]["evaluations"] == optimum.n_evaluations
    seconds = [row["seconds"] for row in rows]
    assert seconds == sorted(seconds)


def test_bounds_hold_and_the_rest_is_optimal(rng):
    quadratic = Quadratic(rng, condition=10.0)
    low, high = np.full(6, -np.inf), np.full(6, np.inf)
    low[0], high[1] = quadratic.goal[0] + 1.0, quadratic.goal[1] - 1.0
    optimum = minimize(quadratic, np.full(6, 9.0), bounds=(low, high), tol=TOL)
    assert all((low <= x).all() and (x <= high).all() for x in quadratic.points)
    grad = quadratic(optimum.coef)[1]
    is_free = (optimum.coef > low) & (optimum.coef < high)
    assert is_free.tolist() == [False, False, True, True, True, True]
    np.testing.assert_allclose(grad[is_free], 0.0, atol=TOL)
    assert (grad[optimum.coef == low] >= -TOL).all()
    assert (grad[optimum.coef == high] <= TOL).all()
    assert optimum.is_converged


@pytest.mark.parametrize("method", SOLVERS)
def test_noise_in_the_values_does_not_stop_it(method, rng):
    # Noise of 1e-9 hides all values at a gradient of some 1e-5; the gradient itself is
    # exact.
    quadratic = Quadratic(rng, noise=1e-9)
    optimum = minimize(quadratic, np.zeros(6), method=method, tol=TOL)
    assert optimum.is_converged
    np.testing.assert_allclose(optimum.coef, quadratic.goal, atol=TOL)


def test_a_tolerance_below_rounding_ends_with_a_reason(rng):
    quadratic = Quadratic(rng)

    def rounded(x):
        value, grad = quadratic(x)
        return value, grad + 1e-9 * rng.normal(size=6)

    optimum = minimize(rounded, np.zeros(6), tol=1e-12, max_iter=10**6)
    assert not optimum.is_converged
    assert "rounding" in optimum.message
    assert optimum.grad_norm < 1e-7


@pytest.mark.parametrize("method", SOLVERS)
def test_max_iter_keeps_the_best_point(method, rng):
    quadratic = Quadratic(rng)
    optimum = minimize(quadratic, np.zeros(6), method=method, tol=TOL, max_iter=3)
    assert optimum.n_iter == 3
    assert not optimum.is_converged
    assert "max_iter=3" in optimum.message
    assert optimum.value == min(quadratic(x)[0] for x in list(quadratic.points))


@pytest.mark.parametrize("method", SOLVERS)
@pytest.mark.parametrize(("noise", "max_iter"), [(0.0, 100), (0.1, 100), (0.1, 4)])
def test_history_ends_with_the_result(method, noise, max_iter, rng):
    for tol in (1e-13, 1e-20):
        quadratic = Quadratic(rng, noise=noise)
        optimum = minimize(
            quadratic, np.zeros(6), method=method, tol=tol, max_iter=max_iter
        )
        last = optimum.history[-1]
        assert (last["loss"], last["grad_norm"]) == (optimum.value, optimum.grad_norm)
        assert last["iteration"] == optimum.n_iter <= max_iter


@pytest.mark.parametrize("method", SOLVERS)
@pytest.mark.parametrize("n_before", [0, 1, 4])
def test_an_interrupt_keeps_the_best_point(method, n_before, rng):
    quadratic = Quadratic(rng)

    def interrupted(x):
        if len(quadratic.points) == n_before:
            raise KeyboardInterrupt
        return quadratic(x)

    optimum = minimize(interrupted, np.zeros(6), method=method, tol=TOL)
    assert optimum.is_interrupted
    assert not optimum.is_converged
    assert optimum.n_evaluations == n_before
    assert [row["grad_norm"] for row in optimum.history[-1:]] in ([], [optimum.grad_norm])
    if n_before == 0:
        np.testing.assert_array_equal(optimum.coef, np.zeros(6))
        assert optimum.grad_norm == np.inf
    else:
        assert optimum.value == min(quadratic(x)[0] for x in list(quadratic.points))


def test_a_start_at_the_minimum_takes_one_evaluation(rng):
    quadratic = Quadratic(rng)
    optimum = minimize(quadratic, quadratic.goal)
    assert (optimum.n_iter, optimum.n_evaluations) == (0, 1)
    assert optimum.is_converged
    assert len(optimum.history) == 1


def test_nothing_to_choose():
    optimum = minimize(lambda x: (1.5, x), np.zeros(0))
    assert optimum.is_converged
    assert optimum.value == 1.5


def test_the_start_is_left_alone(rng):
    start = np.full(6, 2.0)
    minimize(Quadratic(rng), start, bounds=(np.zeros(6), np.ones(6)))
    np.testing.assert_array_equal(start, 2.0)


def test_bad_options(rng):
    with pytest.raises(InvalidOptionError, match="'lbfgs', 'bfgs'; got 'newton'"):
        minimize(Quadratic(rng), np.zeros(6), method="newton")
    with pytest.raises(InvalidOptionError, match="'bfgs' does not support bounds.*'lbfgs'"):
        minimize(Quadratic(rng), np.zeros(6), method="bfgs", bounds=(0.0, 1.0))
