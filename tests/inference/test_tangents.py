"""Derivatives of marginals against the covariance over all matchings, and laws."""

import numpy as np
import pytest

from permatch._parallel import Job
from permatch.errors import CapacityError, SizeLimitError
from permatch.inference import tangents
from permatch.inference.tangents import Directions, infer_tangents
from permatch.scores import check_problem
from tests.brute_force import all_matchings, random_problem


def random_directions(rng, structure, n_columns, shift=0.0):
    return Directions(
        rng.normal(size=(structure.n_edges, n_columns)) + shift,
        rng.normal(size=(structure.n_left, n_columns)),
        rng.normal(size=(structure.n_right, n_columns)),
    )


def by_enumeration(scores, left, right, structure, directions):
    """Cov(y) @ direction over all matchings, for edges, left and right nodes."""
    found, totals = all_matchings(scores, left, right)
    chances = np.exp(totals - totals.max(initial=-np.inf))
    chances /= chances.sum()
    n_right = structure.n_right
    drawn = [
        found[:, structure.left] == structure.right,
        found == -1,
        ~(found[:, :, None] == np.arange(n_right)).any(axis=1),
    ]
    along = directions.edges, directions.left, directions.right
    scores = sum(y @ own for y, own in zip(drawn, along, strict=True))
    centred = chances[:, None] * (scores - chances @ scores)
    return [y.T @ centred for y in drawn]


@pytest.mark.parametrize("spread", [0.5, 20.0, 300.0])
@pytest.mark.parametrize("way", ["floats", "logarithms"])
def test_derivatives_are_covariances(spread, way, rng, monkeypatch):
    if way == "logarithms":
        monkeypatch.setattr(tangents, "LOST", 1.0)
    for _ in range(25):
        given = random_problem(rng, spread=spread)
        problem, _ = check_problem(*given)
        along = random_directions(rng, problem.structure, int(rng.integers(0, 11)), 100.0)
        found = infer_tangents(problem, along, Job())
        expected = by_enumeration(*given, problem.structure, along)
        for ours, own in zip((found.edges, found.left, found.right), expected, strict=True):
            np.testing.assert_allclose(ours, own, atol=1e-10)


def test_alternatives_of_a_node_lose_what_others_gain(rng):
    scores = rng.normal(size=(5, 7))
    scores[rng.random((5, 7)) < 0.3] = -np.inf
    problem, _ = check_problem(scores, rng.normal(size=5), rng.normal(size=7))
    along = random_directions(rng, problem.structure, 9)
    found = infer_tangents(problem, along, Job())
    rows = found.left.copy()
    np.add.at(rows, problem.structure.left, found.edges)
    cols = found.right.copy()
    np.add.at(cols, problem.structure.right, found.edges)
    np.testing.assert_allclose(rows, 0.0, atol=1e-13)
    np.testing.assert_allclose(cols, 0.0, atol=1e-13)
    several = infer_tangents(problem, along, Job(3))
    np.testing.assert_array_equal(several.edges, found.edges)


def test_capacities_are_refused(rng):
    problem, _ = check_problem(np.zeros((2, 2)), 0.0, 0.0, capacity_left=2)
    along = random_directions(rng, problem.structure, 1)
    with pytest.raises(CapacityError, match="Set capacity_left and capacity_right to None"):
        infer_tangents(problem, along, Job())


def test_wide_components_are_refused(rng):
    problem, _ = check_problem(np.zeros((40, 40)), 0.0, 0.0)
    along = random_directions(rng, problem.structure, 1)
    with pytest.raises(SizeLimitError, match="leave out edges"):
        infer_tangents(problem, along, Job())
