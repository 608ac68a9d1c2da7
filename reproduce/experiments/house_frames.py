"""The frames of the CMU House: 30 landmarks each, and pairs of frames a gap apart.

The nodes of a graph are landmarks in random order on either side.  Shape contexts are
counts, so that matchings tie, and of those that tie the assignment prefers one in the order
of the nodes: with landmark i as node i on both sides it would often prefer the truth.

The pair that begins with frame i is for training, validation or testing as i leaves a
remainder of 0, 1 or 2 when divided by 3, the convention of Caetano et al. (2009).
"""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch.errors import InvalidPointsError
from permatch.graphs import BipartiteGraph
from permatch.pages.demo_learning import Pairs
from reproduce.experiments.folders import find_folder as find

FOLDER = "cmu_house"
PARTS = ("train", "validation", "test")

_CONTEXTS, _POINTS = "shape_contexts.npy", "points.npy"


@dataclass(frozen=True, eq=False)
class House:
    """Landmarks and their shape contexts, frame by frame; landmark i is always landmark i.

    Attributes
    ----------
    contexts : ndarray of shape (f, m, d)
        Shape contexts.
    points : ndarray of shape (f, m, 2)
        Where the landmarks are in the image, x to the right and y downwards.
    """

    contexts: FloatArray
    points: FloatArray

    @property
    def size(self) -> int:
        """Landmarks per frame, m."""
        return self.contexts.shape[1]

    @property
    def digest(self) -> str:
        """Names the content: any other number in it makes another."""
        content = hashlib.sha256(self.contexts.tobytes())
        content.update(self.points.tobytes())
        return content.hexdigest()[:12]

    def frames(self, gap: int, part: str) -> list[tuple[int, int]]:
        """Return the numbers of the two frames of every pair of a part."""
        first = PARTS.index(part)
        n_pairs = len(self.contexts) - gap
        return [(i, i + gap) for i in range(first, n_pairs, len(PARTS))]

    def pairs(self, gap: int, part: str) -> Pairs:
        """Return a graph for every pair of a part: squared differences of contexts."""
        return self.between(self.frames(gap, part))

    def between(
        self, frames: Sequence[tuple[int, int]], landmarks: IntArray | None = None
    ) -> Pairs:
        """Return a graph for every pair of frames, of some of the landmarks or of all."""
        graphs, matchings = [], []
        for i, j in frames:
            left, right = self.nodes(i, j, landmarks)
            own, other = self.contexts[i][left], self.contexts[j][right]
            graphs.append(BipartiteGraph((own[:, None] - other[None]) ** 2))
            matchings.append(np.argsort(right)[np.argsort(np.argsort(left))])
        return Pairs(graphs, matchings)

    def nodes(
        self, first: int, second: int, landmarks: IntArray | None = None
    ) -> tuple[IntArray, IntArray]:
        """Return the landmarks that the nodes of two frames stand for, left and right."""
        chosen = np.arange(self.size) if landmarks is None else landmarks
        rng = np.random.default_rng((first, second))
        return rng.permutation(chosen), rng.permutation(chosen)


def find_folder(data: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder with the arrays; see `folders.find_folder`."""
    return find("the CMU House data", FOLDER, (_CONTEXTS, _POINTS), data)


def load_house(data: str | os.PathLike[str] | None = None) -> House:
    """Read landmarks and shape contexts.

    Parameters
    ----------
    data : path, optional
        Where to look; see `find_folder`.

    Returns
    -------
    House
        All frames.
    """
    folder = find_folder(data)
    arrays = []
    for name in (_CONTEXTS, _POINTS):
        try:
            array = np.load(folder / name, allow_pickle=False).astype(np.float64)
        except (ValueError, TypeError, EOFError) as err:
            raise InvalidPointsError(
                f"{folder / name} must be a numeric array in NumPy format, but could not "
                f"be read ({err}). Copy the file again."
            ) from err
        arrays.append(array)
    contexts, points = arrays
    if not (
        contexts.ndim == 3
        and points.ndim == 3
        and points.shape == (*contexts.shape[:2], 2)
        and np.isfinite(contexts).all()
        and np.isfinite(points).all()
    ):
        raise InvalidPointsError(
            f"{folder} must contain finite shape contexts of shape (frames, landmarks, "
            "bins) and points of shape (frames, landmarks, 2); got shapes "
            f"{contexts.shape} and {points.shape}. Copy them again."
        )
    return House(contexts, points)
