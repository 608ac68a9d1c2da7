"""What all matchers share once they have a coefficient for every feature."""

import math
from collections.abc import Sequence
from os import PathLike
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import UNUSED

from permatch._types import FloatArray, IntArray, Seed
from permatch._validation import (
    MAX_SCORE,
    check_rng,
    check_weights,
    no_perfect_matching,
)
from permatch.decoding import bayes_matching, best_matching
from permatch.distribution import MatchingDistribution
from permatch.errors import (
    InfeasibleGraphError,
    InvalidOptionError,
    NotFittedError,
    PrecisionError,
)
from permatch.estimators.persistence import save_model
from permatch.graphs import BipartiteGraph, check_graphs, check_labels
from permatch.inference import AbstractEngine, find_engine, require_marginals
from permatch.metrics import hamming_loss

_DECODERS = ("mode", "bayes")

#: Graphs, their matchings, and their weights, which sum to one.
DataSet = tuple[list[BipartiteGraph], list[IntArray], FloatArray]


class BaseMatcher(BaseEstimator):
    """A linear model of matchings: ``p(matching) ∝ exp(sum of <coef_, edge features>)``.

    Subclasses have the parameters `engine` and `n_jobs`, and a `fit` that sets ``coef_``,
    ``scale_``, ``n_features_in_`` and ``feature_names_``.

    Examples
    --------
    >>> from permatch.estimators import BaseMatcher, MAPMatching, MaxMarginMatching
    >>> issubclass(MAPMatching, BaseMatcher), issubclass(MaxMarginMatching, BaseMatcher)
    (True, True)
    """

    engine: str | AbstractEngine
    n_jobs: int | None
    coef_: FloatArray
    scale_: FloatArray
    n_features_in_: int
    feature_names_: list[str] | None

    # Graphs and matchings stand where scikit-learn has X and y: no metadata to be routed.
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
        """Learn ``coef_`` from graphs and their matchings."""
        raise NotImplementedError

    def predict(
        self, graphs: Any, decode: Literal["mode", "bayes"] = "mode"
    ) -> list[IntArray]:
        """Return a matching for every graph.

        Parameters
        ----------
        graphs : sequence of (m, m, d) arrays or BipartiteGraph
            Sizes may differ between graphs.
        decode : {"mode", "bayes"}
            The likeliest matching, or the one with the fewest expected errors, which needs
            marginals.

        Returns
        -------
        list of ndarray of shape (m,)
            Left node i of a graph is matched to right node ``matching[i]``.
        """
        if decode not in _DECODERS:
            raise InvalidOptionError(
                f"decode must be one of {', '.join(map(repr, _DECODERS))}; got {decode!r}."
            )
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
            Rows and columns sum to one, within its errors if the engine draws.
        """
        scores = self._scores(graphs)
        engine = find_engine(self.engine)
        require_marginals(engine)
        return engine.infer(scores, n_jobs=self.n_jobs).marginals

    def sample(self, graphs: Any, n: int, rng: Seed = None) -> list[IntArray]:
        """Draw matchings of every graph from the model, as `MatchingDistribution` does.

        Parameters
        ----------
        graphs : sequence of (m, m, d) arrays or BipartiteGraph
            Sizes may differ between graphs.
        n : int
            Matchings per graph.
        rng : int, numpy.random.Generator or None
            Seed or generator; every graph draws from a stream of its own.

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
        """Return the share of rows matched rightly, averaged over graphs.

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
        checked, labels, weights = check_data_set(
            graphs, matchings, sample_weight, self.n_features_in_
        )
        return 1.0 - self._loss(checked, labels, weights)

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
            In nats, at most 0; as exact as the engine, an estimate where that one
            approximates or draws.
        """
        self._check_fitted()
        checked, labels, weights = check_data_set(
            graphs, matchings, sample_weight, self.n_features_in_
        )
        scores = score_graphs(checked, self.coef_)
        totals = [
            table[np.arange(len(label)), label].sum()
            for table, label in zip(scores, labels, strict=True)
        ]
        result = find_engine(self.engine).infer(scores, n_jobs=self.n_jobs)
        log_probs = np.array(totals) - result.log_partition
        # Whoever stays without a partner may have any of the extra nodes.
        log_probs += [math.lgamma(1 + graph.n_extra) for graph in checked]
        # Rounding must not make the only possible matching likelier than certain.
        return float(weights @ np.minimum(log_probs, 0.0))

    def distribution(self, graph: Any) -> MatchingDistribution:
        """Return the model's distribution over the matchings of one graph.

        Parameters
        ----------
        graph : (m, m, d) array or BipartiteGraph
            One graph.

        Returns
        -------
        MatchingDistribution
            To be asked for marginals, samples, the k best matchings and more.
        """
        (scores,) = self._scores([graph])
        return self._distribution(scores)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model to a JSON file, to be read by `permatch.load`.

        Parameters
        ----------
        path : str or path
            An existing file is replaced, and never left half-written.
        """
        self._check_fitted()
        save_model(self, path)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    def _loss(
        self, graphs: list[BipartiteGraph], labels: list[IntArray], weights: FloatArray
    ) -> float:
        """Return the Hamming loss on checked data."""
        both = zip(graphs, self.predict(graphs), labels, strict=True)
        found = [graph.align_extra(matching, label) for graph, matching, label in both]
        return hamming_loss(labels, found, sample_weight=weights)

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            name = type(self).__name__
            raise NotFittedError(
                f"this needs a fitted {name}, and this one has not been fitted. Call "
                "fit(graphs, matchings) first, or read a fitted model with permatch.load."
            )

    def _scores(self, graphs: Any) -> list[FloatArray]:
        self._check_fitted()
        return score_graphs(check_graphs(graphs, self.n_features_in_), self.coef_)

    def _distribution(self, scores: FloatArray) -> MatchingDistribution:
        return MatchingDistribution(scores, self.engine, n_jobs=self.n_jobs)


def check_data_set(
    graphs: Any, matchings: Any, sample_weight: Any, n_features: int | None = None
) -> DataSet:
    """Return labelled graphs with their matchings and weights, all checked."""
    checked = check_graphs(graphs, n_features)
    labels = check_labels(checked, matchings)
    return checked, labels, check_weights(sample_weight, len(checked))


def score_graphs(graphs: list[BipartiteGraph], coef: FloatArray) -> list[FloatArray]:
    """Return the edge scores of every graph, or say which one has features too large."""
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
                "large number, in fit and predict alike."
            )
        tables.append(table)
    return tables


def check_feature_names(names: Sequence[str] | None, n_features: int) -> list[str] | None:
    """Return one distinct name per feature, or None if there are none."""
    if names is None:
        return None
    try:
        found = [names] if isinstance(names, str) else list(names)
    except TypeError as err:
        raise InvalidOptionError(
            f"feature_names must be a sequence of strings; got {names!r}."
        ) from err
    if not all(isinstance(name, str) for name in found):
        raise InvalidOptionError(f"feature_names must be strings; got {found!r}.")
    if len(found) != n_features or len(set(found)) != n_features:
        raise InvalidOptionError(
            f"feature_names must be {n_features} different strings, one per feature; got "
            f"{len(found)}, {len(set(found))} of them different."
        )
    return [str(name) for name in found]


def check_number(value: Any, name: str, *, is_zero_allowed: bool = True) -> float:
    """Return a finite number of at least, or above, 0."""
    is_number = isinstance(value, int | float | np.integer | np.floating)
    try:
        number = float(value) if is_number and not isinstance(value, bool) else np.nan
    except OverflowError:  # a whole number beyond all floats
        number = np.inf
    if not (0.0 <= number < np.inf) or (number == 0.0 and not is_zero_allowed):
        bound = "of at least 0" if is_zero_allowed else "above 0"
        raise InvalidOptionError(f"{name} must be a finite number {bound}; got {value!r}.")
    return number


def _mode(scores: FloatArray, position: int) -> IntArray:
    try:
        return best_matching(scores)
    except InfeasibleGraphError as err:
        raise no_perfect_matching(scores, f"graph {position}") from err
