"""The likelihood of labelled matchings as an objective of boosted trees.

With scores s of the edges and weights w of the graphs,

    loss       sum_n w_n ( log_partition_n - score of the label of graph n )
    gradient   w_n ( marginal_e - label_e )
    curvature  w_n marginal_e ( 1 - marginal_e )

Rows are edges: those of the first graph in the order of its `edge_features`, then those of
the second, and so on.
"""

import copy
import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.optimize import brentq

from permatch._types import FloatArray, IntArray
from permatch._validation import MAX_SCORE, check_count, check_jobs, refuse_masked
from permatch.errors import InvalidOptionError, PrecisionError, ScoreShapeError
from permatch.estimators.checks import DataSet, check_data_set, check_unmatched, with_weight
from permatch.estimators.fit_plan import FitPlan, plan_fit
from permatch.graphs import BipartiteGraph
from permatch.inference import AbstractEngine, AutoEngine, find_engine, require_marginals
from permatch.inference._options import check_budget
from permatch.labels import require_known
from permatch.objectives import Parameters, ScoreEvaluation, ScoreLikelihood

# A constant beyond these log-odds, or closer to the best one than this, changes nothing.
_LARGEST_CONSTANT, _CONSTANT_TOL = 30.0, 1e-2


@dataclass(frozen=True, eq=False)
class MatchingDerivatives:
    """The loss at some scores, its derivatives, and how far they can be trusted.

    Attributes
    ----------
    value : float
        The loss: minus the log-probability of all labels, by weights of graphs.
    gradient, curvature : ndarray of shape (n_edges,)
        First and second derivative by the score of every edge.
    marginals : ndarray of shape (n_edges,)
        The probability of every edge.
    is_exact : bool
        Whether all probabilities are exact.
    error : float
        Their largest standard error: 0 if exact, NaN if the engine knows none.
    """

    value: float
    gradient: FloatArray
    curvature: FloatArray
    marginals: FloatArray
    is_exact: bool
    error: float


