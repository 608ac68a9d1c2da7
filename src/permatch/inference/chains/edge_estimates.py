"""Estimates and their standard errors from chains on the edges of a problem.

Marginals are means of tallies over the states that count, with errors by batch means.  The
log-partition is the Bethe value plus the integral, over the logarithm of beta, of the
difference between the slopes of the chains and those of the Bethe value: small, smooth, and
next to nothing where links are rare.  It is integrated by a cubic spline; its distance from
the trapezoidal rule bounds what the spline may miss.
"""

from dataclasses import dataclass, fields, replace

import numpy as np

from permatch._types import BoolArray, FloatArray, IntArray
from permatch.inference.belief_propagation import beliefs
from permatch.inference.chains.diagnostics import effective_samples, split_r_hat
from permatch.inference.chains.edge_target import EdgeTarget
from permatch.inference.chains.report import FEWEST_SAMPLES, LARGEST_R_HAT
from permatch.kernels.edge_chain import ChainSums

# Of a few chains, the ratio of variances between and within them is noise up to this.
_LARGE_RATIO = 3.0
# The spline is at least so many times as close as the trapezoidal rule.
_GAIN = 4.0
# Components whose series are analysed at once.
_AT_ONCE = 1024
# Marginals nearer to 0 or 1 tell nothing about mixing.
_CERTAIN = 0.01
# Variances this far below the squares of the tallies themselves are rounding.
_ROUNDING = 1e-20


@dataclass(frozen=True, eq=False)
class Estimates:
    """What chains say of every component: of edges (n_edges,), and of components (n,).

    `log_partition` is relative to the scaled problem.
    """

    marginals: FloatArray
    errors: FloatArray
    log_partition: FloatArray
    log_errors: FloatArray
    r_hat: FloatArray
    energy_r_hat: FloatArray
    n_effective: FloatArray
    largest_errors: FloatArray
    exchange_rates: FloatArray
    n_sweeps: IntArray
    edge_starts: IntArray

    @property
    def is_mixed(self) -> BoolArray:
        """Which components have chains that agree."""
        return (
            (self.r_hat <= LARGEST_R_HAT)
            & (self.n_effective >= FEWEST_SAMPLES)
            & (self.log_errors != np.inf)
        )

    @property
    def worst_error(self) -> float:
        """The largest standard error of a marginal."""
        return float(self.largest_errors.max(initial=0.0))

    def meets(self, tol: float) -> BoolArray:
        """Return which components have mixed and have no larger error than `tol`."""
        return self.is_mixed & (self.largest_errors <= tol)

    def renewed(self, other: "Estimates", graphs: IntArray) -> "Estimates":
        """Return these estimates, with those of some components from another run."""
        is_new = np.zeros(len(self.r_hat), dtype=bool)
        is_new[graphs] = True
        is_edge = np.repeat(is_new, np.diff(self.edge_starts))
        changes = {}
        for one in fields(self):
            old, new = getattr(self, one.name), getattr(other, one.name)
            if one.name in ("marginals", "errors"):
                changes[one.name] = np.where(is_edge, new, old)
            elif one.name != "edge_starts":
                changes[one.name] = np.where(is_new, new, old)
        return replace(self, **changes)


def sum_up(target: EdgeTarget, outputs: list[ChainSums], n_sweeps: int) -> Estimates:
    """Return the estimates of a stage of `n_sweeps` sweeps."""
    edges = target.edges
    starts = edges.starts[edges.left_starts]
    n_graphs = len(starts) - 1
    of_edge = np.repeat(np.arange(n_graphs), np.diff(starts))
    marginals, errors, edge_r_hat, inflation = _marginals(outputs, of_edge, n_graphs)
    is_unseen = errors == np.inf
    if is_unseen.any():  # no state counted: the next best there is
        marginals[is_unseen] = beliefs(target.part.problem).marginals[is_unseen]
    r_hats, n_effective = _mixing(outputs)
    spreads = marginals * (1.0 - marginals)
    with np.errstate(divide="ignore", invalid="ignore"):
        counts = np.where(spreads > _CERTAIN, spreads / errors**2, np.inf)
    np.minimum.at(n_effective, of_edge, counts)
    n_effective = np.maximum(np.nan_to_num(n_effective, nan=0.0), 1e-3)
    r_hat = r_hats.copy()
    np.maximum.at(r_hat, of_edge, edge_r_hat)
    # What none of n draws showed has together a probability of about 1 / n.
    n_seen = np.minimum(n_effective, len(outputs) * n_sweeps / 4)
    errors = np.minimum(np.hypot(errors, 1.0 / n_seen[of_edge]), 1.0)
    largest = np.zeros(n_graphs)
    np.maximum.at(largest, of_edge, errors)
    log_partition, log_errors = _log_partition(target, outputs, n_sweeps, inflation)
    rates = np.mean([output.exchanges for output in outputs], axis=0) / n_sweeps
    return Estimates(
        marginals,
        errors,
        log_partition,
        log_errors,
        r_hat,
        r_hats,
        n_effective,
        largest,
        rates.min(axis=0, initial=1.0),
        np.full(n_graphs, n_sweeps),
        starts,
    )


