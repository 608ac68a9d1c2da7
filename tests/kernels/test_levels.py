"""Whole lists over levels against enumeration, log-domain sums and each other."""

import itertools
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from scipy.special import logsumexp

from permatch.inference.ranking.levels import _infer_levels, _infer_list
from permatch.kernels.ranking.levels import PROFILE
from permatch.kernels.ranking.levels_dp import count_cells, counting_room, infer_by_counting
from permatch.kernels.ranking.levels_fourier import (
    EXACT_TO,
    SINGLE_TO,
    choose_points,
    expected_points,
    fill_periods,
    fourier_room,
    infer_by_fourier,
)
from permatch.kernels.ranking.levels_tilt import fill_covariance, fill_products

# A few hundred roundings of numbers of order one.
TOL = 1e-12
# What is good enough for single precision, whose roundings are 6e-8.
SINGLE_TOL = 3e-8

# counts of levels, the commonest first, as the kernels want them
COUNTS = {
    "two levels": [4, 3],
    "three levels": [3, 2, 2],
    "one document each": [1, 1, 1, 1],
    "four levels": [3, 1, 1, 2],
    "one at the top": [6, 1],
    "a pair": [1, 1],
    "one level": [5],
    "one document": [1],
}


def enumerate_levels(scores, values, counts):
    """Log-partition and level marginals (R, D) by the definition."""
    size, n_levels = len(scores), len(values)
    places = np.repeat(np.arange(n_levels), counts)
    all_ways = np.array(sorted(set(itertools.permutations(places))))
    totals = (values[all_ways] * scores).sum(axis=1)
    log_partition = logsumexp(totals)
    weights = np.exp(totals - log_partition)
    marginals = np.zeros((n_levels, size))
    for level in range(n_levels):
        marginals[level] = weights @ (all_ways == level)
    return log_partition, marginals


def best_total(scores, values, counts):
    order = np.argsort(values)
    return np.sort(scores) @ np.repeat(values[order], np.asarray(counts)[order])


def infer(scores, values, counts):
    excess, marginals = _infer_levels(scores, values, counts)
    return excess + best_total(scores, values, counts), marginals.T


def tilted(scores, values, counts):
    return _infer_list(scores, values, counts, PROFILE)[1]


def by_fourier(marginals, counts, size, exponent=EXACT_TO):
    products = np.empty((len(counts), len(counts)))
    fill_products(marginals, size, products)
    covariance = np.empty((len(counts) - 1, len(counts) - 1))
    fill_covariance(products, covariance)
    periods = np.empty(len(counts) - 1, np.int64)
    fill_periods(covariance, counts, periods, exponent)
    marginals = marginals.copy()
    work = np.full(fourier_room(counts, size), np.nan)  # as another list may leave it
    log_prob = infer_by_fourier(marginals, counts, products, periods, size, work, exponent)
    n_expected = expected_points(covariance, periods, exponent)
    return (
        log_prob,
        marginals[:, :size],
        n_expected,
        choose_points(products, periods, exponent)[1],
    )


def by_counting(marginals, counts, size):
    marginals = marginals.copy()
    work = np.full(counting_room(counts, size), np.nan)
    log_prob = infer_by_counting(marginals, counts, size, work)
    return log_prob, marginals[:, :size]


def random_list(rng, counts, spread):
    counts = np.array(counts)
    scores = spread * rng.normal(size=counts.sum())
    values = rng.permutation(len(counts)) * 1.0
    return scores, values, counts


@pytest.mark.parametrize("spread", [0.0, 1.0, 20.0])
@pytest.mark.parametrize("name", COUNTS)
def test_against_enumeration(name, spread, rng):
    scores, values, counts = random_list(rng, COUNTS[name], spread)
    expected, expected_marginals = enumerate_levels(scores, values, counts)
    found, marginals = infer(scores, values, counts)
    assert found == pytest.approx(expected, abs=TOL * (1.0 + spread))
    np.testing.assert_allclose(marginals, expected_marginals, atol=TOL)


@pytest.mark.parametrize("is_tied", [False, True], ids=["distinct", "tied"])
@pytest.mark.parametrize("name", [name for name in COUNTS if len(COUNTS[name]) > 1])
def test_both_ways_agree_with_enumeration(name, is_tied, rng):
    scores, values, counts = random_list(rng, COUNTS[name], 1.5)
    scores = scores.round() if is_tied else scores
    marginals = tilted(scores, values, counts)
    _, expected = enumerate_levels(scores, values, counts)
    log_counting, counting = by_counting(marginals, counts, len(scores))
    log_fourier, fourier, _, _ = by_fourier(marginals, counts, len(scores))
    np.testing.assert_allclose(counting, expected, atol=TOL)
    np.testing.assert_allclose(fourier, expected, atol=TOL)
    assert log_fourier == pytest.approx(log_counting, abs=TOL)


@pytest.mark.parametrize("spread", [0.0, 0.3, 3.0, 30.0, 3e3, 1e6])
@pytest.mark.parametrize(
    "counts",
    [[60, 40], [70, 11, 20], [300, 2, 5], [40, 3, 5, 9], [30, 2, 3, 4, 5]],
    ids=str,
)
def test_fourier_inversion_agrees_with_counting(counts, spread, rng):
    scores, values, counts = random_list(rng, counts, spread)
    marginals = tilted(scores, values, counts)
    log_counting, counting = by_counting(marginals, counts, len(scores))
    log_fourier, fourier, n_expected, n_points = by_fourier(marginals, counts, len(scores))
    assert log_fourier == pytest.approx(log_counting, abs=TOL)
    np.testing.assert_allclose(fourier, counting, atol=TOL)
    assert 0.3 * n_points <= n_expected + 1 <= 5 * n_points + 1
    log_single, single, _, fewer = by_fourier(marginals, counts, len(scores), SINGLE_TO)
    assert log_single == pytest.approx(log_counting, abs=SINGLE_TOL)
    np.testing.assert_allclose(single, counting, atol=SINGLE_TOL)
    assert fewer <= n_points


