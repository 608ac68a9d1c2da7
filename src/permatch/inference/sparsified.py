"""The certified shortcut: large graphs with peaked scores, solved block by block."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from permatch._types import FloatArray, IntArray, Scores
from permatch._validation import check_count
from permatch.errors import SizeLimitError
from permatch.inference._options import check_number
from permatch.inference.base import AbstractEngine, Job, check_feasible
from permatch.inference.glynn import Glynn
from permatch.inference.result import Diagnostics, InferenceResult, StackResult
from permatch.inference.small_batch import SmallBatch
from permatch.inference.sparsification import MAX_BLOCK, Sparsification, plan_blocks


@dataclass(frozen=True, kw_only=True)
class Sparsified(AbstractEngine):
    """Drop edges that cannot matter, solve the blocks that are left, bound the error.

    Where scores are peaked a large graph falls into small blocks once edges of negligible
    mass are dropped.  Each block is solved exactly, and what all matchings across blocks
    weigh together is bounded: the log-partition lies between the reported one and the
    reported one plus `log_partition_error`, which is at most `tol`; no marginal is off by
    more than that either.  The answer is exact if there was nothing to drop.

    A graph without such blocks is refused (`SizeLimitError`); `try_infer` returns None.

    Parameters
    ----------
    max_size : int
        Largest graph accepted.
    tol : float
        Largest bound accepted on the error of the log-partition.
    max_block : int
        Largest block solved, at most 30; time doubles with every node.

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

    def try_infer(
        self, scores: Scores, *, n_jobs: int | None = None, check: bool = True
    ) -> InferenceResult | None:
        """Return what `infer` does, or None if some graph cannot be certified.

        Parameters
        ----------
        scores : array of shape (m, m) or (b, m, m), or a list of (m, m) arrays
            Log-weight of each edge; ``-inf`` forbids an edge.
        n_jobs : int, optional
            Threads; None means one, -1 all processors.
        check : bool
            False skips the search for NaN and infinities.

        Returns
        -------
        InferenceResult or None
            Shaped as the input was.
        """
        try:
            return self.infer(scores, n_jobs=n_jobs, check=check)
        except SizeLimitError:
            return None

    def _infer_stack(self, scores: FloatArray, members: IntArray, job: Job) -> StackResult:
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
        return self._solve(scores, done, job)

    def _solve(
        self, scores: FloatArray, plans: list[Sparsification], job: Job
    ) -> StackResult:
        """Solve every block of every graph and put the answers together."""
        n_graphs, size = scores.shape[:2]
        marginals = np.zeros_like(scores)
        parts: list[list[float]] = [[] for _ in range(n_graphs)]
        blocks = [
            (g, rows, cols) for g, plan in enumerate(plans) for rows, cols in plan.blocks
        ]
        small = SmallBatch()
        residual = 0.0
        for engine, is_small in ((small, True), (Glynn(max_size=self.max_block), False)):
            some = [b for b in blocks if (len(b[1]) <= small.max_size) == is_small]
            if not some:
                continue
            found = engine.infer(
                [scores[g][np.ix_(rows, cols)] for g, rows, cols in some],
                n_jobs=job.n_jobs,
                check=False,
                progress=job.progress,
            )
            residual = max(residual, found.diagnostics.residual or 0.0)
            for k, (g, rows, cols) in enumerate(some):
                parts[g].append(float(found.log_partition[k]))
                marginals[g][np.ix_(rows, cols)] = found.marginals[k]
        values = np.array([math.fsum(part) for part in parts])
        bounds = np.array([plan.log_error_bound for plan in plans])
        diagnostics = Diagnostics(
            engine=self.name,
            reason=_story(plans),
            size=size,
            n_graphs=n_graphs,
            residual=residual,
        )
        is_exact = not bounds.any()
        if is_exact:
            return StackResult(values, marginals, diagnostics)
        # Marginals are those of the kept matchings; the others have at most this mass.
        masses = -np.expm1(-bounds)
        errors = np.where(np.isneginf(scores), 0.0, masses[:, None, None])
        worst = int(bounds.argmax())
        slack = residual + plans[worst].rounding
        interval = (
            float(values[worst] - slack),
            float(values[worst] + bounds[worst] + slack),
        )
        diagnostics = replace(
            diagnostics,
            certificate="rigorous",
            interval=interval,
            interval_certificate="rigorous",
            log_partition_error=float(bounds.max()),
            marginal_error=float(masses.max()),
        )
        return StackResult(values, marginals, diagnostics, False, bounds, errors)


def _story(plans: list[Sparsification]) -> str:
    n_blocks = sum(len(plan.blocks) for plan in plans)
    n_dropped = sum(plan.n_dropped for plan in plans)
    largest = max((plan.largest_block for plan in plans), default=0)
    return (
        f"asked for; {n_dropped} edges dropped, {n_blocks} blocks left, the largest of "
        f"size {largest}"
    )


def _no_blocks(
    plan: Sparsification, engine: Sparsified, member: int, size: int
) -> SizeLimitError:
    bound = plan.log_error_bound
    got = f"bound found is {bound:.2g}" if bound < np.inf else "partition has no bound"
    return SizeLimitError(
        f"Sparsified needs blocks of at most {engine.max_block} nodes with a bound of at "
        f"most {engine.tol:g} on what lies across them; for graph {member} of size {size} "
        f"the best {got}. Its scores are not peaked enough, or its blocks are larger: use "
        "a sampler, or raise tol or max_block."
    )
