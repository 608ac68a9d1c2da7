"""Scale scores without changing the distribution, and the base of engines that do so."""

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch.inference.base import AbstractEngine, Job, check_feasible
from permatch.inference.result import Diagnostics, StackResult
from permatch.kernels.sliced import reduce_one, reduce_possible, scale_stack

# Entries handled by one scaling task; small enough to share out, large enough to be worth
# it.
_ENTRIES_PER_TASK = 1 << 16


def reduce_scores(scores: FloatArray) -> tuple[FloatArray, float]:
    """Shift rows and columns so that the best matching has score zero.

    Subtracting ``u[i] + v[j]`` from ``scores[i, j]`` multiplies every matching's weight by
    the same constant, so it moves the log-partition by a known offset and leaves the
    distribution alone. Taking ``u, v`` from the dual of the assignment problem makes every
    reduced score at most 0 and the best matching exactly 0.

    Parameters
    ----------
    scores : ndarray of shape (m, m)
        Log-weight of each edge; ``-inf`` forbids an edge.

    Returns
    -------
    reduced : ndarray of shape (m, m)
        Scores, all at most 0.
    offset : float
        ``log_partition(scores) == log_partition(reduced) + offset``: the best matching's
        score.

    Raises
    ------
    InfeasibleGraphError
        If the allowed edges contain no perfect matching.

    Notes
    -----
    O(m^3): one assignment by shortest augmenting paths.

    Examples
    --------
    >>> import numpy as np
    >>> reduced, offset = reduce_scores(np.array([[3.0, 1.0], [2.0, 2.0]]))
    >>> offset, float(reduced.max())
    (5.0, 0.0)
    >>> float(reduced[0, 0] + reduced[1, 1])
    0.0
    """
    reduced = np.empty_like(scores)
    offset = reduce_one(scores, reduced)
    check_feasible(np.array([offset]), scores[None], np.zeros(1, dtype=np.intp))
    return reduced, offset


def reduce_stack(scores: FloatArray, members: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return reduced scores (b, m, m) and the scores of the best matchings (b,).

    Edges that lie in no perfect matching are forbidden: draws would only run into them.
    """
    reduced = np.empty_like(scores)
    offsets = np.empty(len(scores))
    for g, graph in enumerate(scores):
        offsets[g] = reduce_possible(graph, reduced[g])
    check_feasible(offsets, scores, members)
    return reduced, offsets


@dataclass(frozen=True)
class Permanents:
    """Permanents (b,), with marginals (b, m, m) and residuals (b,) where known."""

    values: FloatArray
    marginals: FloatArray | None
    residuals: FloatArray | None = None
    n_fallback: int = 0
    is_exact: bool = True


@dataclass(frozen=True, kw_only=True)
class ScaledEngine(AbstractEngine):
    """An engine that works on weights scaled so that plain float64 sums are safe."""

    def _infer_stack(self, scores: FloatArray, members: IntArray, job: Job) -> StackResult:
        n_graphs, size = scores.shape[:2]
        weights = np.empty_like(scores)
        offsets = np.empty(n_graphs)
        job.run_ranges(
            lambda first, last: scale_stack(scores, weights, offsets, first, last),
            n_graphs,
            1 + _ENTRIES_PER_TASK // (size * size + 1),
        )
        check_feasible(offsets, scores, members)
        permanents = self._permanents(weights, job)
        residuals = permanents.residuals
        diagnostics = Diagnostics(
            engine=self.name,
            reason="asked for",
            size=size,
            n_graphs=n_graphs,
            residual=None if residuals is None else float(residuals.max(initial=0.0)),
            n_fallback=permanents.n_fallback,
        )
        log_partitions = offsets + np.log(permanents.values)
        return StackResult(
            log_partitions, permanents.marginals, diagnostics, permanents.is_exact
        )

    @abstractmethod
    def _permanents(self, weights: FloatArray, job: Job) -> Permanents:
        """Return what is known of the permanents of scaled weights (b, m, m)."""
