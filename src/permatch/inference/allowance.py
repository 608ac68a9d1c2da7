"""Time kept for engines that must not take longer than they were given."""

import math
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np

from permatch.inference.base import AbstractEngine, Job

_clock = time.perf_counter


class Allowance:
    """How much of a budget in seconds is left."""

    def __init__(self, budget: float | None) -> None:
        self.budget = math.inf if budget is None else budget
        self._start = _clock()

    @property
    def seconds(self) -> float:
        """Seconds spent."""
        return _clock() - self._start

    @property
    def left(self) -> float:
        """Seconds left, at least 0; infinite without a budget."""
        return max(0.0, self.budget - self.seconds)

    @contextmanager
    def free(self) -> Iterator[None]:
        """Do something whose time does not count."""
        start = _clock()
        try:
            yield
        finally:
            self._start += _clock() - start


@cache
def load_kernels(engine: AbstractEngine) -> None:
    """Have an engine's kernels compiled or loaded, by a graph too small to matter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        size = min(engine.max_size, 12)
        scores = np.zeros((1, size, size))
        engine._infer_stack(scores, np.zeros(1, dtype=np.intp), Job())
