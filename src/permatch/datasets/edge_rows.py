"""Sort the rows of an edge table into graphs.

Whole columns are sorted and counted, so a million rows take no longer in many small graphs
than in a few large ones.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from permatch._files import Gauge
from permatch._types import BoolArray, IntArray
from permatch.datasets.columns import Columns, quoted
from permatch.errors import InfeasibleGraphError, NaNFeatureError, TableError
from permatch.graphs import BipartiteGraph


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
        names = [values[code] for code in self.codes]
        return [names[a:b] for a, b in zip(self.starts, self.starts[1:], strict=False)]


@dataclass(frozen=True, eq=False)
class Edges:
    """Where every row of the table belongs.

    With the edges of all graphs laid out one after another, row by row, `slot` is the place
    of a row's edge, `order` sorts the rows by it, and graph g owns the slots
    ``starts[g] : starts[g + 1]``, the square of its size (that of its larger side).
    `n_left` and `n_right` count the nodes in the table.
    """

    graph: IntArray
    left: _Side
    right: _Side
    n_left: IntArray
    n_right: IntArray
    sizes: IntArray
    starts: IntArray
    slot: IntArray
    order: IntArray


def check_columns(columns: Columns) -> None:
    """Refuse tables without a row or a feature, or with features that are not finite."""
    if len(columns.features) == 0:
        raise TableError(
            f"{columns.name} must have at least one edge; it has a header and no rows."
        )
    if not columns.feature_names:
        left_out = f" ({quoted(columns.ignored)} left out)" if columns.ignored else ""
        raise TableError(
            f"{columns.name} must have at least one feature, a column of numbers besides "
            f"ids and label; it has none{left_out}. Add one."
        )
    is_bad = ~np.isfinite(columns.features)
    if is_bad.any():
        row, feature = (int(k) for k in np.argwhere(is_bad)[0])
        value = columns.features[row, feature]
        raise NaNFeatureError(
            f"features must be finite; {columns.feature_names[feature]!r} is "
            f"{'missing' if np.isnan(value) else value} for edge {columns.edge(row)}, "
            f"{columns.at(row)}. Fill it in, for example with the column mean; drop the "
            "row only to forbid the edge."
        )


def number_edges(columns: Columns) -> Edges:
    """Find the graph, the nodes and the slot of every row."""
    (graph, graph_ids), (left, _), (right, _) = columns.ids
    sides = [_number_nodes(graph, codes, len(graph_ids)) for codes in (left, right)]
    n_left, n_right = (np.diff(side.starts) for side in sides)
    sizes = np.maximum(n_left, n_right)
    starts = np.concatenate([[0], np.cumsum(sizes**2)])
    row, col = (side.node - side.starts[graph] for side in sides)
    slot = starts[graph] + row * sizes[graph] + col
    order = np.argsort(slot, kind="stable")
    return Edges(graph, sides[0], sides[1], n_left, n_right, sizes, starts, slot, order)


def _number_nodes(graph: IntArray, codes: IntArray, n_graphs: int) -> _Side:
    """Return the nodes of one side, numbered by graph and then by first appearance."""
    key = graph * (codes.max() + 1) + codes
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    order = np.lexsort((first, graph[first]))
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    counts = np.bincount(graph[first], minlength=n_graphs)
    starts = np.concatenate([[0], np.cumsum(counts)])
    return _Side(rank[inverse], codes[first][order], starts)


def check_edges(columns: Columns, edges: Edges, missing: str) -> None:
    """Refuse duplicate edges, and missing ones unless they are allowed."""
    slots = edges.slot[edges.order]
    is_repeated = slots[1:] == slots[:-1]
    if is_repeated.any():
        k = int(np.argmax(is_repeated))
        first, second = edges.order[k], edges.order[k + 1]
        raise TableError(
            f"every edge must have one row; edge {columns.edge(second)} has two, at "
            f"{columns.at(first)} and {columns.at(second)}. Drop one of them."
        )
    n_wanted = edges.n_left * edges.n_right
    n_listed = np.bincount(edges.graph, minlength=len(edges.sizes))
    n_missing = n_wanted - n_listed
    if missing == "error" and n_missing.any():
        g = int(np.argmax(n_missing > 0))
        first = int(n_listed[:g].sum())
        rows, cols = np.divmod(
            slots[first : first + n_listed[g]] - edges.starts[g], edges.sizes[g]
        )
        # Edges are in order, so the first one out of place tells which is missing.
        places = np.append(rows * edges.n_right[g] + cols, n_wanted[g])
        lacking = int(np.argmax(places != np.arange(len(places))))
        row, col = divmod(lacking, int(edges.n_right[g]))
        left, right = (
            columns.ids[k + 1][1][side.codes[side.starts[g] + position]]
            for k, (side, position) in enumerate(((edges.left, row), (edges.right, col)))
        )
        raise TableError(
            f"every edge must have a row; graph {columns.ids[0][1][g]!r} of {columns.name} "
            f"has {edges.n_left[g]} left and {edges.n_right[g]} right nodes and no row for "
            f"{n_missing[g]} of its edges, such as ({left!r}, {right!r}). Add them, or "
            "forbid missing edges with missing='forbid' (--missing forbid)."
        )


def labelled_edges(columns: Columns, label: str) -> BoolArray | None:
    """Return which rows are matched edges, None without labels."""
    values = columns.labels
    if values is None or np.isnan(values).all():
        return None
    is_wrong = (values != 0.0) & (values != 1.0)
    if is_wrong.any():
        row = int(np.argmax(is_wrong))
        got = "empty" if np.isnan(values[row]) else f"{values[row]:g}"
        raise TableError(
            f"a label must be 1 (matched) or 0; {label!r} is {got} at {columns.at(row)}. "
            "Label all edges of all graphs, or none."
        )
    return values == 1.0


def read_matchings(columns: Columns, edges: Edges, truths: BoolArray) -> list[IntArray]:
    """Return the labelled matching of every graph.

    Each node of the smaller side has exactly one match, each of the larger at most one;
    unmatched nodes get dummy nodes, in order.
    """
    matched = np.flatnonzero(truths)
    sides = (
        (edges.left, 1, "left", edges.n_left > edges.n_right),
        (edges.right, 2, "right", edges.n_right > edges.n_left),
    )
    for side, ids, name, is_larger in sides:
        nodes = side.node[matched]
        counts = np.bincount(nodes, minlength=len(side.codes))
        may_lack = np.repeat(is_larger, np.diff(side.starts))
        is_wrong = (counts > 1) | ((counts == 0) & ~may_lack)
        if not is_wrong.any():
            continue
        node = int(np.argmax(is_wrong))
        g = int(np.searchsorted(side.starts, node, side="right")) - 1
        rows = matched[nodes == node]
        places = " and ".join(columns.at(row) for row in rows[:2])
        raise TableError(
            "every node must have exactly one edge with label 1, unless the other side is "
            f"smaller; {name} node {columns.ids[ids][1][side.codes[node]]!r} of graph "
            f"{columns.ids[0][1][g]!r} in {columns.name} has "
            f"{counts[node] or 'none'}{': ' + places if places else ''}. Correct the "
            "labels; if nodes on both sides may stay unmatched, add dummy nodes (see the "
            "tutorial 'Link two tables')."
        )
    graph = edges.graph[matched]
    ends = np.cumsum(edges.sizes)
    whole = np.full(ends[-1], -1, dtype=np.intp)
    row = edges.left.node[matched] - edges.left.starts[graph]
    whole[(ends - edges.sizes)[graph] + row] = (
        edges.right.node[matched] - edges.right.starts[graph]
    )
    matchings = np.split(whole, ends[:-1])
    for g in np.flatnonzero(edges.n_left != edges.n_right):
        is_open = matchings[g] < 0
        matchings[g][is_open] = np.setdiff1d(np.arange(edges.sizes[g]), matchings[g])
    return matchings


def check_memory(columns: Columns, edges: Edges, max_bytes: int | None) -> None:
    """Refuse a table whose graphs would take far more memory than its numbers."""
    n_features = len(columns.feature_names)
    g = int(np.argmax(edges.sizes))
    Gauge(columns.name, TableError, max_bytes).check_arrays(
        2 * int(edges.starts[-1]) * (8 * n_features + 1),  # sorted, then cut into graphs
        columns.features.nbytes,
        f"graphs with {edges.starts[-1]} edges in total (graph {columns.ids[0][1][g]!r} "
        f"has {edges.n_left[g]} left and {edges.n_right[g]} right nodes: {edges.sizes[g]} "
        f"x {edges.sizes[g]} edges)",
    )


def build_graphs(columns: Columns, edges: Edges) -> list[BipartiteGraph]:
    """Cut the feature rows, sorted by edge, into one block per graph."""
    n_slots, n_features = int(edges.starts[-1]), len(columns.feature_names)
    is_present = None
    if n_slots > len(edges.slot):
        is_present = np.zeros(n_slots, dtype=bool)
        is_present[edges.slot] = True
        is_extra = _extra_slots(edges)
        is_present |= is_extra
        features = np.zeros((n_slots, n_features))
        features[edges.slot] = columns.features
        if is_extra.any():
            features[is_extra] = columns.features.mean(axis=0)
    elif (edges.slot[1:] > edges.slot[:-1]).all():  # sorted already: nothing to copy
        features = columns.features
    else:
        features = columns.features[edges.order]
    features.flags.writeable = False  # so that the graphs may share it
    graphs = []
    for g, size in enumerate(edges.sizes.tolist()):
        part = slice(edges.starts[g], edges.starts[g + 1])
        allowed = None if is_present is None else is_present[part].reshape(size, size)
        graphs.append(
            BipartiteGraph(
                features[part].reshape(size, size, n_features),
                None if allowed is None or allowed.all() else allowed,
                int(edges.n_left[g]),
                int(edges.n_right[g]),
            )
        )
    return graphs


def _extra_slots(edges: Edges) -> BoolArray:
    """Return which slots are edges of dummy nodes."""
    is_extra = np.zeros(int(edges.starts[-1]), dtype=bool)
    for g in np.flatnonzero(edges.n_left != edges.n_right):
        size = edges.sizes[g]
        block = is_extra[edges.starts[g] : edges.starts[g + 1]].reshape(size, size)
        block[edges.n_left[g] :] = True
        block[:, edges.n_right[g] :] = True
    return is_extra


def check_feasible(columns: Columns, graphs: list[BipartiteGraph]) -> None:
    """Refuse graphs whose listed edges contain no perfect matching."""
    for g, graph in enumerate(graphs):
        if graph.allowed is None:
            continue
        if (maximum_bipartite_matching(csr_array(graph.allowed)) < 0).any():
            n_left, n_right = graph.n_sides
            n_listed = graph.allowed[:n_left, :n_right].sum()
            raise InfeasibleGraphError(
                f"the edges listed must contain a perfect matching; the {n_listed} of "
                f"{n_left * n_right} edges of graph "
                f"{columns.ids[0][1][g]!r} in {columns.name} do not. List more, or drop it."
            )
