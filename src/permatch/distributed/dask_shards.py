"""Shards on the workers of a Dask cluster, or of any other scheduler of Dask.

Shards are persisted: they stay where they are.  In a pass only the arguments travel out,
scattered once to all workers, and only small results come back.  Dask keeps how every shard
was made, so what a lost worker held is made again elsewhere.
"""

from collections.abc import Callable, Sequence
from typing import Any

from permatch._optional import require
from permatch._shards import Passes, Shards

# How often a pass is tried whose arguments were lost with a worker.
_TRIES = 3


class DaskShards(Shards):
    """Shards that are delayed objects of Dask, or tuples of such."""

    def __init__(self, shards: Sequence[Any], passes: Passes | None = None) -> None:
        self._shards = list(shards)
        self.passes = Passes() if passes is None else passes

    def persisted(self) -> "DaskShards":
        """Compute the shards, and keep each where it was computed."""
        dask = require("dask", "dask")
        return DaskShards(dask.persist(*self._shards), self.passes)

    @property
    def delayed(self) -> list[Any]:
        """The shards, as Dask has them."""
        return self._shards

    def some(self, numbers: Sequence[int]) -> "DaskShards":
        """Return some of the shards."""
        return DaskShards([self._shards[k] for k in numbers], self.passes)

    def map(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Return ``function(shard, *arguments)`` for every shard, in their order."""
        self.passes.begin()
        client = find_client()
        for n_left in reversed(range(_TRIES)):
            tasks = self._apply(function, arguments)
            try:
                return self._compute(tasks, client)
            except Exception as err:
                if client is None or not n_left or not _is_loss(err):
                    raise
        raise AssertionError("the last try returns or raises")

    def derive(self, function: Callable[..., Any], *arguments: Any) -> "DaskShards":
        """Return the shards ``function(shard, *arguments)``, made anew in every pass."""
        return DaskShards(self._apply(function, arguments, is_lasting=True), self.passes)

    def derive_each(
        self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]
    ) -> "DaskShards":
        """Return the shards ``function(shard, *own)``, with arguments of its own each."""
        delayed = require("dask", "dask").delayed(function, pure=False)
        pairs = zip(self._shards, arguments, strict=True)
        return DaskShards([delayed(shard, *own) for shard, own in pairs], self.passes)

    def keep(self, function: Callable[..., Any], *arguments: Any) -> "DaskShards":
        """Return the pairs ``(shard, function(shard, *arguments))``; these stay there."""
        dask = require("dask", "dask")
        kept = dask.persist(*self._apply(function, arguments, is_lasting=True))
        return DaskShards(list(zip(self._shards, kept, strict=True)), self.passes)

    def _apply(
        self, function: Callable[..., Any], arguments: Any, *, is_lasting: bool = False
    ) -> list[Any]:
        """Return the delayed results of a function.

        What lasts must not depend on data without a history, as scattered data are.
        """
        dask = require("dask", "dask")
        delayed, client = dask.delayed, find_client()
        if client is None or is_lasting:
            (sent,) = dask.persist(delayed(arguments, pure=False, traverse=False))
        else:
            (sent,) = client.scatter([_Sent(arguments)], broadcast=True, hash=False)
        call = delayed(_call, pure=False)
        return [call(function, shard, sent) for shard in self._shards]

    def _compute(self, tasks: list[Any], client: Any) -> list[Any]:
        if client is None:
            return list(require("dask", "dask").compute(*tasks))
        futures = client.compute(tasks)
        try:
            if self.passes.show is not None:
                completed = require("distributed", "dask").as_completed(futures)
                for n_done, _ in enumerate(completed, 1):
                    self.passes.note(n_done, len(futures))
            return client.gather(futures)
        except BaseException:
            client.cancel(futures)  # nobody waits for them any more
            raise


class _Sent:
    """Arguments on their way; a tuple would be scattered item by item."""

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        self.arguments = arguments


def _call(function: Callable[..., Any], shard: Any, sent: Any) -> Any:
    arguments = sent.arguments if isinstance(sent, _Sent) else sent
    return function(shard, *arguments)


def find_client() -> Any:
    """Return the `distributed.Client` that Dask computes with, None if with another."""
    base = require("dask.base", "dask", what="data in Dask collections")
    return getattr(base.get_scheduler(), "__self__", None)


def _is_loss(err: Exception) -> bool:
    """Tell whether data without a history, such as arguments, were lost with a worker."""
    distributed = require("distributed", "dask")
    lost = (distributed.client.FutureCancelledError, distributed.CancelledError)
    return isinstance(err, lost)
