"""Direct optimisation of ranking measures: the max-margin rival of RankMatch."""

from typing import Any

from permatch.estimators.rank_match import (
    check_subset_size,
    count_kinds,
    draw_training_subsets,
    refuse_option,
)
from permatch.estimators.rank_problem import HingeProblem, linear_scores, weigh_queries
from permatch.estimators.ranker import BaseRanker
from permatch.objectives.rank_margin import (
    ListHinge,
    RankLoss,
    SubsetHinge,
    check_rank_loss,
)
from permatch.objectives.subset_likelihood import Ties
from permatch.objectives.subsets import MissingGrades, check_subset_options
from permatch.queries import QuerySet

_SUBSET_SIZES = ("all", "grades")


class DORM(BaseRanker):
    """Learn to rank so that the judged order wins by a margin measured in NDCG.

    Minimises, with c(j) the weight of position j, y the order by decreasing grade and
    s = <coef, features>,

        alpha/2 |coef * scale|^2
        + mean( max over orders pi of 1 - ndcg(pi) + sum_i (c(pi(i)) - c(y(i))) s_i ),

    where the maximum is an assignment problem.  It learns from the very subsets that
    `RankMatch` draws with the same seed.

    Parameters
    ----------
    subset_size : int, "grades" or "all"
        A number M: subsets of M documents drawn from a query so that all its grades are
        in.  "grades": the same, M being the number of grades in the query.  "all": whole
        lists, with weights proportional to the discount, for which the maximum is a sort.
    alpha : float
        Strength of the penalty, above 0, on the coefficients of the scaled features.
    position_weights : None, "discount" or sequence of M numbers
        Weights of the positions of a subset, best first, never rising; None
        means M - 1, ..., 1, 0.
    n_subsets : float
        Subsets drawn from a query, as a multiple of its documents times M.
    loss : {"ndcg", "dcg", "hamming"}
        What the margin is measured in, for subsets: 1 - NDCG, the same without dividing by
        the best possible, or the share of positions that hold a document of another grade.
    ties : {"average", "first"}
        What documents of equal grade in a subset have as observed weight: the mean of
        those of their positions, or those of the order in which they come.
    missing_grades : {"skip", "fill"}
        Whether a query that lacks a grade others have gives no subsets of a fixed size M,
        or subsets with the grades it has.
    query_weight : {"observations", "queries", "per_document", "per_relevant"}
        What a query weighs against others: its number of observations (1 for "all"), 1,
        1 / its documents, or 1 / its documents of grade 1 and up.
    scaling : None, "minmax" or "standard"
        Whether to scale features within each query first, as `QueryScaler` does.
    scale_features : bool
        Whether the penalty sees every feature in units of its standard deviation within
        queries.
    tol : float
        Largest duality gap accepted as converged, as a fraction of the objective.
    max_iter : int
        Most rounds of the bundle solver.
    warm_start : bool
        Whether to begin at the ``coef_`` of the last fit instead of at zero.
    random_state : int
        Seed of the subsets.
    n_jobs : int, optional
        Threads; None means one, -1 all processors.  No result depends on it.
    verbose : bool
        Whether to show a progress bar.

    Attributes
    ----------
    coef_ : ndarray of shape (d,)
        One coefficient per feature, in the units of the (query-scaled) features.
    scale_ : ndarray of shape (d,)
        What every feature was divided by for the penalty.
    n_features_in_ : int
        Number of features, d.
    feature_names_ : list of str or None
        Their names, if known.
    n_observations_ : int
        Lists or subsets learned from.
    n_iter_ : int
        Rounds of the bundle solver.
    is_converged_ : bool
        Whether the gap got as small as `tol`.
    history_ : list of dict
        ``iteration``, ``loss``, ``lower_bound``, ``gap``, ``evaluations`` and ``seconds``.

    References
    ----------
    Q. V. Le and A. J. Smola, "Direct optimization of ranking measures", arXiv:0704.3359.

    Examples
    --------
    >>> import numpy as np
    >>> from permatch.estimators import DORM
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 2))
    >>> y = np.digitize(X[:, 0] + 0.2 * rng.normal(size=40), [0.0, 1.0])
    >>> model = DORM(alpha=0.1).fit(X, y, group=[8] * 5)
    >>> model.score(X, y, group=[8] * 5) > 0.9
    True
    """

    loss: RankLoss
    ties: Ties

    _is_zero_allowed = False

    def __init__(
        self,
        subset_size: int | str = "grades",
        *,
        alpha: float = 1e-2,
        position_weights: Any = None,
        n_subsets: float = 0.4,
        loss: RankLoss = "ndcg",
        ties: Ties = "average",
        missing_grades: MissingGrades = "skip",
        query_weight: str = "observations",
        scaling: str | None = None,
        scale_features: bool = True,
        tol: float = 1e-3,
        max_iter: int = 1000,
        warm_start: bool = False,
        random_state: int = 0,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.subset_size = subset_size
        self.alpha = alpha
        self.position_weights = position_weights
        self.n_subsets = n_subsets
        self.loss = loss
        self.ties = ties
        self.missing_grades = missing_grades
        self.query_weight = query_weight
        self.scaling = scaling
        self.scale_features = scale_features
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _problem(self, queries: QuerySet, n_jobs: int) -> HingeProblem:
        size = check_subset_size(self.subset_size, _SUBSET_SIZES)
        if size == "all":
            refuse_option("position_weights", self.position_weights, None, size, "subsets")
        check_subset_options(self.n_subsets, self.missing_grades, self.ties)
        check_rank_loss(self.loss)
        linear = linear_scores(queries, is_scaled=self.scale_features, n_jobs=n_jobs)
        if size == "all":
            counts = (count_kinds(queries, queries.grades) > 0).sum(axis=1) > 1
            weights = weigh_queries(queries, counts, self.query_weight)
            loss = ListHinge(queries.starts, queries.grades, weights, n_jobs=n_jobs)
            return HingeProblem(linear, loss, int(counts.sum()))
        subsets = draw_training_subsets(self, queries, size)
        loss = SubsetHinge(
            subsets,
            queries.grades,
            self.position_weights,
            weigh_queries(queries, subsets.counts, self.query_weight),
            loss=self.loss,
            ties=self.ties,
            n_jobs=n_jobs,
        )
        return HingeProblem(linear, loss, int(subsets.counts.sum()))
