"""Checks made once, at the public edge; everything below trusts its input."""

import math
import operator
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from permatch._memory import LITTLE, available_memory
from permatch._types import FloatArray, IntArray
from permatch.errors import (
    InfeasibleGraphError,
    InfiniteScoreError,
    InvalidMatchingError,
    InvalidOptionError,
    NaNScoreError,
    PermatchError,
    ScoreShapeError,
    ScoreTypeError,
    SizeLimitError,
)

#: Largest finite score: sums over a matching and its prices must not overflow float64.
MAX_SCORE = 1e300

#: The forms in which scores are accepted.
SHAPES = "an array (n, k), a stack (b, n, k), a sparse array, EdgeScores, or a list of them"


@dataclass(frozen=True)
class ScoreBatch:
    """Checked scores, graphs of equal size stacked together.

    `stacks` pairs the positions of the graphs in the input with their (b, m, m) scores.
    """

    kind: Literal["one", "stack", "list"]
    n_graphs: int
    stacks: list[tuple[IntArray, FloatArray]]


def check_batch(scores: Any, *, check: bool = True) -> ScoreBatch | None:
    """Check dense square scores and stack them by size; None for any other form.

    With ``check=False`` float64 arrays are used as they are and only shapes are read.
    """
    if is_sparse(scores):
        return None
    if is_list_of_graphs(scores):
        if any(is_sparse(graph) for graph in scores):
            return None
        graphs = [as_floats(graph, f"graph {k}") for k, graph in enumerate(scores)]
        by_size: dict[int, list[int]] = {}
        for k, graph in enumerate(graphs):
            if graph.ndim != 2 or graph.shape[0] != graph.shape[1]:
                return None
            if check:
                _check_entries(graph, f"graph {k}")
            by_size.setdefault(len(graph), []).append(k)
        stacks = [
            (np.array(members, dtype=np.intp), np.stack([graphs[k] for k in members]))
            for _, members in sorted(by_size.items())
        ]
        return ScoreBatch("list", len(graphs), stacks)
    array = as_floats(scores, "scores")
    if array.ndim not in (2, 3) or array.shape[-1] != array.shape[-2]:
        return None
    if check:
        _check_entries(array, "scores")
    if array.ndim == 2:
        return ScoreBatch("one", 1, [(np.zeros(1, dtype=np.intp), array[None])])
    return ScoreBatch("stack", len(array), [(np.arange(len(array)), array)])


def is_sparse(graph: Any) -> bool:
    """Return whether a graph is given by its edges: sparse, or `EdgeScores`."""
    return hasattr(graph, "tocoo") or hasattr(graph, "n_left")


def check_scores(scores: Any) -> FloatArray:
    """Return one checked (m, m) score matrix as contiguous float64."""
    return _square(scores, "scores", check=True)


def is_list_of_graphs(scores: Any) -> bool:
    """Return whether scores are a list of graphs rather than one graph or a stack."""
    if isinstance(scores, np.ndarray):
        return scores.dtype == object and scores.ndim == 1
    if not isinstance(scores, Sequence) or isinstance(scores, str | bytes):
        return False
    # A nested list of numbers is one graph: its elements have one dimension, not two.
    try:
        return all(is_sparse(graph) or _n_dims(graph) == 2 for graph in scores)
    except ValueError as err:
        raise ScoreShapeError(
            f"scores must be {SHAPES}; got a nested list whose rows differ in length. "
            "Give all rows of a graph the same length."
        ) from err


def _n_dims(element: Any) -> int:
    """Return the number of dimensions, 0 if not an array; ValueError if ragged."""
    n_dims = getattr(element, "ndim", None)
    return n_dims if isinstance(n_dims, int) else np.ndim(element)


def refuse_masked(
    values: Any,
    name: str,
    error: type[PermatchError],
    advice: str = "Fill in or drop masked values.",
) -> None:
    """Raise `error` for a masked array, or nested lists that contain one.

    NumPy would silently drop the mask and use the numbers under it.
    """
    if isinstance(values, np.ma.MaskedArray):
        raise error(f"{name} must be a plain array, got a masked array. {advice}")
    if isinstance(values, list | tuple):
        for item in values:
            if isinstance(item, np.ma.MaskedArray | list | tuple):
                refuse_masked(item, name, error, advice)


# What errors say of ragged, masked and boolean scores of edges.
_OF_EDGES = (
    f"{SHAPES}; got nested sequences whose lengths differ. Give all rows of a graph the "
    "same length.",
    "Use scores.filled(-np.inf) to forbid the masked edges.",
    "For a mask of allowed edges use np.where(mask, 0.0, -np.inf).",
)


