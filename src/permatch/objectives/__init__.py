"""Objectives: a coefficient vector in, value and gradient out, summed over graphs."""

from permatch.objectives.likelihood import MatchingLikelihood
from permatch.objectives.margin import MatchingHinge
from permatch.objectives.pairs import PairLikelihood
from permatch.objectives.rank_margin import ListHinge, SubsetHinge
from permatch.objectives.stacks import FeatureStack, stack_graphs
from permatch.objectives.subset_likelihood import SubsetLikelihood, check_position_weights
from permatch.objectives.subsets import SubsetGroup, Subsets, draw_subsets
from permatch.objectives.whole_list import WholeListLikelihood

__all__ = [
    "FeatureStack",
    "ListHinge",
    "MatchingHinge",
    "MatchingLikelihood",
    "PairLikelihood",
    "SubsetGroup",
    "SubsetHinge",
    "SubsetLikelihood",
    "Subsets",
    "check_position_weights",
    "draw_subsets",
    "WholeListLikelihood",
    "stack_graphs",
]
