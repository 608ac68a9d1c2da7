"""Large components in parts: pairs that hardly count hold many of them together."""

from dataclasses import dataclass, replace

import numpy as np

from permatch._types import BoolArray, FloatArray, IntArray
from permatch.pages.match_view import NO_LINK, MatchView

#: Components with more nodes are divided.
LARGE = 60
#: Pairs less probable than this hold no part together.
CERTAIN = 1e-3


@dataclass(frozen=True, eq=False)
class Divided:
    """A view whose large components are divided into parts.

    Attributes
    ----------
    view : MatchView
        With one graph per part, or per component that is not divided.
    sizes : ndarray of shape (n_components,)
        Nodes of the component that a part belongs to; 0 for whole components.
    n_pairs, n_nodes : int
        Pairs left out, and nodes that have no other.
    """

    view: MatchView
    sizes: IntArray
    n_pairs: int = 0
    n_nodes: int = 0


def divide(view: MatchView) -> Divided:
    """Leave out improbable pairs of large components, which falls them apart."""
    structure = view.structure
    n_nodes = np.diff(structure.left_starts) + np.diff(structure.right_starts)
    is_kept = (n_nodes <= LARGE)[view.component_of_edge] | _counts(view)
    if is_kept.all():
        return Divided(view, np.zeros(view.n_components, dtype=np.int64))
    problem = view.problem.kept(is_kept)
    part = problem.select(np.arange(len(problem.structure.components)))
    edges = np.flatnonzero(is_kept)[part.edges]
    old = problem.structure.graph_of_component
    left_out = np.bincount(view.component_of_edge[~is_kept], minlength=view.n_components)
    is_part = (left_out > 0)[old]
    logs = view.log_partitions
    if logs is not None:
        is_whole = np.bincount(old, minlength=view.n_components)[old] == 1
        logs = np.where(is_whole | ~is_part, logs[old], np.nan)

    def of(values: FloatArray | None) -> FloatArray | None:
        return None if values is None else values[edges]

    parts = replace(
        view,
        problem=part.problem,
        left=[view.left[k] for k in part.left.tolist()],
        right=[view.right[k] for k in part.right.tolist()],
        graphs=[view.graphs[c] for c in old.tolist()] if view.graphs else [],
        chances=view.chances[edges],
        alone_left=view.alone_left[part.left],
        alone_right=view.alone_right[part.right],
        decisions=view.decisions[edges],
        is_exact=view.is_exact[old],
        evidence=view.evidence.take(edges),
        log_partitions=logs,
        low=of(view.low),
        high=of(view.high),
        pair_chances=of(view.pair_chances),
        labels=None if view.labels is None else view.labels[edges],
        only=None if view.only is None else np.flatnonzero(np.isin(old, view.only)),
    )
    n_left, n_right = structure.n_left, structure.n_right
    return Divided(
        parts,
        np.where(is_part, n_nodes[old], 0),
        int((~is_kept).sum()),
        n_left + n_right - len(part.left) - len(part.right),
    )


def _counts(view: MatchView) -> BoolArray:
    """Return which pairs count: links, probable ones, and all of a node without any.

    A node that should have a partner may have very many, all of them improbable.
    """
    structure = view.structure
    counts = (view.chances >= CERTAIN) | (view.decisions != NO_LINK)
    if view.labels is not None:
        counts |= view.labels == 1
    for ends, alone in (
        (structure.left, view.alone_left),
        (structure.right, view.alone_right),
    ):
        has_none = np.bincount(ends[counts], minlength=len(alone)) == 0
        counts |= (has_none & (alone < 0.5))[ends]
    return counts
