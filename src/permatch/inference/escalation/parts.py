"""Answers for parts of a graph, and how they make up the answer for the whole."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch.inference.base import Job
from permatch.inference.glynn import Glynn
from permatch.inference.result import Diagnostics, StackResult, merge, weakest
from permatch.inference.small_batch import SmallBatch

# An estimate so many standard errors outside an interval that holds is not to be trusted.
_FAR_OUT = 4.0
# Samplers with fewer effective samples, or that know the log-partition less well, are no
# better than belief propagation.
_FEWEST_EFFECTIVE, _LARGEST_LOG_ERROR = 100.0, 0.5

Interval = tuple[float, float]


@dataclass(frozen=True, eq=False)
class PartAnswer:
    """What one engine says of a graph, or of a part of one.

    Attributes
    ----------
    log_partition, log_partition_error : float
        Estimate and standard error; NaN where nothing is known of the error.
    marginals, marginal_errors : ndarray of shape (n, n)
        Estimates and standard errors; NaN where nothing is known.
    interval : pair of floats
        Ends that hold for certain; infinite where nothing is known.
    diagnostics : Diagnostics
        What the engine itself reports.
    """

    log_partition: float
    log_partition_error: float
    marginals: FloatArray
    marginal_errors: FloatArray
    interval: Interval
    diagnostics: Diagnostics

    @classmethod
    def of(cls, result: StackResult, graph: int = 0) -> "PartAnswer":
        """Return the answer an engine gave to one graph of a stack."""
        report = result.diagnostics
        value = float(result.log_partitions[graph])
        tables = result.marginals
        if tables is None:
            raise TypeError(f"{report.engine} returned no marginals")
        table = tables[graph]
        if result.is_exact:
            slack = (report.residual or 0.0) + 1e-12 * (1.0 + abs(value))
            ends = value - slack, value + slack
            return cls(value, 0.0, table, np.zeros_like(table), ends, report)
        ends = -math.inf, math.inf
        is_certain = report.interval_certificate == "rigorous" and report.delta == 0.0
        if report.interval is not None and is_certain:
            ends = report.interval
        logs, errors = result.log_partition_errors, result.marginal_errors
        return cls(
            value,
            math.nan if logs is None else float(logs[graph]),
            table,
            np.full_like(table, np.nan) if errors is None else errors[graph],
            ends,
            report,
        )

    @property
    def marginal_error(self) -> float:
        """The largest standard error of a marginal; NaN if none is known."""
        return float(self.marginal_errors.max(initial=0.0))

    @property
    def is_trusted(self) -> bool:
        """Whether something stands behind the errors."""
        return self.diagnostics.certificate != "heuristic"

    @property
    def is_settled(self) -> bool:
        """Whether the errors are known and within the tolerance."""
        return self.is_trusted and self.diagnostics.is_converged

    def better(self, later: "PartAnswer") -> "PartAnswer":
        """Return the answer to keep, within the interval that both know of."""
        low = max(self.interval[0], later.interval[0])
        high = min(self.interval[1], later.interval[1])
        one, other = self._within((low, high)), later._within((low, high))
        is_later = _rank(later, other) < _rank(self, one)
        return other if is_later else one

    def _within(self, interval: Interval) -> "PartAnswer":
        """Return the answer confined to an interval that holds."""
        low, high = interval
        value, report = self.log_partition, self.diagnostics
        confined = 0.5 * (low + high) if math.isnan(value) else min(max(value, low), high)
        gap = abs(confined - value)
        if self.is_trusted and not gap <= _FAR_OUT * self.log_partition_error + 1e-9:
            report = replace(report, certificate="heuristic", is_converged=False)
        return replace(self, log_partition=confined, interval=interval, diagnostics=report)


def _rank(answer: PartAnswer, confined: PartAnswer) -> tuple[bool, bool, bool, float]:
    """Return what answers are compared by: the least is kept.

    `confined` is the answer within the interval that holds.
    """
    error = answer.marginal_error
    return (
        not confined.is_settled,
        not confined.is_trusted,
        not math.isnan(error) and _is_poor(answer, confined),
        # Belief propagation knows no error: worse than many samples, better than few.
        math.inf if math.isnan(error) else error,
    )


def _is_poor(answer: PartAnswer, confined: PartAnswer) -> bool:
    """Return whether a sampler's answer is worse than that of belief propagation."""
    effective = answer.diagnostics.effective_samples
    if effective is not None and effective < _FEWEST_EFFECTIVE:
        return True
    log_error = answer.log_partition_error
    if math.isnan(log_error):  # chains without rungs know marginals only
        return False
    gap = abs(confined.log_partition - answer.log_partition)
    return log_error > _LARGEST_LOG_ERROR or gap > _FAR_OUT * log_error + 1e-9


