"""The hinge of ranked lists against its definition, and its planes against itself."""

from itertools import permutations

import numpy as np
import pytest

from permatch.errors import InvalidOptionError, PrecisionError
from permatch.objectives import (
    ListHinge,
    SubsetHinge,
    check_position_weights,
    draw_subsets,
    rank_margin,
    subset_likelihood,
)
from permatch.objectives.rank_margin import check_rank_loss
from tests.objectives.test_subset_likelihood import listed

N_QUERIES, LENGTH = 5, 8
STARTS = np.arange(0, N_QUERIES * LENGTH + 1, LENGTH)
N = STARTS[-1]
LOSSES = ["ndcg", "dcg", "hamming"]
ROUNDING = 1e-12


@pytest.fixture
def grades(rng):
    grades = rng.integers(0, 3, size=N)
    grades[STARTS[:-1]], grades[STARTS[:-1] + 1], grades[STARTS[:-1] + 2] = 0, 1, 2
    return grades


@pytest.fixture
def query_weights(rng):
    return rng.dirichlet(np.ones(N_QUERIES))


def loss_of(name, kinds, placements):
    """The loss of every placement of a list whose grades do not increase."""
    if name == "hamming":
        return (kinds[placements] != kinds).mean(axis=1)
    gains = 2.0**kinds - 1.0
    discounts = 1.0 / np.log2(np.arange(len(kinds)) + 2.0)
    best = gains @ discounts
    lost = best - discounts[placements] @ gains
    return lost / best if name == "ndcg" else lost


def average(c, kinds):
    return np.array([c[kinds == kind].mean() for kind in kinds])


def by_enumeration(subsets, grades, query_weights, scores, name, ties):
    risk = 0.0
    for group in subsets.groups:
        c = check_position_weights(None, group.size)
        placements = np.array([*permutations(range(group.size))])
        for row, owner in zip(group.rows, group.owners, strict=True):
            target = average(c, grades[row]) if ties == "average" else c
            hinges = loss_of(name, grades[row], placements)
            hinges += (c[placements] - target) @ scores[row]
            risk += query_weights[owner] / subsets.counts[owner] * hinges.max()
    return risk


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("ties", ["average", "first"])
@pytest.mark.parametrize("size", [3, 4, 6, 8, "grades"])
def test_risk_is_its_definition(size, ties, name, grades, query_weights, rng):
    subsets = draw_subsets(STARTS, grades, size, n_subsets=0.02)
    hinge = SubsetHinge(subsets, grades, None, query_weights, loss=name, ties=ties)
    for spread in (0.0, 0.3, 100.0):
        scores = spread * rng.normal(size=N)
        expected = by_enumeration(subsets, grades, query_weights, scores, name, ties)
        risk = hinge.value_and_slope(scores)[0]
        assert risk == pytest.approx(expected, rel=ROUNDING, abs=1e-14)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("size", [3, 5, 9])
def test_planes_lie_below_the_risk(size, name, grades, query_weights, rng):
    subsets = draw_subsets(STARTS, grades, size)
    hinge = SubsetHinge(subsets, grades, None, query_weights, loss=name)
    check_planes(hinge, rng)


def check_planes(hinge, rng):
    points = [spread * rng.normal(size=N) for spread in (0.0, 0.1, 0.5, 3.0, 50.0)]
    planes = [hinge.value_and_slope(point) for point in points]
    for point, (risk, _) in zip(points, planes, strict=True):
        assert risk >= 0.0
        for other, (value, slope) in zip(points, planes, strict=True):
            assert value + slope @ (point - other) <= risk + 1e-11


def test_scores_in_the_order_of_the_grades_cost_nothing(grades, query_weights):
    subsets = draw_subsets(STARTS, grades, 3)
    for name in LOSSES:
        hinge = SubsetHinge(subsets, grades, None, query_weights, loss=name)
        risk, slope = hinge.value_and_slope(500.0 * grades)
        assert risk == 0.0
        assert not slope.any()


