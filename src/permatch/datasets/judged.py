"""Judged lists in whatever form people have them."""

import gzip
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from permatch._files import Gauge
from permatch._tables import check_feature_names, is_table
from permatch._types import IntArray
from permatch.datasets.judged_tables import JudgedColumns, open_table
from permatch.datasets.letor import read_letor
from permatch.datasets.letor_rows import BYTE_ORDER_MARK
from permatch.datasets.ranking_data import RankingData, query_ids
from permatch.errors import InvalidOptionError, InvalidQueriesError, LetorFileError
from permatch.queries import check_documents, check_grades, check_sizes, query_rows

Form = Literal["letor", "lightgbm", "table"]

# Of an unpacked file, what is looked at to tell its form.
_BEGINNING = 1 << 16
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def read_judged(
    source: Any,
    y: Any = None,
    qid: Any = None,
    group: Any = None,
    *,
    feature_names: Sequence[str] | None = None,
    document: str | None = None,
    zero_based: bool = False,
    n_features: int | None = None,
    max_bytes: int | None = None,
) -> RankingData:
    r"""Read judged lists from a file, a data frame or arrays.

    Files are told apart by their contents:

    - LETOR and SVMlight text, ``grade qid:ID 1:value ...``;
    - the same without ``qid:ID``, as LightGBM has it: the number of rows of each query is
      given by `group`, or by a side file, the path plus ``.query``;
    - CSV with a header, separated by commas, semicolons or tabs, and Parquet.

    Text may be packed by gzip.  Documents of a query need not be together, except where
    queries are given by numbers of rows.

    Parameters
    ----------
    source : path, DataFrame or array of shape (n, d)
        The file, or the data.
    y : str or array of shape (n,), optional
        Of a table: the column of grades; default: ``"grade"``.  Of an array: the grades.
    qid : str or array of shape (n,), optional
        Of a table: the column of query ids; default: ``"qid"``.  Of an array: the ids.
    group : array of shape (q,) or path, optional
        Instead of `qid`: the number of consecutive rows of each query, or a file with one
        number per line.
    feature_names : sequence of str, optional
        Of a table: the columns to use; default: all others that hold numbers.  Of an array
        or LETOR text: a name per feature.
    document : str, optional
        Of a table: the column of document ids.
    zero_based : bool
        Of SVMlight text: whether features are numbered from 0, as scikit-learn writes them.
    n_features : int, optional
        Of LETOR text: as in `read_letor`.
    max_bytes : int, optional
        Limit on the uncompressed text and on the memory of the features, in bytes.

    Returns
    -------
    RankingData
        Features, grades and queries, in the order of the rows.  ``group`` has the queries
        as numbers of rows, ``to_pandas()`` and ``write(path)`` turn it into other forms.

    Raises
    ------
    LetorFileError, TableError
        If a file is malformed; the message names the line.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "train.csv")
    ...     _ = path.write_text("qid,grade,price,age\n7,2,0.5,3\n9,0,4,1\n7,1,2,2\n")
    ...     data = read_judged(path)
    ...     data.sorted().write(Path(folder, "train.txt"), "lightgbm")
    ...     print(Path(folder, "train.txt.query").read_text())
    ...     same = read_judged(Path(folder, "train.txt"))
    2
    1
    >>> data.qid, same.qid
    (array([7, 9, 7]), array([1, 1, 2]))
    """
    if is_table(source):
        return _read_table(source, y, qid, group, feature_names, document, max_bytes)
    if not isinstance(source, str | os.PathLike):
        return _read_arrays(source, y, qid, group, feature_names)
    form = find_form(source)
    if form == "table":
        return _read_table(source, y, qid, group, feature_names, document, max_bytes)
    for name, value in (("y", y), ("qid", qid), ("document", document)):
        if value is not None:
            raise InvalidOptionError(
                f"{source} is LETOR text, which says itself which are the grades and "
                f"queries; got {name}={value!r}. Leave it out."
            )
    sizes = sizes_of(source, form, group)
    data = read_letor(
        source,
        group=sizes,
        zero_based=zero_based,
        n_features=n_features,
        max_bytes=max_bytes,
    )
    names = check_feature_names(feature_names, data.n_features)
    return replace(data, feature_names=names)


def find_form(path: str | os.PathLike[str]) -> Form:
    """Tell in what form a file of judged documents is, from how it begins."""
    with open(path, "rb") as file:
        magic = file.read(4)
        file.seek(0)
        if magic == b"PAR1":
            return "table"
        try:
            packed = magic[:2] == b"\x1f\x8b"
            text = (gzip.GzipFile(fileobj=file) if packed else file).read(_BEGINNING)
        except (OSError, EOFError):  # damaged; the reader says how
            text = b""
    lines = text.removeprefix(BYTE_ORDER_MARK).splitlines()
    words = next(filter(None, (line.split(b"#")[0].split() for line in lines)), [])
    is_named = any(word[:4].lower() == b"qid:" for word in words)
    if not words and {".csv", ".tsv"} & {*map(str.lower, Path(str(path)).suffixes)}:
        return "table"
    if not words or is_named:
        return "letor"
    if _NUMBER.fullmatch(words[0]) and all(b":" in word for word in words[1:3]):
        return "lightgbm"
    is_delimited = any(mark in lines[0] for mark in (b",", b";", b"\t"))
    return "table" if is_delimited else "letor"


