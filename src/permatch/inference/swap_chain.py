"""Approximate inference by Markov chains over matchings, with parallel tempering."""

import math
import time
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from permatch._types import FloatArray, IntArray, Scores
from permatch._validation import check_count, check_jobs, check_scores
from permatch.inference._options import (
    LEAST_FRACTION,
    check_budget,
    check_choice,
    check_fraction,
    check_limited_count,
    keep,
)
from permatch.inference.base import AbstractEngine, Job
from permatch.inference.chains.report import ChainReport, story, warn_if_unmixed
from permatch.inference.chains.run import MOST_RECORDS, GraphChains, Schedule, balanced
from permatch.inference.result import Diagnostics, StackResult

#: In which sweeps swaps, blocks and sequential choices are made: 4 is every fourth.
_PERIODS = {
    "swap": (1, 0, 0),
    "block": (0, 1, 0),
    "sequential": (0, 0, 1),
    "mixed": (1, 4, 8),
}
# Numbers that the traces of graphs run side by side may hold.
_MOST_KEPT = 1 << 24
_LARGEST_BLOCK = 12
#: Sweeps beyond which no chain ever ends.
MOST_SWEEPS = 10**9
_FLAGS = (bool, np.bool_)
_LONG = "More would never end; set tol or budget to run until it is enough."
#: Options that are counts: the least, the most, and why no more.
_COUNTS = (
    ("n_sweeps", 16, MOST_SWEEPS, _LONG),
    ("max_sweeps", 16, MOST_SWEEPS, _LONG),
    ("burn_in", 0, MOST_SWEEPS, _LONG),
    ("n_chains", 1, 256, "All chains are kept in memory: raise n_sweeps instead."),
    ("tempering", 1, 1024, "True takes as many rungs as are needed."),
    ("block_size", 2, _LARGEST_BLOCK, "Time doubles with every row of a block."),
)
_SECONDS_PER_ROW = 4e-8


