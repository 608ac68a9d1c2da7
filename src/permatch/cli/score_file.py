"""Read a square score matrix, with or without labels, from a text or NumPy file."""

import csv
import io
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from permatch._types import FloatArray
from permatch.errors import InvalidGraphError, ScoreShapeError, ScoreTypeError

_NPY_MAGIC = b"\x93NUMPY"


@dataclass(frozen=True)
class ScoreFile:
    """A score matrix and the labels of its rows and columns, None where there are none."""

    name: str
    scores: FloatArray
    row_labels: list[str] | None = None
    column_labels: list[str] | None = None


def read_scores(source: str) -> ScoreFile:
    """Read the score matrix in the file `source`, or in standard input for ``-``.

    Raises
    ------
    OSError
        If the file cannot be read.
    InvalidGraphError
        If it does not hold one square matrix of numbers.
    """
    if source == "-":
        name, data = "standard input", sys.stdin.buffer.read()
    else:
        name, data = source, Path(source).read_bytes()
    if data.startswith(_NPY_MAGIC):
        return ScoreFile(name, _check_square(_load_npy(data, name), name))
    if Path(source).suffix == ".npy":
        raise InvalidGraphError(
            f"{name} must hold a NumPy array, since it ends in .npy, and does not. "
            "Write it with np.save, or rename it if it is text."
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as err:
        raise InvalidGraphError(
            f"{name} must be UTF-8 text or a NumPy .npy file; byte {err.start} is neither. "
            "Export the matrix as CSV."
        ) from err
    return _parse_table(_split(text, is_tsv=source.endswith(".tsv")), name)


def _load_npy(data: bytes, name: str) -> np.ndarray:
    try:
        return np.load(io.BytesIO(data), allow_pickle=False)
    except (ValueError, EOFError) as err:
        raise InvalidGraphError(
            f"{name} must hold an array of numbers; NumPy says: {err}. "
            "Write it with np.save(path, np.asarray(scores, dtype=float))."
        ) from err


def _split(text: str, *, is_tsv: bool) -> list[list[str]]:
    """Cut text into cells, skipping blank lines and those that start with ``#``."""
    lines = [
        line for line in text.splitlines() if line.strip(" ") and not line.startswith("#")
    ]
    first = lines[0] if lines else ""
    delimiter = "\t" if is_tsv else next((mark for mark in ";\t," if mark in first), None)
    if delimiter is None:
        return [line.split() for line in lines]
    return [
        [cell.strip() for cell in row] for row in csv.reader(lines, delimiter=delimiter)
    ]


def _parse_table(table: list[list[str]], name: str) -> ScoreFile:
    if not table:
        raise ScoreShapeError(
            f"{name} must hold a square matrix of scores and is empty. "
            "Write one line per row, cells separated by commas, tabs or spaces."
        )
    header, row_labels, table = _split_labels(table)
    if not table:
        raise ScoreTypeError(
            f"{name} must hold a square matrix of scores; got one line of text. "
            "Write one line per row, cells separated by commas, tabs or spaces."
        )
    width = len(table[0])
    if header is not None:
        # The corner above the row labels may be filled, empty or left out.
        header = header[1:] if row_labels is not None and len(header) > width else header
        if len(header) != width:
            raise ScoreShapeError(
                f"{name} must have one label per column; got {len(header)} labels above "
                f"{width} columns. Label every column, or none."
            )
    scores = np.empty((len(table), width))
    for k, row in enumerate(table):
        if len(row) != width:
            raise ScoreShapeError(
                f"{name} must have rows of equal length; row {k + 1} has {len(row)} cells, "
                f"row 1 has {width}. Leave a cell empty (or write -inf) to forbid an edge."
            )
        scores[k] = [_number(cell, name, k, j) for j, cell in enumerate(row)]
    return ScoreFile(name, _check_square(scores, name), row_labels, header)


def _split_labels(
    table: list[list[str]],
) -> tuple[list[str] | None, list[str] | None, list[list[str]]]:
    """Part a table into column labels, row labels and scores; a label is no number."""
    has_counters = _has_counters(table)
    first, rest = table[0], table[1:]
    has_labelled_rows = bool(rest) and all(_is_text(row[0]) for row in rest)
    header = row_labels = None
    if has_counters or (
        all(map(_is_text, first[1:])) and (has_labelled_rows or _is_text(first[0]))
    ):
        header, table = first, rest
    if has_counters or (table and all(_is_text(row[0]) for row in table)):
        row_labels, table = [row[0] for row in table], [row[1:] for row in table]
    return header, row_labels, table


def _has_counters(table: list[list[str]]) -> bool:
    """Tell whether an empty corner is followed by 0, 1, 2 ... to the right and downwards.

    This is how data frames without labels are written, and no score matrix looks like it.
    """
    counters = [str(k) for k in range(len(table) - 1)]
    return (
        len(counters) > 1
        and table[0] == ["", *counters]
        and [row[0] for row in table[1:]] == counters
    )


def _is_text(cell: str) -> bool:
    try:
        float(cell or "0")
    except ValueError:
        return True
    return False


def _number(cell: str, name: str, row: int, col: int) -> float:
    try:
        return float(cell) if cell else -np.inf
    except ValueError as err:
        raise ScoreTypeError(
            f"{name} must hold numbers; row {row + 1}, column {col + 1} of the scores is "
            f"{cell!r}. Leave a cell empty (or write -inf) to forbid an edge."
        ) from err


def _check_square(scores: np.ndarray, name: str) -> np.ndarray:
    if scores.ndim == 2 and scores.shape[0] == scores.shape[1]:
        return scores
    shape = " x ".join(map(str, scores.shape)) or "a single number"
    raise ScoreShapeError(
        f"{name} must hold one square matrix, as many rows as columns; got {shape}. "
        "Pad the smaller side with extra nodes; write labels that do not look like numbers."
    )
