"""Chains on the edges of a problem: starts, stages, and repetition until good enough."""

import math
import time
from dataclasses import dataclass, field

import numpy as np

from permatch._parallel import run_slices
from permatch._types import IntArray
from permatch.assignment import best_assignment
from permatch.inference.base import Job
from permatch.inference.chains.edge_estimates import Estimates, sum_up
from permatch.inference.chains.edge_target import EdgeTarget
from permatch.inference.chains.run import MOST_RECORDS, Schedule
from permatch.kernels.edge_chain import ChainEdges, ChainState, ChainSums, run_graphs

_MOST_BATCHES = 16
_FEWEST_SWEEPS = 16
# Records of all components together.
_MOST_KEPT = 1 << 22
# The higher rungs of components with more edges are swept less often.
_MANY_EDGES, _PERIOD = 2000, 4
# Edges of one task, and times an edge is visited before Ctrl-C is listened for.
_EDGES_PER_TASK, _VISITS_PER_SLICE = 1 << 12, 1 << 21


@dataclass(eq=False)
class EdgeChains:
    """All chains of a problem: where they stand, and what they have seen."""

    target: EdgeTarget
    states: list[ChainState]
    periods: IntArray
    best: IntArray  # the edge of every left node in the best matching, or -1
    outputs: list[ChainSums] = field(default_factory=list)

    @classmethod
    def start(cls, target: EdgeTarget, n_chains: int, seed: int) -> "EdgeChains":
        """Place chains at the best matching and at the empty one, in turn."""
        edges = target.edges
        n_graphs, n_rungs = edges.betas.shape
        best = _best_edges(target)
        states = []
        for c in range(n_chains):
            left = np.full((n_rungs, len(edges.must_left)), -1)
            right = np.full((n_rungs, len(edges.must_right)), -1)
            if c % 2 == 0:
                left[:, edges.left[best]] = best
                right[:, edges.right[best]] = best
            words = np.random.SeedSequence([seed, c, n_chains])
            streams = words.generate_state(4 * n_graphs, np.uint64).reshape(-1, 4)
            states.append(ChainState(left, right, streams))
        n_edges = np.diff(edges.starts[edges.left_starts])
        periods = np.where(n_edges > _MANY_EDGES, _PERIOD, 1)
        of_left = np.full(len(edges.must_left), -1)
        of_left[edges.left[best]] = best
        return cls(target, states, periods, of_left)

    def run(self, n_sweeps: int, graphs: IntArray, job: Job) -> float:
        """Make sweeps in some components; return the seconds they took."""
        start = time.perf_counter()
        edges = self.target.edges
        self.outputs = [_no_sums(edges, n_sweeps) for _ in self.states]
        thin = n_sweeps // max(len(self.outputs[0].energies), 1)
        n_edges = np.diff(edges.starts[edges.left_starts])[graphs]
        total = int(n_edges.sum())
        tasks = np.searchsorted(
            np.cumsum(n_edges), np.arange(0, total, _EDGES_PER_TASK), "left"
        )
        cuts = np.unique(np.concatenate([tasks, [len(graphs)]]))
        n_tasks = len(cuts) - 1

        def work(task: int) -> None:
            chain, k = divmod(task, n_tasks)
            some = graphs[cuts[k] : cuts[k + 1]]
            visits = edges.betas.shape[1] * int(n_edges[cuts[k] : cuts[k + 1]].sum())

            def sweep(begin: int, end: int) -> None:
                run_graphs(
                    edges,
                    self.states[chain],
                    self.outputs[chain],
                    n_sweeps,
                    thin,
                    self.periods,
                    some,
                    begin,
                    end,
                )

            run_slices(sweep, n_sweeps, _VISITS_PER_SLICE // visits)

        job.run(work, len(self.states) * n_tasks)
        return time.perf_counter() - start


def _best_edges(target: EdgeTarget) -> IntArray:
    """Return the edges of the best matching."""
    structure = target.part.problem.structure
    matching = best_assignment(target.part.problem).matching
    return np.nonzero(matching[structure.left] == structure.right)[0]


def _no_sums(edges: ChainEdges, n_sweeps: int) -> ChainSums:
    """Return sums to be filled by a stage."""
    n_graphs, n_rungs = edges.betas.shape
    n_edges = len(edges.theta)
    n_batches = max(min(_MOST_BATCHES, n_sweeps // 4), 1)
    most = max(min(MOST_RECORDS, _MOST_KEPT // max(n_graphs, 1)), 64)
    n_records = n_sweeps // -(-n_sweeps // most)
    return ChainSums(
        np.zeros(n_edges),
        np.zeros(n_graphs),
        np.zeros(n_edges),
        np.zeros(n_edges),
        np.zeros(n_edges),
        np.zeros((n_graphs, 2)),
        np.zeros((n_batches, n_rungs, n_graphs)),
        np.zeros((n_records, n_graphs)),
        np.zeros((n_records, n_graphs)),
        np.zeros((n_rungs - 1, n_graphs)),
    )


def run_until(
    chains: EdgeChains, schedule: Schedule, budget: float | None, job: Job
) -> Estimates:
    """Burn in and run; components that do not meet the tolerance run on within the time."""
    n_burned, n_sweeps, tol = schedule.n_burned, schedule.n_sweeps, schedule.tol
    start = time.perf_counter()
    everything = np.arange(len(chains.target.offsets))
    pace = 0.0

    def affordable() -> float:
        if budget is None:
            return math.inf
        left = budget - (time.perf_counter() - start)
        return max(left / max(pace, 1e-12), 0.0)

    if budget is not None:
        chains.run(1, everything, job)  # the first call may have to compile
        pace = chains.run(2, everything, job) / 2
        n_burned = int(min(n_burned, affordable() / 3))
        n_sweeps = int(min(n_sweeps, affordable() - n_burned))
    if n_burned:
        chains.run(n_burned, everything, job)
    n_sweeps = max(n_sweeps, _FEWEST_SWEEPS)
    pace = chains.run(n_sweeps, everything, job) / n_sweeps
    found = sum_up(chains.target, chains.outputs, n_sweeps)
    while tol is not None:
        some = np.nonzero(~found.meets(tol))[0]
        longer = int(min(_longer(found, tol, n_sweeps), schedule.max_sweeps, affordable()))
        if not len(some) or longer <= n_sweeps:
            break
        pace = chains.run(longer, some, job) / longer
        n_sweeps = longer
        found = found.renewed(sum_up(chains.target, chains.outputs, n_sweeps), some)
    return found


def _longer(found: Estimates, tol: float, n_sweeps: int) -> float:
    """Return how many sweeps to try next."""
    growth = 2.0
    if found.is_mixed.all():
        growth = min(max(1.2 * (found.worst_error / tol) ** 2, 1.2), 8.0)
    return growth * n_sweeps
