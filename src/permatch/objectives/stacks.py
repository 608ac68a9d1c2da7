"""Square graphs of equal size stacked, so that one product scores them all."""

from dataclasses import dataclass

import numpy as np

from permatch._parallel import Job
from permatch._types import FloatArray
from permatch.graphs import BipartiteGraph
from permatch.inference import AbstractEngine
from permatch.inference.square_tangents import infer_square_tangents, pays
from permatch.inference.tangents import DUAL, Directions, Tangents, infer_tangents
from permatch.kernels.gram import weighted_gram
from permatch.labels import KnownEdges
from permatch.objectives.expectation import (
    Curved,
    Expectation,
    check_scores,
    projected,
)
from permatch.objectives.labelled import LabelledStack, label_stacks
from permatch.objectives.parameters import Parameters
from permatch.scores import stacked_problem


@dataclass(frozen=True, eq=False)
class FeatureStack(LabelledStack):
    """b square graphs of one size m, all of whose nodes are matched."""

    features: FloatArray  # of edges, (b, m, m, d)
    parameters: Parameters

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
        return self.score_labels(self.scores(weights))

    def observed(self, shares: FloatArray) -> FloatArray:
        """Return the features of the labelled edges, by shares (b,) of graphs."""
        total = np.zeros(self.parameters.n_edge)
        for g, share in enumerate(shares):
            total += share * self._labelled(g)
        return self.padded(total)

    def _labelled(self, g: int) -> FloatArray:
        """Return the summed features of the labelled edges of a graph, (d,)."""
        return self.features[g, np.arange(self.size), self.labels[g]].sum(axis=0)

    def expect(
        self, weights: FloatArray, shares: FloatArray, engine: AbstractEngine, n_jobs: int
    ) -> Expectation:
        """Return log-partitions, and expected features by shares (b,) of graphs."""
        result = self.infer(self.scores(weights), engine, n_jobs)
        edges = shares[:, None, None] * result.marginals
        total = self.padded(np.einsum("bij,bijd->d", edges, self.features))
        bounds = None
        if result.diagnostics.certificate == "rigorous":
            bounds = self.padded(self._bounds(shares, result.marginal_errors))
        return Expectation(result.log_partition, total, [result], bounds)

    def surpluses(
        self, weights: FloatArray, engine: AbstractEngine, n_jobs: int
    ) -> FloatArray:
        """Return the expected features of every graph less the labelled, (b, p)."""
        result = self.infer(self.scores(weights), engine, n_jobs)
        total = np.einsum("bij,bijd->bd", result.marginals, self.features)
        total -= np.array([self._labelled(g) for g in range(len(total))]).reshape(
            total.shape
        )
        return np.concatenate(
            [total, np.zeros((len(total), self.parameters.n_nodes))], axis=1
        )

    def curve(
        self,
        weights: FloatArray,
        shares: FloatArray,
        vectors: FloatArray | None,
        n_jobs: int,
    ) -> Curved:
        """Return the covariance of features times vectors (p, k), by shares (b,).

        Itself, (p, p), if there are no vectors.
        """
        n_edge = self.parameters.n_edge
        features = self.features.reshape(-1, n_edge)
        graphs = np.repeat(np.arange(len(shares)), self.size**2)
        if self.forbidden is not None:
            is_allowed = ~self.forbidden.ravel()
            features, graphs = features[is_allowed], graphs[is_allowed]
        along = projected(features, None if vectors is None else vectors[:n_edge])
        found = self._tangents(self.scores(weights), along, Job(n_jobs))
        own = weighted_gram(features, graphs, shares, found.edges)
        n_nodes = self.parameters.n_nodes
        width = n_nodes if vectors is None else 0
        return Curved(np.pad(own, ((0, n_nodes), (0, width))), found.methods, found.error)

    def _tangents(self, scores: FloatArray, along: FloatArray, job: Job) -> Tangents:
        """Return the derivatives of marginals along directions (n_edges, k)."""
        nobody = np.zeros((len(scores) * self.size, along.shape[1]))
        if not pays(self.size, along.shape[1]):
            directions = Directions(along, nobody, nobody)
            return infer_tangents(stacked_problem(scores), directions, job)
        is_edge = scores > -np.inf
        edges, direction = np.empty_like(along), np.zeros_like(scores)
        for k in range(along.shape[1]):
            direction[is_edge] = along[:, k]
            edges[:, k] = infer_square_tangents(scores, direction, job)[is_edge]
        return Tangents(edges, nobody, nobody, frozenset([DUAL]))

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
    return [
        FeatureStack(
            **vars(stack),
            features=np.stack([graphs[k].features for k in stack.members]),
            parameters=parameters,
        )
        for stack in label_stacks(graphs, labels, members)
    ]
