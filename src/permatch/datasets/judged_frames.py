"""Tables of judged documents with all their columns, text too, as data frames."""

import io
import os
from pathlib import Path
from typing import Any

import numpy as np

from permatch._files import Gauge
from permatch._optional import require
from permatch._tables import take_column
from permatch.datasets.judged import check_total, sizes_of
from permatch.datasets.judged_tables import JudgedColumns
from permatch.datasets.letor_rows import damage_reported, open_bytes
from permatch.datasets.ranking_data import RankingData, as_ids, query_ids
from permatch.datasets.table_text import DELIMITERS
from permatch.errors import PermatchError, TableError
from permatch.queries import check_grades, check_ids


def read_frame(source: str | os.PathLike[str], columns: JudgedColumns) -> RankingData:
    """Read a CSV or Parquet file, with a pandas DataFrame of all columns as features."""
    name = str(source)
    frame = _read_frame(source, columns)
    header = [str(key) for key in frame.columns]
    sizes = sizes_of(source, "table")
    has_ids = sizes is None or columns.qid in header
    columns.check(header if has_ids else [*header, columns.qid], name)
    n = len(frame)
    y = np.zeros(n, dtype=np.intp)
    try:
        if "grade" in columns.wanted:
            y = check_grades(take_column(frame, columns.grade), n)
        if sizes is None or columns.qid in header:
            qid = as_ids(check_ids(take_column(frame, columns.qid), n))
        else:
            qid = query_ids(sizes)
            check_total(sizes, n, name)
    except PermatchError as err:
        raise type(err)(f"{name}: {err}") from err
    names = None
    if columns.document is not None:
        names = take_column(frame, columns.document).astype(str)
    return RankingData(frame, y, qid, names, Path(name))


def _read_frame(source: str | os.PathLike[str], columns: JudgedColumns) -> Any:
    name = str(source)
    pandas = require("pandas", "tables", what="a pipeline on a table")
    with open_bytes(source) as (file, _), damage_reported(name):
        data = Gauge(name, TableError).whole(file)
    try:
        if data[:4] == b"PAR1":
            return pandas.read_parquet(io.BytesIO(data))
        header = data.splitlines()[0]
        delimiter = max(DELIMITERS, key=lambda mark: header.count(mark.encode()))
        ids = dict.fromkeys(filter(None, (columns.qid, columns.document)), str)
        return pandas.read_csv(
            io.BytesIO(data), sep=delimiter, encoding="utf-8-sig", dtype=ids
        )
    except (ValueError, OSError) as err:
        raise TableError(
            f"{name} must be a complete CSV or Parquet file; pandas says: "
            f"{str(err).strip().rstrip('.')}. Correct it, or write it again."
        ) from err
