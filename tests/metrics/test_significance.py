"""The paired randomisation test against enumeration and SciPy; Holm's rule by hand."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import permutation_test

from permatch.errors import InvalidOptionError, InvalidQueriesError
from permatch.metrics import holm, randomisation_test
from permatch.metrics import significance as significance_module


def test_p_value_by_enumeration(rng):
    a, b = rng.normal(0.4, 1.0, 9), rng.normal(0.0, 1.0, 9)
    means = [np.mean(np.array(signs) * (a - b)) for signs in product((-1, 1), repeat=9)]
    observed = abs(np.mean(a - b))
    exact = np.mean(np.abs(means) >= observed - 1e-12)
    result = randomisation_test(a, b)
    assert result.p_value == pytest.approx(exact, abs=0.005)
    assert result.difference == pytest.approx(np.mean(a - b))
    assert result.n == 9


def test_p_value_is_that_of_scipy(rng):
    a, b = rng.normal(0.2, 1.0, 106), rng.normal(0.0, 1.0, 106)
    theirs = permutation_test(
        (a, b),
        lambda x, y: np.mean(x) - np.mean(y),
        permutation_type="samples",
        n_resamples=5000,
        random_state=np.random.default_rng(0),
    )
    assert randomisation_test(a, b).p_value == pytest.approx(theirs.pvalue, abs=0.03)


def test_interval_is_that_of_the_mean(rng):
    a, b = rng.normal(0.2, 1.0, 400), np.zeros(400)
    low, high = randomisation_test(a, b).interval
    error = 1.96 * a.std() / np.sqrt(400)
    assert low == pytest.approx(a.mean() - error, abs=0.01)
    assert high == pytest.approx(a.mean() + error, abs=0.01)


def test_p_values_are_uniform_when_nothing_differs(rng):
    p_values = [
        randomisation_test(*rng.normal(size=(2, 20)), n_resamples=999).p_value
        for _ in range(200)
    ]
    assert np.mean(np.array(p_values) <= 0.1) == pytest.approx(0.1, abs=0.06)


def test_equal_methods():
    result = randomisation_test([0.3, 0.5], [0.3, 0.5])
    assert result.p_value == 1.0
    assert result.interval == (0.0, 0.0)


def test_rounding_does_not_tell_equal_sums_apart():
    # every flip of the signs gives a sum as large, but for rounding
    result = randomisation_test([0.1, 0.2, 0.3 + 1e-17], [0.0, 0.5, 0.0], n_resamples=500)
    assert result.p_value > 0.2


def test_never_zero_and_the_same_again(rng):
    a, b = rng.normal(5.0, 0.1, 50), np.zeros(50)
    result = randomisation_test(a, b, n_resamples=1000)
    assert result.p_value == 1 / 1001
    assert randomisation_test(a, b, n_resamples=1000) == result
    assert randomisation_test(b, a, n_resamples=1000).difference == -result.difference


def test_draws_come_in_chunks(rng, monkeypatch):
    a, b = rng.normal(0.1, 1.0, 30), rng.normal(size=30)
    whole = randomisation_test(a, b, n_resamples=5000)
    monkeypatch.setattr(significance_module, "_DRAWS_TOGETHER", 1000)
    parts = randomisation_test(a, b, n_resamples=5000)
    assert parts.p_value == pytest.approx(whole.p_value, abs=0.03)
    np.testing.assert_allclose(parts.interval, whole.interval, atol=0.03)


def test_bad_input():
    with pytest.raises(InvalidQueriesError, match=r"shapes \(2,\) and \(1,\)"):
        randomisation_test([1.0, 2.0], [1.0])
    with pytest.raises(InvalidQueriesError, match="lists of equal length"):
        randomisation_test([], [])
    with pytest.raises(InvalidQueriesError, match="query 1 has nan and 2.0.*Drop"):
        randomisation_test([1.0, np.nan], [1.0, 2.0])
    with pytest.raises(InvalidOptionError, match="n_resamples"):
        randomisation_test([1.0], [2.0], n_resamples=0)


def test_holm_by_hand():
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]).tolist() == [1.0, 1.0]
    assert holm([]).tolist() == []
    for wrong in ([1.2], [-0.1], [np.nan], 0.5):
        with pytest.raises(InvalidOptionError, match="between 0 and 1"):
            holm(wrong)
