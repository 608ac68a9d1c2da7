"""Read a table from delimited text, by Python's `csv`."""

import csv
import gzip
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, chain, islice
from typing import Any

from permatch._files import csv_problem
from permatch.datasets.columns import (
    Block,
    Columns,
    RoleChoice,
    WantedColumns,
    check_header,
    gather,
)
from permatch.errors import TableError

#: Rows of text turned into numbers at a time.
BLOCK_ROWS = 8192

DELIMITERS = ",;\t"
_LINE_END = re.compile("\r\n|\r|\n")


@dataclass(frozen=True, eq=False)
class Beginning:
    """How a table of text begins: its header, the lines up to it, its first rows."""

    header: list[str]
    delimiter: str
    n_lines: int
    first: Block


def read_text(
    lines: Iterator[str],
    name: str,
    choice: RoleChoice,
    delimiters: str = DELIMITERS,
    quick: Callable[[Beginning], Columns | None] | None = None,
) -> Columns:
    """Read lines, unless `quick` reads the table from how it begins."""
    with damage_reported(name):
        text = open_text(lines, name, choice, "pairs", delimiters)
        roles = choice.chosen(text.header)
        check_header(text.header, roles, name)
        blocks = text.blocks
        if quick is not None and (first := next(blocks, None)) is not None:
            found = quick(Beginning(text.header, text.delimiter, text.n_lines, first))
            if found is not None:
                return found
            blocks = chain([first], blocks)
        return gather(text.header, roles, name, blocks)


@dataclass(frozen=True, eq=False)
class OpenText:
    """A table of text: its header, the lines up to it, and its rows, some at a time."""

    header: list[str]
    delimiter: str
    n_lines: int
    blocks: Iterator[Block]


def open_text(
    lines: Iterator[str],
    name: str,
    wanted: WantedColumns,
    what: str,
    delimiters: str = DELIMITERS,
) -> OpenText:
    """Read the header of a table of `what`, and return what reads the rest."""
    n_read, line = 0, "\n"
    while line.isspace():
        n_read, line = n_read + 1, next(lines, "")
    if not line:
        raise TableError(
            f"{name} must hold a table of {what}; it is empty. Write a header with the "
            f"columns {', '.join(wanted.required)}, then one line per row."
        )
    header, delimiter = _split_header(line, wanted, delimiters)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    return OpenText(header, delimiter, n_read, _blocks(reader, name, header, n_read))


@contextmanager
def damage_reported(name: str) -> Iterator[None]:
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


def _split_header(
    line: str, wanted: WantedColumns, delimiters: str
) -> tuple[list[str], str]:
    """Return the column names and the delimiter, the one that yields those needed."""
    candidates = sorted(delimiters, key=line.count, reverse=True)
    headers = [
        [cell.strip() for cell in next(csv.reader([line], delimiter=mark))]
        for mark in candidates
    ]
    is_complete = [wanted.fits(header) for header in headers]
    best = is_complete.index(True) if any(is_complete) else 0
    return headers[best], candidates[best]


def _blocks(reader: Any, name: str, header: list[str], n_before: int) -> Iterator[Block]:
    """Yield blocks of rows that are not blank."""
    width = len(header)
    while True:
        before = reader.line_num + n_before
        try:
            rows = list(islice(reader, BLOCK_ROWS))
        except csv.Error as err:
            raise TableError(
                f"{name} must be delimited text; line {reader.line_num + n_before}: "
                f"{csv_problem(err)}"
            ) from err
        if not rows:
            return
        n_lines = reader.line_num + n_before - before
        ends: Any = range(before + 1, before + n_lines + 1)
        if n_lines != len(rows):  # some cells hold line ends
            ends = accumulate(map(_count_lines, rows), initial=before)
            ends = list(ends)[1:]
        if {*map(len, rows)} != {width}:
            rows, ends = _full_rows(rows, ends, name, width)
        if rows:
            yield Block(name, header, list(zip(*rows, strict=True)), ends)


def _count_lines(row: list[str]) -> int:
    return 1 + sum(len(_LINE_END.findall(cell)) for cell in row)


def _full_rows(
    rows: list[list[str]], ends: Any, name: str, width: int
) -> tuple[list[list[str]], list[int]]:
    """Return the rows that are not blank and the lines they end on; refuse short ones."""
    kept, kept_ends = [], []
    for row, line in zip(rows, ends, strict=True):
        if len(row) == width:
            kept.append(row)
            kept_ends.append(line)
        elif any(cell.strip() for cell in row):
            raise TableError(
                f"every line must have as many cells as the header, {width}; line {line} "
                f"of {name} has {len(row)}. Complete it; the file may be cut off."
            )
    return kept, kept_ends
