"""The grades of a new list, whose number of documents of every grade nobody knows.

A list has a shift t.  Given it, the grades of its documents are independent,

    P(grade of i is g_l | t)  ∝  exp( u_l (s_i + t) + a_l ),      t ~ N( <b, z>, sigma^2 ),

with levels u that rise from 0 to 1, scores s_i less their mean, and what is known of the
list in z: the mean of its scores and the log of its length.  Given how many documents have
every grade, all that is left is ``exp(sum_i u_l s_i)``: the law of rankings with known
counts, whatever a, b and sigma, if the weight of a grade is the same in all lists.

Integrals over t are sums over equally spaced nodes.  Chances by t have no singularity
within a distance of pi of the real axis, so that a spacing h leaves an error of about
``exp(-2 pi^2 / h)``; Gauss-Hermite nodes would need the more of them the larger sigma is.
The chance of a position is a bump in t as wide as ``V^(-1/2)`` or more, V being the
variance of the number of documents above, and one in the label of ties; nodes are so close
that a bump of width w is off by ``2 exp(-2 pi^2 w^2 / h^2)``.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from permatch._parallel import check_stopped, run_tasks
from permatch._progress import progress_bar
from permatch._types import FloatArray, IntArray
from permatch.kernels.ranking.grade_ranks import LANES, integrate_ranks

#: What is known of a list, in the order of the coefficients of its shift.
SUMMARIES = ("mean score", "log of length")

# Standard deviations of the shift to either side of its mean.
_REACH = 6.5
# Spacing of nodes, in standard deviations of the shift, and in log-odds.
_OF_STD, _OF_ODDS = 0.7, 0.55
# Rows whose chances are made together; bounds memory.
_ROWS = 1 << 16
# Sums of positions that are made side by side; they are the same for any number of threads.
_SUMS = 4
# The most nodes by the label of ties, and the orders there are.
_ORDERS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
# Seconds per node, document and number of documents above it, for the progress bar.
_SECONDS_PER_CELL = 5e-10


@dataclass(frozen=True, eq=False)
class ListSummaries:
    """Scores of lists in log-odds: less their means, and what is known of every list."""

    centred: FloatArray  # (n,)
    z: FloatArray  # (q, 2), see `SUMMARIES`

    @classmethod
    def of(cls, scores: FloatArray, starts: IntArray) -> "ListSummaries":
        """Summarise lists one behind the other, each with a document."""
        lengths = np.diff(starts)
        owners = np.repeat(np.arange(len(lengths)), lengths)
        means = np.bincount(owners, scores, len(lengths)) / lengths
        return cls(scores - means[owners], np.column_stack([means, np.log(lengths)]))


@dataclass(frozen=True, eq=False)
class RankPlan:
    """Nodes and weights of the shift, and for each those of the label of ties by grade."""

    nodes: FloatArray
    weights: FloatArray
    points: list[tuple[FloatArray, FloatArray, IntArray]]


@dataclass(frozen=True, eq=False)
class GradeLaw:
    """The law of the grades of a list, given the scores of its documents.

    Attributes
    ----------
    grades : ndarray of shape (R,)
        The grades, rising.
    levels : ndarray of shape (R,)
        The position weight of each, non-decreasing, in units of scores.
    offsets : ndarray of shape (R,)
        Their log-odds against the lowest, which has 0.
    coef : ndarray of shape (2,)
        How the shift of a list depends on `SUMMARIES`.
    std : float
        Standard deviation of the shift beyond that.
    slope : float
        Factor of all scores.
    """

    grades: IntArray
    levels: FloatArray
    offsets: FloatArray
    coef: FloatArray
    std: float
    slope: float = 1.0

    @cached_property
    def span(self) -> float:
        """How much the log-odds of the highest grade rise with a score."""
        return float(self.levels[-1] - self.levels[0])

    @cached_property
    def steps(self) -> FloatArray:
        """The levels from 0 to 1, (R,)."""
        return np.ascontiguousarray((self.levels - self.levels[0]) / self.span)

    @property
    def n_grades(self) -> int:
        """Grades from 0 to the highest."""
        return int(self.grades[-1]) + 1

    def relevance(self, scores: FloatArray, starts: IntArray) -> FloatArray:
        """Return the probability of every grade from 0 up, (n, n_grades)."""
        lists = ListSummaries.of(self.span * scores, starts)
        means = np.repeat(lists.z @ self.coef, np.diff(starts))
        centred = self.slope * lists.centred
        found = np.zeros((len(scores), self.n_grades))
        nodes, weights = self._nodes()
        for first in range(0, len(scores), _ROWS):
            rows = slice(first, first + _ROWS)
            shifted = centred[rows] + means[rows]
            total = np.zeros((len(shifted), len(self.grades)))
            for node, weight in zip(nodes, weights, strict=True):
                total += weight * self._chances(shifted + node)
            found[rows, self.grades] = total
        return found

    def counts(self, scores: FloatArray) -> FloatArray:
        """Return how many documents of one list have every one of the grades, (R,)."""
        found = self.relevance(scores, np.array([0, len(scores)]))
        return found[:, self.grades].sum(axis=0)

    def above(self, scores: FloatArray, i: IntArray, j: IntArray) -> FloatArray:
        """Return the chance of a higher grade of i than of j, ties counting one half."""
        shifted, result = self._shifted(scores), np.zeros(i.shape)
        for node, weight in zip(*self._nodes(), strict=True):
            chances = self._chances(shifted + node)
            lower = np.cumsum(chances, axis=1) - 0.5 * chances
            result += weight * (chances[i] * lower[j]).sum(axis=-1)
        return np.where(i == j, 0.5, np.clip(result, 0.0, 1.0))

    def plan_ranks(self, scores: FloatArray, coarseness: float = 1.0) -> "RankPlan":
        """Return the nodes that the chances of positions take; fewer if coarse."""
        shifted = np.sort(self._shifted(scores))[::-1]
        nodes, weights = self._nodes(coarseness * self._narrowest(shifted))
        points = [self._points(shifted + node, coarseness) for node in nodes]
        return RankPlan(nodes, weights, points)

    def rank_marginals(
        self, scores: FloatArray, n_jobs: int = 1, plan: "RankPlan | None" = None
    ) -> FloatArray:
        """Return the chance of every position, (n, n), of documents sorted by grade.

        Ties are in random order.  With the same plan they are smooth in the scores.
        """
        n, how = len(scores), plan or self.plan_ranks(scores)
        order = np.argsort(-scores, kind="stable")
        shifted = np.ascontiguousarray(self._shifted(scores)[order])
        n_sums = min(_SUMS, len(how.nodes))
        sums = np.zeros((n_sums, -(-n // LANES), n, LANES))
        n_cells = sum(len(points) for points, _, _ in how.points) * n * min(n, 200.0)
        seconds = _SECONDS_PER_CELL * n_cells / n_jobs

        with progress_bar("positions", len(how.nodes), seconds, None) as show:

            def task(k: int) -> None:
                for at in range(k, len(how.nodes), n_sums):
                    own = shifted, self.steps, self.offsets, how.nodes[at], how.weights[at]
                    integrate_ranks(*own, *how.points[at], sums[k])
                    if show is not None:
                        show(at)
                    check_stopped()

            run_tasks(task, n_sums, n_jobs)
        total = sums.sum(axis=0).transpose(0, 2, 1).reshape(-1, n)[:n]
        found = np.empty((n, n))
        found[order] = np.maximum(total, 0.0)
        return found

    def _shifted(self, scores: FloatArray) -> FloatArray:
        """Return the scores of one list in log-odds, at the mean of its shift."""
        lists = ListSummaries.of(self.span * scores, np.array([0, len(scores)]))
        return self.slope * lists.centred + lists.z[0] @ self.coef

    def _chances(self, shifted: FloatArray) -> FloatArray:
        """Return the chance of every one of the grades, (n, R)."""
        odds = shifted[:, None] * self.steps + self.offsets
        odds -= odds.max(axis=1, keepdims=True)
        np.exp(odds, out=odds)
        return odds / odds.sum(axis=1, keepdims=True)

    def _nodes(self, widest: float = np.inf) -> tuple[FloatArray, FloatArray]:
        """Return nodes of the shift less its mean, and their weights, which sum to one."""
        spacing = min(_OF_STD * self.std, _OF_ODDS, widest)
        n_sides = max(1, math.ceil(_REACH * self.std / spacing))
        nodes = spacing * np.arange(-n_sides, n_sides + 1.0)
        weights = np.exp(-0.5 * (nodes / self.std) ** 2)
        return nodes, weights / weights.sum()

    def _narrowest(self, shifted: FloatArray) -> float:
        """Return the width of the narrowest bump that the chance of a position is in t.

        It is the standard deviation of the number of documents above one, by its slope.
        """
        steepest = 1e-9
        for node in np.linspace(-_REACH * self.std, _REACH * self.std, 41):
            chances = self._chances(shifted + node)
            slopes = chances * (self.steps - (chances @ self.steps)[:, None])
            for share in (0.5, 1.0):  # of the documents of the same grade
                q, slope = (_above(part, share) for part in (chances, slopes))
                variance = np.maximum((q * (1.0 - q)).sum(axis=0), 1e-12)
                steepest = max(steepest, (slope.sum(axis=0) / np.sqrt(variance)).max())
        return 1.0 / steepest

    def _points(
        self, shifted: FloatArray, coarseness: float
    ) -> tuple[FloatArray, FloatArray, IntArray]:
        """Return nodes of the label of ties by grade, their weights, and where they begin.

        With n documents the integrand is a polynomial of degree n - 1.
        """
        chances = self._chances(shifted)
        middle = np.clip(_above(chances, 0.5), 0.0, 1.0)  # rounding takes it beyond
        variances = (middle * (1.0 - middle)).sum(axis=0)
        sizes = chances.sum(axis=0)
        wanted = 4.0 + 0.5 * math.pi * sizes / np.sqrt(variances + 1e-300) / coarseness
        exact = (len(shifted) + 1) // 2
        tables = [_legendre(min(_order(n), max(exact, 1))) for n in wanted]
        starts = np.cumsum([0, *(len(points) for points, _ in tables)])
        points, shares = (np.concatenate(parts) for parts in zip(*tables, strict=True))
        return points, shares, starts


def _above(parts: FloatArray, share: float) -> FloatArray:
    """Return sums over all higher grades, and a share of the same grade, (n, R)."""
    return np.cumsum(parts[:, ::-1], axis=1)[:, ::-1] - (1.0 - share) * parts


def _order(wanted: float) -> int:
    """Return how many nodes to take."""
    return next((order for order in _ORDERS if order >= wanted), _ORDERS[-1])


_TABLES: dict[int, tuple[FloatArray, FloatArray]] = {}


def _legendre(order: int) -> tuple[FloatArray, FloatArray]:
    """Return Gauss-Legendre nodes and weights on [0, 1]."""
    if order not in _TABLES:
        points, weights = np.polynomial.legendre.leggauss(order)
        _TABLES[order] = 0.5 * (points + 1.0), 0.5 * weights
    return _TABLES[order]
