"""Scores or marginals in, matchings out."""

from permatch.decoding.bayes import ABSTAINED, LinkCosts, bayes_matching
from permatch.decoding.kbest import KBest, k_best
from permatch.decoding.lap import best_matching
from permatch.decoding.support import possible_edges

__all__ = [
    "ABSTAINED",
    "KBest",
    "LinkCosts",
    "bayes_matching",
    "best_matching",
    "k_best",
    "possible_edges",
]
