"""Rows of results in a file of JSON lines, one object a line, added to as they come.

A run that was stopped can only have damaged the end of the last line: that piece is cut off
when the run is resumed, and everything before it is kept.
"""

import json
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

from permatch.errors import RowFileError

Row = dict[str, Any]


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
        f"{path} must hold rows of this experiment, one JSON object a line; line {number} "
        "is none. Remove the line, or use another file."
    )
