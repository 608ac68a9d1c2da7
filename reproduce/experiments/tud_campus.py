"""TUD-Campus: people who cross a campus, with true boxes in 71 frames.

A detector is imitated: true boxes are dropped, moved and resized at random.  The sequence
is split in two ways, both halves being tested in turn:

    time      frames of the first half against those of the second; some people are in both
    people    every second person against the others, in all frames; nobody is in both
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from permatch.datasets import Boxes, read_mot
from reproduce.experiments.folders import find_folder as find

FOLDER = "tud_campus"
SPLITS = ("time", "people")

_FILE = "gt.txt"


@dataclass(frozen=True, eq=False)
class Campus:
    """The true boxes, and what is made of them.

    Attributes
    ----------
    truth : Boxes
        All frames.
    """

    truth: Boxes

    @property
    def digest(self) -> str:
        """Names the content: any other number in it makes another."""
        return hashlib.sha256(self.truth.table.tobytes()).hexdigest()[:12]

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of the image, as far as the boxes reach."""
        width, height = (self.truth.box[:, :2] + self.truth.box[:, 2:]).max(axis=0)
        return float(width), float(height)

    def halves(self, split: str) -> list[np.ndarray]:
        """Return which true boxes belong to the first part and which to the second."""
        if split == "time":
            frames = self.truth.frames()
            is_first = self.truth.frame < frames[len(frames) // 2]
        else:
            ids = np.unique(self.truth.id)
            is_first = np.isin(self.truth.id, ids[::2])
        return [is_first, ~is_first]


def imitate_detector(
    boxes: Boxes, drop: float, jitter: float, rng: np.random.Generator
) -> Boxes:
    """Return boxes as a detector might find them.

    Parameters
    ----------
    boxes : Boxes
        True boxes.
    drop : float
        Share of the boxes that are not found.
    jitter : float
        Standard deviation of the centres, in widths and heights, and of the logarithms of
        widths and heights.
    rng : Generator
        Source of chance.

    Returns
    -------
    Boxes
        With the true identities.
    """
    size = boxes.box[:, 2:]
    centre = boxes.box[:, :2] + size / 2.0 + jitter * size * rng.normal(size=size.shape)
    size = size * np.exp(jitter * rng.normal(size=size.shape))
    moved = Boxes(boxes.frame, boxes.id, np.hstack([centre - size / 2.0, size]))
    return moved[rng.random(len(boxes)) >= drop]


def thin_out(boxes: Boxes, stride: int, phase: int) -> Boxes:
    """Return every stride-th frame, numbered from 1, beginning with frame ``phase + 1``."""
    kept = boxes[(boxes.frame - 1 - phase) % stride == 0]
    number = (kept.frame - 1 - phase) // stride + 1
    kept = kept[number >= 1]
    return Boxes(number[number >= 1], kept.id, kept.box, kept.confidence, kept.extra)


def find_folder(data: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder with the true boxes; see `folders.find_folder`."""
    return find("the ground truth of TUD-Campus", FOLDER, (_FILE,), data)


def load_campus(data: str | os.PathLike[str] | None = None) -> Campus:
    """Read the true boxes.

    Parameters
    ----------
    data : path, optional
        Where to look; see `find_folder`.

    Returns
    -------
    Campus
        All frames.
    """
    return Campus(read_mot(find_folder(data) / _FILE))
