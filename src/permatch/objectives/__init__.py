"""Objectives: a coefficient vector in, value and gradient out, summed over graphs."""

from permatch.objectives.likelihood import MatchingLikelihood
from permatch.objectives.margin import MatchingHinge
from permatch.objectives.pairs import PairLikelihood
from permatch.objectives.parameters import Parameters
from permatch.objectives.parts import Part, arrange
from permatch.objectives.rank_margin import ListHinge, SubsetHinge
from permatch.objectives.score_likelihood import ScoreEvaluation, ScoreLikelihood
from permatch.objectives.subset_likelihood import SubsetLikelihood, check_position_weights
from permatch.objectives.subsets import SubsetGroup, Subsets, draw_subsets
from permatch.objectives.whole_list import WholeListLikelihood

__all__ = [
    "ListHinge",
    "MatchingHinge",
    "MatchingLikelihood",
    "PairLikelihood",
    "Parameters",
    "Part",
    "ScoreEvaluation",
    "ScoreLikelihood",
    "SubsetGroup",
    "SubsetHinge",
    "SubsetLikelihood",
    "Subsets",
    "arrange",
    "check_position_weights",
    "draw_subsets",
    "WholeListLikelihood",
]
