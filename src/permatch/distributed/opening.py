"""Judged lists, wherever they are, as shards of whole queries."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from permatch._shards import Shards
from permatch._tables import ROLES, Roles, is_table
from permatch.distributed.disk import SHARD_BYTES, store_queries
from permatch.distributed.rows import Contiguity, Prepare, Rows, whole_queries
from permatch.distributed.sources import (
    Placed,
    list_files,
    read_dataset,
    read_files,
    read_letor_files,
    read_schema,
    table_columns,
)
from permatch.errors import InvalidQueriesError


@dataclass(frozen=True, eq=False)
class Opened:
    """Training data as shards of `QuerySet`, and the names of their columns, if any."""

    shards: Shards
    n_features: int
    columns: list[str] | None = None


def is_in_parts(X: Any) -> bool:
    """Tell whether data are given in parts rather than as one array or table in memory."""
    return is_on_disk(X) or is_dask(X)


def is_on_disk(X: Any) -> bool:
    """Tell whether data are a path or an Arrow dataset."""
    return isinstance(X, str | os.PathLike) or type(X).__module__ == "pyarrow._dataset"


def is_dask(X: Any) -> bool:
    """Tell whether data are a Dask collection, or a list of delayed parts."""
    if isinstance(X, list | tuple):
        return bool(X) and all(hasattr(part, "__dask_graph__") for part in X)
    return hasattr(X, "__dask_graph__")


def has_columns(X: Any) -> bool:
    """Tell whether data, in memory or in parts, have columns with names."""
    if is_on_disk(X):
        return not isinstance(X, str | os.PathLike) or list_files(X)[1]
    return is_table(X)


def open_queries(
    X: Any, roles: Roles, group: Any = None, prepare: Prepare | None = None
) -> Opened:
    """Return judged lists in parts as shards of checked, prepared queries."""
    if group is not None:
        raise InvalidQueriesError(
            "data in parts must have their queries given by qid, which does not depend on "
            "how they are parted; got group. Add a column of query ids."
        )
    if is_dask(X):
        from permatch.distributed.dask_rows import open_collection

        return Opened(*open_collection(X, roles, prepare))
    stream = Stream(X, roles)
    shards, n_features = store_queries(stream.blocks(), prepare)
    return Opened(shards, n_features, stream.columns)


class Stream:
    """Rows of a folder or an Arrow dataset, in blocks of whole queries.

    `n_features` is that of a model, None: as many as there are.  `wanted` are the roles
    that tables must have.
    """

    def __init__(
        self,
        source: Any,
        roles: Roles,
        n_features: int | None = None,
        wanted: tuple[str, ...] = ("y", "qid"),
    ) -> None:
        self.columns: list[str] | None = None
        self._rows: Iterator[Placed]
        if not isinstance(source, str | os.PathLike):
            roles.check(wanted, "an Arrow dataset")
            self.columns = table_columns(source.schema, roles, "the Arrow dataset")
            self._rows = read_dataset(source, self._settled(roles))
            return
        files, is_parquet = list_files(source)
        if is_parquet:
            roles.check(wanted, "Parquet files")
            self.columns = table_columns(read_schema(files[0]), roles, str(files[0]))
            self._rows = read_files(files, self._settled(roles))
            return
        for role in ROLES:
            if getattr(roles, role) is not None:
                raise InvalidQueriesError(
                    f"SVMlight files say themselves which are the grades and queries; got "
                    f"{role}={getattr(roles, role)!r}. Leave it out, or check that "
                    f"{source} should not hold Parquet files."
                )
        if roles.features is not None and n_features is None:
            n_features = len(roles.features)
        self._rows = read_letor_files(files, n_features)

    def _settled(self, roles: Roles) -> Roles:
        return replace(roles, features=self.columns)

    def rows(self) -> Iterator[Rows]:
        """Yield the rows as they come."""
        return (rows for rows, _ in self._rows)

    def blocks(self) -> Iterator[Rows]:
        """Yield blocks of whole queries."""
        contiguity = Contiguity()
        first = next(self._rows, None)
        if first is None:
            return
        row_bytes = first[0].documents.itemsize * first[0].documents.shape[1]

        def checked() -> Iterator[Rows]:
            for rows, place in chain([first], self._rows):
                contiguity.check(rows, place)
                yield rows

        yield from whole_queries(checked(), max(1, SHARD_BYTES // row_bytes))
