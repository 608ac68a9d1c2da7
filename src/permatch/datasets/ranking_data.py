"""Judged lists in memory, and the numbers of rows of their queries."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from permatch._optional import require
from permatch._types import IntArray
from permatch.errors import InvalidQueriesError
from permatch.queries import check_ids, check_sizes, query_rows


@dataclass(frozen=True, eq=False, repr=False)
class RankingData:
    r"""Documents with features, grades and queries, in file order.

    Attributes
    ----------
    X : ndarray of shape (n, d)
        One row of features per document.
    y : ndarray of shape (n,)
        Grades, at least 0.
    qid : ndarray of shape (n,)
        The query of every document, in any order: integers if all ids are, text otherwise.
    doc_ids : ndarray of shape (n,) or None
        Document ids, empty where there is none; None if no document has one.
    path : Path or None
        The file, if the data come from one.
    feature_names : list of str or None
        Names of the features, if known.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from permatch.datasets import read_letor
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "train.txt")
    ...     _ = path.write_text("1 qid:7 1:0.5\n0 qid:7 2:4\n2 qid:9 1:3\n")
    ...     data = read_letor(path)
    >>> data.n_documents, data.n_features, data.n_queries, data.group
    (3, 2, 2, array([2, 1]))
    """

    X: Any
    y: IntArray
    qid: np.ndarray
    doc_ids: np.ndarray | None = None
    path: Path | None = None
    feature_names: list[str] | None = None

    @property
    def n_documents(self) -> int:
        """Number of documents, n."""
        return len(self.y)

    @property
    def n_features(self) -> int:
        """Number of features, d."""
        return self.X.shape[1]

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(np.unique(self.qid))

    @property
    def group(self) -> IntArray:
        """Number of rows of each query, (q,); documents must be sorted by query."""
        return group_sizes(self.qid)

    def sorted(self) -> "RankingData":
        """Return the same documents sorted by query, in the order of first rows.

        Returns
        -------
        RankingData
            The documents of a query keep their order.
        """
        order = query_rows(self.qid, None, self.n_documents).order
        if order is None:
            return self
        X = self.X.iloc[order] if hasattr(self.X, "iloc") else self.X[order]
        names = None if self.doc_ids is None else self.doc_ids[order]
        return replace(self, X=X, y=self.y[order], qid=self.qid[order], doc_ids=names)

    def to_pandas(self) -> Any:
        """Return a data frame with the columns ``qid``, ``grade`` and one per feature.

        Returns
        -------
        pandas.DataFrame
            With ``docid`` before the features if documents have ids.  Features without
            names are ``f1``, ``f2`` and so on.
        """
        pandas = require("pandas", "tables", what="to_pandas")
        return pandas.DataFrame(self.to_columns())

    def to_columns(self) -> dict[str, Any]:
        """Return the columns of a table: ``qid``, ``grade``, ids and features.

        Returns
        -------
        dict
            A column by its name, as `to_pandas` has them.
        """
        names = self.feature_names or [f"f{k + 1}" for k in range(self.n_features)]
        columns = {"qid": self.qid, "grade": self.y}
        if self.doc_ids is not None:
            columns["docid"] = self.doc_ids
        if clash := columns.keys() & set(names):
            raise InvalidQueriesError(
                "features must not be called like the columns of queries, grades and ids; "
                f"got {sorted(clash)[0]!r}. Rename the feature."
            )
        features = np.asarray(self.X)
        return columns | {name: features[:, k] for k, name in enumerate(names)}

    def write(self, path: str | os.PathLike[str], form: str | None = None) -> None:
        """Write the documents to a file that `read_judged` reads.

        Parameters
        ----------
        path : str or path
            An existing file is replaced, never left half-written.
        form : {"letor", "lightgbm", "csv", "parquet"}, optional
            "letor" names the query on every line; "lightgbm" writes the same without it
            and without document ids, and a side file, the path plus ``.query``, with the
            number of rows of each query.  Both are sorted by query.  Default: by the ending
            of the path, ``.csv``, ``.parquet`` or any other for "letor".
        """
        from permatch.datasets.judged_writing import write_judged

        write_judged(self, Path(path), form)

    def __repr__(self) -> str:
        where = "" if self.path is None else f", path={str(self.path)!r}"
        return (
            f"{type(self).__name__}(n_documents={self.n_documents}, "
            f"n_queries={self.n_queries}, n_features={self.n_features}{where})"
        )


def group_sizes(qid: Any) -> IntArray:
    """Return the number of rows of each query, as LightGBM wants them in `group`.

    Parameters
    ----------
    qid : array of shape (n,)
        The query of every document; documents of a query must be together.

    Returns
    -------
    ndarray of shape (q,)
        In the order of the queries.

    Examples
    --------
    >>> group_sizes(["a", "a", "b"])
    array([2, 1])
    """
    rows = query_rows(qid, None, len(qid))
    if rows.order is not None:
        ids = check_ids(qid, len(qid))
        changes = np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))
        _, first = np.unique(ids[changes], return_index=True)
        again = np.setdiff1d(np.arange(len(changes)), first)[0]
        raise InvalidQueriesError(
            "documents must be sorted by query to be counted by group sizes; query "
            f"{ids[changes[again]]} comes back in row {changes[again]}. Sort them: "
            "read_judged(X, y, qid).sorted()."
        )
    return np.diff(rows.starts)


def query_ids(group: Any) -> IntArray:
    """Return a query id per document, from the number of rows of each query.

    Parameters
    ----------
    group : array of shape (q,)
        Whole numbers of at least 1, as in LightGBM.

    Returns
    -------
    ndarray of shape (n,)
        Queries are numbered from 0.

    Examples
    --------
    >>> query_ids([2, 1])
    array([0, 0, 1])
    """
    sizes = check_sizes(group)
    return np.repeat(np.arange(len(sizes)), sizes)


def as_ids(ids: np.ndarray) -> np.ndarray:
    """Return ids as integers if that loses nothing, else as they are."""
    if ids.dtype.kind != "U":
        return ids
    names, codes = np.unique(ids, return_inverse=True)
    try:
        numbers = np.array([int(name) for name in names.tolist()], dtype=np.int64)
    except (ValueError, OverflowError):
        return ids
    is_same = all(str(n) == name for n, name in zip(numbers, names, strict=True))
    return numbers[codes] if is_same else ids
