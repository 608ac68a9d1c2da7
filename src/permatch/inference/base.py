"""The seam: scores (m, m) -> log-partition and marginals (m, m).

    p(matching) = exp( sum_i scores[i, matching[i]] - log_partition )
    marginals[i, j] = p(matching[i] == j)

Nothing below knows about features or parameters, nothing above about bit masks.  An engine
is a frozen dataclass of options.  The public `infer` checks, sorts graphs by size and
reports; the private `_infer_stack` computes.
"""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from permatch._memory import LITTLE, available_memory
from permatch._parallel import run_tasks, threads_that_pay
from permatch._progress import progress_bar
from permatch._types import FloatArray, IntArray, Scores
from permatch._validation import check_batch, check_count, check_jobs, no_perfect_matching
from permatch.errors import InvalidOptionError, SizeLimitError
from permatch.inference._words import bytes_in_words, seconds_in_words
from permatch.inference.result import InferenceResult, StackResult, merge

#: Sets of columns are held in 64-bit masks; no exact engine gets near this size.
LARGEST_MASK = 60


@dataclass(frozen=True)
class Job:
    """How the work is to be carried out: threads and progress, never part of the answer."""

    n_jobs: int = 1
    progress: bool | None = None

    def run(
        self,
        task: Callable[[int], None],
        n_tasks: int,
        title: str = "",
        seconds: float = 0.0,
    ) -> None:
        """Run ``task(0) .. task(n_tasks - 1)`` on the job's threads.

        Where the expected `seconds` on one thread are given, no more threads are started
        than pay.  A `title` is for work worth a progress bar.
        """
        n_jobs = threads_that_pay(self.n_jobs, seconds) if seconds else self.n_jobs
        is_shown = self.progress if title else False
        with progress_bar(title, n_tasks, seconds / n_jobs, is_shown) as on_progress:
            run_tasks(task, n_tasks, n_jobs, on_progress)

    def run_ranges(
        self,
        task: Callable[[int, int], None],
        n_items: int,
        per_task: int,
        title: str = "",
        seconds: float = 0.0,
    ) -> None:
        """Run ``task(first, last)`` over consecutive ranges of `per_task` items."""

        def run_range(k: int) -> None:
            task(k * per_task, min((k + 1) * per_task, n_items))

        self.run(run_range, -(-n_items // per_task), title, seconds)


@dataclass(frozen=True, kw_only=True)
class AbstractEngine(ABC):
    """An algorithm behind the seam.

    Parameters
    ----------
    max_size : int
        Largest graph accepted; larger ones are refused with an estimate of their cost.

    Examples
    --------
    >>> from permatch.inference import AbstractEngine, Glynn
    >>> isinstance(Glynn(), AbstractEngine)
    True
    >>> Glynn(max_size=20)
    Glynn(max_size=20, tol=1e-10)
    """

    max_size: int = 0

    name: ClassVar[str]
    has_marginals: ClassVar[bool] = True
    #: The most that `max_size` may be set to.
    largest_max_size: ClassVar[int] = LARGEST_MASK

    def infer(
        self,
        scores: Scores,
        *,
        n_jobs: int | None = None,
        check: bool = True,
        progress: bool | None = None,
    ) -> InferenceResult:
        """Return the log-partition and marginals of one graph or many.

        Parameters
        ----------
        scores : array of shape (m, m) or (b, m, m), or a list of (m, m) arrays
            Log-weight of each edge; ``-inf`` forbids an edge.
        n_jobs : int, optional
            Threads; None means one, -1 all processors.  The result does not depend on it.
            Starting one takes some 50 microseconds: short work gets no more than pay.
        check : bool
            False skips the search for NaN and infinities, for callers who did it
            themselves.
        progress : bool, optional
            Whether to show a progress bar; None shows one on terminals when it will take
            long.

        Returns
        -------
        InferenceResult
            Shaped as the input was.
        """
        batch = check_batch(scores, check=check)
        job = Job(check_jobs(n_jobs), progress)
        for _, stack in batch.stacks:
            self.check_size(stack.shape[1], min(job.n_jobs, len(stack)))
        results = [self._answer(stack, members, job) for members, stack in batch.stacks]
        diagnostics = merge(self.name, [result.diagnostics for result in results])
        is_exact = all(result.is_exact for result in results)
        if batch.kind != "list":  # an array is always exactly one stack
            (only,) = results
            is_one = batch.kind == "one"
            answers: list[Any] = [
                only.log_partitions,
                only.marginals,
                only.log_partition_errors,
                only.marginal_errors,
            ]
            if is_one:
                answers = [None if answer is None else answer[0] for answer in answers]
            log_partition, marginals, error, errors = answers
            if is_one:
                log_partition = float(log_partition)
                error = None if error is None else float(error)
            return InferenceResult(
                log_partition, marginals, is_exact, diagnostics, error, errors
            )
        places = [members for members, _ in batch.stacks]
        return InferenceResult(
            _numbers(places, [r.log_partitions for r in results], batch.n_graphs),
            _tables(places, [r.marginals for r in results], batch.n_graphs)
            if self.has_marginals
            else None,
            is_exact,
            diagnostics,
            _numbers(places, [r.log_partition_errors for r in results], batch.n_graphs),
            _tables(places, [r.marginal_errors for r in results], batch.n_graphs),
        )

    def check_size(self, size: int, n_at_once: int = 1) -> None:
        """Raise SizeLimitError, with cost and alternatives, if `size` is too large.

        So it is above `max_size`, and where `n_at_once` graphs of it, one per thread, need
        more memory than is available.
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
            f"are available. {fewer}{self._advice(self.largest_max_size + 1)}"
        )

    def _advice(self, size: int) -> str:
        """Say what to do about a graph that is too large."""
        advice = (
            "Fix the edges you know (given={row: col} of MatchingDistribution makes the "
            "graph smaller), or split it into parts that share no edge"
        )
        if self.name != "auto":
            advice += ", or use engine='auto', which goes on with samplers"
        if size > self.largest_max_size:
            return f"{advice}."
        name = type(self).__name__
        return f"{advice}, or raise the limit: engine=permatch.{name}(max_size={size})."

    @abstractmethod
    def log2_seconds(self, size: int) -> float:
        """Estimate log2 of the seconds one graph takes on one thread."""

    @abstractmethod
    def log2_bytes(self, size: int) -> float:
        """Estimate log2 of the bytes one graph needs."""

    @abstractmethod
    def _infer_stack(self, scores: FloatArray, members: IntArray, job: Job) -> StackResult:
        """Answer a checked stack (b, m, m) of graphs, b >= 0, m >= 0.

        `members` are the positions of the graphs in the caller's input, for error messages.
        """

    def _answer(self, scores: FloatArray, members: IntArray, job: Job) -> StackResult:
        """Answer a stack and note the time it took."""
        start = time.perf_counter()
        result = self._infer_stack(scores, members, job)
        seconds = time.perf_counter() - start
        return replace(result, diagnostics=replace(result.diagnostics, seconds=seconds))

    def __post_init__(self) -> None:
        limit = check_count(self.max_size, f"max_size of {type(self).__name__}", 0)
        if limit > self.largest_max_size:
            raise InvalidOptionError(
                f"max_size of {type(self).__name__} must be at most "
                f"{self.largest_max_size}, got {limit}. Larger graphs would take too long."
            )


def _numbers(places: list[IntArray], answers: list[Any], n_graphs: int) -> Any:
    """Return one number per graph of a list; None if no stack has any."""
    if answers and all(answer is None for answer in answers):
        return None
    every = np.zeros(n_graphs)
    for members, answer in zip(places, answers, strict=True):
        if answer is not None:  # an engine that knows of no error is exact on this stack
            every[members] = answer
    return every


def _tables(places: list[IntArray], answers: list[Any], n_graphs: int) -> Any:
    """Return one table per graph of a list; None if no stack has any."""
    if answers and all(answer is None for answer in answers):
        return None
    every: list[Any] = [None] * n_graphs
    for members, answer in zip(places, answers, strict=True):
        for k, member in enumerate(members):
            every[member] = None if answer is None else answer[k]
    return every


def check_feasible(offsets: FloatArray, scores: FloatArray, members: IntArray) -> None:
    """Raise InfeasibleGraphError naming the first graph whose offset is ``-inf``."""
    is_infeasible = offsets == -np.inf
    if not is_infeasible.any():
        return
    first = int(np.argmax(is_infeasible))
    name = (
        "this graph" if len(scores) == 1 and members[0] == 0 else f"graph {members[first]}"
    )
    if is_infeasible.sum() > 1:
        name += f" (like {is_infeasible.sum() - 1} others)"
    raise no_perfect_matching(scores[first], name)
