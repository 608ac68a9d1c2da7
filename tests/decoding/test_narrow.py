"""The k best matchings of narrow components, against brute force and Murty's algorithm."""

import numpy as np
import pytest

import permatch as pm
from permatch.assignment import best_assignment
from permatch.decoding.narrow import best_of_narrow, second_losses
from permatch.kernels.frontier_plan import frontier_plan
from permatch.scores import check_problem
from tests.brute_force import all_matchings, random_problem


def reduced_problem(*problem):
    checked, _ = check_problem(*problem)
    return best_assignment(checked).reduced, frontier_plan(checked.structure)


def test_against_brute_force():
    rng = np.random.default_rng(2)
    n_tried = 0
    while n_tried < 40:
        problem = random_problem(rng)
        reduced, plan = reduced_problem(*problem)
        if len(plan.width) != 1:
            continue
        n_tried += 1
        matchings, totals = all_matchings(*problem)
        losses = np.sort(totals.max() - totals)
        nodes, found, excess = best_of_narrow(reduced, plan, 0, 30)
        np.testing.assert_allclose(excess, losses[:30], rtol=0, atol=1e-12)
        assert len({tuple(row) for row in found.tolist()}) == len(found)
        known = {
            tuple(row): total for row, total in zip(matchings.tolist(), totals, strict=True)
        }
        whole = np.full((len(found), len(problem[1])), -1)
        whole[:, nodes] = found
        own = [totals.max() - known[tuple(row)] for row in whole.tolist()]
        np.testing.assert_allclose(own, excess, rtol=0, atol=1e-12)
        gap = second_losses(reduced, plan, np.array([0]))[0]
        assert gap == pytest.approx(losses[1] if len(losses) > 1 else np.inf, abs=1e-12)


@pytest.mark.parametrize("shape", [(7, 7), (9, 6), (6, 9)])
def test_against_murty(rng, shape, monkeypatch):
    scores = np.where(rng.random(shape) < 0.8, rng.normal(size=shape), -np.inf)
    narrow = pm.k_best(scores, 200, unmatched_left=0.0, unmatched_right=-0.5)
    monkeypatch.setattr("permatch.decoding.narrow._MOST_OPEN", -1)
    other = pm.k_best(scores, 200, unmatched_left=0.0, unmatched_right=-0.5)
    np.testing.assert_allclose(narrow.scores, other.scores, rtol=0, atol=1e-11)
    np.testing.assert_array_equal(narrow.matchings, other.matchings)


def test_components_of_both_kinds(rng, monkeypatch):
    """Wide components by Murty's algorithm, narrow ones by the frontier, and their sums."""
    scores = np.full((14, 14), -np.inf)
    for first, last in ((0, 3), (3, 5), (5, 9), (9, 14)):
        scores[first:last, first:last] = rng.normal(size=(last - first,) * 2)
    narrow = pm.k_best(scores, 60, unmatched_left=-1.0, unmatched_right=0.0)
    monkeypatch.setattr("permatch.decoding.narrow._MOST_OPEN", 3)
    mixed = pm.k_best(scores, 60, unmatched_left=-1.0, unmatched_right=0.0)
    np.testing.assert_allclose(narrow.scores, mixed.scores, rtol=0, atol=1e-11)
    np.testing.assert_array_equal(narrow.matchings, mixed.matchings)


def test_a_long_band_and_many_components(rng):
    n = 300
    far = np.abs(np.subtract.outer(np.arange(n), np.arange(n))) > 2
    scores = np.where(far, -np.inf, rng.normal(size=(n, n)))
    best = pm.k_best(scores, 50, unmatched_left=0.0, unmatched_right=0.0)
    problem, _ = check_problem(scores, 0.0, 0.0)
    assert best.scores[0] == pytest.approx(best_assignment(problem).scores[0], abs=1e-9)
    assert (np.diff(best.scores) <= 0).all()
    assert len({tuple(row) for row in best.matchings.tolist()}) == 50
    pairs = pm.EdgeScores(np.arange(n), np.arange(n), rng.normal(size=n))
    apart = pm.k_best(pairs, 20, unmatched_left=0.0, unmatched_right=0.0)
    assert (np.diff(apart.scores) <= 0).all()
    # Each departure from the best turns some edges around, the cheapest first.
    costs = np.sort(np.abs(pairs.score))
    np.testing.assert_allclose(apart.scores[0] - apart.scores[1:3], costs[:2], atol=1e-9)
