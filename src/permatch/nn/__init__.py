"""Matching as a layer: exact, batched, differentiable twice.

    scores (..., n, k) -> log_partition (...), marginals (..., n, k)

Functions, losses and a distribution for PyTorch, on the CPU and on CUDA devices.  Needs the
extra ``torch`` (``pip install '.[torch]'`` in a clone of permatch).
"""

from permatch._optional import require

require("torch", "torch", what="permatch.nn")

from permatch.nn.distribution import MatchingDistribution
from permatch.nn.functional import (
    Inference,
    infer,
    log_partition,
    log_prob,
    marginals,
)
from permatch.nn.losses import MatchingNLL, RankMatchLoss

__all__ = [
    "Inference",
    "MatchingDistribution",
    "MatchingNLL",
    "RankMatchLoss",
    "infer",
    "log_partition",
    "log_prob",
    "marginals",
]
