"""The base of all matchers with one coefficient per feature."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from permatch._blas import one_blas_thread
from permatch._tables import check_feature_names
from permatch._types import FloatArray, IntArray
from permatch._validation import check_choice, check_jobs
from permatch.distributed import is_in_parts
from permatch.estimators.base import LinearModel
from permatch.estimators.checks import (
    UNMATCHED,
    DataSet,
    check_data_set,
    check_unmatched,
    too_few_links,
    with_weight,
)
from permatch.estimators.matcher import BaseMatcher
from permatch.estimators.matching_parts import (
    GraphsInParts,
    open_training,
    refuse_weights,
)
from permatch.estimators.scored import Scored, mean_log_likelihood, score_graphs
from permatch.graphs import BipartiteGraph
from permatch.inference import AbstractEngine, find_engine
from permatch.labels import require_known
from permatch.metrics import hamming_loss
from permatch.objectives import Parameters

#: Checked training data, in memory or in parts.
Data = DataSet | GraphsInParts


class LinearMatcher(BaseMatcher, LinearModel):
    """A linear model of matchings.

    The log-weight of a matching is ``<coef_, edge features>`` summed over its edges, plus
    ``unmatched_intercept_ + <unmatched_left_coef_, node features>`` summed over unmatched
    left nodes, and likewise on the right.  Subclasses define the objective over the graphs
    of a `DataSet` in `_problem`.

    Examples
    --------
    >>> from permatch.estimators import LinearMatcher, MAPMatching, MaxMarginMatching
    >>> issubclass(MAPMatching, LinearMatcher)
    True
    """

    unmatched: str
    scale_features: bool
    unmatched_left_coef_: FloatArray = np.zeros(0)
    unmatched_right_coef_: FloatArray = np.zeros(0)

    prior_coef: Any
    _parameters: Parameters  # of the fit in progress
    _names: list[str] | None = None  # of its features

    @one_blas_thread()
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
        LinearMatcher
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
        vars(self).update(self._inputs(data, names))
        self._warn(optimum)
        return self

    def _learning_engine(self) -> AbstractEngine:
        """Return the engine of a fit, and of the choice of alpha."""
        return find_engine(self.engine)

    def _open(
        self, graphs: Any, matchings: Any, sample_weight: Any, feature_names: Any
    ) -> tuple[Data, list[str] | None]:
        """Return checked training data, and the names of features."""
        if is_in_parts(graphs):
            refuse_weights(sample_weight)
            data, names = open_training(graphs, matchings, feature_names)
            n_features = data.outlines[0].n_features[0]
        else:
            data, names = check_data_set(graphs, matchings, sample_weight), feature_names
            n_features = data[0][0].n_features
        self._names = check_feature_names(names, n_features)
        return data, self._names

    @staticmethod
    def _inputs(data: Data, names: list[str] | None) -> dict[str, Any]:
        """Return the attributes of a fitted model about what it was fitted on."""
        columns = data.columns if isinstance(data, GraphsInParts) else None
        return {"feature_names_": names, "columns_": columns}

    def _begin(self, data: Data) -> None:
        """Decide which parameters are learned."""
        check_choice(self.unmatched, "unmatched", UNMATCHED)
        if isinstance(data, GraphsInParts):
            spare = data.first("spare")
            if self.unmatched == "larger" and spare is not None:
                raise too_few_links(*spare)
            is_any = spare is not None or self.unmatched == "any"
            self._parameters = Parameters(*data.outlines[0].n_features, is_any)
            return
        require_known(with_weight(data)[1])
        is_any = check_unmatched(data, self.unmatched)
        self._parameters = Parameters.of(data[0][0], is_any=is_any)

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

    def contributions(self, features: FloatArray) -> FloatArray:
        """Return what each feature adds to the scores of some edges.

        Parameters
        ----------
        features : ndarray of shape (n_edges, d)
            Features of edges, in the order of the fit.

        Returns
        -------
        ndarray of shape (n_edges, d + 1)
            Last a constant, 0 here; a row sums to the score of its edge.
        """
        return np.column_stack([features * self.coef_, np.zeros(len(features))])

    @property
    def _n_node_features(self) -> tuple[int, int]:
        fitted = self._fitted
        return fitted.n_left, fitted.n_right

    def _odds(self, features: FloatArray) -> FloatArray:
        return features @ self.coef_ - 2.0 * self.unmatched_intercept_

    def _scored(self, graphs: list[BipartiteGraph]) -> Scored:
        return score_graphs(graphs, self._weights(), self._fitted)

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
        scored, is_any = score_graphs(data[0], weights, parameters), parameters.is_any
        return mean_log_likelihood(scored, data, engine, self.n_jobs, is_any=is_any)
