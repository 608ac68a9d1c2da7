"""IsoRank-style: trees fitted to the smallest change that puts every list in order.

For the scores h of one query, the smallest change in least squares after which documents
of higher grade score more, by a margin tau per grade, is a projection.  With
``z = h - tau grade`` it asks that no document of a grade is below one of a lower grade:

    minimise sum_i (x_i - z_i)^2   over x_i >= x_j wherever grade_i > grade_j

Documents of one grade need no order among them, so there are thresholds ``m_1 <= m_2 ...``
between neighbouring grades, and x is z brought between the thresholds of its grade.  Each
threshold is where documents of the grade above would have to rise as much as documents of
the grade below would have to fall.  Thresholds out of order are pooled, as in the
pool-adjacent-violators algorithm.  O(D log D) for D documents.

References
----------
Z. Zheng, H. Zha and G. Sun, "Query-level learning to rank using isotonic regression",
Allerton 2008.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch.queries import QuerySet
from reproduce.rivals.trees import Aim, TreeBoosting


@dataclass(eq=False, repr=False, kw_only=True)
class IsoRank(TreeBoosting):
    """Boost trees towards the nearest scores in the right order.

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
    >>> model = IsoRank(min_samples_leaf=3, n_rounds=50).fit(X, y, group=[8] * 5)
    >>> model.score(X, y, group=[8] * 5) > 0.9
    True
    """

    def _aim(self, queries: QuerySet) -> Aim:
        weights = queries.weights[queries.owners]
        raised = self.margin * queries.grades
        bounds = list(zip(queries.starts[:-1], queries.starts[1:], strict=True))

        def aim(scores: FloatArray) -> tuple[FloatArray, FloatArray]:
            values = scores - raised
            moves = [
                nearest_in_order(values[first:last], queries.grades[first:last])
                - values[first:last]
                for first, last in bounds
            ]
            return np.concatenate(moves), weights

        return aim


def nearest_in_order(values: FloatArray, grades: IntArray) -> FloatArray:
    """Return the nearest values that never fall from a lower grade to a higher one.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Numbers, one per document of a query.
    grades : ndarray of shape (n,)
        Grades of the documents.

    Returns
    -------
    ndarray of shape (n,)
        Nearest in least squares.

    Examples
    --------
    >>> nearest_in_order(np.array([1.0, 3.0, 2.0]), np.array([0, 0, 1])).tolist()
    [1.0, 2.5, 2.5]
    """
    kinds, codes = np.unique(grades, return_inverse=True)
    parts = [values[codes == code] for code in range(len(kinds))]
    # Runs of neighbouring grades whose borders have one threshold, and that threshold.
    blocks: list[tuple[int, int, float]] = []
    for code in range(1, len(kinds)):
        first, last = code, code
        threshold = _threshold(parts, first, last)
        while blocks and blocks[-1][2] > threshold:
            first = blocks.pop()[0]
            threshold = _threshold(parts, first, last)
        blocks.append((first, last, threshold))
    found = [np.repeat(level, last - first + 1) for first, last, level in blocks]
    borders = np.concatenate([[-np.inf], *found, [np.inf]])
    return np.clip(values, borders[codes], borders[codes + 1])


def _threshold(parts: Sequence[FloatArray], first: int, last: int) -> float:
    """Return the one threshold below each of the grades first to last.

    Documents of these grades are to be above it, those of the grades one lower below.
    """
    above = np.concatenate(parts[first : last + 1])
    below = np.concatenate(parts[first - 1 : last])
    if above.min() >= below.max():
        return 0.5 * float(above.min() + below.max())
    # What is above has to rise to m by the sum of m - z over z < m, what is below has to
    # fall: the difference grows with m, in pieces that are straight between the values.
    places = np.unique(np.concatenate([above, below]))
    excess = _rise(above, places) - _rise(-below, -places)
    k = int(np.searchsorted(excess, 0.0))  # the first place that is high enough
    if excess[k] == 0.0:
        return float(places[k])
    share = -excess[k - 1] / (excess[k] - excess[k - 1])
    return float(places[k - 1] + share * (places[k] - places[k - 1]))


def _rise(values: FloatArray, places: FloatArray) -> FloatArray:
    """Return how much values have to rise, in all, to be at least at each place."""
    ordered = np.sort(values)
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    n_below = np.searchsorted(ordered, places)
    return n_below * places - sums[n_below]
