"""The distribution over rankings against enumeration of all of them."""

import itertools

import numpy as np
import pytest
from scipy.stats import chi2

import permatch as pm
from permatch.errors import (
    InfiniteScoreError,
    InvalidOptionError,
    NaNScoreError,
    ScoreShapeError,
    ScoreTypeError,
)
from permatch.inference.ranking.levels import ByLevels, ByMatching
from permatch.inference.ranking.swaps import BySwaps
from permatch.ranking_distribution import RankingDistribution

TOL = 1e-12
# A sampler that is right fails a test at this level once in ten thousand seeds.
RARE = 1e-4

WEIGHTS = {
    "all different": [5.0, 4.0, 3.0, 2.0, 1.0, 0.0],
    "top one": [1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    "top two": [1.0, 0.5, 0.0, 0.0, 0.0, 0.0],
    "grades": [2.0, 2.0, 1.0, 0.0, 0.0, 0.0],
    "negative": [1.0, 1.0, 1.0, -1.0, -1.0, -1.0],
    "all equal": [1.0] * 6,
    "one document": [3.0],
}


def enumerate_rankings(scores, weights):
    """All orders and their log-weights."""
    orders = np.array(list(itertools.permutations(range(len(scores)))))
    return orders, (scores[orders] * weights).sum(axis=1)


def expected_answers(scores, weights):
    orders, totals = enumerate_rankings(scores, weights)
    log_partition = np.logaddexp.reduce(totals)
    chances = np.exp(totals - log_partition)
    size = len(scores)
    marginals, above = np.zeros((size, size)), 0.5 * np.eye(size)
    positions = np.argsort(orders, axis=1)
    for chance, order, position in zip(chances, orders, positions, strict=True):
        marginals[order, np.arange(size)] += chance
        above += chance * (position[:, None] < position)
    return log_partition, marginals, above


@pytest.mark.parametrize("scale", [0.0, 1.0, 20.0])
@pytest.mark.parametrize("name", WEIGHTS)
def test_against_enumeration(name, scale, rng):
    weights = np.array(WEIGHTS[name])
    scores = scale * rng.normal(size=len(weights)).round(1)
    log_partition, marginals, above = expected_answers(scores, weights)
    d = RankingDistribution(scores, weights)
    assert d.is_exact
    assert d.log_partition == pytest.approx(log_partition, abs=TOL * (1 + 10 * scale))
    np.testing.assert_allclose(d.marginals, marginals, atol=TOL)
    everyone = np.arange(d.size)
    found = d.prob_above(everyone[:, None], everyone)
    np.testing.assert_allclose(found, above, atol=TOL)
    assert not d.standard_errors.any()
    assert d.log_partition_error == 0.0


def test_agrees_with_the_permanent(rng):
    scores, weights = rng.normal(size=14), np.repeat([2.0, 1.0, 0.3, 0.0], [2, 3, 4, 5])
    d = RankingDistribution(scores, weights)
    assert d.method == "levels"
    edges = np.outer(scores, weights)
    assert d.log_partition == pytest.approx(pm.log_partition(edges), abs=1e-10)
    np.testing.assert_allclose(d.marginals, pm.marginals(edges), atol=1e-11)


def test_both_exact_ways_agree(rng):
    scores, sizes = 2 * rng.normal(size=9), np.array([1, 2, 1, 3, 2])
    values = np.array([4.0, 2.5, 2.0, 1.0, 0.0])
    by_levels = ByLevels(scores, values, sizes, 10**7, 1)
    by_matching = ByMatching(scores, values, sizes, 1)
    assert by_levels.log_excess == pytest.approx(by_matching.log_excess, abs=1e-11)
    np.testing.assert_allclose(
        by_levels.level_marginals, by_matching.level_marginals, atol=TOL
    )
    for i in range(9):
        np.testing.assert_allclose(by_levels.above(i), by_matching.above(i), atol=1e-11)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("grades", lambda s, v, n: ByLevels(s, v, n, 10**7, 1)),
        ("grades", lambda s, v, n: ByLevels(s, v, n, 1, 1)),
        ("grades", lambda s, v, n: ByMatching(s, v, n, 1)),
        ("grades", lambda s, v, n: BySwaps(s, v, n, 100, 0, 1)),
        ("all equal", lambda s, v, n: ByLevels(s, v, n, 10**7, 1)),
    ],
    ids=["table", "rejection", "matching", "swaps", "one level"],
)
def test_level_samples_follow_the_distribution(name, make, rng):
    weights = np.array(WEIGHTS[name])
    scores = rng.normal(size=6)
    values, sizes = np.unique(-weights, return_counts=True)
    levels = make(scores, -values, sizes).sample_levels(20_000, rng)
    places = np.repeat(np.arange(len(sizes)), sizes)
    ways = np.array(sorted(set(itertools.permutations(places))))
    log_chances = (-values)[ways] @ scores
    chances = np.exp(log_chances - np.logaddexp.reduce(log_chances))
    code = len(sizes) ** np.arange(6)
    seen = np.array([(levels @ code == way @ code).sum() for way in ways])
    assert seen.sum() == len(levels)
    statistic = np.sum((seen - len(levels) * chances) ** 2 / (len(levels) * chances))
    assert chi2.sf(statistic, max(len(ways) - 1, 1)) > RARE


