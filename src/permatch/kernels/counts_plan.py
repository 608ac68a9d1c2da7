"""How the frontier walks components whose nodes may have several links.

A state says of every open node how many links it has: a digit of a number in mixed radix,
with c + 1 values for a node of capacity c.  Of a node whose capacity is its number of edges
only matters whether it has a link: two values, of which the second absorbs.  A node with a
single edge has no digit.  Nodes of one side are walked, in an order of `frontier_order`,
and the walked node has a digit too while its edges are taken.

A walk is a list of operations on the table of states:

    OPEN   a digit is put on top of the others
    LINK   an edge is used or not:  new[x] = keep old[x] + link old[x - the two digits]
    CLOSE  a digit is summed out, where 0 has the weight of staying unmatched

with these columns: what it does, the edge or node, the entries of the table before it, two
digits (the higher one first) as stride, radix and whether it absorbs, and the walked and
the other node.  A LINK names a node only if that has no other edge, and no digit; the
stride of a digit that is not there ends the range it would divide.
"""

import numpy as np
from numba import njit

from permatch.kernels.frontier_order import (
    AS_NUMBERED,
    FAR_OUT,
    MOST_OPEN,
    close_all,
    try_order,
)

OPEN, LINK, CLOSE = range(3)
#: Columns of operations.
KIND, ITEM, SIZE, HIGH, HIGH_RADIX, HIGH_FULL, LOW, LOW_RADIX, LOW_FULL, OWN, OTHER = range(
    11
)
N_COLUMNS = 11
# Entries per edge of a walk that is good enough, and edges looked at for a better one.
_ENOUGH, _MOST_EDGES = 256.0, 1 << 16
# Least cost of an operation, in entries.
_LEAST = 16.0


@njit(cache=True, nogil=True)
def _line_up(i, starts, ends, other_starts, rest, line):
    """Fill the edges of node i: first those that close a node, last those that open one."""
    n = 0
    for turn in range(3):
        for at in range(starts[i], starts[i + 1]):
            j = ends[at]
            degree = other_starts[j + 1] - other_starts[j]
            own = 2 if rest[j] == degree else 1
            if rest[j] == 1:
                own = 0
            if own == turn:
                line[n] = at
                n += 1
    return n


@njit(cache=True, nogil=True)
def _cost_of(order, side, own_bits, other_bits, line, limit):
    """Return the cost of an order and log2 of its largest table, given those of radices.

    The cost is infinite if above `limit`.
    """
    starts, ends, other_starts, _, rest = side[:5]
    cost = 0.0
    widest = 0.0
    n_open = 0.0
    for i in order:
        bits = n_open + own_bits[i]
        for k in range(_line_up(i, starts, ends, other_starts, rest, line)):
            j = ends[line[k]]
            if rest[j] == other_starts[j + 1] - other_starts[j]:
                bits += other_bits[j]
            rest[j] -= 1
            cost += max(2.0**bits, _LEAST)
            widest = max(widest, bits)
            if rest[j] == 0 and other_bits[j] > 0.0:
                cost += max(2.0**bits, _LEAST)
                bits -= other_bits[j]
        cost += max(2.0**bits, _LEAST)
        n_open = bits - own_bits[i]
        if widest > MOST_OPEN or cost >= limit:
            cost = np.inf
            break
    close_all(order, starts, ends, rest)
    return cost, widest


