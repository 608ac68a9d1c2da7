"""Graphs with features on their edges, and the checks of a whole data set."""

import numpy as np
import pytest

from permatch import errors
from permatch.estimators.checks import check_graphs
from permatch.graphs import (
    BipartiteGraph,
    squared_difference,
)
from permatch.problems import side_by_side

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
    "no sequence": (7, errors.FeatureTypeError, "sequence of .n, k, d. arrays.*got int"),
    "text": ("graphs", errors.FeatureTypeError, "got str"),
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


def test_all_are_value_errors():
    kinds = {kind for _, kind, _ in BAD_GRAPHS.values()}
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


def test_sides_may_differ_in_size(rng):
    features = rng.normal(size=(2, 3, 4))
    graph = BipartiteGraph(features)
    assert (graph.n_left, graph.n_right, graph.size, graph.n_edges) == (2, 3, 3, 6)
    np.testing.assert_array_equal(graph.features, features)
    coef = rng.normal(size=4)
    np.testing.assert_allclose(graph.scores(coef), features @ coef, rtol=1e-14)
    assert BipartiteGraph.from_nodes(np.zeros((2, 1)), np.ones((5, 1))).n_right == 5


# ---- graphs made from edges ------------------------------------------------------------


def test_edges_come_back_in_their_order(rng):
    left, right = np.array([2, 0, 2, 1]), np.array([1, 3, 0, 1])
    features = rng.normal(size=(4, 2))
    graph = BipartiteGraph.from_edges(left, right, features, n_left=4)
    assert (graph.n_left, graph.n_right, graph.n_edges, graph.n_features) == (4, 4, 4, 2)
    structure = graph.structure
    places = list(zip(structure.left.tolist(), structure.right.tolist(), strict=True))
    assert places == [(0, 3), (1, 1), (2, 0), (2, 1)]
    np.testing.assert_array_equal(graph.edge_features, features[[1, 3, 2, 0]])
    scores = graph.scores(np.array([1.0, -2.0]))
    np.testing.assert_array_equal(scores.left, left)
    np.testing.assert_array_equal(scores.right, right)
    np.testing.assert_allclose(scores.score, features @ [1.0, -2.0], rtol=1e-14)
    np.testing.assert_array_equal(graph.lay(graph.edge_features[:, 0]), features[:, 0])
    np.testing.assert_array_equal(graph.pick(features[:, 1]), graph.edge_features[:, 1])
    # The same graph as an array.
    dense = np.zeros((4, 4, 2))
    dense[left, right] = features
    allowed = np.zeros((4, 4), dtype=bool)
    allowed[left, right] = True
    np.testing.assert_array_equal(graph.features, dense)
    np.testing.assert_array_equal(graph.allowed, allowed)
    again = BipartiteGraph(dense, allowed)
    np.testing.assert_array_equal(again.structure.starts, structure.starts)
    np.testing.assert_array_equal(again.edge_features, graph.edge_features)


def test_sorted_read_only_edges_are_not_copied(rng):
    features = rng.normal(size=(3, 2))
    features.flags.writeable = False
    graph = BipartiteGraph.from_edges([0, 0, 1], [0, 2, 1], features)
    assert graph.edge_features is features
    assert "2 x 3, 3 edges, 2 features" in repr(graph)
    assert "1 x 1, 1 edge, 1 feature)" in repr(BipartiteGraph(np.zeros((1, 1, 1))))


def test_a_hundred_thousand_nodes_are_never_made_dense(rng):
    n, n_edges = 100_000, 300_000
    pairs = np.unique(rng.integers(n * n, size=n_edges))
    left, right = np.divmod(rng.permutation(pairs), n)
    graph = BipartiteGraph.from_edges(left, right, rng.normal(size=(len(pairs), 1)), n, n)
    assert graph.n_edges == len(pairs)
    with pytest.raises(errors.SizeLimitError, match="needs .* GiB"):
        BipartiteGraph.from_edges([0], [0], [[1.0]], 10**8, 10**8).features  # noqa: B018


