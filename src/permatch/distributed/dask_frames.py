"""Folders of tables, read by the workers of a cluster."""

import os
from typing import Any

from permatch._optional import require
from permatch.distributed.sources import list_files
from permatch.errors import TableError


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
