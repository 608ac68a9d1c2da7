"""The engines of `auto` beyond the exact sizes, each told how long it may take."""

import math
import warnings
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, cast

import numpy as np

from permatch._types import FloatArray
from permatch.errors import PrecisionError
from permatch.inference._words import seconds_in_words
from permatch.inference.allowance import Allowance
from permatch.inference.base import AbstractEngine, Job
from permatch.inference.bethe import Bethe
from permatch.inference.escalation.parts import PartAnswer
from permatch.inference.nesting import Nesting
from permatch.inference.result import weakest
from permatch.inference.sampling.estimates import disagree
from permatch.inference.swap_chain import SwapChain

# Belief propagation goes through all edges at this pace, and at least so many times.
_SECONDS_PER_SWEEP, _FEWEST_SWEEPS = 1e-8, 40
# Draws that tell how much weights vary, and from where on it is too much for plain draws.
_PILOT, _HEAVY = 1024, 20.0
# Particles of a filter, if there is time for them in all the filters of a first round.
_PARTICLES, _FEWEST_PARTICLES, _FILTERS = 4096, 64, 10
# Fewer effective draws of the pilot leave time for chains, should filters fail too.
_HOPEFUL, _SHARE_OF_HOPELESS = 5.0, 0.6
# Draws are prepared twice, for the pilot and for the rest.
_FEWEST_PREPARATIONS = 2.6


@dataclass(frozen=True, eq=False)
class Task:
    """A graph, or a part of one, to be answered.

    Attributes
    ----------
    scores : ndarray of shape (n, n)
        Reduced scores.
    tol : float
        Error of the marginals asked for, all together, but for probability `delta`.
    delta : float
        See `tol`.
    share : float
        Part of the time left that this task may take.
    seed : int
        Of the draws.
    time : Allowance
        The time of the whole graph.
    job : Job
        Threads.
    """

    scores: FloatArray
    tol: float
    delta: float
    share: float
    seed: int
    time: Allowance
    job: Job

    @property
    def size(self) -> int:
        """Nodes per side."""
        return len(self.scores)

    @property
    def seconds(self) -> float:
        """Seconds this task may take from now on."""
        return self.share * self.time.left

    def ask(self, engine: AbstractEngine) -> PartAnswer:
        """Return what an engine says; what it warns of, its certificate says too."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            members = np.zeros(1, dtype=np.intp)
            return PartAnswer.of(engine._infer_stack(self.scores[None], members, self.job))


@cache
def load_kernels(engine: AbstractEngine) -> None:
    """Have an engine's kernels compiled or loaded, by a graph too small to matter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        size = min(engine.max_size, 12)
        scores = np.zeros((1, size, size))
        engine._infer_stack(scores, np.zeros(1, dtype=np.intp), Job())


def least_seconds(size: int) -> float:
    """Return what `propagate` and all around it take at least."""
    return 1e-2 + 4e-7 * size**2


def propagate(task: Task) -> tuple[PartAnswer | None, str]:
    """Bracket the log-partition by `Bethe`; always done, since it is the least there is."""
    with task.time.free():
        load_kernels(Bethe())
    left = task.time.left
    engine = Bethe(max_size=task.size)
    # Without time for the interval, marginals alone; without time to settle, as they are.
    is_quick = 2.0 * 2.0 ** engine.log2_seconds(task.size) < left
    affordable = min(0.3 * left / (_SECONDS_PER_SWEEP * task.size**2), engine.max_iter)
    n_sweeps = max(int(affordable), _FEWEST_SWEEPS)
    answer = task.ask(replace(engine, bounds=is_quick, max_iter=n_sweeps))
    # It has met its own tolerance, which is none for marginals.
    report = replace(answer.diagnostics, is_converged=False)
    return replace(answer, diagnostics=report), "its marginals are of unknown error"


def draw(task: Task) -> tuple[PartAnswer | None, str]:
    """Draw by `Nesting`, with filters that fit into the time where weights are heavy."""
    with task.time.free():
        load_kernels(Nesting(n_samples=64))
        load_kernels(Nesting(n_samples=640, particles=64))
    preparing = 2.5e-9 * task.size**3 + _PILOT * (1e-6 + 2e-10 * task.size**2)
    if _FEWEST_PREPARATIONS * preparing > task.seconds:
        return None, _too_late(_FEWEST_PREPARATIONS * preparing, task.seconds)
    engine = Nesting(
        max_size=task.size, tol=task.tol, delta=task.delta, random_state=task.seed
    )
    try:
        if task.seconds < math.inf:
            answer = _draw_within_time(engine, task, preparing)
        else:
            answer = task.ask(engine)
    except PrecisionError:
        return None, "no draw could be completed to a perfect matching"
    notes = answer.diagnostics.reason.removeprefix("asked for").lstrip("; ")
    return answer, notes


