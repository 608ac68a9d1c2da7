"""The contract of matchers: predict matchings and probabilities of edges, measure, save."""

from abc import abstractmethod
from functools import partial
from typing import Any, Literal

import numpy as np
from sklearn.utils.metadata_routing import UNUSED

from permatch._types import FloatArray, IntArray, Seed
from permatch._validation import check_choice, check_rng
from permatch.decoding import LinkCosts
from permatch.distributed import is_in_parts
from permatch.distribution import MatchingDistribution
from permatch.errors import InvalidOptionError
from permatch.estimators.base import BaseModel
from permatch.estimators.checks import DataSet, check_data_set, check_graphs
from permatch.estimators.links import link_table
from permatch.estimators.matching_parts import (
    GraphsInParts,
    open_more,
    predict_in_parts,
    refuse_weights,
)
from permatch.estimators.scored import Scored, mean_log_likelihood
from permatch.graphs import BipartiteGraph
from permatch.inference import AbstractEngine, find_engine
from permatch.metrics import hamming_loss

_DECODERS = ("mode", "bayes")


class BaseMatcher(BaseModel):
    """A model of matchings: it gives scores to edges and to staying unmatched.

    Subclasses learn in `fit` and score checked graphs in `_scored`.

    Examples
    --------
    >>> from permatch.estimators import BaseMatcher, MAPMatching, MaxMarginMatching
    >>> issubclass(MAPMatching, BaseMatcher), issubclass(MaxMarginMatching, BaseMatcher)
    (True, True)
    """

    engine: str | AbstractEngine
    n_jobs: int | None
    unmatched_: str = "larger"
    unmatched_intercept_: float = 0.0
    columns_: dict[str, Any] | None = None  # of the table it was fitted on, by their roles

    _fit_call = "fit(graphs, matchings)"

    # Graphs and matchings take the place of X and y: there is no metadata to route.
    __metadata_request__fit = {"graphs": UNUSED, "matchings": UNUSED}
    __metadata_request__predict = {"graphs": UNUSED}
    __metadata_request__score = {"graphs": UNUSED, "matchings": UNUSED}

    @abstractmethod
    def _scored(self, graphs: list[BipartiteGraph]) -> Scored:
        """Return checked graphs with their scores."""

    @abstractmethod
    def _odds(self, features: FloatArray) -> FloatArray:
        """Return the log-odds of pairs by themselves, from their features (n, d).

        Such a pair is linked, or both its nodes are unmatched.
        """

    @abstractmethod
    def contributions(self, features: FloatArray) -> FloatArray:
        """Return what each feature adds to the scores of some edges.

        Parameters
        ----------
        features : ndarray of shape (n_edges, d)
            Features of edges, in the order of the fit.

        Returns
        -------
        ndarray of shape (n_edges, d + 1)
            Last a constant; a row sums to the score of its edge.
        """

    @property
    @abstractmethod
    def _n_node_features(self) -> tuple[int, int]:
        """Features of left nodes and of right nodes."""

    def predict(
        self,
        graphs: Any,
        decode: Literal["mode", "bayes"] = "mode",
        *,
        costs: LinkCosts | None = None,
    ) -> Any:
        """Return one matching per graph.

        Parameters
        ----------
        graphs : sequence of (n, k, d) arrays or BipartiteGraph, or a table in parts
            Sizes may differ between graphs; in parts as in `fit`, labels are not needed.
        decode : {"mode", "bayes"}
            The likeliest matching, or the one with the fewest expected errors (needs
            marginals).
        costs : LinkCosts, optional
            With "bayes", what missed, false and wrong links cost, and leaving a node to a
            person, which a table in parts does not take; default: every left node treated
            wrongly counts as one error.

        Returns
        -------
        list of ndarray of shape (n,)
            Left node i of a graph is matched to right node ``matching[i]``; -1: unmatched,
            ``pm.ABSTAINED`` (-2): left to a person.  Of a table in parts: for every pair
            whether it is matched, in the order of the rows; of a Dask DataFrame a Dask
            Series, and of delayed graphs delayed lists, not yet computed.
        """
        check_choice(decode, "decode", _DECODERS)
        if costs is not None and (decode != "bayes" or not isinstance(costs, LinkCosts)):
            raise InvalidOptionError(
                "costs must be permatch.LinkCosts(...), with decode='bayes'; got "
                f"{costs!r} with decode={decode!r}."
            )
        if is_in_parts(graphs):
            self._check_fitted()
            is_table = not isinstance(graphs, list | tuple)
            if is_table and costs is not None and costs.abstain is not None:
                raise InvalidOptionError(
                    "of a table in parts predict says of every pair whether it is matched, "
                    "which cannot say that a node is left to a person; got costs.abstain="
                    f"{costs.abstain:g}. Leave abstain out, or predict graphs in memory or "
                    "as delayed parts."
                )
            bayes = partial(_predict_with, decode=decode, costs=costs)
            return predict_in_parts(self, graphs, bayes, np.bool_)
        scored = self._score(graphs)
        if decode == "mode":
            return scored.modes()
        return scored.bayes(scored.infer(find_engine(self.engine), self.n_jobs), costs)

    def predict_marginals(
        self,
        graphs: Any,
        *,
        uncertainty: Any = None,
        level: float = 0.95,
        n_draws: int = 0,
        rng: Seed = 0,
    ) -> Any:
        """Return the probability of every edge of every graph.

        Parameters
        ----------
        graphs : sequence of (n, k, d) arrays or BipartiteGraph, or a table in parts
            Sizes may differ between graphs; in parts as in `fit`, labels are not needed.
        uncertainty, level, n_draws, rng
            For intervals, of `MAPMatching` alone, which has a likelihood.

        Returns
        -------
        list of ndarray of shape (n, k), or (n_edges,) for graphs made from edges
            Rows and columns sum to one, less the probability that the node is unmatched,
            within the errors of a sampling engine.  Of a table in parts: the probability
            of every pair, in the order of the rows; of a Dask DataFrame a Dask Series, and
            of delayed graphs delayed lists, not yet computed.
        """
        if uncertainty is not None:
            raise InvalidOptionError(
                "intervals of probabilities need a model with a likelihood, MAPMatching or "
                f"MAPMatchingCV; got {type(self).__name__}. Fit one of these, or leave "
                "uncertainty out."
            )
        if is_in_parts(graphs):
            self._check_fitted()
            return predict_in_parts(self, graphs, _marginals_by, np.float64)
        return self._score(graphs).infer(find_engine(self.engine), self.n_jobs).marginals

    def predict_links(
        self, graphs: Any, threshold: float | None = None
    ) -> dict[str, np.ndarray]:
        """Return the edges of all graphs as a table, the most probable first.

        Parameters
        ----------
        graphs : sequence of (n, k, d) arrays or BipartiteGraph
            Sizes may differ between graphs.
        threshold : float, optional
            Leave out edges with a smaller probability.  Above 0.5, no node has two links.

        Returns
        -------
        dict of ndarray
            Columns ``graph``, ``left``, ``right`` (numbers), ``probability``, and
            ``precision`` and ``recall``: those expected if all links with at least this
            probability are taken.
        """
        scored = self._score(graphs)
        result = scored.infer(find_engine(self.engine), self.n_jobs)
        return link_table(scored.graphs, scored.on_edges(result.marginals), threshold)

    def sample(self, graphs: Any, n: int, rng: Seed = None) -> list[IntArray]:
        """Draw matchings of every graph, as `MatchingDistribution` does.

        Parameters
        ----------
        graphs : sequence of (n, k, d) arrays or BipartiteGraph
            Sizes may differ between graphs.
        n : int
            Matchings per graph.
        rng : int, numpy.random.Generator or None
            Seed or generator; every graph has its own stream.

        Returns
        -------
        list of ndarray of shape (n, n_left)
            One matching per row; -1: unmatched.
        """
        scored = self._score(graphs).each()
        streams = check_rng(rng).spawn(len(scored))
        return [
            self._distribution(one).sample(n, rng=stream)
            for one, stream in zip(scored, streams, strict=True)
        ]

    def score(self, graphs: Any, matchings: Any = None, sample_weight: Any = None) -> float:
        """Return the share of left nodes predicted rightly, averaged over graphs.

        Parameters
        ----------
        graphs : sequence of (n, k, d) arrays or BipartiteGraph, or a table in parts
            Sizes may differ between graphs; in parts as in `fit`.
        matchings : sequence of integer arrays of shape (n,), Known or EdgeLabels
            The true matching of every graph, or what is known of it; of a table in parts
            the columns, by default those of the fit.
        sample_weight : array of shape (n_graphs,), optional
            Weight of every graph in the average.

        Returns
        -------
        float
            One minus the Hamming loss of `predict`, over left nodes whose label is known.
        """
        if is_in_parts(graphs):
            data = self._labelled_parts(graphs, matchings, sample_weight)
            return 1.0 - data.hamming_loss(partial(_modes_by, self))
        checked, labels, shares = self._data_set(graphs, matchings, sample_weight)
        true = [known.matching for known in labels]
        found = self._scored(checked).modes()
        return 1.0 - hamming_loss(true, found, sample_weight=shares)

    def log_likelihood(
        self, graphs: Any, matchings: Any = None, sample_weight: Any = None
    ) -> float:
        """Return the log-probability of the given matchings, averaged over graphs.

        Parameters
        ----------
        graphs : sequence of (n, k, d) arrays or BipartiteGraph, or a table in parts
            Sizes may differ between graphs; in parts as in `fit`.
        matchings : sequence of integer arrays of shape (n,), Known or EdgeLabels
            The matching of every graph, or what is known of it; of a table in parts the
            columns, by default those of the fit.
        sample_weight : array of shape (n_graphs,), optional
            Weight of every graph in the average.

        Returns
        -------
        float
            In nats, at most 0; as exact as the engine.  Of an incomplete label, that of
            what is known.
        """
        if is_in_parts(graphs):
            parts = self._labelled_parts(graphs, matchings, sample_weight)
            return parts.log_likelihood(partial(_log_likelihood_by, self))
        return _log_likelihood_by(self, self._data_set(graphs, matchings, sample_weight))

    def distribution(self, graph: Any) -> MatchingDistribution:
        """Return the model's distribution over the matchings of one graph.

        Parameters
        ----------
        graph : (n, k, d) array or BipartiteGraph
            One graph.

        Returns
        -------
        MatchingDistribution
            Gives marginals, samples, the k best matchings and more.
        """
        _refuse_parts(graph)
        (scored,) = self._score([graph]).each()
        if self.unmatched_ != "any":
            scored.modes()  # tells how to let nodes stay unmatched if it has to be
        return self._distribution(scored)

    def _data_set(self, graphs: Any, matchings: Any, sample_weight: Any) -> DataSet:
        """Return labelled graphs with as many features as the model has."""
        self._check_fitted()
        return check_data_set(
            graphs, matchings, sample_weight, self.n_features_in_, self._n_node_features
        )

    def _labelled_parts(
        self, graphs: Any, matchings: Any, sample_weight: Any
    ) -> GraphsInParts:
        """Return labelled graphs in parts with as many features as the model has."""
        self._check_fitted()
        refuse_weights(sample_weight)
        n_features = (self.n_features_in_, *self._n_node_features)
        inputs = self.columns_, self.feature_names_, n_features
        return open_more(graphs, matchings, *inputs)

    def _score(self, graphs: Any) -> Scored:
        _refuse_parts(graphs)
        self._check_fitted()
        checked = check_graphs(graphs, self.n_features_in_, self._n_node_features)
        return self._scored(checked)

    def _distribution(self, scored: Scored) -> MatchingDistribution:
        unmatched: Any = {name: values[0] for name, values in scored.unmatched.items()}
        return MatchingDistribution(
            scored.scores[0], self.engine, n_jobs=self.n_jobs, **unmatched
        )


def _refuse_parts(graphs: Any) -> None:
    """Refuse graphs in parts where all have to be in memory."""
    if is_in_parts(graphs):
        raise InvalidOptionError(
            "predict_links, sample and distribution need graphs in memory; got data in "
            f"parts ({type(graphs).__name__}). Read them with "
            "permatch.datasets.read_edge_table, or use predict_marginals, which takes them."
        )


def _modes_by(model: BaseMatcher, graphs: Any) -> list[IntArray]:
    return model._scored(graphs).modes()


def _log_likelihood_by(model: BaseMatcher, data: DataSet) -> float:
    """Return the mean log-likelihood of checked data."""
    engine, is_any = find_engine(model.engine), model.unmatched_ == "any"
    scored = model._scored(data[0])
    return mean_log_likelihood(scored, data, engine, model.n_jobs, is_any=is_any)


def _predict_with(
    model: BaseMatcher, graphs: Any, *, decode: Any, costs: LinkCosts | None
) -> list[IntArray]:
    return model.predict(graphs, decode, costs=costs)


def _marginals_by(model: BaseMatcher, graphs: Any) -> list[FloatArray]:
    return model.predict_marginals(graphs)
