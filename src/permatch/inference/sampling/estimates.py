"""From weighted draws to log-partition, marginals and their standard errors."""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from permatch._types import FloatArray
from permatch.inference.answer import Diagnostics, InferenceResult
from permatch.inference.sampling.proposals import Plan
from permatch.kernels.nesting import Sums

# Fewer effective draws, or filters, or draws of all filters, are not to be trusted, ...
_FEWEST_EFFECTIVE, _FEWEST_FILTERS, _FEWEST_PARTICLES = 100.0, 5.0, 1000
# ... nor those of which one draw, or one filter, weighs more than this.
_LARGEST_SHARE, _LARGEST_SHARE_OF_FILTER = 0.05, 0.25


def _estimate(
    log_partition: float,
    log_partition_error: float,
    marginals: FloatArray,
    marginal_errors: FloatArray,
    n_draws: int,
    effective: float,
    figures: dict[str, float],
) -> InferenceResult:
    """Return an estimate with its standard errors, from so many (effective) draws.

    The figures: ``relative_variance``, of a draw's weight over its squared mean;
    ``largest_share`` of a draw, or filter, in the sum of weights; ``effective_filters``, as
    many filters of equal weights would tell as much, infinite for plain draws.
    """
    told = Diagnostics(
        "nesting",
        "asked for",
        len(marginals),
        certificate="asymptotic",
        n_samples=n_draws,
        effective_samples=effective,
        figures=figures,
    )
    return InferenceResult(
        log_partition, marginals, False, told, log_partition_error, marginal_errors
    )


def effective_draws(estimate: InferenceResult) -> float:
    """Return how many independent draws would tell as much."""
    return estimate.diagnostics.effective_samples or 0.0


def empty_sums(size: int) -> Sums:
    """Return sums over no draws."""
    return Sums(np.zeros(5), *(np.zeros((size, size)) for _ in range(3)))


def add_sums(parts: Iterable[Sums], size: int) -> Sums:
    """Return the sum of sums, added in their order."""
    whole = empty_sums(size)
    reference, total, square, largest, n_draws = whole.totals.tolist()
    first, cross, second = whole.first, whole.cross, whole.second
    for part in parts:
        other, part_total, part_square, part_largest, part_draws = part.totals.tolist()
        n_draws += part_draws
        if part_total == 0.0:
            continue
        if total == 0.0:
            reference = other
        old = math.exp(min(0.0, reference - other))
        new = math.exp(min(0.0, other - reference))
        reference = max(reference, other)
        total = total * old + part_total * new
        square = square * old**2 + part_square * new**2
        largest = max(largest * old, part_largest * new)
        first = first * old + part.first * new
        cross = cross * old**2 + part.cross * new**2
        second = second * old**2 + part.second * new**2
    return Sums(
        np.array([reference, total, square, largest, n_draws]), first, cross, second
    )


def log_mean(sums: Sums) -> float:
    """Return the log of the mean weight; ``-inf`` if all weights are 0."""
    reference, total, _, _, n_draws = sums.totals.tolist()
    return reference + math.log(total / n_draws) if total > 0.0 else -math.inf


def relative_variance(sums: Sums) -> float:
    """Return the variance of a draw's weight over its squared mean; inf without weight."""
    _, total, square, _, n_draws = sums.totals.tolist()
    return max(0.0, n_draws * square / total**2 - 1.0) if total > 0.0 else math.inf


def estimate_from_draws(plan: Plan, sums: Sums) -> InferenceResult:
    """Return the estimate that independent draws of one plan give.

    The marginals are ratios, whose standard error is that of ``sum w (b - p) / sum w``.
    One effective draw more or less stands behind every error, so that edges never seen do
    not count as impossible.
    """
    _, total, square, largest, n_draws = sums.totals.tolist()
    marginals = sums.first / total
    spread = sums.second - 2.0 * marginals * sums.cross + marginals**2 * square
    effective = total**2 / square
    variance = relative_variance(sums)
    if plan.is_certain:
        errors = np.zeros_like(marginals)
    else:
        errors = np.hypot(np.sqrt(np.maximum(spread, 0.0)) / total, 1.0 / effective)
    return _estimate(
        plan.log_bound + log_mean(sums),
        math.sqrt(variance / n_draws),
        plan.to_graph(np.minimum(marginals, 1.0)),
        plan.to_graph(errors),
        int(n_draws),
        effective,
        {
            "relative_variance": variance,
            "largest_share": largest / total,
            "effective_filters": math.inf,
        },
    )


