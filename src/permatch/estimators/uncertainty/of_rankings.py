"""Inference after fitting a model of rankings."""

from typing import Any

import numpy as np

from permatch._types import IntArray
from permatch._validation import check_jobs
from permatch.errors import InvalidOptionError
from permatch.estimators.ranker import check_columns
from permatch.estimators.uncertainty.inferring import (
    Observed,
    feature_names,
    infer_posterior,
    number_clusters,
)
from permatch.estimators.uncertainty.posterior import Posterior
from permatch.queries import QuerySet, check_queries, query_rows


class RankingInference:
    """What a ranker with a likelihood says about its coefficients."""

    posterior_: Posterior
    log_evidence_: float

    def inference(
        self: Any,
        X: Any,
        y: Any,
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
            The training data, as in `fit`.
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
        check_columns(X, self.columns_ or self.feature_names_)
        queries = self.scaled(
            check_queries(X, y, qid, group, self.n_features_in_, sample_weight)
        )
        labels = _query_clusters(clusters, qid, group, queries)
        problem = self._problem(queries, check_jobs(self.n_jobs))
        has_likelihood, why_not = _is_likelihood(self)
        is_counted = problem.shares > 0.0
        labels[~is_counted] = labels[is_counted][0]  # they have no gradient
        observed = Observed(
            units="queries",
            nobs=float(queries.weights[is_counted].sum()),
            clusters=np.unique(labels, return_inverse=True)[1].reshape(-1),
            names=tuple(feature_names(self.feature_names_, self.n_features_in_)),
            has_likelihood=has_likelihood,
            why_not=why_not,
            notes=_notes(self, problem.fitted),
        )
        self.posterior_ = infer_posterior(self, problem, observed, cov_type)
        self.log_evidence_ = self.posterior_.log_evidence
        return self.posterior_


def _is_likelihood(model: Any) -> tuple[bool, str]:
    """Return whether the objective is minus the mean log-likelihood of queries."""
    if model.subset_size != "all":
        return False, (
            f"with subset_size={model.subset_size!r} the observations of a query overlap"
        )
    if model.query_weight not in ("observations", "queries"):
        return False, f"query_weight={model.query_weight!r} weighs queries by their length"
    return True, ""


def _notes(model: Any, fitted: dict[str, Any]) -> tuple[str, ...]:
    if model.subset_size not in ("all", "pairs"):
        return ("The subsets are taken as given: drawing others adds some noise.",)
    n_profile = fitted.get("forms_", {}).get("profile", 0)
    if n_profile:
        return (
            f"{n_profile} long lists are in the profile form, an upper bound of the "
            "likelihood; their part of the standard errors is within about 1 %.",
        )
    return ()


def _query_clusters(clusters: Any, qid: Any, group: Any, queries: QuerySet) -> IntArray:
    """Return the cluster of every query, from labels of its documents."""
    if clusters is None:
        return np.arange(queries.n_queries)
    rows = query_rows(qid, group, queries.n_documents)
    labels = rows.gather(number_clusters(clusters, queries.n_documents, "documents"))
    each = labels[rows.starts[:-1]]
    is_other = labels != each[rows.owners]
    if is_other.any():
        owner = rows.owners[np.argmax(is_other)]
        raise InvalidOptionError(
            "clusters must be equal for all documents of a query; query "
            f"{rows.ids[owner]} has several. Clusters are made of whole queries."
        )
    return each
