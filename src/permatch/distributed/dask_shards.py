"""Shards on the workers of a Dask cluster, or of any other scheduler of Dask.

Shards are persisted: they stay where they are.  In a pass only the arguments travel out,
scattered once, and only small results come back.  Dask keeps how every shard
was made, so what a lost worker held is made again elsewhere.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from permatch._optional import require
from permatch._shards import Passes, Shards
from permatch.errors import InvalidOptionError

# Seconds to wait for a scheduler.
_PATIENCE = 10


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
        try:
            return self._compute(self._apply(function, self._scatter(arguments)), client)
        except Exception as err:
            if client is None or not _is_loss(err):
                raise
        # The worker that had the arguments is gone; now they are part of what is computed.
        return self._compute(self._apply(function, _lasting(arguments)), client)

    def derive(self, function: Callable[..., Any], *arguments: Any) -> "DaskShards":
        """Return the shards ``function(shard, *arguments)``, made anew in every pass."""
        return DaskShards(self._apply(function, _lasting(arguments)), self.passes)

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
        kept = dask.persist(*self._apply(function, _lasting(arguments)))
        return DaskShards(list(zip(self._shards, kept, strict=True)), self.passes)

    def _apply(self, function: Callable[..., Any], sent: Any) -> list[Any]:
        """Return the delayed results of a function, given where its arguments are."""
        call = require("dask", "dask").delayed(_call, pure=False)
        return [call(function, shard, sent) for shard in self._shards]

    def _scatter(self, arguments: tuple[Any, ...]) -> Any:
        """Send arguments to a worker, from which the others fetch them."""
        client = find_client()
        if client is None:
            return _lasting(arguments)
        # Not by a broadcast, which may wait for ever for a worker that dies meanwhile.
        return client.scatter([_Sent(arguments)], hash=False)[0]

    def _compute(self, tasks: list[Any], client: Any) -> list[Any]:
        if client is None:
            return list(require("dask", "dask").compute(*tasks))
        futures = client.compute(tasks, optimize_graph=False)
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
    """Arguments on their way.

    A tuple would be scattered item by item, and called if its first item is a function.
    """

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        self.arguments = arguments


def _lasting(arguments: tuple[Any, ...]) -> Any:
    """Return arguments that Dask can make again where they are lost."""
    dask = require("dask", "dask")
    return dask.persist(dask.delayed(_Sent(arguments), pure=False, traverse=False))[0]


def _call(function: Callable[..., Any], shard: Any, sent: _Sent) -> Any:
    return function(shard, *sent.arguments)


@contextmanager
def connect(address: str) -> Iterator[None]:
    """Compute on the cluster at an address, such as ``tcp://10.0.0.1:8786``."""
    distributed = require("distributed", "dask", what="computing on a cluster")
    try:
        client = distributed.Client(address, timeout=_PATIENCE)
    except (OSError, ValueError, MemoryError) as err:  # the last: another server answered
        raise InvalidOptionError(
            f"{address} must be the address of a Dask scheduler that answers within "
            f"{_PATIENCE} seconds; it did not ({err}). Start one with `dask scheduler`, "
            "and check the address and the port."
        ) from err
    with client:
        yield


def find_client() -> Any:
    """Return the `distributed.Client` that Dask computes with, None if with another."""
    base = require("dask.base", "dask", what="data in Dask collections")
    return getattr(base.get_scheduler(), "__self__", None)


def _is_loss(err: Exception) -> bool:
    """Tell whether a worker was lost with data that have no history."""
    distributed = require("distributed", "dask")
    lost = (distributed.client.FutureCancelledError, distributed.CancelledError)
    return isinstance(err, (*lost, OSError))
