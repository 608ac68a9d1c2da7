"""From walks along paths to intervals of every probability and of the log-partition."""

from dataclasses import dataclass

import numpy as np

from permatch._types import BoolArray, FloatArray, IntArray
from permatch.inference.path_walks import ROUNDING, TINY, Plan, Walks
from permatch.problems import Problem

Ends = tuple[FloatArray, FloatArray]


@dataclass(frozen=True, eq=False)
class PathBounds:
    """Intervals and estimates on the edges and nodes of a problem."""

    edges: Ends
    left: Ends
    right: Ends
    marginals: FloatArray
    unmatched_left: FloatArray
    unmatched_right: FloatArray

    def widths(self, problem: Problem) -> tuple[FloatArray, FloatArray]:
        """Return the widest interval of each left and right node and its edges."""
        structure = problem.structure
        right_starts, right_edges = structure.by_right
        widths = self.edges[1] - self.edges[0]
        return (
            _largest(self.left[1] - self.left[0], widths, structure.starts),
            _largest(self.right[1] - self.right[0], widths[right_edges], right_starts),
        )


def _largest(own: FloatArray, values: FloatArray, starts: IntArray) -> FloatArray:
    """Return the larger of a node's own value and those of its edges, which are sorted."""
    linked = np.nonzero(np.diff(starts))[0]
    if len(linked):
        own[linked] = np.maximum(own[linked], np.maximum.reduceat(values, starts[linked]))
    return own


def collect(problem: Problem, walks: Walks) -> PathBounds:
    """Put the walks from some nodes together.

    Edges and nodes that no walk has reached have the interval [0, 1].
    """
    structure, plan = problem.structure, Plan.build(problem.structure)
    is_root = np.zeros(len(plan.starts) - 1, dtype=bool)
    is_root[walks.roots] = True
    low, high = np.zeros(structure.n_edges), np.ones(structure.n_edges)
    points = np.full(structure.n_edges, np.nan)
    sides = (
        (plan.left, plan.from_left, structure.left),
        (plan.right, plan.from_right, structure.right),
    )
    is_walked = [is_root[places] for places, _, _ in sides]
    for (places, links, nodes), walked in zip(sides, is_walked, strict=True):
        if walked.any():
            margins = walks.margins[places[nodes]]
            own, mine = walks.shares[links], walked[nodes]
            one, other = _widened(own[:, 0], own[:, 1], margins)
            np.maximum(low, one, out=low, where=mine)
            np.minimum(high, other, out=high, where=mine)
            # Rows sum to one by the estimates of their own walks.
            np.copyto(points, own[:, 2], where=mine & np.isnan(points))
    marginals = np.clip(np.where(np.isnan(points), low, points), low, high)
    (left, unmatched_left), (right, unmatched_right) = (
        _nodes(walks, places, nodes, walked, (low, high), marginals)
        for (places, _, nodes), walked in zip(sides, is_walked, strict=True)
    )
    return PathBounds((low, high), left, right, marginals, unmatched_left, unmatched_right)


def _nodes(
    walks: Walks,
    places: IntArray,
    nodes: IntArray,
    is_walked: BoolArray,
    edges: Ends,
    marginals: FloatArray,
) -> tuple[Ends, FloatArray]:
    """Bound the nodes of a side by their edges and, if walked from, by their walks."""
    n_nodes = len(places)
    sums = [np.bincount(nodes, values, n_nodes) for values in (*edges, marginals)]
    degree = int(np.bincount(nodes, minlength=n_nodes).max(initial=0))
    slack = 2.0 * ROUNDING * (degree + 4)
    low: FloatArray = np.maximum(1.0 - sums[1] * (1.0 + slack) - slack, 0.0)
    high: FloatArray = np.minimum(1.0 - sums[0] * (1.0 - slack) + slack, 1.0)
    point = np.asarray(1.0 - sums[2], dtype=np.float64)
    if is_walked.any():
        free = np.exp(-walks.totals[places])
        one, other = _widened(free[:, 1], free[:, 0], walks.margins[places])
        np.maximum(low, one, out=low, where=is_walked)
        np.minimum(high, other, out=high, where=is_walked)
        np.copyto(point, free[:, 2], where=is_walked)
    return (low, high), np.clip(point, low, high)


