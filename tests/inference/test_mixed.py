"""`auto` on problems: narrow components exactly, wide ones with honest errors."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import permatch as pm
from permatch._parallel import Allowance, Job
from permatch.inference.base import Goal
from permatch.inference.mixed import choose, combine
from permatch.scores import check_problem
from tests.helpers import random_problem, random_scores


def side_by_side(*blocks):
    """One block-diagonal score matrix."""
    whole = np.full([sum(b.shape[s] for b in blocks) for s in (0, 1)], -np.inf)
    row = col = 0
    for block in blocks:
        whole[row : row + block.shape[0], col : col + block.shape[1]] = block
        row, col = row + block.shape[0], col + block.shape[1]
    return whole


def chosen(scores, left=None, right=None, **options):
    engine = pm.AutoEngine(**options)
    problem, _ = check_problem(scores, left, right)
    choice = choose(problem, engine.exact_size, engine.budget)
    return {e.name: len(places) for e, places in choice.groups}, len(choice.wide)


def test_every_component_has_the_cheapest_engine(rng):
    blocks = [rng.normal(size=(m, m)) for m in (3, 3, 14)]
    long = np.where(np.abs(np.subtract.outer(range(60), range(60))) < 3, 0.0, -np.inf)
    whole = side_by_side(*blocks, long)
    assert chosen(whole) == ({"small_batch": 2, "glynn": 1, "frontier": 1}, 0)
    assert chosen(whole, 0.0, 0.0) == ({"frontier": 4}, 0)
    assert chosen(whole, 0.0, 0.0, exact_size=8) == ({"frontier": 3}, 1)


def test_components_of_all_kinds_join(rng):
    blocks = [rng.normal(size=(m, m)) for m in (3, 5, 12)]
    whole = side_by_side(*blocks)
    found = pm.infer(sparse.csr_array(np.where(np.isfinite(whole), whole, 0.0)))
    apart = [pm.infer(block) for block in blocks]
    assert found.is_exact
    assert found.log_partition == pytest.approx(sum(one.log_partition for one in apart))
    np.testing.assert_allclose(
        found.marginals.toarray(),
        np.where(np.isfinite(whole), side_by_side(*(a.marginals for a in apart)), 0.0),
        atol=1e-12,
    )
    assert {part.engine for part in found.diagnostics.parts} == {"small_batch", "glynn"}


def test_a_band_of_perfect_matchings_is_exact(rng):
    size = 60
    is_near = np.abs(np.subtract.outer(range(size), range(size))) <= 4
    scores = np.where(is_near, 3 * rng.normal(size=(size, size)), -np.inf)
    found = pm.infer(scores)
    assert found.is_exact
    assert found.diagnostics.engine == "frontier"
    np.testing.assert_allclose(found.marginals.sum(axis=0), 1, atol=1e-12)
    np.testing.assert_allclose(found.unmatched_left, 0.0, atol=1e-12)
    bethe = pm.infer(scores, "bethe")
    low, high = bethe.diagnostics.interval
    assert low <= found.log_partition <= high


@pytest.mark.parametrize("must", [0.0, 0.3])
@pytest.mark.parametrize("spread", [0.5, 2.0])
def test_errors_of_wide_components_cover_the_truth(spread, must, rng):
    problem = random_problem(rng, 12, 14, spread, forbidden=0.5, must=must)
    sides = {"unmatched_left": problem[1], "unmatched_right": problem[2]}
    exact = pm.infer(problem[0], "frontier", **sides)
    engine = pm.AutoEngine(exact_size=2, tol=0.03, budget=None)
    found = engine.infer(problem[0], unmatched_left=problem[1], unmatched_right=problem[2])
    assert not found.is_exact
    assert found.diagnostics.is_converged
    off = np.abs(found.marginals - exact.marginals)
    assert off.max() <= 0.03
    assert (off <= 5 * np.nan_to_num(found.marginal_errors, nan=np.inf) + 1e-9).all()
    if found.marginal_bounds is not None:
        low, high = found.marginal_bounds
        assert (low <= exact.marginals + 1e-12).all()
        assert (exact.marginals <= high + 1e-12).all()


def test_the_graph_that_cannot_be_matched_is_named(rng):
    fine, bad = random_scores(rng, 4), np.zeros((3, 3))
    bad[1:, 1:] = -np.inf
    with pytest.raises(pm.errors.InfeasibleGraphError, match="graph 1"):
        pm.infer([pm.EdgeScores([0], [0], [0.0]), bad, fine])


def test_threads_make_no_difference(rng):
    problems = [random_problem(rng, 5, 6, 2.0) for _ in range(30)]
    args = {
        "unmatched_left": [p[1] for p in problems],
        "unmatched_right": [p[2] for p in problems],
    }
    one = pm.infer([p[0] for p in problems], **args)
    two = pm.infer([p[0] for p in problems], n_jobs=2, **args)
    assert (one.log_partition == two.log_partition).all()
    for a, b in zip(one.marginals, two.marginals, strict=True):
        assert (a == b).all()


def test_a_tolerance_that_is_missed_is_told_of_the_right_graph(rng):
    wide = rng.normal(size=(40, 40))
    engine = pm.AutoEngine(tol=1e-6, budget=0.05)
    with pytest.warns(RuntimeWarning, match=r"tol=1e-06 for graph 1 of size 40"):
        found = engine.infer(
            [np.zeros((2, 3)), wide], unmatched_left=0.0, unmatched_right=0.0
        )
    assert not found.is_exact
    assert not found.diagnostics.is_converged


def test_the_log_partition_is_that_of_the_smaller_error(rng):
    scores, left, right = random_problem(rng, 5, 5, 1.0, 0.0)
    problem, _ = check_problem(scores, left, right)
    goal = Goal(0.01, 0.05, 0, Allowance(None))
    rough = pm.PathTree(tol=0.5).infer_problem(problem, Job())
    fine = pm.Nesting(tol=None).infer_problem(problem, Job())
    assert fine.log_partition_error[0] < rough.log_partition_error[0]
    for pair in ((rough, fine), (fine, rough)):
        both = combine(*pair, goal)
        assert both.log_partition[0] == fine.log_partition[0]
        assert both.log_partition_error[0] == fine.log_partition_error[0]
    unknown = replace(fine, log_partition_error=np.array([np.nan]))
    assert combine(unknown, rough, goal).log_partition[0] == rough.log_partition[0]
