"""Graphs with features on their edges, and the checks of a whole data set."""

import numpy as np
import pytest

from permatch import errors
from permatch.graphs import (
    BipartiteGraph,
    check_graphs,
    check_labels,
    squared_difference,
)

NAN, INF = np.nan, np.inf


def test_scores_are_inner_products(rng):
    features, coef = rng.normal(size=(4, 4, 3)), rng.normal(size=3)
    scores = BipartiteGraph(features).scores(coef)
    np.testing.assert_allclose(scores, np.einsum("ijd,d->ij", features, coef))


def test_forbidden_edges_score_minus_infinity(rng):
    allowed = rng.random((4, 4)) < 0.5
    scores = BipartiteGraph(rng.normal(size=(4, 4, 3)), allowed).scores(np.ones(3))
    np.testing.assert_array_equal(np.isneginf(scores), ~allowed)


def test_knows_its_size_and_number_of_features(rng):
    graph = BipartiteGraph(rng.normal(size=(4, 4, 3)))
    assert (graph.size, graph.n_features) == (4, 3)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8, bool])
def test_features_of_any_real_type_become_float64(dtype):
    graph = BipartiteGraph(np.ones((2, 2, 1), dtype=dtype))
    assert graph.features.dtype == np.float64


def test_from_nodes_applies_the_edge_function(rng):
    left, right = rng.normal(size=(2, 5, 3))
    for edge in (squared_difference, lambda a, b: a * b):
        graph = BipartiteGraph.from_nodes(left, right, edge)
        for i, j in ((0, 0), (1, 3), (4, 2)):
            np.testing.assert_array_equal(graph.features[i, j], edge(left[i], right[j]))


def test_from_nodes_keeps_forbidden_edges(rng):
    allowed = np.eye(3, dtype=bool)
    graph = BipartiteGraph.from_nodes(np.zeros((3, 1)), np.ones((3, 1)), allowed=allowed)
    np.testing.assert_array_equal(graph.allowed, allowed)


def test_graphs_may_be_mixed_in_size_and_kind(rng):
    arrays = [rng.normal(size=(size, size, 2)) for size in (3, 1, 4)]
    graphs = check_graphs([arrays[0], BipartiteGraph(arrays[1]), arrays[2].tolist()])
    assert [graph.size for graph in graphs] == [3, 1, 4]
    assert [graph.size for graph in check_graphs(np.zeros((5, 2, 2, 1)))] == [2] * 5
    ragged = np.empty(3, dtype=object)
    ragged[:] = arrays
    assert [graph.size for graph in check_graphs(ragged)] == [3, 1, 4]


def with_value(value):
    features = np.zeros((3, 3, 2))
    features[1, 2, 1] = value
    return features


BAD_GRAPHS = {
    "empty": ([], errors.NoGraphsError, "at least one graph.*empty"),
    "one array": (np.zeros((2, 2, 1)), errors.FeatureShapeError, r"Wrap it: \[graph\]"),
    "one graph": (
        BipartiteGraph(np.zeros((2, 2, 1))),
        errors.FeatureShapeError,
        r"single one. Wrap it",
    ),
    "no sequence": (7, errors.FeatureTypeError, "sequence of .m, m, d. arrays.*got int"),
    "text": ("graphs", errors.FeatureTypeError, "got str"),
    "not square": (
        [np.zeros((2, 3, 1))],
        errors.FeatureShapeError,
        r"graph 0 must have shape .m, m, d.*got \(2, 3, 1\). Pad",
    ),
    "scores, not features": (
        [np.zeros((2, 2, 1)), np.zeros((2, 2))],
        errors.FeatureShapeError,
        r"graph 1 must.*got \(2, 2\)",
    ),
    "ragged": ([[[[1.0], [2.0]], [[1.0]]]], errors.FeatureShapeError, "different lengths"),
    "complex": ([np.zeros((2, 2, 1), complex)], errors.FeatureTypeError, "real numbers"),
    "nan": (
        [np.zeros((3, 3, 2)), with_value(NAN)],
        errors.NaNFeatureError,
        r"graph 1 must be finite; edge \(1, 2\) has nan in feature 1.*forbid the edge",
    ),
    "infinite": (
        [with_value(-INF)],
        errors.NaNFeatureError,
        r"graph 0 .*edge \(1, 2\) has -inf",
    ),
    "feature counts": (
        [np.zeros((2, 2, 3)), np.zeros((2, 2, 3)), np.zeros((2, 2, 4))],
        errors.FeatureCountError,
        "the first graph has 3, graph 2 has 4",
    ),
}


@pytest.mark.parametrize("name", BAD_GRAPHS)
def test_bad_graphs(name):
    graphs, kind, message = BAD_GRAPHS[name]
    with pytest.raises(kind, match=message):
        check_graphs(graphs)


def test_another_number_of_features_than_the_model():
    with pytest.raises(errors.FeatureCountError, match="fitted on 5, graph 0 has 3"):
        check_graphs([np.zeros((2, 2, 3))], 5)


