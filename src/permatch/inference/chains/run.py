"""The chains of one graph, and the stages in which they are run and tuned."""

import math
import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from permatch._parallel import run_slices
from permatch._types import FloatArray, IntArray
from permatch.inference.answer import InferenceResult
from permatch.inference.base import Job, check_feasible
from permatch.inference.chains.estimates import ChainOutput, sum_up
from permatch.inference.chains.ladder import Ladder
from permatch.inference.chains.report import meets
from permatch.inference.chains.starts import starting_matchings
from permatch.kernels.intrinsics import seed_state
from permatch.kernels.sliced import scale_stack
from permatch.kernels.swap_chain import run_chain

#: Most states of a chain kept for its diagnostics.
MOST_RECORDS = 4096
_MOST_BATCHES = 16
# Shares of the burn-in after which the rungs are placed anew; what is left over settles.
_TUNINGS = (1 / 8, 1 / 8, 1 / 4)
_FEWEST_SWEEPS = 16
# Sweeps made before the clock is looked at.
_FIRST_SLICE = 16


def balanced(scores: FloatArray, members: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return balanced weights and offsets of a stack (b, m, m) of feasible graphs."""
    weights = np.empty_like(scores)
    offsets = np.empty(len(scores))
    scale_stack(scores, weights, offsets, 0, len(scores))
    check_feasible(offsets, scores, members)
    return weights, offsets


@dataclass(eq=False)
class GraphChains:
    """The chains of one graph: where they stand, and their ladder."""

    offset: float
    ladder: Ladder
    periods: IntArray
    block_size: int
    states: list[IntArray]
    streams: list[NDArray[np.uint64]]
    outputs: list[ChainOutput] = field(default_factory=list)

    @classmethod
    def start(
        cls,
        weights: FloatArray,
        offset: float,
        n_rungs: int | None,
        periods: IntArray,
        block_size: int,
        n_chains: int,
        key: tuple[int, int],
    ) -> "GraphChains":
        """Place the chains of a graph with balanced weights (m, m) at their starts."""
        with np.errstate(divide="ignore"):
            cold = np.log(weights)
        rng = np.random.default_rng(np.random.SeedSequence([*key, n_chains]))
        starts = starting_matchings(cold, n_chains, rng)
        ladder = Ladder.build(cold, n_rungs)
        states = [np.repeat(start[None], len(ladder.betas), axis=0) for start in starts]
        streams = [np.asarray(seed_state(*key, c), np.uint64) for c in range(n_chains)]
        return cls(float(offset), ladder, periods, block_size, states, streams)

    def run(self, chain: int, n_sweeps: int, thin: int) -> ChainOutput:
        """Move one chain on; chains may run at the same time in different threads."""
        ladder = self.ladder
        n_rungs, size = self.states[chain].shape
        n_batches = max(min(_MOST_BATCHES, n_sweeps // 4), 1)
        trace = np.empty((n_sweeps // thin, size), dtype=np.int16)
        energies = np.empty(n_sweeps // thin)
        batch_sum = np.zeros((size, size))
        batch_squares = np.zeros((size, size))
        stones_above = np.zeros((n_batches, n_rungs - 1))
        stones_below = np.zeros((n_batches, n_rungs - 1))
        moments = np.zeros((n_rungs, 2))
        exchanges = np.zeros(n_rungs - 1)
        rows = np.arange(size)
        tally = np.zeros((size, size))
        counts = np.zeros(5, dtype=np.int64)

        def sweep(first: int, last: int) -> None:
            run_chain(
                ladder.cold,
                ladder.soft,
                ladder.betas,
                ladder.centers,
                self.states[chain],
                self.periods,
                self.block_size,
                n_sweeps,
                thin,
                self.streams[chain],
                trace,
                energies,
                batch_sum,
                batch_squares,
                stones_above,
                stones_below,
                moments,
                exchanges,
                rows,
                tally,
                counts,
                first,
                last,
            )

        run_slices(sweep, n_sweeps, _FIRST_SLICE)
        return ChainOutput(
            trace,
            energies,
            batch_sum,
            batch_squares,
            stones_above,
            stones_below,
            moments,
            exchanges,
            float(counts[0] / max(counts[1], 1)),
        )

    def tune(self) -> None:
        """Place the rungs anew by what the last stage saw."""
        self.ladder, source = self.ladder.tuned(
            np.mean([output.moments for output in self.outputs], axis=0),
            np.mean([output.exchanges for output in self.outputs], axis=0),
        )
        self.states = [np.ascontiguousarray(state[source]) for state in self.states]

    def answer(self, n_sweeps: int) -> InferenceResult:
        """Sum up the last stage, of `n_sweeps` sweeps."""
        return sum_up(self.outputs, self.ladder, self.offset, n_sweeps)


@dataclass(frozen=True)
class Schedule:
    """How long chains burn in and run, and when they are run again."""

    n_burned: int
    n_sweeps: int
    tol: float | None = None
    max_sweeps: int = 0

    def run(
        self, group: list[GraphChains], job: Job, deadline: float
    ) -> list[InferenceResult]:
        """Burn in and run some graphs of one size, until done or out of time."""
        n_burned, n_sweeps, pace = self.n_burned, self.n_sweeps, 0.0
        if deadline < math.inf:
            run_stage(group, 1, job)  # the first call may have to compile
            pace = run_stage(group, 4, job)
            affordable = _affordable(deadline, pace * len(group))
            n_burned = min(n_burned, affordable // 3)
            n_sweeps = min(n_sweeps, affordable - n_burned)
        pace = burn_in(group, n_burned, job) or pace
        # The number of rungs has changed, and with it the pace.
        affordable = _affordable(deadline, pace * len(group))
        n_sweeps = max(min(n_sweeps, affordable), _FEWEST_SWEEPS)
        pace = run_stage(group, n_sweeps, job, n_sweeps * pace * len(group))
        answers = [chains.answer(n_sweeps) for chains in group]
        while self.tol is not None:
            longer = {g: self._longer(answer) for g, answer in enumerate(answers)}
            total = sum(longer.values())
            share = min(_affordable(deadline, pace) / max(total, 1), 1.0)
            longer = {
                g: int(share * n)
                for g, n in longer.items()
                if share * n > answers[g].diagnostics.figures["n_sweeps"]
            }
            if not longer:
                break
            for g in longer:
                group[g].tune()
            again = [group[g] for g in longer]
            run_stage(again, list(longer.values()), job, share * total * pace)
            for g, n in longer.items():
                answers[g] = group[g].answer(n)
        return answers

    def _longer(self, answer: InferenceResult) -> int:
        """Return how many sweeps to try next; 0 if these will do."""
        if self.tol is None or meets(answer, self.tol):
            return 0
        growth = 2.0
        if answer.diagnostics.is_trusted:
            growth = min(max(1.2 * (answer.largest_error / self.tol) ** 2, 1.2), 8.0)
        n_sweeps = answer.diagnostics.figures["n_sweeps"]
        return min(int(growth * n_sweeps), self.max_sweeps)


def burn_in(group: list[GraphChains], n_sweeps: int, job: Job) -> float:
    """Let chains leave their starts and tune the rungs; return the last pace seen."""
    left = n_sweeps
    pace = 0.0
    for share in _TUNINGS:
        n = int(share * n_sweeps)
        if n > 0:
            run_stage(group, n, job)
            left -= n
            for chains in group:
                chains.tune()
    if left > 0:
        pace = run_stage(group, left, job)
    return pace


def run_stage(
    group: list[GraphChains], n_sweeps: int | list[int], job: Job, seconds: float = 0.0
) -> float:
    """Run all chains of some graphs for `n_sweeps`, all alike or each its own number.

    Return the pace: seconds per graph and sweep.
    """
    start = time.perf_counter()
    lengths = [n_sweeps] * len(group) if isinstance(n_sweeps, int) else n_sweeps
    n_chains = len(group[0].states)
    outputs: dict[int, ChainOutput] = {}

    def run(task: int) -> None:
        graph, chain = divmod(task, n_chains)
        thin = -(-lengths[graph] // MOST_RECORDS)
        outputs[task] = group[graph].run(chain, lengths[graph], thin)

    title = "swap chain" if seconds else ""
    job.run(run, len(group) * n_chains, title, seconds * job.n_jobs)
    for g, chains in enumerate(group):
        chains.outputs = [outputs[g * n_chains + c] for c in range(n_chains)]
    return (time.perf_counter() - start) / sum(lengths)


def _affordable(deadline: float, pace: float) -> int:
    """Return the number of sweeps that can be made before the deadline."""
    if deadline == math.inf or pace <= 0.0:
        return 1 << 62
    return max(int((deadline - time.perf_counter()) / pace), 0)
