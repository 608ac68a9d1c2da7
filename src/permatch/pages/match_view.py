"""What a page shows of matchings: pairs of nodes in components, and what is known of each.

`MatchView` is the one form in which an explorer takes its input, wherever it comes from.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from permatch._types import BoolArray, FloatArray, IntArray
from permatch.problems import Problem, Structure

#: Decisions about a pair, by the numbers in `MatchView.decisions`.
DECISIONS = ("no link", "link", "review", "mode only", "Bayes only")
NO_LINK, LINK, REVIEW, MODE_ONLY, BAYES_ONLY = range(5)


@dataclass(frozen=True, eq=False)
class Evidence:
    """What speaks for a pair: its score is the sum of what each feature adds.

    `values` are (n_edges, d); a feature adds its value, times its weight if there are
    weights.  Where `explain` is given, it takes rows of values to what each adds: it is
    asked about the pairs that are shown only.
    """

    names: list[str]
    values: FloatArray
    weights: FloatArray | None = None
    explain: Callable[[FloatArray], FloatArray] | None = None

    def take(self, edges: IntArray) -> "Evidence":
        """Return what speaks for some of the pairs."""
        return replace(self, values=self.values[edges])

    @cached_property
    def added(self) -> FloatArray | None:
        """What each feature adds, if it is not its value times a weight."""
        return None if self.explain is None else self.explain(self.values)


@dataclass(frozen=True, eq=False)
class MatchView:
    """Pairs of nodes, in components that are independent of each other.

    Attributes
    ----------
    name, title, lead, how, table : str
        What it is a view of (may be empty), the heading, what is shown, how probabilities
        were found, and where all pairs can be found if some have no place on the page.
    problem : Problem
        With one graph per component.
    left, right : list of str
        The names of its nodes.
    graphs : list of str
        The name of the graph of every component; empty if there is only one graph.
    chances : ndarray of shape (n_edges,)
        Probability of every pair.
    alone_left, alone_right : ndarray of shape (n_left,), (n_right,)
        Probability of every node of having no partner.
    decisions : ndarray of shape (n_edges,)
        A number among `DECISIONS` for every pair.
    is_exact : ndarray of shape (n_components,)
        Which components have exact probabilities.
    evidence : Evidence
        What speaks for every pair.
    log_partitions : ndarray of shape (n_components,), optional
        NaN where it is not known.
    low, high : ndarray of shape (n_edges,), optional
        Ends of an interval for every probability, `interval` in words.
    is_for_weights : bool
        Whether intervals are due to the weights of a model; otherwise to inference that is
        not exact.
    pair_chances : ndarray of shape (n_edges,), optional
        The probability of every pair seen by itself.
    labels : ndarray of shape (n_edges,), optional
        1 for pairs labelled as matches, 0 for others, -1 where it is not known.
    n_best : int
        How many of the best matchings to list for a component.
    only : ndarray, optional
        The components to show; None: all.
    node : str
        What a node is called.
    matchings : pair of str
        What a matching is called, and several.
    """

    name: str
    title: str
    lead: str
    how: str
    table: str
    problem: Problem
    left: list[str]
    right: list[str]
    graphs: list[str]
    chances: FloatArray
    alone_left: FloatArray
    alone_right: FloatArray
    decisions: IntArray
    is_exact: BoolArray
    evidence: Evidence
    log_partitions: FloatArray | None = None
    low: FloatArray | None = None
    high: FloatArray | None = None
    interval: str = ""
    is_for_weights: bool = False
    pair_chances: FloatArray | None = None
    labels: IntArray | None = None
    n_best: int = 10
    only: IntArray | None = None
    node: str = "node"
    matchings: tuple[str, str] = ("matching", "matchings")

    @property
    def with_interval(self) -> BoolArray:
        """Which components have intervals to show, (n_components,)."""
        return ~self.is_exact | self.is_for_weights

    @property
    def structure(self) -> Structure:
        """The pairs, with one graph per component."""
        return self.problem.structure

    @property
    def n_components(self) -> int:
        """Number of components."""
        return self.structure.n_graphs

    @cached_property
    def component_of_edge(self) -> IntArray:
        """The component of every pair."""
        return self.structure.graph_of_left[self.structure.left]

    @cached_property
    def is_link(self) -> BoolArray:
        """Whether a pair is linked, (n_edges,)."""
        return (self.decisions == LINK) | (self.decisions == BAYES_ONLY)

    @cached_property
    def risks(self) -> FloatArray:
        """The probability that the decision about a pair is wrong, (n_edges,).

        For a pair left to a person it is that of the better of the two decisions.
        """
        against = np.where(self.is_link, 1.0 - self.chances, self.chances)
        least = np.minimum(self.chances, 1.0 - self.chances)
        return np.clip(np.where(self.decisions == REVIEW, least, against), 0.0, 1.0)

    @cached_property
    def expected_errors(self) -> FloatArray:
        """How many pairs of a component are expected to be decided wrongly."""
        owner, n_components = self.component_of_edge, self.n_components
        return np.bincount(owner, self.risks, n_components).astype(float)

    @cached_property
    def label_errors(self) -> IntArray | None:
        """How many labelled pairs of a component are decided otherwise."""
        if self.labels is None:
            return None
        is_wrong = (self.labels >= 0) & (self.is_link != (self.labels == 1))
        return np.bincount(self.component_of_edge[is_wrong], minlength=self.n_components)

    def having(self, name: str) -> "MatchView":
        """Return the view of the components of the nodes of this name, on either side."""
        structure = self.structure
        found = [
            owners[[k for k, own in enumerate(names) if own == name]]
            for owners, names in (
                (structure.graph_of_left, self.left),
                (structure.graph_of_right, self.right),
            )
        ]
        return replace(self, only=np.unique(np.concatenate(found)))
