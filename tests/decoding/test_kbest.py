"""k best matchings against enumeration, against Murty's method on SciPy, and their laws."""

import heapq
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import linear_sum_assignment

from permatch.decoding import best_matching, k_best
from permatch.errors import InfeasibleGraphError, InvalidOptionError
from permatch.kernels import murty

# Sums of at most 50 scores up to 300: far above rounding, far below any real gap.
TOL = 1e-9

entries = st.one_of(st.floats(-300, 300), st.integers(-2, 2), st.just(-np.inf))
graphs = st.integers(1, 5).flatmap(lambda m: hnp.arrays(float, (m, m), elements=entries))

KINDS = {
    "normal": lambda rng, m: rng.normal(size=(m, m)),
    "uniform": lambda rng, m: rng.random((m, m)),
    "ties": lambda rng, m: rng.integers(0, 10, (m, m)).astype(float),
    "sparse": lambda rng, m: rng.choice([*rng.random(6), *14 * [-np.inf]], (m, m)),
    "equal": lambda rng, m: np.zeros((m, m)),
}


def totals_of(scores, matchings):
    return scores[np.arange(len(scores)), matchings].sum(axis=1)


def enumerate_totals(scores):
    """Return the scores of all perfect matchings, best first."""
    every = np.array(list(itertools.permutations(range(len(scores)))))
    totals = totals_of(scores, every)
    return np.sort(totals[totals > -np.inf])[::-1]


def murty_totals(scores, k):
    """Return the k best scores by Murty's partition, every part solved from scratch."""
    m = len(scores)

    def solve(allowed):
        try:
            masked = np.where(allowed, scores, -np.inf)
            return linear_sum_assignment(masked, maximize=True)[1]
        except ValueError:
            return None

    def push(allowed):
        matching = solve(allowed)
        if matching is not None:
            score = scores[np.arange(m), matching].sum()
            heapq.heappush(heap, (-score, next(age), matching, allowed))

    heap, age, totals = [], itertools.count(), []
    push(scores > -np.inf)
    while heap and len(totals) < k:
        cost, _, matching, allowed = heapq.heappop(heap)
        totals.append(-cost)
        for row, col in enumerate(matching):
            part = allowed.copy()
            part[row, col] = False
            push(part)
            allowed[row] = False
            allowed[:, col] = False
            allowed[row, col] = True
    return np.array(totals)


def check(scores, found, expected):
    """Assert that `found` holds distinct allowed matchings with the `expected` scores."""
    n, m = found.matchings.shape
    assert m == len(scores)
    assert found.matchings.dtype == np.intp
    assert found.scores.shape == (n,) == expected.shape
    assert (np.sort(found.matchings, axis=1) == np.arange(m)).all()
    assert len(set(map(tuple, found.matchings))) == n
    assert (np.diff(found.scores) <= 0).all()
    assert found.scores == pytest.approx(totals_of(scores, found.matchings), abs=TOL)
    assert found.scores == pytest.approx(expected, abs=TOL)


@given(graphs, st.integers(1, 150))
@settings(max_examples=150)
def test_agrees_with_enumeration(scores, k):
    expected = enumerate_totals(scores)[:k]
    if len(expected) == 0:
        with pytest.raises(InfeasibleGraphError, match="perfect matching"):
            k_best(scores, k)
    else:
        check(scores, k_best(scores, k), expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 2, 30, 720, 1000])
def test_agrees_with_enumeration_at_size_six(kind, k, rng):
    scores = KINDS[kind](rng, 6)
    np.fill_diagonal(scores, 0.0)  # one matching at least
    check(scores, k_best(scores, k), enumerate_totals(scores)[:k])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("m", "k"), [(20, 80), (50, 15)])
def test_agrees_with_fresh_solves(kind, m, k, rng):
    scores = KINDS[kind](rng, m)
    np.fill_diagonal(scores, 0.0)
    check(scores, k_best(scores, k), murty_totals(scores, k))


@pytest.mark.parametrize("kind", ["normal", "ties"])
def test_laws(kind, rng):
    scores = KINDS[kind](rng, 30)
    found = k_best(scores, 200)
    assert found.scores[0] == pytest.approx(
        totals_of(scores, best_matching(scores)[None])[0], abs=TOL
    )
    # a shorter list is a prefix, as far as scores go
    assert k_best(scores, 50).scores == pytest.approx(found.scores[:50], abs=TOL)
    # transposing and permuting rename the matchings only
    assert k_best(scores.T, 200).scores == pytest.approx(found.scores, abs=TOL)
    shuffled = rng.permutation(scores, axis=0)
    assert k_best(shuffled, 200).scores == pytest.approx(found.scores, abs=TOL)
    # a constant added to one row or one column is added to all
    scores[3] += 2.0
    scores[:, 5] -= 0.5
    assert k_best(scores, 200).scores == pytest.approx(found.scores + 1.5, abs=TOL)


