"""Pairs of sheared silhouettes whose points are partly landmarks, partly outliers.

contour   400 points along the outline of a horse, divided into pools of landmarks for
training, validation and test: no landmark is in two of them
pair      two copies with shears of their own; `n_common` landmarks seen in both, and in
each copy outliers of its own: points anywhere in its bounding box
psi_i     shape context of point i in its copy: all that the methods see
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch.datasets.silhouettes import shear_points, silhouettes
from permatch.features import shape_context


@dataclass(frozen=True)
class Scenes:
    """How pairs are drawn."""

    n_common: int = 8
    outliers: tuple[int, int] = (2, 5)
    noise: float = 0.02
    shear: tuple[float, float] = (-1.0, 1.0)
    n_contour: int = 400


class Pair(NamedTuple):
    """Two copies of a silhouette.

    Attributes
    ----------
    left, right : ndarray of shape (n, 60), (k, 60)
        Shape contexts of the points of each.
    matching : ndarray of shape (n,)
        The right point of every left one, -1 for outliers.
    """

    left: FloatArray
    right: FloatArray
    matching: IntArray


def draw_pairs(
    scenes: Scenes, sizes: tuple[int, int, int], seed: int
) -> tuple[list[Pair], list[Pair], list[Pair]]:
    """Return pairs for training, validation and test, with landmarks of their own."""
    rng = np.random.default_rng(seed)
    made = silhouettes(n_images=1, n_points=3, n_contour=scenes.n_contour)
    contour = made.contour / np.abs(made.contour).max()
    pools = np.split(
        rng.permutation(len(contour)), [len(contour) // 2, 7 * len(contour) // 10]
    )
    train, valid, test = (
        [_draw(scenes, contour, pool, rng) for _ in range(n)]
        for pool, n in zip(pools, sizes, strict=True)
    )
    return train, valid, test


def _draw(
    scenes: Scenes, contour: FloatArray, pool: IntArray, rng: np.random.Generator
) -> Pair:
    landmarks = rng.choice(pool, scenes.n_common, replace=False)
    sides, orders = [], []
    for _ in range(2):
        outline = shear_points(contour, rng.uniform(*scenes.shear))
        n_outliers = int(rng.integers(scenes.outliers[0], scenes.outliers[1] + 1))
        low, high = outline.min(axis=0), outline.max(axis=0)
        points = np.concatenate(
            [
                outline[landmarks] + scenes.noise * rng.normal(size=(len(landmarks), 2)),
                rng.uniform(low, high, (n_outliers, 2)),
            ]
        )
        order = rng.permutation(len(points))
        sides.append(shape_context(points, outline)[order])
        orders.append(np.argsort(order))  # where each point went
    matching = np.full(len(orders[0]), -1)
    matching[orders[0][: len(landmarks)]] = orders[1][: len(landmarks)]
    return Pair(sides[0], sides[1], matching)
