"""Graphs of any kind side by side: one table of edge features, one problem for the engine.

With labels that leave edges open, the likelihood of what is known is

    log_partition(consistent) - log_partition(all)

The consistent problem has the open edges only; the score of what is known is added to it.
Nodes without an open edge are settled, so they count as 0 there.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse

from permatch._parallel import Job
from permatch._types import BoolArray, FloatArray, IntArray
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
from permatch.objectives.parameters import Parameters
from permatch.problems import Problem, Structure, side_by_side


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """b graphs of any size, sparse or dense, whose nodes may stay unmatched.

    `left` and `right` have the features of all nodes that ``weights[n_edge:]`` belongs to,
    those of the other side 0, the intercept's 1.
    """

    members: IntArray  # the positions of the graphs in the list of graphs, (b,)
    structure: Structure
    features: FloatArray  # of edges, (E, d)
    left: FloatArray  # of nodes, (N, n_nodes)
    right: FloatArray  # (K, n_nodes)
    must_left: BoolArray  # nodes that must be matched, (N,)
    must_right: BoolArray  # (K,)
    is_match: BoolArray  # edges known to be in the matching, (E,)
    is_open: BoolArray  # edges about which nothing is known, (E,)
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
        left[self.must_left] = -np.inf
        right[self.must_right] = -np.inf
        return Problem(self.structure, scores, left, right)

    def label_scores(self, weights: FloatArray) -> FloatArray:
        """Return the score of what is known about every graph, (b,)."""
        problem, structure = self.problem(weights), self.structure
        left, right = self._settled
        total = np.zeros(structure.n_graphs)
        for graphs, values in (
            (self.graph_of_edge[self.is_match], problem.scores[self.is_match]),
            (structure.graph_of_left[left], problem.unmatched_left[left]),
            (structure.graph_of_right[right], problem.unmatched_right[right]),
        ):
            total += np.bincount(graphs, values, structure.n_graphs)
        return total

    def observed(self, shares: FloatArray) -> FloatArray:
        """Return the features of what is known, by shares (b,) of graphs."""
        left, right = self._settled
        return self.total(shares, self.is_match, left, right)

    def expect(
        self, weights: FloatArray, shares: FloatArray, engine: AbstractEngine, n_jobs: int
    ) -> Expectation:
        """Return log-partitions, and expected features by shares (b,) of graphs.

        Those of the consistent problem are subtracted.
        """
        problem, job = self.problem(weights), Job(n_jobs)
        result = engine.infer_problem(problem, job)
        parts = result.marginals, result.unmatched_left, result.unmatched_right
        total = self.total(shares, *parts)
        if not self.is_open.any():
            bounds = self._bounds(shares, result)
            return Expectation(result.log_partition, total, [result], bounds)
        left, right = self._open_nodes
        known = engine.infer_problem(self._consistent(problem), job)
        edges = np.zeros(self.structure.n_edges)
        edges[self.is_open] = known.marginals
        total -= self.total(
            shares, edges, left * known.unmatched_left, right * known.unmatched_right
        )
        log_partition = result.log_partition - known.log_partition
        return Expectation(log_partition, total, [result, known], None)

    def surpluses(
        self, weights: FloatArray, engine: AbstractEngine, n_jobs: int
    ) -> FloatArray:
        """Return the expected features of every graph less those of what is known, (b, p).

        Of what is left open those that are expected given the rest are subtracted.
        """
        problem, job = self.problem(weights), Job(n_jobs)
        result = engine.infer_problem(problem, job)
        settled_left, settled_right = self._settled
        edges = result.marginals - self.is_match
        left = result.unmatched_left - settled_left
        right = result.unmatched_right - settled_right
        if self.is_open.any():
            open_left, open_right = self._open_nodes
            known = engine.infer_problem(self._consistent(problem), job)
            edges[self.is_open] -= known.marginals
            left -= open_left * known.unmatched_left
            right -= open_right * known.unmatched_right
        structure = self.structure
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
            known = infer_tangents(self._consistent(problem), some, job)
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
        left, right = self._open_nodes
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

    def is_exact_by(self, engine: AbstractEngine) -> bool:
        """Return whether an engine may be exact here: only trying tells for certain."""
        return engine.may_be_exact_on(self.problem(np.zeros(len(self.parameters))))

    @cached_property
    def graph_of_edge(self) -> IntArray:
        """The graph of every edge."""
        return self.structure.graph_of_left[self.structure.left]

    @cached_property
    def _open_nodes(self) -> tuple[BoolArray, BoolArray]:
        """The left and right nodes with an open edge."""
        left = np.zeros(self.structure.n_left, dtype=bool)
        right = np.zeros(self.structure.n_right, dtype=bool)
        left[self.structure.left[self.is_open]] = True
        right[self.structure.right[self.is_open]] = True
        return left, right

    @cached_property
    def _settled(self) -> tuple[BoolArray, BoolArray]:
        """The left and right nodes that are known to be unmatched."""
        left, right = (~is_open for is_open in self._open_nodes)
        left[self.structure.left[self.is_match]] = False
        right[self.structure.right[self.is_match]] = False
        return left, right

    @cached_property
    def _open_structure(self) -> Structure:
        return self.structure.kept(self.is_open)

    def _consistent(self, problem: Problem) -> Problem:
        left, right = self._open_nodes
        return Problem(
            self._open_structure,
            np.ascontiguousarray(problem.scores[self.is_open]),
            np.where(left, problem.unmatched_left, 0.0),
            np.where(right, problem.unmatched_right, 0.0),
        )

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
    structure = side_by_side([graph.structure for graph in own])
    return FeatureTable(
        np.array(members, dtype=np.intp),
        structure,
        np.concatenate([graph.edge_features for graph in own]),
        _design([graph.left_features for graph in own], 0, parameters),
        _design([graph.right_features for graph in own], parameters.n_left, parameters),
        *must_match(structure, parameters),
        np.concatenate([labels[k].is_match for k in members]),
        np.concatenate([labels[k].is_open for k in members]),
        parameters,
    )


def must_match(structure: Structure, parameters: Parameters) -> tuple[BoolArray, BoolArray]:
    """Return the left and the right nodes that must be matched."""
    n_left, n_right = np.diff(structure.left_starts), np.diff(structure.right_starts)
    must = ~np.full(structure.n_graphs, parameters.is_any)
    return (
        np.repeat(must & (n_left <= n_right), n_left),
        np.repeat(must & (n_right <= n_left), n_right),
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
