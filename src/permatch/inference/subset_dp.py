"""Exact inference by dynamic programming over column subsets."""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from permatch._progress import progress_bar
from permatch._types import FloatArray, IntArray
from permatch._validation import enough_memory
from permatch.inference.base import Job
from permatch.inference.exact import Found, ScaledEngine, reduce_scores
from permatch.kernels.sliced import balance, fill_forward, infer_by_subsets
from permatch.kernels.subset_dp import draw

# Samples drawn by one task; fixed, so that samples do not depend on the number of threads.
_SAMPLES_PER_TASK = 4096
# Random numbers are made for so many samples at a time, to bound memory.
_SAMPLES_PER_ROUND = 1 << 18
_SECONDS_PER_CHOICE = 1e-7


@dataclass(frozen=True, kw_only=True)
class SubsetDP(ScaledEngine):
    """Log-partition, marginals and exact samples by positive sums only.

    Slower than `Glynn`, and the most accurate: nothing is subtracted, so the relative error
    is about m roundings for any scores.  `Glynn` falls back to it; samples come from it.

    Parameters
    ----------
    max_size : int
        Largest graph accepted; memory doubles with every node.

    Notes
    -----
    O(m 2^m) time; two tables of 2^m doubles (one for sampling).  Threads share graphs; a
    single graph uses one.

    Examples
    --------
    >>> import numpy as np
    >>> import permatch as pm
    >>> result = pm.SubsetDP().infer(np.log([[3.0, 1.0], [2.0, 2.0]]))
    >>> round(float(np.exp(result.log_partition)), 9), result.is_exact  # 3 * 2 + 1 * 2
    (8.0, True)
    >>> result.marginals.round(2).tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """

    max_size: int = 24
    name = "subset_dp"

    def log2_seconds(self, size: int) -> float:
        """Estimate log2 of the seconds one graph takes on one thread."""
        return size + math.log2(size + 1) + math.log2(2e-9)

    def log2_bytes(self, size: int) -> float:
        """Estimate log2 of the bytes one graph needs."""
        return size + 4.0

    def _permanents(self, weights: FloatArray, job: Job) -> Found:
        values = np.empty(len(weights))
        marginals = np.empty_like(weights)

        size = weights.shape[1]

        def solve(g: int) -> None:
            with enough_memory(f"SubsetDP at size {size}", 2.0 ** self.log2_bytes(size)):
                values[g] = infer_by_subsets(weights[g], marginals[g])

        seconds = len(weights) * 2.0 ** self.log2_seconds(size)
        job.run(solve, len(weights), "subset DP", seconds)
        row_sums = marginals.sum(axis=2)
        residuals = np.abs(row_sums - 1.0).max(axis=1, initial=0.0)
        return values, marginals, residuals

    def own_samples(self, scores: FloatArray) -> "SamplingTable":
        """Return the samples of a graph, by a table of 2^m doubles; its limit counts."""
        self.check_size(len(scores))
        return SamplingTable.build(scores)


@dataclass(frozen=True)
class SamplingTable:
    """The forward table of `SubsetDP`, from which exact independent samples are drawn.

    Examples
    --------
    >>> import numpy as np
    >>> table = SamplingTable.build(np.log([[3.0, 1.0], [2.0, 2.0]]))
    >>> drawn = table.sample(1000, np.random.default_rng(0))
    >>> bool(abs((drawn[:, 0] == 0).mean() - 0.75) < 0.05)
    True
    """

    weights: FloatArray
    forward: FloatArray
    favourites: IntArray

    @classmethod
    def build(cls, scores: FloatArray) -> "SamplingTable":
        """Fill the table for one checked, feasible score matrix: O(m 2^m), 2^m doubles."""
        reduced, _ = reduce_scores(scores)
        weights = np.exp(reduced)
        balance(weights)
        n_states = 1 << len(weights)
        with enough_memory(f"sampling at size {len(weights)}", 8.0 * n_states):
            forward = np.empty(n_states)
        fill_forward(weights, forward)
        return cls(
            weights,
            forward,
            weights.argmax(axis=1) if weights.size else np.empty(0, np.intp),
        )

    def sample(self, n: int, rng: np.random.Generator, n_jobs: int = 1) -> IntArray:
        """Draw `n` independent matchings, (n, m); the same for every `n_jobs`."""
        size = len(self.weights)
        with enough_memory(f"an array of {n} samples", 8.0 * n * size):
            matchings = np.empty((n, size), dtype=np.intp)
        n_rounds = -(-n // _SAMPLES_PER_ROUND)
        seconds = n * _SECONDS_PER_CHOICE * size / n_jobs
        with progress_bar("sampling", n_rounds, seconds, None) as on_progress:
            for k in range(n_rounds):
                some = matchings[k * _SAMPLES_PER_ROUND : (k + 1) * _SAMPLES_PER_ROUND]
                uniforms = rng.random(some.shape)
                Job(n_jobs).run_ranges(
                    partial(
                        draw, self.weights, self.forward, self.favourites, uniforms, some
                    ),
                    len(some),
                    _SAMPLES_PER_TASK,
                )
                if on_progress is not None:
                    on_progress(k + 1)
        return matchings
