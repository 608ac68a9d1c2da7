"""Belief propagation on the edges of sparse, rectangular and partial problems."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import permatch as pm
from permatch.inference.belief_propagation import beliefs
from permatch.scores import EdgeScores, check_problem
from tests.helpers import partial_problems, random_problem

PARTIAL, MIXED = 0.0, 0.5


def solve(problem, **options):
    scores, left, right = problem
    engine = pm.Bethe(**options)
    return engine.infer(scores, unmatched_left=left, unmatched_right=right)


def enumerate_all(problem):
    scores, left, right = problem
    return pm.infer(scores, "enumeration", unmatched_left=left, unmatched_right=right)


def random_tree(rng, n, spread):
    """A tree of n nodes as scores (n_left, n_right), with unmatched scores."""
    parent = [0] + [int(rng.integers(k)) for k in range(1, n)]
    depth = np.zeros(n, int)
    for k in range(1, n):
        depth[k] = depth[parent[k]] + 1
    number = np.zeros(n, int)
    for side in (0, 1):
        number[depth % 2 == side] = np.arange((depth % 2 == side).sum())
    scores = np.full(((depth % 2 == 0).sum(), (depth % 2 == 1).sum()), -np.inf)
    for k in range(1, n):
        one, other = (k, parent[k]) if depth[k] % 2 == 0 else (parent[k], k)
        scores[number[one], number[other]] = spread * rng.normal()
    return (
        scores,
        spread * rng.normal(size=len(scores)),
        spread * rng.normal(size=scores.shape[1]),
    )


@pytest.mark.parametrize("spread", [0.0, 1.0, 10.0, 300.0])
def test_trees_are_exact(rng, spread):
    for n in range(2, 14):
        problem = random_tree(rng, n, spread)
        found, exact = solve(problem), enumerate_all(problem)
        assert found.log_partition == pytest.approx(exact.log_partition, abs=1e-9)
        np.testing.assert_allclose(found.marginals, exact.marginals, atol=1e-9)
        np.testing.assert_allclose(found.unmatched_left, exact.unmatched_left, atol=1e-9)
        np.testing.assert_allclose(found.unmatched_right, exact.unmatched_right, atol=1e-9)
        assert found.diagnostics.is_converged
        assert not found.is_exact


@pytest.mark.parametrize("must", [PARTIAL, MIXED])
@pytest.mark.parametrize("spread", [0.5, 2.0, 5.0, 300.0])
def test_interval_holds_and_value_is_a_lower_bound(rng, spread, must):
    for _ in range(50):
        n, k = rng.integers(1, 7, 2)
        problem = random_problem(rng, n, k, spread, 0.3, must)
        found, exact = solve(problem), enumerate_all(problem)
        low, high = found.diagnostics.interval
        assert low <= exact.log_partition <= high
        assert found.diagnostics.interval_certificate == "rigorous"
        assert found.diagnostics.certificate == "heuristic"
        if must == PARTIAL:
            assert low == pytest.approx(found.log_partition, abs=1e-6)
            assert found.diagnostics.is_converged


def test_marginals_are_close_to_the_truth(rng):
    errors_ = []
    for _ in range(40):
        problem = random_problem(rng, 6, 6, 1.0, 0.4)
        found, exact = solve(problem), enumerate_all(problem)
        errors_.append(np.abs(found.marginals - exact.marginals).max())
    assert np.median(errors_) < 0.02
    assert max(errors_) < 0.1


@given(problem=partial_problems(), shift=st.floats(-100, 100))
def test_laws(problem, shift):
    scores, left, right = problem
    found = solve(problem)
    if not found.diagnostics.is_converged:
        return
    rows = found.marginals.sum(axis=1) + found.unmatched_left
    cols = found.marginals.sum(axis=0) + found.unmatched_right
    np.testing.assert_allclose(rows, 1, atol=1e-6)
    np.testing.assert_allclose(cols, 1, atol=1e-6)
    other = solve((scores.T, right, left))
    assert found.log_partition == pytest.approx(other.log_partition, abs=1e-6)
    np.testing.assert_allclose(found.marginals, other.marginals.T, atol=1e-5)
    if len(left):
        more, moved = scores.copy(), left.copy()
        more[0] += shift
        moved[0] += shift
        other = solve((more, moved, right))
        assert other.log_partition == pytest.approx(found.log_partition + shift, abs=1e-6)


def test_high_odds_settle_quickly(rng):
    for height in (10.0, 30.0, 100.0):
        scores = height + 0.5 * rng.normal(size=(40, 40))
        found = solve((scores, 0.0, 0.0))
        assert found.diagnostics.is_converged
        # Without the links that both sides expect, this takes hundreds of sweeps.
        assert "after" in found.diagnostics.notes[0]
        assert int(found.diagnostics.notes[0].split()[-2]) < 60


def test_where_all_must_be_matched_values_agree_with_the_dense_kernel(rng):
    scores = np.where(rng.random((20, 20)) < 0.3, rng.normal(size=(20, 20)), -np.inf)
    scores[np.arange(20), rng.permutation(20)] = 0.0
    scores[0, 1:] = -np.inf  # so some edges lie in no matching
    scores[0, 0] = 1.0
    problem, _ = check_problem(scores)
    found = beliefs(problem, tol=1e-10)
    dense = pm.Bethe(tol=1e-10).infer(scores)
    assert found.log_partition[0] == pytest.approx(dense.log_partition, abs=1e-6)
    laid = dense.marginals[problem.structure.left, problem.structure.right]
    np.testing.assert_allclose(found.marginals, laid, atol=1e-6)
    # Left node 0 takes right node 0.
    assert found.marginals[(problem.structure.right == 0)][1:].max() == 0.0


def test_edges_that_lie_in_no_matching_have_no_belief():
    # Left nodes 0 and 1 must have both right nodes 0 and 1; the edge (2, 0) is in vain.
    scores = np.array([[0.0, 1.0, -np.inf], [0.5, 0.0, -np.inf], [3.0, -np.inf, 0.0]])
    left = np.array([-np.inf, -np.inf, 0.0])
    found = solve((scores, left, 0.0))
    assert found.marginals[2, 0] == 0.0
    assert found.diagnostics.is_converged


def many_components(rng, n):
    """Thousands of components of all shapes as one problem."""
    left, right, n_left, n_right = [], [], 0, 0
    for _ in range(n):
        a, b = rng.integers(1, 5, 2)
        is_edge = rng.random((a, b)) < 0.6
        rows, cols = np.nonzero(is_edge)
        left.append(rows + n_left)
        right.append(cols + n_right)
        n_left, n_right = n_left + a, n_right + b
    left, right = np.concatenate(left), np.concatenate(right)
    return EdgeScores(left, right, rng.normal(size=len(left)), n_left, n_right)


def test_thousands_of_components_do_not_depend_on_threads(rng):
    edges = many_components(rng, 6000)
    one, four = (
        pm.Bethe().infer(edges, unmatched_left=0.0, unmatched_right=-1.0, n_jobs=n)
        for n in (1, 4)
    )
    np.testing.assert_array_equal(one.marginals, four.marginals)
    np.testing.assert_array_equal(one.unmatched_right, four.unmatched_right)
    assert one.log_partition == four.log_partition
    rows = np.bincount(edges.left, one.marginals, edges.n_left) + one.unmatched_left
    np.testing.assert_allclose(rows, 1, atol=1e-7)


def test_components_add_up(rng):
    problems = [random_problem(rng, *rng.integers(1, 4, 2), must=MIXED) for _ in range(30)]
    found = pm.Bethe().infer(
        [p[0] for p in problems],
        unmatched_left=[p[1] for p in problems],
        unmatched_right=[p[2] for p in problems],
    )
    for k, problem in enumerate(problems):
        single = solve(problem)
        assert found.log_partition[k] == pytest.approx(single.log_partition, abs=1e-6)
        np.testing.assert_allclose(found.marginals[k], single.marginals, atol=1e-5)


def test_too_few_sweeps_are_reported(rng):
    problem = random_problem(rng, 6, 6, forbidden=0.0)
    found = solve(problem, max_iter=2, bounds=False)
    assert not found.diagnostics.is_converged
    assert found.diagnostics.interval is None
    low, _ = solve(problem, max_iter=2).diagnostics.interval
    assert low <= enumerate_all(problem).log_partition


def test_huge_scores(rng):
    scores, left, right = random_problem(rng, 4, 5, 1e200)
    found, exact = solve((scores, left, right)), enumerate_all((scores, left, right))
    assert found.log_partition == pytest.approx(exact.log_partition, rel=1e-12)
    np.testing.assert_allclose(found.marginals, exact.marginals, atol=1e-9)
