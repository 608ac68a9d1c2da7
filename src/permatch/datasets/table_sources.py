"""Read an edge table from text, Parquet, a data frame or a mapping of columns."""

import gzip
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from permatch._cells import as_array, column_keys
from permatch._files import Gauge
from permatch._types import IntArray
from permatch.datasets.arrow_sources import (
    is_large,
    read_large_text,
    read_parquet,
)
from permatch.datasets.columns import (
    Block,
    Columns,
    RoleChoice,
    Roles,
    check_header,
    check_roles,
    gather,
)
from permatch.datasets.table_text import DELIMITERS, Beginning, read_text
from permatch.errors import TableError


def read_columns(source: Any, roles: RoleChoice, max_bytes: int | None = None) -> Columns:
    """Read a path, an open text file, a data frame or a mapping of columns."""
    if isinstance(roles, Roles):
        check_roles(roles)
    if isinstance(source, str | Path):
        return _read_file(Path(source), roles, max_bytes)
    if isinstance(source, io.TextIOBase):
        name = str(getattr(source, "name", "the table"))
        name = name.replace("<stdin>", "standard input")
        gauge = Gauge(name, TableError, max_bytes)
        with gauge.csv_fields():
            return read_text(gauge.lines(source), name, roles)
    if isinstance(source, Mapping) or hasattr(source, "columns"):
        return _read_frame(source, "the table", roles)
    raise TableError(
        "a table of pairs must be a path, an open text file, a data frame or a mapping; "
        f"got {type(source).__name__}."
    )


def _read_file(path: Path, roles: RoleChoice, max_bytes: int | None) -> Columns:
    gauge = Gauge(str(path), TableError, max_bytes)
    with path.open("rb") as file:
        magic = file.read(4)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if magic == b"PAR1" or suffixes[-1:] in ([".parquet"], [".pq"]):
        return _read_frame(read_parquet(path, gauge), str(path), roles)
    delimiters = "\t" if ".tsv" in suffixes else DELIMITERS
    opener = gzip.open if magic.startswith(b"\x1f\x8b") else open

    def quick(start: Beginning) -> Columns | None:
        again = Gauge(str(path), TableError, max_bytes)
        with opener(path, "rb") as file:
            return read_large_text(file, again, start, roles.chosen(start.header))

    with opener(path, "rb") as file, gauge.text(file) as text, gauge.csv_fields():
        return read_text(
            text, str(path), roles, delimiters, quick if is_large(path) else None
        )


def read_part(frame: Any, name: str, choice: RoleChoice, rows: IntArray) -> Columns:
    """Read some rows of a larger table, with their numbers in it."""
    return _read_frame(frame, name, choice, rows)


def _read_frame(
    frame: Any, name: str, choice: RoleChoice, rows: IntArray | None = None
) -> Columns:
    """Read a mapping of columns, or anything like a data frame."""
    keys = column_keys(frame)
    header = [str(key) for key in keys]
    roles = choice.chosen(header)
    check_header(header, roles, name)
    # Where features are named, other columns may hold anything.
    named = [*roles.ids(header), *roles.others, roles.label, *(roles.features or [])]
    used = set(header if roles.features is None else named)
    cells: list[Any] = [as_array(frame[key]) if str(key) in used else () for key in keys]
    shape = cells[header.index(roles.left)].shape
    for key, column in zip(header, cells, strict=True):
        if key in used and (column.ndim != 1 or column.shape != shape):
            raise TableError(
                f"the columns of a table must be lists of equal length; {roles.left!r} "
                f"has shape {shape}, {key!r} has {column.shape}."
            )
    return gather(header, roles, name, [Block(name, header, cells, rows=rows)])
