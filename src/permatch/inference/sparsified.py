"""The certified shortcut: large graphs with peaked scores, solved block by block."""

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar

import numpy as np

from permatch._types import FloatArray, IntArray, Scores
from permatch._validation import check_count, check_scores, no_perfect_matching
from permatch.errors import SizeLimitError
from permatch.inference._limits import other_engine
from permatch.inference._options import check_number
from permatch.inference.answer import Diagnostics, InferenceResult, stack
from permatch.inference.base import (
    AbstractEngine,
    Goal,
    Job,
    check_feasible,
    load_kernels,
)
from permatch.inference.blocks import (
    MAX_BLOCK,
    Sparsification,
    plan_blocks,
    solve_exactly,
)
from permatch.inference.glynn import Glynn
from permatch.inference.pruning import solve_pruned
from permatch.inference.small_batch import SmallBatch
from permatch.problems import Problem

# Blocks are looked for such that what lies across them is at most this ...
_NEGLIGIBLE = 1e-9
# ... or, where they are too large to be solved, at most this share of the tolerance.
_SHARE_ACROSS = 0.01
# Seconds per m^3 to look for small blocks, and for blocks of any size.
_SECONDS_SMALL, _SECONDS_ANY = 1.5e-9, 5e-9
# No more than this share of the time goes into the search for blocks.
_SEARCH_SHARE = 0.3


@dataclass(frozen=True, kw_only=True)
class Sparsified(AbstractEngine):
    """Drop negligible edges, solve the remaining blocks, bound the error.

    With peaked scores a large graph falls into small blocks once edges of negligible mass
    are dropped.  Each block is solved exactly, and the total weight of matchings across
    blocks is bounded: the log-partition exceeds the reported one by at most
    `log_partition_error`, itself at most `tol`, and no marginal is off by more.  The result
    is exact if nothing was dropped.

    A graph without such blocks is refused (`SizeLimitError`).

    Where nodes may stay unmatched, edges are dropped from components that are too wide for
    `Frontier`, the least probable first; bounds on their probabilities sum to at most
    `tol`.  The rest is solved exactly, and ``marginal_bounds`` hold for certain.

    Parameters
    ----------
    max_size : int
        Largest graph accepted.
    tol : float
        Largest bound accepted on the error of the log-partition.
    max_block : int
        Largest block solved, at most 30, or largest width of a component; time doubles with
        every node.

    Notes
    -----
    O(m^3) to find the blocks and to bound what is dropped (0.05 s for m = 200), then
    O(n 2^n) for a block of n nodes.  The bound and its proof are in
    `permatch.kernels.sparsified`.

    Examples
    --------
    >>> import numpy as np
    >>> from permatch.inference.sparsified import Sparsified
    >>> scores = np.random.default_rng(0).normal(size=(100, 100)) + 40 * np.eye(100)
    >>> result = Sparsified().infer(scores)
    >>> result.log_partition_error < 1e-9, result.diagnostics.certificate
    (True, 'rigorous')
    """

    max_size: int = 1000
    tol: float = 1e-9
    max_block: int = MAX_BLOCK

    name = "sparsified"
    largest_max_size: ClassVar[int] = 4000

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self.tol, "tol of Sparsified", 0.0, 1.0)
        check_count(self.max_block, "max_block of Sparsified", 1)
        Glynn(max_size=self.max_block)  # its limit is ours

    def log2_seconds(self, size: int) -> float:
        """Estimate log2 of the seconds one graph takes, its large blocks apart."""
        return 3.0 * math.log2(size + 1) + math.log2(3e-9)

    def log2_bytes(self, size: int) -> float:
        """Estimate log2 of the bytes one graph needs."""
        return 7.0 + 2.0 * math.log2(size + 1)

    def _split(
        self, scores: FloatArray, exact_size: int, goal: Goal, job: Job
    ) -> tuple[Sparsification, list[InferenceResult | None], tuple[str, ...]]:
        """Split a graph of reduced scores where that costs next to nothing.

        Return the blocks, the answers for those solved exactly, of at most `exact_size`
        nodes, and remarks.
        """
        largest = _affordable_block(len(scores), exact_size, goal.time.budget)
        with goal.time.free():
            _load_search()
        found, notes = _search(scores, largest, goal)
        if found is None:
            return Sparsification.whole(len(scores)), [None], notes
        with goal.time.free():
            for engine in (SmallBatch(), Glynn(), Glynn.fallback):
                load_kernels(engine)
        answers: list[InferenceResult | None] = [None] * len(found.blocks)
        small = [k for k, (rows, _) in enumerate(found.blocks) if len(rows) <= largest]
        parts = found.parts(scores)
        solved = solve_exactly([parts[k] for k in small], job)
        for k, answer in zip(small, solved, strict=True):
            answers[k] = answer
        n_blocks = len(found.blocks)
        note = (
            f"{n_blocks} block{'s' * (n_blocks != 1)}, the largest of size "
            f"{found.largest_block}, {len(small)} solved exactly; matchings across add at "
            f"most {found.log_error_bound:.2g}"
        )
        return found, answers, (*notes, note)

    def _infer_problem(self, problem: Problem, job: Job) -> InferenceResult:
        if problem.is_perfect:
            return super()._infer_problem(problem, job)
        answer = solve_pruned(problem, self.tol, self.max_block, job)
        return answer.told(engine=self.name, choice="asked for")

    def _infer_stack(
        self, scores: FloatArray, members: IntArray, job: Job
    ) -> InferenceResult:
        plans: list[Sparsification | None] = [None] * len(scores)

        def plan(g: int) -> None:
            plans[g] = plan_blocks(scores[g], self.tol, self.max_block, is_any_size=False)

        job.run(plan, len(scores))
        offsets = np.array([-np.inf if plan is None else 0.0 for plan in plans])
        check_feasible(offsets, scores, members)
        done = [plan for plan in plans if plan is not None]
        for member, found in zip(members, done, strict=True):
            if not found.is_certified:
                raise _no_blocks(found, self, int(member), scores.shape[1])
        # The blocks of all graphs together, so that equal sizes share a call.
        parts = [found.parts(graph) for found, graph in zip(done, scores, strict=True)]
        solved = iter(solve_exactly([part for some in parts for part in some], job))
        answers = [
            _reported(found, found.join([next(solved) for _ in found.blocks]), graph)
            for found, graph in zip(done, scores, strict=True)
        ]
        empty = Diagnostics(self.name, "", scores.shape[1], 0, residual=0.0)
        whole = stack(answers, scores.shape, empty)
        return whole.told(engine=self.name, choice="asked for", notes=(_story(done),))


