"""Exact inference on components of small width, whatever their size."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch._validation import check_count, enough_memory
from permatch.assignment import best_assignment
from permatch.errors import InfeasibleGraphError, InvalidOptionError
from permatch.inference.answer import Diagnostics, InferenceResult
from permatch.inference.base import AbstractEngine, Job, check_feasible
from permatch.inference.counted import solve_with_counts
from permatch.inference.frontier_limits import check_memory, check_width, first_nodes
from permatch.inference.frontier_walk import Found, Walk
from permatch.inference.sampling.frontier_samples import FrontierSamples
from permatch.kernels import frontier as kernel
from permatch.kernels.frontier_order import MOST_OPEN
from permatch.kernels.frontier_plan import frontier_plan
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
    doubles per node walked, and for the square root of their number beyond a gigabyte,
    where some are computed twice.  Threads share components.

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
    counts_links = True

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
        """Accept every size: the width decides.

        Parameters
        ----------
        size : int
            Nodes per side.
        n_at_once : int
            Graphs solved at a time.
        """

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
        if problem.has_capacities:
            return solve_with_counts(problem, self.max_width, job, self._infer_problem)
        structure = problem.structure
        plan = frontier_plan(structure)
        check_width(structure, plan, self.max_width)
        at_once = min(job.n_jobs, max(len(plan.tasks) - 1, 1))
        check_memory(plan, plan.largest + math.log2(at_once), at_once)
        best = best_assignment(problem)
        reduced, ends = best.reduced, plan.tasks
        found = Found(
            np.zeros(len(plan.width)),
            np.zeros(len(plan.width)),
            np.zeros(structure.n_edges),
            np.ones(structure.n_left),
            np.ones(structure.n_right),
        )

        def solve(k: int) -> None:
            first, last = ends[k], ends[k + 1]
            if plan.is_long[first]:
                Walk(plan, first, reduced).solve(found)
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
                found.totals,
                found.lowest,
                found.marginals,
                found.left,
                found.right,
                first,
                last,
            )

        with enough_memory(f"Frontier at width {plan.widest}", 2.0**plan.largest):
            job.run(solve, len(ends) - 1, "frontier", plan.seconds)
        for c in np.nonzero(found.lowest <= kernel.LOST)[0].tolist():
            Walk(plan, c, reduced).solve_by_logs(found)
        graphs = structure.graph_of_left[first_nodes(structure)]
        return InferenceResult(
            best.scores + np.bincount(graphs, found.totals, structure.n_graphs),
            found.marginals,
            True,
            Diagnostics(
                self.name,
                "asked for",
                structure.largest,
                structure.n_graphs,
                figures={"width": plan.widest, "n_components": len(plan.width)},
            ),
            unmatched_left=found.left,
            unmatched_right=found.right,
        )

    def own_samples(self, scores: FloatArray) -> FrontierSamples:
        """Return the samples of a graph, from tables as large as those of inference."""
        return FrontierSamples.build(stacked_problem(scores[None]), self.max_width)
