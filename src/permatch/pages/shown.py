"""What of a view has a place on a page: the uncertain part, within a number of bytes."""

import json
from dataclasses import dataclass

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch.pages.divided import CERTAIN
from permatch.pages.match_view import MatchView

#: Most bytes of the data of a page; the rest of it takes some 300 kB more.
MAX_BYTES = 4_000_000
# A byte as base64.
_PACKED = 4.0 / 3.0


@dataclass(frozen=True, eq=False)
class Shown:
    """Some pairs of a view, by components, the most uncertain first.

    Attributes
    ----------
    components : ndarray
        The components, by expected errors.
    edges, left, right : ndarray
        Pairs and nodes, those of the first component first.
    edge_starts, left_starts, right_starts : ndarray
        Where those of each component begin, and the end.
    rows, cols : ndarray
        The places in `left` and `right` of the nodes of every pair.
    n_certain : int
        Components left out because all of their decisions are certain.
    """

    components: IntArray
    edges: IntArray
    left: IntArray
    right: IntArray
    edge_starts: IntArray
    left_starts: IntArray
    right_starts: IntArray
    rows: IntArray
    cols: IntArray
    n_certain: int


def choose_shown(view: MatchView, max_bytes: int | None = None) -> Shown:
    """Return the pairs that a page shows.

    If all pairs do not fit, components without an uncertain decision are left out, then
    improbable pairs of the others, then the components that are the least uncertain; of a
    component too large for the page, the pairs that are the least certain stay.
    """
    limit = MAX_BYTES if max_bytes is None else max_bytes
    owner = view.component_of_edge
    is_chosen = np.ones(view.n_components, dtype=bool)
    if view.only is not None:
        is_chosen[:] = False
        is_chosen[view.only] = True
    rank = np.empty(view.n_components, dtype=np.int64)
    rank[np.argsort(-view.expected_errors, kind="stable")] = np.arange(view.n_components)
    edges = np.flatnonzero(is_chosen[owner])
    edges = edges[np.argsort(rank[owner[edges]], kind="stable")]
    n_certain = 0
    sizes = _Sizes.of(view)
    if sizes.total(edges)[-1:].sum() > limit:
        worst = np.zeros(view.n_components)
        np.maximum.at(worst, owner, np.minimum(view.chances, 1.0 - view.chances))
        is_open = worst >= CERTAIN
        n_certain = int((is_chosen & ~is_open).sum())
        is_kept = is_open[owner] & ((view.chances >= CERTAIN) | view.is_link)
        edges = edges[is_kept[edges]]
        order = np.lexsort((-view.risks[edges], rank[owner[edges]]))
        edges = edges[order]
        n_kept = int(np.searchsorted(sizes.total(edges), limit, side="right"))
        edges = edges[: max(n_kept, 1)]
        edges = edges[np.lexsort((edges, rank[owner[edges]]))]
    return _arrange(view, edges, n_certain)


@dataclass(frozen=True, eq=False)
class _Sizes:
    """Bytes of a pair, of the nodes and of a component on the page."""

    view: MatchView
    edge: float
    left: FloatArray
    right: FloatArray

    @classmethod
    def of(cls, view: MatchView) -> "_Sizes":
        extra = [view.low, view.high, view.pair_chances]
        n_of_evidence = len(view.evidence.names) * (1 + (view.evidence.explain is not None))
        numbers = 4 + n_of_evidence + sum(one is not None for one in extra)
        edge = _PACKED * (4 * numbers + 1 + (view.labels is not None))
        # Quotes, comma and space; signs that are escaped take six bytes.
        left, right = (
            np.array([_length(name) for name in names], dtype=float) + 2 + _PACKED * 8
            for names in (view.left, view.right)
        )
        return cls(view, edge, left, right)

    def total(self, edges: IntArray) -> FloatArray:
        """Return the bytes that the first pairs take, with their nodes and components."""
        structure, costs = self.view.structure, np.full(len(edges), self.edge)
        for ends, sizes in ((structure.left, self.left), (structure.right, self.right)):
            nodes, first = np.unique(ends[edges], return_index=True)
            costs[first] += sizes[nodes]
        _, first = np.unique(self.view.component_of_edge[edges], return_index=True)
        costs[first] += _PACKED * 36
        return np.cumsum(costs)


def _length(name: str) -> int:
    return len(json.dumps(name)) + 5 * sum(map(name.count, "<>&"))


def _arrange(view: MatchView, edges: IntArray, n_certain: int) -> Shown:
    """Give numbers to the components, nodes and pairs that are shown."""
    structure, owner = view.structure, view.component_of_edge
    own = owner[edges]
    is_first = np.append(True, own[1:] != own[:-1]) if len(own) else np.zeros(0, bool)
    components = own[is_first]
    place = np.full(view.n_components, -1)
    place[components] = np.arange(len(components))
    found = []
    for ends, owners in (
        (structure.left, structure.graph_of_left),
        (structure.right, structure.graph_of_right),
    ):
        nodes = np.unique(ends[edges])
        nodes = nodes[np.argsort(place[owners[nodes]], kind="stable")]
        number = np.full(len(owners), -1)
        number[nodes] = np.arange(len(nodes))
        starts = np.searchsorted(place[owners[nodes]], np.arange(len(components) + 1))
        found.append((nodes, starts, number[ends[edges]]))
    (left, left_starts, rows), (right, right_starts, cols) = found
    return Shown(
        components,
        edges,
        left,
        right,
        np.searchsorted(place[own], np.arange(len(components) + 1)),
        left_starts,
        right_starts,
        rows,
        cols,
        n_certain,
    )
