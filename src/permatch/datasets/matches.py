"""Predicted matches as a table with one row per matched edge, or per edge."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from permatch._files import whole_file
from permatch._types import FloatArray
from permatch._validation import refuse_masked
from permatch.datasets.edge_table import EdgeTable
from permatch.errors import TableError
from permatch.labels import check_labels


def edge_table_from_matches(
    table: EdgeTable,
    matchings: Sequence[Any],
    probabilities: Sequence[FloatArray] | None = None,
    *,
    all_edges: bool = False,
) -> dict[str, list[Any]]:
    """Return predictions as columns, ready for ``pandas.DataFrame``.

    Parameters
    ----------
    table : EdgeTable
        The table that was predicted; it names graphs and nodes.
    matchings : sequence of int arrays
        The predicted matching of every graph.
    probabilities : sequence of arrays (m, m), optional
        The probability of every edge of every graph, as from ``predict_marginals``.
    all_edges : bool
        List all allowed edges, with a column ``match`` that is 1 for the predicted ones.

    Returns
    -------
    dict of lists
        The id columns, named as in the table, then ``probability`` if given, then ``match``
        if all edges are listed.

    Examples
    --------
    >>> from permatch.datasets import read_edge_table
    >>> table = read_edge_table(
    ...     {"graph": [7], "left": ["a"], "right": ["p"], "distance": [0.5]}
    ... )
    >>> edge_table_from_matches(table, [[0]], [np.ones((1, 1))])
    {'graph': [7], 'left': ['a'], 'right': ['p'], 'probability': [1.0]}
    """
    matchings = check_labels(table.graphs, matchings)
    if probabilities is not None:
        refuse_masked(probabilities, "every array of probabilities", TableError)
        shapes = [np.shape(p) for p in probabilities]
        if shapes != [(graph.size, graph.size) for graph in table.graphs]:
            raise TableError(
                "probabilities must have one (m, m) array per graph of the table; got "
                f"{len(shapes)} arrays for {len(table.graphs)} graphs, or other shapes."
            )
    names = [*table.id_columns]
    names += ["probability"] * (probabilities is not None) + ["match"] * all_edges
    if len(set(names)) < len(names):
        raise TableError(
            f"the columns of the matches must differ; got {', '.join(names)}. Rename "
            "the id columns of the table."
        )
    lists: list[list[Any]] = [[] for _ in names]
    for g, (graph, matching) in enumerate(zip(table.graphs, matchings, strict=True)):
        is_match = np.zeros((graph.size, graph.size), dtype=bool)
        is_match[np.arange(graph.size), matching] = True
        is_listed = is_match
        if all_edges:
            is_listed = np.ones_like(is_match) if graph.allowed is None else graph.allowed
        # Dummy nodes are left out.
        in_table = is_listed[: len(table.left_ids[g]), : len(table.right_ids[g])]
        rows, cols = np.nonzero(in_table)
        columns = [[table.graph_ids[g]] * len(rows)] * (len(table.id_columns) == 3)
        columns += [
            [table.left_ids[g][row] for row in rows],
            [table.right_ids[g][col] for col in cols],
        ]
        if probabilities is not None:
            columns.append(np.asarray(probabilities[g])[rows, cols].tolist())
        if all_edges:
            columns.append(is_match[rows, cols].astype(int).tolist())
        for whole, column in zip(lists, columns, strict=True):
            whole += column
    return dict(zip(names, lists, strict=True))


def write_matches(
    path: str | Path | TextIO,
    table: EdgeTable,
    matchings: Sequence[Any],
    probabilities: Sequence[FloatArray] | None = None,
    *,
    all_edges: bool = False,
) -> None:
    """Write predictions as CSV; the file is written completely or not at all.

    Parameters
    ----------
    path : path or open text file
        Where to write; an existing file is replaced.  Cells are separated by tabs if the
        name ends in ``.tsv``.
    table : EdgeTable
        The table that was predicted; it names graphs and nodes.
    matchings : sequence of int arrays
        The predicted matching of every graph.
    probabilities : sequence of arrays (m, m), optional
        The probability of every edge of every graph, as from ``predict_marginals``.
    all_edges : bool
        List all allowed edges, with a column ``match`` that is 1 for the predicted ones.

    Examples
    --------
    >>> import sys
    >>> from permatch.datasets import read_edge_table
    >>> columns = {
    ...     "graph": ["x", "x", "x", "x"],
    ...     "left": ["a", "a", "b", "b"],
    ...     "right": ["p", "q", "p", "q"],
    ...     "distance": [0.9, 0.1, 0.2, 0.7],
    ... }
    >>> write_matches(sys.stdout, read_edge_table(columns), [[1, 0]])
    graph,left,right
    x,a,q
    x,b,p
    """
    columns = edge_table_from_matches(table, matchings, probabilities, all_edges=all_edges)
    if not isinstance(path, str | Path):
        _write(path, columns, ",")
        return
    with whole_file(path) as file:
        _write(file, columns, "\t" if str(path).lower().endswith(".tsv") else ",")


def _write(file: TextIO, columns: dict[str, list[Any]], delimiter: str) -> None:
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
