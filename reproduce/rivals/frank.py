"""FRank-style: boosting of stumps by the fidelity loss of pairs.

With ``o = H_i - H_j`` of a pair, i better than j, and P the logistic function of o,

    loss = sum over pairs of q (1 - sqrt(P))        q the weight of the pair

which is at most q for any pair: one that cannot be ordered soon counts for little.  Its
slope by -o is the weight ``W = q/2 (1 - P) sqrt(P)``.  A stump h orders pairs of weight

    right = sum of W where h_i > h_j        wrong = sum of W where h_i < h_j

A round takes the one with the largest ``abs(sqrt(right) - sqrt(wrong))``, which is how far
a step can bring a bound of the loss down, and adds it with

    alpha = 1/2 log(right / wrong).

References
----------
M.-F. Tsai, T.-Y. Liu, T. Qin, H.-H. Chen and W.-Y. Ma, "FRank: a ranking method with
fidelity loss", SIGIR 2007.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from permatch._types import FloatArray
from permatch.queries import QueryRows, QuerySet
from reproduce.rivals.base import Rival, added_up
from reproduce.rivals.pairs import by_document, graded_pairs, weight_of_pairs
from reproduce.rivals.stumps import Stump, Stumps

# A stump of less weight changes nothing.
_NOTHING = 1e-12


@dataclass(eq=False, repr=False, kw_only=True)
class FRank(Rival):
    """Boost stumps by a loss of pairs that is bounded.

    The pairs of a query share its weight, as in the original.

    Parameters
    ----------
    n_bins, n_rounds, qid, scaling, verbose
        As in `RankBoost`.

    Attributes
    ----------
    members_ : list of Stump
        The weak rankers with their weights.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 2))
    >>> y = np.digitize(X[:, 0] + 0.2 * rng.normal(size=40), [0.0, 1.0])
    >>> model = FRank(n_rounds=50).fit(X, y, group=[8] * 5)
    >>> model.score(X, y, group=[8] * 5) > 0.9
    True
    """

    n_bins: int = 32

    def _learn(self, queries: QuerySet) -> Iterator[Stump]:
        documents, n_documents = queries.documents, queries.n_documents
        stumps = Stumps(documents, self.n_bins)
        pairs = graded_pairs(queries)
        shares = weight_of_pairs(queries, pairs, is_by_query=True)
        scores = np.zeros(n_documents)
        both = stumps.weights_of_both(pairs.above, pairs.below)
        while True:
            pulls = fidelity_slope(scores[pairs.above] - scores[pairs.below], shares)
            overlap = both.weights_above(pulls)
            right, wrong = (
                stumps.weights_above(by_document(own, pulls, n_documents)) - overlap
                for own in (pairs.above, pairs.below)
            )
            # As if one more average pair were in either order: no weight is infinite.
            right, wrong = (np.maximum(part, 0.0) + pulls.mean() for part in (right, wrong))
            best = int(np.argmax(np.abs(np.sqrt(right) - np.sqrt(wrong))))
            alpha = 0.5 * float(np.log(right.flat[best] / wrong.flat[best]))
            if abs(alpha) < _NOTHING:
                return
            stump = Stump(*stumps.at(best), alpha)
            yield stump
            scores += stump.scores(documents)

    def _stages(self, documents: FloatArray, rows: QueryRows) -> Iterator[FloatArray]:
        parts = (stump.scores(documents) for stump in self.members_)
        return added_up(parts, len(documents))


def fidelity_slope(margins: FloatArray, shares: FloatArray) -> FloatArray:
    """Return how fast the loss of each pair falls as its margin grows, (p,).

    Parameters
    ----------
    margins : ndarray of shape (p,)
        Score of the better document less that of the worse one.
    shares : ndarray of shape (p,)
        Weight of the pairs.
    """
    return 0.5 * shares * expit(-margins) * np.sqrt(expit(margins))
