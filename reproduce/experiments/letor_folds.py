"""The folds of a LETOR data set, found, scaled within queries, and named by content.

The three parts of a fold keep to themselves: features are scaled by the minimum and maximum
within every query, so nothing of another query, let alone of the test part, enters.
"""

import hashlib
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch.datasets import RankingData, load_letor
from permatch.errors import LetorFileError
from permatch.metrics import NDCG, evaluate
from permatch.queries import query_rows

#: The environment variable that says where data is kept.
DATA_VARIABLE = "PERMATCH_DATA"

#: The collections of LETOR 2.0 that the paper used.
DATASETS = ("OHSUMED", "TD2003", "TD2004")

#: What rankings are measured by, with the discount of the paper and that of LETOR's script,
#: and the positions it is cut at.
PAPER, LETOR = NDCG(), NDCG(discount="letor")
CUTS = tuple(range(1, 11))


@dataclass(frozen=True, eq=False)
class Lists:
    """The judged lists of one part of a fold.

    Attributes
    ----------
    X : ndarray of shape (n, d)
        Features, from 0 to 1 within every query.
    y : ndarray of shape (n,)
        Grades.
    qid : ndarray of shape (n,)
        The query of every document.
    """

    X: FloatArray
    y: IntArray
    qid: np.ndarray

    @cached_property
    def starts(self) -> IntArray:
        """Query k has the rows ``starts[k]:starts[k + 1]``, (q + 1,)."""
        return query_rows(self.qid, None, len(self.y)).starts

    @property
    def ids(self) -> list[Any]:
        """The id of every query, as plain numbers or text."""
        return self.qid[self.starts[:-1]].tolist()

    def ndcg(self, scores: FloatArray, measure: NDCG = PAPER) -> FloatArray:
        """Return NDCG@1 to NDCG@10 of every query, (q, 10)."""
        measures = [measure @ k for k in CUTS]
        values = evaluate(measures, self.y, scores, self.qid, per_query=True)
        return np.column_stack(list(values.values()))


@dataclass(frozen=True, eq=False)
class Fold:
    """One way to part the queries.

    Attributes
    ----------
    number : int
        The fold's number, from 1.
    train, validation, test : Lists
        What to learn from, what to choose alpha by, what to report.
    """

    number: int
    train: Lists
    validation: Lists
    test: Lists


@dataclass(frozen=True, eq=False)
class FoldSet:
    """A data set in folds.

    Attributes
    ----------
    name : str
        What it is called.
    folder : Path
        Where it was found.
    folds : list of Fold
        By number.
    n_grades : int
        Grades that occur, R in the paper.
    digest : str
        Names the content: any other number in any file makes another.
    """

    name: str
    folder: Path
    folds: list[Fold]
    n_grades: int
    digest: str

    @property
    def n_queries(self) -> int:
        """Number of test queries in all folds."""
        return sum(len(fold.test.starts) - 1 for fold in self.folds)

    def fold(self, number: int) -> Fold:
        """Return the fold of this number."""
        return next(fold for fold in self.folds if fold.number == number)


def find_folder(name: str, data: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of a data set, upper or lower case.

    Parameters
    ----------
    name : str
        Such as ``"OHSUMED"``.
    data : path, optional
        A folder that holds the data set's, itself or in a folder ``letor``, or the data
        set's own; None looks where the environment variable ``PERMATCH_DATA`` says.

    Returns
    -------
    Path
        The folder with the folds.

    Raises
    ------
    LetorFileError
        If it is missing; the message lists the folders searched.
    """
    given = os.environ.get(DATA_VARIABLE) if data is None else data
    wanted = f"the LETOR folder {name} with Fold1 to Fold5 is required"
    if not given:
        raise LetorFileError(
            f"{wanted}, but no folder was given. Use --data DIR or set {DATA_VARIABLE}."
        )
    root = Path(given)
    source = DATA_VARIABLE if data is None else "--data"
    if not root.is_dir():
        raise LetorFileError(
            f"{wanted}, but {root} (from {source}) is not a folder. Set {source} to the "
            f"folder that contains {name}."
        )
    if root.resolve().name.lower() == name.lower():
        return root
    for parent in (root, *_named(root, "letor")):
        found = _named(parent, name)
        if found:
            return found[0]
    raise LetorFileError(
        f"{wanted}, but found neither {root / name} nor {root / 'letor' / name} (in any "
        f"case). Set {source} to the folder that contains {name}."
    )


def load_folds(name: str, data: str | os.PathLike[str] | None = None) -> FoldSet:
    """Read a data set and scale its features within every query.

    Parameters
    ----------
    name : str
        Such as ``"OHSUMED"``; upper or lower case.
    data : path, optional
        Where to look; see `find_folder`.

    Returns
    -------
    FoldSet
        All folds.

    Notes
    -----
    A feature that is constant within a query is 0 there.
    """
    folder = find_folder(name, data)
    found = load_letor(folder)
    digest = hashlib.sha256()
    folds = []
    for fold in found.folds:
        for part in (fold.train, fold.validation, fold.test):
            for array in (part.X, part.y, query_rows(part.qid, None, len(part.y)).starts):
                digest.update(np.ascontiguousarray(array).tobytes())
        parts = [_scaled(part) for part in (fold.train, fold.validation, fold.test)]
        folds.append(Fold(fold.number, *parts))
    grades = np.unique(np.concatenate([fold.train.y for fold in folds]))
    known = {known.lower(): known for known in DATASETS}
    return FoldSet(
        name=known.get(name.lower(), name),
        folder=folder,
        folds=folds,
        n_grades=len(grades),
        digest=digest.hexdigest()[:12],
    )


def _scaled(part: RankingData) -> Lists:
    from permatch.estimators.query_scaler import scale_within_queries

    starts = query_rows(part.qid, None, len(part.y)).starts
    return Lists(scale_within_queries(part.X, starts, "minmax"), part.y, part.qid)


def _named(parent: Path, name: str) -> list[Path]:
    """Return the folders of this name, whatever its case."""
    return sorted(
        path
        for path in parent.iterdir()
        if path.name.lower() == name.lower() and path.is_dir()
    )
