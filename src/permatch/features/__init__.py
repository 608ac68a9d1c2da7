"""Raw data in, features of nodes and of pairs out."""

from permatch.features.boxes import (
    BoxFeatures,
    BoxPairs,
    box_features,
    box_iou,
    box_pairs,
)
from permatch.features.candidates import candidate_pairs
from permatch.features.comparisons import Comparison, compare_pairs
from permatch.features.shape_context import shape_context

__all__ = [
    "BoxFeatures",
    "BoxPairs",
    "Comparison",
    "box_features",
    "box_iou",
    "box_pairs",
    "candidate_pairs",
    "compare_pairs",
    "shape_context",
]
