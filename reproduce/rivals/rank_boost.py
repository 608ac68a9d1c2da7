"""RankBoost: boosting of weak rankers by the exponential loss of pairs.

    sum over pairs, i better than j, of exp(H_j - H_i)          H = sum_t alpha_t h_t

The pairs are never listed.  With H as it is, let

    u_i = exp(-H_i) sum of exp(H_j)  over j of lower grade in the query of i
    l_i = exp(H_i)  sum of exp(-H_j) over j of higher grade

Then the potential ``(u_i - l_i) / sum(u)`` has all that a round needs: a weak ranker h from
0 to 1 has ``r = sum_i potential_i h_i``, the one with the largest ``abs(r)`` is taken, with

    alpha = 1/2 log((1 + r) / (1 - r)).

References
----------
Y. Freund, R. Iyer, R. E. Schapire and Y. Singer, "An efficient boosting algorithm for
combining preferences", Journal of Machine Learning Research 4 (2003).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from permatch._types import FloatArray
from permatch.queries import QueryRows, QuerySet
from reproduce.rivals.base import Rival, added_up
from reproduce.rivals.stumps import Stump, Stumps

# A weak ranker that orders all pairs has an infinite weight: it gets a large one, and the
# last word.
_PERFECT = 1.0 - 1e-9
# Potentials add up to zero within a query, up to rounding.
_NOTHING = 1e-12


@dataclass(eq=False, repr=False, kw_only=True)
class RankBoost(Rival):
    """Boost stumps so that fewer pairs are in the wrong order.

    Parameters
    ----------
    n_bins : int
        Thresholds to choose from are the quantiles between so many bins of a feature.
    n_rounds, qid, scaling, verbose
        As in `Rival`.

    Attributes
    ----------
    members_ : list of Stump
        The weak rankers with their weights.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 2))
    >>> y = np.digitize(X[:, 0] + 0.2 * rng.normal(size=40), [0.0, 1.0])
    >>> model = RankBoost(n_rounds=50).fit(X, y, group=[8] * 5)
    >>> model.score(X, y, group=[8] * 5) > 0.9
    True
    """

    n_bins: int = 32

    def _learn(self, queries: QuerySet) -> Iterator[Stump]:
        documents = queries.documents
        stumps = Stumps(documents, self.n_bins)
        scores = np.zeros(queries.n_documents)
        while True:
            above = stumps.weights_above(potential(queries, scores))
            best = int(np.argmax(np.abs(above)))
            gain = float(above.flat[best])
            if abs(gain) < _NOTHING:
                return
            is_perfect = abs(gain) > _PERFECT
            gain = float(np.clip(gain, -_PERFECT, _PERFECT))
            stump = Stump(*stumps.at(best), float(np.arctanh(gain)))
            yield stump
            if is_perfect:
                return
            scores += stump.scores(documents)

    def _stages(self, documents: FloatArray, rows: QueryRows) -> Iterator[FloatArray]:
        parts = (stump.scores(documents) for stump in self.members_)
        return added_up(parts, len(documents))


def potential(queries: QuerySet, scores: FloatArray) -> FloatArray:
    """Return what a document above a threshold adds to r, (n,).

    Parameters
    ----------
    queries : QuerySet
        The judged lists; a query counts by its weight and its pairs.
    scores : ndarray of shape (n,)
        The scores H of all documents.

    Returns
    -------
    ndarray of shape (n,)
        Their positive parts add up to at most 1.
    """
    shape = queries.n_queries, int(queries.grades.max()) + 1
    cells = queries.owners * shape[1] + queries.grades
    # Only differences within a query matter: centred ones overflow last.
    low = np.minimum.reduceat(scores, queries.starts[:-1])
    high = np.maximum.reduceat(scores, queries.starts[:-1])
    centred = scores - (0.5 * (low + high))[queries.owners]
    up, down = np.exp(centred), np.exp(-centred)
    sums_up, sums_down = (
        np.bincount(cells, values, shape[0] * shape[1]).reshape(shape)
        for values in (up, down)
    )
    of_lower, of_higher = np.zeros(shape), np.zeros(shape)
    of_lower[:, 1:] = np.cumsum(sums_up[:, :-1], axis=1)
    of_higher[:, :-1] = np.cumsum(sums_down[:, :0:-1], axis=1)[:, ::-1]
    weights = queries.weights[queries.owners]
    raised = weights * down * of_lower.ravel()[cells]
    return (raised - weights * up * of_higher.ravel()[cells]) / raised.sum()
