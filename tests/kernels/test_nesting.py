"""The bounds that nest, and the weights of the draws they propose."""

import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest

import permatch as pm
from permatch.inference.exact import reduce_scores
from permatch.inference.sampling.nesting_table import sharpened_columns
from permatch.inference.sampling.weighted import balanced_weights, make_plan
from permatch.kernels.bounds import (
    SOULES,
    extended_steps,
    fill_extended,
    fill_huber_law,
    fill_steps,
    huber_law_nodes,
)
from permatch.kernels.intrinsics import next_word, seed_state, uniform
from permatch.kernels.nesting import fill_head
from permatch.kernels.particles import weigh_chunk
from permatch.kernels.subset_dp import small_sets
from tests.helpers import random_scores

# The golden case of the notes on samplers.
GOLDEN = 0.5 * np.array([[0, 1, 2, 3], [1, 0, 1, 2], [3, 1, 0, 1], [2, 2, 1, 0]], float)
GOLDEN_LOG_PARTITION = 6.198372554250848


def huber_law(weights, is_tight):
    bounds = np.empty((len(weights), weights.shape[1] + 1))
    nodes = huber_law_nodes(weights.shape[1]) if is_tight else np.empty(0)
    fill_huber_law(weights, nodes, bounds)
    return bounds


def extended(weights, is_tight):
    bounds = np.empty((len(weights), weights.shape[1] + 1))
    fill_extended(weights, extended_steps(weights.shape[1], is_tight), bounds)
    return bounds


BOUNDS = {
    "huber_law": lambda weights: huber_law(weights, False),
    "tight_huber_law": lambda weights: huber_law(weights, True),
    "extended": lambda weights: extended(weights, False),
    "tight_extended": lambda weights: extended(weights, True),
}
every_bound = pytest.mark.parametrize("name", BOUNDS)


def soules_steps(n):
    steps = np.empty(n)
    fill_steps(SOULES, steps)
    return steps


def soules(weights):
    return (-np.sort(-weights, axis=1) @ soules_steps(len(weights))).prod()


def doubly_stochastic_golden():
    reduced, offset = reduce_scores(GOLDEN)
    weights = np.exp(reduced)
    for _ in range(2000):  # to the last digit, as the golden gaps want it
        for axis in (0, 1):
            sums = weights.sum(axis=axis, keepdims=True)
            weights = weights / sums
            offset += np.log(sums).sum()
    return weights, offset


# ---- bounds


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("huber_law", (7.276993, 30.94863, 162.361527)),
        ("extended", (6.787615, 28.244736, 145.678468)),
        ("tight_extended", (6.472597, 26.567832, 135.614425)),
    ],
)
def test_golden_bounds_of_ones(name, values):
    found = [BOUNDS[name](np.ones((n, n)))[:, 0].prod() for n in (3, 4, 5)]
    assert found == pytest.approx(values, rel=1e-6)


def test_soules_is_exact_for_ones():
    found = [soules(np.ones((n, n))) for n in (1, 3, 4, 5)]
    assert found == pytest.approx([1.0, 6.0, 24.0, 120.0], rel=1e-12)


@pytest.mark.parametrize(
    ("name", "gap"),
    [
        ("huber_law", 0.7077155075),
        ("tight_huber_law", 0.5520229806),
        ("extended", 0.5764173571),
        ("tight_extended", 0.5255601902),
        ("soules", 0.4439455992),
    ],
)
def test_golden_gaps(name, gap):
    weights, offset = doubly_stochastic_golden()
    if name == "soules":
        bound = math.log(soules(weights)) + offset
    else:
        largest = weights.max(axis=1, keepdims=True) if "huber" in name else np.ones((4, 1))
        bounds = BOUNDS[name](weights / largest)
        bound = np.log(bounds[:, 0]).sum() + np.log(largest).sum() + offset
    assert bound - GOLDEN_LOG_PARTITION == pytest.approx(gap, abs=1e-9)