def as_floats(
    scores: Any, name: str, advice: tuple[str, str, str] = _OF_EDGES
) -> FloatArray:
    """Return real numbers of any shape as contiguous float64."""
    ragged, masked, boolean = advice
    if (
        type(scores) is np.ndarray
        and scores.dtype == np.float64
        and scores.flags.c_contiguous
    ):
        return scores
    refuse_masked(scores, name, ScoreTypeError, masked)
    try:
        array = np.asarray(scores)
    except (ValueError, TypeError) as err:
        raise ScoreShapeError(f"{name} must be {ragged}") from err
    except RuntimeError as err:
        if "requires grad" not in str(err):
            raise
        raise has_gradient(name) from err
    if array.dtype.kind not in "fiu":
        hint = {
            "b": boolean,
            "c": "Scores are real log-weights; take the real part if that is meant.",
        }.get(array.dtype.kind, "Convert it with np.asarray(..., dtype=float).")
        raise ScoreTypeError(
            f"{name} must hold real numbers (float or int), got dtype {array.dtype}. {hint}"
        )
    # A long double beyond float64 becomes inf, which is caught later.
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(array, dtype=np.float64).reshape(array.shape)


def has_gradient(name: str) -> ScoreTypeError:
    """Return what is said of a tensor of PyTorch that is part of a graph of gradients."""
    return ScoreTypeError(
        f"{name} must be numbers without a gradient, which is lost; got a tensor that "
        "requires one. Use .detach(), or permatch.nn, whose results are differentiable."
    )


def _square(scores: Any, name: str, check: bool) -> FloatArray:
    array = as_floats(scores, name)
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        raise _not_square(name, "one graph: square, with as many rows as columns", array)
    if check:
        _check_entries(array, name)
    return array


def _not_square(name: str, required: str, array: FloatArray) -> ScoreShapeError:
    hint = "For unequal sides use permatch.infer or permatch.MatchingDistribution."
    if array.ndim == 3 and array.shape[1] == array.shape[2]:
        hint = "For a stack of graphs use permatch.infer."
    return ScoreShapeError(f"{name} must be {required}; got shape {array.shape}. {hint}")


def _check_entries(array: FloatArray, name: str) -> None:
    if array.size == 0:
        return
    highest = array.max()  # NaN if any entry is NaN
    if highest <= MAX_SCORE and array.min() >= -MAX_SCORE:
        return
    if np.isnan(highest):
        raise NaNScoreError(
            f"{name} must not contain NaN; got {np.isnan(array).sum()} of them, the first "
            f"at {_first(np.isnan(array))}. Use -np.inf to forbid an edge."
        )
    is_wrong = (np.abs(array) > MAX_SCORE) & (array != -np.inf)
    if is_wrong.any():
        raise InfiniteScoreError(
            f"{name} must be at most {MAX_SCORE:g} in size, or -inf to forbid an edge; got "
            f"{array[is_wrong][0]} at {_first(is_wrong)}. To force an edge, forbid the "
            "others in its row, or use given={row: col}."
        )


def _first(mask: np.ndarray) -> tuple[int, ...]:
    return tuple(int(k) for k in np.argwhere(mask)[0])


def like_others(count: int) -> str:
    """Return what follows the name of the first of `count` that an error is about.

    Examples
    --------
    >>> [f"graph 2{like_others(count)}" for count in (1, 2, 3)]
    ['graph 2', 'graph 2 (like 1 other)', 'graph 2 (like 2 others)']
    """
    return f" (like {count - 1} other{'s' * (count > 2)})" if count > 1 else ""


def no_perfect_matching(
    scores: FloatArray, name: str = "this graph"
) -> InfeasibleGraphError:
    """Return the error to raise when the allowed edges contain no perfect matching."""
    size = len(scores)
    n_allowed = int(np.isfinite(scores).sum())
    return InfeasibleGraphError(
        f"a graph needs a perfect matching among its allowed edges; {name} of size {size} "
        f"has {n_allowed} of {size * size} edges allowed (score above -inf) and no perfect "
        "matching. Allow more edges, or drop the graph."
    )


def check_matchings(matchings: Any, n_left: int, n_right: int | None = None) -> IntArray:
    """Return matchings as an integer array (n, n_left), or raise.

    With `n_right` an entry is a right node or -1 for unmatched, and no right node occurs
    twice; without, every row must be a permutation.
    """
    refuse_masked(matchings, "a matching", InvalidMatchingError)
    what = "columns, one per row" if n_right is None else "right nodes, one per left node"
    try:
        array = np.asarray(matchings)
    except ValueError as err:
        raise InvalidMatchingError(
            f"a matching must list {n_left} {what}; got different lengths."
        ) from err
    if array.size == 0 and array.dtype == np.float64:
        array = array.astype(np.intp)  # what NumPy makes of an empty list
    if (
        array.dtype.kind not in "iu"
        or array.ndim not in (1, 2)
        or array.shape[-1] != n_left
    ):
        raise InvalidMatchingError(
            f"a matching must be an integer array of {n_left} {what} "
            f"(or a stack of them); got dtype {array.dtype} and shape {array.shape}."
        )
    array = np.atleast_2d(array).astype(np.intp)
    if n_right is not None:
        _check_partial(array, n_right)
        return array
    is_permutation = (np.sort(array, axis=1) == np.arange(n_left)).all(axis=1)
    if not is_permutation.all():
        worst = array[~is_permutation][0]
        raise InvalidMatchingError(
            f"a matching must use each of the columns 0 .. {n_left - 1} exactly once; got "
            f"{worst.tolist()}. Columns are counted from 0."
        )
    return array


