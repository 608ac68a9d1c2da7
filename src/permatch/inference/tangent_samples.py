"""Derivatives of marginals from exact independent samples of one graph.

    Cov(y) direction  ~  mean over draws of  y ( z - mean z ),   z = <direction, y>

with standard errors.  Every draw costs the same for any number of directions.
"""

from dataclasses import dataclass

import numpy as np

from permatch._parallel import Job
from permatch._types import IntArray
from permatch.inference.auto import AutoEngine
from permatch.inference.sampling.problem_samples import find_samples
from permatch.inference.tangent_walks import Columns
from permatch.problems import Problem

#: Draws: the standard error of a variance is about 1 % of it.
N_DRAWS = 20_000


@dataclass(frozen=True, eq=False)
class Sampled:
    """Estimated derivatives.

    Attributes
    ----------
    tangents : tuple of ndarray
        Of marginals of edges, and of left and right nodes being unmatched, (n, K) each.
    error : float
        Largest relative standard error of the variance of a direction.
    """

    tangents: Columns
    error: float


def tangents_by_samples(
    problem: Problem, directions: Columns, seed: int, job: Job, n_draws: int = N_DRAWS
) -> Sampled:
    """Return the derivatives of the marginals of one graph, estimated.

    Parameters
    ----------
    problem : Problem
        One graph.
    directions : tuple of ndarray
        On edges, left and right nodes, (n, K) each.
    seed : int
        Of the draws.
    job : Job
        Threads; the result does not depend on them.
    n_draws : int
        Number of draws.

    Returns
    -------
    Sampled
        With their error.

    Raises
    ------
    SizeLimitError
        If no exact samples are at hand.
    """
    structure = problem.structure
    source = find_samples(problem, AutoEngine())
    drawn = source.sample(n_draws, np.random.default_rng(seed), job.n_jobs)
    edges = _edges_of(problem, drawn)
    along, left, right = directions
    scores = np.zeros((n_draws, along.shape[1]))
    is_free = np.ones((n_draws, structure.n_right), dtype=bool)
    for i in range(structure.n_left):
        own = edges[:, i]
        scores += np.where((own >= 0)[:, None], along[own], left[i])
        is_free[np.nonzero(own >= 0)[0], drawn[own >= 0, i]] = False
    scores += is_free @ right
    scores -= scores.mean(axis=0)
    tangents = np.zeros_like(along)
    for i in range(structure.n_left):
        is_matched = edges[:, i] >= 0
        np.add.at(tangents, edges[is_matched, i], scores[is_matched])
    tangents /= n_draws - 1
    squares = scores**2
    with np.errstate(invalid="ignore"):  # directions in which nothing varies
        errors = squares.std(axis=0) / (squares.mean(axis=0) * np.sqrt(n_draws))
    # What a node's edges gain, its being unmatched loses.
    lost_left, lost_right = np.zeros_like(left), np.zeros_like(right)
    np.add.at(lost_left, structure.left, tangents)
    np.add.at(lost_right, structure.right, tangents)
    error = float(np.nan_to_num(errors).max(initial=0.0))
    return Sampled((tangents, -lost_left, -lost_right), error)


def _edges_of(problem: Problem, drawn: IntArray) -> IntArray:
    """Return the edge of every left node in every draw, -1 if it is unmatched."""
    nodes = np.broadcast_to(np.arange(drawn.shape[1]), drawn.shape)
    found = problem.structure.find(nodes, np.maximum(drawn, 0))
    return np.where(drawn >= 0, found, -1)
