"""Candidate pairs, wherever they are, as shards of whole labelled graphs."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np

from permatch._optional import require
from permatch._progress import Stages
from permatch._shards import Passes, Shards
from permatch._tables import is_numeric
from permatch.datasets.columns import Roles
from permatch.distributed.dask_frames import refuse_one_delayed
from permatch.distributed.dask_rows import (
    check_order,
    if_passed,
    like_rows,
    with_neighbours,
)
from permatch.distributed.dask_shards import DaskShards
from permatch.distributed.disk import DiskShards, Scratch, Stored
from permatch.distributed.graph_rows import (
    EdgeBlock,
    GraphRows,
    GraphShard,
    make_block,
    order_of,
    settle_roles,
    value_rows,
    wanted_columns,
)
from permatch.distributed.opening import is_dask
from permatch.distributed.rows import Contiguity, own_rows, surrounded, whole_queries
from permatch.distributed.sources import list_parquet, open_files
from permatch.errors import InvalidOptionError, PermatchError, TableError

#: The columns of a table of candidate pairs, unless others are named.
ROLES = Roles(None, "left", "right", "label", None)
# Rows read at once, and rows of a shard, about.
_READ, SHARD_ROWS = 1 << 17, 1 << 19

#: From the graphs and matchings of a delayed part to checked ones.
Check = Callable[[Any, Any], tuple[Any, Any]]


@dataclass(frozen=True, eq=False)
class OpenedGraphs:
    """Labelled graphs as shards of `GraphShard`, and the columns of their table, if any."""

    shards: Shards
    roles: Roles | None = None


def open_graphs(source: Any, roles: Roles, check: Check) -> OpenedGraphs:
    """Return the graphs of a folder, an Arrow dataset, or Dask, as shards."""
    if isinstance(source, list | tuple):
        return OpenedGraphs(_listed(source, check))
    if is_dask(source):
        shards, settled = _framed(source, roles)
        return OpenedGraphs(shards, settled)
    stream = GraphStream(source, roles)
    return OpenedGraphs(store_blocks(stream), stream.roles)


def roles_of(source: Any, roles: Roles) -> Roles:
    """Return settled roles of the columns of a table in parts, from its header alone."""
    if is_dask(source):
        return settle_roles(roles, is_numeric(source), "the Dask DataFrame")
    return GraphStream(source, roles).roles


# ---- from disk


class GraphStream:
    """Rows of Parquet files or an Arrow dataset, in the order of the files."""

    def __init__(self, source: Any, roles: Roles) -> None:
        require("pyarrow", "tables", what="reading Parquet")
        self.name = "the Arrow dataset"
        self.dataset = source
        if isinstance(source, str | os.PathLike):
            self.name = str(source)
            files = list_parquet(
                source,
                "a folder of Parquet files",
                "Convert the table to Parquet, or read it into memory with "
                "permatch.datasets.read_edge_table.",
            )
            self.dataset = open_files(files)
        self.roles = settle_roles(roles, is_numeric(self.dataset.schema), self.name)
        with _unlike_files(self.name):
            self._check_files()

    def _check_files(self) -> None:
        """Refuse files without a column, which Arrow would take for empty cells."""
        keys_of = require("pyarrow.dataset", "tables").get_partition_keys
        for fragment in self.dataset.get_fragments():
            in_path = dict.fromkeys(keys_of(fragment.partition_expression), True)
            found = is_numeric(fragment.physical_schema) | in_path
            settle_roles(self.roles, found, getattr(fragment, "path", self.name))

    def rows(self) -> Iterator[Any]:
        """Yield the rows as they come, refusing graphs that come back."""
        arrow = require("pyarrow", "tables")
        contiguity, first = Contiguity(*order_of(self.roles)), 0
        columns = wanted_columns(self.roles)
        with _unlike_files(self.name):
            for batch in self.dataset.to_batches(columns=columns, batch_size=_READ):
                table = arrow.Table.from_batches([batch])
                rows: Any = GraphRows.of(table, str(self.roles.graph), first)
                contiguity.check(rows, self.name)
                first += len(rows)
                yield rows

    def blocks(self) -> Iterator[Any]:
        """Yield blocks of whole graphs."""
        return whole_queries(self.rows(), SHARD_ROWS)


@contextmanager
def _unlike_files(place: str) -> Iterator[None]:
    """Say what is wrong where Arrow or pandas miss a column or the end of a file."""
    arrow = require("pyarrow", "tables")
    try:
        yield
    except (arrow.ArrowInvalid, arrow.ArrowTypeError, KeyError) as err:
        raise TableError(
            f"{place} must consist of complete parts with columns of the same names and "
            f"types; reading them failed: {str(err).rstrip('. ')}. Write or fetch them "
            "again."
        ) from err


def store_blocks(stream: GraphStream) -> DiskShards:
    """Write graphs to a scratch file and return them as shards."""
    scratch, stored, first = Scratch(), [], 0
    with Stages(f"reading {stream.name}") as stages:
        for number, rows in enumerate(stream.blocks()):
            block = make_block(rows, number, first, stream.roles, stream.name)
            first += block.structure.n_graphs
            stored.append(_put(block, scratch))
            stages.say(f"reading {stream.name}: {first:,} graphs")
    if not stored:
        raise TableError(f"at least one pair is required; {stream.name} has no rows.")
    return _from_disk(stored).derive(EdgeBlock.shard)


def store_shards(shards: Shards) -> Shards:
    """Keep what shards are made of, so that it is not made anew in every pass."""
    if isinstance(shards, DaskShards):
        return shards.persisted()
    if isinstance(shards, DiskShards):
        return _from_disk(shards.map(_put, Scratch()), shards.passes)
    return shards


def _from_disk(stored: list[Any], passes: Passes | None = None) -> DiskShards:
    return DiskShards([partial(_get, one) for one in stored], stored, passes=passes)


def _put(value: Any, scratch: Scratch) -> Any:
    """Return a value with its arrays on disk."""
    if isinstance(value, np.ndarray):
        return scratch.write(value) if value.nbytes else value
    if isinstance(value, list | tuple):
        return type(value)(_put(one, scratch) for one in value)
    return _each_field(value, lambda own: _put(own, scratch))


def _get(value: Any) -> Any:
    """Return a value with its arrays in memory, as far as they are looked at."""
    if isinstance(value, Stored):
        return value.read()
    if isinstance(value, list | tuple):
        return type(value)(_get(one) for one in value)
    return _each_field(value, _get)


def _each_field(value: Any, change: Callable[[Any], Any]) -> Any:
    if not is_dataclass(value) or isinstance(value, type):
        return value
    changed = {own.name: change(getattr(value, own.name)) for own in fields(value)}
    return replace(value, **changed)


# ---- on Dask


def framed_rows(frame: Any, roles: Roles) -> tuple[list[Any], Roles]:
    """Return delayed rows of the partitions of a Dask DataFrame, and settled roles."""
    dask = require("dask", "dask", what="data in Dask collections")
    refuse_one_delayed(frame, "(graphs, matchings)")
    if not hasattr(frame, "columns"):
        raise InvalidOptionError(
            "candidate pairs on Dask must be a DataFrame, whose columns have names, or a "
            f"list of delayed parts (graphs, matchings); got {type(frame).__name__}."
        )
    settled = settle_roles(roles, is_numeric(frame), "the Dask DataFrame")
    used = frame[wanted_columns(settled)]
    make = dask.delayed(_rows_of, pure=False)
    told = enumerate(used.to_delayed())
    return [make(part, settled, f"partition {k}") for k, part in told], settled


def _rows_of(frame: Any, roles: Roles, place: str) -> GraphRows:
    arrow = require("pyarrow", "tables")
    settle_roles(roles, is_numeric(frame), place)
    table = arrow.Table.from_pandas(frame, preserve_index=False)
    return GraphRows.of(table, str(roles.graph))


def _framed(frame: Any, roles: Roles) -> tuple[DaskShards, Roles]:
    rows, settled = framed_rows(frame, roles)
    rows = if_passed(rows, [check_order(rows, *order_of(settled))])
    own = require("dask", "dask").delayed(own_rows, pure=False)
    with Stages("waiting for the partitions"), _unlike_files("the Dask DataFrame"):
        whole = DaskShards([own(*part) for part in with_neighbours(rows)]).persisted()
        counts, sizes = zip(*whole.map(_count_graphs), strict=True)
    used = [k for k, count in enumerate(counts) if count]
    if not used:
        raise TableError("at least one pair is required; all partitions are empty.")
    firsts = [0, *accumulate(counts)]
    told = [(number, firsts[k], settled, f"partition {k}") for number, k in enumerate(used)]
    made = whole.some(used).derive_each(make_block, told, [sizes[k] for k in used])
    blocks = made.persisted()
    return blocks.derive(EdgeBlock.shard), settled


def _count_graphs(rows: GraphRows) -> tuple[int, int]:
    """Return the number of graphs, and that of rows."""
    return len(rows.starts), len(rows)


def _listed(parts: Sequence[Any], check: Check) -> DaskShards:
    """Return delayed pairs of graphs and matchings as shards."""
    checked = DaskShards(parts).derive_each(
        _check_part, [(check, f"part {k}") for k in range(len(parts))]
    )
    checked = checked.persisted()
    counts = checked.map(_count)
    told = list(enumerate(accumulate([0, *counts[:-1]])))
    return checked.derive_each(_number, told)


def _check_part(part: Any, check: Check, place: str) -> tuple[Any, Any]:
    if not isinstance(part, tuple | list) or len(part) != 2:
        raise InvalidOptionError(
            f"every delayed part must be a pair (graphs, matchings); {place} is of type "
            f"{type(part).__name__}."
        )
    try:
        return check(*part)
    except PermatchError as err:
        raise type(err)(f"{place}: {err}") from err


def _count(part: tuple[Any, Any]) -> int:
    return len(part[0])


def _number(part: tuple[Any, Any], number: int, first: int) -> GraphShard:
    graphs, labels = part
    return GraphShard(number, graphs, labels, np.arange(first, first + len(graphs)))


# ---- values of pairs


#: From graphs to a value for every edge of each.
Value = Callable[[list[Any]], list[np.ndarray]]


def value_pairs(source: Any, roles: Roles, value: Value, dtype: Any) -> Any:
    """Return a value for every row of a table in parts, like the table.

    Those of a folder or an Arrow dataset are an array, those of a Dask DataFrame a Dask
    Series with its index, not yet computed.
    """
    if is_dask(source):
        dask = require("dask", "dask")
        rows, settled = framed_rows(source, roles)
        call = dask.delayed(_value_partition, pure=False)
        told = dask.delayed((settled, value, dtype), pure=False, traverse=False)
        found = [call(told, k, *part) for k, part in enumerate(with_neighbours(rows))]
        # Values wait for the check, not rows, which would all be held until then.
        found = if_passed(found, [check_order(rows, *order_of(settled))])
        return like_rows(source, found, dtype)
    stream = GraphStream(source, roles)
    found = [value_rows(r, stream.roles, stream.name, value) for r in stream.blocks()]
    return np.concatenate([np.zeros(0, dtype), *found])


def _value_partition(
    told: tuple[Roles, Value, Any], k: int, rows: Any, before: Any, after: Any
) -> np.ndarray:
    roles, value, dtype = told
    if not len(rows):
        return np.zeros(0, dtype)
    block: Any
    block, own = surrounded(rows, before, after)
    return value_rows(block, roles, f"partition {k}", value)[own]
