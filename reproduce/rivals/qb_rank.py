"""QBRank-style: trees fitted to pairs whose margin is violated.

With the margin tau of a pair, i better than j, growing with the grades between them,

    loss = 1/2 sum over pairs of max(0, tau - (h_i - h_j))^2

A quadratic that lies above it, with as much curvature for every document as it has pairs,
is smallest over trees where a tree fits, by least squares weighted with the pairs n_i of a
document, the moves

    (sum of max(0, tau - (h_i - h_j)) over j worse than i
     - sum of max(0, tau - (h_j - h_i)) over j better than i) / n_i.

References
----------
Z. Zheng, H. Zha, T. Zhang, O. Chapelle, K. Chen and G. Sun, "A general boosting method and
its application to learning ranking functions for web search", NIPS 2007.
"""

from dataclasses import dataclass

import numpy as np

from permatch._types import FloatArray
from permatch.queries import QuerySet
from reproduce.rivals.pairs import by_document, graded_pairs, weight_of_pairs
from reproduce.rivals.trees import Aim, TreeBoosting


@dataclass(eq=False, repr=False, kw_only=True)
class QBRank(TreeBoosting):
    """Boost trees until the documents of a pair are a margin apart.

    All pairs count alike, so that long lists count most.

    Parameters
    ----------
    learning_rate, max_leaf_nodes, min_samples_leaf, margin, random_state
        As in `TreeBoosting`.
    n_rounds, qid, scaling, verbose
        As in `Rival`.

    Attributes
    ----------
    members_ : list of DecisionTreeRegressor
        The trees.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 2))
    >>> y = np.digitize(X[:, 0] + 0.2 * rng.normal(size=40), [0.0, 1.0])
    >>> model = QBRank(min_samples_leaf=3, n_rounds=50).fit(X, y, group=[8] * 5)
    >>> model.score(X, y, group=[8] * 5) > 0.9
    True
    """

    def _aim(self, queries: QuerySet) -> Aim:
        pairs = graded_pairs(queries)
        shares = weight_of_pairs(queries, pairs, is_by_query=False)
        grades, n_documents = queries.grades, queries.n_documents
        margins = self.margin * (grades[pairs.above] - grades[pairs.below])
        weights = by_document(pairs.above, shares, n_documents)
        weights += by_document(pairs.below, shares, n_documents)

        def aim(scores: FloatArray) -> tuple[FloatArray, FloatArray]:
            missing = margins - (scores[pairs.above] - scores[pairs.below])
            pulls = shares * np.maximum(missing, 0.0)
            moves = by_document(pairs.above, pulls, n_documents)
            moves -= by_document(pairs.below, pulls, n_documents)
            return moves / weights, weights * n_documents  # one on average

        return aim
