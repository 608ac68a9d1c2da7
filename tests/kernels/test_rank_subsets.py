"""The kernels of small lists against sums over all placements."""

import json
import os
import subprocess
import sys
from itertools import permutations

import numpy as np
import pytest

import permatch as pm
from permatch.decoding import best_matching
from permatch.kernels.ranking.hinge import add_hinges
from permatch.kernels.ranking.pairs import add_queries
from permatch.kernels.ranking.subsets import add_short_lists

# Values are of order one to a thousand, slopes of order ten.
VALUE_RTOL = 1e-12
SLOPE_ATOL = 1e-11


def decreasing(rng, size):
    """Position weights without pattern, two of them equal where there is room."""
    weights = np.sort(rng.normal(size=size))[::-1].copy()
    if size > 2:
        weights[1] = weights[0]
    return weights


def by_enumeration(scores, rows, targets, weights, c):
    """Value and slope of lists by their definition."""
    placements = np.array([*permutations(range(len(c)))])
    value, slope = 0.0, np.zeros(len(scores))
    for row, target, weight in zip(rows, targets, weights, strict=True):
        totals = c[placements] @ scores[row]
        log_partition = totals.max() + np.log(np.exp(totals - totals.max()).sum())
        expected = np.exp(totals - log_partition) @ c[placements]
        value += weight * (log_partition - target @ scores[row])
        np.add.at(slope, row, weight * (expected - target))
    return value, slope


def lists(rng, c, n_lists=13, n_documents=30):
    rows = rng.integers(0, n_documents, size=(n_lists, len(c)))
    # Means of orders of c, as ties make them.
    targets = np.array([(rng.permutation(c) + rng.permutation(c)) / 2 for _ in range(3)])
    return rows, rng.integers(0, 3, size=n_lists), targets, rng.random(n_lists)


def run(kernel, scores, rows, patterns, targets, weights, c):
    slope = np.zeros(len(scores))
    lists = rows, patterns, targets, weights, c
    value = kernel(scores, *lists, slope, 0, len(rows), (0,) * len(c))
    return value, slope


