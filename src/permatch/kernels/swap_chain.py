"""Parallel tempering over perfect matchings: one chain of states, one state per rung.

Rung 0 samples the target.  The others sample ``exp(beta_r * soft)``, where `soft` are the
scores cut off from below: no edge is quite forbidden there, so that every matching can be
reached from every other.  The last rung, if there is more than one, has ``beta = 0``:
uniform matchings, drawn afresh, whose number m! is known.

With ``L_r(y)`` the log-ratio of the unnormalised densities of rungs r and r + 1,

    exchange of the states x, y of rungs r, r + 1:   min(1, exp(L_r(y) - L_r(x)))
    stepping stone between them:
        Z_r / Z_{r+1} = E_{r+1} exp(L_r / 2) / E_r exp(-L_r / 2)

The second line uses the samples on both sides (the bridge by the geometric mean of the two
densities); the product of all stones leads from m! to the permanent.
"""

import math

import numpy as np
from numba import njit

from permatch.kernels.chain_moves import block_pass, sequential_pass, shuffle, swap_pass
from permatch.kernels.intrinsics import uniform

_LARGEST_EXPONENT = 600.0


@njit(cache=True, nogil=True)
def run_chain(
    cold,
    soft,
    betas,
    centers,
    states,
    periods,
    block_size,
    n_sweeps,
    thin,
    rng,
    trace,
    energies,
    batch_sum,
    batch_squares,
    stones_above,
    stones_below,
    rung_moments,
    exchanges,
    rows,
    tally,
    counts,
    first,
    last,
):
    """Make sweeps ``first .. last - 1`` of `n_sweeps`, moving `states` (R, m).

    `periods` (3,) says in which sweeps the passes of swaps, blocks and sequential choices
    are made: 1 in all, 4 in every fourth, 0 in none.

    Filled: `trace` (n, m) and `energies` (n,), the state of rung 0 and its score after
    every `thin` sweeps; the sum and the sum of squares (m, m) of the mean tallies of
    `n_batches` batches; the mean stones (n_batches, R - 1) from above and below, each
    relative to ``exp(centers / 2)``; `rung_moments` (R, 2), mean and mean square of the
    soft scores; `exchanges` (R - 1), mean chance of exchange; `counts` (5,), of rung 0's
    moves made, moves tried and passes, then the batch and the passes before it.  All, and
    the `tally` (m, m) of the batch, are zero before the first sweep and right after the
    last.  `rows`, all of them, are shuffled from sweep to sweep.
    """
    n_rungs, m = states.shape
    n_batches = len(stones_above)
    above = np.empty(n_rungs)
    below = np.empty(n_rungs)
    nothing = np.zeros(0, np.int64)
    for s in range(first, last):
        batch = counts[3]
        sweep(cold, 1.0, states[0], rows, s, periods, block_size, rng, tally, counts)
        for r in range(1, n_rungs):
            if betas[r] == 0.0:
                shuffle(states[r], rng)
            else:
                sweep(
                    soft,
                    betas[r],
                    states[r],
                    rows,
                    s,
                    periods,
                    block_size,
                    rng,
                    tally,
                    nothing,
                )
        for r in range(n_rungs):
            value = total_score(soft, states[r])
            rung_moments[r, 0] += value
            rung_moments[r, 1] += value * value
            # seen from its own rung and from the colder one
            if r + 1 < n_rungs:
                below[r] = (betas[r] - betas[r + 1]) * value
            if r > 1:
                above[r - 1] = (betas[r - 1] - betas[r]) * value
        energy = total_score(cold, states[0])
        if n_rungs > 1:
            below[0] = energy - betas[1] * total_score(soft, states[0])
            above[0] = total_score(cold, states[1]) - betas[1] * total_score(
                soft, states[1]
            )
        if (s + 1) % thin == 0:
            record = (s + 1) // thin - 1
            energies[record] = energy
            for i in range(m):
                trace[record, i] = states[0, i]
        for r in range(n_rungs - 1):
            stones_above[batch, r] += half_exp(above[r] - centers[r])
            stones_below[batch, r] += half_exp(centers[r] - below[r])
            chance = math.exp(min(above[r] - below[r], 0.0))
            exchanges[r] += chance
            if r % 2 == s % 2 and uniform(rng) < chance:
                for i in range(m):
                    kept = states[r, i]
                    states[r, i] = states[r + 1, i]
                    states[r + 1, i] = kept
        if s + 1 == (batch + 1) * n_sweeps // n_batches:
            length = s + 1 - batch * n_sweeps // n_batches
            stones_above[batch] /= length
            stones_below[batch] /= length
            end_batch(tally, counts, batch_sum, batch_squares)
    if last == n_sweeps:
        rung_moments /= n_sweeps
        exchanges /= n_sweeps


@njit(cache=True, nogil=True)
def end_batch(tally, counts, batch_sum, batch_squares):
    """Add the mean tally of a batch to the sums, and begin the next batch."""
    m = len(tally)
    n_passes = max(counts[2] - counts[4], 1)
    for i in range(m):
        for j in range(m):
            mean = tally[i, j] / n_passes
            batch_sum[i, j] += mean
            batch_squares[i, j] += mean * mean
            tally[i, j] = 0.0
    counts[3] += 1
    counts[4] = counts[2]


@njit(cache=True, nogil=True)
def sweep(scores, beta, matching, rows, s, periods, block_size, rng, tally, counts):
    """Make the passes of sweep number `s`.

    For rung 0 `counts` gains the moves made, the moves tried and the passes; for the
    others it is empty, and nothing is tallied.
    """
    m = len(matching)
    is_cold = len(counts) > 0
    n_moved = 0
    n_tried = 0
    n_passes = 0
    if periods[0] and s % periods[0] == 0:
        n_moved += swap_pass(scores, beta, matching, rows, rng, tally, is_cold)
        n_moved += swap_pass(scores, beta, matching, rows, rng, tally, is_cold)
        n_tried += 2 * (m // 2)
        n_passes += 2
    if periods[1] and s % periods[1] == 0:
        n_moved += block_pass(scores, beta, matching, rows, block_size, rng, tally, is_cold)
        n_tried += m
        n_passes += 1
    if periods[2] and s % periods[2] == 0:
        n_moved += sequential_pass(
            scores, beta, matching, rows, block_size, rng, tally, is_cold
        )
        n_tried += (m + block_size - 1) // block_size
        n_passes += 1
    if is_cold:
        counts[0] += n_moved
        counts[1] += n_tried
        counts[2] += n_passes


@njit(cache=True, nogil=True)
def total_score(scores, matching):
    """Return the score of a matching."""
    value = 0.0
    for i in range(len(matching)):
        value += scores[i, matching[i]]
    return value


@njit(cache=True, nogil=True)
def half_exp(exponent):
    """Return exp(exponent / 2), held back from overflow."""
    return math.exp(min(0.5 * exponent, _LARGEST_EXPONENT))
