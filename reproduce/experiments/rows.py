"""Rows of results in a file of JSON lines, one object a line, added to as they come.

A run that was stopped can only have damaged the end of the last line: that piece is cut off
when the run is resumed, and everything before it is kept.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from permatch.errors import PermatchError

Row = dict[str, Any]
OnRow = Callable[[Row], None] | None
OnProgress = Callable[[float], None] | None


class RowFileError(PermatchError, ValueError):
    """A results file with an invalid line; no rows are added to it."""


class RowFile:
    """Rows by key, kept in memory and, if there is a path, in a file.

    Parameters
    ----------
    path : str, path or None
        The file; created with the first row, its folder too.  None keeps rows in memory.
    key : iterable of str
        The fields that together name a row.
    """

    def __init__(self, path: str | PathLike[str] | None, key: Iterable[str]) -> None:
        self.path = None if path is None else Path(path)
        self.key = tuple(key)
        self._rows: dict[tuple[Any, ...], Row] = {}
        self._n_bytes = 0  # up to the end of the last whole line
        if self.path is not None and self.path.exists():
            rows, self._n_bytes = _parse(self.path)
            for number, row in rows:
                if not all(name in row for name in self.key):
                    raise _damaged(self.path, number)
                self._rows[self._key_of(row)] = row

    def find(self, **key: Any) -> Row | None:
        """Return the row with this key, or None if there is none yet."""
        return self._rows.get(self._key_of(key))

    def add(self, row: Row) -> None:
        """Keep a row; it is on its way to the disk when this returns."""
        self._rows[self._key_of(row)] = row
        if self.path is None:
            return
        line = json.dumps(row, allow_nan=False).encode() + b"\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            if file.tell() != self._n_bytes:  # a piece of a line, left by a stopped run
                file.truncate(self._n_bytes)
            file.write(line)
        self._n_bytes += len(line)

    def _key_of(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.key)


def read_rows(path: str | PathLike[str]) -> list[Row]:
    """Return the rows of a file, without the piece of a line that a stopped run may leave.

    Parameters
    ----------
    path : str or path
        A file of JSON lines.

    Returns
    -------
    list of dict
        One per line.

    Raises
    ------
    RowFileError
        If another line than the last is no JSON object.
    """
    return [row for _, row in _parse(Path(path))[0]]


def name_row(key: Sequence[str], values: Sequence[Any]) -> Row:
    """Return the fields that name a row, with their values."""
    return dict(zip(key, values, strict=True))


def make_rows(
    keys: Sequence[Row],
    measure: Callable[[Row], Row],
    rows: RowFile,
    *,
    cost: Callable[[Row], float] = lambda key: 1.0,
    on_row: OnRow = None,
    on_progress: OnProgress = None,
) -> Iterator[Row]:
    """Yield the row of every key, in order.

    Parameters
    ----------
    keys : sequence of dict
        What names the rows.
    measure : callable
        From a key to the rest of its row.
    rows : RowFile
        Where rows are looked up and kept.
    cost : callable, optional
        Work a key takes, in any unit, for the progress.
    on_row : callable, optional
        Called with every row that was computed, not with those the file had.
    on_progress : callable, optional
        Called with the share of the work that is done, from 0 to 1.

    Yields
    ------
    dict
        Key and measures.
    """
    total = sum(cost(key) for key in keys)
    done = 0.0
    for key in keys:
        row = rows.find(**key)
        if row is None:
            row = key | measure(key)
            rows.add(row)
            if on_row is not None:
                on_row(row)
        done += cost(key)
        if on_progress is not None:
            on_progress(1.0 if key is keys[-1] else min(done / total, 1.0))
        yield row


def _parse(path: Path) -> tuple[list[tuple[int, Row]], int]:
    """Return numbered rows, and the length in bytes of the whole lines."""
    content = path.read_bytes()
    end = content.rfind(b"\n") + 1
    rows = []
    for number, line in enumerate(content[:end].splitlines(), start=1):
        try:
            row = json.loads(line)
        except ValueError as err:  # neither text nor JSON
            raise _damaged(path, number) from err
        if not isinstance(row, dict):
            raise _damaged(path, number)
        rows.append((number, row))
    return rows, end


def _damaged(path: Path, number: int) -> RowFileError:
    return RowFileError(
        f"{path} must contain rows of this experiment, one JSON object per line; line "
        f"{number} is not one. Remove the line, or use another file."
    )
