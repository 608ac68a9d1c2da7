"""What an engine solves: edges with scores, and a score per node for staying unmatched.

    p(y) = exp( sum_{(i, j) in y} s_ij + sum_{i unmatched} u_i + sum_{j unmatched} v_j
                - log_partition ),

over all sets y of edges in which no node has two partners, or more than its capacity.
``u_i = -inf`` means that node i must have one.  A `Problem` holds any number of graphs side
by side: no edge joins two of them, so an engine solves all their components at once,
wherever they come from.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from permatch._types import BoolArray, FloatArray, IntArray
from permatch.kernels.components import group_by_label, label_components


@dataclass(frozen=True, eq=False)
class Components:
    """The connected components with at least one edge; isolated nodes are in none.

    Attributes
    ----------
    of_left, of_right : ndarray of shape (n_left,), (n_right,)
        The component of every node, -1 if isolated.
    left_nodes, left_starts : ndarray
        The left nodes of component c are ``left_nodes[left_starts[c]:left_starts[c + 1]]``,
        ascending.
    right_nodes, right_starts : ndarray
        Likewise.
    n_edges : ndarray of shape (n,)
        Edges of every component.
    """

    of_left: IntArray
    of_right: IntArray
    left_nodes: IntArray
    left_starts: IntArray
    right_nodes: IntArray
    right_starts: IntArray
    n_edges: IntArray

    def __len__(self) -> int:
        return len(self.n_edges)

    @cached_property
    def sizes(self) -> tuple[IntArray, IntArray]:
        """Left nodes and right nodes of every component."""
        return np.diff(self.left_starts), np.diff(self.right_starts)


@dataclass(frozen=True, eq=False)
class Structure:
    """Who may be matched to whom, in any number of graphs side by side.

    Attributes
    ----------
    starts : ndarray of shape (n_left + 1,), int64
        The edges of left node i are ``starts[i]:starts[i + 1]``.
    right : ndarray of shape (n_edges,), int64
        The right node of every edge, ascending for each left node.
    left_starts, right_starts : ndarray of shape (n_graphs + 1,), int64
        Graph g has the left nodes ``left_starts[g]:left_starts[g + 1]`` and the right nodes
        ``right_starts[g]:right_starts[g + 1]``.
    """

    starts: IntArray
    right: IntArray
    left_starts: IntArray
    right_starts: IntArray

    @property
    def n_graphs(self) -> int:
        """Number of graphs."""
        return len(self.left_starts) - 1

    @property
    def n_left(self) -> int:
        """Left nodes of all graphs."""
        return int(self.left_starts[-1])

    @property
    def n_right(self) -> int:
        """Right nodes of all graphs."""
        return int(self.right_starts[-1])

    @property
    def n_edges(self) -> int:
        """Edges of all graphs."""
        return len(self.right)

    @cached_property
    def left(self) -> IntArray:
        """The left node of every edge."""
        return np.repeat(np.arange(self.n_left), np.diff(self.starts))

    @cached_property
    def by_right(self) -> tuple[IntArray, IntArray]:
        """``(starts, edges)``: the edges of right node j are ``edges[starts[j]:...]``."""
        return group_by_label(self.right, self.n_right)

    @cached_property
    def graph_of_left(self) -> IntArray:
        """The graph of every left node."""
        return np.repeat(np.arange(self.n_graphs), np.diff(self.left_starts))

    @cached_property
    def graph_of_right(self) -> IntArray:
        """The graph of every right node."""
        return np.repeat(np.arange(self.n_graphs), np.diff(self.right_starts))

    @cached_property
    def graph_of_component(self) -> IntArray:
        """The graph of every component."""
        found = self.components
        return self.graph_of_left[found.left_nodes[found.left_starts[:-1]]]

    @cached_property
    def largest(self) -> int:
        """The most nodes on a side of a graph."""
        sizes = np.maximum(np.diff(self.left_starts), np.diff(self.right_starts))
        return int(sizes.max(initial=0))

    @cached_property
    def all_edges(self) -> IntArray:
        """The numbers of all edges."""
        return np.arange(self.n_edges)

    @property
    def edge_starts(self) -> IntArray:
        """The edges of graph g are ``edge_starts[g]:edge_starts[g + 1]``."""
        return self.starts[self.left_starts]

    @cached_property
    def components(self) -> Components:
        """The connected components."""
        of_left = np.empty(self.n_left, dtype=np.int64)
        of_right = np.empty(self.n_right, dtype=np.int64)
        n_found = label_components(self.starts, self.right, of_left, of_right)
        left_starts, left_nodes = group_by_label(of_left, n_found)
        right_starts, right_nodes = group_by_label(of_right, n_found)
        degrees = np.diff(self.starts)
        linked = of_left >= 0
        n_edges = np.bincount(of_left[linked], degrees[linked], n_found).astype(np.int64)
        return Components(
            of_left, of_right, left_nodes, left_starts, right_nodes, right_starts, n_edges
        )

    def find(self, left: IntArray, right: IntArray) -> IntArray:
        """Return the edges that join some pairs of nodes; -1 where there is none."""
        wanted = left * self.n_right + right
        if not self.n_edges:
            return np.full(wanted.shape, -1)
        if self.n_edges == self.n_left * self.n_right:
            return wanted
        places = np.minimum(np.searchsorted(self._keys, wanted), self.n_edges - 1)
        return np.where(self._keys[places] == wanted, places, -1)

    @cached_property
    def _keys(self) -> IntArray:
        """The places of the edges in a table of all pairs, ascending."""
        return self.left * self.n_right + self.right

    def kept(self, is_kept: BoolArray) -> "Structure":
        """Return the structure without some of its edges, (n_edges,)."""
        counts = np.concatenate([[0], np.cumsum(is_kept)])
        right = np.ascontiguousarray(self.right[is_kept])
        return replace(self, starts=counts[self.starts], right=right)

    def transposed(self) -> "Structure":
        """Return the structure with the sides exchanged; its edges are in another order."""
        starts, edges = self.by_right
        return Structure(starts, self.left[edges], self.right_starts, self.left_starts)


@lru_cache(maxsize=32)
def complete_structure(n_left: int, n_right: int) -> Structure:
    """Return the structure of one graph with all edges, and all that is known of it.

    It is kept for the next graph of this shape: for small ones.
    """
    return Structure(
        np.arange(n_left + 1) * n_right,
        np.tile(np.arange(n_right), n_left),
        np.array([0, n_left]),
        np.array([0, n_right]),
    )


def side_by_side(structures: Sequence[Structure]) -> Structure:
    """Return one structure with the graphs of several; one alone is returned as it is."""
    if len(structures) == 1:
        return structures[0]
    n_right = np.cumsum([0, *(one.n_right for one in structures)])
    return Structure(
        _joined_starts([one.starts for one in structures]),
        np.concatenate(
            [
                np.zeros(0, dtype=np.int64),
                *(
                    one.right + shift
                    for one, shift in zip(structures, n_right, strict=False)
                ),
            ]
        ),
        _joined_starts([one.left_starts for one in structures]),
        _joined_starts([one.right_starts for one in structures]),
    )


def _joined_starts(several: Sequence[IntArray]) -> IntArray:
    """Return starts that each begin at 0 as those of one array."""
    steps = [np.zeros(1, dtype=np.int64), *(np.diff(starts) for starts in several)]
    return np.cumsum(np.concatenate(steps))


@dataclass(frozen=True, eq=False)
class Problem:
    """Scores on a structure: checked input of every engine.

    Attributes
    ----------
    structure : Structure
        The allowed edges.
    scores : ndarray of shape (n_edges,)
        Finite.
    unmatched_left, unmatched_right : ndarray of shape (n_left,), (n_right,)
        Score of staying unmatched; ``-inf`` for nodes that must be matched.
    capacity_left, capacity_right : ndarray of shape (n_left,), (n_right,), or None
        Links that each node may have; None where no node of the side may have two.

    Examples
    --------
    >>> import numpy as np
    >>> from permatch.scores import EdgeScores, check_problem
    >>> edges = EdgeScores([0, 0, 1], [0, 1, 1], [1.0, 2.0, 3.0])
    >>> problem, _ = check_problem(edges, 0.0, 0.0)
    >>> problem.structure.n_left, problem.structure.n_edges, problem.is_perfect
    (2, 3, False)
    """

    structure: Structure
    scores: FloatArray
    unmatched_left: FloatArray
    unmatched_right: FloatArray
    capacity_left: IntArray | None = None
    capacity_right: IntArray | None = None

    @property
    def has_capacities(self) -> bool:
        """Whether a node may have more than one link."""
        return self.capacity_left is not None or self.capacity_right is not None

    @property
    def is_perfect(self) -> bool:
        """Whether every node must be matched."""
        return bool(
            (self.unmatched_left == -np.inf).all()
            and (self.unmatched_right == -np.inf).all()
        )

    @property
    def is_dense_square(self) -> bool:
        """Whether it is one graph of m x m nodes with all edges, all to be matched."""
        structure = self.structure
        n, k = structure.n_left, structure.n_right
        is_dense = structure.n_graphs == 1 and n == k and structure.n_edges == n * k
        return is_dense and self.is_perfect and not self.has_capacities

    @property
    def is_partial(self) -> bool:
        """Whether every node may stay unmatched."""
        return bool(
            (self.unmatched_left > -np.inf).all() and (self.unmatched_right > -np.inf).all()
        )

    def transposed(self) -> "Problem":
        """Return the problem with the sides exchanged; its edges are in another order."""
        _, edges = self.structure.by_right
        return Problem(
            self.structure.transposed(),
            np.ascontiguousarray(self.scores[edges]),
            self.unmatched_right,
            self.unmatched_left,
            self.capacity_right,
            self.capacity_left,
        )

    def kept(self, is_kept: BoolArray) -> "Problem":
        """Return the problem without some of its edges, (n_edges,)."""
        return replace(
            self,
            structure=self.structure.kept(is_kept),
            scores=np.ascontiguousarray(self.scores[is_kept]),
        )

    def graph(self, g: int) -> "Problem":
        """Return one of the graphs as a problem of its own."""
        structure = self.structure
        nodes = slice(*structure.left_starts[g : g + 2])
        others = slice(*structure.right_starts[g : g + 2])
        edges = slice(*structure.edge_starts[g : g + 2])
        own = Structure(
            structure.starts[nodes.start : nodes.stop + 1] - edges.start,
            structure.right[edges] - others.start,
            np.array([0, nodes.stop - nodes.start]),
            np.array([0, others.stop - others.start]),
        )
        return Problem(
            own,
            self.scores[edges],
            self.unmatched_left[nodes],
            self.unmatched_right[others],
            above_one(self.capacity_left, nodes),
            above_one(self.capacity_right, others),
        )

    def select(self, components: IntArray) -> "Selection":
        """Return some components as a problem with a graph for each."""
        found = self.structure.components
        left = _ranges(found.left_starts, components, found.left_nodes)
        right = _ranges(found.right_starts, components, found.right_nodes)
        n_left, n_right = (sizes[components] for sizes in found.sizes)
        starts = self.structure.starts
        edges = _ranges(starts, left, None)
        number = np.empty(self.structure.n_right, dtype=np.int64)
        number[right] = np.arange(len(right))
        own = Structure(
            np.concatenate([[0], np.cumsum(np.diff(starts)[left])]),
            number[self.structure.right[edges]],
            np.concatenate([[0], np.cumsum(n_left)]),
            np.concatenate([[0], np.cumsum(n_right)]),
        )
        problem = Problem(
            own,
            np.ascontiguousarray(self.scores[edges]),
            np.ascontiguousarray(self.unmatched_left[left]),
            np.ascontiguousarray(self.unmatched_right[right]),
            above_one(self.capacity_left, left),
            above_one(self.capacity_right, right),
        )
        return Selection(problem, components, left, right, edges)

    def dense(self) -> FloatArray:
        """Return the scores of a single graph as an array; ``-inf`` where no edge is."""
        structure = self.structure
        scores = np.full((structure.n_left, structure.n_right), -np.inf)
        scores[structure.left, structure.right] = self.scores
        return scores


@dataclass(frozen=True, eq=False)
class Selection:
    """Some components of a problem.

    Attributes
    ----------
    problem : Problem
        With a graph for each of the components.
    components : ndarray
        Their numbers.
    left, right, edges : ndarray
        The left nodes, right nodes and edges of the whole problem that they consist of.
    """

    problem: Problem
    components: IntArray
    left: IntArray
    right: IntArray
    edges: IntArray


def above_one(
    capacities: IntArray | None, nodes: IntArray | slice = slice(None)
) -> IntArray | None:
    """Return the capacities of some nodes; None if each may have one link only."""
    if capacities is None:
        return None
    own = capacities[nodes]
    return own if (own > 1).any() else None


def _ranges(starts: IntArray, chosen: IntArray, values: IntArray | None) -> IntArray:
    """Return ``values[starts[c]:starts[c + 1]]`` for all chosen c, one after the other."""
    counts = (starts[1:] - starts[:-1])[chosen]
    total = int(counts.sum())
    shifts = np.repeat(starts[:-1][chosen] - np.cumsum(counts) + counts, counts)
    places = shifts + np.arange(total)
    return places if values is None else values[places]
