"""Tables of records: columns by name, as text, numbers or dates; ids; tables to return."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from permatch._cells import (
    MISSING_WORDS,
    Coded,
    as_array,
    column_keys,
    in_memory,
    is_empty,
    parse_numbers,
    quoted,
)
from permatch._types import FloatArray, IntArray
from permatch.errors import TableError

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}(?!\d)")


class Records:
    """A table with one row per record, called `name` in messages."""

    def __init__(self, table: Any, name: str) -> None:
        table = in_memory(table)
        if not (isinstance(table, Mapping) or hasattr(table, "columns")):
            raise TableError(
                f"{name} must be a data frame (pandas, Polars, Arrow) or a mapping of "
                f"columns; got {type(table).__name__}. Read files first, by "
                "pandas.read_csv for instance."
            )
        self.name = name
        self._table = table
        self.keys = column_keys(table)
        if not self.keys:
            raise TableError(f"{name} must have columns; it has none.")
        if twice := [key for key, count in Counter(self.keys).items() if count > 1]:
            raise TableError(
                f"the columns of {name} must have different names; got "
                f"{quoted(list(map(str, twice)))} more than once. Rename or drop them."
            )
        self.n_rows = len(self.cells(self.keys[0]))
        if self.n_rows == 0:
            raise TableError(f"{name} must have at least one row; it has none.")

    def __len__(self) -> int:
        return self.n_rows

    def cells(self, key: str) -> Any:
        """Return a column as it is, as an array or as codes."""
        if key not in self.keys:
            raise TableError(
                f"{self.name} must have the column {key!r}; it has "
                f"{quoted([str(key) for key in self.keys])}. Rename a column, or name "
                "another: columns that are compared have the same name in both tables. In "
                "pandas, reset_index turns the index into columns."
            )
        cells = as_array(self._table[key])
        if hasattr(self, "n_rows") and cells.shape != (self.n_rows,):
            raise TableError(
                f"the columns of {self.name} must be lists of equal length; {key!r} has "
                f"shape {cells.shape}, {self.keys[0]!r} has {self.n_rows} rows."
            )
        return cells

    def values(self, key: str) -> np.ndarray:
        """Return a column as an array."""
        cells = self.cells(key)
        if isinstance(cells, Coded):
            return np.array(cells.values, dtype=object)[cells.codes]
        return cells

    def text(self, key: str) -> list[str]:
        """Return a column as text without case and outer spaces; "" for empty cells."""
        cells = self.cells(key)
        if isinstance(cells, Coded):
            words = [_text(value) for value in cells.values]
            return [words[code] for code in cells.codes.tolist()]
        if cells.dtype.kind == "M":
            days = np.datetime_as_string(cells, unit="auto")
            return np.where(np.isnat(cells), "", days).tolist()
        return [_text(cell) for cell in cells.tolist()]

    def numbers(self, key: str) -> FloatArray:
        """Return a column as numbers; NaN for empty cells."""
        cells = self.cells(key)
        values, is_text = parse_numbers(cells)
        if is_text.any():
            row = int(np.argmax(is_text))
            raise TableError(
                f"column {key!r} of {self.name} must hold numbers to be compared by their "
                f"difference; row {row} (counted from 0) has {str(cells[row])!r}. Correct "
                "it, or compare the column as text."
            )
        return values

    def days(self, key: str) -> FloatArray:
        """Return a column of dates as days since 1970; NaN for empty cells."""
        cells = self.cells(key)
        if not isinstance(cells, Coded) and cells.dtype.kind == "M":
            days = cells.astype("datetime64[D]")
            return np.where(np.isnat(days), np.nan, days.astype(np.int64).astype(float))
        days = np.full(self.n_rows, np.nan)
        for row, word in enumerate(self.text(key)):
            if word in MISSING_WORDS:
                continue
            try:
                if not _DAY.match(word):
                    raise ValueError
                days[row] = np.datetime64(word[:10]).astype(np.int64)
            except ValueError:
                raise TableError(
                    f"column {key!r} of {self.name} must hold dates, as such or written "
                    f"year-month-day (2024-03-31); row {row} (counted from 0) has "
                    f"{word!r}. Convert it, for instance by pandas.to_datetime."
                ) from None
        return days

    def ids(self, key: str | None) -> np.ndarray:
        """Return the ids of the records: row numbers, or a column without duplicates."""
        if key is None:
            return np.arange(self.n_rows)
        ids = self.values(key)
        found = ids.tolist()
        for row, value in enumerate(found):
            if is_empty(value):
                raise TableError(
                    f"every record needs an id; column {key!r} of {self.name} is empty in "
                    f"row {row} (counted from 0). Fill it in, or drop the row."
                )
        value, count = Counter(found).most_common(1)[0]
        if count > 1:
            raise TableError(
                f"ids must be different; column {key!r} of {self.name} has {value!r} "
                f"{count} times. Drop the duplicates, or leave out id= to use row numbers."
            )
        return ids


def find_rows(pairs: Records, key: str, records: Records, id: str | None) -> IntArray:
    """Return the row of the record that each pair names in column `key`."""
    row_of = {value: row for row, value in enumerate(records.ids(id).tolist())}
    wanted = pairs.values(key).tolist()
    rows = [row_of.get(value) for value in wanted]
    if None in rows:
        place = rows.index(None)
        ids = "the row numbers" if id is None else f"column {id!r}"
        raise TableError(
            f"column {key!r} of {pairs.name} must hold ids of {records.name}; row {place} "
            f"(counted from 0) has {wanted[place]!r}, which is not in {ids} of "
            f"{records.name}. Name the columns by id=, left= and right=."
        )
    return np.array(rows, dtype=np.intp)


def table_like(table: Any, columns: dict[str, Any]) -> Any:
    """Return a pandas or Polars frame where `table` is one, else the mapping."""
    if type(table).__module__.partition(".")[0] in ("pandas", "polars"):
        return type(table)(columns)
    return columns


def as_names(columns: Any, option: str) -> list[str]:
    """Return one or several names of columns as a list."""
    names = [columns] if isinstance(columns, str) else columns
    if not isinstance(names, Sequence) or not all(isinstance(key, str) for key in names):
        raise TableError(
            f"{option} must be the name of a column or a list of names; got {columns!r}."
        )
    return list(names)


def _text(cell: Any) -> str:
    if is_empty(cell):
        return ""
    # A column of whole numbers with an empty cell comes as floats.
    is_whole = isinstance(cell, float) and cell.is_integer()
    return str(int(cell) if is_whole else cell).strip().casefold()
