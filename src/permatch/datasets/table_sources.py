"""Read an edge table from text, Parquet, a data frame or a mapping of columns."""

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from permatch._files import Gauge, csv_problem
from permatch._optional import require
from permatch.datasets.columns import (
    Block,
    Columns,
    Roles,
    check_header,
    check_roles,
    gather,
)
from permatch.errors import TableError

#: Rows of text turned into numbers at a time.
BLOCK_ROWS = 8192

_DELIMITERS = ",;\t"


def read_columns(source: Any, roles: Roles, max_bytes: int | None = None) -> Columns:
    """Read a path, an open text file, a data frame or a mapping of columns."""
    check_roles(roles)
    if isinstance(source, str | Path):
        return _read_file(Path(source), roles, max_bytes)
    if isinstance(source, io.TextIOBase):
        name = str(getattr(source, "name", "the table"))
        name = name.replace("<stdin>", "standard input")
        gauge = Gauge(name, TableError, max_bytes)
        with gauge.csv_fields():
            return _read_text(gauge.lines(source), name, roles)
    if isinstance(source, Mapping) or hasattr(source, "columns"):
        return _read_frame(source, "the table", roles)
    raise TableError(
        "an edge table must be a path, an open text file, a data frame or a mapping; "
        f"got {type(source).__name__}."
    )


def _read_file(path: Path, roles: Roles, max_bytes: int | None) -> Columns:
    gauge = Gauge(str(path), TableError, max_bytes)
    with path.open("rb") as file:
        magic = file.read(4)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if magic == b"PAR1" or suffixes[-1:] in ([".parquet"], [".pq"]):
        return _read_parquet(path, roles, gauge)
    delimiters = "\t" if ".tsv" in suffixes else _DELIMITERS
    opener = gzip.open if magic.startswith(b"\x1f\x8b") else open
    with opener(path, "rb") as file, gauge.text(file) as text, gauge.csv_fields():
        return _read_text(text, str(path), roles, delimiters)


def _read_parquet(path: Path, roles: Roles, gauge: Gauge) -> Columns:
    parquet = require("pyarrow.parquet", "tables", what="reading Parquet")
    arrow = require("pyarrow", "tables")
    try:
        found = parquet.read_metadata(path)
        gauge.check_arrays(
            8 * found.num_rows * found.num_columns,
            path.stat().st_size,
            f"its {found.num_rows} rows of {found.num_columns} columns",
        )
        return _read_frame(parquet.read_table(path), str(path), roles)
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as err:
        raise TableError(
            f"{path} must be a complete Parquet file; pyarrow says: {err} Write or fetch "
            "it again, or rename it if it is text."
        ) from err


def _read_frame(frame: Any, name: str, roles: Roles) -> Columns:
    """Read a mapping of columns, or anything like a data frame."""
    if isinstance(frame, Mapping):
        keys = list(frame)
    elif hasattr(frame, "column_names"):  # Arrow's, with arrays under `columns`
        keys = list(frame.column_names)
    else:
        keys = list(frame.columns)
    header = [str(key) for key in keys]
    check_header(header, roles, name)
    cells = [_as_array(frame[key]) for key in keys]
    shape = cells[header.index(roles.graph)].shape
    for key, column in zip(header, cells, strict=True):
        if column.ndim != 1 or column.shape != shape:
            raise TableError(
                f"the columns of a table must be lists of equal length; {roles.graph!r} "
                f"has shape {shape}, {key!r} has {column.shape}."
            )
    return gather(header, roles, name, [Block(name, header, cells)])


def _as_array(column: Any) -> np.ndarray:
    if isinstance(column, np.ma.MaskedArray):  # NumPy would show what is under the mask
        cells = column.data.astype(object)
        cells[np.ma.getmaskarray(column)] = None
        return cells
    if hasattr(column, "to_numpy"):
        column = column.to_numpy()
    try:
        return np.asarray(column)
    except ValueError:  # lists in the cells; some column check will refuse them
        return np.asarray(column, dtype=object)


def _read_text(
    lines: Iterator[str], name: str, roles: Roles, delimiters: str = _DELIMITERS
) -> Columns:
    with _damage_reported(name):
        n_read, line = 0, "\n"
        while line.isspace():
            n_read, line = n_read + 1, next(lines, "")
        if not line:
            raise TableError(
                f"{name} must hold a table of edges; it is empty. Write a header with the "
                f"columns {', '.join(roles.ids)}, then one line per edge."
            )
        header, delimiter = _split_header(line, roles, delimiters)
        check_header(header, roles, name)
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        rows = _full_rows(reader, name, len(header), n_read)
        return gather(header, roles, name, _blocks(rows, name, header))


@contextmanager
def _damage_reported(name: str) -> Iterator[None]:
    """Turn the errors of decoders into one kind."""
    try:
        yield
    except UnicodeDecodeError as err:
        raise TableError(
            f"{name} must be UTF-8 text (plain or gzip) or Parquet; it has other bytes "
            f"({err.reason}). Export the table as CSV in UTF-8."
        ) from err
    except csv.Error as err:
        raise TableError(
            f"{name} must be delimited text with a header; in its first line, "
            f"{csv_problem(err)}"
        ) from err
    except (EOFError, zlib.error, gzip.BadGzipFile) as err:
        raise TableError(
            f"{name} must be a complete gzip file; it is truncated or damaged ({err}). "
            "Write or fetch it again."
        ) from err


def _split_header(line: str, roles: Roles, delimiters: str) -> tuple[list[str], str]:
    """Return the column names and the delimiter, the one that yields those needed."""
    candidates = sorted(delimiters, key=line.count, reverse=True)
    headers = [
        [cell.strip() for cell in next(csv.reader([line], delimiter=mark))]
        for mark in candidates
    ]
    is_complete = [set(roles.ids) <= set(header) for header in headers]
    best = is_complete.index(True) if any(is_complete) else 0
    return headers[best], candidates[best]


def _full_rows(
    reader: Any, name: str, width: int, n_before: int
) -> Iterator[tuple[int, list[str]]]:
    """Yield rows that are not blank, and the lines they end on."""
    try:
        for row in reader:
            line = reader.line_num + n_before
            if len(row) == width:
                yield line, row
            elif any(cell.strip() for cell in row):
                raise TableError(
                    f"every line must have as many cells as the header, {width}; line "
                    f"{line} of {name} has {len(row)}. Complete it; the file may be cut "
                    "off."
                )
    except csv.Error as err:
        raise TableError(
            f"{name} must be delimited text; line {reader.line_num + n_before}: "
            f"{csv_problem(err)}"
        ) from err


def _blocks(
    rows: Iterator[tuple[int, list[str]]], name: str, header: list[str]
) -> Iterator[Block]:
    while block := list(islice(rows, BLOCK_ROWS)):
        lines, cells = zip(*block, strict=True)
        yield Block(name, header, list(zip(*cells, strict=True)), lines)
