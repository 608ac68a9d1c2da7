"""Read scores from a text or NumPy file: a matrix, or a table with one row per pair."""

import csv
import io
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from permatch._files import Gauge, csv_problem
from permatch._types import FloatArray
from permatch.errors import (
    InvalidGraphError,
    InvalidMatchingError,
    NaNScoreError,
    ScoreShapeError,
    ScoreTypeError,
    TableError,
)
from permatch.scores import EdgeScores

_NPY_MAGIC = b"\x93NUMPY"
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+(e[+-]?\d+)?", re.IGNORECASE)
#: Labels quoted in an error message.
_MAX_NAMED = 5


@dataclass(frozen=True)
class ScoreMatrix:
    """The scores of one graph, and the labels of its rows and columns, if any.

    `scores` is an array (n, k), or `EdgeScores` from a table of candidate pairs.
    """

    name: str
    scores: FloatArray | EdgeScores
    row_labels: list[str] | None = None
    column_labels: list[str] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Nodes on the left and on the right."""
        if isinstance(self.scores, EdgeScores):
            return self.scores.n_left or 0, self.scores.n_right or 0
        return self.scores.shape[0], self.scores.shape[1]

    @property
    def n_edges(self) -> int:
        """Pairs that are not forbidden."""
        scores = self.scores
        values = scores.score if isinstance(scores, EdgeScores) else scores
        return int((values > -np.inf).sum())

    def find_edge(self, text: str) -> tuple[int, int]:
        """Return the row and column of the edge ``ROW:COL``, given by label or number."""
        n_rows, n_cols = self.shape
        rows, cols = _places(self.row_labels, n_rows), _places(self.column_labels, n_cols)
        found = {
            (row, col)
            for cut in re.finditer(":", text)  # labels may hold colons of their own
            for row in rows.get(text[: cut.start()].strip(), [])
            for col in cols.get(text[cut.end() :].strip(), [])
        }
        if len(found) == 1:
            return found.pop()
        many = f", which matches {len(found)} edges; use numbers" * (len(found) > 1)
        known = _name_some("rows", self.row_labels)
        known += _name_some("columns", self.column_labels)
        raise InvalidMatchingError(
            f"an edge ROW:COL must name one row and one column of {self.name}, by "
            f"label or by number from 0 to {n_rows - 1} and {n_cols - 1}; got "
            f"{_quote(text)}{many}.{known}"
        )


def _places(labels: list[str] | None, size: int) -> dict[str, list[int]]:
    """Return the positions that each name stands for; a label goes before a number."""
    named: dict[str, list[int]] = {}
    for k, label in enumerate(labels or []):
        named.setdefault(label, []).append(k)
    return {str(k): [k] for k in range(size)} | named


def _name_some(what: str, labels: list[str] | None) -> str:
    if not labels:
        return ""
    more = ", ..." * (len(labels) > _MAX_NAMED)
    return f" The {what} are {', '.join(map(_quote, labels[:_MAX_NAMED]))}{more}."


@dataclass(frozen=True)
class PairColumns:
    """The columns of a table of candidate pairs."""

    left: str = "left"
    right: str = "right"
    score: str = "score"

    def stand_in(self, line: str) -> bool:
        """Tell whether a line is the header of such a table."""
        names = {self.left, self.right, self.score}
        cuts = (re.split(mark, line.lstrip("\ufeff")) for mark in ",;\t")
        return any(names <= {cell.strip().strip('"') for cell in cells} for cells in cuts)


def read_score_matrix(source: str, columns: PairColumns | None = None) -> ScoreMatrix:
    """Read the scores in the file `source`, or in standard input for ``-``."""
    columns = columns or PairColumns()
    name = "standard input" if source == "-" else source
    gauge = Gauge(name, InvalidGraphError)
    if source == "-":
        data = _read_standard_input(gauge)
    else:
        path = Path(source)
        if _is_table(path, columns):
            return _from_pairs(path, columns, name)
        with path.open("rb") as file:
            data = gauge.whole(file)
    if data.startswith(_NPY_MAGIC):
        return ScoreMatrix(name, _check_matrix(_load_npy(data, name), name))
    if Path(source).suffix == ".npy":
        raise InvalidGraphError(
            f"{name} ends in .npy and must hold a NumPy array; it does not. "
            "Write it with np.save, or rename it if it is text."
        )
    gauge.check_lines(data)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as err:
        raise InvalidGraphError(
            f"{name} must be UTF-8 text or a NumPy .npy file; byte {err.start} is neither. "
            "Export the matrix as CSV."
        ) from err
    if columns.stand_in(text.lstrip().partition("\n")[0]):
        return _from_pairs(io.StringIO(text, newline=""), columns, name)
    lines, delimiter = _cut_lines(text, is_tsv=source.endswith(".tsv"))
    scores = _read_plain_numbers(lines, delimiter)
    if scores is not None:
        return ScoreMatrix(name, _check_matrix(scores, name))
    with gauge.csv_fields():
        return _parse_table(_cut_cells(lines, delimiter, name), name)


def _is_table(path: Path, columns: PairColumns) -> bool:
    """Tell whether a file is a table of candidate pairs, by its first bytes."""
    if path.exists() and not path.is_file():  # what is read from a pipe is gone
        return False
    with path.open("rb") as file:
        start = file.read(1 << 16)
    if start.startswith((b"PAR1", b"\x1f\x8b")):
        return True
    return columns.stand_in(start.decode("utf-8", "replace").lstrip().partition("\n")[0])


def _from_pairs(source: Any, columns: PairColumns, name: str) -> ScoreMatrix:
    """Read a table of candidate pairs."""
    from permatch.datasets.columns import Roles
    from permatch.datasets.edge_rows import number_edges
    from permatch.datasets.table_sources import read_columns

    roles = Roles(None, columns.left, columns.right, "", (columns.score,), False)
    found = replace(read_columns(source, roles), name=name)
    n_graphs = len(found.ids[0][1])
    if n_graphs > 1:
        raise TableError(
            f"{name} must hold the pairs of one graph; its column 'graph' has {n_graphs}. "
            "Select the rows of one of them, or rename the column if there is only one."
        )
    scores = found.features[:, 0]
    is_wrong = np.isnan(scores) | (scores == np.inf)
    if is_wrong.any():
        row = int(np.argmax(is_wrong))
        raise NaNScoreError(
            f"every pair needs a score; that of {found.edge(row)}, {found.at(row)}, is "
            f"{'missing' if np.isnan(scores[row]) else 'inf'}. Fill it in, or drop the row "
            "to forbid the pair."
        )
    edges = number_edges(found)
    (_, left), (_, right) = found.ids[1:]
    pairs = EdgeScores(edges.left.node, edges.right.node, scores, len(left), len(right))
    return ScoreMatrix(name, pairs, list(map(str, left)), list(map(str, right)))


def _read_standard_input(gauge: Gauge) -> bytes:
    try:
        if sys.stdin is None:
            raise OSError(0, "it is closed")
        return gauge.whole(sys.stdin.buffer)
    except OSError as err:
        raise InvalidGraphError(
            f"standard input must hold a matrix of scores; it cannot be read: "
            f"{err.strerror}. Pipe in a matrix, or name a file instead of -."
        ) from err


def _load_npy(data: bytes, name: str) -> np.ndarray:
    try:
        return np.load(io.BytesIO(data), allow_pickle=False)
    except Exception as err:  # a broken header raises anything, a MemoryError included
        raise InvalidGraphError(
            f"{name} must hold an array of numbers; NumPy says: {str(err).rstrip('.')}. "
            "Write it with np.save(path, np.asarray(scores, dtype=float))."
        ) from err


def _cut_lines(text: str, *, is_tsv: bool) -> tuple[list[str], str | None]:
    """Return lines and delimiter, None for spaces; blank lines and comments are left out.

    A line of nothing but tabs is a row of empty cells where tabs separate cells.
    """
    lines = [
        line for line in text.splitlines() if line.strip(" ") and not line.startswith("#")
    ]
    first = next(filter(str.strip, lines), "")
    delimiter = "\t" if is_tsv else next((mark for mark in ";\t," if mark in first), None)
    return lines if delimiter == "\t" else list(filter(str.strip, lines)), delimiter


def _read_plain_numbers(lines: list[str], delimiter: str | None) -> FloatArray | None:
    """Read a matrix without labels and gaps by NumPy's fast reader, or return None.

    The reader accepts no number that the parser below would not.
    """
    if not lines:
        return None
    try:
        return np.loadtxt(lines, delimiter=delimiter, comments=None, ndmin=2)
    except ValueError:
        return None


def _cut_cells(lines: list[str], delimiter: str | None, name: str) -> list[list[str]]:
    if delimiter is None:
        return [line.split() for line in lines]
    try:
        return [
            [cell.strip() for cell in row] for row in csv.reader(lines, delimiter=delimiter)
        ]
    except csv.Error as err:
        raise InvalidGraphError(
            f"{name} must hold cells separated by {delimiter!r}: {csv_problem(err)}"
        ) from err


def _parse_table(table: list[list[str]], name: str) -> ScoreMatrix:
    if not table:
        raise ScoreShapeError(
            f"{name} must hold a matrix of scores; it is empty. "
            "Write one line per row, cells separated by commas, tabs or spaces."
        )
    header, row_labels, table = _split_labels(table)
    if not table:
        raise ScoreTypeError(
            f"{name} must hold a matrix of scores; got one line of text. "
            "Write one line per row, cells separated by commas, tabs or spaces."
        )
    width = len(table[0])
    if header is not None:
        # The corner above the row labels may be filled, empty or left out.
        header = header[1:] if row_labels is not None and len(header) > width else header
        if len(header) != width:
            raise ScoreShapeError(
                f"{name} must have one label per column; got "
                f"{_count(header, 'label')} above {_count(table[0], 'column')}. "
                "Label every column, or none."
            )
    scores = np.empty((len(table), width))
    for k, row in enumerate(table):
        if len(row) != width:
            raise ScoreShapeError(
                f"{name} must have rows of equal length; row {k + 1} has "
                f"{_count(row, 'cell')}, row 1 has {width}. Leave a cell empty (or "
                "write -inf) to forbid an edge."
            )
        try:
            scores[k] = [_to_float(cell) for cell in row]
        except ValueError as err:
            raise _no_number(row, name, k) from err
    return ScoreMatrix(name, _check_matrix(scores, name), row_labels, header)


def _split_labels(
    table: list[list[str]],
) -> tuple[list[str] | None, list[str] | None, list[list[str]]]:
    """Split a table into column labels, row labels and scores."""
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
    return not _is_number(cell) and not _DECIMAL_COMMA.fullmatch(cell)


def _is_number(cell: str) -> bool:
    try:
        _to_float(cell)
    except ValueError:
        return False
    return True


def _to_float(cell: str) -> float:
    """Return the number in a cell, -inf if it is empty; ValueError if it is text."""
    if "_" in cell:  # digits grouped as in Python source, which no table means
        raise ValueError(cell)
    return float(cell or "-inf")


def _no_number(row: list[str], name: str, k: int) -> ScoreTypeError:
    """Return the error for a row with a cell that is not a number."""
    col, cell = next((j, cell) for j, cell in enumerate(row) if not _is_number(cell))
    advice = "Leave a cell empty (or write -inf) to forbid an edge."
    if _DECIMAL_COMMA.fullmatch(cell) or re.match(r"[+-]?[\d.]+\s+[+-]?[\d.]+", cell):
        advice = "Use decimal points, not commas, and the same separator between all cells."
    return ScoreTypeError(
        f"{name} must hold numbers; row {k + 1}, column {col + 1} of the scores is "
        f"{_quote(cell)}. {advice}"
    )


def _count(cells: list[str], noun: str) -> str:
    return f"{len(cells)} {noun}{'s' * (len(cells) != 1)}"


def _quote(text: str) -> str:
    """Quote text from a file, shortened."""
    return repr(text if len(text) <= 40 else f"{text[:37]}...")


def _check_matrix(scores: np.ndarray, name: str) -> np.ndarray:
    if scores.ndim == 2:
        return scores
    shape = " x ".join(map(str, scores.shape)) or "a single number"
    raise ScoreShapeError(f"{name} must hold one matrix of scores; got {shape}.")
