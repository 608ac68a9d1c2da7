"""Grades and positions of a list whose counts are not known, against enumeration."""

import itertools
import warnings

import numpy as np
import pytest

from permatch.inference.ranking.grade_law import GradeLaw


def law_of(n_grades=3, std=1.5, slope=1.0, grades=None):
    grades = np.arange(n_grades) if grades is None else np.array(grades)
    offsets = -1.2 * np.arange(float(n_grades)) + 0.3 * (np.arange(n_grades) == 1)
    levels = np.arange(float(n_grades)) ** 1.5
    return GradeLaw(grades, levels, offsets, np.array([0.3, -0.4]), std, slope)


def enumerate_grades(law, scores, n_nodes=4001):
    """Yield all grades of a list with their probability, integrated by brute force."""
    nodes = np.linspace(-9.0 * law.std, 9.0 * law.std, n_nodes)
    weights = np.exp(-0.5 * (nodes / law.std) ** 2)
    span = law.levels[-1] - law.levels[0]
    steps = (law.levels - law.levels[0]) / span
    z = np.array([span * scores.mean(), np.log(len(scores))])
    shifted = law.slope * span * (scores - scores.mean()) + z @ law.coef
    odds = steps * (shifted[None, :, None] + nodes[:, None, None]) + law.offsets
    chances = np.exp(odds) / np.exp(odds).sum(axis=2, keepdims=True)
    for kinds in itertools.product(range(len(steps)), repeat=len(scores)):
        each = chances[:, np.arange(len(scores)), kinds].prod(axis=1)
        yield np.array(kinds), weights @ each / weights.sum()


CASES = {
    "one": (law_of(), 1),
    "two": (law_of(), 2),
    "three grades": (law_of(std=0.05), 6),
    "two grades": (law_of(2, std=4.0), 8),
    "five grades": (law_of(5, slope=0.5), 4),
}


@pytest.mark.parametrize("name", CASES)
def test_all_against_enumeration(name, rng):
    law, n = CASES[name]
    scores = 1.5 * rng.normal(size=n) + 2.0
    marginals, relevance = np.zeros((n, n)), np.zeros((n, law.n_grades))
    above = np.zeros((n, n))
    for kinds, chance in enumerate_grades(law, scores):
        relevance[np.arange(n), law.grades[kinds]] += chance
        above += chance * (kinds[:, None] > kinds)
        above += 0.5 * chance * (kinds[:, None] == kinds)
        for i, kind in enumerate(kinds):
            first, n_tied = (kinds > kind).sum(), (kinds == kind).sum()
            marginals[i, first : first + n_tied] += chance / n_tied
    np.testing.assert_allclose(law.rank_marginals(scores), marginals, atol=1e-9)
    found = law.relevance(scores, np.array([0, n]))
    np.testing.assert_allclose(found, relevance, atol=1e-9)
    np.testing.assert_allclose(law.counts(scores), relevance.sum(axis=0), atol=1e-9)
    i, j = np.indices((n, n))
    np.testing.assert_allclose(law.above(scores, i, j), above, atol=1e-9)


@pytest.mark.parametrize("n", [30, 150])
@pytest.mark.parametrize("std", [0.01, 1.5, 6.0])
def test_rows_and_columns_sum_to_one(n, std, rng):
    marginals = law_of(std=std).rank_marginals(rng.normal(size=n))
    np.testing.assert_allclose(marginals.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(marginals.sum(axis=0), 1.0, atol=1e-9)
    assert marginals.min() >= 0.0


def test_fewer_nodes_cost_digits(rng):
    law, scores = law_of(), rng.normal(size=150)
    exact = law.rank_marginals(scores)
    fine = law.rank_marginals(scores, plan=law.plan_ranks(scores, 0.6))
    coarse = law.rank_marginals(scores, plan=law.plan_ranks(scores, 1.5))
    np.testing.assert_allclose(exact, fine, atol=1e-10)
    assert 1e-10 < np.abs(coarse - exact).max() < 1e-6


def test_long_lists(rng):
    marginals = law_of().rank_marginals(rng.normal(size=400), n_jobs=2)
    np.testing.assert_allclose(marginals.sum(axis=0), 1.0, atol=1e-7)


def test_threads_and_order_change_nothing(rng):
    law, scores = law_of(), rng.normal(size=40)
    scores[:5] = scores[5:10]  # ties
    one = law.rank_marginals(scores)
    np.testing.assert_array_equal(one, law.rank_marginals(scores, n_jobs=4))
    order = rng.permutation(40)
    moved = law.rank_marginals(scores[order])
    np.testing.assert_allclose(moved, one[order], atol=1e-11)


def test_far_scores_do_not_overflow():
    scores = np.array([-800.0, -1.0, 0.0, 900.0])
    law = law_of()
    marginals = law.rank_marginals(scores)
    np.testing.assert_allclose(marginals.sum(axis=0), 1.0, atol=1e-9)
    assert marginals[3, 0] == pytest.approx(1.0)
    found = law.relevance(scores, np.array([0, 4]))
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


def test_grades_that_are_missing_have_no_chance(rng):
    law = law_of(3, grades=[1, 2, 4])
    found = law.relevance(rng.normal(size=7), np.array([0, 3, 7]))
    assert found.shape == (7, 5)
    assert not found[:, [0, 3]].any()
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


def test_lists_do_not_depend_on_each_other(rng):
    law, scores = law_of(), rng.normal(size=9)
    both = law.relevance(scores, np.array([0, 4, 9]))
    np.testing.assert_allclose(both[4:], law.relevance(scores[4:], np.array([0, 5])))


@pytest.mark.parametrize(("std", "scale", "seed"), [(400.0, 1.0, 5), (30.0, 3.0, 7)])
def test_chances_next_to_one_give_no_warnings(std, scale, seed):
    scores = scale * np.random.default_rng(seed).normal(size=60)
    levels, offsets = np.array([0.0, 0.6, 1.0]), np.array([0.0, -1.0, -2.0])
    law = GradeLaw(np.arange(3), levels, offsets, np.array([0.2, -0.3]), std, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(law.plan_ranks(scores).nodes) == len(law.plan_ranks(scores).points)
