"""Scores in, log-partition and edge marginals out: the engines and how to call them."""

from permatch.inference.auto import AutoEngine
from permatch.inference.base import AbstractEngine
from permatch.inference.enumeration import Enumeration, all_matchings
from permatch.inference.glynn import Glynn
from permatch.inference.result import Diagnostics, InferenceResult
from permatch.inference.ryser import Ryser
from permatch.inference.scaling import reduce_scores
from permatch.inference.small_batch import SmallBatch
from permatch.inference.subset_dp import SamplingTable, SubsetDP
from permatch.inference.table import (
    ENGINES,
    find_engine,
    infer,
    log_partition,
    marginals,
    require_marginals,
)

__all__ = [
    "ENGINES",
    "AbstractEngine",
    "AutoEngine",
    "Diagnostics",
    "Enumeration",
    "Glynn",
    "InferenceResult",
    "Ryser",
    "SamplingTable",
    "SmallBatch",
    "SubsetDP",
    "all_matchings",
    "find_engine",
    "infer",
    "log_partition",
    "marginals",
    "reduce_scores",
    "require_marginals",
]
