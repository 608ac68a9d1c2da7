"""AdaRank: boosting of single features, directly for a measure of rankings.

    P_q proportional to exp(-E(q, H))        E the measure of query q, H = sum_t alpha_t x_t
    x_t   = the feature with the largest sum_q P_q E(q, x)
    alpha = 1/2 log( sum_q P_q (1 + E(q, x_t)) / sum_q P_q (1 - E(q, x_t)) )

What every feature achieves on every query is computed once.

References
----------
J. Xu and H. Li, "AdaRank: a boosting algorithm for information retrieval", SIGIR 2007.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from permatch._types import FloatArray
from permatch.errors import InvalidOptionError
from permatch.metrics import Measure, find_measure
from permatch.queries import QueryRows, QuerySet
from reproduce.rivals.base import Rival, added_up

# A feature that ranks all queries perfectly has an infinite weight.
_PERFECT = 1.0 - 1e-9


class Weighted(NamedTuple):
    """A feature and its weight in the model."""

    feature: int
    weight: float


@dataclass(eq=False, repr=False, kw_only=True)
class AdaRank(Rival):
    """Add up features so that a measure of the training queries is large.

    Parameters
    ----------
    measure : Measure or str
        What is boosted, from 0 to 1, such as ``"MAP"`` or ``"NDCG@10"``.
    is_reusing : bool
        Whether a feature may be taken more than once.  The same one may then win for ever:
        later rounds change nothing.
    n_rounds, qid, scaling, verbose
        As in `Rival`.

    Attributes
    ----------
    members_ : list of Weighted
        The features with their weights, all above 0: more of a feature is better.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 2))
    >>> y = np.digitize(X[:, 0] + 0.2 * rng.normal(size=40), [0.0, 1.0])
    >>> AdaRank(measure="MAP").fit(X, y, group=[8] * 5).members_[0].feature
    0
    """

    measure: Any = "NDCG@10"
    is_reusing: bool = True
    n_rounds: int = 100

    def _learn(self, queries: QuerySet) -> Iterator[Weighted]:
        measure = find_measure(self.measure)
        alone = np.column_stack(
            [_values(measure, queries, column) for column in queries.documents.T]
        )
        is_free = np.ones(alone.shape[1], dtype=bool)
        scores = np.zeros(queries.n_documents)
        shares = queries.weights / queries.weights.sum()
        while is_free.any():
            feature = int(np.argmax(np.where(is_free, shares @ alone, -np.inf)))
            reached = min(float(shares @ alone[:, feature]), _PERFECT)
            if reached <= 0.0:
                return
            weight = float(np.arctanh(reached))
            yield Weighted(feature, weight)
            is_free[feature] = self.is_reusing
            scores += weight * queries.documents[:, feature]
            shares = queries.weights * np.exp(-_values(measure, queries, scores))
            shares /= shares.sum()

    def _stages(self, documents: FloatArray, rows: QueryRows) -> Iterator[FloatArray]:
        parts = (member.weight * documents[:, member.feature] for member in self.members_)
        return added_up(parts, len(documents))


def _values(measure: Measure, queries: QuerySet, scores: FloatArray) -> FloatArray:
    """Return the measure of every query, (q,)."""
    values = measure(queries.grades, scores, group=queries.lengths, per_query=True)
    if not ((values >= 0.0) & (values <= 1.0 + 1e-12)).all():
        raise InvalidOptionError(
            f"measure must be from 0 to 1 on every query; {measure} is from "
            f"{values.min():g} to {values.max():g}. Use MAP or NDCG."
        )
    return values
