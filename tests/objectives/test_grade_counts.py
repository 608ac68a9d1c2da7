"""The likelihood of how many documents have every grade, against enumeration and draws."""

import itertools

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from permatch.inference.ranking.grade_law import GradeLaw, ListSummaries
from permatch.objectives.grade_counts import CountLikelihood, GradedLists
from permatch.optimizers import minimize
from tests.objectives.graded import draw_lists

LAW = GradeLaw(
    grades=np.array([0, 1, 2]),
    levels=np.array([0.0, 1.0, 2.0]),
    offsets=np.array([0.0, -1.0, -3.0]),
    coef=np.array([0.5, -1.0]),
    std=1.5,
)


def fit(lists, law=LAW, **options):
    objective = CountLikelihood(lists, law.grades, law.levels, **options)
    how = {"bounds": objective.bounds, "tol": 1e-6}
    found = minimize(objective.value_and_grad, objective.start, **how)
    assert found.is_converged
    return objective.law(found.coef)


@pytest.mark.parametrize("has_slope", [False, True])
def test_the_gradient_is_that_of_the_value(has_slope, rng):
    lists = draw_lists(LAW, 40, rng)
    lists = GradedLists(lists.scores, lists.codes, lists.starts, rng.random(40) + 0.5)
    objective = CountLikelihood(lists, LAW.grades, LAW.levels, has_slope=has_slope)
    at = objective.start + 0.3 * rng.normal(size=objective.size)
    _, grad = objective.value_and_grad(at)
    steps = 1e-5 * np.eye(objective.size)
    for own, step in zip(grad, steps, strict=True):
        up, down = (objective.value_and_grad(at + sign * step)[0] for sign in (1, -1))
        assert own == pytest.approx((up - down) / 2e-5, abs=2e-6)


def test_the_value_is_an_integral(rng):
    lists = draw_lists(LAW, 6, rng, lengths=(1, 5))
    objective = CountLikelihood(lists, LAW.grades, LAW.levels)
    theta = objective.start + 0.2 * rng.normal(size=objective.size)
    law, away = objective.law(theta), theta - objective.start
    prior = 0.5 * objective._precisions @ away**2
    total = 0.0
    for first, last in itertools.pairwise(lists.starts):
        shifted, kinds = law._shifted(lists.scores[first:last]), lists.codes[first:last]

        def integrand(t, shifted=shifted, kinds=kinds):
            chances = law._chances(shifted + t)[np.arange(len(kinds)), kinds]
            return chances.prod() * norm.pdf(t, scale=law.std)

        total += np.log(quad(integrand, -20.0, 20.0, epsabs=1e-13, limit=200)[0])
    value, _ = objective.value_and_grad(theta)
    assert value == pytest.approx(prior - total / 6, abs=1e-5)


def test_given_the_counts_it_is_the_law_of_whole_lists(rng):
    # By enumeration of all grades of a list: whatever offsets, coefficients and spread.
    scores = rng.normal(size=4)
    law = GradeLaw(
        LAW.grades, LAW.levels, *rng.normal(size=(1, 3)), rng.normal(size=2), 0.7
    )
    shifted = law._shifted(scores)
    nodes, weights = law._nodes()
    found, expected = {}, {}
    for kinds in itertools.product(range(3), repeat=4):
        chosen = [law._chances(shifted + t)[np.arange(4), kinds].prod() for t in nodes]
        counts = tuple(np.bincount(kinds, minlength=3))
        found.setdefault(counts, []).append(weights @ chosen)
        expected.setdefault(counts, []).append(np.exp(LAW.levels[list(kinds)] @ scores))
    for counts, chances in found.items():
        shares = np.array(expected[counts]) / sum(expected[counts])
        np.testing.assert_allclose(np.array(chances) / sum(chances), shares, atol=1e-12)


@pytest.mark.parametrize("has_slope", [False, True])
def test_it_finds_what_lists_were_drawn_by(has_slope, rng):
    slope = 0.6 if has_slope else 1.0
    drawn = GradeLaw(LAW.grades, LAW.levels, LAW.offsets, LAW.coef, LAW.std, slope)
    found = fit(draw_lists(drawn, 1500, rng), has_slope=has_slope)
    np.testing.assert_allclose(found.offsets, LAW.offsets, atol=0.5)
    np.testing.assert_allclose(found.coef, LAW.coef, atol=0.2)
    assert found.std == pytest.approx(1.5, abs=0.1)
    assert found.slope == pytest.approx(slope, abs=0.03)


def test_few_lists_of_one_grade_are_enough_for_an_answer(rng):
    lists = draw_lists(LAW, 3, rng)
    none = GradedLists(lists.scores, np.zeros_like(lists.codes), lists.starts, np.ones(3))
    found = fit(none, has_slope=True)
    chances = found.relevance(lists.scores, lists.starts)
    assert 0.8 < chances[:, 0].mean() < 1.0
    assert np.isfinite([*found.offsets, *found.coef, found.std, found.slope]).all()


def test_threads_change_nothing(rng):
    lists = draw_lists(LAW, 300, rng, lengths=(30, 60))
    one, four = fit(lists, n_jobs=1), fit(lists, n_jobs=4)
    np.testing.assert_array_equal(one.offsets, four.offsets)
    assert one.std == four.std


def test_summaries_that_are_equal_for_all_lists_say_nothing(rng):
    scores = rng.normal(size=(50, 8))
    scores -= scores.mean(axis=1, keepdims=True)
    starts = 8 * np.arange(51)
    lists = GradedLists(scores.ravel(), rng.integers(0, 3, size=400), starts, np.ones(50))
    assert fit(lists).coef.tolist() == [0.0, 0.0]


def test_summaries():
    own = ListSummaries.of(np.array([1.0, 3.0, 5.0]), np.array([0, 2, 3]))
    np.testing.assert_allclose(own.centred, [-1.0, 1.0, 0.0])
    np.testing.assert_allclose(own.z, [[2.0, np.log(2.0)], [5.0, 0.0]])
