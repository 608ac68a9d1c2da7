"""Derivatives of marginals by dual numbers through the frontier, component by component."""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from permatch._memory import LITTLE, available_memory
from permatch._parallel import Job, run_slices
from permatch._types import FloatArray
from permatch._validation import enough_memory
from permatch.kernels import frontier_duals, frontier_tangents
from permatch.kernels import frontier_logs as logs
from permatch.kernels import frontier_tangent_logs as mean_kernel
from permatch.kernels.frontier import LOST
from permatch.kernels.frontier_plan import BEFORE, LINK, FrontierPlan, frontier_plan
from permatch.kernels.frontier_steps import LANES
from permatch.problems import Problem, Structure

#: Widest component: the tables of `LANES` directions take nine times those of inference.
MOST_OPEN = 22
# Share of the memory that is left for the tables of all threads.
_SHARE = 0.5
# Time of a block of `LANES` directions, and of one by itself, in inferences.
_PER_BLOCK, _PER_DIRECTION = 20.0, 2.5
# So many directions are cheaper one by one.
_MOST_ALONE = 5

#: Values on edges, left nodes and right nodes, (n, K) each.
Columns = tuple[FloatArray, FloatArray, FloatArray]


def tangents_by_walks(reduced: Problem, directions: Columns, job: Job) -> Columns:
    """Return the derivatives of the marginals of a problem, `LANES` or one at a time.

    Parameters
    ----------
    reduced : Problem
        Whose best matching has score 0.
    directions : tuple of ndarray
        On edges, left and right nodes, (n, K) each; 0 on the best matching.
    job : Job
        Threads.

    Returns
    -------
    tuple of ndarray
        Likewise.
    """
    out = nothing_like(directions)
    for first, last in _blocks(directions[0].shape[1]):
        edges, left, right = (_padded(one[:, first:last]) for one in directions)
        block = edges, left, right
        is_one = last - first == 1
        for whole, part in zip(out, _solve_block(reduced, block, is_one, job), strict=True):
            whole[:, first:last] = part[:, : last - first]
    return out


def _blocks(n_columns: int) -> list[tuple[int, int]]:
    """Return the directions that are walked together: `LANES`, or one if few are left.

    Examples
    --------
    >>> _blocks(10), _blocks(15)
    ([(0, 8), (8, 9), (9, 10)], [(0, 8), (8, 15)])
    """
    n_whole = n_columns // LANES * LANES
    blocks = [(first, first + LANES) for first in range(0, n_whole, LANES)]
    if n_columns - n_whole <= _MOST_ALONE:
        return blocks + [(first, first + 1) for first in range(n_whole, n_columns)]
    return [*blocks, (n_whole, n_columns)]


def nothing_like(values: Columns) -> Columns:
    """Return zeros of the same shapes."""
    edges, left, right = values
    return np.zeros_like(edges), np.zeros_like(left), np.zeros_like(right)


def seconds_of_walks(structure: Structure, n_columns: int) -> FloatArray:
    """Estimate the seconds of each component on one thread; infinite if it is too wide.

    That is wider than `MOST_OPEN`, or needs more than half the memory that is left, however
    many threads there are.
    """
    plan = frontier_plan(structure)
    per_inference = sum(map(_inferences, _blocks(n_columns)))
    seconds = per_inference * np.exp2(plan.log2_seconds)
    is_able = plan.width <= MOST_OPEN
    log2_bytes = _log2_bytes(plan)
    if log2_bytes.max(initial=0.0) > math.log2(LITTLE):
        is_able &= log2_bytes <= math.log2(max(_SHARE * available_memory(), 1.0))
    return np.where(is_able, seconds, math.inf)


def _inferences(block: tuple[int, int]) -> float:
    """Return the time of a block, in inferences."""
    return _PER_DIRECTION if block[1] - block[0] == 1 else _PER_BLOCK


def _log2_bytes(plan: FrontierPlan) -> FloatArray:
    """Return log2 of the bytes of the tables of every component, none computed twice."""
    sizes = np.concatenate([[0.0], np.cumsum(np.exp2(plan.steps[:-1, BEFORE]))])
    entries = np.diff(sizes[plan.step_starts]) + np.exp2(plan.width + 2.0)
    return np.log2(8.0 * (1 + LANES) * entries)


