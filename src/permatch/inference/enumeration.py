"""Inference by definition: sum over every matching.  The oracle of all tests."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations

import numpy as np

from permatch._parallel import check_stopped
from permatch._types import FloatArray, IntArray
from permatch._validation import enough_memory
from permatch.inference.answer import Diagnostics, InferenceResult
from permatch.inference.base import AbstractEngine, Job, check_feasible

# Rows whose matchings are listed at once.
_ROWS_AT_ONCE = 9


@lru_cache(maxsize=2)
def all_matchings(size: int) -> IntArray:
    """Return every matching of `size` nodes, (size!, size), in lexicographic order."""
    n_matchings = math.factorial(size)
    # Tuples of pointers first, then the table.
    n_bytes = float(n_matchings) * (16 * size + 64) if size < 100 else math.inf
    with enough_memory(f"the list of all matchings of {size} nodes", n_bytes):
        listed = np.array(list(permutations(range(size))), dtype=np.intp)
    table = listed.reshape(n_matchings, size)
    table.flags.writeable = False
    return table


@dataclass(frozen=True, kw_only=True)
class Enumeration(AbstractEngine):
    """Log-partition and marginals by listing all m! matchings.

    Defines what every other engine computes.

    Parameters
    ----------
    max_size : int
        Largest graph accepted; 9! is 362,880 matchings.

    Notes
    -----
    O(m m!) time; the 9! matchings of nine rows are held in memory.

    Examples
    --------
    >>> import numpy as np
    >>> import permatch as pm
    >>> result = pm.Enumeration().infer(np.log([[3.0, 1.0], [2.0, 2.0]]))
    >>> round(float(np.exp(result.log_partition)), 9), result.is_exact  # 3 * 2 + 1 * 2
    (8.0, True)
    >>> result.marginals.round(2).tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """

    max_size: int = 9
    name = "enumeration"
    is_always_exact = True

    def log2_seconds(self, size: int) -> float:
        """Estimate log2 of the seconds one graph takes on one thread."""
        return math.lgamma(size + 1) / math.log(2.0) + math.log2(size + 1) + math.log2(1e-8)

    def log2_bytes(self, size: int) -> float:
        """Estimate log2 of the bytes one graph needs."""
        n_rows = min(size, _ROWS_AT_ONCE)
        return math.lgamma(n_rows + 1) / math.log(2.0) + math.log2(size + 4) + 5.0

    def _infer_stack(
        self, scores: FloatArray, members: IntArray, job: Job
    ) -> InferenceResult:
        n_graphs, size = scores.shape[:2]
        # -inf in a row of -inf: keep it, rather than make a NaN of it
        tops = scores.max(axis=2, initial=-np.inf, keepdims=True)
        tops[np.isneginf(tops)] = 0.0
        shifted = scores - tops
        log_partitions = np.empty(n_graphs)
        marginals = np.empty_like(scores)

        def solve(g: int) -> None:
            total, masses, best = _add_up(shifted[g])
            if total == 0.0:
                log_partitions[g] = -np.inf
                return
            # The best matching's own scores, summed exactly: shifts leave no trace.
            terms = [*scores[g][np.arange(size), best], math.log(total)]
            log_partitions[g] = math.fsum(terms)
            marginals[g] = np.minimum(masses / total, 1.0)

        job.run(solve, n_graphs)
        check_feasible(log_partitions, scores, members)
        diagnostics = Diagnostics(self.name, "asked for", size, n_graphs)
        return InferenceResult(log_partitions, marginals, True, diagnostics)


def _blocks(size: int) -> Iterator[IntArray]:
    """Yield all matchings in order, those with the same first rows at once."""
    n_rows = min(size, _ROWS_AT_ONCE)
    rest = all_matchings(n_rows)
    if n_rows == size:
        yield rest
        return
    for begin in permutations(range(size), size - n_rows):
        block = np.empty((len(rest), size), dtype=np.intp)
        block[:, : size - n_rows] = begin
        block[:, size - n_rows :] = np.setdiff1d(np.arange(size), begin)[rest]
        check_stopped()
        yield block


def _add_up(scores: FloatArray) -> tuple[float, FloatArray, IntArray]:
    """Return the weight of all matchings, those with each edge (m, m), and the best.

    Weights are relative to that of the best matching; 0 if there is none.
    """
    size = len(scores)
    rows = np.arange(size)
    best, total, masses = -np.inf, 0.0, np.zeros_like(scores)
    matching = rows
    for block in _blocks(size):
        totals = scores[rows, block].sum(axis=1)
        leader = int(totals.argmax())
        if totals[leader] == -np.inf:
            continue
        if totals[leader] > best:
            factor = math.exp(best - totals[leader])
            total *= factor
            masses *= factor
            best, matching = float(totals[leader]), block[leader]
        weights = np.exp(totals - best)
        total += float(weights.sum())
        for i in rows:
            masses[i] += np.bincount(block[:, i], weights, minlength=size)
    return total, masses, matching
