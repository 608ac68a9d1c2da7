"""Turn the cells of an edge table into the arrays that graphs are built from.

    ids        for graph, left and right: a code per row, and the id behind every code
    labels     a number per row, NaN where the cell is empty; None if there is no label
    features   (n_rows, d) numbers, NaN where a cell is empty

Cells arrive in blocks of rows, each turned into numbers at once, so the text of a large
file is never all in memory.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from permatch._types import BoolArray, FloatArray, IntArray
from permatch.errors import TableError

_MISSING = {"", "na", "n/a", "nan", "none", "null", "<na>", "nat"}
_TRUTHS = {"true": 1.0, "false": 0.0}
# Row numbers that data frames write beside the data, never meant as a feature.
_INDEX_COLUMN = re.compile(r"|Unnamed: \d+|__index_level_\d+__")


@dataclass(frozen=True)
class Roles:
    """The role of each column; features None means all other numeric columns."""

    graph: str
    left: str
    right: str
    label: str
    features: tuple[str, ...] | None
    has_labels_read: bool = True

    @property
    def ids(self) -> tuple[str, str, str]:
        """The columns that together name an edge."""
        return self.graph, self.left, self.right


@dataclass(frozen=True, eq=False)
class Columns:
    """The arrays of a table, and the names of its rows for messages."""

    name: str
    ids: list[tuple[IntArray, list[Any]]]
    labels: FloatArray | None
    features: FloatArray
    feature_names: list[str]
    ignored: list[str]
    lines: IntArray | None

    def at(self, row: Any) -> str:
        """Return where a row is: its line in a file, or its position."""
        return _place(self.name, self.lines, row)

    def edge(self, row: Any) -> str:
        """Name the edge that a row describes."""
        graph, left, right = (values[codes[row]] for codes, values in self.ids)
        return f"({left!r}, {right!r}) of graph {graph!r}"


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows of a table, column by column, and the lines they end on."""

    name: str
    header: list[str]
    cells: Sequence[Any]
    lines: Sequence[int] | None = None


# ---- roles -------------------------------------------------------------------------------


def check_roles(roles: Roles) -> None:
    """Refuse a column with two roles."""
    named = [*roles.ids, roles.label, *(roles.features or [])]
    if twice := _repeated(named):
        raise TableError(
            f"a column must have one role; {quoted(twice)} was given two. Name different "
            "columns."
        )


def check_header(header: list[str], roles: Roles, name: str) -> None:
    """Refuse a table with duplicate or missing columns."""
    if twice := _repeated([key for key in header if key]):
        raise TableError(
            f"the columns of {name} must have different names; got {quoted(twice)} more "
            "than once. Rename or drop them."
        )
    wanted = [*roles.ids, *(roles.features or [])]
    if missing := [key for key in wanted if key not in header]:
        raise TableError(
            f"{name} must have the columns {quoted(wanted)}; {quoted(missing)} not found "
            f"in {quoted(header)}. Rename columns, or name the ones to use: graph=, left=, "
            "right=, label= and features= (on the command line --graph-column, "
            "--left-column, --right-column, --label-column and --features). In pandas, "
            "reset_index turns the index into columns."
        )


