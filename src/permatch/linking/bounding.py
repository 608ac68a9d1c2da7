"""Probabilities, with intervals that hold, where components are too wide to be solved.

Components of moderate size go to `auto`, whose engines prune, walk paths and draw.  On
larger ones only the walks along paths are worth their time: see `PathTree`.
"""

import warnings
from dataclasses import dataclass

import numpy as np

from permatch._parallel import Allowance, Job
from permatch._types import FloatArray, IntArray
from permatch.inference.auto import AutoEngine
from permatch.inference.path_tree import bound_nodes
from permatch.problems import Problem

# Most pairs of a component that is left to `auto`, and the largest width it solves exactly
# after pruning.
_MODERATE, _PRUNED_WIDTH = 100_000, 18
# Nodes of the tree of paths visited for a record at first, and where that was not enough.
_STEPS, _MORE_STEPS = 20_000, 2_000_000
# Share of the time for a first answer.
_SHARE = 0.6


@dataclass(eq=False)
class Bounded:
    """Estimates and intervals: each an array of estimates, lower ends and upper ends.

    Attributes
    ----------
    edges : ndarray of shape (3, n_edges)
        Probabilities of pairs.
    left, right : ndarray of shape (3, n_left), (3, n_right)
        Probabilities of records of having no partner.
    """

    edges: FloatArray
    left: FloatArray
    right: FloatArray


def bound_wide(
    problem: Problem, tol: float, time: Allowance, seed: int, job: Job
) -> Bounded:
    """Return estimates and intervals for components that are too wide.

    Parameters
    ----------
    problem : Problem
        One graph all of whose nodes may stay unmatched.
    tol : float
        Width of intervals asked for.
    time : Allowance
        The time for this, of which some is left to refine intervals.
    seed : int
        Of engines that draw.
    job : Job
        Threads and progress.
    """
    if problem.structure.components.n_edges.max(initial=0) <= _MODERATE:
        return _by_auto(problem, tol, time, seed, job)
    limited = Allowance(None if time.budget == np.inf else _SHARE * time.left)
    left = np.arange(problem.structure.n_left)
    nobody = np.zeros(0, dtype=np.intp)
    found = bound_nodes(
        problem, left, nobody, tol=tol, max_steps=_STEPS, time=limited, job=job
    )
    return Bounded(
        np.stack([found.marginals, *found.edges]),
        np.stack([found.unmatched_left, *found.left]),
        np.stack([found.unmatched_right, *found.right]),
    )


def _by_auto(problem: Problem, tol: float, time: Allowance, seed: int, job: Job) -> Bounded:
    budget = None if time.budget == np.inf else max(_SHARE * time.left, 1e-3)
    engine = AutoEngine(exact_size=_PRUNED_WIDTH, tol=tol, budget=budget, random_state=seed)
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
        answer = engine.infer_problem(problem, job)
    parts = []
    for points, ends in (
        (answer.marginals, answer.marginal_bounds),
        (answer.unmatched_left, answer.unmatched_left_bounds),
        (answer.unmatched_right, answer.unmatched_right_bounds),
    ):
        unknown = (np.zeros_like(points), np.ones_like(points))
        if answer.is_exact:
            unknown = points, points
        parts.append(np.stack([points, *(unknown if ends is None else ends)]))
    return Bounded(*parts)


def refine(
    problem: Problem,
    found: Bounded,
    is_open: IntArray,
    tol: float,
    time: Allowance,
    job: Job,
) -> None:
    """Narrow the intervals of some edges, from both of their nodes, as time allows.

    Parameters
    ----------
    problem : Problem
        As in `bound_wide`.
    found : Bounded
        Narrowed in place.
    is_open : ndarray
        The edges whose intervals matter.
    tol : float
        Width of intervals asked for.
    time : Allowance
        The time for this.
    job : Job
        Threads and progress.
    """
    structure = problem.structure
    left = np.unique(structure.left[is_open])
    right = np.unique(structure.right[is_open])
    more = bound_nodes(
        problem, left, right, tol=tol, max_steps=_MORE_STEPS, time=time, job=job
    )
    for values, ends in (
        (found.edges, more.edges),
        (found.left, more.left),
        (found.right, more.right),
    ):
        np.maximum(values[1], ends[0], out=values[1])
        np.minimum(values[2], ends[1], out=values[2])
        np.clip(values[0], values[1], values[2], out=values[0])
