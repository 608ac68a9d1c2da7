"""Precision and recall of links, against counts of pairs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import permatch as pm
from permatch.errors import InvalidMatchingError
from permatch.graphs import BipartiteGraph
from permatch.labels import EdgeLabels
from permatch.metrics import LinkQuality, link_quality


def matching_of(seed, n_left, n_right, least):
    rng = np.random.default_rng(seed)
    matching = np.resize(rng.permutation(max(n_left, n_right)), n_left)
    negative = rng.integers(least, 0, n_left)
    return np.where((rng.random(n_left) < 0.5) & (matching < n_right), matching, negative)


@given(st.integers(0, 10**6), st.integers(0, 6), st.integers(0, 6))
def test_against_sets_of_pairs(seed, n_left, n_right):
    true = [matching_of(seed + k, n_left, n_right, -1) for k in range(3)]
    found = [matching_of(seed + 7 + k, n_left, n_right, -2) for k in range(3)]

    def pairs(matchings):
        return {
            (k, i, j) for k, m in enumerate(matchings) for i, j in enumerate(m) if j >= 0
        }

    quality = link_quality(true, found)
    known, drawn = pairs(true), pairs(found)
    assert quality == LinkQuality(len(known), len(drawn), len(known & drawn))
    if known and drawn:
        assert quality.precision == len(known & drawn) / len(drawn)
        assert quality.recall == len(known & drawn) / len(known)
        both = quality.precision + quality.recall
        if both:
            expected = 2 * quality.precision * quality.recall / both
            assert quality.f1 == pytest.approx(expected)


def test_links_nobody_can_judge_are_left_out():
    quality = link_quality([[0, -2, -2, -1]], [[0, 1, -1, -1]])
    assert quality == LinkQuality(n_true=1, n_found=1, n_correct=1)
    # Right node 0 belongs to left node 0: whoever else gets it, wrongly so.
    quality = link_quality([[0, -2]], [[-1, 0]])
    assert quality == LinkQuality(n_true=1, n_found=1, n_correct=0)


def test_nothing_found_and_nothing_to_find():
    assert link_quality([[-1]], [[-1]]).f1 == 1.0
    assert link_quality([[0]], [[-1]]).precision == 1.0
    assert link_quality([[0]], [[-1]]).recall == 0.0
    assert link_quality([[-1]], [[0]]).precision == 0.0


def test_bad_input():
    with pytest.raises(InvalidMatchingError, match="got 1 and 2"):
        link_quality([[0]], [[0], [0]])
    with pytest.raises(InvalidMatchingError, match=r"left node, 1; .* \(2,\) for graph 0"):
        link_quality([[0]], [[0, 1]])


@pytest.mark.parametrize("bad", [[0.0, 1.0], [1, 1], [0, -5], None, [[0], [0, 1]], 3])
def test_links_must_be_matchings(bad):
    for pair in (([bad], [[0, 1]]), ([[0, 1]], [bad]), (bad, [[0, 1]])):
        with pytest.raises(InvalidMatchingError):
            link_quality(*pair)


def test_pairs_known_not_to_match_are_judged():
    """Left node 0 may belong to right node 1, but not to 0."""
    graph = BipartiteGraph.from_edges([0, 0, 1], [0, 1, 1], np.zeros((3, 1)))
    for label in (EdgeLabels([0, -1, -1]), pm.Known(apart=[(0, 0)])):
        quality = link_quality([label], [[0, 1]], graphs=[graph])
        assert quality == LinkQuality(n_true=0, n_found=1, n_correct=0)
        with pytest.raises(InvalidMatchingError, match="Pass graphs="):
            link_quality([label], [[0, 1]])
    quality = link_quality([[0, -2]], [[-2, 1]], graphs=[graph])
    assert quality == LinkQuality(n_true=1, n_found=0, n_correct=0)
