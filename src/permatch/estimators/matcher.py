"""The base of all matchers with one coefficient per feature."""

import math
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils.metadata_routing import UNUSED

from permatch._types import FloatArray, IntArray, Seed
from permatch._validation import (
    MAX_SCORE,
    check_choice,
    check_jobs,
    check_rng,
    no_perfect_matching,
)
from permatch.decoding import bayes_matching, best_matching
from permatch.distribution import MatchingDistribution
from permatch.errors import InfeasibleGraphError, PrecisionError
from permatch.estimators.base import LinearModel
from permatch.estimators.checks import DataSet, check_data_set, check_feature_names
from permatch.graphs import BipartiteGraph, check_graphs
from permatch.inference import AbstractEngine, find_engine, require_marginals
from permatch.metrics import hamming_loss

_DECODERS = ("mode", "bayes")


class BaseMatcher(LinearModel):
    """A linear model of matchings: ``p(matching) ∝ exp(sum of <coef_, edge features>)``.

    Subclasses define the objective over the graphs of a `DataSet` in `_problem`.

    Examples
    --------
    >>> from permatch.estimators import BaseMatcher, MAPMatching, MaxMarginMatching
    >>> issubclass(MAPMatching, BaseMatcher), issubclass(MaxMarginMatching, BaseMatcher)
    (True, True)
    """

    engine: str | AbstractEngine
    scale_features: bool

    _fit_call = "fit(graphs, matchings)"

    # Graphs and matchings take the place of X and y: there is no metadata to route.
    __metadata_request__fit = {"graphs": UNUSED, "matchings": UNUSED}
    __metadata_request__predict = {"graphs": UNUSED}
    __metadata_request__score = {"graphs": UNUSED, "matchings": UNUSED}

    def fit(
        self,
        graphs: Any,
        matchings: Any,
        sample_weight: Any = None,
        *,
        feature_names: Sequence[str] | None = None,
    ) -> Self:
        """Fit the coefficients.

        Parameters
        ----------
        graphs : sequence of (m, m, d) arrays or BipartiteGraph
            Edge features; sizes m may differ between graphs.
        matchings : sequence of integer arrays of shape (m,)
            The true matching of every graph.
        sample_weight : array of shape (n,), optional
            Weight of every graph; 2 is like passing the graph twice.
        feature_names : sequence of str, optional
            A name per feature, saved with the model.

        Returns
        -------
        BaseMatcher
            Itself.
        """
        alpha, options = self._check_alpha(), self._solver_options()
        n_jobs = check_jobs(self.n_jobs)
        data = check_data_set(graphs, matchings, sample_weight)
        names = check_feature_names(feature_names, data[0][0].n_features)
        optimum = self._learn(self._problem(data, n_jobs), alpha, options)
        self.feature_names_ = names
        self._warn(optimum)
        return self

    def predict(
        self, graphs: Any, decode: Literal["mode", "bayes"] = "mode"
    ) -> list[IntArray]:
        """Return one matching per graph.

        Parameters
        ----------
        graphs : sequence of (m, m, d) arrays or BipartiteGraph
            Sizes may differ between graphs.
        decode : {"mode", "bayes"}
            The likeliest matching, or the one with the fewest expected errors (needs
            marginals).

        Returns
        -------
        list of ndarray of shape (m,)
            Left node i of a graph is matched to right node ``matching[i]``.
        """
        check_choice(decode, "decode", _DECODERS)
        if decode == "bayes":
            tables = self.predict_marginals(graphs)
            return [
                bayes_matching(graph.weigh_extra(table), graph.allowed)
                for table, graph in zip(tables, check_graphs(graphs), strict=True)
            ]
        return [_mode(scores, k) for k, scores in enumerate(self._scores(graphs))]

    def predict_marginals(self, graphs: Any) -> list[FloatArray]:
        """Return the probability of every edge of every graph.

        Parameters
        ----------
        graphs : sequence of (m, m, d) arrays or BipartiteGraph
            Sizes may differ between graphs.

        Returns
        -------
        list of ndarray of shape (m, m)
            Rows and columns sum to one, within the errors of a sampling engine.
        """
        scores = self._scores(graphs)
        engine = find_engine(self.engine)
        require_marginals(engine)
        return engine.infer(scores, n_jobs=self.n_jobs).marginals

    def sample(self, graphs: Any, n: int, rng: Seed = None) -> list[IntArray]:
        """Draw matchings of every graph, as `MatchingDistribution` does.

        Parameters
        ----------
        graphs : sequence of (m, m, d) arrays or BipartiteGraph
            Sizes may differ between graphs.
        n : int
            Matchings per graph.
        rng : int, numpy.random.Generator or None
            Seed or generator; every graph has its own stream.

        Returns
        -------
        list of ndarray of shape (n, m)
            One matching per row.
        """
        scores = self._scores(graphs)
        streams = check_rng(rng).spawn(len(scores))
        return [
            self._distribution(table).sample(n, rng=stream)
            for table, stream in zip(scores, streams, strict=True)
        ]

    def score(self, graphs: Any, matchings: Any, sample_weight: Any = None) -> float:
        """Return the share of correct matches, averaged over graphs.

        Parameters
        ----------
        graphs : sequence of (m, m, d) arrays or BipartiteGraph
            Sizes may differ between graphs.
        matchings : sequence of integer arrays of shape (m,)
            The true matching of every graph.
        sample_weight : array of shape (n,), optional
            Weight of every graph in the average.

        Returns
        -------
        float
            One minus the Hamming loss of `predict`.
        """
        self._check_fitted()
        data = check_data_set(graphs, matchings, sample_weight, self.n_features_in_)
        return 1.0 - self._loss(self.coef_, data)

    def log_likelihood(
        self, graphs: Any, matchings: Any, sample_weight: Any = None
    ) -> float:
        """Return the log-probability of the given matchings, averaged over graphs.

        Parameters
        ----------
        graphs : sequence of (m, m, d) arrays or BipartiteGraph
            Sizes may differ between graphs.
        matchings : sequence of integer arrays of shape (m,)
            The matching of every graph.
        sample_weight : array of shape (n,), optional
            Weight of every graph in the average.

        Returns
        -------
        float
            In nats, at most 0; as exact as the engine.
        """
        self._check_fitted()
        data = check_data_set(graphs, matchings, sample_weight, self.n_features_in_)
        return self._log_likelihood(self.coef_, data)

    def distribution(self, graph: Any) -> MatchingDistribution:
        """Return the model's distribution over the matchings of one graph.

        Parameters
        ----------
        graph : (m, m, d) array or BipartiteGraph
            One graph.

        Returns
        -------
        MatchingDistribution
            Gives marginals, samples, the k best matchings and more.
        """
        (scores,) = self._scores([graph])
        return self._distribution(scores)

    def _loss(self, coef: FloatArray, data: DataSet) -> float:
        """Return the Hamming loss of some coefficients on checked data."""
        graphs, labels, weights = data
        found = [_mode(table, k) for k, table in enumerate(score_graphs(graphs, coef))]
        aligned = [
            graph.align_extra(matching, label)
            for graph, matching, label in zip(graphs, found, labels, strict=True)
        ]
        return hamming_loss(labels, aligned, sample_weight=weights)

    def _log_likelihood(self, coef: FloatArray, data: DataSet) -> float:
        """Return the mean log-likelihood of some coefficients on checked data."""
        graphs, labels, weights = data
        scores = score_graphs(graphs, coef)
        totals = [
            table[np.arange(len(label)), label].sum()
            for table, label in zip(scores, labels, strict=True)
        ]
        result = find_engine(self.engine).infer(scores, n_jobs=self.n_jobs)
        log_probs = np.array(totals) - result.log_partition
        # An unmatched node may have any of the dummy nodes.
        log_probs += [math.lgamma(1 + graph.n_extra) for graph in graphs]
        # Rounding must not push a probability above 1.
        return float(weights @ np.minimum(log_probs, 0.0))

    def _scores(self, graphs: Any) -> list[FloatArray]:
        self._check_fitted()
        return score_graphs(check_graphs(graphs, self.n_features_in_), self.coef_)

    def _distribution(self, scores: FloatArray) -> MatchingDistribution:
        return MatchingDistribution(scores, self.engine, n_jobs=self.n_jobs)


def score_graphs(graphs: list[BipartiteGraph], coef: FloatArray) -> list[FloatArray]:
    """Return the edge scores of every graph; refuse features that are too large."""
    tables = []
    for k, graph in enumerate(graphs):
        with np.errstate(over="ignore", invalid="ignore"):  # caught at once
            table = graph.scores(coef)
        used = table if graph.allowed is None else table[graph.allowed]
        largest = np.abs(used).max(initial=0.0)
        if not largest <= MAX_SCORE:  # false for NaN too
            raise PrecisionError(
                f"scores must be at most {MAX_SCORE:g} in size; the features of graph {k} "
                f"times the coefficients reach {largest:.3g}. Divide the features by a "
                "large number, in both fit and predict."
            )
        tables.append(table)
    return tables


def _mode(scores: FloatArray, position: int) -> IntArray:
    try:
        return best_matching(scores)
    except InfeasibleGraphError as err:
        raise no_perfect_matching(scores, f"graph {position}") from err
