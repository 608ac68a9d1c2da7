"""Which splits of its trees moved a document, and how far.

Every inner node of a tree has an expected value, every leaf its value.  A split moves a
document by the value of the node it goes to less that of the node it comes from; what all
splits move, added to the expected values of the roots, is the score.  Splits of a feature
at the same threshold, in whatever tree, count as one: a document is on one side of all.
"""

from typing import NamedTuple

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch.boosting.tree_text import Tree

# Numbers held at once; bounds memory.
_BLOCK_VALUES = 1 << 22


class Move(NamedTuple):
    """What the splits of a feature at a threshold add to the score of a document."""

    feature: int
    threshold: float
    is_above: bool
    move: float


def find_moves(trees: list[Tree], features: FloatArray, n_most: int) -> list[list[Move]]:
    """Return the splits that moved each row of features (n, d) most, the largest first."""
    splits = np.array(
        [
            pair
            for tree in trees
            for pair in zip(tree.features, tree.thresholds, strict=True)
        ]
    ).reshape(-1, 2)
    kinds, codes = np.unique(splits, axis=0, return_inverse=True)
    ends = np.cumsum([len(tree.features) for tree in trees])
    own = np.split(codes.reshape(-1), ends[:-1])
    found: list[list[Move]] = []
    step = max(1, _BLOCK_VALUES // max(1, len(kinds)))
    for first in range(0, len(features), step):
        rows = np.asarray(features[first : first + step], dtype=np.float64)
        moved = np.zeros((len(rows), len(kinds)))
        for tree, names in zip(trees, own, strict=True):
            _follow(tree, names, rows, moved)
        found += [
            _largest(row, values, kinds, n_most)
            for row, values in zip(moved, rows, strict=True)
        ]
    return found


def _follow(tree: Tree, names: IntArray, rows: FloatArray, moved: FloatArray) -> None:
    """Add what the splits of a tree move to `moved`, by row and name of the split."""
    if not len(tree.features):
        return
    n = len(tree.features)
    value = np.concatenate([tree.expected, tree.values])  # inner nodes, then leaves
    here = np.arange(len(rows))
    nodes = np.zeros(len(rows), dtype=np.int64)
    while len(here):
        is_left = rows[here, tree.features[nodes]] <= tree.thresholds[nodes]
        child = np.where(is_left, tree.left[nodes], tree.right[nodes])
        is_leaf = child < 0
        reached = value[np.where(is_leaf, n - 1 - child, child)]
        moved[here, names[nodes]] += reached - value[nodes]
        here, nodes = here[~is_leaf], child[~is_leaf]


def _largest(
    moved: FloatArray, values: FloatArray, kinds: FloatArray, n_most: int
) -> list[Move]:
    order = np.argsort(-np.abs(moved), kind="stable")[:n_most]
    found = []
    for k in order[moved[order] != 0.0].tolist():
        feature, threshold = int(kinds[k, 0]), float(kinds[k, 1])
        is_above = bool(values[feature] > threshold)
        found.append(Move(feature, threshold, is_above, float(moved[k])))
    return found
