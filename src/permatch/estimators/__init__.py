"""Estimators in scikit-learn's manner: they validate, compose and store."""

from permatch.estimators.base import BaseMatcher
from permatch.estimators.map_matching import MAPMatching
from permatch.estimators.map_matching_cv import MAPMatchingCV
from permatch.estimators.max_margin_matching import MaxMarginMatching
from permatch.estimators.persistence import load, save_model
from permatch.estimators.scaling import feature_scale

#: The short name it has in `permatch` itself.

__all__ = [
    "BaseMatcher",
    "MAPMatching",
    "MAPMatchingCV",
    "MaxMarginMatching",
    "feature_scale",
    "load",
    "save_model",
]
