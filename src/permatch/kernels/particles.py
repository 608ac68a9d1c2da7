"""A particle filter over the draws of `nesting`, for weights that vary too much.

All particles take column after column together.  After column c a particle's promise is its
weight so far times what its free rows may still contribute, the bound of the rest.  When
the promises have become too unequal, particles are drawn anew in proportion to them; each
then carries the mean promise, less its own bound of the rest.  The mean of the final
weights is an unbiased estimate of Z / U, as without resampling.
"""

import math

import numpy as np
from numba import njit

from permatch.kernels.lanes import LANES, choose_rows, load, splat
from permatch.kernels.nesting import add_block, draw_head, make_scratch
from permatch.kernels.random import uniform
from permatch.kernels.simd import store


@njit(cache=True, nogil=True)
def run_filter(proposal, state, n_particles, sums):
    """Run one filter of `n_particles`, a multiple of `LANES`; add its end to the sums.

    Return how often particles were drawn anew.
    """
    n, k = proposal.tail.shape
    d = proposal.head_weights.shape[1]
    n_blocks = n_particles // LANES
    free = np.ones((n_blocks, n, LANES))
    rows = np.zeros((n_blocks, n, LANES), np.int64)
    logs = np.zeros((n_blocks, LANES))
    promises = np.empty((n_blocks, LANES))
    other_free = np.empty_like(free)
    other_rows = np.empty_like(rows)
    totals = np.empty((3, LANES))
    chosen = np.empty(LANES, np.int64)
    n_resampled = 0
    if d > 0:
        for b in range(n_blocks):
            for lane in range(LANES):
                draw_head(proposal, lane, free[b], state, rows[b])
    for col in range(n - d - k):
        for b in range(n_blocks):
            choose_rows(proposal.ratios, col, free[b], state, totals, chosen)
            for lane in range(LANES):
                row = chosen[lane]
                rows[b, d + col, lane] = row
                factor = totals[0, lane] * proposal.gains[col, row]
                logs[b, lane] += math.log(factor) if factor > 0.0 else -np.inf
            look_ahead(proposal.lookahead, col, free[b], logs[b], promises[b])
        if is_uneven(promises):
            mean = resample(promises, logs, free, rows, other_free, other_rows, state)
            free, other_free = other_free, free
            rows, other_rows = other_rows, rows
            n_resampled += 1
            if mean == -np.inf:
                break
    scratch = make_scratch(k)
    for b in range(n_blocks):
        for lane in range(LANES):
            place = n - k
            for row in range(n):
                if free[b, row, lane] > 0.0 and place < n:
                    rows[b, place, lane] = row
                    place += 1
        add_block(proposal, rows[b], logs[b], scratch, sums)
    sums.second[: n - k] = sums.cross[: n - k]
    return n_resampled


@njit(cache=True, nogil=True)
def look_ahead(lookahead, col, free, logs, promises):
    """Fill the promises of a block: log-weights plus the bounds of what is left."""
    rest = splat(0.0)
    for row in range(free.shape[0]):
        rest = rest + splat(lookahead[col, row]) * load(free, row * LANES)
    store(promises, 0, rest)
    for lane in range(LANES):
        promises[lane] += logs[lane]


@njit(cache=True, nogil=True)
def is_uneven(promises):
    """Return whether the effective number of particles is below one half."""
    largest = promises.max()
    if largest == -np.inf:
        return True
    total = 0.0
    square = 0.0
    for promise in promises.flat:
        weight = math.exp(promise - largest)
        total += weight
        square += weight * weight
    return total * total < 0.5 * promises.size * square


@njit(cache=True, nogil=True)
def resample(promises, logs, free, rows, other_free, other_rows, state):
    """Draw all particles anew by one uniform number; return the log of the mean promise.

    The new particles are in the `other` arrays, their log-weights in `logs`.
    """
    n_particles = promises.size
    n = free.shape[1]
    largest = promises.max()
    if largest == -np.inf:
        logs[:] = -np.inf
        other_free[:] = free
        other_rows[:] = rows
        return largest
    total = 0.0
    for promise in promises.flat:
        total += math.exp(promise - largest)
    mean = largest + math.log(total / n_particles)
    new_logs = np.empty(n_particles)
    step = total / n_particles
    position = uniform(state) * step
    reached = 0.0
    q = 0
    for p in range(n_particles):
        b, lane = p // LANES, p % LANES
        reached += math.exp(promises[b, lane] - largest)
        # Rounding must not leave the last places empty.
        while q < n_particles and (
            position < reached or (p == n_particles - 1 and promises[b, lane] > -np.inf)
        ):
            new_b, new_lane = q // LANES, q % LANES
            for row in range(n):
                other_free[new_b, row, new_lane] = free[b, row, lane]
                other_rows[new_b, row, new_lane] = rows[b, row, lane]
            new_logs[q] = mean - (promises[b, lane] - logs[b, lane])
            q += 1
            position += step
    while q < n_particles:  # the last particle was dead: repeat the one before
        new_b, new_lane = q // LANES, q % LANES
        old_b, old_lane = (q - 1) // LANES, (q - 1) % LANES
        for row in range(n):
            other_free[new_b, row, new_lane] = other_free[old_b, row, old_lane]
            other_rows[new_b, row, new_lane] = other_rows[old_b, row, old_lane]
        new_logs[q] = new_logs[q - 1]
        q += 1
    for p in range(n_particles):
        logs[p // LANES, p % LANES] = new_logs[p]
    return mean
