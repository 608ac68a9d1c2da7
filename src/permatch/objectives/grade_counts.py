"""How many documents of every grade a list has: the likelihood of grades, given scores.

The whole-list likelihood says which documents have which grades, given how many have each:

    p(grades | counts)  ∝  exp( sum_i v_{y_i} s_i ).

`GradeLaw` completes it: given the shift t of a list its documents are independent, with
chances ``∝ exp( v_l (s_i + t) + a_l )``.  In the probability of all grades the shift and
the offsets add ``sum_l n_l (v_l t + a_l)``, which the counts n_l settle, so that given the
counts the law is the one above for any offsets a and any distribution of t.  Hence

    log p(grades)  =  log p(grades | counts)  +  log p(counts),

and what maximises the marginal likelihood over a, b and sigma, with scores held fixed,
maximises p(counts): the two likelihoods are fitted one after the other, and are one.

    value(theta)  =  - mean over lists of log p(grades)  -  log prior(theta) / lists

with theta the offsets a_1 .. a_{R-1}, the coefficients b of the standardised summaries of
a list, log sigma, and, where the scores have not been fitted to these lists, the log of
their slope.  The priors are normal and weak: they matter for a few lists only.
"""

import math
from dataclasses import dataclass

import numpy as np

from permatch._parallel import run_tasks
from permatch._types import FloatArray, IntArray
from permatch.inference.ranking.grade_law import SUMMARIES, GradeLaw, ListSummaries
from permatch.kernels.ranking.grade_counts import integrate_lists
from permatch.objectives.query_gram import cut_queries

# Standard deviations of the priors, in log-odds of the highest against the lowest grade:
# offsets around the shares of the grades, coefficients of standardised summaries, and the
# logs of sigma and of the slope, around 0.
_OF_OFFSET, _OF_COEF, _OF_LOG_STD, _OF_LOG_SLOPE = 4.0, 0.7, 1.0, 1.0
# The bounds of offsets, coefficients and logs: a line search must not leave float64.
_MOST_ODDS, _MOST_LOG = 100.0, 6.0
#: The largest sigma and slope.
LARGEST = math.exp(_MOST_LOG)
# Gauss-Hermite nodes around the mode of every list.
_N_NODES = 11
# Documents of a task, about.
_TASK_SIZE = 4096
# Of a summary, relative to what it is made of: a spread that is rounding.
_CONSTANT = 1e-9


@dataclass(frozen=True, eq=False)
class GradedLists:
    """Lists with scores, grades as positions among those there are, and weights (q,)."""

    scores: FloatArray
    codes: IntArray
    starts: IntArray
    weights: FloatArray


class CountLikelihood:
    """The objective above as a function of theta.

    Parameters
    ----------
    lists : GradedLists
        With weights above 0.
    grades, levels : ndarrays of shape (R,)
        As in `GradeLaw`.
    has_slope : bool
        Whether the slope of the scores is learned too; otherwise it is 1.
    n_jobs : int
        Threads.
    """

    def __init__(
        self,
        lists: GradedLists,
        grades: IntArray,
        levels: FloatArray,
        *,
        has_slope: bool = False,
        n_jobs: int = 1,
    ) -> None:
        self.grades, self.levels, self.has_slope = grades, levels, has_slope
        self.n_jobs = n_jobs
        self.span = float(levels[-1] - levels[0])
        self.steps = np.ascontiguousarray((levels - levels[0]) / self.span)
        own = ListSummaries.of(self.span * lists.scores, lists.starts)
        self._starts = np.ascontiguousarray(lists.starts, dtype=np.int64)
        self._centred, self._codes = own.centred, lists.codes.astype(np.int64)
        self._weights = lists.weights / lists.weights.sum()
        self._middle = own.z.mean(axis=0)
        spread = own.z.std(axis=0)
        sizes = np.array([self.span * np.abs(lists.scores).max(initial=0.0), 1.0])
        is_constant = spread <= _CONSTANT * np.maximum(sizes, np.abs(own.z).max(axis=0))
        self._spread = np.where(is_constant, 1.0, spread)
        self._z = np.where(is_constant, 0.0, (own.z - self._middle) / self._spread)
        shares = np.bincount(self._codes, minlength=len(grades)) + 0.5
        self._centre = np.zeros(self.size)
        self._centre[: len(grades) - 1] = np.log(shares[1:] / shares[0])
        priors = [_OF_OFFSET] * (len(grades) - 1) + [_OF_COEF] * len(SUMMARIES)
        priors += [_OF_LOG_STD] + [_OF_LOG_SLOPE] * has_slope
        self._precisions = np.array(priors) ** -2.0 / len(lists.weights)
        self._tasks = cut_queries(self._starts, _TASK_SIZE)
        points, weights = np.polynomial.hermite.hermgauss(_N_NODES)
        self._nodes = points, np.log(weights) + points**2
        self._modes = np.zeros(len(lists.weights))  # where the next search begins

    @property
    def size(self) -> int:
        """Number of entries of theta."""
        return len(self.grades) + len(SUMMARIES) + self.has_slope

    @property
    def start(self) -> FloatArray:
        """Where to begin: the shares of the grades in all lists."""
        return self._centre.copy()

    @property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """The lowest and the highest value of every entry of theta."""
        most = np.full(self.size, _MOST_ODDS)
        most[len(self.grades) - 1 + len(SUMMARIES) :] = _MOST_LOG
        return -most, most

    def value_and_grad(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the objective and its gradient."""
        n_levels = len(self.grades)
        at_std = n_levels - 1 + len(SUMMARIES)
        offsets = np.concatenate([[0.0], theta[: n_levels - 1]])
        coef = theta[n_levels - 1 : at_std]
        std = math.exp(theta[at_std])
        slope = math.exp(theta[-1]) if self.has_slope else 1.0
        means, scores = self._z @ coef, slope * self._centred
        values = np.empty(len(means))
        grads = np.empty((len(means), n_levels + 2))

        def task(k: int) -> None:
            integrate_lists(
                self._starts,
                scores,
                self._codes,
                self.steps,
                offsets,
                means,
                std,
                *self._nodes,
                self._tasks[k],
                self._tasks[k + 1],
                self._modes,
                values,
                grads,
            )

        run_tasks(task, len(self._tasks) - 1, self.n_jobs)
        weighted = self._weights[:, None] * grads
        sums = weighted.sum(axis=0)
        of_coef = weighted[:, n_levels - 1] @ self._z
        parts = [sums[: n_levels - 1], of_coef, sums[n_levels : n_levels + 1]]
        parts += [sums[n_levels + 1 :]] * self.has_slope
        away = theta - self._centre
        value = 0.5 * float(self._precisions @ away**2) - math.fsum(self._weights * values)
        return value, self._precisions * away - np.concatenate(parts)

    def law(self, theta: FloatArray) -> GradeLaw:
        """Return the law of grades with these parameters, summaries as they are."""
        n_levels = len(self.grades)
        at_std = n_levels - 1 + len(SUMMARIES)
        coef = theta[n_levels - 1 : at_std] * self._z.any(axis=0) / self._spread
        offsets = np.concatenate([[0.0], theta[: n_levels - 1]])
        return GradeLaw(
            grades=self.grades,
            levels=self.levels,
            offsets=offsets - self.steps * float(coef @ self._middle),
            coef=coef,
            std=math.exp(theta[at_std]),
            slope=math.exp(theta[-1]) if self.has_slope else 1.0,
        )
