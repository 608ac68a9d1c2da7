"""Graphs with the scores of a model, and what engines and decoders make of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from permatch._layout import Layout
from permatch._types import FloatArray, IntArray
from permatch._validation import MAX_SCORE, check_jobs, no_perfect_matching
from permatch.assignment import best_assignment
from permatch.decoding import LinkCosts, best_matching
from permatch.decoding.bayes import bayes_assignment
from permatch.errors import InfeasibleGraphError, PrecisionError
from permatch.estimators.checks import DataSet
from permatch.graphs import BipartiteGraph
from permatch.inference import AbstractEngine, InferenceResult, require_marginals
from permatch.labels import KnownEdges
from permatch.objectives import Parameters, ScoreLikelihood
from permatch.problems import Problem
from permatch.scores import check_problem


@dataclass(frozen=True, eq=False)
class Scored:
    """Graphs with the scores of their edges (n_edges,), and of staying unmatched.

    `unmatched` has ``unmatched_left`` and ``unmatched_right`` per graph; it is empty where
    defaults hold.
    """

    graphs: list[BipartiteGraph]
    of_edges: list[FloatArray]
    unmatched: dict[str, Any]

    @cached_property
    def scores(self) -> list[Any]:
        """The scores of every graph in the form in which engines take them."""
        return [
            graph.with_scores(own)
            for graph, own in zip(self.graphs, self.of_edges, strict=True)
        ]

    @property
    def is_square(self) -> bool:
        """Whether all are square arrays, all of whose nodes are matched."""
        return not self.unmatched and all(graph.is_square for graph in self.graphs)

    def each(self) -> list["Scored"]:
        """Return every graph by itself."""
        return [
            Scored(
                [graph],
                [own],
                {name: [values[k]] for name, values in self.unmatched.items()},
            )
            for k, (graph, own) in enumerate(zip(self.graphs, self.of_edges, strict=True))
        ]

    def infer(self, engine: AbstractEngine, n_jobs: int | None) -> InferenceResult:
        """Return marginals, a list with an array per graph, in the form of the graph."""
        require_marginals(engine)
        with _advice():
            return engine.infer(self.scores, n_jobs=n_jobs, **self.unmatched)

    def may_be_exact_by(self, engine: AbstractEngine) -> bool:
        """Return whether inference may be exact, as far as is known beforehand."""
        if self.is_square:
            return all(engine.is_exact_for(graph.size) for graph in self.graphs)
        return engine.may_be_exact_on(self.problem[0])

    def modes(self) -> list[IntArray]:
        """Return the best matching of every graph."""
        with _advice():
            if self.is_square:
                return [_mode(scores, k) for k, scores in enumerate(self.scores)]
            problem, layout = self.problem
            return layout.matchings(best_assignment(problem).matching)

    def bayes(self, result: InferenceResult, costs: LinkCosts | None) -> list[IntArray]:
        """Return the matching of every graph with the least expected loss."""
        problem, layout = self.problem
        marginals = np.concatenate(self.on_edges(result.marginals))
        alone = np.concatenate(result.unmatched_left)
        return layout.matchings(bayes_assignment(problem, marginals, alone, costs))

    def log_probs(
        self,
        labels: list[KnownEdges],
        engine: AbstractEngine,
        n_jobs: int | None,
        *,
        is_any: bool,
    ) -> FloatArray:
        """Return the log-probability of what is known about every graph.

        `is_any`: whether any node may stay unmatched.
        """
        objective = ScoreLikelihood(
            self.graphs, labels, is_any=is_any, engine=engine, n_jobs=check_jobs(n_jobs)
        )
        unmatched = None
        if self.unmatched:
            left, right = map(np.concatenate, self.unmatched.values())
            unmatched = left, right
        return objective.evaluate(np.concatenate(self.of_edges), unmatched).log_probs

    def on_edges(self, values: list[FloatArray]) -> list[FloatArray]:
        """Return values in the form of every graph as arrays (n_edges,)."""
        return [graph.pick(own) for graph, own in zip(self.graphs, values, strict=True)]

    @cached_property
    def problem(self) -> tuple[Problem, Layout]:
        """All graphs side by side, and how their matchings are told apart."""
        return check_problem(self.scores, **self.unmatched, check=False)


def score_graphs(
    graphs: list[BipartiteGraph], weights: FloatArray, parameters: Parameters
) -> Scored:
    """Return the scores of every graph; refuse features that are too large."""
    of_edges, left, right = [], [], []
    coef = weights[: parameters.n_edge]
    for k, graph in enumerate(graphs):
        with np.errstate(over="ignore", invalid="ignore"):  # caught at once
            scores = graph.edge_features @ coef
            ends = () if parameters.is_default else parameters.unmatched(graph, weights)
        finite = [scores, *(values[values != -np.inf] for values in ends)]
        largest = max(np.abs(values).max(initial=0.0) for values in finite)
        if not largest <= MAX_SCORE:  # false for NaN too
            raise PrecisionError(
                f"scores must be at most {MAX_SCORE:g} in size; the features of graph {k} "
                f"times the coefficients reach {largest:.3g}. Divide the features by a "
                "large number, in both fit and predict."
            )
        of_edges.append(scores)
        if ends:
            left.append(ends[0])
            right.append(ends[1])
    unmatched = {"unmatched_left": left, "unmatched_right": right}
    return Scored(graphs, of_edges, {} if parameters.is_default else unmatched)


@contextmanager
def _advice() -> Iterator[None]:
    """Say how a model lets nodes stay unmatched."""
    try:
        yield
    except InfeasibleGraphError as err:
        raise InfeasibleGraphError(
            f"{err} A model fitted with unmatched='any' lets nodes stay unmatched."
        ) from err


def _mode(scores: FloatArray, position: int) -> IntArray:
    try:
        return best_matching(scores)
    except InfeasibleGraphError as err:
        raise no_perfect_matching(scores, f"graph {position}") from err


def mean_log_likelihood(
    scored: Scored,
    data: DataSet,
    engine: AbstractEngine,
    n_jobs: int | None,
    *,
    is_any: bool,
) -> float:
    """Return the mean log-likelihood of labels by shares of graphs."""
    _, labels, shares = data
    if not is_any and any(known.leaves_spare for known in labels):
        return -np.inf
    return float(shares @ scored.log_probs(labels, engine, n_jobs, is_any=is_any))
