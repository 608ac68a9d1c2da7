"""Approximate inference by Markov chains over matchings, with parallel tempering."""

import math
import time
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from permatch._types import FloatArray, IntArray, Scores, Seed
from permatch._validation import (
    check_choice,
    check_count,
    check_rng,
    check_scores,
    enough_memory,
)
from permatch.inference._options import (
    LEAST_FRACTION,
    RandomEngine,
    check_budget,
    check_fraction,
    check_limited_count,
    higher_limit,
    keep,
    more_draws,
    smaller_error,
)
from permatch.inference.answer import Diagnostics, InferenceResult, stack
from permatch.inference.base import Goal, Job, load_kernels, not_tried
from permatch.inference.chains.edge_draws import EdgeChainSamples
from permatch.inference.chains.edge_report import infer_edges
from permatch.inference.chains.edge_target import edge_rungs
from permatch.inference.chains.report import certain_answer, meets, warn_if_unmixed
from permatch.inference.chains.run import (
    MOST_RECORDS,
    GraphChains,
    Schedule,
    balanced,
    burn_in,
)
from permatch.inference.subset_dp import SubsetDP
from permatch.problems import Problem

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
_LONG = "More would never end; set tol or budget instead."
#: Options that are counts: the least, the most, and why no more.
_COUNTS = (
    ("n_sweeps", 16, MOST_SWEEPS, _LONG),
    ("max_sweeps", 16, MOST_SWEEPS, _LONG),
    ("burn_in", 0, MOST_SWEEPS, _LONG),
    ("n_chains", 1, 256, "All chains are kept in memory: raise n_sweeps instead."),
    ("tempering", 1, 1024, "True uses as many rungs as needed."),
    ("block_size", 2, _LARGEST_BLOCK, "Time doubles with every row of a block."),
)
_SECONDS_PER_ROW = 4e-8
# Fewer sweeps tell nothing; errors asked for with less effort stay below this.
_FEWEST_SWEEPS, _LARGEST_TOL = 128, 0.25


