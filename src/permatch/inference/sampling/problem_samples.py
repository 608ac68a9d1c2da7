"""Where the samples of one problem come from."""

from dataclasses import dataclass

import numpy as np

from permatch._types import IntArray
from permatch.errors import SizeLimitError
from permatch.inference.base import AbstractEngine, Samples
from permatch.inference.sampling.matching_samples import MatchingSamples
from permatch.problems import Problem


def find_samples(problem: Problem, engine: AbstractEngine) -> Samples:
    """Return the source of samples of a problem with one graph that has a matching.

    Parameters
    ----------
    problem : Problem
        One graph.
    engine : AbstractEngine
        Asked for samples of its own.

    Returns
    -------
    Samples
        Of matchings (n, n_left), -1 for unmatched.
    """
    structure = problem.structure
    if structure.n_left == structure.n_right and problem.is_perfect:
        return _SquareSamples.build(problem, engine)
    raise SizeLimitError(
        "samples of graphs whose nodes may stay unmatched are not available."
    )


@dataclass(frozen=True, eq=False)
class _SquareSamples:
    """Samples of a square whose nodes must all be matched.

    Pairs that have no other choice are left out of what is drawn from.
    """

    rows: IntArray
    cols: IntArray
    fixed: IntArray  # the matching where it is fixed
    source: Samples

    @classmethod
    def build(cls, problem: Problem, engine: AbstractEngine) -> "_SquareSamples":
        found, structure = problem.structure.components, problem.structure
        is_open = found.n_edges > 1
        (rows,) = np.nonzero(is_open[found.of_left])
        (cols,) = np.nonzero(is_open[found.of_right])
        fixed = np.zeros(structure.n_left, dtype=np.intp)
        is_fixed = ~is_open[found.of_left]
        fixed[is_fixed] = structure.right[structure.starts[:-1][is_fixed]]
        core = np.ascontiguousarray(problem.dense()[np.ix_(rows, cols)])
        source = engine.own_samples(core) or MatchingSamples.build(core)
        return cls(rows, cols, fixed, source)

    def sample(self, n: int, rng: np.random.Generator, n_jobs: int = 1) -> IntArray:
        """Draw `n` matchings; the same for every `n_jobs`."""
        drawn = self.source.sample(n, rng, n_jobs)
        if len(self.rows) == len(self.fixed):
            return drawn
        matchings = np.tile(self.fixed, (n, 1))
        matchings[:, self.rows] = self.cols[drawn]
        return matchings
