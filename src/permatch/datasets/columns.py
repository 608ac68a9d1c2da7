"""Turn the cells of an edge table into the arrays that graphs are built from.

    ids        for graph, left and right: a code per row, and the id behind every code
    labels     a number per row, NaN where the cell is empty; None if there is no label
    features   (n_rows, d) numbers, NaN where a cell is empty

Cells arrive in blocks of rows, each turned into numbers at once, so the text of a large
file is never all in memory.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any, Protocol

import numpy as np

from permatch._cells import Coded, is_empty, is_index_column, parse_numbers, quoted
from permatch._types import FloatArray, IntArray
from permatch.errors import TableError

# Text that libraries write for a missing id.
_NO_IDS = ("nan", "NaN", "<NA>", "NaT")
#: What cells of the label column may hold.
LABEL_RULE = "a label must be 1 (matched), 0 (not matched) or empty (unknown)"


@dataclass(frozen=True)
class Roles:
    """The role of each column; features None means all other numeric columns.

    `graph` None means the column ``graph`` if the table has one and `has_graphs` is true.
    `others` are columns of text of which only the different values matter.
    """

    graph: str | None
    left: str
    right: str
    label: str
    features: tuple[str, ...] | None
    has_labels_read: bool = True
    has_graphs: bool = True
    others: tuple[str, ...] = ()

    def fits(self, header: list[str]) -> bool:
        """Return whether a table with these columns has all that are needed."""
        return set(self.required) <= set(header)

    def chosen(self, header: list[str]) -> "Roles":
        """Return the roles: those given."""
        return self

    @property
    def required(self) -> list[str]:
        """The columns that must be there."""
        ids = [self.left, self.right]
        ids = ids if self.graph is None else [self.graph, *ids]
        return [*ids, *(self.features or [])]

    def ids(self, header: list[str]) -> list[str]:
        """Return the columns that together name an edge: graph if there is one, nodes."""
        taken = {self.left, self.right, self.label, *(self.features or [])}
        graph = self.graph
        is_open = graph is None and self.has_graphs
        if is_open and "graph" in header and "graph" not in taken:
            graph = "graph"
        ids = [self.left, self.right]
        return ids if graph is None else [graph, *ids]


class WantedColumns(Protocol):
    """What a table should have."""

    @property
    def required(self) -> list[str]:
        """The columns that a table should have."""
        ...

    def fits(self, header: list[str]) -> bool:
        """Return whether a table with these columns will do."""
        ...


class RoleChoice(WantedColumns, Protocol):
    """Roles that are given, or that follow from the columns of a table."""

    def chosen(self, header: list[str]) -> Roles:
        """Return the roles of the columns of a table, or raise `TableError`."""
        ...


@dataclass(frozen=True, eq=False)
class Columns:
    """The arrays of a table, and the names of its rows for messages.

    `ids` are those of graph, left and right; a table of one graph has none for it, and
    None is the graph's id.  `others` holds the different values of further columns.  `rows`
    are the numbers of the rows in a table that this is a part of.
    """

    name: str
    ids: list[tuple[IntArray, list[Any]]]
    id_columns: tuple[str, ...]
    labels: FloatArray | None
    features: FloatArray
    feature_names: list[str]
    ignored: list[str]
    lines: IntArray | None
    others: dict[str, list[Any]] = field(default_factory=dict)
    rows: IntArray | None = None

    def at(self, row: Any) -> str:
        """Return where a row is: its line in a file, or its position."""
        return place_of(self, row)

    def edge(self, row: Any) -> str:
        """Name the edge that a row describes."""
        graph, left, right = (values[codes[row]] for codes, values in self.ids)
        return f"({left!r}, {right!r}){self.of_graph(graph)}"

    def of_graph(self, graph: Any) -> str:
        """Name a graph, unless there is only this one."""
        return "" if graph is None else f" of graph {graph!r}"


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows of a table, column by column, and the lines they end on.

    `rows` are their numbers if they are not the first ones of the table.
    """

    name: str
    header: list[str]
    cells: Sequence[Any]
    lines: Sequence[int] | None = None
    rows: IntArray | None = None


