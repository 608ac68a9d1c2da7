"""Boxes of objects in the frames of a video."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from permatch._types import FloatArray, IntArray
from permatch._validation import refuse_masked
from permatch.errors import BoxError

#: The id of a box whose identity is not known.
NO_ID = -1
#: The columns of boxes as a table; up to three more follow.
FIELDS = ("frame", "id", "left", "top", "width", "height", "confidence")
MAX_FIELDS = 10

_PLURALS = {"box": "es", "frame": "s", "object": "s"}
# Beyond this, not every whole number is a float64.
_LARGEST_INTEGER = 2**53


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes of objects, frame by frame.

    Parameters
    ----------
    frame : int array of shape (n,)
        The frame of every box, counted from 1.
    id : int array of shape (n,) or None
        Which object it shows; -1, the default, if that is not known.  No frame shows an
        object twice.
    box : array of shape (n, 4)
        Left, top, width and height; widths and heights are above 0.
    confidence : array of shape (n,), optional
        How sure a detector is; default: 1.
    extra : array of shape (n, k), optional
        Up to three more columns, in the order of the file; default: three of -1.

    Examples
    --------
    >>> boxes = Boxes([1, 1, 2], [7, 8, 7], [[0, 0, 4, 9], [9, 0, 4, 9], [1, 0, 4, 9]])
    >>> boxes.frames().tolist(), boxes.at(1).id.tolist()
    ([1, 2], [7, 8])
    >>> len(boxes[boxes.id == 7])
    2
    """

    frame: IntArray
    id: IntArray
    box: FloatArray
    confidence: FloatArray
    extra: FloatArray

    def __init__(
        self,
        frame: ArrayLike,
        id: ArrayLike | None,
        box: ArrayLike,
        confidence: ArrayLike | None = None,
        extra: ArrayLike | None = None,
    ) -> None:
        n = np.size(frame)
        id = np.full(n, NO_ID) if id is None else id
        confidence = np.ones(n) if confidence is None else confidence
        extra = np.full((n, 3), -1.0) if extra is None else extra
        table = _as_table(frame, id, box, confidence, extra)
        check_boxes(table, lambda k: f"box {k}")
        self._fill(table)

    def _fill(self, table: FloatArray) -> None:
        """Take the columns of a checked table."""
        columns: dict[str, Any] = {
            "frame": table[:, 0].astype(np.int64),
            "id": table[:, 1].astype(np.int64),
            "box": np.ascontiguousarray(table[:, 2:6]),
            "confidence": np.ascontiguousarray(table[:, 6]),
            "extra": np.ascontiguousarray(table[:, 7:]),
        }
        for name, values in columns.items():
            values.flags.writeable = False
            object.__setattr__(self, name, values)

    @classmethod
    def of_table(cls, table: FloatArray) -> "Boxes":
        """Return the boxes of a table with the columns `FIELDS`, which is trusted."""
        boxes = cls.__new__(cls)
        boxes._fill(table)
        return boxes

    @property
    def table(self) -> FloatArray:
        """All columns side by side, in the order of a file."""
        first = np.stack([self.frame, self.id], axis=1).astype(np.float64)
        return np.hstack([first, self.box, self.confidence[:, None], self.extra])

    def __len__(self) -> int:
        return len(self.frame)

    def __repr__(self) -> str:
        n_ids = len(np.unique(self.id[self.id != NO_ID]))
        counts = (len(self), "box"), (len(self.frames()), "frame"), (n_ids, "object")
        words = [f"{n} {noun}{'' if n == 1 else _PLURALS[noun]}" for n, noun in counts]
        return f"Boxes({', '.join(words)})"

    def __getitem__(self, chosen: Any) -> "Boxes":
        """Return the boxes that a mask, a slice or an array of positions chooses."""
        return self.of_table(np.atleast_2d(self.table[chosen]))

    @cached_property
    def _order(self) -> IntArray:
        return np.argsort(self.frame, kind="stable")

    def frames(self) -> IntArray:
        """Return the numbers of the frames that have boxes, in increasing order.

        Returns
        -------
        ndarray
            Numbers of frames.
        """
        return np.unique(self.frame)

    def positions(self, frame: int) -> IntArray:
        """Return the positions of the boxes of one frame.

        Parameters
        ----------
        frame : int
            A frame, which may have no boxes.

        Returns
        -------
        ndarray
            Positions, in increasing order.
        """
        ends = np.searchsorted(self.frame[self._order], [frame, frame + 1])
        return self._order[ends[0] : ends[1]]

    def at(self, frame: int) -> "Boxes":
        """Return the boxes of one frame.

        Parameters
        ----------
        frame : int
            A frame, which may have no boxes.

        Returns
        -------
        Boxes
            In the order of the file.
        """
        return self[self.positions(frame)]

    def with_id(self, id: ArrayLike | None) -> "Boxes":
        """Return the same boxes with other identities.

        Parameters
        ----------
        id : int array of shape (n,) or None
            An identity per box; None: not known.

        Returns
        -------
        Boxes
            The boxes.
        """
        return Boxes(self.frame, id, self.box, self.confidence, self.extra)


