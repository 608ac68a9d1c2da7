"""Data frames and arrays of documents alike: columns by name or by position."""

from collections import Counter
from numbers import Number
from typing import Any

import numpy as np
from scipy import sparse

from permatch._cells import as_array, column_keys, in_memory, is_empty, quoted
from permatch._optional import require
from permatch._tables import is_numeric, is_table
from permatch._validation import refuse_masked
from permatch.distributed import is_in_parts
from permatch.errors import DocumentTypeError, InvalidOptionError, InvalidQueriesError


class Table:
    """A data frame or an array: its columns by name or position."""

    def __init__(self, X: Any) -> None:
        if is_in_parts(X):
            raise InvalidOptionError(
                "FeaturePreparation works on a table in memory; got data in parts "
                f"({type(X).__name__}). Fit it on a sample in memory, and transform parts "
                "one by one, such as ddf.map_partitions(preparation.transform)."
            )
        if sparse.issparse(X):
            raise DocumentTypeError(
                "FeaturePreparation needs a data frame or a dense array; got a sparse "
                "matrix. Use X.toarray(), or a data frame."
            )
        refuse_masked(X, "X", DocumentTypeError)
        self._frame: Any = in_memory(X)
        self.names: list[str] | None = None
        self.keys: list[Any]
        self.labels: list[str]
        if is_table(self._frame):
            self.keys = self.names = self.labels = self._read_names()
            self.n_rows = len(self._frame)
            self._numeric = is_numeric(self._frame)
            return
        array = np.asarray(self._frame)
        if array.ndim != 2:
            raise InvalidQueriesError(
                "X must be a data frame, or an array of shape (n, d); got shape "
                f"{array.shape}."
            )
        self._frame, self.n_rows = array, len(array)
        self.keys = list(range(array.shape[1]))
        self.labels = [f"x{key}" for key in self.keys]

    def _read_names(self) -> list[Any]:
        keys = column_keys(self._frame)
        if odd := [key for key in keys if not isinstance(key, str)]:
            raise InvalidQueriesError(
                f"the columns of X must have names that are text; got {odd[0]!r}. Rename "
                "them, such as X.rename(columns=str)."
            )
        if twice := [key for key, count in Counter(keys).items() if count > 1]:
            raise InvalidQueriesError(
                f"the columns of X must have different names; got {quoted(twice)} more "
                "than once. Rename or drop them."
            )
        return keys

    def is_number(self, key: Any) -> bool:
        """Tell whether a column holds numbers; all of an array must."""
        if self.names is None or self._numeric[key]:
            return True
        cells = self.cells(key)  # numbers beside None may be kept as objects
        if not isinstance(cells, np.ndarray) or cells.dtype != object:
            return False
        found = [cell for cell in cells.tolist() if not is_empty(cell)]
        return bool(found) and all(isinstance(cell, Number) for cell in found)

    def column(self, key: Any) -> Any:
        """Return a column as it is."""
        return self._frame[:, key] if self.names is None else self._frame[key]

    def cells(self, key: Any) -> Any:
        """Return a column as an array, or as codes."""
        return as_array(self.column(key))

    def like(self, columns: dict[str, Any]) -> Any:
        """Return columns as a table of the same kind."""
        if self.names is None:
            kind = np.float32 if self._frame.dtype == np.float32 else np.float64
            if not columns:
                return np.zeros((self.n_rows, 0), dtype=kind)
            try:
                return np.column_stack(list(columns.values())).astype(kind, copy=False)
            except ValueError as err:
                raise DocumentTypeError(
                    f"all columns of an array must hold numbers, those in keep= too ({err})"
                    ". Pass a data frame."
                ) from err
        frame = self._frame
        library = type(frame).__module__.partition(".")[0]
        if library == "pyarrow":
            return require("pyarrow", "tables").table(columns)
        if library == "polars":
            return type(frame)(columns)
        frames = require("pandas", "tables")
        return frames.DataFrame(columns, index=frame.index, copy=False)


def as_keys(value: Any, option: str, table: Table) -> list[Any]:
    """Return the columns that an option names."""
    is_array = table.names is None
    kinds, what = ((int, np.integer), "positions") if is_array else ((str,), "names")
    try:
        keys = [value] if isinstance(value, str | int) else list(value)
    except TypeError:
        keys = [None]
    if not all(isinstance(key, kinds) and not isinstance(key, bool) for key in keys):
        raise InvalidOptionError(
            f"{option} must be a list of {what} of columns; got {value!r}."
        )
    if unknown := [key for key in keys if key not in table.keys]:
        raise InvalidOptionError(
            f"{option} must name columns of X; it lacks {quoted(unknown)}. It has "
            f"{quoted(table.keys)}."
        )
    return keys