def test_no_loss_at_zero_is_a_mean_of_losses(grades, query_weights):
    # Without scores the worst placement costs most: every list in reverse.
    subsets = draw_subsets(STARTS, grades, 3)
    risk, _ = SubsetHinge(subsets, grades, None, query_weights).value_and_slope(np.zeros(N))
    kinds = np.array([2, 1, 0])
    assert risk == pytest.approx(loss_of("ndcg", kinds, np.array([[2, 1, 0]]))[0])


def test_a_constant_for_a_query_changes_nothing(grades, query_weights, rng):
    scores = np.round(rng.normal(size=N), 3)
    shifts = np.repeat(1e6 * np.arange(N_QUERIES), LENGTH)
    hinges = (
        SubsetHinge(draw_subsets(STARTS, grades, 4), grades, None, query_weights),
        ListHinge(STARTS, grades, query_weights),
    )
    for hinge in hinges:
        risk, slope = hinge.value_and_slope(scores)
        assert hinge.value_and_slope(scores + shifts)[0] == pytest.approx(risk, rel=1e-9)
        np.testing.assert_allclose(np.add.reduceat(slope, STARTS[:-1]), 0.0, atol=1e-14)


@pytest.mark.parametrize("spread", [0.0, 0.2, 1.0, 30.0])
def test_whole_lists_equal_subsets_of_all_documents(spread, grades, rng):
    # The sort against the assignment: one subset that holds the whole list.
    kinds, scores = grades[:LENGTH], spread * rng.normal(size=LENGTH)
    order = np.argsort(-kinds, kind="stable")
    c = check_position_weights("dcg", LENGTH)
    subset = SubsetHinge(listed(order, LENGTH), kinds, c, np.ones(1))
    whole = ListHinge(np.array([0, LENGTH]), kinds, np.ones(1))
    expected, slope = subset.value_and_slope(scores)
    risk, whole_slope = whole.value_and_slope(scores)
    assert risk == pytest.approx(expected, rel=ROUNDING, abs=1e-14)
    if spread:
        np.testing.assert_allclose(whole_slope, slope, atol=1e-13)


def test_planes_of_whole_lists(grades, query_weights, rng):
    check_planes(ListHinge(STARTS, grades, query_weights), rng)


def test_long_lists_and_queries_of_one_grade(rng):
    starts = np.array([0, 3, 4000, 4001])
    grades = rng.integers(0, 5, size=4001)
    grades[:3] = 3
    hinge = ListHinge(starts, grades, np.array([0.5, 0.25, 0.25]))
    risk, slope = hinge.value_and_slope(rng.normal(size=4001))
    assert risk > 0.0
    assert not slope[:3].any()
    assert slope[4000] == 0.0


@pytest.mark.parametrize("kind", ["subsets", "lists"])
def test_threads_do_not_change_a_bit(kind, grades, query_weights, rng, monkeypatch):
    monkeypatch.setattr(subset_likelihood, "_TASK_COST", 100)
    monkeypatch.setattr(rank_margin, "_TASK_DOCUMENTS", 10)
    subsets = draw_subsets(STARTS, grades, 5)
    scores = rng.normal(size=N)

    def answer(n_jobs):
        if kind == "lists":
            hinge = ListHinge(STARTS, grades, query_weights, n_jobs=n_jobs)
        else:
            hinge = SubsetHinge(subsets, grades, None, query_weights, n_jobs=n_jobs)
        return hinge.value_and_slope(scores)

    value, slope = answer(1)
    for n_jobs in (2, 5):
        other, other_slope = answer(n_jobs)
        assert other == value
        np.testing.assert_array_equal(other_slope, slope)


def test_refuses_what_makes_no_sense(grades, query_weights):
    subsets = draw_subsets(STARTS, grades, 3)
    with pytest.raises(InvalidOptionError, match="'ndcg', 'dcg', 'hamming'; got 'map'"):
        check_rank_loss("map")
    for hinge in (
        SubsetHinge(subsets, grades, None, query_weights),
        ListHinge(STARTS, grades, query_weights),
    ):
        with pytest.raises(PrecisionError, match="Divide the features"):
            hinge.value_and_slope(np.full(N, np.nan))
