"""The likelihood of subsets against enumeration, and the laws it obeys."""

import tracemalloc
from itertools import permutations, product

import numpy as np
import pytest

import permatch as pm
from permatch.errors import InvalidOptionError, PrecisionError, SizeLimitError
from permatch.objectives import (
    SubsetGroup,
    SubsetHinge,
    SubsetLikelihood,
    Subsets,
    check_position_weights,
    draw_subsets,
    subset_likelihood,
)

N_QUERIES, LENGTH = 6, 9
STARTS = np.arange(0, N_QUERIES * LENGTH + 1, LENGTH)
N = STARTS[-1]
# Values are of order one to a thousand.
ROUNDING = 1e-12


@pytest.fixture
def grades(rng):
    """Three grades in each query but the last, which lacks the highest."""
    grades = rng.integers(0, 3, size=N)
    grades[STARTS[:-1]], grades[STARTS[:-1] + 1], grades[STARTS[:-1] + 2] = 0, 1, 2
    grades[STARTS[-2] :] = np.minimum(grades[STARTS[-2] :], 1)
    return grades


@pytest.fixture
def query_weights(rng):
    return rng.dirichlet(np.ones(N_QUERIES))


def listed(rows, n_documents):
    """Subsets of one query, given row by row."""
    rows = np.atleast_2d(rows)
    group = SubsetGroup(rows, np.zeros(len(rows), dtype=np.intp))
    return Subsets((group,), np.array([len(rows)]), n_documents)


def by_engine(subsets, grades, position_weights, query_weights, scores, ties):
    """Value and slope from log-partitions and marginals of graphs."""
    value, slope = 0.0, np.zeros(len(scores))
    for group in subsets.groups:
        c = check_position_weights(position_weights, group.size)
        for row, owner in zip(group.rows, group.owners, strict=True):
            weight = query_weights[owner] / subsets.counts[owner]
            result = pm.infer(np.outer(scores[row], c))
            target = c.copy()
            if ties == "average":
                for grade in set(grades[row]):
                    target[grades[row] == grade] = c[grades[row] == grade].mean()
            value += weight * (result.log_partition - target @ scores[row])
            np.add.at(slope, row, weight * (result.marginals @ c - target))
    return value, slope


@pytest.mark.parametrize("ties", ["average", "first"])
@pytest.mark.parametrize("policy", ["skip", "fill"])
@pytest.mark.parametrize("position_weights", [None, "dcg"])
@pytest.mark.parametrize("size", [3, 4, 6, 9, "grades"])
def test_value_and_slope_equal_inference(
    size, position_weights, policy, ties, grades, query_weights, rng
):
    subsets = draw_subsets(STARTS, grades, size, n_subsets=0.1, missing_grades=policy)
    scores = 3.0 * rng.normal(size=N)
    args = subsets, grades, position_weights, query_weights
    value, slope = SubsetLikelihood(*args, ties=ties).value_and_slope(scores)
    expected = by_engine(*args, scores, ties)
    assert value == pytest.approx(expected[0], rel=ROUNDING)
    np.testing.assert_allclose(slope, expected[1], atol=ROUNDING)


def test_average_of_ties_is_the_mean_over_their_orders(rng):
    grades = np.array([2, 1, 1, 1, 0, 0])
    scores = rng.normal(size=6)
    one = np.ones(1)
    subsets = listed(np.arange(6), 6)
    mean = SubsetLikelihood(subsets, grades, None, one).value_and_slope(scores)
    orders = [(0, *a, *b) for a in permutations((1, 2, 3)) for b in permutations((4, 5))]
    first = [
        SubsetLikelihood(listed(order, 6), grades, None, one, ties="first")
        for order in orders
    ]
    results = [loss.value_and_slope(scores) for loss in first]
    assert mean[0] == pytest.approx(np.mean([value for value, _ in results]))
    np.testing.assert_allclose(mean[1], np.mean([slope for _, slope in results], axis=0))


@pytest.mark.parametrize("size", [3, 5, 9])
@pytest.mark.parametrize("spread", [0.1, 5.0])
def test_slope_by_differences(size, spread, grades, query_weights, rng):
    subsets = draw_subsets(STARTS, grades, size, n_subsets=0.1)
    loss = SubsetLikelihood(subsets, grades, None, query_weights)
    scores, direction = spread * rng.normal(size=N), rng.normal(size=N)
    slope = loss.value_and_slope(scores)[1]
    step = 1e-5
    ahead, behind = (loss.value_and_slope(scores + h * direction)[0] for h in (step, -step))
    assert slope @ direction == pytest.approx((ahead - behind) / (2 * step), rel=1e-6)


