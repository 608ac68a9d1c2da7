"""Decoding of problems: sparse, of any shape, with nodes that may stay unmatched."""

import itertools

import numpy as np
import pytest
from scipy import sparse

import permatch as pm
from permatch.decoding.bayes import bayes_assignment
from permatch.errors import InvalidOptionError, ScoreShapeError
from permatch.scores import check_problem
from tests.brute_force import all_matchings, random_problem

TOL = 1e-9


def unmatched(parts):
    return {"unmatched_left": parts[1], "unmatched_right": parts[2]}


def as_edges(scores):
    left, right = np.nonzero(scores > -np.inf)
    return pm.EdgeScores(left, right, scores[left, right], *scores.shape)


@pytest.mark.parametrize("seed", range(4))
def test_k_best_of_all_matchings(seed):
    rng = np.random.default_rng(seed)
    for trial in range(60):
        parts = random_problem(rng)
        if trial % 3 == 0:  # ties
            parts = [np.round(part) for part in parts]
        matchings, totals = all_matchings(*parts)
        k = int(rng.integers(1, 40))
        best = pm.k_best(parts[0], k, **unmatched(parts))
        assert len(best.scores) == min(k, len(totals))
        np.testing.assert_allclose(best.scores, -np.sort(-totals)[:k], atol=TOL)
        found = dict(zip(map(tuple, matchings), totals, strict=True))
        own = [found[tuple(matching)] for matching in best.matchings]
        np.testing.assert_allclose(own, best.scores, atol=TOL)
        assert len(set(map(tuple, best.matchings))) == len(own)
        mode = pm.best_matching(parts[0], **unmatched(parts))
        np.testing.assert_array_equal(best.matchings[0], mode)


def test_k_best_over_many_components(rng):
    # Pairs apart: the k best depart from the best one where that costs least.
    gaps = rng.permutation(60) + 1.0
    best = pm.k_best(as_edges(np.where(np.eye(60) > 0, gaps, -np.inf)), 5, **zeros())
    np.testing.assert_array_equal(best.scores, gaps.sum() - np.array([0, 1, 2, 3, 3]))
    is_dropped = best.matchings < 0
    assert is_dropped.sum(axis=1).tolist() in ([0, 1, 1, 1, 2], [0, 1, 1, 2, 1])


def zeros():
    return {"unmatched_left": 0.0, "unmatched_right": 0.0}


def test_k_best_takes_one_graph():
    with pytest.raises(ScoreShapeError, match="one graph; got 2"):
        pm.k_best([np.zeros((2, 2)), np.zeros((3, 3))], 1)


def test_every_form_gives_the_same_matching(rng):
    for _ in range(20):
        parts = random_problem(rng)
        expected = pm.best_matching(parts[0], **unmatched(parts))
        edges = as_edges(parts[0])
        rows = sparse.coo_array((edges.score, (edges.left, edges.right)), parts[0].shape)
        for form in (edges, rows, rows.tocsr()):
            found = pm.best_matching(form, **unmatched(parts))
            np.testing.assert_array_equal(found, expected)
    several = pm.best_matching([edges, np.zeros((1, 3))], unmatched_left=[parts[1], 0.0],
                               unmatched_right=[parts[2], 0.0])  # fmt: skip
    np.testing.assert_array_equal(several[0], expected)
    assert several[1].shape == (1,)
    assert pm.best_matching(np.zeros((4, 2, 3))).shape == (4, 2)


def marginals_of(parts):
    """Marginals, unmatched probabilities, matchings and their probabilities."""
    matchings, totals = all_matchings(*parts)
    weights = np.exp(totals - totals.max())
    weights /= weights.sum()
    n, k = parts[0].shape
    links = np.array([[weights[matchings[:, i] == j].sum() for j in range(k)]
                      for i in range(n)]).reshape(n, k)  # fmt: skip
    return links, 1 - links.sum(axis=1), 1 - links.sum(axis=0), matchings, weights


