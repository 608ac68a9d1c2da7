"""Measures of predictions: arrays in, numbers out."""

from permatch.metrics.base import Measure
from permatch.metrics.calibration import (
    Calibration,
    calibration,
    node_calibration,
)
from permatch.metrics.comparison import (
    ComparedMeasure,
    ComparedQuery,
    RankerComparison,
    ScoredLists,
)
from permatch.metrics.links import LinkQuality, link_quality
from permatch.metrics.matching import hamming_loss
from permatch.metrics.measures import ERR, MAP, MRR, NDCG, MeanNDCG, P, Tau
from permatch.metrics.ranking import (
    average_precision,
    evaluate,
    expected_reciprocal_rank,
    find_measure,
    find_measures,
    kendall_tau,
    ndcg,
    precision_at,
    reciprocal_rank,
)
from permatch.metrics.scorer import RankingScorer, make_scorer
from permatch.metrics.significance import (
    PairedTest,
    holm,
    randomisation_test,
)

__all__ = [
    "ERR",
    "MAP",
    "MRR",
    "NDCG",
    "Calibration",
    "ComparedMeasure",
    "ComparedQuery",
    "LinkQuality",
    "MeanNDCG",
    "Measure",
    "P",
    "PairedTest",
    "RankerComparison",
    "RankingScorer",
    "ScoredLists",
    "Tau",
    "average_precision",
    "calibration",
    "evaluate",
    "expected_reciprocal_rank",
    "find_measure",
    "find_measures",
    "hamming_loss",
    "holm",
    "kendall_tau",
    "link_quality",
    "make_scorer",
    "ndcg",
    "node_calibration",
    "precision_at",
    "randomisation_test",
    "reciprocal_rank",
]
