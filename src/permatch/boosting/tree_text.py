"""LightGBM's text of trained trees: what of it is kept, and whether it can be trusted.

LightGBM reads its own text without looking at it twice: a damaged one makes it read memory
that is not its own.  So a text from a file is checked here to the last number first.

    tree                       the header, names and values
    version=v4
    ...
    tree_sizes=484 483         bytes of every block below
                               (an empty line)
    Tree=0                     a block for every tree
    num_leaves=4
    split_feature=0 0 2        the inner nodes, of which the root is the first
    left_child=1 -1 -2         an inner node, or a leaf as -1 - leaf
    ...
    end of trees
"""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from permatch._types import FloatArray, IntArray

_END = "end of trees\n"
_LINE = re.compile(r"[a-z_]+=[^=]*")
# Numbers as LightGBM writes them; it reads others in ways of its own.
_NUMBER = r"-?\d+(?:\.\d+)?(?:e[+-]\d+)?"
_NUMBERS = re.compile(rf"{_NUMBER}(?: {_NUMBER})*")
_HEADER = {
    "version": "v4",
    "num_class": "1",
    "num_tree_per_iteration": "1",
    "label_index": "0",
}
# Numbers of a tree: those of inner nodes, and those of leaves.
_INNER = (
    "split_feature",
    "split_gain",
    "threshold",
    "decision_type",
    "left_child",
    "right_child",
    "internal_value",
    "internal_weight",
    "internal_count",
)
_LEAVES = ("leaf_value", "leaf_weight", "leaf_count")
_WHOLE = ("split_feature", "decision_type", "left_child", "right_child")
_PLAIN = {"num_cat": "0", "is_linear": "0"}
# Comparisons of numbers, however missing values are treated.
_COMPARISONS = (0, 2, 4, 6, 8, 10)


def keep_trees(text: str) -> str:
    """Return LightGBM's text without what follows the trees, such as its options."""
    return text[: text.index(_END) + len(_END)]


def check_trees(text: Any) -> tuple[int, int]:
    """Return the numbers of features and trees; ValueError if the text is damaged."""
    if not isinstance(text, str) or not text.isascii():
        raise ValueError("trees must be a text of LightGBM")
    head, blank, body = text.partition("\n\n")
    if not head.startswith("tree\n") or not blank:
        raise ValueError("trees must be a text of LightGBM, which begins with 'tree'")
    header = _pairs(head.split("\n")[1:])
    for name, value in _HEADER.items():
        if header.get(name) != value:
            raise ValueError(
                f"{name} of the trees must be {value}, got {header.get(name)!r}"
            )
    (highest,) = _whole(header, "max_feature_idx", 1)
    n_features = int(highest) + 1
    for name in ("feature_names", "feature_infos"):
        if len(header.get(name, "").split(" ")) != n_features:
            raise ValueError(f"{name} of the trees must name {n_features} features")
    sizes = header.get("tree_sizes", "").split(" ")
    if not all(size.isdecimal() and len(size) < 12 for size in sizes):
        raise ValueError("tree_sizes must be whole numbers")
    at = 0
    for k, size in enumerate(map(int, sizes)):
        _check_tree(body[at : at + size], k, n_features)
        at += size
    if body[at:] != _END:
        raise ValueError(f"the trees must have the sizes in tree_sizes, {at} bytes in all")
    return n_features, len(sizes)


@dataclass(frozen=True, eq=False)
class Tree:
    """The nodes of one tree: inner ones from the root on, none of a constant, and leaves.

    Attributes
    ----------
    features, thresholds, gains : ndarrays of shape (n,)
        A row goes left where its feature is at most the threshold; what the split gained.
    left, right : ndarrays of shape (n,)
        The children: a later inner node, or a leaf as -1 - leaf.
    values : ndarray of shape (n + 1,)
        The leaves.
    expected : ndarray of shape (n,)
        What an inner node would add to the score if it were a leaf.
    """

    features: IntArray
    thresholds: FloatArray
    gains: FloatArray
    left: IntArray
    right: IntArray
    values: FloatArray
    expected: FloatArray


