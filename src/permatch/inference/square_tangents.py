"""Derivatives of the marginals of squares (b, m, m) whose nodes must all be matched.

On dual numbers: O(m 2^m) a graph and direction, three to four times the cost of the
marginals.  Small graphs are solved by sums over sets of columns, one graph per SIMD lane;
larger ones by Glynn's formula.  Its signed sums lose digits; a residual measures how many,
and graphs above the tolerance are left to the positive sums of `infer_tangents`.
"""

import math

import numpy as np

from permatch._parallel import Job, run_slices
from permatch._types import FloatArray
from permatch.errors import PrecisionError
from permatch.inference.base import check_feasible
from permatch.inference.exact import EXACT_TOL
from permatch.inference.glynn import Glynn
from permatch.inference.small_batch import SmallBatch
from permatch.inference.tangent_walks import MOST_OPEN
from permatch.inference.tangents import Directions, infer_tangents
from permatch.kernels.glynn_tangents import (
    MIN_SIZE,
    add_dual_chunk,
    finish_tangents,
    tangents_of_stack,
)
from permatch.kernels.sliced import scale_stack
from permatch.kernels.small_tangents import tangents_in_lanes
from permatch.kernels.subset_dp import small_sets
from permatch.scores import stacked_problem

# Sign vectors walked by one task, or in one go: enough to be worth a thread, little enough
# for Ctrl-C to be prompt.
_CHUNK_BITS = 16
# Largest graph of which several go side by side, and how many a task has.
_SMALL, _GRAPHS_PER_TASK = 9, 1024
# Entries handled by one scaling task.
_ENTRIES_PER_TASK = 1 << 16
# Time in units of that of the marginals; that of pair minors, per node.
_COST, _COST_OF_MINORS = 3.5, 0.8


def log2_seconds(size: int) -> float:
    """Estimate log2 of the seconds one graph takes on one thread."""
    return Glynn().log2_seconds(max(size, MIN_SIZE)) + math.log2(_COST)


def pays(size: int, n_directions: int) -> bool:
    """Return whether directions one by one take less time than those of `infer_tangents`.

    Examples
    --------
    >>> pays(6, 60), pays(20, 1), pays(20, 60)
    (True, True, False)
    """
    return size <= _SMALL or n_directions * _COST < size * _COST_OF_MINORS


def infer_square_tangents(
    scores: FloatArray, directions: FloatArray, job: Job
) -> FloatArray:
    """Return the derivatives of the marginals of graphs, each along a direction of its own.

    Parameters
    ----------
    scores : ndarray of shape (b, m, m)
        Checked scores; ``-inf`` forbids an edge.
    directions : ndarray of shape (b, m, m)
        0 at forbidden edges.
    job : Job
        Threads; the result does not depend on them.

    Returns
    -------
    ndarray of shape (b, m, m)
        Rows and columns sum to zero.

    Raises
    ------
    PrecisionError
        If digits were lost on a graph too large for positive sums.

    Examples
    --------
    >>> import numpy as np
    >>> from permatch._parallel import Job
    >>> along = np.array([[[1.0, 0.0], [0.0, 0.0]]])
    >>> infer_square_tangents(np.zeros((1, 2, 2)), along, Job())[0]
    array([[ 0.25, -0.25],
           [-0.25,  0.25]])
    """
    if scores.shape[1] > _SMALL:
        return _by_signed_sums(scores, directions, job)
    tangents, is_hard = np.empty_like(scores), np.empty(len(scores), dtype=np.bool_)
    sets, size = small_sets(scores.shape[1]), scores.shape[1]
    job.run_ranges(
        lambda first, last: tangents_in_lanes(
            scores, directions, sets, tangents, is_hard, first, last
        ),
        len(scores),
        _GRAPHS_PER_TASK,
        "derivatives of small graphs",
        len(scores) * _COST * 2.0 ** SmallBatch().log2_seconds(size),
    )
    if is_hard.any():
        tangents[is_hard] = _by_signed_sums(scores[is_hard], directions[is_hard], job)
    return tangents


