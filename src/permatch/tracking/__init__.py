"""Tracks and detections: association probabilities, and graphs to learn them from."""

from permatch.tracking.associate import Association, associate, infer_association
from permatch.tracking.box_graphs import (
    FramePairs,
    box_graph,
    frame_pairs,
    label_detections,
    match_ids,
)

__all__ = [
    "Association",
    "FramePairs",
    "associate",
    "box_graph",
    "frame_pairs",
    "infer_association",
    "label_detections",
    "match_ids",
]
