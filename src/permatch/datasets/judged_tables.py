"""Tables of judged documents, CSV, Parquet or data frames, some rows at a time.

A table names its columns: grades, query ids, perhaps document ids, and features.  The
features are the columns named, or all others that hold numbers.
"""

import gzip
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from permatch._cells import (
    Coded,
    as_array,
    column_keys,
    from_arrow,
    is_empty,
    is_index_column,
    parse_numbers,
    quoted,
)
from permatch._files import Gauge
from permatch._optional import require
from permatch._progress import progress_bar
from permatch._tables import is_numeric
from permatch.datasets.columns import (
    Block,
    check_different,
    is_remark,
    join_arrays,
    numbers_of,
    place_of,
)
from permatch.datasets.ranking_data import RankingData, as_ids
from permatch.datasets.table_text import DELIMITERS, damage_reported, open_text
from permatch.errors import InvalidQueriesError, PermatchError, TableError
from permatch.queries import check_grades

# Bytes of text read per second, a cautious guess, and numbers of Parquet decoded at a time.
_BYTES_PER_SECOND = 5e6
_BATCH_VALUES = 1 << 20


@dataclass(frozen=True)
class JudgedColumns:
    """The columns of a table of judged documents.

    `grade` and `qid` may be missing if they are not among `wanted`; `features` None are all
    other columns that hold numbers, and none are needed where none are named.
    """

    grade: str = "grade"
    qid: str = "qid"
    document: str | None = None
    features: Sequence[str] | None = None
    wanted: tuple[str, ...] = ("grade", "qid")

    @property
    def required(self) -> list[str]:
        """The columns that must be there."""
        named = [getattr(self, role) for role in self.wanted]
        named += [] if self.document is None else [self.document]
        return [*named, *(self.features or [])]

    def fits(self, header: list[str]) -> bool:
        """Return whether a table with these columns has all that are needed."""
        return set(self.required) <= set(header)

    def check(self, header: list[str], name: str) -> None:
        """Refuse a table with columns that are missing or there twice."""
        check_different(header, name)
        if missing := [key for key in self.required if key not in header]:
            raise TableError(
                f"{name} must have the columns {quoted(self.required)}; "
                f"{quoted(missing)} not found in {quoted(header)}. Rename columns, or name "
                "the ones to use: y=, qid= and feature_names= (on the command line "
                "--grade, --qid, --document and --features)."
            )

    def settled(self, header: list[str], numeric: Sequence[bool]) -> list[str]:
        """Return the features."""
        if self.features is not None:
            return list(self.features)
        taken = {self.grade, self.qid, self.document}
        return [
            key
            for key, is_in in zip(header, numeric, strict=True)
            if is_in and key not in taken and not is_index_column(key)
        ]


@dataclass(frozen=True, eq=False)
class JudgedTable:
    """A table that is open: its features, and its rows, some at a time."""

    name: str
    columns: JudgedColumns
    header: list[str]
    features: list[str]
    _blocks: Iterator[Block]

    @property
    def left_out(self) -> list[str]:
        """The columns without numbers and without a role."""
        own = self.columns
        if own.features is not None:
            return []
        taken = {*self.features, own.grade, own.qid, own.document}
        return [key for key in self.header if key not in taken and not is_index_column(key)]

    def parts(self) -> Iterator[RankingData]:
        """Yield the rows; grades that are not wanted are all 0.

        The query ids of text are text.
        """
        n_rows = 0
        for block in self._blocks:
            part = self._read(block, n_rows)
            n_rows += part.n_documents
            yield part
        if not n_rows:
            raise TableError(
                f"{self.name} must have at least one document; it has a header only. "
                "Check that it was written completely."
            )

    def whole(self) -> RankingData:
        """Return all rows."""
        columns: tuple[list[Any], ...] = ([], [], [], [])
        for part in self.parts():
            for held, own in zip(
                columns, (part.X, part.y, part.qid, part.doc_ids), strict=True
            ):
                held.append(own)
        X, y, qid, names = columns
        return RankingData(
            join_arrays(X),
            join_arrays(y),
            as_ids(np.concatenate(qid)),
            None if names[0] is None else np.concatenate(names),
            Path(self.name),
            self.features,
        )

    def _read(self, block: Block, first_row: int) -> RankingData:
        own = self.columns
        X = np.empty((_length(block, self.header), len(self.features)))
        rule, hint = "features must be numbers", ", or name the features without it"
        for k, key in enumerate(self.features):
            X[:, k] = numbers_of(block, self.header.index(key), rule, hint)
        y = np.zeros(len(X), dtype=np.intp)
        if own.grade in self.header and "grade" in own.wanted:
            rule = "grades must be whole numbers"
            values = numbers_of(block, self.header.index(own.grade), rule, "")
            try:
                y = check_grades(values, len(X), first_row=first_row)
            except PermatchError as err:
                raise type(err)(f"{self.name}: {err}") from err
        qid = np.zeros(len(X), dtype=np.intp)
        if own.qid in self.header:
            qid = read_ids(block, self.header.index(own.qid), is_needed=True)
        names = None
        if own.document is not None:
            names = read_ids(block, self.header.index(own.document)).astype(str)
        return RankingData(X, y, qid, names, Path(self.name), self.features)


@contextmanager
def open_table(
    source: Any, columns: JudgedColumns, max_bytes: int | None = None
) -> Iterator[JudgedTable]:
    """Open a path of a text or Parquet file, or a data frame."""
    if not isinstance(source, str | os.PathLike):
        yield _open_frame(source, columns)
        return
    with ExitStack() as stack, open(source, "rb") as file:
        magic = file.read(4)
        is_parquet = magic == b"PAR1" or _endings(source)[-1:] in ([".parquet"], [".pq"])
        opener = _open_parquet if is_parquet else _open_text
        yield stack.enter_context(opener(source, columns, max_bytes))


