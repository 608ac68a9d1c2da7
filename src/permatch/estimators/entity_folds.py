"""Folds of one graph: nodes that are linked stay together.

What is the same thing must not be trained on and tested on.  Nodes joined by a match form
an entity; entities are dealt out to folds.  Held out with a fold are the pairs within it;
the pairs between it and the others are in neither part.
"""

from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from sklearn.utils import check_random_state

from permatch._types import BoolArray, IntArray
from permatch.graphs import BipartiteGraph
from permatch.labels import KnownEdges

#: A graph and what is known about its matching.
Labelled = tuple[BipartiteGraph, KnownEdges]


def deal_entities(
    matches: tuple[IntArray, IntArray], shape: tuple[int, int], n_folds: int, seed: Any
) -> tuple[IntArray, IntArray]:
    """Return the fold of every left and of every right node.

    `matches` are the left and right nodes of pairs that match.  Entities with a match,
    left nodes without and right nodes without are dealt out evenly, each in random order.
    """
    n, k = shape
    joined = csr_array(
        (np.ones(len(matches[0])), (matches[0], matches[1] + n)), shape=(n + k, n + k)
    )
    n_entities, entity = connected_components(joined, directed=False)
    kind = np.zeros(n_entities, dtype=np.intp)
    kind[entity[:n]] += 1
    kind[entity[n:]] += 2  # 1, 2: a node by itself, left or right; 3: a match
    order = check_random_state(seed).permutation(n_entities)
    order = order[np.argsort(-kind[order], kind="stable")]
    fold = np.empty(n_entities, dtype=np.intp)
    fold[order] = np.arange(n_entities) % n_folds
    return fold[entity[:n]], fold[entity[n:]]


def split_by_entity(
    graph: BipartiteGraph, known: KnownEdges, n_folds: int, seed: Any
) -> list[tuple[Labelled, Labelled]]:
    """Return, for every fold, the graph without its entities and the graph of them."""
    structure = graph.structure
    matches = structure.left[known.is_match], structure.right[known.is_match]
    shape = graph.n_left, graph.n_right
    of_left, of_right = deal_entities(matches, shape, n_folds, seed)
    return [
        (
            _keep(graph, known, of_left != fold, of_right != fold),
            _keep(graph, known, of_left == fold, of_right == fold),
        )
        for fold in range(n_folds)
    ]


def _keep(
    graph: BipartiteGraph, known: KnownEdges, is_left: BoolArray, is_right: BoolArray
) -> Labelled:
    """Return the graph of some nodes, and what is known about its edges."""
    structure = graph.structure
    edges = is_left[structure.left] & is_right[structure.right]
    numbers = np.cumsum(is_left) - 1, np.cumsum(is_right) - 1
    part = BipartiteGraph.from_edges(
        numbers[0][structure.left[edges]],
        numbers[1][structure.right[edges]],
        graph.edge_features[edges],
        int(is_left.sum()),
        int(is_right.sum()),
        left_features=graph.left_features[is_left],
        right_features=graph.right_features[is_right],
    )
    return part, KnownEdges(part.structure, known.is_match[edges], known.is_open[edges])