@pytest.mark.parametrize("name", ["all different", "grades", "all equal"])
def test_samples_are_rankings_of_the_right_chances(name, rng):
    weights = np.array(WEIGHTS[name])[-5:]
    scores = rng.normal(size=5)
    orders = RankingDistribution(scores, weights).sample(20_000, rng)
    assert (np.sort(orders, axis=1) == np.arange(5)).all()
    all_orders, totals = enumerate_rankings(scores, weights)
    chances = np.exp(totals - np.logaddexp.reduce(totals))
    code = 5 ** np.arange(5)
    seen = np.array([(orders @ code == order @ code).sum() for order in all_orders])
    statistic = np.sum((seen - 20_000 * chances) ** 2 / (20_000 * chances))
    assert chi2.sf(statistic, len(all_orders) - 1) > RARE


def test_same_seed_same_rankings_whatever_the_threads(rng):
    scores = rng.normal(size=30)
    for weights in (np.arange(30.0)[::-1] / 10, np.repeat([1.0, 0.0], [10, 20])):
        one, two = (RankingDistribution(scores, weights, n_jobs=n) for n in (1, 3))
        np.testing.assert_array_equal(one.sample(300, 5), two.sample(300, 5))
        np.testing.assert_array_equal(one.marginals, two.marginals)
        assert one.log_partition == two.log_partition


def test_estimates_where_nothing_exact_is_within_reach(rng):
    scores, weights = rng.normal(size=30), 1.0 / np.log2(np.arange(2, 32))
    d = RankingDistribution(scores, weights, n_samples=4000)
    assert not d.is_exact
    assert d.method == "swaps"
    assert "sampled" in repr(d)
    np.testing.assert_allclose(d.marginals.sum(axis=0), 1.0, atol=TOL)
    np.testing.assert_allclose(d.marginals.sum(axis=1), 1.0, atol=TOL)
    assert 0.0 < d.standard_errors.max() < 0.02
    assert 0.0 < d.log_partition_error < 0.2
    assert d.prob_above(d.mode()[0], d.mode()[-1]) > 0.5
    pair = d.prob_above(3, 4) + d.prob_above(4, 3)
    assert pair == pytest.approx(1.0, abs=TOL)


def test_estimates_agree_with_exact_answers(rng):
    scores, weights = 2 * rng.normal(size=12), np.arange(12.0)[::-1] / 4
    d = RankingDistribution(scores, weights)
    assert d.is_exact
    chains = BySwaps(scores, d.level_weights, d.level_sizes, 20_000, 0, 1)
    excess = d.log_partition - np.sort(scores)[::-1] @ weights
    assert abs(chains.log_excess - excess) < 5 * chains.log_excess_error + 0.01
    gap = np.abs(chains.level_marginals - d.level_marginals)
    assert (gap < 6 * chains.level_errors + 2e-3).all()
    np.testing.assert_allclose(chains.above(3), d.prob_above(3, np.arange(12)), atol=0.02)


def test_long_lists_are_exact_with_few_levels(rng):
    scores = 5 * rng.normal(size=400)
    d = RankingDistribution(scores, np.repeat([2.0, 1.0, 0.0], [40, 60, 300]))
    assert d.is_exact
    np.testing.assert_allclose(d.level_marginals.sum(axis=0), [40, 60, 300], atol=1e-9)
    assert d.prob_above(0, 1) + d.prob_above(1, 0) == pytest.approx(1.0, abs=1e-11)
    orders = d.sample(200, rng)
    assert orders.shape == (200, 400)


def test_a_metric_cut_off_at_ten_is_exact(rng):
    weights = np.r_[1.0 / np.log2(np.arange(2, 12)), np.zeros(70)]
    d = RankingDistribution(rng.normal(size=80), weights)
    assert d.is_exact
    np.testing.assert_allclose(d.marginals.sum(axis=0), 1.0, atol=1e-11)


def test_mode_keeps_ties_in_order():
    d = RankingDistribution([1.0, 2.0, 1.0, 3.0], [3, 2, 1, 0])
    assert d.mode().tolist() == [3, 1, 0, 2]
    assert repr(d) == "RankingDistribution(size=4, levels=4, method='matching', exact)"


def test_answers_cannot_be_written_to(rng):
    d = RankingDistribution(rng.normal(size=4), [1, 1, 0, 0])
    for array in (d.scores, d.position_weights, d.marginals, d.level_marginals):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0.0
    assert d.level_sizes.tolist() == [2, 2]


def test_no_samples(rng):
    assert RankingDistribution([1.0, 2.0], [1.0, 0.0]).sample(0).shape == (0, 2)


@pytest.mark.parametrize(
    ("scores", "weights", "error", "match"),
    [
        ([], [], ScoreShapeError, "at least one number"),
        ([[1.0]], [1.0], ScoreShapeError, r"got shape \(1, 1\)"),
        (["a"], [1.0], ScoreTypeError, "real numbers"),
        ([np.nan, 1.0], [1.0, 0.0], NaNScoreError, "got one at 0"),
        ([np.inf, 1.0], [1.0, 0.0], InfiniteScoreError, "got inf"),
        ([1.0, 2.0], [1.0], InvalidOptionError, "each of the 2 positions; got 1"),
        (
            [1.0, 2.0],
            [0.0, 1.0],
            InvalidOptionError,
            "must be non-increasing.*position 1 has 1",
        ),
    ],
    ids=["empty", "two axes", "text", "NaN", "infinite", "too few", "rising"],
)
def test_bad_input(scores, weights, error, match):
    with pytest.raises(error, match=match):
        RankingDistribution(scores, weights)


def test_bad_documents():
    d = RankingDistribution([1.0, 2.0], [1.0, 0.0])
    for bad in (2, -1, 0.5, [0, 3]):
        with pytest.raises(InvalidOptionError, match=r"documents 0 \.\. 1; got"):
            d.prob_above(bad, 0)
