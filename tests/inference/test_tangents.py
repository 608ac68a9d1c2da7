"""Derivatives of marginals against the covariance over all matchings, and laws."""

import numpy as np
import pytest

from permatch._parallel import Job
from permatch.errors import CapacityError, SizeLimitError
from permatch.inference import pair_minors, tangent_walks, tangents
from permatch.inference.tangent_samples import tangents_by_samples
from permatch.inference.tangents import Directions, infer_tangents
from permatch.scores import check_problem
from tests.brute_force import all_matchings, random_problem
from tests.helpers import random_scores


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
        monkeypatch.setattr(tangent_walks, "LOST", 1.0)
    for _ in range(25):
        given = random_problem(rng, spread=spread)
        problem, _ = check_problem(*given)
        along = random_directions(rng, problem.structure, int(rng.integers(0, 11)), 100.0)
        found = infer_tangents(problem, along, Job())
        expected = by_enumeration(*given, problem.structure, along)
        for ours, own in zip((found.edges, found.left, found.right), expected, strict=True):
            np.testing.assert_allclose(ours, own, atol=1e-10)


@pytest.mark.parametrize("spread", [1.0, 20.0, 300.0])
@pytest.mark.parametrize("shape", ["dense", "long", "sparse", "band"])
def test_one_direction_agrees_with_many_at_once(shape, spread, rng, monkeypatch):
    n, k = {"dense": (9, 9), "long": (7, 20), "sparse": (14, 11), "band": (30, 30)}[shape]
    scores = spread * rng.normal(size=(n, k))
    if shape == "sparse":
        scores[rng.random((n, k)) < 0.5] = -np.inf
    if shape == "band":
        scores[np.abs(np.subtract.outer(np.arange(n), np.arange(k))) > 4] = -np.inf
    free = spread * rng.normal(size=n), spread * rng.normal(size=k)
    free[1][rng.random(k) < 0.2] = -np.inf  # these must be matched
    problem, _ = check_problem(scores, *free)
    assert tangent_walks.frontier_plan(problem.structure).widest >= 7  # whole blocks
    along = random_directions(rng, problem.structure, 3)
    alone = infer_tangents(problem, along, Job())
    monkeypatch.setattr(tangent_walks, "_MOST_ALONE", 0)
    together = infer_tangents(problem, along, Job())
    for name in ("edges", "left", "right"):
        found, expected = getattr(alone, name), getattr(together, name)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-13)


def test_components_of_one_task_do_not_disturb_each_other(rng):
    # their tables lie in the same memory, narrow after wide ones
    sizes, ends = (11, 2, 9, 1, 6, 10), np.cumsum((0, 11, 2, 9, 1, 6, 10))
    scores = np.full((ends[-1], ends[-1]), -np.inf)
    for first, size in zip(ends, sizes, strict=False):
        own = slice(first, first + size)
        scores[own, own] = 3.0 * rng.normal(size=(size, size))
    free = rng.normal(size=(2, len(scores)))
    problem, _ = check_problem(scores, *free)
    along = random_directions(rng, problem.structure, 1)
    table = np.zeros(scores.shape)
    table[problem.structure.left, problem.structure.right] = along.edges[:, 0]
    together = np.zeros(scores.shape)
    found = infer_tangents(problem, along, Job()).edges[:, 0]
    together[problem.structure.left, problem.structure.right] = found
    for first, size in zip(ends, sizes, strict=False):
        own = slice(first, first + size)
        part, _ = check_problem(scores[own, own], free[0, own], free[1, own])
        alone = Directions(
            table[own, own].reshape(-1, 1), along.left[own], along.right[own]
        )
        expected = infer_tangents(part, alone, Job()).edges[:, 0]
        np.testing.assert_allclose(
            together[own, own].ravel(), expected, rtol=1e-12, atol=1e-15
        )


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


@pytest.mark.parametrize("is_partial", [True, False])
def test_samples_agree_within_their_errors(is_partial, rng):
    scores = rng.normal(size=(4, 4))
    free = rng.normal(size=4) if is_partial else None
    problem, _ = check_problem(scores, free, free)
    along = random_directions(rng, problem.structure, 3)
    exact = infer_tangents(problem, along, Job())
    columns = along.edges, along.left, along.right
    found = tangents_by_samples(problem, columns, 0, Job())
    assert 0.002 < found.error < 0.05
    for ours, own in zip(
        found.tangents, (exact.edges, exact.left, exact.right), strict=True
    ):
        np.testing.assert_allclose(ours, own, atol=0.05)
    variances, exact_ones = (
        sum(np.sum(one * own, axis=0) for one, own in zip(columns, values, strict=True))
        for values in (found.tangents, (exact.edges, exact.left, exact.right))
    )
    assert (np.abs(variances / exact_ones - 1.0) < 5 * found.error).all()


