"""The margin-rescaled structured hinge of labelled matchings, with a subgradient.

    risk(w)     = sum_n share_n max_pi [ loss_n(pi) + <w, phi_n(pi) - phi_n(y_n)> ]
    subgradient = sum_n share_n ( phi_n(pi_n) - phi_n(y_n) )        pi_n the maximiser above

with phi_n(pi) the features of what matching pi uses in graph n, edges and unmatched nodes,
y_n its label, and shares that sum to one.  The label is among the candidates, so every term
is at least 0.  The loss is the share of left nodes with another partner than in the label,
or with one instead of none.  It splits over edges and unmatched nodes, so the maximiser is
the best matching of scores plus offsets.

References
----------
B. Taskar, V. Chatalbashev, D. Koller and C. Guestrin, "Learning structured prediction
models: a large margin approach", ICML 2005.
T. S. Caetano, J. J. McAuley, L. Cheng, Q. V. Le and A. J. Smola, "Learning graph matching",
IEEE Transactions on Pattern Analysis and Machine Intelligence 31 (2009).
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from permatch._parallel import run_tasks
from permatch._types import FloatArray, IntArray
from permatch.assignment import best_assignment
from permatch.errors import PrecisionError
from permatch.kernels.sliced import best_matchings
from permatch.objectives.feature_table import FeatureTable
from permatch.objectives.parts import Part
from permatch.objectives.stacks import FeatureStack

# Edges times nodes per task: about a millisecond, so that a thread is worth its start.
_TASK_COST = 2_000_000


class MatchingHinge:
    """Value and subgradient of the structured hinge, without a penalty.

    Takes the labelled training graphs in parts, and the `shares` (n,), which sum to one, of
    all graphs in their order.
    """

    def __init__(self, parts: Sequence[Part], shares: FloatArray, n_jobs: int = 1) -> None:
        self._parts = [
            (
                StackHinge(part, n_jobs)
                if isinstance(part, FeatureStack)
                else TableHinge(part),
                shares[part.members],
            )
            for part in parts
        ]
        self.n_parameters = len(parts[0].parameters)

    def risk_and_subgradient(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Return the mean of the hinge by shares, and a subgradient there."""
        terms, slope = [], np.zeros(self.n_parameters)
        for part, shares in self._parts:
            hinge, own = part.evaluate(weights, shares)
            # Rounding must not push a term below what the label itself attains.
            terms.append(float(shares @ np.maximum(hinge, 0.0)))
            slope += own
        return math.fsum(terms), slope


class StackHinge:
    """The hinge of square graphs of one size."""

    def __init__(self, stack: FeatureStack, n_jobs: int) -> None:
        self.stack = stack
        self.n_jobs = n_jobs
        # The share of wrong rows, split over the edges that are not in the label.
        self._offsets = (stack.labels[:, :, None] != np.arange(stack.size)) / max(
            stack.size, 1
        )

    def evaluate(
        self, weights: FloatArray, shares: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the hinge of every graph, (b,), and a subgradient of its mean."""
        stack, labels = self.stack, self.stack.labels
        augmented = stack.scores(weights) + self._offsets
        found = self._best_matchings(augmented)
        # Correct rows cancel: leaving them out costs no digits, and no time.
        graph, row = np.nonzero(found != labels)
        wrong = graph, row, found[graph, row]
        right = graph, row, labels[graph, row]
        gains: FloatArray = augmented[wrong] - augmented[right]
        hinge = np.bincount(graph, gains, len(labels)).astype(float, copy=False)
        slope = shares[graph] @ (stack.features[wrong] - stack.features[right])
        return hinge, stack.padded(slope)

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


class TableHinge:
    """The hinge of graphs side by side, whose nodes may stay unmatched."""

    def __init__(self, table: FeatureTable) -> None:
        self.table = table
        structure = table.structure
        # The share of wrong left nodes, split over edges and over staying unmatched.
        each = 1.0 / np.maximum(np.diff(structure.left_starts), 1)
        each = each[structure.graph_of_left]
        self._has_partner = np.zeros(structure.n_left, dtype=bool)
        self._has_partner[structure.left[table.is_match]] = True
        self._edge_offsets = ~table.is_match * each[structure.left]
        self._left_offsets = self._has_partner * each

    def evaluate(
        self, weights: FloatArray, shares: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the hinge of every graph, (b,), and a subgradient of its mean."""
        table, structure = self.table, self.table.structure
        problem = table.problem(weights)
        augmented = replace(
            problem,
            scores=problem.scores + self._edge_offsets,
            unmatched_left=problem.unmatched_left + self._left_offsets,
        )
        matching = best_assignment(augmented).matching
        nodes = np.nonzero(matching >= 0)[0]
        chosen = np.zeros(structure.n_edges)
        chosen[structure.find(nodes, matching[nodes])] = 1.0
        # What is right cancels: leaving it out costs no digits.
        edges = chosen - table.is_match
        left = self._has_partner * 1.0 - np.bincount(nodes, minlength=structure.n_left)
        partners = structure.right[table.is_match]
        right = np.bincount(partners, minlength=structure.n_right) - np.bincount(
            matching[nodes], minlength=structure.n_right
        )
        hinge = np.zeros(structure.n_graphs)
        for signs, values, graphs in (
            (edges, augmented.scores, table.graph_of_edge),
            (left, augmented.unmatched_left, structure.graph_of_left),
            (right * 1.0, augmented.unmatched_right, structure.graph_of_right),
        ):
            changed = np.nonzero(signs)[0]
            gains = signs[changed] * values[changed]
            hinge += np.bincount(graphs[changed], gains, structure.n_graphs)
        return hinge, table.total(shares, edges, left, right)
