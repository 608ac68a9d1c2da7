"""Sort the rows of an edge table into graphs.

Whole columns are sorted and counted, so a million rows take no longer in many small graphs
than in a few large ones, and no array has more entries than the table has cells.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from permatch._cells import quoted
from permatch._types import FloatArray, IntArray
from permatch.datasets.columns import LABEL_RULE, Columns
from permatch.errors import NaNFeatureError, TableError
from permatch.graphs import BipartiteGraph
from permatch.labels import EdgeLabels
from permatch.problems import Structure

#: What a label says of an edge.
_MATCH, _NO_MATCH, _UNKNOWN = 1, 0, -1


@dataclass(frozen=True, eq=False)
class _Side:
    """The nodes on one side of all graphs, graph by graph in order of appearance.

    `node` numbers the node of every row across all graphs, `codes` holds the id codes of
    the nodes, and graph g owns nodes ``starts[g] : starts[g + 1]``.
    """

    node: IntArray
    codes: IntArray
    starts: IntArray

    def ids(self, values: list[Any]) -> list[list[Any]]:
        """Return the ids of the nodes of every graph."""
        names = [values[code] for code in self.codes.tolist()]
        ends = self.starts.tolist()
        return [names[a:b] for a, b in zip(ends, ends[1:], strict=False)]


@dataclass(frozen=True, eq=False)
class Edges:
    """Where every row of the table belongs.

    `order` sorts the rows by graph, left node and right node, None if they are sorted; in
    this order, graph g owns the edges ``starts[g] : starts[g + 1]``.
    """

    left: _Side
    right: _Side
    starts: IntArray
    order: IntArray | None

    def sort(self, values: Any) -> Any:
        """Return values of rows in the order of edges."""
        return values if self.order is None else values[self.order]


def check_columns(columns: Columns) -> None:
    """Refuse tables without a row or a feature, or with features that are not finite."""
    if len(columns.features) == 0:
        raise TableError(
            f"{columns.name} must have at least one pair; it has a header and no rows."
        )
    if not columns.feature_names:
        left_out = f" ({quoted(columns.ignored)} left out)" if columns.ignored else ""
        raise TableError(
            f"{columns.name} must have at least one feature, a column of numbers besides "
            f"ids and label; it has none{left_out}. Add one."
        )
    is_finite = np.isfinite(columns.features)
    if not is_finite.all():
        row, feature = (int(k) for k in np.argwhere(~is_finite)[0])
        value = columns.features[row, feature]
        raise NaNFeatureError(
            f"features must be finite; {columns.feature_names[feature]!r} is "
            f"{'missing' if np.isnan(value) else value} for pair {columns.edge(row)}, "
            f"{columns.at(row)}. Fill it in, for example with the column mean; drop the "
            "row only to forbid the pair."
        )


def number_edges(columns: Columns) -> Edges:
    """Find the graph and the nodes of every row; refuse pairs that are listed twice."""
    (graph, graph_ids), (left, _), (right, _) = columns.ids
    one, other = (_number_nodes(graph, codes, len(graph_ids)) for codes in (left, right))
    key = one.node * len(other.codes) + other.node
    order = None
    if not (key[1:] > key[:-1]).all():
        order = np.argsort(key, kind="stable")
        key = key[order]
    is_repeated = key[1:] == key[:-1]
    if order is not None and is_repeated.any():
        k = int(np.argmax(is_repeated))
        first, second = order[k], order[k + 1]
        raise TableError(
            f"every pair must have one row; pair {columns.edge(second)} has two, at "
            f"{columns.at(first)} and {columns.at(second)}. Drop one of them."
        )
    counts = np.bincount(graph, minlength=len(graph_ids))
    return Edges(one, other, np.concatenate([[0], np.cumsum(counts)]), order)


def _number_nodes(graph: IntArray, codes: IntArray, n_graphs: int) -> _Side:
    """Return the nodes of one side, numbered by graph and then by first appearance."""
    if n_graphs == 1:  # codes are numbered by first appearance
        n_nodes = int(codes.max()) + 1
        return _Side(codes, np.arange(n_nodes), np.array([0, n_nodes]))
    key = graph * (codes.max() + 1) + codes
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    order = np.lexsort((first, graph[first]))
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    counts = np.bincount(graph[first], minlength=n_graphs)
    starts = np.concatenate([[0], np.cumsum(counts)])
    return _Side(rank[inverse], codes[first][order], starts)


def read_labels(columns: Columns, edges: Edges, label: str) -> list[Any] | None:
    """Return the label of every graph: its matching, or what is known of its edges.

    None if no row has a label.  A node none of whose pairs matches is unmatched; an empty
    cell says nothing about its pair.
    """
    values = columns.labels
    if values is None or np.isnan(values).all():
        return None
    known = edge_values(columns, edges, values, label)
    left, right = edges.sort(edges.left.node), edges.sort(edges.right.node)
    matched = np.flatnonzero(known == _MATCH)
    partner = np.full(len(edges.left.codes), -1, dtype=np.intp)
    partner[left[matched]] = right[matched]
    n_nodes = np.diff(edges.left.starts)
    partner -= np.where(partner < 0, 0, np.repeat(edges.right.starts[:-1], n_nodes))
    n_unknown = np.concatenate([[0], np.cumsum(known == _UNKNOWN)])[edges.starts]
    is_complete = (np.diff(n_unknown) == 0).tolist()
    nodes, rows = edges.left.starts.tolist(), edges.starts.tolist()
    return [
        partner[nodes[g] : nodes[g + 1]]
        if is_complete[g]
        else EdgeLabels(known[rows[g] : rows[g + 1]])
        for g in range(len(rows) - 1)
    ]


def edge_values(columns: Columns, edges: Edges, values: FloatArray, label: str) -> IntArray:
    """Return 1, 0 or -1 for every edge: whether it is a match, if that is known."""
    is_wrong = (values != _NO_MATCH) & (values != _MATCH) & ~np.isnan(values)
    if is_wrong.any():
        row = int(np.argmax(is_wrong))
        raise TableError(
            f"{LABEL_RULE}; {label!r} is {values[row]:g} at {columns.at(row)}. Correct it."
        )
    _check_partners(columns, edges, values == _MATCH)
    return edges.sort(np.where(np.isnan(values), _UNKNOWN, values).astype(np.int8))


def _check_partners(columns: Columns, edges: Edges, is_match: Any) -> None:
    """Refuse labels that give a node two partners."""
    matched = np.flatnonzero(is_match)
    for side, ids, name in ((edges.left, 1, "left"), (edges.right, 2, "right")):
        nodes = side.node[matched]
        counts = np.bincount(nodes, minlength=len(side.codes))
        if counts.max(initial=0) < 2:
            continue
        node = int(np.argmax(counts > 1))
        first, second = matched[nodes == node][:2]
        graph = columns.ids[0][1][columns.ids[0][0][first]]
        raise TableError(
            f"every id must have at most one pair with label 1; {name} id "
            f"{columns.ids[ids][1][side.codes[node]]!r}{columns.of_graph(graph)} has "
            f"{counts[node]}, at {columns.at(first)} and {columns.at(second)}. Correct the "
            "labels."
        )


def build_graphs(columns: Columns, edges: Edges) -> list[BipartiteGraph]:
    """Cut the rows, sorted by edge, into one graph after another."""
    return BipartiteGraph.split(build_structure(edges), edges.sort(columns.features))


def build_structure(edges: Edges) -> Structure:
    """Return the edges of all graphs side by side."""
    left, right = edges.sort(edges.left.node), edges.sort(edges.right.node)
    counts = np.bincount(left, minlength=len(edges.left.codes))
    return Structure(
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        right.astype(np.int64, copy=False),
        edges.left.starts.astype(np.int64, copy=False),
        edges.right.starts.astype(np.int64, copy=False),
    )
