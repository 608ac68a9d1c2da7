"""The forms in which scores arrive: arrays, sparse arrays, lists of edges.

`check_problem` turns any of them into a `Problem`, and returns the `Layout` that turns
values on its edges and nodes back into the form that was given.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from permatch._layout import Form, Layout
from permatch._score_checks import (
    check_alone,
    check_capacities,
    check_distinct,
    check_entries,
    check_unmatched,
    one_unmatched,
    order_edges,
)
from permatch._types import FloatArray, IntArray
from permatch._validation import (
    MAX_SCORE,
    SHAPES,
    as_floats,
    check_count,
    is_list_of_graphs,
    is_sparse,
    refuse_masked,
)
from permatch.errors import EdgeListError, ScoreShapeError, ScoreTypeError
from permatch.problems import Problem, Structure, complete_structure

#: A score per node, one for all nodes, or None.
Unmatched = ArrayLike | Sequence[Any] | None
#: The most links of every node, or of all nodes, or None for one.
Capacity = ArrayLike | Sequence[Any] | None


@dataclass(frozen=True, eq=False)
class EdgeScores:
    """The allowed edges of a graph and their scores, as parallel lists.

    Parameters
    ----------
    left, right : integer arrays of shape (n_edges,)
        The nodes that each edge joins, counted from 0.  No pair may occur twice.
    score : array of shape (n_edges,)
        Log-weight of each edge; ``-inf`` forbids it, like leaving it out.
    n_left, n_right : int, optional
        Number of nodes on each side; default: one more than the largest that occurs.

    Examples
    --------
    >>> import permatch as pm
    >>> edges = pm.EdgeScores([0, 0, 1], [0, 1, 1], [1.0, 2.0, 3.0], n_right=3)
    >>> edges.n_left, edges.n_right, len(edges)
    (2, 3, 3)
    """

    left: IntArray
    right: IntArray
    score: FloatArray
    n_left: int | None = None
    n_right: int | None = None

    def __post_init__(self) -> None:
        for side in ("left", "right"):
            nodes = _as_nodes(getattr(self, side), side)
            number = getattr(self, f"n_{side}")
            most = int(nodes.max(initial=-1)) + 1
            if number is None:
                number = most
            number = check_count(number, f"n_{side}", 0)
            if most > number:
                worst = int(np.argmax(nodes >= number))
                raise EdgeListError(
                    f"edges must join nodes that exist; edge {worst} names {side} node "
                    f"{nodes[worst]}, and n_{side} is {number}. Nodes are counted from 0."
                )
            object.__setattr__(self, side, nodes)
            object.__setattr__(self, f"n_{side}", number)
        score = as_floats(self.score, "score")
        if not self.left.shape == self.right.shape == score.shape or score.ndim != 1:
            raise EdgeListError(
                "left, right and score must have one entry per edge; got shapes "
                f"{self.left.shape}, {self.right.shape} and {score.shape}."
            )
        object.__setattr__(self, "score", score)

    def __len__(self) -> int:
        return len(self.score)


def _as_nodes(nodes: Any, name: str) -> IntArray:
    refuse_masked(nodes, name, EdgeListError)
    array = np.asarray(nodes)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise EdgeListError(
            f"{name} must be a list of node numbers, one per edge; got dtype {array.dtype} "
            f"and shape {array.shape}. Number the nodes from 0; for a table with ids use "
            "permatch.datasets.read_edge_table."
        )
    array = array.astype(np.int64)
    if array.min(initial=0) < 0:
        worst = int(np.argmin(array))
        raise EdgeListError(
            f"{name} must hold node numbers of at least 0; edge {worst} has {array[worst]}."
        )
    return array


def check_problem(
    scores: Any,
    unmatched_left: Unmatched = None,
    unmatched_right: Unmatched = None,
    *,
    capacity_left: Capacity = None,
    capacity_right: Capacity = None,
    check: bool = True,
) -> tuple[Problem, Layout]:
    """Check scores of any accepted form.

    Parameters
    ----------
    scores : array (n, k), sparse array, EdgeScores, stack (b, n, k) or list of these
        Log-weight of each edge.  ``-inf`` forbids an edge; so does a missing entry of a
        sparse array.
    unmatched_left, unmatched_right : number, array, None, or a list of these
        Score of staying unmatched, of all nodes or of each; ``-inf``: must be matched.
        None: every node must be matched, except on the larger side of an unequal graph,
        where it is 0.  For a stack: a number, an array (n,) for all graphs, or an array
        (b, n).  For a list of graphs: a number or an array for all, or a list with one
        entry per graph.
    capacity_left, capacity_right : int, array, None, or a list of these
        Links that a node may have, at most: of all nodes or of each, ``math.inf`` for no
        limit.  None: one.  Shapes as above.
    check : bool
        False skips the check for NaN and infinities.

    Returns
    -------
    problem : Problem
        All graphs side by side.
    layout : Layout
        Gives values on edges and nodes back in the form of the scores.
    """
    kind, graphs = _as_graphs(scores)
    is_matching = capacity_left is None and capacity_right is None
    if kind == "one" and is_matching and _is_complete(graphs[0]):
        return _complete_problem(graphs[0], unmatched_left, unmatched_right)
    names = [_name(kind, g) for g in range(len(graphs))]
    found = [_read(graph, name, check) for graph, name in zip(graphs, names, strict=True)]
    forms = tuple(form for form, _, _, _ in found)
    n_left = np.array([form.shape[0] for form in forms], dtype=np.int64)
    n_right = np.array([form.shape[1] for form in forms], dtype=np.int64)
    left_starts, right_starts = _starts(n_left), _starts(n_right)
    counts = [np.bincount(left, minlength=form.shape[0]) for form, left, _, _ in found]
    starts = _starts(_joined(counts, np.int64))
    shifted = [right + right_starts[g] for g, (_, _, right, _) in enumerate(found)]
    structure = Structure(starts, _joined(shifted, np.int64), left_starts, right_starts)
    sides = (
        ("unmatched_left", unmatched_left, n_left, n_right),
        ("unmatched_right", unmatched_right, n_right, n_left),
    )
    left, right = (
        _joined(check_unmatched(values, side, kind, *sizes), float)
        for side, values, *sizes in sides
    )
    problem = Problem(
        structure,
        _joined([s for *_, s in found], float),
        left,
        right,
        check_capacities(capacity_left, "capacity_left", kind, n_left),
        check_capacities(capacity_right, "capacity_right", kind, n_right),
    )
    check_alone(problem, names)
    if kind == "stack" and not graphs:
        return problem, Layout(kind, forms, structure, np.shape(scores)[1:])
    return problem, Layout(kind, forms, structure)


# Entries of a dense graph whose structure is worth keeping for the next of its shape.
_FEW_ENTRIES = 1 << 13
# The same for stacks, of which few are kept.
_MANY_ENTRIES = 1 << 20


def _is_complete(graph: Any) -> bool:
    """Return whether a small dense graph has all edges, with scores that are in order."""
    return (
        isinstance(graph, np.ndarray)
        and graph.ndim == 2
        and 0 < graph.size <= _FEW_ENTRIES
        and bool(graph.min() >= -MAX_SCORE and graph.max() <= MAX_SCORE)
    )


def _complete_problem(
    scores: FloatArray, unmatched_left: Unmatched, unmatched_right: Unmatched
) -> tuple[Problem, Layout]:
    """Return what `check_problem` does, without building what is known of the shape."""
    n, k = scores.shape
    structure = complete_structure(n, k)
    left = one_unmatched(unmatched_left, "unmatched_left", n, k)
    right = one_unmatched(unmatched_right, "unmatched_right", k, n)
    form = Form("dense", scores.shape, scores.size, structure.all_edges)
    problem = Problem(structure, scores.flatten(), left, right)
    return problem, Layout("one", (form,), structure)


def settled_scores(scores: Any) -> Any:
    """Return checked scores of one graph that nobody will change, in their form."""
    if isinstance(scores, EdgeScores):
        return scores
    if hasattr(scores, "tocoo"):
        return scores.copy()
    array = np.array(scores, dtype=np.float64)
    array.flags.writeable = False
    return array


def stacked_problem(
    scores: FloatArray,
    unmatched_left: FloatArray | None = None,
    unmatched_right: FloatArray | None = None,
) -> Problem:
    """Return dense graphs (b, n, k) as a problem; ``-inf`` where no edge is.

    Scores of staying unmatched, (b, n) and (b, k), are ``-inf`` by default: all nodes must
    be matched.
    """
    n_graphs, n, k = scores.shape
    is_edge = scores > -np.inf
    left, right = (
        np.full(n_graphs * size, -np.inf) if values is None else values.ravel()
        for size, values in ((n, unmatched_left), (k, unmatched_right))
    )
    if is_edge.all() and scores.size <= _MANY_ENTRIES:
        return Problem(dense_structure(n_graphs, n, k), scores.ravel(), left, right)
    graphs, _, cols = np.nonzero(is_edge)
    structure = Structure(
        _starts(is_edge.sum(axis=2).ravel()),
        graphs * k + cols,
        np.arange(n_graphs + 1) * n,
        np.arange(n_graphs + 1) * k,
    )
    return Problem(structure, scores[is_edge], left, right)


@lru_cache(maxsize=4)
def dense_structure(n_graphs: int, n_left: int, n_right: int) -> Structure:
    """Return the structure of equal graphs with all edges, kept for the next of them."""
    graphs = np.arange(n_graphs)
    cols = np.tile(np.arange(n_right), (n_graphs, n_left, 1))
    return Structure(
        np.arange(n_graphs * n_left + 1) * n_right,
        (cols + n_right * graphs[:, None, None]).ravel(),
        np.arange(n_graphs + 1) * n_left,
        np.arange(n_graphs + 1) * n_right,
    )


def _starts(counts: IntArray) -> IntArray:
    """Return where each of some runs begins, and where the last one ends."""
    starts = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


def _joined(pieces: Sequence[np.ndarray], dtype: Any) -> np.ndarray:
    if len(pieces) == 1:
        return pieces[0]
    return np.concatenate(pieces, dtype=dtype) if pieces else np.zeros(0, dtype)


def _name(kind: str, g: int) -> str:
    return "scores" if kind == "one" else f"graph {g}"


def _as_graphs(scores: Any) -> tuple[Literal["one", "stack", "list"], list[Any]]:
    if is_sparse(scores):
        return "one", [scores]
    if is_list_of_graphs(scores):
        return "list", list(scores)
    array = as_floats(scores, "scores")
    if array.ndim == 3:
        return "stack", list(array)
    return "one", [array]


def _read(
    graph: Any, name: str, check: bool
) -> tuple[Form, IntArray, IntArray, FloatArray]:
    """Return the form of a graph, and its edges sorted by left, then right node."""
    if isinstance(graph, EdgeScores):
        left, right, score = graph.left, graph.right, graph.score
        shape, kind, template = (graph.n_left or 0, graph.n_right or 0), "edges", None
    elif hasattr(graph, "tocoo"):
        kind, shape, template = "sparse", graph.shape, graph
        if len(shape) != 2:
            raise ScoreShapeError(
                f"{name} must have two dimensions, (n, k); got shape {shape}."
            )
        if graph.format in ("bsr", "dia"):
            raise ScoreTypeError(
                f"{name} must be a sparse array that lists its edges (csr, csc, coo, lil "
                f"or dok); got format {graph.format}, which does not tell edges of score 0 "
                "from missing ones. Build it as csr or coo, or convert with .tocsr() and "
                "check which entries of 0 it has."
            )
        listed = graph.tocoo()
        left, right = listed.row.astype(np.int64), listed.col.astype(np.int64)
        score = as_floats(listed.data, name)
    else:
        array = as_floats(graph, name)
        if array.ndim != 2:
            raise ScoreShapeError(f"{name} must be {SHAPES}; got shape {array.shape}.")
        if check:
            check_entries(array, name, lambda k: divmod(k, array.shape[1]))
        is_edge = array > -np.inf
        left, right = is_edge.nonzero()
        form = Form("dense", array.shape, array.size, left * array.shape[1] + right)
        return form, left, right, array[is_edge]
    if check:
        check_entries(score, name, lambda k: (int(left[k]), int(right[k])))
    places = order_edges(left, right, shape)
    check_distinct(left[places], right[places], name)
    places = places[score[places] > -np.inf]
    form = Form(kind, shape, len(score), places, template)
    return form, left[places], right[places], score[places]
