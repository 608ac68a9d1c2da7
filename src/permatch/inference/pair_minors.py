"""Derivatives of the marginals of squares from all second derivatives of permanents."""

import math

import numpy as np

from permatch._parallel import Job, run_slices
from permatch._types import FloatArray
from permatch.kernels import pair_minors as kernel
from permatch.kernels.pair_minors import MIN_SIZE
from permatch.kernels.sliced import scale_stack

#: Largest square: beyond, a graph takes minutes.
LARGEST = 28
# Sign vectors of a task, as a power of two, and the most chunks that a graph is cut into:
# each leaves m^4 / 4 doubles behind.
_CHUNK_BITS, _MAX_SPLIT_BITS = 18, 4
# Seconds per sign vector and pair of columns, and per pair of edges and direction.
_WALK_SECONDS, _CONTRACT_SECONDS = 3e-10, 5e-11


def seconds_of_minors(size: int, n_columns: int) -> float:
    """Estimate the seconds that one graph takes on one thread; infinite if too large."""
    if not MIN_SIZE <= size <= LARGEST:
        return math.inf
    n_pairs = size * (size - 1) / 2
    walk = 2.0 ** (size - 1) * n_pairs * _WALK_SECONDS
    return walk + 4.0 * n_pairs**2 * (n_columns + 4) * _CONTRACT_SECONDS


def tangents_by_minors(
    scores: FloatArray, directions: FloatArray, job: Job
) -> tuple[FloatArray, FloatArray]:
    """Return derivatives of the marginals of squares whose nodes must all be matched.

    Parameters
    ----------
    scores : ndarray of shape (b, m, m)
        Each with a perfect matching; ``-inf`` forbids an edge.
    directions : ndarray of shape (b, m * m, K)
        On the scores; 0 on forbidden edges.
    job : Job
        Threads.

    Returns
    -------
    tangents : ndarray of shape (b, m * m, K)
        Derivatives.
    residuals : ndarray of shape (b,)
        What cancellation has left of quantities that are equal: about the absolute error of
        a probability.
    """
    n_graphs, size = scores.shape[:2]
    n_columns = directions.shape[2]
    padding = -n_columns % kernel.LANES
    directions = np.pad(directions, ((0, 0), (0, 0), (0, padding)))
    weights, offsets = np.empty_like(scores), np.empty(n_graphs)
    job.run_ranges(
        lambda first, last: scale_stack(scores, weights, offsets, first, last),
        n_graphs,
        1 + (1 << 16) // (size * size),
    )
    tangents, residuals = np.empty_like(directions), np.empty(n_graphs)
    title = f"second derivatives, size {size}"
    seconds = n_graphs * seconds_of_minors(size, directions.shape[2])
    if size - 1 <= _CHUNK_BITS + 1:
        job.run_ranges(
            lambda first, last: kernel.solve_stack(
                weights, directions, tangents, residuals, first, last
            ),
            n_graphs,
            1 << max(_CHUNK_BITS - size, 0),
            title,
            seconds,
        )
        return tangents[:, :, :n_columns], residuals
    for g in range(n_graphs):
        minors = _split(weights[g], job, title, seconds / n_graphs)
        marginals = np.empty((size, size))
        residuals[g] = kernel.finish(weights[g], minors, marginals)
        kernel.contract(weights[g], minors, marginals, directions[g], tangents[g])
    return tangents[:, :, :n_columns], residuals


def _split(weights: FloatArray, job: Job, title: str, seconds: float) -> FloatArray:
    """Return the minors of a graph large enough for threads to share."""
    size = len(weights)
    n_pairs = size * (size - 1) // 2
    split_bits = min(size - 1 - _CHUNK_BITS, _MAX_SPLIT_BITS)
    slice_bits = size - 1 - split_bits - _CHUNK_BITS
    chunks = np.zeros((1 << split_bits, n_pairs, n_pairs))

    def walk(chunk: int) -> None:
        def add(first: int, last: int) -> None:
            for k in range(first, last):
                number = (chunk << slice_bits) + k
                kernel.add_chunk(weights, number, split_bits + slice_bits, chunks[chunk])

        run_slices(add, 1 << slice_bits)

    job.run(walk, len(chunks), title, seconds)
    return chunks.sum(axis=0)
