"""What else is made of the draws of `nesting`: particle filters, and exact samples.

A filter is for weights that vary too much.  All particles take column after column
together.  After column c a particle's promise is its weight so far times what its free rows
may still contribute, the bound of the rest.  When the promises have become too unequal,
particles are drawn anew in proportion to them; each then carries the mean promise, less its
own bound of the rest.  The mean of the final weights is an unbiased estimate of Z / U, as
without resampling.

A coin on the weight of a draw decides whether it is kept: what is kept is an exact sample
(`accept_chunk`).  `weigh_chunk` returns the weights alone.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from permatch._types import FloatArray, IntArray
from permatch.kernels.intrinsics import WIDTH, store, uniform
from permatch.kernels.nesting import (
    LANES,
    Proposal,
    add_block,
    choose_rows,
    draw_block,
    draw_head,
    fill_minor,
    load,
    make_scratch,
    splat,
)
from permatch.kernels.subset_dp import draw_minor, fill_minors


class Particles(NamedTuple):
    """All particles of a filter, in blocks of `LANES`.

    Those in ``free[now]`` and ``rows[now]``, with ``now = counts[0]``, are current;
    ``counts[1]`` says how often they were drawn anew.
    """

    free: FloatArray  # (2, n_blocks, n, LANES)
    rows: IntArray  # (2, n_blocks, n, LANES)
    logs: FloatArray  # (n_blocks, LANES)
    promises: FloatArray  # (n_blocks, LANES)
    counts: IntArray  # (2,)


def start_particles(proposal: Proposal, n_particles: int) -> Particles:
    """Return particles, a multiple of `LANES`, that have taken no column yet."""
    n_blocks = n_particles // LANES
    shape = (2, n_blocks, len(proposal.tail), LANES)
    return Particles(
        np.ones(shape),
        np.zeros(shape, np.int64),
        np.zeros((n_blocks, LANES)),
        np.empty((n_blocks, LANES)),
        np.zeros(2, np.int64),
    )


@njit(cache=True, nogil=True)
def take_heads(proposal, state, particles, first, last):
    """Let blocks ``first .. last - 1`` take the columns of the head."""
    if proposal.head_weights.shape[1] > 0:
        for b in range(first, last):
            for lane in range(LANES):
                draw_head(proposal, lane, particles.free[0, b], state, particles.rows[0, b])


@njit(cache=True, nogil=True)
def take_columns(proposal, state, particles, first, last):
    """Let blocks take the columns up to the tail: steps ``first .. last - 1``.

    Step s is that of block ``s % n_blocks`` at column ``s // n_blocks``.  Return whether
    there is nothing left to do, as no particle can be completed.
    """
    free, rows, logs, promises, counts = particles
    d = proposal.head_weights.shape[1]
    n_blocks = len(logs)
    totals = np.empty((3, LANES))
    chosen = np.empty(LANES, np.int64)
    for step in range(first, last):
        now = counts[0]
        col, b = step // n_blocks, step % n_blocks
        choose_rows(proposal.ratios, col, free[now, b], state, totals, chosen)
        for lane in range(LANES):
            row = chosen[lane]
            rows[now, b, d + col, lane] = row
            factor = totals[0, lane] * proposal.gains[col, row]
            logs[b, lane] += math.log(factor) if factor > 0.0 else -np.inf
        look_ahead(proposal.lookahead, col, free[now, b], logs[b], promises[b])
        if b == n_blocks - 1 and is_uneven(promises):
            other = 1 - now
            mean = resample(
                promises, logs, free[now], rows[now], free[other], rows[other], state
            )
            counts[0] = other
            counts[1] += 1
            if mean == -np.inf:
                return True
    return False


@njit(cache=True, nogil=True)
def add_particles(proposal, particles, sums, first, last):
    """Add the ends of blocks ``first .. last - 1`` to the sums."""
    n, k = proposal.tail.shape
    now = particles.counts[0]
    scratch = make_scratch(k)
    for b in range(first, last):
        free = particles.free[now, b]
        rows = particles.rows[now, b]
        for lane in range(LANES):
            place = n - k
            for row in range(n):
                if free[row, lane] > 0.0 and place < n:
                    rows[place, lane] = row
                    place += 1
        add_block(proposal, rows, particles.logs[b], scratch, sums)
    sums.second[: n - k] = sums.cross[: n - k]


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


@njit(cache=True, nogil=True)
def accept_chunk(proposal, state, n_draws, matchings):
    """Draw `n_draws` times and keep the draws whose coin, heads with probability X, agrees.

    Exact samples: ``matchings[s, c]`` (at least n_draws, n) is the row of column c, in the
    order drawn.  Return how many were kept.
    """
    n, k = proposal.tail.shape
    free = np.empty((n, LANES))
    rows = np.empty((n, LANES), np.int64)
    logs = np.empty(LANES)
    numbers = np.empty(k)
    cols = np.empty(k, np.int64)
    scratch = make_scratch(k)
    full = (1 << k) - 1
    n_kept = 0
    for _ in range(n_draws // LANES):
        draw_block(proposal, state, free, rows, logs)
        for first_lane in range(0, LANES, WIDTH):
            fill_minor(proposal, rows, first_lane, scratch.minor)
            fill_minors(scratch.minor, proposal.sets, scratch.forward)
            for q in range(WIDTH):
                lane = first_lane + q
                weight = math.exp(logs[lane]) * scratch.forward[full, q]
                if uniform(state) >= weight:
                    continue
                for r in range(k):
                    numbers[r] = uniform(state)
                draw_minor(scratch.minor, q, scratch.forward, numbers, cols)
                for c in range(n - k):
                    matchings[n_kept, c] = rows[c, lane]
                for r in range(k):
                    matchings[n_kept, n - k + cols[r]] = rows[n - k + r, lane]
                n_kept += 1
    return n_kept


@njit(cache=True, nogil=True)
def weigh_chunk(proposal, state, log_weights):
    """Fill `log_weights`, a multiple of `LANES` of them, with log X of draws."""
    n, k = proposal.tail.shape
    free = np.empty((n, LANES))
    rows = np.empty((n, LANES), np.int64)
    logs = np.empty(LANES)
    scratch = make_scratch(k)
    full = (1 << k) - 1
    for first in range(0, len(log_weights), LANES):
        draw_block(proposal, state, free, rows, logs)
        for first_lane in range(0, LANES, WIDTH):
            fill_minor(proposal, rows, first_lane, scratch.minor)
            fill_minors(scratch.minor, proposal.sets, scratch.forward)
            for q in range(WIDTH):
                permanent = scratch.forward[full, q]
                log_weights[first + first_lane + q] = logs[first_lane + q] + (
                    math.log(permanent) if permanent > 0.0 else -np.inf
                )
