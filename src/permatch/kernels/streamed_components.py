"""Connected components of pairs that arrive piece by piece: union-find over hashes of ids.

A node is the 64-bit hash of an id; nodes are numbered in order of first appearance, and the
smaller number leads, so that the root of a component is the node that came first.  Memory
is that of the nodes, whatever the number of pairs:

    names     (n,)  uint64   the hash of every node
    parent    (n,)  int32    union-find, with path halving
    sizes     (n,)  int64    pairs of the component, at its root
    slots     (s,)  int32    open addressing: a node plus one, or 0; at most half are taken

Two ids of one hash make two components one, which only puts them into the same part.
"""

from typing import Any

import numpy as np
from numba import njit

from permatch.kernels.components import find_root

#: An array of whole numbers of any width.
Array = np.ndarray

# Of FNV-1a, and of the finalizer of SplitMix64.
_BASIS, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31 = np.uint64(30), np.uint64(27), np.uint64(31)


@njit(cache=True, nogil=True)
def mix(value: Any) -> Any:
    """Return a hash of 64 bits, different for different values."""
    value = (value ^ (value >> _S30)) * _FIRST
    value = (value ^ (value >> _S27)) * _SECOND
    return value ^ (value >> _S31)


@njit(cache=True, nogil=True)
def hash_numbers(values: Array, seed: Any, hashes: Array) -> None:
    """Hash 64-bit values."""
    for k in range(len(values)):
        hashes[k] = mix(values[k] ^ seed)


@njit(cache=True, nogil=True)
def hash_texts(starts: Array, data: Array, seed: Any, hashes: Array) -> None:
    """Hash texts: the bytes ``data[starts[k]:starts[k + 1]]``."""
    for k in range(len(hashes)):
        value = _BASIS ^ seed
        for place in range(starts[k], starts[k + 1]):
            value = (value ^ np.uint64(data[place])) * _PRIME
        hashes[k] = mix(value)


@njit(cache=True, nogil=True)
def _find_slot(name: Any, slots: Array, names: Array) -> int:
    """Return the slot of a node, or the empty one where it belongs."""
    last = len(slots) - 1
    slot = np.int64(name & np.uint64(last))
    while slots[slot] and names[slots[slot] - 1] != name:
        slot = (slot + 1) & last
    return slot


@njit(cache=True, nogil=True)
def _enter(
    name: Any,
    slots: Array,
    names: Array,
    parent: Array,
    sizes: Array,
    n_nodes: int,
) -> int:
    """Return the node of a hash; a new one is the last, and has to be counted."""
    slot = _find_slot(name, slots, names)
    if slots[slot]:
        return slots[slot] - 1
    slots[slot] = n_nodes + 1
    names[n_nodes] = name
    parent[n_nodes] = n_nodes
    sizes[n_nodes] = 0
    return n_nodes


@njit(cache=True, nogil=True)
def join_pairs(
    one: Array,
    other: Array,
    weights: Array,
    first: int,
    slots: Array,
    names: Array,
    parent: Array,
    sizes: Array,
    n_nodes: int,
) -> tuple[int, int]:
    """Join the nodes of pairs, each counted by its weight, from pair `first` on.

    Return the first pair not joined for lack of room, and the number of nodes.
    """
    for k in range(first, len(one)):
        if n_nodes + 2 > len(names):
            return k, n_nodes
        a = _enter(one[k], slots, names, parent, sizes, n_nodes)
        n_nodes += a == n_nodes
        b = _enter(other[k], slots, names, parent, sizes, n_nodes)
        n_nodes += b == n_nodes
        a, b = find_root(parent, a), find_root(parent, b)
        if a > b:
            a, b = b, a
        if a != b:
            parent[b] = a
            sizes[a] += sizes[b]
        sizes[a] += weights[k]
    return len(one), n_nodes


@njit(cache=True, nogil=True)
def fill_slots(names: Array, n_nodes: int, slots: Array) -> None:
    """Enter all nodes into slots that are empty."""
    for node in range(n_nodes):
        slots[_find_slot(names[node], slots, names)] = node + 1


@njit(cache=True, nogil=True)
def find_nodes(hashes: Array, slots: Array, names: Array, nodes: Array) -> None:
    """Find the nodes of hashes that have one."""
    for k in range(len(hashes)):
        nodes[k] = slots[_find_slot(hashes[k], slots, names)] - 1


@njit(cache=True, nogil=True)
def deal_components(
    parent: Array, sizes: Array, n_nodes: int, per_part: int, parts: Array
) -> int:
    """Deal components out to parts of about so many pairs; return the number of parts.

    They are dealt in order of first appearance.  One that is larger gets a part of its own.
    """
    part, n_pairs = 0, 0
    for node in range(n_nodes):
        root = find_root(parent, node)
        if root != node:
            parts[node] = parts[root]
            continue
        if n_pairs and n_pairs + sizes[node] > per_part:
            part += 1
            n_pairs = 0
        parts[node] = part
        n_pairs += sizes[node]
    return part + 1
