"""The loss of all pairs against listing them."""

import numpy as np
import pytest

from permatch.errors import PrecisionError
from permatch.objectives import PairLikelihood, SubsetLikelihood, draw_subsets, pairs

# Means of losses of order one to a thousand.
ROUNDING = 1e-12

LENGTHS = [7, 1, 12, 0, 5, 300]
STARTS = np.concatenate([[0], np.cumsum(LENGTHS)])


@pytest.fixture
def grades(rng):
    grades = rng.integers(0, 4, size=STARTS[-1])
    grades[STARTS[4] : STARTS[5]] = 2  # a query of one grade
    return grades


@pytest.fixture
def query_weights(rng):
    return rng.dirichlet(np.ones(len(LENGTHS)))


def by_listing(starts, grades, query_weights, scores):
    value, slope = 0.0, np.zeros(len(scores))
    for first, last, weight in zip(starts[:-1], starts[1:], query_weights, strict=True):
        own, kinds = scores[first:last], grades[first:last]
        better, worse = np.nonzero(kinds[:, None] > kinds)
        if not len(better):
            continue
        margins = own[better] - own[worse]
        value += weight * np.logaddexp(0.0, -margins).mean()
        shares = weight * np.exp(-np.logaddexp(0.0, margins)) / len(better)
        slope[first:last] += np.bincount(worse, shares, last - first)
        slope[first:last] -= np.bincount(better, shares, last - first)
    return value, slope


@pytest.mark.parametrize("spread", [0.0, 1.0, 15.0, 60.0, 500.0, 1e5])
def test_equals_listing(spread, grades, query_weights, rng):
    scores = spread * rng.normal(size=STARTS[-1])
    loss = PairLikelihood(STARTS, grades, query_weights)
    value, slope = loss.value_and_slope(scores)
    expected = by_listing(STARTS, grades, query_weights, scores)
    assert value == pytest.approx(expected[0], rel=ROUNDING)
    np.testing.assert_allclose(slope, expected[1], rtol=ROUNDING, atol=1e-15)


def test_slope_by_differences(grades, query_weights, rng):
    loss = PairLikelihood(STARTS, grades, query_weights)
    scores, direction = rng.normal(size=(2, STARTS[-1]))
    step = 1e-5
    ahead, behind = (loss.value_and_slope(scores + h * direction)[0] for h in (step, -step))
    slope = loss.value_and_slope(scores)[1]
    assert slope @ direction == pytest.approx((ahead - behind) / (2 * step), rel=1e-7)


def test_is_the_limit_of_subsets_of_two(rng):
    grades = np.repeat([1, 0], [3, 4])
    starts, one = np.array([0, 7]), np.ones(1)
    scores = rng.normal(size=7)
    subsets = draw_subsets(starts, grades, 2, n_subsets=5000.0)
    sampled = SubsetLikelihood(subsets, grades, None, one).value_and_slope(scores)
    value, slope = PairLikelihood(starts, grades, one).value_and_slope(scores)
    assert sampled[0] == pytest.approx(value, abs=0.01)
    np.testing.assert_allclose(sampled[1], slope, atol=0.01)


def test_constants_for_a_query_and_other_orders_change_nothing(grades, query_weights, rng):
    loss = PairLikelihood(STARTS, grades, query_weights)
    scores = rng.normal(size=STARTS[-1])
    value, slope = loss.value_and_slope(scores)
    shifts = np.repeat(100.0 * rng.normal(size=len(LENGTHS)), LENGTHS)
    assert loss.value_and_slope(scores + shifts)[0] == pytest.approx(value, rel=1e-12)
    order = np.concatenate(
        [first + rng.permutation(n) for first, n in zip(STARTS, LENGTHS, strict=False)]
    )
    moved = PairLikelihood(STARTS, grades[order], query_weights)
    value_moved, slope_moved = moved.value_and_slope(scores[order])
    assert value_moved == pytest.approx(value, rel=ROUNDING)
    np.testing.assert_allclose(slope_moved, slope[order], atol=1e-15)


def test_long_list(rng):
    grades = rng.integers(0, 2, size=5000)
    loss = PairLikelihood(np.array([0, 5000]), grades, np.ones(1))
    scores = rng.normal(size=5000)
    value, slope = loss.value_and_slope(scores)
    margins = scores[grades == 1][:400, None] - scores[grades == 0]
    losses = np.logaddexp(0.0, -margins).mean()
    assert value == pytest.approx(losses, rel=0.05)
    expected = -(1.0 / (1.0 + np.exp(margins))).sum(axis=1) / (
        (grades == 1).sum() * (grades == 0).sum()
    )
    np.testing.assert_allclose(slope[grades == 1][:400], expected, rtol=1e-11)


def test_threads_do_not_change_a_bit(grades, query_weights, rng, monkeypatch):
    monkeypatch.setattr(pairs, "_TASK_PAIRS", 30)
    scores = rng.normal(size=STARTS[-1])
    answers = [
        PairLikelihood(STARTS, grades, query_weights, n_jobs=n).value_and_slope(scores)
        for n in (1, 2, 5)
    ]
    for value, slope in answers[1:]:
        assert value == answers[0][0]
        np.testing.assert_array_equal(slope, answers[0][1])


def test_tasks_hold_every_query_once(grades, query_weights, monkeypatch):
    monkeypatch.setattr(pairs, "_TASK_PAIRS", 30)
    cuts = PairLikelihood(STARTS, grades, query_weights)._cuts
    assert cuts[0] == 0
    assert cuts[-1] == len(LENGTHS)
    assert len(cuts) > 2
    assert (np.diff(cuts) > 0).all()


def test_refuses_what_makes_no_sense(grades, query_weights):
    with pytest.raises(PrecisionError, match="Divide the features"):
        PairLikelihood(STARTS, grades, query_weights).value_and_slope(
            np.full(STARTS[-1], np.nan)
        )
