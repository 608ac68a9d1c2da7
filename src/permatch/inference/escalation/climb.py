"""From cheap to dear: how `auto` answers a graph beyond the exact sizes.

    sparsified   blocks that share next to no mass; the small ones are solved exactly
    bethe        an interval that holds, and marginals of unknown error
    nesting      weighted draws with standard errors, filters where weights are heavy
    swap_chain   chains, where such draws are not to be trusted

A step is taken while the tolerance is missed.  It gets the time that is left, and is not
begun if that is too little for it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from permatch._types import FloatArray
from permatch.inference.allowance import Allowance
from permatch.inference.base import Job
from permatch.inference.escalation.parts import PartAnswer, Split, solve_exactly
from permatch.inference.escalation.rungs import (
    Task,
    draw,
    factor_for_all,
    load_kernels,
    propagate,
    walk,
)
from permatch.inference.glynn import Glynn
from permatch.inference.result import Diagnostics
from permatch.inference.small_batch import SmallBatch
from permatch.inference.sparsification import MAX_BLOCK, Sparsification, plan_blocks
from permatch.inference.subset_dp import SubsetDP

# Blocks are looked for such that what lies across them is at most this ...
_NEGLIGIBLE = 1e-9
# ... or, where they are too large to be solved, at most this share of the tolerance.
_SHARE_ACROSS = 0.01
# Seconds per m^3 to look for small blocks, and for blocks of any size.
_SECONDS_SMALL, _SECONDS_ANY = 1.5e-9, 5e-9
# No more than this share of the time goes into the search for blocks.
_SEARCH_SHARE = 0.3


@dataclass(frozen=True)
class Aims:
    """What `auto` was asked for, per graph."""

    tol: float
    delta: float
    budget: float | None
    exact_size: int
    random_state: int


class Escalation:
    """One graph's way from cheap engines to dear ones.

    `scores` (m, m) are reduced to a best matching of score 0; `member` is the position of
    the graph in the caller's input, and part of the seed.
    """

    def __init__(self, aims: Aims, scores: FloatArray, member: int, job: Job) -> None:
        self._aims = aims
        self._scores = scores
        self._member = member
        self._job = job
        self._time = Allowance(aims.budget)
        self._split = Split.trivial(len(scores))
        self._answers: list[PartAnswer | None] = [None]
        self._steps: list[Diagnostics] = []

    def run(self) -> PartAnswer:
        """Take steps until the tolerance is met or nothing is left to try.

        The diagnostics of the answer tell the story; it is exact if their certificate says
        so.
        """
        self._find_blocks()
        rungs = (("bethe", propagate), ("nesting", draw), ("swap_chain", walk))
        for name, rung in rungs:
            if self._open():
                self._climb(name, rung)
        return self._finish()

    # ---- blocks

    def _find_blocks(self) -> None:
        """Split the graph where that costs next to nothing; solve the small blocks."""
        start = self._time.seconds
        largest = self._largest_block()
        found, story = self._search(largest)
        if found is not None:
            bound = found.log_error_bound
            self._split = Split(found.blocks, bound, found.rounding if bound else 0.0)
            small = [k for k, (rows, _) in enumerate(found.blocks) if len(rows) <= largest]
            with self._time.free():
                load_kernels(SmallBatch())
                load_kernels(Glynn())
                load_kernels(SubsetDP())  # the fallback of `Glynn`
            solved = solve_exactly(
                self._scores, [found.blocks[k] for k in small], self._job
            )
            self._answers = [None] * len(found.blocks)
            for k, answer in zip(small, solved, strict=True):
                self._answers[k] = answer
            story.append(
                f"{_blocks(len(found.blocks))}, the largest of size {found.largest_block}, "
                f"{len(small)} solved exactly; matchings across add at most {bound:.2g}"
            )
        self._note("sparsified", self._answers, story, start)

    def _largest_block(self) -> int:
        """Return the size of blocks that can be solved within a quarter of the budget."""
        largest = min(self._aims.exact_size, MAX_BLOCK)
        while largest > SmallBatch().max_size:
            n_blocks = -(-len(self._scores) // largest)
            seconds = n_blocks * 2.0 ** Glynn().log2_seconds(largest)
            if seconds <= 0.25 * self._time.budget:
                break
            largest -= 1
        return largest

    def _search(self, largest: int) -> tuple[Sparsification | None, list[str]]:
        """Look for blocks of at most so many nodes, failing that for blocks of any size."""
        cells, tol = len(self._scores) ** 3, self._aims.tol
        with self._time.free():
            _load_search()
        story: list[str] = []
        if largest > 0 and _SECONDS_SMALL * cells <= _SEARCH_SHARE * self._time.left:
            found = plan_blocks(self._scores, _NEGLIGIBLE, largest, is_any_size=False)
            if found is not None and found.log_error_bound <= tol:
                return found, story
            story.append(f"no blocks of at most {largest} nodes with a bound of {tol:g}")
        if _SECONDS_ANY * cells <= _SEARCH_SHARE * self._time.left:
            found = plan_blocks(self._scores, _SHARE_ACROSS * tol, 1, is_any_size=True)
            if found is not None and len(found.blocks) > 1:
                return found, story
            story.append("no larger ones" if story else "no blocks")
        else:
            story.append("no time to look for larger ones" if story else "no time to look")
        return None, story

    # ---- engines

    def _climb(
        self, name: str, rung: Callable[[Task], tuple[PartAnswer | None, str]]
    ) -> None:
        """Have an engine answer the blocks that are open."""
        places = self._open()
        if name == "swap_chain":  # no chain beats draws that are to be trusted
            places = [k for k in places if not self._is_trusted(k)]
        if not places:
            return
        start = self._time.seconds
        latest = list(self._answers)
        story: list[str] = []
        for n_done, k in enumerate(places):
            answer, told = rung(self._task(k, len(places), len(places) - n_done))
            if told and told not in story:
                story.append(told)
            latest[k] = answer
            if answer is not None:
                before = self._answers[k]
                self._answers[k] = answer if before is None else before.better(answer)
        self._note(name, latest, story, start)

    def _task(self, k: int, n_parts: int, n_left: int) -> Task:
        scores = self._scores[np.ix_(*self._split.blocks[k])]
        key = (self._aims.random_state, self._member, k)
        return Task(
            np.ascontiguousarray(scores),
            self._aims.tol - self._split.bound,
            self._aims.delta / n_parts,
            1.0 / n_left,
            int(np.random.SeedSequence(key).generate_state(1)[0]),
            self._time,
            self._job,
        )

    def _open(self) -> list[int]:
        """Return the blocks for which the tolerance is not met yet."""
        return [k for k, a in enumerate(self._answers) if a is None or not a.is_settled]

    def _is_trusted(self, k: int) -> bool:
        answer = self._answers[k]
        return answer is not None and answer.is_trusted

    # ---- the story

    def _note(
        self,
        name: str,
        answers: Sequence[PartAnswer | None],
        story: list[str],
        start: float,
    ) -> None:
        """Add a step: what an engine says of the whole graph, and why it will not do."""
        known = [answer for answer in answers if answer is not None]
        if len(known) == len(answers):
            report = self._split.join(known).diagnostics
            story = [*story, self._verdict(report)]
        else:
            report = Diagnostics(
                name, "", len(self._scores), certificate="heuristic", is_converged=False
            )
        self._steps.append(
            replace(
                report,
                engine=name,
                reason="; ".join(filter(None, story)),
                seconds=self._time.seconds - start,
            )
        )

    def _verdict(self, report: Diagnostics) -> str:
        """Say how well marginals are known, if it can be said."""
        if report.certificate != "asymptotic" or report.marginal_error is None:
            return ""
        factor = factor_for_all(report.size, self._aims.delta)
        reach = f"marginals within {factor * report.marginal_error:.2g}"
        return reach if report.is_converged else f"{reach}, not {self._aims.tol:g}"

    def _finish(self) -> PartAnswer:
        """Return the best answer there is, with the story."""
        kept = [answer for answer in self._answers if answer is not None]
        whole = self._split.join(kept)
        report = whole.diagnostics
        engines = {"sparsified", *(answer.diagnostics.engine for answer in kept)}
        last = next(step for step in self._steps[::-1] if step.engine in engines)
        tried = " -> ".join(step.engine for step in self._steps)
        ending = "tolerance met" if report.is_converged else "tolerance not met"
        interval = whole.interval if math.isfinite(whole.interval[1]) else None
        return replace(
            whole,
            diagnostics=replace(
                report,
                engine=last.engine,
                reason=f"auto: beyond the exact engines: {tried}; {ending}",
                interval=None if report.certificate == "exact" else interval,
                interval_certificate="rigorous"
                if interval is not None and report.certificate != "exact"
                else "",
                delta=0.0,
                seconds=self._time.seconds,
                steps=tuple(self._steps),
            ),
        )


@cache
def _load_search() -> None:
    """Have the kernels of the search for blocks compiled or loaded, whatever it finds."""
    flat = np.zeros((20, 20))  # one block too large for exact cofactors
    peaked = np.where(np.kron(np.eye(3), np.ones((4, 4))) > 0.0, 0.0, -60.0)
    for scores in (flat, peaked):
        plan_blocks(scores, _NEGLIGIBLE, 4, is_any_size=False)
        plan_blocks(scores, 1e-4, 1, is_any_size=True)


def _blocks(count: int) -> str:
    return f"{count} block{'s' * (count != 1)}"
