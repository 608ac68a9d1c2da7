"""Inference after fitting a model of rankings."""

from typing import Any, overload

import numpy as np

from permatch._blas import one_blas_thread
from permatch._shards import Shards, light
from permatch._types import FloatArray, IntArray, Seed
from permatch._validation import check_jobs
from permatch.distributed import is_in_parts
from permatch.errors import InvalidOptionError
from permatch.estimators.inputs import Inputs, query_ids
from permatch.estimators.linear_ranker import linear_scores
from permatch.estimators.query_scaler import scale_within_queries
from permatch.estimators.ranking_law import RankingLaw
from permatch.estimators.uncertainty.inferring import (
    Observed,
    feature_names,
    infer_posterior,
    number_clusters,
)
from permatch.estimators.uncertainty.intervals import (
    MarginalIntervals,
    check_wanted,
    delta_intervals,
    drawn_intervals,
)
from permatch.estimators.uncertainty.posterior import Posterior
from permatch.inference.ranking.grade_law import GradeLaw
from permatch.queries import QuerySet, query_rows
from permatch.ranking_distribution import RankingDistribution

# Nodes of quadrature for derivatives and draws are so many times as far apart.
_COARSE = 1.5
# Of a standard error: exact probabilities change by far more than their rounding errors.
_STEP = 1e-4


