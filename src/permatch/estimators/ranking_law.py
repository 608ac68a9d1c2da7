"""What a model with a likelihood of rankings says of the documents of one query."""

from typing import Any

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch.estimators.ranker import BaseRanker
from permatch.objectives.list_levels import PositionLevels
from permatch.ranking_distribution import RankingDistribution


class RankingLaw(BaseRanker):
    """A ranker whose scores are those of a distribution over rankings.

    Subclasses set ``level_weights_``, the weights of positions, best first, and
    ``level_shares_``, the share of a list with each.  Where ``level_weights_`` is None, the
    weights are the means of `position_weights` over the positions of every share.
    """

    n_jobs: int | None
    position_weights: Any = None
    level_weights_: FloatArray | None
    level_shares_: FloatArray

    def distribution(
        self, X: Any, position_weights: Any = None, **options: Any
    ) -> RankingDistribution:
        """Return the model's distribution over the rankings of one query's documents.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n, d)
            The documents of one query.
        position_weights : array of shape (n,), optional
            Weights of the positions of this list, best first, non-increasing.  Default:
            the weights of the training lists, each for its share of the list; of a model
            with `position_weights`, their means over the positions of every share.
        **options
            Passed to `RankingDistribution`.

        Returns
        -------
        RankingDistribution
            Gives marginals, samples and more.
        """
        n_documents = self._check_new(X).shape[0]
        scores = self.predict(X, group=[n_documents])
        if position_weights is None:
            sizes = _shares_of(n_documents, self.level_shares_)
            if self.level_weights_ is None:
                of_positions = PositionLevels.of(self.position_weights)
                position_weights = of_positions.block_means(sizes)
            else:
                position_weights = np.repeat(self.level_weights_, sizes)
        return RankingDistribution(scores, position_weights, n_jobs=self.n_jobs, **options)

    def prob_above(self, X: Any, i: Any, j: Any, position_weights: Any = None) -> Any:
        """Return the probability that document i ranks above document j.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n, d)
            The documents of one query.
        i, j : int or arrays of ints
            Rows of `X`.
        position_weights : array of shape (n,), optional
            Weights of the positions of this list; see `distribution`.

        Returns
        -------
        float or ndarray
            Of the broadcast shape of `i` and `j`.
        """
        return self.distribution(X, position_weights).prob_above(i, j)


def _shares_of(n: int, shares: FloatArray) -> IntArray:
    """Split n positions by shares, largest remainders first."""
    exact = n * shares
    sizes = np.floor(exact).astype(np.intp)
    # Equal remainders go to the better positions.
    order = np.argsort(sizes - exact, kind="stable")
    sizes[order[: n - sizes.sum()]] += 1
    return sizes
