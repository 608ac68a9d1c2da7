"""Newton's method on functions whose minima are known."""

import numpy as np
import pytest
from scipy.special import expit

from permatch.optimizers import minimize, minimize_newton
from permatch.optimizers.newton import cholesky_solve

TOL = 1e-8


class Logistic:
    """A penalised logistic loss, counting calls of value and of second derivatives."""

    def __init__(self, rng, n=200, d=6, alpha=1e-3):
        self.rows = rng.normal(size=(n, d)) * np.geomspace(1.0, 30.0, d)
        self.signs = np.where(rng.random(n) < 0.5, 1.0, -1.0)
        self.alpha = alpha
        self.points = []
        self.n_hessians = 0

    def __call__(self, x):
        self.points.append(x.copy())
        margins = self.signs * (self.rows @ x)
        value = np.logaddexp(0.0, -margins).mean() + 0.5 * self.alpha * x @ x
        pull = -self.signs * expit(-margins)
        return value, self.rows.T @ pull / len(self.rows) + self.alpha * x

    def hessian(self, x):
        self.n_hessians += 1
        chances = expit(self.rows @ x)
        curved = self.rows * (chances * (1.0 - chances))[:, None]
        return curved.T @ self.rows / len(self.rows) + self.alpha * np.eye(len(x))


def test_agrees_with_quasi_newton(rng):
    loss = Logistic(rng)
    found = minimize_newton(loss, loss.hessian, np.zeros(6), tol=TOL)
    expected = minimize(Logistic(np.random.default_rng(20090715)), np.zeros(6), tol=TOL)
    assert found.is_converged
    assert not found.is_interrupted
    assert found.grad_norm <= TOL
    assert "at most 1e-08" in found.message
    np.testing.assert_allclose(found.coef, expected.coef, atol=1e-6)
    assert found.n_evaluations < expected.n_evaluations / 2
    assert found.n_evaluations == len(loss.points)


def test_an_old_hessian_is_used_while_it_is_good(rng):
    loss = Logistic(rng)
    optimum = minimize_newton(loss, loss.hessian, np.zeros(6), tol=1e-10)
    again = Logistic(np.random.default_rng(20090715))
    near = optimum.coef + 1e-4
    warm = minimize_newton(again, again.hessian, near, tol=1e-10)
    assert warm.is_converged
    assert again.n_hessians == 1
    assert warm.n_evaluations <= 5


@pytest.mark.parametrize("factor", [0.5, 0.9, 1.1, 3.0])
def test_an_approximate_hessian_will_do(factor, rng):
    loss = Logistic(rng)
    optimum = minimize_newton(
        loss, lambda x: factor * loss.hessian(x), np.zeros(6), tol=TOL
    )
    assert optimum.is_converged
    assert (np.diff([row["loss"] for row in optimum.history]) <= 1e-15).all()


def test_what_changes_nothing_is_left_where_it_is(rng):
    loss = Logistic(rng)
    noise = 1e-15 * rng.normal(size=(2, 6))

    def value_and_grad(x):  # the last two move nothing, and a copy shares the rest
        value, grad = loss(x[:6] + np.append(x[6], np.zeros(5)))
        return value, np.append(grad, [grad[0], *noise[:, 0]])

    def hessian(x):
        own = loss.hessian(x[:6] + np.append(x[6], np.zeros(5)))
        both = np.pad(own, (0, 3))
        both[6, :6] = both[:6, 6] = own[0]
        both[6, 6] = own[0, 0]
        return both + np.diag([0.0] * 7 + [1e-15, 1e-12])

    optimum = minimize_newton(value_and_grad, hessian, np.zeros(9), tol=TOL)
    assert optimum.is_converged
    assert optimum.coef[0] == pytest.approx(optimum.coef[6], rel=1e-5)
    assert np.abs(optimum.coef[7:]).max() < 1e-5


HESSIANS = {
    "negative": lambda x: -np.eye(6),
    "zero": lambda x: np.zeros((6, 6)),
    "far too small": lambda x: 1e-9 * np.eye(6),
    "not finite": lambda x: np.full((6, 6), np.nan),
    "singular": lambda x: np.ones((6, 6)),
}


