"""A binary heap of triples in arrays, which goes from one call of a kernel to the next.

Triples are compared as tuples are.  As no two are equal, they leave in the one order there
is.  The caller keeps count of them.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from permatch._types import FloatArray, IntArray


class Heap(NamedTuple):
    """Triples, the smallest in front."""

    key: FloatArray
    place: IntArray
    slot: IntArray


def empty_heap(n: int) -> Heap:
    """Return a heap with room for `n`."""
    return Heap(np.empty(n), np.empty(n, np.int64), np.empty(n, np.int64))


@njit(cache=True, nogil=True)
def _is_before(heap, a, b):
    """Return whether entry a comes before entry b."""
    if heap.key[a] != heap.key[b]:
        return heap.key[a] < heap.key[b]
    if heap.place[a] != heap.place[b]:
        return heap.place[a] < heap.place[b]
    return heap.slot[a] < heap.slot[b]


@njit(cache=True, nogil=True)
def _exchange(heap, a, b):
    """Let two entries change places."""
    heap.key[a], heap.key[b] = heap.key[b], heap.key[a]
    heap.place[a], heap.place[b] = heap.place[b], heap.place[a]
    heap.slot[a], heap.slot[b] = heap.slot[b], heap.slot[a]


@njit(cache=True, nogil=True)
def put(heap, at, key, place, slot):
    """Put an entry at the end, which is `at`, and let it rise."""
    heap.key[at] = key
    heap.place[at] = place
    heap.slot[at] = slot
    while at > 0 and _is_before(heap, at, (at - 1) // 2):
        _exchange(heap, at, (at - 1) // 2)
        at = (at - 1) // 2


@njit(cache=True, nogil=True)
def drop(heap, n):
    """Remove the first of `n` entries."""
    _exchange(heap, 0, n - 1)
    n -= 1
    at = 0
    while 2 * at + 1 < n:
        child = 2 * at + 1
        if child + 1 < n and _is_before(heap, child + 1, child):
            child += 1
        if not _is_before(heap, child, at):
            break
        _exchange(heap, child, at)
        at = child
