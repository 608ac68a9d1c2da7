"""Links to files and back."""

import csv
import gzip
import io
import json
import math
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol, TextIO

import numpy as np

from permatch._files import Gauge, whole_file
from permatch._optional import require
from permatch.datasets.arrow_sources import read_parquet
from permatch.datasets.table_text import damage_reported
from permatch.decoding.bayes import LinkCosts
from permatch.errors import InvalidOptionError, TableError

_PARQUET = (".parquet", ".pq")
_TEXT = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_KEY = b"permatch"
_WORDS = {"True": True, "False": False, "true": True, "false": False}


class Linked(Protocol):
    """A table of links."""

    @property
    def table(self) -> Mapping[str, np.ndarray]:
        """The columns."""
        ...

    @property
    def offset(self) -> float:
        """The constant added to log-odds."""
        ...

    @property
    def costs(self) -> LinkCosts:
        """What the decisions were made by."""
        ...


def arrow_table(links: Linked, **more: Any) -> Any:
    """Return links as an Arrow table, which keeps the constant, the costs, and `more`."""
    arrow = require("pyarrow", "tables", what="to_arrow")
    columns = {name: _arrow_column(name, cells) for name, cells in links.table.items()}
    offset = None if math.isnan(links.offset) else links.offset
    kept = json.dumps({"offset": offset, "costs": asdict(links.costs), **more})
    return arrow.table(columns).replace_schema_metadata({_KEY: kept})


def _arrow_column(name: str, cells: np.ndarray) -> Any:
    """Return a column as Arrow's, which must be of one kind."""
    arrow = require("pyarrow", "tables")
    try:
        return arrow.array(cells.tolist() if cells.dtype == object else cells)
    except (arrow.ArrowInvalid, arrow.ArrowTypeError, OverflowError) as err:
        raise TableError(
            f"Arrow and Parquet need ids of one kind; column {name!r} holds several, or "
            f"numbers that are too large ({err}). Convert the ids to text before linking, "
            "or write CSV."
        ) from err


def write_table(links: Linked, path: str | Path | TextIO, **more: Any) -> None:
    """Write links as Parquet, which keeps `more`, TSV or CSV, by the name of the file."""
    if not isinstance(path, str | Path):
        _write_text(path, links.table, ",")
        return
    target = Path(path)
    suffix = suffix_of(target)
    if suffix not in _PARQUET:
        with whole_file(target) as file, _packed(file, suffix) as text:
            _write_text(text, links.table, _delimiter(suffix))
        return
    parquet = require("pyarrow.parquet", "tables", what="writing Parquet")
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        parquet.write_table(arrow_table(links, **more), draft)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def suffix_of(path: Path) -> str:
    """Return the suffix of a file to write, which says how; refuse those unknown."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    suffix = "".join(suffixes[-2:] if suffixes[-1:] == [".gz"] else suffixes[-1:])
    if suffix not in ("", *_TEXT, *_PARQUET):
        raise InvalidOptionError(
            f"links are written to files that end in {', '.join((*_TEXT, *_PARQUET))}; got "
            f"{str(path)!r}. Give the file one of these endings."
        )
    return suffix


def _delimiter(suffix: str) -> str:
    return "\t" if suffix.startswith(".tsv") else ","


@contextmanager
def _packed(file: TextIO, suffix: str) -> Iterator[TextIO]:
    """Yield a text file, or one that packs what is written to it."""
    if not suffix.endswith(".gz"):
        yield file
        return
    binary: Any = file.buffer
    with (
        gzip.GzipFile("", "wb", fileobj=binary, mtime=0) as packed,
        io.TextIOWrapper(packed, encoding="utf-8", newline="") as text,
    ):
        yield text


def _write_text(file: TextIO, table: Mapping[str, np.ndarray], delimiter: str) -> None:
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*(column.tolist() for column in table.values()), strict=True))


def read_kept(path: Path) -> dict[str, Any]:
    """Return what a Parquet file of links keeps beside them."""
    parquet = require("pyarrow.parquet", "tables", what="reading Parquet")
    return json.loads((parquet.read_schema(path).metadata or {}).get(_KEY, b"{}"))


def read_table(
    path: Path, required: Sequence[str]
) -> tuple[dict[str, np.ndarray], float, LinkCosts]:
    """Return the columns of a file of links, the constant, and the costs."""
    with path.open("rb") as file:
        magic = file.read(4)
    gauge = Gauge(str(path), TableError)
    if magic == b"PAR1" or path.suffix.lower() in _PARQUET:
        found = read_parquet(path, gauge)
        _check(path, found.column_names, required)
        columns = {
            name: np.asarray(found.column(name).to_numpy()) for name in found.column_names
        }
        kept = json.loads((found.schema.metadata or {}).get(_KEY, b"{}"))
        offset = kept.get("offset")
        costs = LinkCosts(**kept.get("costs", {}))
        return columns, math.nan if offset is None else float(offset), costs
    opener = gzip.open if magic.startswith(b"\x1f\x8b") else open
    delimiter = "\t" if ".tsv" in map(str.lower, path.suffixes) else ","
    with (
        damage_reported(str(path)),
        opener(path, "rb") as file,
        gauge.text(file) as text,
        gauge.csv_fields(),
    ):
        reader = csv.reader(text, delimiter=delimiter)
        header = next(reader, [])
        _check(path, header, required)
        rows = list(reader)
    try:
        for number, row in enumerate(rows, 2):
            if len(row) != len(header):
                raise ValueError(f"row {number} has {len(row)} of {len(header)} cells")
        cells = list(zip(*rows, strict=True)) or [()] * len(header)
        columns = {
            name: _parsed(values, name, required)
            for name, values in zip(header, cells, strict=True)
        }
    except (KeyError, ValueError) as err:
        raise TableError(
            f"{path} must hold links as they were written; a row is damaged or cut off "
            f"({err}). Write it again."
        ) from err
    return columns, math.nan, LinkCosts()


def _parsed(cells: Sequence[str], name: str, required: Sequence[str]) -> np.ndarray:
    """Return the cells of a column: text for ids and decisions, else numbers."""
    if name == "is_exact":
        return np.array([_WORDS[cell] for cell in cells], dtype=bool)
    if name == "gain" or (name in required and name != "decision"):
        return np.array(cells, dtype=np.float64)
    text = np.empty(len(cells), dtype=object)
    text[:] = cells
    return text


def _check(path: Path, header: Sequence[str], required: Sequence[str]) -> None:
    """Refuse a file that no links were written to."""
    if list(header[2:10]) != list(required):
        raise TableError(
            f"{path} must be a file of links, with two columns of ids and then "
            f"{', '.join(required)}; it has {', '.join(header) or 'no columns'}. Write it "
            "with Links.write or permatch link --out."
        )
