"""Sheared copies of one silhouette, and pairs of them to be matched point by point.

contour   points at equal steps along the outline of the object, centred
copy k    x <- x + shear_k y for all of them; the landmarks go along
psi_i     shape context of landmark i in a copy
x_ij      (psi_i - psi_j)^2, elementwise: landmark i of one copy, j of another, shuffled
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from permatch._types import FloatArray, IntArray, Seed
from permatch._validation import check_choice, check_count, check_rng
from permatch.datasets.outline import Image, read_outline, resample
from permatch.errors import ImageError, InvalidOptionError
from permatch.features.shape_context import outline_tangents, shape_context
from permatch.graphs import BipartiteGraph

_CONTEXTS = ("contour", "landmarks")


class SilhouettePairs(NamedTuple):
    """Pairs of sheared copies to be matched.

    Attributes
    ----------
    graphs : list of BipartiteGraph
        Left nodes are the landmarks of the first copy, right nodes those of the second in
        shuffled order.
    matchings : list of ndarray of shape (n_points,)
        Landmark i of the first copy is right node ``matching[i]``.
    images : ndarray of shape (n, 2)
        Indices of the two copies.

    Examples
    --------
    >>> import numpy as np
    >>> from permatch.datasets import silhouettes
    >>> image = np.zeros((40, 60))
    >>> image[10:30, 10:20], image[10:15, 20:50] = 1.0, 1.0
    >>> pairs = silhouettes(image, n_points=5, n_images=10).pairs(3, rng=0)
    >>> len(pairs.graphs), pairs.images.shape, sorted(pairs.matchings[0].tolist())
    (3, (3, 2), [0, 1, 2, 3, 4])
    """

    graphs: list[BipartiteGraph]
    matchings: list[IntArray]
    images: IntArray


@dataclass(frozen=True, eq=False, repr=False)
class Silhouettes:
    """Sheared copies of one silhouette; `silhouettes` makes them.

    Attributes
    ----------
    contour : ndarray of shape (n_contour, 2)
        The outline before shearing, centred; x to the right, y upwards.
    landmarks : ndarray of shape (n_points,)
        The contour points to be matched, in increasing order.
    shears : ndarray of shape (n_images,)
        The shear of each copy.
    points : ndarray of shape (n_images, n_points, 2)
        The landmarks of every copy.
    contexts : ndarray of shape (n_images, n_points, d)
        Their shape contexts.
    context : str
        What the shape contexts count: ``"contour"`` or ``"landmarks"``.
    context_options : dict
        Options of `permatch.features.shape_context`.

    Examples
    --------
    >>> import numpy as np
    >>> from permatch.datasets import silhouettes
    >>> image = np.zeros((40, 60))
    >>> image[10:30, 10:20], image[10:15, 20:50] = 1.0, 1.0
    >>> data = silhouettes(image, n_points=5, n_images=10)
    >>> data.points.shape, data.landmarks.shape, data.shears.shape
    ((10, 5, 2), (5,), (10,))
    """

    contour: FloatArray
    landmarks: IntArray
    shears: FloatArray
    points: FloatArray
    contexts: FloatArray
    context: str
    context_options: Mapping[str, Any]

    @property
    def n_images(self) -> int:
        """Number of sheared copies."""
        return len(self.shears)

    @property
    def n_points(self) -> int:
        """Landmarks per copy, the size m of every graph."""
        return len(self.landmarks)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(n_images={self.n_images}, n_points={self.n_points}, "
            f"n_contour={len(self.contour)})"
        )

    def outline(self, image: int) -> FloatArray:
        """Return the outline (n_contour, 2) of one copy."""
        return shear_points(self.contour, self.shears[image])

    def right_points(self, image: int, matching: IntArray) -> FloatArray:
        """Return the landmarks of a copy in the order that `pairs` shuffled them to.

        Parameters
        ----------
        image : int
            The second copy of a pair.
        matching : ndarray of shape (n_points,)
            The pair's true matching.

        Returns
        -------
        ndarray of shape (n_points, 2)
            Row j is right node j of the pair's graph.
        """
        return _shuffle(self.points[image], matching)

    def new_landmarks(self, *others: "Silhouettes", rng: Seed = None) -> "Silhouettes":
        """Draw other landmarks on the same copies, to test on points never learned from.

        Parameters
        ----------
        *others : Silhouettes
            What else must have no landmark in common with the result, of the same contour.
        rng : int, numpy.random.Generator or None
            Seed or generator of the landmarks.

        Returns
        -------
        Silhouettes
            As many landmarks, none of which is a landmark of this one.

        Examples
        --------
        >>> import numpy as np
        >>> from permatch.datasets import silhouettes
        >>> image = np.zeros((40, 60))
        >>> image[10:30, 10:20], image[10:15, 20:50] = 1.0, 1.0
        >>> test = silhouettes(image, n_points=5, n_images=10)
        >>> train = test.new_landmarks(rng=0)
        >>> validation = test.new_landmarks(train, rng=1)
        >>> len({*test.landmarks, *train.landmarks, *validation.landmarks})
        15
        """
        if any(not np.array_equal(other.contour, self.contour) for other in others):
            raise InvalidOptionError(
                "new landmarks can only be kept apart from others on the same contour; got "
                "another contour. Pass results of new_landmarks of these silhouettes."
            )
        taken = [self.landmarks, *(other.landmarks for other in others)]
        free = np.setdiff1d(np.arange(len(self.contour)), np.concatenate(taken))
        if len(free) < self.n_points:
            raise InvalidOptionError(
                f"{self.n_points} new landmarks need as many contour points that are not "
                f"landmarks yet; got {len(free)} of {len(self.contour)}. Raise n_contour, "
                "or use fewer points."
            )
        landmarks = _draw_landmarks(free, self.n_points, check_rng(rng))
        options = self.context_options
        return _describe(self.contour, landmarks, self.shears, self.context, options)

    def pairs(self, n: int, rng: Seed = None) -> SilhouettePairs:
        """Draw distinct pairs of different copies, with shuffled landmarks.

        Parameters
        ----------
        n : int
            Number of pairs.
        rng : int, numpy.random.Generator or None
            Seed or generator.  With the same seed, a larger `n` only adds pairs.

        Returns
        -------
        SilhouettePairs
            Graphs, their true matchings, and which copies they come from.
        """
        n = check_count(n, "n", 0)
        rng = check_rng(rng)
        first, second = np.triu_indices(self.n_images, 1)
        if n > len(first):
            raise InvalidOptionError(
                f"n must be at most {len(first)}, the number of pairs of "
                f"{self.n_images} images; got n={n}. Use fewer pairs, or raise n_images."
            )
        chosen = rng.permutation(len(first))[:n]
        images = np.column_stack([first[chosen], second[chosen]])
        matchings = []
        for k in range(n):
            if rng.random() < 0.5:
                images[k] = images[k, ::-1]
            matchings.append(rng.permutation(self.n_points).astype(np.intp))
        graphs = [
            BipartiteGraph.from_nodes(
                self.contexts[a], _shuffle(self.contexts[b], matching)
            )
            for (a, b), matching in zip(images, matchings, strict=True)
        ]
        return SilhouettePairs(graphs, matchings, images.astype(np.intp))


def silhouettes(
    image: Image = None,
    *,
    n_points: int = 20,
    n_images: int = 200,
    shear: tuple[float, float] = (-2.0, 2.0),
    context: Literal["contour", "landmarks"] = "contour",
    n_contour: int | None = 400,
    rng: Seed = 0,
    **shape_context_options: Any,
) -> Silhouettes:
    """Make sheared copies of a silhouette, with landmarks and their shape contexts.

    Parameters
    ----------
    image : array of shape (height, width), path, or None
        An object on a plain background, black and white or grey; None: scikit-image's
        horse.  The outline of the largest object is used.
    n_points : int
        Landmarks, drawn at random from the contour points.
    n_images : int
        Sheared copies.
    shear : pair of float
        Lowest and highest shear, drawn uniformly; with shear s, ``x`` becomes ``x + s y``.
    context : {"contour", "landmarks"}
        What the shape contexts count: all contour points, or the landmarks alone.
    n_contour : int, optional
        Contour points, equally spaced along the outline; None uses the vertices of the
        outline, about two per pixel.
    rng : int, numpy.random.Generator or None
        Seed or generator of landmarks and shears.
    **shape_context_options
        Passed to `permatch.features.shape_context`, such as ``n_radial`` or
        ``rotation_invariant``.

    Returns
    -------
    Silhouettes
        With a method `pairs` that draws pairs to be matched.

    Raises
    ------
    MissingDependencyError
        If scikit-image is not installed.
    ImageError
        If the image cannot be read, is blank, or its outline has too few points.

    Notes
    -----
    O(n_images n_contour^2), about a second for 200 copies of 400 points.

    Examples
    --------
    >>> import numpy as np
    >>> image = np.zeros((40, 60))
    >>> image[10:30, 10:20], image[10:15, 20:50] = 1.0, 1.0
    >>> data = silhouettes(image, n_points=5, n_images=10)
    >>> graphs, matchings, images = data.pairs(3, rng=0)
    >>> graphs[0].features.shape
    (5, 5, 60)
    """
    n_points = check_count(n_points, "n_points", 1)
    n_images = check_count(n_images, "n_images", 1)
    low, high = _check_shear(shear)
    check_choice(context, "context", _CONTEXTS)
    rng = check_rng(rng)
    contour = _contour(image, n_points, n_contour)
    landmarks = _draw_landmarks(np.arange(len(contour)), n_points, rng)
    shears = rng.uniform(low, high, n_images)
    return _describe(contour, landmarks, shears, context, shape_context_options)


def shear_points(points: FloatArray, amount: float) -> FloatArray:
    """Return points (n, 2) moved sideways by `amount` times their height."""
    return points + np.outer(amount * points[:, 1], [1.0, 0.0])


def _draw_landmarks(free: IntArray, n: int, rng: np.random.Generator) -> IntArray:
    return np.sort(rng.choice(free, n, replace=False)).astype(np.intp)


def _describe(
    contour: FloatArray,
    landmarks: IntArray,
    shears: FloatArray,
    context: str,
    context_options: Mapping[str, Any],
) -> Silhouettes:
    """Return sheared copies with the shape contexts of their landmarks."""
    points, contexts = [], []
    for amount in shears:
        outline = shear_points(contour, amount)
        options = dict(context_options)
        if options.get("rotation_invariant"):
            options.setdefault("tangents", outline_tangents(outline)[landmarks])
        around = outline if context == "contour" else None
        points.append(outline[landmarks])
        contexts.append(shape_context(points[-1], around, **options))
    found = np.array(points), np.array(contexts)
    return Silhouettes(contour, landmarks, shears, *found, context, context_options)


def _contour(image: Image, n_points: int, n_contour: int | None) -> FloatArray:
    """Return the outline of an image, resampled and centred."""
    if n_contour is not None and check_count(n_contour, "n_contour", 3) < n_points:
        raise InvalidOptionError(
            f"landmarks are drawn from the contour points, so n_contour must be at least "
            f"n_points={n_points}; got {n_contour}. Raise n_contour."
        )
    outline = read_outline(image)
    if len(outline) < n_points:
        raise ImageError(
            f"the outline of the largest object must have at least n_points={n_points} "
            f"vertices; got {len(outline)}. Use a larger image, or fewer points."
        )
    contour = outline if n_contour is None else resample(outline, n_contour)
    return contour - contour.mean(axis=0)


def _shuffle(rows: FloatArray, matching: IntArray) -> FloatArray:
    """Put row i in place ``matching[i]``."""
    shuffled = np.empty_like(rows)
    shuffled[matching] = rows
    return shuffled


def _check_shear(shear: Any) -> tuple[float, float]:
    try:
        low, high = (float(end) for end in shear)
    except (TypeError, ValueError):
        low, high = np.nan, np.nan
    if not -np.inf < low <= high < np.inf:
        raise InvalidOptionError(
            f"shear must be a pair (lowest, highest) of finite numbers; got {shear!r}."
        )
    return low, high
