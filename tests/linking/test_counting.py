"""The search for the constant: on curves whose answer is known, and on tables."""

import numpy as np
import pytest

import permatch as pm
from permatch.linking import constant, solving
from permatch.linking.counting import MOST_RAISED, Count, Search, find_offset, keep_count
from permatch.linking.totals import Total


def curve(odds):
    """Independent pairs: N(c) is a sum of logistic functions."""
    calls = []

    def count(offset):
        calls.append(offset)
        chances = 1.0 / (1.0 + np.exp(-(odds + offset)))
        return Count(float(chances.sum()), float((chances * (1.0 - chances)).sum()))

    return count, calls


@pytest.mark.parametrize("wanted", [0.01, 1.0, 30.0, 99.0, 99.99])
@pytest.mark.parametrize("start", [0.0, 3.0, -8.0])
def test_the_constant_is_found(wanted, start):
    odds = np.random.default_rng(0).normal(size=100) * 3.0
    count, calls = curve(odds)
    found = find_offset(count, wanted, Search(-60.0, 60.0, start=start))
    assert found.is_reached
    assert count(found.offset).number == pytest.approx(wanted, rel=2e-6, abs=2e-6)
    assert len(calls) < 60


def test_few_counts_are_needed():
    odds = np.random.default_rng(1).normal(size=1000) * 2.0 - 1.0
    count, calls = curve(odds)
    wanted = count(1.3).number
    assert find_offset(count, wanted, Search(-60.0, 60.0)).offset == pytest.approx(
        1.3, abs=1e-4
    )
    assert len(calls) <= 8


def test_what_lies_outside_the_limits_is_not_reached():
    count, _ = curve(np.zeros(10))
    for wanted, end in ((9.99, 2.0), (0.01, -1.0)):
        found = find_offset(count, wanted, Search(lowest=-1.0, highest=2.0))
        assert not found.is_reached
        assert found.offset == end


def test_a_count_that_runs_away_is_bounded():
    # Three sure links, and a fourth that only a huge constant forces.
    odds = np.array([6.0, 6.0, 6.0, -30.0])
    count, _ = curve(odds)
    found = keep_count(count, Total.of(np.array([0.9, 0.9, 0.9, 0.9])), Search(-60.0, 60.0))
    assert not found.is_reached
    assert not found.is_implausible
    assert keep_count(count, Total.of(np.full(6, 0.9)), Search(-60.0, 60.0)).is_implausible
    assert 0.0 <= found.offset <= MOST_RAISED
    assert found.number == count(found.offset).number


def test_a_part_of_a_large_table_says_where_to_begin(monkeypatch):
    rng = np.random.default_rng(0)
    n = 400
    left = np.repeat(np.arange(n), 2)
    right = np.minimum(left // 4 * 4 + rng.integers(0, 2, 2 * n) + [0, 2] * n, n - 1)
    pairs = {"left": left, "right": right, "probability": rng.beta(1, 3, 2 * n)}
    expected = pm.link(pairs)
    calls = []
    total = solving.Solver.total

    def counted(self, offset):
        calls.append(self.problem.structure.n_edges)
        return total(self, offset)

    monkeypatch.setattr(constant, "LARGE", 100)
    monkeypatch.setattr(constant, "_PILOT", 200)
    monkeypatch.setattr(solving.Solver, "total", counted)
    links = pm.link(pairs)
    assert 1 <= calls.count(2 * n) <= 4
    assert min(calls) < 2 * n
    assert links.offset == pytest.approx(expected.offset, abs=1e-3)


@pytest.mark.parametrize("spread", [30.0, 300.0])
def test_extreme_scores(spread):
    rng = np.random.default_rng(2)
    left, right = np.nonzero(rng.random((6, 8)) < 0.6)
    scores = spread * rng.normal(size=len(left))
    links = pm.link(
        {"left": left, "right": right, "score": scores}, score="score", expected_links=2.5
    )
    assert links.expected_links == pytest.approx(2.5, rel=1e-5)
    assert np.isfinite(links["probability"]).all()
    links = pm.link(
        {"left": left, "right": right, "s": scores}, score="s", expected_links=None
    )
    sums = np.bincount(left, links["probability"], 6)
    assert np.allclose(sums[left] + links["no_partner_left"], 1.0)


def test_the_unmatched_score_makes_no_difference_if_the_count_is_kept():
    pairs = {"left": [0, 0, 1], "right": [0, 1, 1], "probability": [0.5, 0.3, 0.4]}
    one, other = pm.link(pairs), pm.link(pairs, unmatched=1.5)
    assert np.allclose(one["probability"], other["probability"], atol=1e-5)
    free = pm.link(pairs, unmatched=1.5, expected_links=None)
    assert free.expected_links < pm.link(pairs, expected_links=None).expected_links
