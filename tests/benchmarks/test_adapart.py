"""AdaPart's perfect samples under a bound that does not nest."""

import math

import numpy as np
import pytest

import permatch as pm
from benchmarks.rivals.adapart import AdaPart
from benchmarks.rivals.adapart_kernels import (
    soules_factors,
    soules_steps,
    split,
    try_chunk,
)
from permatch.errors import InvalidOptionError, PrecisionError
from permatch.inference.base import Job
from permatch.inference.exact import reduce_scores
from permatch.kernels.intrinsics import seed_state
from tests.helpers import random_scores
from tests.inference.goodness import THRESHOLD, cases, p_value

CASES = list(cases())
# With every choice of column the children of the root sum to more than its bound.
NOT_NESTING = np.array([[1, 1, 1, 1], [0, 1, 1, 0], [1, 1, 1, 1], [1, 0, 0, 1]], float)
GOLDEN = np.array(
    [[float(c) for c in row] for row in ["10111", "10111", "01101", "11111", "01100"]]
)


@pytest.mark.parametrize("scores", CASES, ids=range(len(CASES)))
def test_samples_fit_the_exact_distribution(scores):
    reduced, _ = reduce_scores(scores)
    matchings, _, _ = AdaPart(n_samples=10_000)._accept(reduced, (1,), Job())
    assert p_value(matchings, scores) > THRESHOLD


def trials(weights, n_trials, max_list):
    """Return the accepted matchings, and the numbers of splits and refinements."""
    size = len(weights)
    numbers = np.empty(n_trials, np.int64)
    matchings = np.empty((n_trials, size), np.int64)
    counts = np.zeros(2, np.int64)
    order = np.argsort(-weights, axis=1, kind="stable")
    steps = soules_steps(size)
    state = seed_state(1)
    n_accepted = try_chunk(
        weights, order, steps, max_list, state, n_trials, numbers, matchings, counts
    )
    return (None if n_accepted < 0 else matchings[:n_accepted]), counts


def log_of(weights):
    with np.errstate(divide="ignore"):
        return np.log(weights)


def test_golden_acceptance_and_fit():
    accepted, _ = trials(GOLDEN, 40_000, 250)
    assert len(accepted) / 40_000 == pytest.approx(20.0 / 32.797490732958, abs=0.01)
    assert p_value(accepted, log_of(GOLDEN)) > THRESHOLD


def test_refinement_where_the_bound_does_not_nest():
    accepted, counts = trials(NOT_NESTING, 20_000, 200)
    assert counts[1] >= 20_000  # at every root
    assert p_value(accepted, log_of(NOT_NESTING)) > THRESHOLD
    order = np.argsort(-NOT_NESTING, axis=1, kind="stable")
    factors = np.empty(4)
    soules_factors(NOT_NESTING, order, soules_steps(4), factors)
    expected = math.exp(pm.log_partition(log_of(NOT_NESTING))) / factors.prod()
    assert len(accepted) / 20_000 == pytest.approx(expected, abs=0.015)
    nothing, _ = trials(NOT_NESTING, 1, 2)
    assert nothing is None


def test_soules_does_not_nest():
    weights = np.array([[1.0, 0.0, 1.0]] * 3)
    without = np.zeros((3, 3))
    children = np.empty(3)
    order = np.argsort(-weights, axis=1, kind="stable")
    col = split(weights, order, soules_steps(3), 0b111, 0b111, without, children)
    assert col == 1  # the column whose children sum to least: it cannot be matched at all
    assert children.sum() == 0.0
    factors = np.empty(3)
    soules_factors(weights, order, soules_steps(3), factors)
    assert factors.prod() == pytest.approx(2.828427, rel=1e-6)  # the children have 3


def test_ones_are_always_accepted():
    result = AdaPart(n_samples=100).infer(np.zeros((6, 6)))
    assert result.diagnostics.acceptance == 1.0
    assert result.log_partition == pytest.approx(math.log(720.0), abs=1e-9)


def test_estimates_are_within_their_errors(rng):
    for spread in (0.5, 2.0, 5.0):
        scores = random_scores(rng, 9, spread, 0.2)
        exact = pm.infer(scores)
        result = AdaPart().infer(scores)
        gap = abs(result.log_partition - exact.log_partition)
        assert gap <= 4.0 * result.log_partition_error
        gaps = np.abs(result.marginals - exact.marginals)
        assert (gaps <= 5.0 * result.marginal_errors).all()
        low, high = result.diagnostics.interval
        assert low < exact.log_partition < high


def test_partitions_that_grow_too_long_are_refused(monkeypatch):
    monkeypatch.setattr("benchmarks.rivals.adapart.try_chunk", lambda *args: -1)
    with pytest.raises(PrecisionError, match="one grew beyond at size 3. Raise max_list"):
        AdaPart().infer(np.zeros((3, 3)))


@pytest.mark.parametrize("size", [0, 1])
def test_tiny_graphs(size):
    result = AdaPart(n_samples=10).infer(np.full((size, size), 2.0))
    assert result.log_partition == pytest.approx(2.0 * size, abs=1e-12)


def test_answers_do_not_depend_on_threads(rng):
    stack = np.stack([random_scores(rng, 7) for _ in range(3)])
    for scores in (stack, stack[0]):
        one, three = (AdaPart(n_samples=600).infer(scores, n_jobs=n) for n in (1, 3))
        np.testing.assert_array_equal(one.marginals, three.marginals)


def test_nothing_accepted_says_so(rng):
    with pytest.raises(PrecisionError, match="AdaPart at size 30 needs"):
        AdaPart(max_trials=100).infer(random_scores(rng, 30, 3.0))


def test_options_are_checked():
    with pytest.raises(InvalidOptionError, match="max_list of AdaPart"):
        AdaPart(max_list=0)
    for too_long in (10**9, 10**30):
        with pytest.raises(InvalidOptionError, match="max_list of AdaPart must be at most"):
            AdaPart(max_list=too_long)
    with pytest.raises(InvalidOptionError, match="n_samples of AdaPart must be at most"):
        AdaPart(n_samples=10**30)
    assert AdaPart(max_list=np.int64(9), n_samples=np.int64(7)) == AdaPart(
        max_list=9, n_samples=7
    )
    with pytest.raises(InvalidOptionError, match="max_size of AdaPart must be at most 60"):
        AdaPart(max_size=100)
