"""The forms in which scores arrive: arrays, sparse arrays, lists of edges.

`check_problem` turns any of them into a `Problem`, and returns the `Layout` that turns
values on its edges and nodes back into the form that was given.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from permatch._types import BoolArray, FloatArray, IntArray
from permatch._validation import (
    MAX_SCORE,
    SHAPES,
    as_floats,
    check_count,
    is_list_of_graphs,
    is_sparse,
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
from permatch.problems import Problem, Structure, complete_structure

#: A score per node, one for all nodes, or None.
Unmatched = ArrayLike | Sequence[Any] | None


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


@dataclass(frozen=True, eq=False)
class Form:
    """One graph as it was given: what its entries are, and which of them are edges."""

    kind: Literal["dense", "sparse", "edges"]
    shape: tuple[int, int]
    n_entries: int
    places: IntArray  # of the edges of the problem among the entries given
    template: Any = None  # the sparse array that was given

    def lay(self, values: FloatArray | BoolArray) -> Any:
        """Return values on the edges of the problem in the form of the graph."""
        entries = np.zeros(self.n_entries, dtype=values.dtype)
        entries[self.places] = values
        if self.kind == "dense":
            return entries.reshape(self.shape)
        if self.kind == "sparse":
            laid = self.template.tocoo(copy=True)
            laid.data = entries
            return laid.asformat(self.template.format)
        return entries


@dataclass(frozen=True, eq=False)
class Layout:
    """How values on the edges and nodes of a problem are given back."""

    kind: Literal["one", "stack", "list"]
    forms: tuple[Form, ...]
    structure: Structure

    def edges(self, values: FloatArray | BoolArray | None) -> Any:
        """Return values (n_edges,) on edges in the form of the scores."""
        if values is None:
            return None
        starts = self.structure.edge_starts
        return self._collect(
            [
                form.lay(values[starts[g] : starts[g + 1]])
                for g, form in enumerate(self.forms)
            ]
        )

    def left(self, values: Any) -> Any:
        """Return values (n_left,) on left nodes, per graph if there are several."""
        return self._nodes(values, self.structure.left_starts)

    def right(self, values: Any) -> Any:
        """Return values (n_right,) on right nodes, per graph if there are several."""
        return self._nodes(values, self.structure.right_starts)

    def graphs(self, values: Any) -> Any:
        """Return values (n_graphs,), a float if only one graph was given."""
        if values is None:
            return None
        return float(values[0]) if self.kind == "one" else values

    def matchings(self, partners: IntArray) -> Any:
        """Return the partners (n_left,) of left nodes, counted within each graph."""
        structure = self.structure
        first = structure.right_starts[structure.graph_of_left]
        return self.left(np.where(partners >= 0, partners - first, partners))

    def _nodes(self, values: Any, starts: IntArray) -> Any:
        if values is None:
            return None
        return self._collect(
            [
                values[first:last]
                for first, last in zip(starts[:-1], starts[1:], strict=True)
            ]
        )

    def _collect(self, pieces: list[Any]) -> Any:
        if self.kind == "one":
            return pieces[0]
        if self.kind == "stack":
            return np.array(pieces) if pieces else np.zeros((0, 0))
        return pieces


def check_problem(
    scores: Any,
    unmatched_left: Unmatched = None,
    unmatched_right: Unmatched = None,
    *,
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
        where it is 0.  A list has one entry per graph of a list of graphs.
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
    if kind == "one" and _is_complete(graphs[0]):
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
    own = [_check_unmatched(values, side, kind, *sizes) for side, values, *sizes in sides]
    problem = Problem(structure, _joined([s for *_, s in found], float), own[0], own[1])
    _check_alone(problem, names)
    return problem, Layout(kind, forms, structure)


# Entries of a dense graph whose structure is worth keeping for the next of its shape.
_FEW_ENTRIES = 1 << 13


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
    left = _one_unmatched(unmatched_left, "unmatched_left", n, k)
    right = _one_unmatched(unmatched_right, "unmatched_right", k, n)
    form = Form("dense", scores.shape, scores.size, structure.all_edges)
    problem = Problem(structure, scores.flatten(), left.copy(), right.copy())
    return problem, Layout("one", (form,), structure)


def stacked_problem(scores: FloatArray) -> Problem:
    """Return dense squares (b, m, m) whose nodes must all be matched as a problem."""
    n_graphs, size = scores.shape[:2]
    graphs, _, cols = np.nonzero(scores > -np.inf)
    counts = (scores > -np.inf).sum(axis=2).ravel()
    starts = _starts(counts)
    nodes = np.arange(n_graphs + 1) * size
    must = np.full(n_graphs * size, -np.inf)
    structure = Structure(starts, graphs * size + cols, nodes, nodes)
    return Problem(structure, scores[scores > -np.inf], must, must)


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
        listed = graph.tocoo()
        left, right = listed.row.astype(np.int64), listed.col.astype(np.int64)
        score = as_floats(listed.data, name)
    else:
        array = as_floats(graph, name)
        if array.ndim != 2:
            raise ScoreShapeError(f"{name} must be {SHAPES}; got shape {array.shape}.")
        if check:
            _check_entries(array, name, lambda k: divmod(k, array.shape[1]))
        is_edge = array > -np.inf
        left, right = is_edge.nonzero()
        form = Form("dense", array.shape, array.size, left * array.shape[1] + right)
        return form, left, right, array[is_edge]
    if check:
        _check_entries(score, name, lambda k: (int(left[k]), int(right[k])))
    places = order_edges(left, right, shape)
    check_distinct(left[places], right[places], name)
    places = places[score[places] > -np.inf]
    form = Form(kind, shape, len(score), places, template)
    return form, left[places], right[places], score[places]


def _check_entries(scores: FloatArray, name: str, edge: Callable[[int], Any]) -> None:
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


def _check_unmatched(
    values: Any, name: str, kind: str, sizes: IntArray, others: IntArray
) -> FloatArray:
    """Return the scores of staying unmatched of all nodes of a side, in every graph."""
    each = [values] * len(sizes)
    if kind == "list" and isinstance(values, list | tuple):
        each = list(values)
        if len(each) != len(sizes):
            raise InvalidOptionError(
                f"{name} must have one entry per graph, {len(sizes)}; got {len(each)}."
            )
    return _joined(
        [
            _one_unmatched(own, name if kind == "one" else f"{name} of graph {g}", n, k)
            for g, (own, n, k) in enumerate(
                zip(each, sizes.tolist(), others.tolist(), strict=True)
            )
        ],
        float,
    )


def _one_unmatched(values: Any, name: str, n: int, n_other: int) -> FloatArray:
    if values is None:
        return np.full(n, 0.0 if n > n_other else -np.inf)
    if type(values) is float and abs(values) <= MAX_SCORE:
        return np.full(n, values)
    array = as_floats(values, name)
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


def _check_alone(problem: Problem, names: list[str]) -> None:
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
