"""Objectives: a coefficient vector in, value and gradient out, summed over graphs."""

from permatch.objectives.likelihood import MatchingLikelihood
from permatch.objectives.losses import hamming_offsets
from permatch.objectives.margin import MatchingHinge
from permatch.objectives.stacks import FeatureStack, stack_graphs

__all__ = [
    "FeatureStack",
    "MatchingHinge",
    "MatchingLikelihood",
    "hamming_offsets",
    "stack_graphs",
]
