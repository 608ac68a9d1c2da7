"""Nesting importance sampling: the workhorse beyond the exact sizes."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from permatch._parallel import Allowance
from permatch._types import FloatArray, IntArray
from permatch._validation import check_choice
from permatch.errors import PrecisionError
from permatch.inference._options import (
    LEAST_FRACTION,
    MOST_DRAWS,
    RandomEngine,
    check_budget,
    check_flag,
    check_fraction,
    check_limited_count,
    check_optional_count,
    higher_limit,
    keep,
    more_draws,
    smaller_error,
)
from permatch.inference.answer import InferenceResult, weakest
from permatch.inference.base import Goal, Job, load_kernels, not_tried
from permatch.inference.sampling.betting import bet_until, draws_needed
from permatch.inference.sampling.edge_nesting import infer_edges
from permatch.inference.sampling.nesting_run import NestingRun, Settings
from permatch.inference.sampling.nesting_table import deepen
from permatch.inference.sampling.weighted import disagree
from permatch.kernels.intrinsics import seed_state
from permatch.kernels.sliced import weigh_chunk
from permatch.problems import Problem

_CERTIFICATES = ("asymptotic", "rigorous")
# Draws of one task; fixed, so that answers do not depend on the number of threads.
_CHUNK = 128
_LARGEST_TAIL = 12
_LARGEST_DEPTH = 22
# They take 32 bytes for each node.
_MOST_PARTICLES = 100_000
# Fewer draws tell nothing; errors asked for with less effort stay below these.
_FEWEST_DRAWS, _LARGEST_TOL, _LARGEST_EPSILON = 32, 0.25, 0.5
# So many standard errors outside of an interval that holds, an estimate is not trusted.
_FAR_OUT = 4.0
# Within a time: draws that tell how much weights vary, and from where on it is too much
# for plain draws.
_PILOT, _HEAVY = 1024, 20.0
# Particles of a filter, if there is time for them in all the filters of a first round.
_PARTICLES, _FEWEST_PARTICLES, _FILTERS = 4096, 64, 10
# Fewer effective draws of the pilot leave time for chains, should filters fail too.
_HOPEFUL, _SHARE_OF_HOPELESS = 5.0, 0.6
# Draws are prepared twice, for the pilot and for the rest.
_FEWEST_PREPARATIONS = 2.6


@dataclass(frozen=True, kw_only=True)
class Nesting(RandomEngine):
    """Log-partition and marginals from weighted draws, with standard errors.

    Columns are drawn in turn, the most certain first, with probabilities from a bound on
    the rest; the last columns are summed exactly.  The weights of the draws are unbiased
    for the partition function and vary little.  Half the work is done on the transposed
    graph, whose draws are quite different: if the two estimates disagree, the certificate
    is "heuristic".

    On sparse, rectangular and partial problems nodes choose in turn along their edges, or
    stay unmatched, guided by belief propagation, in filters of a few hundred particles.
    Components that are trees are solved exactly.  `depth` and `tail` do not apply there,
    and "rigorous" gives the interval of `Bethe`.

    Parameters
    ----------
    max_size : int
        Largest graph of perfect matchings accepted; edges are not limited.
    random_state : int
        Seed; the same scores and seed give the same result.
    tol : float or None
        Error to reach for all marginals at once with probability 1 - delta; None stops
        after a first round of draws.
    delta : float
        Probability that the tolerance, or the interval, is missed.
    n_samples : int, optional
        Number of draws, instead of as many as `tol` needs; rounded up to a multiple of 32.
    max_samples : int
        Maximum draws for `tol`, and for `epsilon`.
    depth : int, optional
        Columns of the head, drawn from an exact table of ``m 2^depth`` numbers.  Default:
        none for estimates, where it gains little, and as many as pay off for "rigorous".
    tail : int
        Columns at the end that are summed exactly for every draw.
    certificate : {"asymptotic", "rigorous"}
        "rigorous" adds draws until a betting interval, valid for any number of draws,
        contains the partition function up to a relative error `epsilon` with probability
        1 - delta; feasible if the bound is not too far off.  The estimate and its standard
        error are unchanged; an estimate far outside the interval is "heuristic".
    epsilon : float
        Half the relative width of the "rigorous" interval.
    budget : float, optional
        Seconds after which no more draws are started.  Results then depend on the machine.
    transpose_check : bool
        Spend part of the draws on the transposed graph.
    particles : "auto", int or None
        Particles per filter.  "auto" uses filters if weights vary much, None never.

    Notes
    -----
    O(m^2) per draw, sixteen at a time: about 2 microseconds at m = 50; on edges a draw is
    linear in them.  Marginals have
    standard errors, never a guarantee; ``interval_certificate`` tells which the interval of
    the log-partition has.  With fewer than 100 effective draws, 5 effective filters or 1000
    draws of filters the certificate is "heuristic".

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
                "They would not fit in memory; raise n_samples for more filters.",
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

    def with_effort(self, factor: float) -> Self:
        """Return the engine that draws `factor` times as much."""
        return replace(
            self,
            n_samples=more_draws(self.n_samples, factor, _FEWEST_DRAWS),
            max_samples=higher_limit(self.max_samples, factor),
            tol=smaller_error(self.tol, factor, _LARGEST_TOL),
            epsilon=smaller_error(self.epsilon, factor, _LARGEST_EPSILON),
        )

    def _infer_stack(
        self, scores: FloatArray, members: IntArray, job: Job
    ) -> InferenceResult:
        budget = self.budget
        if budget is not None and len(scores):
            budget *= min(job.n_jobs, len(scores)) / len(scores)
        settings = self._settings

        def answer(
            reduced: FloatArray, key: tuple[int, int], inner: Job
        ) -> InferenceResult:
            watch = Allowance(budget)
            run = NestingRun(settings, reduced, key, inner)
            return self._with_guarantee(run, run.answer(watch), watch)

        return self._answer_each(scores, members, job, answer)

    @property
    def _settings(self) -> Settings:
        return Settings(
            self.tol,
            self.delta,
            self.n_samples,
            self.max_samples,
            self.depth or 0,
            self.tail,
            self.transpose_check,
            self.particles,
        )

    def _infer_problem(self, problem: Problem, job: Job) -> InferenceResult:
        n_left, n_right = problem.structure.components.sizes
        is_square = (n_left == n_right) & (n_left <= self.max_size)
        if problem.is_perfect and is_square.all():
            return super()._infer_problem(problem, job)
        epsilon = self.epsilon if self.certificate == "rigorous" else None
        seed, budget = self.random_state, self.budget
        return infer_edges(problem, self._settings, seed, budget, epsilon, job)

    def _with_guarantee(
        self, run: NestingRun, answer: InferenceResult, watch: Allowance
    ) -> InferenceResult:
        """Add an interval that is guaranteed, if asked for and within reach."""
        if self.certificate != "rigorous":
            return answer
        log_partition = answer.log_partition
        if all(plan.is_certain for plan in run.plans):  # no draw has anything to choose
            slack = 1e-12 * (1.0 + abs(log_partition))
            ends = log_partition - slack, log_partition + slack
            return answer.told(interval=ends, interval_certificate="rigorous")
        plan = min(run.plans, key=lambda plan: plan.log_bound)
        n_wanted = math.log(2.0 / self.delta) / self.epsilon
        if self.depth is None:
            plan = deepen(plan, run.weights, run.offset, log_partition, n_wanted, self.tail)
        share = math.exp(min(0.0, log_partition - plan.log_bound))
        variance = answer.diagnostics.figures["relative_variance"]
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
        told = answer.diagnostics
        n_samples = told.n_samples + n_bet
        if found is None:
            notes = (*told.notes, "too few draws for a rigorous interval")
            return answer.told(n_samples=n_samples, is_converged=False, notes=notes)
        low, high = (plan.log_bound + math.log(end) for end in (found.low, found.high))
        # The estimate stays where its standard error is true: any other value would need an
        # error of its own.  Far outside of the interval, it is not to be trusted.
        outside = max(low - log_partition, log_partition - high)
        is_near = outside <= _FAR_OUT * answer.log_partition_error + 1e-9
        notes = () if is_near else ("the estimate lies outside the rigorous interval",)
        return answer.told(
            certificate=told.certificate if is_near else "heuristic",
            interval=(low, high),
            interval_certificate="rigorous",
            delta=self.delta,
            n_samples=n_samples,
            acceptance=found.mean,
            is_converged=told.is_converged and is_near,
            notes=(*told.notes, *notes),
        )

    # ---- within a time

    def _attempt(
        self, scores: FloatArray, goal: Goal, job: Job
    ) -> tuple[InferenceResult | None, tuple[str, ...]]:
        """Draw within a time, with filters that fit into it where weights are heavy."""
        with goal.time.free():
            load_kernels(Nesting(n_samples=64))
            load_kernels(Nesting(n_samples=640, particles=64))
        size = len(scores)
        preparing = 2.5e-9 * size**3 + _PILOT * (1e-6 + 2e-10 * size**2)
        if _FEWEST_PREPARATIONS * preparing > goal.seconds:
            return None, (not_tried(_FEWEST_PREPARATIONS * preparing, goal.seconds),)
        engine = replace(
            self, max_size=size, tol=goal.tol, delta=goal.delta, random_state=goal.seed
        )
        try:
            if goal.seconds < math.inf:
                answer = engine._draw_within(scores, goal, job, preparing)
            else:
                answer = engine._answer_one(scores, job)
        except PrecisionError:
            return None, ("no draw could be completed to a perfect matching",)
        return answer, answer.diagnostics.notes

    def _draw_within(
        self, scores: FloatArray, goal: Goal, job: Job, preparing: float
    ) -> InferenceResult:
        """Draw a little, then as much as can be done in the time, by filters if need be."""
        seconds = goal.seconds
        start = goal.time.seconds
        pilot, effective = None, 0.0
        try:
            few = replace(self, n_samples=_PILOT, particles=None)
            pilot = few._answer_one(scores, job)
            effective = pilot.diagnostics.effective_samples or 0.0
        except PrecisionError:  # filters may get through where single draws do not
            pass
        took = goal.time.seconds - start
        budget = seconds - took
        if pilot is not None and budget < 1.5 * took:  # most of which would be preparation
            return pilot.told(is_converged=False)
        if effective * _HEAVY >= _PILOT:
            return replace(self, budget=budget, particles=None)._answer_one(scores, job)
        is_hopeful = effective >= _HOPEFUL
        first = max(budget * (1.0 if is_hopeful else _SHARE_OF_HOPELESS), 1e-3)
        # What a particle costs is known of one machine; the pilot tells how fast this one
        # is.
        slowness = min(max(took / preparing, 1.0), 10.0)
        per_particle = slowness * (2e-6 + 8e-10 * len(scores) ** 2)
        affordable = int(0.4 * first / (_FILTERS * per_particle))
        particles = (
            "auto" if affordable >= _PARTICLES else max(affordable, _FEWEST_PARTICLES)
        )
        engine = replace(self, budget=first, particles=particles)
        answer = engine._answer_one(scores, job)
        told = answer.diagnostics
        rest = seconds - (goal.time.seconds - start)
        if is_hopeful or told.is_settled or not told.is_trusted or rest < 0.5 * first:
            return answer
        # Trusted after all: no chain does better in the time that was kept for it.
        other = replace(engine, budget=rest, random_state=self.random_state + 1)
        return _pooled(answer, other._answer_one(scores, job), goal)


def _pooled(one: InferenceResult, other: InferenceResult, goal: Goal) -> InferenceResult:
    """Return the mean of two independent estimates, each by its errors."""
    if disagree(one, other, goal.tol):
        return one.told(certificate="heuristic")
    weights = np.array([one.largest_error, other.largest_error]) ** -2.0
    share = float(weights[0] / weights.sum())
    value = share * one.log_partition + (1.0 - share) * other.log_partition
    log_error = math.hypot(
        share * one.log_partition_error, (1.0 - share) * other.log_partition_error
    )
    errors = np.hypot(share * one.marginal_errors, (1.0 - share) * other.marginal_errors)
    marginals = share * one.marginals + (1.0 - share) * other.marginals
    first, second = one.diagnostics, other.diagnostics
    reach = goal.factor(len(errors)) * float(errors.max(initial=0.0))
    return InferenceResult(value, marginals, False, first, log_error, errors).told(
        interval=(value - 2.0 * log_error, value + 2.0 * log_error),
        n_samples=first.n_samples + second.n_samples,
        effective_samples=sum(told.effective_samples or 0.0 for told in (first, second)),
        certificate=weakest([first.certificate, second.certificate]),
        is_converged=reach <= goal.tol,
    )
