"""The Bethe approximation: fast marginals for any size, and a rigorous bracket."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch.inference._limits import MOST_BETHE_SIZE
from permatch.inference._options import check_flag, check_limited_count, check_number, keep
from permatch.inference.answer import Diagnostics, InferenceResult
from permatch.inference.base import (
    AbstractEngine,
    Goal,
    Job,
    check_feasible,
    load_kernels,
)
from permatch.inference.belief_propagation import Beliefs, beliefs
from permatch.kernels.bounds import SOULES
from permatch.kernels.sliced import infer_bethe
from permatch.problems import Problem

# Sweeps of `sharpen`: what thirty do not gain is a thousandth of the gap.
_SHARPENING = 30
# Perfect matchings of components with so many pairs of nodes per edge are left to edges.
_SPARSITY = 8
# Entries handled by one task.
_ENTRIES_PER_TASK = 1 << 12
# Beliefs that so many sweeps do not settle never will.
_MOST_SWEEPS = 10**9
# Within a time, beliefs go through all edges at this pace, and at least so many times.
_SECONDS_PER_SWEEP, _FEWEST_SWEEPS = 1e-8, 40


@dataclass(frozen=True, kw_only=True)
class Bethe(AbstractEngine):
    """Approximate log-partition and marginals by belief propagation.

    Deterministic, smooth in the scores and good for graphs of hundreds of nodes, or of
    hundreds of thousands with few edges each.  The log-partition is the Bethe value, which
    lies below the true one, by about 1.9 for perfect matchings at m = 20; the marginals are
    its gradient, off by about 0.002, 0.007, 0.02 or 0.1 for normal scores of spread 0.5, 1,
    2 or 5, and by 0.4 or more on single edges where matchings nearly tie, as with learned
    scores; their error is not estimated (certificate "heuristic").  The interval for the
    log-partition is rigorous up to rounding: its lower end is the Bethe free energy of the
    beliefs made doubly stochastic, its upper end the lower of Soules' bound and
    ``(m/2) log 2`` above the Bethe value.

    Sparse, rectangular and partial problems are solved on their edges.  Where every node
    may stay unmatched, messages always settle and the lower end is the Bethe value;
    elsewhere it is the score of the best matching.  On trees the result is exact.

    Parameters
    ----------
    max_size : int
        Largest dense graph of perfect matchings accepted; edges are not limited.
    tol : float
        Messages are passed until no belief changes by more than this.
    max_iter : int
        Maximum sweeps over all messages.  With fewer than 300, beliefs far from convergence
        may be replaced by the best matching.
    damping : float
        Share of the old message kept, from 0 to below 1; one half once the change of the
        beliefs has not fallen for 50 sweeps.
    bounds : bool
        False skips the interval, which takes most of the time for m up to 100.

    Notes
    -----
    O(m^2) per sweep, 5 to 50 sweeps for most scores, and one assignment, O(m^3).  Beliefs
    of tiny graphs, or with very peaked scores, may tend to 0 and 1 so slowly that
    `max_iter` is reached (``diagnostics.is_converged``); the interval still holds.  On
    edges a sweep is linear in them; 10 to 50 sweeps are enough for most problems.

    References
    ----------
    P. O. Vontobel, "The Bethe permanent of a nonnegative matrix", IEEE Transactions on
    Information Theory 59 (2013).
    J. Williams and R. Lau, "Approximate evaluation of marginal association probabilities
    with belief propagation", IEEE Transactions on Aerospace and Electronic Systems 50
    (2014).
    M. Lelarge, "Counting matchings in irregular bipartite graphs and random lifts", SODA
    (2017).
    N. Anari and A. Rezaei, "A tight analysis of Bethe approximation for permanent", FOCS
    (2019).

    Examples
    --------
    >>> import numpy as np
    >>> from permatch.inference.bethe import Bethe
    >>> result = Bethe().infer(np.zeros((100, 100)))  # log 100! is 363.74
    >>> round(result.log_partition, 2), result.is_exact
    (361.02, False)
    >>> lower, upper = result.diagnostics.interval
    >>> round(lower, 2), round(upper, 2)
    (361.02, 363.74)

    One left node that is matched to one of two right nodes, or to none:

    >>> result = Bethe().infer(np.zeros((1, 2)), unmatched_left=0.0, unmatched_right=0.0)
    >>> result.unmatched_left
    array([0.33333333])
    """

    max_size: int = 1000
    tol: float = 1e-8
    max_iter: int = 1000
    damping: float = 0.0
    bounds: bool = True

    name = "bethe"
    largest_max_size: ClassVar[int] = MOST_BETHE_SIZE

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self.tol, "tol of Bethe", 0.0, 1.0)
        keep(
            self,
            max_iter=check_limited_count(
                self.max_iter, "max_iter of Bethe", 1, _MOST_SWEEPS
            ),
            bounds=check_flag(self.bounds, "bounds of Bethe"),
        )
        check_number(self.damping, "damping of Bethe", 0.0, 1.0)

    def log2_seconds(self, size: int) -> float:
        """Estimate log2 of the seconds one graph takes on one thread."""
        cells = 2.0 * math.log2(size + 1)
        return cells + math.log2(2e-6)

    def log2_bytes(self, size: int) -> float:
        """Estimate log2 of the bytes one graph needs."""
        return 7.0 + 2.0 * math.log2(size + 1)

    def _infer_stack(
        self, scores: FloatArray, members: IntArray, job: Job
    ) -> InferenceResult:
        n_graphs, size = scores.shape[:2]
        values = np.empty(n_graphs)
        marginals = np.empty_like(scores)
        ends = np.zeros((n_graphs, 4))  # lower, upper, sweeps, change

        def solve(first: int, last: int) -> None:
            infer_bethe(
                scores,
                float(self.tol),
                int(self.max_iter),
                float(self.damping),
                SOULES if self.bounds else -1,
                _SHARPENING,
                values,
                marginals,
                ends,
                first,
                last,
            )

        job.run_ranges(
            solve,
            n_graphs,
            1 + _ENTRIES_PER_TASK // (size * size + 1),
            "belief propagation",
            n_graphs * 2.0 ** self.log2_seconds(size),
        )
        check_feasible(values, scores, members)
        return InferenceResult(values, marginals, False, self._diagnostics(ends, size))

    def _infer_problem(self, problem: Problem, job: Job) -> InferenceResult:
        return self.resume(problem, None, job)[0]

    def resume(
        self, problem: Problem, start: Beliefs | None, job: Job
    ) -> tuple[InferenceResult, Beliefs | None]:
        """Return the answer, and the beliefs that the next one may start from.

        Parameters
        ----------
        problem : Problem
            Any number of graphs.
        start : Beliefs or None
            Those of other scores of the same edges.
        job : Job
            Threads and progress.

        Returns
        -------
        InferenceResult
            As `infer_problem` returns.
        Beliefs or None
            None where components are solved as dense squares.
        """
        structure = problem.structure
        n_left, n_right = structure.components.sizes
        is_dense = n_left * n_right <= _SPARSITY * structure.components.n_edges
        is_square = (n_left == n_right) & (n_left <= self.max_size)
        if problem.is_perfect and (is_dense & is_square).all():
            return super()._infer_problem(problem, job), None
        found = beliefs(
            problem,
            tol=float(self.tol),
            max_iter=int(self.max_iter),
            damping=float(self.damping),
            bounds=self.bounds,
            start=start,
            job=job,
        )
        ends = np.zeros((structure.n_graphs, 4))
        if found.lower is not None and found.upper is not None:
            ends[:, 0], ends[:, 1] = found.lower, found.upper
        ends[:, 2], ends[:, 3] = found.n_sweeps, found.change
        sizes = np.maximum(np.diff(structure.left_starts), np.diff(structure.right_starts))
        answer = InferenceResult(
            found.log_partition,
            found.marginals,
            False,
            self._diagnostics(ends, int(sizes.max(initial=0))),
            unmatched_left=found.unmatched_left,
            unmatched_right=found.unmatched_right,
        )
        return answer, found

    def _diagnostics(self, ends: FloatArray, size: int) -> Diagnostics:
        lowers, uppers, sweeps, changes = ends.T
        change = float(changes.max(initial=0.0))
        is_converged = change <= self.tol
        most = int(sweeps.max(initial=0.0))
        interval = None
        if self.bounds and len(ends):
            widest = int(np.argmax(uppers - lowers))
            interval = (float(lowers[widest]), float(uppers[widest]))
        settled = "converged after" if is_converged else "did not converge in"
        return Diagnostics(
            engine=self.name,
            choice="asked for",
            size=size,
            n_graphs=len(ends),
            residual=change,
            certificate="heuristic",
            interval=interval,
            interval_certificate="rigorous" if interval else "",
            is_converged=is_converged,
            notes=(f"beliefs {settled} {most} sweeps",),
        )

    def for_learning(self) -> Self:
        """Return the engine without its interval, which a fit does not use."""
        return replace(self, bounds=False)

    @staticmethod
    def least_seconds(size: int) -> float:
        """Return what `_attempt` and all around it take at least."""
        return 1e-2 + 4e-7 * size**2

    def _attempt(
        self, scores: FloatArray, goal: Goal, job: Job
    ) -> tuple[InferenceResult | None, tuple[str, ...]]:
        """Bracket the log-partition; always done, since it is the least there is."""
        with goal.time.free():
            load_kernels(Bethe())
        size, left = len(scores), goal.time.left
        # Without time for the interval, marginals alone; without time to settle, as they
        # are.
        is_quick = 2.0 * 2.0 ** self.log2_seconds(size) < left
        affordable = min(0.3 * left / (_SECONDS_PER_SWEEP * size**2), self.max_iter)
        n_sweeps = max(int(affordable), _FEWEST_SWEEPS)
        engine = replace(self, max_size=size, bounds=is_quick, max_iter=n_sweeps)
        # It has met its own tolerance, which is none for marginals.
        answer = engine._answer_one(scores, job).told(is_converged=False)
        return answer, ("its marginals have an unknown error",)
