"""DBLP and ACM: two bibliographies of the same venues, with the true links between them.

Records are split by entity: a linked pair stays together, so no record, and no paper, is in
both halves.  A share of the DBLP records is dropped, so that many of the ACM records have
no partner.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from permatch._types import BoolArray, FloatArray, IntArray
from permatch.errors import InvalidOptionError, TableError
from permatch.features import Comparison, candidate_pairs, compare_pairs
from reproduce.experiments.folders import find_folder as find

FOLDER = "dblp_acm"
FILES = ("acm.csv", "dblp.csv", "gt.csv")
COLUMNS = ("id", "title", "authors", "venue", "year")
FEATURES = (
    "similarity",  # of the titles
    "authors_tfidf",
    "authors_missing",
    "venue_tfidf",
    "year_difference",
)

#: What a venue is called in the two bibliographies.
VENUES = {
    "SIGMOD Conference": "International Conference on Management of Data",
    "VLDB": "Very Large Data Bases",
    "SIGMOD Record": "ACM SIGMOD Record",
    "VLDB J.": (
        "The VLDB Journal &mdash; The International Journal on Very Large Data Bases"
    ),
    "ACM Trans. Database Syst.": "ACM Transactions on Database Systems (TODS)",
}

_SEPARATOR = "%"

Table = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Candidates:
    """Candidate pairs of two sets of records, with features, and whether they are links.

    Attributes
    ----------
    left, right : ndarray of shape (n,)
        Record numbers in the first and the second bibliography.
    features : ndarray of shape (n, d)
        See `FEATURES`.
    is_link : ndarray of bool, shape (n,)
        The truth.
    n_links : int
        True links between the records, candidates or not.
    """

    left: IntArray
    right: IntArray
    features: FloatArray
    is_link: BoolArray
    n_links: int

    def __len__(self) -> int:
        return len(self.left)

    def table(self, **more: np.ndarray) -> Table:
        """Return the pairs as a table, with more columns if wanted."""
        named = dict(zip(FEATURES, self.features.T, strict=True))
        return {"acm": self.left, "dblp": self.right, **named, **more}


@dataclass(frozen=True, eq=False)
class Bibliographies:
    """The two tables, and the partner of every record of the first one.

    Attributes
    ----------
    acm, dblp : dict of ndarray
        Columns of text.
    partner : ndarray of shape (n_acm,)
        Record number in `dblp`, -1 if there is none.
    """

    acm: Table
    dblp: Table
    partner: IntArray

    @property
    def digest(self) -> str:
        """Names the content."""
        content = hashlib.sha256(self.partner.tobytes())
        for table in (self.acm, self.dblp):
            for name in COLUMNS:
                content.update("\n".join(table[name].tolist()).encode())
        return content.hexdigest()[:12]

    def halves(self, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
        """Return 0 or 1 for every record of both tables, the same for a linked pair."""
        first = rng.integers(0, 2, len(self.partner))
        second = rng.integers(0, 2, len(self.dblp["id"]))
        is_linked = self.partner >= 0
        second[self.partner[is_linked]] = first[is_linked]
        return first, second

    def of_venue(self, name: str) -> tuple[IntArray, IntArray]:
        """Return 1 for the records of a venue, under its name in `dblp`, and 0 for others.

        A linked pair is where its second record is.
        """
        second = (self.dblp["venue"] == name).astype(np.intp)
        first = (self.acm["venue"] == VENUES[name]).astype(np.intp)
        is_linked = self.partner >= 0
        first[is_linked] = second[self.partner[is_linked]]
        return first, second

    def candidates(
        self, of_acm: IntArray, of_dblp: IntArray, n_neighbors: int
    ) -> Candidates:
        """Return the candidate pairs of some records, by the similarity of titles."""
        acm, dblp = _take(self.acm, of_acm), _take(self.dblp, of_dblp)
        pairs = candidate_pairs(acm, dblp, on="title", n_neighbors=n_neighbors)
        pairs = compare_pairs(
            pairs,
            acm,
            dblp,
            {
                "authors": "tfidf",
                "venue": "tfidf",
                "year": Comparison("difference", cap=5.0),
            },
        )
        left, right = of_acm[pairs["left"]], of_dblp[pairs["right"]]
        return Candidates(
            left,
            right,
            np.column_stack([pairs[name] for name in FEATURES]),
            self.partner[left] == right,
            int(np.isin(self.partner[of_acm], of_dblp).sum()),
        )


def load_bibliographies(data: str | os.PathLike[str] | None = None) -> Bibliographies:
    """Read both tables and the links.

    Parameters
    ----------
    data : path, optional
        Where to look; see `find_folder`.

    Returns
    -------
    Bibliographies
        All records.
    """
    folder = find_folder(data)
    acm, dblp = (_read(folder / name, COLUMNS) for name in FILES[:2])
    links = _read(folder / FILES[2], ("dblp", "acm"))
    rows = {name: k for k, name in enumerate(acm["id"].tolist())}
    others = {name: k for k, name in enumerate(dblp["id"].tolist())}
    partner = np.full(len(rows), -1)
    for right, left in zip(links["dblp"].tolist(), links["acm"].tolist(), strict=True):
        if left not in rows or right not in others:
            raise TableError(
                f"{folder / FILES[2]} must link ids of {FILES[1]} to ids of {FILES[0]}; "
                f"got {right!r} and {left!r}. Copy the folder again."
            )
        partner[rows[left]] = others[right]
    return Bibliographies(acm, dblp, partner)


def find_folder(data: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder with the tables."""
    return find("the DBLP-ACM data", FOLDER, FILES, data)


def _take(table: Mapping[str, np.ndarray], rows: IntArray) -> dict[str, Any]:
    return {name: values[rows] for name, values in table.items()}


def _read(path: Path, columns: tuple[str, ...]) -> Table:
    """Read a table of text; some records of the ACM lost their authors and their quotes."""
    records = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
        cells = line.split(_SEPARATOR)
        if len(cells) == 8 and len(columns) == 5:
            cells = [cells[0], cells[1], "", cells[2].strip('"'), cells[3]]
        if len(cells) != len(columns):
            raise TableError(
                f"{path} must have {len(columns)} cells per line, separated by "
                f"{_SEPARATOR!r}; line {number + 1} has {len(cells)}. Copy it again."
            )
        if number:
            records.append(cells)
    if not records:
        raise InvalidOptionError(f"{path} has no records. Copy it again.")
    return dict(zip(columns, np.array(records, dtype=object).T, strict=True))
