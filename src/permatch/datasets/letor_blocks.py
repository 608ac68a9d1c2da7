"""Consecutive rows of a LETOR file, as the entries that their lines have."""

from typing import NamedTuple

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch.kernels.ranking.letor_text import fill_rows


class Block(NamedTuple):
    """Consecutive rows of a file.

    `queries` has the id of every run of rows of one query and `starts` its first row;
    `documents` is None if no row names its document.  Row r has the entries up to
    ``row_ends[r]``.
    """

    grades: IntArray
    queries: list[str]
    starts: IntArray
    documents: list[str] | None
    row_ends: IntArray
    columns: np.ndarray
    values: FloatArray

    @property
    def n_rows(self) -> int:
        """Number of documents."""
        return len(self.grades)

    @property
    def width(self) -> int:
        """The number of features, as far as this block tells."""
        return int(self.columns.max()) + 1 if len(self.columns) else 0

    def fill(self, out: np.ndarray) -> None:
        """Write the features into the rows of `out`, which are 0."""
        fill_rows(self.row_ends, self.columns, self.values, out)

    def rows(self, first: int, end: int) -> "Block":
        """Return some of the rows."""
        runs = slice(
            int(np.searchsorted(self.starts, first, side="right")) - 1,
            int(np.searchsorted(self.starts, end)),
        )
        before = int(self.row_ends[first - 1]) if first else 0
        entries = slice(before, int(self.row_ends[end - 1]))
        return Block(
            self.grades[first:end],
            self.queries[runs],
            np.maximum(self.starts[runs] - first, 0),
            None if self.documents is None else self.documents[first:end],
            self.row_ends[first:end] - before,
            self.columns[entries],
            self.values[entries],
        )


def join_blocks(blocks: list[Block]) -> Block:
    """Return consecutive blocks as one."""
    queries, starts = join_queries(blocks)
    n_entries = np.cumsum([0] + [len(block.values) for block in blocks])
    return Block(
        np.concatenate([block.grades for block in blocks]),
        queries,
        starts,
        join_documents(blocks),
        np.concatenate(
            [block.row_ends + n for block, n in zip(blocks, n_entries, strict=False)]
        ),
        np.concatenate([block.columns for block in blocks]),
        np.concatenate([block.values for block in blocks]),
    )


def join_queries(blocks: list[Block]) -> tuple[list[str], IntArray]:
    """Return the ids and first rows of the queries of consecutive blocks."""
    queries: list[str] = []
    starts: list[IntArray] = []
    n_rows = 0
    for block in blocks:
        goes_on = int(bool(queries) and queries[-1] == block.queries[0])
        queries += block.queries[goes_on:]
        starts.append(block.starts[goes_on:] + n_rows)
        n_rows += block.n_rows
    return queries, np.concatenate(starts)


def join_documents(blocks: list[Block]) -> list[str] | None:
    """Return the document ids of consecutive blocks, empty where there is none."""
    if all(block.documents is None for block in blocks):
        return None
    ids: list[str] = []
    for block in blocks:
        ids += [""] * block.n_rows if block.documents is None else block.documents
    return ids
