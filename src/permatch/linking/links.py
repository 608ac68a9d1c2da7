"""Decided links as a table."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from permatch._files import whole_file
from permatch._optional import require
from permatch._types import FloatArray, IntArray
from permatch.decoding.bayes import LinkCosts
from permatch.errors import TableError
from permatch.problems import Problem

#: The columns after those of the ids.
COLUMNS = (
    "probability",
    "pair_probability",
    "no_partner_left",
    "no_partner_right",
    "decision",
    "is_exact",
    "low",
    "high",
)
_SHOWN = 6


@dataclass(frozen=True, eq=False, repr=False)
class Links:
    """Pairs of records with their one-to-one probabilities and decisions.

    What `permatch.link` returns: a table with one row per pair, in the order of the input.
    ``links["probability"]`` is a column, a NumPy array.

    ================  ======================================================================
    column            holds
    ================  ======================================================================
    ids               two columns, named as in the input
    probability       that the pair is a link, no record having two partners
    pair_probability  as it came, of the pair by itself
    no_partner_left   that the left record has no partner among those listed
    no_partner_right  likewise for the right record
    decision          "link", "no link" or "review"
    is_exact          whether the probability is exact up to rounding
    low, high         an interval in which the probability lies for certain
    ================  ======================================================================

    Attributes
    ----------
    table : mapping from str to ndarray
        The columns.
    offset : float
        The constant added to the log-odds of all pairs.
    costs : LinkCosts
        What the decisions were made by.
    problem : Problem or None
        The pairs as a graph, sorted by left and right record, with the scores that the
        probabilities follow from; None if the links were read from a file.
    rows : ndarray or None
        The row of every edge of `problem`.

    Examples
    --------
    >>> import permatch as pm
    >>> pairs = {"left": ["a", "a", "b"], "right": ["x", "y", "y"]}
    >>> links = pm.link(pairs | {"probability": [0.8, 0.3, 0.6]})
    >>> links.columns[:3], len(links)
    (['left', 'right', 'probability'], 3)
    >>> links["decision"].tolist()
    ['link', 'no link', 'link']
    """

    table: Mapping[str, np.ndarray]
    offset: float = float("nan")
    costs: LinkCosts = field(default_factory=LinkCosts)
    problem: Problem | None = None
    rows: IntArray | None = None

    def __len__(self) -> int:
        return len(self.table["probability"])

    def __getitem__(self, column: str) -> np.ndarray:
        """Return a column."""
        if column not in self.table:
            raise KeyError(
                f"links have the columns {', '.join(self.columns)}; got {column!r}"
            )
        return self.table[column]

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.table)

    @property
    def id_columns(self) -> tuple[str, str]:
        """The names of the columns with the ids of left and right records."""
        return self.columns[0], self.columns[1]

    @property
    def expected_links(self) -> float:
        """The expected number of links: the sum of all probabilities."""
        return float(self["probability"].sum())

    @property
    def is_exact(self) -> bool:
        """Whether all probabilities are exact up to rounding."""
        return bool(self["is_exact"].all())

    def take(self, rows: Any) -> "Links":
        """Return some rows, chosen by numbers, a slice or a mask."""
        return Links(
            {name: column[rows] for name, column in self.table.items()},
            self.offset,
            self.costs,
        )

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame."""
        pandas = require("pandas", "tables", what="to_pandas")
        return pandas.DataFrame(dict(self.table), copy=False)

    def to_arrow(self) -> Any:
        """Return a pyarrow Table."""
        arrow = require("pyarrow", "tables", what="to_arrow")
        return arrow.table({name: _arrow_ready(c) for name, c in self.table.items()})

    def write(self, path: str | Path | TextIO) -> None:
        """Write all rows to a file: Parquet if so named, else CSV or TSV."""
        if not isinstance(path, str | Path):
            _write_text(path, self.table, ",")
            return
        suffix = Path(path).suffix.lower()
        if suffix in (".parquet", ".pq"):
            parquet = require("pyarrow.parquet", "tables", what="writing Parquet")
            parquet.write_table(self.to_arrow(), path)
            return
        with whole_file(path) as file:
            _write_text(file, self.table, "\t" if suffix == ".tsv" else ",")

    def __repr__(self) -> str:
        """Return the first rows and a summary in one line."""
        shown = list(self.columns)
        rows = [shown] + [
            [_cell(self.table[name][row]) for name in shown]
            for row in range(min(len(self), _SHOWN))
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True))
            for row in rows
        ]
        if len(self) > _SHOWN:
            lines.append(f"... {len(self) - _SHOWN:,} more rows")
        return "\n".join([*lines, self._headline()])

    def _headline(self) -> str:
        decisions = self["decision"]
        n_links = int((decisions == "link").sum())
        n_review = int((decisions == "review").sum())
        kind = "exact" if self.is_exact else "not all exact"
        return (
            f"{len(self):,} pairs: {n_links:,} linked, {n_review:,} to review; "
            f"{self.expected_links:,.1f} links expected; {kind}"
        )

    def summary(self) -> str:
        """Return what was found, in words."""
        return self._headline()


def _cell(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return f"{value:.4f}"
    return str(value)


def _arrow_ready(column: np.ndarray) -> Any:
    return column.tolist() if column.dtype == object else column


def _write_text(file: TextIO, table: Mapping[str, np.ndarray], delimiter: str) -> None:
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*(column.tolist() for column in table.values()), strict=True))


def check_names(names: tuple[str, str]) -> None:
    """Refuse ids whose columns are called like one of the answer."""
    if taken := [name for name in names if name in COLUMNS]:
        raise TableError(
            f"the columns of the ids must not be called like those of the result, "
            f"{', '.join(COLUMNS)}; got {', '.join(taken)}. Rename them."
        )


def build_table(
    names: tuple[str, str], ids: tuple[np.ndarray, np.ndarray], *columns: FloatArray
) -> dict[str, np.ndarray]:
    """Return the columns of `Links` in order."""
    values: tuple[Any, ...] = (*ids, *columns)
    return dict(zip((*names, *COLUMNS), values, strict=True))
