"""Pairs grouped by component, without holding them: parts that can be linked on their own.

The ids of pairs are hashed, and hashes joined by union-find as they come, so that memory is
that of the records, about 40 bytes each (32 to 60, as arrays double).  Ids of one hash only
put two components into the same part, where their own ids tell them apart again.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from permatch._optional import require
from permatch._types import BoolArray
from permatch.errors import SizeLimitError
from permatch.kernels.streamed_components import (
    deal_components,
    fill_slots,
    find_nodes,
    hash_numbers,
    hash_texts,
    join_pairs,
)

# The two sides of a pair: the same id means two records.
_SEEDS = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03)
_FEWEST, _MOST = 1 << 10, (1 << 31) - 2


@dataclass(frozen=True, eq=False)
class Forest:
    """Nodes in order of first appearance, and what they are joined to.

    Attributes
    ----------
    names : ndarray of shape (n_nodes,)
        Their hashes.
    roots : ndarray of shape (n_nodes,)
        The first node of the component of each.
    sizes : ndarray of shape (n_components,)
        Pairs of every component, in order of their first nodes.
    """

    names: np.ndarray
    roots: np.ndarray
    sizes: np.ndarray

    @property
    def is_root(self) -> BoolArray:
        """Which nodes are the first of a component."""
        return self.roots == np.arange(len(self.roots))

    @property
    def first(self) -> np.ndarray:
        """The hash of the first node of every component."""
        return self.names[self.is_root]


class Grouping:
    """Union-find over hashes of ids.

    Examples
    --------
    >>> import numpy as np
    >>> groups = Grouping()
    >>> one, other = np.array([[1, 5, 2], [11, 12, 11]], dtype=np.uint64)
    >>> groups.join(one, other)
    >>> groups.deal(per_part=2), groups.parts(one).tolist()
    (2, [0, 1, 0])
    """

    def __init__(self) -> None:
        self._n_nodes = 0
        self._names = np.empty(_FEWEST, dtype=np.uint64)
        self._parent = np.empty(_FEWEST, dtype=np.int32)
        self._sizes = np.empty(_FEWEST, dtype=np.int64)
        self._slots = np.zeros(2 * _FEWEST, dtype=np.int32)
        self._parts = np.zeros(0, dtype=np.int32)

    def join(
        self, one: np.ndarray, other: np.ndarray, weights: np.ndarray | None = None
    ) -> None:
        """Join the nodes of pairs, given by hashes; each counts as `weights` pairs."""
        if weights is None:
            weights = np.ones(len(one), dtype=np.int64)
        done = 0
        while done < len(one):
            done, self._n_nodes = join_pairs(
                one,
                other,
                weights,
                done,
                self._slots,
                self._names,
                self._parent,
                self._sizes,
                self._n_nodes,
            )
            if done < len(one):
                self._grow()

    def _grow(self) -> None:
        n = len(self._names)
        if n >= _MOST:
            raise SizeLimitError(
                f"link takes at most {_MOST:,} records of both tables together; these "
                "pairs have more. Split the pairs by a key that links must agree on, such "
                "as the year of birth, and link each share."
            )
        size = min(2 * n, _MOST)
        self._names = _longer(self._names, size)
        self._parent = _longer(self._parent, size)
        self._sizes = _longer(self._sizes, size)
        self._slots = np.zeros(2 * len(self._slots), dtype=np.int32)
        fill_slots(self._names, self._n_nodes, self._slots)

    def merge(self, forest: "Forest") -> None:
        """Join what another grouping has joined."""
        weights = np.zeros(len(forest.roots), dtype=np.int64)
        weights[forest.is_root] = forest.sizes
        self.join(forest.names, forest.names[forest.roots], weights)

    @property
    def forest(self) -> "Forest":
        """What was joined: far less than the pairs."""
        parent = self._parent[: self._n_nodes]
        roots = parent[parent]
        while (roots != parent).any():
            parent, roots = roots, roots[roots]
        is_root = roots == np.arange(len(roots))
        names, sizes = self._names[: len(roots)], self._sizes[: len(roots)]
        return Forest(names.copy(), roots, sizes[is_root])

    def deal(self, per_part: int) -> int:
        """Deal components out to parts of about so many pairs; return their number."""
        self._parts = np.empty(self._n_nodes, dtype=np.int32)
        n, own = self._n_nodes, (self._parent, self._sizes)
        return int(deal_components(*own, n, per_part, self._parts))

    def parts(self, hashes: np.ndarray) -> np.ndarray:
        """Return the part of every node, given by hashes."""
        nodes = np.empty(len(hashes), dtype=np.int64)
        find_nodes(hashes, self._slots, self._names, nodes)
        return self._parts[nodes]

    def put(self, parts: np.ndarray) -> None:
        """Set the part of every component, in order of first appearance."""
        forest = self.forest
        numbers = np.cumsum(forest.is_root) - 1
        self._parts = parts[numbers[forest.roots]]


def _longer(values: np.ndarray, size: int) -> np.ndarray:
    longer = np.empty(size, dtype=values.dtype)
    longer[: len(values)] = values
    return longer


def hash_ids(column: Any, side: int) -> np.ndarray:
    """Return a hash of every id of an Arrow column; `side` is 0 for left, 1 for right."""
    arrow = require("pyarrow", "tables")
    if isinstance(column, arrow.ChunkedArray):
        column = column.combine_chunks()
    if arrow.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kinds, kind = arrow.types, column.type
    hashes = np.empty(len(column), dtype=np.uint64)
    if kinds.is_integer(kind):
        wide = arrow.uint64() if kind == arrow.uint64() else arrow.int64()
        numbers = column.cast(wide).fill_null(0).to_numpy(zero_copy_only=False)
        hash_numbers(numbers.view(np.uint64), _SEEDS[side], hashes)
        return hashes
    texts = column.cast(arrow.large_string()).fill_null("")
    _, starts, data = texts.buffers()
    first = texts.offset
    places = np.frombuffer(starts, dtype=np.int64)[first : first + len(texts) + 1]
    letters = np.frombuffer(data or b"", dtype=np.uint8)
    hash_texts(places, letters, _SEEDS[side], hashes)
    return hashes