def _check_partial(matchings: IntArray, n_right: int) -> None:
    """Refuse right nodes that do not exist or have two partners."""
    is_wrong = (matchings < -1) | (matchings >= n_right)
    if is_wrong.any():
        row, node = (int(k) for k in np.argwhere(is_wrong)[0])
        raise InvalidMatchingError(
            f"a matching must name right nodes 0 .. {n_right - 1}, or -1 for unmatched; "
            f"left node {node} has {matchings[row, node]}. Nodes are counted from 0."
        )
    ordered = np.sort(matchings, axis=1)
    is_repeated = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    if is_repeated.any():
        row, place = (int(k) for k in np.argwhere(is_repeated)[0])
        node = ordered[row, place]
        both = np.nonzero(matchings[row] == node)[0][:2].tolist()
        raise InvalidMatchingError(
            f"a matching must give every right node at most one partner; right node {node} "
            f"has the left nodes {both[0]} and {both[1]}."
        )


def check_count(value: Any, name: str, lowest: int) -> int:
    """Return `value` as an int of at least `lowest`."""
    count = as_index(value)
    if count is None or count < lowest:
        raise InvalidOptionError(
            f"{name} must be a whole number of at least {lowest}, got {value!r}."
        )
    return count


def check_choice(value: Any, name: str, choices: Iterable[str]) -> str:
    """Return `value` as one of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidOptionError(
            f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}."
        )
    return str(value)


def check_weights(sample_weight: Any, n_graphs: int) -> FloatArray:
    """Return one weight per graph; they sum to one."""
    if sample_weight is None:
        return np.full(n_graphs, 1.0 / n_graphs)
    refuse_masked(sample_weight, "sample_weight", InvalidOptionError)
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as err:
        raise InvalidOptionError(
            f"sample_weight must have one number per graph; {err}."
        ) from err
    if weights.shape != (n_graphs,):
        raise InvalidOptionError(
            f"sample_weight must have one number per graph, shape ({n_graphs},); got shape "
            f"{weights.shape}."
        )
    is_bad = ~(np.isfinite(weights) & (weights >= 0.0))
    if is_bad.any():
        worst = int(np.argmax(is_bad))
        raise InvalidOptionError(
            f"sample_weight must be finite and at least 0; graph {worst} has "
            f"{weights[worst]}."
        )
    largest = weights.max()
    if largest == 0.0:
        raise InvalidOptionError(
            "sample_weight must be above 0 for at least one graph; all are 0. Drop it to "
            "weight all graphs equally."
        )
    weights = weights / largest  # first, so that the sum cannot overflow
    return weights / weights.sum()


def check_jobs(n_jobs: Any) -> int:
    """Return the number of threads meant by `n_jobs`, by scikit-learn's convention."""
    if n_jobs is None:
        return 1
    count = as_index(n_jobs)
    if count is None or count == 0:
        raise InvalidOptionError(
            "n_jobs must be a whole number other than 0, or None for one thread; got "
            f"{n_jobs!r}. Use -1 for all processors."
        )
    # More threads than tasks never start; a bound keeps later arithmetic in range.
    return min(count, 1 << 16) if count > 0 else max(1, (os.cpu_count() or 1) + 1 + count)


@contextmanager
def enough_memory(
    what: str, n_bytes: float, advice: str = "Ask for less."
) -> Iterator[None]:
    """Refuse to allocate `n_bytes` if fewer are available, or if it fails."""
    # Systems grant memory they do not have, and end the process when it is used.
    left = available_memory() if n_bytes > LITTLE else math.inf
    if n_bytes > left:
        raise SizeLimitError(
            f"{what} needs {n_bytes / 2**30:.3g} GiB of memory, and {left / 2**30:.3g} GiB "
            f"are available. {advice}"
        )
    try:
        if n_bytes > 2.0**46:  # NumPy's own words for this are about dimensions
            raise MemoryError
        yield
    except MemoryError as err:
        raise SizeLimitError(
            f"{what} needs {n_bytes / 2**30:.3g} GiB of memory, more than is available. "
            f"{advice}"
        ) from err


def check_rng(rng: Any) -> np.random.Generator:
    """Return a generator from a seed, a generator, or None for fresh entropy."""
    if rng is None or isinstance(rng, np.random.Generator):
        return np.random.default_rng(rng)
    seed = as_index(rng)
    if seed is None or seed < 0:
        raise InvalidOptionError(
            "rng must be a non-negative seed, a numpy.random.Generator or None; got "
            f"{rng!r}."
        )
    return np.random.default_rng(seed)


def as_index(value: Any) -> int | None:
    """Return a whole number as an int; None for anything else, booleans included."""
    if isinstance(value, bool | np.bool_ | np.ma.MaskedArray):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None
