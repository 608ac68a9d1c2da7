"""Graphs from a long table with one row per candidate pair.

    graph,left,right,label,distance,same_city
    monday,a1,b1,0,3.1,0
    monday,a1,b2,1,0.4,1
    ...

Rows may come in any order.  A pair without a row cannot match.  Graphs, and the nodes on
each side of a graph, are numbered in order of first appearance; edges are sorted by left,
then by right node.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from permatch._cells import quoted
from permatch._types import IntArray
from permatch._validation import check_choice
from permatch.datasets.columns import Columns, Roles
from permatch.datasets.edge_rows import (
    build_graphs,
    check_columns,
    number_edges,
    read_labels,
)
from permatch.datasets.table_sources import read_columns
from permatch.errors import FeatureCountError, TableError
from permatch.graphs import BipartiteGraph
from permatch.labels import EdgeLabels, check_known
from permatch.problems import Problem, side_by_side

LABELS = ("optional", "required", "ignored")


@dataclass(frozen=True, eq=False, repr=False)
class EdgeTable:
    """Graphs read from a table, with the names of graphs, nodes and features.

    Attributes
    ----------
    graphs : list of BipartiteGraph
        One per graph, made from its edges; features are views of one array.
    matchings : list of int arrays or EdgeLabels, or None
        The labelled matching of every graph, (n_left,) with -1 for unmatched nodes; what is
        known of its edges if some labels are empty; None if the table has no labels.
    graph_ids : list
        One id per graph, as in the table (text if read from a text file); None for the
        graph of a table without a column for it.
    left_ids, right_ids : lists of lists
        The node ids of every graph.
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
    matchings: list[IntArray | EdgeLabels] | None
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

    def split_components(self) -> "EdgeTable":
        """Return the same pairs with a graph for every connected component.

        Components are independent, so that the distribution over matchings is the same.
        Cross-validation of a table with one graph needs them.

        Returns
        -------
        EdgeTable
            Its graphs are numbered from 0; labels are `permatch.EdgeLabels`.

        Examples
        --------
        >>> from permatch.datasets import read_edge_table
        >>> columns = {"left": ["a", "a", "b"], "right": ["p", "q", "r"], "x": [1, 2, 3]}
        >>> read_edge_table(columns).split_components().left_ids
        [['a'], ['b']]
        """
        return _split(self)

    def take(self, positions: Sequence[int] | IntArray) -> "EdgeTable":
        """Return the table of some of its graphs.

        Parameters
        ----------
        positions : sequence of int
            The graphs, in the order wanted.

        Returns
        -------
        EdgeTable
            It shares features with this one.

        Examples
        --------
        >>> from permatch.datasets import read_edge_table
        >>> columns = {"graph": ["x", "y"], "left": ["a", "b"], "right": ["p", "q"]}
        >>> read_edge_table(columns | {"age": [3, 4]}).take([1]).left_ids
        [['b']]
        """
        chosen = [int(k) for k in positions]
        matchings = self.matchings
        return replace(
            self,
            graphs=[self.graphs[k] for k in chosen],
            matchings=None if matchings is None else [matchings[k] for k in chosen],
            graph_ids=[self.graph_ids[k] for k in chosen],
            left_ids=[self.left_ids[k] for k in chosen],
            right_ids=[self.right_ids[k] for k in chosen],
        )

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
        graphs = [
            BipartiteGraph.from_edges(
                graph.structure.left,
                graph.structure.right,
                graph.edge_features[:, order],
                graph.n_left,
                graph.n_right,
            )
            for graph in self.graphs
        ]
        return replace(self, graphs=graphs, feature_names=names)


def _split(table: EdgeTable) -> EdgeTable:
    """Return a table with a graph for every connected component."""
    whole = side_by_side([graph.structure for graph in table.graphs])
    n_edges, n_left, n_right = whole.n_edges, whole.n_left, whole.n_right
    problem = Problem(whole, np.zeros(n_edges), np.zeros(n_left), np.zeros(n_right))
    parts = problem.select(np.arange(len(whole.components)))
    structure = parts.problem.structure
    features = np.concatenate([graph.edge_features for graph in table.graphs])
    matchings = None
    if table.matchings is not None:
        known = check_known(table.graphs, table.matchings)
        values = np.concatenate([np.where(k.is_open, -1, k.is_match) for k in known])
        cuts = structure.edge_starts[1:-1]
        matchings = [EdgeLabels(own) for own in np.split(values[parts.edges], cuts)]
    names = []
    for ids, chosen, starts in (
        (table.left_ids, parts.left, structure.left_starts.tolist()),
        (table.right_ids, parts.right, structure.right_starts.tolist()),
    ):
        every = [name for own in ids for name in own]
        found = [every[k] for k in chosen.tolist()]
        names.append([found[a:b] for a, b in pairwise(starts)])
    return replace(
        table,
        graphs=BipartiteGraph.split(structure, features[parts.edges]),
        matchings=matchings,
        graph_ids=list(range(structure.n_graphs)),
        left_ids=names[0],
        right_ids=names[1],
    )