@pytest.mark.parametrize("spread", [500.0, 1e6])
def test_far_apart_scores(spread, grades, query_weights, rng):
    subsets = draw_subsets(STARTS, grades, 4, n_subsets=0.3)
    loss = SubsetLikelihood(subsets, grades, None, query_weights)
    scores = spread * rng.normal(size=N)
    value, slope = loss.value_and_slope(scores)
    expected = by_engine(subsets, grades, None, query_weights, scores, "average")
    assert value == pytest.approx(expected[0], rel=ROUNDING)
    np.testing.assert_allclose(slope, expected[1], atol=ROUNDING)
    # Scores in the order of the grades lose nothing, exactly.
    assert SubsetLikelihood(
        draw_subsets(STARTS, grades, 3), grades, None, query_weights
    ).value_and_slope(spread * grades)[0] == pytest.approx(0.0, abs=1e-100)


@pytest.mark.parametrize("offset", [1.0, 1e8])
def test_a_constant_for_a_query_changes_nothing(offset, grades, query_weights, rng):
    subsets = draw_subsets(STARTS, grades, 4)
    loss = SubsetLikelihood(subsets, grades, None, query_weights)
    scores = np.round(rng.normal(size=N), 3)
    shifts = np.repeat(offset * np.arange(N_QUERIES), LENGTH)
    value, slope = loss.value_and_slope(scores)
    moved, moved_slope = loss.value_and_slope(scores + shifts)
    assert moved == pytest.approx(value, rel=1e-15 * offset + 1e-14)
    np.testing.assert_allclose(moved_slope, slope, atol=1e-15 * offset + 1e-15)
    np.testing.assert_allclose(np.add.reduceat(slope, STARTS[:-1]), 0.0, atol=1e-15)


def test_two_documents_are_logistic_regression(rng):
    scores = rng.normal(size=8)
    rows = np.array([[0, 4], [3, 5], [0, 7], [1, 4]])
    grades = np.repeat([1, 0], 4)
    loss = SubsetLikelihood(listed(rows, 8), grades, (1.5, 0.25), np.ones(1))
    value, slope = loss.value_and_slope(scores)
    margins = 1.25 * (scores[rows[:, 0]] - scores[rows[:, 1]])
    assert value == pytest.approx(np.logaddexp(0.0, -margins).mean(), rel=ROUNDING)
    shares = 1.25 / (1.0 + np.exp(margins)) / 4
    expected = np.bincount(rows[:, 1], shares, 8) - np.bincount(rows[:, 0], shares, 8)
    np.testing.assert_allclose(slope, expected, atol=ROUNDING)


def test_a_document_may_occur_twice(rng):
    # Twice the same row is two rows of equal score and one sum of their slopes.
    grades = np.array([1, 0, 0])
    scores = rng.normal(size=2)
    twice = SubsetLikelihood(listed([0, 1, 1], 2), grades[:2], None, np.ones(1))
    apart = SubsetLikelihood(listed([0, 1, 2], 3), grades, None, np.ones(1))
    value, slope = twice.value_and_slope(scores)
    expected, slopes = apart.value_and_slope(scores[[0, 1, 1]])
    assert value == pytest.approx(expected, rel=ROUNDING)
    np.testing.assert_allclose(slope, [slopes[0], slopes[1] + slopes[2]], atol=ROUNDING)


def test_more_subsets_come_closer_to_all_of_them(rng):
    grades = np.repeat([2, 1, 0], [2, 3, 6])
    scores = rng.normal(size=11)
    triples = np.array([*product(range(2), range(2, 5), range(5, 11))])
    one = np.ones(1)
    whole = SubsetLikelihood(listed(triples, 11), grades, None, one)
    value, slope = whole.value_and_slope(scores)
    errors = []
    for share in (1.0, 100.0, 10_000.0):
        subsets = draw_subsets(np.array([0, 11]), grades, 3, n_subsets=share)
        sampled = SubsetLikelihood(subsets, grades, None, one).value_and_slope(scores)
        errors.append(abs(sampled[0] - value) + np.abs(sampled[1] - slope).max())
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 5e-3


@pytest.mark.parametrize("size", [3, "grades", 9])
def test_threads_do_not_change_a_bit(size, grades, query_weights, rng, monkeypatch):
    monkeypatch.setattr(subset_likelihood, "_TASK_COST", 100)
    subsets = draw_subsets(STARTS, grades, size, missing_grades="fill")
    scores = rng.normal(size=N)
    answers = [
        SubsetLikelihood(subsets, grades, None, query_weights, n_jobs=n).value_and_slope(
            scores
        )
        for n in (1, 2, 5)
    ]
    for value, slope in answers[1:]:
        assert value == answers[0][0]
        np.testing.assert_array_equal(slope, answers[0][1])


