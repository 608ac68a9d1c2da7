"""Samples of sparse, rectangular and partial graphs."""

import numpy as np
import pytest

import permatch as pm
from permatch import errors
from permatch.inference import FrontierSamples
from permatch.kernels import frontier_plan as planning
from permatch.scores import check_problem
from tests.brute_force import all_matchings, random_problem
from tests.inference.goodness import THRESHOLD, p_value_of


def build(scores, left=0.0, right=0.0):
    return FrontierSamples.build(check_problem(scores, left, right)[0])


@pytest.mark.parametrize("spread", [0.5, 2.0])
def test_goodness_of_fit(spread):
    rng = np.random.default_rng(3)
    for _ in range(12):
        problem = random_problem(rng, spread=spread)
        matchings, totals = all_matchings(*problem)
        weights = np.exp(totals - totals.max())
        drawn = build(*problem).sample(4000, rng)
        assert p_value_of(drawn, matchings, weights / weights.sum()) > THRESHOLD


@pytest.mark.parametrize("shape", [(8, 6), (6, 8), (7, 7)])
def test_shares_agree_with_marginals_where_blocks_are_used(rng, shape):
    scores = 2 * rng.normal(size=shape)
    left, right = rng.normal(size=shape[0]), np.full(shape[1], -0.5)
    found = pm.infer(scores, "frontier", unmatched_left=left, unmatched_right=right)
    drawn = build(scores, left, right).sample(20_000, rng)
    shares = (drawn[:, :, None] == np.arange(-1, shape[1])).mean(axis=0)
    exact = np.column_stack([found.unmatched_left, found.marginals])
    errors_allowed = 5 * np.sqrt(exact * (1 - exact) / len(drawn)) + 1e-3
    assert (np.abs(shares - exact) < errors_allowed).all()


def test_many_components_and_isolated_nodes(rng):
    scores = np.full((9, 8), -np.inf)
    scores[:2, :3], scores[4:6, 5:7], scores[7, 7] = 0.0, 1.0, 2.0
    drawn = build(scores).sample(500, rng)
    assert (drawn[:, [2, 3, 6, 8]] == -1).all()
    assert set(np.unique(drawn[:, :2])) == {-1, 0, 1, 2}
    assert set(np.unique(drawn[:, 4:6])) == {-1, 5, 6}
    assert set(np.unique(drawn[:, 7])) == {-1, 7}
    for row in drawn:
        taken = row[row >= 0]
        assert len(set(taken)) == len(taken)


def test_the_same_for_threads_and_slices(rng, monkeypatch):
    scores = rng.normal(size=(30, 6))
    scores[0, 0] = -np.inf  # what is known of complete graphs is kept, slices and all
    drawn = [build(scores).sample(30_000, np.random.default_rng(7), n) for n in (1, 2, 3)]
    monkeypatch.setattr(planning, "_LOG2_LONG", 1.0)
    drawn.append(build(scores).sample(30_000, np.random.default_rng(7)))
    for other in drawn[1:]:
        np.testing.assert_array_equal(drawn[0], other)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0)])
def test_no_nodes(rng, shape):
    assert build(np.zeros(shape)).sample(4, rng).shape == (4, shape[0])
    assert build(np.zeros((2, 2))).sample(0, rng).shape == (0, 2)


def test_the_width_is_limited(rng):
    problem, _ = check_problem(rng.normal(size=(9, 9)), 0.0, 0.0)
    with pytest.raises(errors.SizeLimitError, match="width at most 8; got 9"):
        FrontierSamples.build(problem, max_width=8)


def test_a_distribution_by_this_engine_draws_from_it(rng):
    scores = rng.normal(size=(5, 5))
    source = pm.Frontier().own_samples(scores)
    assert isinstance(source, FrontierSamples)
    drawn = source.sample(100, rng)
    assert (np.sort(drawn, axis=1) == np.arange(5)).all()
