"""Decided links as a table."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn, TextIO

import numpy as np

from permatch._cells import numbered
from permatch._optional import require
from permatch._types import BoolArray, FloatArray, IntArray
from permatch.decoding.bayes import LinkCosts
from permatch.errors import InvalidOptionError, TableError
from permatch.linking.files import arrow_table, read_table, write_table
from permatch.linking.report import Figures, as_html, as_text, figures_of, summary
from permatch.linking.review import largest_first, review_gains
from permatch.problems import Problem, Structure

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


@dataclass(frozen=True, eq=False, repr=False)
class Links:
    """Pairs of records with their one-to-one probabilities and decisions.

    What `permatch.link` returns: a table with one row per pair, in the order of the input.
    ``links["probability"]`` is a column, a NumPy array.  `permatch.pages.write_links_page`
    writes a page to explore them.

    ================  ======================================================================
    column            holds
    ================  ======================================================================
    ids               two columns, named as in the input
    probability       that the pair is a link, no record having two partners
    pair_probability  of the pair by itself, as in the input
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
        The constant added to the log-odds of all pairs; NaN if it is not known, as of links
        read from a CSV file.
    costs : LinkCosts
        What the decisions were made by.
    problem : Problem or None
        The pairs as a graph, sorted by left and right record, with their log-odds before
        `offset` is added; None if the links were read from a file.
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
    >>> links[links["decision"] == "link"]["right"].tolist()
    ['x', 'y']
    """

    table: Mapping[str, np.ndarray]
    offset: float = float("nan")
    costs: LinkCosts = field(default_factory=LinkCosts)
    problem: Problem | None = None
    rows: IntArray | None = None

    def __len__(self) -> int:
        return len(self.table["probability"])

    def __iter__(self) -> NoReturn:
        """Refuse to guess whether rows or columns are meant."""
        raise TypeError(
            "links are not iterable: loop over links.columns for the names of the columns, "
            "or over links.to_pandas().itertuples() for the rows. "
            "links.to_pandas() makes a DataFrame."
        )

    def __getitem__(self, key: Any) -> Any:
        """Return a column by its name, or rows as `Links`: see `take`."""
        if not isinstance(key, str):
            return self.take(key)
        if key not in self.table:
            raise KeyError(f"links have the columns {', '.join(self.columns)}; got {key!r}")
        return self.table[key]

    def __contains__(self, column: object) -> bool:
        """Return whether there is a column of a name."""
        return column in self.table

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
        """Return some rows, in the order given.

        Parameters
        ----------
        rows : mask, slice, sequence of int, or int
            The rows.

        Returns
        -------
        Links
            Without a `problem`: some pairs say nothing about competitors left out.
        """
        places = np.arange(len(self))
        if not isinstance(rows, slice):
            rows = np.atleast_1d(np.asarray(rows))
            rows = rows.astype(np.intp) if not rows.size else rows
            if rows.dtype.kind not in "iub" or rows.ndim != 1:
                raise TypeError(
                    "links are indexed by the name of a column, or by rows: a mask, a "
                    "slice or row numbers. To choose several columns or single cells, use "
                    "links.to_pandas()."
                )
        try:
            chosen = places[rows]
        except IndexError as err:
            raise IndexError(f"there are {len(self):,} rows: {err}") from None
        table = {name: column[chosen] for name, column in self.table.items()}
        return Links(table, self.offset, self.costs)

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame."""
        pandas = require("pandas", "tables", what="to_pandas")
        return pandas.DataFrame(dict(self.table), copy=False)

    def to_arrow(self) -> Any:
        """Return a pyarrow Table."""
        return arrow_table(self)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Hand the table to Arrow, Polars, DuckDB and others."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def write(self, path: str | Path | TextIO) -> None:
        """Write all rows to a file, completely or not at all.

        Parameters
        ----------
        path : path or open text file
            Parquet if it ends in ``.parquet`` or ``.pq``, with tabs if in ``.tsv``, CSV if
            in ``.csv`` or without an ending; text is packed if it ends in ``.csv.gz`` or
            ``.tsv.gz``.  Other endings are refused.  Numbers are written with all digits,
            so that they are read back as they were; Parquet keeps `offset` and `costs` too.
        """
        write_table(self, path)

    @classmethod
    def read(cls, path: str | Path) -> "Links":
        """Read links from a file written by `write`.

        Parameters
        ----------
        path : path
            CSV or TSV, also packed by gzip, or Parquet.  Ids read from text are text.

        Returns
        -------
        Links
            Without a `problem`.

        Examples
        --------
        >>> import permatch as pm
        >>> pairs = {"left": ["a"], "right": ["x"], "probability": [0.8]}
        >>> import tempfile, pathlib
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "links.csv")
        ...     pm.link(pairs).write(path)
        ...     pm.Links.read(path)["decision"].tolist()
        ['link']
        """
        table, offset, costs = read_table(Path(path), COLUMNS)
        return cls(table, offset, costs)

    def review(self, n: int | None = None) -> "Links":
        """Return the pairs that a person should look at first.

        They are ordered by expected gain, in the added column ``gain``: by how much the
        expected cost of all decisions on pairs with one of the two records falls if the
        truth about this pair is known, where a missed and a false link cost what `costs`
        say.  It is the least that is gained: records further away may gain too.  With the
        default costs it is the number of mistakes avoided.

        Parameters
        ----------
        n : int, optional
            How many pairs; default: all that gain anything.

        Returns
        -------
        Links
            With the column ``gain``, largest first.

        Examples
        --------
        >>> import permatch as pm
        >>> pairs = {"left": ["a", "b", "c"], "right": ["x", "y", "z"]}
        >>> links = pm.link(pairs | {"probability": [0.9, 0.6, 0.01]})
        >>> first = links.review(2)
        >>> first["left"].tolist(), first["gain"].round(2).tolist()
        (['b', 'a'], [0.4, 0.1])
        """
        is_one_to_one = self.problem is None or not self.problem.has_capacities
        return self._review(check_n(n), is_one_to_one=is_one_to_one)

    def _review(self, n: int | None, *, is_one_to_one: bool) -> "Links":
        structure, rows = self._graph
        gains = np.zeros(len(self))
        chances = self["probability"][rows]
        gains[rows] = review_gains(
            structure, chances, self.costs, is_one_to_one=is_one_to_one
        )
        order = largest_first(gains, np.arange(len(self)))[:n]
        chosen = self.take(order)
        return replace(chosen, table={**chosen.table, "gain": gains[order]})

    def summary(self) -> str:
        """Return what was found, in words."""
        return summary(self.figures, self.offset, self.widths)

    @cached_property
    def figures(self) -> Figures:
        """What `summary` says, in numbers."""
        return figures_of(self, *self._graph)

    @property
    def widths(self) -> FloatArray:
        """Widths of the intervals of probabilities that are not exact."""
        is_wide = ~self["is_exact"]
        return self["high"][is_wide] - self["low"][is_wide]

    @cached_property
    def _graph(self) -> tuple[Structure, IntArray]:
        """The pairs as a graph, and the row of every edge."""
        if self.problem is not None and self.rows is not None:
            return self.problem.structure, self.rows
        (left, n), (right, k) = (numbered(self[name]) for name in self.id_columns)
        rows = np.lexsort((right, left))
        starts = np.concatenate([[0], np.cumsum(np.bincount(left, minlength=n))])
        sides = np.array([0, n]), np.array([0, k])
        return Structure(starts.astype(np.int64), right[rows], *sides), rows

    @property
    def is_linked(self) -> BoolArray:
        """Which pairs are links."""
        return self["decision"] == "link"

    def __repr__(self) -> str:
        """Return the first rows and a summary in one line."""
        return as_text(self)

    def _repr_html_(self) -> str:
        """Return the first rows and a summary in one line, for notebooks."""
        return as_html(self)


def check_n(n: Any) -> int | None:
    """Return a number of pairs to review, or None for all."""
    if n is not None and (not isinstance(n, int | np.integer) or n < 0):
        raise InvalidOptionError(
            f"n must be a number of pairs, at least 0, or None; got {n!r}."
        )
    return None if n is None else int(n)


def check_names(names: tuple[str, str]) -> None:
    """Refuse ids whose columns are called like one of the answer."""
    if taken := [name for name in names if name in COLUMNS]:
        raise TableError(
            "the columns of the ids must not be called like those of the result, "
            f"{', '.join(COLUMNS)}; got {', '.join(taken)}. Rename them."
        )


def build_table(
    names: tuple[str, str], ids: tuple[np.ndarray, np.ndarray], *columns: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the columns of `Links` in order."""
    values: tuple[Any, ...] = (*ids, *columns)
    return dict(zip((*names, *COLUMNS), values, strict=True))
