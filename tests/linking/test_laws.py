"""What must hold for any table of pairs: order, sides, independence, constants."""

import numpy as np
import pytest

import permatch as pm
from tests.linking.test_link import brute_marginals, random_pairs

SEEDS = range(3)
# The constant is found to a millionth of the links.
CLOSE = 1e-5


def chances(odds):
    return 1.0 / (1.0 + np.exp(-odds))


def numbers(links):
    """Return all columns of numbers, a row per pair."""
    names = ("probability", "no_partner_left", "no_partner_right", "low", "high")
    return np.stack([links[name] for name in names], axis=1)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("expected", ["pairs", None, 3.0])
def test_permuting_rows_permutes_the_answer(seed, expected):
    pairs = random_pairs(seed, 12, 10, 0.3)
    order = np.random.default_rng(seed).permutation(len(pairs["left"]))
    one = pm.link(pairs, expected_links=expected)
    other = pm.link({key: pairs[key][order] for key in pairs}, expected_links=expected)
    assert np.allclose(numbers(one)[order], numbers(other), atol=CLOSE)
    assert one["decision"][order].tolist() == other["decision"].tolist()


@pytest.mark.parametrize("seed", SEEDS)
def test_swapping_the_sides_swaps_the_answer(seed):
    pairs = random_pairs(seed, 12, 10, 0.3)
    swapped = {
        "left": pairs["right"],
        "right": pairs["left"],
        "probability": pairs["probability"],
    }
    one, other = pm.link(pairs), pm.link(swapped)
    assert np.allclose(numbers(one)[:, [0, 2, 1, 3, 4]], numbers(other), atol=CLOSE)
    assert one["decision"].tolist() == other["decision"].tolist()
    assert one.offset == pytest.approx(other.offset, abs=CLOSE)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("left", "right", "chance"),
    [(99, 99, 0.4), (99, 0, 0.0)],
    ids=["isolated", "forbidden"],
)
def test_pairs_that_compete_with_none_change_nothing_else(seed, left, right, chance):
    pairs = random_pairs(seed, 9, 9, 0.3)
    new = {"left": left, "right": right, "probability": chance}
    more = {key: np.append(pairs[key], new[key]) for key in pairs}
    one, other = (pm.link(table, expected_links=None) for table in (pairs, more))
    assert np.allclose(numbers(one), numbers(other)[:-1], atol=1e-12)
    assert other["probability"][-1] == pytest.approx(chance)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("shift", [-3.0, 0.0, 5.0])
def test_the_right_number_of_links_recovers_the_probabilities(seed, shift):
    pairs = random_pairs(seed, 4, 4)
    truth = pm.link(pairs, expected_links=None)
    right = np.empty(len(truth))
    right[truth.rows] = brute_marginals(truth.problem)
    odds = np.log(pairs["probability"] / (1.0 - pairs["probability"])) + shift
    links = pm.link(
        pairs | {"probability": chances(odds)}, expected_links=float(right.sum())
    )
    assert np.allclose(links["probability"], right, atol=CLOSE)
    assert links.offset == pytest.approx(-shift, abs=10 * CLOSE)


def test_one_to_one_probabilities_are_right_where_pair_probabilities_are():
    # Blocks of 5 x 5 records; pairs are scored one by one, and scored right.
    rng = np.random.default_rng(0)
    n_blocks, n = 200, 5
    partner = np.argsort(rng.random((n_blocks, n)), axis=1)
    partner[rng.random((n_blocks, n)) < 0.3] = -1
    block, left, right = np.indices((n_blocks, n, n)).reshape(3, -1)
    is_link = (partner[block, left] == right).astype(float)
    score = rng.normal(2.0 * is_link)
    prior = np.log(0.14 / 0.86)  # 0.7 / 5
    pair = chances(2.0 * score - 2.0 + prior)
    links = pm.link(
        {"left": n * block + left, "right": n * block + right, "probability": pair}
    )
    found = links["probability"]

    def brier(probability):
        return ((probability - is_link) ** 2).mean()

    assert brier(found) < 0.8 * brier(pair)
    for low in np.arange(0.0, 1.0, 0.2):
        own = (found >= low) & (found < low + 0.2)
        error = found[own].sum() - is_link[own].sum()
        assert abs(error) < 3.5 * np.sqrt((found[own] * (1.0 - found[own])).sum())