@pytest.mark.parametrize("allowed", [np.ones((2, 2)), np.ones((3, 3), dtype=bool)])
def test_a_mask_of_another_shape_or_type(allowed):
    with pytest.raises(errors.FeatureShapeError, match=r"boolean array.*\(2, 2\); got"):
        BipartiteGraph(np.zeros((2, 2, 1)), allowed)


def test_nodes_of_different_shapes():
    with pytest.raises(errors.FeatureShapeError, match=r"\(2, 3\) and \(2, 4\)"):
        BipartiteGraph.from_nodes(np.zeros((2, 3)), np.zeros((2, 4)))


GRAPHS = [
    BipartiteGraph(np.zeros((2, 2, 1))),
    BipartiteGraph(np.zeros((3, 3, 1)), ~np.eye(3, dtype=bool)),
]

BAD_LABELS = {
    "no permutation": (
        [[0, 1], [1, 1, 0]],
        errors.InvalidMatchingError,
        r"matching of graph 1: .*exactly once; got \[1, 1, 0\]. Columns are counted from 0",
    ),
    "counted from one": (
        [[1, 2], [1, 2, 0]],
        errors.InvalidMatchingError,
        r"graph 0: .*columns 0 .. 1 exactly once",
    ),
    "another size": (
        [[0, 1], [1, 0]],
        errors.InvalidMatchingError,
        r"graph 1: .*integer array of 3 columns.*shape \(2,\)",
    ),
    "floats": ([[0.0, 1.0], [1, 2, 0]], errors.InvalidMatchingError, "dtype float64"),
    "several": (
        [[[0, 1], [1, 0]], [1, 2, 0]],
        errors.InvalidMatchingError,
        "got 2 for graph 0",
    ),
    "too few": ([[0, 1]], errors.InvalidMatchingError, "2 graphs and 1 matchings"),
    "no sequence": (3, errors.InvalidMatchingError, "sequence, one per graph; got int"),
    "forbidden": (
        [[0, 1], [2, 1, 0]],
        errors.ForbiddenEdgeError,
        r"that of graph 1 uses the forbidden edge \(1, 1\). Allow it, or drop",
    ),
}


@pytest.mark.parametrize("name", BAD_LABELS)
def test_bad_labels(name):
    matchings, kind, message = BAD_LABELS[name]
    with pytest.raises(kind, match=message):
        check_labels(GRAPHS, matchings)


def test_good_labels_become_integer_arrays():
    labels = check_labels(GRAPHS, [np.array([1, 0], dtype=np.uint8), (1, 2, 0)])
    assert [label.dtype for label in labels] == [np.intp] * 2
    assert [label.tolist() for label in labels] == [[1, 0], [1, 2, 0]]


def test_all_are_value_errors():
    kinds = {kind for _, kind, _ in (*BAD_GRAPHS.values(), *BAD_LABELS.values())}
    assert all(issubclass(kind, ValueError) for kind in kinds)


def test_what_a_forbidden_edge_has_does_not_matter():
    features = np.ones((2, 2, 1))
    features[0, 1] = np.nan
    allowed = np.array([[True, False], [False, True]])
    graph = BipartiteGraph(features, allowed)
    assert np.isfinite(graph.features).all()
    assert graph.scores(np.ones(1))[0, 1] == -np.inf


def test_a_graph_does_not_change_with_the_array_it_was_made_of():
    features = np.ones((2, 2, 1))
    graph = BipartiteGraph(features)
    features[:] = np.nan
    assert (graph.features == 1.0).all()
    with pytest.raises(ValueError, match="read-only"):
        graph.features[0, 0, 0] = 2.0


@pytest.mark.parametrize(
    ("left", "kind"),
    [
        ([["a"], ["b"]], errors.FeatureTypeError),
        ([[1.0], [2.0, 3.0]], errors.FeatureShapeError),
        ([[1j], [2j]], errors.FeatureTypeError),
        ([1.0, 2.0], errors.FeatureShapeError),
    ],
)
def test_bad_nodes(left, kind):
    with pytest.raises(kind, match="left"):
        BipartiteGraph.from_nodes(left, [[1.0], [2.0]])


def test_edges_without_features():
    with pytest.raises(errors.FeatureShapeError, match="at least one feature"):
        check_graphs([np.zeros((2, 2, 0))])


def test_sides_may_differ_in_size():
    graph = BipartiteGraph(np.zeros((3, 3, 1)), n_left=2)
    assert graph.n_sides == (2, 3)
    assert graph.n_extra == 1
    with pytest.raises(errors.FeatureShapeError, match="larger of n_left .* 3; got 2 and"):
        BipartiteGraph(np.zeros((3, 3, 1)), n_left=2, n_right=2)
    with pytest.raises(errors.InvalidOptionError, match="n_left"):
        BipartiteGraph(np.zeros((3, 3, 1)), n_left=-1)
