"""Pairs in a Dask DataFrame, shuffled so that every partition holds whole components.

Each partition says which of its records belong together, as much as its records and no
more; the components of the whole are found here, a few partitions at a time, and every
partition is told where its rows belong.  Dask moves them.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from permatch._optional import require
from permatch._types import IntArray
from permatch.distributed.dask_shards import DaskShards
from permatch.errors import TableError
from permatch.linking.links import Links
from permatch.linking.pairs import PairRoles
from permatch.linking.parted import Part, PartRules, build_part
from permatch.linking.survey import (
    NUMBER,
    Census,
    Survey,
    columns_used,
    group_rows,
    parts_of_rows,
    survey_rows,
)

# Partitions whose records are here at a time, and the column of the part of a row.
_AT_ONCE, _PART = 16, "_permatch_part"


def take_census(frame: Any, roles: PairRoles, note: Callable[[int, int], None]) -> Census:
    """Find the components of all pairs."""
    census = Census()
    for k, survey in enumerate(_surveys(frame, roles)):
        census.add(survey)
        note(k + 1, frame.npartitions)
    return census


def _surveys(frame: Any, roles: PairRoles) -> Iterator[Survey]:
    """Yield what is found in every partition, in their order, a few at a time."""
    dask = require("dask", "dask", what="linking a Dask DataFrame")
    tasks = [
        dask.delayed(_survey_partition)(partition, roles)
        for partition in frame.to_delayed()
    ]
    for first in range(0, len(tasks), _AT_ONCE):
        yield from dask.compute(*tasks[first : first + _AT_ONCE])


def shuffle_pairs(frame: Any, how: PartRules, census: Census, n_parts: int) -> DaskShards:
    """Return the parts of a Dask DataFrame, a `Part` each."""
    dataframe = require("dask.dataframe", "dask")
    roles, kind = how.rules.roles, np.min_scalar_type(n_parts)
    told = [
        (roles, first, census.groups.parts(survey.forest.first).astype(kind))
        for first, survey in zip(census.starts, _surveys(frame, roles), strict=False)
    ]
    dealt = DaskShards(frame.to_delayed()).derive_each(_deal_partition, told)
    meta = frame._meta.assign(**{NUMBER: np.int64(0), _PART: np.int64(0)})
    whole = dataframe.from_delayed(dealt.delayed, meta=meta, verify_meta=False)
    shuffled = whole.set_index(_PART, divisions=list(range(n_parts + 1)))
    numbered = DaskShards(shuffled.to_delayed())
    return numbered.derive_each(_build_partition, [(k, how) for k in range(n_parts)])


def used_frame(frame: Any, roles: PairRoles) -> Any:
    """Return a Dask DataFrame with the columns that matter."""
    if not hasattr(frame, "columns"):
        raise TableError(
            "link takes pairs from Dask as a DataFrame, whose columns have names; got "
            f"{type(frame).__name__}. Make one of it by dask.dataframe.from_delayed or "
            "from_dask_array."
        )
    return frame[columns_used([str(name) for name in frame.columns], roles)]


def first_rows(frame: Any, n_rows: int = 100_000) -> Any:
    """Return the first rows of the first partition, as an Arrow table."""
    dask = require("dask", "dask", what="linking a Dask DataFrame")
    first = dask.delayed(_beginning)(frame.to_delayed()[0], n_rows)
    return as_arrow(first.compute())


def _beginning(rows: Any, n_rows: int) -> Any:
    return rows.iloc[:n_rows]


def as_dask_frame(links: DaskShards) -> Any:
    """Return shards of links as a Dask DataFrame."""
    dataframe = require("dask.dataframe", "dask")
    frames = links.derive(_as_frame)
    (meta,) = frames.some([0]).map(_beginning, 0)
    return dataframe.from_delayed(frames.delayed, meta=meta, verify_meta=False)


def _as_frame(links: Links) -> Any:
    return links.to_pandas()


def _survey_partition(rows: Any, roles: PairRoles) -> Survey:
    return survey_rows(as_arrow(rows), roles)


def _deal_partition(rows: Any, roles: PairRoles, first: int, parts: IntArray) -> Any:
    """Return rows with their numbers and parts, given those of their components."""
    table = as_arrow(rows)
    groups = group_rows(table, roles)
    groups.put(parts)
    numbers = np.arange(first, first + len(rows))
    own = parts_of_rows(table, roles, groups).astype(np.int64)
    return rows.assign(**{NUMBER: numbers, _PART: own})


def _build_partition(rows: Any, number: int, how: PartRules) -> Part:
    return build_part((number, as_arrow(rows)), how)


def as_arrow(rows: Any) -> Any:
    """Return a partition as an Arrow table."""
    arrow = require("pyarrow", "tables", what="linking in parts")
    try:
        return arrow.Table.from_pandas(rows, preserve_index=False)
    except (arrow.ArrowInvalid, arrow.ArrowTypeError) as err:
        raise TableError(
            "the ids of pairs in parts must be of one kind in every column; pyarrow says: "
            f"{str(err).rstrip('. ')}. Convert them to text, for example by "
            "frame.astype({'left': 'string'})."
        ) from err
