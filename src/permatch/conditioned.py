"""What is computed for one graph, given what is known of it: once each, on first use.

All works on reduced scores: their sums are small, so differences such as log-probabilities
keep their digits however large the scores are.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from permatch._parallel import Job
from permatch._types import BoolArray, FloatArray, IntArray
from permatch.assignment import Assignment, best_assignment
from permatch.decoding.support import find_support
from permatch.decoding.totals import on_edges_of, total_scores
from permatch.inference import AbstractEngine, InferenceResult, require_marginals
from permatch.inference._samples import Samples
from permatch.inference.sampling.problem_samples import find_samples
from permatch.known import Known, condition
from permatch.problems import Problem


@dataclass(frozen=True, eq=False)
class Conditioned:
    """One graph without the edges that what is known rules out.

    Attributes
    ----------
    problem : Problem
        What is left of it.
    is_kept : ndarray of shape (edges of the whole graph,), or None
        Which edges are left; None: all.
    pairs : mapping from left to right node
        Pairs known to match.
    engine : AbstractEngine
        Computes the log-partition and the marginals.
    n_jobs : int
        Threads.

    Examples
    --------
    >>> import numpy as np
    >>> from permatch.inference import AutoEngine
    >>> from permatch.known import Known
    >>> from permatch.scores import check_problem
    >>> problem, _ = check_problem(np.zeros((3, 3)))
    >>> core = Conditioned.build(problem, Known({0: 1}), AutoEngine(), 1)
    >>> round(float(np.exp(core.offset + core.log_partition)), 6)
    2.0
    """

    problem: Problem
    is_kept: BoolArray | None
    pairs: Mapping[int, int]
    engine: AbstractEngine
    n_jobs: int

    @classmethod
    def build(
        cls, problem: Problem, known: Known, engine: AbstractEngine, n_jobs: int
    ) -> "Conditioned":
        """Leave out the edges that what is known rules out."""
        if not known:
            return cls(problem, None, {}, engine, n_jobs)
        return cls(*condition(problem, known), known.matched, engine, n_jobs)

    def on_all_edges(self, values: FloatArray) -> FloatArray:
        """Return values on the edges of the whole graph, 0 on those ruled out."""
        if self.is_kept is None:
            return values
        every = np.zeros(len(self.is_kept))
        every[self.is_kept] = values
        return every

    @cached_property
    def best(self) -> Assignment:
        """The best matching, with prices."""
        return best_assignment(self.problem)

    @property
    def offset(self) -> float:
        """The score of the best matching: what reduced scores have lost."""
        return float(self.best.scores[0])

    @cached_property
    def result(self) -> InferenceResult:
        """The answer of the engine for reduced scores."""
        reduced, job = self.best.reduced, Job(self.n_jobs)
        if not self.pairs:
            return self.engine.infer_problem(reduced, job)
        # Pairs known to match are taken out: not every engine takes nodes that must be.
        places = np.array(list(self.pairs)), np.array(list(self.pairs.values()))
        edges = reduced.structure.find(*places)
        is_open = np.ones(reduced.structure.n_edges, dtype=bool)
        is_open[edges] = False
        free = reduced.unmatched_left.copy(), reduced.unmatched_right.copy()
        for own, nodes in zip(free, places, strict=True):
            own[nodes] = 0.0
        rest = Problem(reduced.structure, reduced.scores, *free).kept(is_open)
        return _with_pairs(self.engine.infer_problem(rest, job), is_open, *places)

    @property
    def log_partition(self) -> float:
        """The log-partition of reduced scores."""
        return float(self.result.log_partition[0])

    @cached_property
    def support(self) -> tuple[BoolArray, BoolArray, BoolArray]:
        """Edges, and unmatched left and right nodes, that occur in some matching."""
        return find_support(self.problem, self.best.matching)

    @cached_property
    def samples(self) -> Samples:
        """The source of samples."""
        return find_samples(self.problem, self.engine)

    def log_probs(self, matchings: IntArray) -> FloatArray:
        """Return the log-probabilities of matchings (r, n_left)."""
        log_probs = total_scores(self.best.reduced, matchings) - self.log_partition
        return np.minimum(log_probs, 0.0)  # rounding must not push one above

    @property
    def entropy(self) -> float:
        """Minus the expected log-probability."""
        return max(0.0, self.log_partition - self._expected(self.best.reduced))

    def divergence(self, other: "Conditioned") -> float:
        """Return the Kullback-Leibler divergence from another to this one."""
        own = self.best.reduced
        theirs = self._expected(on_edges_of(own, other.best.reduced))
        if theirs == -np.inf:
            return float("inf")
        gap = self._expected(own) - theirs
        return max(0.0, gap + other.log_partition - self.log_partition)

    def _expected(self, scores: Problem) -> float:
        """Return the expected score; ``-inf`` if a matching that may be has that score."""
        require_marginals(self.engine)
        found = self.result
        expected = 0.0
        for own, values, may_be in zip(
            (found.marginals, found.unmatched_left, found.unmatched_right),
            (scores.scores, scores.unmatched_left, scores.unmatched_right),
            self.support,
            strict=True,
        ):
            if (values[may_be] == -np.inf).any():
                return -np.inf
            expected += float(np.sum(own[may_be] * values[may_be]))
        return expected


def _with_pairs(
    answer: InferenceResult, is_open: BoolArray, left: IntArray, right: IntArray
) -> InferenceResult:
    """Return the answer for the open edges with pairs that match for certain."""

    def edges(values: FloatArray | None, of_pairs: float) -> FloatArray | None:
        if values is None:
            return None
        every = np.full(len(is_open), of_pairs)
        every[is_open] = values
        return every

    def nodes(values: FloatArray | None, known: IntArray) -> FloatArray | None:
        if values is not None:
            values = values.copy()
            values[known] = 0.0
        return values

    def ends(pair: Any, put: Any, *more: Any) -> Any:
        return None if pair is None else (put(pair[0], *more), put(pair[1], *more))

    return replace(
        answer,
        marginals=edges(answer.marginals, 1.0),
        marginal_errors=edges(answer.marginal_errors, 0.0),
        unmatched_left=nodes(answer.unmatched_left, left),
        unmatched_right=nodes(answer.unmatched_right, right),
        marginal_bounds=ends(answer.marginal_bounds, edges, 1.0),
        unmatched_left_bounds=ends(answer.unmatched_left_bounds, nodes, left),
        unmatched_right_bounds=ends(answer.unmatched_right_bounds, nodes, right),
    )
