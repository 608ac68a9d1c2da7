"""The k best matchings: of every component, then of their sums.

A narrow component is walked by the frontier, others go to Murty's algorithm.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch._validation import (
    check_count,
    check_scores,
    enough_memory,
    no_perfect_matching,
)
from permatch.assignment import Assignment, best_assignment
from permatch.decoding.lap import best_matching, is_one_square, subtract_row_maxima
from permatch.decoding.narrow import best_of_narrow, is_narrow, second_losses
from permatch.decoding.totals import total_scores
from permatch.errors import ScoreShapeError
from permatch.kernels import murty
from permatch.kernels.frontier_plan import frontier_plan
from permatch.problems import Problem
from permatch.scores import Unmatched, check_problem

# Matchings whose scores are added up at a time, in nodes.
_AT_ONCE = 1 << 20


@dataclass(frozen=True, eq=False)
class KBest:
    """Distinct matchings of one graph, best first.

    Attributes
    ----------
    matchings : ndarray of shape (r, n)
        Matching r sends left node i to right node ``matchings[r, i]``; -1: unmatched.
    scores : ndarray of shape (r,)
        Total score of each matching, descending.

    Examples
    --------
    >>> import permatch as pm
    >>> best = pm.k_best([[2.0, 1.0], [0.0, 1.5]], 5)
    >>> best.matchings.tolist(), best.scores.tolist()
    ([[0, 1], [1, 0]], [3.5, 1.0])
    """

    matchings: IntArray
    scores: FloatArray


def k_best(
    scores: Any,
    k: int,
    *,
    unmatched_left: Unmatched = None,
    unmatched_right: Unmatched = None,
) -> KBest:
    """Return the k matchings with the highest total scores.

    The matchings are distinct, the first is that of `best_matching`, and fewer than `k` are
    returned if the graph has fewer.  Ties for the last place are broken arbitrarily but
    reproducibly.

    Parameters
    ----------
    scores : array of shape (n, k), sparse array or EdgeScores
        Score of each edge; ``-inf``, or no entry, forbids an edge.
    k : int
        Number of matchings, at least 1.
    unmatched_left, unmatched_right : number, array or None
        Score of staying unmatched; ``-inf``: must be matched.  None: every node must be
        matched, except that on the larger side of an unequal graph it is 0.

    Returns
    -------
    KBest
        The matchings and their scores, best first.

    Raises
    ------
    InfeasibleGraphError
        If no matching of allowed edges includes every node that must be matched.
    InvalidOptionError
        If `k` is not an integer of at least 1.

    Notes
    -----
    Squares whose nodes must all be matched, and wide components of m nodes per side, take
    O(m^3) for the first matching and O(m^2) per path searched after it: at least one per
    matching, usually two to four at m = 50, at worst m.  O(k m) memory.  Where nodes may
    stay unmatched, m counts the nodes of both sides.  Narrow components take as long as
    `Frontier` once, then the time of a walk along their edges per matching.

    Examples
    --------
    >>> import numpy as np
    >>> best = k_best(np.array([[3.0, 2.0], [2.0, 0.0]]), 5)
    >>> best.matchings
    array([[1, 0],
           [0, 1]])
    >>> best.scores
    array([4., 3.])
    >>> k_best(np.array([[1.0]]), 5, unmatched_left=0.0, unmatched_right=0.0).matchings
    array([[ 0],
           [-1]])
    """
    if unmatched_left is None and unmatched_right is None and is_one_square(scores):
        return _k_best_of_square(check_scores(scores), check_count(k, "k", 1))
    problem, layout = check_problem(scores, unmatched_left, unmatched_right)
    if layout.kind != "one":
        raise ScoreShapeError(
            f"k_best takes one graph; got {problem.structure.n_graphs}. Call it for each."
        )
    return k_best_matchings(problem, k)


def k_best_matchings(problem: Problem, k: int, best: Assignment | None = None) -> KBest:
    """Return the k best matchings of a problem with one graph.

    Parameters
    ----------
    problem : Problem
        One graph.
    k : int
        Number of matchings, at least 1.
    best : Assignment, optional
        Its best matching, if known.

    Returns
    -------
    KBest
        The matchings and their scores, best first.
    """
    k = check_count(k, "k", 1)
    k = min(k, _count_bound(problem, k))
    best = best_assignment(problem) if best is None else best
    n = problem.structure.n_left
    with enough_memory(f"k_best of {k} matchings of {n} nodes", 8.0 * k * n):
        ranked = _rank_components(best.reduced, k)
        picks = _best_sums([one.excess for one in ranked], k)
        matchings = np.tile(best.matching, (len(picks), 1))
        for one, chosen in zip(ranked, picks.T, strict=True):
            matchings[:, one.nodes] = one.matchings[chosen]
    totals = total_scores(problem, matchings, is_rounded_once=True)
    # Sums of the original scores, each rounded once; they may order near ties differently.
    rank = np.argsort(-totals, kind="stable")
    return _lead_with(best.matching, matchings[rank], totals[rank])


def _k_best_of_square(scores: FloatArray, k: int) -> KBest:
    """Return the k best perfect matchings of a checked dense graph."""
    m = len(scores)
    is_allowed = scores > -np.inf
    sizes = (math.prod(is_allowed.sum(axis=axis).tolist()) for axis in (0, 1))
    k = min(k, max(min(*sizes, math.factorial(m)), 1))
    cost = np.ascontiguousarray(-subtract_row_maxima(scores))
    matchings, _ = _by_murty(cost, k, m)
    if not len(matchings):
        raise no_perfect_matching(scores)
    at_once = max(_AT_ONCE // (m + 1), 1)
    totals = np.empty(len(matchings))
    for first in range(0, len(matchings), at_once):
        picked = scores[np.arange(m), matchings[first : first + at_once]]
        totals[first : first + at_once] = [math.fsum(row) for row in picked.tolist()]
    # Sums of the original scores, each rounded once; they may order near ties differently.
    rank = np.argsort(-totals, kind="stable")
    return _lead_with(best_matching(scores), matchings[rank], totals[rank])


def _by_murty(cost: FloatArray, k: int, n_branch: int) -> tuple[IntArray, FloatArray]:
    """Return the k cheapest matchings of a square, and their costs above the least."""
    m = len(cost)
    # Matchings, order and prices of k nodes, and the matchings themselves.
    with enough_memory(f"k_best of {k} matchings at size {m}", 32.0 * k * m):
        found, excess = np.empty((k, m), np.intp), np.empty(k)
        n_found = murty.k_best(cost, k, found, excess, n_branch)
    return found[:n_found], excess[:n_found]


@dataclass(frozen=True, eq=False)
class _Ranked:
    """The best matchings of a component, best first."""

    nodes: IntArray  # its left nodes
    matchings: IntArray  # (r, nodes)
    excess: FloatArray  # (r,): what is lost to the best


def _rank_components(reduced: Problem, k: int) -> list[_Ranked]:
    """Return the best matchings of the components that matter, k of each.

    A matching of the k best departs from the best one in at most k - 1 components, and in
    none but the k - 1 where that is cheapest.
    """
    n_components = len(reduced.structure.components)
    plan = frontier_plan(reduced.structure)
    narrow = is_narrow(plan)
    likely = np.arange(n_components)
    if n_components > 1:
        gaps = second_losses(reduced, plan, np.nonzero(narrow)[0])
        for c in np.nonzero(~narrow)[0].tolist():
            two = _k_best_of(reduced, c, 2)
            gaps[c] = two.excess[1] if len(two.excess) > 1 else np.inf
        order = np.argsort(gaps, kind="stable")
        likely = order[gaps[order] < np.inf][: k - 1]
    ranked = []
    for c in likely.tolist():
        if narrow[c]:
            ranked.append(_Ranked(*best_of_narrow(reduced, plan, c, k)))
        else:
            ranked.append(_k_best_of(reduced, c, k))
    return ranked


def _k_best_of(reduced: Problem, component: int, k: int) -> _Ranked:
    """Return the k best matchings of one component of a reduced problem."""
    part = reduced.select(np.array([component]))
    problem = part.problem
    n, n_right = problem.structure.n_left, problem.structure.n_right
    k = min(k, _count_bound(problem, k))
    cost = _square_cost(problem)
    found, excess = _by_murty(cost, k, n)
    partners = found[:, :n]
    partners = np.where(
        partners < n_right, np.append(part.right, 0)[partners % (n_right + 1)], -1
    )
    return _Ranked(part.left, partners, excess)


def _square_cost(problem: Problem) -> FloatArray:
    """Return the costs of a square whose perfect matchings are those of the problem.

    Where nodes may stay unmatched there is a column more for every left node, in which
    only it can stay unmatched, and a row for every right node; rows and columns that are
    not needed for that are matched among themselves, for nothing.
    """
    structure = problem.structure
    n, k = structure.n_left, structure.n_right
    if n == k and problem.is_perfect:
        return -problem.dense()
    cost = np.full((n + k, n + k), np.inf)
    cost[structure.left, structure.right] = -problem.scores
    cost[np.arange(n), k + np.arange(n)] = -problem.unmatched_left
    cost[n + np.arange(k), np.arange(k)] = -problem.unmatched_right
    cost[n:, k:] = 0.0
    return cost


def _count_bound(problem: Problem, enough: int) -> int:
    """Return a number no smaller than that of matchings, or some number above `enough`."""
    structure = problem.structure
    bounds = []
    for degrees, unmatched in (
        (np.diff(structure.starts), problem.unmatched_left),
        (
            np.bincount(structure.right, minlength=structure.n_right),
            problem.unmatched_right,
        ),
    ):
        count = 1
        for options in (degrees + (unmatched > -np.inf)).tolist():
            count *= options
            if count > enough:
                break
        bounds.append(count)
    return max(min(bounds), 1)


def _best_sums(lists: list[FloatArray], k: int) -> IntArray:
    """Return which entries of ascending lists make the k least sums, (r, n_lists)."""
    sums = np.zeros(1)
    ways: list[tuple[IntArray, IntArray]] = []
    for values in lists:
        # Entry a of one list and b of another are beaten by (a + 1)(b + 1) - 1 pairs.
        most = k // (np.arange(min(len(sums), k)) + 1)
        most = np.minimum(most, len(values))
        first = np.repeat(np.arange(len(most)), most)
        second = np.arange(len(first)) - np.repeat(np.cumsum(most) - most, most)
        both = sums[first] + values[second]
        order = np.argsort(both, kind="stable")[:k]
        ways.append((first[order], second[order]))
        sums = both[order]
    at = np.arange(len(sums))
    picks = np.zeros((len(sums), len(lists)), dtype=np.intp)
    for c in range(len(lists) - 1, -1, -1):
        picks[:, c] = ways[c][1][at]
        at = ways[c][0][at]
    return picks


def _lead_with(mode: IntArray, matchings: IntArray, totals: FloatArray) -> KBest:
    """Put the matching of `best_matching` first among its equals."""
    (places,) = np.nonzero((matchings == mode).all(axis=1))
    if places.size == 0:  # one of more than k equals, which another one has to stand for
        matchings[0] = mode
    else:
        order = np.r_[places[0], np.delete(np.arange(len(matchings)), places[0])]
        matchings, totals = matchings[order], totals[order]
    return KBest(matchings, totals)
