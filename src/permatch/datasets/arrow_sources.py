"""Read tables by Arrow: Parquet files, and large files of delimited text.

Arrow reads text about ten times faster than Python's `csv`.  It is used only where both
read the same: whatever it cannot read, and whatever a message would be about, is left to
the reader in `table_sources`, which knows the lines.
"""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from permatch._cells import MISSING_WORDS, TRUTHS, Coded, from_arrow
from permatch._files import Gauge
from permatch._optional import require
from permatch.datasets.columns import (
    Block,
    Columns,
    Roles,
    gather,
    used_columns,
)
from permatch.datasets.table_text import Beginning
from permatch.errors import PermatchError, TableError

#: Bytes of text from which loading Arrow pays.
LARGE = 1 << 22
_BLOCK_BYTES = 1 << 22


def read_parquet(path: Path, gauge: Gauge) -> Any:
    """Return a Parquet file as an Arrow table."""
    parquet = require("pyarrow.parquet", "tables", what="reading Parquet")
    arrow = require("pyarrow", "tables")
    try:
        found = parquet.read_metadata(path)
        gauge.check_arrays(
            8 * found.num_rows * found.num_columns,
            path.stat().st_size,
            f"its {found.num_rows} rows of {found.num_columns} columns",
        )
        return parquet.read_table(path)
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as err:
        raise TableError(
            f"{path} must be a complete Parquet file; pyarrow says: "
            f"{str(err).rstrip('. ')}. Write or fetch it again, or rename it if it is text."
        ) from err


def is_large(path: Path) -> bool:
    """Tell whether a file of text is worth loading Arrow, and Arrow is there."""
    return (
        path.is_file() and path.stat().st_size >= LARGE and find_spec("pyarrow") is not None
    )


def read_large_text(
    file: Any, gauge: Gauge, start: Beginning, roles: Roles
) -> Columns | None:
    """Read delimited text, or return None where Arrow might read it differently.

    `file` is binary and at its beginning; `gauge` counts it.
    """
    arrow = require("pyarrow", "tables")
    reader = require("pyarrow.csv", "tables")
    header, first = start.header, start.first
    ids, label, used, _ = used_columns(header, roles, first)
    named = [str(k) for k in range(len(header))]  # names may be blank
    kinds: dict[str, Any] = {
        named[k]: arrow.bool_() if _is_true_or_false(first.cells[k]) else arrow.float64()
        for k in ([label] if label is not None else []) + used
    }
    kinds |= {named[k]: arrow.string() for k in ids}
    words = [
        form(word) for word in MISSING_WORDS for form in (str, str.upper, str.capitalize)
    ]
    try:
        batches = reader.open_csv(
            arrow.PythonFile(gauge.counted(file), mode="r"),
            read_options=reader.ReadOptions(
                column_names=named, skip_rows=start.n_lines, block_size=_BLOCK_BYTES
            ),
            parse_options=reader.ParseOptions(
                delimiter=start.delimiter, newlines_in_values=True
            ),
            convert_options=reader.ConvertOptions(
                column_types=kinds,
                include_columns=list(kinds),
                null_values=[*words, "NaN", "NaT"],
                true_values=["true", "True", "TRUE"],
                false_values=["false", "False", "FALSE"],
            ),
        )
        blocks = _text_blocks(batches, start)
        found = gather(header, roles, first.name, blocks, first)
    except (arrow.ArrowException, PermatchError, UnicodeDecodeError):
        return None
    # A blank line, or one within a cell, would shift the numbers of those below.
    n_lines = gauge.n_lines + (not gauge.is_at_line_end)
    return found if n_lines == start.n_lines + len(found.features) else None


def _text_blocks(batches: Any, start: Beginning) -> Iterator[Block]:
    line = start.n_lines + 1
    for batch in batches:
        cells: list[Any] = [()] * len(start.header)
        for key, column in zip(batch.schema.names, batch.columns, strict=True):
            found = from_arrow(column)
            if isinstance(found, Coded):
                found = Coded(found.codes, list(map(str.strip, found.values)))
            cells[int(key)] = found
        yield Block(
            start.first.name, start.header, cells, range(line, line + batch.num_rows)
        )
        line += batch.num_rows


def _is_true_or_false(cells: Sequence[str]) -> bool:
    """Tell whether a column of text holds nothing but true and false."""
    return {cell.strip().lower() for cell in cells} <= {*TRUTHS, *MISSING_WORDS}
