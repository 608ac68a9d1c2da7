"""Matchers with alpha chosen on held-out graphs."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Self

from permatch._blas import one_blas_thread
from permatch._validation import check_choice, check_jobs
from permatch.distributed import is_in_parts
from permatch.errors import InvalidOptionError
from permatch.estimators.alpha_search import AlphaSearch, Judge
from permatch.estimators.checks import with_weight
from permatch.estimators.fit_plan import EVALUATIONS, EVALUATIONS_NEAR
from permatch.estimators.graph_splits import (
    check_pair,
    check_validation,
    folds_of_graphs,
    positions_of,
    require_partners,
    split_graphs,
)
from permatch.estimators.linear_matcher import Data, LinearMatcher
from permatch.estimators.map_matching import MAPMatching
from permatch.estimators.matching_parts import GraphsInParts, open_more
from permatch.estimators.uncertainty.evidence import search_by_evidence
from permatch.estimators.uncertainty.of_matchings import n_graphs

# Splits expected of a splitter, for estimates of time.
_SPLITS = 5
# Alphas that a search by evidence tries, likewise.
_ALPHAS_OF_EVIDENCE = 20
# Criteria to choose alpha by, and whether more is better.
_SCORINGS = {"hamming": False, "log_likelihood": True}


@dataclass(eq=False, repr=False)
class MatcherSearch(AlphaSearch, LinearMatcher):
    """A matcher that chooses alpha, then fits with it."""

    alphas: Any = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
    _: KW_ONLY
    scoring: str = "hamming"

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
        """Choose alpha and fit the coefficients.

        Parameters
        ----------
        graphs : sequence of (m, m, d) arrays or BipartiteGraph, or a table in parts
            Edge features; sizes m may differ between graphs.  In parts as in `MAPMatching`.
        matchings : sequence of integer arrays of shape (m,)
            The true matching of every graph; the columns of a table in parts.
        sample_weight : array of shape (n,), optional
            Weight of every graph, in training and in the scores of its fold.
        validation : pair (graphs, matchings), optional
            Graphs to choose alpha on, never trained on; default: split `graphs` by `cv`.
            They may be in parts, such as ``("folder", "label")``, or (with columns as in
            training) ``("folder", None)``, whether or not `graphs` are.
        feature_names : sequence of str, optional
            A name per feature, saved with the model.

        Returns
        -------
        MatcherSearch
            Itself.
        """
        data, names = self._open(graphs, matchings, sample_weight, feature_names)
        check_choice(self.scoring, "scoring", _SCORINGS)
        self._begin(data)
        if self._is_by_evidence(validation):
            problem = self._problem(data, check_jobs(self.n_jobs))
            nobs = n_graphs(data, sample_weight)
            return search_by_evidence(self, problem, nobs, self._inputs(data, names))
        splits: list[Any]
        if isinstance(data, GraphsInParts):
            splits = self._splits_in_parts(data, validation)
        elif validation is None:
            splits = split_graphs(self.cv, self.random_state, data)
        else:
            splits = [(data, self._open_validation(data, validation))]
        return self._search(
            data,
            splits,
            self._judge_on,
            fitted=self._inputs(data, names),
            is_held=not isinstance(data, GraphsInParts),
            is_refitted=validation is None,
            is_more_better=_SCORINGS[self.scoring],
        )

    def _judge_on(self, held_out: Data) -> Judge:
        parameters = self._parameters
        if isinstance(held_out, GraphsInParts):
            if self.scoring == "hamming":
                has_partners = any(own.has_partners for own in held_out.outlines)
                require_partners(has_partners, held_out.n_graphs)
                return lambda weights: held_out.hamming_loss(
                    partial(self._modes, weights, parameters=parameters)
                )
            told = {"parameters": parameters, "engine": self._learning_engine()}
            return lambda weights: held_out.log_likelihood(
                partial(self._log_likelihood, weights, **told)
            )
        if self.scoring == "hamming":
            labels = with_weight(held_out)[1]
            require_partners(any(one.has_partners for one in labels), len(labels))
            return lambda weights: self._loss(weights, held_out, parameters)
        engine = self._learning_engine()
        return lambda weights: self._log_likelihood(weights, held_out, parameters, engine)

    def _open_validation(self, data: Data, validation: Any) -> Data:
        """Return the validation set, read and checked like the training set."""
        graphs, matchings = check_pair(validation)
        own = self._parameters
        if is_in_parts(graphs):
            columns = data.columns if isinstance(data, GraphsInParts) else None
            n_features = own.n_edge, own.n_left, own.n_right
            return open_more(graphs, matchings, columns, self._names, n_features)
        return check_validation(validation, own.n_edge, (own.n_left, own.n_right))

    def _splits_in_parts(
        self, data: GraphsInParts, validation: Any
    ) -> list[tuple[Data, Data]]:
        """Return pairs of training and held-out graphs in parts."""
        if validation is not None:
            return [(data, self._open_validation(data, validation))]
        folds = folds_of_graphs(self.cv, self.random_state, data.n_graphs)
        chosen = [
            [positions_of(side, data.n_graphs, k) for side in fold]
            for k, fold in enumerate(folds)
        ]
        for k, sides in enumerate(chosen):
            if not all(map(len, sides)):
                raise InvalidOptionError(
                    "every split of cv needs training and held-out graphs; split "
                    f"{k} lacks one. Use fewer folds."
                )
        return [(data.take(train), data.take(test)) for train, test in chosen]


@dataclass(eq=False, repr=False)
class MAPMatchingCV(MatcherSearch, MAPMatching):
    """`MAPMatching` with alpha chosen by cross-validation or on a validation set.

    Alphas are tried from strong to weak.  Each fit starts where the last one ended, and
    ends within a thousandth of the best coefficients, by estimate; ties go to the largest
    alpha.  The model is then fitted to `tol`: to all training graphs, or to those given
    where a validation set, which never trains, has chosen.

    Parameters
    ----------
    alphas : sequence of float, or "evidence"
        Strengths of the penalty to try.  "evidence" holds no graphs out: alpha is where the
        probability of the data, the coefficients integrated out by Laplace's
        approximation, is largest; needs exact inference.
    prior_coef
        As in `MAPMatching`.
    engine, budget, solver, bounds, unmatched, scale_features, tol, max_iter, n_jobs
        As in `MAPMatching`; the budget is that of all fits together.
    verbose : bool
        As in `MAPMatching`.
    cv : int, splitter, or iterable of (train, test) index arrays
        A number means that many shuffled folds of the graphs; a single graph is split by
        its nodes, matched ones together, and pairs between folds are left out.  Where
        graphs follow each other in time and new ones are later still, scikit-learn's
        ``TimeSeriesSplit`` always validates on later graphs than it trains on.  Not used
        with a validation set.
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
        Its mean score on held-out graphs, or its log-evidence.
    log_evidence_ : float
        With "evidence", or after `inference`: log-evidence at the chosen alpha.
    cv_results_ : dict of ndarray
        ``alphas`` (n_alphas,) from strong to weak; ``scores`` (n_alphas, n_splits), losses
        if `scoring` is one; ``mean_score`` and ``std_score`` (n_alphas,) over the splits;
        ``n_evaluations`` (n_alphas, n_splits).
    coef_path_ : ndarray of shape (n_alphas, n_splits, n_coefficients)
        The coefficients that were scored: those of edges, left nodes and right nodes, then
        the intercept if there is one.
    coef_, scale_, n_features_in_, feature_names_
        As in `MAPMatching`.
    unmatched_, unmatched_intercept_, unmatched_left_coef_, unmatched_right_coef_
        As in `MAPMatching`.
    n_iter_, is_converged_, history_, gradient_error_, is_exact_, is_convex_, engine_report_
        As in `MAPMatching`, for the fit that gave ``coef_``.

    Examples
    --------
    >>> import numpy as np
    >>> import permatch as pm
    >>> from permatch.estimators import MAPMatchingCV
    >>> rng = np.random.default_rng(0)
    >>> graphs = list(rng.normal(size=(60, 4, 4, 3)))
    >>> coef = np.array([2.0, -1.0, 0.0])
    >>> matchings = [
    ...     pm.MatchingDistribution(graph @ coef).sample(1, rng=k)[0]
    ...     for k, graph in enumerate(graphs)
    ... ]
    >>> model = MAPMatchingCV([1e-4, 1e-2, 1.0], scoring="log_likelihood", random_state=0)
    >>> model.fit(graphs, matchings).alpha_
    0.01
    >>> model.cv_results_["scores"].shape
    (3, 5)
    """

    _has_evidence = True

    def _n_evaluations(self) -> int:
        if self._is_by_evidence(None):
            return EVALUATIONS + EVALUATIONS_NEAR * _ALPHAS_OF_EVIDENCE
        n_splits = max(self.cv, 1) if isinstance(self.cv, int) else _SPLITS
        n_fits = len(self._check_alphas()) * n_splits
        return EVALUATIONS + EVALUATIONS_NEAR * n_fits
