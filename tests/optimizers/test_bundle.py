"""The bundle solver on risks whose minima are known, and the certificate it gives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from permatch.errors import PrecisionError
from permatch.optimizers import Planes, minimize_bundle, planes

ALPHAS = (1e-4, 1e-2, 1.0)
# The bound is a sum of a few hundred terms of order one.
ROUNDING = 1e-12


class Hinges:
    """``mean(max(0, heights + slopes @ x))``, remembering where it was asked."""

    def __init__(self, rng, n_terms=40, n_features=5):
        self.slopes = rng.normal(size=(n_terms, n_features))
        self.heights = rng.normal(size=n_terms) + 0.5
        self.planes = []

    @property
    def n_features(self):
        return self.slopes.shape[1]

    def risk(self, x):
        return np.maximum(0.0, self.heights + self.slopes @ x).mean()

    def __call__(self, x):
        is_active = self.heights + self.slopes @ x > 0
        slope = (self.slopes * is_active[:, None]).mean(axis=0)
        self.planes.append((x.copy(), self.risk(x), slope))
        return self.risk(x), slope

    def minimum(self, alpha):
        """The penalised minimum, by a generic solver on the slacks."""
        n, d = self.slopes.shape

        def objective(z):
            return 0.5 * alpha * z[:d] @ z[:d] + z[d:].mean()

        def gradient(z):
            return np.concatenate([alpha * z[:d], np.full(n, 1.0 / n)])

        matrix = np.hstack([-self.slopes, np.eye(n)])
        above = {
            "type": "ineq",
            "fun": lambda z: matrix @ z - self.heights,
            "jac": lambda z: matrix,
        }
        start = np.concatenate([np.zeros(d), np.maximum(0.0, self.heights)])
        found = minimize(
            objective,
            start,
            jac=gradient,
            method="SLSQP",
            constraints=[above],
            bounds=[(None, None)] * d + [(0.0, None)] * n,
            options={"ftol": 1e-13, "maxiter": 1000},
        )
        assert found.success
        return found.fun


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_reaches_the_minimum_within_the_gap(alpha, tol, rng):
    risk = Hinges(rng)
    optimum = minimize_bundle(risk, risk.n_features, alpha=alpha, tol=tol)
    assert optimum.is_converged
    assert optimum.gap <= tol
    assert f"at most {tol:g} of" in optimum.message
    assert optimum.value == pytest.approx(
        0.5 * alpha * optimum.coef @ optimum.coef + risk.risk(optimum.coef), rel=1e-14
    )
    minimum = risk.minimum(alpha)
    generic = 1e-7 * minimum
    assert optimum.lower_bound <= minimum + generic
    assert minimum <= optimum.value + generic
    assert optimum.value - minimum <= tol * optimum.value + generic


@given(seed=st.integers(0, 2**32 - 1), alpha=st.sampled_from(ALPHAS))
def test_gap_is_never_negative_and_bounds_only_tighten(seed, alpha):
    risk = Hinges(np.random.default_rng(seed), n_terms=12, n_features=3)
    optimum = minimize_bundle(risk, 3, alpha=alpha, tol=1e-5)
    rows = optimum.history
    assert all(row["gap"] >= 0.0 for row in rows)
    assert all(row["lower_bound"] <= row["loss"] + ROUNDING for row in rows)
    for before, after in zip(rows, rows[1:], strict=False):
        assert after["lower_bound"] >= before["lower_bound"]
        assert after["loss"] <= before["loss"]
    assert optimum.is_converged


def test_planes_lie_below_the_risk_everywhere(rng):
    risk = Hinges(rng)
    minimize_bundle(risk, risk.n_features, alpha=1e-3)
    assert len(risk.planes) > 5
    for x in 3.0 * rng.normal(size=(50, risk.n_features)):
        for at, height, slope in risk.planes:
            assert height + slope @ (x - at) <= risk.risk(x) + ROUNDING


def test_every_lower_bound_is_below_the_objective_at_random_points(rng):
    risk, alpha = Hinges(rng), 0.1
    optimum = minimize_bundle(risk, risk.n_features, alpha=alpha)
    highest = optimum.history[-1]["lower_bound"]
    for x in rng.normal(size=(200, risk.n_features)):
        assert highest <= 0.5 * alpha * x @ x + risk.risk(x)


def test_history_follows_the_rounds(rng):
    rows = []
    risk = Hinges(rng)
    optimum = minimize_bundle(risk, risk.n_features, alpha=0.01, on_iteration=rows.append)
    assert rows == optimum.history
    assert [row["iteration"] for row in rows] == list(range(optimum.n_iter + 1))
    assert rows[0]["loss"] == risk.risk(np.zeros(risk.n_features))
    assert rows[0]["gap"] == 1.0
    assert rows[-1]["evaluations"] == optimum.n_evaluations == len(risk.planes)
    assert rows[-1]["loss"] == optimum.value
    assert rows[-1]["gap"] == optimum.gap
    seconds = [row["seconds"] for row in rows]
    assert seconds == sorted(seconds)


def test_a_risk_that_is_zero_at_zero_needs_no_round(rng):
    slope = rng.normal(size=4)

    def risk(x):
        return abs(slope @ x), slope * np.sign(slope @ x)

    for start in (None, np.ones(4)):
        optimum = minimize_bundle(risk, 4, alpha=0.1, start=start)
        assert optimum.coef.tolist() == [0.0] * 4
        assert (optimum.value, optimum.gap, optimum.n_iter) == (0.0, 0.0, 0)
        assert optimum.is_converged


def test_a_flat_risk_is_best_at_zero():
    optimum = minimize_bundle(lambda x: (2.0, np.zeros_like(x)), 3, alpha=0.1)
    assert optimum.coef.tolist() == [0.0] * 3
    assert optimum.value == 2.0
    assert optimum.is_converged


def test_no_features_at_all():
    optimum = minimize_bundle(lambda x: (1.0, np.zeros(0)), 0, alpha=0.1)
    assert optimum.coef.shape == (0,)
    assert optimum.is_converged


def test_a_good_start_saves_rounds(rng):
    risk = Hinges(rng, n_terms=200, n_features=20)
    cold = minimize_bundle(risk, 20, alpha=1e-3)
    warm = minimize_bundle(risk, 20, alpha=1e-3, start=cold.coef)
    assert warm.history[0]["loss"] == cold.value
    assert warm.value <= cold.value
    assert warm.n_iter < cold.n_iter


def test_planes_serve_the_next_minimisation(rng):
    risk = Hinges(rng, n_terms=200, n_features=20)
    kept = Planes(20)
    first = minimize_bundle(risk, 20, alpha=1e-2, tol=1e-5, planes=kept)
    assert len(kept.offsets) > 10
    for x in rng.normal(size=(50, 20)):
        assert kept.model(x) <= risk.risk(x) + ROUNDING
    cold = minimize_bundle(risk, 20, alpha=3e-3, tol=1e-5, start=first.coef)
    warm = minimize_bundle(risk, 20, alpha=3e-3, tol=1e-5, start=first.coef, planes=kept)
    assert warm.is_converged
    assert warm.n_iter < cold.n_iter
    assert warm.value == pytest.approx(cold.value, rel=2e-5)
    assert warm.lower_bound <= cold.value
    # A stronger penalty has the same planes.
    back = minimize_bundle(risk, 20, alpha=1e-2, tol=1e-5, planes=kept)
    assert back.value == pytest.approx(first.value, rel=2e-5)


def test_the_gap_may_depend_on_the_rounds(rng):
    risk = Hinges(rng, n_terms=200, n_features=20)
    tols = {"tight": 1e-5, "wide": 0.2}
    tight, wide = (minimize_bundle(risk, 20, alpha=1e-3, tol=tol) for tol in tols.values())
    assert wide.n_iter < 20 < tight.n_iter
    late = minimize_bundle(risk, 20, alpha=1e-3, tol=lambda n: 1e-5 if n < 20 else 0.2)
    assert late.is_converged
    assert late.n_iter == 20
    assert "at most 0.2 of" in late.message


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_units_of_the_risk_do_not_matter(scale, rng):
    risk = Hinges(rng)

    def scaled(x):
        height, slope = risk(x)
        return scale * height, scale * slope

    plain = minimize_bundle(risk, risk.n_features, alpha=0.01)
    other = minimize_bundle(scaled, risk.n_features, alpha=0.01 * scale)
    assert other.is_converged
    assert other.value == pytest.approx(scale * plain.value, rel=2e-3)


def test_old_planes_are_dropped_and_the_run_still_converges(rng, monkeypatch):
    n_planes = []
    program = planes.simplex_program

    def counting(quadratic, linear, start, tol):
        n_planes.append(len(linear))
        return program(quadratic, linear, start, tol)

    monkeypatch.setattr(planes, "simplex_program", counting)
    monkeypatch.setattr(planes, "_PATIENCE", 3)
    risk = Hinges(rng, n_terms=200, n_features=20)
    optimum = minimize_bundle(risk, 20, alpha=1e-3, tol=1e-5)
    assert optimum.is_converged
    assert max(n_planes) < optimum.n_evaluations


def test_too_few_rounds_keep_the_best_point(rng):
    risk = Hinges(rng, n_terms=200, n_features=20)
    optimum = minimize_bundle(risk, 20, alpha=1e-3, max_iter=5)
    assert not optimum.is_converged
    assert not optimum.is_interrupted
    assert optimum.n_iter == 5
    assert optimum.message == "max_iter=5 was reached"
    values = [height + 0.5e-3 * x @ x for x, height, _ in risk.planes]
    assert optimum.value == min(values)


@pytest.mark.parametrize("n_calls", [0, 1, 2, 3, 6])
def test_ctrl_c_keeps_the_best_point(n_calls, rng):
    risk = Hinges(rng)

    def interrupted(x):
        if len(risk.planes) == n_calls:
            raise KeyboardInterrupt
        return risk(x)

    optimum = minimize_bundle(interrupted, risk.n_features, alpha=1e-3)
    assert optimum.is_interrupted
    assert not optimum.is_converged
    assert optimum.message == "interrupted"
    assert optimum.n_evaluations == n_calls
    values = [height + 0.5e-3 * x @ x for x, height, _ in risk.planes]
    assert optimum.value == min(values, default=np.inf)
    ends = [(row["loss"], row["gap"]) for row in optimum.history[-1:]]
    assert ends in ([], [(optimum.value, optimum.gap)])


def test_ctrl_c_at_once_keeps_the_start():
    def interrupted(x):
        raise KeyboardInterrupt

    start = np.array([1.0, 2.0])
    optimum = minimize_bundle(interrupted, 2, alpha=1.0, start=start)
    assert optimum.coef.tolist() == start.tolist()


def test_a_failing_master_is_reported(rng, monkeypatch):
    monkeypatch.setattr(planes, "simplex_program", lambda *args: None)
    risk = Hinges(rng)
    optimum = minimize_bundle(risk, risk.n_features, alpha=1e-3)
    assert not optimum.is_converged
    assert "solver failed" in optimum.message
    assert optimum.value == optimum.history[0]["loss"]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_risk_that_is_no_number_is_refused(bad):
    message = r"must be finite; at a point of norm 0 .* by a large number\.$"
    with pytest.raises(PrecisionError, match=message):
        minimize_bundle(lambda x: (bad, np.zeros(2)), 2, alpha=1.0)
    with pytest.raises(PrecisionError, match=message):
        minimize_bundle(lambda x: (1.0, np.full(2, bad)), 2, alpha=1.0)
