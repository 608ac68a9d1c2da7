"""Decisions by costs, and only where intervals decide them."""

import numpy as np
import pytest

import permatch as pm
from permatch.inference import path_walks
from permatch.linking import bounding, decisions, solving
from permatch.linking.decisions import LINK, NO_LINK, REVIEW, Gains
from permatch.problems import Problem, Structure
from tests.linking.test_link import random_pairs


@pytest.mark.parametrize("seed", range(5))
def test_by_default_pairs_above_one_half_are_links(seed):
    links = pm.link(random_pairs(seed, 8, 8, 0.4), expected_links=None)
    assert ((links["decision"] == "link") == (links["probability"] > 0.5)).all()


def test_costs_decide():
    pairs = {"left": ["a"], "right": ["x"], "probability": [0.6]}
    assert pm.link(pairs)["decision"].tolist() == ["link"]
    costs = pm.LinkCosts(false=3.0)
    assert pm.link(pairs, costs=costs)["decision"].tolist() == ["no link"]
    costs = pm.LinkCosts(false=3.0, abstain=0.1)
    assert pm.link(pairs, costs=costs)["decision"].tolist() == ["review"]


def test_a_person_sees_the_likeliest_pairs_of_a_record():
    pairs = {"left": ["a"] * 3, "right": ["x", "y", "z"], "probability": [0.3, 0.3, 0.001]}
    links = pm.link(pairs, costs=pm.LinkCosts(abstain=0.05))
    assert links["decision"].tolist() == ["review", "review", "no link"]


@pytest.mark.parametrize("seed", range(20))
def test_certain_decisions_hold_for_all_gains_in_the_intervals(seed):
    rng = np.random.default_rng(seed)
    n, k = 4, 4
    left, right = np.nonzero(rng.random((n, k)) < 0.6)
    starts = np.concatenate([[0], np.cumsum(np.bincount(left, minlength=n))])
    structure = Structure(starts, right, np.array([0, n]), np.array([0, k]))
    problem = Problem(structure, np.zeros(len(left)), np.zeros(n), np.zeros(k))
    low = rng.normal(size=len(left))
    high = low + rng.exponential(0.4, len(left))
    found = decisions._certain(problem, Gains(low, high))
    from permatch.assignment import best_assignment

    for _ in range(30):
        gains = rng.uniform(low, high)
        best = best_assignment(Problem(structure, gains, np.zeros(n), np.zeros(k))).matching
        is_used = best[left] == right
        assert is_used[found == LINK].all()
        assert not is_used[found == NO_LINK].any()
    assert {LINK, NO_LINK, REVIEW} >= set(found.tolist())


def wide_pairs(seed=0, n=60, gap=7.0):
    """One component that is too wide for the exact engine."""
    rng = np.random.default_rng(seed)
    left = np.repeat(np.arange(n), 12)
    right = np.concatenate([rng.choice(n, 12, replace=False) for _ in range(n)])
    scores = np.where(left == right, gap - 4.0, -4.0) + rng.normal(size=len(left))
    return {"left": left, "right": right, "score": scores}


def test_what_is_too_wide_is_bounded_and_decided():
    links = pm.link(wide_pairs(), score="score", tol=0.05, budget=20.0)
    assert not links.is_exact
    assert (links["low"] <= links["probability"]).all()
    assert (links["probability"] <= links["high"]).all()
    is_open = (links["low"] < 0.5) & (links["high"] > 0.5)
    assert (links["decision"][links["low"] > 0.5] == "link").all()
    assert (links["decision"][links["high"] < 0.5] == "no link").all()
    assert ((links["decision"] == "review") == is_open).all()
    assert "too wide" in links.summary()


def test_intervals_hold_for_certain(monkeypatch):
    pairs = random_pairs(3, 9, 9, 0.5)
    exact = pm.link(pairs)
    monkeypatch.setattr(
        solving.Solver, "_affordable", lambda self, share: np.zeros(
            len(self.problem.structure.components), dtype=bool
        )
    )  # fmt: skip
    monkeypatch.setattr(bounding, "_MODERATE", 0)
    links = pm.link(pairs, tol=0.3)
    assert not links["is_exact"].any()
    again = pm.link(pairs, tol=0.3, expected_links=None)
    monkeypatch.undo()
    truth = pm.link(pairs, expected_links=None)
    assert (again["low"] - 1e-12 <= truth["probability"]).all()
    assert (truth["probability"] <= again["high"] + 1e-12).all()
    # The constant is found by beliefs, which are close.
    assert links.offset == pytest.approx(exact.offset, abs=0.5)


def test_without_time_what_is_open_is_left_for_review(monkeypatch):
    monkeypatch.setattr(solving.Solver, "refine", lambda self, edges, tol: None)
    monkeypatch.setattr(bounding, "_MODERATE", 0)
    links = pm.link(wide_pairs(gap=5.0), score="score", tol=0.9, budget=1e-3)
    assert (links["decision"] == "review").any()


def test_interrupted_refinements_keep_what_is_decided(monkeypatch):
    def interrupt(self, edges, tol):
        raise KeyboardInterrupt

    monkeypatch.setattr(solving.Solver, "refine", interrupt)
    monkeypatch.setattr(bounding, "_MODERATE", 0)
    with pytest.warns(UserWarning, match="interrupted: .* left for review"):
        links = pm.link(wide_pairs(gap=5.0), score="score", tol=0.9, budget=1e-3)
    assert (links["decision"] == "link").any()


def interrupted_after(n_calls, function):
    """Return a function that is interrupted when it is called once more."""
    left = [n_calls]

    def call(*given, **named):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return function(*given, **named)

    return call


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_interrupted_walks_keep_what_is_known(monkeypatch, n_jobs):
    """The first round is complete; in the second some records are walked from."""
    truth = pm.link(wide_pairs(gap=4.0), score="score", expected_links=None, tol=1e-3)
    bounds, later = path_walks.bound_roots, []

    def walk(*given):
        later.append(given[5] > 0)  # the limit of steps
        if sum(later) > 3:
            raise KeyboardInterrupt
        bounds(*given)

    monkeypatch.setattr(path_walks, "bound_roots", walk)
    monkeypatch.setattr(path_walks, "_ROOTS_PER_TASK", 4)
    with pytest.warns(UserWarning, match="interrupted: .* left for review"):
        links = pm.link(
            wide_pairs(gap=4.0), score="score", expected_links=None, n_jobs=n_jobs
        )
    assert (links["low"] <= truth["high"]).all()
    assert (links["high"] >= truth["low"]).all()
    assert "no link" in links["decision"]
    assert (links["high"] - links["low"]).max() > 0.01


def test_an_interrupt_of_the_engines_keeps_the_first_look(monkeypatch):
    monkeypatch.setattr(bounding, "_STEPS", 64)
    monkeypatch.setattr(bounding, "_by_auto", interrupted_after(0, None))
    with pytest.warns(UserWarning, match="interrupted: .* left for review"):
        links = pm.link(wide_pairs(gap=5.0), score="score", tol=1e-3, budget=None)
    assert {"link", "no link", "review"} == set(links["decision"])


def test_an_interrupt_of_the_first_round_is_raised(monkeypatch):
    monkeypatch.setattr(path_walks, "bound_roots", interrupted_after(0, None))
    with pytest.raises(KeyboardInterrupt):
        pm.link(wide_pairs(), score="score", expected_links=None)


def test_threads_change_nothing():
    pairs = random_pairs(0, 60, 60, 0.05)
    one, two = pm.link(pairs), pm.link(pairs, n_jobs=2)
    assert np.array_equal(one["probability"], two["probability"])
