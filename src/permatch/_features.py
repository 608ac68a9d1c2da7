"""Checks of the features that graphs are made from."""

from collections.abc import Callable
from typing import Any

import numpy as np

from permatch._types import BoolArray, FloatArray, IntArray
from permatch._validation import refuse_masked
from permatch.errors import FeatureShapeError, FeatureTypeError, NaNFeatureError


def as_features(features: Any, name: str) -> FloatArray:
    """Return edge features (n, k, d) as float64; a copy unless read-only."""
    array = as_reals(features, name, "(n, k, d)")
    if array.ndim != 3:
        raise FeatureShapeError(
            f"{name} must have shape (n, k, d), a vector per edge; got {array.shape}. For "
            "a list of edges use BipartiteGraph.from_edges."
        )
    if array.shape[2] == 0:
        raise FeatureShapeError(
            f"{name} must have at least one feature per edge; got shape {array.shape}."
        )
    return settled(array)


def settled(array: np.ndarray) -> FloatArray:
    """Return numbers that nobody will change: a copy unless they are read-only."""
    is_settled = array.dtype == np.float64 and array.flags.c_contiguous
    if is_settled and not array.flags.writeable:
        return array
    return np.array(array, dtype=np.float64, order="C")


def as_node_features(values: Any, name: str, n_nodes: int) -> FloatArray:
    """Return features of nodes (n, p) that are finite; p is 0 if there are none."""
    if values is None:
        return np.zeros((n_nodes, 0))
    array = as_reals(values, name, "(n, p)")
    if array.ndim != 2 or len(array) != n_nodes:
        raise FeatureShapeError(
            f"{name} must have one row per node, shape ({n_nodes}, p); got shape "
            f"{array.shape}."
        )
    array = settled(array)
    is_bad = ~np.isfinite(array)
    if is_bad.any():
        node, feature = (int(k) for k in np.argwhere(is_bad)[0])
        raise NaNFeatureError(
            f"{name} must be finite; node {node} has {array[node, feature]} in feature "
            f"{feature}. Fill it in."
        )
    array.flags.writeable = False
    return array


def as_mask(allowed: Any, shape: tuple[int, int]) -> BoolArray:
    """Return which edges are allowed, (n, k)."""
    refuse_masked(allowed, "allowed", FeatureTypeError)
    mask = np.asarray(allowed)
    if mask.dtype != np.bool_ or mask.shape != shape:
        raise FeatureShapeError(
            "allowed must be a boolean array with one entry per edge, shape "
            f"{shape}; got dtype {mask.dtype} and shape {mask.shape}."
        )
    return mask


def are_sorted(left: IntArray, right: IntArray) -> bool:
    """Return whether edges are sorted by left, then right node, each there once."""
    step = np.diff(left)
    return bool(((step > 0) | ((step == 0) & (np.diff(right) > 0))).all())


def as_reals(values: Any, name: str, shape: str) -> np.ndarray:
    """Return real numbers as an array; `shape` is what errors ask for."""
    advice = (
        "Fill in masked values; to forbid an edge use BipartiteGraph(features, allowed)."
    )
    refuse_masked(values, name, FeatureTypeError, advice)
    try:
        array = np.asarray(values)
    except ValueError as err:
        raise FeatureShapeError(
            f"{name} must have shape {shape}; got rows of different lengths."
        ) from err
    if array.dtype.kind not in "fiub":
        raise FeatureTypeError(
            f"{name} must hold real numbers, got dtype {array.dtype}. "
            "Convert it with np.asarray(features, dtype=float)."
        )
    return array


def check_finite(
    array: FloatArray, name: str, edge: Callable[[int], tuple[int, int]]
) -> None:
    """Refuse features that are not finite; `edge` names one of the flattened edges."""
    if np.isfinite(array).all():
        return
    rows = array.reshape(-1, array.shape[-1])
    worst, feature = (int(k) for k in np.argwhere(~np.isfinite(rows))[0])
    row, col = edge(worst)
    raise NaNFeatureError(
        f"{name} must be finite; edge ({row}, {col}) has {rows[worst, feature]} in feature "
        f"{feature}. Fill it in, or forbid the edge with BipartiteGraph(features, allowed)."
    )