def test_tasks_are_whole_queries(grades, query_weights, monkeypatch):
    monkeypatch.setattr(subset_likelihood, "_TASK_COST", 300)
    subsets = draw_subsets(STARTS, grades, 3, missing_grades="fill")
    (part,) = SubsetLikelihood(subsets, grades, None, query_weights)._parts
    owners = subsets.groups[0].owners
    assert part.cuts[0] == 0
    assert part.cuts[-1] == len(owners)
    assert len(part.cuts) > 3
    inner = part.cuts[1:-1]
    assert (owners[inner] != owners[inner - 1]).all()


def test_many_grades_have_patterns_too(rng):
    grades = rng.permutation(np.arange(20) * 400)  # too many for one number to tell them
    rows = np.argsort(-grades)[None, :9].repeat(2, axis=0)
    rows[1] = np.argsort(-grades)[5:14]
    loss = SubsetLikelihood(listed(rows, 20), grades, None, np.ones(1))
    scores = rng.normal(size=20)
    expected = by_engine(listed(rows, 20), grades, None, np.ones(1), scores, "average")
    assert loss.value_and_slope(scores)[0] == pytest.approx(expected[0], rel=ROUNDING)


@pytest.mark.parametrize("make", [SubsetLikelihood, SubsetHinge])
def test_memory_of_many_subsets_is_bounded(make, rng):
    # 100,000 subsets of 5 documents are 4 MB of rows.  Their placements alone would take
    # 480 MB, documents times positions times 40 features 800 MB.
    grades = rng.integers(0, 3, size=2000)
    starts = np.arange(0, 2001, 100)
    scores = rng.normal(size=2000)
    few = draw_subsets(starts, grades, 5, n_subsets=0.01)
    make(few, grades, None, np.full(20, 0.05)).value_and_slope(scores)  # compiles
    tracemalloc.start()
    try:
        subsets = draw_subsets(starts, grades, 5, n_subsets=10.0)
        loss = make(subsets, grades, None, np.full(20, 0.05))
        loss.value_and_slope(scores)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert subsets.counts.sum() == 100_000
    assert peak < 30e6


@pytest.mark.parametrize(
    ("position_weights", "message"),
    [
        ([2.0, 1.0], r"each of the 3 positions; got shape \(2,\)"),
        ([[2.0, 1.0, 0.0]], r"got shape \(1, 3\)"),
        ([1.0, 2.0, 0.0], "must be non-increasing.*got 1 at position 1 before 2"),
        ([1.0, 1.0, 1.0], "must not all be equal.*got 1 at all 3"),
        ([1.0, np.nan, 0.0], "must be finite"),
        ([1.0, -np.inf, -np.inf], "must be finite"),
        ("linear", "None, 'dcg' or a non-increasing sequence; got 'linear'"),
        (["a", "b", "c"], "must be 3 numbers"),
    ],
    ids=str,
)
def test_position_weights_out_of_range(position_weights, message):
    with pytest.raises(InvalidOptionError, match=message):
        check_position_weights(position_weights, 3)


def test_position_weights_by_name():
    np.testing.assert_array_equal(check_position_weights(None, 4), [3, 2, 1, 0])
    np.testing.assert_allclose(check_position_weights("dcg", 3), [1, 0.63093, 0.5], 1e-5)
    np.testing.assert_array_equal(check_position_weights((5, 5, -1), 3), [5, 5, -1])


def test_refuses_what_it_cannot_do(grades, query_weights, rng):
    subsets = draw_subsets(STARTS, grades, 3)
    large = draw_subsets(STARTS, grades, 21, n_subsets=0.01)
    with pytest.raises(SizeLimitError, match="at most 20.*got 21"):
        SubsetLikelihood(large, grades, None, query_weights)
    several = draw_subsets(STARTS, grades, "grades")
    with pytest.raises(InvalidOptionError, match="each of the 2 positions"):
        SubsetLikelihood(several, grades, (2.0, 1.0, 0.0), query_weights)
    loss = SubsetLikelihood(subsets, grades, None, query_weights)
    for wrong in (np.nan, np.inf):
        with pytest.raises(PrecisionError, match="Divide the features"):
            loss.value_and_slope(np.append(rng.normal(size=2), np.full(N - 2, wrong)))
