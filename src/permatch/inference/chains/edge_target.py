"""What chains on edges sample: log-odds, rungs, and where some nodes must be matched.

A problem is scaled as for belief propagation, freed of edges that no matching uses, and
split into its components.  A node that must be matched may stay unmatched at a price, so
low that about one node of its component does: matchings in which none does are frequent
enough, and the others connect them.
"""

from dataclasses import dataclass

import numpy as np

from permatch._types import BoolArray, FloatArray, IntArray
from permatch.inference.belief_propagation import Scaled, beliefs, scale_problem
from permatch.kernels.edge_chain import ChainEdges
from permatch.problems import Problem, Selection

# Nobody stays unmatched at a lower price than this, in logs.
_LOWEST = -40.0
# Nodes that must be matched and are not: how many of a component are meant to be, and the
# steps made towards it.
_HOLES, _STEPS = 1.0, 10
# On the last rung links are so rare that belief propagation is exact.
_RARE = 0.3
_HALVINGS = 40
_FIRST_RUNG_ONLY = 1
# Rungs, if not asked for; the fewest that tell the log-partition.
_RUNGS, _FEWEST_RUNGS = 12, 4


@dataclass(frozen=True, eq=False)
class EdgeTarget:
    """The components of a problem, ready for chains.

    Attributes
    ----------
    problem : Problem
        As given.
    scaled : Scaled
        With reduced scores.
    part : Selection
        All components of the scaled problem without edges of weight 0.
    places : ndarray
        The edges of `part` among those of the problem.
    graphs : ndarray of shape (n,)
        The graph of every component.
    edges : ChainEdges
        For the kernels.
    offsets : ndarray of shape (n,)
        Scaled score of the empty matching of every component.
    values : ndarray of shape (n,)
        Bethe values at the target, relative to the empty matching.
    slopes : ndarray of shape (R, n)
        Derivatives of the Bethe values by log beta, on all rungs.
    """

    problem: Problem
    scaled: Scaled
    part: Selection
    places: IntArray
    graphs: IntArray
    edges: ChainEdges
    offsets: FloatArray
    values: FloatArray
    slopes: FloatArray


def edge_rungs(n_wanted: int | None) -> int:
    """Return the number of rungs; None to choose it, 1 for no tempering."""
    n_rungs = n_wanted or _RUNGS
    return n_rungs if n_rungs == _FIRST_RUNG_ONLY else max(n_rungs, _FEWEST_RUNGS)


def build_target(problem: Problem, n_rungs: int) -> EdgeTarget:
    """Prepare a problem for chains with `n_rungs` rungs."""
    scaled = scale_problem(problem)
    is_kept = scaled.edges.weights > 0.0
    rest = scaled.problem.kept(is_kept)
    part = rest.select(np.arange(len(rest.structure.components)))
    own = part.problem
    structure = own.structure
    must = own.unmatched_left == -np.inf, own.unmatched_right == -np.inf
    free = np.maximum(own.unmatched_left, _LOWEST), np.maximum(own.unmatched_right, _LOWEST)
    is_strict = np.zeros(structure.n_graphs, dtype=bool)
    is_strict[structure.graph_of_left[must[0]]] = True
    is_strict[structure.graph_of_right[must[1]]] = True
    if is_strict.any():
        _set_prices(own, must, free)
    theta = own.scores - free[0][structure.left] - free[1][structure.right]
    betas = _rungs(own, theta, n_rungs)
    graph_of_edge = structure.graph_of_left[structure.left]
    log_weights = (betas.T[:, graph_of_edge] * theta) + np.log(betas).T[:, graph_of_edge]
    values, slopes = _bethe_path(own, theta, betas, log_weights)
    edges = ChainEdges(
        structure.starts,
        structure.right,
        structure.left,
        *structure.by_right,
        structure.left_starts,
        structure.right_starts,
        theta,
        betas,
        np.ascontiguousarray(np.exp(log_weights)),
        *must,
        is_strict,
    )
    first = part.left[structure.left_starts[:-1]]
    return EdgeTarget(
        problem,
        scaled,
        part,
        np.nonzero(is_kept)[0][part.edges],
        problem.structure.graph_of_left[first],
        edges,
        _node_sums(own, *free),
        values,
        slopes,
    )


def _node_sums(problem: Problem, left: FloatArray, right: FloatArray) -> FloatArray:
    """Add up values on nodes for every graph."""
    structure = problem.structure
    sums = np.zeros(structure.n_graphs)
    sums += np.bincount(structure.graph_of_left, left, structure.n_graphs)
    sums += np.bincount(structure.graph_of_right, right, structure.n_graphs)
    return sums


def _set_prices(
    problem: Problem,
    must: tuple[BoolArray, BoolArray],
    free: tuple[FloatArray, FloatArray],
) -> None:
    """Set the prices of nodes that must be matched, in place."""
    structure = problem.structure
    graphs = structure.graph_of_left, structure.graph_of_right
    prices = np.zeros(structure.n_graphs)
    for _ in range(_STEPS):
        for side in (0, 1):
            free[side][must[side]] = prices[graphs[side][must[side]]]
        found = beliefs(Problem(structure, problem.scores, *free), tol=1e-3, max_iter=200)
        holes = _node_sums(
            problem, found.unmatched_left * must[0], found.unmatched_right * must[1]
        )
        steps = np.clip(1.5 * np.log(np.maximum(holes, 1e-9) / _HOLES), -4.0, 4.0)
        steps[holes == 0.0] = 0.0
        new = np.clip(prices - steps, _LOWEST, 0.0)
        if np.abs(new - prices).max() < 0.2:
            break
        prices = new


def _rungs(problem: Problem, theta: FloatArray, n_rungs: int) -> FloatArray:
    """Return inverse temperatures (n_graphs, n_rungs), from 1 down to where links are rare.

    Their logarithms are equally spaced.
    """
    structure = problem.structure
    if n_rungs == _FIRST_RUNG_ONLY:
        return np.ones((structure.n_graphs, 1))
    low, high = np.full(structure.n_graphs, -12.0), np.full(structure.n_graphs, -1.0)
    graph_of_edge = structure.graph_of_left[structure.left]
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        x = middle[graph_of_edge]
        odds = np.exp(np.exp(x) * theta + x)
        most = np.zeros(structure.n_graphs)
        for nodes, graph_of, n in (
            (structure.left, structure.graph_of_left, structure.n_left),
            (structure.right, structure.graph_of_right, structure.n_right),
        ):
            np.maximum.at(most, graph_of, np.bincount(nodes, odds, n))
        is_rare = most <= _RARE
        low[is_rare], high[~is_rare] = middle[is_rare], middle[~is_rare]
    shares = np.linspace(0.0, 1.0, n_rungs)
    return np.exp(low[:, None] * shares)


def _bethe_path(
    problem: Problem, theta: FloatArray, betas: FloatArray, log_weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return Bethe values on the first rung, and their derivatives on all."""
    structure = problem.structure
    n_graphs, n_rungs = betas.shape
    values, slopes = np.zeros(n_graphs), np.zeros((n_rungs, n_graphs))
    if n_rungs == _FIRST_RUNG_ONLY:
        return values, slopes
    graph_of_edge = structure.graph_of_left[structure.left]
    none = np.zeros(structure.n_left), np.zeros(structure.n_right)
    for r in range(n_rungs):
        found = beliefs(Problem(structure, log_weights[r], *none), tol=1e-9)
        if r == 0:
            values = found.log_partition
        terms = found.marginals * (betas[graph_of_edge, r] * theta + 1.0)
        slopes[r] = np.bincount(graph_of_edge, terms, n_graphs)
    return values, slopes
