"""What other linkers return, as something that the readers of tables take.

It may be:

splink           SplinkDataFrame, or what it becomes: unique_id_l, match_weight, ...
recordlinkage    a pandas Series or DataFrame whose MultiIndex holds the two ids
dedupe           a structured array with the fields ``pairs`` and ``score``
Arrow            anything with ``__arrow_c_stream__``

with the ids, and a probability, weight or score of every pair.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from permatch._cells import in_memory, quoted
from permatch._optional import require
from permatch.distributed.opening import is_on_disk
from permatch.distributed.sources import list_parquet, open_files
from permatch.errors import TableError

#: Names of the columns where a source has none.
LEFT, RIGHT, PROBABILITY = "left", "right", "probability"
# Packages whose frames the readers take without a copy.
_READ_AS_THEY_ARE = ("pandas", "polars", "pyarrow")
#: Where splink says which table a record is from.
SOURCES = ("source_dataset_l", "source_dataset_r")
#: What to do instead, in words.
OTHER_TOOLS = (
    "To group the duplicates of one table, or of three and more, use a clustering, such as "
    "splink's or dedupe's."
)


def as_table(source: Any) -> Any:
    """Return a path, an open file, a data frame or a mapping of columns."""
    if is_dataset(source):
        return as_dataset(source).to_table()
    if isinstance(source, Mapping | str | Path):
        return source
    if isinstance(source, np.ndarray):
        return _from_array(source)
    if hasattr(source, "as_pandas_dataframe"):  # splink's
        read = getattr(source, "as_pyarrow_table", source.as_pandas_dataframe)
        return read()
    if _is_pandas(source) and getattr(source.index, "nlevels", 1) > 1:
        return _from_index(source)
    package = type(source).__module__.partition(".")[0]
    if package in _READ_AS_THEY_ARE or not hasattr(source, "__arrow_c_stream__"):
        return in_memory(source)
    return require("pyarrow", "tables", what="reading an Arrow stream").table(source)


def is_dataset(source: Any) -> bool:
    """Return whether something is a folder, or an Arrow dataset."""
    if isinstance(source, str | Path):
        return Path(source).is_dir()
    return is_on_disk(source)


def as_dataset(source: Any) -> Any:
    """Return Parquet files, one or a folder of them, as an Arrow dataset."""
    if not isinstance(source, str | Path):
        return source
    require("pyarrow", "tables", what="reading a folder of Parquet files")
    wanted = "a Parquet file, or a folder of such files with the same columns"
    return open_files(list_parquet(source, wanted, "Convert the pairs to Parquet."))


def _is_pandas(source: Any) -> bool:
    return type(source).__module__.partition(".")[0] == "pandas" and hasattr(
        source, "index"
    )


def name_ids(
    source: Any, left: str | None, right: str | None
) -> tuple[str | None, str | None]:
    """Return the columns of the ids: those given, or the levels of a MultiIndex."""
    is_named = left is not None or right is not None
    if is_named or not _is_pandas(source) or getattr(source.index, "nlevels", 1) != 2:
        return left, right
    return _level_names(source.index)


def _level_names(index: Any) -> tuple[str, str]:
    one, other = (
        default if name is None else str(name)
        for name, default in zip(index.names, (LEFT, RIGHT), strict=True)
    )
    # Two tables may call their ids alike.
    return (LEFT, RIGHT) if one == other else (one, other)


def _from_index(source: Any) -> Mapping[str, Any]:
    """Return the levels of a MultiIndex and the columns beside it."""
    index = source.index
    if index.nlevels != 2:
        raise TableError(
            "the index of scored pairs must have two levels, the ids of the two records; "
            f"it has {index.nlevels}. Turn it into columns with reset_index and name them: "
            "left=, right=."
        )
    names = _level_names(index)
    table = {name: index.get_level_values(k) for k, name in enumerate(names)}
    if hasattr(source, "columns"):
        others = {str(key): source[key] for key in source.columns}
    else:
        others = {PROBABILITY if source.name is None else str(source.name): source}
    if taken := [name for name in names if name in others]:
        raise TableError(
            "the levels of the index of scored pairs, which hold the ids, must be called "
            f"unlike the columns; {quoted(taken)} is both. Rename one, or turn the index "
            "into columns with reset_index."
        )
    return table | others


def _from_array(source: np.ndarray) -> Mapping[str, Any]:
    """Return the columns of a structured array."""
    fields = source.dtype.names
    if fields is None or source.ndim != 1:
        raise TableError(
            "an array of scored pairs must be structured and have one dimension, as "
            f"dedupe's with the fields 'pairs' and 'score'; got {source.dtype} of shape "
            f"{source.shape}. Pass a mapping of columns instead."
        )
    if {"pairs", "score"} <= set(fields) and source["pairs"].shape[1:] == (2,):
        pairs = source["pairs"]
        scores = np.asarray(source["score"])
        return {LEFT: pairs[:, 0], RIGHT: pairs[:, 1], PROBABILITY: scores}
    return {name: np.asarray(source[name]) for name in fields}


def check_sources(others: Mapping[str, Collection[Any]]) -> None:
    """Refuse pairs from other than two sources, where splink names them."""
    if not others:
        return
    one, other = (set(others[name]) for name in SOURCES)
    every = sorted(map(str, one | other))
    if len(every) > 2:
        raise TableError(
            f"link takes pairs of records from two sources; got {len(every)}: "
            f"{quoted(every)}. Link two at a time. {OTHER_TOOLS}"
        )
    if one & other:
        raise TableError(
            "link takes pairs of records from two sources, those of one always on the "
            f"left; {SOURCES[0]} has {quoted(sorted(map(str, one)))} and {SOURCES[1]} "
            f"has {quoted(sorted(map(str, other)))}. In splink, use link_type='link_only'. "
            f"{OTHER_TOOLS}"
        )
