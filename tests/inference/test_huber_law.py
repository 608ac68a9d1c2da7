"""Huber and Law's perfect samples, and the estimates with known error made from them."""

import math

import numpy as np
import pytest

import permatch as pm
from permatch.errors import InfeasibleGraphError, InvalidOptionError, PrecisionError
from permatch.inference.base import Job
from permatch.inference.exact import reduce_scores
from permatch.inference.huber_law import HuberLaw
from permatch.inference.sampling.gbas import CoinEstimate, heads_interval, heads_needed
from tests.helpers import random_scores
from tests.inference.goodness import THRESHOLD, cases, p_value

CASES = list(cases())
every_case = pytest.mark.parametrize("scores", CASES, ids=range(len(CASES)))
every_bound = pytest.mark.parametrize("bound", ["published", "tight"])


def accept(engine, scores):
    reduced, best = reduce_scores(scores)
    return engine._accept(reduced, (engine.random_state,), Job()), best


@every_case
@every_bound
def test_samples_fit_the_exact_distribution(scores, bound):
    (matchings, _, _), _ = accept(HuberLaw(n_samples=20_000, bound=bound), scores)
    assert p_value(matchings, scores) > THRESHOLD


@every_bound
@pytest.mark.parametrize("spread", [0.5, 2.0])
def test_acceptance_is_what_the_gap_says(bound, spread, rng):
    scores = random_scores(rng, 9, spread, 0.2)
    (_, coins, log_bound), best = accept(HuberLaw(n_samples=4000, bound=bound), scores)
    expected = math.exp(pm.log_partition(scores) - best - log_bound)
    error = expected * math.sqrt((1.0 - expected) / 4000)
    acceptance = coins.n_heads / coins.n_tosses
    assert acceptance == pytest.approx(expected, abs=4.0 * error)


def test_the_tight_bound_accepts_more(rng):
    scores = random_scores(rng, 12, 1.0)
    published, tight = (
        HuberLaw(bound=bound, n_samples=500).infer(scores).diagnostics.acceptance
        for bound in ("published", "tight")
    )
    assert tight > 1.1 * published


def test_golden_acceptance_of_ones():
    result = HuberLaw(n_samples=20_000).infer(np.zeros((3, 3)))
    assert result.diagnostics.acceptance == pytest.approx(6.0 / 7.276993, abs=0.01)


@pytest.mark.parametrize("spread", [0.5, 2.0, 5.0])
@pytest.mark.parametrize("forbidden", [0.0, 0.4])
def test_estimates_are_within_their_errors(spread, forbidden, rng):
    scores = random_scores(rng, 10, spread, forbidden)
    exact = pm.infer(scores)
    result = HuberLaw(n_samples=2000).infer(scores)
    assert not result.is_exact
    gap = abs(result.log_partition - exact.log_partition)
    assert gap <= 4.0 * result.log_partition_error
    gaps = np.abs(result.marginals - exact.marginals)
    assert (gaps <= 5.0 * result.marginal_errors).all()
    low, high = result.diagnostics.interval
    assert low < exact.log_partition < high
    assert result.diagnostics.interval_certificate == "rigorous"
    assert result.diagnostics.certificate == "asymptotic"
    assert result.diagnostics.n_samples > 2000
    assert result.diagnostics.effective_samples == 2000.0


def test_standard_errors_are_honest(rng):
    scores = random_scores(rng, 12, 1.0)
    exact = pm.infer(scores)
    is_near, inside = [], []
    for seed in range(200):
        result = HuberLaw(n_samples=100, bound="tight", random_state=seed).infer(scores)
        gaps = np.abs(result.marginals - exact.marginals)
        is_near.append((gaps <= 2.0 * result.marginal_errors).mean())
        gap = abs(result.log_partition - exact.log_partition)
        inside.append(gap <= 2.0 * result.log_partition_error)
    assert np.mean(is_near) >= 0.9
    assert np.mean(inside) >= 0.9


def test_epsilon_and_delta_hold_in_200_runs(rng):
    scores = random_scores(rng, 7, 1.0)
    exact = pm.log_partition(scores)
    is_close, is_covered = [], []
    for seed in range(200):
        result = HuberLaw(epsilon=0.2, delta=0.1, random_state=seed).infer(scores)
        is_close.append(abs(math.expm1(result.log_partition - exact)) <= 0.2)
        low, high = result.diagnostics.interval
        is_covered.append(low <= exact <= high)
    # Both hold with probability 0.9 exactly; three standard deviations of 200 runs.
    assert np.mean(is_close) >= 0.9 - 3.0 * math.sqrt(0.09 / 200)
    assert np.mean(is_covered) >= 0.9 - 3.0 * math.sqrt(0.09 / 200)
    assert np.mean(is_covered) < 0.98  # no wider than need be


