"""Options of engines: their checks, and those of engines that draw: a seed, an effort.

Engines that draw do so from reduced scores, by which the best matching has score 0.

Every check returns the value as a plain Python type, such as `int` for a NumPy integer.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np

from permatch._parallel import Job
from permatch._types import FloatArray, IntArray
from permatch._validation import check_count
from permatch.errors import InvalidOptionError
from permatch.inference.answer import Diagnostics, InferenceResult, stack
from permatch.inference.base import AbstractEngine, check_feasible
from permatch.kernels.sliced import reduce_possible

#: The least tolerance or probability an engine takes; squares of it are still above 0.
LEAST_FRACTION = 1e-100
# What users may ask of the engine that hands shares of it on to others.
_LEAST_ASKED = 1e-12
#: More draws, trials or sweeps than any machine makes.
MOST_DRAWS = 10**15
# Seeds that users choose are closer together than this.
_SEED_STRIDE = 1_000_003


def seed_of(*key: int) -> int:
    """Return a seed for a key of non-negative numbers."""
    return int(np.random.SeedSequence(key).generate_state(1)[0])


def check_number(value: Any, name: str, lowest: float, highest: float) -> float:
    """Return `value` as a float of at least `lowest` and below `highest`."""
    if not _is_number(value) or not lowest <= float(value) < highest:
        raise InvalidOptionError(
            f"{name} must be a number of at least {lowest:g} and below {highest:g}, got "
            f"{value!r}."
        )
    return float(value)


def check_fraction(
    value: Any, name: str, *, is_optional: bool = False, lowest: float = _LEAST_ASKED
) -> Any:
    """Return `value` as a float strictly between 0 and 1, or None where that is allowed."""
    if is_optional and value is None:
        return None
    if not (_is_number(value) and 0.0 < float(value) < 1.0):
        raise InvalidOptionError(
            f"{name} must be a number above 0 and below 1"
            f"{', or None' if is_optional else ''}; got {value!r}."
        )
    if float(value) < lowest:
        raise InvalidOptionError(
            f"{name} must be at least {lowest:g}, got {value!r}. No number of draws "
            "reaches less: raise it."
        )
    return float(value)


def check_budget(value: Any, name: str) -> float | None:
    """Return `value` as a number of seconds above 0, or None."""
    if value is None:
        return None
    if not (_is_number(value) and float(value) > 0.0):
        raise InvalidOptionError(
            f"{name} must be a number of seconds above 0, or None; got {value!r}."
        )
    return float(value)


def check_flag(value: Any, name: str) -> bool:
    """Return `value` as a boolean."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidOptionError(f"{name} must be True or False; got {value!r}.")
    return bool(value)


def check_limited_count(
    value: Any, name: str, lowest: int, highest: int, why: str = "More would never end."
) -> int:
    """Return `value` as an int from `lowest` to `highest`."""
    count = check_count(value, name, lowest)
    if count > highest:
        raise InvalidOptionError(f"{name} must be at most {highest}, got {count}. {why}")
    return count


def check_optional_count(
    value: Any, name: str, lowest: int, highest: int, why: str = "More would never end."
) -> int | None:
    """Return `value` as an int from `lowest` to `highest`, or None."""
    return None if value is None else check_limited_count(value, name, lowest, highest, why)


def keep(engine: object, **values: Any) -> None:
    """Put checked values into the fields of a frozen engine."""
    for name, value in values.items():
        object.__setattr__(engine, name, value)


def more_draws(
    count: int | None, factor: float, fewest: int, most: int = MOST_DRAWS
) -> Any:
    """Return a number of draws times `factor`; `fewest` of them still tell something."""
    if count is None:
        return None
    return min(max(min(count, fewest), round(count * factor)), most)


def higher_limit(count: int, factor: float, most: int = MOST_DRAWS) -> int:
    """Return a limit of draws, raised with `factor` and never lowered."""
    return min(round(count * max(factor, 1.0)), most)


def smaller_error(error: float | None, factor: float, most: float) -> Any:
    """Return a tolerance that falls with the root of `factor` and stays below `most`."""
    return None if error is None else min(max(error, most), error / math.sqrt(factor))


def _is_number(value: Any) -> bool:
    """Return whether `value` is one real number that a float can hold."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        return False
    try:
        float(value)
    except OverflowError:
        return False
    return True


def reduce_stack(scores: FloatArray, members: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return reduced scores (b, m, m) and the scores of the best matchings (b,).

    Edges that lie in no perfect matching are forbidden: draws would only run into them.
    """
    reduced = np.empty_like(scores)
    offsets = np.empty(len(scores))
    for g, graph in enumerate(scores):
        offsets[g] = reduce_possible(graph, reduced[g])
    check_feasible(offsets, scores, members)
    return reduced, offsets


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
        """Return the engine whose draws are independent of those of any other `number`."""
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
