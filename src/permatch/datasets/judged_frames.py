"""Tables of judged documents with all their columns, text too, as data frames."""

import io
import os
from pathlib import Path
from typing import Any

import numpy as np

from permatch._cells import as_array
from permatch._files import Gauge
from permatch._optional import require
from permatch._tables import take_column
from permatch.datasets.columns import Block
from permatch.datasets.judged import check_total, sizes_of
from permatch.datasets.judged_tables import JudgedColumns, read_ids
from permatch.datasets.letor_rows import damage_reported, open_bytes
from permatch.datasets.ranking_data import RankingData, as_ids, query_ids
from permatch.datasets.table_text import DELIMITERS
from permatch.errors import PermatchError, TableError
from permatch.queries import check_grades


def read_frame(source: str | os.PathLike[str], columns: JudgedColumns) -> RankingData:
    """Read a CSV or Parquet file, with a pandas DataFrame of all columns as features."""
    name = str(source)
    frame = _read_frame(source, columns)
    header = [str(key) for key in frame.columns]
    sizes = sizes_of(source, "table")
    has_ids = sizes is None or columns.qid in header
    columns.check(header if has_ids else [*header, columns.qid], name)
    n = len(frame)
    if not n:
        raise TableError(
            f"{name} must have at least one document; it has a header only. Check that it "
            "was written completely."
        )
    ids = {columns.qid, columns.document}
    cells = [as_array(frame[key]) if str(key) in ids else () for key in frame.columns]
    rows = Block(name, header, cells)
    y = np.zeros(n, dtype=np.intp)
    try:
        if "grade" in columns.wanted:
            y = check_grades(take_column(frame, columns.grade), n)
        if sizes is None or columns.qid in header:
            qid = as_ids(read_ids(rows, header.index(columns.qid), is_needed=True))
        else:
            qid = query_ids(sizes)
            check_total(sizes, n, name)
    except PermatchError as err:
        raise type(err)(f"{name}: {err}") from err
    names = None
    if columns.document is not None:
        names = read_ids(rows, header.index(columns.document)).astype(str)
    return RankingData(frame, y, qid, names, Path(name))


def _read_frame(source: str | os.PathLike[str], columns: JudgedColumns) -> Any:
    name = str(source)
    pandas = require("pandas", "tables", what="a pipeline on a table")
    with open_bytes(source) as (file, _), damage_reported(name):
        data = Gauge(name, TableError).whole(file)
    if not data.strip():
        raise TableError(
            f"{name} must hold a table of judged documents; it is empty. Write a header "
            f"with the columns {', '.join(columns.required)}, then one line per row."
        )
    try:
        if data[:4] == b"PAR1":
            return pandas.read_parquet(io.BytesIO(data))
        header = data.splitlines()[0]
        delimiter = max(DELIMITERS, key=lambda mark: header.count(mark.encode()))
        how = {"sep": delimiter, "encoding": "utf-8-sig"}
        frame = pandas.read_csv(io.BytesIO(data), **how)
        # An id may be NA or null, which pandas takes for none.
        for key in {columns.qid, columns.document} & {*frame.columns}:
            kept = {"usecols": [key], "dtype": str, "na_filter": False}
            frame[key] = pandas.read_csv(io.BytesIO(data), **how, **kept)[key]
        return frame
    except (ValueError, OSError) as err:
        raise TableError(
            f"{name} must be a complete CSV or Parquet file; pandas says: "
            f"{str(err).strip().rstrip('.')}. Correct it, or write it again."
        ) from err
