"""Weighted draws: from scores to the tables drawn from, from sums of draws to estimates."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch._validation import enough_memory
from permatch.inference.answer import Diagnostics, InferenceResult
from permatch.kernels.bounds import extended_steps
from permatch.kernels.nesting import Proposal, Sums, fill_proposal
from permatch.kernels.sliced import balance, fill_extended, fill_head
from permatch.kernels.subset_dp import small_sets

_BALANCE_TOL = 1e-6
_MAX_BALANCINGS = 15
# Fewer effective draws, or filters, or draws of all filters, are not to be trusted, ...
_FEWEST_EFFECTIVE, _FEWEST_FILTERS, _FEWEST_PARTICLES = 100.0, 5.0, 1000
# ... nor those of which one draw, or one filter, weighs more than this.
_LARGEST_SHARE, _LARGEST_SHARE_OF_FILTER = 0.05, 0.25


def balanced_weights(reduced: FloatArray) -> tuple[FloatArray, float]:
    """Return doubly stochastic weights of reduced scores, as well as Sinkhorn gets there.

    Parameters
    ----------
    reduced : ndarray of shape (m, m)
        Scores with the best matching at 0, as from `reduce_scores`.

    Returns
    -------
    weights : ndarray of shape (m, m)
        Rows and columns sum to about one.
    offset : float
        Log of what was divided out.
    """
    weights = np.exp(reduced)
    offset = 0.0
    if weights.size:
        for _ in range(_MAX_BALANCINGS):
            offset += balance(weights)
            if np.abs(weights.sum(axis=0) - 1.0).max() < _BALANCE_TOL:
                break
    return weights, offset


def columns_by_entropy(weights: FloatArray) -> IntArray:
    """Return the columns of balanced weights, the most certain ones first."""
    logs = np.log(weights, out=np.zeros_like(weights), where=weights > 0.0)
    return np.argsort(-(weights * logs).sum(axis=0), kind="stable")


@dataclass(frozen=True, eq=False)
class Plan:
    """A proposal, and how its columns and rows map to those of the graph.

    Attributes
    ----------
    tables : Proposal
        What the kernels draw from.
    log_bound : float
        Log of U: draws weigh X with ``E X = Z / U`` and X <= 1.
    order : ndarray of shape (m,)
        Columns in the order they are drawn.
    is_transposed : bool
        Whether rows and columns of the graph changed places.
    """

    tables: Proposal
    log_bound: float
    order: IntArray
    is_transposed: bool = False

    @property
    def is_certain(self) -> bool:
        """Whether all draws weigh the same, because nothing is left to chance."""
        return self.tables.head_weights.shape[1] == 0 and len(self.tables.ratios) == 0

    def to_graph(self, table: FloatArray) -> FloatArray:
        """Return a table (m, m) by column drawn, then row, as one by row and column."""
        full = np.empty_like(table)
        full[self.order] = table
        return full if self.is_transposed else np.ascontiguousarray(full.T)

    def matchings(self, rows: IntArray) -> IntArray:
        """Return matchings (n, m) from the rows of the columns in the order drawn."""
        full = np.empty_like(rows)
        if self.is_transposed:
            full[:, self.order] = rows
        else:
            full[np.arange(len(rows))[:, None], rows] = self.order
        return full


def make_plan(
    weights: FloatArray,
    offset: float,
    *,
    depth: int = 0,
    tail: int = 8,
    is_transposed: bool = False,
    head_from_end: bool = False,
) -> Plan:
    """Return the plan for balanced weights.

    Parameters
    ----------
    weights : ndarray of shape (m, m)
        Balanced weights of the graph.
    offset : float
        Log of what was divided out of them; it becomes part of the bound.
    depth : int
        Columns in the head.
    tail : int
        Columns whose permanent is computed.
    is_transposed : bool
        Whether to draw columns for rows instead.
    head_from_end : bool
        Whether the head takes the least certain columns instead of the most certain.

    Returns
    -------
    Plan
        Its tables take ``(m + 1) 2^depth`` doubles.
    """
    n = len(weights)
    depth = min(depth, n)
    tail = min(tail, n - depth)
    if is_transposed:
        weights = np.ascontiguousarray(weights.T)
    order = columns_by_entropy(weights)
    if head_from_end and depth:
        order = np.concatenate([order[::-1][:depth], order[: n - depth]])
    ordered = weights[:, order]
    head_weights = np.ascontiguousarray(ordered[:, :depth])
    rest = np.ascontiguousarray(ordered[:, depth:])
    bounds = np.empty((n, n - depth + 1))
    fill_extended(rest, extended_steps(max(n - depth, 1)), bounds)
    tail_bounds = np.ascontiguousarray(bounds[:, 0])
    scale = np.divide(1.0, tail_bounds, out=np.zeros(n), where=tail_bounds > 0.0)
    with enough_memory(f"a head of {depth} columns", 8.0 * (n + 1) * 2.0**depth):
        head = np.empty((n + 1, 1 << depth))
    log_bound = fill_head(head_weights, tail_bounds, head)
    shape = (n - depth - tail, n)
    ratios, gains, lookahead = np.empty(shape), np.empty(shape), np.empty(shape)
    last = np.empty((n, tail))
    fill_proposal(rest, bounds, scale, ratios, gains, last, lookahead)
    tables = Proposal(
        head_weights, head, tail_bounds, ratios, gains, last, lookahead, small_sets(tail)
    )
    return Plan(tables, offset + log_bound, order, is_transposed)


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
