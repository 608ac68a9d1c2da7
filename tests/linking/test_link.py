"""`pm.link`: probabilities, the constant, decisions, the order of rows."""

import numpy as np
import pytest

import permatch as pm
from permatch.problems import Problem


def random_pairs(seed, n=6, k=7, density=0.5, scale=1.0):
    rng = np.random.default_rng(seed)
    left, right = np.nonzero(rng.random((n, k)) < density)
    order = rng.permutation(len(left))
    chances = rng.beta(0.5, 2.0 * scale, len(left))
    return {"left": left[order], "right": right[order], "probability": chances}


def brute_marginals(problem: Problem):
    """Sum over all matchings, by walking the edges."""
    structure = problem.structure
    left, right, scores = structure.left, structure.right, problem.scores
    totals, weights = np.zeros(len(scores)), []

    def walk(e, used_left, used_right, weight, chosen):
        if e == len(scores):
            weights.append(weight)
            totals[chosen] += weight
            return
        walk(e + 1, used_left, used_right, weight, chosen)
        i, j = int(left[e]), int(right[e])
        if i not in used_left and j not in used_right:
            more = weight * np.exp(scores[e])
            walk(e + 1, used_left | {i}, used_right | {j}, more, [*chosen, e])

    walk(0, frozenset(), frozenset(), 1.0, [])
    return totals / sum(weights)


@pytest.mark.parametrize("seed", range(4))
def test_probabilities_are_those_of_all_matchings(seed):
    pairs = random_pairs(seed, 4, 4)
    links = pm.link(pairs, expected_links=None)
    rows = np.empty(len(links))
    rows[links.rows] = brute_marginals(links.problem)
    assert np.allclose(links["probability"], rows, atol=1e-12)
    assert links.is_exact
    assert links.offset == 0.0


@pytest.mark.parametrize("seed", range(4))
def test_the_count_is_kept(seed):
    pairs = random_pairs(seed, 30, 30, 0.1, 2.0)
    links = pm.link(pairs)
    assert links.expected_links == pytest.approx(pairs["probability"].sum(), rel=1e-5)
    assert links.offset > 0.0


def test_a_number_of_links_can_be_asked_for():
    pairs = random_pairs(0, 20, 20, 0.2)
    for wanted in (3.0, 12.5):
        links = pm.link(pairs, expected_links=wanted)
        assert links.expected_links == pytest.approx(wanted, rel=1e-5)


def test_rows_keep_the_order_and_the_sums():
    pairs = random_pairs(1, 12, 12, 0.3)
    links = pm.link(pairs)
    assert links.columns == [
        "left",
        "right",
        "probability",
        "pair_probability",
        "no_partner_left",
        "no_partner_right",
        "decision",
        "is_exact",
        "low",
        "high",
    ]
    assert (links["left"] == pairs["left"]).all()
    assert np.array_equal(links["pair_probability"], pairs["probability"])
    for side in ("left", "right"):
        sums = np.bincount(pairs[side], links["probability"])
        assert np.allclose(sums[pairs[side]] + links[f"no_partner_{side}"], 1.0)
    linked = links["decision"] == "link"
    for side in ("left", "right"):
        assert np.unique(links[side][linked]).size == linked.sum()


def test_without_competitors_nothing_changes():
    pairs = {"left": ["a", "b"], "right": ["x", "y"], "probability": [0.3, 0.8]}
    links = pm.link(pairs)
    assert np.allclose(links["probability"], [0.3, 0.8], atol=1e-12)
    assert links.offset == 0.0


def stars(n):
    """Records with two likely partners each."""
    left, right = np.repeat(np.arange(n), 2), np.arange(2 * n)
    return {"left": left, "right": right, "probability": np.full(2 * n, 0.9)}


def test_far_more_links_than_possible_are_warned_of():
    words = r"add up to 5\.4 links, but with one-to-one links only 2\.9 are expected"
    with pytest.warns(UserWarning, match=words):
        links = pm.link(stars(3))
    assert 0.0 < links.offset < 4.0
    assert links.expected_links < 3.0


def test_a_shortfall_that_chance_explains_is_not_warned_of():
    links = pm.link(stars(1))
    assert links.expected_links < 1.0
    n = 168
    pairs = {"left": np.arange(n), "right": np.arange(n), "probability": np.ones(n)}
    extra = {"left": [0, 1, 2], "right": [1, 2, 3], "probability": [0.5] * 3}
    links = pm.link({key: np.append(pairs[key], extra[key]) for key in pairs})
    assert links.expected_links == pytest.approx(n, abs=1e-3)
