"""Best matchings of problems against enumeration, and the laws of their prices."""

import numpy as np
import pytest

from permatch.assignment import best_assignment
from permatch.errors import InfeasibleGraphError
from permatch.problems import Problem
from permatch.scores import EdgeScores, check_problem
from tests.brute_force import all_matchings, random_problem

TOL = 1e-9


def check_prices(problem, best):
    """Prices bound all scores, and what the matching uses has no slack."""
    structure, reduced = problem.structure, best.reduced
    gap = best.alpha[structure.left] + best.beta[structure.right] - problem.scores
    assert (gap >= -TOL).all()
    assert (best.alpha >= problem.unmatched_left - TOL).all()
    assert (best.beta >= problem.unmatched_right - TOL).all()
    np.testing.assert_allclose(reduced.scores, -gap, atol=TOL)
    is_used = best.matching[structure.left] == structure.right
    is_left_over = np.isin(np.arange(structure.n_right), best.matching, invert=True)
    assert (reduced.scores[is_used] == 0.0).all()
    assert (reduced.unmatched_left[best.matching < 0] == 0.0).all()
    assert (reduced.unmatched_right[is_left_over] == 0.0).all()
    for values in (reduced.scores, reduced.unmatched_left, reduced.unmatched_right):
        assert (values <= 0.0).all()
    assert best.scores.sum() == pytest.approx(best.alpha.sum() + best.beta.sum())


@pytest.mark.parametrize("seed", range(5))
def test_the_best_of_all_matchings(seed):
    rng = np.random.default_rng(seed)
    n_infeasible = 0
    for k in range(150):
        parts = random_problem(rng, is_feasible=False)
        if k % 3 == 0:  # ties
            parts = [np.round(part) for part in parts]
        matchings, totals = all_matchings(*parts)
        if not len(totals):
            n_infeasible += 1
            with pytest.raises(InfeasibleGraphError, match="must be matched"):
                best_assignment(check_problem(*parts)[0])
            continue
        problem, _ = check_problem(*parts)
        best = best_assignment(problem)
        assert best.scores[0] == pytest.approx(totals.max(), abs=TOL)
        place = (matchings == best.matching).all(axis=1)
        assert totals[place] == pytest.approx(totals.max(), abs=TOL)
        check_prices(problem, best)
    assert 10 < n_infeasible < 140


def random_sparse(rng, n, k, n_edges, mean):
    pairs = np.unique(rng.integers(0, n * k, n_edges))
    return EdgeScores(pairs // k, pairs % k, rng.normal(mean, 2, len(pairs)), n, k)


@pytest.mark.parametrize("mean", [-1.0, 3.0, 20.0])
def test_prices_prove_large_graphs(rng, mean):
    edges = random_sparse(rng, 300, 250, 900, mean)
    problem, _ = check_problem(edges, rng.normal(size=300), 0.0)
    check_prices(problem, best_assignment(problem))


def test_all_graphs_at_once(rng):
    some = [random_problem(rng) for _ in range(40)]
    scores, left, right = (list(part) for part in zip(*some, strict=True))
    problem, _ = check_problem(scores, left, right)
    best = best_assignment(problem)
    check_prices(problem, best)
    for g, parts in enumerate(some):
        assert best.scores[g] == pytest.approx(all_matchings(*parts)[1].max(), abs=TOL)


def test_an_infeasible_graph_is_named():
    # Two left nodes of graph 1 compete for one right node.
    scores = [np.zeros((1, 1)), np.array([[0.0, -np.inf], [0.0, -np.inf]])]
    problem, _ = check_problem(scores, -np.inf, 0.0)
    with pytest.raises(InfeasibleGraphError, match=r"graph 1 \(2 x 2, 2 edges\).*left"):
        best_assignment(problem)
    one, _ = check_problem(scores[1], -np.inf, 0.0)
    with pytest.raises(InfeasibleGraphError, match="this graph"):
        best_assignment(one)
    with pytest.raises(InfeasibleGraphError, match=r"unmatched_right a finite score"):
        best_assignment(one.transposed())
    nothing_left = one.kept(np.array([True, False]))
    with pytest.raises(InfeasibleGraphError, match="left node 1 finds no partner"):
        best_assignment(nothing_left)


def test_offsets_lose_no_digits(rng):
    # Multiples of 1/16 are exact beside 1e12, so the shifted problem is the same problem.
    for _ in range(50):
        scores, left, right = (
            np.round(part * 16) / 16 for part in random_problem(rng, largest=5)
        )
        rows = rng.integers(-100, 100, len(left)) * 1e10
        cols = rng.integers(-100, 100, len(right)) * 1e10
        plain = best_assignment(check_problem(scores, left, right)[0])
        shifted = best_assignment(
            check_problem(scores + rows[:, None] + cols, left + rows, right + cols)[0]
        )
        totals = dict(zip(*map(_as_keys, all_matchings(scores, left, right)), strict=True))
        assert totals[tuple(shifted.matching)] == plain.scores[0]
        assert (shifted.reduced.scores * 16 % 1 == 0).all()


def _as_keys(values):
    return [tuple(v) if np.ndim(v) else v for v in values]


def test_extreme_and_empty():
    scores = np.array([[1e300, -1e300], [1e300, -np.inf]])
    problem, _ = check_problem(scores)
    assert best_assignment(problem).matching.tolist() == [1, 0]
    for shape in ((0, 0), (0, 3), (3, 0), (2, 3)):
        problem, _ = check_problem(np.full(shape, -np.inf), 2.0, 5.0)
        best = best_assignment(problem)
        assert best.matching.tolist() == [-1] * shape[0]
        assert best.scores[0] == 2 * shape[0] + 5 * shape[1]


def test_sides_may_be_exchanged(rng):
    for _ in range(30):
        problem, _ = check_problem(*random_problem(rng))
        turned = best_assignment(problem.transposed())
        assert turned.scores == pytest.approx(best_assignment(problem).scores, abs=TOL)
        assert isinstance(turned.reduced, Problem)


def test_slices_make_no_difference(rng, monkeypatch):
    edges = random_sparse(rng, 60, 50, 300, 1.0)
    left, right = np.where(rng.random(60) < 0.5, -8.0, 0.0), rng.normal(size=50)
    right[:5] = -np.inf
    problem, _ = check_problem(edges, left, right)
    whole = best_assignment(problem)
    monkeypatch.setattr("permatch.assignment._FEW_EDGES", 0)
    sliced = best_assignment(problem)
    np.testing.assert_array_equal(sliced.matching, whole.matching)
    np.testing.assert_array_equal(sliced.alpha, whole.alpha)
    np.testing.assert_array_equal(sliced.reduced.scores, whole.reduced.scores)
