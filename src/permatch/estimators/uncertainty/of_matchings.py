"""Inference after fitting a model of matchings."""

from typing import Any

import numpy as np

from permatch._validation import check_jobs
from permatch.errors import InvalidOptionError
from permatch.estimators.checks import DataSet
from permatch.estimators.uncertainty.inferring import (
    Observed,
    feature_names,
    infer_posterior,
    number_clusters,
)
from permatch.estimators.uncertainty.posterior import Posterior
from permatch.objectives import Parameters


class MatchingInference:
    """What a matcher with a likelihood says about its coefficients."""

    posterior_: Posterior
    log_evidence_: float

    def inference(
        self: Any,
        graphs: Any,
        matchings: Any,
        sample_weight: Any = None,
        *,
        cov_type: str = "sandwich",
        clusters: Any = None,
    ) -> Posterior:
        """Return how sure the coefficients are, given the data of the fit.

        The result is also kept as ``posterior_``, and saved with the model;
        ``log_evidence_`` is its log-evidence.  A new fit drops both.

        Parameters
        ----------
        graphs, matchings, sample_weight
            The training data, as in `fit`.
        cov_type : {"sandwich", "laplace"}
            "laplace" trusts the model: graphs are independent, and it fits them.
            "sandwich" takes the variance of the gradient from the differences between
            clusters, whether or not the model fits.
        clusters : array of shape (n_graphs,), optional
            For "sandwich": label of the cluster of every graph.  Graphs of a cluster may
            depend on each other: frames of one video, say.  Default: every graph is a
            cluster.

        Returns
        -------
        Posterior
            With the names of statsmodels: ``params``, ``bse``, ``conf_int()``,
            ``summary()``.

        Notes
        -----
        Needs exact inference.  The Hessian costs some ten gradients per eight
        coefficients.
        """
        data = self._data_set(graphs, matchings, sample_weight)
        self._begin(data)
        if len(self._parameters) != len(self._fitted):
            raise InvalidOptionError(
                f"the model was fitted with unmatched={self.unmatched_!r}; the matchings "
                "given need 'any'. Pass the training data."
            )
        self._parameters = self._fitted
        labels = number_clusters(clusters, len(data[0]), "graphs")
        problem = self._problem(data, check_jobs(self.n_jobs))
        observed = Observed(
            units="graphs",
            nobs=_n_graphs(data, sample_weight),
            clusters=np.unique(labels[data[2] > 0.0], return_inverse=True)[1].reshape(-1),
            names=parameter_names(self._fitted, self.feature_names_),
            has_likelihood=True,
        )
        self.posterior_ = infer_posterior(self, problem, observed, cov_type)
        self.log_evidence_ = self.posterior_.log_evidence
        return self.posterior_


def parameter_names(parameters: Parameters, names: list[str] | None) -> tuple[str, ...]:
    """Return the name of every parameter, in the order of the vector."""
    found = feature_names(names, parameters.n_edge)
    found += feature_names(None, parameters.n_left, "unmatched left ")
    found += feature_names(None, parameters.n_right, "unmatched right ")
    return (*found, *["unmatched intercept"] * parameters.is_any)


def _n_graphs(data: DataSet, sample_weight: Any) -> float:
    """Return the sum of the weights as they were given."""
    return float(len(data[0]) if sample_weight is None else np.sum(sample_weight))