def estimate_from_filters(ends: Sequence[tuple[Plan, Sums]]) -> InferenceResult:
    """Return the estimate of several particle filters, its error by their spread.

    Where a few filters outweigh the rest, their weighted spread says nothing: it is 0 if
    there is only one.  So the spread is that of all filters alike, and as many count as
    filters of equal weights would tell as much.  No filter counts for more draws than the
    spread of the weights allows.
    """
    n_filters = len(ends)
    n_draws = int(sum(sums.totals[4] for _, sums in ends))
    logs = np.array([plan.log_bound + log_mean(sums) for plan, sums in ends])
    weights = np.exp(logs - logs.max())
    shares = weights / weights.sum()
    is_alive = shares > 0.0
    tables = np.stack([_marginals_of(plan, sums) for plan, sums in ends])
    marginals = np.tensordot(shares, tables, 1)
    squares = (tables - marginals) ** 2
    effective_filters = 1.0 / float(shares @ shares)
    bessel = n_filters / max(n_filters - 1.0, 1.0)
    weighted = np.tensordot(shares**2, squares, 1) * bessel
    unweighted = squares[is_alive].mean(axis=0) * bessel / effective_filters
    variances = np.maximum(weighted, unweighted)
    variance = _variance(n_filters * shares)
    doubt = float(np.sum(marginals * (1.0 - marginals)))
    effective = max(doubt, 1e-12) / max(float(np.sum(variances)), 1e-300)
    per_filter = 1.0 / min(max(variance, 1e-6), 1.0) ** 2
    effective = min(effective, effective_filters * per_filter, float(n_draws))
    return _estimate(
        float(logs.max() + math.log(weights.mean())),
        math.sqrt(max(variance / n_filters, _variance(logs[is_alive]) / effective_filters)),
        np.minimum(marginals, 1.0),
        np.minimum(np.hypot(np.sqrt(variances), 1.0 / effective), 1.0),
        n_draws,
        effective,
        {
            "relative_variance": variance * n_draws / n_filters,
            "largest_share": float(shares.max()),
            "effective_filters": effective_filters,
        },
    )


def _marginals_of(plan: Plan, sums: Sums) -> FloatArray:
    return plan.to_graph(sums.first / max(sums.totals[1], np.finfo(float).tiny))


def _variance(values: FloatArray) -> float:
    """Return the variance of values; 0 of a single one."""
    return float(np.var(values, ddof=1)) if len(values) > 1 else 0.0


def pool(estimates: Sequence[InferenceResult]) -> InferenceResult:
    """Return the mean of independent estimates, each by its effective draws."""
    if len(estimates) == 1:
        return estimates[0]
    effective = np.array([effective_draws(estimate) for estimate in estimates])
    shares = effective / effective.sum()
    weighted = list(zip(shares, estimates, strict=True))
    n_draws = sum(estimate.diagnostics.n_samples for estimate in estimates)
    figures = [estimate.diagnostics.figures for estimate in estimates]
    inverse = sum(
        float(a) ** 2 / f["effective_filters"] for a, f in zip(shares, figures, strict=True)
    )
    largest = (a * f["largest_share"] for a, f in zip(shares, figures, strict=True))
    return _estimate(
        float(sum(a * e.log_partition for a, e in weighted)),
        math.sqrt(sum((a * e.log_partition_error) ** 2 for a, e in weighted)),
        np.asarray(sum(a * e.marginals for a, e in weighted)),
        np.sqrt(sum((a * e.marginal_errors) ** 2 for a, e in weighted)),
        n_draws,
        float(effective.sum()),
        {
            "relative_variance": n_draws / float(effective.sum()) - 1.0,
            "largest_share": max(map(float, largest)),
            "effective_filters": 1.0 / inverse if inverse > 0.0 else math.inf,
        },
    )


def disagree(one: InferenceResult, other: InferenceResult, tol: float) -> bool:
    """Return whether two independent estimates of the same differ beyond their errors.

    Four standard errors for the log-partition; for marginals six, since there are many,
    and more than `tol`.
    """
    gap = abs(one.log_partition - other.log_partition)
    if gap > 4.0 * math.hypot(one.log_partition_error, other.log_partition_error) + 1e-9:
        return True
    errors = np.hypot(one.marginal_errors, other.marginal_errors)
    gaps = np.abs(one.marginals - other.marginals)
    return bool((gaps > np.maximum(6.0 * errors, tol)).any())


def is_even(estimate: InferenceResult) -> bool:
    """Return whether enough draws, or filters, stand behind the errors of an estimate."""
    if effective_draws(estimate) < _FEWEST_EFFECTIVE:
        return False
    figures = estimate.diagnostics.figures
    if figures["effective_filters"] == math.inf:  # plain draws
        return figures["largest_share"] <= _LARGEST_SHARE
    return (
        figures["largest_share"] <= _LARGEST_SHARE_OF_FILTER
        and figures["effective_filters"] >= _FEWEST_FILTERS
        # What a few filters of few particles each say of their own spread is rough.
        and estimate.diagnostics.n_samples >= _FEWEST_PARTICLES
    )
