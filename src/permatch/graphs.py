"""Bipartite graphs with edge features, and checks of training sets."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from permatch._types import BoolArray, FloatArray, IntArray
from permatch._validation import check_count, check_matchings, refuse_masked
from permatch.errors import (
    FeatureCountError,
    FeatureShapeError,
    FeatureTypeError,
    ForbiddenEdgeError,
    InvalidMatchingError,
    NaNFeatureError,
    NoGraphsError,
)


def _reordered(found: IntArray, wanted: IntArray) -> IntArray:
    """Return the numbers of `found`, those that are in `wanted` at their places there."""
    is_common = np.isin(wanted, found)
    placed = np.where(is_common, wanted, -1)
    placed[~is_common] = found[~np.isin(found, wanted)]
    return placed


def squared_difference(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return the elementwise squared difference of node features, the paper's choice."""
    return (left - right) ** 2


@dataclass(frozen=True, eq=False)
class BipartiteGraph:
    """A graph with m nodes on either side and a feature vector on every edge.

    Parameters
    ----------
    features : array of shape (m, m, d)
        ``features[i, j]`` describes the edge between left node i and right node j.
    allowed : array of shape (m, m), optional
        False forbids an edge; None allows all.
    n_left, n_right : int, optional
        Number of nodes on each side, the larger one m; default: m.  The smaller side is
        padded with dummy nodes, which are interchangeable.

    Examples
    --------
    >>> import numpy as np
    >>> import permatch as pm
    >>> graph = pm.BipartiteGraph(np.zeros((3, 3, 2)))
    >>> graph.size, graph.features.shape
    (3, (3, 3, 2))
    """

    features: FloatArray
    allowed: BoolArray | None = None
    n_left: int | None = None
    n_right: int | None = None

    def __post_init__(self) -> None:
        features = _as_features(self.features, "features")
        if self.allowed is not None:
            refuse_masked(self.allowed, "allowed", FeatureTypeError)
            allowed = np.array(self.allowed)
            if allowed.dtype != np.bool_ or allowed.shape != features.shape[:2]:
                raise FeatureShapeError(
                    "allowed must be a boolean array with one entry per edge, shape "
                    f"{features.shape[:2]}; got dtype {allowed.dtype} and shape "
                    f"{allowed.shape}."
                )
            allowed.flags.writeable = False
            if not allowed.all():  # whatever a forbidden edge has, it does not matter
                features = np.where(allowed[:, :, None], features, 0.0)
            object.__setattr__(self, "allowed", allowed)
        _check_finite(features, "features")
        features.flags.writeable = False
        object.__setattr__(self, "features", features)
        size = len(features)
        for side in ("n_left", "n_right"):
            number = getattr(self, side)
            object.__setattr__(
                self, side, size if number is None else check_count(number, side, 0)
            )
        if max(self.n_sides) != size:
            raise FeatureShapeError(
                f"the larger of n_left and n_right must be the size of the graph, {size}; "
                f"got {self.n_left} and {self.n_right}."
            )

    @property
    def size(self) -> int:
        """Nodes per side, m."""
        return self.features.shape[0]

    @property
    def n_features(self) -> int:
        """Length of an edge's feature vector, d."""
        return self.features.shape[2]

    @property
    def n_sides(self) -> tuple[int, int]:
        """Nodes on the left and right side, without dummy nodes."""
        return cast("int", self.n_left), cast("int", self.n_right)

    @property
    def n_extra(self) -> int:
        """Dummy nodes on the smaller side."""
        return abs(self.n_sides[0] - self.n_sides[1])

    def align_extra(self, found: IntArray, wanted: IntArray) -> IntArray:
        """Return a matching with dummy nodes exchanged to agree with another.

        Parameters
        ----------
        found, wanted : ndarray of shape (m,)
            The matching, and the one to agree with.

        Returns
        -------
        ndarray of shape (m,)
            A matching equivalent to `found`.
        """
        n_left, n_right = self.n_sides
        if n_left < n_right:
            found = found.copy()
            found[n_left:] = _reordered(found[n_left:], wanted[n_left:])
        elif n_right < n_left:
            left_of, wanted_left = np.argsort(found), np.argsort(wanted)
            left_of[n_right:] = _reordered(left_of[n_right:], wanted_left[n_right:])
            found = np.argsort(left_of)
        return found

    def weigh_extra(self, marginals: FloatArray) -> FloatArray:
        """Return marginals with those of all dummy nodes added up.

        Parameters
        ----------
        marginals : ndarray of shape (m, m)
            The probability of every edge.

        Returns
        -------
        ndarray of shape (m, m)
            For `permatch.decoding.bayes_matching`, so that a node rightly left unmatched
            counts as correct whichever dummy node it got.
        """
        if self.n_extra < 2:
            return marginals
        n_left, n_right = self.n_sides
        weighed = marginals.copy()
        weighed[n_left:] *= self.n_extra
        weighed[:, n_right:] *= self.n_extra
        return weighed

    @classmethod
    def from_nodes(
        cls,
        left: ArrayLike,
        right: ArrayLike,
        edge: Callable[[FloatArray, FloatArray], FloatArray] = squared_difference,
        *,
        allowed: BoolArray | None = None,
    ) -> "BipartiteGraph":
        """Build a graph from node features.

        Parameters
        ----------
        left, right : arrays of shape (m, k)
            Node features of the two sides.
        edge : callable
            Takes broadcast left (m, 1, k) and right (1, m, k) features and returns the edge
            features (m, m, d).
        allowed : array of shape (m, m), optional
            False forbids an edge.

        Returns
        -------
        BipartiteGraph
            With ``features[i, j] = edge(left[i], right[j])``.

        Examples
        --------
        >>> graph = BipartiteGraph.from_nodes([[0.0], [1.0]], [[1.0], [3.0]])
        >>> graph.features[:, :, 0]
        array([[1., 9.],
               [0., 4.]])
        """
        ends = [
            _as_reals(side, name, "(m, k)").astype(np.float64)
            for side, name in ((left, "left"), (right, "right"))
        ]
        if any(side.ndim != 2 for side in ends) or ends[0].shape != ends[1].shape:
            raise FeatureShapeError(
                "left and right must be node features of the same shape (m, k); got "
                f"{ends[0].shape} and {ends[1].shape}."
            )
        return cls(edge(ends[0][:, None, :], ends[1][None, :, :]), allowed)

    def scores(self, coef: FloatArray) -> FloatArray:
        """Return the edge scores (m, m) under one weight per feature."""
        scores = self.features @ coef
        if self.allowed is not None:
            scores[~self.allowed] = -np.inf
        return scores


