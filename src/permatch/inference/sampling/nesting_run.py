"""One graph's run of `Nesting`: rounds of draws until the tolerance is met."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from permatch._parallel import Allowance, Job
from permatch._types import FloatArray
from permatch.errors import PrecisionError
from permatch.inference.answer import InferenceResult
from permatch.inference.sampling.weighted import (
    Plan,
    add_sums,
    balanced_weights,
    disagree,
    effective_draws,
    empty_sums,
    estimate_from_draws,
    estimate_from_filters,
    is_even,
    make_plan,
    pool,
    relative_variance,
)
from permatch.kernels.intrinsics import seed_state
from permatch.kernels.nesting import LANES, Sums
from permatch.kernels.sliced import add_chunk, run_filter

# Draws of one task; fixed, so that answers do not depend on the number of threads.
_CHUNK = 2048
# Draws of either orientation where no tolerance is asked for.
_FEW = 256
# Weights that vary more than this call for particles.
_HEAVY = 20.0
_PARTICLES = 4096
# Filters in the first round, of both orientations together.
_FILTERS = 10
# Filters of either orientation that are run even if the time is up.
_FEWEST_FILTERS = 2
# A round draws at most so many times what is there: early estimates are rough.
_GROWTH = 3.0
# Fewer effective draws are no ground for a normal approximation.
_FEWEST_EFFECTIVE = 1000.0
# Tasks carried out before their sums are added up, and numbers in those sums.
_TASKS_AT_ONCE, _MOST_NUMBERS = 1024, 1 << 26
# The share of the time left that a first round may take.
_SHARE = 0.5
# The worse orientation gets one chunk in so many.
_CHECK_EVERY = 4


@dataclass(frozen=True)
class Settings:
    """The options of `Nesting` that concern one run."""

    tol: float | None
    delta: float
    n_samples: int | None
    max_samples: int
    depth: int
    tail: int
    transpose_check: bool
    particles: int | str | None


class NestingRun:
    """Draws for one graph, reduced to a best matching of score 0.

    `key` names the random streams; `job` shares out the chunks of a round.
    """

    def __init__(
        self, options: Settings, reduced: FloatArray, key: tuple[int, ...], job: Job
    ) -> None:
        self.weights, self.offset = balanced_weights(reduced)
        self.key = key
        self.job = job
        self._options = options
        orientations = (False, True) if options.transpose_check else (False,)
        self.plans = [
            make_plan(
                self.weights,
                self.offset,
                depth=options.depth,
                tail=options.tail,
                is_transposed=is_transposed,
            )
            for is_transposed in orientations
        ]
        size = len(reduced)
        self._size = size
        self._sums = [empty_sums(size) for _ in self.plans]
        self._n_tasks = 0
        # By Hoeffding's inequality over all edges, for independent exact draws; a standard
        # error so much smaller than the tolerance says the same of weighted ones.
        self._log_edges = math.log(2.0 * max(size, 1) ** 2 / options.delta)

    # ---- rounds

    def answer(self, watch: Allowance) -> InferenceResult:
        """Draw until the tolerance, the most draws or the budget is reached."""
        options = self._options
        if all(plan.is_certain for plan in self.plans):
            self._draw([(p, LANES) for p in range(len(self.plans))])
            return self._finish(self._estimates(), is_met=True)
        if isinstance(options.particles, int):
            return self._filter(watch, options.particles)
        if options.n_samples is not None:
            self._draw_fixed(options.n_samples, watch)
            return self._finish(
                self._estimates(), is_met=self._n_draws >= options.n_samples
            )
        first = min(_CHUNK if options.tol else _FEW, _up(options.max_samples))
        first = self._within(watch, len(self.plans) * first) // len(self.plans)
        self._draw([(p, _up(first)) for p in range(len(self.plans))])
        lightest = min(map(relative_variance, self._sums))
        if lightest > _HEAVY and options.particles == "auto":
            return self._filter(watch, _PARTICLES)
        while True:
            estimates = self._estimates()
            lack = self._lack(pool(estimates)) if estimates else _GROWTH
            if lack <= 0.0:
                return self._finish(estimates, is_met=True)
            wanted = self._n_draws * min(1.05 * lack, _GROWTH)
            wanted = min(wanted, options.max_samples - self._n_draws)
            wanted = watch.affordable(self._n_draws, wanted)
            if wanted < 1.0:
                return self._finish(estimates, is_met=False)
            if watch.left < math.inf and wanted < _CHUNK:
                self._draw([(self._lighter, _up(int(wanted)))])
            else:
                self._draw(self._shared_out(math.ceil(wanted / _CHUNK)))

    def _lack(self, estimate: InferenceResult) -> float:
        """Return how many more draws are needed, as a multiple of those made."""
        tol = self._options.tol
        if tol is None:
            return 0.0
        enough = self._log_edges / (2.0 * tol**2)
        effective = effective_draws(estimate)
        by_effective = enough / effective - 1.0
        small = tol / math.sqrt(2.0 * self._log_edges)
        by_error = (estimate.largest_error / small) ** 2 - 1.0
        fewest = _FEWEST_EFFECTIVE / effective - 1.0
        return min(by_effective, max(by_error, fewest))

    def _shared_out(self, n_chunks: int) -> list[tuple[int, int]]:
        """Return tasks of one chunk, most of them for the lighter orientation."""
        if len(self.plans) == 1:
            return [(0, _CHUNK)] * n_chunks
        better = self._lighter
        return [
            (1 - better if k % _CHECK_EVERY == 0 else better, _CHUNK)
            for k in range(n_chunks)
        ]

    @property
    def _lighter(self) -> int:
        """The orientation whose weights vary less."""
        return int(np.argmin([relative_variance(sums) for sums in self._sums]))

    def _within(self, watch: Allowance, n_wanted: int, is_filter: bool = False) -> int:
        """Return how many of so many first draws, or particles, can be afforded.

        A few, thrown away, tell the pace.  There are some to spare, for the first of all
        may have been compiled meanwhile.
        """
        if watch.left == math.inf:
            return n_wanted
        seconds = math.inf
        for _ in range(2):
            start = time.perf_counter()
            for plan in self.plans:
                draw = run_filter if is_filter else add_chunk
                draw(plan.tables, seed_state(0), 2 * LANES, empty_sums(self._size))
            seconds = min(seconds, time.perf_counter() - start)
        pace = seconds / (2 * LANES * len(self.plans) * self.job.n_jobs)
        return int(min(n_wanted, _SHARE * watch.left / pace))

    def _draw_fixed(self, n_samples: int, watch: Allowance) -> None:
        """Draw so many times, alike in both orientations."""
        n_plans = len(self.plans)
        each = _up(-(-n_samples // n_plans))
        if self._within(watch, n_plans * min(each, _CHUNK)) < n_plans * min(each, _CHUNK):
            # Not even the first chunks: as many draws as there is time for.
            each = _up(self._within(watch, n_plans * each) // n_plans)
            self._draw([(p, each) for p in range(n_plans)])
            return
        n_all = n_plans * -(-each // _CHUNK)
        n_done = 0
        while n_done < n_all and (n_done == 0 or watch.left > 0.0):
            n_now = min(n_all - n_done, _TASKS_AT_ONCE)
            if watch.left < math.inf:
                n_now = min(n_now, 2)
                if n_done:
                    affordable = watch.affordable(self._n_tasks, n_all - n_done)
                    n_now = max(1, min(int(affordable), _TASKS_AT_ONCE))
            self._draw(
                [
                    (k % n_plans, min(_CHUNK, each - k // n_plans * _CHUNK))
                    for k in range(n_done, n_done + n_now)
                ]
            )
            n_done += n_now

    def _draw(self, tasks: Sequence[tuple[int, int]]) -> None:
        """Carry out tasks (plan, number of draws) and add them up in their order."""
        at_once = max(16, min(_MOST_NUMBERS // (3 * self._size**2 + 1), _TASKS_AT_ONCE))
        for first in range(0, len(tasks), at_once):
            self._draw_at_once(tasks[first : first + at_once])

    def _draw_at_once(self, tasks: Sequence[tuple[int, int]]) -> None:
        parts = self._run(
            tasks, lambda plan, state, n, sums: add_chunk(plan.tables, state, n, sums)
        )
        for p in range(len(self.plans)):
            own = [part for (q, _), part in zip(tasks, parts, strict=True) if q == p]
            self._sums[p] = add_sums([self._sums[p], *own], self._size)

    def _run(
        self, tasks: Sequence[tuple[int, int]], work: Callable[[Plan, Any, int, Sums], Any]
    ) -> list[Sums]:
        parts = [empty_sums(self._size) for _ in tasks]
        first = self._n_tasks

        def carry_out(k: int) -> None:
            p, n_draws = tasks[k]
            work(self.plans[p], seed_state(*self.key, first + k), n_draws, parts[k])

        self.job.run(carry_out, len(tasks))
        self._n_tasks += len(tasks)
        return parts

    # ---- particles

    def _filter(self, watch: Allowance, n_particles: int) -> InferenceResult:
        """Run particle filters until the tolerance is met; their spread is the error."""
        options = self._options
        ends: list[list[Sums]] = [[] for _ in self.plans]
        n_each = _FILTERS // len(self.plans)
        # The first round must fit into the time there is: if need be with fewer particles.
        n_first = n_each * len(self.plans)
        n_asked = _up(n_particles)
        n_particles = _up(self._within(watch, n_first * n_asked, True) // n_first)
        before = self._n_draws
        most = options.n_samples or options.max_samples
        while True:
            tasks = [(p, n_particles) for _ in range(n_each) for p in range(len(ends))]
            # With a budget no more at once than threads: it may be spent before the last.
            at_once = len(tasks)
            if watch.left < math.inf:
                at_once = len(ends) * -(-self.job.n_jobs // len(ends))
            for first in range(0, len(tasks), at_once):
                some = tasks[first : first + at_once]
                parts = self._run(
                    some,
                    lambda plan, state, n, sums: run_filter(plan.tables, state, n, sums),
                )
                for (p, _), part in zip(some, parts, strict=True):
                    ends[p].append(part)
                if watch.left == 0.0 and len(ends[-1]) >= _FEWEST_FILTERS:
                    break
            estimates = [
                estimate_from_filters([(plan, end) for end in some])
                for plan, some in zip(self.plans, ends, strict=True)
                if any(end.totals[1] > 0.0 for end in some)
            ]
            n_done = n_particles * sum(map(len, ends))
            lack = self._lack(pool(estimates)) if estimates else _GROWTH
            if options.n_samples is not None:
                lack = most / n_done - 1.0
            is_met = lack <= 0.0 or (
                options.n_samples is not None and n_done + 0.5 * n_particles > most
            )
            wanted = min(n_done * min(1.05 * lack, _GROWTH), most - before - n_done)
            wanted = watch.affordable(before + n_done, wanted)
            if is_met or wanted < n_particles:
                note = f"particle filters of {n_particles}"
                if n_particles < n_asked:
                    note += f", the budget being too short for {n_asked}"
                return self._finish(estimates, is_met, before + n_done, (note,))
            n_each = max(1, int(wanted / (n_particles * len(ends))))

    # ---- the end

    @property
    def _n_draws(self) -> int:
        return int(sum(sums.totals[4] for sums in self._sums))

    def _estimates(self) -> list[InferenceResult]:
        return [
            estimate_from_draws(plan, sums)
            for plan, sums in zip(self.plans, self._sums, strict=True)
            if sums.totals[1] > 0.0
        ]

    def _finish(
        self,
        estimates: list[InferenceResult],
        is_met: bool,
        n_draws: int | None = None,
        notes: tuple[str, ...] = (),
    ) -> InferenceResult:
        n_draws = self._n_draws if n_draws is None else n_draws
        if not estimates:
            raise PrecisionError(
                f"nesting needs draws that can be completed to a perfect matching; none of "
                f"{n_draws} could, since too few edges are allowed. Use SwapChain, or "
                "engine='auto', which solves connected components by themselves."
            )
        whole = pool(estimates)
        is_trusted = len(estimates) == len(self.plans)
        is_sure = all(plan.is_certain for plan in self.plans)
        is_trusted = is_trusted and (is_sure or is_even(whole))
        if len(estimates) == 2:
            tol = self._options.tol or 0.0
            is_trusted = is_trusted and not disagree(estimates[0], estimates[1], tol)
        if not is_trusted:
            notes = (*notes, "weights too uneven to be reliable")
        value = whole.log_partition
        reach = whole.log_partition_error * math.sqrt(2.0) * _erfcinv(self._options.delta)
        return whole.told(
            certificate="asymptotic" if is_trusted else "heuristic",
            interval=(value - reach, value + reach),
            interval_certificate="asymptotic",
            n_samples=n_draws,
            is_converged=is_met and is_trusted,
            notes=notes,
        )


def _up(count: int) -> int:
    """Round up to whole blocks of lanes, at least one."""
    return max(-(-count // LANES), 1) * LANES


def _erfcinv(value: float) -> float:
    from scipy.special import erfcinv  # slow to import

    return float(erfcinv(value))
