"""Split a graph into blocks, solve them, and join the answers.

Blocks are connected components, or parts that share almost no mass, with a bound on it.
The log-partition of a graph is the sum of those of its blocks, and its marginals and
samples are theirs side by side, up to that mass.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from permatch._types import BoolArray, FloatArray, IntArray
from permatch._validation import enough_memory
from permatch.inference.answer import (
    Diagnostics,
    InferenceResult,
    merge,
    weakest,
)
from permatch.inference.base import Job
from permatch.inference.glynn import Glynn
from permatch.inference.small_batch import SmallBatch
from permatch.kernels.sliced import (
    fill_regrets,
    fill_transfer,
    infer_bethe,
    log_growth,
    log_minor_bounds,
    pass_messages,
    reduce_and_match,
)
from permatch.kernels.sparsified import fill_cofactors, merge_nodes

#: Largest block that `Sparsified` solves by default.
MAX_BLOCK = 24
# Sizes of blocks tried, smallest first: blocks of eight cost next to nothing.
_CAPS = (8, 12, 16, 20)
# Cofactors of larger blocks are bounded rather than computed.  Where the bound that comes
# of it is within a factor of the tolerance, and tables of few states do, they are computed.
_LARGEST_EXACT = 14
_PROMISING = 1e6
_DEAR_STATES = 1 << 22
# Weights and cofactors are raised to this: an upper bound stays one, and nothing underflows
# unseen.
_TINY = 1e-280
# Upper bounds are raised by this share, more than all roundings together.
_ROUNDING = 1e-6
# Dearer partitions are not tried when the edges they cut carry more than this by Bethe's
# estimate.
_HOPELESS = 1e-3


@dataclass(frozen=True, eq=False)
class Sparsification:
    """A partition of a graph into blocks, and a bound on what it leaves out.

    Attributes
    ----------
    blocks : tuple of pairs of int arrays
        Rows and columns of each block, equally many.
    log_error_bound : float
        The log-partition of the graph exceeds the sum of those of its blocks by at most
        this, and a marginal is off by at most this: rigorous, up to rounding.
    is_certified : bool
        Whether the bound is within the tolerance.
    n_dropped : int
        Edges that lie in some perfect matching and in no block.
    rounding : float
        Rounding error of the log-partition.

    Examples
    --------
    >>> import numpy as np
    >>> from permatch.inference import sparsify
    >>> scores = np.kron(np.eye(4), np.full((10, 10), 60.0))  # four parts
    >>> split = sparsify(scores)
    >>> [len(rows) for rows, _ in split.blocks], split.is_certified
    ([10, 10, 10, 10], True)
    """

    blocks: tuple[tuple[IntArray, IntArray], ...]
    log_error_bound: float
    is_certified: bool
    n_dropped: int
    rounding: float = 0.0

    @property
    def largest_block(self) -> int:
        """Number of rows of the largest block."""
        return max((len(rows) for rows, _ in self.blocks), default=0)

    @property
    def kept(self) -> BoolArray:
        """The (m, m) mask of edges within blocks."""
        size = sum(len(rows) for rows, _ in self.blocks)
        mask = np.zeros((size, size), dtype=bool)
        for rows, cols in self.blocks:
            mask[np.ix_(rows, cols)] = True
        return mask

    @classmethod
    def whole(cls, size: int) -> "Sparsification":
        """Return a graph that is its only block."""
        nodes = np.arange(size)
        return cls(((nodes, nodes),), 0.0, True, 0)

    def parts(self, scores: FloatArray) -> list[FloatArray]:
        """Return the scores of every block."""
        return [np.ascontiguousarray(scores[np.ix_(*block)]) for block in self.blocks]

    def join(self, answers: Sequence[InferenceResult]) -> InferenceResult:
        """Return the answer for the graph, from one for each block.

        Errors of which a block knows nothing are NaN.  The interval is the sum of those of
        the blocks, if all of them have one.
        """
        size = sum(len(rows) for rows, _ in self.blocks)
        bound = self.log_error_bound
        marginals = np.zeros((size, size))
        # Matchings across blocks have at most this mass.
        errors = np.full((size, size), -math.expm1(-bound))
        for block, answer in zip(self.blocks, answers, strict=True):
            marginals[np.ix_(*block)] = answer.marginals
            errors[np.ix_(*block)] += _errors(answer)
        log_error = math.hypot(*(_log_error(answer) for answer in answers)) + bound
        intervals = [interval_of(answer) for answer in answers]
        told = [answer.diagnostics for answer in answers]
        joined = Diagnostics("", "", size) if not told else merge(told)
        certificates = [one.certificate for one in told] + ["rigorous"] * (bound > 0.0)
        is_bracketed = all(ends is not None for ends in intervals)
        worst = float(errors.max(initial=0.0))
        return InferenceResult(
            math.fsum(answer.log_partition for answer in answers),
            marginals,
            all(answer.is_exact for answer in answers) and not bound,
            joined,
            log_error,
            errors,
        ).told(
            size=size,
            n_graphs=1,
            certificate=weakest(certificates),
            interval=self.add(ends for ends in intervals if ends) if is_bracketed else None,
            interval_certificate=weakest(
                one.interval_certificate or "rigorous" for one in told
            )
            if is_bracketed
            else "",
            log_partition_error=None if math.isnan(log_error) else log_error,
            marginal_error=None if math.isnan(worst) else worst,
        )

    def add(self, intervals: Iterable[tuple[float, float]]) -> tuple[float, float]:
        """Return the interval of the log-partition, from one for each block."""
        lows, highs = zip(*intervals, strict=True) if self.blocks else ((), ())
        rounding = self.rounding if self.log_error_bound else 0.0
        return sum(lows) - rounding, sum(highs) + rounding + self.log_error_bound

    def join_matchings(self, drawn: Iterable[IntArray], n: int) -> IntArray:
        """Return `n` matchings (n, m) of the graph, from as many of each block."""
        size = sum(len(rows) for rows, _ in self.blocks)
        with enough_memory(f"an array of {n} samples", 8.0 * n * size):
            matchings = np.empty((n, size), dtype=np.intp)
        for (rows, cols), own in zip(self.blocks, drawn, strict=True):
            matchings[:, rows] = cols[own]
        return matchings


def interval_of(answer: InferenceResult) -> tuple[float, float] | None:
    """Return the interval an engine reports for one graph, or that of an exact answer."""
    if answer.diagnostics.certificate != "exact":
        return answer.diagnostics.interval
    value = answer.log_partition
    slack = (answer.diagnostics.residual or 0.0) + 1e-12 * (1.0 + abs(value))
    return value - slack, value + slack


def certain_interval(answer: InferenceResult) -> tuple[float, float]:
    """Return the ends that hold for certain; infinite where nothing is known."""
    told = answer.diagnostics
    is_certain = told.interval_certificate == "rigorous" and told.delta == 0.0
    ends = interval_of(answer) if answer.is_exact or is_certain else None
    return ends or (-math.inf, math.inf)


def solve_exactly(parts: Sequence[FloatArray], job: Job) -> list[InferenceResult]:
    """Return the exact answers for some square score matrices, equal sizes together."""
    small = SmallBatch()
    answers: dict[int, InferenceResult] = {}
    for size in sorted({len(part) for part in parts}):
        places = [k for k, part in enumerate(parts) if len(part) == size]
        engine = small if size <= small.max_size else Glynn(max_size=size)
        found = engine._infer_stack(
            np.stack([parts[k] for k in places]), np.array(places), job
        )
        answers |= {k: found.graph(g) for g, k in enumerate(places)}
    return [answers[k] for k in range(len(parts))]


def _log_error(answer: InferenceResult) -> float:
    if answer.is_exact:
        return 0.0
    error = answer.log_partition_error
    return math.nan if error is None else error


def _errors(answer: InferenceResult) -> FloatArray | float:
    if answer.is_exact:
        return 0.0
    errors = answer.marginal_errors
    return math.nan if errors is None else errors


def plan_blocks(
    scores: FloatArray, tol: float, max_block: int, *, is_any_size: bool
) -> Sparsification | None:
    """Do the work of `sparsify` on checked scores; None if there is no perfect matching.

    Blocks above `max_block` are tried only if `is_any_size`.
    """
    search = _Search.start(scores)
    if search is None:
        return None
    caps = [cap for cap in _CAPS if cap < max_block] + [max_block]
    attempts = [(np.inf, cap) for cap in caps]
    if is_any_size:
        attempts += search.levels(tol)
    best: Sparsification | None = None
    for most, cap in attempts:
        labels = search.partition(most, cap)
        # Small blocks are judged at once; larger ones cost more.
        if best is not None and search.mass_across(labels) > max(_HOPELESS, 10.0 * tol):
            continue
        found = search.judge(labels, tol, _LARGEST_EXACT)
        if (
            tol < found.log_error_bound <= _PROMISING * tol
            and found.largest_block > _LARGEST_EXACT
            and sum(2.0 ** len(rows) for rows, _ in found.blocks) <= _DEAR_STATES
        ):
            found = search.judge(labels, tol, found.largest_block)
        if best is None or found.log_error_bound < best.log_error_bound:
            best = found
        if best.is_certified:
            break
    return best


@dataclass(frozen=True, eq=False)
class _Search:
    """A graph numbered so that its best matching is the diagonal.

    `weights` (m, m) are zero for edges in no perfect matching; `heads` and `tails` list the
    edges by increasing regret.
    """

    col_of: IntArray
    weights: FloatArray
    heads: IntArray
    tails: IntArray
    regrets: FloatArray
    beliefs: FloatArray
    rounding: float

    @classmethod
    def start(cls, scores: FloatArray) -> "_Search | None":
        size = len(scores)
        reduced = np.empty_like(scores)
        col_of = np.empty(size, dtype=np.int64)
        offset = reduce_and_match(scores, reduced, col_of)
        if offset == -np.inf:
            return None
        losses = -reduced[:, col_of]
        regrets = np.empty_like(scores)
        fill_regrets(losses, regrets)
        is_possible = np.isfinite(regrets)
        exact = np.where(is_possible, np.exp(-losses), 0.0)
        beliefs = np.empty_like(scores)
        pass_messages(exact, beliefs, 1e-4, 50, 0.0)
        # Blocks have no direction: an edge joins its two nodes at the lower regret.
        either = np.minimum(regrets, regrets.T)
        heads, tails = np.nonzero(np.triu(np.isfinite(either), 1))
        order = np.argsort(either[heads, tails], kind="stable")
        largest = float(np.abs(scores[np.isfinite(scores)]).max(initial=0.0))
        return cls(
            col_of,
            np.where(is_possible, np.maximum(exact, _TINY), 0.0),
            heads[order],
            tails[order],
            either[heads, tails][order],
            beliefs,
            size * (1e-13 + 4e-16 * largest),
        )

    def partition(self, most: float, cap: int) -> IntArray:
        """Return the block of every node: blocks of `cap` nodes, regrets up to `most`."""
        labels = np.empty(len(self.weights), dtype=np.int64)
        merge_nodes(self.heads, self.tails, self.regrets, most, cap, labels)
        return labels

    def levels(self, tol: float) -> list[tuple[float, int]]:
        """Return limits of regret at which blocks of any size are worth a try."""
        enough = math.log(len(self.weights) + 1.0) - math.log(max(tol, 1e-300))
        levels = [enough, 2.0 * enough, 4.0 * enough, np.inf]
        return [(level, len(self.weights)) for level in levels]

    def mass_across(self, labels: IntArray) -> float:
        """Return Bethe's estimate of what the edges across blocks carry."""
        return float(self.beliefs[labels[:, None] != labels[None, :]].sum())

    def judge(self, labels: IntArray, tol: float, largest_exact: int) -> Sparsification:
        """Bound what lies across the blocks, with exact cofactors up to a size."""
        order = np.argsort(labels, kind="stable")
        weights = np.ascontiguousarray(self.weights[np.ix_(order, order)])
        sizes = np.bincount(labels)
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        cofactors = np.zeros_like(weights)
        for first, last in zip(starts[:-1], starts[1:], strict=True):
            block = np.ascontiguousarray(weights[first:last, first:last])
            cofactors[first:last, first:last] = _cofactors(block, largest_exact)
        transfer = np.empty_like(weights)
        is_cut = fill_transfer(weights, starts, cofactors, transfer)
        bound = log_growth(transfer) * (1.0 + _ROUNDING) + 1e-300 if is_cut else 0.0
        nodes = np.split(order, starts[1:-1])
        n_possible = np.count_nonzero(weights)
        n_kept = sum(
            np.count_nonzero(weights[first:last, first:last])
            for first, last in zip(starts[:-1], starts[1:], strict=True)
        )
        return Sparsification(
            blocks=tuple((rows, self.col_of[rows]) for rows in nodes if len(rows)),
            log_error_bound=float(bound),
            is_certified=bool(bound <= tol),
            n_dropped=int(n_possible - n_kept),
            rounding=self.rounding,
        )