def check_graphs(graphs: Any, n_features: int | None = None) -> list[BipartiteGraph]:
    """Return graphs as a list, all with the same number of features.

    Accepts a sequence of `BipartiteGraph` and (m, m, d) arrays of any sizes, or one array
    (n, m, m, d).  `n_features` is that of a fitted model.
    """
    if isinstance(graphs, BipartiteGraph) or (
        isinstance(graphs, np.ndarray) and graphs.ndim == 3 and graphs.dtype != object
    ):
        raise FeatureShapeError(
            "graphs must be a sequence of graphs, got a single one. Wrap it: [graph]."
        )
    if not isinstance(graphs, Sequence | np.ndarray) or isinstance(graphs, str | bytes):
        raise FeatureTypeError(
            "graphs must be a sequence of (m, m, d) arrays or BipartiteGraph objects; got "
            f"{type(graphs).__name__}. For a table with one row per edge use "
            "permatch.datasets.read_edge_table."
        )
    checked = [
        graph if isinstance(graph, BipartiteGraph) else _named(graph, f"graph {k}")
        for k, graph in enumerate(graphs)
    ]
    if not checked:
        raise NoGraphsError("at least one graph is required; got an empty sequence.")
    expected = checked[0].n_features if n_features is None else n_features
    for k, graph in enumerate(checked):
        if graph.n_features != expected:
            who = "the first graph has" if n_features is None else "the model was fitted on"
            raise FeatureCountError(
                f"all graphs must have the same number of features; {who} {expected}, "
                f"graph {k} has {graph.n_features}."
            )
    return checked


def check_labels(graphs: list[BipartiteGraph], matchings: Any) -> list[IntArray]:
    """Return one matching per graph, each a permutation that uses only allowed edges."""
    try:
        n_matchings = len(matchings)
    except TypeError as err:
        raise InvalidMatchingError(
            f"matchings must be a sequence, one per graph; got {type(matchings).__name__}."
        ) from err
    if n_matchings != len(graphs):
        raise InvalidMatchingError(
            f"one matching per graph is required; got {len(graphs)} graphs and "
            f"{n_matchings} matchings."
        )
    checked = []
    for k, (graph, matching) in enumerate(zip(graphs, matchings, strict=True)):
        try:
            labels = check_matchings(matching, graph.size)
        except InvalidMatchingError as err:
            raise InvalidMatchingError(f"matching of graph {k}: {err}") from err
        if len(labels) != 1:
            raise InvalidMatchingError(
                f"one matching per graph is required; got {len(labels)} for graph {k}."
            )
        label = labels[0]
        if graph.allowed is not None:
            is_used = graph.allowed[np.arange(graph.size), label]
            if not is_used.all():
                row = int(np.argmin(is_used))
                raise ForbiddenEdgeError(
                    f"a labelled matching must use allowed edges; that of graph {k} "
                    f"uses the forbidden edge ({row}, {label[row]}). Allow it, or drop the "
                    "graph."
                )
        checked.append(label)
    return checked


def _named(features: Any, name: str) -> BipartiteGraph:
    """Return a graph; errors name it."""
    array = _as_features(features, name)
    _check_finite(array, name)
    return BipartiteGraph(array)


def _as_features(features: Any, name: str) -> FloatArray:
    """Return edge features as float64; a copy unless read-only."""
    array = _as_reals(features, name, "(m, m, d)")
    if array.ndim != 3 or array.shape[0] != array.shape[1]:
        raise FeatureShapeError(
            f"{name} must have shape (m, m, d), a vector per edge; got "
            f"{array.shape}. Pad the smaller side with dummy nodes."
        )
    if array.shape[2] == 0:
        raise FeatureShapeError(
            f"{name} must have at least one feature per edge; got shape {array.shape}."
        )
    is_settled = array.dtype == np.float64 and array.flags.c_contiguous
    if is_settled and not array.flags.writeable:  # nobody will change it
        return array
    return np.array(array, dtype=np.float64, order="C")


def _as_reals(values: Any, name: str, shape: str) -> np.ndarray:
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


def _check_finite(array: FloatArray, name: str) -> None:
    is_bad = ~np.isfinite(array)
    if is_bad.any():
        row, col, feature = (int(k) for k in np.argwhere(is_bad)[0])
        raise NaNFeatureError(
            f"{name} must be finite; edge ({row}, {col}) has {array[row, col, feature]} in "
            f"feature {feature}. Fill it in, or forbid the edge with "
            "BipartiteGraph(features, allowed)."
        )