def _endings(source: Any) -> list[str]:
    return [ending.lower() for ending in Path(str(source)).suffixes]


@contextmanager
def _open_text(
    source: Any, columns: JudgedColumns, max_bytes: int | None
) -> Iterator[JudgedTable]:
    name = str(source)
    gauge = Gauge(name, TableError, max_bytes)
    with ExitStack() as stack:
        raw: Any = stack.enter_context(open(source, "rb"))
        is_packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        size = os.fstat(raw.fileno()).st_size
        title = f"reading {Path(name).name}"
        show = stack.enter_context(
            progress_bar(title, size, size / _BYTES_PER_SECOND, None)
        )
        stack.enter_context(damage_reported(name))
        stack.enter_context(gauge.csv_fields())
        text = gauge.text(gzip.GzipFile(fileobj=raw) if is_packed else raw)
        delimiters = "\t" if ".tsv" in _endings(source) else DELIMITERS
        found = open_text(text, name, columns, "judged documents", delimiters)
        _check_header(found.header, name, columns)
        columns.check(found.header, name)
        first = next(found.blocks, Block(name, found.header, [()] * len(found.header)))
        features = columns.settled(
            found.header, [not is_remark(cells) for cells in first.cells]
        )

        def blocks() -> Iterator[Block]:
            if len(first.cells[0]):
                yield first
            for block in found.blocks:
                if show is not None:
                    show(raw.tell())
                yield block

        yield _opened(name, columns, found.header, features, blocks())


def _check_header(header: list[str], name: str, columns: JudgedColumns) -> None:
    """Refuse numbers where the names of columns should be."""
    numbers, is_text = parse_numbers(header)
    if not (is_text.any() or np.isnan(numbers).any()):
        raise TableError(
            f"{name} must begin with a header, the names of its columns; got numbers only, "
            f"{quoted(header)}. Write a first line such as "
            f"{columns.qid},{columns.grade},price,age."
        )


@contextmanager
def _open_parquet(
    source: Any, columns: JudgedColumns, max_bytes: int | None
) -> Iterator[JudgedTable]:
    parquet = require("pyarrow.parquet", "tables", what="reading Parquet")
    arrow = require("pyarrow", "tables")
    name = str(source)
    try:
        with parquet.ParquetFile(source) as file:
            numeric = is_numeric(file.schema_arrow)
            header = list(numeric)
            columns.check(header, name)
            features = columns.settled(header, list(numeric.values()))
            used = [key for key in header if key in {*features, *_roles(columns)}]

            def blocks() -> Iterator[Block]:
                n_rows = max(1, _BATCH_VALUES // max(len(features), 1))
                for batch in file.iter_batches(n_rows, columns=used):
                    cells: list[Any] = [()] * len(header)
                    for key, column in zip(used, batch.columns, strict=True):
                        cells[header.index(key)] = from_arrow(column)
                    yield Block(name, header, cells)

            yield _opened(name, columns, header, features, blocks())
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as err:
        raise TableError(
            f"{name} must be a complete Parquet file; pyarrow says: "
            f"{str(err).rstrip('. ')}. Write or fetch it again."
        ) from err


def _open_frame(frame: Any, columns: JudgedColumns) -> JudgedTable:
    name = "the table"
    keys = column_keys(frame)
    header = [str(key) for key in keys]
    columns.check(header, name)
    features = columns.settled(header, list(is_numeric(frame).values()))
    used = {*features, *_roles(columns)}
    cells = [
        as_array(frame[key]) if text in used else ()
        for key, text in zip(keys, header, strict=True)
    ]
    return _opened(name, columns, header, features, iter([Block(name, header, cells)]))


def _roles(columns: JudgedColumns) -> tuple[str | None, ...]:
    return columns.grade, columns.qid, columns.document


def _opened(
    name: str,
    columns: JudgedColumns,
    header: list[str],
    features: list[str],
    blocks: Iterator[Block],
) -> JudgedTable:
    if not features and columns.features is None:
        raise TableError(
            f"{name} must have at least one column of numbers besides grades and queries; "
            f"it has {quoted(header)}. Check the columns."
        )
    return JudgedTable(name, columns, header, features, blocks)


def _length(block: Block, header: list[str]) -> int:
    return max(len(block.cells[k]) for k in range(len(header)))


def read_ids(block: Block, column: int, *, is_needed: bool = False) -> np.ndarray:
    """Return a column of ids: whole numbers as they are, all else as text."""
    cells = block.cells[column]
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "f":
        whole = np.where(np.isfinite(cells), cells, 0.0).astype(np.int64)
        cells = whole if (whole == cells).all() else cells  # NaN makes whole numbers floats
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "iu":
        return cells
    coded = isinstance(cells, Coded)
    values = cells.values if coded else np.asarray(cells, dtype=object).tolist()
    texts = ["" if is_empty(value) else str(value).strip() for value in values]
    found = np.array(texts, dtype=str)
    found = found[cells.codes] if coded else found
    is_blank = found == ""
    if is_needed and is_blank.any():
        place = place_of(block, int(np.argmax(is_blank)))
        raise InvalidQueriesError(
            f"query ids must not be missing; {block.header[column]!r} is empty at {place}. "
            "Fill it in, or drop the row."
        )
    return found
