"""Tables of judged documents: which columns are grades, query ids, weights and features.

A table is a data frame in memory (pandas, Polars, Arrow), a Dask DataFrame, or Parquet.
The roles of its columns are named; the features are those named, or all other columns that
hold numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from permatch._cells import (
    as_array,
    column_keys,
    is_index_column,
    parse_numbers,
    quoted,
)
from permatch._optional import require
from permatch._types import FloatArray
from permatch.errors import (
    DocumentTypeError,
    InvalidOptionError,
    InvalidQueriesError,
    TableError,
)

#: What a column may be besides a feature.
ROLES = ("y", "qid", "sample_weight")


@dataclass(frozen=True)
class Roles:
    """The columns of a table by name; `features` None: all other numeric ones.

    `aside` are columns that are no features even where their role is taken by something
    else.  Row numbers that data frames write are features only if they are named.
    """

    y: Any = None
    qid: Any = None
    sample_weight: Any = None
    features: Sequence[str] | None = None
    aside: tuple[str, ...] = ()

    def named(self) -> "Roles":
        """Return the roles that are given by name."""
        others = [role for role in ROLES if not isinstance(getattr(self, role), str)]
        return replace(self, **dict.fromkeys(others))

    @property
    def taken(self) -> tuple[Any, ...]:
        """The columns that are no features, where all roles are given by name."""
        named = (getattr(self, role) for role in ROLES)
        return (*self.aside, *(name for name in named if name is not None))

    def check(self, wanted: tuple[str, ...], what: str) -> None:
        """Refuse roles that are no names of columns; those in `wanted` must be given."""
        for role in ROLES:
            name = getattr(self, role)
            if name is None and role not in wanted:
                continue
            if not isinstance(name, str):
                got = "nothing" if name is None else type(name).__name__
                raise InvalidQueriesError(
                    f"for {what}, {role} must be the name of a column; got {got}. Pass "
                    'it such as y="grade", qid="query".'
                )

    def columns(self, numeric: dict[Any, bool], place: str) -> list[Any]:
        """Return the features of a table, whose columns are numeric or not."""
        features = self.features
        if features is None:
            features = [
                name
                for name, is_in in numeric.items()
                if is_in and name not in self.taken and not is_index_column(name)
            ]
        others = [name for name in self.taken if name not in self.aside]
        missing = [name for name in (*features, *others) if name not in numeric]
        if missing or not features:
            lack = f"it lacks {quoted(missing)}" if missing else "none is numeric"
            raise InvalidQueriesError(
                f"{place} must have the columns of grades, queries and features; {lack}. "
                f"It has {quoted(list(numeric))}. Check the names; parts of a table must "
                "all have the same."
            )
        for name in features:
            if not numeric[name]:
                raise not_a_number(name, place)
        return list(features)


def not_a_number(name: Any, place: str) -> DocumentTypeError:
    """Return the error of a column with something else than numbers."""
    return DocumentTypeError(
        f"{place}: features must be real numbers; column {name!r} is not. Encode text and "
        "categories as numbers, for instance by permatch.FeaturePreparation(categories="
        "[...]), or leave it out of feature_names."
    )


def is_table(X: Any) -> bool:
    """Tell whether data are a data frame or an Arrow table, in memory."""
    return hasattr(X, "columns")


def column_names(X: Any) -> list[str] | None:
    """Return the names of the columns of a table; None of anything else."""
    if not is_table(X):
        return None
    names = column_keys(X)
    return names if all(isinstance(name, str) for name in names) else None


def is_numeric(table: Any) -> dict[Any, bool]:
    """Tell which columns of a table, or of an Arrow schema, hold numbers, by name."""
    if type(table).__module__.startswith("pyarrow."):
        types = require("pyarrow", "tables").types
        return {
            field.name: types.is_integer(field.type)
            or types.is_floating(field.type)
            or types.is_boolean(field.type)
            for field in getattr(table, "schema", table)
        }
    if type(table).__module__.startswith("polars."):
        return {
            name: kind.is_numeric() or str(kind) == "Boolean"
            for name, kind in table.schema.items()
        }
    types = require("pandas.api.types", "tables")
    if hasattr(table, "divisions"):
        for name in table.columns:
            if not isinstance(name, str):
                raise TableError(
                    f"the columns of a Dask DataFrame must have names that are text; got "
                    f"{name!r}. Rename them, such as ddf.rename(columns=str)."
                )
    else:  # objects may all be numbers
        table = table.infer_objects()
    return {name: types.is_numeric_dtype(kind) for name, kind in table.dtypes.items()}


def take_column(table: Any, name: Any, place: str = "X") -> np.ndarray:
    """Return a column of a table in memory."""
    keys = column_keys(table)
    if name not in keys:
        raise InvalidQueriesError(
            f"{place} must have a column {name!r}; it has {quoted(keys)}. Check the name."
        )
    cells = as_array(table[name])
    return cells if isinstance(cells, np.ndarray) else np.array(cells.values)[cells.codes]


def take_features(table: Any, names: list[Any], place: str = "X") -> np.ndarray:
    """Return columns of a table in memory as an array (n, d) of numbers."""
    keys = column_keys(table)
    if missing := [name for name in names if name not in keys]:
        raise InvalidQueriesError(
            f"{place} must have the columns of the training data; it lacks "
            f"{quoted(missing)}. It has {quoted(keys)}. Add or rename them; their order "
            "does not matter, and others are ignored."
        )
    if not type(table).__module__.startswith("pyarrow."):
        values = np.asarray(table if names == keys else table[names])
        if values.dtype.kind in "fiub":
            return values
    return np.column_stack([_numbers(table[name], name, place) for name in names])


def _numbers(column: Any, name: Any, place: str) -> FloatArray:
    values, is_text = parse_numbers(as_array(column))
    if is_text.any():
        raise not_a_number(name, place)
    return values


def take_roles(X: Any, roles: Roles, place: str = "X") -> list[Any]:
    """Return grades, query ids and weights as they are given, or from their columns."""
    found = []
    for role in ROLES:
        given = getattr(roles, role)
        if isinstance(given, str):
            if not is_table(X):
                raise InvalidQueriesError(
                    f"{role}={given!r} names a column, so {place} must be a table with "
                    f"named columns; got {type(X).__name__}. Pass a DataFrame, or {role} "
                    "as one value per document."
                )
            given = take_column(X, given, place)
        found.append(given)
    return found


def check_feature_names(names: Sequence[str] | None, n_features: int) -> list[str] | None:
    """Return one distinct name per feature, or None."""
    if names is None:
        return None
    try:
        found = [names] if isinstance(names, str) else list(names)
    except TypeError as err:
        raise InvalidOptionError(
            f"feature_names must be a sequence of strings; got {names!r}."
        ) from err
    if not all(isinstance(name, str) for name in found):
        raise InvalidOptionError(f"feature_names must be strings; got {found!r}.")
    if len(found) != n_features or len(set(found)) != n_features:
        raise InvalidOptionError(
            f"feature_names must be {n_features} different strings, one per feature; got "
            f"{len(found)}, {len(set(found))} of them different."
        )
    return [str(name) for name in found]
