"""What is known about the true matching of a graph.

Every edge is known to be in the matching, known not to be, or open.  That says all there
is to say: a node whose edges are all known not to be in it is unmatched, and an edge that
is in it closes all others of its two nodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from permatch._types import BoolArray, IntArray
from permatch._validation import refuse_masked
from permatch.errors import ForbiddenEdgeError, InvalidMatchingError
from permatch.graphs import BipartiteGraph
from permatch.known import Known
from permatch.problems import Structure

#: In a matching: the left node has no partner.
UNMATCHED = -1
#: In a label: it is not known whether the left node has a partner, or which.
UNKNOWN = -2


@dataclass(frozen=True, eq=False)
class EdgeLabels:
    """What is known about every edge of a graph, in place of its matching.

    Parameters
    ----------
    values : integer array, shaped like the graph
        1 for pairs known to match, 0 for pairs known not to match, -1 for unknown ones:
        (n, k) for a graph made from an array, (n_edges,) for one made from edges.

    Examples
    --------
    Left node 0 is matched to 0 or 1; the pair (1, 0) is known not to match.

    >>> import permatch as pm
    >>> labels = pm.EdgeLabels([[-1, -1, 0], [0, -1, -1]])
    """

    values: IntArray

    def __post_init__(self) -> None:
        refuse_masked(self.values, "labels of edges", InvalidMatchingError)
        try:
            values = np.asarray(self.values)
        except ValueError as err:
            raise InvalidMatchingError(
                "labels of edges must be an array shaped like the graph; got rows of "
                "different lengths. Give all rows one entry per right node."
            ) from err
        if values.dtype.kind == "b" or values.size == 0:
            values = values.astype(np.int8)
        if values.dtype.kind not in "iu" or not np.isin(values, (-1, 0, 1)).all():
            raise InvalidMatchingError(
                "labels of edges must be 1 (match), 0 (no match) or -1 (unknown); got "
                f"dtype {values.dtype}, with values {values.reshape(-1)[:5].tolist()}."
            )
        object.__setattr__(self, "values", values.astype(np.int8))


@dataclass(frozen=True, eq=False)
class KnownEdges:
    """What is known about the edges of a checked graph.

    Attributes
    ----------
    structure : Structure
        Its edges.
    is_match : ndarray of shape (n_edges,)
        Edges in the matching.
    is_open : ndarray of shape (n_edges,)
        Edges about which nothing is known; all others are not in the matching.
    """

    structure: Structure
    is_match: BoolArray
    is_open: BoolArray

    @property
    def is_complete(self) -> bool:
        """Whether the whole matching is known."""
        return not self.is_open.any()

    @cached_property
    def matching(self) -> IntArray:
        """The right node of every left node; `UNMATCHED` or `UNKNOWN` if there is none."""
        structure = self.structure
        matching = np.full(structure.n_left, UNMATCHED, dtype=np.intp)
        matching[structure.left[self.is_open]] = UNKNOWN
        matching[structure.left[self.is_match]] = structure.right[self.is_match]
        return matching

    @property
    def has_partners(self) -> bool:
        """Whether of a left node it is known which partner it has, or that it has none."""
        return not len(self.matching) or bool((self.matching != UNKNOWN).any())

    @cached_property
    def largest_matching(self) -> IntArray:
        """A matching with the most pairs that agrees with all that is known, (n_left,)."""
        if self.is_complete:
            return self.matching
        structure = self.structure
        places = structure.left[self.is_open], structure.right[self.is_open]
        shape = structure.n_left, structure.n_right
        graph = csr_array((np.ones(len(places[0]), dtype=np.int8), places), shape=shape)
        found = maximum_bipartite_matching(graph, perm_type="column")
        return np.where(self.matching >= 0, self.matching, found)

    @property
    def n_most_links(self) -> int:
        """The number of its pairs."""
        return int((self.largest_matching >= 0).sum())

    @property
    def leaves_spare(self) -> bool:
        """Whether nodes stay unmatched beyond those left over on the larger side."""
        return self.n_most_links < min(self.structure.n_left, self.structure.n_right)


def check_labels(graphs: list[BipartiteGraph], matchings: Any) -> list[IntArray]:
    """Return one matching per graph, (n_left,) with -1 for unmatched, all known."""
    checked = check_known(graphs, matchings)
    for k, known in enumerate(checked):
        if not known.is_complete:
            node = int(np.argmax(known.matching == UNKNOWN))
            raise InvalidMatchingError(
                "a matching must say of every node whether it has a partner; that of "
                f"graph {k} does not say it of left node {node}."
            )
    return [known.matching for known in checked]


def check_known(graphs: list[BipartiteGraph], labels: Any) -> list[KnownEdges]:
    """Return what is known about the matching of every graph."""
    if not isinstance(labels, Sequence | np.ndarray) or isinstance(labels, str | bytes):
        raise InvalidMatchingError(
            f"matchings must be a sequence, one per graph; got {type(labels).__name__}."
        )
    if len(labels) != len(graphs):
        raise InvalidMatchingError(
            f"one matching per graph is required; got {len(graphs)} graphs and "
            f"{len(labels)} matchings."
        )
    return [
        _read(graph, label, k)
        for k, (graph, label) in enumerate(zip(graphs, labels, strict=True))
    ]


def require_known(labels: list[KnownEdges]) -> None:
    """Refuse labels that say nothing about any edge."""
    if all(known.is_open.all() for known in labels) and any(
        known.is_open.any() for known in labels
    ):
        raise InvalidMatchingError(
            "at least one pair or node must have a known label; nothing is known about "
            "any graph with weight. Label some pairs, as match or no match."
        )


def _read(graph: BipartiteGraph, label: Any, k: int) -> KnownEdges:
    if isinstance(label, EdgeLabels):
        return _from_edges(graph, label, k)
    if isinstance(label, Known):
        return _from_known(graph, label, k)
    return _from_matching(graph, label, k)


def _from_matching(graph: BipartiteGraph, label: Any, k: int) -> KnownEdges:
    refuse_masked(label, f"the matching of graph {k}", InvalidMatchingError)
    try:
        matching = np.asarray(label)
    except ValueError:
        matching = np.asarray(label, dtype=object)
    if matching.size == 0:
        matching = matching.astype(np.intp)  # NumPy takes an empty list for floats
    if matching.dtype.kind not in "iu" or matching.shape != (graph.n_left,):
        raise InvalidMatchingError(
            f"a matching must be an integer array with the right node of each of the "
            f"{graph.n_left} left nodes; that of graph {k} has dtype {matching.dtype} and "
            f"shape {matching.shape}."
        )
    matching = matching.astype(np.intp)
    is_wrong = (matching < UNKNOWN) | (matching >= graph.n_right)
    if is_wrong.any():
        node = int(np.argmax(is_wrong))
        raise InvalidMatchingError(
            f"a matching must hold right nodes 0 .. {graph.n_right - 1}, -1 for unmatched "
            f"or -2 for unknown; that of graph {k} has {matching[node]} for left node "
            f"{node}. Nodes are counted from 0."
        )
    structure = graph.structure
    left = np.nonzero(matching >= 0)[0]
    edges = structure.find(left, matching[left])
    if (edges < 0).any():
        node = int(left[np.argmin(edges)])
        raise ForbiddenEdgeError(
            f"a matching must use allowed edges; that of graph {k} uses the "
            f"forbidden edge ({node}, {matching[node]}). Allow it, or drop the graph."
        )
    is_match = np.zeros(structure.n_edges, dtype=bool)
    is_match[edges] = True
    return _close(structure, is_match, (matching == UNKNOWN)[structure.left], k)


def _from_edges(graph: BipartiteGraph, label: EdgeLabels, k: int) -> KnownEdges:
    laid = graph.lay(np.zeros(graph.n_edges))
    if label.values.shape != laid.shape:
        raise InvalidMatchingError(
            f"labels of edges must be shaped like the graph; graph {k} has "
            f"{'an array of' if graph.is_dense else 'a list of'} edges of shape "
            f"{laid.shape}, its labels have shape {label.values.shape}."
        )
    values = graph.pick(label.values)
    if np.count_nonzero(label.values == 1) > np.count_nonzero(values == 1):
        at = np.argwhere((label.values == 1) & ~_as_bool(graph.allowed, laid.shape))[0]
        raise ForbiddenEdgeError(
            f"a matching must use allowed edges; that of graph {k} uses the "
            f"forbidden edge ({at[0]}, {at[1]}). Allow it, or drop the graph."
        )
    return _close(graph.structure, values == 1, values == -1, k)


def _from_known(graph: BipartiteGraph, label: Known, k: int) -> KnownEdges:
    """Return what is known of the edges; all else is open."""
    structure = graph.structure
    apart = [i for i, _ in label.apart], [j for _, j in label.apart]
    for side, n_nodes, nodes in (
        ("left", graph.n_left, [*label.matched, *label.unmatched_left, *apart[0]]),
        (
            "right",
            graph.n_right,
            [*label.matched.values(), *label.unmatched_right, *apart[1]],
        ),
    ):
        if nodes and max(nodes) >= n_nodes:
            raise InvalidMatchingError(
                f"a label must name {side} nodes 0 .. {n_nodes - 1}; that of graph {k} "
                f"names {max(nodes)}. Nodes are counted from 0."
            )
    matching = np.full(graph.n_left, UNKNOWN)
    matching[list(label.unmatched_left)] = UNMATCHED
    matching[list(label.matched)] = list(label.matched.values())
    known = _from_matching(graph, matching, k)
    is_alone = np.zeros(graph.n_right, dtype=bool)
    is_alone[list(label.unmatched_right)] = True
    is_apart = is_alone[structure.right]
    if label.apart:
        edges = structure.find(*np.array(apart, dtype=np.int64))
        is_apart[edges[edges >= 0]] = True
    return KnownEdges(structure, known.is_match, known.is_open & ~is_apart)


def _as_bool(allowed: BoolArray | None, shape: tuple[int, ...]) -> BoolArray:
    return np.ones(shape, dtype=bool) if allowed is None else allowed


def _close(
    structure: Structure, is_match: BoolArray, is_open: BoolArray, k: int
) -> KnownEdges:
    """Close the edges of nodes whose partner is known; refuse two partners of a node."""
    is_open = is_open & ~is_match
    is_complete = not is_open.any()
    for side, ends, others, n_nodes in (
        ("left", structure.left, structure.right, structure.n_left),
        ("right", structure.right, structure.left, structure.n_right),
    ):
        partners = np.bincount(ends[is_match], minlength=n_nodes)
        if (partners > 1).any():
            node = int(np.argmax(partners > 1))
            first, second = others[is_match & (ends == node)][:2]
            other = "right" if side == "left" else "left"
            raise InvalidMatchingError(
                f"a node must have at most one partner; the label of graph {k} matches "
                f"{side} node {node} to {other} nodes {first} and {second}. Drop one."
            )
        if not is_complete:
            is_open &= partners[ends] == 0
    return KnownEdges(structure, is_match, is_open)
