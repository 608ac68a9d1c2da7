"""Sums over the weighted draws of `nesting`, from which estimates and their errors follow.

Weights are kept relative to a reference, the first one; it moves when one is much larger.
The last k columns of a draw enter by the marginals of its minor instead of a choice.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from permatch.kernels.lanes import LANES
from permatch.kernels.minors import fill_forward, fill_marginals
from permatch.kernels.nesting import draw_block, fill_minor, make_scratch
from permatch.kernels.simd import WIDTH

# The reference moves when a weight is so much larger, in logs.
_MOVE = 30.0


class Sums(NamedTuple):
    """Sums over draws of weights w = exp(log X - reference) and edge beliefs b.

    `totals`: reference, sum of w, sum of w^2, largest w, number of draws.  The others are
    (m, m), by column in the order drawn, then row: sums of w b, w^2 b and w^2 b^2.
    """

    totals: np.ndarray
    first: np.ndarray
    cross: np.ndarray
    second: np.ndarray


@njit(cache=True, nogil=True)
def add_block(proposal, rows, logs, scratch, sums):
    """Finish the draws of a block by the permanents of their minors; add them up."""
    n, k = proposal.tail.shape
    n_drawn = n - k
    full = (1 << k) - 1
    minor, flows, forward, backward = scratch
    for first_lane in range(0, LANES, WIDTH):
        fill_minor(proposal, rows, first_lane, minor)
        fill_forward(minor, proposal.sets, forward)
        fill_marginals(minor, proposal.sets, forward, backward, flows)
        for q in range(WIDTH):
            lane = first_lane + q
            permanent = forward[full, q]
            sums.totals[4] += 1.0
            if permanent == 0.0 or logs[lane] == -np.inf:
                continue
            weight = add_weight(sums, logs[lane] + math.log(permanent))
            square = weight * weight
            for c in range(n_drawn):
                row = rows[c, lane]
                sums.first[c, row] += weight
                sums.cross[c, row] += square
            for r in range(k):
                row = rows[n_drawn + r, lane]
                for j in range(k):
                    belief = flows[r, j, q] / permanent
                    sums.first[n_drawn + j, row] += weight * belief
                    sums.cross[n_drawn + j, row] += square * belief
                    sums.second[n_drawn + j, row] += square * belief * belief


@njit(cache=True, nogil=True)
def add_chunk(proposal, state, n_draws, sums):
    """Add `n_draws` draws, a multiple of `LANES`, to the sums."""
    n, k = proposal.tail.shape
    free = np.empty((n, LANES))
    rows = np.empty((n, LANES), np.int64)
    logs = np.empty(LANES)
    scratch = make_scratch(k)
    for _ in range(n_draws // LANES):
        draw_block(proposal, state, free, rows, logs)
        add_block(proposal, rows, logs, scratch, sums)
    sums.second[: n - k] = sums.cross[: n - k]  # a belief of 0 or 1 is its own square


@njit(cache=True, nogil=True)
def add_weight(sums, log_weight):
    """Count a draw's weight and return it, relative to the reference."""
    totals = sums.totals
    if totals[1] == 0.0:
        totals[0] = log_weight
    elif log_weight - totals[0] > _MOVE:
        factor = math.exp(totals[0] - log_weight)
        totals[0] = log_weight
        totals[1] *= factor
        totals[2] *= factor * factor
        totals[3] *= factor
        sums.first[:] *= factor
        sums.cross[:] *= factor * factor
        sums.second[:] *= factor * factor
    weight = math.exp(log_weight - totals[0])
    totals[1] += weight
    totals[2] += weight * weight
    totals[3] = max(totals[3], weight)
    return weight