@pytest.mark.parametrize("spread", [0.0, 1.0, 40.0, 500.0])
@pytest.mark.parametrize("size", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("is_even", [True, False], ids=["even", "uneven"])
def test_lists_equal_enumeration(is_even, size, spread, rng):
    scores = spread * rng.normal(size=30)
    c = 1.0 - 0.75 * np.arange(size) if is_even else decreasing(rng, size)
    rows, patterns, targets, weights = lists(rng, c)
    value, slope = run(add_short_lists, scores, rows, patterns, targets, weights, c)
    expected = by_enumeration(scores, rows, targets[patterns], weights, c)
    assert value == pytest.approx(expected[0], rel=VALUE_RTOL, abs=1e-12)
    np.testing.assert_allclose(slope, expected[1], atol=SLOPE_ATOL)


@pytest.mark.parametrize(("size", "spread"), [(7, 1.0), (8, 500.0)])
@pytest.mark.parametrize("is_even", [True, False], ids=["even", "uneven"])
def test_longer_lists_equal_the_engines(is_even, size, spread, rng):
    scores = spread * rng.normal(size=30)
    c = np.arange(size - 1, -1, -1.0) if is_even else decreasing(rng, size)
    rows, patterns, targets, weights = lists(rng, c, n_lists=5)
    value, slope = run(add_short_lists, scores, rows, patterns, targets, weights, c)
    total, expected = 0.0, np.zeros(30)
    for row, pattern, weight in zip(rows, patterns, weights, strict=True):
        result = pm.infer(np.outer(scores[row], c))
        total += weight * (result.log_partition - targets[pattern] @ scores[row])
        np.add.at(expected, row, weight * (result.marginals @ c - targets[pattern]))
    assert value == pytest.approx(total, rel=VALUE_RTOL)
    np.testing.assert_allclose(slope, expected, atol=SLOPE_ATOL * size)


@pytest.mark.parametrize("n_lists", [1, 7, 8, 9, 200])
def test_lanes_do_not_mix(n_lists, rng):
    scores = 3.0 * rng.normal(size=30)
    c = np.arange(3, -1, -1.0)
    rows, patterns, targets, _ = lists(rng, c, n_lists)
    weights = np.repeat([0.5, 2.0], n_lists)[:n_lists]  # runs of equal weight
    value, slope = run(add_short_lists, scores, rows, patterns, targets, weights, c)
    expected = by_enumeration(scores, rows, targets[patterns], weights, c)
    assert value == pytest.approx(expected[0], rel=1e-13)
    np.testing.assert_allclose(slope, expected[1], atol=1e-11)


def test_very_many_lists_of_one_weight(rng):
    # The product of their permanents is far beyond float64.
    scores = 1e-3 * rng.normal(size=30)
    rows = rng.integers(0, 30, size=(3000, 5))
    c = np.arange(4, -1, -1.0)
    value, _ = run(
        add_short_lists, scores, rows, np.zeros(3000, np.intp), c[None], np.ones(3000), c
    )
    log_partitions = pm.log_partition(scores[rows][:, :, None] * c)
    assert value == pytest.approx((log_partitions - scores[rows] @ c).sum())


def test_best_placements_by_sets_and_by_assignment(rng):
    for size in (2, 3, 5, 7, 8, 10):
        scores = rng.normal(size=30)
        c = decreasing(rng, size)
        rows, patterns, targets, weights = lists(rng, c)
        losses = rng.random((3, size, size))
        slope = np.zeros(30)
        value = add_hinges(
            scores, rows, patterns, targets, losses, weights, c, slope, 0, len(rows)
        )
        total, expected = 0.0, np.zeros(30)
        for row, k, weight in zip(rows, patterns, weights, strict=True):
            best = best_matching(losses[k] + np.outer(scores[row], c))
            shift = c[best] - targets[k]
            hinge = losses[k][np.arange(size), best].sum() + shift @ scores[row]
            total += weight * max(hinge, 0.0)
            np.add.at(expected, row, weight * shift)
        assert value == pytest.approx(total, rel=1e-13)
        np.testing.assert_allclose(slope, expected, atol=1e-13)


CODE = """
import json, sys
import numpy as np
from permatch.kernels.ranking.hinge import add_hinges
from permatch.kernels.ranking.pairs import add_queries
from permatch.kernels.ranking.subsets import add_short_lists
given = {key: np.array(value) for key, value in json.load(sys.stdin).items()}
subsets = [given[k] for k in ("scores", "rows", "patterns", "targets", "weights", "c")]
answers = []
slope = np.zeros(len(given["scores"]))
value = add_short_lists(*subsets, slope, 0, len(given["rows"]), (0, 0, 0))
answers.append([value, *slope])
slope = np.zeros(len(given["scores"]))
subsets.insert(4, given["losses"])
answers.append([add_hinges(*subsets, slope, 0, len(given["rows"])), *slope])
pairs = [given[k] for k in ("order", "ends", "starts", "ones")]
for spread in (1.0, 1e3):
    slope = np.zeros(len(given["scores"]))
    value = add_queries(spread * given["scores"], *pairs, slope, 0, 1)
    answers.append([value, *slope])
print(json.dumps(answers))
"""


@pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.0.0",
    reason="before NumPy 2 the sum of an unsigned and a Python integer is a float",
)
def test_plain_python_agrees_with_compiled_code(rng):
    c = np.array([2.0, 1.0, 0.0])
    rows, patterns, targets, weights = lists(rng, c, n_lists=5, n_documents=6)
    given = {
        "scores": rng.normal(size=6),
        "rows": rows,
        "patterns": patterns,
        "targets": targets,
        "weights": weights,
        "c": c,
        "losses": rng.random((3, 3, 3)),
        "order": rng.permutation(6),
        "ends": np.array([2, 2, 6, 6, 6, 6]),
        "starts": np.array([0, 6]),
        "ones": np.ones(1),
    }
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        input=json.dumps({key: value.tolist() for key, value in given.items()}),
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    subsets = [given[k] for k in ("scores", "rows", "patterns", "targets", "weights", "c")]
    value, slope = run(add_short_lists, *subsets)
    answers = [[value, *slope]]
    slope = np.zeros(6)
    subsets.insert(4, given["losses"])
    answers.append([add_hinges(*subsets, slope, 0, 5), *slope])
    pairs = [given[k] for k in ("order", "ends", "starts", "ones")]
    for spread in (1.0, 1e3):
        slope = np.zeros(6)
        value = add_queries(spread * given["scores"], *pairs, slope, 0, 1)
        answers.append([value, *slope])
    np.testing.assert_allclose(json.loads(done.stdout), answers, rtol=1e-12, atol=1e-13)
