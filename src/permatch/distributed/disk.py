"""Shards on disk: features are read in every pass, all else is held in memory.

The rows are written once, as they are computed with, to a file that has no name and
vanishes with the process.  A pass maps one shard after the other into memory, while the
system reads ahead; memory holds little more than the shard at work.  Nothing is decoded
twice, and with a warm cache a pass is about as quick as in memory.
"""

import mmap
import tempfile
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from permatch._progress import Stages
from permatch._shards import Passes, Shards
from permatch.distributed.rows import Prepare, Rows, make_queries
from permatch.errors import InvalidQueriesError
from permatch.queries import QuerySet

#: Bytes of the features of a shard, about.
SHARD_BYTES = 1 << 26


class Scratch:
    """Arrays in a temporary file, in the folder of temporary files (``TMPDIR``)."""

    def __init__(self) -> None:
        self._file: Any = tempfile.TemporaryFile(prefix="permatch")  # noqa: SIM115
        self._end = 0
        weakref.finalize(self, self._file.close)  # what is mapped stays mapped

    def write(self, array: np.ndarray) -> "Stored":
        """Append an array."""
        page = mmap.ALLOCATIONGRANULARITY
        begin = -(-self._end // page) * page
        try:
            self._file.seek(begin)
            self._file.write(np.ascontiguousarray(array).data)
            self._file.flush()
        except OSError as err:
            raise type(err)(
                err.errno,
                f"training from disk writes its rows to {tempfile.gettempdir()}, which "
                f"failed after {begin / 1e9:.1f} GB ({err.strerror}). Set TMPDIR to a "
                "folder with more room.",
            ) from err
        self._end = begin + array.nbytes
        return Stored(self, begin, array.shape, array.dtype)

    def view(self, begin: int, n_bytes: int) -> mmap.mmap:
        """Map a range of the file; nothing is read before it is looked at."""
        return mmap.mmap(
            self._file.fileno(), n_bytes, access=mmap.ACCESS_COPY, offset=begin
        )


class Stored:
    """An array in a scratch file."""

    def __init__(self, scratch: Scratch, begin: int, shape: Any, dtype: np.dtype) -> None:
        self.shape, self.dtype = shape, dtype
        self._scratch = scratch
        self._begin = begin

    def read(self) -> np.ndarray:
        """Return the array, mapped; the system begins to read it at once."""
        n_bytes = int(np.prod(self.shape)) * self.dtype.itemsize
        view = self._scratch.view(self._begin, n_bytes)
        if hasattr(mmap, "MADV_WILLNEED"):
            view.madvise(mmap.MADV_WILLNEED)
        return np.frombuffer(view, dtype=self.dtype).reshape(self.shape)


class DiskShards(Shards):
    """Shards that are read one after the other in every pass.

    `readers` return a shard each; `without` are the same shards as far as they are held in
    memory, for functions that look at no features.  The next shard is asked for before the
    function is called on the last, so that it can be read meanwhile.
    """

    def __init__(
        self,
        readers: Sequence[Callable[[], Any]],
        without: Sequence[Any],
        steps: tuple[Callable[[int, Any], Any], ...] = (),
        passes: Passes | None = None,
    ) -> None:
        self._readers, self._without = readers, without
        self._steps = steps
        self.passes = Passes() if passes is None else passes

    def map(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Return ``function(shard, *arguments)`` for every shard, in their order."""
        is_light = getattr(function, "is_light", False)
        if is_light:
            shards: Iterable[Any] = self._without
        else:
            self.passes.begin()
            shards = _one_ahead(self._readers)
        results = []
        for k, shard in enumerate(shards):
            for step in self._steps:
                shard = step(k, shard)
            results.append(function(shard, *arguments))
            if not is_light:
                self.passes.note(k + 1, len(self._readers))
        return results

    def derive(self, function: Callable[..., Any], *arguments: Any) -> "DiskShards":
        """Return the shards ``function(shard, *arguments)``, made anew in every pass."""
        return self._with(lambda k, shard: function(shard, *arguments))

    def keep(self, function: Callable[..., Any], *arguments: Any) -> "DiskShards":
        """Return the pairs ``(shard, function(shard, *arguments))``; these are held."""
        held = self.map(function, *arguments)
        return self._with(lambda k, shard: (shard, held[k]))

    def _with(self, step: Callable[[int, Any], Any]) -> "DiskShards":
        return DiskShards(self._readers, self._without, (*self._steps, step), self.passes)


def _one_ahead(readers: Sequence[Callable[[], Any]]) -> Iterable[Any]:
    """Yield what readers return, each asked one turn early."""
    following = readers[0]() if readers else None
    for k in range(len(readers)):
        shard, following = following, readers[k + 1]() if k + 1 < len(readers) else None
        yield shard
        del shard


def store_queries(
    blocks: Iterable[Rows], prepare: Prepare | None = None
) -> tuple[DiskShards, int]:
    """Write blocks of whole queries to a scratch file.

    Return them as shards, and the number of features.
    """
    scratch = Scratch()
    readers, without = [], []
    first = n_features = n_rows = 0
    with Stages("reading") as stages:
        for block in blocks:
            queries = make_queries(block, first, prepare)
            first += queries.n_queries
            n_rows += queries.n_documents
            n_features = queries.n_features
            stored = scratch.write(queries.documents)
            light = replace(queries, documents=np.empty((queries.n_documents, 0)))
            without.append(light)
            readers.append(_Reader(light, stored))
            stages.say(f"reading, {n_rows:,} documents of {first:,} queries so far")
    if not readers:
        raise InvalidQueriesError(
            "at least one document is required; all parts are empty. Check the path and "
            "the filters."
        )
    return DiskShards(readers, without), n_features


class _Reader:
    """Puts queries and their features, which are on disk, together."""

    def __init__(self, queries: QuerySet, stored: Stored) -> None:
        self._queries, self._stored = queries, stored

    def __call__(self) -> QuerySet:
        return replace(self._queries, documents=self._stored.read())
