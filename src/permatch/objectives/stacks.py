"""Graphs of equal size stacked, so that one product scores them all."""

from dataclasses import dataclass

import numpy as np

from permatch._types import BoolArray, FloatArray, IntArray
from permatch.graphs import BipartiteGraph


@dataclass(frozen=True, eq=False)
class FeatureStack:
    """b graphs of one size m."""

    members: IntArray  # their positions in the list of graphs, (b,)
    features: FloatArray  # of edges, (b, m, m, d)
    forbidden: BoolArray | None  # True where an edge is forbidden; None if none is

    @property
    def size(self) -> int:
        """Nodes per side, m."""
        return self.features.shape[1]

    def scores(self, coef: FloatArray) -> FloatArray:
        """Return the edge scores (b, m, m); ``-inf`` on forbidden edges."""
        # einsum, not a BLAS product: BLAS keeps threads spinning that the engine's own
        # threads then have to share the processors with, and sums in an order of its own.
        scores = np.einsum("bijd,d->bij", self.features, coef)
        if self.forbidden is not None:
            scores[self.forbidden] = -np.inf
        return scores

    def expected_features(self, edge_weights: FloatArray) -> FloatArray:
        """Return ``sum edge_weights[b, i, j] features[b, i, j]``, shape (d,)."""
        return np.einsum("bij,bijd->d", edge_weights, self.features)


def stack_graphs(graphs: list[BipartiteGraph]) -> list[FeatureStack]:
    """Stack graphs by size, copying their features."""
    by_size: dict[int, list[int]] = {}
    for k, graph in enumerate(graphs):
        by_size.setdefault(graph.size, []).append(k)
    stacks = []
    for size, members in sorted(by_size.items()):
        features = np.stack([graphs[k].features for k in members])
        forbidden = None
        if any(graphs[k].allowed is not None for k in members):
            everything = np.ones((size, size), dtype=bool)
            allowed = [graphs[k].allowed for k in members]
            forbidden = ~np.stack([everything if a is None else a for a in allowed])
        stacks.append(FeatureStack(np.array(members, dtype=np.intp), features, forbidden))
    return stacks