@dataclass(frozen=True, kw_only=True)
class SwapChain(AbstractEngine):
    """Markov chains that let rows exchange columns, helped over barriers by hotter ones.

    For graphs beyond the other samplers: it takes any scores and any size, but says only
    afterwards how far it got.  A chain is a ladder of states, from the target up to uniform
    matchings; neighbours exchange states, and the ladder yields the log-partition.
    Forbidden edges are merely unlikely on the upper rungs, so that matchings that no swap
    connects are reached through them.

    Parameters
    ----------
    max_size : int
        Largest graph accepted.
    n_sweeps : int
        Sweeps of every chain that count.  A sweep moves every row about twice.
    n_chains : int
        Independent chains, from starts far apart: the mode, the mode without its best
        edge, random matchings.
    tempering : bool or int
        True for as many rungs as make neighbours exchange about half the time, or the
        number of rungs.  False for none: quicker, but fit for scores without barriers only,
        and the log-partition is NaN.
    block_size : int
        Rows that blocks and sequential choices move together.
    proposals : str
        "swap": pairs of rows, by their exact conditional.  "block": blocks of rows, by
        theirs.  "sequential": rows of a block choose in turn, accepted or refused.
        "mixed": swaps in every sweep, blocks in every fourth, sequential in every eighth.
    burn_in : int, optional
        Sweeps before those that count, in which the rungs are tuned; None takes half of
        `n_sweeps`.
    tol : float, optional
        Largest standard error wanted of a marginal: as long as it is missed or chains have
        not mixed, all sweeps so far become burn-in and two to eight times as many follow.
    max_sweeps : int
        Most sweeps of a chain that count, with `tol`.
    budget : float, optional
        Seconds for all graphs together.  Only then does the answer depend on the clock.
    random_state : int
        Seed; the same gives the same answer for any number of threads.

    Notes
    -----
    O(m) per sweep and rung; the number of rungs grows like the square root of m.
    Marginals average the probability of each edge given the rest of the matching
    (Rao-Blackwell).  Standard errors come from batch means, scaled up where chains differ
    by more than batches; to each, one effective sample is added in quadrature for what was
    never seen.  A `RuntimeWarning` tells when chains have not mixed: R-hat above 1.05,
    fewer than 100 effective samples, or an edge seen so rarely that the best matching with
    it must have been missed, as happens to chains without rungs that all stay around the
    best matching.

    Examples
    --------
    >>> import numpy as np
    >>> result = SwapChain().infer(np.log([[3.0, 1.0], [2.0, 2.0]]))
    >>> bool(abs(result.marginals[0, 0] - 0.75) < 3 * result.marginal_errors[0, 0])
    True
    >>> result.diagnostics.certificate
    'asymptotic'
    """

    n_sweeps: int = 2000
    n_chains: int = 4
    tempering: bool | int = True
    block_size: int = 6
    proposals: str = "mixed"
    burn_in: int | None = None
    tol: float | None = None
    max_sweeps: int = 100_000
    budget: float | None = None
    random_state: int = 0
    max_size: int = 500

    name = "swap_chain"
    largest_max_size: ClassVar[int] = 2000

    def __post_init__(self) -> None:
        super().__post_init__()
        name = type(self).__name__
        for option, lowest, highest, why in _COUNTS:
            value = getattr(self, option)
            is_given = value is not None or option != "burn_in"
            if is_given and not (option == "tempering" and isinstance(value, _FLAGS)):
                what = f"{option} of {name}"
                value = check_limited_count(value, what, lowest, highest, why)
                keep(self, **{option: value})
        if isinstance(self.tempering, np.bool_):
            keep(self, tempering=bool(self.tempering))
        keep(
            self,
            random_state=check_count(self.random_state, f"random_state of {name}", 0),
            proposals=check_choice(self.proposals, f"proposals of {name}", (*_PERIODS,)),
            tol=check_fraction(
                self.tol, f"tol of {name}", is_optional=True, lowest=LEAST_FRACTION
            ),
            budget=check_budget(self.budget, f"budget of {name}"),
        )

    def log2_seconds(self, size: int) -> float:
        """Estimate log2 of the seconds one graph takes on one thread."""
        rungs = 1.0 if self._n_rungs == 1 else 2.0 + 2.0 * math.sqrt(size)
        n_sweeps = self.n_chains * (self.n_sweeps + self.n_burned)
        return math.log2(n_sweeps * rungs * (size + 1) * _SECONDS_PER_ROW)

    def log2_bytes(self, size: int) -> float:
        """Estimate log2 of the bytes one graph needs."""
        records = min(self.n_sweeps, MOST_RECORDS)
        return math.log2(self.n_chains * (size + 1) * (32 * size + 10 * records))

    def report(self, scores: Scores, *, n_jobs: int | None = None) -> ChainReport:
        """Run the chains of one graph and return all that is known of them.

        Parameters
        ----------
        scores : array of shape (m, m)
            Log-weight of each edge; ``-inf`` forbids an edge.
        n_jobs : int, optional
            Threads; None means one, -1 all processors.  The report does not depend on it.

        Returns
        -------
        ChainReport
            Exchange rates, R-hat, effective samples beside the answer; no warning is given.
        """
        one = check_scores(scores)
        self.check_size(len(one))
        job = Job(check_jobs(n_jobs))
        return self._reports(one[None], np.zeros(1, dtype=np.intp), job)[0]

    @property
    def _n_rungs(self) -> int | None:
        """The number of rungs, None to choose it."""
        if isinstance(self.tempering, bool | np.bool_):
            return None if self.tempering else 1
        return int(self.tempering)

    @property
    def n_burned(self) -> int:
        """Sweeps of burn-in."""
        return self.n_sweeps // 2 if self.burn_in is None else self.burn_in

    def _infer_stack(self, scores: FloatArray, members: IntArray, job: Job) -> StackResult:
        reports = self._reports(scores, members, job)
        size = scores.shape[1]
        warn_if_unmixed(reports, members)
        is_mixed = all(report.is_mixed for report in reports)
        log_partitions = np.array([report.log_partition for report in reports])
        log_errors = np.array([report.log_partition_error for report in reports])
        marginals = np.array([report.marginals for report in reports]).reshape(scores.shape)
        errors = np.array([report.marginal_errors for report in reports])
        diagnostics = Diagnostics(
            engine=self.name,
            reason=story(reports),
            size=size,
            n_graphs=len(reports),
            certificate="asymptotic" if is_mixed else "heuristic",
            n_samples=sum(report.n_chains * report.n_sweeps for report in reports),
            is_converged=all(report.meets(self.tol) for report in reports),
        )
        if reports:
            worst = int(np.argmax(log_errors))  # a NaN is the worst of all
            middle, error = log_partitions[worst], log_errors[worst]
            is_known = bool(is_mixed and np.isfinite(error))
            diagnostics = replace(
                diagnostics,
                interval=(float(middle - 2 * error), float(middle + 2 * error))
                if is_known
                else None,
                interval_certificate="asymptotic" if is_known else "",
                log_partition_error=float(error),
                marginal_error=max(report.marginal_error for report in reports),
                effective_samples=min(report.effective_samples for report in reports),
                acceptance=min(report.acceptance for report in reports),
                r_hat=max(report.r_hat for report in reports),
            )
        return StackResult(
            log_partitions,
            marginals,
            diagnostics,
            is_exact=False,
            log_partition_errors=log_errors,
            marginal_errors=errors.reshape(scores.shape),
        )

    def _reports(
        self, scores: FloatArray, members: IntArray, job: Job
    ) -> list[ChainReport]:
        """Run the chains of every graph of a stack, a few graphs at a time."""
        n_graphs, size = scores.shape[:2]
        weights, offsets = balanced(scores, members)
        if size <= 1:
            return [ChainReport.certain(weights[g], offsets[g]) for g in range(n_graphs)]
        schedule = Schedule(self.n_burned, self.n_sweeps, self.tol, self.max_sweeps)
        longest = self.n_sweeps if self.tol is None else self.max_sweeps
        per_group = 1 + _MOST_KEPT // (
            self.n_chains * size * (size + min(longest, MOST_RECORDS))
        )
        start = time.perf_counter()
        reports: list[ChainReport] = []
        for first in range(0, n_graphs, per_group):
            graphs = range(first, min(first + per_group, n_graphs))
            group = [
                self.start_chains(
                    weights[g], offsets[g], (self.random_state, int(members[g]))
                )
                for g in graphs
            ]
            deadline = math.inf
            if self.budget is not None:
                now = time.perf_counter()
                left = max(start + self.budget - now, 0.0)
                deadline = now + left * len(group) / (n_graphs - first)
            reports += schedule.run(group, job, deadline)
        return reports

    def start_chains(
        self, weights: FloatArray, offset: float, key: tuple[int, int]
    ) -> GraphChains:
        """Place the chains of one graph at their starts.

        Parameters
        ----------
        weights : ndarray of shape (m, m)
            Balanced weights.
        offset : float
            Log of what balancing has divided them by.
        key : pair of int
            Names the random streams.

        Returns
        -------
        GraphChains
            Ready to be run.
        """
        return GraphChains.start(
            weights,
            offset,
            self._n_rungs,
            np.array(_PERIODS[self.proposals]),
            self.block_size,
            self.n_chains,
            key,
        )
