"""Derivatives of the marginals of squares: against the covariances of all matchings."""

import itertools

import numpy as np
import pytest

from permatch._parallel import Job
from permatch.errors import InfeasibleGraphError, PrecisionError
from permatch.inference import square_tangents
from permatch.inference.square_tangents import infer_square_tangents
from permatch.inference.tangents import Directions, infer_tangents
from permatch.scores import stacked_problem
from tests.helpers import random_scores

# In units of the direction, whose entries are about one.
TOL = 1e-11


def enumerated(scores, direction):
    """The covariance of the edges with the total direction, matching by matching."""
    size = len(scores)
    rows = np.arange(size)
    totals, tables = [], []
    for cols in itertools.permutations(range(size)):
        totals.append(scores[rows, cols].sum())
        tables.append(np.zeros((size, size)))
        tables[-1][rows, cols] = 1.0
    weights = np.exp(np.array(totals) - max(totals))
    p, tables = weights / weights.sum(), np.array(tables)
    along = (tables * direction).sum(axis=(1, 2))
    return np.einsum("r,r,rij->ij", p, along - p @ along, tables)


def batch(rng, n_graphs, size, spread=1.0, forbidden=0.3):
    scores = np.stack(
        [random_scores(rng, size, spread, forbidden) for _ in range(n_graphs)]
    ).reshape(n_graphs, size, size)
    return scores, np.where(scores > -np.inf, rng.normal(size=scores.shape), 0.0)


def by_walks(scores, directions):
    problem, is_edge = stacked_problem(scores), scores > -np.inf
    nodes = np.zeros((problem.structure.n_left, 1))
    along = Directions(directions[is_edge][:, None], nodes, nodes)
    found = np.zeros_like(scores)
    found[is_edge] = infer_tangents(problem, along, Job()).edges[:, 0]
    return found


@pytest.mark.parametrize("spread", [0.0, 1.0, 20.0, 300.0])
@pytest.mark.parametrize("size", [1, 2, 4, 6])
def test_agrees_with_enumeration(rng, size, spread):
    scores, directions = batch(rng, 11, size, spread)
    for signed in (infer_square_tangents, square_tangents._by_signed_sums):
        found = signed(scores, directions, Job())
        wanted = [enumerated(*pair) for pair in zip(scores, directions, strict=True)]
        np.testing.assert_allclose(found, wanted, rtol=0, atol=TOL)
        assert not found[scores == -np.inf].any()


@pytest.mark.parametrize("size", [8, 9, 10, 13])
def test_agrees_with_the_walks_of_the_frontier(rng, size):
    for spread in (1.0, 30.0, 300.0):
        scores, directions = batch(rng, 3, size, spread)
        found = infer_square_tangents(scores, directions, Job())
        np.testing.assert_allclose(found, by_walks(scores, directions), rtol=0, atol=TOL)
        np.testing.assert_allclose(found.sum(axis=1), 0.0, atol=TOL)
        np.testing.assert_allclose(found.sum(axis=2), 0.0, atol=TOL)


def test_chunks_and_threads_change_nothing(rng, monkeypatch):
    scores, directions = batch(rng, 2, 12)
    whole = infer_square_tangents(scores, directions, Job())
    monkeypatch.setattr(square_tangents, "_CHUNK_BITS", 6)
    one, two = (infer_square_tangents(scores, directions, Job(n)) for n in (1, 2))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_allclose(one, whole, rtol=0, atol=TOL)


def test_lost_digits_are_noticed(rng, monkeypatch):
    scores, directions = batch(rng, 2, 11)
    wanted = infer_square_tangents(scores, directions, Job())
    monkeypatch.setattr(square_tangents, "EXACT_TOL", -1.0)
    found = infer_square_tangents(scores, directions, Job())
    np.testing.assert_allclose(found, wanted, rtol=0, atol=TOL)
    monkeypatch.setattr(square_tangents, "MOST_OPEN", 10)
    with pytest.raises(PrecisionError, match=r"residual of at most -1, got .* at size 11"):
        infer_square_tangents(scores, directions, Job())


def test_no_graphs_no_nodes_and_no_matchings():
    for shape in ((0, 3, 3), (2, 0, 0), (0, 12, 12)):
        nothing = np.zeros(shape)
        assert infer_square_tangents(nothing, nothing, Job()).shape == shape
    scores = np.zeros((2, 2, 2))
    scores[1, :, 0] = -np.inf
    with pytest.raises(InfeasibleGraphError):
        infer_square_tangents(scores, np.zeros_like(scores), Job())


def test_common_part_of_a_direction_does_not_count(rng):
    scores, directions = batch(rng, 2, 10, forbidden=0.0)
    found = infer_square_tangents(scores, directions, Job())
    shift = 1e6 * rng.normal(size=(2, 10, 1))
    moved = infer_square_tangents(scores, directions + shift, Job())
    np.testing.assert_allclose(moved, found, rtol=0, atol=1e-8)
