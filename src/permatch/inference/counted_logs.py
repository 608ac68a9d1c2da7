"""The operations of `kernels.frontier_counts` on logarithms, which leave no float's range.

Slower by far: for components whose floats have lost states that count.
"""

from typing import Any

import numpy as np

from permatch._parallel import check_stopped
from permatch._types import FloatArray, IntArray
from permatch.kernels import counts_plan as planning


def solve_by_logs(
    ops: IntArray,
    scores: FloatArray,
    own_free: FloatArray,
    other_free: FloatArray,
    marginals: FloatArray,
    own_out: FloatArray,
    other_out: FloatArray,
) -> float:
    """Return the log-partition of a walk; fill marginals and unmatched probabilities."""
    tables = [np.zeros(1)]
    factors = [_factors(op, scores, own_free, other_free) for op in ops]
    for op, (low, high) in zip(ops, factors, strict=True):
        check_stopped()
        tables.append(_forward(tables[-1], op, low, high))
    total = float(tables[-1][0])
    if total == -np.inf:
        return total
    back = np.zeros(1)
    for op, (low, high), table in zip(
        ops[::-1], factors[::-1], tables[-2::-1], strict=True
    ):
        check_stopped()
        back, none, some = _back(back, table, op, low, high)
        if op[planning.KIND] == planning.OPEN:
            continue
        both = np.logaddexp(none, some)
        if op[planning.KIND] == planning.LINK:
            marginals[op[planning.ITEM]] = np.exp(some - both)
        for node, out in ((op[planning.OWN], own_out), (op[planning.OTHER], other_out)):
            if node >= 0:
                out[node] = np.exp(none - both)
    return total


def _factors(
    op: IntArray, scores: FloatArray, own_free: FloatArray, other_free: FloatArray
) -> tuple[float, float]:
    """Return the logs of what an operation multiplies states without and with a link by."""
    if op[planning.KIND] == planning.OPEN:
        return 0.0, 0.0
    low = 0.0
    if op[planning.OWN] >= 0:
        low += float(own_free[op[planning.OWN]])
    if op[planning.OTHER] >= 0:
        low += float(other_free[op[planning.OTHER]])
    is_link = op[planning.KIND] == planning.LINK
    return low, float(scores[op[planning.ITEM]]) if is_link else 0.0


def _moves(radix: int, is_full: bool) -> list[tuple[int, int]]:
    """Return the values of a digit before and after a link more."""
    if radix == 1:
        return [(0, 0)]
    return [(0, 1), (1, 1)] if is_full else [(d, d + 1) for d in range(radix - 1)]


def _links(op: IntArray) -> tuple[tuple[int, ...], list[tuple[Any, Any]]]:
    """Return the shape of a table around its two digits, and where links lead."""
    high, r, full, low, q, absorbs = op[planning.HIGH : planning.LOW_FULL + 1].tolist()
    shape = (-1, r, high // (low * q), q, low)
    return shape, [
        ((slice(None), a, slice(None), b), (slice(None), c, slice(None), d))
        for a, c in _moves(r, bool(full))
        for b, d in _moves(q, bool(absorbs))
    ]


def _digit(table: FloatArray, op: IntArray) -> FloatArray:
    return table.reshape(-1, op[planning.HIGH_RADIX], op[planning.HIGH])


def _forward(table: FloatArray, op: IntArray, low: float, high: float) -> FloatArray:
    """Return the table after an operation."""
    if op[planning.KIND] == planning.OPEN:
        room = np.full(len(table) * (op[planning.HIGH_RADIX] - 1), -np.inf)
        return np.concatenate([table, room])
    if op[planning.KIND] == planning.CLOSE:
        old = _digit(table, op)
        some = np.logaddexp.reduce(old[:, 1:], axis=1)
        return np.logaddexp(low + old[:, 0], high + some).ravel()
    shape, moves = _links(op)
    old = table.reshape(shape)
    new = low + old
    for before, after in moves:
        new[after] = np.logaddexp(new[after], high + old[before])
    return new.ravel()


def _back(
    back: FloatArray, table: FloatArray, op: IntArray, low: float, high: float
) -> tuple[FloatArray, float, float]:
    """Return the table before an operation, and the logs of what passes in its two ways."""
    if op[planning.KIND] == planning.OPEN:
        return back[: len(table)], 0.0, 0.0
    if op[planning.KIND] == planning.CLOSE:
        new = np.empty_like(table)
        after = back.reshape(-1, op[planning.HIGH])
        _digit(new, op)[:, 0] = low + after
        _digit(new, op)[:, 1:] = high + after[:, None]
        flows = _digit(table + new, op)
        return new, _log_sum(flows[:, 0]), _log_sum(flows[:, 1:])
    shape, moves = _links(op)
    old, after = table.reshape(shape), back.reshape(shape)
    new = low + after
    none, some = _log_sum(old + new), -np.inf
    for here, there in moves:
        some = np.logaddexp(some, _log_sum(old[here] + (high + after[there])))
        new[here] = np.logaddexp(new[here], high + after[there])
    return new.ravel(), none, float(some)


def _log_sum(values: FloatArray) -> float:
    return float(np.logaddexp.reduce(values, axis=None))
