"""The best matchings of narrow components, by the frontier."""

from functools import partial
from typing import Any

import numpy as np

from permatch._parallel import run_slices
from permatch._types import BoolArray, FloatArray, IntArray
from permatch._validation import enough_memory
from permatch.kernels import frontier_kbest as kernel
from permatch.kernels.frontier_logs import fill_back_logs, start_logs
from permatch.kernels.frontier_plan import LINK, FrontierPlan
from permatch.kernels.heap import empty_heap
from permatch.problems import Problem

# Wider components are left to others: tables of scores take long to fill.
_MOST_OPEN = 14


def is_narrow(plan: FrontierPlan) -> BoolArray:
    """Return for every component whether the functions here are for it."""
    return (plan.width <= _MOST_OPEN) & (plan.log2_bytes < 30.0)


def second_losses(reduced: Problem, plan: FrontierPlan, chosen: IntArray) -> FloatArray:
    """Return what the second best matching of some components loses to the best.

    Parameters
    ----------
    reduced : Problem
        Whose best matching has score 0, and no score is above 0.
    plan : FrontierPlan
        Of its structure.
    chosen : ndarray
        Narrow components.

    Returns
    -------
    ndarray of shape (n_components,)
        Infinite where there is no other matching; 0 for other components.
    """
    gaps = np.zeros(len(plan.width))
    free = reduced.unmatched_left, reduced.unmatched_right
    walks = plan.steps, plan.links, plan.closes, plan.step_starts, plan.walks_right
    fill = partial(kernel.fill_gaps, *walks, reduced.scores, *free, chosen, gaps)
    run_slices(fill, len(chosen))
    return gaps


def best_of_narrow(
    reduced: Problem, plan: FrontierPlan, c: int, k: int
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the k best matchings of a narrow component, best first.

    Parameters
    ----------
    reduced : Problem
        Whose best matching has score 0, and no score is above 0.
    plan : FrontierPlan
        Of its structure.
    c : int
        The component.
    k : int
        Number of matchings; fewer are returned if there are fewer.

    Returns
    -------
    nodes : ndarray of shape (n,)
        The left nodes of the component.
    matchings : ndarray of shape (r, n)
        The right node of each, -1 if unmatched.
    losses : ndarray of shape (r,)
        What each loses to the best, ascending.
    """
    free = [reduced.unmatched_left, reduced.unmatched_right]
    if plan.walks_right[c]:
        free = free[::-1]
    steps, links = plan.steps, plan.links
    start, stop = plan.step_starts[c : c + 2].tolist()
    n_steps = stop - start
    own: Any = start_logs(steps, links, reduced.scores, free[0], free[1], start, stop)
    stays, weights, places = own
    tables = np.empty(places[-1])
    walk: tuple[Any, ...] = (
        *(steps, links, plan.closes, free[1], start, stays, weights, places, tables),
    )
    run_slices(partial(fill_back_logs, *walk, True), n_steps)
    # No more than the ways to choose at every step.
    n_links = np.diff(steps[start : stop + 1, LINK]) + 1
    k = min(k, int(np.exp(min(np.log(n_links).sum() + 1e-6, 40.0))) + 1)
    n_bytes = 56.0 * k * (n_steps + 1)
    with enough_memory(f"k_best of {k} matchings of {n_steps} nodes", n_bytes):
        choices, states = np.empty((2, k, n_steps), np.int64)
        gains, losses = np.empty((k, n_steps)), np.empty(k)
        heap, counts = empty_heap(k * (n_steps + 1) + 1), np.zeros(2, np.int64)
        found = choices, states, gains, losses, heap, counts
        run_slices(partial(kernel.find_best, *walk, *found), k)
    n_found = int(counts[0])
    components = reduced.structure.components
    nodes = components.left_nodes[slice(*components.left_starts[c : c + 2])]
    matchings = np.full((n_found, len(nodes)), -1, dtype=np.intp)
    is_right = bool(plan.walks_right[c])
    kernel.write_matchings(steps, links, start, is_right, nodes, choices, matchings)
    return nodes, matchings, losses[:n_found]
