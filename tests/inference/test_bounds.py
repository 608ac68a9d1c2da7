"""Bounds on the log-partition: known values, and never crossed."""

import math

import numpy as np
import pytest

import permatch as pm
from permatch.errors import InfeasibleGraphError, InvalidOptionError
from permatch.inference.bounds import METHODS, log_partition_bounds
from permatch.kernels.bounds import (
    SOULES,
    fill_steps,
    first_gap,
    log_bound,
    log_minor_bounds,
    rank_entries,
    sharpen,
)
from tests.helpers import random_scores
from tests.inference.test_bethe import G4, many_graphs

every_method = pytest.mark.parametrize("method", METHODS)
LOG_Z = 6.198372554250848


def balanced(scores, n_sweeps=300):
    """Doubly stochastic weights, and the logarithm of what was divided out."""
    weights, offset = np.exp(scores), 0.0
    for axis in (0, 1) * n_sweeps:
        sums = weights.sum(axis=axis, keepdims=True)
        weights, offset = weights / sums, offset + np.log(sums).sum()
    return weights, offset


@pytest.mark.parametrize(
    ("method", "gap"),
    [
        ("soules", 0.4439455992),
        ("ext_huber", 0.5764173571),
        ("ext_huber_tight", 0.5255601902),
        ("huber_law", 0.7077155075),
        ("huber_law_tight", 0.5520229806),
    ],
)
def test_known_gaps(method, gap):
    weights, offset = balanced(G4)
    found = offset + log_bound(weights, METHODS.index(method), 0)
    assert found - LOG_Z == pytest.approx(gap, abs=1e-9)
    lower, upper = log_partition_bounds(G4, method)
    assert lower == pytest.approx(5.168796384930848, abs=1e-9)
    assert LOG_Z < upper <= LOG_Z + gap + 1e-3


@pytest.mark.parametrize(
    ("method", "bounds"),
    [
        ("soules", [6, 24, 120]),
        ("ext_huber", [6.787615, 28.244736, 145.678468]),
        ("ext_huber_tight", [6.472597, 26.567832, 135.614425]),
        ("huber_law", [7.276993, 30.94863, 162.361527]),
        ("huber_law_tight", [6.472597, 26.567832, 135.614425]),
    ],
)
def test_equal_weights(method, bounds):
    code = METHODS.index(method)
    found = [math.exp(log_bound(np.ones((n, n)), code, 0)) for n in (3, 4, 5)]
    np.testing.assert_allclose(found, bounds, rtol=1e-7)


def test_soules_is_bregman_on_zeros_and_ones():
    rows = ["10111", "10111", "01101", "11111", "01100"]
    weights = np.array([list(row) for row in rows], dtype=float)
    assert math.exp(log_bound(weights, 0, 0)) == pytest.approx(32.797490732958)
    with np.errstate(divide="ignore"):
        lower, upper = log_partition_bounds(np.log(weights))
    assert lower <= math.log(20) <= upper <= math.log(32.7975)


@every_method
@pytest.mark.parametrize("size", [2, 3, 4, 5, 6])
def test_holds(rng, method, size):
    scores = many_graphs(rng, size, 2000)
    exact = pm.SmallBatch().infer(scores).log_partition
    lower, upper = log_partition_bounds(scores, method)
    assert (lower <= exact).all()
    assert (exact <= upper).all()


@every_method
def test_each_bound_holds_by_itself(rng, method):
    code = METHODS.index(method)
    for size in (2, 3, 4, 5, 6):
        scores = many_graphs(rng, size, 2000)
        exact = pm.SmallBatch().infer(scores).log_partition
        for n_sweeps in (0, 5):
            found = [log_bound(np.exp(graph), code, n_sweeps) for graph in scores]
            assert (found >= exact - 1e-12).all()


@pytest.mark.parametrize("spread", [1.0, 5.0, 50.0, 2000.0])
def test_holds_at_any_spread(rng, spread):
    for size in (1, 7, 14):
        scores = random_scores(rng, size, spread, 0.3)
        lower, upper = log_partition_bounds(scores)
        assert lower <= pm.log_partition(scores) <= upper


def test_sharpening_lowers(rng):
    for spread in (0.5, 2.0, 5.0):
        weights, _ = balanced(spread * rng.normal(size=(20, 20)), 30)
        rough, sharp = log_bound(weights, 0, 0), log_bound(weights, 0, 100)
        assert sharp < rough
        assert log_bound(weights, 0, 400) > sharp - 0.02  # little is left to gain


def test_shifts_shift(rng):
    scores = random_scores(rng, 9, 2.0, 0.2)
    rows, cols = 50 * rng.normal(size=9), 50 * rng.normal(size=9)
    before = log_partition_bounds(scores)
    after = log_partition_bounds(scores + rows[:, None] + cols)
    np.testing.assert_allclose(np.subtract(after, before), (rows + cols).sum(), atol=1e-6)


def test_minors(rng):
    for scores in (random_scores(rng, 6, 2.0, 0.4) for _ in range(20)):
        weights = np.exp(scores)
        bounds = np.empty((6, 6))
        log_minor_bounds(weights, bounds)
        for i in range(6):
            for j in range(6):
                minor = np.delete(np.delete(weights, i, 0), j, 1)
                assert bounds[i, j] == pytest.approx(log_bound(minor, 0, 0))


@pytest.mark.parametrize("size", [0, 1, 2, 5, 40, 1500])
def test_ranking(rng, size):
    row = rng.integers(0, 20, size).astype(float)
    order = np.arange(size)
    rank_entries(row, order, 701)
    np.testing.assert_array_equal(row[order], -np.sort(-row))
    np.testing.assert_array_equal(np.sort(order), np.arange(size))


def test_shapes_and_threads(rng):
    graphs = [random_scores(rng, size, 1.0) for size in (3, 5, 0, 3, 1)]
    one, two = log_partition_bounds(graphs), log_partition_bounds(graphs, n_jobs=2)
    for k, graph in enumerate(graphs):
        lower, upper = log_partition_bounds(graph)
        assert isinstance(lower, float)
        assert (lower, upper) == (one[0][k], one[1][k]) == (two[0][k], two[1][k])


def test_errors():
    with pytest.raises(InvalidOptionError, match="'soules'"):
        log_partition_bounds(G4, "bregman")
    with pytest.raises(InfeasibleGraphError):
        log_partition_bounds(np.array([[0.0, -np.inf], [0.0, -np.inf]]))


def test_ranking_begins_coarsely_where_ties_are_broken_anew(rng):
    row = 1.0 + 1e-16 * rng.integers(0, 40, 300)
    order = np.argsort(-row, kind="stable")
    assert first_gap(row, order) == 1
    assert first_gap(row[rng.permutation(300)], order) == 701


def test_sharpening_ends_where_nothing_changes():
    weights = np.full((50, 50), 0.02)
    steps = np.empty(50)
    fill_steps(SOULES, steps)
    rough = sharpen(weights.copy(), steps, 0)
    assert sharpen(weights, steps, 10**12) == pytest.approx(rough, abs=1e-9)


def test_zeros_and_ones_are_bounded_all_the_same(rng):
    for scores in (np.zeros((14, 14)), (rng.random((14, 14)) < 0.5).astype(float)):
        lower, upper = log_partition_bounds(scores)
        assert lower <= pm.log_partition(scores) <= upper + 1e-9


def test_bounds_are_for_squares():
    with pytest.raises(pm.errors.ScoreShapeError, match="diagnostics.interval"):
        pm.log_partition_bounds(np.zeros((2, 3)))
