"""Exact inference on components of small width, whatever their size."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from permatch._parallel import run_slices
from permatch._types import FloatArray, IntArray
from permatch._validation import check_count, enough_memory
from permatch.assignment import best_assignment
from permatch.errors import InfeasibleGraphError, InvalidOptionError
from permatch.inference.answer import Diagnostics, InferenceResult
from permatch.inference.base import AbstractEngine, Job, check_feasible
from permatch.inference.frontier_limits import check_memory, check_width, first_nodes
from permatch.inference.sampling.frontier_samples import FrontierSamples
from permatch.kernels import frontier as kernel
from permatch.kernels import frontier_logs as logs
from permatch.kernels.frontier_order import MOST_OPEN
from permatch.kernels.frontier_plan import LINK, FrontierPlan, frontier_plan
from permatch.kernels.sliced import reduce_one
from permatch.problems import Problem
from permatch.scores import stacked_problem


@dataclass(frozen=True, kw_only=True)
class Frontier(AbstractEngine):
    """Sparse, rectangular and partial problems whose components are narrow.

    Walks the nodes of one side of every component and keeps which of the open nodes of the
    other side have a partner: those with neighbours on both sides of the walk.  Their
    largest number is the width, which decides the cost, not the size.  It is known before
    the work begins.  The side and the order that make it small are chosen by themselves.

    Parameters
    ----------
    max_width : int
        Largest width accepted; time and memory double with every node.  The width of a
        dense graph is the size of its smaller side.

    Notes
    -----
    The sum over the nodes walked of 2^width times their edges, in positive terms only: the
    relative error is a few roundings for any scores.  Memory for one table of 2^width
    doubles per node walked.  Threads share components.

    Examples
    --------
    >>> import numpy as np
    >>> import permatch as pm
    >>> scores = np.log([[3.0, 1.0, 1.0], [2.0, 2.0, 1.0]])
    >>> result = pm.Frontier().infer(scores, unmatched_left=0.0, unmatched_right=0.0)
    >>> round(float(np.exp(result.log_partition)), 9), result.is_exact
    (27.0, True)
    >>> result.unmatched_left.round(3).tolist()
    [0.222, 0.222]
    """

    max_size: ClassVar[int] = 24  # pyright: ignore[reportIncompatibleVariableOverride]
    max_width: int = 24
    name = "frontier"
    is_always_exact = True

    def __post_init__(self) -> None:
        width = check_count(self.max_width, "max_width of Frontier", 0)
        if width > MOST_OPEN:
            raise InvalidOptionError(
                f"max_width of Frontier must be at most {MOST_OPEN}, got {width}. Wider "
                "components would take too long."
            )

    def log2_seconds(self, size: int) -> float:
        """Estimate log2 of the seconds that a dense graph takes on one thread."""
        return size + 2.0 * math.log2(size + 1) - 33.0

    def log2_bytes(self, size: int) -> float:
        """Estimate log2 of the bytes that a dense graph needs."""
        return size + math.log2(8.0 * (size + 1))

    def check_size(self, size: int, n_at_once: int = 1) -> None:
        """Accept every size: the width decides."""

    def _infer_stack(
        self, scores: FloatArray, members: IntArray, job: Job
    ) -> InferenceResult:
        problem = stacked_problem(scores)
        try:
            answer = self._infer_problem(problem, job)
        except InfeasibleGraphError:
            offsets = [reduce_one(graph, np.empty_like(graph)) for graph in scores]
            check_feasible(np.array(offsets), scores, members)
            raise
        marginals = np.zeros_like(scores)
        marginals[scores > -np.inf] = answer.marginals
        return InferenceResult(answer.log_partition, marginals, True, answer.diagnostics)

    def _infer_problem(self, problem: Problem, job: Job) -> InferenceResult:
        structure = problem.structure
        plan = frontier_plan(structure)
        check_width(structure, plan, self.max_width)
        check_memory(plan, plan.largest + math.log2(job.n_jobs), job.n_jobs)
        best = best_assignment(problem)
        reduced, ends = best.reduced, plan.tasks
        log_totals, lowest = np.zeros((2, len(plan.width)))
        marginals = np.zeros(structure.n_edges)
        left_out, right_out = np.ones(structure.n_left), np.ones(structure.n_right)
        found = log_totals, lowest, marginals, left_out, right_out

        def solve(k: int) -> None:
            first, last = ends[k], ends[k + 1]
            if plan.is_long[first]:
                _solve_in_slices(plan, first, reduced, found)
                first += 1
            kernel.solve_components(
                plan.steps,
                plan.links,
                plan.closes,
                plan.step_starts,
                plan.walks_right,
                reduced.scores,
                reduced.unmatched_left,
                reduced.unmatched_right,
                *found,
                first,
                last,
            )

        with enough_memory(f"Frontier at width {plan.widest}", 2.0**plan.largest):
            job.run(solve, len(ends) - 1, "frontier", plan.seconds)
            for c in np.nonzero(lowest <= kernel.LOST)[0].tolist():
                _solve_by_logs(plan, c, reduced, found)
        graphs = structure.graph_of_left[first_nodes(structure)]
        return InferenceResult(
            best.scores + np.bincount(graphs, log_totals, structure.n_graphs),
            marginals,
            True,
            Diagnostics(
                self.name,
                "asked for",
                structure.largest,
                structure.n_graphs,
                figures={"width": plan.widest, "n_components": len(plan.width)},
            ),
            unmatched_left=left_out,
            unmatched_right=right_out,
        )

    def own_samples(self, scores: FloatArray) -> FrontierSamples:
        """Return the samples of a graph, from tables as large as those of inference."""
        return FrontierSamples.build(stacked_problem(scores[None]), self.max_width)


def _solve_in_slices(
    plan: FrontierPlan, c: int, reduced: Problem, found: tuple[FloatArray, ...]
) -> None:
    """Solve one component in slices, between which Ctrl-C is heard."""
    totals, lowest, marginals, *out = found
    free = [reduced.unmatched_left, reduced.unmatched_right]
    if plan.walks_right[c]:
        free, out = free[::-1], out[::-1]
    steps, links = plan.steps, plan.links
    start, stop = plan.step_starts[c : c + 2].tolist()
    stays, weights, places, exponents, length = kernel.start_walk(
        steps, links, reduced.scores, free[0], free[1], start, stop
    )
    # NumPy asks for large pages, which compiled code does not.
    table = np.empty(length + kernel.LANES)
    table = table[-(table.ctypes.data >> 3) % kernel.LANES :]
    walk: tuple[Any, ...] = (
        *(steps, links, plan.closes, free[1], start),
        *(stays, weights, places, exponents, table),
    )
    forward, back = partial(kernel.sweep_forward, *walk), partial(kernel.sweep_back, *walk)
    run_slices(forward, stop - start)
    buffers, state = kernel.start_back(steps, start, stop)
    run_slices(partial(back, buffers, state, marginals, *out), stop - start)
    kernel.settle_free(steps, links, start, stop, free[1], out[1])
    totals[c] = kernel.log_total(exponents, places, table)
    lowest[c] = state[2]


def _solve_by_logs(
    plan: FrontierPlan, c: int, reduced: Problem, found: tuple[FloatArray, ...]
) -> None:
    """Solve one component on logarithms, where floats have lost states that count."""
    totals, _, marginals, *out = found
    free = [reduced.unmatched_left, reduced.unmatched_right]
    if plan.walks_right[c]:
        free, out = free[::-1], out[::-1]
    steps, links = plan.steps, plan.links
    start, stop = plan.step_starts[c : c + 2].tolist()
    stays, weights, places = logs.start_logs(
        steps, links, reduced.scores, free[0], free[1], start, stop
    )
    tables = np.empty(places[-1])
    walk: tuple[Any, ...] = (
        *(steps, links, plan.closes, free[1], start, stays, weights, places, tables),
    )
    run_slices(partial(logs.fill_back_logs, *walk, False), stop - start)
    out[1][links[steps[start, LINK] : steps[stop, LINK], 2]] = 1.0
    buffers = np.full((2, 1 << plan.width[c]), -np.inf)
    run_slices(
        partial(logs.sweep_logs, *walk, buffers, marginals, out[0], out[1]), stop - start
    )
    kernel.settle_free(steps, links, start, stop, free[1], out[1])
    totals[c] = tables[0]
