"""Linear rankers with alpha chosen on held-out queries."""

from dataclasses import dataclass

import numpy as np

from permatch._types import FloatArray
from permatch.estimators.dorm import DORM
from permatch.estimators.query_ridge import QueryRidge
from permatch.estimators.rank_match import RankMatch
from permatch.estimators.rank_search import RankerSearch


@dataclass(eq=False, repr=False)
class RankMatchCV(RankerSearch, RankMatch):
    """`RankMatch` with alpha chosen by cross-validation or on a validation set.

    Alphas are tried from strong to weak.  Each fit starts where the last one ended, and
    ends within a thousandth of the best coefficients, by estimate; ties go to the largest
    alpha.  The model is then fitted to `tol`: to all training lists, or to those given
    where a validation set, which never trains (LETOR's protocol), has chosen.

    Parameters
    ----------
    subset_size, position_weights, n_subsets, ties, missing_grades, levels, query_weight
        As in `RankMatch`.
    form, qid, scaling, scale_features, tol, max_iter
        As in `RankMatch`.
    random_state : int
        Seed of the subsets and of the shuffled folds.
    n_jobs, verbose
        As in `RankMatch`.
    alphas : sequence of float, or "evidence", optional
        Strengths of the penalty to try; default: half decades from 1e-2 to 1e3 for "all",
        and from 1e-4 to 1e1 for subsets, pairs and "all" with `position_weights`.
        "evidence", for "all", holds no queries out: alpha is where the probability of the
        data, the coefficients integrated out by Laplace's approximation, is largest.
    cv : int, splitter, or iterable of (train, test) arrays of row numbers
        A number means that many shuffled folds of whole queries.  A splitter gets the
        queries as groups.  Not used with a validation set.
    scoring : Measure, str or callable
        Criterion on held-out queries: a measure such as ``NDCG @ 10`` or its text, see
        `permatch.metrics`; "MeanNDCG@10" is the mean of NDCG@1 to NDCG@10.  A callable
        takes grades, scores and query numbers; higher is better.

    Attributes
    ----------
    alpha_ : float
        The chosen alpha.
    best_score_ : float
        Its mean score on held-out queries, or its log-evidence.
    log_evidence_ : float
        With "evidence", or after `inference`: log-evidence at the chosen alpha.
    cv_results_ : dict
        ``alphas``, ``scores`` (one row per alpha, one column per split), ``mean_score``,
        ``std_score`` and ``n_evaluations``.
    coef_path_ : ndarray of shape (alphas, splits, d)
        Coefficients at every alpha on every split.
    coef_, scale_, n_features_in_, feature_names_, columns_, left_out_
        As in `RankMatch`.
    n_observations_, forms_
        As in `RankMatch`, at the chosen alpha.
    grades_, grade_levels_, grade_offsets_, shift_coef_, shift_std_, score_slope_
        As in `RankMatch`, from the lists that the coefficients are fitted to.

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

    _has_evidence = True

    def _default_alphas(self) -> FloatArray:
        is_by_grade = self.subset_size == "all" and self.position_weights is None
        lowest = -2 if is_by_grade else -4
        return np.logspace(lowest, lowest + 5, 11)


@dataclass(eq=False, repr=False)
class DORMCV(RankerSearch, DORM):
    """`DORM` with alpha chosen by cross-validation or on a validation set.

    Alphas are tried from strong to weak.  Each fit starts where the last one ended, with
    its cutting planes, and ends after 100 rounds if a gap of 0.05 is reached; ties go to
    the largest alpha.  The model is then fitted to `tol`, as by `RankMatchCV`.

    Parameters
    ----------
    subset_size, position_weights, n_subsets, loss, ties, missing_grades, query_weight
        As in `DORM`.
    qid, scaling, scale_features, tol, max_iter
        As in `DORM`.
    random_state : int
        Seed of the subsets and of the shuffled folds.
    n_jobs, verbose
        As in `DORM`.
    alphas : sequence of float, optional
        Strengths of the penalty to try; default: half decades from 1e-4 to 1e2.
    cv, scoring
        As in `RankMatchCV`.

    Attributes
    ----------
    alpha_, best_score_, cv_results_, coef_path_
        As in `RankMatchCV`.
    coef_, scale_, n_features_in_, feature_names_, columns_, left_out_
        As in `RankMatch`.
    n_observations_
        As in `DORM`, at the chosen alpha.

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

    def _default_alphas(self) -> FloatArray:
        return np.logspace(-4, 2, 13)


@dataclass(eq=False, repr=False)
class QueryRidgeCV(RankerSearch, QueryRidge):
    """`QueryRidge` with alpha chosen by cross-validation or on a validation set.

    Alphas are tried as `RankMatchCV` does.

    Parameters
    ----------
    qid, scaling, scale_features, n_jobs
        As in `QueryRidge`.
    alphas : sequence of float, optional
        Strengths of the penalty to try; default: half decades from 1e-4 to 1e1.
    cv, scoring
        As in `RankMatchCV`.
    random_state : int
        Seed of the shuffled folds.
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    alpha_, best_score_, cv_results_, coef_path_
        As in `RankMatchCV`.
    coef_, scale_, n_features_in_, feature_names_, columns_, left_out_
        As in `RankMatch`.
    n_observations_
        As in `QueryRidge`, at the chosen alpha.

    Examples
    --------
    >>> import numpy as np
    >>> from permatch.estimators import QueryRidgeCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(160, 2))
    >>> y = np.digitize(X[:, 0] + 0.3 * rng.normal(size=160), [0.0, 1.0])
    >>> qid = np.repeat(np.arange(20), 8)
    >>> model = QueryRidgeCV(alphas=[1e-2, 1e-1, 1.0, 10.0], cv=4).fit(X, y, qid=qid)
    >>> model.score(X, y, qid=qid) > 0.9
    True
    """

    def _default_alphas(self) -> FloatArray:
        return np.logspace(-4, 1, 11)
