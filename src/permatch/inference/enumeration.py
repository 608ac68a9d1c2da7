"""Inference by its definition: add up every matching.  The oracle of all tests."""

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch.inference.base import AbstractEngine, Job, check_feasible
from permatch.inference.result import Diagnostics, StackResult


@lru_cache(maxsize=2)
def all_matchings(size: int) -> IntArray:
    """Return every matching of `size` nodes, (size!, size), in lexicographic order."""
    listed = np.array(list(permutations(range(size))), dtype=np.intp)
    table = listed.reshape(math.factorial(size), size)
    table.flags.writeable = False
    return table


@dataclass(frozen=True, kw_only=True)
class Enumeration(AbstractEngine):
    """Log-partition and marginals by listing all m! matchings.

    Ten readable lines that define what every other engine computes.

    Parameters
    ----------
    max_size : int
        Largest graph accepted; 9! is 362,880 matchings.

    Notes
    -----
    O(m m!) time and memory.

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

    def log2_seconds(self, size: int) -> float:
        """Estimate log2 of the seconds one graph takes on one thread."""
        return math.lgamma(size + 1) / math.log(2.0) + math.log2(size + 1) + math.log2(1e-8)

    def log2_bytes(self, size: int) -> float:
        """Estimate log2 of the bytes one graph needs."""
        return math.lgamma(size + 1) / math.log(2.0) + math.log2(size + 4) + 4.0

    def _infer_stack(self, scores: FloatArray, members: IntArray, job: Job) -> StackResult:
        n_graphs, size = scores.shape[:2]
        matchings = all_matchings(size)
        rows = np.arange(size)
        # -inf in a row of -inf: keep it, rather than make a NaN of it
        tops = scores.max(axis=2, initial=-np.inf, keepdims=True)
        tops[np.isneginf(tops)] = 0.0
        shifted = scores - tops
        log_partitions = np.empty(n_graphs)
        marginals = np.empty_like(scores)

        def solve(g: int) -> None:
            totals = shifted[g][rows, matchings].sum(axis=1)
            best = int(totals.argmax())
            if totals[best] == -np.inf:
                log_partitions[g] = -np.inf
                return
            weights = np.exp(totals - totals[best])
            total = weights.sum()
            # The best matching's own scores, summed exactly: shifts leave no trace.
            terms = [*scores[g][rows, matchings[best]], math.log(total)]
            log_partitions[g] = math.fsum(terms)
            for i in rows:
                mass = np.bincount(matchings[:, i], weights, minlength=size)
                marginals[g, i] = np.minimum(mass / total, 1.0)

        job.run(solve, n_graphs)
        check_feasible(log_partitions, scores, members)
        diagnostics = Diagnostics(self.name, "asked for", size, n_graphs)
        return StackResult(log_partitions, marginals, diagnostics)
