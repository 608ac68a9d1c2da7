"""Dask collections that are tables, and folders of tables read by workers."""

import os
from typing import Any

from permatch._optional import require
from permatch.distributed.sources import list_files
from permatch.errors import InvalidOptionError, TableError


def read_frame(folder: str | os.PathLike[str]) -> Any:
    """Return a folder of Parquet files, which all workers see, as a Dask DataFrame."""
    files, is_parquet = list_files(folder)
    if not is_parquet:
        raise TableError(
            f"{folder} must be a folder of Parquet files; it holds {files[0].name}. "
            "Convert the table to Parquet."
        )
    frames = require("dask.dataframe", "dask", what="computing on a cluster")
    return frames.read_parquet([str(file.absolute()) for file in files])


def refuse_one_delayed(X: Any, part: str) -> None:
    """Refuse a delayed object that is not in a list."""
    if isinstance(X, require("dask.delayed", "dask").Delayed):
        raise InvalidOptionError(
            f"delayed parts must be a list, each a tuple {part}; got a single delayed "
            "object. Put it into a list: fit([part])."
        )
