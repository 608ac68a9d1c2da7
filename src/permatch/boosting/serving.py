"""Trees in the forms of the systems that serve them.

Features are single numbers there.  A threshold becomes the largest of them that is not
above it, so that documents take the same branches.  All systems have a tree as nested
nodes, or as lists of nodes, left before right:

* ONNX: ``TreeEnsembleRegressor``, left where a feature is at most the threshold;
* Solr: ``MultipleAdditiveTreesModel``, likewise, but with a slack of 1e-6;
* Elasticsearch: ``model/xgboost+json``, left where a feature is below the condition.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from permatch._types import FloatArray
from permatch.boosting.tree_text import Tree
from permatch.errors import InvalidOptionError
from permatch.estimators.onnx_graph import ML_DOMAIN, OnnxGraph

_LARGEST = float(np.finfo(np.float32).max)
# Far deeper than trees that are worth having, and far from limits of parsers.
_MOST_DEPTH = 200


def floor_single(values: FloatArray) -> FloatArray:
    """Return the largest numbers of single precision that are not above some."""
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    lower = np.nextafter(single, np.float32(-np.inf))
    return np.where(single > values, lower, single).astype(np.float64)


def check_single(trees: list[Tree]) -> None:
    """Refuse trees whose leaves are beyond single precision."""
    if not all((np.abs(tree.values) <= _LARGEST).all() for tree in trees):
        raise InvalidOptionError(
            "leaves of trees to export must fit single precision; one is above 3e38. Add "
            "an L2 penalty (lambda_l2) and fit again."
        )


def add_trees(graph: OnnxGraph, features: str, trees: list[Tree]) -> str:
    """Add trees that turn features (n, d) into scores (n,) to a graph; return its name."""
    check_single(trees)
    graph.use(ML_DOMAIN, 1)
    nodes: dict[str, list[Any]] = {name: [] for name in _NODES}
    leaves: dict[str, list[Any]] = {name: [] for name in _LEAVES}
    for k, tree in enumerate(trees):
        n, n_leaves = len(tree.features), len(tree.values)
        blank = [0] * n_leaves
        left, right = (np.where(c < 0, n - 1 - c, c) for c in (tree.left, tree.right))
        own = {
            "treeids": [k] * (n + n_leaves),
            "nodeids": [*range(n + n_leaves)],
            "featureids": [*tree.features.tolist(), *blank],
            "modes": ["BRANCH_LEQ"] * n + ["LEAF"] * n_leaves,
            "values": [*floor_single(tree.thresholds).tolist(), *map(float, blank)],
            "truenodeids": [*left.tolist(), *blank],
            "falsenodeids": [*right.tolist(), *blank],
        }
        for name in _NODES:
            nodes[name] += own[name]
        leaves["treeids"] += [k] * n_leaves
        leaves["nodeids"] += [*range(n, n + n_leaves)]
        leaves["ids"] += blank
        leaves["weights"] += tree.values.tolist()
    column = graph.add(
        "TreeEnsembleRegressor",
        features,
        domain=ML_DOMAIN,
        n_targets=1,
        **{f"nodes_{name}": values for name, values in nodes.items()},
        **{f"target_{name}": values for name, values in leaves.items()},
    )
    return graph.add("Squeeze", column, graph.constant([1]))


_NODES = (
    "treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids",
)  # fmt: skip
_LEAVES = ("treeids", "nodeids", "ids", "weights")


def solr_model(trees: list[Tree], names: list[str]) -> dict[str, Any]:
    """Return trees as Solr stores them, without a name."""

    def split(tree: Tree, k: int, depth: int, left: Any, right: Any) -> dict[str, Any]:
        threshold = floor_single(tree.thresholds)[k]
        own = {"feature": names[tree.features[k]], "threshold": repr(float(threshold))}
        return own | {"left": left, "right": right}

    def leaf(tree: Tree, k: int) -> dict[str, Any]:
        return {"value": repr(float(tree.values[k]))}

    return {
        "class": "org.apache.solr.ltr.model.MultipleAdditiveTreesModel",
        "features": [{"name": name} for name in names],
        "params": {
            "trees": [{"weight": "1", "root": root} for root in _nested(trees, split, leaf)]
        },
    }


def elasticsearch_model(trees: list[Tree], names: list[str]) -> tuple[str, Any]:
    """Return the type of trees in Elasticsearch, and their definition."""

    def split(tree: Tree, k: int, depth: int, left: Any, right: Any) -> dict[str, Any]:
        threshold = np.float32(floor_single(tree.thresholds)[k])
        return {
            "nodeid": k,
            "depth": depth,
            "split": names[tree.features[k]],
            "split_condition": float(np.nextafter(threshold, np.float32(np.inf))),
            "yes": left["nodeid"],
            "no": right["nodeid"],
            "missing": left["nodeid"],
            "children": [left, right],
        }

    def leaf(tree: Tree, k: int) -> dict[str, Any]:
        return {"nodeid": len(tree.features) + k, "leaf": float(tree.values[k])}

    return "model/xgboost+json", _nested(trees, split, leaf)


def _nested(
    trees: list[Tree],
    split: Callable[[Tree, int, int, Any, Any], Any],
    leaf: Callable[[Tree, int], Any],
) -> list[Any]:
    """Return the root of every tree, made of its splits and leaves."""
    check_single(trees)
    roots = []
    for tree in trees:
        leaves = [leaf(tree, k) for k in range(len(tree.values))]
        depths = _depths(tree)
        if depths.max(initial=0) > _MOST_DEPTH:
            raise InvalidOptionError(
                f"trees to export there must be at most {_MOST_DEPTH} splits deep; got one "
                f'of {depths.max()}. Fit with tree_options={{"max_depth": {_MOST_DEPTH}}}, '
                "or export to ONNX."
            )
        inner: list[Any] = [None] * len(tree.features)
        for k in reversed(range(len(inner))):  # children come after their parents
            below = [
                leaves[-1 - child] if child < 0 else inner[child]
                for child in (tree.left[k], tree.right[k])
            ]
            inner[k] = split(tree, k, int(depths[k]), *below)
        roots.append(inner[0] if inner else leaves[0])
    return roots


def _depths(tree: Tree) -> Any:
    """Return the number of splits above every inner node."""
    depths = np.zeros(len(tree.features), dtype=np.int64)
    for k in range(len(depths)):
        for child in (tree.left[k], tree.right[k]):
            if child > 0:
                depths[child] = depths[k] + 1
    return depths