def log_domain(scores, counts):
    """Log-partition of levels 0, 1, 2 by sums of logs, with nothing to underflow."""
    table = np.full((counts[1] + 2, counts[2] + 2), -np.inf)  # a border of zeros
    table[1, 1] = 0.0
    for s in scores.astype(np.longdouble):
        new = table.astype(np.longdouble)
        new[1:, 1:] = np.logaddexp(new[1:, 1:], table[:-1, 1:] + s)
        new[1:, 1:] = np.logaddexp(new[1:, 1:], table[1:, :-1] + 2 * s)
        table = new
    return float(table[-1, -1])


@pytest.mark.parametrize(
    ("counts", "spread"),
    [((700, 0, 300), 500.0), ((60, 20, 10), 500.0), ((100, 9, 30), 5.0)],
)
def test_long_lists_and_wide_scores(counts, spread, rng):
    scores = rng.uniform(-spread, spread, size=sum(counts))
    expected = log_domain(scores, counts)
    present = [k for k in np.argsort(counts)[[2, 0, 1]] if counts[k]]
    kept, values = np.array(counts)[present], np.array(present, dtype=float)
    found, marginals = infer(scores, values, kept)
    assert found == pytest.approx(expected, rel=1e-13)
    # P(document i on level l) from the list without it
    i = len(scores) // 2
    for row, level in enumerate(present):
        fewer = np.array(counts)
        fewer[level] -= 1
        rest = log_domain(np.delete(scores, i), fewer)
        chance = np.exp(rest + level * scores[i] - expected)
        assert marginals[row, i] == pytest.approx(chance, abs=1e-9)


@pytest.mark.parametrize("scale", [0.0, 1e-3, 1.0, 1e3, 1e6, 1e12])
@pytest.mark.parametrize("is_tied", [False, True], ids=["distinct", "tied"])
def test_tilt_meets_the_counts_at_every_scale(scale, is_tied, rng):
    for _ in range(20):
        n_levels = int(rng.integers(2, 6))
        counts = rng.integers(1, 30, size=n_levels)
        scores = rng.normal(size=counts.sum())
        scores = scale * (scores.round() if is_tied else scores)
        values = rng.normal(size=n_levels).cumsum()
        marginals = tilted(scores, values, counts)[:, : len(scores)]
        np.testing.assert_allclose(marginals.sum(axis=1), counts, atol=1e-9)
        np.testing.assert_allclose(marginals.sum(axis=0), 1.0, atol=TOL)


def test_counting_many_small_levels(rng):
    # ten places at the top, all different, as in a metric cut off at ten
    counts = np.array([50] + [1] * 10)
    scores = rng.normal(size=counts.sum())
    values = np.r_[0.0, 1.0 / np.log2(np.arange(2, 12))]
    assert count_cells(counts) == 2**10
    _, marginals = infer(scores, values, counts)
    np.testing.assert_allclose(marginals.sum(axis=0), 1.0, atol=TOL)
    np.testing.assert_allclose(marginals.sum(axis=1), counts, atol=1e-10)


CODE = """
import numpy as np
from permatch.kernels.ranking.levels_dp import draw_levels, fill_forward
from permatch.kernels.ranking.levels_draw import reject_levels, run_chain
from permatch.objectives import WholeListLikelihood
grades = np.array([0, 0, 1, 2, 0, 2, 0, 1, 1, 2, 1, 0])
loss = WholeListLikelihood([0, 7, 11, 12], grades, np.arange(3.0), np.full(3, 1 / 3))
answers = [*loss.value_and_slope(scores), *loss.curvature(scores)]
answers += loss.in_form("profile").value_and_slope(scores)
answers = [np.asarray(answer).tolist() for answer in answers]
marginals, rng = np.full((2, 4), 0.5), np.random.default_rng(0)
levels, forward = np.empty((5, 4), np.int64), np.zeros((5, 3))
reject_levels(marginals, np.array([2, 2]), rng, levels)
answers.append(levels.tolist())
fill_forward(marginals, np.array([2, 2]), forward)
draw_levels(marginals, np.array([2, 2]), forward, rng.random((5, 4)), levels)
answers.append(levels.tolist())
orders, totals = np.empty((5, 4), np.int64), np.empty(5)
weights = np.array([3.0, 2.0, 1.0, 0.0])
run_chain(scores[:4].copy(), weights, np.arange(4), 3, rng, orders, totals)
answers += [orders.tolist(), totals.tolist()]
"""


@pytest.mark.slow
def test_plain_python_agrees_with_compiled_code(rng):
    scores = rng.normal(size=12)
    compiled = {"scores": scores}
    exec(CODE, compiled)
    read = "import json, sys, numpy; scores = numpy.array(json.load(sys.stdin))\n"
    plain = subprocess.run(
        [sys.executable, "-c", read + CODE + "print(json.dumps(answers))"],
        input=json.dumps(scores.tolist()),
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    for one, other in zip(compiled["answers"], json.loads(plain.stdout), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)
