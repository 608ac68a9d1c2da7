"""Stumps, the weak rankers of RankBoost and FRank: 1 where a feature is above a threshold.

Thresholds are quantiles of the feature.  The weight above every threshold is a histogram
by feature, added up from its top: O(n d) for all stumps together.
"""

from typing import Any, NamedTuple

import numpy as np

from permatch._types import BoolArray, FloatArray, IntArray
from permatch._validation import check_count


class Stump(NamedTuple):
    """A weak ranker and its weight in the model."""

    feature: int
    threshold: float
    weight: float

    def fires(self, documents: FloatArray) -> BoolArray:
        """Return whether the feature of each document is above the threshold, (n,)."""
        return documents[:, self.feature] > self.threshold

    def scores(self, documents: FloatArray) -> FloatArray:
        """Return what it adds to the score of each document, (n,)."""
        return np.where(self.fires(documents), self.weight, 0.0)


class Stumps:
    """All stumps of some documents.

    Parameters
    ----------
    documents : ndarray of shape (n, d)
        Features.
    n_bins : int
        Bins with about as many documents each; fewer where values repeat.

    Examples
    --------
    >>> stumps = Stumps(np.array([[1.0], [2.0], [3.0], [4.0]]), n_bins=4)
    >>> stumps.thresholds[0].tolist()
    [1.5, 2.5, 3.5]
    >>> stumps.weights_above(np.array([1.0, 2.0, 4.0, 8.0])).tolist()
    [[14.0, 12.0, 8.0, 0.0]]
    """

    def __init__(self, documents: FloatArray, n_bins: Any) -> None:
        shares = np.linspace(0.0, 1.0, check_count(n_bins, "n_bins", 2) + 1)[1:-1]
        self.thresholds = [_quantiles(column, shares) for column in np.asarray(documents).T]
        self._width = 1 + max(map(len, self.thresholds))
        #: Of how many thresholds of each feature every document is above, (n, d).
        self.codes = np.empty(documents.shape, dtype=np.int32)
        for k, values in enumerate(self.thresholds):
            self.codes[:, k] = np.searchsorted(values, documents[:, k])
        n_features = len(self.thresholds)
        self._cells = (self.codes + self._width * np.arange(n_features)).ravel()

    def weights_above(self, weights: FloatArray) -> FloatArray:
        """Return the sum of the weights (n,) above every threshold, (d, most + 1).

        The last column, and what is beyond the thresholds of a feature, is 0.
        """
        n_features = len(self.thresholds)
        repeated = np.repeat(weights, n_features)
        cells = np.bincount(self._cells, repeated, n_features * self._width)
        return _above(cells.reshape(n_features, self._width))

    def weights_of_both(self, first: IntArray, second: IntArray) -> "Overlap":
        """Return what adds up the weights of pairs of rows that are both above."""
        return Overlap(np.minimum(self.codes[first], self.codes[second]).T, self._width)

    def at(self, place: int) -> tuple[int, float]:
        """Return feature and threshold of a place in the array of sums, counted by row."""
        feature, k = divmod(place, self._width)
        found = self.thresholds[feature]
        return feature, float(found[k]) if k < len(found) else np.inf


class Overlap:
    """The stumps that both documents of a pair are above.

    Parameters
    ----------
    codes : ndarray of shape (d, p)
        Of how many thresholds of each feature both are above.
    width : int
        Codes are below this.
    """

    def __init__(self, codes: IntArray, width: int) -> None:
        self._codes, self._width = np.ascontiguousarray(codes), width

    def weights_above(self, weights: FloatArray) -> FloatArray:
        """Return the sum of the weights (p,) above every threshold, (d, most + 1)."""
        cells = [np.bincount(codes, weights, self._width) for codes in self._codes]
        return _above(np.array(cells))


def _above(cells: np.ndarray) -> FloatArray:
    """Return the sums of what is beyond every cell of a row; nothing is beyond the last."""
    above = np.zeros(cells.shape)
    above[:, :-1] = np.cumsum(cells[:, :0:-1], axis=1)[:, ::-1]
    return above


def _quantiles(column: FloatArray, shares: FloatArray) -> FloatArray:
    """Return thresholds between the values of a feature, right above its quantiles."""
    values = np.unique(column)
    found = np.unique(np.quantile(column, shares, method="inverted_cdf"))
    places = np.searchsorted(values, found[found < values[-1]])
    # Halfway: there, the rounding of a value makes no difference.
    return 0.5 * (values[places] + values[places + 1])
