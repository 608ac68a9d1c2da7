"""The likelihood of labelled matchings as a function of the score of every edge.

Whatever gives the scores s, with weights of graphs and the score of what is known of each:

    loss of graph n        log_partition_n - score of its label
    gradient by s_e        weight_n ( marginal_e - label_e )
    curvature by s_e       weight_n marginal_e ( 1 - marginal_e )

Edges are numbered through all graphs, those of a graph in the order of its
`edge_features`.  label_e is 1 for the edges of the labelled matching; of what an incomplete
label leaves open, it is the probability of the edge given what is known.  The loss is then
the difference of two convex functions, and the curvature is that of the first alone: it is
never negative, at least the true one, and that of expectation maximisation.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch.graphs import BipartiteGraph
from permatch.inference import AbstractEngine, InferenceResult
from permatch.labels import KnownEdges
from permatch.objectives.labelled import (
    LabelledStack,
    LabelledTable,
    divide,
    label_stacks,
    label_table,
)
from permatch.problems import Problem
from permatch.scores import stacked_problem

#: Scores of staying unmatched of all left and all right nodes, graph after graph.
UnmatchedScores = tuple[FloatArray, FloatArray]


@dataclass(frozen=True, eq=False)
class ScoreEvaluation:
    """What some scores say of the labels."""

    log_probs: FloatArray  # of the label of every graph, (n_graphs,), at most 0
    marginals: FloatArray  # of all edges, (n_edges,)
    surplus: FloatArray  # marginals less labels, (n_edges,)
    results: list[InferenceResult]

    @property
    def is_exact(self) -> bool:
        """Whether all inference was exact."""
        return all(result.is_exact for result in self.results)

    @property
    def error(self) -> float:
        """The largest standard error of a marginal: 0 if exact, NaN if unknown."""
        errors = [result.largest_error for result in self.results]
        return float(np.max(errors, initial=0.0))


class ScoreLikelihood:
    """Log-probabilities of labels, and their derivatives by scores of edges.

    Takes checked graphs and what is known of them.  `is_any` says whether any node may stay
    unmatched, or only those left over on the larger side of a graph.
    """

    def __init__(
        self,
        graphs: list[BipartiteGraph],
        labels: list[KnownEdges],
        *,
        is_any: bool,
        engine: AbstractEngine,
        n_jobs: int = 1,
    ) -> None:
        self.engine = engine
        self.n_jobs = n_jobs
        self.n_graphs = len(graphs)
        self.edge_starts = _starts([graph.n_edges for graph in graphs])
        self._left_starts = _starts([graph.n_left for graph in graphs])
        self._right_starts = _starts([graph.n_right for graph in graphs])
        stacked, others = divide(graphs, labels, is_any=is_any)
        parts: list[LabelledStack | LabelledTable] = [
            *label_stacks(graphs, labels, stacked)
        ]
        if others:
            parts.append(label_table(graphs, labels, others, is_any=is_any))
        self.parts = [(part, _ranges(self.edge_starts, part.members)) for part in parts]

    @property
    def n_edges(self) -> int:
        """Edges of all graphs."""
        return int(self.edge_starts[-1])

    @property
    def is_convex(self) -> bool:
        """Whether the loss is convex: whether all labels are complete."""
        return all(
            isinstance(part, LabelledStack) or not part.is_open.any()
            for part, _ in self.parts
        )

    def evaluate(
        self, scores: FloatArray, unmatched: UnmatchedScores | None = None
    ) -> ScoreEvaluation:
        """Return what scores (n_edges,) say of the labels.

        Nodes that may stay unmatched have the score 0 for it if none is given.
        """
        log_probs, marginals = np.zeros(self.n_graphs), np.zeros(self.n_edges)
        surplus, results = np.zeros(self.n_edges), []
        for k, (part, edges) in enumerate(self.parts):
            engine = self.engine.with_seed(k)  # parts number their graphs alike
            if isinstance(part, LabelledTable):
                problem = self._pose(part, scores[edges], unmatched)
                found = part.infer(problem, engine, self.n_jobs)
                log_probs[part.members] = part.score_labels(problem) - found.log_partition
                marginals[edges] = found.marginals
                surplus[edges] = found.edges - part.is_match
                results += found.results
                continue
            table = part.spread(scores[edges])
            result = part.infer(table, engine, self.n_jobs)
            log_probs[part.members] = part.score_labels(table) - result.log_partition
            marginals[edges] = part.on_edges(result.marginals)
            surplus[edges] = marginals[edges] - part.is_match
            results.append(result)
        # Rounding must not push a probability above 1.
        return ScoreEvaluation(np.minimum(log_probs, 0.0), marginals, surplus, results)

    def problems(self, scores: FloatArray) -> list[Problem]:
        """Return what the engine solves at scores (n_edges,), a problem per part."""
        return [
            self._pose(part, scores[edges], None)
            if isinstance(part, LabelledTable)
            else stacked_problem(part.spread(scores[edges]))
            for part, edges in self.parts
        ]

    def _pose(
        self, table: LabelledTable, scores: FloatArray, unmatched: UnmatchedScores | None
    ) -> Problem:
        structure = table.structure
        if unmatched is None:
            nobody = np.zeros(structure.n_left), np.zeros(structure.n_right)
            return table.pose(scores, *nobody)
        left, right = unmatched
        return table.pose(
            scores,
            left[_ranges(self._left_starts, table.members)],
            right[_ranges(self._right_starts, table.members)],
        )


def _starts(counts: Sequence[int]) -> IntArray:
    return np.cumsum([0, *counts])


def _ranges(starts: IntArray, members: IntArray) -> IntArray:
    """Return the numbers of all that belongs to some graphs, one after the other."""
    ends = starts.tolist()
    pieces = [np.arange(ends[k], ends[k + 1]) for k in members.tolist()]
    return np.concatenate([np.zeros(0, dtype=np.intp), *pieces])
