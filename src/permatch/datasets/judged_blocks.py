"""Files of judged documents in blocks of whole queries, in bounded memory."""

import os
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from permatch._types import IntArray
from permatch.datasets.judged import (
    Form,
    check_total,
    read_table,
    sizes_of,
)
from permatch.datasets.judged_tables import JudgedColumns, open_table
from permatch.datasets.letor import iterate_letor, read_letor
from permatch.datasets.ranking_data import RankingData, as_ids
from permatch.errors import UnsortedQueriesError

Source = str | os.PathLike[str]


def iterate_judged(
    source: Source,
    form: Form,
    n_documents: int,
    columns: JudgedColumns,
    *,
    zero_based: bool = False,
    n_features: int | None = None,
) -> Iterator[RankingData]:
    """Yield a file of a form in blocks of whole queries, of about `n_documents`.

    A query may come back after others, if the first time is in the first block; then the
    file is read whole, in its order.
    """
    if form == "table":
        blocks = _table_blocks(source, n_documents, columns)
    else:
        sizes = sizes_of(source, form)
        how = {"group": sizes, "zero_based": zero_based, "n_features": n_features}
        blocks = iterate_letor(source, n_documents, **how)
    is_begun = False
    try:
        for block in blocks:
            is_begun = True
            yield block
            del block  # before the next one is read
    except UnsortedQueriesError:
        if is_begun:
            raise
        if form == "table":
            yield read_table(source, columns)
        else:
            yield read_letor(source, zero_based=zero_based, n_features=n_features)


def _table_blocks(
    source: Source, n_documents: int, columns: JudgedColumns
) -> Iterator[RankingData]:
    """Yield a table; the queries of one without their ids are in a side file."""
    sizes = sizes_of(source, "table")
    if sizes is not None:
        wanted = tuple(role for role in columns.wanted if role != "qid")
        columns = replace(columns, wanted=wanted)
    n_rows = 0
    held: list[RankingData] = []
    with open_table(source, columns) as table:
        runs = _Runs(table.name)
        for part in table.parts():
            if sizes is not None and columns.qid not in table.header:
                part = replace(part, qid=_numbered(sizes, n_rows, part.n_documents))
            runs.check(part.qid)
            n_rows += part.n_documents
            held.append(part)
            if sum(own.n_documents for own in held) <= n_documents:
                continue
            whole = _joined(held)
            changes = np.flatnonzero(whole.qid[1:] != whole.qid[:-1]) + 1
            held = [whole]
            if len(changes):
                held = [_rows(whole, int(changes[-1]), whole.n_documents)]
                yield _named(_rows(whole, 0, int(changes[-1])))
        if sizes is not None and columns.qid not in table.header:
            check_total(sizes, n_rows, table.name)
    yield _named(_joined(held))


class _Runs:
    """Notices queries that come back."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.n_rows = 0
        self.seen: set[object] = set()
        self.last: object = None

    def check(self, qid: np.ndarray) -> None:
        """Refuse a query that comes back in the next rows."""
        starts = np.append(0, np.flatnonzero(qid[1:] != qid[:-1]) + 1)
        for start, query in zip(starts.tolist(), qid[starts].tolist(), strict=True):
            if query == self.last:
                continue
            if query in self.seen:
                raise UnsortedQueriesError(
                    f"{self.name}: the documents of a query must be together in a table "
                    f"that is read in blocks; query {query} comes back in row "
                    f"{self.n_rows + start} (counted from 0), after {self.last}. Sort the "
                    "table by query."
                )
            self.seen.add(query)
            self.last = query
        self.n_rows += len(qid)


def _numbered(sizes: IntArray, first: int, n_rows: int) -> IntArray:
    """Return the queries of rows by number, from 0, as `query_ids` has them."""
    rows = np.arange(first, first + n_rows)
    return np.searchsorted(np.cumsum(sizes), rows, side="right")


def _joined(parts: list[RankingData]) -> RankingData:
    names = [part.doc_ids for part in parts if part.doc_ids is not None]
    return replace(
        parts[0],
        X=np.concatenate([part.X for part in parts]),
        y=np.concatenate([part.y for part in parts]),
        qid=np.concatenate([part.qid for part in parts]),
        doc_ids=np.concatenate(names) if names else None,
    )


def _rows(data: RankingData, first: int, end: int) -> RankingData:
    rows = slice(first, end)
    names = None if data.doc_ids is None else data.doc_ids[rows]
    return replace(data, X=data.X[rows], y=data.y[rows], qid=data.qid[rows], doc_ids=names)


def _named(data: RankingData) -> RankingData:
    return replace(data, qid=as_ids(data.qid))
