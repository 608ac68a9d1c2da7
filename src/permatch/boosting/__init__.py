"""Boosted trees trained by the likelihoods of matchings and rankings."""

from permatch.boosting.boosted_matching import BoostedMatching
from permatch.boosting.boosted_matching_cv import BoostedMatchingCV
from permatch.boosting.boosted_rank_match import BoostedRankMatch
from permatch.boosting.boosted_rank_match_cv import BoostedRankMatchCV
from permatch.boosting.matching_objective import MatchingObjective
from permatch.boosting.rank_objective import RankMatchObjective
from permatch.boosting.trees import Trees

__all__ = [
    "BoostedMatching",
    "BoostedMatchingCV",
    "BoostedRankMatch",
    "BoostedRankMatchCV",
    "MatchingObjective",
    "RankMatchObjective",
    "Trees",
]
