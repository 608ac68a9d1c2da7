"""Rows of candidate pairs on their way to shards of whole graphs.

A table in parts is sorted by graph: the rows of a graph one after the other.  A graph that
a boundary between parts cuts is put together again, as queries are; see `rows`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from permatch._cells import is_index_column
from permatch._optional import require
from permatch._types import FloatArray, IntArray
from permatch.datasets.columns import Roles, check_one_role
from permatch.datasets.edge_rows import (
    build_structure,
    check_columns,
    edge_values,
    number_edges,
)
from permatch.datasets.table_sources import read_part
from permatch.errors import TableError
from permatch.graphs import BipartiteGraph
from permatch.labels import EdgeLabels, KnownEdges, check_known
from permatch.problems import Structure


@dataclass(frozen=True, eq=False)
class GraphRows:
    """Consecutive rows of a table: the cells, the ids of their graphs, their numbers."""

    table: Any
    ids: np.ndarray
    numbers: IntArray

    @classmethod
    def of(cls, table: Any, graph: str, first: int = 0) -> "GraphRows":
        """Return the rows of an Arrow table, numbered from `first`."""
        column = table.column(graph)
        if column.null_count:
            row = first + int(np.argmax(column.is_null().to_numpy()))
            raise TableError(
                f"every pair needs a {graph!r}; the cell is empty at row {row} (counted "
                "from 0). Fill it in, or drop the row."
            )
        numbers = np.arange(first, first + table.num_rows)
        return cls(table, column.to_numpy(), numbers)

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, rows: slice) -> "GraphRows":
        first, last, _ = rows.indices(len(self))
        table = self.table.slice(first, max(last - first, 0))
        return GraphRows(table, self.ids[rows], self.numbers[rows])

    def copied(self) -> "GraphRows":
        """Return rows that share no memory with others."""
        table = self.table.take(np.arange(len(self)))
        return GraphRows(table, self.ids.copy(), self.numbers.copy())

    def joined(self, parts: Sequence["GraphRows"]) -> "GraphRows":
        """Return several such rows, these among them, as one."""
        arrow = require("pyarrow", "tables")
        return GraphRows(
            # Whole numbers in one part may be fractions, or partly unknown, in the next.
            arrow.concat_tables(
                [part.table for part in parts], promote_options="permissive"
            ),
            np.concatenate([part.ids for part in parts]),
            np.concatenate([part.numbers for part in parts]),
        )

    @property
    def starts(self) -> IntArray:
        """Where runs of rows of one graph begin."""
        return np.flatnonzero(np.append(True, self.ids[1:] != self.ids[:-1])[: len(self)])


@dataclass(frozen=True, eq=False)
class GraphShard:
    """Some labelled graphs of a training set.

    Attributes
    ----------
    number : int
        Of the shard.
    graphs : list of BipartiteGraph
        The graphs.
    labels : list of KnownEdges
        What is known of their matchings.
    positions : ndarray
        The numbers of the graphs among those of all shards.
    """

    number: int
    graphs: list[BipartiteGraph]
    labels: list[KnownEdges]
    positions: IntArray

    def take(self, chosen: IntArray) -> "GraphShard":
        """Return the graphs whose numbers are among those chosen."""
        own = np.flatnonzero(np.isin(self.positions, chosen)).tolist()
        return GraphShard(
            self.number,
            [self.graphs[k] for k in own],
            [self.labels[k] for k in own],
            self.positions[own],
        )


@dataclass(frozen=True, eq=False)
class EdgeBlock:
    """Whole graphs as arrays, before they are taken apart: what is stored of them."""

    number: int
    first: int
    structure: Structure
    features: FloatArray
    values: IntArray  # 1, 0 or -1: whether an edge is a match, if that is known

    def shard(self) -> GraphShard:
        """Return the graphs."""
        structure = self.structure
        graphs = BipartiteGraph.split(structure, self.features)
        cuts = structure.edge_starts[1:-1]
        labels = [EdgeLabels(own) for own in np.split(self.values, cuts)]
        positions = np.arange(self.first, self.first + len(graphs))
        return GraphShard(self.number, graphs, check_known(graphs, labels), positions)


def make_block(
    rows: GraphRows, number: int, first: int, roles: Roles, name: str
) -> EdgeBlock:
    """Return rows of whole graphs as the graphs numbered from `first`."""
    columns = read_part(rows.table, name, roles, rows.numbers)
    check_columns(columns)
    edges = number_edges(columns)
    if columns.labels is None:
        raise TableError(
            f"{name} must say which pairs match, 1 or 0 in a column {roles.label!r}; it is "
            "missing. Add it, or name the column to use."
        )
    values = edge_values(columns, edges, columns.labels, roles.label)
    # A copy: the columns go when the block is made.
    features = np.array(edges.sort(columns.features))
    return EdgeBlock(number, first, build_structure(edges), features, values)


def settle_roles(roles: Roles, numeric: dict[str, bool], place: str) -> Roles:
    """Return roles whose graph and features are named, from the columns of a table."""
    header = list(numeric)
    ids = roles.ids(header)
    if len(ids) != 3:
        raise TableError(
            f"a table in parts must have a column with the graph of every pair; {place} "
            f"has {', '.join(header)}. Add a column 'graph', or read the table into "
            "memory with permatch.datasets.read_edge_table."
        )
    features = roles.features
    if features is None:
        taken = {*ids, roles.label}
        features = tuple(
            name
            for name, is_in in numeric.items()
            if is_in and name not in taken and not is_index_column(name)
        )
    wanted = [*ids, *features, *([roles.label] if roles.has_labels_read else [])]
    check_one_role(wanted)
    if missing := [name for name in wanted if name not in header]:
        raise TableError(
            f"{place} must have the columns {', '.join(wanted)}; it lacks "
            f"{', '.join(missing)}. Check the names, and that all parts have the same "
            "columns."
        )
    graph, left, right = ids
    return Roles(graph, left, right, roles.label, features, roles.has_labels_read)


def wanted_columns(roles: Roles) -> list[str]:
    """Return the columns that settled roles name."""
    label = [roles.label] if roles.has_labels_read else []
    return [str(roles.graph), roles.left, roles.right, *label, *(roles.features or ())]


def order_of(roles: Roles) -> tuple[str, str, type[TableError]]:
    """Return what `Contiguity` is told of the graphs of a table."""
    return "graph", repr(roles.graph), TableError


def value_rows(
    rows: GraphRows, roles: Roles, name: str, value: Callable[[list[BipartiteGraph]], Any]
) -> np.ndarray:
    """Return a value for every row: `value` takes graphs to values on their edges."""
    columns = read_part(rows.table, name, roles, rows.numbers)
    check_columns(columns)
    edges = number_edges(columns)
    graphs = BipartiteGraph.split(build_structure(edges), edges.sort(columns.features))
    found = np.concatenate(value(graphs))
    if edges.order is None:
        return found
    placed = np.empty_like(found)
    placed[edges.order] = found
    return placed
