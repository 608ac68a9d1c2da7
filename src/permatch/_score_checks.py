"""Checks of scores: those of edges, of lists of edges, of nodes; and of capacities."""

from collections.abc import Callable
from typing import Any

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch._validation import (
    MAX_SCORE,
    as_floats,
    enough_memory,
    like_others,
    refuse_masked,
)
from permatch.errors import (
    EdgeListError,
    InfeasibleGraphError,
    InfiniteScoreError,
    InvalidOptionError,
    NaNScoreError,
    ScoreShapeError,
)
from permatch.kernels.components import group_by_label
from permatch.problems import Problem, above_one

#: The capacity of a node without a limit: more links than any node has.
UNLIMITED = 1 << 40

# What errors say of ragged, masked and boolean scores of staying unmatched.
_OF_NODES = (
    "one number or one per node; got sequences whose lengths differ. For a list of graphs "
    "give a list with one entry per graph.",
    "Use .filled(-np.inf) if the masked nodes must be matched.",
    "For a mask of nodes that may stay unmatched use np.where(mask, 0.0, -np.inf).",
)


def check_entries(scores: FloatArray, name: str, edge: Callable[[int], Any]) -> None:
    """Refuse NaN and scores that are too large; `edge` names an entry."""
    flat = scores.ravel()
    if flat.max(initial=0.0) <= MAX_SCORE and flat.min(initial=0.0) >= -MAX_SCORE:
        return
    with np.errstate(invalid="ignore"):
        is_wrong = ~((np.abs(flat) <= MAX_SCORE) | (flat == -np.inf))
    if not is_wrong.any():
        return
    worst = int(np.argmax(is_wrong))
    if np.isnan(flat).any():
        worst = int(np.argmax(np.isnan(flat)))
        raise NaNScoreError(
            f"{name} must not contain NaN; got {np.isnan(flat).sum()} of them, the first "
            f"at edge {edge(worst)}. Leave an edge out, or use -np.inf, to forbid it."
        )
    raise InfiniteScoreError(
        f"{name} must be at most {MAX_SCORE:g} in size, or -inf to forbid an edge; got "
        f"{flat[worst]} at edge {edge(worst)}. To force an edge use given={{left: right}}."
    )


def order_edges(left: IntArray, right: IntArray, shape: tuple[int, int]) -> IntArray:
    """Return the order of edges by left, then right node."""
    what, advice = f"a graph of {shape[0]} x {shape[1]} nodes", "Number them without gaps."
    with enough_memory(what, 32.0 * sum(shape), advice):
        places = group_by_label(right, shape[1])[1]  # two counting sorts
        return places[group_by_label(left[places], shape[0])[1]]


def check_distinct(left: IntArray, right: IntArray, name: str) -> None:
    """Refuse sorted edges that occur twice."""
    is_repeated = (left[1:] == left[:-1]) & (right[1:] == right[:-1])
    if is_repeated.any():
        worst = int(np.argmax(is_repeated))
        n_repeated = int((is_repeated & ~np.append(False, is_repeated[:-1])).sum())
        raise EdgeListError(
            f"{name} must list every edge once; edge ({left[worst]}, {right[worst]})"
            f"{like_others(n_repeated)} occurs more than once. Drop "
            "duplicates, or add up their scores."
        )


def check_unmatched(
    values: Any, name: str, kind: str, sizes: IntArray, others: IntArray
) -> list[FloatArray]:
    """Return the scores of staying unmatched of the nodes of a side, for every graph."""
    each = [values] * len(sizes)
    if kind == "stack" and len(sizes) and values is not None:
        array = as_floats(values, name, _OF_NODES)
        if array.shape not in ((), (sizes[0],), (len(sizes), sizes[0])):
            raise ScoreShapeError(
                f"{name} must be one number, one per node, shape ({sizes[0]},), or one per "
                f"graph and node, shape ({len(sizes)}, {sizes[0]}); got shape "
                f"{array.shape}."
            )
        if array.ndim == 2:
            each = list(array)
    if kind == "list" and isinstance(values, list | tuple):
        each = list(values)
        if len(each) != len(sizes):
            raise InvalidOptionError(
                f"{name} must have one entry per graph, {len(sizes)}; got {len(each)}."
            )
    return [
        one_unmatched(own, name if kind == "one" else f"{name} of graph {g}", n, k)
        for g, (own, n, k) in enumerate(
            zip(each, sizes.tolist(), others.tolist(), strict=True)
        )
    ]


