"""Pairs on disk, dealt out to files that hold whole components.

A file is a sequence of Arrow streams, each appended when enough rows are held, so that no
more than one file is open at a time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from permatch._optional import require
from permatch.errors import TableError
from permatch.linking.grouping import Grouping
from permatch.linking.pairs import PairRoles
from permatch.linking.survey import NUMBER, columns_used, parts_of_rows

# Rows read at once, and rows held before they are written.
_READ, _HELD = 1 << 18, 1 << 21


@dataclass(frozen=True, eq=False)
class PairStream:
    """The rows of an Arrow dataset, in the order of its files."""

    dataset: Any
    roles: PairRoles

    @property
    def name(self) -> str:
        """What messages call it."""
        files = getattr(self.dataset, "files", None) or ["the table"]
        return str(Path(files[0]).parent if len(files) > 1 else files[0])

    @property
    def identity(self) -> list[Any]:
        """What changes if the rows do: the files, their sizes and times."""
        files = [Path(file) for file in getattr(self.dataset, "files", [])]
        known = [file.stat() for file in files if file.exists()]
        times = [(one.st_size, one.st_mtime_ns) for one in known]
        return [list(map(str, files)), times, str(self.dataset.schema)]

    def __len__(self) -> int:
        return self.dataset.count_rows()

    def tables(self) -> Iterator[Any]:
        """Yield the rows as Arrow tables, with the columns that matter."""
        arrow = require("pyarrow", "tables")
        columns = columns_used(self.dataset.schema.names, self.roles)
        try:
            for batch in self.dataset.to_batches(columns=columns, batch_size=_READ):
                if batch.num_rows:
                    yield arrow.Table.from_batches([batch])
        except arrow.ArrowInvalid as err:
            raise TableError(
                f"{self.name} must hold complete Parquet files with the same columns; "
                f"pyarrow says: {str(err).rstrip('. ')}. Write or fetch them again."
            ) from err


def spill_pairs(
    stream: PairStream,
    groups: Grouping,
    files: list[Path],
    note: Callable[[int], None],
) -> None:
    """Append every row of a stream to the file of its part, with its number."""
    arrow = require("pyarrow", "tables")
    held: list[list[Any]] = [[] for _ in files]
    n_held = n_rows = 0
    for table in stream.tables():
        parts = parts_of_rows(table, stream.roles, groups)
        rows = arrow.array(np.arange(n_rows, n_rows + len(parts)))
        order = np.argsort(parts, kind="stable")
        sorted_rows = table.append_column(NUMBER, rows).take(order)
        ends = np.cumsum(np.bincount(parts, minlength=len(files)))
        for part in np.unique(parts).tolist():
            first = int(ends[part - 1]) if part else 0
            held[part].append(sorted_rows.slice(first, int(ends[part]) - first))
        n_held, n_rows = n_held + len(parts), n_rows + len(parts)
        if n_held >= _HELD:
            _flush(held, files)
            n_held = 0
        note(n_rows)
    _flush(held, files)


def _flush(held: list[list[Any]], files: list[Path]) -> None:
    arrow, ipc = require("pyarrow", "tables"), require("pyarrow.ipc", "tables")
    for tables, path in zip(held, files, strict=True):
        if not tables:
            continue
        whole = arrow.concat_tables(tables).combine_chunks()
        with path.open("ab") as file, ipc.new_stream(file, whole.schema) as stream:
            stream.write_table(whole)
        tables.clear()


def read_spilled(path: Path) -> tuple[int, Any]:
    """Return the number of a part and its rows, an Arrow table."""
    arrow, ipc = require("pyarrow", "tables"), require("pyarrow.ipc", "tables")
    tables = []
    with path.open("rb") as file:
        end = path.stat().st_size
        while file.tell() < end:
            with ipc.open_stream(file) as stream:
                tables.append(stream.read_all())
    return int(path.stem), arrow.concat_tables(tables)
