"""Labelled graphs of any kind side by side, with one table of edge features."""

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from permatch._parallel import Job
from permatch._types import FloatArray, IntArray
from permatch.graphs import BipartiteGraph
from permatch.inference import AbstractEngine, InferenceResult
from permatch.inference.tangents import Directions, infer_tangents
from permatch.kernels.gram import weighted_gram
from permatch.labels import KnownEdges
from permatch.objectives.expectation import (
    Curved,
    Expectation,
    check_scores,
    projected,
)
from permatch.objectives.labelled import LabelledTable, label_table
from permatch.objectives.parameters import Parameters
from permatch.problems import Problem


@dataclass(frozen=True, eq=False)
class FeatureTable(LabelledTable):
    """b graphs of any size, sparse or dense, whose nodes may stay unmatched.

    `left` and `right` have the features of all nodes that ``weights[n_edge:]`` belongs to,
    those of the other side 0, the intercept's 1.
    """

    features: FloatArray  # of edges, (E, d)
    left: FloatArray  # of nodes, (N, n_nodes)
    right: FloatArray  # (K, n_nodes)
    parameters: Parameters

    def problem(self, weights: FloatArray) -> Problem:
        """Return the problem of all graphs."""
        n_edge = self.parameters.n_edge
        # einsum rather than BLAS, as in `FeatureStack`.
        scores = np.einsum("ed,d->e", self.features, weights[:n_edge])
        left = np.einsum("nt,t->n", self.left, weights[n_edge:])
        right = np.einsum("nt,t->n", self.right, weights[n_edge:])
        for values in (scores, left, right):
            check_scores(values)
        return self.pose(scores, left, right)

    def label_scores(self, weights: FloatArray) -> FloatArray:
        """Return the score of what is known about every graph, (b,)."""
        return self.score_labels(self.problem(weights))

    def observed(self, shares: FloatArray) -> FloatArray:
        """Return the features of what is known, by shares (b,) of graphs."""
        left, right = self.settled_nodes
        return self.total(shares, self.is_match, left, right)

    def expect(
        self, weights: FloatArray, shares: FloatArray, engine: AbstractEngine, n_jobs: int
    ) -> Expectation:
        """Return log-partitions, and expected features by shares (b,) of graphs.

        Those of the consistent problem are subtracted.
        """
        found = self.infer(self.problem(weights), engine, n_jobs)
        total = self.total(shares, found.edges, found.left, found.right)
        bounds = None
        if len(found.results) == 1:
            bounds = self._bounds(shares, found.results[0])
        return Expectation(found.log_partition, total, found.results, bounds)

    def surpluses(
        self, weights: FloatArray, engine: AbstractEngine, n_jobs: int
    ) -> FloatArray:
        """Return the expected features of every graph less those of what is known, (b, p).

        Of what is left open those that are expected given the rest are subtracted.
        """
        found, structure = self.infer(self.problem(weights), engine, n_jobs), self.structure
        settled_left, settled_right = self.settled_nodes
        edges = found.edges - self.is_match
        left, right = found.left - settled_left, found.right - settled_right
        of_nodes = _sum_by_graph(structure.left_starts, left, self.left)
        of_nodes += _sum_by_graph(structure.right_starts, right, self.right)
        of_edges = _sum_by_graph(structure.edge_starts, edges, self.features)
        return np.concatenate([of_edges, of_nodes], axis=1)

    def curve(
        self,
        weights: FloatArray,
        shares: FloatArray,
        vectors: FloatArray | None,
        n_jobs: int,
    ) -> Curved:
        """Return the covariance of features times vectors (p, k), by shares (b,) of graphs.

        Itself, (p, p), if there are no vectors.  That of the consistent problem is
        subtracted.
        """
        problem, job = self.problem(weights), Job(n_jobs)
        n_edge, n_all = self.parameters.n_edge, len(self.parameters)
        axes = np.eye(n_all) if vectors is None else vectors
        along = Directions(
            projected(self.features, axes[:n_edge]),
            projected(self.left, axes[n_edge:]),
            projected(self.right, axes[n_edge:]),
        )
        found = infer_tangents(problem, along, job)
        edges, left, right = found.edges, found.left, found.right
        methods, error = found.methods, found.error
        if self.is_open.any():
            some = Directions(along.edges[self.is_open], along.left, along.right)
            known = infer_tangents(self.consistent(problem), some, job)
            methods, error = methods | known.methods, max(error, known.error)
            edges[self.is_open] -= known.edges
            left -= known.left
            right -= known.right
        structure = self.structure
        of_nodes = weighted_gram(self.left, structure.graph_of_left, shares, left)
        of_nodes += weighted_gram(self.right, structure.graph_of_right, shares, right)
        of_edges = weighted_gram(self.features, self.graph_of_edge, shares, edges)
        return Curved(np.concatenate([of_edges, of_nodes]), methods, error)

    def settled(self) -> "FeatureTable":
        """Return the graphs without the nodes that have an open edge: labels are complete.

        Those nodes stay, without edges, where they say nothing about the model.
        """
        structure = self.structure
        left, right = self.open_nodes
        is_kept = ~(left[structure.left] | right[structure.right])
        return replace(
            self,
            structure=structure.kept(is_kept),
            features=self.features[is_kept],
            must_left=self.must_left & ~left,
            must_right=self.must_right & ~right,
            is_match=self.is_match[is_kept],
            is_open=self.is_open[is_kept],
        )

    def by_component(self) -> "FeatureTable":
        """Return the same pairs with a graph for every connected component.

        Components are independent.  Nodes without an edge, which say nothing about the
        model, are left out.
        """
        plain = self.problem(np.zeros(len(self.parameters)))
        found = plain.select(np.arange(len(self.structure.components)))
        left, right, edges = found.left, found.right, found.edges
        return replace(
            self,
            members=np.arange(len(found.components)),
            structure=found.problem.structure,
            features=self.features[edges],
            left=self.left[left],
            right=self.right[right],
            must_left=self.must_left[left],
            must_right=self.must_right[right],
            is_match=self.is_match[edges],
            is_open=self.is_open[edges],
        )

    def is_exact_by(self, engine: AbstractEngine) -> bool:
        """Return whether an engine may be exact here: only trying tells for certain."""
        return engine.may_be_exact_on(self.problem(np.zeros(len(self.parameters))))

    def total(
        self, shares: FloatArray, edges: np.ndarray, left: np.ndarray, right: np.ndarray
    ) -> FloatArray:
        """Return the sum of features by weights of edges and of unmatched nodes."""
        structure = self.structure
        of_nodes = np.einsum("n,nt->t", shares[structure.graph_of_left] * left, self.left)
        of_nodes += np.einsum(
            "n,nt->t", shares[structure.graph_of_right] * right, self.right
        )
        weighted = shares[self.graph_of_edge] * edges
        return np.concatenate([np.einsum("e,ed->d", weighted, self.features), of_nodes])

    def _bounds(self, shares: FloatArray, result: InferenceResult) -> FloatArray | None:
        """Bound the error of expected features, if that of marginals is bounded."""
        if result.is_exact or result.diagnostics.certificate != "rigorous":
            return None
        errors = result.marginal_errors
        if result.marginal_bounds is not None:
            low, high = result.marginal_bounds
            errors = np.maximum(high - result.marginals, result.marginals - low)
        if errors is None:
            return None
        structure = self.structure
        left = np.bincount(structure.left, errors, structure.n_left)
        right = np.bincount(structure.right, errors, structure.n_right)
        sizes = replace(
            self,
            features=np.abs(self.features),
            left=np.abs(self.left),
            right=np.abs(self.right),
        )
        return sizes.total(shares, errors, left, right)


