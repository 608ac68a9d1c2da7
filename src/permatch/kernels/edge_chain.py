"""Markov chains over matchings whose nodes may stay unmatched, on edges.

Weights are odds, w = exp(beta theta) beta at inverse temperature beta: the empty matching
has weight 1, and at beta = 0 there is no other.  A state holds the edge of every node, -1
for none.  A sweep costs a constant per edge:

    left     every left node in turn forgets its partner and draws one among the right nodes
             that are free, or none, from the exact conditional: it adds, removes or slides
    swap     every left node with a partner picks one of its edges; if another left node has
             that right node, the two exchange partners with the heat-bath probability
    right    as left, with the sides exchanged

Neighbouring rungs r, r + 1 exchange the states x, y of a component with probability
min(1, w_r(y) w_{r+1}(x) / w_r(x) w_{r+1}(y)).

Where some nodes must be matched, the chain is over all matchings and only those count in
which they are: the odds of their edges are set so that these are not rare.  Elsewhere every
pass adds to `tally` the probabilities that it draws from (Rao-Blackwell).
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from permatch._types import BoolArray, FloatArray, IntArray
from permatch.kernels.intrinsics import uniform


class ChainEdges(NamedTuple):
    """The edges of a problem whose graphs are connected, by both sides.

    The nodes of graph c are ``left_starts[c]:left_starts[c + 1]``, and likewise on the
    right. `theta` are log-odds, `betas` (n_graphs, R) and `weights` (R, n_edges) those of
    the rungs. `must_left`, `must_right`: which nodes must be matched; `is_strict`
    (n_graphs,): whether a graph has any.
    """

    starts: IntArray
    right: IntArray
    left: IntArray
    right_edge_starts: IntArray
    right_edges: IntArray
    left_starts: IntArray
    right_starts: IntArray
    theta: FloatArray
    betas: FloatArray
    weights: FloatArray
    must_left: BoolArray
    must_right: BoolArray
    is_strict: BoolArray


class ChainState(NamedTuple):
    """Where a chain stands: states (R, n_left), (R, n_right), and random numbers."""

    left_edge: IntArray
    right_edge: IntArray
    streams: np.ndarray


class ChainSums(NamedTuple):
    """What a chain leaves behind.

    `tally` and `counts` are those of the batch at hand; `first`, `second` and `cross` the
    sums over batches of tallies, their squares, and their products with counts;
    `count_sums` (n_graphs, 2) those of counts and their squares.  `slopes` (n_batches, R,
    n_graphs): sums of the derivative of the log-weight by log beta.  `energies`, `links`
    (n, n_graphs): records. `exchanges` (R - 1, n_graphs): sums of the chances of exchange.
    """

    tally: FloatArray
    counts: FloatArray
    first: FloatArray
    second: FloatArray
    cross: FloatArray
    count_sums: FloatArray
    slopes: FloatArray
    energies: FloatArray
    links: FloatArray
    exchanges: FloatArray


@njit(cache=True, nogil=True)
def run_graphs(edges, state, sums, n_sweeps, thin, periods, graphs, begin, end):
    """Make sweeps ``begin .. end - 1`` of `n_sweeps` in some graphs.

    All but the first rung of graph c are swept in one of ``periods[c]`` sweeps only.
    """
    n_batches = len(sums.slopes)
    n_rungs = edges.betas.shape[1]
    totals = np.zeros((n_rungs, 2))
    for c in graphs:
        rng = state.streams[c]
        batch = ((begin + 1) * n_batches - 1) // n_sweeps
        for r in range(n_rungs):
            _add_up(edges, state.left_edge[r], c, totals[r])
        for s in range(begin, end):
            for r in range(n_rungs):
                if r == 0 or s % periods[c] == 0:
                    is_tallied = r == 0 and not edges.is_strict[c]
                    sweep(edges, state, r, c, rng, sums.tally, is_tallied)
                    _add_up(edges, state.left_edge[r], c, totals[r])
                sums.slopes[batch, r, c] += edges.betas[c, r] * totals[r, 0] + totals[r, 1]
            if not edges.is_strict[c]:
                sums.counts[c] += 1.0
            elif is_complete(edges, state.left_edge[0], state.right_edge[0], c):
                sums.counts[c] += 1.0
                for i in range(edges.left_starts[c], edges.left_starts[c + 1]):
                    if state.left_edge[0, i] >= 0:
                        sums.tally[state.left_edge[0, i]] += 1.0
            if (s + 1) % thin == 0:
                sums.energies[(s + 1) // thin - 1, c] = totals[0, 0]
                sums.links[(s + 1) // thin - 1, c] = totals[0, 1]
            _exchange(edges, state, c, s % 2, rng, totals, sums.exchanges)
            if s + 1 == (batch + 1) * n_sweeps // n_batches:
                _end_batch(edges, sums, c)
                batch += 1


@njit(cache=True, nogil=True)
def sweep(edges, state, r, c, rng, tally, is_tallied):
    """Make one sweep of a rung in a graph."""
    weights, left_edge, right_edge = (
        edges.weights[r],
        state.left_edge[r],
        state.right_edge[r],
    )
    _left_pass(edges, weights, left_edge, right_edge, c, rng, tally, is_tallied)
    _swap_pass(edges, weights, left_edge, right_edge, c, rng)
    _right_pass(edges, weights, left_edge, right_edge, c, rng, tally, is_tallied)


@njit(cache=True, nogil=True)
def _left_pass(edges, weights, left_edge, right_edge, c, rng, tally, is_tallied):
    right = edges.right
    for i in range(edges.left_starts[c], edges.left_starts[c + 1]):
        if left_edge[i] >= 0:
            right_edge[right[left_edge[i]]] = -1
        first, last = edges.starts[i], edges.starts[i + 1]
        total = 1.0
        for e in range(first, last):
            if right_edge[right[e]] < 0:
                total += weights[e]
        target = uniform(rng) * total - 1.0
        chosen = -1
        if target >= 0.0:
            for e in range(first, last):
                if right_edge[right[e]] < 0 and weights[e] > 0.0:
                    chosen = e
                    target -= weights[e]
                    if target < 0.0:
                        break
        if is_tallied:
            scale = 0.5 / total
            for e in range(first, last):
                if right_edge[right[e]] < 0:
                    tally[e] += weights[e] * scale
        left_edge[i] = chosen
        if chosen >= 0:
            right_edge[right[chosen]] = chosen


@njit(cache=True, nogil=True)
def _right_pass(edges, weights, left_edge, right_edge, c, rng, tally, is_tallied):
    left = edges.left
    for j in range(edges.right_starts[c], edges.right_starts[c + 1]):
        if right_edge[j] >= 0:
            left_edge[left[right_edge[j]]] = -1
        first, last = edges.right_edge_starts[j], edges.right_edge_starts[j + 1]
        total = 1.0
        for at in range(first, last):
            e = edges.right_edges[at]
            if left_edge[left[e]] < 0:
                total += weights[e]
        target = uniform(rng) * total - 1.0
        chosen = -1
        if target >= 0.0:
            for at in range(first, last):
                e = edges.right_edges[at]
                if left_edge[left[e]] < 0 and weights[e] > 0.0:
                    chosen = e
                    target -= weights[e]
                    if target < 0.0:
                        break
        if is_tallied:
            scale = 0.5 / total
            for at in range(first, last):
                e = edges.right_edges[at]
                if left_edge[left[e]] < 0:
                    tally[e] += weights[e] * scale
        right_edge[j] = chosen
        if chosen >= 0:
            left_edge[left[chosen]] = chosen


@njit(cache=True, nogil=True)
def _swap_pass(edges, weights, left_edge, right_edge, c, rng):
    right = edges.right
    for i in range(edges.left_starts[c], edges.left_starts[c + 1]):
        own = left_edge[i]
        if own < 0:
            continue
        first = edges.starts[i]
        wanted = first + int(uniform(rng) * (edges.starts[i + 1] - first))
        theirs = right_edge[right[wanted]]
        if theirs < 0 or theirs == own:
            continue
        other = edges.left[theirs]
        back = _find(edges, other, right[own])
        if back < 0:
            continue
        gain = weights[wanted] * weights[back]
        loss = weights[own] * weights[theirs]
        if uniform(rng) * (gain + loss) < gain:
            left_edge[i] = wanted
            right_edge[right[wanted]] = wanted
            left_edge[other] = back
            right_edge[right[back]] = back


@njit(cache=True, nogil=True)
def _find(edges, i, j):
    """Return the edge from left node i to right node j, -1 if there is none."""
    low, high = edges.starts[i], edges.starts[i + 1]
    while low < high:
        middle = (low + high) // 2
        if edges.right[middle] < j:
            low = middle + 1
        else:
            high = middle
    return low if low < edges.starts[i + 1] and edges.right[low] == j else -1


@njit(cache=True, nogil=True)
def _add_up(edges, left_edge, c, totals):
    """Fill the sum of the log-odds of a matching, and the number of its edges."""
    total = 0.0
    n_links = 0
    for i in range(edges.left_starts[c], edges.left_starts[c + 1]):
        if left_edge[i] >= 0:
            total += edges.theta[left_edge[i]]
            n_links += 1
    totals[0] = total
    totals[1] = n_links


@njit(cache=True, nogil=True)
def is_complete(edges, left_edge, right_edge, c):
    """Return whether all nodes are matched that must be."""
    for i in range(edges.left_starts[c], edges.left_starts[c + 1]):
        if edges.must_left[i] and left_edge[i] < 0:
            return False
    for j in range(edges.right_starts[c], edges.right_starts[c + 1]):
        if edges.must_right[j] and right_edge[j] < 0:
            return False
    return True


@njit(cache=True, nogil=True)
def _exchange(edges, state, c, parity, rng, totals, exchanges):
    """Let neighbouring rungs exchange states, every other pair of them."""
    betas = edges.betas[c]
    for r in range(len(betas) - 1):
        gain = (betas[r] - betas[r + 1]) * (totals[r + 1, 0] - totals[r, 0])
        gain += math.log(betas[r] / betas[r + 1]) * (totals[r + 1, 1] - totals[r, 1])
        chance = math.exp(min(gain, 0.0))
        exchanges[r, c] += chance
        if r % 2 == parity and uniform(rng) < chance:
            for i in range(edges.left_starts[c], edges.left_starts[c + 1]):
                kept = state.left_edge[r, i]
                state.left_edge[r, i] = state.left_edge[r + 1, i]
                state.left_edge[r + 1, i] = kept
            for j in range(edges.right_starts[c], edges.right_starts[c + 1]):
                kept = state.right_edge[r, j]
                state.right_edge[r, j] = state.right_edge[r + 1, j]
                state.right_edge[r + 1, j] = kept
            for k in range(2):
                total = totals[r, k]
                totals[r, k] = totals[r + 1, k]
                totals[r + 1, k] = total


@njit(cache=True, nogil=True)
def _end_batch(edges, sums, c):
    """Add the tallies of a batch to the sums, and begin the next batch."""
    count = sums.counts[c]
    first = edges.starts[edges.left_starts[c]]
    for e in range(first, edges.starts[edges.left_starts[c + 1]]):
        tally = sums.tally[e]
        sums.first[e] += tally
        sums.second[e] += tally * tally
        sums.cross[e] += tally * count
        sums.tally[e] = 0.0
    sums.count_sums[c, 0] += count
    sums.count_sums[c, 1] += count * count
    sums.counts[c] = 0.0
