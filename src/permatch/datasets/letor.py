"""Judged lists in the LETOR format, read at once or in blocks.

    grade qid:ID 1:value 2:value ... # docid = ID

Omitted features are 0; features may be in any order.  SVMrank and XGBoost files with
``qid`` have this format too; files of LightGBM leave out ``qid:ID``.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from permatch._files import Gauge
from permatch._types import FloatArray, IntArray
from permatch._validation import check_count
from permatch.datasets.letor_line import LineForm
from permatch.datasets.letor_rows import (
    BYTE_ORDER_MARK,
    Block,
    damage_reported,
    join_blocks,
    join_documents,
    join_queries,
    open_bytes,
    read_blocks,
)
from permatch.datasets.ranking_data import RankingData, as_ids
from permatch.errors import InvalidOptionError, LetorFileError
from permatch.queries import check_sizes


def read_letor(
    path: str | os.PathLike[str],
    *,
    group: Any = None,
    zero_based: bool = False,
    n_features: int | None = None,
    dtype: Any = np.float64,
    max_bytes: int | None = None,
) -> RankingData:
    r"""Read a file of judged lists in the LETOR format.

    Parameters
    ----------
    path : path
        The file, plain or gzip.
    group : array of shape (q,), optional
        The number of rows of each query, where the lines do not name their query.
    zero_based : bool
        Whether features are numbered from 0, as scikit-learn writes them.
    n_features : int, optional
        Number of features; default: the highest index in the file.  A file with a higher
        index is refused.
    dtype : {float64, float32}
        The type of the features.
    max_bytes : int, optional
        Limit on the uncompressed text and on the memory of the features, in bytes.
        Default: 16 GiB of text, 16 MiB per line, and for the features 1 GiB or 256 times
        those in the file.

    Returns
    -------
    RankingData
        Features, grades, query and document ids.

    Raises
    ------
    LetorFileError
        If a line is malformed, or the file is empty; the message names file and line.

    Notes
    -----
    Reads about 100 MB of text per second, in about twice the memory of the result.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "train.txt")
    ...     _ = path.write_text("2 qid:7 1:0.5 3:1 #docid = a\n0 qid:7 2:4 #docid = b\n")
    ...     data = read_letor(path)
    >>> data.X
    array([[0.5, 0. , 1. ],
           [0. , 4. , 0. ]])
    >>> data.y, data.qid, data.doc_ids.tolist()
    (array([2, 0]), array([7, 7]), ['a', 'b'])
    """
    kind = _check_dtype(dtype)
    n_features = _check_width(n_features)
    largest = float(np.finfo(kind).max)
    form = _line_form(group, zero_based, is_sorted=False)
    blocks = list(read_blocks(path, n_features, largest, form=form, max_bytes=max_bytes))
    return _gather(blocks, n_features, kind, path, max_bytes)


def iterate_letor(
    path: str | os.PathLike[str],
    n_documents: int = 50_000,
    *,
    group: Any = None,
    zero_based: bool = False,
    n_features: int | None = None,
    dtype: Any = np.float64,
    max_bytes: int | None = None,
) -> Iterator[RankingData]:
    r"""Read a file of judged lists in blocks of whole queries, in bounded memory.

    Parameters
    ----------
    path : path
        The file, plain or gzip.
    n_documents : int
        Maximum number of documents per block; a longer query is a block of its own.
    group, zero_based
        As in `read_letor`.
    n_features : int, optional
        Number of features.  Give that of the model: by default the first block decides, and
        more features in later blocks are refused.
    dtype : {float64, float32}
        The type of the features.
    max_bytes : int, optional
        Limit on the uncompressed text and on the memory of a block, in bytes; default: as
        in `read_letor`.

    Yields
    ------
    RankingData
        Consecutive queries.

    Raises
    ------
    LetorFileError
        As `read_letor`; and if a query comes back after another one.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "big.txt")
    ...     _ = path.write_text("1 qid:7 1:0.5\n0 qid:7 2:4\n2 qid:9 1:3\n")
    ...     for block in iterate_letor(path, 2, n_features=2):
    ...         block.qid.tolist()
    [7, 7]
    [9]
    """
    n_documents = check_count(n_documents, "n_documents", 1)
    kind = _check_dtype(dtype)
    n_features = _check_width(n_features)
    largest = float(np.finfo(kind).max)
    form = _line_form(group, zero_based, is_sorted=True)
    held: list[Block] = []
    for block in read_blocks(
        path, n_features, largest, form=form, first_decides=True, max_bytes=max_bytes
    ):
        held.append(block)
        n_features = block.width if n_features is None else n_features
        if sum(part.n_rows for part in held) <= n_documents:
            continue
        whole = join_blocks(held)
        first = 0
        while end := _block_end(whole.starts, first, whole.n_rows, n_documents):
            yield _gather([whole.rows(first, end)], n_features, kind, path, max_bytes)
            first = end
        held = [whole.rows(first, whole.n_rows)]
    yield _gather(held, n_features, kind, path, max_bytes)


def read_scores(
    path: str | os.PathLike[str], *, max_bytes: int | None = None
) -> FloatArray:
    r"""Read the scores of documents, one number per line.

    Parameters
    ----------
    path : path
        The file, plain or gzip, with one line per scored document.
    max_bytes : int, optional
        Limit on the uncompressed text, in bytes.  Default: 16 GiB, and 16 MiB per line.

    Returns
    -------
    ndarray of shape (n,)
        The scores.

    Raises
    ------
    LetorFileError
        If a line is not a finite number; the message names it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "scores.txt")
    ...     _ = path.write_text("0.5\n-1.25\n")
    ...     read_scores(path)
    array([ 0.5 , -1.25])
    """
    gauge = Gauge(str(path), LetorFileError, max_bytes)
    found: list[FloatArray] = []
    n_lines = 0
    with open_bytes(path) as (file, _), damage_reported(str(path)):
        for text in _trimmed(gauge.pieces(file)):
            scores = _parse_scores(text, n_lines, str(path))
            n_lines += len(scores)
            found.append(scores)
    return np.concatenate(found)


def _trimmed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield pieces of whole lines without a byte order mark and blank lines at the end."""
    blanks = b""
    is_first = True
    for piece in pieces:
        text = blanks + (piece.removeprefix(BYTE_ORDER_MARK) if is_first else piece)
        kept = text.rstrip()
        if kept:
            # Pieces are parted at the end of a line, which is left out.
            yield kept if is_first else kept.partition(b"\n")[2]
            is_first = False
        blanks = text[len(kept) :]
    if is_first:
        yield b""