@dataclass(frozen=True, kw_only=True)
class SwapChain(RandomEngine):
    """Markov chains over matchings with parallel tempering.

    For graphs beyond the other samplers: any scores and any size, but its accuracy is known
    only afterwards.  A chain is a ladder of states, from the target to uniform matchings;
    neighbours exchange states, and the ladder yields the log-partition.  Forbidden edges
    are only unlikely on the upper rungs, which connect matchings that no swap connects.

    On sparse, rectangular and partial problems a chain adds, removes, slides and exchanges
    links along edges; the last rung has next to no links, and the log-partition is the
    Bethe value corrected by what the chains see on all rungs.  Components that are trees
    are solved exactly.  `block_size` and `proposals` do not apply there.

    Parameters
    ----------
    max_size : int
        Largest graph of perfect matchings accepted; edges are not limited.
    random_state : int
        Seed; the same scores and seed give the same result.
    n_sweeps : int
        Sweeps per chain after burn-in.  A sweep moves every row about twice.
    n_chains : int
        Independent chains, from starts far apart: the mode, the mode without its best
        edge, random matchings.
    tempering : bool or int
        True for enough rungs that neighbours exchange about half the time, or the number of
        rungs.  False for none: faster, but only for scores without barriers, and the
        log-partition is NaN.
    block_size : int
        Rows that block and sequential moves change together.
    proposals : str
        "swap": pairs of rows, from their exact conditional.  "block": blocks of rows, from
        theirs.  "sequential": rows of a block in turn, with acceptance.  "mixed": swaps in
        every sweep, blocks in every fourth, sequential in every eighth.
    burn_in : int, optional
        Sweeps of burn-in, which also tunes the rungs; default: half of `n_sweeps`.
    tol : float, optional
        Largest standard error of a marginal to reach: until then, and until chains have
        mixed, all sweeps so far become burn-in and two to eight times as many follow.
    max_sweeps : int
        Maximum sweeps per chain after burn-in, with `tol`.
    budget : float, optional
        Seconds for all graphs together.  Results then depend on the machine.

    Notes
    -----
    O(m) per sweep and rung; the number of rungs grows like the square root of m.  On edges
    a sweep is linear in them, and there are twelve rungs.
    Marginals average the probability of each edge given the rest of the matching
    (Rao-Blackwell).  Standard errors come from batch means, scaled up if chains differ by
    more than batches, plus one effective sample in quadrature for what was never seen.  A
    `RuntimeWarning` reports that chains have not mixed: R-hat above 1.05, fewer than 100
    effective samples, or an edge seen so rarely that the best matching with it must have
    been missed, as by chains without rungs that all stay near the best matching.

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

    def with_effort(self, factor: float) -> Self:
        """Return the engine that draws `factor` times as much."""
        return replace(
            self,
            n_sweeps=more_draws(self.n_sweeps, factor, _FEWEST_SWEEPS, MOST_SWEEPS),
            max_sweeps=higher_limit(self.max_sweeps, factor, MOST_SWEEPS),
            tol=smaller_error(self.tol, factor, _LARGEST_TOL),
        )

    def own_samples(self, scores: FloatArray) -> "ChainSamples | None":
        """Return the states of a chain where no exact table fits."""
        if len(scores) <= SubsetDP().max_size:
            return None
        return ChainSamples(self, scores)

    def own_problem_samples(self, problem: Problem) -> EdgeChainSamples:
        """Return the states of a chain."""
        return EdgeChainSamples(problem, edge_rungs(self._n_rungs), self.n_burned)

    def _attempt(
        self, scores: FloatArray, goal: Goal, job: Job
    ) -> tuple[InferenceResult | None, tuple[str, ...]]:
        """Let chains walk, if there is time for them to get anywhere."""
        with goal.time.free():
            load_kernels(SwapChain(n_sweeps=16, n_chains=1))
        size, left = len(scores), goal.seconds
        engine = replace(
            self,
            max_size=size,
            tol=goal.tol / goal.factor(size),
            budget=None if left == math.inf else max(left, 1e-3),
            random_state=goal.seed,
        )
        seconds = 2.0 ** engine.log2_seconds(size)
        if 0.5 * seconds > left:
            return None, (not_tried(seconds, left),)
        answer = engine._answer_one(scores, job)
        told = answer.diagnostics
        if told.is_trusted:
            return answer, ()
        return answer, (
            f"chains have not mixed: R-hat {told.r_hat or math.nan:.3g}, "
            f"{told.effective_samples or math.nan:.0f} effective samples",
        )

    def _infer_stack(
        self, scores: FloatArray, members: IntArray, job: Job
    ) -> InferenceResult:
        answers = [
            answer.told(is_converged=meets(answer, self.tol))
            for answer in self._answers(scores, members, job)
        ]
        warn_if_unmixed(answers, members)
        empty = Diagnostics(
            self.name, "asked for", scores.shape[1], 0, certificate="asymptotic"
        )
        whole = stack(answers, scores.shape, empty)
        if len(answers) > 1:
            told = [answer.diagnostics for answer in answers]
            least = min(told, key=lambda one: one.acceptance or 0.0)
            whole = whole.told(notes=least.notes)
            if any(one.interval is None for one in told):
                whole = whole.told(interval=None, interval_certificate="")
        return whole

    def _infer_problem(self, problem: Problem, job: Job) -> InferenceResult:
        n_left, n_right = problem.structure.components.sizes
        is_square = (n_left == n_right) & (n_left <= self.max_size)
        if problem.is_perfect and is_square.all():
            return super()._infer_problem(problem, job)
        return infer_edges(
            problem,
            edge_rungs(self._n_rungs),
            self.n_chains,
            self.random_state,
            Schedule(self.n_burned, self.n_sweeps, self.tol, self.max_sweeps),
            self.budget,
            job,
        )

    def _answers(
        self, scores: FloatArray, members: IntArray, job: Job
    ) -> list[InferenceResult]:
        """Run the chains of every graph of a stack, a few graphs at a time."""
        n_graphs, size = scores.shape[:2]
        weights, offsets = balanced(scores, members)
        if size <= 1:
            return [certain_answer(weights[g], offsets[g]) for g in range(n_graphs)]
        schedule = Schedule(self.n_burned, self.n_sweeps, self.tol, self.max_sweeps)
        longest = self.n_sweeps if self.tol is None else self.max_sweeps
        per_group = 1 + _MOST_KEPT // (
            self.n_chains * size * (size + min(longest, MOST_RECORDS))
        )
        start = time.perf_counter()
        answers: list[InferenceResult] = []
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
            answers += schedule.run(group, job, deadline)
        return answers

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


@dataclass(frozen=True, eq=False)
class ChainSamples:
    """The states of one chain: approximate samples that depend on each other."""

    engine: SwapChain
    scores: FloatArray

    def sample(self, n: int, rng: np.random.Generator, n_jobs: int = 1) -> IntArray:
        """Draw `n` matchings, (n, m), on one thread."""
        return draw_chain(self.scores, n, rng=rng, engine=self.engine)


def draw_chain(
    scores: Scores,
    n: int,
    *,
    thin: int = 10,
    rng: Seed = None,
    engine: SwapChain | None = None,
) -> IntArray:
    """Draw matchings, approximately and not independently, from one tempered chain.

    Parameters
    ----------
    scores : array of shape (m, m)
        Log-weight of each edge; ``-inf`` forbids an edge.
    n : int
        Number of matchings.
    thin : int
        Sweeps from one matching to the next.
    rng : int, numpy.random.Generator or None
        Seed, generator, or None for fresh entropy.
    engine : SwapChain, optional
        What the chain does in a sweep, and how many it makes first.

    Returns
    -------
    ndarray of shape (n, m)
        ``matchings[s, i]`` is the column of row i.

    Examples
    --------
    >>> import numpy as np
    >>> draw_chain(np.array([[0.0, -np.inf], [0.0, 0.0]]), 2, rng=0)
    array([[0, 1],
           [0, 1]])
    """
    one = check_scores(scores)
    n_draws = check_count(n, "n", 0)
    every = check_count(thin, "thin", 1)
    seed = int(check_rng(rng).integers(2**63))
    chain = replace(engine or SwapChain(), n_chains=1, random_state=seed)
    chain.check_size(len(one))
    weights, offsets = balanced(one[None], np.zeros(1, dtype=np.intp))
    if len(one) <= 1 or n_draws == 0:
        return np.zeros((n_draws, len(one)), dtype=np.intp)
    chains = chain.start_chains(weights[0], offsets[0], (seed, 0))
    burn_in([chains], chain.n_burned, Job())
    with enough_memory(f"an array of {n_draws} samples", 8.0 * n_draws * len(one)):
        return chains.run(0, n_draws * every, every).trace.astype(np.intp)
