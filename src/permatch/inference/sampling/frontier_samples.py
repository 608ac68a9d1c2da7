"""Exact independent samples of sparse, rectangular and partial graphs of small width."""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from permatch._parallel import Job, run_slices
from permatch._progress import progress_bar
from permatch._types import FloatArray, IntArray
from permatch._validation import enough_memory
from permatch.assignment import best_assignment
from permatch.errors import PrecisionError
from permatch.inference.frontier_limits import check_memory, check_width
from permatch.kernels import frontier_draws as kernel
from permatch.kernels.frontier_plan import FrontierPlan, frontier_plan
from permatch.problems import Problem

# Nodes drawn by one task and by one round; fixed, so that samples depend on no threads.
_NODES_PER_TASK, _NODES_PER_ROUND = 1 << 18, 1 << 23
_SECONDS_PER_NODE = 5e-7


@dataclass(frozen=True, eq=False)
class FrontierSamples:
    """The tables of `Frontier` from which matchings are drawn, one after the other.

    Attributes
    ----------
    plan : FrontierPlan
        The walks.
    n_left : int
        Left nodes of the graph.
    weights : tuple of ndarray
        Of closed nodes, of staying unmatched, of links.
    places, tables : ndarray
        Where the table of every step begins, and all tables.

    Examples
    --------
    >>> import numpy as np
    >>> from permatch.scores import check_problem
    >>> problem, _ = check_problem(np.log([[3.0, 1.0, 1.0]]), 0.0, 0.0)
    >>> source = FrontierSamples.build(problem)
    >>> drawn = source.sample(1000, np.random.default_rng(0))
    >>> drawn.shape, bool(abs((drawn == -1).mean() - 1 / 6) < 0.05)
    ((1000, 1), True)
    """

    plan: FrontierPlan
    n_left: int
    weights: tuple[FloatArray, FloatArray, FloatArray]
    places: IntArray
    tables: FloatArray

    @classmethod
    def build(cls, problem: Problem, max_width: int = 24) -> "FrontierSamples":
        """Fill the tables of a problem of one graph.

        Parameters
        ----------
        problem : Problem
            Checked; all graphs are drawn together if there are several.
        max_width : int
            Largest width accepted.

        Returns
        -------
        FrontierSamples
            Ready to sample from.
        """
        structure = problem.structure
        plan = frontier_plan(structure)
        check_width(structure, plan, max_width)
        reduced = best_assignment(problem).reduced
        free = reduced.unmatched_left, reduced.unmatched_right
        steps, n_steps = plan.steps, int(plan.step_starts[-1])
        places, exponents = np.empty((2, n_steps), np.int64)
        length = kernel.lay_out(steps, plan.step_starts, places)
        check_memory(plan, math.log2(8.0 * length))
        with enough_memory(f"samples at width {plan.widest}", 8.0 * length):
            tables = np.empty(length)
        stays, links = np.empty(n_steps), np.empty(len(plan.links))
        closes = np.empty(len(plan.closes))
        walks = plan.steps, plan.links, plan.closes, plan.step_starts, plan.walks_right
        kernel.fill_all_weights(*walks, reduced.scores, *free, stays, links, closes)
        rest = stays, links, places, exponents, tables

        def fill(k: int) -> None:
            first, last = plan.tasks[k], plan.tasks[k + 1]
            if plan.is_long[first]:
                start, stop = plan.step_starts[first : first + 2].tolist()
                other = free[0] if plan.walks_right[first] else free[1]
                buffer = kernel.make_buffer(steps, start, stop)
                walk = partial(kernel.fill_back, *walks[:3], other, start, stop)
                run_slices(partial(walk, *rest, buffer), stop - start)
                first += 1
            kernel.fill_components(*walks, *free, *rest, first, last)

        Job().run(fill, len(plan.tasks) - 1)
        return cls(plan, structure.n_left, (closes, stays, links), places, tables)

    def sample(self, n: int, rng: np.random.Generator, n_jobs: int = 1) -> IntArray:
        """Draw `n` independent matchings; the same for every `n_jobs`.

        Parameters
        ----------
        n : int
            Number of matchings.
        rng : numpy.random.Generator
            Source of all randomness.
        n_jobs : int
            Threads.

        Returns
        -------
        ndarray of shape (n, n_left)
            One matching per row, -1 for unmatched nodes.
        """
        with enough_memory(f"an array of {n} samples", 8.0 * n * self.n_left):
            matchings = np.full((n, self.n_left), -1, dtype=np.intp)
        n_nodes = int(self.plan.step_starts[-1]) + 1
        per_task = 1 + _NODES_PER_TASK // n_nodes
        per_round = per_task * (1 + _NODES_PER_ROUND // (per_task * n_nodes))
        n_rounds = -(-n // per_round)
        seconds = n * n_nodes * _SECONDS_PER_NODE / n_jobs
        with progress_bar("sampling", n_rounds, seconds, None) as on_progress:
            for k in range(n_rounds):
                some = matchings[k * per_round : (k + 1) * per_round]
                self._draw_round(some, per_task, rng, n_jobs)
                if on_progress is not None:
                    on_progress(k + 1)
        return matchings

    def _draw_round(
        self, some: IntArray, per_task: int, rng: np.random.Generator, n_jobs: int
    ) -> None:
        n_tasks = -(-len(some) // per_task)
        states = rng.integers(0, 2**64, size=(n_tasks, 4), dtype=np.uint64)
        plan = self.plan
        draw = partial(
            kernel.draw,
            *(plan.steps, plan.links, plan.closes, plan.step_starts, plan.walks_right),
            *(*self.weights, self.places, self.tables),
        )

        def run(first: int, last: int) -> None:
            state = states[first // per_task]
            if not draw(state, some, first, last):
                raise PrecisionError(
                    "a sample needs the weights of all that may follow, and these are "
                    "below the range of floats next to others. Forbid edges that can be "
                    "in no matching, or scale the scores down."
                )

        Job(n_jobs).run_ranges(run, len(some), per_task)
