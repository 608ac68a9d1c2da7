"""The margin-rescaled structured hinge of labelled matchings, with a subgradient.

    risk(coef)  = sum_n weight_n max_pi [ loss_n(pi) + <coef, phi_n(pi) - phi_n(y_n)> ]
    subgradient = sum_n weight_n ( phi_n(pi_n) - phi_n(y_n) )       pi_n the maximiser above

with phi_n(pi) the summed features of the edges of matching pi in graph n, y_n its label,
and weights that sum to one.  The label is among the candidates, so every term is at least
0.  The loss splits over edges: the maximiser is the best matching of scores plus offsets.

References
----------
B. Taskar, V. Chatalbashev, D. Koller and C. Guestrin, "Learning structured prediction
models: a large margin approach", ICML 2005.
T. S. Caetano, J. J. McAuley, L. Cheng, Q. V. Le and A. J. Smola, "Learning graph matching",
IEEE Transactions on Pattern Analysis and Machine Intelligence 31 (2009).
"""

import math
from collections.abc import Sequence

import numpy as np

from permatch._parallel import run_tasks
from permatch._types import FloatArray, IntArray
from permatch.errors import PrecisionError
from permatch.kernels.sliced import best_matchings
from permatch.objectives.stacks import FeatureStack

# Edges times nodes per task: about a millisecond, so that a thread is worth its start.
_TASK_COST = 2_000_000


class MatchingHinge:
    """Value and subgradient of the structured hinge, without a penalty.

    Takes the training graphs, stacked by size, and the labelled `matchings` and the
    `weights` (n,), which sum to one, of all graphs in their order.
    """

    def __init__(
        self,
        stacks: list[FeatureStack],
        matchings: Sequence[IntArray],
        weights: FloatArray,
        n_jobs: int = 1,
    ) -> None:
        self.stacks = stacks
        self.n_jobs = n_jobs
        self._weights = [weights[stack.members] for stack in stacks]
        self._labels = [
            np.array([matchings[k] for k in stack.members], dtype=np.intp).reshape(
                len(stack.members), stack.size
            )
            for stack in stacks
        ]
        # The share of wrong rows, split over the edges that are not in the label.
        self._offsets = [
            (labels[:, :, None] != np.arange(stack.size)) / max(stack.size, 1)
            for stack, labels in zip(stacks, self._labels, strict=True)
        ]

    def risk_and_subgradient(self, coef: FloatArray) -> tuple[float, FloatArray]:
        """Return the weighted mean of the hinge at `coef`, and a subgradient there."""
        terms, slope = [], np.zeros(len(coef))
        parts = zip(self.stacks, self._weights, self._labels, self._offsets, strict=True)
        for stack, weight, labels, offsets in parts:
            augmented = stack.scores(coef) + offsets
            found = self._best_matchings(augmented)
            # Correct rows cancel: leaving them out costs no digits, and no time.
            graph, row = np.nonzero(found != labels)
            wrong = graph, row, found[graph, row]
            right = graph, row, labels[graph, row]
            hinge = np.bincount(
                graph, augmented[wrong] - augmented[right], minlength=len(labels)
            )
            # Rounding must not push a term below what the label itself attains.
            terms.append(float(weight @ np.maximum(hinge, 0.0)))
            slope += weight[graph] @ (stack.features[wrong] - stack.features[right])
        return math.fsum(terms), slope

    def _best_matchings(self, scores: FloatArray) -> IntArray:
        n_graphs, size = scores.shape[:2]
        matchings = np.empty((n_graphs, size), dtype=np.int64)
        per_task = max(1, _TASK_COST // max(size, 1) ** 3)
        n_tasks = -(-n_graphs // per_task)
        is_solved = np.zeros(n_tasks, dtype=bool)

        def solve(k: int) -> None:
            last = min((k + 1) * per_task, n_graphs)
            is_solved[k] = best_matchings(scores, matchings, k * per_task, last)

        run_tasks(solve, n_tasks, self.n_jobs)
        if not is_solved.all():  # labels use allowed edges, so there is a matching
            raise PrecisionError(
                "scores must stay finite during fitting; features times coefficients "
                "exceed float64. Divide the features by a large number."
            )
        return matchings.astype(np.intp, copy=False)