class MatchingObjective:
    """The negative log-likelihood of labelled matchings, as boosting libraries ask for it.

    Called with the scores of all edges it returns gradient and second derivative of every
    score, ``marginals - labels`` and ``marginals * (1 - marginals)``.  Rows of the data set
    are the edges of all graphs; `features` has them in their order.  It goes to LightGBM as
    ``lightgbm.train({"objective": objective}, Dataset(objective.features, ...))`` and to
    XGBoost as ``xgboost.train(..., obj=objective)``, and imports neither.

    Where any node may stay unmatched, that has the score 0, and edges learn their log-odds;
    `constant` is a good ``init_score``.

    Parameters
    ----------
    graphs : sequence of (n, k, d) arrays or BipartiteGraph
        The training graphs; sizes may differ.
    matchings : sequence of integer arrays of shape (n,), Known or EdgeLabels
        The true matching of every graph, or what is known of it.
    sample_weight : array of shape (n_graphs,), optional
        Weight of every graph; 2 is like passing the graph twice.
    unmatched : {"auto", "larger", "any"}
        Which nodes may stay unmatched, as in `MAPMatching`.
    engine : str or engine object
        Computes the marginals, exactly or not; see `MatchingDerivatives.error`.
    budget : float or None
        Seconds that `n_rounds` evaluations with "auto" should take, by estimate.  Connected
        components that take too long are left to belief propagation, as in `MAPMatching`.
        None: all inference is as in `permatch.infer`.
    n_rounds : int
        The number of evaluations that the budget is for.
    n_jobs : int, optional
        Threads; None means one, -1 all processors.  Results do not depend on it.

    Attributes
    ----------
    n_edges : int
        Number of rows.
    is_any : bool
        Whether any node may stay unmatched.
    is_convex : bool
        Whether all labels are complete, so that the loss is convex in the scores.

    Notes
    -----
    An incomplete label counts by the probability of what is known.  Of what it leaves open,
    the gradient is the marginal less the marginal given what is known.  The second
    derivative is that of the first, convex part of the loss, so it is never negative and at
    least the true one; the step it gives is that of expectation maximisation.

    Graphs are prepared once, when the objective is made.  With "auto" and a budget, belief
    propagation starts every evaluation from the messages of the last: results depend on
    what was asked before, but by less than 1e-6.  A copy, or a pickled one, starts afresh.

    Second derivatives may be tiny where pairs are decided.  XGBoost's ``min_child_weight``
    is 1 by default and then stops early: set it to 0.001, as LightGBM has it.

    Examples
    --------
    >>> import numpy as np
    >>> import permatch as pm
    >>> from permatch.boosting import MatchingObjective
    >>> graphs = np.zeros((2, 3, 3, 1))
    >>> objective = MatchingObjective(graphs, [[0, 1, 2], [2, 0, 1]])
    >>> gradient, curvature = objective(np.zeros(objective.n_edges))
    >>> gradient[:3].round(2), curvature[:3].round(2)
    (array([-0.67,  0.33,  0.33]), array([0.22, 0.22, 0.22]))
    """

    def __init__(
        self,
        graphs: Any,
        matchings: Any,
        sample_weight: Any = None,
        *,
        unmatched: str = "auto",
        engine: str | AbstractEngine = "auto",
        budget: float | None = 120.0,
        n_rounds: int = 100,
        n_jobs: int | None = None,
    ) -> None:
        data = check_data_set(graphs, matchings, sample_weight)
        require_known(with_weight(data)[1])
        is_any = check_unmatched(data, unmatched)
        seconds = check_budget(budget, f"budget of {type(self).__name__}")
        check_count(n_rounds, "n_rounds", 1)
        found, plan = plan_engine(engine, data, seconds, n_rounds, is_any=is_any)
        weights = np.ones(len(data[0])) if sample_weight is None else sample_weight
        self._prepare(data, np.asarray(weights, dtype=float), is_any, found, n_jobs)
        self.plan = plan

    @classmethod
    def of(
        cls, data: DataSet, *, is_any: bool, engine: AbstractEngine, n_jobs: int | None
    ) -> Self:
        """Return the objective of checked data; weights are their shares times graphs."""
        objective = cls.__new__(cls)
        weights = data[2] * len(data[2])
        objective._prepare(data, weights, is_any, engine, n_jobs)
        objective.plan = None
        return objective

    def _prepare(
        self,
        data: DataSet,
        weights: FloatArray,
        is_any: bool,
        engine: AbstractEngine,
        n_jobs: int | None,
    ) -> None:
        graphs, known, _ = data
        self.is_any = is_any
        self.graphs = graphs
        self.weights = weights
        self.labels = np.concatenate(
            [np.where(one.is_open, -1, one.is_match) for one in known]
        )
        jobs = check_jobs(n_jobs)
        self.likelihood = ScoreLikelihood(
            graphs, known, is_any=is_any, engine=engine, n_jobs=jobs
        )
        counts = np.diff(self.likelihood.edge_starts)
        self._edge_weights = np.repeat(weights, counts)

    plan: FitPlan | None
    is_any: bool
    graphs: list[BipartiteGraph]
    weights: FloatArray  # of graphs
    #: What is known of every edge: 1, in the matching; 0, not in it; -1, unknown.
    labels: IntArray

    @property
    def n_edges(self) -> int:
        """Edges of all graphs: the rows."""
        return self.likelihood.n_edges

    @property
    def is_convex(self) -> bool:
        """Whether all labels are complete, so that the loss is convex in the scores."""
        return self.likelihood.is_convex

    @property
    def engine(self) -> AbstractEngine:
        """The engine that computes the marginals."""
        return self.likelihood.engine

    @property
    def n_jobs(self) -> int:
        """Threads."""
        return self.likelihood.n_jobs

    @property
    def features(self) -> FloatArray:
        """The features of all edges, and of their nodes, in the order of the rows."""
        return edge_rows(self.graphs)

    def __call__(self, scores: Any, data: Any = None) -> tuple[FloatArray, FloatArray]:
        """Return gradient and second derivative of the loss by every score.

        Parameters
        ----------
        scores : array of shape (n_edges,)
            The score of every edge.
        data : lightgbm.Dataset or xgboost.DMatrix, optional
            What boosting libraries pass; not looked at.  If it is an array, the first
            argument is taken for the labels and this for the scores: that is the order of
            scikit-learn's interfaces.

        Returns
        -------
        pair of ndarray of shape (n_edges,)
            In float64.
        """
        is_data = data is None or hasattr(data, "get_label")
        found = self.evaluate(scores if is_data else data)
        return found.gradient, found.curvature

    def derivatives(self, scores: Any) -> tuple[float, FloatArray, FloatArray]:
        """Return the mean loss of a graph, and the derivatives of the sum by every score.

        Parameters
        ----------
        scores : array of shape (n_edges,)
            The score of every edge.

        Returns
        -------
        float and pair of ndarray of shape (n_edges,)
            What `evaluate` says of them, the loss divided by the weight of all graphs.
        """
        found = self.evaluate(scores)
        mean = found.value / float(self.weights.sum())
        return mean, found.gradient, found.curvature

    def value(self, scores: Any) -> float:
        """Return the loss.

        Parameters
        ----------
        scores : array of shape (n_edges,)
            The score of every edge.

        Returns
        -------
        float
            Minus the log-probability of all labels, by weights of graphs.
        """
        found = self._infer(check_edge_scores(scores, self.n_edges))
        return -float(self.weights @ found.log_probs)

    def evaluate(self, scores: Any) -> MatchingDerivatives:
        """Return the loss, its derivatives, and how far they can be trusted.

        Parameters
        ----------
        scores : array of shape (n_edges,)
            The score of every edge.

        Returns
        -------
        MatchingDerivatives
            Exact if the engine is.
        """
        found = self._infer(check_edge_scores(scores, self.n_edges))
        chances = found.marginals
        return MatchingDerivatives(
            -float(self.weights @ found.log_probs),
            self._edge_weights * found.surplus,
            self._edge_weights * np.maximum(chances * (1.0 - chances), 0.0),
            chances,
            found.is_exact,
            found.error,
        )

    def constant(self) -> float:
        """Return the best score to start from, the same for all edges.

        Returns
        -------
        float
            The log-odds at which as many links are expected as are known; 0 where all
            nodes of the smaller side must be matched, for there it changes nothing.
        """
        if not self.is_any or not self.n_edges:
            return 0.0

        def surplus(constant: float) -> float:
            found = self._infer(np.full(self.n_edges, constant))
            return float(self._edge_weights @ found.surplus)

        low, high = -_LARGEST_CONSTANT, _LARGEST_CONSTANT
        if surplus(low) >= 0.0:
            return low
        if surplus(high) <= 0.0:
            return high
        return float(brentq(surplus, low, high, xtol=_CONSTANT_TOL))  # pyright: ignore

    def compare(self, scores: Any) -> dict[str, Any] | None:
        """Compare probabilities by belief propagation with closer ones.

        Parameters
        ----------
        scores : array of shape (n_edges,)
            The score of every edge.

        Returns
        -------
        dict or None
            Which components were approximate, and how far they were off; as
            ``engine_report_`` of `MAPMatching`.
        """
        if self.plan is None:
            return None
        checked = check_edge_scores(scores, self.n_edges)
        return self.plan.report() | self.plan.compare(self.likelihood, checked)

    def _infer(self, scores: FloatArray) -> ScoreEvaluation:
        # The evaluation reports what the engine warns of.
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
            return self.likelihood.evaluate(scores)

    def __sklearn_clone__(self) -> Self:
        """Return a copy that shares the graphs and has seen no scores."""
        other = copy.copy(self)
        other.likelihood = copy.copy(self.likelihood)
        other.likelihood.engine = copy.deepcopy(self.engine)
        return other

    def __repr__(self) -> str:
        graphs = f"{len(self.graphs)} graph{'s' * (len(self.graphs) != 1)}"
        edges = f"{self.n_edges} edge{'s' * (self.n_edges != 1)}"
        return f"{type(self).__name__}({graphs}, {edges}, engine={self.engine.name!r})"