def sparsify(
    scores: Scores, tol: float = 1e-9, max_block: int = MAX_BLOCK
) -> Sparsification:
    """Split a graph into blocks such that matchings across blocks have almost no mass.

    Blocks are grown along the edges that cost the best matching least, up to 8, 12, 16, ...
    and finally `max_block` nodes, until the bound on the mass across is at most `tol`.
    Failing that, larger blocks are tried, which samplers may solve one by one.

    Parameters
    ----------
    scores : array of shape (m, m)
        Log-weight of each edge; ``-inf`` forbids an edge.
    tol : float
        Largest bound on the error of the log-partition.
    max_block : int
        Up to this size, smaller blocks are preferred to a smaller error.

    Returns
    -------
    Sparsification
        The first partition found with a bound within `tol`, otherwise the one with the
        lowest bound.

    Raises
    ------
    InfeasibleGraphError
        If the allowed edges contain no perfect matching.

    Notes
    -----
    O(m^3), and O(n 2^n) for blocks of n up to 14 nodes, or a few of up to 22.

    Examples
    --------
    >>> import numpy as np
    >>> from permatch.inference import sparsify
    >>> scores = np.random.default_rng(0).normal(size=(50, 50)) + 40 * np.eye(50)
    >>> split = sparsify(scores)
    >>> split.is_certified, split.largest_block, split.log_error_bound < 1e-9
    (True, 8, True)
    """
    checked = check_scores(scores)
    check_number(tol, "tol", 0.0, 1.0)
    check_count(max_block, "max_block", 1)
    found = plan_blocks(checked, tol, max_block, is_any_size=True)
    if found is None:
        raise no_perfect_matching(checked)
    return found


