"""Inference: scores in, log-partition and edge marginals out."""

from permatch.inference.answer import Diagnostics, InferenceResult
from permatch.inference.auto import AutoEngine
from permatch.inference.base import AbstractEngine
from permatch.inference.bethe import Bethe
from permatch.inference.blocks import Sparsification
from permatch.inference.bounds import log_partition_bounds
from permatch.inference.enumeration import Enumeration, all_matchings
from permatch.inference.exact import reduce_scores
from permatch.inference.frontier import Frontier
from permatch.inference.glynn import Glynn
from permatch.inference.glynn_cuda import GlynnCuda
from permatch.inference.huber_law import HuberLaw
from permatch.inference.nesting import Nesting
from permatch.inference.path_tree import PathTree
from permatch.inference.ryser import Ryser
from permatch.inference.sampling.frontier_samples import FrontierSamples
from permatch.inference.sampling.matching_samples import MatchingSamples
from permatch.inference.sampling.nesting_table import NestingTable
from permatch.inference.small_batch import SmallBatch
from permatch.inference.sparsified import Sparsified, sparsify
from permatch.inference.subset_dp import SamplingTable, SubsetDP
from permatch.inference.swap_chain import SwapChain, draw_chain
from permatch.inference.table import (
    ENGINES,
    EXACT_ENGINES,
    find_engine,
    infer,
    log_partition,
    marginals,
    require_marginals,
)

__all__ = [
    "ENGINES",
    "EXACT_ENGINES",
    "AbstractEngine",
    "AutoEngine",
    "Bethe",
    "Diagnostics",
    "Enumeration",
    "Frontier",
    "FrontierSamples",
    "Glynn",
    "GlynnCuda",
    "HuberLaw",
    "InferenceResult",
    "MatchingSamples",
    "Nesting",
    "NestingTable",
    "PathTree",
    "Ryser",
    "SamplingTable",
    "SmallBatch",
    "Sparsification",
    "Sparsified",
    "SubsetDP",
    "SwapChain",
    "all_matchings",
    "draw_chain",
    "find_engine",
    "infer",
    "log_partition",
    "log_partition_bounds",
    "marginals",
    "reduce_scores",
    "require_marginals",
    "sparsify",
]