@pytest.mark.parametrize(
    ("name", "gaps"),
    [
        ("tight_extended", (0.52556019, 0.32818789, 0.13218337, 0.0, 0.0)),
        ("huber_law", (0.70771551, 0.5752497, 0.37324991, 0.14417219, 0.0)),
    ],
)
def test_golden_gaps_by_depth(name, gaps):
    weights, offset = doubly_stochastic_golden()
    if "huber" in name:
        largest = weights.max(axis=1, keepdims=True)
        weights, offset = weights / largest, offset + np.log(largest).sum()
    for depth, gap in enumerate(gaps):
        bounds = BOUNDS[name](np.ascontiguousarray(weights[:, depth:]))
        if depth == 4:
            bounds[:, 0] = 0.0 if "extended" in name else 1.0
        head = np.empty((5, 1 << depth))
        first = np.ascontiguousarray(weights[:, :depth])
        found = fill_head(first, np.ascontiguousarray(bounds[:, 0]), head) + offset
        assert found - GOLDEN_LOG_PARTITION == pytest.approx(gap, abs=1e-8)


def random_weights(rng, n_matrices, size):
    """Entries in [0, 1]: 0/1, of several spreads, and sparse ones."""
    shape = (n_matrices, size, size)
    kind = rng.integers(3, size=(n_matrices, 1, 1))
    spread = rng.choice([0.5, 1.0, 2.0, 5.0], size=(n_matrices, 1, 1))
    normal = np.exp(spread * rng.normal(size=shape))
    normal /= normal.max(axis=2, keepdims=True)
    coins = rng.random(shape) < 0.6
    return np.where(kind == 0, coins, np.where(kind == 1, normal, normal * coins))


@every_bound
def test_bounds_nest(name, rng):
    n_matrices, size = 10_000, 5
    weights = random_weights(rng, n_matrices, size)
    bounds = BOUNDS[name](weights.reshape(-1, size)).reshape(n_matrices, size, size + 1)
    for col in range(size):
        # As many rows are left as columns; which ones is up to chance.
        left = np.argsort(rng.random((n_matrices, size)), axis=1)[:, : size - col]
        now = np.take_along_axis(bounds[:, :, col], left, 1)
        after = np.take_along_axis(bounds[:, :, col + 1], left, 1)
        entries = np.take_along_axis(weights[:, :, col], left, 1)
        children = np.zeros(n_matrices)
        for i in range(size - col):
            children += entries[:, i] * np.delete(after, i, axis=1).prod(axis=1)
        assert (children <= now.prod(axis=1) * (1.0 + 1e-12)).all()


@every_bound
def test_bounds_are_above_the_permanent(name, rng):
    weights = random_weights(rng, 10_000, 4)
    columns = np.arange(4)
    permanents = sum(
        weights[:, columns, list(matching)].prod(axis=1)
        for matching in pm.inference.all_matchings(4)
    )
    bounds = BOUNDS[name](weights.reshape(-1, 4)).reshape(-1, 4, 5)[:, :, 0].prod(axis=1)
    assert (bounds >= permanents * (1.0 - 1e-12)).all()


def test_soules_is_above_the_permanent(rng):
    weights = random_weights(rng, 10_000, 4)
    columns = np.arange(4)
    permanents = sum(
        weights[:, columns, list(matching)].prod(axis=1)
        for matching in pm.inference.all_matchings(4)
    )
    ordered = -np.sort(-weights, axis=2)
    bounds = (ordered * soules_steps(4)).sum(axis=2).prod(axis=1)
    assert (bounds >= permanents * (1.0 - 1e-12)).all()
    assert soules(weights[0]) == pytest.approx(bounds[0], rel=1e-12)


def test_sharpening_lowers_the_bound_and_keeps_the_distribution(rng):
    scores = random_scores(rng, 12, 2.0)
    weights, _ = balanced_weights(reduce_scores(scores)[0])
    scaled, shift = sharpened_columns(weights)
    before = np.log(extended(weights, True)[:, 0]).sum()
    after = np.log(extended(scaled, True)[:, 0]).sum() + shift
    assert after < before - 0.01
    ratio = np.log(scaled / weights)
    np.testing.assert_allclose(ratio, np.broadcast_to(ratio[0], ratio.shape), atol=1e-12)
    assert ratio[0].sum() == pytest.approx(-shift)