def _reported(
    found: Sparsification, answer: InferenceResult, scores: FloatArray
) -> InferenceResult:
    """Return an answer joined from exact ones as its engine reports it."""
    residual = answer.diagnostics.residual or 0.0
    if answer.is_exact:  # without errors, as from every exact engine
        return answer.told(
            residual=residual,
            interval=None,
            interval_certificate="",
            log_partition_error=None,
            marginal_error=None,
        )
    # Marginals are those of the kept matchings; no forbidden edge is in another.
    errors = np.where(np.isneginf(scores), 0.0, answer.marginal_errors)
    slack = residual + found.rounding
    value = answer.log_partition
    return replace(answer, marginal_errors=errors).told(
        residual=residual,
        interval=(value - slack, value + found.log_error_bound + slack),
    )


@cache
def _affordable_block(size: int, largest: int, budget: float) -> int:
    """Return the size of blocks that can be solved within a quarter of the budget."""
    engine = Glynn()
    largest = min(largest, MAX_BLOCK)
    while largest > SmallBatch().max_size:
        seconds = -(-size // largest) * 2.0 ** engine.log2_seconds(largest)
        if seconds <= 0.25 * budget:
            break
        largest -= 1
    return largest


def _search(
    scores: FloatArray, largest: int, goal: Goal
) -> tuple[Sparsification | None, tuple[str, ...]]:
    """Look for blocks of at most so many nodes, failing that for blocks of any size."""
    cells, tol = len(scores) ** 3, goal.tol
    notes: tuple[str, ...] = ()
    if largest > 0 and _SECONDS_SMALL * cells <= _SEARCH_SHARE * goal.time.left:
        found = plan_blocks(scores, _NEGLIGIBLE, largest, is_any_size=False)
        if found is not None and found.log_error_bound <= tol:
            return found, ()
        notes = (f"no blocks of at most {largest} nodes with a bound of {tol:g}",)
    if _SECONDS_ANY * cells > _SEARCH_SHARE * goal.time.left:
        return None, (
            *notes,
            "no time to look for larger ones" if notes else "no time to look",
        )
    found = plan_blocks(scores, _SHARE_ACROSS * tol, 1, is_any_size=True)
    if found is not None and len(found.blocks) > 1:
        return found, notes
    return None, (*notes, "no larger ones" if notes else "no blocks")


@cache
def _load_search() -> None:
    """Have the kernels of the search for blocks compiled or loaded, whatever it finds."""
    flat = np.zeros((20, 20))  # one block too large for exact cofactors
    peaked = np.where(np.kron(np.eye(3), np.ones((4, 4))) > 0.0, 0.0, -60.0)
    for scores in (flat, peaked):
        plan_blocks(scores, _NEGLIGIBLE, 4, is_any_size=False)
        plan_blocks(scores, 1e-4, 1, is_any_size=True)


def _story(plans: list[Sparsification]) -> str:
    n_blocks = sum(len(plan.blocks) for plan in plans)
    n_dropped = sum(plan.n_dropped for plan in plans)
    largest = max((plan.largest_block for plan in plans), default=0)
    return (
        f"{n_dropped} edges dropped, {n_blocks} blocks left, the largest of size {largest}"
    )


def _no_blocks(
    plan: Sparsification, engine: Sparsified, member: int, size: int
) -> SizeLimitError:
    bound = plan.log_error_bound
    got = f"bound found is {bound:.2g}" if bound < np.inf else "partition has no bound"
    return SizeLimitError(
        f"Sparsified needs blocks of at most {engine.max_block} nodes with a bound of at "
        f"most {engine.tol:g} on the mass across them; for graph {member} of size {size} "
        f"the best {got}. Its scores are not peaked enough, or its blocks are larger: use "
        f"{other_engine(size) or 'fewer nodes'}, or raise tol or max_block."
    )
