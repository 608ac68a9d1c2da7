"""Predicted links as a table with one row per link, or per candidate pair."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from permatch._files import whole_file
from permatch._types import FloatArray, IntArray
from permatch._validation import refuse_masked
from permatch.datasets.edge_table import EdgeTable
from permatch.errors import TableError
from permatch.graphs import BipartiteGraph
from permatch.labels import UNMATCHED, check_labels

#: In a matching: the decision about the left node is left to a person.
_ABSTAINED = -2


def edge_table_from_matches(
    table: EdgeTable,
    matchings: Sequence[Any],
    probabilities: Sequence[FloatArray] | None = None,
    *,
    intervals: Sequence[tuple[FloatArray, FloatArray]] | None = None,
    all_edges: bool = False,
    links_only: bool = False,
) -> dict[str, list[Any]]:
    """Return predictions as columns, ready for ``pandas.DataFrame``.

    After the links of a graph follow the nodes that stay unmatched, with None in place of
    the partner.

    Parameters
    ----------
    table : EdgeTable
        The table that was predicted; it names graphs and nodes.
    matchings : sequence of int arrays
        The predicted matching of every graph; -1 for unmatched nodes, -2 for nodes left to
        a person.
    probabilities : sequence of arrays of shape (n_edges,), optional
        The probability of every pair of every graph, as from ``predict_marginals``.
    intervals : sequence of pairs of arrays of shape (n_edges,), optional
        The ends of an interval for each of these; nodes have none.  Of shape (n_edges +
        n_left + n_right,): also for every left and every right node to stay unmatched.
    all_edges : bool
        List all candidate pairs and all nodes, with a column ``match`` that is 1 for links
        and unmatched nodes.
    links_only : bool
        Leave the nodes out.

    Returns
    -------
    dict of lists
        The id columns, named as in the table, then ``probability`` if given (of the link,
        or of staying unmatched), ``probability_low`` and ``probability_high`` if given,
        then ``match`` if all pairs are listed, then ``decision`` if nodes are left to a
        person: link, unmatched or review.

    Examples
    --------
    >>> from permatch.datasets import read_edge_table
    >>> columns = {"left": ["a", "b"], "right": ["p", "p"], "distance": [0.5, 0.9]}
    >>> table = read_edge_table(columns)
    >>> edge_table_from_matches(table, [[0, -1]], [np.array([0.75, 0.125])])
    {'left': ['a', 'b'], 'right': ['p', None], 'probability': [0.75, 0.875]}
    """
    given = [np.asarray(matching) for matching in matchings]
    is_left_open = [
        m == _ABSTAINED if m.dtype.kind == "i" else np.zeros(m.shape, bool) for m in given
    ]
    matchings = check_labels(
        table.graphs,
        [np.where(o, UNMATCHED, m) for m, o in zip(given, is_left_open, strict=True)],
    )
    if probabilities is not None:
        refuse_masked(probabilities, "every array of probabilities", TableError)
        shapes = [np.shape(p) for p in probabilities]
        if shapes != [(graph.n_edges,) for graph in table.graphs]:
            raise TableError(
                "probabilities must have one array per graph of the table, with one number "
                f"per candidate pair; got {len(shapes)} arrays for {len(table.graphs)} "
                "graphs, or other shapes."
            )
    if intervals is not None and (
        probabilities is None
        or len(intervals) != len(table.graphs)
        or not all(map(_fits, intervals, table.graphs))
    ):
        raise TableError(
            "intervals must have a pair of arrays per graph of the table, with one number "
            "per candidate pair each, or per pair, left node and right node, and need "
            "probabilities; got other shapes, or none."
        )
    has_decisions = any(is_open.any() for is_open in is_left_open)
    names = [*table.id_columns]
    names += ["probability"] * (probabilities is not None)
    names += ["probability_low", "probability_high"] * (intervals is not None)
    names += ["match"] * all_edges
    names += ["decision"] * has_decisions
    if len(set(names)) < len(names):
        raise TableError(
            f"the columns of the matches must differ; got {', '.join(names)}. Rename "
            "the id columns of the table."
        )
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for g, graph in enumerate(table.graphs):
        chances = None if probabilities is None else np.asarray(probabilities[g], float)
        ends = None if intervals is None else intervals[g]
        answers = _Answers(graph, matchings[g], is_left_open[g], chances, ends)
        rows = answers.rows(all_edges=all_edges, links_only=links_only)
        left, right = ([*table.left_ids[g], None], [*table.right_ids[g], None])
        lists = [[table.graph_ids[g]] * len(rows[0])] * (len(table.id_columns) == 3)
        lists += [[left[i] for i in rows[0].tolist()], [right[j] for j in rows[1].tolist()]]
        lists += [] if chances is None else [rows[2].tolist()]
        for column in rows[5:] if intervals is not None else ():
            lists.append([None if np.isnan(end) else end for end in column.tolist()])
        lists += [rows[3].astype(int).tolist()] if all_edges else []
        if has_decisions:
            lists.append(np.array(["", *_DECISIONS])[1 + rows[4]].tolist())
        for name, values in zip(names, lists, strict=True):
            columns[name] += values
    return columns


def _fits(ends: Any, graph: BipartiteGraph) -> bool:
    """Return whether intervals have a number per pair of a graph, or also per node."""
    n_all = graph.n_edges + graph.n_left + graph.n_right
    return tuple(map(np.shape, ends)) in [((n,),) * 2 for n in (graph.n_edges, n_all)]


_DECISIONS = ("link", "unmatched", "review")
_LINK, _ALONE, _REVIEW = range(3)


class _Answers:
    """What was decided about the pairs and nodes of one graph."""

    def __init__(
        self,
        graph: BipartiteGraph,
        matching: IntArray,
        is_left_open: np.ndarray,
        chances: FloatArray | None,
        ends: tuple[FloatArray, FloatArray] | None = None,
    ) -> None:
        structure = graph.structure
        self.left, self.right = structure.left, structure.right
        self.shape = graph.n_left, graph.n_right
        self.chances = np.zeros(graph.n_edges) if chances is None else graph.pick(chances)
        nothing = np.full(graph.n_edges + sum(self.shape), np.nan)
        self.ends = [nothing.copy(), nothing.copy()]
        for own, given in zip(self.ends, ends or (), strict=False):
            own[: len(given)] = given
        self.is_link = matching[self.left] == self.right
        self.is_left_open = is_left_open
        self.partners = matching

    def rows(self, *, all_edges: bool, links_only: bool) -> list[np.ndarray]:
        """Return left node, right node, probability, match and decision of every row.

        A node that is -1 is none.  The last two are the ends of intervals, NaN if unknown.
        """
        edges = slice(None) if all_edges else self.is_link
        decision = np.where(self.is_link, _LINK, -1)
        intervals = [own[: len(self.left)] for own in self.ends]
        pairs = [self.left, self.right, self.chances, self.is_link, decision, *intervals]
        parts = [[column[edges] for column in pairs]]
        if not links_only:
            parts += [self._nodes(0, all_edges), self._nodes(1, all_edges)]
        return [np.concatenate(columns) for columns in zip(*parts, strict=True)]

    def _nodes(self, side: int, all_edges: bool) -> list[np.ndarray]:
        """Return the rows of the nodes of one side."""
        ends, others = (self.left, self.right)[:: 1 if side == 0 else -1]
        n_nodes = self.shape[side]
        is_taken = np.zeros(n_nodes, dtype=bool)
        is_taken[ends[self.is_link]] = True
        # A right node is undecided while one of its candidates is.
        is_open = self.is_left_open
        if side == 1:
            is_open = np.zeros(n_nodes, dtype=bool)
            is_open[ends[self.is_left_open[others]]] = True
        is_alone = ~is_taken & ~is_open
        listed = np.arange(n_nodes) if all_edges else np.flatnonzero(~is_taken)
        sums = np.bincount(ends, self.chances, n_nodes)
        alone = np.clip(1.0 - sums, 0.0, 1.0)
        decision = np.where(is_alone, _ALONE, np.where(is_taken, -1, _REVIEW))
        nodes = [listed, np.full(len(listed), -1)][:: 1 if side == 0 else -1]
        first = len(self.left) + (self.shape[0] if side == 1 else 0)
        low, high = (own[first : first + n_nodes] for own in self.ends)
        # By other sums than `alone`: the last digits may differ.
        intervals = np.minimum(low, alone), np.maximum(high, alone)
        rows = alone, is_alone, decision, *intervals
        return [*nodes, *(own[listed] for own in rows)]


def write_matches(
    path: str | Path | TextIO,
    table: EdgeTable,
    matchings: Sequence[Any],
    probabilities: Sequence[FloatArray] | None = None,
    *,
    intervals: Sequence[tuple[FloatArray, FloatArray]] | None = None,
    all_edges: bool = False,
    links_only: bool = False,
) -> None:
    """Write predictions as CSV; the file is written completely or not at all.

    After the links of a graph follow the nodes that stay unmatched, with an empty cell in
    place of the partner.

    Parameters
    ----------
    path : path or open text file
        Where to write; an existing file is replaced.  Cells are separated by tabs if the
        name ends in ``.tsv``.
    table : EdgeTable
        The table that was predicted; it names graphs and nodes.
    matchings : sequence of int arrays
        The predicted matching of every graph; -1 for unmatched nodes, -2 for nodes left to
        a person.
    probabilities : sequence of arrays of shape (n_edges,), optional
        The probability of every pair of every graph, as from ``predict_marginals``.
    intervals : sequence of pairs of arrays of shape (n_edges,), optional
        The ends of an interval for each of these; nodes have none.  Of shape (n_edges +
        n_left + n_right,): also for every left and every right node to stay unmatched.
    all_edges : bool
        List all candidate pairs and all nodes, with a column ``match`` that is 1 for links
        and unmatched nodes.
    links_only : bool
        Leave the nodes out.

    Examples
    --------
    >>> import sys
    >>> from permatch.datasets import read_edge_table
    >>> columns = {
    ...     "left": ["a", "a", "b", "c"],
    ...     "right": ["p", "q", "p", "q"],
    ...     "distance": [0.9, 0.1, 0.2, 0.7],
    ... }
    >>> write_matches(sys.stdout, read_edge_table(columns), [[1, 0, -1]])
    left,right
    a,q
    b,p
    c,
    """
    columns = edge_table_from_matches(
        table,
        matchings,
        probabilities,
        intervals=intervals,
        all_edges=all_edges,
        links_only=links_only,
    )
    if not isinstance(path, str | Path):
        _write(path, columns, ",")
        return
    with whole_file(path) as file:
        _write(file, columns, "\t" if str(path).lower().endswith(".tsv") else ",")


def _write(file: TextIO, columns: dict[str, list[Any]], delimiter: str) -> None:
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