# ---- draws


@pytest.mark.parametrize("depth", [0, 2, 4])
@pytest.mark.parametrize("tail", [0, 1, 3])
@pytest.mark.parametrize("forbidden", [0.0, 0.4])
def test_weights_are_at_most_one_and_unbiased(depth, tail, forbidden, rng):
    for spread in (0.5, 2.0, 5.0):
        scores = random_scores(rng, 6, spread, forbidden)
        reduced, best = reduce_scores(scores)
        weights, offset = balanced_weights(reduced)
        plan = make_plan(weights, best + offset, depth=depth, tail=tail)
        logs = np.empty(8000)
        weigh_chunk(plan.tables, seed_state(3, depth, tail), logs)
        draws = np.exp(logs)
        assert draws.max() <= 1.0 + 1e-12
        exact = math.exp(pm.log_partition(scores) - plan.log_bound)
        error = max(draws.std() / math.sqrt(len(draws)), 1e-12)
        assert abs(draws.mean() - exact) < 4.0 * error


def test_deeper_heads_have_smaller_bounds(rng):
    for _ in range(50):
        scores = random_scores(rng, 7, 3.0, 0.3)
        reduced, best = reduce_scores(scores)
        weights, offset = balanced_weights(reduced)
        bounds = [
            make_plan(weights, best + offset, depth=depth, tail=0).log_bound
            for depth in range(8)
        ]
        assert (np.diff(bounds) <= 1e-12).all()
        assert bounds[-1] == pytest.approx(pm.log_partition(scores), abs=1e-9)


def test_random_numbers_are_those_of_the_generator():
    # xoshiro256++ from the state 1, 2, 3, 4: the first words of its authors' program.
    state = np.array([1, 2, 3, 4], np.uint64)
    words = [int(next_word(state)) for _ in range(4)]
    assert words == [41943041, 58720359, 3588806011781223, 3591011842654386]


def test_random_numbers_have_their_moments():
    state = seed_state(1)
    numbers = np.array([uniform(state) for _ in range(100_000)])
    assert 0.0 <= numbers.min() < numbers.max() < 1.0
    assert abs(numbers.mean() - 0.5) < 0.004
    assert (seed_state(1, 0) != seed_state(1, 1)).any()


def test_small_sets_list_every_set_once():
    sets = small_sets(4)
    assert sorted(sets.states.tolist()) == list(range(16))
    assert np.diff(sets.starts).tolist() == [1, 4, 6, 4, 1]


PLAIN = """
import json, sys
import numpy as np
from permatch.inference.huber_law import HuberLaw
from permatch.inference.nesting import Nesting
scores = np.array(json.load(sys.stdin))
engines = [
    Nesting(n_samples=64, tail=2, depth=1),
    Nesting(particles=32, n_samples=320, tail=2),
    HuberLaw(n_samples=20),
]
HuberLaw.trials_per_chunk = 64
answers = [engine.infer(scores) for engine in engines]
print(json.dumps([(a.log_partition, a.marginals.tolist()) for a in answers]))
"""


@pytest.mark.slow
def test_plain_python_agrees_with_compiled_code(rng):
    scores = random_scores(rng, 5, 1.0, 0.2)
    scores = np.where(np.isfinite(scores), scores, -50.0)  # JSON has no infinity
    answers = []
    for flag in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", PLAIN],
            input=json.dumps(scores.tolist()),
            env={**os.environ, "NUMBA_DISABLE_JIT": flag},
            capture_output=True,
            text=True,
            check=True,
        )
        answers.append(json.loads(done.stdout))
    for (one, tables), (other, other_tables) in zip(*answers, strict=True):
        assert one == pytest.approx(other, rel=1e-12)
        np.testing.assert_allclose(tables, other_tables, rtol=1e-10, atol=1e-14)