def _widened(lows: FloatArray, highs: FloatArray, margins: FloatArray) -> Ends:
    """Return probabilities as intervals that allow for rounding by a share of each."""
    is_lost = margins > 0.5  # no digit is left
    share = np.where(is_lost, 0.0, 1.0 + 2.0 * margins)
    low = np.maximum(lows / np.where(is_lost, 1.0, share) - TINY, 0.0)
    high = np.minimum(highs * share + TINY, 1.0)
    return np.where(is_lost, 0.0, low), np.where(is_lost, 1.0, high)


def log_partition_bounds(
    problem: Problem, walks: Walks
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return lower ends, upper ends and estimates of the log-partition of each graph.

    From the nodes of one side, each without those before it: the probability that all of
    them stay unmatched is the product of theirs.
    """
    structure = problem.structure
    plan = Plan.build(structure)
    n_graphs = structure.n_graphs
    sides = (
        (plan.left, structure.graph_of_left, problem.unmatched_left),
        (plan.right, structure.graph_of_right, problem.unmatched_right),
    )
    is_root = np.zeros(len(plan.starts) - 1, dtype=bool)
    is_root[walks.roots] = True
    found = np.zeros((3, n_graphs))
    slack = np.zeros(n_graphs)
    for nodes, graphs, unmatched in sides:
        base = np.bincount(graphs, unmatched, n_graphs)
        slack += np.bincount(graphs, np.abs(unmatched), n_graphs)
        for k, sign in enumerate((-1.0, 1.0, 0.0)):
            values = (walks.totals[:, k] + sign * walks.margins)[nodes]
            values = np.where(is_root[nodes], values, 0.0)
            found[k] += base + np.bincount(graphs, values, n_graphs)
            slack += np.bincount(graphs, np.abs(values), n_graphs)
    n_terms = np.diff(structure.left_starts) + np.diff(structure.right_starts) + 4
    slack *= ROUNDING * n_terms
    return found[0] - slack, found[1] + slack, found[2]


def bethe_bounds(problem: Problem, odds: FloatArray, marginals: FloatArray) -> FloatArray:
    """Return a lower end for the log-partition of each graph: Bethe's at these marginals.

    Bethe's approximation is the largest of these values over all marginals whose rows and
    columns sum to at most one, and on bipartite graphs no more than the truth.
    """
    structure = problem.structure
    left, right, n_graphs = structure.left, structure.right, structure.n_graphs
    rows = np.bincount(left, marginals, structure.n_left)
    cols = np.bincount(right, marginals, structure.n_right)
    most = np.maximum(np.maximum(rows[left], cols[right]), 1.0)
    p = marginals / most * (1.0 - 1e-12)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = p * odds - np.where(p > 0.0, p * np.log(p), 0.0) + (1.0 - p) * np.log1p(-p)
    graphs = structure.graph_of_left[left]
    values = np.zeros(n_graphs) + np.bincount(graphs, terms, n_graphs)
    sizes = np.zeros(n_graphs) + np.bincount(graphs, np.abs(terms), n_graphs)
    for nodes, of_graph, unmatched, n_nodes in (
        (left, structure.graph_of_left, problem.unmatched_left, structure.n_left),
        (right, structure.graph_of_right, problem.unmatched_right, structure.n_right),
    ):
        free = np.maximum(1.0 - np.bincount(nodes, p, n_nodes), 1e-300)
        own = unmatched - free * np.log(free)
        values += np.bincount(of_graph, own, n_graphs)
        sizes += np.bincount(of_graph, np.abs(own), n_graphs)
    n_terms = np.diff(structure.edge_starts) + np.diff(structure.left_starts)
    n_terms += np.diff(structure.right_starts)
    return values - 1e-12 - 8.0 * ROUNDING * (n_terms + 8) * sizes
