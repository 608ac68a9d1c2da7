"""Predicted probabilities of edges, next to what is known of them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch._validation import refuse_masked
from permatch.errors import InvalidGraphError, InvalidMatchingError
from permatch.graphs import BipartiteGraph
from permatch.known import Known
from permatch.labels import UNKNOWN, EdgeLabels, check_known
from permatch.metrics.matching import as_graphs, check_matching

# Marginals may miss [0, 1] by rounding.
_ROUNDING = 1e-9


class LabelledEdges(NamedTuple):
    """The edges of all graphs, one after another, those of a left node together.

    Attributes
    ----------
    predicted : ndarray of shape (n_edges,)
        Their probabilities.
    values : ndarray of shape (n_edges,)
        1 if matched, 0 if not, -1 if that is not known.
    left : ndarray of shape (n_edges,)
        Their left nodes, numbered through all graphs and in ascending order.
    """

    predicted: FloatArray
    values: IntArray
    left: IntArray


def label_edges(
    marginals: Sequence[Any],
    matchings: Sequence[Any],
    graphs: Sequence[Any] | None,
    *,
    by_node: bool = False,
) -> LabelledEdges:
    """Return the edges of all graphs, after checks; see `calibration` for the arguments.

    With `by_node`, left nodes must be known: marginals on a list of edges need the graphs.
    """
    for name, value in (("marginals", marginals), ("matchings", matchings)):
        if not isinstance(value, Sequence | np.ndarray):
            raise InvalidMatchingError(
                f"{name} must be a list with one entry per graph; got "
                f"{type(value).__name__}. Wrap a single one in a list."
            )
    if len(marginals) != len(matchings):
        raise InvalidMatchingError(
            "marginals and matchings must be lists of equal length, one entry per graph; "
            f"got {len(marginals)} and {len(matchings)}."
        )
    given = None if graphs is None else as_graphs(graphs)
    known = None if given is None else check_known(given, matchings)
    predicted = [np.empty(0)]
    values, left = [np.empty(0, dtype=np.intp)], [np.empty(0, dtype=np.intp)]
    n_left = 0
    for k, (table, label) in enumerate(zip(marginals, matchings, strict=True)):
        array = _check_marginals(table, k)
        if given is None or known is None:
            if by_node and array.ndim == 1:
                raise InvalidMatchingError(
                    "marginals on a list of edges need the graphs, which know the left "
                    f"nodes; those of graph {k} have shape {array.shape}. Pass graphs=."
                )
            of_edges = _edge_values(array, label, k)
            nodes = np.repeat(np.arange(len(array)), array.size // max(len(array), 1))
        else:
            array = _on_edges(array, given[k], k)
            of_edges = np.where(known[k].is_open, -1, known[k].is_match)
            nodes = known[k].structure.left
        predicted.append(np.clip(array.ravel(), 0.0, 1.0))
        values.append(of_edges.ravel())
        left.append(nodes + n_left)
        n_left += int(nodes[-1]) + 1 if len(nodes) else 0
    return LabelledEdges(
        np.concatenate(predicted), np.concatenate(values), np.concatenate(left)
    )


def _check_marginals(table: Any, k: int) -> FloatArray:
    refuse_masked(table, f"the table of marginals of graph {k}", InvalidGraphError)
    array = np.asarray(table, dtype=np.float64)
    if array.ndim not in (1, 2):
        raise InvalidGraphError(
            "marginals must have one array (n, k) per graph, or (n_edges,); that of graph "
            f"{k} has shape {array.shape}."
        )
    is_bad = ~((array >= -_ROUNDING) & (array <= 1.0 + _ROUNDING))
    if is_bad.any():
        place = tuple(int(n) for n in np.argwhere(is_bad)[0])
        edge = place if array.ndim == 2 else place[0]
        raise InvalidGraphError(
            f"marginals must lie between 0 and 1; edge {edge} of graph {k} has "
            f"{array[place]}. Give probabilities, not scores."
        )
    return array


def _on_edges(array: FloatArray, graph: BipartiteGraph, k: int) -> FloatArray:
    """Return the marginals of the allowed edges."""
    shape = (graph.n_left, graph.n_right) if graph.is_dense else (graph.n_edges,)
    if array.shape != shape:
        raise InvalidGraphError(
            f"marginals must be shaped like the graph; those of graph {k} have shape "
            f"{array.shape}, the graph has {shape}. Pass those of predict_marginals."
        )
    return graph.pick(array)


def _edge_values(array: FloatArray, label: Any, k: int) -> IntArray:
    """Return 1 for edges that are matched, 0 for others, -1 if unknown, like `array`."""
    if isinstance(label, EdgeLabels):
        if label.values.shape != array.shape:
            raise InvalidMatchingError(
                f"labels of edges must be shaped like the marginals; those of graph {k} "
                f"have shapes {label.values.shape} and {array.shape}."
            )
        return label.values
    if array.ndim == 1:
        raise InvalidMatchingError(
            f"marginals on a list of edges need EdgeLabels or the graphs; graph {k} has a "
            f"label of type {type(label).__name__}. Pass graphs=."
        )
    if isinstance(label, Known):
        raise InvalidMatchingError(
            f"a label of type Known needs the graphs; graph {k} has one. Pass graphs=."
        )
    matching = check_matching(label, k, UNKNOWN, *array.shape)
    values = (matching[:, None] == np.arange(array.shape[1])).astype(np.int8)
    values[matching == UNKNOWN] = -1
    return values
