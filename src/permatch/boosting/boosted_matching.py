"""Learn to match by boosted trees, grown by the likelihood of whole matchings."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self

import numpy as np

from permatch._blas import one_blas_thread
from permatch._tables import check_feature_names
from permatch._types import FloatArray
from permatch._validation import check_jobs
from permatch.boosting.base import BoostedModel
from permatch.boosting.matching_objective import MatchingObjective, edge_rows, plan_engine
from permatch.boosting.trees import Grown, Judge, Trees
from permatch.distributed import is_in_parts
from permatch.errors import InvalidOptionError
from permatch.estimators import BaseMatcher
from permatch.estimators.checks import (
    DataSet,
    check_data_set,
    check_unmatched,
    with_weight,
)
from permatch.estimators.fit_plan import FitPlan, warn_if_approximate
from permatch.estimators.graph_splits import check_validation, require_partners
from permatch.estimators.scored import Scored
from permatch.graphs import BipartiteGraph
from permatch.inference import AbstractEngine, find_engine
from permatch.inference._options import check_budget
from permatch.labels import require_known
from permatch.metrics import hamming_loss


@dataclass(eq=False, repr=False)
class BoostedMatching(BaseMatcher, BoostedModel):
    """Learn to match by boosted trees, where scores are not linear in the features.

    Grows trees that give every edge its score, by the likelihood of whole labelled
    matchings, which `MAPMatching` maximises too: a pair is judged next to the others that
    compete for its nodes.  Needs the extra ``boosting`` (LightGBM).

    Parameters
    ----------
    num_leaves : int
        Most leaves of a tree, at least 2.
    n_rounds : int
        Most rounds, each of which adds a tree; fewer if a validation set ends the fit.
    learning_rate : float
        Share of every tree that is added, above 0.
    min_data_in_leaf : int
        Fewest training edges of a leaf.
    lambda_l2 : float
        L2 penalty on the values of leaves.
    feature_fraction : float
        Share of the features that a tree may use, drawn at random.
    monotone_constraints : sequence or dict, optional
        1 if scores must not fall as the feature rises, -1 if they must not rise, 0 for
        neither: one per feature, or a dict by name.
    tree_options : dict, optional
        Further options of LightGBM, such as ``{"max_bin": 63}``.
    patience : int
        With a validation set: rounds without a better likelihood before the fit ends.
    random_state : int
        Seed of all that is random.
    n_jobs : int, optional
        Threads; None means one, -1 all processors.  Results do not depend on it.
    verbose : bool
        Show a progress bar.
    engine : str or engine object
        Computes marginals; as in `MAPMatching`.
    budget : float or None
        Seconds that inference of a fit with "auto" should take, by estimate; what would
        take longer is approximated, as in `MAPMatching`.
    unmatched : {"auto", "larger", "any"}
        Which nodes may stay unmatched: "larger", those left over on the larger side of an
        unequal graph; "any", all, at a score that is learned.  "auto" is "any" if labels
        leave other nodes unmatched than those left over.

    Attributes
    ----------
    trees_ : Trees
        The trees; ``trees_.booster`` is a ``lightgbm.Booster``.
    n_rounds_ : int
        The rounds that were kept.
    history_ : list of dict
        For every round ``round``, the mean training ``loss`` of a graph before it and, with
        a validation set, its ``score`` after it, the mean log-likelihood.
    unmatched_ : {"larger", "any"}
        Which nodes may stay unmatched.
    unmatched_intercept_ : float
        The score of staying unmatched; 0 with "larger".  It is the one at which as many
        links as there are would be expected if all pairs were alike; from there trees are
        grown.
    n_features_in_ : int
        Number of features of edges, d.
    n_node_features_ : pair of int
        Number of features of left nodes and of right nodes.
    feature_names_ : list of str or None
        Names of the features of edges, if known.
    is_converged_ : bool
        False if Ctrl-C ended the fit.
    is_exact_ : bool
        Whether all inference of the fit was exact.
    marginal_error_ : float
        Largest standard error of a probability at the end of the fit: 0 with exact
        inference, NaN if the engine knows none.
    engine_report_ : dict or None
        With "auto" and a `budget`: as in `MAPMatching`.

    Notes
    -----
    Only the odds of an edge against both of its nodes staying unmatched matter, so the
    features of nodes are learned from as further features of their edges.

    Trees of a few leaves and a validation set, or `BoostedMatchingCV`, which chooses leaves
    and rounds by itself, keep it from learning the training labels by heart.  On small data
    whose scores are about linear `MAPMatching` is better, and says how sure it is.

    Incomplete labels count by the probability of what is known, as in `MAPMatching`.

    A round costs one inference per graph and one tree.  Ctrl-C ends the fit, warns and
    keeps the best trees so far.

    Examples
    --------
    Only the product of two features tells which pairs match.

    >>> import numpy as np
    >>> import permatch as pm
    >>> rng = np.random.default_rng(0)
    >>> graphs = rng.normal(size=(150, 5, 5, 2))
    >>> matchings = [
    ...     pm.best_matching(x[..., 0] * x[..., 1] + 0.1 * rng.normal(size=(5, 5)))
    ...     for x in graphs
    ... ]
    >>> train, test = slice(100), slice(100, 150)
    >>> model = pm.BoostedMatching(num_leaves=8).fit(graphs[train], matchings[train])
    >>> linear = pm.MAPMatching().fit(graphs[train], matchings[train])
    >>> model.score(graphs[test], matchings[test]) > 0.7
    True
    >>> linear.score(graphs[test], matchings[test]) < 0.4
    True
    """

    _: KW_ONLY
    engine: str | AbstractEngine = "auto"
    budget: float | None = 120.0
    unmatched: str = "auto"
    n_node_features_: tuple[int, int] = field(init=False)
    is_exact_: bool = field(init=False)
    marginal_error_: float = field(init=False)
    engine_report_: dict[str, Any] | None = field(init=False)

    @one_blas_thread()
    def fit(
        self,
        graphs: Any,
        matchings: Any = None,
        sample_weight: Any = None,
        *,
        validation: tuple[Any, Any] | None = None,
        feature_names: Sequence[str] | None = None,
    ) -> Self:
        """Grow the trees.

        Parameters
        ----------
        graphs : sequence of (n, k, d) arrays or BipartiteGraph
            Edge features; sizes may differ between graphs.
        matchings : sequence of integer arrays of shape (n,), Known or EdgeLabels
            The true matching of every graph, or what is known of it; as in `MAPMatching`.
        sample_weight : array of shape (n_graphs,), optional
            Weight of every graph, relative to the others.
        validation : pair (graphs, matchings), optional
            Graphs that end the fit when their likelihood no longer rises, and are never
            trained on.
        feature_names : sequence of str, optional
            A name per feature, saved with the model.

        Returns
        -------
        BoostedMatching
            Itself.
        """
        training = self._prepare(graphs, matchings, sample_weight, feature_names)
        held_out = None
        if validation is not None:
            data = training.columns.check(validation)
            held_out = edge_rows(data[0]), training.judge(data)
        options = self._tree_options(len(training.columns), training.columns.all_names)
        grown = self._grow(training.rows, training, options, held_out)
        self._hold(training)
        self._conclude(training)
        self._warn(grown)
        self._warn_of_engine()
        return self

    def _prepare(
        self, graphs: Any, matchings: Any, sample_weight: Any, feature_names: Any
    ) -> "Training":
        """Return checked training data as a loss."""
        if is_in_parts(graphs):
            raise InvalidOptionError(
                f"{type(self).__name__} learns from graphs in memory; got data in parts. "
                "Load them, part of them will do, or use MAPMatching, which learns from "
                "parts."
            )
        data = check_data_set(graphs, matchings, sample_weight)
        used = with_weight(data)
        require_known(used[1])
        is_any = check_unmatched(data, self.unmatched)
        names = check_feature_names(feature_names, data[0][0].n_features)
        columns = Columns.of(data[0][0], names)
        self._tree_options(len(columns), columns.all_names)  # before anything takes time
        budget = check_budget(self.budget, f"budget of {type(self).__name__}")
        n_rounds = self._n_evaluations()
        engine, plan = plan_engine(self.engine, data, budget, n_rounds, is_any=is_any)
        if plan is not None:
            plan.announce(True if self.verbose else None)
        options = {"is_any": is_any, "engine": engine, "n_jobs": check_jobs(self.n_jobs)}
        return Training.of(used, columns, options, plan)

    def _n_evaluations(self) -> int:
        """Return how often a fit evaluates its objective, for the budget."""
        return self.n_rounds

    def _adopt(self, trees: Trees, grown: Grown, n_features: int) -> None:
        super()._adopt(trees, grown, n_features)
        # Of edges alone, once it is known how many features nodes have.
        vars(self).pop("n_node_features_", None)

    def _hold(self, training: "Training") -> None:
        """Set what is known beside the trees."""
        columns = training.columns
        self.n_features_in_, self.n_node_features_ = columns.n_edge, columns.n_nodes
        self.feature_names_ = columns.names
        objective = training.objective
        self.unmatched_ = "any" if objective.is_any else "larger"
        # A pair is linked, or both its nodes stay unmatched.
        self.unmatched_intercept_ = -0.5 * training.constant if objective.is_any else 0.0

    def _conclude(self, training: "Training") -> None:
        """Find out how far off the probabilities of the fit were."""
        scores = self._tree_scores(training.rows)
        found = training.objective.evaluate(scores + training.constant)
        self.is_exact_, self.marginal_error_ = found.is_exact, found.error
        plan = training.plan
        self.engine_report_ = None
        if plan is not None:
            self.engine_report_ = plan.report()
            if self.is_converged_:
                likelihood = training.objective.likelihood
                own = plan.compare(likelihood, scores + training.constant)
                self.engine_report_ |= own

    def _warn_of_engine(self) -> None:
        """Warn the caller of `fit` that inference was approximate."""
        warn_if_approximate(self.engine_report_, find_engine(self.engine))

    # ---- predicting

    @property
    def _n_node_features(self) -> tuple[int, int]:
        return self.n_node_features_

    def _scored(self, graphs: list[BipartiteGraph]) -> Scored:
        alone = self.unmatched_intercept_ if self.unmatched_ == "any" else None
        return scored_edges(graphs, self._tree_scores(edge_rows(graphs)), alone)

    def _odds(self, features: FloatArray) -> FloatArray:
        return self._tree_scores(features) - 2.0 * self.unmatched_intercept_

    def contributions(self, features: FloatArray) -> FloatArray:
        """Return what each feature adds to the scores of some edges.

        Parameters
        ----------
        features : ndarray of shape (n_edges, d)
            Features of edges, in the order of the fit; followed by those of their left and
            right nodes, if these have any.

        Returns
        -------
        ndarray of shape (n_edges, d + 1)
            Shapley values of the features, last the mean score of training edges; a row
            sums to the score of its edge.
        """
        return self._tree_contributions(features)

    def _check_loaded(self) -> None:
        n_trained, _ = self.trees_.sizes
        if n_trained != self.n_features_in_ + sum(self.n_node_features_):
            raise ValueError(
                f"the trees must have the {self.n_features_in_} features of edges and "
                f"{self.n_node_features_} of nodes, got {n_trained}"
            )


@dataclass(frozen=True)
class Columns:
    """What trees see of an edge: its features, then those of its left and right node."""

    names: list[str] | None  # of the features of edges
    n_edge: int
    n_nodes: tuple[int, int]

    @classmethod
    def of(cls, graph: BipartiteGraph, names: list[str] | None) -> "Columns":
        """Return the columns for graphs like this one."""
        nodes = graph.left_features.shape[1], graph.right_features.shape[1]
        return cls(names, graph.n_features, nodes)

    def __len__(self) -> int:
        return self.n_edge + sum(self.n_nodes)

    def check(self, validation: Any) -> DataSet:
        """Return checked validation graphs with these features."""
        return check_validation(validation, self.n_edge, self.n_nodes)

    @property
    def all_names(self) -> list[str] | None:
        """Their names, those of nodes made up; None if edges have none."""
        if self.names is None:
            return None
        left, right = self.n_nodes
        return [
            *self.names,
            *(f"left node {k}" for k in range(left)),
            *(f"right node {k}" for k in range(right)),
        ]


@dataclass(frozen=True, eq=False)
class Training:
    """Checked training data: the loss of what trees add to a constant."""

    data: DataSet
    columns: Columns
    options: dict[str, Any]  # of objectives
    plan: FitPlan | None
    objective: MatchingObjective
    constant: float

    @classmethod
    def of(
        cls,
        data: DataSet,
        columns: Columns,
        options: dict[str, Any],
        plan: FitPlan | None = None,
    ) -> "Training":
        """Return the loss of graphs with weights above 0."""
        objective = MatchingObjective.of(data, **options)
        return cls(data, columns, options, plan, objective, objective.constant())

    def of_fold(self, data: DataSet) -> "Training":
        """Return the loss of some of the graphs, with a constant of their own."""
        return Training.of(data, self.columns, self.options)

    @property
    def rows(self) -> FloatArray:
        """What trees see of all edges."""
        return edge_rows(self.data[0])

    def derivatives(self, scores: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return the mean loss of a graph, and derivatives of the sum by every score."""
        return self.objective.derivatives(scores + self.constant)

    def judge(self, held_out: DataSet, scoring: str = "log_likelihood") -> Judge:
        """Return a judge of the scores of held-out graphs: higher is better."""
        graphs, labels, shares = used = with_weight(held_out)
        if scoring == "hamming":
            require_partners(any(one.has_partners for one in labels), len(labels))
            true = [known.matching for known in labels]

            def judge(scores: FloatArray) -> float:
                found = scored_edges(graphs, scores + self.constant, self.alone).modes()
                return -hamming_loss(true, found, sample_weight=shares)

            return judge
        objective = MatchingObjective.of(used, **self.options)
        total = float(objective.weights.sum())
        return lambda scores: -objective.value(scores + self.constant) / total

    @property
    def alone(self) -> float | None:
        """The score of staying unmatched; None where not all nodes may."""
        return 0.0 if self.options["is_any"] else None


def scored_edges(
    graphs: list[BipartiteGraph], scores: FloatArray, alone: float | None
) -> Scored:
    """Return graphs with the scores of all edges, and of staying unmatched if any may."""
    ends = np.cumsum([graph.n_edges for graph in graphs])[:-1]
    of_edges = np.split(scores, ends)
    if alone is None:
        return Scored(graphs, of_edges, {})
    unmatched = {
        "unmatched_left": [np.full(graph.n_left, alone) for graph in graphs],
        "unmatched_right": [np.full(graph.n_right, alone) for graph in graphs],
    }
    return Scored(graphs, of_edges, unmatched)