class RankingInference:
    """What a ranker with a likelihood says about its coefficients."""

    posterior_: Posterior
    log_evidence_: float

    @one_blas_thread()
    def inference(
        self: Any,
        X: Any,
        y: Any = None,
        qid: Any = None,
        group: Any = None,
        *,
        sample_weight: Any = None,
        cov_type: str = "sandwich",
        clusters: Any = None,
    ) -> Posterior:
        """Return how sure the coefficients are, given the data of the fit.

        The result is also kept as ``posterior_``, and saved with the model;
        ``log_evidence_`` is its log-evidence.  A new fit drops both.

        Parameters
        ----------
        X, y, qid, group, sample_weight
            The training data, as in `fit`; in parts too.
        cov_type : {"sandwich", "laplace"}
            "laplace" trusts the model: queries are independent, and it fits them; for
            whole lists only.  "sandwich" takes the variance of the gradient from the
            differences between clusters, whether or not the model fits.
        clusters : array of shape (n,), optional
            For "sandwich": label of the cluster of each document's query, equal for all
            documents of a query.  Queries of a cluster may depend on each other: those of
            one person, say.  Default: every query is a cluster.

        Returns
        -------
        Posterior
            With the names of statsmodels: ``params``, ``bse``, ``conf_int()``,
            ``summary()``.
        """
        self._check_fitted()
        roles = self._roles(X, y, qid, group, sample_weight)
        shards = self._open_new(X, roles, group, Inputs.of(self))
        problem = self._problem(shards, check_jobs(self.n_jobs))
        has_likelihood, why_not = _is_likelihood(self, shards)
        is_counted = problem.shares > 0.0
        labels = _query_clusters(self, clusters, X, qid, group, len(is_counted))
        labels[~is_counted] = labels[is_counted][0]  # they have no gradient
        observed = Observed(
            alpha=self._penalty(),
            units="queries",
            nobs=_total_weight(problem, shards),
            clusters=np.unique(labels, return_inverse=True)[1].reshape(-1),
            names=tuple(feature_names(self.feature_names_, self.n_features_in_)),
            has_likelihood=has_likelihood,
            why_not=why_not,
            notes=_notes(self, problem.fitted),
        )
        self.posterior_ = infer_posterior(self, problem, observed, cov_type)
        self.log_evidence_ = self.posterior_.log_evidence
        return self.posterior_

    @overload
    def rank_marginals(self, X: Any, position_weights: Any = None) -> FloatArray: ...
    @overload
    def rank_marginals(
        self,
        X: Any,
        position_weights: Any = None,
        *,
        uncertainty: Posterior,
        level: float = 0.95,
        n_draws: int = 0,
        rng: Seed = 0,
    ) -> MarginalIntervals: ...
    @one_blas_thread()
    def rank_marginals(
        self: Any,
        X: Any,
        position_weights: Any = None,
        *,
        uncertainty: Posterior | None = None,
        level: float = 0.95,
        n_draws: int = 0,
        rng: Seed = 0,
    ) -> Any:
        """Return the probability of every document of one query at every position.

        Documents are sorted by their grades, which are not known, ties in random order.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n, d)
            The documents of one query.
        position_weights : array of shape (n,), optional
            Weights of the positions of this list, which say how many documents there are of
            every level; see `distribution`.  Default: not known, as in `predict_relevance`.
        uncertainty : Posterior, optional
            The result of `inference`: give every probability an interval too.
        level : float
            Probability that an interval should hold the probability of the true weights.
        n_draws : int
            0: intervals by the delta method on the logit scale.  Otherwise quantiles over
            so many draws of the weights, each of which takes an inference.
        rng : int, numpy.random.Generator or None
            Seed or generator of the draws.

        Returns
        -------
        ndarray of shape (n, n)
            Row i is document i, column j position j.  Rows sum to one, columns up to the
            error of quadrature: about 1e-10 for 150 documents and 1e-7 for 1,000, which
            take 0.1 and a few seconds.  With `position_weights`,
            ``distribution(X, position_weights).is_exact`` tells whether they are exact or
            estimates.  With `uncertainty`: `MarginalIntervals`, whose arrays have this
            shape; what is learned of the numbers of documents by grade is taken as given.
        """
        if uncertainty is None:
            return RankingLaw.rank_marginals(self, X, position_weights)
        wanted = check_wanted(uncertainty, self.coef_, level, n_draws)
        posterior, level, n_draws = wanted
        documents, coef, jobs = _documents_of(self, X), self.coef_, check_jobs(self.n_jobs)
        if position_weights is None:
            found: Any = _ByCounts(self._law_of(X), jobs, linear_scores(documents, coef))
        else:
            own = self.distribution(X, position_weights)
            found = _ByLevels(own, self._slope_by_positions(), jobs)

        def infer(weights: FloatArray) -> FloatArray:
            return found.infer(linear_scores(documents, weights))

        def differentiate(directions: FloatArray) -> FloatArray:
            ways = _STEP * directions.T
            pairs = [(infer(coef + way), infer(coef - way)) for way in ways]
            return np.stack([(up - down) / (2.0 * _STEP) for up, down in pairs], axis=1)

        if n_draws:
            parts = drawn_intervals(posterior, infer, level, n_draws, rng)
        else:
            found.check_exact()
            parts = delta_intervals(found.chances, posterior, differentiate, level)
        method = "draws" if n_draws else "delta"
        errors, low, high = map(found.spread, parts)
        marginals = found.spread(found.chances)
        return MarginalIntervals(marginals, errors, low, high, level, method)


class _ByCounts:
    """Probabilities of positions, the number of documents of every grade not known."""

    def __init__(self, law: GradeLaw, n_jobs: int, scores: FloatArray) -> None:
        self._law, self._n_jobs, self._n = law, n_jobs, len(scores)
        self.chances = law.rank_marginals(scores, n_jobs).ravel()
        self._plan = law.plan_ranks(scores, _COARSE)

    def infer(self, scores: FloatArray) -> FloatArray:
        """Return the chances at other scores, in one row."""
        return self._law.rank_marginals(scores, self._n_jobs, self._plan).ravel()

    def check_exact(self) -> None:
        """Refuse derivatives of estimates."""

    def spread(self, values: FloatArray) -> FloatArray:
        """Return values of chances as a table of documents by positions."""
        return values.reshape(self._n, self._n)


