"""The base of all matchers with one coefficient per feature."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils.metadata_routing import UNUSED

from permatch._types import FloatArray, IntArray, Seed
from permatch._validation import (
    check_choice,
    check_jobs,
    check_rng,
)
from permatch.decoding import LinkCosts
from permatch.distributed import is_in_parts
from permatch.distribution import MatchingDistribution
from permatch.errors import InvalidMatchingError, InvalidOptionError
from permatch.estimators.base import LinearModel
from permatch.estimators.checks import (
    DataSet,
    check_data_set,
    check_feature_names,
    check_graphs,
    with_weight,
)
from permatch.estimators.links import link_table
from permatch.estimators.matching_parts import (
    GraphsInParts,
    open_training,
    predict_in_parts,
)
from permatch.estimators.scored import Scored, score_graphs
from permatch.graphs import BipartiteGraph
from permatch.inference import AbstractEngine, find_engine
from permatch.labels import require_known
from permatch.metrics import hamming_loss
from permatch.objectives import Parameters, arrange

_DECODERS = ("mode", "bayes")
_UNMATCHED = ("auto", "larger", "any")

#: Checked training data, in memory or in parts.
Data = DataSet | GraphsInParts


class BaseMatcher(LinearModel):
    """A linear model of matchings.

    The log-weight of a matching is ``<coef_, edge features>`` summed over its edges, plus
    ``unmatched_intercept_ + <unmatched_left_coef_, node features>`` summed over unmatched
    left nodes, and likewise on the right.  Subclasses define the objective over the graphs
    of a `DataSet` in `_problem`.

    Examples
    --------
    >>> from permatch.estimators import BaseMatcher, MAPMatching, MaxMarginMatching
    >>> issubclass(MAPMatching, BaseMatcher), issubclass(MaxMarginMatching, BaseMatcher)
    (True, True)
    """

    engine: str | AbstractEngine
    scale_features: bool
    unmatched: str
    unmatched_: str = "larger"
    unmatched_left_coef_: FloatArray = np.zeros(0)
    unmatched_right_coef_: FloatArray = np.zeros(0)
    unmatched_intercept_: float = 0.0
    columns_: dict[str, Any] | None = None  # of the table it was fitted on, by their roles

    _parameters: Parameters  # of the fit in progress

    _fit_call = "fit(graphs, matchings)"

    # Graphs and matchings take the place of X and y: there is no metadata to route.
    __metadata_request__fit = {"graphs": UNUSED, "matchings": UNUSED}
    __metadata_request__predict = {"graphs": UNUSED}
    __metadata_request__score = {"graphs": UNUSED, "matchings": UNUSED}

    def fit(
        self,
        graphs: Any,
        matchings: Any = None,
        sample_weight: Any = None,
        *,
        feature_names: Sequence[str] | None = None,
    ) -> Self:
        """Fit the coefficients.

        Parameters
        ----------
        graphs : sequence of (n, k, d) arrays or BipartiteGraph, or a table in parts
            Edge features; sizes may differ between graphs.  See the notes for data that do
            not fit into memory.
        matchings : sequence of integer arrays of shape (n,), Known or EdgeLabels
            The true matching of every graph: the right node of every left node, -1 if it is
            unmatched, -2 if that is not known.  `Known` and `EdgeLabels` can also say which
            pairs do not match.  Of a table in parts: the name of the column with the
            labels, or a mapping from ``graph``, ``left``, ``right`` and ``label`` to names.
        sample_weight : array of shape (n_graphs,), optional
            Weight of every graph; 2 is like passing the graph twice.
        feature_names : sequence of str, optional
            A name per feature, saved with the model.  Of a table in parts: the columns to
            learn from; default: all other numeric ones.

        Returns
        -------
        BaseMatcher
            Itself.

        Notes
        -----
        A table with a row per candidate pair, as `permatch.datasets.read_edge_table` reads
        it, may also come in parts, with the same result:

        - ``fit("folder")``: a folder of Parquet files, or a ``pyarrow.dataset.Dataset``,
          read from disk in every pass;
        - ``fit(ddf)``: a Dask DataFrame, computed where its partitions are;
        - ``fit([part, ...])``: a list of delayed pairs ``(graphs, matchings)``.

        Rows must be sorted by graph; a graph may go on in the next part.
        """
        alpha, options = self._check_alpha(), self._solver_options()
        n_jobs = check_jobs(self.n_jobs)
        data, names = self._open(graphs, matchings, sample_weight, feature_names)
        self._begin(data)
        if isinstance(data, GraphsInParts):
            with data.preparing():
                problem = self._problem(data, n_jobs)
        else:
            problem = self._problem(data, n_jobs)
        optimum = self._learn(problem, alpha, options)
        self.feature_names_ = names
        self._warn(optimum)
        return self

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
            Sizes may differ between graphs; in parts as in `fit`, without labels.
        decode : {"mode", "bayes"}
            The likeliest matching, or the one with the fewest expected errors (needs
            marginals).
        costs : LinkCosts, optional
            With "bayes", what missed, false and wrong links cost, and leaving a node to a
            person; default: every left node treated wrongly counts as one error.

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
            Sizes may differ between graphs; in parts as in `fit`, without labels.
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

    def score(self, graphs: Any, matchings: Any, sample_weight: Any = None) -> float:
        """Return the share of left nodes predicted rightly, averaged over graphs.

        Parameters
        ----------
        graphs : sequence of (n, k, d) arrays or BipartiteGraph
            Sizes may differ between graphs.
        matchings : sequence of integer arrays of shape (n,), Known or EdgeLabels
            The true matching of every graph, or what is known of it.
        sample_weight : array of shape (n_graphs,), optional
            Weight of every graph in the average.

        Returns
        -------
        float
            One minus the Hamming loss of `predict`, over left nodes whose label is known.
        """
        data = self._data_set(graphs, matchings, sample_weight)
        return 1.0 - self._loss(self._weights(), data, self._fitted)

    def log_likelihood(
        self, graphs: Any, matchings: Any, sample_weight: Any = None
    ) -> float:
        """Return the log-probability of the given matchings, averaged over graphs.

        Parameters
        ----------
        graphs : sequence of (n, k, d) arrays or BipartiteGraph
            Sizes may differ between graphs.
        matchings : sequence of integer arrays of shape (n,), Known or EdgeLabels
            The matching of every graph, or what is known of it.
        sample_weight : array of shape (n_graphs,), optional
            Weight of every graph in the average.

        Returns
        -------
        float
            In nats, at most 0; as exact as the engine.  Of an incomplete label, that of
            what is known.
        """
        data = self._data_set(graphs, matchings, sample_weight)
        engine = find_engine(self.engine)
        return self._log_likelihood(self._weights(), data, self._fitted, engine)

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
        (scored,) = self._score([graph]).each()
        if self.unmatched_ != "any":
            scored.modes()  # tells how to let nodes stay unmatched if it has to be
        return self._distribution(scored)

    def _learning_engine(self) -> AbstractEngine:
        """Return the engine of a fit, and of the choice of alpha."""
        return find_engine(self.engine)

    def _open(
        self, graphs: Any, matchings: Any, sample_weight: Any, feature_names: Any
    ) -> tuple[Data, list[str] | None]:
        """Return checked training data, and the names of features."""
        if is_in_parts(graphs):
            if sample_weight is not None:
                raise InvalidOptionError(
                    "graphs in parts have equal weights; got sample_weight. Leave it out, "
                    "or load the graphs into memory."
                )
            data, names = open_training(graphs, matchings, feature_names)
            return data, check_feature_names(names, data.outlines[0].n_features[0])
        data = check_data_set(graphs, matchings, sample_weight)
        return data, check_feature_names(feature_names, data[0][0].n_features)

    def _begin(self, data: Data) -> None:
        """Decide which parameters are learned."""
        check_choice(self.unmatched, "unmatched", _UNMATCHED)
        if isinstance(data, GraphsInParts):
            self.columns_ = data.columns
            spare = data.first("spare")
            if self.unmatched == "larger" and spare is not None:
                raise _no_fit(*spare)
            is_any = spare is not None or self.unmatched == "any"
            self._parameters = Parameters(*data.outlines[0].n_features, is_any)
            return
        require_known(with_weight(data)[1])
        graphs, labels, _ = data
        spare = [k for k, known in enumerate(labels) if known.leaves_spare]
        if self.unmatched == "larger" and spare:
            graph, known = graphs[spare[0]], labels[spare[0]]
            raise _no_fit(spare[0], graph.n_left, graph.n_right, known.n_most_links)
        is_any = bool(spare) or self.unmatched == "any"
        self._parameters = Parameters.of(graphs[0], is_any=is_any)

    def _hold(self, weights: FloatArray, scale: FloatArray) -> None:
        parameters = self._parameters
        coef, left, right, intercept = parameters.split(weights)
        super()._hold(coef, scale[: parameters.n_edge])
        self.unmatched_ = "any" if parameters.is_any else "larger"
        self.unmatched_left_coef_, self.unmatched_right_coef_ = left, right
        self.unmatched_intercept_ = intercept

    def _weights(self) -> FloatArray:
        return self._fitted.join(
            self.coef_,
            self.unmatched_left_coef_,
            self.unmatched_right_coef_,
            self.unmatched_intercept_,
        )

    @property
    def _fitted(self) -> Parameters:
        n_left, n_right = len(self.unmatched_left_coef_), len(self.unmatched_right_coef_)
        return Parameters(self.n_features_in_, n_left, n_right, self.unmatched_ == "any")

    def _data_set(self, graphs: Any, matchings: Any, sample_weight: Any) -> DataSet:
        """Return labelled graphs with as many features as the model has."""
        self._check_fitted()
        n_nodes = self._fitted.n_left, self._fitted.n_right
        return check_data_set(
            graphs, matchings, sample_weight, self.n_features_in_, n_nodes
        )

    def _loss(self, weights: FloatArray, data: DataSet, parameters: Parameters) -> float:
        """Return the Hamming loss of some coefficients on checked data."""
        graphs, labels, shares = data
        found = self._modes(weights, graphs, parameters)
        true = [known.matching for known in labels]
        return hamming_loss(true, found, sample_weight=shares)

    @staticmethod
    def _modes(
        weights: FloatArray, graphs: list[BipartiteGraph], parameters: Parameters
    ) -> list[IntArray]:
        """Return the best matchings of checked graphs."""
        return score_graphs(graphs, weights, parameters).modes()

    def _log_likelihood(
        self,
        weights: FloatArray,
        data: DataSet,
        parameters: Parameters,
        engine: AbstractEngine,
    ) -> float:
        """Return the mean log-likelihood of some coefficients on checked data."""
        graphs, labels, shares = data
        score_graphs(graphs, weights, parameters)  # refuses features that are too large
        if not parameters.is_any and any(known.leaves_spare for known in labels):
            return -np.inf
        n_jobs = check_jobs(self.n_jobs)
        log_probs = np.zeros(len(graphs))
        for k, part in enumerate(arrange(graphs, labels, parameters)):
            found = part.expect(
                weights, np.zeros(len(part.members)), engine.with_seed(k), n_jobs
            )
            log_probs[part.members] = part.label_scores(weights) - found.log_partition
        # Rounding must not push a probability above 1.
        return float(shares @ np.minimum(log_probs, 0.0))

    def _score(self, graphs: Any) -> Scored:
        self._check_fitted()
        fitted = self._fitted
        n_nodes = fitted.n_left, fitted.n_right
        checked = check_graphs(graphs, self.n_features_in_, n_nodes)
        return score_graphs(checked, self._weights(), fitted)

    def _distribution(self, scored: Scored) -> MatchingDistribution:
        unmatched: Any = {name: values[0] for name, values in scored.unmatched.items()}
        return MatchingDistribution(
            scored.scores[0], self.engine, n_jobs=self.n_jobs, **unmatched
        )


def _predict_with(
    model: BaseMatcher, graphs: Any, *, decode: Any, costs: LinkCosts | None
) -> list[IntArray]:
    return model.predict(graphs, decode, costs=costs)


def _marginals_by(model: BaseMatcher, graphs: Any) -> list[FloatArray]:
    return model.predict_marginals(graphs)


def _no_fit(k: int, n_left: int, n_right: int, n_most_links: int) -> InvalidMatchingError:
    return InvalidMatchingError(
        "with unmatched='larger' all nodes of the smaller side must be matched; the label "
        f"of graph {k} ({n_left} x {n_right}) allows at most {n_most_links} pairs. Use "
        "unmatched='any', or correct the label."
    )