def _marginals(
    outputs: list[ChainSums], of_edge: IntArray, n_graphs: int
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return marginals, errors by batch means, R-hat by edge, and inflation by component.

    If chains differ by more than the batches within them would have it, batches are too
    short to be independent; variances are then scaled up.
    """
    n_chains, n_batches = len(outputs), len(outputs[0].slopes)
    n = n_chains * n_batches
    counts = np.array([output.count_sums for output in outputs])  # (c, n_graphs, 2)
    count = counts[:, :, 0].sum(axis=0)
    safe = np.maximum(count, 1e-300)[of_edge]
    mean = sum(output.first for output in outputs) / safe
    total = sum(output.second for output in outputs)
    total = total - 2.0 * mean * sum(output.cross for output in outputs)
    total = np.maximum(total + mean**2 * counts[:, :, 1].sum(axis=0)[of_edge], 0.0)
    gaps = np.array([o.first - mean * o.count_sums[of_edge, 0] for o in outputs])
    between = (gaps**2).sum(axis=0) / n_batches
    inflation = np.ones(n_graphs)
    r_hat = np.ones(len(mean))
    if n_chains > 1 and n_batches > 1:
        within = np.maximum(total - between, 0.0) / (n_chains * (n_batches - 1))
        between = between / (n_chains - 1)
        noise = _ROUNDING * float(count.max(initial=1.0) / n) ** 2
        inflation = _inflation(between, within, of_edge, n_graphs, noise)
        # The variance of the means of chains beyond that of batches, next to that of a
        # single state.
        excess = np.maximum(between - within, 0.0) / n_batches
        scale = (safe / n) ** 2 * np.maximum(mean * (1.0 - mean), _CERTAIN)
        r_hat = np.sqrt(1.0 + excess / scale)
    per_batch = safe / n
    errors = np.sqrt(total / max(n - 1, 1) / n * inflation[of_edge]) / per_batch
    is_unseen = count[of_edge] == 0.0
    errors[is_unseen], r_hat[is_unseen] = np.inf, np.inf
    return np.clip(mean, 0.0, 1.0), errors, r_hat, inflation


def _inflation(
    between: FloatArray, within: FloatArray, of_edge: IntArray, n_graphs: int, noise: float
) -> FloatArray:
    """Return by what variances are scaled up: by the ratio of all, or by a larger own."""
    everything = within.sum()
    common = max(between.sum() / everything, 1.0) if everything > noise else 1.0
    own = np.bincount(of_edge, within, n_graphs)
    ratio = np.bincount(of_edge, between, n_graphs) / np.maximum(own, 1e-300)
    return np.where((ratio > _LARGE_RATIO) & (own > noise), ratio, common)


def _mixing(outputs: list[ChainSums]) -> tuple[FloatArray, FloatArray]:
    """Return R-hat and effective samples of the scores and the links of all components."""
    n_graphs = outputs[0].energies.shape[1]
    r_hat, n_effective = np.ones(n_graphs), np.full(n_graphs, np.inf)
    for first in range(0, n_graphs, _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        for name in ("energies", "links"):
            series = np.array([getattr(output, name)[:, some] for output in outputs])
            r_hat[some] = np.maximum(r_hat[some], split_r_hat(series))
            n_effective[some] = np.minimum(n_effective[some], effective_samples(series))
    return r_hat, n_effective


def _log_partition(
    target: EdgeTarget, outputs: list[ChainSums], n_sweeps: int, inflation: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return log-partitions relative to the scaled problem, and their standard errors."""
    from scipy.interpolate import CubicSpline  # takes long to load, and few need it

    betas = target.edges.betas
    n_graphs, n_rungs = betas.shape
    n_chains, n_batches = len(outputs), len(outputs[0].slopes)
    n = n_chains * n_batches
    if n_rungs == 1:
        return np.full(n_graphs, np.nan), np.full(n_graphs, np.nan)
    steps = -np.log(betas[:, -1]) / (n_rungs - 1)
    grid = np.arange(n_rungs, dtype=float)
    spline = CubicSpline(grid, np.eye(n_rungs)).integrate(0, n_rungs - 1)
    trapezoid = np.ones(n_rungs)
    trapezoid[[0, -1]] = 0.5
    lengths = np.diff(np.arange(n_batches + 1) * n_sweeps // n_batches)
    slopes = np.array([o.slopes for o in outputs]) / lengths[:, None, None]
    parts = steps * np.einsum("r,cbrg->cbg", spline, slopes).reshape(n, n_graphs)
    gaps = slopes.mean(axis=(0, 1)) - target.slopes
    value = target.offsets + target.values + steps * (spline @ gaps)
    missed = steps * ((spline - trapezoid) @ gaps) / _GAIN
    if n == 1:
        return value, np.full(n_graphs, np.inf)
    variance = parts.var(axis=0, ddof=1) / n * inflation
    # Only some states count where nodes must be matched.
    counts = np.array([output.count_sums for output in outputs]).sum(axis=0)
    shares = counts[:, 0] / (n_chains * n_sweeps)
    strict = target.edges.is_strict
    with np.errstate(divide="ignore", invalid="ignore"):
        value += np.where(strict, np.log(np.maximum(shares, 0.5 / n_sweeps)), 0.0)
        mean = counts[:, 0] / n
        spread = (counts[:, 1] / n - mean**2) / mean**2 / (n - 1) * inflation
    variance += np.where(strict, np.maximum(spread, 0.0), 0.0)
    log_errors = np.sqrt(variance + missed**2)
    return value, np.where(shares > 0.0, log_errors, np.inf)