def _cofactors(weights: FloatArray, largest_exact: int) -> FloatArray:
    """Return ``per(weights(i|j)) / per(weights)``, upper bounds on them for large m."""
    size = len(weights)
    cofactors = np.empty_like(weights)
    if size <= largest_exact:
        fill_cofactors(weights, cofactors)
        return np.maximum(cofactors * (1.0 + 1e-12), _TINY)
    log_lower = _log_lower(weights)
    # Soules' bound of every minor, with columns scaled to make it small.
    log_cols = -np.log(weights.sum(axis=0))
    for _ in range(10):
        row_sums = (weights * np.exp(log_cols)).sum(axis=1)
        log_cols = -np.log((weights / row_sums[:, None]).sum(axis=0))
    log_minor_bounds(weights * np.exp(log_cols), cofactors)
    logs = cofactors - (log_cols.sum() - log_cols) - log_lower
    return np.exp(np.clip(logs, math.log(_TINY), 600.0))


def _log_lower(weights: FloatArray) -> float:
    """Return a lower bound on the log-permanent of weights with a diagonal of ones."""
    with np.errstate(divide="ignore"):
        scores = np.log(weights)
    ends = np.empty((1, 4))
    beliefs = np.empty_like(scores)[None]
    infer_bethe(scores[None], 1e-6, 100, 0.0, -1, 0, np.empty(1), beliefs, ends, 0, 1)
    return float(ends[0, 0])
