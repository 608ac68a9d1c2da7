"""Probabilities, with intervals that hold, where components are too wide to be solved.

Walks along paths take a first look: see `PathTree`.  Components of moderate size then go to
`auto`, whose engines prune, walk further and draw; on larger ones only the walks are worth
their time.  Ctrl-C keeps what is known once all records have been walked from.
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
# Share of the time for a first answer, and for the first look of several.
_SHARE, _SHARE_OF_LOOK = 0.6, 0.1


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

    @property
    def parts(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """All three."""
        return self.edges, self.left, self.right


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
    is_moderate = problem.structure.components.n_edges.max(initial=0) <= _MODERATE
    share = _SHARE_OF_LOOK if is_moderate else _SHARE
    limited = Allowance(None if time.budget == np.inf else share * time.left)
    left = np.arange(problem.structure.n_left)
    nobody = np.zeros(0, dtype=np.intp)
    known = bound_nodes(
        problem, left, nobody, tol=tol, max_steps=_STEPS, time=limited, job=job
    )
    found = Bounded(
        np.stack([known.marginals, *known.edges]),
        np.stack([known.unmatched_left, *known.left]),
        np.stack([known.unmatched_right, *known.right]),
    )
    if limited.is_ended:
        time.end()
    elif is_moderate and (found.edges[2] - found.edges[1]).max(initial=0.0) > tol:
        try:
            closer = _by_auto(problem, tol, time, seed, job)
        except KeyboardInterrupt:
            time.end()
        else:
            for one, other in zip(found.parts, closer.parts, strict=True):
                one[0] = other[0]
                _narrow(one, other[1], other[2])
    return found


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
    for values, ends in zip(found.parts, (more.edges, more.left, more.right), strict=True):
        _narrow(values, *ends)


def _narrow(values: FloatArray, low: FloatArray, high: FloatArray) -> None:
    """Narrow intervals by others that hold too."""
    np.maximum(values[1], low, out=values[1])
    np.minimum(values[2], high, out=values[2])
    np.minimum(values[1], values[2], out=values[1])  # where both are exact, but rounded
    np.clip(values[0], values[1], values[2], out=values[0])
