"""Judged lists like those of MSLR whose grades no linear score explains.

Features come in groups that vary together, as the same statistic of several fields of a
document does, and half of them have heavy tails; some are those of the query, equal for all
its documents.  The merit of a document is a sum of

    steps              a feature is beyond a threshold
    joint steps        two features are beyond theirs at once
    switched steps     a step that counts for one kind of query and against another; the
                       kind is a step of a feature of the query

and noise.  Grades 0 to 4 are cut from the merits in about the shares of MSLR.
"""

from dataclasses import dataclass

import numpy as np

from permatch._types import FloatArray
from reproduce.experiments.letor_folds import Fold, Lists

# Shares of the grades 0, 1, 2 and 3, from the worst; what is left has grade 4.
_SHARES = (0.52, 0.32, 0.13, 0.02)
# Thresholds lie where a normal variable exceeds them with a chance of 16 to 50 %.
_HIGHEST = 1.0


@dataclass(frozen=True)
class Stepped:
    """What the lists are made of.

    Parameters
    ----------
    n_queries : tuple of int
        Queries to train on, to choose by, and to test on.
    length : tuple of int
        Shortest and longest list.
    n_groups, group_size, n_of_query : int
        Groups of features, features of a group, and features of the query.
    n_steps : tuple of int
        Steps, joint steps and switched steps of the merit.
    noise : float
        Standard deviation of the noise, where a step adds one.
    """

    n_queries: tuple[int, int, int] = (200, 100, 500)
    length: tuple[int, int] = (40, 200)
    n_groups: int = 25
    group_size: int = 5
    n_of_query: int = 11
    n_steps: tuple[int, int, int] = (6, 8, 4)
    noise: float = 1.0

    def draw(self, seed: tuple[int, int]) -> Fold:
        """Return lists to train on, to choose by and to test on, from one rule."""
        rng = np.random.default_rng(seed)
        rule = _Rule.draw(self, rng)
        parts = [self._documents(n, rng) for n in self.n_queries]
        merits = [rule.merit(own, kinds, rng) for own, kinds, _ in parts]
        cuts = np.quantile(merits[0], np.cumsum(_SHARES))
        lists = [
            Lists(np.hstack([own, kinds]), np.digitize(merit, cuts), qid)
            for (own, kinds, qid), merit in zip(parts, merits, strict=True)
        ]
        return Fold(seed[1] + 1, *lists)

    def _documents(
        self, n_queries: int, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, np.ndarray]:
        """Return features of documents, those of their queries, and query ids."""
        low, high = self.length
        qid = np.repeat(np.arange(n_queries), rng.integers(low, high + 1, size=n_queries))
        n = len(qid)
        shared = np.repeat(rng.normal(size=(n, self.n_groups)), self.group_size, axis=1)
        features = 0.8 * shared + 0.6 * rng.normal(size=shared.shape)
        features[:, 1::2] = np.exp(features[:, 1::2])
        return features, rng.normal(size=(n_queries, self.n_of_query))[qid], qid


@dataclass(frozen=True, eq=False)
class _Rule:
    """Which features count, and from where on."""

    weights: FloatArray  # of steps, joint steps and switched steps
    features: np.ndarray  # (steps, 2); the second one of a joint step
    bounds: FloatArray  # (steps, 2)
    kinds: np.ndarray  # the feature of the query of a switched step
    n_steps: tuple[int, int, int]
    noise: float

    @classmethod
    def draw(cls, lists: Stepped, rng: np.random.Generator) -> "_Rule":
        n_all = sum(lists.n_steps)
        n_features = lists.n_groups * lists.group_size
        features = rng.permutation(n_features)[: 2 * n_all].reshape(n_all, 2)
        bounds = rng.uniform(0.0, _HIGHEST, size=(n_all, 2))
        bounds = np.where(features % 2, np.exp(bounds), bounds)
        signs = rng.choice([-1.0, 1.0], size=n_all)
        weights = signs * rng.uniform(0.5, 1.5, size=n_all)
        kinds = rng.integers(lists.n_of_query, size=n_all)
        return cls(weights, features, bounds, kinds, lists.n_steps, lists.noise)

    def merit(
        self, features: FloatArray, kinds: FloatArray, rng: np.random.Generator
    ) -> FloatArray:
        """Return the merit of every document, (n,)."""
        is_past = features[:, self.features] > self.bounds  # (n, steps, 2)
        steps = is_past[:, :, 0].astype(np.float64)
        first, second, _ = np.cumsum(self.n_steps)
        steps[:, first:second] *= is_past[:, first:second, 1]
        steps[:, second:] *= np.sign(kinds[:, self.kinds[second:]])
        return steps @ self.weights + self.noise * rng.normal(size=len(features))
