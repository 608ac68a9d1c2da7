"""The parameters of a linear model of matchings, as one vector.

    s_ij = <coef, x_ij>     u_i = intercept + <left, z_i>     v_j = intercept + <right, w_j>

with x_ij the features of an edge, z_i and w_j those of nodes.  A matching with r pairs
leaves n - r left and k - r right nodes unmatched, so only the sum of the intercepts of the
two sides matters: both have the same.  Where all nodes of the smaller side must be matched,
r is fixed, and there is no intercept.

The vector is ``[coef, left, right, intercept]``.
"""

from dataclasses import dataclass

import numpy as np

from permatch._types import BoolArray, FloatArray
from permatch.graphs import BipartiteGraph


@dataclass(frozen=True)
class Parameters:
    """How many parameters there are of each kind."""

    n_edge: int
    n_left: int = 0
    n_right: int = 0
    is_any: bool = False  # whether any node may stay unmatched; else those left over only

    @classmethod
    def of(cls, graph: BipartiteGraph, *, is_any: bool) -> "Parameters":
        """Return the parameters for graphs like this one."""
        n_left, n_right = graph.left_features.shape[1], graph.right_features.shape[1]
        return cls(graph.n_features, n_left, n_right, is_any)

    def __len__(self) -> int:
        return self.n_edge + self.n_left + self.n_right + self.is_any

    @property
    def n_nodes(self) -> int:
        """Parameters of the scores of staying unmatched."""
        return len(self) - self.n_edge

    @property
    def is_penalised(self) -> BoolArray:
        """Which parameters the penalty acts on: all but the intercept."""
        return np.arange(len(self)) < len(self) - self.is_any

    def split(
        self, weights: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, float]:
        """Return the weights of edges, left nodes and right nodes, and the intercept."""
        first = self.n_edge
        middle = first + self.n_left
        last = middle + self.n_right
        intercept = float(weights[last]) if self.is_any else 0.0
        return weights[:first], weights[first:middle], weights[middle:last], intercept

    def join(
        self, coef: FloatArray, left: FloatArray, right: FloatArray, intercept: float
    ) -> FloatArray:
        """Return the vector."""
        return np.concatenate([coef, left, right, [intercept] * self.is_any])

    def unmatched(
        self, graph: BipartiteGraph, weights: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the scores of staying unmatched of the nodes of a graph."""
        _, left, right, intercept = self.split(weights)
        n, k = graph.n_left, graph.n_right
        scores = (
            graph.left_features @ left + intercept,
            graph.right_features @ right + intercept,
        )
        return (
            scores[0] if self.is_any or n > k else np.full(n, -np.inf),
            scores[1] if self.is_any or k > n else np.full(k, -np.inf),
        )

    @property
    def is_default(self) -> bool:
        """Whether scores of staying unmatched are those that engines take by default."""
        return self.n_nodes == 0
