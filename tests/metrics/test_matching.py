"""The Hamming loss of predicted matchings."""

import numpy as np
import pytest

import permatch as pm
from permatch.errors import InvalidMatchingError, InvalidOptionError
from permatch.graphs import BipartiteGraph
from permatch.labels import EdgeLabels
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
    with pytest.raises(InvalidMatchingError, match=r"of equal length|at least one graph"):
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
    assert hamming_loss([[-2, -2], [0]], [[1, 0], [-1]]) == 1.0


def test_a_node_left_to_a_person_counts_as_wrong():
    assert hamming_loss([[0, 1, -1, -2]], [[0, -2, -2, -2]]) == pytest.approx(2 / 3)


def test_graphs_without_a_known_partner_have_no_weight():
    assert hamming_loss([[0, 1], [-2, -2]], [[1, 0], [0, 1]]) == 1.0
    weights = [1.0, 5.0, 3.0]
    true, found = [[0, 1], [-2, -2], [0, 1]], [[1, 0], [0, 1], [0, 1]]
    assert hamming_loss(true, found, sample_weight=weights) == 0.25
    for weights in (None, [0.0, 1.0]):
        with pytest.raises(InvalidMatchingError, match=r"is known; .* Label more"):
            hamming_loss([[-2], [-2]], [[0], [0]], sample_weight=weights)
    with pytest.raises(InvalidMatchingError, match=r"is known; .* Label more"):
        hamming_loss([[0], [-2]], [[0], [0]], sample_weight=[0.0, 1.0])


def test_labels_of_all_kinds_come_with_their_graphs():
    graph = BipartiteGraph.from_edges([0, 0, 1, 1], [0, 1, 0, 1], np.zeros((4, 1)))
    array = np.zeros((2, 2, 1))
    labels = [[0, 1], EdgeLabels([-1, -1, 0, 0]), pm.Known(matched={0: 1})]
    found = [[1, 0], [0, -1], [1, 0]]
    # Of the second graph left node 1 is known, to be unmatched; of the third, node 0.
    assert hamming_loss(labels, found, graphs=[graph, graph, array]) == pytest.approx(1 / 3)
    for label in labels[1:]:
        with pytest.raises(InvalidMatchingError, match="Pass graphs="):
            hamming_loss([label], [[0, 1]])
        with pytest.raises(InvalidMatchingError, match="true must be a list"):
            hamming_loss(label, [[0, 1]])
    with pytest.raises(InvalidMatchingError, match=r"right nodes 0 \.\. 1; .* has 7"):
        hamming_loss([[0, 1]], [[0, 7]], graphs=[graph])
    with pytest.raises(InvalidMatchingError, match="graphs must be a list"):
        hamming_loss([[0, 1]], [[0, 1]], graphs=graph)
