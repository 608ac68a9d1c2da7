"""Short judged lists like those of LETOR's MQ2008, many without a relevant document.

Features come in groups that vary together, and half of them have heavy tails, as counts
have; all are scaled to [0, 1] within queries, as LETOR's are.  The merit of a document is
linear in the features before these tails, so no linear score is quite right, plus noise and
a number of the query.  Grades 0, 1 and 2 are cut from the merits in about the shares of
MQ2008; by the number of the query, a good quarter of the lists have grade 0 only.
"""

from dataclasses import dataclass

import numpy as np

from permatch._types import FloatArray
from permatch.estimators.query_scaler import scale_within_queries
from reproduce.experiments.letor_folds import Fold, Lists

# Shares of the grades 0 and 1; what is left has grade 2.
_SHARES = (0.81, 0.13)


@dataclass(frozen=True)
class Short:
    """What the lists are made of.

    Parameters
    ----------
    n_queries : tuple of int
        Queries to train on, to choose by, and to test on.
    length : tuple of int
        Shortest and longest list.
    n_features, group_size : int
        Features, and how many of them vary together.
    noise, of_query : float
        Standard deviations of the noise and of the number of a query, where the features
        add one.
    """

    n_queries: tuple[int, int, int] = (470, 157, 157)
    length: tuple[int, int] = (8, 32)
    n_features: int = 46
    group_size: int = 5
    noise: float = 1.0
    of_query: float = 1.2

    def draw(self, seed: tuple[int, int]) -> Fold:
        """Return lists to train on, to choose by and to test on, from one rule."""
        rng = np.random.default_rng(seed)
        rule = rng.normal(size=self.n_features)
        parts = [self._lists(n, rule, rng) for n in self.n_queries]
        cuts = np.quantile(parts[0][1], np.cumsum(_SHARES))
        lists = [Lists(X, np.digitize(merit, cuts), qid) for X, merit, qid in parts]
        return Fold(seed[1] + 1, *lists)

    def _lists(
        self, n_queries: int, rule: FloatArray, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, np.ndarray]:
        """Return features, merits and query ids."""
        low, high = self.length
        lengths = rng.integers(low, high + 1, size=n_queries)
        qid = np.repeat(np.arange(n_queries), lengths)
        n_groups = -(-self.n_features // self.group_size)
        shared = np.repeat(rng.normal(size=(len(qid), n_groups)), self.group_size, axis=1)
        plain = 0.8 * shared[:, : self.n_features]
        plain += 0.6 * rng.normal(size=plain.shape)
        merit = plain @ rule
        merit /= merit.std()
        merit += self.noise * rng.normal(size=len(qid))
        merit += self.of_query * rng.normal(size=n_queries)[qid]
        features = plain.copy()
        features[:, 1::2] = np.exp(features[:, 1::2])
        starts = np.concatenate([[0], np.cumsum(lengths)])
        return scale_within_queries(features, starts, "minmax"), merit, qid
