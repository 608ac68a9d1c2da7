"""Rankers with one coefficient per feature."""

from typing import Any

import numpy as np

from permatch._progress import Stages
from permatch._shards import HeldShards, Shards, showing
from permatch._types import FloatArray
from permatch._validation import check_jobs
from permatch.errors import InvalidOptionError
from permatch.estimators.base import LinearModel
from permatch.estimators.onnx_graph import OnnxGraph
from permatch.estimators.ranker import BaseRanker
from permatch.objectives.ranking import LinearScores
from permatch.queries import QuerySet


class LinearRanker(LinearModel, BaseRanker):
    """A linear model of relevance: documents are ranked by ``<coef_, features>``.

    Subclasses define the objective over judged lists in `_problem`.

    Examples
    --------
    >>> from permatch.estimators import LinearRanker, QueryRidge
    >>> issubclass(QueryRidge, LinearRanker)
    True
    """

    scale_features: bool

    def _fit(self, queries: QuerySet) -> Any:
        return self._fit_shards(HeldShards([queries]))

    def _fit_shards(self, shards: Shards) -> Any:
        alpha, options = self._check_alpha(), self._solver_options()
        with Stages("preparing") as stages, showing(shards.passes, stages.say):
            problem = self._problem(shards, check_jobs(self.n_jobs))
        return self._learn(problem, alpha, options)

    def _predict(self, documents: Any) -> FloatArray:
        return linear_scores(documents, self.coef_)

    def _contributions(self, documents: Any) -> FloatArray:
        return documents * self.coef_

    def _add_scores(self, graph: OnnxGraph, features: str) -> str:
        self._check_single()
        # A vector would do instead of the column, but fails in runtimes given no documents.
        column = graph.add("MatMul", features, graph.constant(self.coef_[:, None]))
        return graph.add("Squeeze", column, graph.constant([1]))

    def _solr_model(self, names: list[str]) -> dict[str, Any]:
        self._check_single()
        return {
            "class": "org.apache.solr.ltr.model.LinearModel",
            "features": [{"name": name} for name in names],
            "params": {"weights": dict(zip(names, self.coef_.tolist(), strict=True))},
        }

    def _elasticsearch_model(self, names: list[str]) -> tuple[str, Any]:
        self._check_single()
        return "model/linear", dict(zip(names, self.coef_.tolist(), strict=True))

    def _check_single(self) -> None:
        if not (np.abs(self.coef_) <= np.finfo(np.float32).max).all():
            raise InvalidOptionError(
                "coefficients of a model to export must fit single precision; one is above "
                "3e38. Rescale the features and fit again."
            )


def linear_scores(documents: Any, coef: FloatArray) -> FloatArray:
    """Return ``<coef, features>`` of every document, (n,)."""
    return LinearScores(documents, np.ones(len(coef))).scores(coef)