# ---- roles -------------------------------------------------------------------------------


def check_roles(roles: Roles) -> None:
    """Refuse a column with two roles."""
    check_one_role([*roles.required, roles.label])


def check_one_role(named: list[str]) -> None:
    """Refuse a column that is named twice, by those of all roles."""
    if twice := _repeated(named):
        raise TableError(
            f"a column must have one role; {quoted(twice)} was given two. Name different "
            "columns."
        )


def check_header(header: list[str], roles: Roles, name: str) -> None:
    """Refuse a table with duplicate or missing columns."""
    check_different(header, name)
    wanted = roles.required
    if missing := [key for key in wanted if key not in header]:
        raise TableError(
            f"{name} must have the columns {quoted(wanted)}; {quoted(missing)} not found "
            f"in {quoted(header)}. Rename columns, or name the ones to use: graph=, left=, "
            "right=, label= and features= (on the command line --graph-column, "
            "--left-column, --right-column, --label-column and --features). In pandas, "
            "reset_index turns the index into columns."
        )


def check_different(header: list[str], name: str) -> None:
    """Refuse a table with duplicate columns."""
    if twice := _repeated([key for key in header if key]):
        raise TableError(
            f"the columns of {name} must have different names; got {quoted(twice)} more "
            "than once. Rename or drop them."
        )


