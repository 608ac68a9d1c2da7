"""Certain intervals from the tree of self-avoiding paths of a partial problem.

With the odds ``A_ij = exp(s_ij - u_i - v_j)`` of the edges, the probability that node i of
a graph G stays unmatched is (Godsil)

    R_i(G) = 1 / (1 + sum_j A_ij R_j(G - i)),        p(i, j) = A_ij R_i(G) R_j(G - i),

a recursion along self-avoiding paths.  It is cut where that matters little, with bounds
that hold, and interval arithmetic carries these up to the root.

**At a cut** below v, node w has lost v and perhaps other neighbours:

    R_w(G - path) >= 1 / (1 + sum_{x in N(w), x != v} A_wx)                    always,
    R_w(G - path) <= 1 / (1 + sum_{x in N(w), x != v} A_wx g_wx)    if only v is lost,

where g_wx is the first bound for x below w.  Both are known for each link (v, w) before
any path is walked (`kernels.path_links`), so a cut takes one look.  Whether w has lost
others is known from a count of the neighbours each node has on the path; if so, its
neighbours are gone through.

**Where to cut.**  A relative change of R_j moves R_i by ``p(i, j)`` times as much, hence
that of a node moves the root by the product of such probabilities along the path.  By the
estimates of belief propagation this tells what a cut adds to the width at the root; a
link is followed if that exceeds a threshold, which falls until the root is narrow enough.

**Rounding.**  All terms are positive.  Where every R_j is off by a factor of at most
``exp(d)``, R_i is off by at most ``exp(d + c)``, c for the roundings of one node; the
caller widens the intervals by ``depth * c``.  Where odds do not fit into a float64, all
values are logarithms (`is_log`); a sum then begins at log 1 = 0.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from permatch._types import BoolArray, FloatArray, IntArray
from permatch.kernels.path_links import HIGH, LOW, NODE, ODDS, POINT, Tree, over, plus

# Of a node on the path: the weight of its terms; its sums are LOW, HIGH and POINT.
_WEIGHT = 0
# The link that led there, and where its own pending links begin.
_LINK, _PENDING = range(2)
# A node on the path; smaller numbers count the neighbours a node has there.
_ON_PATH = 1 << 15
#: No path is longer, so that the counts fit.
MOST_DEPTH = 60_000
# A walk begins with a threshold of so much times a power of the tolerance: the smaller that
# is, the more cuts share it.  A threshold that was too high is lowered to so much of it,
# and by a power of the factor that the width is off.
_FIRST, _FIRST_POWER, _LOWER, _POWER = 0.4, 1.4, 0.8, 1.3
# Where so small a share does not do, the whole tree is walked.
_LEAST_SHARE, _EVERYTHING = 1e-9, -1.0
# A node with more neighbours to look at counts as several steps.
_LINKS_PER_STEP = 32


class Space(NamedTuple):
    """What a walk writes on; clean before and after."""

    state: NDArray[np.uint16]
    frames: IntArray
    values: FloatArray
    pending: IntArray
    terms: FloatArray
    counts: IntArray


@njit(cache=True, nogil=True)
def _gain(weight: float, low: float, high: float, is_log: bool) -> float:
    """Return weight * (high - low) as a plain number; weights are at most 1."""
    if is_log:
        return -math.exp(weight + high) * math.expm1(low - high) if high > low else 0.0
    return weight * high - weight * low


@njit(cache=True, nogil=True)
def _below(weight: float, point: float, odds: float, is_log: bool) -> float:
    """Return the weight of terms below w, from that of its own term, about `point`.

    It is a probability, so at most 1, also where estimates do not fit together.
    """
    if is_log:
        return min(weight + point, 0.0) + (point - odds)
    return min(weight * point, 1.0) * (point / odds)


# Arrays are handed to the functions below one by one: taking them out of a tuple each time
# costs more than the work.


@njit(cache=True, nogil=True)
def _cut(
    starts: IntArray,
    links: FloatArray,
    may_go: BoolArray,
    is_log: bool,
    state: NDArray[np.uint16],
    e: int,
    floor: int,
) -> tuple[float, float]:
    """Bound ``A R_w`` for a link to w, some of whose neighbours are out."""
    w = int(links[e, NODE])
    if may_go[w]:
        floor = 0
    low = high = 0.0 if is_log else 1.0
    for k in range(starts[w], starts[w + 1]):
        x = int(links[k, NODE])
        if x >= floor and state[x] < _ON_PATH:
            low = plus(low, links[k, LOW], is_log)
            high = plus(high, links[k, ODDS], is_log)
    odds = links[e, ODDS]
    return over(odds, high, is_log), over(odds, low, is_log)


@njit(cache=True, nogil=True)
def _enter(
    starts: IntArray,
    links: FloatArray,
    may_go: BoolArray,
    is_log: bool,
    state: NDArray[np.uint16],
    pending: IntArray,
    n_pending: int,
    w: int,
    sums: FloatArray,
    threshold: float,
    floor: int,
    counts: IntArray,
) -> int:
    """Sum over the links of a node that are cut; the others are added to the pending.

    `sums` has the weight of its terms; the sums are filled in.  The node is on the path,
    but not yet counted by its neighbours.  Returns the number of the pending.
    """
    weight = sums[_WEIGHT]
    low = high = point = 0.0 if is_log else 1.0
    # Neighbours of nodes that may go do not, but have lost some: bounds are not known yet.
    has_lost = floor > 0 and may_go[w]
    floor_here = 0 if may_go[w] else floor
    n_seen = starts[w + 1] - starts[w]
    for e in range(starts[w], starts[w + 1]):
        x = int(links[e, NODE])
        on_path = state[x]
        if x < floor_here or on_path >= _ON_PATH:
            continue
        one, other, about = links[e, LOW], links[e, HIGH], links[e, POINT]
        if on_path > 0 or has_lost:
            one, other = _cut(starts, links, may_go, is_log, state, e, floor)
            about = min(max(about, one), other)
            n_seen += starts[x + 1] - starts[x]
        gain = _gain(weight, one, other, is_log)
        if gain > threshold and other > one:
            pending[n_pending] = e
            n_pending += 1
        else:
            low = plus(low, one, is_log)
            high = plus(high, other, is_log)
            point = plus(point, about, is_log)
    sums[LOW], sums[HIGH], sums[POINT] = low, high, point
    counts[0] += 1 + n_seen // _LINKS_PER_STEP
    return n_pending


@njit(cache=True, nogil=True)
def _count(
    starts: IntArray, links: FloatArray, state: NDArray[np.uint16], w: int, is_on: bool
) -> None:
    """Let the neighbours of a node know that it is on the path, or no more."""
    for e in range(starts[w], starts[w + 1]):
        x = int(links[e, NODE])
        if is_on:
            state[x] += 1
        else:
            state[x] -= 1


@njit(cache=True, nogil=True)
def _descend(
    tree: Tree, space: Space, link: int, weight: float, threshold: float, floor: int
) -> tuple[float, float, float]:
    """Bound ``A R_w`` for a link to w by the paths below; `weight` is that of its terms.

    ``space.counts`` has the steps taken, the most allowed, and the greatest depth.
    """
    starts, links, may_go, is_log = tree.starts, tree.links, tree.may_go, tree.is_log
    state, frames, values = space.state, space.frames, space.values
    pending, counts = space.pending, space.counts
    depth = n_pending = 0
    frames[0, _LINK] = link
    values[0, _WEIGHT] = weight
    is_new = True
    while True:
        here = frames[depth, _LINK]
        w = int(links[here, NODE])
        if is_new:
            counts[2] = max(counts[2], depth)
            frames[depth, _PENDING] = n_pending
            state[w] += _ON_PATH
            is_last = counts[0] >= counts[1] or depth == len(frames) - 1
            n_pending = _enter(
                starts, links, may_go, is_log, state, pending, n_pending, w,
                values[depth], np.inf if is_last else threshold, floor, counts,
            )  # fmt: skip
            if n_pending > frames[depth, _PENDING]:
                _count(starts, links, state, w, True)
        if n_pending > frames[depth, _PENDING]:
            n_pending -= 1
            e = pending[n_pending]
            depth += 1
            frames[depth, _LINK] = e
            above = values[depth - 1, _WEIGHT]
            values[depth, _WEIGHT] = _below(above, links[e, POINT], links[e, ODDS], is_log)
            is_new = True
            continue
        if not is_new:
            _count(starts, links, state, w, False)
        state[w] -= _ON_PATH
        odds = links[here, ODDS]
        low = over(odds, values[depth, HIGH], is_log)
        high = over(odds, values[depth, LOW], is_log)
        point = over(odds, values[depth, POINT], is_log)
        if depth == 0:
            return low, high, point
        depth -= 1
        values[depth, LOW] = plus(values[depth, LOW], low, is_log)
        values[depth, HIGH] = plus(values[depth, HIGH], high, is_log)
        values[depth, POINT] = plus(values[depth, POINT], point, is_log)
        is_new = False


@njit(cache=True, nogil=True)
def _sum_terms(terms: FloatArray, column: int, is_log: bool) -> float:
    total = 0.0 if is_log else 1.0
    for k in range(len(terms)):
        total = plus(total, terms[k, column], is_log)
    return total


@njit(cache=True, nogil=True)
def _as_number(term: float, total: float, is_log: bool) -> float:
    """Return term / total as a plain number."""
    return math.exp(term - total) if is_log else term / total


@njit(cache=True, nogil=True)
def _fill_shares(terms: FloatArray, shares: FloatArray, is_log: bool) -> float:
    """Fill in the bounds of the edges of a root, (deg, 3); return the largest width."""
    widest = 0.0
    one = 0.0 if is_log else 1.0
    none = -np.inf if is_log else 0.0
    about = _sum_terms(terms, 2, is_log)
    # p_j = t_j / (t_j + others), the others at their other end.
    for column in range(2):
        total = one
        for k in range(len(terms)):
            shares[k, column] = total
            total = plus(total, terms[k, 1 - column], is_log)
        after = none
        for k in range(len(terms) - 1, -1, -1):
            total = plus(plus(shares[k, column], after, is_log), terms[k, column], is_log)
            after = plus(after, terms[k, 1 - column], is_log)
            shares[k, column] = _as_number(terms[k, column], total, is_log)
    for k in range(len(terms)):
        shares[k, 2] = _as_number(terms[k, 2], about, is_log)
        widest = max(widest, shares[k, 1] - shares[k, 0])
    return widest


@njit(cache=True, nogil=True)
def _start(
    tree: Tree, state: NDArray[np.uint16], root: int, floor: int, terms: FloatArray
) -> None:
    """Fill in what is known of the links of a root before any is followed."""
    for k in range(len(terms)):
        e = tree.starts[root] + k
        if floor > 0:
            terms[k, 0], terms[k, 1] = _cut(
                tree.starts, tree.links, tree.may_go, tree.is_log, state, e, floor
            )
        else:
            terms[k, 0], terms[k, 1] = tree.links[e, LOW], tree.links[e, HIGH]
        terms[k, 2] = min(max(tree.links[e, POINT], terms[k, 0]), terms[k, 1])


@njit(cache=True, nogil=True)
def _walk(
    tree: Tree, space: Space, root: int, floor: int, threshold: float, terms: FloatArray
) -> None:
    """Follow the links of a root that add more than `threshold` to its relative width."""
    links, is_log = tree.links, tree.is_log
    one = 0.0 if is_log else 1.0
    weight = over(one, _sum_terms(terms, 2, is_log), is_log)
    _count(tree.starts, links, space.state, root, True)
    for k in range(len(terms)):
        gain = _gain(weight, terms[k, 0], terms[k, 1], is_log)
        if gain <= threshold or space.counts[0] >= space.counts[1]:
            continue
        if terms[k, 1] <= terms[k, 0]:
            continue
        e = tree.starts[root] + k
        below = _below(weight, links[e, POINT], links[e, ODDS], is_log)
        low, high, about = _descend(tree, space, e, below, threshold, floor)
        terms[k, 0] = max(terms[k, 0], low)
        terms[k, 1] = min(terms[k, 1], high)
        terms[k, 2] = min(max(about, terms[k, 0]), terms[k, 1])
    _count(tree.starts, links, space.state, root, False)


@njit(cache=True, nogil=True)
def _bound_root(
    tree: Tree,
    space: Space,
    root: int,
    is_ordered: bool,
    tol: float,
    shares: FloatArray,
    totals: FloatArray,
) -> float:
    """Refine a root until its width is at most `tol`; return the width.

    Fills in the bounds of its edges and of log 1 / R.  Where nodes are taken out in order,
    the width is that of log R, otherwise the largest of R and of its edges.
    """
    is_log = tree.is_log
    floor = root if is_ordered else 0
    terms = space.terms[: tree.starts[root + 1] - tree.starts[root]]
    space.state[root] += _ON_PATH
    _start(tree, space.state, root, floor, terms)
    threshold = 0.0
    while True:
        for column in range(3):
            total = _sum_terms(terms, column, is_log)
            totals[column] = total if is_log else math.log(total)
        width = totals[1] - totals[0]
        if not is_ordered:
            width = math.exp(-totals[0]) - math.exp(-totals[1])
            width = max(width, _fill_shares(terms, shares, is_log))
        if width <= tol or space.counts[0] >= space.counts[1]:
            break
        if threshold == _EVERYTHING:
            break
        if threshold == 0.0:
            threshold = _FIRST * tol**_FIRST_POWER
        else:
            threshold *= min(0.5, _LOWER * (tol / width) ** _POWER)
        if threshold <= _LEAST_SHARE * tol:  # estimates have misled
            threshold = _EVERYTHING
        _walk(tree, space, root, floor, threshold, terms)
    space.state[root] -= _ON_PATH
    return width


@njit(cache=True, nogil=True)
def bound_roots(
    tree: Tree,
    space: Space,
    roots: IntArray,
    is_ordered: bool,
    tol: float,
    max_steps: int,
    shares: FloatArray,
    totals: FloatArray,
    widths: FloatArray,
    counts: IntArray,
) -> None:
    """Bound some nodes and their edges.

    Fills in, for these nodes: bounds and an estimate of the probability of every link,
    `shares` (n_links, 3), and of -log R, `totals` (n_nodes, 3); the width reached; and
    `counts` (n_nodes, 2), the steps taken and the longest path.
    """
    for root in roots:
        space.counts[0], space.counts[1], space.counts[2] = 0, max_steps, 0
        own = shares[tree.starts[root] : tree.starts[root + 1]]
        widths[root] = _bound_root(tree, space, root, is_ordered, tol, own, totals[root])
        counts[root, 0], counts[root, 1] = space.counts[0], space.counts[2]
