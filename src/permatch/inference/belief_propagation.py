"""Belief propagation on problems: beliefs of edges and nodes, Bethe values, and bounds.

The Bethe engine reports them; others start from them or compare with them.
"""

from dataclasses import dataclass

import numpy as np

from permatch._parallel import Job, run_slices
from permatch._types import BoolArray, FloatArray
from permatch.assignment import best_assignment
from permatch.kernels.bethe_edges import (
    Edges,
    Messages,
    fill_lower,
    fill_upper,
    finish,
    pass_messages,
)
from permatch.kernels.possible_edges import forbid_impossible
from permatch.problems import Components, Problem

# Odds are weights as they are, up to this logarithm; beyond, prices come first.
_LARGEST_LOG_ODDS = 30.0
# What is less probable than this, in logs, is left out: no belief would show it.
_NEGLIGIBLE = -60.0
# Sweeps in which both sides are brought to expect as many links.
_BALANCED = 300.0
# Edges of one task, and times an edge is visited before Ctrl-C is listened for.
_EDGES_PER_TASK, _VISITS_PER_SLICE = 1 << 14, 1 << 22
_SECONDS_PER_EDGE = 1e-6


@dataclass(frozen=True, eq=False)
class Scaled:
    """A problem whose matchings have all lost the same score, and its weights."""

    problem: Problem
    offsets: FloatArray  # (n_graphs,): what matchings have lost
    edges: Edges
    is_by_odds: bool  # whether weights are odds as they are, not what prices leave


@dataclass(frozen=True, eq=False)
class Beliefs:
    """What belief propagation says of a problem.

    Attributes
    ----------
    log_partition : ndarray of shape (n_graphs,)
        The Bethe value of every graph.
    marginals : ndarray of shape (n_edges,)
        Beliefs of edges.
    unmatched_left, unmatched_right : ndarray of shape (n_left,), (n_right,)
        Beliefs that nodes stay unmatched.
    lower, upper : ndarray of shape (n_graphs,) or None
        Ends for the log-partition that hold for certain, up to rounding.
    n_sweeps : int
        Most sweeps of a component.
    change : float
        Largest change of a belief in the last sweep of a component.
    to_right, to_left : ndarray of shape (n_edges,)
        The messages, l and r of `kernels.bethe_edges`.
    scaled : Scaled
        The weights they refer to.
    """

    log_partition: FloatArray
    marginals: FloatArray
    unmatched_left: FloatArray
    unmatched_right: FloatArray
    lower: FloatArray | None
    upper: FloatArray | None
    n_sweeps: int
    change: float
    to_right: FloatArray
    to_left: FloatArray
    scaled: Scaled