def test_no_edges_and_no_nodes():
    graph = BipartiteGraph.from_edges([], [], np.zeros((0, 2)), 2, 0)
    assert (graph.n_left, graph.n_right, graph.n_edges) == (2, 0, 0)
    assert BipartiteGraph(np.zeros((0, 3, 2))).n_edges == 0


def test_features_of_nodes(rng):
    z, w = rng.normal(size=(2, 3)), rng.normal(size=(4, 1))
    graph = BipartiteGraph(np.zeros((2, 4, 1)), left_features=z, right_features=w)
    np.testing.assert_array_equal(graph.left_features, z)
    np.testing.assert_array_equal(graph.right_features, w)
    plain = BipartiteGraph(np.zeros((2, 4, 1)))
    assert plain.left_features.shape == (2, 0)
    with pytest.raises(
        errors.FeatureCountError, match="left_features; .* 3, graph 1 has 0"
    ):
        check_graphs([graph, plain])


EDGES = ([0, 1], [1, 0], [[1.0], [2.0]])

BAD_EDGES = {
    "twice": (
        ([0, 1, 0], [1, 0, 1], np.ones((3, 1))),
        {},
        errors.EdgeListError,
        r"\(0, 1\)",
    ),
    "out of range": (EDGES, {"n_left": 1}, errors.EdgeListError, "left node 1, and n_left"),
    "negative": (([0, -1], *EDGES[1:]), {}, errors.EdgeListError, "at least 0"),
    "text": ((["a", "b"], *EDGES[1:]), {}, errors.EdgeListError, "node numbers"),
    "lengths": (([0], *EDGES[1:]), {}, errors.EdgeListError, "one entry per edge"),
    "flat": ((*EDGES[:2], [1.0, 2.0]), {}, errors.FeatureShapeError, "(n_edges, d)"),
    "nan": (
        (*EDGES[:2], [[1.0], [NAN]]),
        {},
        errors.NaNFeatureError,
        r"edge \(1, 0\) has nan in feature 0",
    ),
    "nodes": (
        EDGES,
        {"left_features": np.zeros((3, 1))},
        errors.FeatureShapeError,
        r"left_features must .* \(2, p\); got shape \(3, 1\)",
    ),
    "nan of a node": (
        EDGES,
        {"right_features": [[0.0], [NAN]]},
        errors.NaNFeatureError,
        "right_features must be finite; node 1",
    ),
}


@pytest.mark.parametrize("name", BAD_EDGES)
def test_bad_edges(name):
    edges, options, kind, message = BAD_EDGES[name]
    with pytest.raises(kind, match=message):
        BipartiteGraph.from_edges(*edges, **options)


def test_graphs_of_one_structure_are_those_of_their_edges(rng):
    """Also without nodes, and without edges."""
    shapes = [(3, 2), (0, 2), (1, 4), (2, 0), (4, 4)]
    parts = [np.nonzero(rng.random(shape) < 0.6) for shape in shapes]
    features = [rng.normal(size=(len(left), 2)) for left, _ in parts]
    expected = [
        BipartiteGraph.from_edges(*part, x, *shape)
        for part, x, shape in zip(parts, features, shapes, strict=True)
    ]
    whole = side_by_side([graph.structure for graph in expected])
    found = BipartiteGraph.split(whole, np.concatenate(features))
    for one, other in zip(found, expected, strict=True):
        assert (one.n_left, one.n_right) == (other.n_left, other.n_right)
        for name in ("starts", "right", "left_starts", "right_starts"):
            mine, theirs = getattr(one.structure, name), getattr(other.structure, name)
            np.testing.assert_array_equal(mine, theirs)
            assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(one.edge_features, other.edge_features)
        np.testing.assert_array_equal(
            one.lay(np.arange(one.n_edges)), np.arange(one.n_edges)
        )
        assert one.left_features.shape == other.left_features.shape
