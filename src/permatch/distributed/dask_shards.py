"""Shards on the workers of a Dask cluster, or of any other scheduler of Dask.

Shards are persisted: they stay where they are.  In a pass only the arguments travel out,
scattered once, and only small results come back.  Dask keeps how every shard
was made, so what a lost worker held is made again elsewhere.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from permatch._memory import held_bytes
from permatch._optional import require
from permatch._shards import Passes, Shards
from permatch.distributed.placing import place
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
        return DaskShards(_persist(self._shards), self.passes)

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
        self,
        function: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]],
        sizes: Sequence[int] | None = None,
    ) -> "DaskShards":
        """Return the shards ``function(shard, *own)``, with arguments of its own each.

        If the `sizes` of persisted shards are given, they are made where all workers have
        about as much to do.
        """
        dask = require("dask", "dask")
        call = dask.delayed(_call, pure=False)
        places = [None] * len(self._shards) if sizes is None else self._places(sizes)
        made = []
        for shard, own, worker in zip(self._shards, arguments, places, strict=True):
            told = {} if worker is None else {"workers": [worker]}
            # Others may take over from a worker that dies.
            with dask.annotate(**told, allow_other_workers=True):
                made.append(call(function, shard, _Sent(own)))
        return DaskShards(made, self.passes)

    def _places(self, sizes: Sequence[int]) -> Sequence[str | None]:
        """Return the worker that each persisted shard should be on; None is any."""
        client = find_client()
        if client is None:
            return [None] * len(sizes)
        who_has = client.who_has(self._shards)
        homes = [next(iter(who_has.get(own.key, ())), "") for own in self._shards]
        return place(sizes, homes, client.nthreads())

    def keep(self, function: Callable[..., Any], *arguments: Any) -> "DaskShards":
        """Return the pairs ``(shard, function(shard, *arguments))``; these stay there."""
        kept = _persist(self._apply(function, _lasting(arguments)))
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
    return function(_taken_out(shard), *sent.arguments)


class _Held:
    """What a worker keeps, with its size: Dask moves what seems cheap to move."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __sizeof__(self) -> int:
        return held_bytes(self.value)


def _taken_out(shard: Any) -> Any:
    """Return a shard, or a tuple of such, as it was before it was kept."""
    if type(shard) is tuple:  # not one with names, which is a shard itself
        return tuple(map(_taken_out, shard))
    return shard.value if isinstance(shard, _Held) else shard


def _persist(shards: Sequence[Any]) -> list[Any]:
    """Compute shards, and keep each where it was computed."""
    dask, client = require("dask", "dask"), find_client()
    tasks = list(map(dask.delayed(_Held, pure=False), shards))
    if client is None:
        return list(dask.persist(*tasks))
    # As futures, which every pass is told of in half the time of persisted graphs.
    return client.compute(tasks, optimize_graph=False)


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
