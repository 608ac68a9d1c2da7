"""The best set of links within capacities, against all sets."""

import itertools

import numpy as np
import pytest

from permatch.decoding.capacities import best_links
from permatch.scores import check_problem


def best_by_listing(gains, capacity_left, capacity_right):
    edges = np.argwhere(gains > 0)
    best = 0.0
    for chosen in itertools.product([False, True], repeat=len(edges)):
        own = edges[list(chosen)]
        counts = [np.bincount(own[:, s], minlength=gains.shape[s]) for s in (0, 1)]
        if (counts[0] <= capacity_left).all() and (counts[1] <= capacity_right).all():
            best = max(best, gains[tuple(own.T)].sum())
    return best


@pytest.mark.parametrize("shape", [(1, 4), (4, 1), (3, 3), (4, 3), (2, 5)])
def test_against_all_sets(rng, shape):
    for _ in range(12):
        is_edge = rng.random(shape) < 0.8
        gains = np.where(is_edge, rng.normal(size=shape) + 0.3, -np.inf)
        capacity_left, capacity_right = (rng.integers(1, 4, n) for n in shape)
        problem, _ = check_problem(
            gains, 0.0, 0.0, capacity_left=capacity_left, capacity_right=capacity_right
        )
        structure = problem.structure
        is_used = best_links(problem, gains[is_edge])
        left, right = structure.left[is_used], structure.right[is_used]
        assert (np.bincount(left, minlength=shape[0]) <= capacity_left).all()
        assert (np.bincount(right, minlength=shape[1]) <= capacity_right).all()
        best = best_by_listing(gains, capacity_left, capacity_right)
        assert gains[is_edge][is_used].sum() == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (2, 0), (2, 2)])
def test_without_edges(shape):
    problem, _ = check_problem(np.full(shape, -np.inf), 0.0, 0.0, capacity_left=2)
    assert best_links(problem, np.zeros(0)).shape == (0,)


def test_links_that_gain_nothing_are_not_used():
    problem, _ = check_problem(np.zeros((2, 2)), 0.0, 0.0, capacity_left=2)
    assert not best_links(problem, np.array([0.0, -1.0, -2.0, 0.0])).any()


def test_without_limits_all_gains_are_taken(rng):
    gains = rng.normal(size=(20, 30))
    problem, _ = check_problem(gains, 0.0, 0.0, capacity_left=np.inf, capacity_right=np.inf)
    np.testing.assert_array_equal(best_links(problem, gains.ravel()), gains.ravel() > 0)