def test_squares_too_large_are_sampled(rng, monkeypatch):
    monkeypatch.setattr(tangents, "seconds_of_minors", lambda size, n_columns: np.inf)
    monkeypatch.setattr(tangent_walks, "MOST_OPEN", 3)
    problem, _ = check_problem(rng.normal(size=(5, 5)))
    along = random_directions(rng, problem.structure, 2)
    found = infer_tangents(problem, along, Job())
    assert found.methods == {"exact samples"}
    assert 0.0 < found.error < 0.05
    np.testing.assert_array_equal(found.edges, infer_tangents(problem, along, Job(2)).edges)


def test_memory_for_one_thread_is_enough_for_the_same_method(rng, monkeypatch):
    problem, _ = check_problem(rng.normal(size=(5, 4)), 0.0, 0.0)
    along = random_directions(rng, problem.structure, 2)
    plan = tangent_walks.frontier_plan(problem.structure)
    memory = 3.0 * 2.0 ** tangent_walks._log2_bytes(plan).max()
    monkeypatch.setattr(tangent_walks, "LITTLE", 1.0)
    monkeypatch.setattr(tangent_walks, "available_memory", lambda: memory)
    one, many = (infer_tangents(problem, along, Job(n)) for n in (1, 8))
    assert one.methods == many.methods == {"dual numbers"}
    np.testing.assert_array_equal(one.edges, many.edges)


@pytest.mark.parametrize("size", [7, 8, 10])
@pytest.mark.parametrize("spread", [1.0, 300.0])
def test_pair_minors_agree_with_dual_numbers(size, spread, rng, monkeypatch):
    scores = random_scores(rng, size, spread, forbidden=0.2)
    problem, _ = check_problem(scores)
    along = random_directions(rng, problem.structure, 11, 100.0)
    answers = []
    for seconds in (np.inf, 0.0):
        monkeypatch.setattr(tangents, "seconds_of_minors", lambda m, k, s=seconds: s)
        answers.append(infer_tangents(problem, along, Job()))
    exact, found = answers
    assert exact.methods == {"dual numbers"}
    assert "pair minors" in found.methods
    np.testing.assert_allclose(found.edges, exact.edges, atol=1e-9)
    rows = np.zeros((size, 11))
    np.add.at(rows, problem.structure.left, found.edges)
    np.testing.assert_allclose(rows, 0.0, atol=1e-9)


def test_parts_of_a_large_square_add_up(rng, monkeypatch):
    problem, _ = check_problem(rng.normal(size=(11, 11)))
    along = random_directions(rng, problem.structure, 2)
    whole = infer_tangents(problem, along, Job())
    monkeypatch.setattr(pair_minors, "_CHUNK_BITS", 6)
    monkeypatch.setattr(pair_minors, "_MAX_SPLIT_BITS", 2)
    for n_jobs in (1, 2):
        cut = infer_tangents(problem, along, Job(n_jobs))
        assert cut.methods == {"pair minors"}
        np.testing.assert_allclose(cut.edges, whole.edges, atol=1e-13)


def test_digits_lost_are_computed_again(rng, monkeypatch):
    monkeypatch.setattr(tangents, "EXACT_TOL", 0.0)
    problem, _ = check_problem(rng.normal(size=(9, 9)))
    along = random_directions(rng, problem.structure, 2)
    found = infer_tangents(problem, along, Job())
    assert found.methods == {"dual numbers", "pair minors"}


@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (0, 3)])
def test_graphs_of_no_choice(shape, rng):
    problem, _ = check_problem(np.zeros(shape))
    along = random_directions(rng, problem.structure, 2)
    found = infer_tangents(problem, along, Job())
    for values in (found.edges, found.left, found.right):
        np.testing.assert_array_equal(values, 0.0)


def test_wide_components_are_refused(rng):
    problem, _ = check_problem(np.zeros((40, 40)), 0.0, 0.0)
    along = random_directions(rng, problem.structure, 1)
    with pytest.raises(SizeLimitError, match="0 .40 x 40 nodes. has a width.*Leave out"):
        infer_tangents(problem, along, Job())
