"""From scores to the tables that the nesting kernels draw from."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch._validation import enough_memory
from permatch.kernels.bounds import extended_steps
from permatch.kernels.nesting import Proposal, fill_proposal
from permatch.kernels.sliced import balance, fill_extended, sharpen
from permatch.kernels.sliced_draws import fill_head
from permatch.kernels.subset_dp import small_sets

_BALANCE_TOL = 1e-6
_MAX_BALANCINGS = 15
# Sharpening works on the bound without a head; with a deep head it gains nothing.
_SHARPEN_SWEEPS = 60
_DEEPEST_SHARPENED = 8


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


def tightest_plan(weights: FloatArray, offset: float, depth: int, tail: int) -> Plan:
    """Return the plan of smallest bound: either orientation, head at either end."""
    trial_depth = min(depth, _DEEPEST_SHARPENED)
    best: tuple[float, FloatArray, float, dict[str, bool]] | None = None
    for is_transposed in (False, True):
        for scaled, shift in _scalings(weights, offset, is_transposed, depth):
            for head_from_end in (False, True) if depth else (False,):
                options = {"is_transposed": is_transposed, "head_from_end": head_from_end}
                plan = make_plan(scaled, shift, depth=trial_depth, tail=tail, **options)
                if best is None or plan.log_bound < best[0]:
                    best = plan.log_bound, scaled, shift, options
    assert best is not None
    _, scaled, shift, options = best
    return make_plan(scaled, shift, depth=depth, tail=tail, **options)


def _scalings(
    weights: FloatArray, offset: float, is_transposed: bool, depth: int
) -> Iterator[tuple[FloatArray, float]]:
    """Yield weights as they are and, unless the head is deep, with columns sharpened."""
    yield weights, offset
    if depth <= _DEEPEST_SHARPENED and weights.size:
        # The columns that are drawn are those of the transpose if the plan is transposed.
        scaled, shift = sharpened_columns(weights.T if is_transposed else weights)
        yield np.ascontiguousarray(scaled.T) if is_transposed else scaled, offset + shift


def sharpened_columns(weights: FloatArray) -> tuple[FloatArray, float]:
    """Return weights with columns scaled for a smaller bound, and the log divided out."""
    scaled = np.array(weights, order="C")
    sharpen(scaled, extended_steps(len(scaled)), _SHARPEN_SWEEPS)
    columns = np.arange(len(weights))
    largest = weights.argmax(axis=0)
    factors = scaled[largest, columns] / weights[largest, columns]
    return scaled, -float(np.log(factors).sum())
