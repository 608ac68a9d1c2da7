"""Bipartite graphs with edge features.

A graph is a structure, one feature vector per edge, and optionally features of its nodes.
An array (n, k, d) is the special case in which all edges are allowed.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from permatch._features import (
    are_sorted,
    as_features,
    as_mask,
    as_node_features,
    as_reals,
    check_finite,
    settled,
)
from permatch._layout import Form
from permatch._score_checks import check_distinct, order_edges
from permatch._types import BoolArray, FloatArray, IntArray
from permatch._validation import enough_memory
from permatch.errors import EdgeListError, FeatureShapeError
from permatch.problems import Structure
from permatch.scores import EdgeScores


def squared_difference(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return the elementwise squared difference of node features, the paper's choice."""
    return (left - right) ** 2


class BipartiteGraph:
    """A graph with a feature vector on every edge.

    Parameters
    ----------
    features : array of shape (n, k, d)
        ``features[i, j]`` describes the edge between left node i and right node j.
    allowed : array of shape (n, k), optional
        False forbids an edge; None allows all.
    left_features, right_features : arrays of shape (n, p) and (k, q), optional
        Features of the nodes, from which the scores of staying unmatched are learned.

    Attributes
    ----------
    structure : Structure
        The allowed edges, sorted by left node, then by right node.
    edge_features : ndarray of shape (n_edges, d)
        Their features, in this order.
    left_features, right_features : ndarray of shape (n, p) and (k, q)
        Features of the nodes; p and q are 0 by default.

    Examples
    --------
    >>> import numpy as np
    >>> import permatch as pm
    >>> graph = pm.BipartiteGraph(np.zeros((3, 5, 2)))
    >>> graph.n_left, graph.n_right, graph.n_edges, graph.n_features
    (3, 5, 15, 2)
    """

    structure: Structure
    edge_features: FloatArray
    left_features: FloatArray
    right_features: FloatArray
    _form: Form

    def __init__(
        self,
        features: ArrayLike,
        allowed: ArrayLike | None = None,
        *,
        left_features: ArrayLike | None = None,
        right_features: ArrayLike | None = None,
    ) -> None:
        array = as_features(features, "features")
        n, k, d = array.shape
        if allowed is None:
            check_finite(array, "features", lambda e: divmod(e, k))
            edges = array.reshape(n * k, d)
            left, right = np.repeat(np.arange(n), k), np.tile(np.arange(k), n)
        else:
            left, right = np.nonzero(as_mask(allowed, (n, k)))
            edges = array[left, right]  # whatever a forbidden edge has, it does not matter
            check_finite(edges, "features", lambda e: (int(left[e]), int(right[e])))
        form = Form("dense", (n, k), n * k, left * k + right)
        self._fill(left, right, edges, form, left_features, right_features)

    @classmethod
    def from_edges(
        cls,
        left: ArrayLike,
        right: ArrayLike,
        features: ArrayLike,
        n_left: int | None = None,
        n_right: int | None = None,
        *,
        left_features: ArrayLike | None = None,
        right_features: ArrayLike | None = None,
    ) -> "BipartiteGraph":
        """Build a graph from a list of its edges.

        Memory and time grow with the edges, not with the pairs of nodes.

        Parameters
        ----------
        left, right : integer arrays of shape (n_edges,)
            The nodes that each edge joins, counted from 0.  No pair may occur twice.
        features : array of shape (n_edges, d)
            A feature vector per edge.
        n_left, n_right : int, optional
            Number of nodes on each side; default: one more than the largest that occurs.
        left_features, right_features : arrays of shape (n_left, p), (n_right, q), optional
            Features of the nodes, from which the scores of staying unmatched are learned.

        Returns
        -------
        BipartiteGraph
            What it is asked for on edges comes back in the order of this list.

        Examples
        --------
        >>> graph = BipartiteGraph.from_edges([0, 1, 1], [2, 0, 2], [[1.0], [2.0], [3.0]])
        >>> graph.n_left, graph.n_right, graph.n_edges
        (2, 3, 3)
        """
        table = as_reals(features, "features", "(n_edges, d)")
        if table.ndim != 2 or table.shape[1] == 0:
            raise FeatureShapeError(
                "features must have shape (n_edges, d), with at least one feature; "
                f"got shape {table.shape}."
            )
        n_nodes = np.shape(left), np.shape(right)
        if n_nodes[0] != (len(table),) or n_nodes[1] != (len(table),):
            raise EdgeListError(
                "left, right and features must have one entry per edge; got shapes "
                f"{n_nodes[0]}, {n_nodes[1]} and {table.shape}."
            )
        # The checks of edges are those of scores on edges.
        blank = np.broadcast_to(0.0, len(table))
        edges = EdgeScores(left, right, blank, n_left, n_right)  # pyright: ignore
        shape = edges.n_left or 0, edges.n_right or 0
        table = settled(table)
        check_finite(table, "features", lambda e: (int(edges.left[e]), int(edges.right[e])))
        places = np.arange(len(table))
        if not are_sorted(edges.left, edges.right):
            places = order_edges(edges.left, edges.right, shape)
            check_distinct(edges.left[places], edges.right[places], "edges")
            table = table[places]
        graph = cls.__new__(cls)
        graph._fill(
            edges.left[places],
            edges.right[places],
            table,
            Form("edges", shape, len(table), places),
            left_features,
            right_features,
        )
        return graph

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
        left, right : arrays of shape (n, p) and (k, p)
            Node features of the two sides.
        edge : callable
            Takes broadcast left (n, 1, p) and right (1, k, p) features and returns the edge
            features (n, k, d).
        allowed : array of shape (n, k), optional
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
            as_reals(side, name, "(n, p)").astype(np.float64)
            for side, name in ((left, "left"), (right, "right"))
        ]
        if any(side.ndim != 2 for side in ends) or ends[0].shape[1] != ends[1].shape[1]:
            raise FeatureShapeError(
                "left and right must be node features (n, p) and (k, p), as many of either "
                f"side; got shapes {ends[0].shape} and {ends[1].shape}."
            )
        return cls(edge(ends[0][:, None, :], ends[1][None, :, :]), allowed)

    @classmethod
    def split(cls, structure: Structure, features: FloatArray) -> list["BipartiteGraph"]:
        """Return the graphs of a structure, which is trusted, as graphs of their own.

        `features` (n_edges, d) are finite and in the order of its edges; the graphs share
        them.
        """
        features.flags.writeable = False
        right = (
            structure.right
            - structure.right_starts[structure.graph_of_right][structure.right]
        )
        first = structure.edge_starts
        # The starts of graph g, one more than it has left nodes, end before those of g + 1.
        owner = np.repeat(np.arange(structure.n_graphs), np.diff(structure.left_starts) + 1)
        rows = np.arange(len(owner)) - owner
        starts = structure.starts[rows] - first[owner]
        sides = [np.diff(ends) for ends in (structure.left_starts, structure.right_starts)]
        spans = [np.stack([0 * sizes, sizes], axis=1) for sizes in sides]
        places = np.arange(np.diff(first).max(initial=0))
        edges, nodes = first.tolist(), structure.left_starts.tolist()
        graphs = []
        for g, shape in enumerate(zip(sides[0].tolist(), sides[1].tolist(), strict=True)):
            own = slice(edges[g], edges[g + 1])
            n_edges = own.stop - own.start
            graph = cls.__new__(cls)
            graph.structure = Structure(
                starts[nodes[g] + g : nodes[g + 1] + g + 1],
                right[own],
                spans[0][g],
                spans[1][g],
            )
            graph.edge_features = features[own]
            graph.left_features = np.zeros((shape[0], 0))
            graph.right_features = np.zeros((shape[1], 0))
            graph._form = Form("edges", shape, n_edges, places[:n_edges])
            graphs.append(graph)
        return graphs

    def _fill(
        self,
        left: IntArray,
        right: IntArray,
        features: FloatArray,
        form: Form,
        left_features: ArrayLike | None,
        right_features: ArrayLike | None,
    ) -> None:
        n, k = form.shape
        starts = np.concatenate([[0], np.cumsum(np.bincount(left, minlength=n))])
        self.structure = Structure(
            starts.astype(np.int64),
            np.ascontiguousarray(right, dtype=np.int64),
            np.array([0, n], dtype=np.int64),
            np.array([0, k], dtype=np.int64),
        )
        features.flags.writeable = False
        self.edge_features = features
        self.left_features = as_node_features(left_features, "left_features", n)
        self.right_features = as_node_features(right_features, "right_features", k)
        self._form = form

    @property
    def n_left(self) -> int:
        """Nodes on the left side."""
        return self._form.shape[0]

    @property
    def n_right(self) -> int:
        """Nodes on the right side."""
        return self._form.shape[1]

    @property
    def size(self) -> int:
        """Nodes on the larger side."""
        return max(self._form.shape)

    @property
    def n_edges(self) -> int:
        """Number of allowed edges."""
        return self.structure.n_edges

    @property
    def n_features(self) -> int:
        """Length of an edge's feature vector, d."""
        return self.edge_features.shape[1]

    @property
    def is_dense(self) -> bool:
        """Whether the graph was given as an array."""
        return self._form.kind == "dense"

    @property
    def is_square(self) -> bool:
        """Whether the graph was given as an array with as many rows as columns."""
        return self.is_dense and self.n_left == self.n_right

    @property
    def features(self) -> FloatArray:
        """The features of edges as an array (n, k, d); 0 on forbidden edges."""
        shape = *self._form.shape, self.n_features
        if self.n_edges == self.n_left * self.n_right:
            return self.edge_features.reshape(shape)
        n_bytes = 8.0 * float(np.prod(shape, dtype=float))
        with enough_memory(f"an array of {shape} features", n_bytes):
            features = np.zeros(shape)
        features[self.structure.left, self.structure.right] = self.edge_features
        features.flags.writeable = False
        return features

    @property
    def allowed(self) -> BoolArray | None:
        """Which edges are allowed, (n, k); None if all are."""
        n, k = self._form.shape
        if self.n_edges == n * k:
            return None
        with enough_memory(f"a mask of {n} x {k} edges", float(n) * k):
            allowed = np.zeros((n, k), dtype=bool)
        allowed[self.structure.left, self.structure.right] = True
        allowed.flags.writeable = False
        return allowed

    def scores(self, coef: FloatArray) -> FloatArray | EdgeScores:
        """Return the edge scores under one weight per feature.

        Parameters
        ----------
        coef : ndarray of shape (d,)
            One weight per feature.

        Returns
        -------
        ndarray of shape (n, k) or EdgeScores
            With ``-inf`` on forbidden edges; `EdgeScores` for a graph made from edges.
        """
        return self.with_scores(self.edge_features @ coef)

    def with_scores(self, scores: FloatArray) -> FloatArray | EdgeScores:
        """Return scores (n_edges,) as `scores` does."""
        laid = self.lay(scores)
        if self.is_dense:
            if self.n_edges < laid.size:
                laid[~self.allowed] = -np.inf  # pyright: ignore[reportOptionalOperand]
            return laid
        return EdgeScores(
            self.lay(self.structure.left),
            self.lay(self.structure.right),
            laid,
            *self._form.shape,
        )

    def lay(self, values: np.ndarray) -> np.ndarray:
        """Return values on the edges (n_edges,) in the form in which the graph was given.

        That is an array (n, k), 0 on forbidden edges, or a list in the order of its edges.
        """
        return self._form.lay(values)

    def pick(self, values: np.ndarray) -> np.ndarray:
        """Return values on the edges (n_edges,), given in the form of the graph."""
        return values.reshape(-1)[self._form.places]

    def __repr__(self) -> str:
        n, k = self._form.shape
        edges = f"{self.n_edges} edge{'s' * (self.n_edges != 1)}"
        features = f"{self.n_features} feature{'s' * (self.n_features != 1)}"
        return f"BipartiteGraph({n} x {k}, {edges}, {features})"