def _parse_scores(text: bytes, n_before: int, name: str) -> FloatArray:
    lines = text.split(b"\n")
    scores = np.full(len(lines), np.nan)
    with suppress(ValueError):
        for k, line in enumerate(lines):
            scores[k] = np.nan if b"_" in line else float(line)  # Python reads 1_0
    is_wrong = ~np.isfinite(scores)
    if is_wrong.any():
        first = int(np.argmax(is_wrong))
        got = lines[first].strip().decode("utf-8", "replace")[:40]
        raise LetorFileError(
            f"{name}, line {n_before + first + 1}: a file of scores must hold one finite "
            f"number per line; got {got!r}. Write one line per document, in file order."
        )
    return scores


def _block_end(starts: IntArray, first: int, n_rows: int, n_documents: int) -> int:
    """Return where a block that begins at row `first` ends, 0 if more is to be read."""
    later = starts[np.searchsorted(starts, first, side="right") :]
    if n_rows - first <= n_documents or not len(later):
        return 0
    n_fitting = int(np.searchsorted(later, first + n_documents, side="right"))
    return int(later[max(n_fitting - 1, 0)])


def check_memory(
    shape: tuple[int, int],
    kind: Any,
    n_entries: int,
    path: str | os.PathLike[str],
    max_bytes: int | None,
) -> None:
    """Refuse features that would take far more memory than those in the file do."""
    Gauge(str(path), LetorFileError, max_bytes).check_arrays(
        shape[0] * shape[1] * np.dtype(kind).itemsize,
        8 * n_entries,
        f"{shape[0]} documents of {shape[1]} features ({n_entries} values in the file)",
    )


def _gather(
    blocks: list[Block],
    n_features: int | None,
    kind: Any,
    path: str | os.PathLike[str],
    max_bytes: int | None,
) -> RankingData:
    """Return the rows of consecutive blocks; the list is emptied to save memory."""
    if n_features is None:
        n_features = max(block.width for block in blocks)
    if n_features == 0:
        raise LetorFileError(
            f"{path}: at least one feature such as 1:0.5 is required; no line has any. "
            "Check that this is the right file."
        )
    queries, starts = join_queries(blocks)
    documents = join_documents(blocks)
    grades = np.concatenate([block.grades for block in blocks])
    shape, n_entries = (len(grades), n_features), sum(len(b.values) for b in blocks)
    check_memory(shape, kind, n_entries, path, max_bytes)
    features = np.zeros(shape, dtype=kind)
    first = 0
    while blocks:
        block = blocks.pop(0)
        block.fill(features[first : first + block.n_rows])
        first += block.n_rows
    lengths = np.diff(np.append(starts, len(grades)))
    return RankingData(
        X=features,
        y=grades,
        qid=np.repeat(as_ids(np.array(queries)), lengths),
        doc_ids=None if documents is None else np.array(documents),
        path=Path(path),
    )


def _line_form(group: Any, zero_based: bool, *, is_sorted: bool) -> LineForm:
    sizes = None if group is None else check_sizes(group)
    return LineForm(sizes, 0 if zero_based else 1, is_sorted)


def _check_dtype(dtype: Any) -> Any:
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = None
    if kind not in (np.float64, np.float32):
        raise InvalidOptionError(f"dtype must be float64 or float32; got {dtype!r}.")
    return kind


def _check_width(n_features: int | None) -> int | None:
    return None if n_features is None else check_count(n_features, "n_features", 1)
