"""The best matching of a sparse graph whose nodes may stay unmatched, and its prices.

The edges of left node i are ``starts[i]:starts[i + 1]``.  Prices alpha (left) and beta
(right) satisfy

    s_ij <= alpha_i + beta_j,        u_i <= alpha_i,        v_j <= beta_j

up to rounding, with equality on the edges of the matching and for the nodes it leaves
unmatched; so their sum is its score, and no other matching has a higher one.

All begins with prices that satisfy the inequalities, and with a matching of edges without
slack.  A node is *unsettled* while it is unmatched at a price above its unmatched score. It
is settled by a shortest path of alternating edges, in terms of slack: the path ends at an
unmatched node of the other side, or at a node of its own side that becomes unmatched
instead.  Prices on the starting side fall, prices on the other one rise, where all nodes
met but the last are matched; so no settled node is unsettled.  Left nodes go first, then
what is left of right nodes, by the same function with the sides exchanged.  A path meets
nodes of its own component only, so components need not be told apart.

Slacks are computed from the prices of the beginning, with the rounding error of their sum,
and prices move relative to those: scores that share a large offset keep their digits.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from permatch._types import FloatArray, IntArray


class Side(NamedTuple):
    """The nodes of one side: what is known of them, and their edges."""

    starts: IntArray  # (n + 1,)
    edges: IntArray  # of the whole graph, in the order of this side
    ends: IntArray  # the node of the other side that each of these leads to
    free_slack: FloatArray  # (n,): what a node loses by staying unmatched
    shift: FloatArray  # (n,): price relative to that of the beginning
    mate: IntArray  # (n,): -1 while unmatched


class Search(NamedTuple):
    """Work space of the search for a path, by nodes of the side that it does not start on.

    Between two searches all entries of `place` are -1.
    """

    distance: FloatArray
    via: IntArray  # the node of the starting side before it
    place: IntArray  # on the heap; -1: not met, -2: done
    heap: IntArray  # nodes, nearest in front
    done: IntArray


@njit(cache=True, nogil=True)
def open_prices(starts, right, scores, unmatched_left, unmatched_right, alpha, beta):
    """Fill prices that satisfy all inequalities, each left one as low as it can be."""
    for j in range(len(beta)):
        beta[j] = unmatched_right[j]
    for i in range(len(alpha)):
        top = unmatched_left[i]
        for e in range(starts[i], starts[i + 1]):
            top = max(top, scores[e])
        for e in range(starts[i], starts[i + 1]):
            beta[right[e]] = max(beta[right[e]], scores[e] - top)
    for i in range(len(alpha)):
        alpha[i] = unmatched_left[i]
        for e in range(starts[i], starts[i + 1]):
            alpha[i] = max(alpha[i], scores[e] - beta[right[e]])


@njit(cache=True, nogil=True)
def _slack(score, one, other):
    """Return ``one + other - score``, rounded about once; at least 0."""
    total = one + other
    part = total - one
    lost = (one - (total - part)) + (other - part)
    return max((total - score) + lost, 0.0)


@njit(cache=True, nogil=True)
def fill_slacks(starts, right, scores, alpha, beta, slack):
    """Fill the slack of every edge at the prices of the beginning."""
    for i in range(len(alpha)):
        for e in range(starts[i], starts[i + 1]):
            slack[e] = _slack(scores[e], alpha[i], beta[right[e]])


@njit(cache=True, nogil=True)
def match_greedily(starts, right, slack, left_mate, right_mate):
    """Match left nodes to the first unmatched right node without slack."""
    for i in range(len(left_mate)):
        for e in range(starts[i], starts[i + 1]):
            if slack[e] == 0.0 and right_mate[right[e]] < 0:
                left_mate[i] = right[e]
                right_mate[right[e]] = i
                break


@njit(cache=True, nogil=True)
def _two_best(own, other, slack, i):
    """Return what a left node would lose by its best and its second best choice.

    And the right node of the best one, -1 for staying unmatched.
    """
    lowest = own.free_slack[i]
    second = np.inf
    best = -1
    for at in range(own.starts[i], own.starts[i + 1]):
        loss = slack[own.edges[at]] + other.shift[own.ends[at]]
        if loss < lowest:
            second = lowest
            lowest = loss
            best = own.ends[at]
        elif loss < second:
            second = loss
    return lowest, second, best


@njit(cache=True, nogil=True)
def bid(own, other, slack, n_rounds, most_bids):
    """Let unsettled left nodes bid for right nodes; a cheap start that settles most.

    A node takes its best choice and pays for it as much as makes the second best as good.
    Whoever held it before bids next, or in the next round if the price did not rise.
    """
    waiting = np.empty(len(own.mate), np.int64)
    n_waiting = 0
    for i in range(len(own.mate)):
        if own.mate[i] < 0 and own.free_slack[i] + own.shift[i] > 0.0:
            waiting[n_waiting] = i
            n_waiting += 1
    n_bids = 0
    for _ in range(n_rounds):
        n_before = n_waiting
        n_waiting = 0
        at = 0
        while at < n_before and n_bids < most_bids:
            i = waiting[at]
            at += 1
            n_bids += 1
            lowest, second, best = _two_best(own, other, slack, i)
            if best < 0:
                own.shift[i] = -lowest
                continue
            holder = other.mate[best]
            if second == np.inf:
                if holder >= 0:  # no price is too high: left to the search for paths
                    continue
                second = lowest
            other.shift[best] += second - lowest
            own.shift[i] = -second
            own.mate[i] = best
            other.mate[best] = i
            if holder >= 0:
                own.mate[holder] = -1
                if second > lowest:
                    at -= 1
                    waiting[at] = holder
                else:
                    waiting[n_waiting] = holder
                    n_waiting += 1
        if n_bids >= most_bids:
            break


@njit(cache=True, nogil=True)
def _rise(heap, place, distance, at):
    """Let the node at a place of the heap rise to where it belongs."""
    node = heap[at]
    while at > 0:
        above = (at - 1) // 2
        if distance[heap[above]] <= distance[node]:
            break
        heap[at] = heap[above]
        place[heap[at]] = at
        at = above
    heap[at] = node
    place[node] = at


@njit(cache=True, nogil=True)
def _take_first(heap, place, distance, n):
    """Take the nearest of `n` nodes off the heap and return it."""
    first = heap[0]
    place[first] = -2
    node = heap[n - 1]
    n -= 1
    at = 0
    while 2 * at + 1 < n:
        child = 2 * at + 1
        if child + 1 < n and distance[heap[child + 1]] < distance[heap[child]]:
            child += 1
        if distance[heap[child]] >= distance[node]:
            break
        heap[at] = heap[child]
        place[heap[at]] = at
        at = child
    if n > 0:
        heap[at] = node
        place[node] = at
    return first


@njit(cache=True, nogil=True)
def _search(own, other, slack, start, work):
    """Find the shortest path that settles a node.

    Return its length, ``inf`` if there is none, its last node on the starting side, the
    unmatched node of the other side at its end, -1 if none, how many nodes are done and how
    many edges were looked at.
    """
    length = own.free_slack[start] + own.shift[start]
    last = start
    sink = -1
    n_heap = 0
    n_done = 0
    n_edges = 0
    node = start
    reached = 0.0
    while True:
        n_edges += own.starts[node + 1] - own.starts[node] + 1
        for at in range(own.starts[node], own.starts[node + 1]):
            end = own.ends[at]
            if work.place[end] == -2:
                continue
            step = slack[own.edges[at]] + own.shift[node] + other.shift[end]
            far = reached + max(step, 0.0)
            if far >= length:
                continue
            if other.mate[end] < 0:
                length = far
                last = node
                sink = end
                continue
            if work.place[end] == -1:
                work.heap[n_heap] = end
                work.place[end] = n_heap
                n_heap += 1
            elif far >= work.distance[end]:
                continue
            work.distance[end] = far
            work.via[end] = node
            _rise(work.heap, work.place, work.distance, work.place[end])
        if n_heap == 0 or work.distance[work.heap[0]] >= length:
            break
        end = _take_first(work.heap, work.place, work.distance, n_heap)
        n_heap -= 1
        work.done[n_done] = end
        n_done += 1
        reached = work.distance[end]
        node = other.mate[end]
        stop = reached + max(own.free_slack[node] + own.shift[node], 0.0)
        if stop < length:
            length = stop
            last = node
            sink = -1
    for at in range(n_heap):
        work.place[work.heap[at]] = -1
    return length, last, sink, n_done, n_edges


@njit(cache=True, nogil=True)
def settle(own, other, slack, work, first, most_edges):
    """Settle the nodes of a side from `first` on, until so many edges were looked at.

    Return the node to go on with, and whether it is one that cannot be settled.
    """
    n_edges = 0
    for start in range(first, len(own.mate)):
        if own.mate[start] >= 0 or own.free_slack[start] + own.shift[start] <= 0.0:
            continue
        if n_edges >= most_edges:
            return start, False
        length, node, end, n_done, n_new = _search(own, other, slack, start, work)
        n_edges += n_new
        if length < np.inf:
            own.shift[start] -= length
        for at in range(n_done):
            met = work.done[at]
            work.place[met] = -1
            if length < np.inf:
                rise = length - work.distance[met]
                other.shift[met] += rise
                own.shift[other.mate[met]] -= rise
        if length == np.inf:
            return start, True
        while True:
            # `node` gives up its partner for `end`, or for staying unmatched.
            before = own.mate[node]
            own.mate[node] = end
            if end >= 0:
                other.mate[end] = node
            if node == start:
                break
            end = before
            node = work.via[before]
    return len(own.mate), False


@njit(cache=True, nogil=True)
def finish(starts, right, slack, left, other, reduced, reduced_left, reduced_right):
    """Fill scores minus prices: at most 0, and 0 exactly for what the matching uses."""
    for i in range(len(left.mate)):
        for e in range(starts[i], starts[i + 1]):
            j = right[e]
            over = slack[e] + left.shift[i] + other.shift[j]
            reduced[e] = 0.0 if left.mate[i] == j else min(-over, 0.0)
    for nodes, gaps in ((left, reduced_left), (other, reduced_right)):
        for i in range(len(gaps)):
            over = nodes.free_slack[i] + nodes.shift[i]
            gaps[i] = 0.0 if nodes.mate[i] < 0 else min(-over, 0.0)


@njit(cache=True, nogil=True)
def _add(total, lost, term):
    """Add a term; return the sum and what rounding has taken from it so far (Neumaier)."""
    new = total + term
    if abs(total) >= abs(term):
        return new, lost + ((total - new) + term)
    return new, lost + ((term - new) + total)


@njit(cache=True, nogil=True)
def add_up(
    starts,
    right,
    left_starts,
    right_starts,
    scores,
    unmatched_left,
    unmatched_right,
    left_mate,
    right_mate,
    totals,
):
    """Fill the score of the matching in every graph."""
    for g in range(len(totals)):
        total = 0.0
        lost = 0.0
        for i in range(left_starts[g], left_starts[g + 1]):
            if left_mate[i] < 0:
                total, lost = _add(total, lost, unmatched_left[i])
                continue
            for e in range(starts[i], starts[i + 1]):
                if right[e] == left_mate[i]:
                    total, lost = _add(total, lost, scores[e])
                    break
        for j in range(right_starts[g], right_starts[g + 1]):
            if right_mate[j] < 0:
                total, lost = _add(total, lost, unmatched_right[j])
        totals[g] = total + lost
