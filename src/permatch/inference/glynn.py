"""Exact inference by Glynn's formula with derivatives: the default for mid-size graphs."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from permatch._parallel import run_slices
from permatch._types import FloatArray
from permatch._validation import check_choice
from permatch.cuda.arrays import permanents
from permatch.inference.answer import InferenceResult
from permatch.inference.base import Job
from permatch.inference.exact import Found, SignedSumEngine
from permatch.inference.on_gpu import infer_squares, shown
from permatch.inference.subset_dp import SubsetDP
from permatch.kernels.glynn import MIN_SIZE, add_chunk, finish, infer_stack

# Sign vectors per chunk: enough work to be worth a thread, little enough for Ctrl-C to be
# prompt.
_CHUNK_BITS = 17
# A chunk leaves m^2 doubles behind, so their number is limited too.
_MAX_SPLIT_BITS = 7
# Sign vectors walked in one go, however few chunks there are.
_SLICE_BITS = 22
_CHUNK_BYTES = 16 << 20
# log2 of the seconds that any call of a GPU takes.
_GPU_START = -11.0


@dataclass(frozen=True, kw_only=True)
class Glynn(SignedSumEngine):
    """Log-partition and all marginals in one walk over sign vectors.

    The fastest exact engine from m = 9.  The scaled sums keep 12 to 15 digits, 10 or 11 on
    large flat graphs; their number is measured.  Every row of the marginals must sum to
    one; the largest deviation is the reported residual, about the error of the
    log-partition and the absolute error of the marginals.  A marginal far below it may be
    pure rounding; `SubsetDP`, which adds only positive numbers, gets tiny ones right too.
    A graph whose residual exceeds `tol` is solved by `SubsetDP`.

    Parameters
    ----------
    max_size : int
        Largest graph accepted; time doubles with every node.
    tol : float
        Largest residual accepted before falling back.
    device : {"cpu", "cuda"}
        Where it computes: on the processor, or on an NVIDIA GPU (extra ``cuda``, or
        PyTorch).  There it takes float64 arrays of CuPy and PyTorch too, without a copy.
        `GlynnCuda` is set up for the sizes that a GPU can do.

    Notes
    -----
    O(m 2^m) time, O(m^2) memory.  Threads share graphs, from m = 19 also parts of graphs.

    References
    ----------
    D. G. Glynn, "The permanent of a square matrix", European Journal of Combinatorics 31
    (2010).

    Examples
    --------
    >>> import numpy as np
    >>> import permatch as pm
    >>> result = pm.Glynn().infer(np.log([[3.0, 1.0], [2.0, 2.0]]))
    >>> round(float(np.exp(result.log_partition)), 9), result.is_exact  # 3 * 2 + 1 * 2
    (8.0, True)
    >>> result.marginals.round(2).tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    >>> bool(result.diagnostics.residual < 1e-12)
    True
    """

    max_size: int = 30
    device: str = "cpu"
    name = "glynn"
    fallback = SubsetDP()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.device, "device", ("cpu", "cuda"))

    def log2_seconds(self, size: int) -> float:
        """Estimate log2 of the seconds one graph takes on one thread, or on the GPU."""
        if self.device == "cuda":
            return max(_GPU_START, size + math.log2(size + 1) + math.log2(3e-13))
        return size + math.log2(size + 1) + math.log2(1.3e-10)

    def log2_bytes(self, size: int) -> float:
        """Estimate log2 of the bytes one graph needs."""
        return 3.0 + _MAX_SPLIT_BITS + 2.0 * math.log2(size + 1)

    def _permanents(self, weights: FloatArray, job: Job) -> Found:
        n_graphs, size = weights.shape[:2]
        if self.device == "cuda":
            with shown(self, size, n_graphs, job) as show:
                return permanents(weights, show)
        # Small graphs are extended by edges of weight one that nothing else touches.
        if size < MIN_SIZE:
            extended = np.zeros((n_graphs, MIN_SIZE, MIN_SIZE))
            extended[:] = np.eye(MIN_SIZE)
            extended[:, :size, :size] = weights
        else:
            extended = weights
        values, residuals = np.empty(n_graphs), np.empty(n_graphs)
        marginals = np.empty_like(extended)
        split_bits = min(max(size - 1 - _CHUNK_BITS, 0), _MAX_SPLIT_BITS)
        if split_bits == 0:
            job.run_ranges(
                lambda first, last: infer_stack(
                    extended, values, marginals, residuals, first, last
                ),
                n_graphs,
                1 << (_CHUNK_BITS + 1 - size),
                f"Glynn, size {size}",
                n_graphs * 2.0 ** self.log2_seconds(size),
            )
        else:
            self._split(extended, values, marginals, residuals, split_bits, job)
        return values, marginals[:, :size, :size].copy(), residuals

    def _infer_on_gpu(self, scores: Any, job: Job) -> InferenceResult:
        if self.device != "cuda":
            return super()._infer_on_gpu(scores, job)
        return infer_squares(self, scores, job)

    def _split(
        self,
        weights: FloatArray,
        values: FloatArray,
        marginals: FloatArray,
        residuals: FloatArray,
        split_bits: int,
        job: Job,
    ) -> None:
        """Answer graphs large enough for their chunks to be shared out over threads."""
        n_graphs, size = weights.shape[:2]
        n_chunks = 1 << split_bits
        # As many graphs at a time as fit, so that one sharing out covers them all.
        per_round = max(1, _CHUNK_BYTES // (8 * n_chunks * size * size))
        for start in range(0, n_graphs, per_round):
            some = weights[start : start + per_round]
            chunks = np.empty((len(some), n_chunks, size, size))

            def walk(k: int, some: FloatArray = some, chunks: FloatArray = chunks) -> None:
                g, chunk = divmod(k, n_chunks)
                _walk_chunk(some[g], chunk, split_bits, chunks[g, chunk])

            seconds = len(some) * 2.0 ** self.log2_seconds(size)
            job.run(walk, len(some) * n_chunks, f"Glynn, size {size}", seconds)
            for g in range(len(some)):
                values[start + g], residuals[start + g] = finish(
                    some[g], chunks[g], marginals[start + g]
                )


def _walk_chunk(
    weights: FloatArray, chunk: int, split_bits: int, derivatives: FloatArray
) -> None:
    """Fill the derivatives of one chunk, a slice at a time if it is long."""
    slice_bits = max(len(weights) - 1 - split_bits - _SLICE_BITS, 0)
    bits = split_bits + slice_bits
    add_chunk(weights, chunk << slice_bits, bits, derivatives)
    part = np.empty_like(derivatives)

    def add(first: int, last: int) -> None:
        for k in range(first + 1, last + 1):
            add_chunk(weights, (chunk << slice_bits) + k, bits, part)
            derivatives[:] += part

    run_slices(add, (1 << slice_bits) - 1)
