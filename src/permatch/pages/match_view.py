"""What a page shows of one graph: its matchings, its edges, and the data of the script."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch.decoding import KBest
from permatch.distribution import MatchingDistribution
from permatch.graphs import BipartiteGraph
from permatch.pages.explorer_page import pack

#: Most feature values in a page, some 10 MB of it.
MAX_VALUES = 2_000_000
#: What stands in place of the partner of a node that has none.
UNMATCHED = "(unmatched)"


@dataclass(frozen=True, eq=False)
class MatchView:
    """One graph, the names of its nodes and features, and what one model makes of it.

    `truth` is the labelled matching, if there is one; `n_best` is how many of the best
    matchings to list, `model` what the estimator is called, and `note` what to say of the
    nodes that are not shown.
    """

    name: str
    left: list[str]
    right: list[str]
    features: list[str]
    coef: FloatArray
    graph: BipartiteGraph
    distribution: MatchingDistribution
    truth: IntArray | None
    n_best: int
    model: str
    note: str = ""

    @cached_property
    def mode(self) -> IntArray:
        """The most probable matching, (n_left,); -1: unmatched."""
        return self.distribution.mode()

    @cached_property
    def bayes(self) -> IntArray:
        """The matching with the fewest expected errors, (n_left,); -1: unmatched."""
        return self.distribution.bayes_matching()

    @cached_property
    def best(self) -> KBest:
        """The best matchings, best first."""
        return self.distribution.k_best(self.n_best)

    @cached_property
    def named(self) -> list[tuple[str, IntArray]]:
        """The matchings with a name, and their names."""
        found = [("mode", self.mode), ("Bayes", self.bayes)]
        return found if self.truth is None else [*found, ("labelled", self.truth)]

    @cached_property
    def lines(self) -> "Lines":
        """The edges, and those of unmatched nodes."""
        return Lines.of(self.graph, self.distribution)

    @cached_property
    def drawn_lines(self) -> list[tuple[str, set[int]]]:
        """The edges of the matchings with a name."""
        return [(name, {*self.lines.of_matching(m)}) for name, m in self.named]

    def partner(self, node: int) -> str:
        """Return the name of a right node; -1: none."""
        return UNMATCHED if node < 0 else self.right[node]

    def edge_name(self, line: int) -> tuple[str, str]:
        """Return the names of the ends of an edge."""
        left, right = [*self.left, UNMATCHED], [*self.right, UNMATCHED]
        return left[self.lines.rows[line]], right[self.lines.cols[line]]


@dataclass(frozen=True, eq=False)
class Lines:
    """What a page draws as edges: pairs of nodes, then nodes that may stay unmatched.

    An unmatched left node is an edge to one more right node, and the reverse; these stand
    at the end of their side.
    """

    rows: IntArray
    cols: IntArray
    chances: FloatArray
    scores: FloatArray
    errors: FloatArray | None
    n_pairs: int
    n_left: int
    n_right: int

    @classmethod
    def of(cls, graph: BipartiteGraph, law: MatchingDistribution) -> "Lines":
        """Collect the edges of a graph."""
        problem = law.problem
        alone = [
            np.flatnonzero(unmatched > -np.inf)
            for unmatched in (problem.unmatched_left, problem.unmatched_right)
        ]
        structure = graph.structure
        n_left, n_right = graph.n_left, graph.n_right
        n_pairs, n_alone = structure.n_edges, len(alone[0]) + len(alone[1])
        errors = None
        if not law.is_exact and law.marginal_errors is not None:
            errors = np.append(graph.pick(law.marginal_errors), np.zeros(n_alone))
        return cls(
            np.concatenate([structure.left, alone[0], np.full(len(alone[1]), n_left)]),
            np.concatenate([structure.right, np.full(len(alone[0]), n_right), alone[1]]),
            np.concatenate(
                [
                    graph.pick(law.marginals),
                    law.unmatched_left[alone[0]],
                    law.unmatched_right[alone[1]],
                ]
            ),
            np.concatenate(
                [
                    problem.scores,
                    problem.unmatched_left[alone[0]],
                    problem.unmatched_right[alone[1]],
                ]
            ),
            errors,
            n_pairs,
            n_left,
            n_right,
        )

    @cached_property
    def _number(self) -> dict[tuple[int, int], int]:
        pairs = zip(self.rows.tolist(), self.cols.tolist(), strict=True)
        return {pair: line for line, pair in enumerate(pairs)}

    def of_matching(self, matching: IntArray) -> list[int]:
        """Return the edges of a matching, those of unmatched nodes too."""
        pairs = [
            (i, j if j >= 0 else self.n_right) for i, j in enumerate(matching.tolist())
        ]
        lonely = np.setdiff1d(np.arange(self.n_right), matching)
        pairs += [(self.n_left, j) for j in lonely.tolist()]
        return [self._number[pair] for pair in pairs if pair in self._number]

    def names(self, left: list[str], right: list[str]) -> tuple[list[str], list[str]]:
        """Return the names of both sides, with one for unmatched nodes if there are any."""
        more_left = [UNMATCHED] * bool((self.rows == self.n_left).any())
        more_right = [UNMATCHED] * bool((self.cols == self.n_right).any())
        return left + more_left, right + more_right


def match_data(view: MatchView) -> dict[str, Any]:
    """Return what the script of a matching page needs.

    Features of all pairs are included up to `MAX_VALUES` numbers, beyond it those of the
    likeliest pairs and of all that some matching of the page uses; ``kept`` lists them.
    """
    lines, graph = view.lines, view.graph
    values, kept = graph.edge_features, None
    matchings = [lines.of_matching(matching) for _, matching in view.named]
    best = [lines.of_matching(matching) for matching in view.best.matchings]
    if values.size > MAX_VALUES:
        weights = lines.chances.copy()
        for used in [*matchings, *best]:
            weights[used] = np.inf
        weights = weights[: lines.n_pairs]
        n_kept = max(int(np.isinf(weights).sum()), MAX_VALUES // graph.n_features)
        kept = np.sort(np.argsort(-weights, kind="stable")[:n_kept])
        values = values[kept]
    left, right = lines.names(view.left, view.right)
    return {
        "left": left,
        "right": right,
        "features": view.features,
        "coef": pack(view.coef, np.float64),
        "rows": pack(lines.rows, np.int32),
        "cols": pack(lines.cols, np.int32),
        "n_pairs": lines.n_pairs,
        "chances": pack(lines.chances, np.float64),
        "errors": None if lines.errors is None else pack(lines.errors),
        "scores": pack(lines.scores, np.float64),
        "values": pack(values),
        "kept": None if kept is None else pack(kept, np.int32),
        "mode": matchings[0],
        "bayes": matchings[1],
        "truth": None if view.truth is None else matchings[2],
        "best": best,
    }