class _ByLevels:
    """Probabilities of levels of positions, whose sizes are known."""

    def __init__(self, own: RankingDistribution, slope: float, n_jobs: int) -> None:
        self._own, self._slope, self._n_jobs = own, slope, n_jobs
        self.chances = own.level_marginals.ravel()

    def infer(self, scores: FloatArray) -> FloatArray:
        """Return the chances at other scores, in one row."""
        own = self._slope * scores, self._own.position_weights
        return RankingDistribution(*own, n_jobs=self._n_jobs).level_marginals.ravel()

    def check_exact(self) -> None:
        """Refuse derivatives of estimates."""
        own = self._own
        if not own.is_exact:
            raise InvalidOptionError(
                "the delta method needs exact probabilities; those of a list of "
                f"{own.size} documents with {len(own.level_sizes)} different weights of "
                "positions are estimates. Use n_draws=200."
            )

    def spread(self, values: FloatArray) -> FloatArray:
        """Return values of chances as a table of documents by positions."""
        sizes = self._own.level_sizes
        return np.repeat(values.reshape(self._own.size, -1) / sizes, sizes, axis=1)


def n_queries(model: Any, problem: Any, shards: Shards) -> float:
    """Return the sum of the weights of queries; refuse what is no likelihood."""
    has_likelihood, why_not = _is_likelihood(model, shards)
    if not has_likelihood:
        raise InvalidOptionError(
            f"alphas='evidence' needs a likelihood of independent queries; {why_not}. Give "
            "alphas to try."
        )
    return _total_weight(problem, shards)


def _total_weight(problem: Any, shards: Shards) -> float:
    """Return the sum of the weights of the queries that the objective counts."""
    weights = np.concatenate(shards.map(_weights))
    return float(weights[problem.shares > 0.0].sum())


@light
def _weights(queries: QuerySet) -> FloatArray:
    return queries.weights


def _documents_of(model: Any, X: Any) -> Any:
    """Return the documents of one query as the model sees them."""
    documents = model._check_one(X)
    if model.scaling is None:
        return documents
    starts = np.array([0, documents.shape[0]])
    return scale_within_queries(documents, starts, model.scaling)


@light
def _has_document_weights(queries: QuerySet) -> bool:
    return queries.document_weights is not None


def _is_likelihood(model: Any, shards: Shards) -> tuple[bool, str]:
    """Return whether the objective is minus the mean log-likelihood of queries."""
    if model.subset_size != "all":
        return False, (
            f"with subset_size={model.subset_size!r} the observations of a query overlap"
        )
    if model.query_weight not in ("observations", "queries"):
        return False, f"query_weight={model.query_weight!r} weighs queries by their length"
    if any(shards.map(_has_document_weights)):
        return False, "sample_weight differs between the documents of a query"
    return True, ""


def _notes(model: Any, fitted: dict[str, Any]) -> tuple[str, ...]:
    if model.subset_size not in ("all", "pairs"):
        return ("The subsets are taken as given: drawing others adds some noise.",)
    n_profile = fitted.get("forms_", {}).get("profile", 0)
    if n_profile:
        return (
            f"{n_profile} lists are in the profile form, a lower bound of the likelihood: "
            "standard errors are off by about 1 % with lists of 200 documents, 10 % with "
            "lists of 20.",
        )
    return ()


def _query_clusters(
    model: Any, clusters: Any, X: Any, qid: Any, group: Any, n_queries: int
) -> IntArray:
    """Return the cluster of every query, from labels of its documents."""
    if clusters is None:
        return np.arange(n_queries)
    if is_in_parts(X):
        raise InvalidOptionError(
            "clusters need data in memory; of data in parts every query is a cluster. "
            "Leave clusters out, or load the data."
        )
    n_documents = X.shape[0] if hasattr(X, "shape") else len(X)
    rows = query_rows(query_ids(model, X, qid, group), group, n_documents)
    labels = rows.gather(number_clusters(clusters, n_documents, "documents"))
    each = labels[rows.starts[:-1]]
    is_other = labels != each[rows.owners]
    if is_other.any():
        owner = rows.owners[np.argmax(is_other)]
        raise InvalidOptionError(
            "clusters must be equal for all documents of a query; query "
            f"{rows.ids[owner]} has several. Clusters are made of whole queries."
        )
    return each
