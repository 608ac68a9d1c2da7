"""Training data in shards: all that a fit asks of them is a sum over shards.

    value(coef) = sum over shards of value(shard, coef)

Functions go to the shards, small results come back.  They come in the order of the shards,
whatever the order of arrival, and are added in that order, so that a sum is the same to the
last bit wherever the shards are.  Objectives, optimizers and estimators see only `Shards`:
held in memory here, read from disk or on the workers of a Dask cluster in
`permatch.distributed`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(eq=False)
class Passes:
    """How often the shards were gone through, shown to whoever wants to see it."""

    n_begun: int = 0
    show: Callable[[str], None] | None = None

    def begin(self) -> None:
        """Count a pass."""
        self.n_begun += 1

    def note(self, n_done: int, n_shards: int) -> None:
        """Show how many shards of this pass are done."""
        if self.show is not None:
            self.show(f"pass {self.n_begun}, part {n_done} of {n_shards}")


@contextmanager
def showing(passes: Passes | None, show: Callable[[str], None] | None) -> Iterator[None]:
    """Show how far a pass is, while data that are in shards are gone through."""
    if passes is None:
        yield
        return
    before, passes.show = passes.show, show
    try:
        yield
    finally:
        passes.show = before


class Shards(ABC):
    """An ordered sequence of shards, each with whole graphs or queries.

    Functions must be importable by name, and they, their arguments and results must stand
    pickling: a shard may be in another process.  They must not change the shard.

    Attributes
    ----------
    passes : Passes
        Counts what goes through all shards; derived shards share it.

    Examples
    --------
    >>> shards = HeldShards([[1.0, 2.0], [3.0]])
    >>> shards.map(len)
    [2, 1]
    >>> shards.derive(sorted).keep(sum).map(str)
    ['([1.0, 2.0], 3.0)', '([3.0], 3.0)']
    """

    passes: Passes

    @abstractmethod
    def map(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Return ``function(shard, *arguments)`` for every shard, in their order."""

    @abstractmethod
    def derive(self, function: Callable[..., Any], *arguments: Any) -> "Shards":
        """Return the shards ``function(shard, *arguments)``.

        They are made anew whenever they are asked for, unless they are in memory.  Meant
        for what is as large as the shard.
        """

    @abstractmethod
    def keep(self, function: Callable[..., Any], *arguments: Any) -> "Shards":
        """Return the pairs ``(shard, function(shard, *arguments))``.

        What is new is computed once and kept: in memory, or where the shard is.  Meant for
        what is much smaller than the shard.
        """

    def total(self, function: Callable[..., Any], *arguments: Any) -> tuple[Any, ...]:
        """Return the sum over shards of tuples of numbers and arrays."""
        return add_up(self.map(function, *arguments))


class HeldShards(Shards):
    """Shards in memory."""

    def __init__(self, shards: Sequence[Any], passes: Passes | None = None) -> None:
        self.shards = list(shards)
        self.passes = Passes() if passes is None else passes

    def map(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Return ``function(shard, *arguments)`` for every shard."""
        self.passes.begin()
        return [function(shard, *arguments) for shard in self.shards]

    def derive(self, function: Callable[..., Any], *arguments: Any) -> "HeldShards":
        """Return the shards ``function(shard, *arguments)``."""
        made = [function(shard, *arguments) for shard in self.shards]
        return HeldShards(made, self.passes)

    def keep(self, function: Callable[..., Any], *arguments: Any) -> "HeldShards":
        """Return the pairs ``(shard, function(shard, *arguments))``."""
        pairs = [(shard, function(shard, *arguments)) for shard in self.shards]
        return HeldShards(pairs, self.passes)


def light(function: Function) -> Function:
    """Mark a function that does not look at features, which then are not read from disk."""
    vars(function)["is_light"] = True
    return function


def add_up(terms: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return the sums of tuples of numbers and arrays, added in their order.

    Examples
    --------
    >>> import numpy as np
    >>> add_up([(1, np.array([1.0, 2.0])), (2, np.array([3.0, 4.0]))])
    (3, array([4., 6.]))
    """
    sums = terms[0]
    for term in terms[1:]:
        sums = tuple(a + b for a, b in zip(sums, term, strict=True))
    return sums
