"""Learning to rank by maximum a posteriori estimation over permutations."""

from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any

from permatch._shards import Shards
from permatch._types import FloatArray, IntArray
from permatch.estimators.grade_fit import Score
from permatch.estimators.linear_ranker import LinearRanker, linear_scores
from permatch.estimators.problem import LinearProblem, ranking_problem
from permatch.estimators.ranking_law import RankingLaw
from permatch.estimators.uncertainty.of_rankings import RankingInference
from permatch.objectives.rank_losses import ranking_likelihood
from permatch.objectives.subset_likelihood import Ties
from permatch.objectives.subsets import MissingGrades


@dataclass(eq=False, repr=False)
class RankMatch(RankingInference, RankingLaw, LinearRanker):
    """Learn to rank from judged lists, by maximum a posteriori.

    Ranking matches documents with positions: position j has a weight c(j), and a
    permutation of the documents has probability

        p(permutation) ∝ exp( sum_i c(position of i) <coef, features of i> ).

    Minimises ``alpha/2 |coef * scale|^2`` minus the mean log-probability of the
    observations, which is convex.  `subset_size` defines an observation.

    Parameters
    ----------
    subset_size : "all", int, "grades" or "pairs"
        "all": the whole list of a query, position weights constant within a grade.  A
        number M: subsets of M documents drawn so that all grades of the query occur, as in
        the paper.  "grades": the same, with M the number of grades of the query.  "pairs":
        every pair of documents of different grades.
    alpha : float
        Strength of the penalty, at least 0, on the coefficients of the scaled features.
        Good values for "all" are a few hundred times those for subsets.
    position_weights : None, "dcg" or sequence of numbers
        Weights of the positions, best first, non-increasing; "dcg" means 1 / log2(1 +
        position).  For "all": instead of `levels`, every grade gets the mean weight of the
        positions that its documents fill; positions beyond the end of a sequence have its
        last weight.  For subsets: M numbers; None means M - 1, ..., 1, 0.
    n_subsets : float
        Subsets per query, as a multiple of documents x M.
    ties : {"average", "first"}
        Documents of equal grade in a subset share the mean weight of their positions, or
        keep the order drawn.
    missing_grades : {"skip", "fill"}
        With a fixed size M, skip queries that lack a grade other queries have, or draw
        subsets with the grades they have.
    levels : "grades", "gains" or sequence of numbers
        For "all", without `position_weights`: position weight by grade: the grade itself,
        ``2**grade - 1``, or one number per grade from 0, non-decreasing.
    query_weight : {"observations", "queries", "per_document", "per_relevant"}
        Weight of a query: its number of observations (1 for "all"), 1, 1 / its documents,
        or 1 / its documents of grade 1 or higher.
    form : {"auto", "exact", "profile"}
        For "all": the likelihood itself, by dynamic programming over counts, or its profile
        form, a far cheaper lower bound with nearly the same coefficients.  "auto" uses the
        exact form for every list that is not too long.
    qid : str, optional
        The column of DataFrames that holds the queries: `fit`, `score` and all else then
        need no `qid`, in scikit-learn's searches too.
    scaling : None, "minmax" or "standard"
        Scale features within each query first, as `QueryScaler` does; `predict` then needs
        the queries, and the model cannot be exported, which `fit` warns of.
    scale_features : bool
        Penalise every feature in units of its standard deviation within queries.
    tol : float
        Largest entry of the gradient (by scaled coefficients) to reach.
    max_iter : int
        Maximum steps of the solver.
    warm_start : bool
        Start from the ``coef_`` of the last fit instead of zero.
    random_state : int
        Seed of the subsets.
    n_jobs : int, optional
        Threads; None means one, -1 all processors.  Results do not depend on it.
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    coef_ : ndarray of shape (d,)
        One coefficient per feature, in the units of the (query-scaled) features.
    scale_ : ndarray of shape (d,)
        Divisor of every feature in the penalty.
    n_features_in_ : int
        Number of features, d.
    feature_names_ : list of str or None
        Their names, if known.
    columns_ : list of str or None
        The columns of the table it was fitted on that are features; `predict` finds them
        by name.
    left_out_ : list of str
        Of a table in memory: the columns without numbers and without a role.
    n_observations_ : int
        Number of lists, subsets or pairs in training.
    forms_ : dict
        For "all": number of lists in the "exact" and the "profile" form, and "skipped"
        because of a single grade.
    level_weights_, level_shares_ : ndarrays
        Position weights, best first, and the share of the training lists with each.  With
        `position_weights` for "all" the former is None: the weights depend on the length
        of a list.
    grades_, grade_levels_ : ndarrays of shape (R,)
        The grades of the training lists, and the position weight v of each.  With
        `position_weights` for "all" that is the mean over the training documents of the
        grade; for subsets and pairs the weights are spread over the grades evenly.
    grade_offsets_, shift_coef_, shift_std_, score_slope_ : ndarrays and floats
        What was learned of how many documents of every grade a list has, see the notes:
        the offsets a (R,), the coefficients b (2,) and the standard deviation of the shift,
        in log-odds of the highest against the lowest grade, and a factor of the scores.
    alpha_ : float
        The alpha of the fit.
    n_iter_ : int
        Steps taken.
    is_converged_ : bool
        Whether the gradient reached `tol`; False on separable data with ``alpha=0``, which
        have no best coefficients.
    history_ : list of dict
        ``iteration``, ``loss``, ``grad_norm``, ``evaluations`` and ``seconds``; for whole
        lists fitted from zero, of the profile form, then of the exact one.
    posterior_, log_evidence_
        Set by `inference`, dropped by the next fit: how sure the coefficients are, and the
        log-evidence of the model.

    Notes
    -----
    Features are read twice per evaluation, whatever the number of subsets.  Subsets with
    M = number of grades estimate the same target as whole lists, with sampling noise.

    How many documents of every grade a new list has is learned after the coefficients, for
    `predict_relevance`, `rank_marginals` and `prob_above`.  Given a shift t of the list,
    its documents have grade l with probability ``∝ exp( v_l (s_i + t) + a_l )``, s being
    scores less their mean, independently, and t is normal with mean ``<b, z>``, z being the
    mean of the scores and the log of the number of documents.  Given the counts that is the
    law of whole lists above, whatever a, b and the spread of t: the marginal likelihood of
    the training grades therefore fits exactly the probability of the counts.  Lists with a
    single grade, which say nothing about coefficients, take part; of many, up to 1,000
    taken evenly.  With `position_weights` for "all" the weight of a grade depends on the
    list, and ``v_l``, its mean, is only close to it.  The factor of the scores is 1, but
    learned too in that case, for pairs of more than two grades, for subsets of other than
    one document per grade, and by `calibrate`.  From documents of different `sample_weight`
    nothing is learned of counts.

    For "all" and "pairs", documents of a query may differ in `sample_weight`: of clicked
    documents, the inverse of the chance that one at their position is looked at.  The loss
    of a query is then the integral over u > 0 of its loss with the grades of documents of
    weight u or more, all others 0.  For equal weights w that is w times the loss.  Weights
    of documents of grade 0 do not matter, but a document of weight 0 is left out.

    References
    ----------
    J. Petterson, T. Caetano, J. McAuley and J. Yu, "Exponential family graph matching and
    ranking", 2009.

    Examples
    --------
    Five queries of eight documents; only the first feature matters.

    >>> import numpy as np
    >>> from permatch.estimators import RankMatch
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 2))
    >>> y = np.digitize(X[:, 0] + 0.2 * rng.normal(size=40), [0.0, 1.0])
    >>> qid = np.repeat(np.arange(5), 8)
    >>> model = RankMatch(alpha=0.1).fit(X, y, qid=qid)
    >>> bool(model.coef_[0] > 5 * abs(model.coef_[1]))
    True
    >>> model.score(X, y, qid=qid) > 0.9
    True
    """

    subset_size: int | str = "all"
    _: KW_ONLY
    alpha: float = 1.0
    position_weights: Any = None
    n_subsets: float = 0.4
    ties: Ties = "average"
    missing_grades: MissingGrades = "skip"
    levels: Any = "grades"
    query_weight: str = "observations"
    form: str = "auto"
    qid: str | None = None
    scaling: str | None = None
    scale_features: bool = True
    tol: float = 1e-6
    max_iter: int = 500
    warm_start: bool = False
    random_state: int = 0
    n_jobs: int | None = None
    verbose: bool = False
    forms_: dict[str, int] = field(init=False)
    level_weights_: FloatArray | None = field(init=False)
    level_shares_: FloatArray = field(init=False)
    grades_: IntArray = field(init=False)
    grade_levels_: FloatArray = field(init=False)
    grade_offsets_: FloatArray = field(init=False)
    shift_coef_: FloatArray = field(init=False)
    shift_std_: float = field(init=False)
    score_slope_: float = field(init=False)

    def _why_equal_weights(self) -> str | None:
        if self.subset_size in ("all", "pairs"):
            return None
        return f"with subset_size={self.subset_size!r}, where subsets are drawn"

    def _score_documents(self) -> Score:
        return partial(linear_scores, coef=self.coef_)

    def _adopt(self, problem: Any, optimum: Any) -> None:
        self._forget_counts()  # of the fit before
        super()._adopt(problem, optimum)

    def _conclude(self, problem: Any, optimum: Any) -> None:
        super()._conclude(problem, optimum)
        # Of pairs, of subsets other than one document per grade, and of grades whose weight
        # depends on the list, the likelihood does not say how steep the chances of grades
        # are.
        is_steep = self.level_weights_ is not None and (
            self.subset_size == "all" or len(self.level_weights_) == len(self.grades_)
        )
        try:
            self._learn_counts(problem.shards, has_slope=not is_steep)
        except KeyboardInterrupt:  # the coefficients are kept
            self._forget_counts()

    def _problem(self, data: Shards, n_jobs: int) -> LinearProblem:
        observed = ranking_likelihood(
            data,
            self.subset_size,
            position_weights=self.position_weights,
            n_subsets=self.n_subsets,
            ties=self.ties,
            missing_grades=self.missing_grades,
            levels=self.levels,
            query_weight=self.query_weight,
            form=self.form,
            random_state=self.random_state,
            n_jobs=n_jobs,
        )
        is_scaled = self.scale_features
        return ranking_problem(data, observed, is_scaled=is_scaled, n_jobs=n_jobs)
