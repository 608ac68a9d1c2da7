"""Estimators in scikit-learn's manner: they validate, compose and store."""

from permatch.estimators.comparing import compare_rankers
from permatch.estimators.dorm import DORM
from permatch.estimators.export import export
from permatch.estimators.linear_matcher import LinearMatcher
from permatch.estimators.linear_ranker import LinearRanker
from permatch.estimators.map_matching import MAPMatching
from permatch.estimators.map_matching_cv import MAPMatchingCV
from permatch.estimators.matcher import BaseMatcher
from permatch.estimators.max_margin_matching import MaxMarginMatching
from permatch.estimators.max_margin_matching_cv import MaxMarginMatchingCV
from permatch.estimators.persistence import load, save
from permatch.estimators.preparation import FeaturePreparation
from permatch.estimators.query_ridge import QueryRidge
from permatch.estimators.query_scaler import QueryScaler
from permatch.estimators.rank_match import RankMatch
from permatch.estimators.rank_match_cv import DORMCV, QueryRidgeCV, RankMatchCV
from permatch.estimators.ranker import BaseRanker
from permatch.estimators.scaling import feature_scale
from permatch.estimators.uncertainty.intervals import MarginalIntervals
from permatch.estimators.uncertainty.posterior import Posterior

__all__ = [
    "DORM",
    "DORMCV",
    "BaseMatcher",
    "BaseRanker",
    "FeaturePreparation",
    "LinearMatcher",
    "LinearRanker",
    "MAPMatching",
    "MAPMatchingCV",
    "MarginalIntervals",
    "MaxMarginMatching",
    "MaxMarginMatchingCV",
    "Posterior",
    "QueryRidge",
    "QueryRidgeCV",
    "QueryScaler",
    "RankMatch",
    "RankMatchCV",
    "compare_rankers",
    "export",
    "feature_scale",
    "load",
    "save",
]