def plan_engine(
    engine: str | AbstractEngine,
    data: DataSet,
    budget: float | None,
    n_rounds: int,
    *,
    is_any: bool,
) -> tuple[AbstractEngine, FitPlan | None]:
    """Return the engine of all rounds, and with "auto" and a budget its plan."""
    found = find_engine(engine)
    require_marginals(found)
    used = with_weight(data)
    if isinstance(found, AutoEngine) and budget is not None:
        parameters = Parameters(used[0][0].n_features, is_any=is_any)
        plan = plan_fit(found, used, parameters, budget, n_rounds, is_warm=True)
        return plan.engine, plan
    if not is_any:
        for size in {graph.size for graph in used[0] if graph.is_square}:
            found.check_size(size)
    return found.for_learning(), None


def edge_rows(graphs: list[BipartiteGraph]) -> FloatArray:
    """Return the features of all edges, then those of their left and right nodes."""
    pieces = []
    for graph in graphs:
        left, right = graph.structure.left, graph.structure.right
        ends = graph.left_features[left], graph.right_features[right]
        pieces.append(np.concatenate([graph.edge_features, *ends], axis=1))
    return np.concatenate(pieces)


def check_edge_scores(scores: Any, n_edges: int) -> FloatArray:
    """Return a finite score per edge."""
    refuse_masked(scores, "scores", InvalidOptionError)
    try:
        checked = np.ascontiguousarray(scores, dtype=np.float64)
    except (TypeError, ValueError) as err:
        raise ScoreShapeError(
            f"scores must have one number per edge, shape ({n_edges},); {err}."
        ) from err
    if checked.ndim == 2 and checked.shape[1] == 1:  # XGBoost's form
        checked = checked[:, 0]
    if checked.shape != (n_edges,):
        raise ScoreShapeError(
            f"scores must have one number per edge, shape ({n_edges},); got shape "
            f"{np.shape(scores)}. Rows are the edges of all graphs, one graph after the "
            "other: train on all of them, without subsets, and give validation graphs an "
            "objective of their own."
        )
    if not np.abs(checked).max(initial=0.0) <= MAX_SCORE:  # false for NaN too
        is_bad = ~(np.abs(checked) <= MAX_SCORE)
        worst = int(np.argmax(is_bad))
        raise PrecisionError(
            f"scores must be at most {MAX_SCORE:g} in size; edge {worst} has "
            f"{checked[worst]:g}. Lower the learning rate, or raise the penalty on leaves."
        )
    return checked
