"""Read LETOR files as blocks of rows: pieces of text turned into arrays.

A compiled scan reads plain lines; all others go through `parse_line`, which reads them or
explains what is wrong.  The two never disagree on a number: both round correctly.
"""

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from permatch._files import Gauge
from permatch._progress import progress_bar
from permatch._types import FloatArray, IntArray
from permatch.datasets.letor_line import LETOR, Line, LineForm, parse_line
from permatch.errors import FeatureIndexError, LetorFileError, UnsortedQueriesError
from permatch.kernels.ranking.letor_text import (
    POWERS,
    UNUSUAL,
    fill_rows,
    find_document,
    id_changes,
    scan_lines,
)

# Bytes read per second, a cautious guess: it decides whether a progress bar appears.
_BYTES_PER_SECOND = 3e7

#: What some editors write at the beginning of UTF-8 text.
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


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


def read_blocks(
    path: str | os.PathLike[str],
    n_features: int | None,
    largest: float,
    *,
    form: LineForm = LETOR,
    first_decides: bool = False,
    max_bytes: int | None = None,
) -> Iterator[Block]:
    """Yield the rows of a LETOR file, plain or gzip; queries may go on in the next block.

    An index above `n_features` or a value above `largest` is refused; with `first_decides`
    the first block sets `n_features` where it is None.
    """
    reader = _Reader(str(path), n_features, largest, form)
    with open_bytes(path) as (file, raw), damage_reported(str(path)):
        size = os.fstat(raw.fileno()).st_size
        seconds = size / _BYTES_PER_SECOND
        with progress_bar(f"reading {Path(path).name}", size, seconds, None) as report:
            for text in Gauge(str(path), LetorFileError, max_bytes).pieces(file):
                block = reader.read(text)
                if report is not None:
                    report(raw.tell())
                if block is None:
                    continue
                if first_decides and reader.n_features is None:
                    reader.n_features = block.width
                yield block
    if not reader.n_rows:
        raise LetorFileError(
            f"{path}: a LETOR file must have at least one line "
            "'grade qid:ID 1:value ...'; it is empty. Check that it was copied completely."
        )
    reader.check_end()


@contextmanager
def open_bytes(path: str | os.PathLike[str]) -> Iterator[tuple[Any, Any]]:
    """Open a file for reading, unpacking gzip; yield it and the file as it is on disk."""
    with open(path, "rb") as raw:
        is_packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        yield (gzip.GzipFile(fileobj=raw) if is_packed else raw), raw


