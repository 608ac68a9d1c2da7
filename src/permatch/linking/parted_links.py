"""Decided links in parts: more of them than fit into memory."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from permatch._optional import require
from permatch._shards import Shards
from permatch._types import FloatArray
from permatch.decoding.bayes import LinkCosts
from permatch.distributed.disk import DiskShards
from permatch.linking.ledger import Ledger, new_folder
from permatch.linking.links import Links, check_n
from permatch.linking.report import Figures, in_one_line, summary
from permatch.linking.review import largest_first
from permatch.linking.survey import ROW


@dataclass(frozen=True, eq=False, repr=False)
class PartedLinks:
    """Links in parts: what `permatch.link` returns of tables larger than memory.

    Every part is a table as in `Links`, with a column more: ``row``, the number of the row
    in the input, from 0.  Rows of records that compete for partners are in the same part.

    Attributes
    ----------
    table : pyarrow Dataset or Dask DataFrame
        All rows, part by part: the files written, or held by Dask.
    figures : Figures
        What `summary` says, in numbers.
    offset : float
        The constant added to the log-odds of all pairs.
    costs : LinkCosts
        What the decisions were made by.
    shards : Shards
        The parts.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import pyarrow, pyarrow.parquet
    >>> import permatch as pm
    >>> pairs = {"left": ["a", "a", "b"], "right": ["x", "y", "y"]}
    >>> pairs = pyarrow.table(pairs | {"probability": [0.8, 0.3, 0.6]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     source = pathlib.Path(folder, "pairs.parquet")
    ...     pyarrow.parquet.write_table(pairs, source)
    ...     links = pm.link(source, out=pathlib.Path(folder, "links"))
    ...     print(len(links), links.figures.n_linked)
    ...     links.to_links()["decision"].tolist()
    3 2
    ['link', 'no link', 'link']
    """

    table: Any
    figures: Figures
    offset: float
    costs: LinkCosts
    shards: Shards
    is_one_to_one: bool = True

    def __len__(self) -> int:
        return self.figures.n_pairs

    @property
    def expected_links(self) -> float:
        """The expected number of links: the sum of all probabilities."""
        return self.figures.expected

    @property
    def is_exact(self) -> bool:
        """Whether all probabilities are exact up to rounding."""
        return self.figures.n_exact == self.figures.n_pairs

    def summary(self) -> str:
        """Return what was found, in words."""
        widths = np.zeros(0) if self.is_exact else self.shards.map(_widths)
        return summary(self.figures, self.offset, np.concatenate([np.zeros(0), *widths]))

    def review(self, n: int = 100) -> Links:
        """Return the pairs that a person should look at first: see `Links.review`.

        Parameters
        ----------
        n : int
            How many pairs.

        Returns
        -------
        Links
            With the columns ``row`` and ``gain``, the largest gain first.
        """
        found = _joined(self.shards.map(_review, check_n(n), self.is_one_to_one))
        return found[largest_first(found["gain"], found[ROW])[:n]]

    def to_links(self) -> Links:
        """Return all rows in memory, in the order of the input."""
        found = _joined(self.shards.map(_as_they_are))
        table = dict(found[np.argsort(found[ROW])].table)
        table.pop(ROW)
        return replace(found, table=table)

    def write(self, folder: str | Path) -> None:
        """Write every part to a Parquet file in a folder.

        Parameters
        ----------
        folder : path
            A new or empty folder; with Dask, one that all workers see.
        """
        self.shards.map(_write, new_folder(folder))

    def __repr__(self) -> str:
        """Return a summary in one line."""
        return in_one_line(self.figures)


def links_on_disk(ledger: Ledger, costs: LinkCosts, *, is_one_to_one: bool) -> PartedLinks:
    """Return the links that were written to a folder."""
    dataset = require("pyarrow.dataset", "tables")
    files = ledger.files()
    shards = DiskShards([partial(Links.read, file) for file in files], [None] * len(files))
    return PartedLinks(
        dataset.dataset(files, format="parquet"),
        ledger.figures(),
        ledger.state["offset"],
        costs,
        shards,
        is_one_to_one,
    )


def _widths(links: Links) -> FloatArray:
    return links.widths


def _review(links: Links, n: int | None, is_one_to_one: bool) -> Links:
    return links._review(n, is_one_to_one=is_one_to_one)


def _as_they_are(links: Links) -> Links:
    return links


def _write(links: Links, folder: Path) -> None:
    links.write(folder / f"part-{int(links[ROW][0]):012d}.parquet")


def _joined(parts: list[Links]) -> Links:
    """Return the rows of several tables in one."""
    table = {
        name: np.concatenate([part[name] for part in parts]) for name in parts[0].columns
    }
    return Links(table, parts[0].offset, parts[0].costs)
