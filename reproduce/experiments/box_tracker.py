"""A small tracker of boxes: a Kalman filter per object, and a way to link detections.

Centres move with constant velocity, up to noise in units of the height; sizes are averaged.
Only the links differ between the methods compared: who is who, who comes and who goes.

    iou         the assignment with the largest sum of intersections over unions, without
                those below a threshold
    permatch    the likeliest matching under learned scores, births and deaths included
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from permatch._types import FloatArray, IntArray
from permatch.datasets import Boxes
from permatch.features import box_iou
from permatch.graphs import BipartiteGraph
from permatch.tracking import FramePairs, box_graph, match_ids
from reproduce.experiments.rows import Row

# Standard deviations, in heights: of a detected centre, of a first velocity per frame, and
# of what a velocity changes by in a frame.
_MEASURED, _FIRST_VELOCITY, _ACCELERATION = 0.05, 0.05, 0.01
_STEP = np.array([[1.0, 1.0], [0.0, 1.0]])
_NOISE = _ACCELERATION**2 * np.array([[0.25, 0.5], [0.5, 1.0]])
# Share of the newest size in the average.
_NEW_SIZE = 0.5


@dataclass
class Track:
    """An object that is followed: its centre and velocity, its size, when it was seen."""

    id: int
    state: FloatArray  # centre and velocity, one row each
    size: FloatArray
    missed: int = 0
    cov: FloatArray = field(
        default_factory=lambda: np.diag([_MEASURED**2, _FIRST_VELOCITY**2])
    )

    @classmethod
    def begin(cls, id: int, box: FloatArray) -> "Track":
        """Return a track of one box, which does not move yet."""
        return cls(id, np.array([box[:2] + box[2:] / 2.0, [0.0, 0.0]]), box[2:].copy())

    def predict(self) -> None:
        """Go to the next frame."""
        self.state = _STEP @ self.state
        self.cov = _STEP @ self.cov @ _STEP.T + _NOISE
        self.missed += 1

    def update(self, box: FloatArray) -> None:
        """Take the box that shows the object in this frame."""
        gain = self.cov[:, 0] / (self.cov[0, 0] + _MEASURED**2)
        centre = box[:2] + box[2:] / 2.0
        self.state = self.state + gain[:, None] * (centre - self.state[0])
        self.cov = self.cov - np.outer(gain, self.cov[0])
        self.size = (1.0 - _NEW_SIZE) * self.size + _NEW_SIZE * box[2:]
        self.missed = 0

    @property
    def box(self) -> FloatArray:
        """Where the object is now."""
        return np.concatenate([self.state[0] - self.size / 2.0, self.size])


#: From tracks and the boxes of a frame to the box of every track, -1 for none.
Link = Callable[[Sequence[Track], Boxes], IntArray]


def follow(
    boxes: Boxes, link: Link, max_missed: int, frames: tuple[int, int] | None = None
) -> Boxes:
    """Return boxes with the identities of tracks, as far as the tracks can tell.

    Parameters
    ----------
    boxes : Boxes
        Detections; their identities are seen by `link` only.
    link : callable
        From the tracks and the boxes of a frame to the box of every track, -1 for none.
    max_missed : int
        Frames without a box after which a track ends.
    frames : pair of int, optional
        First and last frame; default: those of the boxes.

    Returns
    -------
    Boxes
        One per detection, smoothed by its track.
    """
    first, last = frames or (int(boxes.frame.min()), int(boxes.frame.max()))
    tracks: list[Track] = []
    n_tracks, told = 0, []
    for frame in range(first, last + 1):
        for track in tracks:
            track.predict()
        found = boxes.at(frame)
        links = link(tracks, found)
        for track, j in zip(tracks, links, strict=True):
            if j >= 0:
                track.update(found.box[j])
        for j in np.setdiff1d(np.arange(len(found)), links):
            n_tracks += 1
            tracks.append(Track.begin(n_tracks, found.box[j]))
        told += [(frame, track.id, *track.box) for track in tracks if not track.missed]
        tracks = [track for track in tracks if track.missed <= max_missed]
    table = np.array(told).reshape(-1, 6)
    return Boxes(table[:, 0], table[:, 1], table[:, 2:])


def boxes_of(tracks: Sequence[Track]) -> FloatArray:
    """Return where the tracks are now, (n, 4)."""
    return np.array([track.box for track in tracks]).reshape(-1, 4)


def link_by_iou(threshold: float) -> Link:
    """Return links by assignment on intersections over unions."""

    def link(tracks: Sequence[Track], found: Boxes) -> IntArray:
        iou = box_iou(boxes_of(tracks), found.box)
        i, j = linear_sum_assignment(iou, maximize=True)
        links = np.full(len(tracks), -1)
        is_near = (iou[i, j] >= threshold) & (iou[i, j] > 0.0)
        links[i[is_near]] = j[is_near]
        return links

    return link


def graph_of(
    tracks: Sequence[Track], found: Boxes, size: tuple[float, float], reach: float
) -> BipartiteGraph:
    """Return the graph between tracks and detections that a model scores."""
    missed = [track.missed - 1 for track in tracks]
    return box_graph(
        boxes_of(tracks), found.box, size=size, left_missed=missed, max_distance=reach
    )


def link_by_model(model: Any, size: tuple[float, float], reach: float) -> Link:
    """Return links by the likeliest matching of a fitted model."""
    return lambda tracks, found: model.predict([graph_of(tracks, found, size, reach)])[0]


def lessons(
    boxes: Boxes,
    max_missed: int,
    size: tuple[float, float],
    reach: float,
    frames: tuple[int, int] | None = None,
) -> FramePairs:
    """Return what a tracker that makes no mistake would have to decide, and how.

    Parameters
    ----------
    boxes : Boxes
        Detections with their true identities.
    max_missed, frames
        As in `follow`.
    size, reach
        As in `graph_of`.

    Returns
    -------
    FramePairs
        A graph per frame with tracks or boxes.
    """
    first = (frames or (int(boxes.frame.min()), 0))[0]
    graphs: list[BipartiteGraph] = []
    matchings: list[IntArray] = []
    shown: dict[int, int] = {}  # who is shown by which track

    def teach(tracks: Sequence[Track], found: Boxes) -> IntArray:
        graph = graph_of(tracks, found, size, reach)
        ids = np.array([shown[track.id] for track in tracks], dtype=int)
        matching = match_ids(graph, ids, found.id)
        graphs.append(graph)
        matchings.append(matching)
        # New tracks are numbered in the order of the boxes that begin them.
        for j in np.setdiff1d(np.arange(len(found)), matching):
            shown[len(shown) + 1] = int(found.id[j])
        return matching

    follow(boxes, teach, max_missed, frames)
    kept = [k for k, graph in enumerate(graphs) if graph.n_left + graph.n_right]
    times = np.array([(first + k - 1, first + k) for k in kept], dtype=int)
    n_links = sum(int((matching >= 0).sum()) for matching in matchings)
    known = [graphs[k] for k in kept], [matchings[k] for k in kept]
    return FramePairs(*known, times, n_links, 0)


def judge_tracks(pairs: Sequence[tuple[Boxes, Boxes]]) -> Row:
    """Return IDF1, MOTA and what they are made of, by py-motmetrics.

    Parameters
    ----------
    pairs : sequence of (truth, tracks)
        Sequences that were tracked; the measures are those of all together.

    Returns
    -------
    dict
        ``idf1``, ``mota``, ``switches``, ``misses``, ``false_positives``, ``n_objects``.
    """
    import motmetrics

    names = ["idf1", "mota", "num_switches", "num_misses", "num_false_positives"]
    accumulators = []
    for truth, tracks in pairs:
        accumulator = motmetrics.MOTAccumulator()
        for frame in np.union1d(truth.frames(), tracks.frames()):
            true, told = truth.at(int(frame)), tracks.at(int(frame))
            distance = 1.0 - box_iou(true.box, told.box)
            distance[distance > 0.5] = np.nan
            accumulator.update(true.id, told.id, distance, frameid=int(frame))
        accumulators.append(accumulator)
    table = motmetrics.metrics.create().compute_many(
        accumulators, metrics=[*names, "num_objects"], generate_overall=True
    )
    found = table.loc["OVERALL"]
    return {
        "idf1": float(found["idf1"]),
        "mota": float(found["mota"]),
        "switches": int(found["num_switches"]),
        "misses": int(found["num_misses"]),
        "false_positives": int(found["num_false_positives"]),
        "n_objects": int(found["num_objects"]),
    }
