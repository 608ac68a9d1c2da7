"""Scores or marginals in, matchings out."""

from permatch.decoding.kbest import KBest, k_best
from permatch.decoding.lap import bayes_matching, best_matching
from permatch.decoding.support import possible_edges

__all__ = ["KBest", "bayes_matching", "best_matching", "k_best", "possible_edges"]