def _repeated(names: list[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


# ---- cells -------------------------------------------------------------------------------


def used_columns(
    header: list[str], roles: Roles, first: Block
) -> tuple[list[int], int | None, list[int], list[int]]:
    """Return the columns of ids and others, of the label, of features, and the rest."""
    ids = [header.index(key) for key in (*roles.ids(header), *roles.others)]
    label = header.index(roles.label) if roles.label in header else None
    if roles.features is not None:
        used, ignored = [header.index(key) for key in roles.features], []
    else:
        free = [k for k in range(len(header)) if k not in {*ids, label}]
        # A column without a single number is a remark, not a feature full of errors.
        ignored = [
            k for k in free if is_index_column(header[k]) or is_remark(first.cells[k])
        ]
        used = [k for k in free if k not in ignored]
    return ids, label if roles.has_labels_read else None, used, ignored


def gather(
    header: list[str],
    roles: Roles,
    name: str,
    blocks: Iterable[Block],
    first: Block | None = None,
) -> Columns:
    """Turn blocks of cells into the arrays of a table.

    `first` is what tells which columns are numbers; default: the first of the blocks.
    """
    blocks = iter(blocks)
    if first is None:
        first = next(blocks, Block(name, header, [()] * len(header)))
        blocks = chain([first], blocks)
    id_columns, label, used, ignored = used_columns(header, roles, first)
    coders = [_Coder() for _ in id_columns]
    codes: list[list[IntArray]] = [[] for _ in id_columns]
    labels: list[FloatArray] = []
    features: list[FloatArray] = []
    lines: list[IntArray] = []
    rows: list[IntArray] = []
    rule, hint = "features must be numbers", ", or name features without this column"
    if roles.features is not None:  # chosen by the caller, and called by its own name
        rule, hint = "this column must hold numbers such as 0.9", ""
    for block in blocks:
        for parts, coder, k in zip(codes, coders, id_columns, strict=True):
            parts.append(coder.encode(block, k))
        if label is not None:
            labels.append(numbers_of(block, label, LABEL_RULE, ""))
        numbers = np.empty((len(codes[0][-1]), len(used)))
        for column, k in enumerate(used):
            numbers[:, column] = numbers_of(block, k, rule, hint)
        features.append(numbers)
        if block.lines is not None:
            lines.append(np.array(block.lines, dtype=np.intp))
        if block.rows is not None:
            rows.append(block.rows)
    n_ids = len(id_columns) - len(roles.others)
    ids = [(join_arrays(codes[k]), list(coders[k])) for k in range(n_ids)]
    if n_ids == 2:
        ids.insert(0, (np.zeros(len(ids[0][0]), dtype=np.intp), [None]))
    return Columns(
        name=name,
        ids=ids,
        id_columns=tuple(header[k] for k in id_columns[:n_ids]),
        labels=join_arrays(labels) if labels else None,
        features=join_arrays(features),
        feature_names=[header[k] for k in used],
        ignored=[header[k] or "(no name)" for k in ignored],
        lines=join_arrays(lines) if lines else None,
        others=dict(zip(roles.others, map(list, coders[n_ids:]), strict=True)),
        rows=join_arrays(rows) if rows else None,
    )


class _Coder(dict[Any, int]):
    """Ids in order of first appearance, each with its number."""

    def encode(self, block: Block, column: int) -> IntArray:
        """Return the number of every id in a column, refusing empty cells."""
        cells = block.cells[column]
        if isinstance(cells, Coded):
            ids = cells.values
        elif isinstance(cells, np.ndarray):
            # NumPy's dates would become counts of nanoseconds.
            is_date = cells.dtype.kind in "mM"
            ids = np.where(np.isnat(cells), "", cells.astype(str)) if is_date else cells
            if cells.dtype.kind in "iu":
                cells = _coded(cells)
                ids = cells.values
            else:
                ids = ids.tolist()
        else:
            ids = [cell.strip() for cell in cells]
        try:
            fresh = [key for key in dict.fromkeys(ids) if key not in self]
            self.update(zip(fresh, count(len(self)), strict=False))
            codes = np.fromiter(map(self.__getitem__, ids), np.intp, len(ids))
        except TypeError as err:
            raise TableError(
                f"ids must be text or numbers; column {block.header[column]!r} of "
                f"{block.name} holds something else ({err}). Convert it to text."
            ) from err
        if isinstance(cells, Coded):
            codes = codes[cells.codes]
        for key in () if _all_named(fresh) else fresh:
            if is_empty(key) or key in _NO_IDS:
                row = int(np.argmax(codes == self[key]))
                is_blank = key is None or (isinstance(key, str) and not key.strip())
                found = "empty" if is_blank else str(key).replace("nan", "NaN")
                raise TableError(
                    f"every pair needs a {block.header[column]!r}; the cell is {found} at "
                    f"{place_of(block, row)}. Fill it in, or drop the row."
                )
        return codes


def _coded(cells: IntArray) -> Coded:
    """Return whole numbers as codes in order of first appearance."""
    values, first, codes = np.unique(cells, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return Coded(place[codes], values[order].tolist())


def _all_named(ids: list[Any]) -> bool:
    """Tell whether ids are all whole numbers, or all text that is not blank."""
    kinds = set(map(type, ids))
    if kinds == {str}:
        return all(map(str.strip, ids)) and set(_NO_IDS).isdisjoint(ids)
    return kinds == {int}


def is_remark(cells: Any) -> bool:
    """Tell whether a column holds text and no number at all."""
    values, is_text = parse_numbers(cells)
    return bool(is_text.any() and np.isnan(values).all())


def numbers_of(block: Block, column: int, requirement: str, hint: str) -> FloatArray:
    """Return a column as numbers, NaN for empty cells, or name its first text."""
    values, is_text = parse_numbers(block.cells[column])
    if is_text.any():
        row = int(np.argmax(is_text))
        cell = block.cells[column][row]
        raise TableError(
            f"{requirement}; {block.header[column]!r} is {str(cell)!r} at "
            f"{place_of(block, row)}. Correct it{hint}."
        )
    return values


def join_arrays(parts: list[Any]) -> Any:
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


def place_of(rows: Block | Columns, row: Any) -> str:
    """Return where a row is: its line in a file, or its position."""
    if rows.lines is not None:
        return f"line {rows.lines[row]} of {rows.name}"
    number = row if rows.rows is None else rows.rows[row]
    return f"row {int(number)} (counted from 0) of {rows.name}"
