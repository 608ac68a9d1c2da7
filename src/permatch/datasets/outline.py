"""The outline of the object an image shows, as points in order around it."""

import re
from io import BytesIO
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from permatch._optional import require
from permatch._types import BoolArray, FloatArray
from permatch._validation import refuse_masked
from permatch.errors import ImageError

#: An image: an array, the path of a file, or None for scikit-image's horse.
Image = Any


def read_outline(image: Image = None) -> FloatArray:
    """Return the vertices (x, y) around the largest object in an image, (n, 2).

    They are in pixels, x to the right and y upwards; the first one is not repeated at the
    end.  Grey images are split by Otsu's threshold.  The background is what most of the
    margin shows, so the object may be dark or light.
    """
    measure = require("skimage.measure", "vision", what="datasets.silhouettes")
    pixels = _read_pixels(image)
    is_object = _find_object(pixels)
    # A margin of background closes outlines that run into the edge of the image.
    contours = measure.find_contours(np.pad(is_object, 1).astype(np.float64), 0.5)
    largest = max(contours, key=lambda contour: abs(_area(contour)))
    return np.column_stack([largest[:-1, 1], -largest[:-1, 0]])


def resample(outline: FloatArray, n: int) -> FloatArray:
    """Return `n` points at equal steps along a closed outline, the first one its start."""
    closed = np.vstack([outline, outline[:1]])
    steps = np.hypot(*np.diff(closed, axis=0).T)
    travelled = np.concatenate([[0.0], np.cumsum(steps)])
    stops = travelled[-1] * np.arange(n) / n
    return np.column_stack([np.interp(stops, travelled, side) for side in closed.T])


def _read_pixels(image: Image) -> FloatArray | BoolArray:
    """Return the image as a 2-D array, boolean or grey."""
    if image is None:
        return require("skimage.data", "vision").horse()
    if isinstance(image, str | PathLike):
        return _read_file(Path(fspath(image)))
    refuse_masked(image, "image", ImageError)
    try:
        array = np.asarray(image)
    except ValueError as err:
        raise ImageError(f"image must be a 2-D array; {err}.") from err
    if array.ndim != 2 or array.dtype.kind not in "fiub" or array.size == 0:
        raise ImageError(
            "image must be a 2-D array of booleans or grey levels, a path, or None for the "
            f"horse; got shape {array.shape} and dtype {array.dtype}. Convert colours with "
            "skimage.color.rgb2gray."
        )
    if not np.isfinite(array).all():
        raise ImageError("image must have finite grey levels; got NaN or infinity.")
    return array


def _read_file(path: Path) -> FloatArray:
    """Return the first frame of an image file in grey levels from 0 to 1."""
    io = require("skimage.io", "vision")
    color = require("skimage.color", "vision")
    util = require("skimage.util", "vision")
    # A file that is not there fails as Python's `open` does; and the readers, given bytes,
    # leave no file open when they fail.
    content = BytesIO(path.read_bytes())
    try:
        pixels = util.img_as_float(io.imread(content))
    except Exception as err:  # every reader fails in its own way
        reason = (str(err) or type(err).__name__).splitlines()[0]
        reason = re.sub(r"`*<_io.BytesIO[^>]*>`*", "it", reason).rstrip(".")
        raise ImageError(
            f"{path} must be an image in a format that scikit-image reads, such as PNG, "
            f"JPEG or GIF; reading it failed: {reason}. Convert it, or use another file."
        ) from err
    while pixels.ndim > 3 or (pixels.ndim == 3 and pixels.shape[2] > 4):
        pixels = pixels[0]  # frames or pages; the first one
    if pixels.ndim == 3 and pixels.shape[2] == 4:
        pixels = color.rgba2rgb(pixels)  # on white
    if pixels.ndim == 3:
        pixels = color.rgb2gray(pixels) if pixels.shape[2] == 3 else pixels[..., 0]
    return pixels


def _find_object(pixels: FloatArray | BoolArray) -> BoolArray:
    """Return where the object is: the minority on the margin of the image."""
    lowest, highest = pixels.min(), pixels.max()
    if lowest == highest:
        raise ImageError(
            "image must show an object on a background of another shade; got "
            f"{pixels.shape[0]} x {pixels.shape[1]} pixels that are all {lowest}."
        )
    if pixels.dtype == np.bool_:
        is_light = pixels.astype(bool)
    else:
        filters = require("skimage.filters", "vision")
        is_light = pixels > filters.threshold_otsu(pixels)
    margin = [is_light[0], is_light[-1], is_light[1:-1, 0], is_light[1:-1, -1]]
    return ~is_light if np.concatenate(margin).mean() > 0.5 else is_light


def _area(contour: FloatArray) -> float:
    """Return the signed area within a closed polygon, by the shoelace formula."""
    x, y = contour.T
    return 0.5 * float(x[:-1] @ y[1:] - x[1:] @ y[:-1])
