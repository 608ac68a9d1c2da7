"""Inference after fitting a model of matchings."""

from typing import Any, overload

import numpy as np

from permatch._blas import one_blas_thread
from permatch._parallel import Job
from permatch._types import FloatArray, IntArray, Seed
from permatch._validation import check_jobs
from permatch.distributed import is_in_parts
from permatch.errors import InvalidOptionError
from permatch.estimators.checks import DataSet
from permatch.estimators.matching_parts import GraphsInParts
from permatch.estimators.scored import Scored, score_graphs
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
from permatch.graphs import BipartiteGraph
from permatch.inference import InferenceResult, find_engine
from permatch.inference.tangents import Directions, infer_tangents
from permatch.objectives import Parameters

#: Training data, in memory or in parts.
Data = DataSet | GraphsInParts


class MatchingInference:
    """What a matcher with a likelihood says about its coefficients."""

    posterior_: Posterior
    log_evidence_: float

    @one_blas_thread()
    def inference(
        self: Any,
        graphs: Any,
        matchings: Any = None,
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
            The training data, as in `fit`; in parts too.
        cov_type : {"sandwich", "laplace"}
            "laplace" trusts the model: graphs are independent, and it fits them.
            "sandwich" takes the variance of the gradient from the differences between
            clusters, whether or not the model fits.
        clusters : array of shape (n_graphs,), optional
            For "sandwich": label of the cluster of every graph.  Graphs of a cluster may
            depend on each other: frames of one video, say.  Default: every graph is a
            cluster; of a single graph whose nodes may stay unmatched, every connected
            component.

        Returns
        -------
        Posterior
            With the names of statsmodels: ``params``, ``bse``, ``conf_int()``,
            ``summary()``.

        Notes
        -----
        With an engine that is not exact, such as Bethe, the posterior is that of the
        approximation, and its ``notes`` say so.  The Hessian costs some ten gradients per
        eight coefficients.
        """
        data = self._given(graphs, matchings, sample_weight)
        self._begin(data)
        if len(self._parameters) != len(self._fitted):
            raise InvalidOptionError(
                f"the model was fitted with unmatched={self.unmatched_!r}; the matchings "
                f"given need {'any' if self._parameters.is_any else 'larger'!r}. Pass the "
                "training data."
            )
        self._parameters = self._fitted
        labels = _cluster_graphs(clusters, data)
        if isinstance(data, GraphsInParts) and len(labels) == 1 and cov_type == "sandwich":
            raise InvalidOptionError(
                "cov_type='sandwich' needs at least 2 clusters, and of data in parts every "
                "graph is one; got a single graph. Load the graph, whose components are "
                "then the clusters, or use cov_type='laplace'."
            )
        problem = self._problem(data, check_jobs(self.n_jobs))
        alpha, nobs, units = self._penalty(), n_graphs(data, sample_weight), "graphs"
        is_single = len(labels) == 1 and not isinstance(data, GraphsInParts)
        if is_single and self.unmatched_ == "any" and cov_type == "sandwich":
            problem, units = problem.by_component(), "components"
            labels = np.arange(len(problem.shares))
            # The sum over components is that over the graph, their mean is not.
            alpha, nobs = alpha / len(labels), nobs * len(labels)
        observed = Observed(
            alpha=alpha,
            units=units,
            nobs=nobs,
            clusters=labels,
            names=parameter_names(self._fitted, self.feature_names_),
            has_likelihood=True,
        )
        self.posterior_ = infer_posterior(self, problem, observed, cov_type)
        self.log_evidence_ = self.posterior_.log_evidence
        return self.posterior_

    def _given(self: Any, graphs: Any, matchings: Any, sample_weight: Any) -> Data:
        """Return the training data of a fitted model, in memory or in parts."""
        self._check_fitted()
        self._names = self.feature_names_
        if not is_in_parts(graphs):
            return self._data_set(graphs, matchings, sample_weight)
        return self._labelled_parts(graphs, matchings, sample_weight)

    @overload
    def predict_marginals(
        self,
        graphs: Any,
        *,
        uncertainty: None = None,
        level: float = 0.95,
        n_draws: int = 0,
        rng: Seed = 0,
    ) -> list[FloatArray]: ...
    @overload
    def predict_marginals(
        self,
        graphs: Any,
        *,
        uncertainty: Posterior,
        level: float = 0.95,
        n_draws: int = 0,
        rng: Seed = 0,
    ) -> list[MarginalIntervals]: ...
    @one_blas_thread()
    def predict_marginals(
        self: Any,
        graphs: Any,
        *,
        uncertainty: Posterior | None = None,
        level: float = 0.95,
        n_draws: int = 0,
        rng: Seed = 0,
    ) -> Any:
        """Return the probability of every edge of every graph.

        Parameters
        ----------
        graphs : sequence of (n, k, d) arrays or BipartiteGraph, or a table in parts
            Sizes may differ between graphs; in parts as in `fit`.
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
        list of ndarray of shape (n, k), or (n_edges,) for graphs made from edges
            Rows and columns sum to one, less the probability that the node is unmatched,
            within the errors of a sampling engine.  With `uncertainty`: a list of
            `MarginalIntervals`, whose arrays have these shapes, and which have intervals
            for staying unmatched too.  Of a table in parts: the
            probability of every pair, in the order of the rows; of a Dask DataFrame a Dask
            Series, and of delayed graphs delayed lists, not yet computed.
        """
        if uncertainty is not None and is_in_parts(graphs):
            raise InvalidOptionError(
                "intervals need graphs in memory; got a table in parts. Predict it part by "
                "part, or leave uncertainty out."
            )
        if uncertainty is None:
            return super().predict_marginals(graphs)  # pyright: ignore
        wanted = check_wanted(uncertainty, self._weights(), level, n_draws)
        posterior, level, n_draws = wanted
        scored, engine = self._score(graphs), find_engine(self.engine)
        if not n_draws and not scored.may_be_exact_by(engine):
            raise _not_exact(engine.name)  # before anything is computed
        result = scored.infer(engine, self.n_jobs)
        found: list[FloatArray] = result.marginals
        if n_draws:

            def infer(weights: FloatArray) -> FloatArray:
                other = score_graphs(scored.graphs, weights, self._fitted)
                return _flat(other, other.infer(engine, self.n_jobs))

            method = "draws" if result.is_exact else "draws, approximate"
            parts = drawn_intervals(posterior, infer, level, n_draws, rng)
        elif not result.is_exact:
            raise _not_exact(result.diagnostics.engine)
        else:
            slopes = _Slopes(scored, self._fitted, check_jobs(self.n_jobs))
            parts = delta_intervals(_flat(scored, result), posterior, slopes, level)
            method = "delta" if slopes.is_exact else "delta, exact samples"
        told: dict[str, Any] = {"level": level, "method": method}
        each = [_split(scored.graphs, part) for part in parts]
        answers = []
        for graph, own, left, right, *ends in zip(
            scored.graphs,
            found,
            result.unmatched_left,
            result.unmatched_right,
            *each,
            strict=True,
        ):
            of_edges, of_left, of_right = zip(*ends, strict=True)
            errors, low, high = (_like(graph, values, own) for values in of_edges)
            sides: dict[str, Any] = {
                "unmatched_left": MarginalIntervals(left, *of_left, **told),
                "unmatched_right": MarginalIntervals(right, *of_right, **told),
            }
            answers.append(MarginalIntervals(own, errors, low, high, **told, **sides))
        return answers


def _not_exact(engine: str) -> InvalidOptionError:
    """Return the error that derivatives are others than those of the distribution."""
    return InvalidOptionError(
        f"the delta method needs exact probabilities; those of engine {engine!r} are not, "
        "for these graphs. Use engine='auto' (--engine auto), if it is exact for them, or "
        "n_draws=200 for intervals of approximate probabilities."
    )


def _flat(scored: Scored, result: InferenceResult) -> FloatArray:
    """Return the probabilities of all edges, then of all left and all right nodes."""
    values = *scored.on_edges(result.marginals), *result.unmatched_left
    return np.concatenate([np.zeros(0), *values, *result.unmatched_right])


def _split(graphs: list[BipartiteGraph], values: FloatArray) -> list[Any]:
    """Return what `_flat` has of edges, left nodes and right nodes, by graph."""
    sizes = [
        *(graph.n_edges for graph in graphs),
        *(graph.n_left for graph in graphs),
        *(graph.n_right for graph in graphs),
    ]
    parts, n = np.split(values, np.cumsum(sizes)[:-1]), len(graphs)
    return list(zip(parts[:n], parts[n : 2 * n], parts[2 * n :], strict=True))


class _Slopes:
    """Derivatives of the probabilities of `_flat` by the weights, in given directions."""

    def __init__(self, scored: Scored, parameters: Parameters, n_jobs: int) -> None:
        self.scored, self.parameters = scored, parameters
        self.problem, _ = scored.problem
        self.job = Job(n_jobs)
        self.is_exact = True  # so far

    def __call__(self, directions: FloatArray) -> FloatArray:
        """Return the derivatives (n, k) in some directions (p, k)."""
        graphs, n_edge = self.scored.graphs, self.parameters.n_edge
        n_left, is_any = self.parameters.n_left, self.parameters.is_any
        own = directions[:n_edge]
        left = directions[n_edge : n_edge + n_left]
        right = directions[n_edge + n_left : len(directions) - is_any]
        shift = directions[-1] if is_any else 0.0
        along = Directions(
            np.concatenate([graph.edge_features @ own for graph in graphs]),
            np.concatenate([graph.left_features @ left for graph in graphs]) + shift,
            np.concatenate([graph.right_features @ right for graph in graphs]) + shift,
        )
        found = infer_tangents(self.problem, along, self.job)
        self.is_exact &= found.error == 0.0
        return np.concatenate([found.edges, found.left, found.right])


def _like(graph: BipartiteGraph, values: FloatArray, like: FloatArray) -> FloatArray:
    """Return values on edges in the form of the marginals of the graph."""
    if like.shape == values.shape:
        return values
    laid = np.zeros(like.shape)
    laid[graph.structure.left, graph.structure.right] = values
    return laid


def parameter_names(parameters: Parameters, names: list[str] | None) -> tuple[str, ...]:
    """Return the name of every parameter, in the order of the vector."""
    found = feature_names(names, parameters.n_edge)
    found += feature_names(None, parameters.n_left, "unmatched left ")
    found += feature_names(None, parameters.n_right, "unmatched right ")
    return (*found, *["unmatched intercept"] * parameters.is_any)


def _cluster_graphs(clusters: Any, data: Data) -> IntArray:
    """Return the cluster of every graph with a weight, numbered from 0."""
    if not isinstance(data, GraphsInParts):
        labels = number_clusters(clusters, len(data[0]), "graphs")
        return np.unique(labels[data[2] > 0.0], return_inverse=True)[1].reshape(-1)
    if clusters is not None:
        raise InvalidOptionError(
            "clusters need graphs in memory; of graphs in parts each is a cluster. Leave "
            "clusters out, or load the graphs."
        )
    return np.arange(data.n_graphs)


def n_graphs(data: Data, sample_weight: Any) -> float:
    """Return the sum of the weights as they were given."""
    if isinstance(data, GraphsInParts):
        return float(data.n_graphs)
    return float(len(data[0]) if sample_weight is None else np.sum(sample_weight))
