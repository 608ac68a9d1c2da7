"""Rows and predictions to matplotlib Axes; nothing is computed here that is not drawn."""

from permatch.plots.coefficients import coefficients
from permatch.plots.matching import (
    STYLES,
    learning_curve,
    matched_silhouettes,
    reliability,
)
from permatch.plots.ranking import query_differences

__all__ = [
    "STYLES",
    "coefficients",
    "learning_curve",
    "matched_silhouettes",
    "query_differences",
    "reliability",
]
