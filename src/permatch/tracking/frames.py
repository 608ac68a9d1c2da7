"""Likelihood matrices as a problem, and its answers as matrices again.

A frame has a row per track; column 0 is the likelihood that the track was not detected, the
others are those of the detections.  All frames become one `Problem`: tracks are its left
nodes, detections its right nodes, and a detection without a track has score 0.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from permatch._types import BoolArray, FloatArray, IntArray
from permatch._validation import MAX_SCORE, as_floats, is_list_of_graphs, like_others
from permatch.errors import (
    InfeasibleGraphError,
    InfiniteScoreError,
    InvalidGraphError,
    NaNScoreError,
    ScoreShapeError,
    ScoreTypeError,
)
from permatch.problems import Problem, Structure

Kind = Literal["one", "stack", "list"]

_SHAPES = (
    "an array (tracks, detections + 1), column 0 for the missed detection, a stack "
    "(frames, tracks, detections + 1), or a list of arrays"
)
# What errors say of ragged, masked and boolean likelihoods.
_ADVICE = (
    f"{_SHAPES}; got nested sequences whose lengths differ. Give all rows of a frame the "
    "same length.",
    "Use .filled(0.0) for pairs that are not possible.",
    "A mask of possible pairs goes into valid=.",
)


@dataclass(frozen=True, eq=False)
class Frames:
    """Frames as they were given, and the problem they make.

    Attributes
    ----------
    kind : str
        What was given: "one" frame, a "stack" or a "list".
    shapes : ndarray of shape (n_frames, 2)
        Tracks, and detections + 1, of every frame.
    shape : tuple of two ints
        That of every frame, unless they come in a list: an empty stack has one too.
    problem : Problem
        A graph per frame.
    edges : ndarray of shape (n_edges,)
        The possible pairs, as places among the entries of all frames.
    missed : ndarray of shape (n_tracks,)
        The first entry of every row, likewise.
    """

    kind: Kind
    shapes: IntArray
    shape: tuple[int, int]
    problem: Problem
    edges: IntArray
    missed: IntArray

    def matrices(self, of_pairs: FloatArray, of_missed: FloatArray) -> Any:
        """Return values of pairs and of missed detections in the form of the input."""
        entries = np.zeros(int(self.shapes.prod(axis=1).sum()))
        entries[self.edges] = of_pairs
        entries[self.missed] = of_missed
        return self._split(entries, lambda n, k: (n, k))

    def per_track(self, values: np.ndarray) -> Any:
        """Return values of all tracks, frame by frame."""
        return self._split(values, lambda n, k: (n,))

    def per_detection(self, values: np.ndarray) -> Any:
        """Return values of all detections, frame by frame."""
        return self._split(values, lambda n, k: (k - 1,))

    def per_frame(self, values: FloatArray) -> Any:
        """Return one value per frame; a float if one frame was given."""
        return float(values[0]) if self.kind == "one" else values

    def name(self, frame: int) -> str:
        """Return what errors call a frame."""
        return "the frame" if self.kind == "one" else f"frame {frame}"

    def _split(self, values: np.ndarray, part: Callable[[int, int], tuple]) -> Any:
        if self.kind == "one":
            return values.reshape(part(*self.shape))
        if self.kind == "stack":
            return values.reshape(len(self.shapes), *part(*self.shape))
        shapes = [part(*shape) for shape in self.shapes.tolist()]
        ends = np.cumsum([0, *map(math.prod, shapes)])
        return [
            values[start:end].reshape(shape)
            for start, end, shape in zip(ends[:-1], ends[1:], shapes, strict=True)
        ]


def read_frames(likelihood: Any, valid: Any, log: bool) -> Frames:
    """Check likelihoods, and make a problem of them.

    Parameters
    ----------
    likelihood : array (n, k + 1), stack (b, n, k + 1) or list of arrays
        Likelihoods, or their logarithms.
    valid : the same of booleans, or None
        Which of them count.
    log : bool
        Whether they are logarithms.

    Returns
    -------
    Frames
        The problem, and the way back.
    """
    kind, arrays = _as_arrays(likelihood, "likelihood")
    shapes, shape = _check_shapes(kind, arrays, likelihood)
    entries = _joined([array.ravel() for array in arrays])
    rows = np.repeat(shapes[:, 1], shapes[:, 0])
    starts = np.concatenate([[0], np.cumsum(rows)])
    place = _Place(kind, shapes, starts)
    if valid is not None:
        entries = np.where(
            _check_valid(valid, kind, shapes), entries, -np.inf if log else 0
        )
    if log:
        _check_logs(entries, place)
    else:
        _check_likelihoods(entries, place)
        with np.errstate(divide="ignore"):
            entries = np.log(entries)
    missed = starts[:-1]
    is_edge = entries > -np.inf
    is_edge[missed] = False
    edges = np.nonzero(is_edge)[0]
    problem = _problem(entries, edges, missed, rows, shapes)
    _check_rows(problem, place)
    return Frames(kind, shapes, shape, problem, edges, missed)


def _problem(
    entries: FloatArray, edges: IntArray, missed: IntArray, rows: IntArray, shapes: IntArray
) -> Problem:
    """Return all frames as one problem; `rows` has the length of every row."""
    left_starts = np.concatenate([[0], np.cumsum(shapes[:, 0])])
    right_starts = np.concatenate([[0], np.cumsum(shapes[:, 1] - 1)])
    left = np.repeat(np.arange(len(rows)), rows)[edges]
    first = np.repeat(right_starts[:-1], shapes[:, 0]) - missed - 1
    counts = np.bincount(left, minlength=len(rows))
    structure = Structure(
        np.concatenate([[0], np.cumsum(counts)]),
        edges + first[left],
        left_starts,
        right_starts,
    )
    return Problem(structure, entries[edges], entries[missed], np.zeros(structure.n_right))


# ---- checks


@dataclass(frozen=True, eq=False)
class _Place:
    """Names entries in errors."""

    kind: Kind
    shapes: IntArray
    starts: IntArray  # of rows

    def row(self, row: int) -> str:
        """Return which track of which frame a row is."""
        before = np.cumsum(self.shapes[:, 0])
        frame = int(np.searchsorted(before, row, side="right"))
        track = row - int(before[frame] - self.shapes[frame, 0])
        return f"track {track}" + ("" if self.kind == "one" else f" of frame {frame}")

    def entry(self, entry: int) -> str:
        """Return the column and the row of an entry."""
        row = int(np.searchsorted(self.starts, entry, side="right")) - 1
        return f"{self.row(row)}, column {entry - int(self.starts[row])}"


def _as_arrays(values: Any, name: str) -> tuple[Kind, list[FloatArray]]:
    """Return what was given, and the frames as arrays of floats."""
    try:
        is_list = is_list_of_graphs(values)
    except ScoreShapeError:
        raise ScoreShapeError(f"{name} must be {_ADVICE[0]}") from None
    if is_list:
        names = (f"{name} of frame {g}" for g in range(len(values)))
        return "list", [
            as_floats(own, of, _ADVICE) for own, of in zip(values, names, strict=True)
        ]
    array = as_floats(values, name, _ADVICE)
    return ("stack", list(array)) if array.ndim == 3 else ("one", [array])


def _check_shapes(
    kind: Kind, arrays: list[FloatArray], given: Any
) -> tuple[IntArray, tuple[int, int]]:
    for g, array in enumerate(arrays):
        if array.ndim != 2 or array.shape[1] == 0:
            name = "likelihood" if kind == "one" else f"likelihood of frame {g}"
            raise ScoreShapeError(
                f"{name} must be {_SHAPES}; got shape {array.shape}. "
                "A frame without detections has shape (tracks, 1)."
            )
    shapes = np.array([array.shape for array in arrays], dtype=np.int64).reshape(-1, 2)
    if kind == "list":
        return shapes, (0, 0)
    n, k = np.shape(given)[-2:]
    return shapes, (n, k)


def _joined(pieces: list[np.ndarray]) -> FloatArray:
    return np.concatenate(pieces) if pieces else np.zeros(0)


def _check_valid(valid: Any, kind: Kind, shapes: IntArray) -> BoolArray:
    """Return which entries count."""
    masks = [valid]
    if kind != "one":
        masks = list(valid) if hasattr(valid, "__len__") else []
    if len(masks) != len(shapes):
        got = f"{len(masks)}" if hasattr(valid, "__len__") else f"{valid!r:.60}"
        raise ScoreShapeError(
            f"valid must have as many frames as likelihood, {len(shapes)}; got {got}."
        )
    found = []
    for g, (mask, shape) in enumerate(zip(masks, shapes.tolist(), strict=True)):
        name = "valid" if kind == "one" else f"valid of frame {g}"
        try:
            array = np.asarray(mask)
        except ValueError:  # rows of different lengths
            array = np.zeros(0)
        if array.shape != tuple(shape):
            raise ScoreShapeError(
                f"{name} must have the shape of likelihood, {tuple(shape)}, with the "
                f"column of missed detections; got shape {array.shape}."
            )
        if array.dtype.kind not in "biu" or not np.isin(array, (0, 1)).all():
            raise ScoreTypeError(
                f"{name} must be True or False, or 1 or 0, for every entry; got dtype "
                f"{array.dtype}. For a gate use valid=distances <= threshold."
            )
        found.append(array.astype(bool).ravel())
    return np.concatenate(found) if found else np.zeros(0, dtype=bool)


def _check_likelihoods(entries: FloatArray, place: _Place) -> None:
    if entries.min(initial=0.0) >= 0.0 and entries.max(initial=0.0) < np.inf:
        return
    _refuse_nan(entries, place, "0")
    is_wrong = entries < 0.0
    if is_wrong.any():
        worst = int(np.argmax(is_wrong))
        raise InvalidGraphError(
            f"likelihood must be at least 0; got {entries[worst]:g} at "
            f"{place.entry(worst)}{like_others(int(is_wrong.sum()))}. For logarithms of "
            "likelihoods use log=True."
        )
    worst = int(np.argmax(entries))
    raise InfiniteScoreError(
        f"likelihood must be finite; got inf at {place.entry(worst)}. Use log=True with "
        "logarithms where likelihoods overflow; set the null column to 0 for a track that "
        "was detected for certain."
    )


def _check_logs(entries: FloatArray, place: _Place) -> None:
    with np.errstate(invalid="ignore"):
        is_wrong = ~((np.abs(entries) <= MAX_SCORE) | (entries == -np.inf))
    if not is_wrong.any():
        return
    _refuse_nan(entries, place, "-inf")
    worst = int(np.argmax(is_wrong))
    raise InfiniteScoreError(
        f"log-likelihoods must be at most {MAX_SCORE:g} in size, or -inf for what is not "
        f"possible; got {entries[worst]} at {place.entry(worst)}."
    )


def _refuse_nan(entries: FloatArray, place: _Place, nothing: str) -> None:
    is_nan = np.isnan(entries)
    if is_nan.any():
        raise NaNScoreError(
            f"likelihood must not contain NaN; got {is_nan.sum()} of them, the first at "
            f"{place.entry(int(np.argmax(is_nan)))}. Use {nothing}, or valid=, for pairs "
            "that are not possible."
        )


def _check_rows(problem: Problem, place: _Place) -> None:
    """Refuse tracks to which nothing can have happened."""
    starts = problem.structure.starts
    is_empty = (starts[1:] == starts[:-1]) & (problem.unmatched_left == -np.inf)
    if is_empty.any():
        raise InfeasibleGraphError(
            "every track needs a likelihood above 0; "
            f"{place.row(int(np.argmax(is_empty)))}{like_others(int(is_empty.sum()))} has "
            "none. Give column 0, the missed detection, a likelihood, or drop the track."
        )
