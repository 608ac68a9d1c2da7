"""RankMatch and DORM with alpha chosen on queries held out."""

from typing import Any

import numpy as np

from permatch._types import FloatArray
from permatch.estimators.dorm import DORM
from permatch.estimators.rank_match import RankMatch
from permatch.estimators.rank_search import AlphaSearch
from permatch.objectives.rank_margin import RankLoss
from permatch.objectives.subset_likelihood import Ties
from permatch.objectives.subsets import MissingGrades


class RankMatchCV(AlphaSearch, RankMatch):
    """`RankMatch` with alpha chosen by cross-validation or on a validation set.

    Every alpha is tried from the strongest to the weakest, each fit beginning where the
    last one ended.  Of equally good ones the largest is taken.  The model is then fitted at
    it on all training lists; with a validation set, which never trains (the protocol of
    LETOR), the model of the path is kept.

    Parameters
    ----------
    subset_size : "all", int, "grades" or "pairs"
        What one observation is; see `RankMatch`.
    alphas : sequence of float, optional
        Strengths of the penalty to try; by default half decades from 1e-2 to 1e3 for "all",
        and from 1e-4 to 1e1 for subsets and pairs.
    cv : int, splitter, or iterable of (train, test) arrays of row numbers
        A number means that many folds of whole queries, shuffled.  A splitter gets the
        queries as groups.  Not used with a validation set.
    scoring : Measure, str or callable
        What chooses alpha on the queries held out: a measure such as ``NDCG @ 10`` or its
        text, see `permatch.metrics`; "MeanNDCG@10" is the mean of NDCG@1 to NDCG@10.  A
        callable takes grades, scores and query numbers; more is better.
    position_weights : None, "discount" or sequence of M numbers
        Weights of the positions of a subset; see `RankMatch`.
    n_subsets : float
        Subsets drawn from a query, as a multiple of its documents times M.
    ties : {"average", "first"}
        Observed weights of documents of equal grade; see `RankMatch`.
    missing_grades : {"skip", "fill"}
        What to do with queries that lack a grade; see `RankMatch`.
    levels : "grades", "gains" or sequence of numbers
        For "all": position weight by grade.
    query_weight : {"observations", "queries", "per_document", "per_relevant"}
        What a query weighs against others; see `RankMatch`.
    form : {"auto", "exact", "profile"}
        For "all": the exact likelihood or its profile form; see `RankMatch`.
    scaling : None, "minmax" or "standard"
        Whether to scale features within each query first.
    scale_features : bool
        Whether the penalty sees every feature in units of its standard deviation within
        queries.
    tol : float
        Largest entry of the gradient accepted as converged.
    max_iter : int
        Most steps of the solver, at every alpha.
    random_state : int
        Seed of the subsets and of the shuffled folds.
    n_jobs : int, optional
        Threads; None means one, -1 all processors.  No result depends on it.
    verbose : bool
        Whether to show a progress bar.

    Attributes
    ----------
    alpha_ : float
        The alpha chosen.
    best_score_ : float
        Its mean score on the queries held out.
    cv_results_ : dict
        ``alphas``, ``scores`` (one row per alpha, one column per split), ``mean_score``,
        ``std_score`` and ``n_evaluations``.
    coef_path_ : ndarray of shape (alphas, splits, d)
        Coefficients at every alpha on every split.
    coef_, scale_, n_features_in_, feature_names_, n_observations_, forms_
        As of `RankMatch`, at the alpha chosen.

    Examples
    --------
    >>> import numpy as np
    >>> from permatch.estimators import RankMatchCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(160, 2))
    >>> y = np.digitize(X[:, 0] + rng.normal(size=160), [0.0, 1.0])
    >>> qid = np.repeat(np.arange(20), 8)
    >>> model = RankMatchCV(alphas=[0.01, 0.1, 1.0, 10.0, 100.0], cv=4).fit(X, y, qid=qid)
    >>> model.alpha_ in (0.1, 1.0, 10.0)
    True
    """

    def __init__(
        self,
        subset_size: int | str = "all",
        *,
        alphas: Any = None,
        cv: Any = 5,
        scoring: Any = "MeanNDCG@10",
        position_weights: Any = None,
        n_subsets: float = 0.4,
        ties: Ties = "average",
        missing_grades: MissingGrades = "skip",
        levels: Any = "grades",
        query_weight: str = "observations",
        form: str = "auto",
        scaling: str | None = None,
        scale_features: bool = True,
        tol: float = 1e-6,
        max_iter: int = 500,
        random_state: int = 0,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.subset_size = subset_size
        self.alphas = alphas
        self.cv = cv
        self.scoring = scoring
        self.position_weights = position_weights
        self.n_subsets = n_subsets
        self.ties = ties
        self.missing_grades = missing_grades
        self.levels = levels
        self.query_weight = query_weight
        self.form = form
        self.scaling = scaling
        self.scale_features = scale_features
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _default_alphas(self) -> FloatArray:
        lowest = -2 if self.subset_size == "all" else -4
        return np.logspace(lowest, lowest + 5, 11)


class DORMCV(AlphaSearch, DORM):
    """`DORM` with alpha chosen by cross-validation or on a validation set.

    Alphas are tried as `RankMatchCV` does.

    Parameters
    ----------
    subset_size : int, "grades" or "all"
        What one observation is; see `DORM`.
    alphas : sequence of float, optional
        Strengths of the penalty to try; by default half decades from 1e-4 to 1.
    cv : int, splitter, or iterable of (train, test) arrays of row numbers
        A number means that many folds of whole queries, shuffled.  A splitter gets the
        queries as groups.  Not used with a validation set.
    scoring : Measure, str or callable
        What chooses alpha on the queries held out; see `RankMatchCV`.
    position_weights : None, "discount" or sequence of M numbers
        Weights of the positions of a subset; see `DORM`.
    n_subsets : float
        Subsets drawn from a query, as a multiple of its documents times M.
    loss : {"ndcg", "dcg", "hamming"}
        What the margin is measured in.
    ties : {"average", "first"}
        Observed weights of documents of equal grade; see `DORM`.
    missing_grades : {"skip", "fill"}
        What to do with queries that lack a grade; see `DORM`.
    query_weight : {"observations", "queries", "per_document", "per_relevant"}
        What a query weighs against others; see `DORM`.
    scaling : None, "minmax" or "standard"
        Whether to scale features within each query first.
    scale_features : bool
        Whether the penalty sees every feature in units of its standard deviation within
        queries.
    tol : float
        Largest duality gap accepted as converged, as a fraction of the objective.
    max_iter : int
        Most rounds of the bundle solver, at every alpha.
    random_state : int
        Seed of the subsets and of the shuffled folds.
    n_jobs : int, optional
        Threads; None means one, -1 all processors.  No result depends on it.
    verbose : bool
        Whether to show a progress bar.

    Attributes
    ----------
    alpha_, best_score_, cv_results_, coef_path_
        As of `RankMatchCV`.
    coef_, scale_, n_features_in_, feature_names_, n_observations_
        As of `DORM`, at the alpha chosen.

    Examples
    --------
    >>> import numpy as np
    >>> from permatch.estimators import DORMCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(160, 2))
    >>> y = np.digitize(X[:, 0] + 0.3 * rng.normal(size=160), [0.0, 1.0])
    >>> qid = np.repeat(np.arange(20), 8)
    >>> model = DORMCV(alphas=[1e-3, 1e-2, 1e-1, 1.0, 10.0], cv=4).fit(X, y, qid=qid)
    >>> model.score(X, y, qid=qid) > 0.9
    True
    """

    def __init__(
        self,
        subset_size: int | str = "grades",
        *,
        alphas: Any = None,
        cv: Any = 5,
        scoring: Any = "MeanNDCG@10",
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
        random_state: int = 0,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.subset_size = subset_size
        self.alphas = alphas
        self.cv = cv
        self.scoring = scoring
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
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _default_alphas(self) -> FloatArray:
        return np.logspace(-4, 0, 9)