@njit(cache=True, nogil=True)
def _choose(left, right, own, other, left_bits, right_bits, line):
    """Return cost and width of the walk to take, whether of right nodes, and its order."""
    n_edges = 0
    for i in own:
        n_edges += left[0][i + 1] - left[0][i]
    n_starts = 4 + min(2 * max(len(own), len(other)), _MOST_EDGES // n_edges)
    cost, width = np.inf, np.inf
    is_right = False
    best = own.copy()
    for trial in range(n_starts):
        if cost <= _ENOUGH * max(trial - 3, 1) * n_edges:
            break
        walks_right = trial % 2 == 1
        nodes = other if walks_right else own
        first = AS_NUMBERED if trial < 2 else FAR_OUT
        if trial >= 4:
            first = nodes[trial // 2 * 7919 % len(nodes)]
        order = np.empty(len(nodes), np.int64)
        if walks_right:
            found, n_open = try_order(right, nodes, order, first, np.inf, MOST_OPEN)
        else:
            found, n_open = try_order(left, nodes, order, first, np.inf, MOST_OPEN)
        bits = float(n_open)
        if found < np.inf and walks_right:
            found, bits = _cost_of(order, right, right_bits, left_bits, line, cost)
        elif found < np.inf:
            found, bits = _cost_of(order, left, left_bits, right_bits, line, cost)
        if found < cost:
            cost, width, is_right, best = found, bits, walks_right, order
        elif cost == np.inf:
            width = min(width, bits)
    return cost, width, is_right, best


@njit(cache=True, nogil=True)
def cut_ops(ops, start, stop, most_kept):
    """Return where parts of a walk begin and the last ends, and the entries it needs.

    The tables of one part at a time are kept, and the first of every other; there is one
    part unless all tables have more than `most_kept` entries.
    """
    n_ops = stop - start
    total = 0.0
    largest = 1
    for t in range(start, stop):
        total += ops[t, SIZE]
        largest = max(largest, ops[t, SIZE])
    most = total + 1.0
    if total > most_kept:
        most = max(total / np.sqrt(n_ops), 2.0 * largest)
    ends = np.zeros(n_ops + 1, np.int64)
    n_parts = 0
    kept = part = longest = 0.0
    for t in range(start, stop):
        if part + ops[t, SIZE] > most:
            n_parts += 1
            ends[n_parts] = t - start
            kept += ops[t, SIZE]
            part = 0.0
        part += ops[t, SIZE]
        longest = max(longest, part)
    ends[n_parts + 1] = n_ops
    # The last table of a part, and two more on the way back.
    return ends[: n_parts + 2], kept + longest + 3.0 * largest


@njit(cache=True, nogil=True)
def _close(op, node, stride, radix, full, size, is_other):
    """Write the closing of a digit."""
    op[KIND] = CLOSE
    op[ITEM] = node
    op[SIZE] = size
    op[HIGH], op[HIGH_RADIX], op[HIGH_FULL] = stride, radix, full
    op[LOW], op[LOW_RADIX], op[LOW_FULL] = stride, 1, 0
    op[OWN], op[OTHER] = (-1, node) if is_other else (node, -1)
    return size // radix


@njit(cache=True, nogil=True)
def _open(op, node, radix, size):
    """Write the opening of a digit on top."""
    op[:] = 0
    op[KIND], op[ITEM], op[SIZE], op[HIGH], op[HIGH_RADIX] = OPEN, node, size, size, radix
    return size * radix


@njit(cache=True, nogil=True)
def _link(op, edge, size, stride, radix, full, other_stride, other_radix, other_full):
    """Write the taking of an edge; digits of radix 1 are not there."""
    op[KIND], op[ITEM], op[SIZE] = LINK, edge, size
    if stride < other_stride:
        stride, other_stride = other_stride, stride
        radix, other_radix = other_radix, radix
        full, other_full = other_full, full
    if radix == 1:
        stride = size
    if other_radix == 1:
        other_stride, other_full = stride, 0
    op[HIGH], op[HIGH_RADIX], op[HIGH_FULL] = stride, radix, full
    op[LOW], op[LOW_RADIX], op[LOW_FULL] = other_stride, other_radix, other_full


@njit(cache=True, nogil=True)
def _emit(order, side, edges, own_digits, other_digits, line, strides, ops, n_ops):
    """Write down the walk of an order after `n_ops` operations; return how many then."""
    starts, ends, other_starts, _, rest = side[:5]
    opened = np.empty(MOST_OPEN + 1, np.int64)
    n_open = 0
    size = 1
    for i in order:
        radix, full = own_digits[i, 0], own_digits[i, 1]
        stride = 0
        if radix > 1:
            stride = size
            size = _open(ops[n_ops], i, radix, size)
            n_ops += 1
        for k in range(_line_up(i, starts, ends, other_starts, rest, line)):
            j = ends[line[k]]
            degree = other_starts[j + 1] - other_starts[j]
            other_radix, other_full = other_digits[j, 0], other_digits[j, 1]
            strides[j] = 0 if degree == 1 else strides[j]
            if other_radix > 1 and rest[j] == degree:
                strides[j] = size
                size = _open(ops[n_ops], j, other_radix, size)
                n_ops += 1
                opened[n_open] = j
                n_open += 1
            rest[j] -= 1
            _link(ops[n_ops], edges[line[k]], size, stride, radix, full, strides[j],
                other_radix, other_full)  # fmt: skip
            ops[n_ops, OWN] = i if radix == 1 else -1
            ops[n_ops, OTHER] = j if other_radix == 1 else -1
            n_ops += 1
            if rest[j] == 0 and other_radix > 1:
                size = _close(
                    ops[n_ops], j, strides[j], other_radix, other_full, size, True
                )
                n_ops += 1
                stride //= other_radix if stride > strides[j] else 1
                n_left = 0
                for at in range(n_open):
                    if opened[at] == j:
                        continue
                    opened[n_left] = opened[at]
                    if strides[opened[at]] > strides[j]:
                        strides[opened[at]] //= other_radix
                    n_left += 1
                n_open = n_left
        if radix > 1:
            size = _close(ops[n_ops], i, stride, radix, full, size, False)
            n_ops += 1
            for at in range(n_open):
                if strides[opened[at]] > stride:
                    strides[opened[at]] //= radix
    close_all(order, starts, ends, rest)
    return n_ops


@njit(cache=True, nogil=True)
def plan_counts(
    left, right, left_nodes, left_starts, right_nodes, right_starts, edges, digits, most,
    most_kept, ops, op_starts, width, log2_cost, log2_bytes, walks_right,
):  # fmt: skip
    """Plan every component; return the number of operations.

    `left` and `right` are the sides as `try_order` takes them, `edges` the edges in the
    order of either, `digits` the radix of every node of either and whether it absorbs,
    `most` the longest list of edges of a node; `most_kept` see `cut_ops`.
    """
    line = np.empty(most, np.int64)
    bits = (np.log2(digits[0][:, 0]), np.log2(digits[1][:, 0]))
    strides = np.zeros(max(len(bits[0]), len(bits[1])), np.int64)
    n_ops = 0
    for c in range(len(width)):
        op_starts[c] = n_ops
        own = left_nodes[left_starts[c] : left_starts[c + 1]]
        other = right_nodes[right_starts[c] : right_starts[c + 1]]
        cost, width[c], walks_right[c], order = _choose(
            left, right, own, other, bits[0], bits[1], line
        )
        log2_cost[c] = np.log2(cost)
        log2_bytes[c] = np.inf
        if cost == np.inf:
            continue
        if walks_right[c]:
            n_ops = _emit(order, right, edges[1], digits[1], digits[0], line, strides, ops,
                n_ops)  # fmt: skip
        else:
            n_ops = _emit(order, left, edges[0], digits[0], digits[1], line, strides, ops,
                n_ops)  # fmt: skip
        _, n_kept = cut_ops(ops, op_starts[c], n_ops, most_kept)
        log2_bytes[c] = 3.0 + np.log2(n_kept)
    op_starts[len(width)] = n_ops
    return n_ops
