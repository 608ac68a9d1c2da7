"""Labelled graphs, arranged so that engines solve many at once; scores come from outside.

Square arrays whose nodes must all be matched are stacked by size, all other graphs stand
side by side in one table.  With labels that leave edges open, the likelihood of what is
known is

    log_partition(consistent) - log_partition(all)

The consistent problem has the open edges only; the score of what is known is added to it.
Nodes without an open edge are settled, so they count as 0 there.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from permatch._parallel import Job
from permatch._types import BoolArray, FloatArray, IntArray
from permatch.graphs import BipartiteGraph
from permatch.inference import AbstractEngine, InferenceResult
from permatch.labels import KnownEdges
from permatch.problems import Problem, Structure, side_by_side


@dataclass(frozen=True, eq=False)
class Inferred:
    """What an engine says of labelled graphs.

    Of what incomplete labels leave open, the answer given the labels is subtracted from
    all but `marginals`.
    """

    log_partition: FloatArray  # (b,)
    marginals: FloatArray  # of edges, whatever is known of them
    edges: FloatArray  # like `marginals`
    left: FloatArray  # of nodes that stay unmatched
    right: FloatArray
    results: list[InferenceResult]


@dataclass(frozen=True, eq=False)
class LabelledTable:
    """b graphs of any size, sparse or dense, whose nodes may stay unmatched."""

    members: IntArray  # the positions of the graphs in the list of graphs, (b,)
    structure: Structure
    must_left: BoolArray  # nodes that must be matched, (N,)
    must_right: BoolArray  # (K,)
    is_match: BoolArray  # edges known to be in the matching, (E,)
    is_open: BoolArray  # edges about which nothing is known, (E,)

    def pose(self, scores: FloatArray, left: FloatArray, right: FloatArray) -> Problem:
        """Return the problem of all graphs, given scores of edges and unmatched nodes."""
        return Problem(
            self.structure,
            scores,
            np.where(self.must_left, -np.inf, left),
            np.where(self.must_right, -np.inf, right),
        )

    def infer(self, problem: Problem, engine: AbstractEngine, n_jobs: int) -> Inferred:
        """Return log-partitions and probabilities, less those given what is known."""
        job = Job(n_jobs)
        result = engine.infer_problem(problem, job)
        edges = marginals = result.marginals
        left, right = result.unmatched_left, result.unmatched_right
        if not self.is_open.any():
            return Inferred(result.log_partition, marginals, edges, left, right, [result])
        is_left, is_right = self.open_nodes
        known = engine.infer_problem(self.consistent(problem), job)
        edges = marginals.copy()
        edges[self.is_open] -= known.marginals
        return Inferred(
            result.log_partition - known.log_partition,
            marginals,
            edges,
            left - is_left * known.unmatched_left,
            right - is_right * known.unmatched_right,
            [result, known],
        )

    def score_labels(self, problem: Problem) -> FloatArray:
        """Return the score of what is known about every graph, (b,)."""
        structure = self.structure
        left, right = self.settled_nodes
        total = np.zeros(structure.n_graphs)
        for graphs, values in (
            (self.graph_of_edge[self.is_match], problem.scores[self.is_match]),
            (structure.graph_of_left[left], problem.unmatched_left[left]),
            (structure.graph_of_right[right], problem.unmatched_right[right]),
        ):
            total += np.bincount(graphs, values, structure.n_graphs)
        return total

    def consistent(self, problem: Problem) -> Problem:
        """Return the problem of what is open."""
        left, right = self.open_nodes
        return Problem(
            self._open_structure,
            np.ascontiguousarray(problem.scores[self.is_open]),
            np.where(left, problem.unmatched_left, 0.0),
            np.where(right, problem.unmatched_right, 0.0),
        )

    @cached_property
    def graph_of_edge(self) -> IntArray:
        """The graph of every edge."""
        return self.structure.graph_of_left[self.structure.left]

    @cached_property
    def open_nodes(self) -> tuple[BoolArray, BoolArray]:
        """The left and right nodes with an open edge."""
        left = np.zeros(self.structure.n_left, dtype=bool)
        right = np.zeros(self.structure.n_right, dtype=bool)
        left[self.structure.left[self.is_open]] = True
        right[self.structure.right[self.is_open]] = True
        return left, right

    @cached_property
    def settled_nodes(self) -> tuple[BoolArray, BoolArray]:
        """The left and right nodes that are known to be unmatched."""
        left, right = (~is_open for is_open in self.open_nodes)
        left[self.structure.left[self.is_match]] = False
        right[self.structure.right[self.is_match]] = False
        return left, right

    @cached_property
    def _open_structure(self) -> Structure:
        return self.structure.kept(self.is_open)


@dataclass(frozen=True, eq=False)
class LabelledStack:
    """b square graphs of one size m, all of whose nodes are matched."""

    members: IntArray  # their positions in the list of graphs, (b,)
    forbidden: BoolArray | None  # True where an edge is forbidden; None if none is
    labels: IntArray  # the labelled matchings, (b, m)

    @property
    def size(self) -> int:
        """Nodes per side, m."""
        return self.labels.shape[1]

    def infer(
        self, scores: FloatArray, engine: AbstractEngine, n_jobs: int
    ) -> InferenceResult:
        """Return log-partitions and marginals (b, m, m)."""
        return engine.infer(scores, n_jobs=n_jobs, check=False)

    def spread(self, scores: FloatArray) -> FloatArray:
        """Return scores of all edges, graph after graph, as an array (b, m, m)."""
        shape = len(self.members), self.size, self.size
        if self.forbidden is None:
            return scores.reshape(shape)
        table = np.full(shape, -np.inf)
        table[~self.forbidden] = scores
        return table

    def on_edges(self, values: np.ndarray) -> np.ndarray:
        """Return values (b, m, m) of all edges, graph after graph."""
        return values.reshape(-1) if self.forbidden is None else values[~self.forbidden]

    @cached_property
    def is_match(self) -> BoolArray:
        """Which edges, graph after graph, are labelled as matched."""
        is_match = np.zeros((len(self.members), self.size, self.size), dtype=bool)
        is_match[*self.places] = True
        return self.on_edges(is_match)

    def score_labels(self, scores: FloatArray) -> FloatArray:
        """Return the score of every labelled matching, (b,)."""
        return scores[*self.places].sum(axis=1)

    @property
    def places(self) -> tuple[IntArray, IntArray, IntArray]:
        """Where the labelled edges are among scores (b, m, m)."""
        graphs = np.arange(len(self.members))[:, None]
        return graphs, np.arange(self.size)[None, :], self.labels


def divide(
    graphs: list[BipartiteGraph], labels: list[KnownEdges], *, is_any: bool
) -> tuple[list[int], list[int]]:
    """Return the graphs that are stacked, and those that stand in a table.

    `is_any`: whether any node may stay unmatched.
    """
    stacked, others = [], []
    for k, (graph, known) in enumerate(zip(graphs, labels, strict=True)):
        is_stacked = not is_any and graph.is_square and known.is_complete
        (stacked if is_stacked else others).append(k)
    return stacked, others


def label_table(
    graphs: list[BipartiteGraph],
    labels: list[KnownEdges],
    members: list[int],
    *,
    is_any: bool,
) -> LabelledTable:
    """Return some of the graphs side by side."""
    structure = side_by_side([graphs[k].structure for k in members])
    return LabelledTable(
        np.array(members, dtype=np.intp),
        structure,
        *must_match(structure, is_any=is_any),
        np.concatenate([labels[k].is_match for k in members]),
        np.concatenate([labels[k].is_open for k in members]),
    )


def label_stacks(
    graphs: list[BipartiteGraph], labels: list[KnownEdges], members: list[int]
) -> list[LabelledStack]:
    """Stack some of the graphs by size."""
    by_size: dict[int, list[int]] = {}
    for k in members:
        by_size.setdefault(graphs[k].size, []).append(k)
    stacks = []
    for size, chosen in sorted(by_size.items()):
        forbidden = None
        allowed = [graphs[k].allowed for k in chosen]
        if any(mask is not None for mask in allowed):
            everything = np.ones((size, size), dtype=bool)
            forbidden = ~np.stack([everything if a is None else a for a in allowed])
        matchings = np.array([labels[k].matching for k in chosen], dtype=np.intp)
        matchings = matchings.reshape(len(chosen), size)
        stacks.append(LabelledStack(np.array(chosen, dtype=np.intp), forbidden, matchings))
    return stacks


def must_match(structure: Structure, *, is_any: bool) -> tuple[BoolArray, BoolArray]:
    """Return the left and the right nodes that must be matched."""
    n_left, n_right = np.diff(structure.left_starts), np.diff(structure.right_starts)
    must = ~np.full(structure.n_graphs, is_any)
    return (
        np.repeat(must & (n_left <= n_right), n_left),
        np.repeat(must & (n_right <= n_left), n_right),
    )
