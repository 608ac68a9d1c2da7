"""What linear rivals share: a loss of document scores, a penalty, and its minimum.

    alpha/2 |coef|^2 + sum over queries of weight * loss(scores)        scores = X coef

as for permatch's own linear rankers, whose solvers they use.
"""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from permatch._shards import Shards, light
from permatch._types import FloatArray
from permatch._validation import check_count
from permatch.estimators import LinearRanker
from permatch.estimators.problem import LinearProblem, ranking_problem
from permatch.objectives.rank_losses import ObservedLoss, no_grades
from permatch.objectives.ranking import ScoreLoss
from permatch.queries import QuerySet


@dataclass(eq=False, repr=False, kw_only=True)
class LinearRival(LinearRanker):
    """A linear ranker with another loss.

    Subclasses define the loss in `loss`, and what it is a mean of in `count`.

    Parameters
    ----------
    alpha : float
        Strength of the penalty on the coefficients, above 0.
    qid
        As in `permatch.estimators.RankMatch`.
    scaling : {"minmax", "standard"} or None
        How features are scaled within every query, as the published rankers had them.
    scale_features : bool
        Penalise the coefficients of features of unit spread within queries.
    tol : float
        Largest entry of the gradient to reach; of losses with kinks, the duality gap as a
        fraction of the objective.
    max_iter : int
        Steps at most.
    n_jobs : int, optional
        Threads.
    warm_start, verbose
        As in `permatch.estimators.RankMatch`.
    """

    alpha: float = 1e-2
    qid: str | None = None
    scaling: str | None = "minmax"
    scale_features: bool = False
    tol: float = 1e-6
    max_iter: int = 1000
    n_jobs: int | None = None
    warm_start: bool = False
    verbose: bool = False

    _is_zero_allowed: ClassVar[bool] = False
    #: Whether the loss has a subgradient only.
    _has_kinks: ClassVar[bool] = False

    @abstractmethod
    def count(self, queries: QuerySet) -> Any:
        """Return the number of terms in the loss of every query, (q,)."""

    @abstractmethod
    def loss(self, queries: QuerySet, weights: FloatArray) -> ScoreLoss:
        """Return the loss of all scores, in which a term of query k weighs ``weights[k]``.

        Queries without terms have weight 0.
        """

    def _problem(self, data: Shards, n_jobs: int) -> LinearProblem:
        n_queries, n_terms, total = data.total(_count_terms, self)
        if not total > 0.0:
            raise no_grades(n_queries)
        observed = ObservedLoss(
            data.keep(_lose, self, total),
            int(n_terms),
            lambda: np.concatenate(data.map(_weigh, self, total)),
            has_kinks=self._has_kinks,
        )
        is_scaled = self.scale_features
        return ranking_problem(data, observed, is_scaled=is_scaled, n_jobs=n_jobs)

    def staged_predict(
        self, X: Any, qid: Any = None, group: Any = None
    ) -> Iterator[FloatArray]:
        """Yield the scores of `predict`: there is a single stage.

        Parameters
        ----------
        X, qid, group
            As in `predict`.

        Yields
        ------
        ndarray of shape (n,)
            The scores.
        """
        yield self.predict(X, qid, group)

    def keep(self, n_rounds: int) -> None:
        """Keep the model: there is a single stage.

        Parameters
        ----------
        n_rounds : int
            At least 1.
        """
        check_count(n_rounds, "n_rounds", 1)


@light
def _count_terms(queries: QuerySet, rival: LinearRival) -> tuple[int, int, float]:
    """Count queries and terms, and add up the weights of the terms."""
    counts = rival.count(queries)
    return queries.n_queries, int(counts.sum()), float(counts @ queries.weights)


@light
def _weigh(queries: QuerySet, rival: LinearRival, total: float) -> FloatArray:
    """Return the weight of every query, (q,)."""
    return rival.count(queries) * queries.weights / total


@light
def _lose(queries: QuerySet, rival: LinearRival, total: float) -> ScoreLoss:
    has_terms = rival.count(queries) > 0
    return rival.loss(queries, np.where(has_terms, queries.weights / total, 0.0))