def beliefs(
    problem: Problem,
    *,
    tol: float = 1e-8,
    max_iter: int = 1000,
    damping: float = 0.0,
    bounds: bool = False,
    kept: FloatArray | None = None,
    start: Beliefs | None = None,
    job: Job | None = None,
) -> Beliefs:
    """Pass messages until no belief changes by more than `tol`.

    Parameters
    ----------
    problem : Problem
        Any number of graphs.
    tol : float
        See above.
    max_iter : int
        Maximum sweeps.
    damping : float
        Share of the old message kept.
    bounds : bool
        Whether to bracket the log-partition as well.
    kept : ndarray, optional
        For every component, the share of its own flow that a message does not leave out.
        Above 0 it is no belief propagation, but beliefs do not run off to 0 or 1: a better
        guide for draws.
    start : Beliefs, optional
        Those of other scores of the same edges, to start from where weights are odds.
    job : Job, optional
        Threads and progress.

    Returns
    -------
    Beliefs
        Exact on trees.

    Raises
    ------
    InfeasibleGraphError
        If a graph has no matching of all nodes that must be matched.

    Examples
    --------
    >>> from permatch.scores import EdgeScores, check_problem
    >>> problem, _ = check_problem(EdgeScores([0, 0], [0, 1], [0.0, 0.0]), 0.0, 0.0)
    >>> beliefs(problem).unmatched_left
    array([0.33333333])
    """
    structure = problem.structure
    scaled = scale_problem(problem)
    edges, found = scaled.edges, structure.components
    n_found = len(found)
    messages = _start(edges, found, damping)
    if start is not None and start.scaled.is_by_odds and scaled.is_by_odds:
        _resume(messages, start)
    shares = np.zeros(n_found) if kept is None else kept
    values, lowers, uppers = np.empty(n_found), np.zeros(n_found), np.zeros(n_found)
    is_partial = finite_components(problem)
    ends = np.searchsorted(
        np.cumsum(found.n_edges), np.arange(0, structure.n_edges, _EDGES_PER_TASK), "left"
    )
    cuts = np.unique(np.concatenate([ends, [n_found]]))

    def solve(k: int) -> None:
        first, last = int(cuts[k]), int(cuts[k + 1])
        n_edges = int(found.n_edges[first:last].sum())

        def sweep(begin: int, end: int) -> bool:
            return pass_messages(
                edges, messages, tol, max_iter, shares, end - begin, first, last
            )

        run_slices(sweep, max_iter, _VISITS_PER_SLICE // n_edges)
        finish(edges, messages, values, first, last)
        if bounds:
            own = scaled.problem
            logs = own.scores, own.unmatched_left, own.unmatched_right
            fill_lower(edges, messages, *logs, lowers, first, last)
            fill_upper(edges, messages, uppers, first, last)

    seconds = structure.n_edges * _SECONDS_PER_EDGE
    (job or Job()).run(solve, len(cuts) - 1, "belief propagation", seconds)
    graphs = structure.graph_of_left[found.left_nodes[found.left_starts[:-1]]]

    def add_up(parts: FloatArray) -> FloatArray:
        return scaled.offsets + np.bincount(graphs, parts, structure.n_graphs)

    slack = _slack(problem) if bounds else 0.0
    # Where a node must be matched, the best matching is what is certain.
    lowers[~is_partial] = 0.0
    progress = messages.progress
    return Beliefs(
        add_up(values),
        messages.marginals,
        messages.unmatched_left,
        messages.unmatched_right,
        add_up(lowers) - slack if bounds else None,
        add_up(uppers) + slack if bounds else None,
        int(progress[:, 0].max(initial=0.0)),
        float(progress[:, 1].max(initial=0.0)),
        messages.to_right,
        messages.to_left,
        scaled,
    )


def scale_problem(problem: Problem) -> Scaled:
    """Return weights that do not overflow: odds, or what prices leave of the scores."""
    structure = problem.structure
    unmatched = problem.unmatched_left, problem.unmatched_right
    with np.errstate(over="ignore"):
        odds = problem.scores - unmatched[0][structure.left]
        odds -= unmatched[1][structure.right]
    if problem.is_partial and odds.max(initial=0.0) <= _LARGEST_LOG_ODDS:
        offsets = np.zeros(structure.n_graphs)
        offsets += np.bincount(structure.graph_of_left, unmatched[0], len(offsets))
        offsets += np.bincount(structure.graph_of_right, unmatched[1], len(offsets))
        zeros = np.zeros(structure.n_left), np.zeros(structure.n_right)
        own = Problem(structure, odds, *zeros)
        return Scaled(own, offsets, _edges(structure.components, own), True)
    best = best_assignment(problem)
    edges = _edges(structure.components, best.reduced)
    _forget_negligible(best.reduced, edges)
    right_mate = np.full(structure.n_right, -1)
    is_matched = best.matching >= 0
    right_mate[best.matching[is_matched]] = np.nonzero(is_matched)[0]
    forbid_impossible(
        structure.starts,
        structure.right,
        best.matching,
        right_mate,
        edges.free_left > 0.0,
        edges.free_right > 0.0,
        edges.weights,
    )
    return Scaled(best.reduced, best.scores, edges, False)


def _edges(found: Components, problem: Problem) -> Edges:
    return Edges(
        problem.structure.starts,
        problem.structure.right,
        np.exp(problem.scores),
        np.exp(problem.unmatched_left),
        np.exp(problem.unmatched_right),
        found.left_nodes,
        found.left_starts,
        found.right_nodes,
        found.right_starts,
    )


def _forget_negligible(reduced: Problem, edges: Edges) -> None:
    """Set weights of reduced scores to 0 whose use is less probable than can be seen.

    A matching that uses a weight has at most this weight, times a bound on the sum over all
    others, where the best has weight 1.
    """
    structure = reduced.structure
    found = structure.components
    sums = edges.free_left + np.bincount(structure.left, edges.weights, structure.n_left)
    is_linked = found.of_left >= 0
    bounds = np.bincount(found.of_left[is_linked], np.log(sums[is_linked]), len(found))
    floors = np.append(_NEGLIGIBLE - bounds, -np.inf)  # the last: nodes without edges
    edges.weights[reduced.scores < floors[found.of_left][structure.left]] = 0.0
    edges.free_left[reduced.unmatched_left < floors[found.of_left]] = 0.0
    edges.free_right[reduced.unmatched_right < floors[found.of_right]] = 0.0


def _start(edges: Edges, found: Components, damping: float) -> Messages:
    n, k, n_edges = len(edges.free_left), len(edges.free_right), len(edges.weights)
    unmatched_left, unmatched_right = np.ones(n), np.ones(k)  # nodes without edges
    unmatched_left[edges.left_nodes] = 0.0
    unmatched_right[edges.right_nodes] = 0.0
    progress = np.tile([0.0, np.inf, np.inf, 0.0, damping, _BALANCED], (len(found), 1))
    n_left, n_right = found.sizes
    progress[found.n_edges < n_left + n_right, 5] = 0.0
    return Messages(
        np.ones(n_edges),
        np.ones(n_edges),
        np.zeros(n_edges),
        unmatched_left,
        unmatched_right,
        np.empty(n),
        np.empty(k),
        np.empty(k),
        progress,
    )


def _resume(messages: Messages, start: Beliefs) -> None:
    """Set the messages, and the beliefs that changes are measured from."""
    messages.to_right[:] = start.to_right
    messages.to_left[:] = start.to_left
    messages.marginals[:] = start.marginals
    messages.unmatched_left[:] = start.unmatched_left
    messages.unmatched_right[:] = start.unmatched_right


def finite_components(problem: Problem) -> BoolArray:
    """Return of which components all nodes may stay unmatched."""
    found = problem.structure.components
    is_finite = np.ones(len(found) + 1, dtype=bool)  # the last: nodes without edges
    is_finite[found.of_left[problem.unmatched_left == -np.inf]] = False
    is_finite[found.of_right[problem.unmatched_right == -np.inf]] = False
    return is_finite[:-1]


def _slack(problem: Problem) -> FloatArray:
    """Return what rounding can make of the log-partition of every graph."""
    structure = problem.structure
    largest = 1.0
    for scores in (problem.scores, problem.unmatched_left, problem.unmatched_right):
        largest = max(largest, np.abs(scores[scores > -np.inf]).max(initial=0.0))
    n_nodes = np.diff(structure.left_starts) + np.diff(structure.right_starts)
    return n_nodes * (1e-13 + 4e-16 * largest)
