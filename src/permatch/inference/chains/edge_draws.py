"""Matchings drawn from one chain on the edges of a problem: approximate, and dependent."""

from dataclasses import dataclass

import numpy as np

from permatch._types import IntArray
from permatch.inference.base import Job
from permatch.inference.chains.edge_run import EdgeChains
from permatch.inference.chains.edge_target import build_target
from permatch.kernels.edge_chain import is_complete
from permatch.problems import Problem

# Sweeps from one matching to the next, and times they are repeated where nodes that must
# be matched are not.
_THIN, _MOST_TRIES = 10, 1000


@dataclass(frozen=True, eq=False)
class EdgeChainSamples:
    """The states of one chain, `_THIN` sweeps apart."""

    problem: Problem
    n_rungs: int
    n_burned: int

    def sample(self, n: int, rng: np.random.Generator, n_jobs: int = 1) -> IntArray:
        """Draw `n` matchings, (n, n_left): right nodes as numbered in the problem, or -1.

        On one thread, whatever `n_jobs`.
        """
        target = build_target(self.problem, self.n_rungs)
        chains = EdgeChains.start(target, 1, int(rng.integers(2**63)))
        everything = np.arange(len(target.offsets))
        if self.n_burned and len(everything):
            chains.run(self.n_burned, everything, Job())
        part = target.part
        matchings = np.full((n, self.problem.structure.n_left), -1)
        now = chains.best.copy()
        for k in range(n if len(everything) else 0):
            waiting = everything
            for _ in range(_MOST_TRIES):
                chains.run(_THIN, waiting, Job())
                waiting = self._take(chains, waiting, now)
                if not len(waiting):
                    break
            ends = np.where(now >= 0, part.right[target.edges.right[now]], -1)
            matchings[k, part.left] = ends
        return matchings

    @staticmethod
    def _take(chains: EdgeChains, graphs: IntArray, now: IntArray) -> IntArray:
        """Copy the states that count to `now`; return the components of the others."""
        edges, state = chains.target.edges, chains.states[0]
        rows = state.left_edge[0], state.right_edge[0]
        is_done = np.array([is_complete(edges, *rows, c) for c in graphs], dtype=bool)
        for c in graphs[is_done]:
            nodes = slice(edges.left_starts[c], edges.left_starts[c + 1])
            now[nodes] = rows[0][nodes]
        return graphs[~is_done]
