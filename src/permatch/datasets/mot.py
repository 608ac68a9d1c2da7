"""Read and write boxes in the text format of the MOTChallenge.

A line is a box, its fields separated by commas or white space:

    frame, id, left, top, width, height[, confidence[, up to three more]]

Frames count from 1.  Detections, whose identity is not known, have the id -1.  The last
fields differ between years and kinds of files: x, y, z in the world; or class and
visibility; or -1 throughout.
"""

from os import PathLike

import numpy as np

from permatch._files import Gauge, whole_file
from permatch.datasets.boxes import (
    FIELDS,
    MAX_FIELDS,
    Boxes,
    check_boxes,
    check_is_boxes,
    field_name,
)
from permatch.errors import BoxError

_LEAST = 6
# Whole numbers from here on are written as floats are.
_MANY_DIGITS = 1e15


def read_mot(path: str | PathLike[str], *, max_bytes: int | None = None) -> Boxes:
    """Read boxes from a text file of the MOTChallenge: ground truth, detections or results.

    Parameters
    ----------
    path : str or path
        The file: 6 to 10 numbers a line, separated by commas or white space.
    max_bytes : int, optional
        The most to read; default: limits that keep memory safe.

    Returns
    -------
    Boxes
        In the order of the file.  Without a seventh column the confidence is 1.

    Raises
    ------
    BoxError
        If a line is damaged, if an object occurs twice in a frame, or if the file is empty;
        the message names the line.

    Notes
    -----
    In the ground truth of the MOTChallenge since 2016 a confidence of 0 marks boxes that
    are not to be considered; ``boxes[boxes.confidence > 0]`` leaves them out.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "gt.txt"
    >>> _ = path.write_text("1,4,399,182,121,229,1,-1,-1,-1")
    >>> read_mot(path)
    Boxes(1 box, 1 frame, 1 object)
    """
    name = str(path)
    gauge = Gauge(name, BoxError, max_bytes)
    rows: list[list[float]] = []
    numbers: list[int] = []
    with open(path, "rb") as binary:
        text = gauge.text(binary)
        try:
            for number, line in enumerate(gauge.lines(text), start=1):
                if not line.strip():
                    continue
                rows.append(_read_line(line, f"{name}, line {number}"))
                numbers.append(number)
                if len(rows[-1]) != len(rows[0]):
                    raise _ragged(name, numbers, rows)
        except UnicodeDecodeError as err:
            raise BoxError(
                f"{name} must be UTF-8 text with a box per line; byte {err.start} is not "
                "text. Check that it is the right file."
            ) from err
    if not rows:
        raise BoxError(
            f"{name} must have a box per line ({', '.join(FIELDS)}); it is empty. Check "
            "that it is the right file."
        )
    table = np.array(rows)
    if table.shape[1] == _LEAST:
        table = np.column_stack([table, np.ones(len(table))])
    check_boxes(table, lambda k: f"{name}, line {numbers[k]}")
    return Boxes.of_table(table)


def write_mot(path: str | PathLike[str], boxes: Boxes) -> None:
    """Write boxes as a text file of the MOTChallenge, separated by commas.

    Numbers are written with all their digits: `read_mot` gives the same boxes back.

    Parameters
    ----------
    path : str or path
        The file; replaced once the new one is complete.
    boxes : Boxes
        What to write; without any boxes the file is empty.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from permatch.datasets import Boxes, read_mot, write_mot
    >>> path = Path(tempfile.mkdtemp()) / "tracks.txt"
    >>> write_mot(path, Boxes([1, 2], [7, 7], [[10, 20, 5, 9], [12, 20, 5, 9]]))
    >>> read_mot(path).id.tolist()
    [7, 7]
    """
    check_is_boxes(boxes, "boxes")
    with whole_file(path) as file:
        for row in boxes.table.tolist():
            file.write(",".join(map(_number, row)) + "\n")


def _number(value: float) -> str:
    """Write a number with as few digits as give it back."""
    is_whole = value.is_integer() and abs(value) < _MANY_DIGITS
    return str(int(value)) if is_whole else repr(value)


def _read_line(line: str, where: str) -> list[float]:
    cells = line.strip().rstrip(",").split(",") if "," in line else line.split()
    if not _LEAST <= len(cells) <= MAX_FIELDS:
        remedy = "Complete" if len(cells) < _LEAST else "Shorten"
        raise BoxError(
            f"{where}: a box must have {_LEAST} to {MAX_FIELDS} fields "
            f"({', '.join(FIELDS)}, and up to three more), separated by commas or white "
            f"space; got {len(cells)}. {remedy} the line, or remove it."
        )
    try:
        return [float(cell) for cell in cells]
    except ValueError:
        k = next(k for k, cell in enumerate(cells) if not _is_number(cell))
        raise BoxError(
            f"{where}: {field_name(k)} must be a number; got {cells[k].strip()[:40]!r}. "
            "Correct it, or remove the line."
        ) from None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _ragged(name: str, numbers: list[int], rows: list[list[float]]) -> BoxError:
    return BoxError(
        f"{name}, line {numbers[-1]}: all lines must have the same number of fields; this "
        f"one has {len(rows[-1])} and line {numbers[0]} has {len(rows[0])}. Complete the "
        "line, or the file if it is cut off."
    )
