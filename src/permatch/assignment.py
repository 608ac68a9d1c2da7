"""The best matching of every graph of a problem, and what its prices are good for.

Subtracting prices ``alpha_i + beta_j`` from the score of every edge, ``alpha_i`` and
``beta_j`` from those of staying unmatched, takes the same from every matching.  With the
prices of the best one all reduced scores are at most 0, and its own are 0.
"""

from dataclasses import dataclass, replace

import numpy as np

from permatch._parallel import run_slices
from permatch._types import FloatArray, IntArray
from permatch.errors import InfeasibleGraphError
from permatch.kernels.sparse_assignment import (
    Search,
    Side,
    add_up,
    bid,
    fill_slacks,
    finish,
    match_greedily,
    open_prices,
    settle,
)
from permatch.problems import Problem

# Rounds in which left nodes bid, and bids per node, before the search for paths.
_ROUNDS, _BIDS = 4, 16
# Edges that a first slice looks at, and any: those of long paths take longer.
_FEW_EDGES, _MOST_EDGES = 1 << 22, 1 << 23


@dataclass(frozen=True, eq=False)
class Assignment:
    """The best matching of every graph of a problem.

    Attributes
    ----------
    matching : ndarray of shape (n_left,)
        The right node of every left node, numbered as in the problem; -1 if unmatched.
    scores : ndarray of shape (n_graphs,)
        The score of the best matching of every graph.
    alpha, beta : ndarray of shape (n_left,), (n_right,)
        Prices: ``s_ij <= alpha_i + beta_j``, ``u_i <= alpha_i``, ``v_j <= beta_j``, with
        equality on what the matching uses.  Their sum over a graph is its score.
    reduced : Problem
        The problem with prices subtracted: every matching has lost the score of the best
        one of its graph, and no score is above 0.  Computed without the rounding of prices.
    """

    matching: IntArray
    scores: FloatArray
    alpha: FloatArray
    beta: FloatArray
    reduced: Problem


def best_assignment(problem: Problem) -> Assignment:
    """Return the best matching of every graph of a problem, with prices.

    Parameters
    ----------
    problem : Problem
        Any number of graphs.

    Returns
    -------
    Assignment
        Matching, scores, prices, and the problem reduced by them.

    Raises
    ------
    InfeasibleGraphError
        If a graph has no matching that includes every node that must be matched.

    Notes
    -----
    Shortest augmenting paths on edges; O(n E log n) at worst for a component of n nodes and
    E edges, and close to linear in the edges for many small ones.

    Examples
    --------
    >>> from permatch.scores import EdgeScores, check_problem
    >>> problem, _ = check_problem(EdgeScores([0, 0, 1], [0, 1, 1], [1, 3, 2.5]), 0.0, 0.0)
    >>> best = best_assignment(problem)
    >>> best.matching, best.scores
    (array([0, 1]), array([3.5]))
    >>> best.reduced.scores <= 0.0
    array([ True,  True,  True])
    """
    structure = problem.structure
    edges = structure.starts, structure.right
    n, k = structure.n_left, structure.n_right
    alpha, beta, slack = np.empty(n), np.empty(k), np.empty(structure.n_edges)
    unmatched = problem.unmatched_left, problem.unmatched_right
    open_prices(*edges, problem.scores, *unmatched, alpha, beta)
    _check_linked(problem, alpha, beta)
    fill_slacks(*edges, problem.scores, alpha, beta, slack)
    left = _side(*edges, np.arange(structure.n_edges), alpha - unmatched[0])
    other = left._replace(  # its edges are added if they are needed
        free_slack=beta - unmatched[1], shift=np.zeros(k), mate=np.full(k, -1)
    )
    match_greedily(*edges, slack, left.mate, other.mate)
    bid(left, other, slack, _ROUNDS, _BIDS * n)
    _settle(problem, left, other, slack, "left")
    if ((other.mate < 0) & (other.free_slack + other.shift > 0.0)).any():
        starts, own = structure.by_right
        other = other._replace(starts=starts, edges=own, ends=structure.left[own])
        _settle(problem, other, left, slack, "right")
    scores = np.empty(structure.n_graphs)
    sides = structure.left_starts, structure.right_starts
    mates = left.mate, other.mate
    add_up(*edges, *sides, problem.scores, *unmatched, *mates, scores)
    reduced = replace(
        problem,
        scores=np.empty_like(slack),
        unmatched_left=np.empty(n),
        unmatched_right=np.empty(k),
    )
    gaps = reduced.scores, reduced.unmatched_left, reduced.unmatched_right
    finish(*edges, slack, left, other, *gaps)
    return Assignment(left.mate, scores, alpha + left.shift, beta + other.shift, reduced)


def _side(
    starts: IntArray, ends: IntArray, edges: IntArray, free_slack: FloatArray
) -> Side:
    n = len(free_slack)
    return Side(starts, edges, ends, free_slack, np.zeros(n), np.full(n, -1))


def _settle(problem: Problem, own: Side, other: Side, slack: FloatArray, side: str) -> None:
    """Settle all nodes of a side, in slices between which Ctrl-C is heard."""
    k = len(other.mate)
    work = Search(
        np.empty(k), np.empty(k, np.int64), np.full(k, -1), *np.empty((2, k), np.int64)
    )

    node = 0

    def run(first: int, last: int) -> bool:
        nonlocal node
        n_edges = min(last - first, _MOST_EDGES)
        node, has_failed = settle(own, other, slack, work, node, n_edges)
        if has_failed:
            raise _infeasible(problem, side, node)
        return node == len(own.mate)

    run_slices(run, 1 << 62, _FEW_EDGES)


def _check_linked(problem: Problem, alpha: FloatArray, beta: FloatArray) -> None:
    """Refuse nodes that must be matched and have no edge: they have no price."""
    for side, prices in (("left", alpha), ("right", beta)):
        if (prices == -np.inf).any():
            raise _infeasible(problem, side, int(np.argmin(prices)))


def _infeasible(problem: Problem, side: str, node: int) -> InfeasibleGraphError:
    structure = problem.structure
    of = structure.graph_of_left if side == "left" else structure.graph_of_right
    starts = structure.left_starts if side == "left" else structure.right_starts
    g = int(of[node])
    name = "this graph" if structure.n_graphs == 1 else f"graph {g}"
    n_edges = int(np.diff(structure.edge_starts)[g])
    n, k = (int(np.diff(s)[g]) for s in (structure.left_starts, structure.right_starts))
    return InfeasibleGraphError(
        "a graph needs a matching that includes every node that must be matched; "
        f"{name} ({n} x {k}, {n_edges} edge{'s' * (n_edges != 1)}) has none: {side} node "
        f"{node - int(starts[g])} finds no partner that others can spare. Allow more "
        f"edges, give unmatched_{side} a finite score, or drop the graph."
    )