@pytest.mark.parametrize(
    ("epsilon", "delta", "heads"),
    [(0.1, 0.05, 385), (0.05, 0.05, 1537), (0.01, 0.05, 38415), (0.1, 0.01, 672)],
)
def test_heads_needed(epsilon, delta, heads):
    assert heads_needed(epsilon, delta) == heads


def test_too_many_heads_are_refused():
    with pytest.raises(InvalidOptionError, match="more than 10"):
        heads_needed(1e-7, 0.01)


def test_intervals_of_coins():
    low, high = heads_interval(400, 800.0, 0.05)
    assert low < 0.5 < high
    coins = CoinEstimate(400, 800, 800.0)
    assert coins.log_probability == pytest.approx(math.log(399 / 800))
    assert coins.log_interval(0.05) == pytest.approx((math.log(low), math.log(high)))


@pytest.mark.parametrize("size", [0, 1])
def test_tiny_graphs(size):
    result = HuberLaw(n_samples=10).infer(np.full((size, size), 2.0))
    assert result.log_partition == pytest.approx(2.0 * size, abs=1e-12)
    assert result.marginals.tolist() == np.ones((size, size)).tolist()
    assert result.diagnostics.acceptance == 1.0


def test_no_graphs():
    result = HuberLaw().infer(np.empty((0, 4, 4)))
    assert result.log_partition.shape == (0,)
    assert result.diagnostics.interval is None


@pytest.mark.parametrize("scale", [50.0, 1e4])
def test_extreme_spreads(scale, rng):
    scores = random_scores(rng, 8, scale, 0.2) - 1e6
    exact = pm.infer(scores)
    result = HuberLaw(n_samples=1000).infer(scores)
    assert result.log_partition == pytest.approx(exact.log_partition, abs=0.2)
    assert np.abs(result.marginals - exact.marginals).max() < 0.1


def test_infeasible_graphs_are_refused():
    scores = np.full((3, 3), -np.inf)
    scores[:, 0] = 0.0
    with pytest.raises(InfeasibleGraphError, match="no perfect matching"):
        HuberLaw().infer(scores)


def test_nothing_accepted_bounds_the_log_partition(rng):
    scores = random_scores(rng, 40, 5.0)
    with pytest.raises(PrecisionError, match="got 0 in 8192") as caught:
        HuberLaw(max_trials=5000).infer(scores)
    assert "With probability 0.95 the log-partition is at most" in str(caught.value)
    assert "nesting" in str(caught.value)


def test_too_few_accepted(rng):
    with pytest.raises(PrecisionError, match=r"needs 100000 accepted trials, got \d+ in"):
        HuberLaw(n_samples=100_000, max_trials=5000).infer(random_scores(rng, 6))


def test_answers_do_not_depend_on_threads(rng):
    stack = np.stack([random_scores(rng, 9) for _ in range(3)])
    engine = HuberLaw(n_samples=3000)
    for scores in (stack, stack[0]):
        one, three = (engine.infer(scores, n_jobs=n_jobs) for n_jobs in (1, 3))
        np.testing.assert_array_equal(one.log_partition, three.log_partition)
        np.testing.assert_array_equal(one.marginals, three.marginals)
        assert one.diagnostics.interval == three.diagnostics.interval


def test_the_seed_decides(rng):
    scores = random_scores(rng, 8)
    answers = [HuberLaw(n_samples=50, random_state=s).infer(scores) for s in (0, 0, 1)]
    assert answers[0].log_partition == answers[1].log_partition
    assert answers[0].log_partition != answers[2].log_partition


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_samples": 1}, "n_samples of HuberLaw must be a whole number of at least 2"),
        ({"bound": "loose"}, "bound of HuberLaw must be one of 'published', 'tight'"),
        ({"epsilon": 2.0}, "epsilon of HuberLaw must be a number above 0 and below 1"),
        ({"delta": 0}, "delta of HuberLaw must be"),
        ({"max_trials": 0}, "max_trials of HuberLaw must be"),
        ({"random_state": 1.5}, "random_state of HuberLaw must be"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(InvalidOptionError, match=message):
        HuberLaw(**options)
