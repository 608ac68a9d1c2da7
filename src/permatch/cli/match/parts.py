"""The part of a graph that a page shows: components, which are independent of the rest."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch.cli.shared.steps import refuse_id

if TYPE_CHECKING:
    from permatch.datasets import EdgeTable
    from permatch.estimators import BaseMatcher
    from permatch.graphs import BipartiteGraph

#: Nodes a side shown of a graph that is too large for a page.
N_SHOWN = 200


@dataclass(frozen=True, eq=False)
class Part:
    """A graph, or some of its components, with names and labels."""

    graph: "BipartiteGraph"
    left: list[str]
    right: list[str]
    truth: IntArray | None
    note: str = ""


def part_to_show(
    model: "BaseMatcher", table: "EdgeTable", place: int, node: str | None, limit: int
) -> Part:
    """Return the component of a node, or a whole graph, or its most uncertain components.

    The last is for graphs with more than `limit` nodes on a side.
    """
    graph = table.graphs[place]
    left, right = (list(map(str, ids[place])) for ids in (table.left_ids, table.right_ids))
    truth = _truth(table, place)
    if node is None and graph.size <= limit:
        return Part(graph, left, right, truth)
    components = graph.structure.components
    if node is not None:
        chosen = _components_of(node, left, right, components)
        words = f"the {_count(len(chosen), 'component')} with {node}"
    else:
        (chances,) = model.predict_marginals([graph])
        chosen = _most_uncertain(graph.pick(chances), graph, components)
        words = f"the {_count(len(chosen), 'component')} that are least certain"
    keeps = [np.isin(ends, chosen) for ends in (components.of_left, components.of_right)]
    note = (
        f" Shown: {words}, of a graph with {graph.n_left} left and {graph.n_right} right "
        "nodes; components are independent of each other."
    )
    return _cut(graph, keeps, left, right, truth, note)


def _truth(table: "EdgeTable", place: int) -> IntArray | None:
    """Return the labelled matching of a graph, None if it is not known."""
    if table.matchings is None:
        return None
    from permatch.labels import check_known

    (known,) = check_known([table.graphs[place]], [table.matchings[place]])
    return known.matching if known.is_complete else None


def _components_of(node: str, left: list[str], right: list[str], components: Any) -> Any:
    """Return the components of the nodes of this name, on either side."""
    found = [components.of_left[k] for k, name in enumerate(left) if name == node]
    found += [components.of_right[k] for k, name in enumerate(right) if name == node]
    if not found:
        refuse_id("--node", node, sorted({*left, *right}), "the graph has no node")
    return np.unique(found)


def _most_uncertain(
    chances: FloatArray, graph: "BipartiteGraph", components: Any
) -> IntArray:
    """Return the components with the most uncertain edges, as many as may be shown."""
    p = np.clip(chances, 1e-300, 1.0)
    doubt = np.bincount(
        components.of_left[graph.structure.left], -p * np.log(p), len(components)
    )
    order = np.argsort(-doubt, kind="stable")
    sizes = np.maximum(*components.sizes)[order]
    n_shown = max(1, int(np.searchsorted(np.cumsum(sizes), N_SHOWN, side="right")))
    return np.sort(order[:n_shown])


def _cut(
    graph: "BipartiteGraph", keeps: list, left: list[str], right: list[str],
    truth: IntArray | None, note: str,
) -> Part:  # fmt: skip
    """Return the part of a graph with some of its nodes."""
    from permatch.graphs import BipartiteGraph

    structure = graph.structure
    numbers = [np.cumsum(keep) - 1 for keep in keeps]
    edges = keeps[0][structure.left]
    part = BipartiteGraph.from_edges(
        numbers[0][structure.left[edges]],
        numbers[1][structure.right[edges]],
        graph.edge_features[edges],
        int(keeps[0].sum()),
        int(keeps[1].sum()),
    )
    if truth is not None:
        truth = truth[keeps[0]]
        truth = np.where(truth < 0, -1, numbers[1][truth])
    kept = [
        [name for name, is_kept in zip(names, keep, strict=True) if is_kept]
        for names, keep in zip((left, right), keeps, strict=True)
    ]
    return Part(part, kept[0], kept[1], truth, note)


def _count(number: int, noun: str) -> str:
    return noun if number == 1 else f"{number} {noun}s"
