"""Programs over the simplex: optimal by their conditions, from any start."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permatch.optimizers import simplex
from permatch.optimizers.simplex import simplex_program

TOL = 1e-9


def program(seed, n_planes, n_features, is_repeated=False):
    """Return the quadratic and linear part, and a start, of a random program."""
    rng = np.random.default_rng(seed)
    slopes = rng.normal(size=(n_planes, n_features))
    if is_repeated:
        slopes[n_planes // 2 :] = slopes[: n_planes - n_planes // 2]
    start = rng.dirichlet(np.ones(n_planes)) * rng.integers(0, 2, n_planes)
    start[0] += 1.0 - start.sum()
    return slopes @ slopes.T, rng.normal(size=n_planes), start


def check(quadratic, linear, point, tol):
    """Nothing in the simplex is better by more than the largest rise."""
    assert point.min() >= 0.0
    assert point.sum() == pytest.approx(1.0, abs=1e-12)
    rise = linear - quadratic @ point
    assert rise.max() - rise @ point <= tol


@given(
    seed=st.integers(0, 2**32 - 1),
    n_planes=st.integers(1, 30),
    n_features=st.integers(1, 10),
    is_repeated=st.booleans(),
)
def test_no_entry_would_raise_the_value(seed, n_planes, n_features, is_repeated):
    quadratic, linear, start = program(seed, n_planes, n_features, is_repeated)
    point = simplex_program(quadratic, linear, start, TOL)
    check(quadratic, linear, point, 1e-7)


@pytest.mark.parametrize("seed", range(5))
def test_both_ways_have_the_same_value(seed):
    quadratic, linear, start = program(seed, 40, 6)
    for found in (
        simplex._from_start(quadratic, linear, start, TOL),
        simplex._from_scratch(quadratic, linear),
    ):
        check(quadratic, linear, found, TOL)


def test_a_solution_is_kept():
    quadratic, linear, start = program(0, 40, 6)
    point = simplex_program(quadratic, linear, start, TOL)
    again = simplex_program(quadratic, linear, point, TOL)
    assert again.tolist() == point.tolist()


def test_without_a_quadratic_part_the_highest_entry_has_all():
    linear = np.array([0.0, 3.0, 1.0])
    start = np.array([1.0, 0.0, 0.0])
    point = simplex_program(np.zeros((3, 3)), linear, start, TOL)
    np.testing.assert_allclose(point, [0.0, 1.0, 0.0], atol=1e-9)


def test_too_many_changes_are_left_to_the_other_way(monkeypatch):
    quadratic, linear, start = program(0, 40, 6)
    monkeypatch.setattr(simplex, "_MOST_CHANGES", 1)
    assert simplex._from_start(quadratic, linear, start, TOL) is None
    check(quadratic, linear, simplex_program(quadratic, linear, start, TOL), TOL)