def one_unmatched(values: Any, name: str, n: int, n_other: int) -> FloatArray:
    """Return the scores of staying unmatched of one side of one graph, an own array."""
    if values is None:
        return np.full(n, 0.0 if n > n_other else -np.inf)
    if type(values) is float and abs(values) <= MAX_SCORE:
        return np.full(n, values)
    array = as_floats(values, name, _OF_NODES)
    if array.shape not in ((), (n,)):
        raise ScoreShapeError(
            f"{name} must be one number or one per node, shape ({n},); got shape "
            f"{array.shape}."
        )
    if np.isnan(array).any():
        raise NaNScoreError(
            f"{name} must not contain NaN. Use -np.inf for nodes that must be matched."
        )
    if (np.abs(array[array > -np.inf]) > MAX_SCORE).any():
        raise InfiniteScoreError(
            f"{name} must be at most {MAX_SCORE:g} in size, or -inf for nodes that must be "
            f"matched; got {array.max()}. To leave a node unmatched, forbid its edges."
        )
    return np.broadcast_to(array, (n,)).copy()


def check_capacities(values: Any, name: str, kind: str, sizes: IntArray) -> Any:
    """Return how many links each node of a side may have, of all graphs; None if one."""
    if values is None or (type(values) is int and values == 1):
        return None
    each = [values] * len(sizes)
    if kind == "list" and isinstance(values, list | tuple):
        each = list(values)
        if len(each) != len(sizes):
            raise InvalidOptionError(
                f"{name} must have one entry per graph, {len(sizes)}; got {len(each)}."
            )
    if kind == "stack":
        array = _as_capacities(values, name)
        each = list(array) if array.ndim == 2 and len(array) == len(sizes) else each
    own = [_one_capacity(*pair, name) for pair in zip(each, sizes.tolist(), strict=True)]
    return above_one(np.concatenate([np.ones(0, np.int64), *own]))


def _one_capacity(values: Any, n: int, name: str) -> IntArray:
    """Return how many links each node of one side of one graph may have."""
    array = _as_capacities(values, name)
    must = _capacity_rule(name)
    if array.shape not in ((), (n,)):
        raise InvalidOptionError(
            f"{must}, or one per node, shape ({n},); got shape {array.shape}."
        )
    is_wrong = ~((array >= 1) & (array == np.floor(array)))
    if is_wrong.any():
        worst = array[is_wrong].flat[0]
        forbid = " To leave a node unmatched, forbid its edges." if worst == 0 else ""
        raise InvalidOptionError(f"{must}; got {worst}.{forbid}")
    whole = np.minimum(array, UNLIMITED).astype(np.int64)
    return np.broadcast_to(whole, (n,))


def _capacity_rule(name: str) -> str:
    return f"{name} must be a whole number of links of at least 1, math.inf for no limit"


def _as_capacities(values: Any, name: str) -> np.ndarray:
    """Return capacities as an array of numbers."""
    refuse_masked(values, name, InvalidOptionError)
    try:
        array = np.asarray(1 if values is None else values)
    except ValueError:  # rows of different lengths
        array = np.array(None)
    if array.dtype.kind not in "iuf":
        raise InvalidOptionError(
            f"{_capacity_rule(name)}, or one per node; got {values!r:.60}."
        )
    return array


def check_alone(problem: Problem, names: list[str]) -> None:
    """Refuse nodes that must be matched and have no edge."""
    structure = problem.structure
    for side, unmatched in (
        ("left", problem.unmatched_left),
        ("right", problem.unmatched_right),
    ):
        is_alone = unmatched == -np.inf
        if not is_alone.any():
            continue
        if side == "left":
            is_alone &= structure.starts[1:] == structure.starts[:-1]
        else:
            is_alone &= np.bincount(structure.right, minlength=len(unmatched)) == 0
        if not is_alone.any():
            continue
        worst = int(np.argmax(is_alone))
        starts = structure.left_starts if side == "left" else structure.right_starts
        g = int(np.searchsorted(starts, worst, side="right")) - 1
        name = "this graph" if names[g] == "scores" else names[g]
        raise InfeasibleGraphError(
            "a node that must be matched needs an allowed edge; "
            f"{side} node {worst - int(starts[g])} of {name}"
            f"{like_others(int(is_alone.sum()))} has none. Allow it an edge, or give "
            f"unmatched_{side} a finite score."
        )
