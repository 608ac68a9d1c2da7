"""R-hat and effective samples, where their values are known in closed form."""

import numpy as np
import pytest

from permatch.inference.chains.diagnostics import (
    autocovariances,
    effective_samples,
    split_r_hat,
)


def autoregressive(rng, phi, shape):
    """Stationary series of variance one whose lag-t correlation is ``phi ** t``."""
    noise = rng.normal(size=shape)
    series = np.empty(shape)
    series[:, 0] = noise[:, 0]
    for t in range(1, shape[1]):
        series[:, t] = phi * series[:, t - 1] + np.sqrt(1 - phi**2) * noise[:, t]
    return series


@pytest.mark.parametrize("phi", [0.0, 0.3, 0.8, 0.95])
def test_effective_samples_of_an_autoregressive_chain(phi, rng):
    chains = autoregressive(rng, phi, (4, 20_000, 3))
    expected = 80_000 * (1 - phi) / (1 + phi)
    np.testing.assert_allclose(effective_samples(chains), expected, rtol=0.12)


def test_effective_samples_of_an_alternating_chain_exceed_its_length(rng):
    chains = autoregressive(rng, -0.5, (4, 5000))
    assert effective_samples(chains) == pytest.approx(60_000, rel=0.1)


@pytest.mark.parametrize("phi", [0.0, 0.8])
def test_effective_samples_predict_the_variance_of_the_mean(phi, rng):
    chains = autoregressive(rng, phi, (1, 2000, 300))
    variance = chains.mean(axis=1).var()
    predicted = 1.0 / effective_samples(chains).mean()
    assert predicted == pytest.approx(variance, rel=0.25)


def test_chains_that_disagree_count_as_few_samples(rng):
    chains = rng.normal(size=(4, 1000))
    assert effective_samples(chains) > 3000
    chains[0] += 5.0
    assert effective_samples(chains) < 10


def test_r_hat_by_hand():
    # halves [0 2], [1 3], [4 6], [5 7]: variance 2 within, means 1 2 5 6
    series = np.array([[0.0, 2.0, 1.0, 3.0], [4.0, 6.0, 5.0, 7.0]])
    between = np.var([1.0, 2.0, 5.0, 6.0], ddof=1)
    assert split_r_hat(series) == pytest.approx(np.sqrt(0.5 + between / 2.0))


def test_r_hat_of_chains_a_known_distance_apart(rng):
    shift = 0.4 * np.array([-1.5, -0.5, 0.5, 1.5])[:, None]
    series = rng.normal(size=(4, 50_000)) + shift
    between = np.repeat(shift[:, 0], 2).var(ddof=1)
    assert split_r_hat(series) == pytest.approx(np.sqrt(1.0 + between), abs=0.01)


def test_r_hat_sees_drift_within_one_chain(rng):
    drifting = rng.normal(size=(1, 1000))
    assert split_r_hat(drifting) < 1.02
    assert split_r_hat(drifting + np.linspace(0.0, 3.0, 1000)) > 1.3


def test_quantities_that_never_change():
    still = np.full((4, 100, 2), 0.1)
    np.testing.assert_array_equal(split_r_hat(still), 1.0)
    np.testing.assert_array_equal(effective_samples(still), 400.0)
    stuck = still + np.arange(4)[:, None, None]
    np.testing.assert_array_equal(split_r_hat(stuck), np.inf)
    assert (effective_samples(stuck) < 3).all()


def test_autocovariances_agree_with_the_sum(rng):
    series = rng.normal(size=(2, 50, 3))
    found = autocovariances(series)
    middle = series - series.mean(axis=1, keepdims=True)
    for lag in (0, 1, 7, 49):
        expected = (middle[:, : 50 - lag] * middle[:, lag:]).sum(axis=1) / 50
        np.testing.assert_allclose(found[:, lag], expected, atol=1e-14)


def test_quantities_are_judged_one_by_one(rng):
    chains = autoregressive(rng, 0.5, (3, 400, 4))
    for measure in (split_r_hat, effective_samples):
        together = measure(chains)
        for k in range(4):
            assert together[k] == pytest.approx(float(measure(chains[:, :, k])), rel=1e-12)