def check_is_boxes(value: Any, name: str) -> None:
    """Refuse what is not boxes, such as the path of a file of them."""
    if isinstance(value, Boxes):
        return
    remedy = "Make them by Boxes(frame, id, box)"
    if isinstance(value, (str, PathLike)):
        remedy = "Read the file first: permatch.datasets.read_mot(path)"
    raise BoxError(
        f"{name} must be permatch.datasets.Boxes; got {type(value).__name__}. {remedy}."
    )


def field_name(column: int) -> str:
    """Return the name of a column."""
    return FIELDS[column] if column < len(FIELDS) else f"field {column + 1}"


def _as_table(frame: Any, id: Any, box: Any, confidence: Any, extra: Any) -> FloatArray:
    """Return arrays of boxes side by side."""
    given = {"frame": frame, "id": id, "box": box, "confidence": confidence, "extra": extra}
    arrays = []
    for name, values in given.items():
        refuse_masked(values, name, BoxError)
        try:
            arrays.append(np.asarray(values, dtype=np.float64))
        except (TypeError, ValueError) as err:
            raise BoxError(f"{name} must be numbers; got {values!r:.60}.") from err
    n = arrays[0].size
    if n == 0 and arrays[2].size == 0:
        arrays[2] = arrays[2].reshape(0, 4)
    shapes = [array.shape for array in arrays]
    most = MAX_FIELDS - len(FIELDS)
    n_extra = min(arrays[4].shape[-1], most) if arrays[4].ndim else 0
    if shapes != [(n,), (n,), (n, 4), (n,), (n, n_extra)]:
        raise BoxError(
            "frame, id and confidence must have shape (n,), box (n, 4) and extra (n, k), "
            f"with k at most {most}; got {', '.join(map(str, shapes))}."
        )
    return np.column_stack(arrays)


def check_boxes(table: FloatArray, where: Callable[[int], str]) -> None:
    """Raise for the first box that is none; `where` names it."""
    first = _first(~np.isfinite(table))
    if first is not None:
        k, column = first
        raise BoxError(
            f"{where(k)}: {field_name(column)} must be a finite number; got "
            f"{table[k, column]}. Correct it, or remove the box."
        )
    rules = (
        (table[:, :2] % 1.0 != 0.0, 0, "must be a whole number"),
        (np.abs(table[:, :2]) >= _LARGEST_INTEGER, 0, "must be below 2^53"),
        (table[:, :1] < 1, 0, "must be at least 1: frames count from 1"),
        (table[:, 1:2] < NO_ID, 1, f"must be at least 0, or {NO_ID} if it is not known"),
        (table[:, 4:6] <= 0, 4, "must be above 0"),
    )
    for is_wrong, shift, required in rules:
        first = _first(is_wrong)
        if first is not None:
            k, column = first[0], first[1] + shift
            raise BoxError(
                f"{where(k)}: {field_name(column)} {required}; got {table[k, column]:g}. "
                "Correct it, or remove the box."
            )
    _check_distinct(table, where)


def _check_distinct(table: FloatArray, where: Callable[[int], str]) -> None:
    known = np.flatnonzero(table[:, 1] != NO_ID)
    order = known[np.lexsort((known, table[known, 1], table[known, 0]))]
    is_again = (table[order[1:], :2] == table[order[:-1], :2]).all(axis=1)
    if is_again.any():
        again = int(np.argmax(is_again))
        k, before = int(order[again + 1]), int(order[again])
        frame, id = table[k, :2]
        raise BoxError(
            f"{where(k)}: frame {frame:g} must show object {id:g} once; {where(before)} "
            f"does already. Remove one of them, or use the id {NO_ID}."
        )


def _first(mask: np.ndarray) -> tuple[int, int] | None:
    """Return row and column of the first entry that is true."""
    found = np.argwhere(mask)
    return (int(found[0, 0]), int(found[0, 1])) if len(found) else None
