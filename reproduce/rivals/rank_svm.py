"""RankSVM: the hinge loss of all pairs of documents of different grade.

    alpha/2 |coef|^2 + mean over pairs, i better than j, of max(0, 1 - (s_i - s_j))

All pairs count alike, as in the original, so that long lists count most.  Pairs are never
listed: sorted scores and their running sums give, for every document, how many of another
grade are within the margin, and the sum of their scores.

References
----------
R. Herbrich, T. Graepel and K. Obermayer, "Large margin rank boundaries for ordinal
regression", Advances in Large Margin Classifiers (2000).
T. Joachims, "Optimizing search engines using clickthrough data", KDD 2002.
"""

from dataclasses import dataclass

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch.objectives.rank_losses import count_pairs
from permatch.objectives.ranking import ScoreLoss
from permatch.queries import QuerySet
from reproduce.rivals.linear import LinearRival
from reproduce.rivals.pairs import DuelLoss


@dataclass(eq=False, repr=False, kw_only=True)
class RankSVM(LinearRival):
    """Learn a linear score that puts the documents of a pair a margin apart.

    Parameters
    ----------
    alpha, qid, scaling, scale_features, tol, max_iter, n_jobs, warm_start, verbose
        As in `LinearRival`; `alpha` is 1 over C times the number of pairs.

    Attributes
    ----------
    coef_, n_features_in_, feature_names_, is_converged_, n_iter_, history_
        As in `permatch.estimators.DORM`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 2))
    >>> y = np.digitize(X[:, 0] + 0.2 * rng.normal(size=40), [0.0, 1.0])
    >>> model = RankSVM(alpha=0.01).fit(X, y, group=[8] * 5)
    >>> model.score(X, y, group=[8] * 5) > 0.9
    True
    """

    tol: float = 1e-3

    _has_kinks = True

    def count(self, queries: QuerySet) -> IntArray:
        """Return the number of pairs of different grade of every query, (q,)."""
        return count_pairs(queries)

    def loss(self, queries: QuerySet, weights: FloatArray) -> ScoreLoss:
        """Return the loss of all scores, given the weight of a pair by query."""
        return PairHinge(queries, weights)


class PairHinge(DuelLoss):
    """The hinge loss of all pairs."""

    def _lose(
        self, above: FloatArray, below: FloatArray
    ) -> tuple[float, FloatArray, FloatArray]:
        needed = above - 1.0
        # Of every better document, the worse ones that score more than it less one.
        n_worse = len(below) - np.searchsorted(np.sort(below), needed, side="right")
        n_better = np.searchsorted(np.sort(needed), below)
        value = float(n_better @ below - n_worse @ needed)
        return value, -n_worse.astype(np.float64), n_better.astype(np.float64)