def table_graphs(
    graphs: list[BipartiteGraph],
    labels: list[KnownEdges],
    members: list[int],
    parameters: Parameters,
) -> FeatureTable:
    """Return some of the graphs side by side, copying their features."""
    own = [graphs[k] for k in members]
    left = [graph.left_features for graph in own]
    right = [graph.right_features for graph in own]
    return FeatureTable(
        **vars(label_table(graphs, labels, members, is_any=parameters.is_any)),
        features=np.concatenate([graph.edge_features for graph in own]),
        left=_design(left, 0, parameters),
        right=_design(right, parameters.n_left, parameters),
        parameters=parameters,
    )


def _sum_by_graph(starts: IntArray, weights: FloatArray, rows: FloatArray) -> FloatArray:
    """Return the weighted sum of the rows of every graph, which follow one another."""
    shape = (len(starts) - 1, len(rows))
    return sparse.csr_array((weights, np.arange(len(rows)), starts), shape=shape) @ rows


def _design(pieces: list[FloatArray], first: int, parameters: Parameters) -> FloatArray:
    """Return features of nodes, with those of the other side 0 and the intercept's 1."""
    features = np.concatenate(pieces)
    design = np.zeros((len(features), parameters.n_nodes))
    design[:, first : first + features.shape[1]] = features
    if parameters.is_any:
        design[:, -1] = 1.0
    return design
