"""Edges that hardly matter are dropped, with a bound on what that changes.

A dropped edge has probability at most ``b``: taking it out of a matching leaves one, so
``b = A / (1 + A)`` will do, with ``A = exp(s_ij - u_i - v_j)``; where every node may stay
unmatched, what is known before any path is walked (`kernels.path_links`) is tighter.  With
``d`` the sum over the dropped edges of a component, its distribution changes by at most d
in total variation, and its log-partition by at most ``-log(1 - d)``.
"""

from dataclasses import dataclass, replace

import numpy as np

from permatch._parallel import Allowance, Job
from permatch._types import BoolArray, FloatArray, IntArray
from permatch.errors import SizeLimitError
from permatch.inference.answer import InferenceResult
from permatch.inference.frontier import Frontier
from permatch.inference.path_bounds import Ends, collect
from permatch.inference.path_walks import ROUNDING, Walker
from permatch.kernels.frontier_plan import frontier_plan
from permatch.problems import Problem

# More than what rounding adds to what `Frontier` computes, and of a log-partition's size.
_ROUNDED, _ROUNDED_SHARE = 1e-11, 1e-14


@dataclass(frozen=True, eq=False)
class Pruning:
    """A problem without some of its edges, and how far that is from the whole one.

    Attributes
    ----------
    problem : Problem
        With the edges that are kept.
    is_kept : ndarray of bool, (n_edges,)
        Of the edges of the whole problem.
    bounds : ndarray of shape (n_edges,)
        Probabilities of the edges at most; 1 where no bound is known.
    lost : ndarray of shape (n_components,)
        Probability that a matching of a component of the whole problem has a dropped edge,
        at most.
    log_lost : ndarray of shape (n_graphs,)
        How much more the log-partition of a graph may be than without the dropped edges.
    """

    problem: Problem
    is_kept: BoolArray
    bounds: FloatArray
    lost: FloatArray
    log_lost: FloatArray

    @property
    def n_dropped(self) -> int:
        """Number of edges dropped."""
        return int((~self.is_kept).sum())


def prune(
    problem: Problem, tol: float, is_candidate: BoolArray, job: Job | None = None
) -> Pruning:
    """Drop the least probable of some edges, up to a total probability per graph.

    Parameters
    ----------
    problem : Problem
        Any; an edge of a node that must be matched is never dropped.
    tol : float
        Largest sum of the bounds of the edges dropped from a graph.
    is_candidate : ndarray of bool, (n_edges,)
        The edges that may be dropped.
    job : Job, optional
        Threads.

    Returns
    -------
    Pruning
        The problem that is left, and bounds on what was lost.
    """
    structure = problem.structure
    bounds = edge_bounds(problem, job or Job())
    graphs = structure.graph_of_left[structure.left]
    places = np.nonzero(is_candidate & (bounds <= tol))[0]
    places = places[np.lexsort((bounds[places], graphs[places]))]
    sums = _sums_within(bounds[places], graphs[places])
    dropped = places[sums <= tol]
    is_kept = np.ones(structure.n_edges, dtype=bool)
    is_kept[dropped] = False
    found = structure.components
    of_edge = found.of_left[structure.left[dropped]]
    lost = np.zeros(len(found)) + np.bincount(of_edge, bounds[dropped], len(found))
    lost *= 1.0 + 2.0 * ROUNDING * (len(dropped) + 1)
    owners = structure.graph_of_component
    log_lost = np.zeros(structure.n_graphs)
    log_lost += np.bincount(owners, -np.log1p(-lost), structure.n_graphs)
    return Pruning(problem.kept(is_kept), is_kept, bounds, lost, log_lost)


def edge_bounds(problem: Problem, job: Job) -> FloatArray:
    """Return an upper end for the probability of every edge, 1 where none is known."""
    if problem.is_partial:
        walker = Walker(problem)
        everyone = np.arange(len(walker.plan.starts) - 1)
        walks = walker.walk(everyone, 1.0, 0, Allowance(None), job)
        return collect(problem, walks).edges[1]
    structure = problem.structure
    one = problem.unmatched_left[structure.left]
    other = problem.unmatched_right[structure.right]
    is_free = (one > -np.inf) & (other > -np.inf)
    parts = np.where(is_free, (problem.scores, one, other), 0.0)
    odds = parts[0] - parts[1] - parts[2]
    odds += 4.0 * ROUNDING * (1.0 + np.abs(parts).sum(axis=0))
    return np.where(is_free, np.exp(-np.logaddexp(0.0, -odds)), 1.0)


