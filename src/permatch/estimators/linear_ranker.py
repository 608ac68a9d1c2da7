"""Rankers with one coefficient per feature."""

from typing import Any

import numpy as np

from permatch._progress import Stages
from permatch._shards import HeldShards, Shards, showing
from permatch._types import FloatArray
from permatch._validation import check_jobs
from permatch.estimators.base import LinearModel
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


def linear_scores(documents: Any, coef: FloatArray) -> FloatArray:
    """Return ``<coef, features>`` of every document, (n,)."""
    return LinearScores(documents, np.ones(len(coef))).scores(coef)
