"""The engine that chooses an engine."""

import math
import sys
import warnings
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch._validation import check_count
from permatch.errors import InvalidOptionError, PrecisionError
from permatch.inference._options import check_budget, check_fraction
from permatch.inference.base import LARGEST_MASK, AbstractEngine, Job
from permatch.inference.escalation.climb import Aims, Escalation
from permatch.inference.escalation.rungs import least_seconds
from permatch.inference.glynn import Glynn
from permatch.inference.nesting import Nesting
from permatch.inference.result import Diagnostics, StackResult, merge
from permatch.inference.scaling import reduce_stack
from permatch.inference.small_batch import SmallBatch


@dataclass(frozen=True, kw_only=True)
class AutoEngine(AbstractEngine):
    """Pick the fastest exact engine; beyond the exact sizes, go from cheap to dear.

    ==========  ==============  =======================================================
    size        engine          why
    ==========  ==============  =======================================================
    0 to 8      `SmallBatch`    one graph per SIMD lane
    9 to 30     `Glynn`         fewest operations; falls back to `SubsetDP` if its own
                                check says digits were lost
    above 30    `Sparsified`    large graphs fall into small blocks if scores are peaked
                `Bethe`         an interval for the log-partition that holds
                `Nesting`       draws until the tolerance or the budget is reached
                `SwapChain`     where those draws are not to be trusted
    ==========  ==============  =======================================================

    Beyond 30 an engine is tried after the other until the marginals are known to within
    `tol`, and the best answer so far is returned: with standard errors, with an interval
    for the log-partition that holds for certain, and with the story, engine by engine, in
    ``diagnostics.steps``.  It is exact only if all of it was.  A `RuntimeWarning` tells,
    as ``diagnostics.is_converged`` does, when the tolerance was not met.

    Parameters
    ----------
    max_size : int
        Largest graph accepted.
    exact_size : int
        Largest graph, or block of a graph, answered by exact engines, if the budget allows;
        0 for none.
    tol : float
        Error of the marginals asked for beyond the exact sizes, all at once, with
        probability 1 - delta.
    delta : float
        Probability with which the tolerance may be missed.
    budget : float or None
        Seconds per graph; None for no limit.  It is overrun by half at most, apart from
        the time to compile kernels at their first use; one too short for the least there
        is, beliefs of `Bethe` without an interval (0.4 s at m = 1000), is an error.
        Answers that use it up depend on the machine.
    random_state : int
        Seed; the same scores and seed give the same answer.

    Notes
    -----
    Beyond the exact sizes O(m^3) to prepare, then O(m^2) a draw: 0.3 s at m = 40 and 1 s at
    m = 100 for normal scores of spread 2.

    Examples
    --------
    >>> import numpy as np
    >>> import permatch as pm
    >>> result = pm.infer(np.random.default_rng(0).normal(size=(40, 40)))
    >>> result.is_exact, result.diagnostics.engine, result.diagnostics.is_converged
    (False, 'nesting', True)
    >>> [step.engine for step in result.diagnostics.steps]
    ['sparsified', 'bethe', 'nesting']
    """

    max_size: int = 1000
    exact_size: int = 30
    tol: float = 0.01
    delta: float = 0.05
    budget: float | None = 10.0
    random_state: int = 0

    name = "auto"
    largest_max_size: ClassVar[int] = 2000

    def __post_init__(self) -> None:
        super().__post_init__()
        limit = check_count(self.exact_size, "exact_size of AutoEngine", 0)
        if limit > LARGEST_MASK:
            raise InvalidOptionError(
                f"exact_size of AutoEngine must be at most {LARGEST_MASK}, got {limit}. "
                "Larger graphs would take too long."
            )
        check_fraction(self.tol, "tol of AutoEngine")
        check_fraction(self.delta, "delta of AutoEngine")
        check_budget(self.budget, "budget of AutoEngine")
        check_count(self.random_state, "random_state of AutoEngine", 0)

    def select(self, size: int) -> AbstractEngine | None:
        """Return the exact engine for graphs of this size; None if there is none."""
        small = SmallBatch()
        if size <= min(small.max_size, max(self.exact_size, 1)):
            return small
        if size > self.exact_size:
            return None
        engine = Glynn(max_size=self.exact_size)
        limit = math.inf if self.budget is None else math.log2(self.budget)
        return engine if engine.log2_seconds(size) <= limit else None

    def log2_seconds(self, size: int) -> float:
        """Estimate log2 of the seconds one graph takes on one thread."""
        engine = self.select(size)
        if engine is not None:
            return engine.log2_seconds(size)
        seconds = Nesting().log2_seconds(size)
        return seconds if self.budget is None else min(seconds, math.log2(self.budget))

    def log2_bytes(self, size: int) -> float:
        """Estimate log2 of the bytes one graph needs."""
        return (self.select(size) or Nesting()).log2_bytes(size)

    def _infer_stack(self, scores: FloatArray, members: IntArray, job: Job) -> StackResult:
        size = scores.shape[1]
        engine = self.select(size)
        if engine is not None:
            try:
                result = engine._infer_stack(scores, members, job)
            except PrecisionError:  # flat graphs too large for the fallback of `Glynn`
                pass
            else:
                reason = f"auto: the fastest exact engine at size {size} is {engine.name}"
                told = replace(result.diagnostics, reason=reason)
                return replace(result, diagnostics=told)
        result = self._escalate(scores, members, job)
        self._warn_if_missed(result.diagnostics, members)
        return result

    def _escalate(self, scores: FloatArray, members: IntArray, job: Job) -> StackResult:
        """Answer graphs one after the other, each on all threads."""
        self._check_time(scores.shape[1])
        reduced, offsets = reduce_stack(scores, members)
        aims = Aims(self.tol, self.delta, self.budget, self.exact_size, self.random_state)
        found = [
            Escalation(aims, reduced[g], int(members[g]), job).run()
            for g in range(len(scores))
        ]
        reports = [
            answer.diagnostics.shifted(float(offset))
            for answer, offset in zip(found, offsets, strict=True)
        ]
        told = merge(self.name, reports)
        if len(found) != 1:
            told = replace(told, reason="auto: beyond the exact engines: see parts")
        is_possible = reduced > -np.inf
        tables = np.array([answer.marginals for answer in found]).reshape(scores.shape)
        errors = np.array([answer.marginal_errors for answer in found])
        errors = np.where(is_possible, errors.reshape(scores.shape), 0.0)
        values = offsets + np.array([answer.log_partition for answer in found])
        is_exact = told.certificate == "exact"
        if is_exact:
            return StackResult(values, tables, told)
        logs = np.array([answer.log_partition_error for answer in found])
        is_known = not np.isnan(logs).all()  # belief propagation alone knows of no error
        return StackResult(
            values,
            tables,
            told,
            is_exact=False,
            log_partition_errors=logs if is_known else None,
            marginal_errors=errors if is_known else None,
        )

    def _check_time(self, size: int) -> None:
        """Refuse a budget that would be overrun whatever was done."""
        least = least_seconds(size)
        if self.budget is not None and self.budget < least:
            raise InvalidOptionError(
                f"budget of AutoEngine must be at least {least:.2g} s for graphs of size "
                f"{size}, got {self.budget:g}: belief propagation alone takes that long. "
                "Raise budget."
            )

    def _warn_if_missed(self, told: Diagnostics, members: IntArray) -> None:
        """Warn, in the name of `infer`, of graphs whose tolerance was not met."""
        reports = told.parts or (told,)
        missed = [k for k, report in enumerate(reports) if not report.is_converged]
        if not missed:
            return
        others = f" (like {len(missed) - 1} others)" if len(missed) > 1 else ""
        report = reports[missed[0]]
        error = report.marginal_error
        known = "their error is unknown" if error is None else f"standard error {error:.2g}"
        warnings.warn(
            f"auto was to find the marginals of graph {members[missed[0]]}{others} of size "
            f"{report.size} to within {self.tol:g}; the best answer, by {report.engine}, "
            f"does not ({known}; certificate: {report.certificate}). Raise budget (now "
            f"{self.budget} s) or tol, fix edges you know, or see diagnostics.steps.",
            RuntimeWarning,
            stacklevel=_level_outside(),
        )


def _level_outside() -> int:
    """Return the `stacklevel` of the caller of the package, for `warnings.warn`."""
    frame, level = sys._getframe(1), 1
    while frame is not None and frame.f_globals.get("__name__", "").startswith("permatch."):
        frame, level = frame.f_back, level + 1
    return level
