"""Importance sampling on the edges of sparse, rectangular and partial problems."""

import numpy as np
import pytest

import permatch as pm
from permatch.inference.base import Job
from permatch.inference.enumeration import list_matchings
from permatch.inference.sampling.edge_filters import EdgeFilters, Walk
from permatch.kernels.edge_filter import run_filters
from permatch.scores import EdgeScores, check_problem
from tests.helpers import random_problem
from tests.inference.test_bethe_problems import (
    enumerate_all,
    many_components,
    random_tree,
)
from tests.inference.test_edge_chain import weights_of


def solve(problem, **options):
    scores, left, right = problem
    engine = pm.Nesting(**{"tol": None, **options})
    return engine.infer(scores, unmatched_left=left, unmatched_right=right)


@pytest.mark.parametrize("must", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("spread", [0.5, 2.0, 5.0, 20.0])
def test_within_the_errors_reported(rng, spread, must):
    scaled, logs = [], []
    for k in range(8):
        problem = random_problem(rng, *rng.integers(3, 6, 2), spread, 0.2, must)
        found, exact = solve(problem, random_state=k), enumerate_all(problem)
        if found.is_exact or "filters" not in found.diagnostics.notes[0]:
            continue  # trees, and perfect matchings, which are drawn otherwise
        # Errors of what few draws have shown are rough.
        is_open = (found.marginal_errors > 0) & (exact.marginals > 0.01)
        gaps = found.marginals - exact.marginals
        assert np.abs(gaps[~is_open]).max(initial=0) < 0.005
        scaled.extend(gaps[is_open] / found.marginal_errors[is_open])
        gap = found.log_partition - exact.log_partition
        logs.append(gap / found.log_partition_error)
        np.testing.assert_allclose(found.unmatched_left, exact.unmatched_left, atol=0.03)
        np.testing.assert_allclose(found.unmatched_right, exact.unmatched_right, atol=0.03)
        assert found.diagnostics.certificate == "asymptotic"
    assert np.abs(scaled).max(initial=0) < 4.5
    assert np.abs(logs).max(initial=0) < 4.5
    assert np.sqrt(np.mean(np.square(scaled))) < 2.0  # edges of a graph err together


@pytest.mark.parametrize("must", [0.0, 0.6])
def test_spread_of_300(rng, must):
    for k in range(4):
        problem = random_problem(rng, 5, 5, 300.0, 0.2, must)
        found, exact = solve(problem, random_state=k), enumerate_all(problem)
        reach = 4.0 * (0.0 if found.is_exact else found.marginal_errors) + 1e-9
        assert (np.abs(found.marginals - exact.marginals) <= reach).all()
        assert found.log_partition == pytest.approx(exact.log_partition, abs=0.02)


def components(scores, left, right):
    problem, _ = check_problem(scores, left, right)
    return problem.select(np.arange(len(problem.structure.components)))


@pytest.mark.parametrize("must", [0.0, 0.5])
def test_weights_are_those_of_the_matchings(rng, must):
    """With one particle: the weight of a draw is the same whenever its matching is."""
    scores, left, right = random_problem(rng, 4, 4, 1.0, 0.0, must)
    part = components(scores, left, right)
    problem = part.problem
    matchings = list_matchings(problem)
    walk = Walk.over(problem, np.arange(problem.structure.n_edges), Job())
    seen = {}
    total = np.zeros(len(matchings))
    place = {tuple(m): k for k, m in enumerate(matchings.tolist())}
    n = 20_000
    for k in range(n):
        stream = np.random.SeedSequence([7, k]).generate_state(4, np.uint64)[None]
        logs, effective = np.zeros(1), np.zeros(1)
        shares = np.zeros(problem.structure.n_edges)
        run_filters(
            walk.plan, np.ones(1, np.int64), stream, np.arange(1), logs, effective, shares
        )
        if logs[0] == -np.inf:
            continue
        chosen = np.full(problem.structure.n_left, -1)
        used = np.nonzero(shares)[0]
        chosen[problem.structure.left[used]] = used
        where = place[tuple(chosen.tolist())]
        assert seen.setdefault(where, logs[0]) == pytest.approx(logs[0], abs=1e-9)
        total[where] += np.exp(logs[0] - 10.0) / n
    exact = weights_of(problem, matchings)
    scale = np.exp(enumerate_all((scores, left, right)).log_partition - 10.0)
    # Draws of a matching times its weight: its share of the partition function.
    often = exact > 0.02
    np.testing.assert_allclose(total[often] / scale, exact[often], rtol=0.25)
    assert total.sum() == pytest.approx(scale, rel=0.05)


@pytest.mark.parametrize("kind", ["tree", "path"])
def test_trees_are_exact(rng, kind):
    problem = random_tree(rng, 12, 2.0)
    found, exact = solve(problem), enumerate_all(problem)
    assert found.is_exact
    assert found.log_partition == pytest.approx(exact.log_partition, abs=1e-10)
    np.testing.assert_allclose(found.marginals, exact.marginals, atol=1e-10)


def test_blocks_that_are_all_but_matched_are_not_missed():
    # Belief propagation gives the second best matching next to no probability.
    scores = np.array([[10.0, 8.5], [8.5, 10.0]])
    found, exact = solve((scores, 0.0, 0.0)), enumerate_all((scores, 0.0, 0.0))
    gaps = np.abs(found.marginals - exact.marginals)
    assert (gaps < 4.0 * found.marginal_errors).all()
    assert exact.marginals[0, 1] > 0.04
    assert (
        pm.Bethe().infer(scores, unmatched_left=0.0, unmatched_right=0.0).marginals[0, 1]
        < 1e-3
    )


def test_large_sparse_graphs(rng):
    codes = np.unique(rng.integers(0, 400 * 400, 1600))
    edges = EdgeScores(codes // 400, codes % 400, 2 * rng.normal(size=len(codes)) - 1)
    found = pm.Nesting(tol=None).infer(edges, unmatched_left=0.0, unmatched_right=0.0)
    other = pm.Bethe().infer(edges, unmatched_left=0.0, unmatched_right=0.0)
    assert found.diagnostics.certificate == "asymptotic"
    assert found.log_partition_error < 0.1
    assert abs(found.log_partition - other.log_partition) < 0.5
    assert np.abs(found.marginals - other.marginals).max() < 0.25


def test_threads_and_seeds(rng):
    edges = many_components(rng, 300)
    sides = {"unmatched_left": 0.0, "unmatched_right": 0.5}
    engine = pm.Nesting(n_samples=2000)
    one, four = (engine.infer(edges, n_jobs=n, **sides) for n in (1, 4))
    other = pm.Nesting(n_samples=2000, random_state=1).infer(edges, **sides)
    np.testing.assert_array_equal(one.marginals, four.marginals)
    assert one.log_partition == four.log_partition
    assert (one.marginals != other.marginals).any()
    exact = pm.infer(edges, "enumeration", **sides)
    gap = (one.log_partition - exact.log_partition) / one.log_partition_error
    assert abs(gap) < 3.5


def test_tolerance_budget_and_limit(rng):
    problem = random_problem(rng, 5, 5, 1.0, 0.0)
    rough, fine = solve(problem), solve(problem, tol=0.01)
    assert fine.marginal_errors.max() < 0.004 < rough.marginal_errors.max()
    assert fine.diagnostics.is_converged
    limited = solve(problem, tol=1e-6, max_samples=20_000)
    assert not limited.diagnostics.is_converged
    assert limited.diagnostics.n_samples <= 20_000
    hasty = solve(problem, tol=1e-6, budget=0.05)
    assert not hasty.diagnostics.is_converged


def test_few_draws_are_not_trusted(rng):
    found = solve(random_problem(rng, 5, 5, 1.0, 0.0), n_samples=32)
    assert found.diagnostics.certificate == "heuristic"


def test_without_the_walk_over_right_nodes(rng):
    problem = random_problem(rng, 4, 5, 1.0, 0.0)
    found, exact = solve(problem, transpose_check=False), enumerate_all(problem)
    gap = found.log_partition - exact.log_partition
    assert abs(gap) < 4 * found.log_partition_error
    np.testing.assert_allclose(found.marginals, exact.marginals, atol=0.03)


def test_sides_that_disagree_are_reported(rng):
    part = components(*random_problem(rng, 4, 4, 1.0, 0.0))
    filters = EdgeFilters(part.problem, 0, True, 0, Job())
    filters.run(8, np.arange(1))
    assert filters.is_even().all()
    filters.sides[1].reference += 0.5
    assert not filters.is_even().any()


def test_rigorous_interval_holds(rng):
    problem = random_problem(rng, 4, 5, 1.0, 0.0)
    found, exact = solve(problem, certificate="rigorous"), enumerate_all(problem)
    low, high = found.diagnostics.interval
    assert low <= exact.log_partition <= high
    assert found.diagnostics.interval_certificate == "rigorous"
    assert found.diagnostics.is_converged == (high - low <= 0.2)
