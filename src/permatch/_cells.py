"""The cells of tables: columns of any data frame as arrays, and what counts as empty."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from permatch._optional import require
from permatch._types import BoolArray, FloatArray, IntArray

#: How an empty cell may be written, in any case.
MISSING_WORDS = ("", "na", "n/a", "nan", "none", "null", "<na>", "nat")
TRUTHS = {"true": 1.0, "false": 0.0}
# Row numbers that data frames write beside the data, never meant as a feature.
_INDEX_COLUMN = re.compile(r"|Unnamed: \d+|__index_level_\d+__")


@dataclass(frozen=True, eq=False)
class Coded:
    """A column of text as codes and what they stand for."""

    codes: IntArray
    values: list[Any]

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def shape(self) -> tuple[int]:
        """That of the column."""
        return self.codes.shape

    @property
    def ndim(self) -> int:
        """1."""
        return self.codes.ndim

    def __getitem__(self, row: int) -> Any:
        """Return a cell."""
        return self.values[self.codes[row]]


def in_memory(table: Any) -> Any:
    """Return a LazyFrame of Polars as a frame, anything else as it is."""
    is_lazy = type(table).__module__.startswith("polars.") and hasattr(table, "collect")
    return table.collect() if is_lazy else table


def column_keys(frame: Any) -> list[Any]:
    """Return the names of the columns of a mapping or of anything like a data frame."""
    if isinstance(frame, Mapping):
        return list(frame)
    if hasattr(frame, "column_names"):  # Arrow's, with arrays under `columns`
        return list(frame.column_names)
    return list(frame.columns)


def is_index_column(name: Any) -> bool:
    """Return whether a column holds row numbers that a data frame wrote beside the data.

    Examples
    --------
    >>> is_index_column("__index_level_0__"), is_index_column("years_apart")
    (True, False)
    """
    return isinstance(name, str) and _INDEX_COLUMN.fullmatch(name) is not None


def as_array(column: Any) -> Any:
    """Return a column of a data frame, or a list, as an array; text as codes."""
    if type(column).__module__.startswith("pyarrow."):
        return from_arrow(column)
    if type(column).__module__.startswith("pandas.") and column.dtype == object:
        coded = _from_objects(column)
        if coded is not None:
            return coded
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


def _from_objects(column: Any) -> Coded | None:
    """Return a column of pandas as codes, if all of it is text; a dict would be slower."""
    try:
        codes, values = column.factorize()
    except TypeError:  # lists in the cells
        return None
    values = values.tolist()
    is_text = bool(len(codes)) and codes.min() >= 0 and set(map(type, values)) == {str}
    return Coded(codes.astype(np.intp), values) if is_text else None


def from_arrow(column: Any) -> Any:
    """Return a column of an Arrow table as an array; text as codes."""
    arrow = require("pyarrow", "tables")
    if isinstance(column, arrow.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, arrow.ChunkedArray):  # more text than one array can hold
        return column.to_numpy()
    if arrow.types.is_dictionary(column.type):
        column = column.dictionary_decode()  # its codes need not be in order
    kind = column.type
    is_text = arrow.types.is_string(kind) or arrow.types.is_large_string(kind)
    if not is_text or column.null_count:
        return column.to_numpy(zero_copy_only=False)
    column = column.dictionary_encode()
    return Coded(column.indices.to_numpy().astype(np.intp), column.dictionary.to_pylist())


def numbered(column: Any) -> tuple[IntArray, int]:
    """Return a number per cell, in order of first appearance, and how many there are."""
    cells = as_array(column)
    values = cells.values if isinstance(cells, Coded) else cells.tolist()
    numbers: dict[Any, int] = {}
    codes = np.array([numbers.setdefault(x, len(numbers)) for x in values], dtype=np.intp)
    return codes[cells.codes] if isinstance(cells, Coded) else codes, len(numbers)


def parse_numbers(cells: Any) -> tuple[FloatArray, BoolArray]:
    """Return cells as numbers, NaN where they are not, and which of those are text."""
    if isinstance(cells, Coded):
        values, is_text = parse_numbers(cells.values)
        return values[cells.codes], np.resize(is_text, len(values))[cells.codes]
    if isinstance(cells, np.ndarray):
        if cells.dtype.kind in "fiub":
            with np.errstate(over="ignore"):  # infinite features are refused later
                return cells.astype(np.float64), np.zeros(1, dtype=bool)
        if cells.dtype.kind in "mMcV":
            return np.full(len(cells), np.nan), np.ones(len(cells), dtype=bool)
        cells = cells.tolist()
    try:
        return np.fromiter(map(float, cells), float, len(cells)), np.zeros(1, dtype=bool)
    except (TypeError, ValueError, OverflowError):  # something empty, or text
        numbers = [_number(cell) for cell in cells]
        is_text = np.array([number is None for number in numbers])
        return np.array(numbers, dtype=np.float64), is_text


def _number(cell: Any) -> float | None:
    """Return one cell as a number, NaN if it is empty, None if it is text."""
    if is_empty(cell):
        return np.nan
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        word = str(cell).strip().lower()
        return np.nan if word in MISSING_WORDS else TRUTHS.get(word)


def is_empty(cell: Any) -> bool:
    """Tell whether a cell holds nothing, in any of the ways that libraries write it."""
    if cell is None or type(cell).__name__ in {"NAType", "NaTType"}:
        return True
    if isinstance(cell, str):
        return not cell.strip()
    return isinstance(cell, float) and cell != cell


def quoted(names: Sequence[Any], most: int = 12) -> str:
    """List names for a message, at most the first few."""
    more = [f"{len(names) - most} more"] if len(names) > most else []
    return ", ".join([*map(repr, names[:most]), *more])
