"""Estimates and their standard errors from what several chains of one graph saw."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from permatch._types import FloatArray
from permatch.inference.answer import InferenceResult
from permatch.inference.chains.diagnostics import effective_samples, split_r_hat
from permatch.inference.chains.ladder import Ladder
from permatch.inference.chains.report import chain_answer
from permatch.kernels.sliced import fill_regrets, reduce_and_match

_MOST_MONITORED = 256
# Of a few chains, the ratio of variances between and within them is noise up to this.
_LARGE_RATIO = 3.0


@dataclass(frozen=True, eq=False)
class ChainOutput:
    """What one chain leaves behind after a stage; see `kernels.swap_chain.run_chain`."""

    trace: NDArray[np.int16]
    energies: FloatArray
    batch_sum: FloatArray
    batch_squares: FloatArray
    stones_above: FloatArray
    stones_below: FloatArray
    moments: FloatArray
    exchanges: FloatArray
    move_rate: float


def sum_up(
    outputs: list[ChainOutput], ladder: Ladder, offset: float, n_sweeps: int
) -> InferenceResult:
    """Return the answer for a graph whose log-partition is `offset` above its ladder's."""
    marginals, errors, inflation = _marginals(outputs)
    log_partition, log_error = _log_partition(outputs, ladder, inflation)
    series = _monitored(outputs, marginals)
    r_hats = split_r_hat(series)
    n_effective = float(effective_samples(series).min())
    # Matchings that none of n draws showed have together a probability of about 1 / n; and
    # neighbouring sweeps are never quite independent, even if nothing monitored moves.
    n_seen = min(n_effective, len(outputs) * n_sweeps / 4)
    is_allowed = ladder.cold > -np.inf
    errors = np.where(is_allowed, np.hypot(errors, 1.0 / n_seen), 0.0)
    shortfall = _shortfall(outputs, ladder.cold, marginals, errors, n_seen)
    return chain_answer(
        offset + log_partition,
        log_error,
        marginals,
        errors,
        effective_samples=n_effective,
        r_hat=float(r_hats.max()),
        energy_r_hat=float(r_hats[0]),
        shortfall=shortfall,
        betas=ladder.betas,
        exchange_rates=np.mean([output.exchanges for output in outputs], axis=0),
        move_rate=float(np.mean([output.move_rate for output in outputs])),
        n_sweeps=n_sweeps,
        n_chains=len(outputs),
    )


def _marginals(outputs: list[ChainOutput]) -> tuple[FloatArray, FloatArray, float]:
    """Return marginals, standard errors by batch means, and what these were inflated by.

    If chains differ by more than the batches within them would have it, batches are too
    short to be independent; all variances are then scaled up by the mean ratio.
    """
    n_chains = len(outputs)
    n_batches = len(outputs[0].stones_above)
    n = n_chains * n_batches
    sums = np.array([output.batch_sum for output in outputs])
    squares = np.sum([output.batch_squares for output in outputs], axis=0)
    mean = sums.sum(axis=0) / n
    total = np.maximum(squares - n * mean**2, 0.0)
    inflation = 1.0
    if n_chains > 1 and n_batches > 1:
        between = n_batches * ((sums / n_batches - mean) ** 2).sum(axis=0)
        within = np.maximum(total - between, 0.0).sum() / (n_chains * (n_batches - 1))
        if within > 0.0:
            inflation = max(float(between.sum()) / (n_chains - 1) / within, 1.0)
    errors = np.sqrt(total / max(n - 1, 1) / n * inflation)
    return np.clip(mean, 0.0, 1.0), errors, inflation


def _log_partition(
    outputs: list[ChainOutput], ladder: Ladder, inflation: float
) -> tuple[float, float]:
    """Return the log-partition of the ladder by stepping stones, and its standard error."""
    if len(ladder.betas) == 1:
        return math.nan, math.nan
    above = np.array([output.stones_above for output in outputs])  # (c, b, R - 1)
    below = np.array([output.stones_below for output in outputs])
    tiny = np.finfo(float).tiny
    top = np.maximum(above.mean(axis=(0, 1)), tiny)
    bottom = np.maximum(below.mean(axis=(0, 1)), tiny)
    stones = np.log(top) - np.log(bottom) + ladder.centers
    value = math.lgamma(len(ladder.cold) + 1) + float(stones.sum())
    if top.min() == tiny or bottom.min() == tiny:
        return value, math.inf  # two neighbours have nothing in common
    # To first order, what each batch adds to the error of the whole sum.
    influence = (above / top - below / bottom).sum(axis=2)
    n_chains, n_batches = influence.shape
    n = n_chains * n_batches
    if n == 1:
        return value, math.inf
    if n_chains > 1 and n_batches > 1:
        within = float(influence.var(axis=1, ddof=1).mean())
        between = n_batches * float(influence.mean(axis=1).var(ddof=1))
        if between > _LARGE_RATIO * within > 0.0:
            inflation = max(inflation, between / within)
    return value, math.sqrt(float(influence.var(ddof=1)) / n * inflation)


def _shortfall(
    outputs: list[ChainOutput],
    cold: FloatArray,
    marginals: FloatArray,
    errors: FloatArray,
    n_seen: float,
) -> float:
    """Return how far a marginal falls short of what the matching seen most demands of it.

    An edge is at least as likely as the best matching that contains it, and how much
    likelier that one is than the matching seen most, the scores tell.  Chains that all stay
    around one matching, and never see others as good, break this law.  In standard errors
    of both sides; 0 if no edge falls short.
    """
    trace = np.concatenate([output.trace for output in outputs])
    energies = np.concatenate([output.energies for output in outputs])
    _, firsts, counts = np.unique(energies, return_index=True, return_counts=True)
    most = int(firsts[counts.argmax()])
    share = float((trace == trace[most]).all(axis=1).mean())
    reduced = np.empty_like(cold)
    best = np.empty(len(cold), dtype=np.int64)
    reduce_and_match(cold, reduced, best)
    regrets = np.empty_like(cold)
    fill_regrets(-reduced[:, best], regrets)
    # What the matching seen most loses itself; rounding may make that negative.
    loss = max(float(cold[np.arange(len(best)), best].sum() - energies[most]), 0.0)
    odds = np.empty_like(cold)
    # No odds demand more than certainty.
    odds[:, best] = np.exp(np.minimum(loss - regrets, -math.log(share)))
    own = odds * math.sqrt(share * (1.0 - share) / n_seen)
    gaps = odds * share - marginals
    is_short = gaps > 0.0
    return float((gaps[is_short] / np.hypot(errors, own)[is_short]).max(initial=0.0))


def _monitored(outputs: list[ChainOutput], marginals: FloatArray) -> FloatArray:
    """Return the score and the most uncertain edges over time, (c, n, 1 + k)."""
    size = len(marginals)
    doubt = (marginals * (1.0 - marginals)).ravel()
    edges = np.argsort(-doubt, kind="stable")[: min(size, _MOST_MONITORED)]
    rows, columns = np.divmod(edges, size)
    series = np.empty((len(outputs), len(outputs[0].energies), 1 + len(edges)))
    for c, output in enumerate(outputs):
        series[c, :, 0] = output.energies
        series[c, :, 1:] = output.trace[:, rows] == columns
    return series
