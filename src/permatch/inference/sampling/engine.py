"""What all engines that draw have in common: a seed, more effort, graphs one by one."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from permatch._parallel import Job
from permatch._types import FloatArray, IntArray
from permatch._validation import check_count
from permatch.inference._options import keep
from permatch.inference.answer import Diagnostics, InferenceResult, stack
from permatch.inference.base import AbstractEngine, reduce_stack

# Seeds that users choose are closer together than this.
_SEED_STRIDE = 1_000_003


@dataclass(frozen=True, kw_only=True)
class RandomEngine(AbstractEngine):
    """An engine that draws: the same scores and seed give the same answer.

    Parameters
    ----------
    max_size : int
        Largest graph accepted.
    random_state : int
        Seed.
    """

    random_state: int = 0

    draws: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        name = f"random_state of {type(self).__name__}"
        keep(self, random_state=check_count(self.random_state, name, 0))

    def with_seed(self, number: int) -> Self:
        """Return the engine whose draws are independent of those of other `number`s."""
        return replace(self, random_state=self.random_state + _SEED_STRIDE * number)

    @abstractmethod
    def with_effort(self, factor: float) -> Self:
        """Return the engine that draws `factor` times as much.

        Numbers of draws are multiplied by the factor, tolerances divided by its root.
        """

    def _answer_each(
        self,
        scores: FloatArray,
        members: IntArray,
        job: Job,
        answer_one: Callable[[FloatArray, tuple[int, int], Job], InferenceResult],
    ) -> InferenceResult:
        """Answer the graphs of a stack one by one, each reduced to a best score of 0.

        ``answer_one(reduced, key, job)`` answers one; the key names its random streams.
        """
        reduced, offsets = reduce_stack(scores, members)
        n_graphs, size = scores.shape[:2]
        answers: dict[int, InferenceResult] = {}
        # One graph shares out its chunks over the threads; several share out themselves.
        inner = job if n_graphs == 1 else Job()

        def solve(g: int) -> None:
            found = answer_one(reduced[g], (self.random_state, int(members[g])), inner)
            # Impossible edges are known to be out, however few draws there were.
            errors = found.marginal_errors * (reduced[g] > -np.inf)
            found = replace(found, marginal_errors=errors).reported()
            answers[g] = found.shifted(float(offsets[g]))

        if n_graphs == 1:
            solve(0)
        else:
            seconds = n_graphs * 2.0 ** self.log2_seconds(size)
            job.run(solve, n_graphs, f"{self.name}, size {size}", seconds)
        empty = Diagnostics(self.name, "asked for", size, 0, certificate="asymptotic")
        return stack([answers[g] for g in range(n_graphs)], scores.shape, empty)
