"""Linking records that may have several links."""

import math

import numpy as np
import pytest

import permatch as pm
from permatch import errors


def table(rng, n=6, k=4, share=0.8):
    left, right = np.nonzero(rng.random((n, k)) < share)
    return {
        "left": [f"l{i}" for i in left],
        "right": [f"r{j}" for j in right],
        "probability": rng.uniform(0.05, 0.95, len(left)),
    }, (left, right)


def enumerated(pairs, places, offset, **capacities):
    chances = pairs["probability"]
    edges = pm.EdgeScores(*places, np.log(chances / (1 - chances)) + offset)
    return pm.infer(
        edges, "enumeration", unmatched_left=0.0, unmatched_right=0.0, **capacities
    )


@pytest.mark.parametrize(
    "capacities",
    [
        {"capacity_right": 2},
        {"capacity_right": 3},
        {"capacity_left": 2},
        {"capacity_left": 2, "capacity_right": 2},
        {"capacity_right": math.inf},
    ],
    ids=str,
)
def test_probabilities_against_enumeration(rng, capacities):
    pairs, places = table(rng, 5, 3)
    links = pm.link(pairs, expected_links=2.5, **capacities)
    wanted = enumerated(pairs, places, links.offset, **capacities)
    assert links.expected_links == pytest.approx(2.5, abs=1e-5)
    assert links.is_exact
    np.testing.assert_allclose(links["probability"], wanted.marginals, atol=1e-10)
    for side, nodes in zip(("left", "right"), places, strict=True):
        np.testing.assert_allclose(
            links[f"no_partner_{side}"],
            getattr(wanted, f"unmatched_{side}")[nodes],
            atol=1e-10,
        )


def test_a_component_that_falls_apart_keeps_its_rows(rng):
    """Right records have fewer candidates than links they may have, but for one."""
    pairs, places = table(rng, 6, 6, 0.35)
    links = pm.link(pairs, expected_links=None, capacity_right=2)
    wanted = enumerated(pairs, places, 0.0, capacity_right=2)
    np.testing.assert_allclose(links["probability"], wanted.marginals, atol=1e-10)


@pytest.mark.parametrize("capacity", [1, 2, 3])
def test_decisions_keep_to_the_capacities(rng, capacity):
    pairs, (left, right) = table(rng, 12, 4)
    costs = pm.LinkCosts(missed=50.0, wrong=51.0)
    links = pm.link(pairs, expected_links=None, capacity_right=capacity, costs=costs)
    is_link = links["decision"] == "link"
    assert np.bincount(left[is_link]).max() == 1
    assert np.bincount(right[is_link]).tolist() == [capacity] * 4


def test_reviews_by_the_risk_of_a_pair(rng):
    pairs, _ = table(rng)
    costs = pm.LinkCosts(abstain=0.2)
    links = pm.link(pairs, capacity_right=2, costs=costs, expected_links=None)
    chances, decision = links["probability"], links["decision"]
    assert (decision[np.minimum(chances, 1 - chances) > 0.2] == "review").all()
    assert (chances[decision == "link"] >= 0.8).all()
    assert (decision == "review").any()


def test_one_is_one_to_one(rng):
    pairs, _ = table(rng)
    plain = pm.link(pairs, expected_links=3.0)
    one = pm.link(pairs, expected_links=3.0, capacity_left=1, capacity_right=1)
    np.testing.assert_array_equal(plain["probability"], one["probability"])
    np.testing.assert_array_equal(plain["decision"], one["decision"])


def test_wide_components_without_limits_are_not_counted(rng):
    """Components too wide to count fall apart where records have no limit."""
    pairs, _ = table(rng, 60, 40)
    with pytest.raises(
        errors.SizeLimitError, match=r"too many records depend .* group has 60"
    ):
        pm.link(pairs, capacity_right=2, expected_links=None)
    links = pm.link(pairs, capacity_right=math.inf, expected_links=None)
    assert links.is_exact


def test_bounds_of_wide_components_with_few_links_left(rng):
    """Left records choose one of many, some right ones one: a wide matching remains."""
    pairs, (left, right) = table(rng, 60, 60, 0.1)
    links = pm.link(pairs, capacity_left=math.inf, expected_links=None, budget=0.5)
    low, high, chances = links["low"], links["high"], links["probability"]
    assert ((low <= chances + 1e-12) & (chances <= high + 1e-12)).all()
    is_link = links["decision"] == "link"
    assert np.bincount(right[is_link]).max() == 1


@pytest.mark.parametrize("capacity", [0, 1.5, [1, 2], "two"])
def test_capacities_are_checked(rng, capacity):
    pairs, _ = table(rng)
    with pytest.raises(errors.InvalidOptionError, match="capacity_right must be"):
        pm.link(pairs, capacity_right=capacity)


def test_what_takes_too_long_can_be_allowed(rng):
    pairs, _ = table(rng, 9, 9, 0.7)
    with pytest.raises(
        errors.SizeLimitError, match=r"budget is 1e-06 s\..*or raise budget"
    ):
        pm.link(pairs, capacity_right=2, expected_links=None, budget=1e-6)


def test_more_links_than_the_capacities_allow_are_refused():
    pairs = {"left": ["a", "a", "a", "b"], "right": ["x", "y", "z", "z"]}
    pairs["probability"] = [0.7, 0.2, 0.4, 0.5]
    with pytest.raises(errors.InvalidOptionError, match="must be below 3, the most links"):
        pm.link(pairs, capacity_left=2, expected_links=3.0)
    links = pm.link(pairs, capacity_left=2, expected_links=2.9)
    assert links.expected_links == pytest.approx(2.9, rel=1e-5)