def test_same_input_same_output(rng):
    scores = KINDS["ties"](rng, 25)
    first, second = k_best(scores, 300), k_best(scores, 300)
    assert (first.matchings == second.matchings).all()
    assert (first.scores == second.scores).all()


def test_input_is_not_changed(rng):
    scores = KINDS["sparse"](rng, 20)
    np.fill_diagonal(scores, 0.0)
    before = scores.copy()
    k_best(scores, 50)
    assert (scores == before).all()


@pytest.mark.parametrize("order", ["C", "F"])
def test_any_memory_layout(order, rng):
    scores = np.asarray(KINDS["normal"](rng, 12)[::-1], order=order)
    check(scores, k_best(scores, 20), murty_totals(scores, 20))


def test_large_common_offsets_lose_no_digits(rng):
    # Multiples of 1/16 are exact beside 1e12, so the shifted problem is the same problem.
    scores = rng.integers(0, 64, (12, 12)) / 16
    offset = rng.integers(-100, 100, (12, 1)) * 1e10
    found = k_best(scores + offset, 100)
    expected = murty_totals(scores, 100)
    assert (totals_of(scores, found.matchings) == expected).all()
    assert (found.scores == expected + offset.sum()).all()


def test_scores_are_rounded_once():
    scores = np.array([[1e16, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, -1e16]])
    every = k_best(scores, 6)
    exact = [math.fsum(scores[np.arange(3), matching]) for matching in every.matchings]
    assert every.scores.tolist() == exact


@pytest.mark.parametrize("m", [2, 5, 30])
def test_extreme_scores(m, rng):
    scores = rng.choice([1e300, -1e300, 1.0, -np.inf], (m, m))
    np.fill_diagonal(scores, -1e300)
    found = k_best(scores, 20)
    assert np.isfinite(found.scores).all()
    assert len(set(map(tuple, found.matchings))) == len(found.scores)
    best = math.fsum(scores[np.arange(m), best_matching(scores)])
    assert found.scores[0] == pytest.approx(best, rel=1e-12)


def test_empty_and_single():
    empty = k_best(np.empty((0, 0)), 3)
    assert empty.matchings.shape == (1, 0)
    assert empty.scores.tolist() == [0.0]
    single = k_best(np.array([[-7.0]]), 3)
    assert single.matchings.tolist() == [[0]]
    assert single.scores.tolist() == [-7.0]


def test_huge_k_takes_no_memory_when_few_matchings_exist():
    rows = np.arange(40)
    scores = np.full((40, 40), -np.inf)
    scores[rows, rows] = 0.0
    scores[rows, rows ^ 1] = np.where(rows < 6, -1.0, -np.inf)
    found = k_best(scores, 10**12)
    assert found.scores.tolist() == [0, -2, -2, -2, -4, -4, -4, -6]


@pytest.mark.parametrize("k", [0, -1, 1.0, 2.5, "3", None, True, np.nan])
def test_invalid_k(k):
    with pytest.raises(InvalidOptionError, match=r"k must be .* at least 1, got"):
        k_best(np.zeros((2, 2)), k)


def test_numpy_integers_are_integers():
    assert len(k_best(np.zeros((3, 3)), np.int32(4)).scores) == 4


@pytest.mark.parametrize(
    "scores",
    [
        [[-np.inf]],
        [[0.0, 0.0], [-np.inf, -np.inf]],
        [[0.0, 0.0, 0.0], [-np.inf, 0.0, -np.inf], [-np.inf, 0.0, -np.inf]],
    ],
)
def test_infeasible(scores):
    with pytest.raises(InfeasibleGraphError, match=r"needs .* has .* Allow more edges"):
        k_best(np.array(scores), 2)


def test_kernel_excess_is_the_cost_above_the_optimum(rng):
    cost = rng.random((40, 40))
    matchings = np.empty((60, 40), np.intp)
    excess = np.empty(60)
    assert murty.k_best(cost, 60, matchings, excess, 40) == 60
    totals = totals_of(cost, matchings)
    assert excess == pytest.approx(totals - totals[0], abs=TOL)
    assert (np.diff(excess) >= 0).all()
