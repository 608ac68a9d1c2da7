"""Matching as a layer: exact, batched, differentiable twice.

    scores (..., n, k) -> log_partition (...), marginals (..., n, k)

Functions, losses and a distribution for PyTorch, on the CPU and on CUDA devices.  Needs the
extra ``torch`` (``pip install '.[torch]'`` in a clone of permatch).
"""

from permatch._optional import require

require("torch", "torch", what="permatch.nn")

# Only now: these import torch themselves.
from permatch.nn.distribution import MatchingDistribution  # noqa: E402
from permatch.nn.functional import (  # noqa: E402
    Inference,
    infer,
    log_partition,
    log_prob,
    marginals,
)
from permatch.nn.losses import MatchingNLL, RankMatchLoss  # noqa: E402

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
