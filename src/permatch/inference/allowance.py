"""Time kept by engines that must not take longer than they were given."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

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

    def affordable(self, n_done: float, n_wanted: float) -> float:
        """Return how many of `n_wanted` more units fit, at the pace of those done."""
        if self.budget == math.inf or n_done == 0:
            return n_wanted
        return min(n_wanted, n_done * self.left / max(self.seconds, 1e-9))

    @contextmanager
    def free(self) -> Iterator[None]:
        """Do something whose time does not count."""
        start = _clock()
        try:
            yield
        finally:
            self._start += _clock() - start
