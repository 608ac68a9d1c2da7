"""Dask collections that are tables, and folders of tables read by workers."""

import os
from typing import Any

from permatch._optional import require
from permatch.distributed.sources import list_parquet
from permatch.errors import InvalidOptionError


def read_frame(folder: str | os.PathLike[str]) -> Any:
    """Return a folder of Parquet files, which all workers see, as a Dask DataFrame."""
    wanted = "a folder of Parquet files"
    files = list_parquet(folder, wanted, "Convert the table to Parquet.")
    frames = require("dask.dataframe", "dask", what="computing on a cluster")
    return frames.read_parquet([str(file.absolute()) for file in files])


def refuse_one_delayed(X: Any, part: str) -> None:
    """Refuse a delayed object that is not in a list."""
    if isinstance(X, require("dask.delayed", "dask").Delayed):
        raise InvalidOptionError(
            f"delayed parts must be a list, each a tuple {part}; got a single delayed "
            "object. Put it into a list: fit([part])."
        )
