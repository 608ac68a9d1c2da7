"""ListNet: the cross-entropy of the probabilities of coming first, by grades and by scores.

    loss of a query = - sum_i softmax(grades)_i log softmax(scores)_i
    slope           = softmax(scores) - softmax(grades)

The probability of coming first from the grades is nearly flat over a long list: that is the
definition.

References
----------
Z. Cao, T. Qin, T.-Y. Liu, M.-F. Tsai and H. Li, "Learning to rank: from pairwise approach
to listwise approach", ICML 2007.
"""

from dataclasses import dataclass

import numpy as np

from permatch._types import BoolArray, FloatArray, IntArray
from permatch.objectives.rank_losses import has_grades
from permatch.objectives.ranking import ScoreLoss
from permatch.queries import QuerySet
from reproduce.rivals.linear import LinearRival


@dataclass(eq=False, repr=False, kw_only=True)
class ListNet(LinearRival):
    """Learn a linear score whose softmax is that of the grades.

    Every query counts alike.

    Parameters
    ----------
    alpha, qid, scaling, scale_features, tol, max_iter, n_jobs, warm_start, verbose
        As in `LinearRival`.

    Attributes
    ----------
    coef_, n_features_in_, feature_names_, is_converged_, n_iter_, history_
        As in `permatch.estimators.RankMatch`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 2))
    >>> y = np.digitize(X[:, 0] + 0.2 * rng.normal(size=40), [0.0, 1.0])
    >>> model = ListNet(alpha=0.01).fit(X, y, group=[8] * 5)
    >>> model.score(X, y, group=[8] * 5) > 0.9
    True
    """

    def count(self, queries: QuerySet) -> BoolArray:
        """Return whether every query has several grades, (q,)."""
        return has_grades(queries)

    def loss(self, queries: QuerySet, weights: FloatArray) -> ScoreLoss:
        """Return the loss of all scores, given the weight of a list by query."""
        return TopOne(queries, weights)


class TopOne:
    """The cross-entropy of coming first, weighted by query.

    Parameters
    ----------
    queries : QuerySet
        The judged lists.
    weights : ndarray of shape (q,)
        The weight of every query.
    """

    def __init__(self, queries: QuerySet, weights: FloatArray) -> None:
        self._starts, self._owners = queries.starts, queries.owners
        self._weights = weights[queries.owners]
        grades = queries.grades.astype(np.float64)
        self._targets = np.exp(_log_softmax(grades, self._starts, self._owners))

    def value_and_slope(self, scores: FloatArray) -> tuple[float, FloatArray]:
        """Return the loss and its derivative by every score."""
        logs = _log_softmax(scores, self._starts, self._owners)
        value = -float((self._weights * self._targets) @ logs)
        return value, self._weights * (np.exp(logs) - self._targets)


def _log_softmax(values: FloatArray, starts: IntArray, owners: IntArray) -> FloatArray:
    """Return the logarithm of the softmax within every query, (n,)."""
    centred = values - np.maximum.reduceat(values, starts[:-1])[owners]
    totals = np.add.reduceat(np.exp(centred), starts[:-1])
    return centred - np.log(totals)[owners]