def _threads_that_fit(n_jobs: int, log2_bytes: float) -> int:
    """Return how many threads have memory for tables of so many bytes each."""
    if log2_bytes <= math.log2(LITTLE):
        return n_jobs
    return max(1, min(n_jobs, int(_SHARE * available_memory() / 2.0**log2_bytes)))


def _padded(values: FloatArray) -> FloatArray:
    """Return at most `LANES` columns, filled up with zeros."""
    padded = np.zeros((len(values), LANES))
    padded[:, : values.shape[1]] = values
    return padded


def _solve_block(reduced: Problem, directions: Columns, is_one: bool, job: Job) -> Columns:
    """Return the derivatives in `LANES` directions of a problem reduced by prices.

    If there is only one, all others are 0.
    """
    kernel = frontier_duals if is_one else frontier_tangents
    plan = frontier_plan(reduced.structure)
    largest = float(_log2_bytes(plan).max(initial=0.0))
    found = nothing_like(directions)
    lowest, ends = np.zeros(len(plan.width)), plan.tasks

    def solve(k: int) -> None:
        first, last = ends[k], ends[k + 1]
        if plan.is_long[first]:
            lowest[first] = _Walk(plan, first, reduced, directions).solve(kernel, found)
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
            *directions,
            lowest,
            *found,
            first,
            last,
        )

    seconds = (_PER_DIRECTION if is_one else _PER_BLOCK) * plan.seconds
    with enough_memory(f"derivatives at width {plan.widest}", 2.0**largest):
        few = replace(job, n_jobs=_threads_that_fit(job.n_jobs, largest))
        few.run(solve, len(ends) - 1, "second derivatives", seconds)
    for c in np.nonzero(lowest <= LOST)[0].tolist():
        _Walk(plan, c, reduced, directions).solve_by_logs(found)
    return found


@dataclass(frozen=True, eq=False)
class _Walk:
    """The walk of one component of a reduced problem, in slices."""

    plan: FrontierPlan
    component: int
    reduced: Problem
    directions: Columns

    @property
    def _range(self) -> tuple[int, int]:
        first, last = self.plan.step_starts[self.component : self.component + 2].tolist()
        return first, last

    def _sides(self, edges: Any, left: Any, right: Any) -> tuple[Any, Any, Any]:
        """Return what belongs to edges, to the walked side, and to the other."""
        is_right = self.plan.walks_right[self.component]
        return (edges, right, left) if is_right else (edges, left, right)

    def solve(self, kernel: Any, found: Columns) -> float:
        """Fill the derivatives; return log2 of the least sum over a step."""
        plan, (start, stop) = self.plan, self._range
        reduced = self.reduced
        problem = self._sides(
            reduced.scores, reduced.unmatched_left, reduced.unmatched_right
        )
        directions = self._sides(*self.directions)
        walk, tables, buffers, state = kernel.start_tangents(
            plan.steps, plan.links, problem, directions, start, stop
        )
        common: tuple[Any, ...] = (
            *(plan.steps, plan.links, plan.closes, problem[2], directions[2], start),
            *(*walk, *tables),
        )
        run_slices(partial(kernel.sweep_forward, *common), stop - start)
        rest = *buffers, state, *self._sides(*found)
        run_slices(partial(kernel.sweep_back, *common, *rest), stop - start)
        return float(state[2])

    def solve_by_logs(self, found: Columns) -> None:
        """Fill the derivatives where floats have lost states that count."""
        plan, (start, stop) = self.plan, self._range
        reduced, steps, links = self.reduced, plan.steps, plan.links
        scores, own, other = self._sides(
            reduced.scores, reduced.unmatched_left, reduced.unmatched_right
        )
        directions = self._sides(*self.directions)
        stays, weights, places = logs.start_logs(
            steps, links, scores, own, other, start, stop
        )
        options = frontier_tangents.direct_options(steps, links, *directions, start, stop)
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
        edges_out, own_out, other_out = self._sides(*found)
        other_out[links[steps[start, LINK] : steps[stop, LINK], 2]] = 0.0
        width = int(plan.width[self.component])
        buffers = np.full((2, 1 << width), -np.inf), np.empty((2, 1 << width, LANES))
        outs = edges_out, own_out, other_out
        run_slices(partial(mean_kernel.sweep_means, *walk, *buffers, *outs), stop - start)
