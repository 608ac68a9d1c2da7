"""Features of boxes: of pairs in two frames, and of single boxes, for births and deaths.

A box is left, top, width, height.  Lengths are measured in heights of boxes, so that
features do not depend on the distance of a camera or on its resolution.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from permatch._features import as_reals
from permatch._types import FloatArray, IntArray
from permatch.errors import BoxError, InvalidOptionError

# Further than this from the border, in heights, an object will not leave the image soon.
_NEAR_BORDER = 1.0


@dataclass(frozen=True, eq=False)
class BoxPairs:
    """Pairs of boxes that may show the same object, with their features.

    Attributes
    ----------
    left, right : ndarray of shape (n_pairs,)
        Positions of the two boxes.
    features : ndarray of shape (n_pairs, d)
        A feature vector per pair.
    names : tuple of str
        The names of the features.

    Examples
    --------
    >>> from permatch.features import box_pairs
    >>> box_pairs([[0, 0, 5, 10]], [[0, 0, 5, 10]]).names
    ('iou', 'distance', 'dx_squared', 'dy_squared', 'height', 'width')
    """

    left: IntArray
    right: IntArray
    features: FloatArray
    names: tuple[str, ...] = (
        "iou",
        "distance",
        "dx_squared",
        "dy_squared",
        "height",
        "width",
    )


class BoxFeatures(NamedTuple):
    """Features of single boxes.

    Attributes
    ----------
    features : ndarray of shape (n, p)
        A feature vector per box.
    names : tuple of str
        The names of the features.

    Examples
    --------
    >>> from permatch.features import box_features
    >>> box_features([[0, 0, 5, 10]]).names
    ('overlap',)
    """

    features: FloatArray
    names: tuple[str, ...]


def box_iou(left: ArrayLike, right: ArrayLike) -> FloatArray:
    """Return the intersection over union of all pairs of boxes.

    Parameters
    ----------
    left, right : arrays of shape (n, 4) and (k, 4)
        Left, top, width and height.

    Returns
    -------
    ndarray of shape (n, k)
        Shares from 0, apart, to 1, equal.

    Examples
    --------
    >>> box_iou([[0, 0, 2, 2]], [[0, 0, 2, 2], [1, 0, 2, 2], [5, 0, 2, 2]])
    array([[1.        , 0.33333333, 0.        ]])
    """
    return _iou(as_boxes(left, "left"), as_boxes(right, "right"))


def box_pairs(left: ArrayLike, right: ArrayLike, *, max_distance: float = 1.5) -> BoxPairs:
    """Return the pairs of boxes that are near each other, with features that compare them.

    Parameters
    ----------
    left, right : arrays of shape (n, 4) and (k, 4)
        Left, top, width and height: boxes of two frames, or where tracks are expected to be
        and what was detected there.
    max_distance : float
        The largest distance of the centres, in heights, of pairs that are kept.

    Returns
    -------
    BoxPairs
        Sorted by left, then by right box.  The features:

        ================  ============================================================
        ``iou``           intersection over union
        ``distance``      distance of the centres
        ``dx_squared``    squared horizontal part of it
        ``dy_squared``    squared vertical part of it
        ``height``        absolute logarithm of the ratio of heights
        ``width``         absolute logarithm of the ratio of widths
        ================  ============================================================

        Distances are in heights, the geometric mean of both.

    Examples
    --------
    >>> pairs = box_pairs([[0, 0, 5, 10]], [[3, 0, 5, 10], [90, 0, 5, 10]])
    >>> pairs.right.tolist(), pairs.features.round(2).tolist()
    ([0], [[0.25, 0.3, 0.09, 0.0, 0.0, 0.0]])
    """
    if not max_distance > 0.0:
        raise InvalidOptionError(
            f"max_distance must be above 0, in heights of boxes; got {max_distance!r}."
        )
    one, other = as_boxes(left, "left"), as_boxes(right, "right")
    centres = [boxes[:, :2] + boxes[:, 2:] / 2.0 for boxes in (one, other)]
    height = np.sqrt(one[:, None, 3] * other[None, :, 3])
    shift = (centres[1][None] - centres[0][:, None]) / height[:, :, None]
    distance = np.hypot(shift[:, :, 0], shift[:, :, 1])
    i, j = np.nonzero(distance <= max_distance)
    ratio = np.abs(np.log(other[j, 2:] / one[i, 2:]))
    features = np.column_stack(
        [_iou(one, other)[i, j], distance[i, j], shift[i, j] ** 2, ratio[:, 1], ratio[:, 0]]
    )
    return BoxPairs(i, j, features)


def box_features(
    boxes: ArrayLike,
    *,
    size: tuple[float, float] | None = None,
    confidence: ArrayLike | None = None,
    missed: ArrayLike | None = None,
) -> BoxFeatures:
    """Return features of the single boxes of a frame, which tell who comes and goes.

    Parameters
    ----------
    boxes : array of shape (n, 4)
        Left, top, width and height.
    size : pair (width, height), optional
        The size of the image.
    confidence : array of shape (n,), optional
        How sure a detector is of every box.
    missed : array of shape (n,), optional
        For tracks: the number of frames since each was last seen, less one.

    Returns
    -------
    BoxFeatures
        With the features that are known:

        ================  ============================================================
        ``overlap``       largest intersection over union with another box
        ``border_x``      distance to the left or right border of the image, in
                          heights, from 0 to 1; needs `size`
        ``border_y``      the same for top and bottom
        ``confidence``    as given
        ``missed``        logarithm of one plus the frames that were missed
        ================  ============================================================

    Examples
    --------
    >>> box_features([[0, 0, 5, 10], [30, 4, 5, 10]], size=(40, 20)).features.tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.5, 0.4]]
    """
    known = as_boxes(boxes, "boxes")
    n = len(known)
    overlap = _iou(known, known)
    np.fill_diagonal(overlap, 0.0)
    columns = {"overlap": overlap.max(axis=1, initial=0.0)}
    if size is not None:
        ends = known[:, :2] + known[:, 2:]
        room = np.minimum(known[:, :2], _check_size(size) - ends)
        near = np.clip(room / known[:, 3:], 0.0, _NEAR_BORDER)
        columns |= {"border_x": near[:, 0], "border_y": near[:, 1]}
    if confidence is not None:
        columns["confidence"] = _per_box(confidence, "confidence", n)
    if missed is not None:
        frames = _per_box(missed, "missed", n)
        if frames.min(initial=0.0) < 0.0:
            raise BoxError(
                f"missed must be at least 0, for a track seen last frame; got "
                f"{frames.min():g}."
            )
        columns["missed"] = np.log1p(frames)
    return BoxFeatures(np.column_stack([*columns.values()]), tuple(columns))


def as_boxes(boxes: Any, name: str) -> FloatArray:
    """Return boxes (n, 4) that are finite and have a size."""
    array = as_reals(boxes, name, "(n, 4)").astype(np.float64)
    array = array.reshape(0, 4) if array.size == 0 else array
    if array.ndim != 2 or array.shape[1] != 4:
        raise BoxError(
            f"{name} must have shape (n, 4): left, top, width, height; got shape "
            f"{array.shape}."
        )
    is_bad = ~np.isfinite(array).all(axis=1) | (array[:, 2:] <= 0.0).any(axis=1)
    if is_bad.any():
        k = int(np.argmax(is_bad))
        raise BoxError(
            f"{name} must be finite, with widths and heights above 0; box {k} is "
            f"{array[k].tolist()}."
        )
    return array


def _check_size(size: Any) -> FloatArray:
    """Return the width and the height of an image."""
    array = as_reals(size, "size", "(2,)").astype(np.float64)
    if array.shape != (2,) or not ((array > 0.0) & (array < np.inf)).all():
        raise InvalidOptionError(
            f"size must be the width and the height of the image, above 0; got {size!r}."
        )
    return array


def _per_box(values: ArrayLike, name: str, n: int) -> FloatArray:
    array = as_reals(values, name, "(n,)").astype(np.float64)
    if array.shape != (n,) or not np.isfinite(array).all():
        raise BoxError(
            f"{name} must be one finite number per box, {n} in all; got shape "
            f"{array.shape}."
        )
    return array


def _iou(left: FloatArray, right: FloatArray) -> FloatArray:
    start = np.maximum(left[:, None, :2], right[None, :, :2])
    ends = [boxes[:, :2] + boxes[:, 2:] for boxes in (left, right)]
    end = np.minimum(ends[0][:, None], ends[1][None])
    common = np.clip(end - start, 0.0, None).prod(axis=2)
    areas = left[:, 2:].prod(axis=1)[:, None] + right[:, 2:].prod(axis=1)[None]
    # Rounding must not make a box overlap itself by more than all of it.
    return np.minimum(common / (areas - common), 1.0)
