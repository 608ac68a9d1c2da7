"""Nesting importance sampling: the work-horse past the exact sizes."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch._validation import check_count
from permatch.inference._options import (
    LEAST_FRACTION,
    MOST_DRAWS,
    check_budget,
    check_choice,
    check_flag,
    check_fraction,
    check_limited_count,
    check_optional_count,
    keep,
)
from permatch.inference.allowance import Allowance
from permatch.inference.base import AbstractEngine, Job
from permatch.inference.result import Diagnostics, StackResult, weakest
from permatch.inference.sampling.betting import bet_until, draws_needed
from permatch.inference.sampling.estimates import Answer
from permatch.inference.sampling.nesting_run import NestingRun, Settings
from permatch.inference.sampling.nesting_table import deepen
from permatch.inference.scaling import reduce_stack
from permatch.kernels.random import seed_state
from permatch.kernels.sliced_draws import weigh_chunk

_CERTIFICATES = ("asymptotic", "rigorous")
# Draws of one task; fixed, so that answers do not depend on the number of threads.
_CHUNK = 128
_LARGEST_TAIL = 12
_LARGEST_DEPTH = 22
# They take 32 bytes for each node.
_MOST_PARTICLES = 100_000


@dataclass(frozen=True, kw_only=True)
class Nesting(AbstractEngine):
    """Log-partition and marginals from weighted draws, with standard errors.

    Draws take one column after the other, the most certain first, with probabilities from a
    bound on what is left; the last columns are summed over exactly.  The weights of the
    draws are unbiased for the partition function and vary little.  Half the work is done on
    the transposed graph, whose draws are quite different: if the two answers disagree, the
    certificate is withdrawn.

    Parameters
    ----------
    max_size : int
        Largest graph accepted.
    tol : float or None
        Error of the marginals asked for, all at once, with probability 1 - delta; None
        takes what a first round of draws gives.
    delta : float
        Probability with which the tolerance, or the interval, may be missed.
    n_samples : int, optional
        Draws, instead of as many as `tol` needs; rounded up to a multiple of 32.
    max_samples : int
        Most draws made for `tol`, and most for `epsilon`.
    depth : int, optional
        Columns of the head, drawn from an exact table of ``m 2^depth`` numbers.  None means
        no head for estimates, where it gains little, and one as deep as pays for the bets.
    tail : int
        Columns at the end that are summed over exactly for every draw.
    certificate : {"asymptotic", "rigorous"}
        "rigorous" adds draws until an interval holds the partition function up to a share
        of `epsilon`, but for probability `delta`, by bets that hold for every number of
        draws; within reach where the bound is not too far off.  The estimate and its
        standard error stay what they are without it; an estimate far outside of the
        interval is "heuristic".
    epsilon : float
        Half the relative width of the interval that "rigorous" is after.
    budget : float, optional
        Seconds after which no more draws are begun.  Answers then depend on the machine.
    random_state : int
        Seed; the same scores and seed give the same answer.
    transpose_check : bool
        Whether to spend part of the draws on the transposed graph.
    particles : "auto", int or None
        Particles of a filter.  "auto" uses filters where weights vary much, None never.

    Notes
    -----
    O(m^2) a draw, sixteen at a time: about 2 microseconds at m = 50.  The marginals rest on
    standard errors, never on a guarantee; the interval of the log-partition says which of
    the two stands behind it.  With fewer than 100 effective draws, 5 effective filters or
    1000 draws of filters the certificate is "heuristic".

    Examples
    --------
    >>> import numpy as np
    >>> import permatch as pm
    >>> scores = np.random.default_rng(0).normal(size=(30, 30))
    >>> result = pm.Nesting(tol=0.05).infer(scores)
    >>> result.is_exact, result.diagnostics.certificate
    (False, 'asymptotic')
    >>> bool(result.marginal_errors.max() < 0.05)
    True
    """

    max_size: int = 1000
    tol: float | None = 0.01
    delta: float = 0.05
    n_samples: int | None = None
    max_samples: int = 4_000_000
    depth: int | None = None
    tail: int = 8
    certificate: str = "asymptotic"
    epsilon: float = 0.1
    budget: float | None = None
    random_state: int = 0
    transpose_check: bool = True
    particles: int | str | None = "auto"

    name = "nesting"
    largest_max_size: ClassVar[int] = 5000

    def __post_init__(self) -> None:
        super().__post_init__()
        tables = "The tables double with every column."
        particles = self.particles
        if particles is not None and not (
            isinstance(particles, str) and particles == "auto"
        ):
            particles = check_limited_count(
                particles,
                "particles of Nesting, if not 'auto' or None,",
                2,
                _MOST_PARTICLES,
                "They would not fit into memory: raise n_samples for more filters.",
            )
        keep(
            self,
            tol=check_fraction(
                self.tol, "tol of Nesting", is_optional=True, lowest=LEAST_FRACTION
            ),
            delta=check_fraction(self.delta, "delta of Nesting", lowest=LEAST_FRACTION),
            epsilon=check_fraction(self.epsilon, "epsilon of Nesting"),
            n_samples=check_optional_count(
                self.n_samples, "n_samples of Nesting", 1, MOST_DRAWS
            ),
            max_samples=check_limited_count(
                self.max_samples, "max_samples of Nesting", 1, MOST_DRAWS
            ),
            depth=check_optional_count(
                self.depth, "depth of Nesting", 0, _LARGEST_DEPTH, tables
            ),
            tail=check_limited_count(
                self.tail, "tail of Nesting", 0, _LARGEST_TAIL, tables
            ),
            certificate=check_choice(
                self.certificate, "certificate of Nesting", _CERTIFICATES
            ),
            budget=check_budget(self.budget, "budget of Nesting"),
            random_state=check_count(self.random_state, "random_state of Nesting", 0),
            transpose_check=check_flag(self.transpose_check, "transpose_check of Nesting"),
            particles=particles,
        )

    def log2_seconds(self, size: int) -> float:
        """Estimate log2 of the seconds one graph takes on one thread."""
        return math.log2(1e5 * (1e-6 + 1e-9 * size * size))

    def log2_bytes(self, size: int) -> float:
        """Estimate log2 of the bytes one graph needs."""
        n_particles = self.particles if isinstance(self.particles, int) else 0
        return math.log2(200.0 * (size + 1.0) ** 2 + 32.0 * n_particles * size)

    def _infer_stack(self, scores: FloatArray, members: IntArray, job: Job) -> StackResult:
        reduced, offsets = reduce_stack(scores, members)
        n_graphs = len(scores)
        # One graph shares out its chunks over the threads; several share out themselves.
        inner = job if n_graphs == 1 else Job()
        allowance = self.budget
        if allowance is not None and n_graphs:
            allowance *= min(job.n_jobs, n_graphs) / n_graphs
        answers: list[Answer | None] = [None] * n_graphs
        settings = Settings(
            self.tol,
            self.delta,
            self.n_samples,
            self.max_samples,
            self.depth or 0,
            self.tail,
            self.transpose_check,
            self.particles,
        )

        def solve(g: int) -> None:
            watch = Allowance(allowance)
            key = (self.random_state, int(members[g]))
            run = NestingRun(settings, reduced[g], key, inner)
            answers[g] = self._with_guarantee(run, run.answer(watch), watch)

        if n_graphs == 1:
            solve(0)
        else:
            seconds = n_graphs * 2.0 ** self.log2_seconds(scores.shape[1])
            job.run(solve, n_graphs, f"nesting, size {scores.shape[1]}", seconds)
        return self._collect(reduced, offsets, [a for a in answers if a is not None])

    def _with_guarantee(self, run: NestingRun, answer: Answer, watch: Allowance) -> Answer:
        """Add an interval that is guaranteed, if asked for and within reach."""
        if self.certificate != "rigorous":
            return answer
        log_partition = answer.estimate.log_partition
        if all(plan.is_certain for plan in run.plans):  # no draw has anything to choose
            slack = 1e-12 * (1.0 + abs(log_partition))
            ends = log_partition - slack, log_partition + slack
            return replace(answer, interval=ends, interval_certificate="rigorous")
        plan = min(run.plans, key=lambda plan: plan.log_bound)
        n_wanted = math.log(2.0 / self.delta) / self.epsilon
        if self.depth is None:
            plan = deepen(plan, run.weights, run.offset, log_partition, n_wanted, self.tail)
        share = math.exp(min(0.0, log_partition - plan.log_bound))
        variance = answer.estimate.relative_variance
        found = None
        n_bet = 0
        if draws_needed(share, 0.0, self.epsilon, self.delta) < self.max_samples:

            def draw(first: int, count: int) -> FloatArray:
                nonlocal n_bet
                n_chunks = -(-count // _CHUNK)
                n_bet += n_chunks * _CHUNK
                logs = np.empty((n_chunks, _CHUNK))

                def weigh(k: int) -> None:
                    state = seed_state(*run.key, 1 << 40, first // _CHUNK + k)
                    weigh_chunk(plan.tables, state, logs[k])

                run.job.run(weigh, n_chunks)
                return np.exp(logs.ravel())

            found = bet_until(
                draw,
                share,
                variance,
                self.epsilon,
                self.delta,
                self.max_samples,
                watch.affordable,
            )
        return answer.with_guarantee(found, n_bet, plan.log_bound)

    def _collect(
        self, reduced: FloatArray, offsets: FloatArray, answers: list[Answer]
    ) -> StackResult:
        """Put the answers of the graphs together."""
        n_graphs, size = reduced.shape[:2]
        log_partitions, errors = np.empty(n_graphs), np.empty(n_graphs)
        marginals, marginal_errors = np.empty_like(reduced), np.empty_like(reduced)
        widest, ends = -1.0, None
        for g, answer in enumerate(answers):
            log_partitions[g] = offsets[g] + answer.estimate.log_partition
            errors[g] = answer.estimate.log_partition_error
            marginals[g] = answer.estimate.marginals
            # Impossible edges are known to be out, however few draws there were.
            is_possible = reduced[g] > -np.inf
            marginal_errors[g] = answer.estimate.marginal_errors * is_possible
            low, high = answer.interval
            if high - low > widest:
                base = float(offsets[g])
                widest, ends = high - low, (base + low, base + high)
        notes = sorted({answer.note for answer in answers if answer.note})
        diagnostics = Diagnostics(
            engine=self.name,
            reason="; ".join(["asked for", *notes]),
            size=size,
            n_graphs=n_graphs,
            certificate=weakest(
                "asymptotic" if a.is_trusted else "heuristic" for a in answers
            )
            if answers
            else "asymptotic",
            interval=ends,
            interval_certificate=weakest(a.interval_certificate for a in answers)
            if answers
            else "",
            delta=self.delta if any(a.acceptance is not None for a in answers) else 0.0,
            log_partition_error=float(errors.max(initial=0.0)),
            marginal_error=float(marginal_errors.max(initial=0.0)),
            n_samples=sum(a.n_draws for a in answers),
            effective_samples=min((a.estimate.effective for a in answers), default=None),
            acceptance=min(
                (a.acceptance for a in answers if a.acceptance is not None), default=None
            ),
            is_converged=all(a.is_converged for a in answers),
        )
        return StackResult(
            log_partitions, marginals, diagnostics, False, errors, marginal_errors
        )
