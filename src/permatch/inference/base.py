"""The seam: scores of edges and unmatched nodes -> log-partition and marginals.

    p(matching) = exp( scores of its edges + scores of its unmatched nodes - log_partition )
    marginals[i, j] = p(matching[i] == j),  unmatched_left[i] = p(matching[i] == -1)

Nothing below knows about features or parameters, nothing above about bit masks.  An engine
is a frozen dataclass of options.  The public `infer` checks, sorts graphs by size and
reports.  The private methods compute: `_infer_problem` any problem, and `_infer_stack`
dense squares (b, m, m) whose nodes must all be matched.  Whatever else is asked of an
engine (its cost, the same engine with more effort or another seed, its own samples, an
attempt within a time) is a method here with a default.
"""

import math
import time
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np

from permatch._memory import LITTLE, available_memory
from permatch._parallel import Allowance, Job, interrupt_of
from permatch._types import FloatArray, IntArray, Scores
from permatch._validation import (
    check_batch,
    check_count,
    check_jobs,
    like_others,
    no_perfect_matching,
)
from permatch.cuda.dlpack import is_on_gpu
from permatch.errors import (
    DeviceError,
    InfeasibleGraphError,
    InvalidOptionError,
    SizeLimitError,
)
from permatch.inference._limits import advice_for, is_worth_allowing
from permatch.inference._samples import Samples
from permatch.inference._words import bytes_in_words, seconds_in_words
from permatch.inference.answer import InferenceResult, put_in_list
from permatch.inference.capacities import infeasible, loosen, refuse_counting
from permatch.inference.components import (
    flattened,
    laid_out,
    refuse_partial,
    solve_squares,
)
from permatch.problems import Problem
from permatch.scores import Capacity, Unmatched, check_problem

#: Sets of columns are held in 64-bit masks; no exact engine gets near this size.
LARGEST_MASK = 60


@dataclass(frozen=True, eq=False)
class Goal:
    """What `auto` asks of an engine for one graph, or a block of one.

    Attributes
    ----------
    tol : float
        Error of the marginals asked for, all together, but for probability `delta`.
    delta : float
        See `tol`.
    seed : int
        Of the draws.
    time : Allowance
        The time of the whole graph.
    share : float
        Part of the time left that may be taken.
    """

    tol: float
    delta: float
    seed: int
    time: Allowance
    share: float = 1.0

    @property
    def seconds(self) -> float:
        """Seconds left for this."""
        return self.share * self.time.left

    def factor(self, size: int) -> float:
        """Return within how many standard errors all marginals are at once."""
        return factor_for_all(size, self.delta)


