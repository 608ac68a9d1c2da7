"""Dropped edges change what they are said to change at most."""

import math

import numpy as np
import pytest

import permatch as pm
from permatch import errors
from permatch._parallel import Job
from permatch.inference.pruning import edge_bounds, prune, solve_pruned
from permatch.scores import check_problem
from tests.helpers import exact_partial, random_problem


def candidates(problem):
    return np.ones(problem.structure.n_edges, dtype=bool)


@pytest.mark.parametrize("must", [0.0, 0.5])
@pytest.mark.parametrize("spread", [0.5, 3.0, 20.0, 300.0])
def test_no_edge_is_more_probable_than_its_bound(spread, must, rng):
    for _ in range(20):
        scores, left, right = random_problem(rng, *rng.integers(1, 5, 2), spread, 0.3, must)
        problem, layout = check_problem(scores, left, right)
        _, marginals, _, _ = exact_partial(scores, left, right)
        bounds = layout.edges(edge_bounds(problem, Job()))
        assert (marginals <= bounds + 1e-15).all()


@pytest.mark.parametrize("tol", [1e-3, 0.05, 0.4])
def test_the_changes_are_within_the_bounds(tol, rng):
    n_dropped = 0
    for _ in range(60):
        scores, left, right = random_problem(
            rng, *rng.integers(2, 5, 2), rng.choice([2.0, 5.0]), 0.2, rng.choice([0.0, 0.3])
        )
        problem, _ = check_problem(scores, left, right)
        pruned = prune(problem, tol, candidates(problem))
        n_dropped += pruned.n_dropped
        assert pruned.lost.sum() <= tol * (1 + 1e-12)
        log_partition, marginals, _, _ = exact_partial(scores, left, right)
        exact = pm.Enumeration().infer_problem(pruned.problem, Job())
        change = float(log_partition) - exact.log_partition[0]
        assert -1e-9 <= change <= pruned.log_lost[0] + 1e-9
        kept = np.zeros(problem.structure.n_edges)
        kept[pruned.is_kept] = exact.marginals
        truth = marginals[problem.structure.left, problem.structure.right]
        assert (np.abs(kept - truth) <= pruned.lost.sum() + 1e-12).all()
        most = -math.log1p(-pruned.lost.sum())
        assert pruned.log_lost[0] <= most + 1e-12
    assert n_dropped > 20


def test_the_total_is_shared_out_graph_by_graph(rng):
    graphs = [rng.normal(size=(3, 3)) - 5.0 for _ in range(4)]
    problem, _ = check_problem(graphs, 0.0, 0.0)
    together = prune(problem, 0.02, candidates(problem))
    apart = [prune(p, 0.02, candidates(p)) for p in map(problem.graph, range(4))]
    kept = np.concatenate([each.is_kept for each in apart])
    np.testing.assert_array_equal(together.is_kept, kept)
    np.testing.assert_allclose(together.log_lost, [each.log_lost[0] for each in apart])
    assert 0 < together.n_dropped < problem.structure.n_edges


def test_edges_of_nodes_that_must_be_matched_stay():
    scores = np.full((2, 2), -50.0)
    problem, _ = check_problem(scores, [-np.inf, 0.0], 0.0)
    pruned = prune(problem, 1e-6, candidates(problem))
    np.testing.assert_array_equal(pruned.is_kept, [True, True, False, False])


def peaked(rng, size, depth=45.0, width=0):
    """Strong edges along the diagonal, and others `depth` lower."""
    scores = rng.normal(size=(size, size)) - depth
    near = np.abs(np.subtract.outer(range(size), range(size))) <= width
    return np.where(near, scores + depth + 3.0, scores)


def test_peaked_partial_graphs_are_solved(rng):
    scores = peaked(rng, 60, width=1)
    found = pm.Sparsified().infer(scores, unmatched_left=0.0, unmatched_right=0.0)
    told = found.diagnostics
    assert told.engine == "sparsified"
    assert told.certificate == told.interval_certificate == "rigorous"
    assert not found.is_exact
    band = np.where(scores > -30, scores, -np.inf)
    exact = pm.Frontier().infer(band, unmatched_left=0.0, unmatched_right=0.0)
    np.testing.assert_allclose(found.marginals, exact.marginals, rtol=0, atol=1e-9)
    low, high = told.interval
    assert low <= exact.log_partition <= high <= low + 2e-9
    assert 0 < found.log_partition_error < 1e-9
    low, high = found.marginal_bounds
    assert ((low <= found.marginals) & (found.marginals <= high)).all()
    assert (high - low).max() < 3e-9
    assert (found.marginal_errors[scores < -30] > 0).all()
    rows = found.marginals.sum(axis=1) + found.unmatched_left
    np.testing.assert_allclose(rows, 1, rtol=0, atol=1e-11)
    assert "edges dropped" in told.reason


def test_bounds_hold_against_fifty_digits(rng):
    for spread in (2.0, 8.0):
        for _ in range(10):
            scores, left, right = random_problem(rng, 4, 4, spread, 0.1)
            problem, layout = check_problem(scores, left, right)
            truth = exact_partial(scores, left, right)
            try:
                found = solve_pruned(problem, 0.3, 2, Job())
            except errors.SizeLimitError:
                continue
            if found.is_exact:
                continue
            low, high = found.diagnostics.interval
            assert low <= truth[0] <= high
            for ends, exact in (
                ([layout.edges(end) for end in found.marginal_bounds], truth[1]),
                (found.unmatched_left_bounds, truth[2]),
                (found.unmatched_right_bounds, truth[3]),
            ):
                assert ((ends[0] <= exact) & (exact <= ends[1])).all()


def test_narrow_graphs_lose_nothing(rng):
    scores, left, right = random_problem(rng, 5, 30, 3.0, 0.2)
    found = pm.Sparsified().infer(scores, unmatched_left=left, unmatched_right=right)
    exact = pm.Frontier().infer(scores, unmatched_left=left, unmatched_right=right)
    assert found.is_exact
    assert found.diagnostics.certificate == "exact"
    np.testing.assert_array_equal(found.marginals, exact.marginals)
    rectangular = pm.Sparsified().infer(scores[:, :4])
    assert rectangular.is_exact


def test_wide_graphs_are_refused(rng):
    scores = rng.normal(size=(40, 40))
    with pytest.raises(
        errors.SizeLimitError, match=r"width at most 24 once .*40 x 40.*'path_tree' for"
    ):
        pm.Sparsified().infer(scores, unmatched_left=0.0, unmatched_right=0.0)
    # Intervals by paths need nodes that may all stay unmatched.
    with pytest.raises(errors.SizeLimitError, match="enough: use engine='auto', or raise"):
        pm.Sparsified().infer(scores, unmatched_left=0.0)
