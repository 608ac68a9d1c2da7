"""Feasible matchings, far apart, for chains to start from."""

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch.kernels.sliced import best_matchings

# Edges of the mode that are tried as the forbidden one.
_MOST_TRIES = 8


def starting_matchings(
    scores: FloatArray, n_chains: int, rng: np.random.Generator
) -> IntArray:
    """Return one matching per chain, (n_chains, m), of a feasible graph.

    The mode first, then the mode of the graph without the mode's best edge, then best
    matchings of random scores and of the scores with Gumbel noise in turn.
    """
    mode = best_matching(scores)
    starts = [mode]
    for c in range(1, n_chains):
        other = without_best_edge(scores, mode) if c == 1 else None
        if other is None and c % 2:
            other = best_matching(scores + rng.gumbel(size=scores.shape))
        elif other is None:
            is_allowed = scores > -np.inf
            other = best_matching(np.where(is_allowed, rng.random(scores.shape), -np.inf))
        starts.append(other)
    return np.array(starts)


def best_matching(scores: FloatArray) -> IntArray:
    """Return the best matching of a feasible graph."""
    found = np.empty((1, len(scores)), dtype=np.int64)
    best_matchings(scores[None], found, 0, 1)
    return found[0]


def without_best_edge(scores: FloatArray, mode: IntArray) -> IntArray | None:
    """Return the best matching that avoids the mode's best edge among those it can miss.

    None if it can miss none of the first few.
    """
    found = np.empty((1, len(scores)), dtype=np.int64)
    for row in np.argsort(-scores[np.arange(len(mode)), mode], kind="stable")[:_MOST_TRIES]:
        rest = scores.copy()
        rest[row, mode[row]] = -np.inf
        if best_matchings(rest[None], found, 0, 1):
            return found[0]
    return None