@contextmanager
def damage_reported(name: str) -> Iterator[None]:
    """Turn what the unpacker says about a damaged file into an error of ours."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as err:
        raise LetorFileError(
            f"{name}: a gzip file must be complete; this one is truncated or damaged "
            f"({err}). Fetch it again."
        ) from err


@dataclass
class _Reader:
    """Turns pieces of text into blocks and remembers lines and queries seen."""

    name: str
    n_features: int | None
    largest: float
    form: LineForm = LETOR
    n_lines: int = 0
    n_rows: int = 0
    last_query: str | None = None
    first_lines: dict[str, int] = field(default_factory=dict)

    def read(self, text: bytes) -> Block | None:
        """Return the rows of a piece of text, None if it has none."""
        if self.n_lines == 0:
            text = text.removeprefix(BYTE_ORDER_MARK)
        if not text:
            return None
        n_rows = text.count(b"\n") + 1
        # Nothing is written to most of these, so most of their memory is never taken: an
        # entry has at least four bytes, such as b" 1:0".
        n_entries = len(text) // 4 + 1
        arrays = _Arrays(
            grades=np.empty(n_rows, dtype=np.int64),
            ids=np.empty((n_rows, 2), dtype=np.int64),
            docs=np.empty((n_rows, 2), dtype=np.int64),
            places=np.empty(n_rows, dtype=np.int64),
            row_ends=np.empty(n_rows, dtype=np.int64),
            columns=np.empty(n_entries, dtype=np.int32),
            values=np.empty(n_entries),
            hard=np.empty((n_entries, 3), dtype=np.int64),
        )
        codes = np.frombuffer(text, dtype=np.uint8)
        how = self.form.sizes is None, self.form.base
        at = n_rows = n_entries = n_hard = 0
        while True:
            status, at, n_rows, n_entries, n_hard = scan_lines(
                codes, at, n_rows, n_entries, n_hard, *arrays, POWERS, *how
            )
            if status != UNUSUAL:
                break
            end = text.find(b"\n", at) + 1 or len(text)
            line = parse_line(text[at:end], self.place(text, at), self.form)
            if line is not None:
                arrays.add(line, text, at, end, n_rows, n_entries)
                n_rows, n_entries = n_rows + 1, n_entries + len(line.columns)
            at = end
        block = None
        if n_rows:
            self.settle(arrays, text, n_hard, n_rows)
            self.check(arrays, text, n_rows, n_entries)
            block = self.gather(arrays, text, codes, n_rows, n_entries)
            self.n_rows += n_rows
        self.n_lines += text.count(b"\n")
        return block

    def place(self, text: bytes, at: int) -> str:
        """Return the name of the line that begins at byte `at` of this piece."""
        line = self.n_lines + text.count(b"\n", 0, at) + 1
        return f"{self.name}, line {line}"

    def settle(self, arrays: "_Arrays", text: bytes, n_hard: int, n_rows: int) -> None:
        """Read the numbers that the scan has left."""
        for entry, begin, end in arrays.hard[:n_hard].tolist():
            word = text[begin:end]
            try:
                value = float(word)
            except ValueError:
                value = np.nan
            if not np.isfinite(value) or b"_" in word:  # float takes 1_000
                at = arrays.line_of(entry, n_rows)
                stop = text.find(b"\n", at) + 1 or len(text)
                parse_line(text[at:stop], self.place(text, at), self.form)
                raise AssertionError(f"{word!r} is a number to one parser only")
            arrays.values[entry] = value

    def check(self, arrays: "_Arrays", text: bytes, n_rows: int, n_entries: int) -> None:
        """Refuse features beyond the last one, and values beyond the largest."""
        columns, values = arrays.columns[:n_entries], arrays.values[:n_entries]
        if self.n_features is not None and n_entries and columns.max() >= self.n_features:
            entry = int(np.argmax(columns >= self.n_features))
            place = self.place(text, arrays.line_of(entry, n_rows))
            raise FeatureIndexError(
                f"{place}: documents must have at most {self.n_features} features; got "
                f"index {columns[entry] + self.form.base}."
            )
        if n_entries and max(values.max(), -values.min()) > self.largest:
            entry = int(np.argmax(np.abs(values) > self.largest))
            place = self.place(text, arrays.line_of(entry, n_rows))
            raise LetorFileError(
                f"{place}: values must be at most {self.largest:.3g} in size to be held as "
                f"float32; got {values[entry]}. Read the file as float64."
            )

    def gather(
        self, arrays: "_Arrays", text: bytes, codes: Any, n_rows: int, n_entries: int
    ) -> Block:
        """Return the rows read."""
        if self.form.sizes is None:
            queries, starts = self.queries(arrays, text, codes, n_rows)
        else:
            queries, starts = self.numbered(self.form.sizes, n_rows)
        documents = None
        ranges = arrays.docs[:n_rows]
        if (ranges[:, 1] > ranges[:, 0]).any():
            documents = [_decode(text[a:b]) for a, b in ranges.tolist()]
        return Block(
            arrays.grades[:n_rows],
            queries,
            starts,
            documents,
            arrays.row_ends[:n_rows],
            # copies, so that the memory set aside for entries is given back
            arrays.columns[:n_entries].copy(),
            arrays.values[:n_entries].copy(),
        )

    def numbered(self, sizes: IntArray, n_rows: int) -> tuple[list[str], IntArray]:
        """Return the queries of rows, numbered from 1, and where they start."""
        ends = np.cumsum(sizes)
        owners = np.searchsorted(ends, self.n_rows + np.arange(n_rows), side="right")
        starts = np.flatnonzero(np.append(True, owners[1:] != owners[:-1]))
        return [str(owner + 1) for owner in owners[starts].tolist()], starts

    def check_end(self) -> None:
        """Refuse sizes of queries that are not those of the file."""
        sizes = self.form.sizes
        if sizes is not None and sizes.sum() != self.n_rows:
            raise LetorFileError(
                f"{self.name}: the numbers of rows of the queries must add up to the "
                f"{self.n_rows} documents; {len(sizes)} of them add up to {sizes.sum()}. "
                "Use the sizes of exactly this file."
            )

    def queries(
        self, arrays: "_Arrays", text: bytes, codes: Any, n_rows: int
    ) -> tuple[list[str], IntArray]:
        """Return the queries that rows name, and where they start."""
        is_new = np.empty(n_rows, dtype=np.bool_)
        id_changes(codes, arrays.ids[:n_rows], is_new)
        starts = np.flatnonzero(is_new)
        words = [text[a:b] for a, b in arrays.ids[starts].tolist()]
        queries = [_decode(word) for word in words]
        counted, line = 0, self.n_lines + 1
        places = arrays.places[starts].tolist()
        for at, word, query in zip(places, words, queries, strict=True):
            line += text.count(b"\n", counted, at)
            counted = at
            if query.encode() != word:
                raise LetorFileError(
                    f"{self.name}, line {line}: query ids must be UTF-8 text; got "
                    f"{word!r}. Convert the file to UTF-8."
                )
            if query == self.last_query:
                continue
            if query in self.first_lines and self.form.is_sorted:
                raise UnsortedQueriesError(
                    f"{self.name}, line {line}: the documents of a query must be "
                    f"contiguous; query {query} reappears here, after {self.last_query}, "
                    f"and began in line {self.first_lines[query]}. Sort the file by query, "
                    "give each query its own id, or read the file whole (read_letor)."
                )
            self.first_lines[query] = line
            self.last_query = query
        return queries, starts


class _Arrays(NamedTuple):
    """Where the scan writes what it reads."""

    grades: IntArray
    ids: IntArray
    docs: IntArray
    places: IntArray
    row_ends: IntArray
    columns: np.ndarray
    values: FloatArray
    hard: IntArray

    def line_of(self, entry: int, n_rows: int) -> int:
        """Return the byte at which the line of an entry begins."""
        row = int(np.searchsorted(self.row_ends[:n_rows], entry, side="right"))
        return int(self.places[row])

    def add(
        self, line: Line, text: bytes, at: int, stop: int, row: int, entry: int
    ) -> None:
        """Write what `parse_line` has read of the bytes from `at` to `stop`."""
        end = entry + len(line.columns)
        self.grades[row] = line.grade
        self.places[row] = at
        self.row_ends[row] = end
        self.columns[entry:end] = line.columns
        self.values[entry:end] = line.values
        # Ids are kept as byte ranges; the first colon of a line is that of its query.
        first = text.find(b":", at) + 1 if line.query else at
        self.ids[row] = first, first + len(line.query.encode())
        comment = text.find(b"#", at, stop)
        codes = np.frombuffer(text, dtype=np.uint8)
        self.docs[row] = find_document(codes, comment, stop) if comment >= 0 else (0, 0)


def _decode(word: bytes) -> str:
    return word.decode("utf-8", "replace")
