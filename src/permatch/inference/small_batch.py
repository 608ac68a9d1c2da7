"""Exact inference on many small graphs at once."""

import math
from dataclasses import dataclass

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch.errors import InvalidOptionError
from permatch.inference._limits import other_engine
from permatch.inference.answer import Diagnostics, InferenceResult
from permatch.inference.base import AbstractEngine, Job, check_feasible
from permatch.kernels.small_batch import infer_stack

# Largest graph that `Glynn` takes by default.
_GLYNN_SIZE = 30

#: Beyond this a graph fills a core by itself and lanes no longer help.
LARGEST = 8
# Graphs per task: a few hundred microseconds of work.
_GRAPHS_PER_TASK = 2048


@dataclass(frozen=True, kw_only=True)
class SmallBatch(AbstractEngine):
    """Log-partition and marginals of thousands of graphs with at most 8 nodes per side.

    One graph per SIMD lane, only positive sums, no Python per graph: takes a few times as
    long as ``np.exp`` of the same scores.

    Parameters
    ----------
    max_size : int
        Largest graph accepted, at most 8.

    Notes
    -----
    O(m 2^m) time per graph.  Threads share graphs.

    Examples
    --------
    >>> import numpy as np
    >>> import permatch as pm
    >>> many = np.random.default_rng(0).normal(size=(1000, 5, 5))
    >>> result = pm.SmallBatch().infer(many)
    >>> result.log_partition.shape, result.marginals.shape
    ((1000,), (1000, 5, 5))
    """

    max_size: int = LARGEST
    name = "small_batch"
    is_always_exact = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_size > LARGEST:
            raise InvalidOptionError(
                f"max_size of SmallBatch must be at most {LARGEST}, got {self.max_size}. "
                "Use engine='glynn' or 'subset_dp' for larger graphs."
            )

    def _advice(self, size: int, *, may_be_raised: bool = True) -> str:
        other = other_engine(size)
        if size <= _GLYNN_SIZE:
            other = "engine='auto' or 'glynn'"
        return f"Use {other}." if other else super()._advice(size, may_be_raised=False)

    def log2_seconds(self, size: int) -> float:
        """Estimate log2 of the seconds one graph takes on one thread."""
        return size + math.log2(size + 1) + math.log2(2.5e-10)

    def log2_bytes(self, size: int) -> float:
        """Estimate log2 of the bytes one graph needs."""
        return size + 4.0

    def _infer_stack(
        self, scores: FloatArray, members: IntArray, job: Job
    ) -> InferenceResult:
        n_graphs, size = scores.shape[:2]
        log_partitions = np.empty(n_graphs)
        marginals = np.empty_like(scores)
        job.run_ranges(
            lambda first, last: infer_stack(scores, log_partitions, marginals, first, last),
            n_graphs,
            _GRAPHS_PER_TASK,
            "small graphs",
            n_graphs * 2.0 ** self.log2_seconds(size),
        )
        check_feasible(log_partitions, scores, members)
        diagnostics = Diagnostics(self.name, "asked for", size, n_graphs)
        return InferenceResult(log_partitions, marginals, True, diagnostics)
