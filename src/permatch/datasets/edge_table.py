"""Graphs from a long table with one row per edge.

    graph,left,right,label,distance,same_city
    monday,a1,b1,0,3.1,0
    monday,a1,b2,1,0.4,1
    ...

Rows may come in any order.  Graphs, and the nodes on each side of a graph, are numbered in
order of first appearance, so entry (i, j) of a graph is the edge between ``left_ids[i]``
and ``right_ids[j]``.

The smaller side is padded with dummy nodes at its end.  Their features are the means over
the table: every matching has equally many of their edges, so any constant would do, and
means hardly change the spread of a feature.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from permatch._types import IntArray
from permatch._validation import check_choice
from permatch.datasets.columns import Roles, quoted
from permatch.datasets.edge_rows import (
    build_graphs,
    check_columns,
    check_edges,
    check_feasible,
    check_memory,
    labelled_edges,
    number_edges,
    read_matchings,
)
from permatch.datasets.table_sources import read_columns
from permatch.errors import FeatureCountError, TableError
from permatch.graphs import BipartiteGraph
from permatch.labels import check_labels

MISSING = ("error", "forbid")
LABELS = ("optional", "required", "ignored")


@dataclass(frozen=True, eq=False, repr=False)
class EdgeTable:
    """Graphs read from a table, with the names of graphs, nodes and features.

    Attributes
    ----------
    graphs : list of BipartiteGraph
        Sizes may differ; features are views of one array where possible.
    matchings : list of int arrays, or None
        The labelled matching of every graph; None if the table has no labels.
    graph_ids : list
        One id per graph, as in the table (text if read from a text file); None for the
        graph of a table without a column for it.
    left_ids, right_ids : lists of lists
        The node ids of every graph, without dummy nodes.
    feature_names : list of str
        The columns that became features, in order.
    id_columns : tuple of str
        The columns that hold the ids of graph, left and right node; without that of the
        graph if the table has none.
    ignored : list of str
        Columns left out: text and row numbers.

    Examples
    --------
    >>> from permatch.datasets import read_edge_table
    >>> columns = {
    ...     "graph": ["x", "x", "x", "x"],
    ...     "left": ["a", "a", "b", "b"],
    ...     "right": ["p", "q", "p", "q"],
    ...     "age": [3, 1, 2, 4],
    ...     "distance": [0.9, 0.1, 0.2, 0.7],
    ... }
    >>> table = read_edge_table(columns)
    >>> table.graph_ids, table.left_ids, table.right_ids
    (['x'], [['a', 'b']], [['p', 'q']])
    >>> table.arrange_features(["distance", "age"]).feature_names
    ['distance', 'age']
    """

    graphs: list[BipartiteGraph]
    matchings: list[IntArray] | None
    graph_ids: list[Any]
    left_ids: list[list[Any]]
    right_ids: list[list[Any]]
    feature_names: list[str]
    id_columns: tuple[str, ...] = ("graph", "left", "right")
    ignored: Sequence[str] = ()

    def __repr__(self) -> str:
        """Return a summary."""
        labels = "without labels" if self.matchings is None else "with labels"
        return (
            f"<EdgeTable: {len(self.graphs)} graphs {labels}, features "
            f"{quoted(self.feature_names)}>"
        )

    def align_extras(self, matchings: Sequence[Any]) -> list[IntArray]:
        """Return matchings with dummy nodes exchanged to agree with the labels.

        Dummy nodes are interchangeable: which of them a node is matched with must not count
        as an error.

        Parameters
        ----------
        matchings : sequence of int arrays
            The predicted matching of every graph.

        Returns
        -------
        list of int arrays
            The same matchings, agreeing with those of this table as far as possible.
        """
        checked = check_labels(self.graphs, matchings)
        if self.matchings is None:
            return checked
        both = zip(self.graphs, checked, self.matchings, strict=True)
        return [graph.align_extra(found, true) for graph, found, true in both]

    def arrange_features(self, names: Sequence[str]) -> "EdgeTable":
        """Return the same table with its features in the order of `names`.

        Parameters
        ----------
        names : sequence of str
            The features a model was fitted on.

        Returns
        -------
        EdgeTable
            This table if its features are already in that order.

        Raises
        ------
        FeatureCountError
            If the table lacks features or has others.
        """
        names = list(names)
        if names == self.feature_names:
            return self
        missing = [name for name in names if name not in self.feature_names]
        extra = [name for name in self.feature_names if name not in names]
        if missing or extra or len(names) != len(self.feature_names):
            faults = [f"has no {quoted(missing)}"] if missing else []
            faults += [f"also has {quoted(extra)}"] if extra else []
            text = [name for name in missing if name in self.ignored]
            faults += [f"holds only text in {quoted(text)}"] if text else []
            raise FeatureCountError(
                f"the table must have the {len(names)} features that the model was fitted "
                f"on, in any order; it {' and '.join(faults)}. Add or drop columns, or "
                "name the features to use."
            )
        order = [self.feature_names.index(name) for name in names]
        graphs = [graph.with_features(order) for graph in self.graphs]
        return replace(self, graphs=graphs, feature_names=names)


def read_edge_table(
    source: Any,
    *,
    graph: str | None = None,
    left: str = "left",
    right: str = "right",
    label: str = "label",
    features: Sequence[str] | None = None,
    missing: Literal["error", "forbid"] = "error",
    labels: Literal["optional", "required", "ignored"] = "optional",
    max_bytes: int | None = None,
) -> EdgeTable:
    """Read graphs from a table with one row per edge.

    Parameters
    ----------
    source : path, text file, data frame or mapping
        CSV or TSV (also gzip) with a header line, Parquet, an open text file, a data frame
        (pandas, Polars, Arrow), or a mapping from names to columns.
    graph : str, optional
        The column with the graph of an edge.  Default: ``graph`` if there is such a column,
        otherwise all rows belong to one graph.
    left, right : str
        The columns with the two nodes of an edge.
    label : str
        The column that is 1 (or true) for matched edges and 0 (or false) for all others.
        Every node has exactly one match, or, if it is on the larger side of its graph, at
        most one.
    features : sequence of str, optional
        The columns to use as features.  Default: all other numeric columns; text and row
        numbers are left out and listed as `ignored` in the result.
    missing : {"error", "forbid"}
        Whether an edge without a row is an error or a forbidden edge.
    labels : {"optional", "required", "ignored"}
        Whether labels are required, and whether they are read at all.
    max_bytes : int, optional
        Limit on the uncompressed text and on the memory of the graphs, in bytes.  Default:
        16 GiB of text, 16 MiB per line, 131,072 characters per cell, and for the graphs
        1 GiB or 256 times the numbers of the table.

    Returns
    -------
    EdgeTable
        Graphs, matchings and names.

    Raises
    ------
    TableError
        If columns, edges or labels are missing, repeated or contradictory, or the file is
        not a table or too large; the message names the line.
    NaNFeatureError
        If a feature is empty or infinite.
    InfeasibleGraphError
        If ``missing="forbid"`` leaves a graph without a perfect matching.

    Notes
    -----
    Text needs no optional package.  A million rows of ten features take about ten seconds
    and little more memory than the numbers themselves.

    Examples
    --------
    >>> columns = {
    ...     "graph": ["x", "x", "x", "x"],
    ...     "left": ["a", "a", "b", "b"],
    ...     "right": ["p", "q", "p", "q"],
    ...     "label": [0, 1, 1, 0],
    ...     "distance": [0.9, 0.1, 0.2, 0.7],
    ... }
    >>> table = read_edge_table(columns)
    >>> table.matchings
    [array([1, 0])]
    >>> table.graphs[0].features[:, :, 0]
    array([[0.9, 0.1],
           [0.2, 0.7]])
    >>> table.feature_names
    ['distance']
    """
    check_choice(missing, "missing", MISSING)
    check_choice(labels, "labels", LABELS)
    if features is not None:
        features = (features,) if isinstance(features, str) else tuple(features)
    roles = Roles(graph, left, right, label, features, labels != "ignored")
    columns = read_columns(source, roles, max_bytes)
    check_columns(columns)
    edges = number_edges(columns)
    check_edges(columns, edges, missing)
    truths = labelled_edges(columns, label)
    if truths is None and labels == "required":
        raise TableError(
            f"{columns.name} must say which edges are matched, 1 or 0 in a column "
            f"{label!r}; it is missing. Add it, or name the column to use (label=, on the "
            "command line --label-column)."
        )
    check_memory(columns, edges, max_bytes)
    matchings = None if truths is None else read_matchings(columns, edges, truths)
    graphs = build_graphs(columns, edges)
    if matchings is None:
        check_feasible(columns, graphs)
    return EdgeTable(
        graphs=graphs,
        matchings=matchings,
        graph_ids=columns.ids[0][1],
        left_ids=edges.left.ids(columns.ids[1][1]),
        right_ids=edges.right.ids(columns.ids[2][1]),
        feature_names=columns.feature_names,
        id_columns=columns.id_columns,
        ignored=columns.ignored,
    )
