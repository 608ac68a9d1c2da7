"""The Hamming loss of predicted matchings."""

import numpy as np
import pytest

from permatch.errors import InvalidMatchingError, InvalidOptionError
from permatch.metrics import hamming_loss


def test_share_of_wrong_rows_averaged_over_graphs():
    true = [[0, 1, 2, 3], [1, 0]]
    assert hamming_loss(true, true) == 0.0
    assert hamming_loss(true, [[1, 0, 2, 3], [1, 0]]) == 0.25
    assert hamming_loss(true, [[1, 0, 3, 2], [0, 1]]) == 1.0


def test_graphs_count_alike_whatever_their_size(rng):
    true = [rng.permutation(size) for size in (2, 9, 5)]
    predicted = [rng.permutation(len(matching)) for matching in true]
    parts = [np.mean(a != b) for a, b in zip(true, predicted, strict=True)]
    assert hamming_loss(true, predicted) == pytest.approx(np.mean(parts))


def test_weights():
    true, predicted = [[0, 1], [0, 1]], [[0, 1], [1, 0]]
    assert hamming_loss(true, predicted, sample_weight=[3.0, 1.0]) == 0.25
    assert hamming_loss(true, predicted, sample_weight=[1.0, 0.0]) == 0.0


def test_an_empty_graph_counts_as_right():
    assert hamming_loss([[], [1, 0]], [[], [0, 1]]) == 0.5


def test_is_symmetric_and_ignores_a_renaming_of_columns(rng):
    a, b = ([rng.permutation(6) for _ in range(5)] for _ in range(2))
    names = rng.permutation(6)
    loss = hamming_loss(a, b)
    assert hamming_loss(b, a) == loss
    assert hamming_loss([names[x] for x in a], [names[x] for x in b]) == loss


@pytest.mark.parametrize("pair", [([], []), ([[0]], []), ([[0, 1]], [[0, 1], [1, 0]])])
def test_lists_must_be_equally_long_and_not_empty(pair):
    with pytest.raises(InvalidMatchingError, match="non-empty lists of equal length"):
        hamming_loss(*pair)


@pytest.mark.parametrize("wrong", [[0, 0], [0], [0.0, 1.0], [1, -3]])
def test_predictions_must_be_matchings(wrong):
    with pytest.raises(InvalidMatchingError):
        hamming_loss([[0, 1]], [wrong])


@pytest.mark.parametrize("weights", [[np.nan, 1], [2, -1], [0, 0], [1], "ab"])
def test_bad_weights(weights):
    with pytest.raises(InvalidOptionError, match="sample_weight must"):
        hamming_loss([[0, 1], [1, 0]], [[0, 1], [0, 1]], sample_weight=weights)


def test_a_partner_instead_of_none_is_wrong_and_unknown_nodes_are_left_out():
    assert hamming_loss([[-1, 2, 0, 1]], [[3, 2, -1, 1]]) == 0.5
    assert hamming_loss([[-1, -2, 0, -2]], [[-1, 2, -1, 1]]) == 0.5
    assert hamming_loss([[-2, -2], [0]], [[1, 0], [-1]]) == 0.5


def test_a_node_left_to_a_person_counts_as_wrong():
    assert hamming_loss([[0, 1, -1, -2]], [[0, -2, -2, -2]]) == pytest.approx(2 / 3)
