"""Intervals that hold for certain, on sparse partial graphs of any size."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from permatch._parallel import Allowance, Job
from permatch._types import FloatArray, IntArray
from permatch._validation import like_others
from permatch.errors import InvalidOptionError, PartialMatchingError
from permatch.inference._options import (
    check_budget,
    check_limited_count,
    check_number,
    keep,
)
from permatch.inference.answer import Diagnostics, InferenceResult
from permatch.inference.base import AbstractEngine
from permatch.inference.path_bounds import (
    PathBounds,
    bethe_bounds,
    collect,
    log_partition_bounds,
)
from permatch.inference.path_walks import Walker, Walks
from permatch.problems import Problem
from permatch.scores import stacked_problem

# Share of a budget that is left for the log-partition.
_SHARE_OF_SUM = 0.25
# Seconds of a node, roughly, at a tolerance of 1; no smaller tolerance is counted with.
_SECONDS, _LEAST_TOL = 2e-7, 1e-6
# Takes a second or two, in which no Ctrl-C is heard.
_MOST_STEPS = 5_000_000
_SIDES = ("left", "right", "both")


@dataclass(frozen=True, kw_only=True)
class PathTree(AbstractEngine):
    """Bound all probabilities in sparse partial graphs.

    The probability that a node stays unmatched follows from those of its neighbours in the
    graph without it, and so on along all paths that visit no node twice.  The tree of these
    paths is cut where that matters little, with bounds that hold, so the intervals hold
    for certain: ``marginal_bounds``, ``unmatched_left_bounds``, ``unmatched_right_bounds``,
    and ``diagnostics.interval`` of the log-partition.  Each node is refined until its
    intervals are at most `tol` wide.  The work for a node does not depend on the size of
    the graph.

    Every node must be allowed to stay unmatched (`PartialMatchingError`).

    Parameters
    ----------
    max_size : int
        Most nodes of a side accepted.
    tol : float
        Width of the intervals asked for: of the probability that a node stays unmatched,
        and of all its edges.  0 walks the whole tree, for tiny graphs.
    max_steps : int
        Most nodes of the tree visited for a node, up to 5 million; those with many
        neighbours count more.  Its intervals then stay wider, which
        ``diagnostics.is_converged`` and ``notes`` report.
    sides : {"both", "left", "right"}
        The side whose nodes are refined.  With "left", every edge is, and bounds for right
        nodes follow from their edges: half the time, wider intervals on the right.
    budget : float, optional
        Seconds; what is not done by then keeps wider intervals.

    Notes
    -----
    O(n): a node takes roughly 10 microseconds for a `tol` of 0.1 and 50 for 0.01, with four
    edges a node and odds about 1.  The work grows quickly with strong odds in dense graphs:
    exact engines or samplers do better there.  The log-partition is a sum over all nodes,
    and so is the width of its interval.  The recursion is in `permatch.kernels.path_tree`.

    References
    ----------
    C. D. Godsil, "Matchings and walks in graphs", Journal of Graph Theory 5 (1981).
    M. Bayati, D. Gamarnik, D. Katz, C. Nair and P. Tetali, "Simple deterministic
    approximation algorithms for counting matchings", STOC (2007).

    Examples
    --------
    >>> import permatch as pm
    >>> edges = pm.EdgeScores([0, 0, 1], [0, 1, 1], [1.0, 2.0, 0.0])
    >>> result = pm.PathTree(tol=1e-6).infer(edges, unmatched_left=0.0, unmatched_right=0.0)
    >>> low, high = result.marginal_bounds
    >>> result.marginals.round(4), bool((high - low < 1e-6).all())
    (array([0.3667, 0.4984, 0.2508]), True)
    """

    max_size: int = 10_000_000
    tol: float = 0.01
    max_steps: int = 100_000
    sides: str = "both"
    budget: float | None = None

    name = "path_tree"
    largest_max_size: ClassVar[int] = 1_000_000_000

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sides not in _SIDES:
            raise InvalidOptionError(
                "sides of PathTree must be one of 'both', 'left' and 'right'; got "
                f"{self.sides!r}."
            )
        steps = check_limited_count(self.max_steps, "max_steps of PathTree", 0, _MOST_STEPS)
        keep(
            self,
            tol=check_number(self.tol, "tol of PathTree", 0.0, 1.0),
            max_steps=steps,
            budget=check_budget(self.budget, "budget of PathTree"),
        )

    def log2_seconds(self, size: int) -> float:
        """Estimate log2 of the seconds one sparse graph takes on one thread."""
        return math.log2(size + 1) + math.log2(6 * _SECONDS / max(self.tol, _LEAST_TOL))

    def log2_bytes(self, size: int) -> float:
        """Estimate log2 of the bytes one sparse graph needs."""
        return math.log2(size + 1) + 11.0

    def _infer_stack(
        self, scores: FloatArray, members: IntArray, job: Job
    ) -> InferenceResult:
        if scores.size:
            raise _not_partial("every node must be matched: no unmatched scores were given")
        nothing = self._infer_problem(stacked_problem(scores), job)
        no_edges, nobody = np.zeros(scores.shape), np.zeros(scores.shape[:2])
        return replace(
            nothing,
            marginals=no_edges,
            marginal_errors=no_edges,
            marginal_bounds=(no_edges, no_edges),
            unmatched_left_bounds=(nobody, nobody),
            unmatched_right_bounds=(nobody, nobody),
        )

    def _infer_problem(self, problem: Problem, job: Job) -> InferenceResult:
        """Walk from the nodes of the sides asked for, then for the log-partition."""
        _refuse_perfect(problem)
        time = Allowance(self.budget)
        structure = problem.structure
        self.check_size(max(structure.n_left, structure.n_right))
        walker = Walker(problem)
        plan = walker.plan
        chosen = {"left": [plan.left], "right": [plan.right]}
        roots = np.concatenate(chosen.get(self.sides, [plan.left, plan.right]))
        tol = walker.leaving_room(self.tol)
        spare = 0.0 if time.budget == math.inf else _SHARE_OF_SUM * time.left
        seconds = len(roots) * _SECONDS / max(self.tol, _LEAST_TOL)
        walks = walker.walk(
            roots, tol, self.max_steps, time, job, spare=spare, seconds=seconds
        )
        found = collect(problem, walks)
        # The smaller side is taken out of the graph, node by node.
        fewer = min(plan.left, plan.right, key=len)
        parts = walker.walk(fewer, tol, self.max_steps, time, job, is_ordered=True)
        low, high, point = log_partition_bounds(problem, parts)
        low = np.maximum(low, bethe_bounds(problem, walker.odds, found.marginals))
        point = np.clip(point, low, high)
        widths = found.widths(problem)
        asked = {"left": [0], "right": [1]}.get(self.sides, [0, 1])
        told = _diagnostics(self, problem, [widths[side] for side in asked], walks)
        return InferenceResult(
            point,
            found.marginals,
            False,
            replace(told, interval=_widest(low, high)),
            _reach(point, (low, high)),
            _reach(found.marginals, found.edges),
            found.unmatched_left,
            found.unmatched_right,
            found.edges,
            found.left,
            found.right,
        )


def bound_nodes(
    problem: Problem,
    left: IntArray,
    right: IntArray,
    *,
    tol: float,
    max_steps: int,
    time: Allowance,
    job: Job,
) -> PathBounds:
    """Bound some nodes and their edges, without the log-partition.

    Parameters
    ----------
    problem : Problem
        All its nodes may stay unmatched.
    left, right : ndarray
        The nodes to walk from.
    tol : float
        Width of the intervals asked for.
    max_steps : int
        Most nodes of the tree visited for a node.
    time : Allowance
        What is not done by then keeps wider intervals.
    job : Job
        Threads and progress.  Ctrl-C ends `time`, and what is found is kept.

    Returns
    -------
    PathBounds
        Intervals and estimates; [0, 1] for what no walk has reached.
    """
    _refuse_perfect(problem)
    walker = Walker(problem)
    roots = np.concatenate([walker.plan.left[left], walker.plan.right[right]])
    seconds = len(roots) * _SECONDS / max(tol, _LEAST_TOL)
    width = walker.leaving_room(tol)
    walks = walker.walk(roots, width, max_steps, time, job, seconds=seconds, is_kept=True)
    return collect(problem, walks)


def _reach(points: FloatArray, ends: tuple[FloatArray, FloatArray]) -> FloatArray:
    """Return how far the truth may be from an estimate."""
    return np.maximum(ends[1] - points, points - ends[0])


def _widest(low: FloatArray, high: FloatArray) -> tuple[float, float] | None:
    if not len(low):
        return None
    k = int(np.argmax(high - low))
    return float(low[k]), float(high[k])


def _diagnostics(
    engine: PathTree, problem: Problem, widths: list[FloatArray], walks: Walks
) -> Diagnostics:
    structure = problem.structure
    sizes = np.maximum(np.diff(structure.left_starts), np.diff(structure.right_starts))
    n_nodes = sum(map(len, widths))
    n_wide = sum(int((~(width <= engine.tol)).sum()) for width in widths)
    widest = max((float(width.max(initial=0.0)) for width in widths), default=0.0)
    steps = int(walks.counts[:, 0].sum())
    notes = [f"{steps} steps for {n_nodes} nodes; the widest interval is {widest:.2g}"]
    if n_wide:
        notes.append(f"{n_wide} of {n_nodes} nodes did not reach a width of {engine.tol:g}")
    return Diagnostics(
        engine=engine.name,
        choice="asked for",
        size=int(sizes.max(initial=0)),
        n_graphs=structure.n_graphs,
        certificate="rigorous",
        interval_certificate="rigorous" if structure.n_graphs else "",
        marginal_error=widest,
        is_converged=not n_wide,
        notes=tuple(notes),
        figures={"steps": steps, "n_wide": n_wide, "widest": widest},
    )


def _refuse_perfect(problem: Problem) -> None:
    """Refuse a problem with a node that must be matched."""
    for side, unmatched in (
        ("left", problem.unmatched_left),
        ("right", problem.unmatched_right),
    ):
        must = unmatched == -np.inf
        if must.any():
            first = int(np.argmax(must))
            raise _not_partial(
                f"{side} node {first}{like_others(int(must.sum()))} must be matched"
            )


def _not_partial(got: str) -> PartialMatchingError:
    return PartialMatchingError(
        f"PathTree needs nodes that may all stay unmatched; {got}. Give finite scores as "
        "unmatched_left and unmatched_right, or use engine='auto'."
    )
