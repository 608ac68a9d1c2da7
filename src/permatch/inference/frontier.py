"""Exact inference on components of small width, whatever their size."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from permatch._memory import LITTLE, available_memory
from permatch._parallel import run_slices
from permatch._types import FloatArray, IntArray
from permatch._validation import check_count, enough_memory
from permatch.assignment import best_assignment
from permatch.errors import InfeasibleGraphError, InvalidOptionError, SizeLimitError
from permatch.inference._words import bytes_in_words, seconds_in_words
from permatch.inference.answer import Diagnostics, InferenceResult
from permatch.inference.base import AbstractEngine, Job, check_feasible
from permatch.kernels import frontier as kernel
from permatch.kernels.frontier_order import MOST_OPEN
from permatch.kernels.frontier_plan import FrontierPlan, frontier_plan
from permatch.kernels.sliced import reduce_one
from permatch.problems import Problem, Structure
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
        self._check_plan(structure, plan, job)
        best = best_assignment(problem)
        reduced, ends = best.reduced, plan.tasks
        logs, lowest = np.zeros((2, len(plan.width)))
        marginals = np.zeros(structure.n_edges)
        left_out, right_out = np.ones(structure.n_left), np.ones(structure.n_right)
        found = logs, lowest, marginals, left_out, right_out

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
        graphs = structure.graph_of_left[_first_nodes(structure)]
        return InferenceResult(
            best.scores + np.bincount(graphs, logs, structure.n_graphs),
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

    def _check_plan(self, structure: Structure, plan: FrontierPlan, job: Job) -> None:
        """Refuse components that are too wide, or need too much memory."""
        if plan.widest > self.max_width:
            raise self._too_wide(structure, plan)
        log2_bytes = plan.largest + math.log2(job.n_jobs)
        if log2_bytes <= math.log2(LITTLE):
            return
        left = math.log2(max(available_memory(), 1.0))
        if log2_bytes > left:
            raise SizeLimitError(
                f"Frontier needs {bytes_in_words(log2_bytes)} of memory for a component of "
                f"width {plan.widest} on {job.n_jobs} threads; {bytes_in_words(left)} are "
                "available. Use fewer threads (n_jobs), or leave out edges that hardly "
                "matter, or use engine='auto', which also uses samplers."
            )

    def _too_wide(self, structure: Structure, plan: FrontierPlan) -> SizeLimitError:
        c = int(plan.width.argmax())
        n, k = (int(sizes[c]) for sizes in structure.components.sizes)
        node = int(_first_nodes(structure)[c])
        graph = int(structure.graph_of_left[node])
        name = "this graph" if structure.n_graphs == 1 else f"graph {graph}"
        width, is_known = int(plan.width[c]), plan.log2_cost[c] < np.inf
        cost, advice = "years and petabytes of memory", ""
        if is_known:
            cost = (
                f"{seconds_in_words(plan.log2_seconds[c])} on one thread and "
                f"{bytes_in_words(plan.log2_bytes[c])} of memory"
            )
            advice = f", or raise the limit: engine=permatch.Frontier(max_width={width})"
        return SizeLimitError(
            f"Frontier handles components of width at most {self.max_width}; got "
            f"{'' if is_known else 'at least '}{width}. It would take {cost} for the "
            f"component of left node {node - int(structure.left_starts[graph])} of {name} "
            f"({n} x {k} nodes, {int(structure.components.n_edges[c])} edges). Use "
            "engine='auto', which also uses samplers, leave out edges that hardly matter, "
            f"fix known pairs{advice}."
        )


def _first_nodes(structure: Structure) -> IntArray:
    """Return the first left node of every component."""
    found = structure.components
    return found.left_nodes[found.left_starts[:-1]]


def _solve_in_slices(
    plan: FrontierPlan, c: int, reduced: Problem, found: tuple[FloatArray, ...]
) -> None:
    """Solve one component in slices, between which Ctrl-C is heard."""
    logs, lowest, marginals, *out = found
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
    logs[c] = kernel.log_total(exponents, places, table)
    lowest[c] = state[2]
