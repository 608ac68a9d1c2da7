"""Rows and predictions to matplotlib Axes; nothing is computed here that is not drawn."""

from permatch.plots.house import HOUSE_STYLES, gap_curve, matched_landmarks
from permatch.plots.matching import (
    STYLES,
    learning_curve,
    matched_silhouettes,
    reliability,
)
from permatch.plots.ranking import (
    label_of,
    ndcg_curves,
    query_differences,
    runtime_bars,
    sample_size_curve,
)

__all__ = [
    "HOUSE_STYLES",
    "STYLES",
    "gap_curve",
    "label_of",
    "learning_curve",
    "matched_landmarks",
    "matched_silhouettes",
    "ndcg_curves",
    "query_differences",
    "reliability",
    "runtime_bars",
    "sample_size_curve",
]