def _sums_within(values: FloatArray, groups: IntArray) -> FloatArray:
    """Return running sums of ascending values within groups, which lie together."""
    sums = np.cumsum(values)
    is_first = np.ones(len(groups), dtype=bool)
    is_first[1:] = groups[1:] != groups[:-1]
    before = (sums - values)[is_first]
    counts = np.diff(np.append(np.nonzero(is_first)[0], len(groups)))
    return sums - np.repeat(before, counts)


def solve_pruned(problem: Problem, tol: float, max_width: int, job: Job) -> InferenceResult:
    """Solve exactly, once edges that hardly matter are dropped from wide components.

    Raises
    ------
    SizeLimitError
        If a component stays too wide.
    """
    structure = problem.structure
    found = structure.components
    is_wide = frontier_plan(structure).width > max_width
    if not is_wide.any():
        answer = Frontier(max_width=max_width)._infer_problem(problem, job)
        return answer.told(notes=("no edges dropped",))
    pruned = prune(problem, tol, is_wide[found.of_left[structure.left]], job)
    smaller = pruned.problem.structure
    widths = frontier_plan(smaller).width
    if (widths > max_width).any():
        raise _too_wide(pruned, widths, tol, max_width)
    answer = Frontier(max_width=max_width)._infer_problem(pruned.problem, job)
    n_parts = len(smaller.components)
    note = (
        f"{pruned.n_dropped} edges dropped, {n_parts} components left, the widest of "
        f"width {int(widths.max(initial=0))}"
    )
    return _spread(problem, pruned, answer).told(notes=(note,))


def _spread(problem: Problem, pruned: Pruning, answer: InferenceResult) -> InferenceResult:
    """Return the answer for the whole problem, with what pruning may have changed."""
    structure = problem.structure
    found, is_kept = structure.components, pruned.is_kept
    if is_kept.all():
        return answer
    marginals = np.zeros(structure.n_edges)
    marginals[is_kept] = answer.marginals

    def reach(values: FloatArray, of_node: IntArray) -> Ends:
        # Values are those among the matchings without dropped edges.
        lost = np.append(pruned.lost, 0.0)[of_node] + _ROUNDED
        low = np.maximum(values * (1.0 - lost), 0.0)
        return low, np.minimum(values + lost * (1.0 - values) + _ROUNDED, 1.0)

    low, high = reach(marginals, found.of_left[structure.left])
    high = np.where(is_kept, high, pruned.bounds)
    value = answer.log_partition
    slack = _ROUNDED + _ROUNDED_SHARE * np.abs(value)
    ends = value - slack, value + pruned.log_lost + slack
    widest = int(np.argmax(ends[1] - ends[0]))
    errors = np.maximum(high - marginals, marginals - low)
    return replace(
        answer,
        marginals=marginals,
        is_exact=False,
        log_partition_error=pruned.log_lost,
        marginal_errors=errors,
        marginal_bounds=(low, high),
        unmatched_left_bounds=reach(answer.unmatched_left, found.of_left),
        unmatched_right_bounds=reach(answer.unmatched_right, found.of_right),
    ).told(
        certificate="rigorous",
        interval=(float(ends[0][widest]), float(ends[1][widest])),
        interval_certificate="rigorous",
        log_partition_error=float(pruned.log_lost.max()),
        marginal_error=float(errors.max()),
        figures={**answer.diagnostics.figures, "n_dropped": pruned.n_dropped},
    )


def _too_wide(
    pruned: Pruning, widths: IntArray, tol: float, max_width: int
) -> SizeLimitError:
    structure = pruned.problem.structure
    c = int(np.argmax(widths))
    n, k = (int(sizes[c]) for sizes in structure.components.sizes)
    graph = int(structure.graph_of_component[c])
    other = "engine='auto'"
    if pruned.problem.is_partial:
        other = f"engine='path_tree' for intervals that hold, {other}"
    return SizeLimitError(
        f"Sparsified needs components of width at most {max_width} once edges of a total "
        f"probability of {tol:g} are dropped; {pruned.n_dropped} were, and a component of "
        f"graph {graph} still has width {int(widths[c])} or more ({n} x {k} nodes). "
        f"Its scores are not peaked enough: use {other}, or raise tol or max_block."
    )
