"""Shape contexts: log-polar histograms of a shape, seen from each of its points.

    psi_i[r, a]  =  share of the context points q with
                    edge[r-1] <= |q - p_i| / scale < edge[r]
                    and the direction of q - p_i in the a-th of `n_angular` equal sectors

The edges grow geometrically from `inner` to `outer`, so near points are resolved better
than far ones; the first ring is the whole disc within `inner`, and points beyond `outer`
are not counted.  With `scale` the mean distance between context points, the histogram is
invariant to translation and scaling.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from permatch._types import FloatArray, IntArray
from permatch._validation import check_count, refuse_masked
from permatch.errors import InvalidOptionError, InvalidPointsError

#: Distances held in memory at once.
_BLOCK = 1_000_000


def shape_context(
    points: ArrayLike,
    context: ArrayLike | None = None,
    *,
    n_radial: int = 5,
    n_angular: int = 12,
    inner: float = 0.125,
    outer: float = 2.0,
    rotation_invariant: bool = False,
    tangents: ArrayLike | None = None,
    scale: float | None = None,
) -> FloatArray:
    """Describe every point by a log-polar histogram of the points around it.

    Parameters
    ----------
    points : array of shape (n, 2)
        The points to describe, as (x, y).
    context : array of shape (k, 2), optional
        The points to count, such as all points of an outline; None counts `points`.
    n_radial, n_angular : int
        Number of rings and of sectors.
    inner, outer : float
        Radius of the innermost and of the outermost ring, in units of `scale`.
    rotation_invariant : bool
        Measure directions from the tangent at each point instead of the x-axis.
    tangents : array of shape (n, 2), optional
        Direction of the outline at each point, of any length.  Default: from the neighbours
        of the nearest context point; the context must then follow a closed outline.
    scale : float, optional
        The unit of length; default: the mean distance between two context points.

    Returns
    -------
    ndarray of shape (n, n_radial * n_angular)
        Shares, ring by ring from the inside, each by angle; a row sums to at most 1.
        Context points that coincide with the point itself are not counted.

    Raises
    ------
    InvalidPointsError
        If points are not finite, not of shape (n, 2), or all in one place.

    Notes
    -----
    O(n k) for the histograms and O(k^2) for `scale`, in blocks of bounded memory.

    References
    ----------
    S. Belongie, J. Malik, J. Puzicha, "Shape matching and object recognition using shape
    contexts", IEEE PAMI 24 (2002).

    Examples
    --------
    Seen from a corner of a square, two corners are a side away and one a diagonal:

    >>> square = [[0, 0], [1, 0], [1, 1], [0, 1]]
    >>> shape_context(square, n_radial=2, n_angular=4, inner=1.0, outer=2.0).shape
    (4, 8)
    >>> shape_context(square, n_radial=2, n_angular=4, inner=1.0, outer=2.0)[0].round(2)
    array([0.33, 0.33, 0.  , 0.  , 0.33, 0.  , 0.  , 0.  ])
    """
    points = _check_points(points, "points")
    context = points if context is None else _check_points(context, "context")
    n_radial = check_count(n_radial, "n_radial", 1)
    n_angular = check_count(n_angular, "n_angular", 1)
    if not 0.0 < inner < outer < np.inf:
        raise InvalidOptionError(
            f"the radii must satisfy 0 < inner < outer; got inner={inner!r} and "
            f"outer={outer!r}."
        )
    scale = _mean_distance(context) if scale is None else scale
    if not 0.0 < scale < np.inf:
        raise InvalidPointsError(
            "shape contexts need distinct context points and a finite scale above 0; "
            f"got {len(context)} context points and scale {scale}."
        )
    edges = scale * np.geomspace(outer, inner, n_radial)[::-1]  # one ring ends at outer
    turns = np.zeros(len(points))
    if rotation_invariant:
        ahead = _tangents(points, context, tangents)
        turns = np.arctan2(ahead[:, 1], ahead[:, 0])
    elif tangents is not None:
        raise InvalidOptionError(
            "tangents need rotation_invariant=True; got False. Set it, or drop tangents."
        )

    histograms = np.empty((len(points), n_radial * n_angular))
    for block in _blocks(len(points), len(context)):
        offset = context - points[block, None]
        angle = np.arctan2(offset[..., 1], offset[..., 0]) - turns[block, None]
        radius = np.hypot(offset[..., 0], offset[..., 1])
        histograms[block] = _histograms(radius, angle, edges, n_angular)
    return histograms


def outline_tangents(outline: FloatArray) -> FloatArray:
    """Return the direction (k, 2) in which a closed outline passes each of its points."""
    return np.roll(outline, -1, axis=0) - np.roll(outline, 1, axis=0)


def _histograms(
    radius: FloatArray, angle: FloatArray, edges: FloatArray, n_angular: int
) -> FloatArray:
    """Count polar coordinates (n, k) into n histograms, each over its other points."""
    ring = np.searchsorted(edges, radius, side="right")
    # The remainder takes in angles below 0, and those that rounding lifts to 2 pi.
    sector = np.floor(angle * (n_angular / (2.0 * np.pi))).astype(np.intp) % n_angular
    is_other = radius > 0.0
    is_counted = is_other & (ring < len(edges))
    n_rows, n_bins = len(radius), len(edges) * n_angular
    cell = (np.arange(n_rows)[:, None] * len(edges) + ring) * n_angular + sector
    counts = np.bincount(cell[is_counted], minlength=n_rows * n_bins)
    n_others = np.maximum(is_other.sum(axis=1), 1)
    return counts.reshape(n_rows, n_bins) / n_others[:, None]


def _tangents(
    points: FloatArray, context: FloatArray, tangents: ArrayLike | None
) -> FloatArray:
    """Return the tangent (n, 2) at every point, given or from the nearest context point."""
    if tangents is None:
        along = outline_tangents(context)
        found = np.concatenate(
            [
                along[_nearest(points[block], context)]
                for block in _blocks(len(points), len(context))
            ]
        )
    else:
        found = _check_points(tangents, "tangents")
    if len(found) != len(points) or not found.any(axis=1).all():
        raise InvalidPointsError(
            f"rotation invariance needs a tangent at each of the {len(points)} points, of "
            f"length above 0; got {int(found.any(axis=1).sum())} such tangents. Pass "
            "tangents, or a context that follows a closed outline."
        )
    return found


def _nearest(points: FloatArray, context: FloatArray) -> IntArray:
    return ((context - points[:, None]) ** 2).sum(axis=2).argmin(axis=1)


def _mean_distance(points: FloatArray) -> float:
    """Return the mean distance between two different entries of `points`."""
    from scipy.spatial.distance import cdist  # some 0.2 s: only when it is needed

    total = sum(
        float(cdist(points[block], points).sum())
        for block in _blocks(len(points), len(points))
    )
    return total / max(len(points) * (len(points) - 1), 1)


def _blocks(n_rows: int, n_cols: int) -> list[slice]:
    """Cut the rows of a table of distances so that no block is too large."""
    step = max(1, _BLOCK // max(n_cols, 1))
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


def _check_points(points: Any, name: str) -> FloatArray:
    refuse_masked(points, name, InvalidPointsError)
    try:
        array = np.asarray(points, dtype=np.float64)
    except (TypeError, ValueError) as err:
        raise InvalidPointsError(
            f"{name} must be numbers of shape (n, 2), one row (x, y) per point; {err}."
        ) from err
    if array.ndim != 2 or array.shape[1] != 2 or len(array) == 0:
        raise InvalidPointsError(
            f"{name} must have shape (n, 2), one row (x, y) per point; got {array.shape}."
        )
    if not np.isfinite(array).all():
        worst = int(np.argmin(np.isfinite(array).all(axis=1)))
        raise InvalidPointsError(
            f"{name} must be finite; point {worst} is {array[worst].tolist()}. Drop it."
        )
    return array