def solve_exactly(
    scores: FloatArray, blocks: Sequence[tuple[IntArray, IntArray]], job: Job
) -> list[PartAnswer]:
    """Return the exact answers for some blocks of a graph, in their order."""
    small = SmallBatch()
    answers: dict[int, PartAnswer] = {}
    for size in sorted({len(rows) for rows, _ in blocks}):
        places = [k for k, (rows, _) in enumerate(blocks) if len(rows) == size]
        stack = np.stack([scores[np.ix_(*blocks[k])] for k in places])
        engine = small if size <= small.max_size else Glynn(max_size=size)
        result = engine._infer_stack(stack, np.array(places), job)
        answers |= {k: PartAnswer.of(result, g) for g, k in enumerate(places)}
    return [answers[k] for k in range(len(blocks))]


@dataclass(frozen=True, eq=False)
class Split:
    """Blocks of a graph, and how much the matchings across them can add.

    Attributes
    ----------
    blocks : sequence of pairs of int arrays
        Rows and columns of each block.
    bound : float
        The log-partition exceeds the sum of those of the blocks by at most this, and no
        marginal is off by more.
    rounding : float
        What rounding may add to that.
    """

    blocks: Sequence[tuple[IntArray, IntArray]]
    bound: float = 0.0
    rounding: float = 0.0

    @classmethod
    def trivial(cls, size: int) -> "Split":
        """Return the whole graph as its only block."""
        return cls([(np.arange(size), np.arange(size))])

    def join(self, answers: Sequence[PartAnswer]) -> PartAnswer:
        """Return the answer for the whole graph."""
        size = sum(len(rows) for rows, _ in self.blocks)
        marginals = np.zeros((size, size))
        # Matchings across blocks have at most this mass.
        errors = np.full((size, size), -math.expm1(-self.bound))
        for (rows, cols), answer in zip(self.blocks, answers, strict=True):
            marginals[np.ix_(rows, cols)] = answer.marginals
            errors[np.ix_(rows, cols)] += answer.marginal_errors
        error = math.hypot(*(answer.log_partition_error for answer in answers))
        reports = [answer.diagnostics for answer in answers]
        certificates = [report.certificate for report in reports]
        if self.bound > 0.0:
            certificates.append("rigorous")
        own = [ends for answer in answers if (ends := _own_interval(answer)) is not None]
        is_bracketed = len(own) == len(answers)
        joined = merge("", [replace(report, interval=None) for report in reports])
        return PartAnswer(
            math.fsum(answer.log_partition for answer in answers),
            error + self.bound,
            marginals,
            errors,
            self._sum([answer.interval for answer in answers]),
            replace(
                joined,
                size=size,
                n_graphs=1,
                parts=(),
                certificate=weakest(certificates),
                interval=self._sum(own) if is_bracketed else None,
                interval_certificate=weakest(
                    report.interval_certificate or "rigorous" for report in reports
                )
                if is_bracketed
                else "",
                log_partition_error=_known(error + self.bound),
                marginal_error=_known(float(errors.max(initial=0.0))),
            ),
        )

    def _sum(self, intervals: Sequence[Interval]) -> Interval:
        low = sum(low for low, _ in intervals) - self.rounding
        high = sum(high for _, high in intervals) + self.rounding + self.bound
        return low, high


def _own_interval(answer: PartAnswer) -> Interval | None:
    """Return the interval an engine reports, or that of an exact answer."""
    if answer.diagnostics.certificate == "exact":
        return answer.interval
    return answer.diagnostics.interval


def _known(error: float) -> float | None:
    return None if math.isnan(error) else error
