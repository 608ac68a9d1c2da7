"""What is known about matchings, and what is refused as a label."""

import numpy as np
import pytest

import permatch as pm
from permatch import errors
from permatch.graphs import BipartiteGraph
from permatch.labels import check_known, check_labels

GRAPHS = [
    BipartiteGraph(np.zeros((2, 2, 1))),
    BipartiteGraph(np.zeros((3, 3, 1)), ~np.eye(3, dtype=bool)),
]

BAD_LABELS = {
    "two partners": (
        [[0, 1], [1, 2, 1]],
        errors.InvalidMatchingError,
        "graph 1 matches right node 1 to left nodes 0 and 2. Drop one",
    ),
    "counted from one": (
        [[1, 2], [1, 2, 0]],
        errors.InvalidMatchingError,
        "right nodes 0 .. 1, -1 .* graph 0 has 2 for left node 1. Nodes are counted from 0",
    ),
    "below unknown": (
        [[1, 0], [1, -3, 0]],
        errors.InvalidMatchingError,
        "graph 1 has -3 for left node 1",
    ),
    "another size": (
        [[0, 1], [1, 0]],
        errors.InvalidMatchingError,
        r"3 left nodes; that of graph 1 has .* shape \(2,\)",
    ),
    "floats": ([[0.0, 1.0], [1, 2, 0]], errors.InvalidMatchingError, "dtype float64"),
    "several": (
        [[[0, 1], [1, 0]], [1, 2, 0]],
        errors.InvalidMatchingError,
        r"graph 0 has .* shape \(2, 2\)",
    ),
    "ragged": ([[[0], [1, 0]], [1, 2, 0]], errors.InvalidMatchingError, "dtype object"),
    "too few": ([[0, 1]], errors.InvalidMatchingError, "2 graphs and 1 matchings"),
    "no sequence": (3, errors.InvalidMatchingError, "sequence, one per graph; got int"),
    "forbidden": (
        [[0, 1], [2, 1, 0]],
        errors.ForbiddenEdgeError,
        r"that of graph 1 uses the forbidden edge \(1, 1\). Allow it, or drop",
    ),
    "forbidden edge": (
        [[0, 1], pm.EdgeLabels(np.eye(3, dtype=int))],
        errors.ForbiddenEdgeError,
        r"that of graph 1 uses the forbidden edge \(0, 0\)",
    ),
    "edges of another shape": (
        [pm.EdgeLabels([1, 0]), [1, 2, 0]],
        errors.InvalidMatchingError,
        r"shaped like the graph; graph 0 has .* \(2, 2\), its labels have shape \(2,\)",
    ),
    "two partners on the left": (
        [pm.EdgeLabels([[1, 1], [0, 0]]), [1, 2, 0]],
        errors.InvalidMatchingError,
        "graph 0 matches left node 0 to right nodes 0 and 1",
    ),
    "apart on the left": (
        [pm.Known(apart=[(7, 1)]), [1, 2, 0]],
        errors.InvalidMatchingError,
        "left nodes 0 .. 1; that of graph 0 names 7",
    ),
    "apart on the right": (
        [pm.Known(apart=[(1, 7)]), [1, 2, 0]],
        errors.InvalidMatchingError,
        "right nodes 0 .. 1; that of graph 0 names 7",
    ),
}


@pytest.mark.parametrize("name", BAD_LABELS)
def test_bad_labels(name):
    labels, kind, message = BAD_LABELS[name]
    assert issubclass(kind, ValueError)
    with pytest.raises(kind, match=message):
        check_known(GRAPHS, labels)


@pytest.mark.parametrize("values", [[[2, 0]], [[0.5, 1.0]], [["a", "b"]]])
def test_bad_values_of_edges(values):
    with pytest.raises(errors.InvalidMatchingError, match="must be 1 .match., 0"):
        pm.EdgeLabels(values)


def test_good_labels_become_integer_arrays():
    labels = check_labels(GRAPHS, [np.array([1, 0], dtype=np.uint8), (1, -1, 0)])
    assert [label.dtype for label in labels] == [np.intp] * 2
    assert [label.tolist() for label in labels] == [[1, 0], [1, -1, 0]]
    with pytest.raises(errors.InvalidMatchingError, match="graph 0 .* left node 1"):
        check_labels(GRAPHS, [[0, -2], [1, 2, 0]])


def test_a_known_pair_closes_the_other_edges_of_its_nodes():
    graph = BipartiteGraph(np.zeros((3, 3, 1)))
    by_node, by_edge = check_known(
        [graph, graph],
        [[1, -2, -1], pm.EdgeLabels([[-1, 1, -1], [-1, -1, -1], [0, 0, 0]])],
    )
    for known in (by_node, by_edge):
        assert known.matching.tolist() == [1, -2, -1]
        assert np.argwhere(known.is_open.reshape(3, 3)).tolist() == [[1, 0], [1, 2]]
        assert not known.is_complete
        assert known.n_most_links == 2
        assert known.leaves_spare


def test_an_unknown_node_with_nobody_left_is_unmatched():
    graph = BipartiteGraph.from_edges([0, 1], [0, 0], np.zeros((2, 1)))
    (known,) = check_known([graph], [[0, -2]])
    assert known.is_complete
    assert known.matching.tolist() == [0, -1]


def test_labels_of_edges_are_in_the_order_of_the_edges():
    graph = BipartiteGraph.from_edges([1, 0, 1], [0, 1, 1], np.zeros((3, 1)))
    (known,) = check_known([graph], [pm.EdgeLabels([1, -1, 0])])
    assert known.matching.tolist() == [-2, 0]
    assert known.leaves_spare is False
    (known,) = check_known([graph], [pm.EdgeLabels([1, 0, 0])])
    assert known.matching.tolist() == [-1, 0]
    assert known.leaves_spare is True


@pytest.mark.parametrize(
    ("shape", "label", "expected"),
    [
        ((2, 3), [0, 2], False),
        ((2, 3), [0, -1], True),
        ((3, 2), [0, -1, 1], False),
        ((3, 2), [0, -1, -1], True),
        ((3, 2), [-2, -1, -1], True),
        ((3, 2), [-2, -1, -2], False),
        ((2, 2), [-1, -2], True),
        ((0, 2), [], False),
    ],
)
def test_nodes_left_over_on_the_larger_side_are_not_spare(shape, label, expected):
    graph = BipartiteGraph(np.zeros((*shape, 1)))
    (known,) = check_known([graph], [label])
    assert known.leaves_spare is expected
    partners = known.largest_matching
    assert partners.shape == (shape[0],)
    assert len(np.unique(partners[partners >= 0])) == known.n_most_links


def test_what_is_known_of_pairs_and_nodes():
    graph = BipartiteGraph(np.zeros((3, 3, 1)))
    label = pm.Known({0: 1}, apart=[(1, 0)], unmatched_right=[2])
    (known,) = check_known([graph], [label])
    assert np.argwhere(known.is_open.reshape(3, 3)).tolist() == [[2, 0]]
    assert known.matching.tolist() == [1, -1, -2]
    with pytest.raises(errors.InvalidMatchingError, match="right nodes 0 .. 2; .* names 3"):
        check_known([graph], [pm.Known({0: 3})])
    with pytest.raises(errors.ForbiddenEdgeError, match=r"forbidden edge \(0, 0\)"):
        check_known(GRAPHS[1:], [pm.Known({0: 0})])


def test_labels_of_edges_in_rows_of_different_lengths():
    with pytest.raises(errors.InvalidMatchingError, match="rows of different lengths"):
        pm.EdgeLabels([[1], [0, 1]])