@dataclass(frozen=True, kw_only=True)
class AbstractEngine(ABC):
    """An algorithm behind the seam.

    Parameters
    ----------
    max_size : int
        Largest graph accepted; larger ones are refused with an estimate of the cost.

    Examples
    --------
    >>> from permatch.inference import AbstractEngine, Glynn
    >>> isinstance(Glynn(), AbstractEngine)
    True
    >>> Glynn(max_size=20)
    Glynn(max_size=20, tol=1e-10, device='cpu')
    """

    max_size: int = 0

    name: ClassVar[str]
    has_marginals: ClassVar[bool] = True
    #: Whether the answer is exact whatever the graph.
    is_always_exact: ClassVar[bool] = False
    #: Whether the engine draws, so that its answer depends on a seed.
    draws: ClassVar[bool] = False
    #: Whether nodes may have several links, whatever the graph.
    counts_links: ClassVar[bool] = False
    #: The most that `max_size` may be set to.
    largest_max_size: ClassVar[int] = LARGEST_MASK

    def infer(
        self,
        scores: Scores,
        *,
        unmatched_left: Unmatched = None,
        unmatched_right: Unmatched = None,
        capacity_left: Capacity = None,
        capacity_right: Capacity = None,
        n_jobs: int | None = None,
        check: bool = True,
        progress: bool | None = None,
    ) -> InferenceResult:
        """Return the log-partition and marginals of one graph or many.

        Parameters
        ----------
        scores : array (n, k), stack (b, n, k), sparse array, EdgeScores, or list of these
            Log-weight of each edge; ``-inf``, or no entry, forbids an edge.
        unmatched_left, unmatched_right : number, array or None, or a list of these
            Score of staying unmatched; ``-inf``: must be matched.  None: every node must be
            matched, except that on the larger side of an unequal graph it is 0.  See
            `permatch.infer` for the shapes.
        capacity_left, capacity_right : int, array or None, or a list of these
            Links that a node may have, at most; None: one.  Likewise.
        n_jobs : int, optional
            Threads; None means one, -1 all processors.  Results do not depend on it.
            Starting a thread takes about 50 microseconds: short work uses fewer.
        check : bool
            False skips the check for NaN and infinities.
        progress : bool, optional
            Show a progress bar; default: on terminals, for long work.

        Returns
        -------
        InferenceResult
            Shaped like the input.
        """
        job = Job(check_jobs(n_jobs), progress)
        capacities = {"capacity_left": capacity_left, "capacity_right": capacity_right}
        is_matching = capacity_left is None and capacity_right is None
        is_perfect = is_matching and unmatched_left is None and unmatched_right is None
        if not isinstance(scores, np.ndarray) and is_on_gpu(scores):
            if not is_perfect:
                raise _not_on_gpu("unmatched scores and capacities")
            return self._infer_on_gpu(scores, job)
        batch = check_batch(scores, check=check) if is_perfect else None
        if batch is None:
            problem, layout = check_problem(
                scores, unmatched_left, unmatched_right, **capacities, check=check
            )
            return laid_out(self.infer_problem(problem, job), layout)
        for _, some in batch.stacks:
            self.check_size(some.shape[1], min(job.n_jobs, len(some)))
        answers = [self._answer(some, members, job) for members, some in batch.stacks]
        if batch.kind == "one":
            return answers[0].graph(0)
        if batch.kind != "list":  # an array is always exactly one stack
            return answers[0]
        places = [members for members, _ in batch.stacks]
        return put_in_list(self.name, places, answers, batch.n_graphs)

    def infer_problem(self, problem: Problem, job: Job) -> InferenceResult:
        """Return the answer for a checked problem, with arrays as long as its own.

        Parameters
        ----------
        problem : Problem
            Any number of graphs.
        job : Job
            Threads and progress.

        Returns
        -------
        InferenceResult
            ``log_partition`` (n_graphs,), ``marginals`` (n_edges,), ``unmatched_left``
            (n_left,), ``unmatched_right`` (n_right,), and errors likewise.
        """
        if problem.is_dense_square:  # nothing to split: as fast as a square array
            return self._infer_square(problem, job)
        start = time.perf_counter()
        try:
            solve = self._infer_links if problem.has_capacities else self._infer_problem
            answer = solve(problem, job)
        except SystemError as err:
            raise interrupt_of(err) from None
        return answer.told(seconds=time.perf_counter() - start)

    def _infer_on_gpu(self, scores: Any, job: Job) -> InferenceResult:
        """Solve squares that lie on a GPU, all of whose nodes must be matched."""
        raise _not_on_gpu(type(self).__name__)

    def _infer_links(self, problem: Problem, job: Job) -> InferenceResult:
        """Solve a problem with capacities, if it can be done by what the engine solves."""
        loose = loosen(problem)
        if not self.counts_links:
            refuse_counting(loose.problem, type(self).__name__)
        try:
            return loose.restored(self._infer_problem(loose.problem, job))
        except InfeasibleGraphError:
            raise infeasible(problem) from None

    def _infer_square(self, problem: Problem, job: Job) -> InferenceResult:
        """Solve a single dense square whose nodes must all be matched."""
        m = problem.structure.n_left
        self.check_size(m)
        scores = problem.scores.reshape(1, m, m)
        return flattened(self._answer(scores, np.zeros(1, dtype=np.intp), job))

    def _infer_problem(self, problem: Problem, job: Job) -> InferenceResult:
        """Solve a checked problem.

        By default components that are square and have no unmatched nodes are stacked by
        size for `_infer_stack`, and others are refused.
        """
        refuse_partial(problem, type(self).__name__)

        def solve(scores: FloatArray, members: IntArray) -> InferenceResult:
            self.check_size(scores.shape[1], min(job.n_jobs, len(scores)))
            return self._infer_stack(scores, members, job)

        return solve_squares(problem, self.name, solve, has_marginals=self.has_marginals)

    def check_size(self, size: int, n_at_once: int = 1) -> None:
        """Raise SizeLimitError, with cost and alternatives, if `size` is too large.

        That is above `max_size`, or if `n_at_once` graphs, one per thread, need more memory
        than is available.
        """
        if size <= self.max_size:
            self._check_memory(size, n_at_once)
            return
        raise SizeLimitError(
            f"{type(self).__name__} handles graphs of size at most {self.max_size}, got "
            f"{size}. It would take {seconds_in_words(self.log2_seconds(size))} on one "
            f"thread and {bytes_in_words(self.log2_bytes(size))} of memory per graph. "
            + self._advice(size)
        )

    def _check_memory(self, size: int, n_at_once: int) -> None:
        """Raise SizeLimitError if graphs need more memory than is available."""
        log2_needed = self.log2_bytes(size) + math.log2(max(n_at_once, 1))
        if log2_needed <= math.log2(LITTLE):
            return
        left = available_memory()
        if log2_needed <= math.log2(max(left, 1.0)):
            return
        at_once = f", {n_at_once} of them at a time" if n_at_once > 1 else ""
        fewer = "Use fewer threads (n_jobs). " if n_at_once > 1 else ""
        raise SizeLimitError(
            f"{type(self).__name__} needs {bytes_in_words(log2_needed)} of memory for "
            f"graphs of size {size}{at_once}; {bytes_in_words(math.log2(max(left, 1.0)))} "
            f"are available. {fewer}{self._advice(size, may_be_raised=False)}"
        )

    def _advice(self, size: int, *, may_be_raised: bool = True) -> str:
        """Return what to do about a graph that is too large."""
        cost = self.log2_seconds(size), self.log2_bytes(size)
        is_able = may_be_raised and size <= self.largest_max_size
        is_raised = is_able and is_worth_allowing(*cost)
        return advice_for(size, self.name, type(self).__name__ if is_raised else None)

    @abstractmethod
    def log2_seconds(self, size: int) -> float:
        """Estimate log2 of the seconds one graph takes on one thread."""

    @abstractmethod
    def log2_bytes(self, size: int) -> float:
        """Estimate log2 of the bytes one graph needs."""

    @abstractmethod
    def _infer_stack(
        self, scores: FloatArray, members: IntArray, job: Job
    ) -> InferenceResult:
        """Solve a checked stack (b, m, m) of graphs, b >= 0, m >= 0.

        `members` are the positions of the graphs in the caller's input, for error messages.
        """

    def _answer(self, scores: FloatArray, members: IntArray, job: Job) -> InferenceResult:
        """Solve a stack and record the time."""
        start = time.perf_counter()
        try:
            answer = self._infer_stack(scores, members, job)
        except SystemError as err:
            raise interrupt_of(err) from None
        told = replace(answer.diagnostics, seconds=time.perf_counter() - start)
        nobody = np.zeros(scores.shape[:2])
        return replace(
            answer, diagnostics=told, unmatched_left=nobody, unmatched_right=nobody
        )

    # ---- what others ask of an engine

    def is_exact_for(self, size: int) -> bool:
        """Return whether graphs of a size are solved exactly, rare fallbacks aside."""
        return self.is_always_exact

    def may_be_exact_on(self, problem: Problem) -> bool:
        """Return whether a problem may be solved exactly: only trying tells for certain."""
        return self.is_exact_for(1)

    def with_effort(self, factor: float) -> Self:
        """Return the engine that draws `factor` times as much; itself if it never draws."""
        return self

    def with_seed(self, number: int) -> Self:
        """Return the engine whose draws are independent of those of any other `number`.

        Number 0 keeps the engine's own seed; an engine that never draws is returned as is.
        """
        return self

    def for_learning(self) -> Self:
        """Return the engine without what a fit does not look at."""
        return self

    def own_samples(self, scores: FloatArray) -> Samples | None:
        """Return the engine's own samples of a checked, feasible graph (m, m).

        None, as for most, leaves it to the exact ones of `MatchingSamples`.
        """
        return None

    def own_problem_samples(self, problem: Problem) -> Samples | None:
        """Return the engine's own samples of a feasible problem too wide for exact ones."""
        return None

    def _attempt(
        self, scores: FloatArray, goal: Goal, job: Job
    ) -> tuple[InferenceResult | None, tuple[str, ...]]:
        """Solve one graph of reduced scores (m, m) as well as time allows.

        Return the result, None if there is no time, and remarks.  Its ``is_converged`` says
        whether the goal was reached.
        """
        with goal.time.free():
            load_kernels(self)
        seconds = 2.0 ** self.log2_seconds(len(scores))
        if seconds > goal.seconds:
            return None, (not_tried(seconds, goal.seconds),)
        return self.with_seed(goal.seed)._answer_one(scores, job), ()

    def _answer_one(self, scores: FloatArray, job: Job) -> InferenceResult:
        """Solve one graph; warnings are silenced, the certificate reports them."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            return self._infer_stack(scores[None], np.zeros(1, np.intp), job).graph(0)

    def __post_init__(self) -> None:
        limit = check_count(self.max_size, f"max_size of {type(self).__name__}", 0)
        if limit > self.largest_max_size:
            raise InvalidOptionError(
                f"max_size of {type(self).__name__} must be at most "
                f"{self.largest_max_size}, got {limit}. Larger graphs would take too long."
            )


def factor_for_all(size: int, delta: float) -> float:
    """Return how many standard errors cover all marginals at once, but for `delta`.

    By Hoeffding's inequality over all edges.
    """
    return math.sqrt(2.0 * math.log(2.0 * max(size, 1) ** 2 / delta))


def not_tried(seconds: float, left: float) -> str:
    """Return the remark that there is no time for an engine."""
    wanted = seconds_in_words(math.log2(seconds))
    return f"not tried: it would take {wanted} and {left:.2g} seconds are left"


@cache
def load_kernels(engine: AbstractEngine) -> None:
    """Have an engine's kernels compiled or loaded, by a graph too small to matter."""
    size = min(engine.max_size, 12)
    engine._answer_one(np.zeros((size, size)), Job())


def check_feasible(offsets: FloatArray, scores: FloatArray, members: IntArray) -> None:
    """Raise InfeasibleGraphError naming the first graph whose offset is ``-inf``."""
    is_infeasible = offsets == -np.inf
    if not is_infeasible.any():
        return
    first = int(np.argmax(is_infeasible))
    name = (
        "this graph" if len(scores) == 1 and members[0] == 0 else f"graph {members[first]}"
    )
    name += like_others(int(is_infeasible.sum()))
    raise no_perfect_matching(scores[first], name)


def _not_on_gpu(what: str) -> DeviceError:
    return DeviceError(
        f"the scores lie on a GPU, where permatch.infer does not support {what}. Use "
        "engine='glynn_cuda' for perfect matchings, permatch.nn for PyTorch tensors of any "
        "kind, or copy the scores to the processor."
    )