def _draw_within_time(engine: Nesting, task: Task, preparing: float) -> PartAnswer:
    """Draw a little, then as much as can be done in the time, by filters if need be."""
    seconds = task.seconds
    start = task.time.seconds
    try:
        pilot = task.ask(replace(engine, n_samples=_PILOT, particles=None))
    except PrecisionError:  # filters may get through where single draws do not
        pilot, effective = None, 0.0
    else:
        effective = pilot.diagnostics.effective_samples or 0.0
    took = task.time.seconds - start
    budget = seconds - took
    if pilot is not None and budget < 1.5 * took:  # most of which would be preparation
        report = replace(pilot.diagnostics, is_converged=False)
        return replace(pilot, diagnostics=report)
    if effective * _HEAVY >= _PILOT:
        return task.ask(replace(engine, budget=budget, particles=None))
    is_hopeful = effective >= _HOPEFUL
    first = max(budget * (1.0 if is_hopeful else _SHARE_OF_HOPELESS), 1e-3)
    # What a particle costs is known of one machine; the pilot tells how fast this one is.
    slowness = min(max(took / preparing, 1.0), 10.0)
    per_particle = slowness * (2e-6 + 8e-10 * task.size**2)
    affordable = int(0.4 * first / (_FILTERS * per_particle))
    particles = "auto" if affordable >= _PARTICLES else max(affordable, _FEWEST_PARTICLES)
    engine = replace(engine, budget=first, particles=particles)
    answer = task.ask(engine)
    rest = seconds - (task.time.seconds - start)
    if is_hopeful or answer.is_settled or not answer.is_trusted or rest < 0.5 * first:
        return answer
    # Trusted after all: no chain does better in the time that was kept for it.
    more = task.ask(replace(engine, budget=rest, random_state=task.seed + 1))
    return _pooled(answer, more, task)


def _pooled(one: PartAnswer, other: PartAnswer, task: Task) -> PartAnswer:
    """Return the mean of two independent estimates, each by its errors."""
    if disagree(cast("Any", one), cast("Any", other), task.tol):  # alike in what counts
        report = replace(one.diagnostics, certificate="heuristic")
        return replace(one, diagnostics=report)
    weights = np.array([one.marginal_error, other.marginal_error]) ** -2.0
    share = float(weights[0] / weights.sum())
    value = share * one.log_partition + (1.0 - share) * other.log_partition
    log_error = math.hypot(
        share * one.log_partition_error, (1.0 - share) * other.log_partition_error
    )
    errors = np.hypot(share * one.marginal_errors, (1.0 - share) * other.marginal_errors)
    first, second = one.diagnostics, other.diagnostics
    reach = factor_for_all(task.size, task.delta) * float(errors.max(initial=0.0))
    report = replace(
        first,
        interval=(value - 2.0 * log_error, value + 2.0 * log_error),
        n_samples=first.n_samples + second.n_samples,
        effective_samples=sum(r.effective_samples or 0.0 for r in (first, second)),
        certificate=weakest([first.certificate, second.certificate]),
        is_converged=reach <= task.tol,
    )
    return PartAnswer(
        value,
        log_error,
        share * one.marginals + (1.0 - share) * other.marginals,
        errors,
        one.interval,
        report,
    )


def walk(task: Task) -> tuple[PartAnswer | None, str]:
    """Let the chains of `SwapChain` walk, if there is time for them to get anywhere."""
    with task.time.free():
        load_kernels(SwapChain(n_sweeps=16, n_chains=1))
    left = task.seconds
    engine = SwapChain(
        max_size=task.size,
        tol=task.tol / factor_for_all(task.size, task.delta),
        budget=None if left == math.inf else max(left, 1e-3),
        random_state=task.seed,
    )
    seconds = 2.0 ** engine.log2_seconds(task.size)
    if 0.5 * seconds > left:
        return None, _too_late(seconds, left)
    answer = task.ask(engine)
    if answer.is_trusted:
        return answer, ""
    told = answer.diagnostics
    return answer, (
        f"chains have not mixed: R-hat {told.r_hat or math.nan:.3g}, "
        f"{told.effective_samples or math.nan:.0f} effective samples"
    )


def factor_for_all(size: int, delta: float) -> float:
    """Return within how many standard errors all marginals are at once, but for `delta`.

    By Hoeffding's inequality for the edges together.
    """
    return math.sqrt(2.0 * math.log(2.0 * max(size, 1) ** 2 / delta))


def _too_late(seconds: float, left: float) -> str:
    wanted = seconds_in_words(math.log2(seconds))
    return f"not tried: it would take {wanted}, and {left:.2g} seconds are left"
