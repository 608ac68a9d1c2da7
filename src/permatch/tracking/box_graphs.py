"""Boxes to graphs and labels: what association is learned from.

The left nodes of a graph are boxes or tracks, the right nodes boxes of a later frame.  Its
edges join those near each other.  A left node without a partner is a death, or was missed;
a right node without one is a birth, or a false detection.  Both have features of their own.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment

from permatch._types import IntArray
from permatch._validation import check_count
from permatch.datasets.boxes import NO_ID, Boxes, check_is_boxes
from permatch.errors import BoxError, InvalidOptionError
from permatch.features.boxes import box_features, box_iou, box_pairs
from permatch.graphs import BipartiteGraph
from permatch.labels import UNMATCHED


@dataclass(frozen=True, eq=False)
class FramePairs:
    """Graphs of pairs of frames, with their true matchings: what estimators learn from.

    Attributes
    ----------
    graphs : list of BipartiteGraph
        One per pair of frames.
    matchings : list of ndarray of shape (n_left,)
        The right box of every left box; -1: the object is not seen in the later frame.
    frames : ndarray of shape (n_graphs, 2)
        Numbers of the frames.
    n_links : int
        Objects seen in both frames, summed over pairs.
    n_out_of_reach : int
        Those of them that moved further than ``max_distance``: no edge joins their boxes,
        and they are labelled as unmatched.
    """

    graphs: list[BipartiteGraph]
    matchings: list[IntArray]
    frames: IntArray
    n_links: int
    n_out_of_reach: int

    def __len__(self) -> int:
        return len(self.graphs)


def box_graph(
    left: ArrayLike,
    right: ArrayLike,
    *,
    size: tuple[float, float] | None = None,
    left_missed: ArrayLike | None = None,
    left_confidence: ArrayLike | None = None,
    right_confidence: ArrayLike | None = None,
    max_distance: float = 1.5,
) -> BipartiteGraph:
    """Return a sparse graph between two sets of boxes, with features on edges and nodes.

    Parameters
    ----------
    left, right : arrays of shape (n, 4) and (k, 4)
        Left, top, width and height: boxes of two frames, or where tracks are expected to be
        and what was detected.  Either may be empty.
    size : pair (width, height), optional
        The size of the image: objects come and go at its borders.
    left_missed : array of shape (n,), optional
        For tracks: the number of frames since each was last seen, less one.
    left_confidence, right_confidence : arrays of shape (n,) and (k,), optional
        How sure a detector is of every box.
    max_distance : float
        The largest distance of centres, in heights of boxes, that an edge bridges.

    Returns
    -------
    BipartiteGraph
        With the edge features of `permatch.features.box_pairs` and the node features of
        `permatch.features.box_features`.

    Examples
    --------
    >>> box_graph([[0, 0, 5, 10]], [[1, 0, 5, 10], [3, 1, 5, 10], [70, 0, 5, 10]])
    BipartiteGraph(1 x 3, 2 edges, 6 features)
    """
    pairs = box_pairs(left, right, max_distance=max_distance)
    nodes = [
        box_features(boxes, size=size, confidence=confidence, missed=missed).features
        for boxes, confidence, missed in (
            (left, left_confidence, left_missed),
            (right, right_confidence, None),
        )
    ]
    return BipartiteGraph.from_edges(
        pairs.left,
        pairs.right,
        pairs.features,
        len(nodes[0]),
        len(nodes[1]),
        left_features=nodes[0],
        right_features=nodes[1],
    )


def frame_pairs(
    boxes: Boxes,
    gap: int = 1,
    *,
    size: tuple[float, float] | None = None,
    max_distance: float = 1.5,
    use_confidence: bool = False,
) -> FramePairs:
    """Return a labelled graph for every two frames of a sequence that are `gap` apart.

    Parameters
    ----------
    boxes : Boxes
        A sequence with identities.  Boxes with the id -1 are taken for false detections,
        which have no partner.
    gap : int
        Frames from one frame of a pair to the other.
    size : pair (width, height), optional
        The size of the image; default: as far as the boxes reach.
    max_distance : float
        The largest distance of centres, in heights of boxes, that an edge bridges.
    use_confidence : bool
        Make the confidence of boxes a feature of the nodes.

    Returns
    -------
    FramePairs
        For all frames from the first to the last one with boxes, those between without any
        included; only pairs of two empty frames are left out.

    Notes
    -----
    Any box may stay without a partner, whatever the training pairs show: fit
    ``MAPMatching(unmatched="any")``.  The names of the edge features are
    ``permatch.features.BoxPairs.names``.

    Examples
    --------
    >>> from permatch.datasets import Boxes
    >>> boxes = Boxes([1, 1, 2], [7, 8, 7], [[0, 0, 4, 9], [9, 0, 4, 9], [1, 0, 4, 9]])
    >>> pairs = frame_pairs(boxes)
    >>> pairs.frames.tolist(), pairs.matchings[0].tolist()
    ([[1, 2]], [0, -1])
    """
    check_is_boxes(boxes, "boxes")
    gap = check_count(gap, "gap", 1)
    if not len(boxes) or (boxes.id == NO_ID).all():
        raise BoxError(
            f"boxes must have identities to learn from; got {boxes!r}. Read ground truth, "
            "or give detections the identities of true boxes by label_detections."
        )
    size = _extent(boxes) if size is None else size
    first, last = int(boxes.frame.min()), int(boxes.frame.max())
    if last - first < gap:
        raise InvalidOptionError(
            f"gap must be at most {last - first}, the last frame less the first; got "
            f"{gap}. Use a smaller gap, or a longer sequence."
        )
    graphs, matchings, frames = [], [], []
    n_links = n_joined = 0
    seen = boxes.frames()
    starts = np.union1d(seen, seen - gap)  # at least one of the two frames has boxes
    for frame in starts[(first <= starts) & (starts <= last - gap)].tolist():
        left, right = boxes.at(frame), boxes.at(frame + gap)
        graph = box_graph(
            left.box,
            right.box,
            size=size,
            left_confidence=left.confidence if use_confidence else None,
            right_confidence=right.confidence if use_confidence else None,
            max_distance=max_distance,
        )
        matching = match_ids(graph, left.id, right.id)
        n_links += len(np.intersect1d(left.id[left.id != NO_ID], right.id))
        n_joined += int((matching != UNMATCHED).sum())
        graphs.append(graph)
        matchings.append(matching)
        frames.append((frame, frame + gap))
    return FramePairs(graphs, matchings, np.array(frames), n_links, n_links - n_joined)


def match_ids(graph: BipartiteGraph, left: ArrayLike, right: ArrayLike) -> IntArray:
    """Return the true matching of a graph of boxes: edges join the same object.

    Parameters
    ----------
    graph : BipartiteGraph
        A graph, as from `box_graph`.
    left, right : int arrays of shape (n,) and (k,)
        Identities of its nodes; -1 for those that have none, and no partner.

    Returns
    -------
    ndarray of shape (n,)
        The right node of every left node; -1 if no edge leads to it.

    Examples
    --------
    >>> graph = box_graph([[0, 0, 5, 10], [9, 0, 5, 10]], [[8, 0, 5, 10], [80, 0, 5, 10]])
    >>> match_ids(graph, [3, 4], [4, 3])
    array([-1,  0])
    """
    ids = np.asarray(left), np.asarray(right)
    shapes = (graph.n_left,), (graph.n_right,)
    if (ids[0].shape, ids[1].shape) != shapes:
        raise BoxError(
            "left and right must be one identity per node of the graph, of shapes "
            f"{shapes[0]} and {shapes[1]}; got {ids[0].shape} and {ids[1].shape}."
        )
    i, j = graph.structure.left, graph.structure.right
    is_same = (ids[0][i] == ids[1][j]) & (ids[0][i] != NO_ID)
    matching = np.full(graph.n_left, UNMATCHED, dtype=np.int64)
    matching[i[is_same]] = j[is_same]
    return matching


def label_detections(detections: Boxes, truth: Boxes, min_iou: float = 0.5) -> Boxes:
    """Give detections the identities of the true boxes that they overlap most.

    Parameters
    ----------
    detections : Boxes
        Boxes whose identities are not known, or to be replaced.
    truth : Boxes
        True boxes of the same frames, with identities.
    min_iou : float
        The smallest intersection over union of a detection and its true box.

    Returns
    -------
    Boxes
        The detections, with identities; -1 for those that show no object.  In every frame,
        the sum of intersections over unions is as large as it can be.

    Examples
    --------
    >>> from permatch.datasets import Boxes
    >>> truth = Boxes([1, 1], [5, 6], [[0, 0, 4, 9], [50, 0, 4, 9]])
    >>> label_detections(Boxes([1, 1], None, [[49, 0, 4, 9], [90, 0, 4, 9]]), truth).id
    array([ 6, -1])
    """
    if not 0.0 < min_iou <= 1.0:
        raise InvalidOptionError(f"min_iou must be above 0 and at most 1; got {min_iou!r}.")
    check_is_boxes(detections, "detections")
    check_is_boxes(truth, "truth")
    if len(truth) and (truth.id == NO_ID).all():
        raise BoxError(
            f"truth must have identities; got {truth!r}, all with the id {NO_ID}. "
            "Detections come first: label_detections(detections, truth)."
        )
    id = np.full(len(detections), NO_ID)
    for frame in detections.frames():
        places, true = detections.positions(frame), truth.at(frame)
        iou = box_iou(detections.box[places], true.box)
        gain = np.where(iou >= min_iou, iou, 0.0)
        i, j = linear_sum_assignment(gain, maximize=True)
        is_found = gain[i, j] > 0.0
        id[places[i[is_found]]] = true.id[j[is_found]]
    return detections.with_id(id)


def _extent(boxes: Boxes) -> tuple[float, float]:
    right, bottom = (boxes.box[:, :2] + boxes.box[:, 2:]).max(axis=0)
    return max(float(right), 1.0), max(float(bottom), 1.0)  # all may lie outside