def read_edge_table(
    source: Any,
    *,
    graph: str | None = None,
    left: str = "left",
    right: str = "right",
    label: str = "label",
    features: Sequence[str] | None = None,
    labels: Literal["optional", "required", "ignored"] = "optional",
    max_bytes: int | None = None,
) -> EdgeTable:
    """Read graphs from a table with one row per candidate pair.

    Parameters
    ----------
    source : path, text file, data frame or mapping
        CSV or TSV (also gzip) with a header line, Parquet, an open text file, a data frame
        (pandas, Polars, Arrow), or a mapping from names to columns.
    graph : str, optional
        The column with the graph of a pair.  Default: ``graph`` if there is such a column,
        otherwise all rows belong to one graph.
    left, right : str
        The columns with the two nodes of a pair.  A pair without a row cannot match.
    label : str
        The column that is 1 (or true) for pairs that match, 0 (or false) for those that do
        not, and empty where it is not known.  A node none of whose pairs matches is
        unmatched.
    features : sequence of str, optional
        The columns to use as features.  Default: all other numeric columns; text and row
        numbers are left out and listed as `ignored` in the result.
    labels : {"optional", "required", "ignored"}
        Whether labels are required, and whether they are read at all.
    max_bytes : int, optional
        Limit on the uncompressed text, in bytes.  Default: 16 GiB of text, 16 MiB per line,
        131,072 characters per cell.

    Returns
    -------
    EdgeTable
        Graphs, matchings and names.

    Raises
    ------
    TableError
        If columns or ids are missing, a pair is listed twice, a node has two partners, or
        the file is not a table or too large; the message names the line.
    NaNFeatureError
        If a feature is empty or infinite.

    Notes
    -----
    Time and memory grow with the rows, whatever the number of graphs and nodes.  A million
    rows of ten features take about a second from Parquet and two from CSV.  Parquet needs
    pyarrow, in the extra ``tables``; text does not, but takes ten seconds
    without it.

    Examples
    --------
    >>> columns = {
    ...     "left": ["ann", "ann", "bob", "eve"],
    ...     "right": ["p", "q", "p", "q"],
    ...     "label": [0, 1, 1, 0],
    ...     "distance": [0.9, 0.1, 0.2, 0.7],
    ... }
    >>> table = read_edge_table(columns)
    >>> table.graphs
    [BipartiteGraph(3 x 2, 4 edges, 1 feature)]
    >>> table.matchings
    [array([ 1,  0, -1])]
    >>> table.left_ids, table.right_ids, table.feature_names
    ([['ann', 'bob', 'eve']], [['p', 'q']], ['distance'])
    """
    check_choice(labels, "labels", LABELS)
    if features is not None:
        features = (features,) if isinstance(features, str) else tuple(features)
    roles = Roles(graph, left, right, label, features, labels != "ignored")
    columns = read_columns(source, roles, max_bytes)
    return build_edge_table(columns, label, is_label_required=labels == "required")


def build_edge_table(columns: Columns, label: str, *, is_label_required: bool) -> EdgeTable:
    """Return the graphs of columns that were read; `label` names theirs in messages."""
    check_columns(columns)
    edges = number_edges(columns)
    matchings = read_labels(columns, edges, label)
    if is_label_required:
        _require_labels(columns.name, columns.labels, label)
    return EdgeTable(
        graphs=build_graphs(columns, edges),
        matchings=matchings,
        graph_ids=columns.ids[0][1],
        left_ids=edges.left.ids(columns.ids[1][1]),
        right_ids=edges.right.ids(columns.ids[2][1]),
        feature_names=columns.feature_names,
        id_columns=columns.id_columns,
        ignored=columns.ignored,
    )


def _require_labels(name: str, labels: Any, label: str) -> None:
    """Refuse a table from which nothing can be learned about matches."""
    if labels is None:
        raise TableError(
            f"{name} must say which pairs match, 1 or 0 in a column {label!r}; it is "
            "missing. Add it, or name the column to use (label=, on the command line "
            "--label-column)."
        )
    if not (labels == 1.0).any():
        found = "0 or empty" if (labels == 0.0).any() else "empty"
        raise TableError(
            f"{name} must have pairs that match, with 1 in the column {label!r}; all its "
            f"cells are {found}. Label some pairs, or name another column (label=, on the "
            "command line --label-column)."
        )