def sizes_of(source: Any, form: Form, group: Any = None) -> IntArray | None:
    """Return the numbers of rows of queries, given or from the side file of a path."""
    if isinstance(group, str | os.PathLike):
        return read_sizes(group)
    if group is not None or form == "letor":
        return group
    side = side_file(source)
    return None if side is None else read_sizes(side)


def side_file(source: Any) -> Path | None:
    """Return the file beside a file that has the number of rows of each query, if any.

    Of a pipe that was copied to disk it is beside the pipe, by whose name the copy goes.
    """
    if not isinstance(source, str | os.PathLike):
        return None
    names = [f"{source}.query", f"{str(source).removesuffix('.gz')}.query"]
    return next((Path(name) for name in names if Path(name).is_file()), None)


def read_sizes(path: str | os.PathLike[str]) -> IntArray:
    """Read the number of rows of each query, one per line, plain or gzip."""
    with open(path, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        opened: Any = gzip.GzipFile(fileobj=file) if packed else file
        words = Gauge(str(path), LetorFileError).whole(opened).split()
    try:
        sizes = np.array([int(word) for word in words], dtype=np.intp)
    except (ValueError, OverflowError):
        sizes = np.zeros(1, dtype=np.intp)
    if not len(sizes) or (sizes < 1).any():
        got = next((word for word in words if not word.isdigit() or int(word) < 1), b"")
        raise LetorFileError(
            f"{path} must hold the number of rows of each query, whole numbers of at "
            f"least 1, one per line; got {got.decode('utf-8', 'replace')[:40]!r}. Write "
            "them in the order of the documents."
        )
    return sizes


def _read_table(
    source: Any,
    y: Any,
    qid: Any,
    group: Any,
    feature_names: Any,
    document: str | None,
    max_bytes: int | None,
) -> RankingData:
    if qid is not None and group is not None:
        raise InvalidQueriesError(
            "queries must be given either by qid or by group; got both. Leave one out."
        )
    for name, value in (("y", y), ("qid", qid)):
        if value is not None and not isinstance(value, str):
            raise InvalidQueriesError(
                f"for a table, {name} must be the name of a column; got "
                f"{type(value).__name__}. Put the values into a column of the table."
            )
    chosen = JudgedColumns(y or "grade", qid or "qid", document, feature_names)
    return read_table(source, chosen, group, max_bytes)


def read_table(
    source: Any, columns: JudgedColumns, group: Any = None, max_bytes: int | None = None
) -> RankingData:
    """Read a whole table, whose queries may be in a side file."""
    sizes = sizes_of(source, "table", group)
    if sizes is None:
        with open_table(source, columns, max_bytes) as table:
            return table.whole()
    sizes = check_sizes(sizes)
    wanted = tuple(role for role in columns.wanted if role != "qid")
    with open_table(source, replace(columns, wanted=wanted), max_bytes) as table:
        data = table.whole()
        if group is None and columns.qid in table.header:
            return data
    check_total(sizes, data.n_documents, source)
    return replace(data, qid=query_ids(sizes))


def check_total(sizes: IntArray, n_documents: int, name: Any) -> None:
    """Refuse numbers of rows of queries that are not those of a table."""
    if sizes.sum() != n_documents:
        raise LetorFileError(
            f"{name}: the numbers of rows of the queries must add up to the {n_documents} "
            f"documents; {len(sizes)} of them add up to {sizes.sum()}. Use the sizes of "
            "exactly this file."
        )


def _read_arrays(X: Any, y: Any, qid: Any, group: Any, feature_names: Any) -> RankingData:
    for name, value in (("y", y), ("qid", qid)):
        if isinstance(value, str):
            raise InvalidQueriesError(
                f"{name}={value!r} names a column, but an array has none; got "
                f"{type(X).__name__}. Pass a DataFrame, or {name} as an array."
            )
    if y is None:
        raise InvalidQueriesError(
            "grades must be given beside an array; got none. Pass y, one per document."
        )
    if isinstance(group, str | os.PathLike):
        group = read_sizes(group)
    documents = check_documents(X)
    n_documents = documents.shape[0]
    rows = query_rows(qid, group, n_documents)
    ids = rows.scatter(rows.ids[rows.owners])
    names = check_feature_names(feature_names, documents.shape[1])
    return RankingData(documents, check_grades(y, n_documents), ids, feature_names=names)
