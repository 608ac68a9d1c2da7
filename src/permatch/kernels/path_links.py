"""The links of a partial problem, and what is known of each before any path is walked.

A link leads from a node v to a neighbour w; an edge has two.  With the odds A of its edge,
and R_w the probability that w stays unmatched where v is out, ``A R_w`` is at least LOW, at
most HIGH (the bounds of `kernels.path_tree`) and, by belief propagation, about POINT.

Nodes of both sides are numbered together, breadth first, so that a ball of the graph lies
together in memory.  Where odds do not fit into a float64, all values are logarithms
(`is_log`).
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from permatch._types import BoolArray, FloatArray, IntArray

#: What is known of a link (v, w): w, the odds A; A R_w below v: at least, at most, about.
NODE, ODDS, LOW, HIGH, POINT = range(5)
# Sweeps of belief propagation.
_SWEEPS = 6


class Tree(NamedTuple):
    """A graph as walked: the links of node v are ``links[starts[v]:starts[v + 1]]``.

    Nodes of one side `may_go`: in a walk with a `floor`, those numbered below it are out.
    """

    starts: IntArray
    links: FloatArray
    may_go: BoolArray
    is_log: bool


@njit(cache=True, nogil=True)
def plus(total: float, term: float, is_log: bool) -> float:
    """Return total + term."""
    if not is_log:
        return total + term
    if term > total:
        total, term = term, total
    return total + math.log1p(math.exp(term - total))


@njit(cache=True, nogil=True)
def over(odds: float, total: float, is_log: bool) -> float:
    """Return odds / total."""
    return odds - total if is_log else odds / total


@njit(cache=True, nogil=True)
def _middle(one: float, other: float, is_log: bool) -> float:
    # The product of both may not fit into a float64.
    return 0.5 * one + 0.5 * other if is_log else math.sqrt(one) * math.sqrt(other)


@njit(cache=True, nogil=True)
def order_nodes(
    starts: IntArray, right: IntArray, right_starts: IntArray, lefts: IntArray
) -> IntArray:
    """Return all nodes, breadth first; right node j has the number ``n_left + j``.

    `lefts` are the left nodes of the edges in the order of `right_starts`.
    """
    n_left, n_right = len(starts) - 1, len(right_starts) - 1
    order = np.empty(n_left + n_right, dtype=np.int64)
    is_seen = np.zeros(n_left + n_right, dtype=np.bool_)
    done = found = 0
    for first in range(n_left + n_right):
        if is_seen[first]:
            continue
        is_seen[first] = True
        order[found] = first
        found += 1
        while done < found:
            v = order[done]
            done += 1
            if v < n_left:
                near, shift = right[starts[v] : starts[v + 1]], n_left
            else:
                j = v - n_left
                near, shift = lefts[right_starts[j] : right_starts[j + 1]], 0
            for w in near:
                if not is_seen[w + shift]:
                    is_seen[w + shift] = True
                    order[found] = w + shift
                    found += 1
    return order


@njit(cache=True, nogil=True)
def lay_links(
    starts: IntArray,
    right: IntArray,
    right_starts: IntArray,
    right_edges: IntArray,
    lefts: IntArray,
    order: IntArray,
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return where the links of each node begin; the node, edge and link back of each."""
    n_left, n_edges = len(starts) - 1, len(right)
    place = np.empty(len(order), dtype=np.int64)
    for p in range(len(order)):
        place[order[p]] = p
    link_starts = np.empty(len(order) + 1, dtype=np.int64)
    nodes = np.empty(2 * n_edges, dtype=np.int64)
    edges = np.empty(2 * n_edges, dtype=np.int64)
    twins = np.empty(2 * n_edges, dtype=np.int64)
    earlier = np.full(n_edges, -1, dtype=np.int64)
    k = 0
    for p in range(len(order)):
        link_starts[p] = k
        v = order[p]
        if v < n_left:
            for e in range(starts[v], starts[v + 1]):
                nodes[k], edges[k] = place[n_left + right[e]], e
                k += 1
        else:
            for h in range(right_starts[v - n_left], right_starts[v - n_left + 1]):
                nodes[k], edges[k] = place[lefts[h]], right_edges[h]
                k += 1
        for h in range(link_starts[p], k):
            other = earlier[edges[h]]
            earlier[edges[h]] = h
            if other >= 0:
                twins[h], twins[other] = other, h
    link_starts[len(order)] = k
    return link_starts, nodes, edges, twins


@njit(cache=True, nogil=True)
def _send(
    starts: IntArray,
    twins: IntArray,
    odds: FloatArray,
    is_log: bool,
    source: FloatArray,
    target: FloatArray,
    is_damped: bool,
) -> None:
    """Send ``A R_v`` below w along all links from w to v, from the links of v."""
    most = 0
    for v in range(len(starts) - 1):
        most = max(most, starts[v + 1] - starts[v])
    begun = np.empty(most)
    for v in range(len(starts) - 1):
        first, last = starts[v], starts[v + 1]
        total = 0.0 if is_log else 1.0
        for e in range(first, last):
            begun[e - first] = total
            total = plus(total, source[e], is_log)
        after = -np.inf if is_log else 0.0
        for e in range(last - 1, first - 1, -1):
            others = plus(begun[e - first], after, is_log)
            after = plus(after, source[e], is_log)
            back = twins[e]
            value = over(odds[back], others, is_log)
            if is_damped:
                value = _middle(value, target[back], is_log)
            target[back] = value


@njit(cache=True, nogil=True)
def pass_bounds(tree: Tree, odds: FloatArray, twins: IntArray) -> None:
    """Fill in what is known of every link, from its odds."""
    starts, links, is_log = tree.starts, tree.links, tree.is_log
    low, high, point = np.empty_like(odds), np.empty_like(odds), np.empty_like(odds)
    _send(starts, twins, odds, is_log, odds, low, False)
    _send(starts, twins, odds, is_log, low, high, False)
    for e in range(len(odds)):
        point[e] = _middle(low[e], high[e], is_log)
    for _ in range(_SWEEPS):
        _send(starts, twins, odds, is_log, point, point, True)
    for e in range(len(odds)):
        links[e, ODDS], links[e, LOW], links[e, HIGH] = odds[e], low[e], high[e]
        links[e, POINT] = min(max(point[e], low[e]), high[e])