def expected_loss(decision, costs, matchings, weights):
    loss = 0.0
    for i, j in enumerate(decision):
        partner = matchings[:, i]
        if j == pm.ABSTAINED:
            loss += costs.abstain
        elif j < 0:
            loss += costs.missed * weights[partner >= 0].sum()
        else:
            loss += costs.false * weights[partner < 0].sum()
            loss += costs.wrong * weights[(partner >= 0) & (partner != j)].sum()
    return loss


@pytest.mark.parametrize(
    "costs",
    [
        pm.LinkCosts(),
        pm.LinkCosts(missed=3.0, false=0.5, wrong=1.0),
        pm.LinkCosts(false=4.0, wrong=4.0, abstain=0.3),
        pm.LinkCosts(abstain=0.05),
    ],
    ids=str,
)
def test_the_least_expected_cost_of_all_decisions(costs, rng):
    for _ in range(25):
        parts = random_problem(rng, largest=3, spread=1.0)
        links, left, right, matchings, weights = marginals_of(parts)
        n, k = parts[0].shape
        found = pm.bayes_matching(
            np.where(parts[0] > -np.inf, links, -np.inf),
            unmatched_left=left, unmatched_right=right, costs=costs,
        )  # fmt: skip
        is_allowed = np.where(parts[0] > -np.inf, 0.0, -np.inf)
        choices, _ = all_matchings(is_allowed, np.zeros(n), np.zeros(k))
        if costs.abstain is not None:
            masks = list(itertools.product([False, True], repeat=n))
            choices = [
                np.where(np.array(mask, dtype=bool) & (y < 0), pm.ABSTAINED, y)
                for y in choices
                for mask in masks
            ]
        least = min(expected_loss(y, costs, matchings, weights) for y in choices)
        own = expected_loss(found, costs, matchings, weights)
        assert own == pytest.approx(least, abs=1e-9)


def test_the_fewest_expected_errors(rng):
    for _ in range(40):
        parts = random_problem(rng)
        links, left, right, matchings, weights = marginals_of(parts)
        found = bayes_assignment(check_problem(*parts)[0], links[parts[0] > -np.inf], left)
        errors = [(weights @ (matchings != y)).sum() for y in matchings]
        own = (weights @ (matchings != found)).sum()
        assert (matchings == found).all(axis=1).any()
        assert own == pytest.approx(min(errors), abs=1e-9)


def test_larger_sides_leave_nodes_over():
    marginals = np.array([[0.7, 0.2, 0.1], [0.2, 0.1, 0.7]])
    assert pm.bayes_matching(marginals).tolist() == [0, 2]
    assert pm.bayes_matching(marginals.T).tolist() == [0, -1, 1]
    assert pm.bayes_matching(as_edges(marginals)).tolist() == [0, 2]


@pytest.mark.parametrize("field", ["missed", "false", "wrong", "abstain"])
@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf, "1", True])
def test_costs_are_checked(field, value):
    with pytest.raises(InvalidOptionError, match=f"{field} of LinkCosts must be a number"):
        pm.LinkCosts(**{field: value})


def test_abstention_that_costs_as_much_as_missing_never_pays():
    links = np.full((1, 1), 0.5)
    half = {"unmatched_left": 0.5, "unmatched_right": 0.5}
    costs = pm.LinkCosts(false=9.0, abstain=1.0)
    assert pm.bayes_matching(links, **half, costs=costs).tolist() == [-1]
    costs = pm.LinkCosts(false=9.0, abstain=0.49)
    assert pm.bayes_matching(links, **half, costs=costs).tolist() == [pm.ABSTAINED]


def test_costs_are_link_costs():
    with pytest.raises(InvalidOptionError, match=r"LinkCosts\(...\) or None; got \(1, 1\)"):
        pm.bayes_matching([[1.0]], costs=(1, 1))
