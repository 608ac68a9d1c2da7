"""From probabilities to decisions: link, no link, or review.

Linking the pair (i, j) instead of leaving record i without a link gains

    missed (1 - a_i) - false a_i - wrong (1 - a_i - p_ij)

in expected cost, where p_ij is the probability of the pair and a_i that of having no
partner.  The decisions with the least expected cost are the assignment that gains most.
Where probabilities are known only to lie in intervals, so do the gains: a pair is decided
if every value in the intervals decides it in the same way, and is left for review if not.
"""

from dataclasses import dataclass

import numpy as np

from permatch._types import BoolArray, FloatArray, IntArray
from permatch.decoding.bayes import ABSTAINED, LinkCosts, bayes_assignment
from permatch.decoding.capacities import best_links
from permatch.linking.solving import Answer
from permatch.problems import Problem

NO_LINK, LINK, REVIEW = 0, 1, 2
#: The words of the column ``decision``.
WORDS = ("no link", "link", "review")
# Rounds in which links that are certain free what competes with them.
_ROUNDS = 8


@dataclass(frozen=True, eq=False)
class Gains:
    """Intervals of what linking a pair gains, on the edges of a problem."""

    low: FloatArray
    high: FloatArray

    @classmethod
    def build(cls, problem: Problem, answer: Answer, costs: LinkCosts) -> "Gains":
        """Return the gains of all pairs."""
        constant = costs.missed - costs.wrong
        by_alone = costs.wrong - costs.missed - costs.false
        ends = [end[problem.structure.left] for end in answer.left_ends]
        if by_alone < 0.0:
            ends.reverse()
        low = constant + by_alone * ends[0] + costs.wrong * answer.low
        high = constant + by_alone * ends[1] + costs.wrong * answer.high
        return cls(low, high)


@dataclass(frozen=True, eq=False)
class Decided:
    """Decisions on edges.

    Attributes
    ----------
    decisions : ndarray of shape (n_edges,)
        NO_LINK, LINK or REVIEW.
    undecided : ndarray
        The edges that intervals are too wide to decide; reviews, too.
    """

    decisions: IntArray
    undecided: IntArray


def decide(problem: Problem, answer: Answer, costs: LinkCosts) -> Decided:
    """Return the decision on every edge."""
    if problem.has_capacities:
        return _decide_several(problem, answer, costs)
    structure = problem.structure
    matching = bayes_assignment(problem, answer.marginals, answer.left, costs)
    decisions = np.where(matching[structure.left] == structure.right, LINK, NO_LINK)
    if (matching == ABSTAINED).any():
        _mark_reviews(problem, answer, costs, matching == ABSTAINED, decisions)
    if answer.is_exact.all():
        return Decided(decisions, np.zeros(0, dtype=np.intp))
    return _limited(problem, answer, Gains.build(problem, answer, costs), decisions)


def _limited(
    problem: Problem, answer: Answer, gains: Gains, decisions: IntArray
) -> Decided:
    """Return decisions, those that intervals leave open as reviews."""
    certain = _certain(problem, gains)
    # A record that is left to a person stays so: that is no mistake.
    is_open = ~answer.is_exact & (decisions != REVIEW)
    decisions[is_open] = certain[is_open]
    return Decided(decisions, np.flatnonzero(is_open & (decisions == REVIEW)))


def _decide_several(problem: Problem, answer: Answer, costs: LinkCosts) -> Decided:
    """Return the decision on every edge where records may have several links.

    Every pair counts by itself: linking it gains ``missed p - false (1 - p)``.
    """

    def gain(chances: FloatArray) -> FloatArray:
        return costs.missed * chances - costs.false * (1.0 - chances)

    is_used = best_links(problem, gain(answer.marginals))
    decisions = np.where(is_used, LINK, NO_LINK)
    if costs.abstain is not None:
        chances = answer.marginals
        risk = np.where(is_used, costs.false * (1.0 - chances), costs.missed * chances)
        decisions[risk > costs.abstain] = REVIEW
    if answer.is_exact.all():
        return Decided(decisions, np.zeros(0, dtype=np.intp))
    return _limited(problem, answer, Gains(gain(answer.low), gain(answer.high)), decisions)


def _mark_reviews(
    problem: Problem,
    answer: Answer,
    costs: LinkCosts,
    is_abstained: BoolArray,
    decisions: IntArray,
) -> None:
    """Mark the likeliest pairs of records left to a person.

    So many that a link among the others is less of a risk than the person costs.
    """
    structure = problem.structure
    edges = np.flatnonzero(is_abstained[structure.left])
    order = edges[np.lexsort((answer.marginals[edges], structure.left[edges]))]
    left = structure.left[order]
    sums = np.cumsum(answer.marginals[order])
    starts = np.flatnonzero(np.r_[True, left[1:] != left[:-1]])
    before = np.r_[0.0, sums][starts]
    so_far = sums - np.repeat(before, np.diff(np.r_[starts, len(order)]))
    risk = costs.missed * so_far
    decisions[order[risk > (costs.abstain or 0.0)]] = REVIEW


def _certain(problem: Problem, gains: Gains) -> IntArray:
    """Return the decisions that hold for all gains in the intervals; REVIEW elsewhere.

    A pair is linked in every best assignment if it gains more than the best other pair of
    each of its two records together: at most these two would have to give way.
    """
    structure = problem.structure
    left, right = structure.left, structure.right
    decisions = np.full(structure.n_edges, REVIEW)
    decisions[gains.high <= 0.0] = NO_LINK
    room_left = _room(problem.capacity_left, structure.n_left)
    room_right = _room(problem.capacity_right, structure.n_right)
    for _ in range(_ROUNDS):
        is_open = decisions == REVIEW
        rivals = _best_other(gains.high, left, structure.n_left, is_open)
        rivals += _best_other(gains.high, right, structure.n_right, is_open)
        is_link = is_open & (gains.low > rivals)
        if not is_link.any():
            break
        decisions[is_link] = LINK
        room_left -= np.bincount(left[is_link], minlength=structure.n_left)
        room_right -= np.bincount(right[is_link], minlength=structure.n_right)
        is_full = (room_left[left] == 0) | (room_right[right] == 0)
        decisions[is_open & ~is_link & is_full] = NO_LINK
    return decisions


def _room(capacity: IntArray | None, n: int) -> IntArray:
    return np.ones(n, np.int64) if capacity is None else capacity.copy()


def _best_other(
    gains: FloatArray, nodes: IntArray, n_nodes: int, is_open: BoolArray
) -> FloatArray:
    """Return, for every edge, the most that another open edge of its node may gain."""
    own = np.where(is_open, np.maximum(gains, 0.0), 0.0)
    best = np.zeros(n_nodes)
    np.maximum.at(best, nodes, own)
    is_best = own == best[nodes]
    ties = np.bincount(nodes[is_best], minlength=n_nodes)
    second = np.zeros(n_nodes)
    np.maximum.at(second, nodes[~is_best], own[~is_best])
    return np.where(is_best & (ties[nodes] < 2), second[nodes], best[nodes])
