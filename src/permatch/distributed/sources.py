"""Folders of Parquet or SVMlight files and Arrow datasets, as streams of rows.

A table has the grades, the query ids and perhaps the weights in columns that are named;
the features are its other numeric columns, or those named.  An SVMlight (LETOR) file says
itself what is what.
"""

import errno
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from permatch._optional import require
from permatch._tables import Roles, is_numeric
from permatch.datasets.letor import iterate_letor
from permatch.datasets.letor_rows import read_blocks
from permatch.distributed.rows import Given, Rows, check_rows
from permatch.errors import TableError

# Bytes of features that are decoded at a time.
_BATCH_BYTES = 1 << 23

#: Rows, and where they come from.
Placed = tuple[Rows, str]


def table_columns(schema: Any, roles: Roles, place: str) -> list[str]:
    """Return the features of an Arrow table."""
    return roles.columns(is_numeric(schema), place)


def list_files(
    path: str | os.PathLike[str], kinds: str = "Parquet or SVMlight files"
) -> tuple[list[Path], bool]:
    """Return the data files of a folder in natural order, and whether they are Parquet.

    A folder with Parquet files, also in folders below, has these; any other has SVMlight
    files.  Names that begin with a dot or underscore are left out.  `kinds` are those that
    are read, for a folder without any.
    """
    root = Path(path)
    if not root.exists():
        raise FileNotFoundError(errno.ENOENT, "there is nothing of this name", str(root))
    found = [root] if root.is_file() else sorted(root.rglob("*"), key=_natural)
    files = [
        file
        for file in found
        if file.is_file()
        and not any(part[0] in "._" for part in file.relative_to(root.parent).parts[1:])
    ]
    parquet = [file for file in files if file.suffix in (".parquet", ".pq")]
    if not files:
        raise TableError(f"{root} must hold {kinds}; it holds none. Check the path.")
    return (parquet, True) if parquet else (files, False)


def list_parquet(path: str | os.PathLike[str], wanted: str, advice: str) -> list[Path]:
    """Return the Parquet files of a folder; `wanted` and `advice` are for other files."""
    files, is_parquet = list_files(path, "Parquet files")
    if not is_parquet:
        held = "is a file" if Path(path).is_file() else f"holds {files[0].name}"
        raise TableError(f"{path} must be {wanted}; it {held}. {advice}")
    return files


def _natural(path: Path) -> list[Any]:
    """Return a key by which part.2 comes before part.10."""
    words = re.split(r"(\d+)", str(path))
    return [int(word) if word.isdecimal() else word for word in words]


def read_files(files: Sequence[Path], roles: Roles) -> Iterator[Placed]:
    """Yield the rows of Parquet files."""
    for file in files:
        yield from read_parquet(file, roles)


def read_parquet(file: Path, roles: Roles) -> Iterator[Placed]:
    """Yield the rows of a Parquet file, some at a time."""
    with _open_parquet(file) as opened:
        features = table_columns(opened.schema_arrow, roles, str(file))
        batches = opened.iter_batches(
            batch_rows(len(features)), columns=_used(features, roles)
        )
        yield from _check_batches(batches, features, roles, str(file))


def read_schema(file: Path) -> Any:
    """Return the columns of a Parquet file, as Arrow has them."""
    with _open_parquet(file) as opened:
        return opened.schema_arrow


@contextmanager
def _open_parquet(file: Path) -> Iterator[Any]:
    parquet = require("pyarrow.parquet", "tables", what="reading Parquet")
    arrow = require("pyarrow", "tables")
    try:
        with parquet.ParquetFile(file, memory_map=True) as opened:
            yield opened
    except (arrow.ArrowException, OSError) as err:
        raise TableError(
            f"{file} must be a complete Parquet file; pyarrow says: "
            f"{str(err).rstrip('. ')}. Write or fetch it again."
        ) from err


def open_files(files: Sequence[Path]) -> Any:
    """Return Parquet files as one Arrow dataset, with numbers of a type that holds all.

    Arrow would take the types of the first file, and make whole numbers of the others true
    or false, and round double precision to single.
    """
    schemas = [read_schema(file) for file in files]
    whole = schemas[0]
    kinds = dict.fromkeys(schema.remove_metadata() for schema in schemas)
    numbers = [is_numeric(schema) for schema in kinds]
    for k, name in enumerate(whole.names if len(kinds) > 1 else ()):
        own = [schema.field(name).type for schema in kinds if name in schema.names]
        if len(set(own)) > 1 and all(found.get(name, True) for found in numbers):
            widest = np.result_type(*(kind.to_pandas_dtype() for kind in own))
            kind = require("pyarrow", "tables").from_numpy_dtype(widest)
            whole = whole.set(k, whole.field(k).with_type(kind))
    dataset = require("pyarrow.dataset", "tables").dataset
    return dataset([str(file) for file in files], schema=whole, format="parquet")


def read_dataset(dataset: Any, roles: Roles) -> Iterator[Placed]:
    """Yield the rows of an Arrow dataset."""
    place = "the Arrow dataset"
    features = table_columns(dataset.schema, roles, place)
    batches = dataset.to_batches(
        columns=_used(features, roles),
        batch_size=batch_rows(len(features)),
        batch_readahead=2,
        fragment_readahead=1,
    )
    yield from _check_batches(batches, features, roles, place)


def batch_rows(n_features: int) -> int:
    """Return how many rows are decoded at a time."""
    return max(1, _BATCH_BYTES // (8 * n_features))


def _used(features: list[str], roles: Roles) -> list[str]:
    others = (roles.y, roles.qid, roles.sample_weight)
    return features + [name for name in others if name is not None]


def _check_batches(
    batches: Any, features: list[str], roles: Roles, place: str
) -> Iterator[Placed]:
    n_before = 0
    for batch in batches:
        given = given_of_batch(batch, features, roles)
        yield check_rows(given, place, first_row=n_before), place
        n_before += batch.num_rows


def given_of_batch(batch: Any, features: list[str], roles: Roles) -> Given:
    """Return the rows of an Arrow batch or table."""

    def column(name: str) -> np.ndarray:
        found = batch.column(name)
        if hasattr(found, "dictionary_decode"):
            found = found.dictionary_decode()
        kind = {} if hasattr(found, "chunks") else {"zero_copy_only": False}
        return found.to_numpy(**kind)

    kinds = [batch.schema.field(name).type.to_pandas_dtype() for name in features]
    kind = np.result_type(*kinds)
    # As in memory: single precision stays, all else becomes double.
    dtype = kind if kind in (np.float32, np.float64) else np.dtype(np.float64)
    X = np.empty((batch.num_rows, len(features)), dtype=dtype)
    for j, name in enumerate(features):
        X[:, j] = column(name)
    others = (roles.y, roles.qid, roles.sample_weight)
    return Given(X, *(None if name is None else column(name) for name in others))


def letor_width(file: Path) -> int:
    """Return the highest number of a feature in an SVMlight file."""
    return max(block.width for block in read_blocks(file, None, np.inf))


def read_letor_files(
    files: Sequence[Path], n_features: int | None = None
) -> Iterator[Placed]:
    """Yield the rows of SVMlight files, some at a time."""
    if n_features is None:
        n_features = max(map(letor_width, files))
    for file in files:
        for data in iterate_letor(
            file, batch_rows(max(n_features, 1)), n_features=n_features
        ):
            # Text, since whether all ids are numbers may differ between blocks.
            given = Given(data.X, data.y, data.qid.astype(str))
            yield check_rows(given, str(file)), str(file)