def _repeated(names: list[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def quoted(names: Sequence[str], most: int = 12) -> str:
    """List names for a message, at most the first few."""
    more = [f"{len(names) - most} more"] if len(names) > most else []
    return ", ".join([*map(repr, names[:most]), *more])


# ---- cells -------------------------------------------------------------------------------


def gather(header: list[str], roles: Roles, name: str, blocks: Iterable[Block]) -> Columns:
    """Turn blocks of cells into the arrays of a table."""
    id_columns = [header.index(key) for key in roles.ids]
    label = header.index(roles.label) if roles.label in header else None
    if roles.features is not None:
        used, ignored = [header.index(key) for key in roles.features], []
    else:
        free = [k for k in range(len(header)) if k not in {*id_columns, label}]
        ignored = [k for k in free if _INDEX_COLUMN.fullmatch(header[k])]
        used = [k for k in free if k not in ignored]
    coders = [_Coder() for _ in id_columns]
    codes: list[list[IntArray]] = [[] for _ in id_columns]
    labels: list[FloatArray] = []
    features: list[FloatArray] = []
    lines: list[IntArray] = []
    hint = ", or name the features to use without this column"
    for n_block, block in enumerate(blocks):
        if n_block == 0 and roles.features is None:
            # A column without a single number is a remark, not a feature full of errors.
            remarks = [k for k in used if _is_remark(block.cells[k])]
            ignored = sorted([*ignored, *remarks])
            used = [k for k in used if k not in remarks]
        for parts, coder, k in zip(codes, coders, id_columns, strict=True):
            parts.append(coder.encode(block, k))
        if label is not None and roles.has_labels_read:
            labels.append(_numbers(block, label, "a label must be 1 (matched) or 0", ""))
        numbers = np.empty((len(codes[0][-1]), len(used)))
        for column, k in enumerate(used):
            numbers[:, column] = _numbers(block, k, "features must be numbers", hint)
        features.append(numbers)
        if block.lines is not None:
            lines.append(np.array(block.lines, dtype=np.intp))
    return Columns(
        name=name,
        ids=[(_join(parts), list(c)) for parts, c in zip(codes, coders, strict=True)],
        labels=_join(labels) if labels else None,
        features=_join(features),
        feature_names=[header[k] for k in used],
        ignored=[header[k] or "(no name)" for k in ignored],
        lines=_join(lines) if lines else None,
    )


class _Coder(dict[Any, int]):
    """Ids in order of first appearance, each with its number."""

    def __missing__(self, key: Any) -> int:
        code = self[key] = len(self)
        return code

    def encode(self, block: Block, column: int) -> IntArray:
        """Return the number of every id in a column, refusing empty cells."""
        cells = block.cells[column]
        if isinstance(cells, np.ndarray):
            # NumPy's dates would become counts of nanoseconds.
            is_date = cells.dtype.kind in "mM"
            ids = np.where(np.isnat(cells), "", cells.astype(str)) if is_date else cells
            ids = ids.tolist()
        else:
            ids = map(str.strip, cells)
        n_known = len(self)
        try:
            codes = np.fromiter(map(self.__getitem__, ids), np.intp, len(cells))
        except TypeError as err:
            raise TableError(
                f"ids must be text or numbers; column {block.header[column]!r} of "
                f"{block.name} holds something else ({err}). Convert it to text."
            ) from err
        empty = [
            key for key in islice(reversed(self), len(self) - n_known) if _is_empty(key)
        ]
        if empty:
            row = int(np.argmax(codes == self[empty[-1]]))
            raise TableError(
                f"every edge needs a {block.header[column]!r}; the cell is empty at "
                f"{_place(block.name, block.lines, row)}. Fill it in."
            )
        return codes


def _is_remark(cells: Any) -> bool:
    """Tell whether a column holds text and no number at all."""
    values, is_text = _parse(cells)
    return bool(is_text.any() and np.isnan(values).all())


def _numbers(block: Block, column: int, requirement: str, hint: str) -> FloatArray:
    """Return a column as numbers, NaN for empty cells, or name its first text."""
    values, is_text = _parse(block.cells[column])
    if is_text.any():
        row = int(np.argmax(is_text))
        cell = block.cells[column][row]
        raise TableError(
            f"{requirement}; {block.header[column]!r} is {str(cell)!r} at "
            f"{_place(block.name, block.lines, row)}. Correct it{hint}."
        )
    return values


def _parse(cells: Any) -> tuple[FloatArray, BoolArray]:
    """Return cells as numbers, NaN where they are not, and which of those are text."""
    if isinstance(cells, np.ndarray):
        if cells.dtype.kind in "fiub":
            with np.errstate(over="ignore"):  # infinite features are refused later
                return cells.astype(np.float64), np.zeros(1, dtype=bool)
        if cells.dtype.kind in "mMcV":
            return np.full(len(cells), np.nan), np.ones(len(cells), dtype=bool)
        cells = cells.tolist()
    try:
        return np.fromiter(map(float, cells), float, len(cells)), np.zeros(1, dtype=bool)
    except (TypeError, ValueError, OverflowError):  # something empty, or text
        numbers = [_number(cell) for cell in cells]
        is_text = np.array([number is None for number in numbers])
        return np.array(numbers, dtype=np.float64), is_text


def _number(cell: Any) -> float | None:
    """Return one cell as a number, NaN if it is empty, None if it is text."""
    if _is_empty(cell):
        return np.nan
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        word = str(cell).strip().lower()
        return np.nan if word in _MISSING else _TRUTHS.get(word)


def _is_empty(cell: Any) -> bool:
    """Tell whether a cell holds nothing, in any of the ways that libraries write it."""
    if cell is None or type(cell).__name__ in {"NAType", "NaTType"}:
        return True
    if isinstance(cell, str):
        return not cell.strip()
    return isinstance(cell, float) and cell != cell


def _join(parts: list[Any]) -> Any:
    """Join arrays, letting go of each one copied, so that little is ever held twice."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return np.zeros((0, 0), dtype=np.intp)
    end = sum(map(len, parts))
    whole = np.empty((end, *parts[0].shape[1:]), dtype=parts[0].dtype)
    while parts:
        part = parts.pop()
        whole[end - len(part) : end] = part
        end -= len(part)
    return whole


def _place(name: str, lines: Any, row: Any) -> str:
    if lines is None:
        return f"row {int(row)} (counted from 0) of {name}"
    return f"line {lines[row]} of {name}"
