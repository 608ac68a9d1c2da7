"""One component after the other through the frontier, in slices."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from permatch._parallel import run_slices
from permatch._types import FloatArray
from permatch._validation import enough_memory
from permatch.kernels import frontier as kernel
from permatch.kernels import frontier_logs as logs
from permatch.kernels import frontier_plan as planning
from permatch.kernels.frontier_plan import LINK, FrontierPlan
from permatch.problems import Problem


@dataclass(frozen=True, eq=False)
class Found:
    """Where answers for components go.

    Attributes
    ----------
    totals, lowest : ndarray of shape (n_components,)
        Log-partition, and log2 of the least sum over a step: see `kernels.frontier`.
    marginals : ndarray of shape (n_edges,)
        Of edges.
    left, right : ndarray of shape (n_left,), (n_right,)
        Probability of staying unmatched; 1 before, and for isolated nodes.
    """

    totals: FloatArray
    lowest: FloatArray
    marginals: FloatArray
    left: FloatArray
    right: FloatArray


@dataclass(frozen=True, eq=False)
class Walk:
    """The walk of one component of a reduced problem.

    Attributes
    ----------
    plan : FrontierPlan
        Of the problem.
    component : int
        Its number.
    reduced : Problem
        Whose best matching has score 0.
    """

    plan: FrontierPlan
    component: int
    reduced: Problem

    @property
    def _range(self) -> tuple[int, int]:
        first, last = self.plan.step_starts[self.component : self.component + 2].tolist()
        return first, last

    def _sides(self, left: Any, right: Any) -> tuple[Any, Any]:
        """Return what belongs to the walked side, and to the other."""
        return (right, left) if self.plan.walks_right[self.component] else (left, right)

    def solve(self, found: Found) -> None:
        """Solve the component, in slices between which Ctrl-C is heard."""
        plan, (start, stop) = self.plan, self._range
        steps, links, c = plan.steps, plan.links, self.component
        own, other = self._sides(self.reduced.unmatched_left, self.reduced.unmatched_right)
        own_out, other_out = self._sides(found.left, found.right)
        stays, weights, places, exponents = kernel.start_walk(
            steps, links, self.reduced.scores, own, other, start, stop
        )
        ends, _ = planning.cut_walk(steps, start, stop, planning.MOST_KEPT)
        parts = list(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True))
        length = max(kernel.fill_places(steps, start, *part, places) for part in parts)
        table = _aligned(length)
        walk: tuple[Any, ...] = (
            *(steps, links, plan.closes, other, start),
            *(stays, weights, places, exponents, table),
        )
        kept: list[FloatArray] = []

        def forward(first: int, last: int) -> None:
            kernel.fill_places(steps, start, first, last, places)
            if first > 0:
                begin = places[first]
                table[:begin] = 0.0
                table[begin : begin + len(kept[-1])] = kept[-1]
            sweep = partial(kernel.sweep_forward, *walk)
            run_slices(partial(_shifted, sweep, first), last - first)

        for first, last in parts:
            forward(first, last)
            if last < stop - start:
                begin = places[last]
                n_states = max(1 << int(steps[start + last, planning.BEFORE]), 1)
                kept.append(table[begin : begin + n_states].copy())
        found.totals[c] = kernel.log_total(exponents, places, table)
        buffers, state = kernel.start_back(steps, start, stop)
        rest = buffers, state, found.marginals, own_out, other_out
        for first, last in reversed(parts):
            if last < stop - start:
                forward(first, last)
            done = stop - start - last
            run_slices(
                partial(_shifted, partial(kernel.sweep_back, *walk, *rest), done),
                last - first,
            )
            if kept:
                kept.pop()
        kernel.settle_free(steps, links, start, stop, other, other_out)
        found.lowest[c] = state[2]

    def solve_by_logs(self, found: Found) -> None:
        """Solve the component on logarithms, where floats have lost states that count."""
        plan, (start, stop) = self.plan, self._range
        steps, links, c = plan.steps, plan.links, self.component
        own, other = self._sides(self.reduced.unmatched_left, self.reduced.unmatched_right)
        own_out, other_out = self._sides(found.left, found.right)
        stays, weights, places = logs.start_logs(
            steps, links, self.reduced.scores, own, other, start, stop
        )
        with enough_memory("Frontier on logarithms", 8.0 * int(places[-1])):
            tables = np.empty(places[-1])
        walk: tuple[Any, ...] = (
            *(steps, links, plan.closes, other, start, stays, weights, places, tables),
        )
        run_slices(partial(logs.fill_back_logs, *walk, False), stop - start)
        other_out[links[steps[start, LINK] : steps[stop, LINK], 2]] = 1.0
        buffers = np.full((2, 1 << int(plan.width[c])), -np.inf)
        rest = buffers, found.marginals, own_out, other_out
        run_slices(partial(logs.sweep_logs, *walk, *rest), stop - start)
        kernel.settle_free(steps, links, start, stop, other, other_out)
        found.totals[c] = tables[0]


def _shifted(work: Any, shift: int, first: int, last: int) -> None:
    work(shift + first, shift + last)


def _aligned(length: int) -> FloatArray:
    """Return room for tables.  NumPy asks for large pages, which compiled code does not."""
    table = np.empty(length + kernel.LANES)
    return table[-(table.ctypes.data >> 3) % kernel.LANES :]
