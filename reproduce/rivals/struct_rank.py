"""StructRank-style: a multivariate logistic function per document over what it beats.

The preferences that share their better document i are judged together, by the joint
distribution function of logistic variables:

    F_i = 1 / (1 + sum over j worse than i of exp(-(s_i - s_j)))
    loss = - mean over documents i that beat another of log F_i

A single worse document makes it the logistic loss of a pair, as in RankNet.  It is convex
in the scores.

References
----------
J. C. Huang and B. J. Frey, "Structured ranking learning using cumulative distribution
networks", NIPS 2008.
T.-Y. Liu, "Learning to rank for information retrieval" (2011), section 4.3.3.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from permatch._types import FloatArray, IntArray
from permatch.objectives.ranking import ScoreLoss
from permatch.queries import QuerySet
from reproduce.rivals.linear import LinearRival
from reproduce.rivals.pairs import DuelLoss


@dataclass(eq=False, repr=False, kw_only=True)
class StructRank(LinearRival):
    """Learn a linear score by the joint probability of what each document beats.

    All documents that beat another count alike.

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
    >>> model = StructRank(alpha=0.01).fit(X, y, group=[8] * 5)
    >>> model.score(X, y, group=[8] * 5) > 0.9
    True
    """

    def count(self, queries: QuerySet) -> IntArray:
        """Return the number of documents that beat another of every query, (q,)."""
        lowest = np.minimum.reduceat(queries.grades, queries.starts[:-1])
        beats = queries.grades > lowest[queries.owners]
        return np.bincount(queries.owners, beats, queries.n_queries).astype(np.intp)

    def loss(self, queries: QuerySet, weights: FloatArray) -> ScoreLoss:
        """Return the loss of all scores, given the weight of a document by query."""
        return StarFactors(queries, weights)


class StarFactors(DuelLoss):
    """Minus the logarithms of the joint distribution functions."""

    def _lose(
        self, above: FloatArray, below: FloatArray
    ) -> tuple[float, FloatArray, FloatArray]:
        total = np.logaddexp.reduce(below)
        behind = total - above
        pulls = expit(behind)
        value = float(np.logaddexp(0.0, behind).sum())
        return value, -pulls, pulls.sum() * np.exp(below - total)
