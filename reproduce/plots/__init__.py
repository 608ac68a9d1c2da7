"""Rows of the experiments to matplotlib Axes; what is not drawn is not computed."""

from reproduce.plots.house import HOUSE_STYLES, gap_curve, matched_landmarks
from reproduce.plots.ranking import (
    STYLES,
    label_of,
    ndcg_curves,
    ndcg_panels,
    runtime_bars,
    sample_size_curve,
)

__all__ = [
    "HOUSE_STYLES",
    "STYLES",
    "gap_curve",
    "label_of",
    "matched_landmarks",
    "ndcg_curves",
    "ndcg_panels",
    "runtime_bars",
    "sample_size_curve",
]
