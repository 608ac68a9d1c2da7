"""Maximum margin matchers with alpha chosen on held-out graphs."""

from dataclasses import dataclass

from permatch.estimators.map_matching_cv import MatcherSearch
from permatch.estimators.max_margin_matching import MaxMarginMatching


@dataclass(eq=False, repr=False)
class MaxMarginMatchingCV(MatcherSearch, MaxMarginMatching):
    """`MaxMarginMatching` with alpha chosen by cross-validation or on a validation set.

    Alphas are tried from strong to weak.  Each fit starts where the last one ended, with
    its cutting planes, and ends after 100 rounds if a gap of 0.05 is reached; ties go to
    the largest alpha.  The model is then fitted to `tol`: to all training graphs, or to
    those given where a validation set, which never trains, has chosen.

    Parameters
    ----------
    alphas : sequence of float
        Strengths of the penalty to try, above 0.
    prior_coef, unmatched, scale_features, tol, max_iter, n_jobs, engine, verbose
        As in `MaxMarginMatching`.
    cv : int, splitter, or iterable of (train, test) index arrays
        As in `MAPMatchingCV`.
    scoring : {"hamming", "log_likelihood"}
        Criterion on held-out graphs: the Hamming loss (lower is better) or the mean
        log-likelihood.
    random_state : int, RandomState or None
        Seed of the shuffled folds; None shuffles differently at every fit.

    Attributes
    ----------
    alpha_ : float
        The chosen alpha.
    best_score_ : float
        Its mean score on held-out graphs.
    cv_results_ : dict of ndarray
        As in `MAPMatchingCV`.
    coef_path_ : ndarray of shape (n_alphas, n_splits, n_coefficients)
        As in `MAPMatchingCV`.
    coef_, scale_, n_features_in_, feature_names_
        As in `MaxMarginMatching`.
    unmatched_, unmatched_intercept_, unmatched_left_coef_, unmatched_right_coef_
        As in `MaxMarginMatching`.
    n_iter_, is_converged_, history_, gap_
        As in `MaxMarginMatching`, for the fit that gave ``coef_``.

    Examples
    --------
    >>> import numpy as np
    >>> import permatch as pm
    >>> rng = np.random.default_rng(0)
    >>> graphs = list(rng.normal(size=(30, 5, 5, 20)))
    >>> matchings = [
    ...     pm.best_matching(graph[:, :, 0] - graph[:, :, 1] + rng.normal(size=(5, 5)))
    ...     for graph in graphs
    ... ]
    >>> model = pm.MaxMarginMatchingCV([1e-2, 1e-1, 1.0, 100.0], cv=3, tol=1e-2)
    >>> model.fit(graphs, matchings).alpha_
    0.1
    """