def read_trees(text: str) -> list[Tree]:
    """Return the trees of a text that can be trusted."""
    found = []
    for block in text[: text.index(_END)].split("Tree=")[1:]:
        tree = _pairs(block.rstrip("\n").split("\n")[1:])
        n_inner = int(tree["num_leaves"]) - 1

        def values(name: str, tree: Any = tree, n_inner: int = n_inner) -> FloatArray:
            return _real(tree, name, n_inner) if n_inner else np.zeros(0)

        own = (values(name) for name in ("split_feature", "left_child", "right_child"))
        features, left, right = (numbers.astype(np.int64) for numbers in own)
        reals = values("threshold"), values("split_gain")
        expected = values("internal_value")
        leaves = _real(tree, "leaf_value", n_inner + 1)
        found.append(Tree(features, *reals, left, right, leaves, expected))
    return found


def _check_tree(block: str, k: int, n_features: int) -> None:
    """Refuse a block that is not a tree of comparisons of these features."""
    first, *lines = block.split("\n")
    if first != f"Tree={k}" or lines[-3:] != ["", "", ""]:
        raise ValueError(f"tree {k} must be where tree_sizes has it")
    tree = _pairs(lines[:-3])
    (n_leaves,) = _whole(tree, "num_leaves", 1)
    n_inner = int(n_leaves) - 1
    if n_inner < 0:
        raise ValueError(f"tree {k} must have a leaf")
    for name, value in _PLAIN.items():
        if tree.get(name) != value:
            raise ValueError(f"{name} of tree {k} must be {value}, got {tree.get(name)!r}")
    _real(tree, "shrinkage", 1)
    if n_inner == 0:  # a constant: LightGBM leaves most lists empty
        _real(tree, "leaf_value", 1)
        return
    for name in (*_INNER, *_LEAVES):
        size = n_inner + (name in _LEAVES)
        (_whole if name in _WHOLE else _real)(tree, name, size)
    features = _whole(tree, "split_feature", n_inner)
    if features.min() < 0 or features.max() >= n_features:
        raise ValueError(f"tree {k} must split by one of {n_features} features")
    if not np.isin(_whole(tree, "decision_type", n_inner), _COMPARISONS).all():
        raise ValueError(f"tree {k} must have comparisons of numbers only")
    children = np.array([_whole(tree, f"{side}_child", n_inner) for side in _SIDES])
    # Every node but the root is the child of one before it, so the nodes are a tree.
    if (
        not np.array_equal(np.sort(children, axis=None), _all_children(n_inner))
        or not ((children < 0) | (children > np.arange(n_inner))).all()
    ):
        raise ValueError(f"the nodes of tree {k} must form a tree")


_SIDES = ("left", "right")


def _all_children(n_inner: int) -> IntArray:
    """Return all leaves and all inner nodes but the root, rising."""
    return np.concatenate([np.arange(-n_inner - 1, 0), np.arange(1, n_inner)])


def _pairs(lines: list[str]) -> dict[str, str]:
    """Return the values of lines ``name=value``, each name once."""
    if not all(map(_LINE.fullmatch, lines)):
        raise ValueError("every line of the trees must be name=value")
    found = {name: value for name, _, value in (line.partition("=") for line in lines)}
    if len(found) != len(lines):
        raise ValueError("every name in the trees must be there once")
    return found


def _whole(values: dict[str, str], name: str, size: int) -> IntArray:
    found = _real(values, name, size)
    if not (np.abs(found) < 2**31).all() or (found != np.floor(found)).any():
        raise ValueError(f"{name} of the trees must be whole numbers")
    return found.astype(np.int64)


def _real(values: dict[str, str], name: str, size: int) -> FloatArray:
    text = values.get(name, "")
    if not _NUMBERS.fullmatch(text):
        raise ValueError(f"{name} of the trees must be numbers")
    found = np.array(text.split(" "), dtype=np.float64)
    if len(found) != size or not np.isfinite(found).all():
        raise ValueError(f"{name} of the trees must be {size} finite numbers")
    return found
