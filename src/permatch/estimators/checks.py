"""The checks of options and training sets that estimators share."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from permatch._features import as_features, check_finite
from permatch._types import FloatArray
from permatch._validation import check_choice, check_weights
from permatch.errors import (
    FeatureCountError,
    FeatureShapeError,
    FeatureTypeError,
    InvalidMatchingError,
    InvalidOptionError,
    NoGraphsError,
)
from permatch.graphs import BipartiteGraph
from permatch.labels import KnownEdges, check_known

#: Choices of the nodes that may stay unmatched.
UNMATCHED = ("auto", "larger", "any")

#: Graphs, what is known about their matchings, and their weights, which sum to one.
DataSet = tuple[list[BipartiteGraph], list[KnownEdges], FloatArray]


def check_data_set(
    graphs: Any,
    matchings: Any,
    sample_weight: Any,
    n_features: int | None = None,
    n_node_features: tuple[int, int] | None = None,
) -> DataSet:
    """Return labelled graphs with their labels and weights, all checked."""
    checked = check_graphs(graphs, n_features, n_node_features)
    labels = check_known(checked, matchings)
    return checked, labels, check_weights(sample_weight, len(checked))


def check_graphs(
    graphs: Any,
    n_features: int | None = None,
    n_node_features: tuple[int, int] | None = None,
) -> list[BipartiteGraph]:
    """Return graphs as a list, all with the same number of features.

    Accepts a sequence of `BipartiteGraph` and (n, k, d) arrays of any sizes, or one array
    (b, n, k, d).  `n_features` and `n_node_features` are those of a fitted model.
    """
    if isinstance(graphs, BipartiteGraph) or (
        isinstance(graphs, np.ndarray) and graphs.ndim == 3 and graphs.dtype != object
    ):
        raise FeatureShapeError(
            "graphs must be a sequence of graphs, got a single one. Wrap it: [graph]."
        )
    if not isinstance(graphs, Sequence | np.ndarray) or isinstance(graphs, str | bytes):
        raise FeatureTypeError(
            "graphs must be a sequence of (n, k, d) arrays or BipartiteGraph objects; got "
            f"{type(graphs).__name__}. For a table with one row per edge use "
            "permatch.datasets.read_edge_table."
        )
    for k, graph in enumerate(graphs):
        if isinstance(graph, str | os.PathLike):
            raise FeatureTypeError(
                f"graphs must be (n, k, d) arrays or BipartiteGraph objects; graph {k} is "
                f"a path, {str(graph)!r}. Name the folder of the files instead, or pass "
                "pyarrow.dataset.dataset([path, ...])."
            )
    checked = [
        graph if isinstance(graph, BipartiteGraph) else _named(graph, f"graph {k}")
        for k, graph in enumerate(graphs)
    ]
    if not checked:
        raise NoGraphsError("at least one graph is required; got an empty sequence.")
    expected = (
        checked[0].n_features if n_features is None else n_features,
        *(_node_features(checked[0]) if n_node_features is None else n_node_features),
    )
    for k, graph in enumerate(checked):
        found = graph.n_features, *_node_features(graph)
        if found != expected:
            what = ("features", "left_features", "right_features")
            worst = next(i for i in range(3) if found[i] != expected[i])
            who = "the first graph has" if n_features is None else "the model was fitted on"
            raise FeatureCountError(
                f"all graphs must have the same number of {what[worst]}; {who} "
                f"{expected[worst]}, graph {k} has {found[worst]}."
            )
    return checked


def _node_features(graph: BipartiteGraph) -> tuple[int, int]:
    return graph.left_features.shape[1], graph.right_features.shape[1]


def _named(features: Any, name: str) -> BipartiteGraph:
    """Return a graph; errors name it."""
    array = as_features(features, name)
    check_finite(array, name, lambda e: divmod(e, array.shape[1]))
    return BipartiteGraph(array)


def check_unmatched(data: DataSet, unmatched: str) -> bool:
    """Return whether any node may stay unmatched, by the option and the labels."""
    check_choice(unmatched, "unmatched", UNMATCHED)
    graphs, labels, _ = data
    spare = [k for k, known in enumerate(labels) if known.leaves_spare]
    if unmatched == "larger" and spare:
        graph, known = graphs[spare[0]], labels[spare[0]]
        raise too_few_links(spare[0], graph.n_left, graph.n_right, known.n_most_links)
    return bool(spare) or unmatched == "any"


def too_few_links(
    k: int, n_left: int, n_right: int, n_most_links: int
) -> InvalidMatchingError:
    """Return the error that a label leaves nodes unmatched that must not be."""
    return InvalidMatchingError(
        "with unmatched='larger' all nodes of the smaller side must be matched; the label "
        f"of graph {k} ({n_left} x {n_right}) allows at most {n_most_links} pairs. Use "
        "unmatched='any', or correct the label."
    )


def with_weight(data: DataSet) -> DataSet:
    """Return the graphs that have a weight above 0."""
    graphs, labels, weights = data
    kept = np.nonzero(weights)[0]
    return [graphs[k] for k in kept], [labels[k] for k in kept], weights[kept]


def check_number(value: Any, name: str, *, is_zero_allowed: bool = True) -> float:
    """Return a finite number of at least, or above, 0."""
    is_number = isinstance(value, int | float | np.integer | np.floating)
    try:
        number = float(value) if is_number and not isinstance(value, bool) else np.nan
    except OverflowError:  # a whole number beyond all floats
        number = np.inf
    if not (0.0 <= number < np.inf) or (number == 0.0 and not is_zero_allowed):
        bound = "of at least 0" if is_zero_allowed else "above 0"
        raise InvalidOptionError(f"{name} must be a finite number {bound}; got {value!r}.")
    return number