def _by_signed_sums(scores: FloatArray, directions: FloatArray, job: Job) -> FloatArray:
    """Return the derivatives by Glynn's formula, and by others where it loses digits."""
    n_graphs, size = scores.shape[:2]
    weights, offsets = np.empty_like(scores), np.empty(n_graphs)
    job.run_ranges(
        lambda first, last: scale_stack(scores, weights, offsets, first, last),
        n_graphs,
        1 + _ENTRIES_PER_TASK // (size * size + 1),
    )
    check_feasible(offsets, scores, np.arange(n_graphs))
    centred = _centred(weights, directions)
    if size < MIN_SIZE:  # extended by edges of weight one that nothing else touches
        extended = np.tile(np.eye(MIN_SIZE), (n_graphs, 1, 1))
        extended[:, :size, :size] = weights
        along = np.zeros_like(extended)
        along[:, :size, :size] = centred
    else:
        extended, along = weights, centred
    tangents, residuals = np.empty_like(extended), np.empty(n_graphs)
    if len(extended[0] if n_graphs else ()) - 1 <= _CHUNK_BITS:
        job.run_ranges(
            lambda first, last: tangents_of_stack(
                extended, along, tangents, residuals, first, last
            ),
            n_graphs,
            1 << max(_CHUNK_BITS + 1 - size, 0),
            f"derivatives, size {size}",
            n_graphs * 2.0 ** log2_seconds(size),
        )
    else:
        for g in range(n_graphs):
            residuals[g] = _in_chunks(extended[g], along[g], tangents[g], job)
    found = np.ascontiguousarray(tangents[:, :size, :size])
    is_poor = ~(residuals <= EXACT_TOL)
    if is_poor.any():
        found[is_poor] = _by_positive_sums(
            scores[is_poor], directions[is_poor], float(residuals.max()), job
        )
    return found


def _centred(weights: FloatArray, directions: FloatArray) -> FloatArray:
    """Return directions less that of the heaviest edge of every row: what all share."""
    best = weights.argmax(axis=2)[:, :, None] if weights.size else np.zeros((0, 0, 1), int)
    shift = np.take_along_axis(directions, best, axis=2) if weights.size else 0.0
    return np.where(weights > 0.0, directions - shift, 0.0)


def _in_chunks(
    weights: FloatArray, direction: FloatArray, tangents: FloatArray, job: Job
) -> float:
    """Fill the derivatives of a large graph, chunks over threads; return the residual."""
    size = len(weights)
    bits = size - 1 - _CHUNK_BITS
    n_tasks = min(1 << bits, 64)
    per_task = (1 << bits) // n_tasks
    changes = weights * direction
    sums = np.zeros((n_tasks, 2, size, size))

    def walk(k: int) -> None:
        part = np.empty((2, size, size))

        def add(first: int, last: int) -> None:
            for chunk in range(k * per_task + first, k * per_task + last):
                add_dual_chunk(weights, changes, chunk, bits, *part)
                sums[k] += part

        run_slices(add, per_task)

    job.run(walk, n_tasks, f"derivatives, size {size}", 2.0 ** log2_seconds(size))
    values, slopes = sums.sum(axis=0)
    return max(finish_tangents(weights, direction, values, slopes, tangents))


def _by_positive_sums(
    scores: FloatArray, directions: FloatArray, residual: float, job: Job
) -> FloatArray:
    """Return the derivatives of graphs on which signed sums lost digits."""
    if scores.shape[1] > MOST_OPEN:
        raise PrecisionError(
            f"derivatives of marginals need a residual of at most {EXACT_TOL:g}, got "
            f"{residual:.2g} at size {scores.shape[1]}, where positive sums would need too "
            "much memory. Make the graphs smaller, or forbid edges that hardly matter."
        )
    problem = stacked_problem(scores)
    is_edge = scores > -np.inf
    nodes = np.zeros((problem.structure.n_left, 1))
    found = np.zeros_like(scores)
    along = Directions(directions[is_edge][:, None], nodes, nodes)
    found[is_edge] = infer_tangents(problem, along, job).edges[:, 0]
    return found
