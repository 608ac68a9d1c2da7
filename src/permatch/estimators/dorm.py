"""Direct optimisation of ranking measures: the max-margin counterpart of RankMatch."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

from permatch._shards import Shards
from permatch.estimators.linear_ranker import LinearRanker
from permatch.estimators.problem import LinearProblem, ranking_problem
from permatch.objectives.rank_losses import ranking_margin
from permatch.objectives.rank_margin import RankLoss
from permatch.objectives.subset_likelihood import Ties
from permatch.objectives.subsets import MissingGrades


@dataclass(eq=False, repr=False)
class DORM(LinearRanker):
    """Learn to rank so that the judged order wins by a margin measured in NDCG.

    Minimises, with c(j) the weight of position j, y the order by decreasing grade and
    s = <coef, features>,

        alpha/2 |coef * scale|^2
        + mean( max over orders pi of 1 - ndcg(pi) + sum_i (c(pi(i)) - c(y(i))) s_i ),

    where the maximum is an assignment problem.  With the same seed it learns from the same
    subsets as `RankMatch`.

    Parameters
    ----------
    subset_size : int, "grades" or "all"
        A number M: subsets of M documents drawn so that all grades of the query occur.
        "grades": the same, with M the number of grades of the query.  "all": whole lists,
        with weights proportional to the discount, for which the maximum is a sort.
    alpha : float
        Strength of the penalty, above 0, on the coefficients of the scaled features.
    position_weights, n_subsets
        As in `RankMatch`.
    loss : {"ndcg", "dcg", "hamming"}
        Margin for subsets: 1 - NDCG, the same without dividing by the best possible, or the
        share of positions with a document of another grade.
    ties, missing_grades, query_weight, qid, scaling, scale_features
        As in `RankMatch`.
    tol : float
        Duality gap to reach, as a fraction of the objective.
    max_iter : int
        Maximum rounds of the bundle solver.
    warm_start, random_state, n_jobs, verbose
        As in `RankMatch`.

    Attributes
    ----------
    coef_, alpha_, scale_, n_features_in_, feature_names_, columns_, left_out_
        As in `RankMatch`.
    n_observations_
        As in `RankMatch`.
    n_iter_ : int
        Rounds of the bundle solver.
    is_converged_ : bool
        Whether the gap reached `tol`.
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

    subset_size: int | str = "grades"
    _: KW_ONLY
    alpha: float = 1e-2
    position_weights: Any = None
    n_subsets: float = 0.4
    loss: RankLoss = "ndcg"
    ties: Ties = "average"
    missing_grades: MissingGrades = "skip"
    query_weight: str = "observations"
    qid: str | None = None
    scaling: str | None = None
    scale_features: bool = True
    tol: float = 1e-3
    max_iter: int = 1000
    warm_start: bool = False
    random_state: int = 0
    n_jobs: int | None = None
    verbose: bool = False

    _is_zero_allowed = False

    def _problem(self, data: Shards, n_jobs: int) -> LinearProblem:
        observed = ranking_margin(
            data,
            self.subset_size,
            position_weights=self.position_weights,
            n_subsets=self.n_subsets,
            loss=self.loss,
            ties=self.ties,
            missing_grades=self.missing_grades,
            query_weight=self.query_weight,
            random_state=self.random_state,
            n_jobs=n_jobs,
        )
        is_scaled = self.scale_features
        return ranking_problem(data, observed, is_scaled=is_scaled, n_jobs=n_jobs)
