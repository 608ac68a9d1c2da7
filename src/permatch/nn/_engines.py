"""Batches of graphs on the CPU: which exact engine solves them.

Squares whose nodes must all be matched are solved as a stack.  All others become one
problem, graphs side by side, whose components are solved together.  Nothing here is
approximate: a graph that no exact engine can take is refused.
"""

import numpy as np

from permatch._parallel import Job
from permatch._score_checks import check_alone
from permatch._types import FloatArray
from permatch.errors import PrecisionError, SizeLimitError
from permatch.inference import AbstractEngine, AutoEngine, Glynn, SmallBatch
from permatch.inference.mixed import choose
from permatch.inference.square_tangents import infer_square_tangents, log2_seconds
from permatch.inference.tangent_walks import MOST_OPEN, seconds_of_walks
from permatch.inference.tangents import Directions, infer_tangents
from permatch.problems import Problem
from permatch.scores import stacked_problem

_SMALL, _LARGE, _AUTO = SmallBatch(), Glynn(), AutoEngine(budget=None)

#: Log-partitions (b,), marginals (b, n, k), left (b, n) and right (b, k), or derivatives.
Four = tuple[FloatArray, FloatArray, FloatArray, FloatArray]


def infer(scores: FloatArray, left: FloatArray, right: FloatArray, n_jobs: int = 1) -> Four:
    """Return log-partitions and marginals of graphs (b, n, k), checked for NaN.

    Examples
    --------
    >>> import numpy as np
    >>> must = np.full((1, 2), -np.inf)
    >>> log_partition, marginals, *_ = infer(np.zeros((1, 2, 2)), must, must)
    >>> float(np.exp(log_partition[0])), marginals[0, 0]
    (2.0, array([0.5, 0.5]))
    """
    engine = _engine_of_stack(scores, left, right)
    if engine is not None:
        found = engine.infer(scores, n_jobs=n_jobs, check=False, progress=False)
        free = np.zeros_like(left), np.zeros_like(right)
        return found.log_partition, found.marginals, *free
    problem = as_problem(scores, left, right)
    answer = _AUTO.infer_problem(problem, Job(n_jobs, False))
    if not answer.is_exact:
        raise PrecisionError(
            "permatch.nn is exact, and a graph of this batch lost too many digits for its "
            "size. Make it smaller, or use permatch.infer, whose answers have errors."
        )
    marginals = np.zeros_like(scores)
    marginals[scores > -np.inf] = answer.marginals
    free = answer.unmatched_left.reshape(left.shape), answer.unmatched_right
    return answer.log_partition, marginals, free[0], free[1].reshape(right.shape)


def tangents(
    scores: FloatArray,
    left: FloatArray,
    right: FloatArray,
    d_scores: FloatArray,
    d_left: FloatArray,
    d_right: FloatArray,
    n_jobs: int = 1,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the derivatives of the probabilities of graphs (b, n, k) along a direction.

    Directions are 0 at forbidden edges.

    Examples
    --------
    >>> import numpy as np
    >>> one, zero = np.ones((1, 1, 1)), np.zeros((1, 1))
    >>> tangents(0 * one, zero, zero, one, zero, zero)[0]  # p (1 - p) of the only edge
    array([[[0.25]]])
    """
    job = Job(n_jobs, False)
    if _is_perfect(scores, left, right) and not _pays_to_split(scores):
        edges = infer_square_tangents(scores, d_scores, job)
        return edges, np.zeros_like(left), np.zeros_like(right)
    problem = as_problem(scores, left, right, MOST_OPEN)
    is_edge = scores > -np.inf
    sides = d_left.reshape(-1, 1), d_right.reshape(-1, 1)
    found = infer_tangents(problem, Directions(d_scores[is_edge][:, None], *sides), job)
    if found.error:
        raise SizeLimitError(
            "permatch.nn is exact, and there is not enough memory for the derivatives of "
            f"graphs of {scores.shape[1]} x {scores.shape[2]} nodes. Forbid edges that "
            "hardly matter."
        )
    edges = np.zeros_like(scores)
    edges[is_edge] = found.edges[:, 0]
    return edges, found.left.reshape(left.shape), found.right.reshape(right.shape)


def _pays_to_split(scores: FloatArray) -> bool:
    """Return whether squares with forbidden edges cost less by their components."""
    size = scores.shape[1]
    if size <= _SMALL.max_size or scores.min(initial=0.0) > -np.inf:
        return False
    seconds = seconds_of_walks(stacked_problem(scores).structure, 1).sum()
    return size > _LARGE.max_size or seconds < len(scores) * 2.0 ** log2_seconds(size)


def as_problem(
    scores: FloatArray, left: FloatArray, right: FloatArray, largest: int = _AUTO.exact_size
) -> Problem:
    """Return a batch as a problem that an exact engine can take, by its largest width."""
    problem = stacked_problem(scores, left, right)
    is_alone = (left == -np.inf) & ~(scores > -np.inf).any(axis=2)
    if is_alone.any() or ((right == -np.inf) & ~(scores > -np.inf).any(axis=1)).any():
        check_alone(problem, [f"graph {g}" for g in range(len(scores))])
    wide = choose(problem, largest, None).wide
    if len(wide):
        n, k = scores.shape[1:]
        g = int(problem.structure.graph_of_component[wide[0]])
        raise SizeLimitError(
            "permatch.nn is exact, which takes components whose smaller side has at most "
            f"{largest} nodes, within memory; graph {g}, of {n} x {k} nodes, is "
            "wider. Forbid edges that hardly matter, or use permatch.infer, which "
            "approximates."
        )
    return problem


def _engine_of_stack(
    scores: FloatArray, left: FloatArray, right: FloatArray
) -> AbstractEngine | None:
    """Return the engine for squares whose nodes must all be matched, else None."""
    if not _is_perfect(scores, left, right):
        return None
    if scores.shape[1] <= _SMALL.max_size:
        return _SMALL
    # Forbidden edges may split a graph: its components cost less.  Those of a graph that is
    # too large are refused in words that fit.
    is_dense = scores.min(initial=0.0) > -np.inf and scores.shape[1] <= _LARGE.max_size
    return _LARGE if is_dense else None


def _is_perfect(scores: FloatArray, left: FloatArray, right: FloatArray) -> bool:
    """Return whether graphs are square and all their nodes must be matched."""
    is_square = scores.shape[1] == scores.shape[2]
    return is_square and not (left > -np.inf).any() and not (right > -np.inf).any()
