"""Square graphs of equal size stacked, so that one product scores them all."""

from dataclasses import dataclass

import numpy as np

from permatch._types import BoolArray, FloatArray, IntArray
from permatch.graphs import BipartiteGraph
from permatch.inference import AbstractEngine
from permatch.labels import KnownEdges
from permatch.objectives.expectation import Expectation, check_scores
from permatch.objectives.parameters import Parameters


@dataclass(frozen=True, eq=False)
class FeatureStack:
    """b square graphs of one size m, all of whose nodes are matched."""

    members: IntArray  # their positions in the list of graphs, (b,)
    features: FloatArray  # of edges, (b, m, m, d)
    forbidden: BoolArray | None  # True where an edge is forbidden; None if none is
    labels: IntArray  # the labelled matchings, (b, m)
    parameters: Parameters

    @property
    def size(self) -> int:
        """Nodes per side, m."""
        return self.features.shape[1]

    def scores(self, weights: FloatArray) -> FloatArray:
        """Return the edge scores (b, m, m); ``-inf`` on forbidden edges."""
        # einsum, not a BLAS product: BLAS keeps threads spinning that the engine's own
        # threads then have to share the processors with, and sums in an order of its own.
        scores = np.einsum("bijd,d->bij", self.features, weights[: self.parameters.n_edge])
        if self.forbidden is None:
            check_scores(scores)
        else:
            check_scores(scores[~self.forbidden])
            scores[self.forbidden] = -np.inf
        return scores

    def label_scores(self, weights: FloatArray) -> FloatArray:
        """Return the score of every labelled matching, (b,)."""
        places = np.arange(len(self.members))[:, None], np.arange(self.size)[None, :]
        return self.scores(weights)[*places, self.labels].sum(axis=1)

    def observed(self, shares: FloatArray) -> FloatArray:
        """Return the features of the labelled edges, by shares (b,) of graphs."""
        total = np.zeros(self.parameters.n_edge)
        rows = np.arange(self.size)
        for g, share in enumerate(shares):
            total += share * self.features[g, rows, self.labels[g]].sum(axis=0)
        return self.padded(total)

    def expect(
        self, weights: FloatArray, shares: FloatArray, engine: AbstractEngine, n_jobs: int
    ) -> Expectation:
        """Return log-partitions, and expected features by shares (b,) of graphs."""
        result = engine.infer(self.scores(weights), n_jobs=n_jobs, check=False)
        edges = shares[:, None, None] * result.marginals
        total = self.padded(np.einsum("bij,bijd->d", edges, self.features))
        bounds = None
        if result.diagnostics.certificate == "rigorous":
            bounds = self.padded(self._bounds(shares, result.marginal_errors))
        return Expectation(result.log_partition, total, [result], bounds)

    def is_exact_by(self, engine: AbstractEngine) -> bool:
        """Return whether an engine is exact here, as far as is known beforehand."""
        return engine.is_exact_for(self.size)

    def padded(self, total: FloatArray) -> FloatArray:
        """Return a sum over edges with zeros for what belongs to nodes."""
        return np.concatenate([total, np.zeros(self.parameters.n_nodes)])

    def _bounds(self, shares: FloatArray, errors: FloatArray) -> FloatArray:
        """Bound the error of expected features, given bounds (b, m, m) on marginals.

        What a row's marginals lose on some edges they gain on others, each at most the
        bound.
        """
        ranges = self.features.max(axis=2) - self.features.min(axis=2)  # (b, m, d)
        return np.einsum("b,bm,bmd->d", shares, errors.sum(axis=2), ranges)


def stack_graphs(
    graphs: list[BipartiteGraph],
    labels: list[KnownEdges],
    members: list[int],
    parameters: Parameters,
) -> list[FeatureStack]:
    """Stack some of the graphs by size, copying their features."""
    by_size: dict[int, list[int]] = {}
    for k in members:
        by_size.setdefault(graphs[k].size, []).append(k)
    stacks = []
    for size, chosen in sorted(by_size.items()):
        features = np.stack([graphs[k].features for k in chosen])
        forbidden = None
        allowed = [graphs[k].allowed for k in chosen]
        if any(mask is not None for mask in allowed):
            everything = np.ones((size, size), dtype=bool)
            forbidden = ~np.stack([everything if a is None else a for a in allowed])
        matchings = np.array([labels[k].matching for k in chosen], dtype=np.intp)
        matchings = matchings.reshape(len(chosen), size)
        places = np.array(chosen, dtype=np.intp)
        stacks.append(FeatureStack(places, features, forbidden, matchings, parameters))
    return stacks