@pytest.mark.parametrize("name", HESSIANS)
def test_falls_back_where_the_hessian_is_no_help(name, rng):
    loss = Logistic(rng)
    rows = []
    optimum = minimize_newton(
        loss, HESSIANS[name], np.zeros(6), tol=TOL, on_iteration=rows.append
    )
    assert optimum.is_converged
    assert optimum.history[:-1] == rows[:-1]
    assert optimum.history[-1]["grad_norm"] == optimum.grad_norm
    assert [row["iteration"] for row in rows] == list(range(optimum.n_iter + 1))
    assert optimum.n_evaluations == len(loss.points)
    assert optimum.grad_norm == np.abs(loss(optimum.coef)[1]).max()


def test_history_follows_the_iterations(rng):
    loss = Logistic(rng)
    rows = []
    optimum = minimize_newton(
        loss, loss.hessian, np.zeros(6), tol=TOL, on_iteration=rows.append
    )
    assert rows == optimum.history
    keys = {"iteration", "loss", "grad_norm", "evaluations", "seconds"}
    assert all(set(row) == keys for row in rows)
    assert [row["iteration"] for row in rows] == list(range(optimum.n_iter + 1))
    assert rows[0]["loss"] == loss(np.zeros(6))[0]
    assert rows[-1]["grad_norm"] == optimum.grad_norm
    assert rows[-1]["evaluations"] == optimum.n_evaluations


def test_steps_into_rounding_end_with_a_reason(rng):
    loss = Logistic(rng)
    optimum = minimize_newton(loss, loss.hessian, np.zeros(6), tol=1e-30)
    assert not optimum.is_converged
    assert "rounding" in optimum.message
    assert optimum.grad_norm < 1e-12
    assert optimum.history[-1]["grad_norm"] == optimum.grad_norm


def test_max_iter_keeps_the_best_point(rng):
    loss = Logistic(rng)
    optimum = minimize_newton(loss, loss.hessian, np.zeros(6), tol=TOL, max_iter=2)
    assert optimum.n_iter == 2
    assert not optimum.is_converged
    assert "max_iter=2" in optimum.message
    assert optimum.value == min(loss(x)[0] for x in list(loss.points))


@pytest.mark.parametrize("use", ["newton", "fallback"])
@pytest.mark.parametrize("n_before", [0, 1, 3])
def test_an_interrupt_keeps_the_best_point(use, n_before, rng):
    loss = Logistic(rng)

    def interrupted(x):
        if len(loss.points) == n_before:
            raise KeyboardInterrupt
        return loss(x)

    hessian = loss.hessian if use == "newton" else HESSIANS["not finite"]
    optimum = minimize_newton(interrupted, hessian, np.zeros(6), tol=TOL)
    assert optimum.is_interrupted
    assert not optimum.is_converged
    assert optimum.n_evaluations == n_before
    assert [row["grad_norm"] for row in optimum.history[-1:]] in ([], [optimum.grad_norm])
    if n_before == 0:
        np.testing.assert_array_equal(optimum.coef, np.zeros(6))
        assert optimum.grad_norm == np.inf
    else:
        assert optimum.value == min(loss(x)[0] for x in list(loss.points))


def test_a_start_at_the_minimum_takes_one_evaluation():
    start = np.ones(3)
    optimum = minimize_newton(lambda x: (0.0, x - 1.0), lambda x: np.eye(3), start)
    assert (optimum.n_iter, optimum.n_evaluations) == (0, 1)
    assert optimum.is_converged
    np.testing.assert_array_equal(start, 1.0)


def test_nothing_to_choose():
    optimum = minimize_newton(lambda x: (1.5, x), lambda x: np.eye(0), np.zeros(0))
    assert optimum.is_converged
    assert optimum.value == 1.5


@pytest.mark.parametrize("rank", [0, 2, 3])
def test_singular_matrices_are_solved_where_they_can_be(rank, rng):
    # positive only up to rounding: what solutions there are must be found
    root = rng.normal(size=(4, rank))
    matrix, wanted = root @ root.T, root @ rng.normal(size=rank)
    found = cholesky_solve(matrix, wanted)
    np.testing.assert_allclose(matrix @ found, wanted, atol=1e-6)


def test_no_solution_of_what_is_not_finite():
    assert np.isnan(cholesky_solve(np.full((2, 2), np.nan), np.ones(2))).all()
