"""The structured hinge of ranked lists: the losses of DORM.

    risk(scores) = sum_n weight_n max_pi [ loss_n(pi) + sum_i (c_pi(i) - t_i) s_i ]
    slope        = sum_n weight_n (c_pi_n(i) - t_i)  at document i of n, pi_n the maximiser

List n is observed in the order of its grades, with the weights t of `subset_likelihood`.
The loss of a placement splits over documents and positions, so the maximiser is the best
assignment.  The observed order is among the candidates, so every term is at least 0.

    ndcg     1 - sum_i g_i d_pi(i) / Z     gains g = 2^grade - 1, discounts 1 / log2(1 + j)
    dcg      Z - sum_i g_i d_pi(i)         Z the sum of the observed order
    hamming  share of positions with a document of another grade than observed

References
----------
Q. V. Le and A. J. Smola, "Direct optimization of ranking measures", arXiv:0704.3359 (2007).
"""

import math
from typing import Any, Literal

import numpy as np

from permatch._parallel import run_tasks
from permatch._types import FloatArray, IntArray
from permatch._validation import check_choice
from permatch.kernels.ranking.hinge import MAX_SET_SIZE, add_hinges
from permatch.objectives.subset_likelihood import (
    GradedSubsets,
    SubsetLoss,
    check_finite,
    dcg_weights,
    task_values,
)

RankLoss = Literal["ndcg", "dcg", "hamming"]

# Documents of a task of whole lists: about a millisecond of sorting.
_TASK_DOCUMENTS = 20_000


def _discounted_losses(grades: IntArray, is_normalised: bool) -> FloatArray:
    """Return the loss of every document at every position, (p, m, m)."""
    gains = np.exp2(grades) - 1.0
    discounts = dcg_weights(grades.shape[1])
    losses = gains[:, :, None] * (discounts[:, None] - discounts)
    return losses / (gains @ discounts)[:, None, None] if is_normalised else losses


def _hamming_losses(grades: IntArray) -> FloatArray:
    """Return 1 / m where the observed order has another grade, (p, m, m)."""
    return (grades[:, :, None] != grades[:, None, :]) / grades.shape[1]


_LOSSES = {
    "ndcg": lambda grades: _discounted_losses(grades, True),
    "dcg": lambda grades: _discounted_losses(grades, False),
    "hamming": _hamming_losses,
}


def check_rank_loss(loss: Any) -> None:
    """Refuse an unknown loss."""
    check_choice(loss, "loss", _LOSSES)


class SubsetHinge(SubsetLoss):
    """Structured hinge of subsets in the order of their grades.

    Takes what `SubsetLoss` takes, and a `loss`: the cost of a wrong placement.
    """

    def __init__(self, *args: Any, loss: RankLoss = "ndcg", **options: Any) -> None:
        super().__init__(*args, **options)
        self._losses = {part.size: _LOSSES[loss](part.grades) for part in self._parts}

    @staticmethod
    def _cost(size: int) -> int:
        return size << size if size <= MAX_SET_SIZE else size**3

    def _add(
        self, scores: FloatArray, part: GradedSubsets, slope: FloatArray
    ) -> FloatArray:
        losses = self._losses[part.size]
        observed = part.rows, part.patterns, part.targets, losses
        weights = part.weights, part.position_weights

        def add(first: int, last: int) -> float:
            return add_hinges(scores, *observed, *weights, slope, first, last)

        return task_values(add, part.cuts, self.n_jobs)


class ListHinge:
    """Structured hinge of whole lists, with the loss 1 - NDCG.

    The position weights are the discounts.  Loss and score of a placement then share a
    factor, ``d_j (s_i - g_i / Z)``: the maximiser is a sort.  Documents of equal grade
    share the mean weight of their positions.

    Query k has the documents ``starts[k]:starts[k + 1]`` and the weight
    ``query_weights[k]``, ignored if it has a single grade.  O(D log D) for D documents.
    """

    def __init__(
        self,
        starts: IntArray,
        grades: IntArray,
        query_weights: FloatArray,
        *,
        n_jobs: int = 1,
    ) -> None:
        self.n_jobs = n_jobs
        self._starts = np.asarray(starts, dtype=np.intp)
        self._query_weights = np.asarray(query_weights, dtype=np.float64)
        longest = int(np.diff(self._starts).max(initial=0))
        self._discounts = dcg_weights(longest)
        self._shares = np.zeros(len(grades))  # g / Z
        self._targets = np.zeros(len(grades))
        is_used = [self._observe(k, grades) for k in range(len(starts) - 1)]
        self._queries = np.flatnonzero(is_used)
        n_before = np.cumsum(np.diff(self._starts)[self._queries]) // _TASK_DOCUMENTS
        self._cuts = np.append(np.unique(n_before, return_index=True)[1], len(n_before))

    def _observe(self, k: int, grades: IntArray) -> bool:
        """Fill gains and observed weights of query k; return whether its grades differ."""
        rows = slice(self._starts[k], self._starts[k + 1])
        kinds, inverse, counts = np.unique(
            -grades[rows], return_inverse=True, return_counts=True
        )
        if len(kinds) < 2:
            return False
        begins = np.cumsum(counts) - counts
        discounts = self._discounts[: counts.sum()]
        means = np.add.reduceat(discounts, begins) / counts
        self._targets[rows] = means[inverse]
        gains = np.exp2(grades[rows]) - 1.0
        self._shares[rows] = gains / (gains @ self._targets[rows])
        return True

    def value_and_slope(self, scores: FloatArray) -> tuple[float, FloatArray]:
        """Return the risk and a subgradient of it by the scores."""
        slope = np.zeros(len(self._targets))
        values = np.zeros(len(self._queries))

        def work(task: int) -> None:
            for n in range(self._cuts[task], self._cuts[task + 1]):
                values[n] = self._add_list(self._queries[n], scores, slope)

        run_tasks(work, len(self._cuts) - 1, self.n_jobs)
        return check_finite(math.fsum(values)), slope

    def _add_list(self, k: int, scores: FloatArray, slope: FloatArray) -> float:
        """Fill the slopes of query k; return its risk."""
        rows = slice(self._starts[k], self._starts[k + 1])
        shares, weight = self._shares[rows], self._query_weights[k]
        # Only differences count: without a common offset they keep their digits.
        own = scores[rows] - scores[rows].max()
        order = np.argsort(shares - own, kind="stable")
        shifts = -self._targets[rows]
        shifts[order] += self._discounts[: len(order)]
        slope[rows] = weight * shifts
        hinge = float((shifts * (own - shares)).sum())
        # Rounding must not push a list below what its observed order attains.
        return weight * (0.0 if hinge < 0.0 else hinge)
