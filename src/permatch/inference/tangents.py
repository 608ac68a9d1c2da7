"""How marginals change with scores: their derivatives in any number of directions.

    d marginals / dt = Cov(y) direction,    y the edges and unmatched nodes of a matching,

for scores that move along a direction on edges and on unmatched nodes.  With the features
of edges and nodes for directions these are the products that second derivatives of a
likelihood consist of, and with the gradient of a score by the weights of a model, how sure
each probability is (the delta method).  No array of edges x edges is made.

The derivatives are those of the exact distribution, whatever engine is named; `method`
says how they were found:

- "dual numbers": the walk of `Frontier`, `LANES` directions at a time.  Sums of positive
  weights; exact to rounding for any scores.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from permatch._parallel import Job, run_slices
from permatch._types import FloatArray
from permatch._validation import enough_memory
from permatch.assignment import Assignment, best_assignment
from permatch.errors import CapacityError
from permatch.inference.frontier_limits import check_memory, check_width
from permatch.kernels import frontier_logs as logs
from permatch.kernels import frontier_tangent_logs as mean_kernel
from permatch.kernels import frontier_tangents as kernel
from permatch.kernels.frontier import LOST
from permatch.kernels.frontier_plan import FrontierPlan, frontier_plan
from permatch.kernels.frontier_steps import LANES
from permatch.problems import Problem

# Widest component: the tables of `LANES` directions take nine times those of inference.
_MOST_OPEN = 22


@dataclass(frozen=True, eq=False)
class Directions:
    """K directions in which the scores of a problem move.

    Attributes
    ----------
    edges : ndarray of shape (n_edges, K)
        On the scores of edges.
    left, right : ndarray of shape (n_left, K), (n_right, K)
        On the scores of staying unmatched; nodes that must be matched have any.
    """

    edges: FloatArray
    left: FloatArray
    right: FloatArray

    @property
    def n_columns(self) -> int:
        """Number of directions, K."""
        return self.edges.shape[1]

    def columns(self, first: int, last: int) -> "Directions":
        """Return some of the directions, filled up with zeros."""
        return Directions(
            *(_columns(one, first, last) for one in (self.edges, self.left, self.right))
        )


@dataclass(frozen=True, eq=False)
class Tangents:
    """Derivatives of marginals in K directions.

    Attributes
    ----------
    edges : ndarray of shape (n_edges, K)
        Of the marginals of edges.
    left, right : ndarray of shape (n_left, K), (n_right, K)
        Of the probabilities of staying unmatched.
    method : str
        How they were computed.
    """

    edges: FloatArray
    left: FloatArray
    right: FloatArray
    method: str


def infer_tangents(problem: Problem, directions: Directions, job: Job) -> Tangents:
    """Return the derivatives of all marginals of a problem in some directions.

    Parameters
    ----------
    problem : Problem
        Any number of graphs.
    directions : Directions
        On its edges and unmatched nodes.
    job : Job
        Threads; the result does not depend on them.

    Returns
    -------
    Tangents
        As long as the directions.

    Raises
    ------
    SizeLimitError
        If a component is too wide for exact derivatives.

    Examples
    --------
    >>> import numpy as np
    >>> from permatch._parallel import Job
    >>> from permatch.scores import check_problem
    >>> problem, _ = check_problem(np.zeros((1, 1)), 0.0, 0.0)
    >>> ones = np.ones((1, 1))
    >>> found = infer_tangents(problem, Directions(ones, 0 * ones, 0 * ones), Job())
    >>> found.edges, found.left, found.method  # p (1 - p) of the only edge
    (array([[0.25]]), array([[-0.25]]), 'dual numbers')
    """
    if problem.has_capacities:
        raise CapacityError(
            "derivatives of marginals need nodes with at most one partner; this problem "
            "has capacities above 1. Set capacity_left and capacity_right to None."
        )
    best = best_assignment(problem)
    centred = _centred(problem, directions, best)
    out = Directions(*map(np.zeros_like, (centred.edges, centred.left, centred.right)))
    for first in range(0, centred.n_columns, LANES):
        last = min(first + LANES, centred.n_columns)
        some = _by_dual_numbers(best.reduced, centred.columns(first, first + LANES), job)
        for whole, part in zip(_arrays(out), _arrays(some), strict=True):
            whole[:, first:last] = part[:, : last - first]
    return Tangents(out.edges, out.left, out.right, "dual numbers")


def _arrays(one: Directions) -> tuple[FloatArray, FloatArray, FloatArray]:
    return one.edges, one.left, one.right


def _columns(values: FloatArray, first: int, last: int) -> FloatArray:
    some = np.zeros((len(values), last - first))
    own = values[:, first:last]
    some[:, : own.shape[1]] = own
    return some


def _centred(problem: Problem, directions: Directions, best: Assignment) -> Directions:
    """Return directions that are 0 on the best matching, with the same derivatives.

    Every matching has each left node once, matched or not, and likewise each right one: a
    shift of all its directions moves the scores of all matchings alike.  What all have in
    common would cancel, at the cost of digits.
    """
    structure = problem.structure
    left = np.where((problem.unmatched_left > -np.inf)[:, None], directions.left, 0.0)
    right = np.where((problem.unmatched_right > -np.inf)[:, None], directions.right, 0.0)
    nodes = np.nonzero(best.matching >= 0)[0]
    chosen = structure.find(nodes, best.matching[nodes])
    shift = left.copy()
    shift[nodes] = directions.edges[chosen]
    is_free = np.ones(structure.n_right, dtype=bool)
    is_free[best.matching[nodes]] = False
    other = np.where(is_free[:, None], right, 0.0)
    return Directions(
        directions.edges - shift[structure.left] - other[structure.right],
        left - shift,
        right - other,
    )


def _by_dual_numbers(reduced: Problem, directions: Directions, job: Job) -> Directions:
    """Return the derivatives in `LANES` directions of a problem reduced by prices."""
    structure = reduced.structure
    plan = frontier_plan(structure)
    check_width(structure, plan, _MOST_OPEN)
    at_once = min(job.n_jobs, max(len(plan.tasks) - 1, 1))
    log2_bytes = plan.largest + math.log2((1 + LANES) * at_once)
    check_memory(plan, log2_bytes, at_once)
    found = Directions(*(np.zeros_like(one) for one in _arrays(directions)))
    lowest, ends = np.zeros(len(plan.width)), plan.tasks

    def solve(k: int) -> None:
        first, last = ends[k], ends[k + 1]
        if plan.is_long[first]:
            lowest[first] = _Walk(plan, first, reduced, directions).solve(found)
            first += 1
        kernel.solve_tangents(
            plan.steps,
            plan.links,
            plan.closes,
            plan.step_starts,
            plan.walks_right,
            reduced.scores,
            reduced.unmatched_left,
            reduced.unmatched_right,
            *_arrays(directions),
            lowest,
            *_arrays(found),
            first,
            last,
        )

    seconds = 2.0 * LANES * plan.seconds
    with enough_memory(f"derivatives at width {plan.widest}", 2.0**log2_bytes):
        job.run(solve, len(ends) - 1, "second derivatives", seconds)
    for c in np.nonzero(lowest <= LOST)[0].tolist():
        _Walk(plan, c, reduced, directions).solve_by_logs(found)
    return found


@dataclass(frozen=True, eq=False)
class _Walk:
    """The walk of one component of a reduced problem, in slices."""

    plan: FrontierPlan
    component: int
    reduced: Problem
    directions: Directions

    @property
    def _range(self) -> tuple[int, int]:
        first, last = self.plan.step_starts[self.component : self.component + 2].tolist()
        return first, last

    def _sides(self, edges: Any, left: Any, right: Any) -> tuple[Any, Any, Any]:
        """Return what belongs to edges, to the walked side, and to the other."""
        is_right = self.plan.walks_right[self.component]
        return (edges, right, left) if is_right else (edges, left, right)

    def solve(self, found: Directions) -> float:
        """Fill the derivatives; return log2 of the least sum over a step."""
        plan, (start, stop) = self.plan, self._range
        reduced = self.reduced
        problem = self._sides(
            reduced.scores, reduced.unmatched_left, reduced.unmatched_right
        )
        directions = self._sides(*_arrays(self.directions))
        walk, tables, buffers, state = kernel.start_tangents(
            plan.steps, plan.links, problem, directions, start, stop
        )
        common: tuple[Any, ...] = (
            *(plan.steps, plan.links, plan.closes, problem[2], directions[2], start),
            *(*walk, *tables),
        )
        run_slices(partial(kernel.sweep_forward, *common), stop - start)
        rest = *buffers, state, *self._sides(*_arrays(found))
        run_slices(partial(kernel.sweep_back, *common, *rest), stop - start)
        return float(state[2])

    def solve_by_logs(self, found: Directions) -> None:
        """Fill the derivatives where floats have lost states that count."""
        plan, (start, stop) = self.plan, self._range
        reduced, steps, links = self.reduced, plan.steps, plan.links
        scores, own, other = self._sides(
            reduced.scores, reduced.unmatched_left, reduced.unmatched_right
        )
        directions = self._sides(*_arrays(self.directions))
        stays, weights, places = logs.start_logs(
            steps, links, scores, own, other, start, stop
        )
        options = kernel.direct_options(steps, links, *directions, start, stop)
        with enough_memory("derivatives on logarithms", 8.0 * (1 + LANES) * places[-1]):
            tables = np.empty(places[-1])
            means = np.empty((places[-1], LANES))
        plain = steps, links, plan.closes, other, start, stays, weights, places, tables
        run_slices(partial(logs.fill_back_logs, *plain, False), stop - start)
        walk: tuple[Any, ...] = (
            *(steps, links, plan.closes, other, directions[2], start),
            *(stays, weights, *options, places, tables, means),
        )
        run_slices(partial(mean_kernel.fill_means, *walk), stop - start)
        edges_out, own_out, other_out = self._sides(*_arrays(found))
        other_out[links[steps[start, 1] : steps[stop, 1], 2]] = 0.0
        width = int(plan.width[self.component])
        buffers = np.full((2, 1 << width), -np.inf), np.empty((2, 1 << width, LANES))
        outs = edges_out, own_out, other_out
        run_slices(partial(mean_kernel.sweep_means, *walk, *buffers, *outs), stop - start)
