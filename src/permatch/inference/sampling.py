"""What the engines that draw have in common: preparation, time kept."""

import math
import time

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch.inference.base import check_feasible
from permatch.kernels.scaling import reduce_one
from permatch.kernels.support import forbid_impossible, reduce_and_match

_clock = time.perf_counter


class Stopwatch:
    """Time since the start, and how much of a budget in seconds is left."""

    def __init__(self, budget: float | None) -> None:
        self._start = _clock()
        self._budget = math.inf if budget is None else budget

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return _clock() - self._start

    @property
    def left(self) -> float:
        """Seconds left, at least 0; infinite without a budget."""
        return max(0.0, self._budget - self.seconds)

    def affordable(self, n_done: float, n_wanted: float) -> float:
        """Return how many of `n_wanted` more units fit, at the pace of those done."""
        if self._budget == math.inf or n_done == 0:
            return n_wanted
        return min(n_wanted, n_done * self.left / max(self.seconds, 1e-9))


def reduce_stack(scores: FloatArray, members: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return reduced scores (b, m, m) and the scores of the best matchings (b,).

    Edges that lie in no perfect matching are forbidden: draws would only run into them.
    """
    reduced = np.empty_like(scores)
    offsets = np.empty(len(scores))
    size = scores.shape[1]
    matching, labels = np.empty(size, np.int64), np.empty(size, np.int64)
    for g, graph in enumerate(scores):
        if np.isfinite(graph).all():
            offsets[g] = reduce_one(graph, reduced[g])
            continue
        offsets[g] = reduce_and_match(graph, reduced[g], matching)
        if offsets[g] > -np.inf:
            forbid_impossible(reduced[g], matching, labels)
    check_feasible(offsets, scores, members)
    return reduced, offsets


def log2_of(seconds: float) -> float:
    """Return log2 of a positive estimate."""
    return math.log2(max(seconds, 1e-30))
