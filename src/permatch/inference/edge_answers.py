"""What samplers on edges have in common: trees, what rows leave, and the interval.

Components that are trees need no draws: belief propagation solves them exactly.
"""

import math
from typing import Any

import numpy as np

from permatch._types import BoolArray, FloatArray
from permatch.assignment import best_assignment
from permatch.inference.answer import Diagnostics, InferenceResult
from permatch.inference.base import Job
from permatch.inference.belief_propagation import beliefs
from permatch.inference.components import Assembly
from permatch.problems import Problem

# Trees settle for good.
_TOL = 1e-13


def with_trees(problem: Problem, engine: str, job: Job) -> tuple[Assembly, BoolArray]:
    """Return an assembly with the answers for trees, and which components are not trees.

    Raise InfeasibleGraphError if a graph has no matching.
    """
    if not problem.is_partial:
        best_assignment(problem)  # or refuse it
    whole = Assembly(problem)
    found = problem.structure.components
    n_left, n_right = found.sizes
    is_tree = found.n_edges < n_left + n_right
    if is_tree.any():
        part = problem.select(np.nonzero(is_tree)[0])
        longest = int((n_left + n_right)[is_tree].max()) + 2
        own = beliefs(part.problem, tol=_TOL, max_iter=longest, job=job)
        answer = InferenceResult(
            own.log_partition,
            own.marginals,
            True,
            Diagnostics(engine, "trees", 0, part.problem.structure.n_graphs),
            unmatched_left=own.unmatched_left,
            unmatched_right=own.unmatched_right,
        )
        whole.add(part, answer)
    return whole, ~is_tree


def unmatched(problem: Problem, marginals: FloatArray) -> dict[str, Any]:
    """Return what the edges of every node leave of one."""
    structure = problem.structure
    rests = {}
    for side, nodes in (("left", structure.left), ("right", structure.right)):
        free = getattr(problem, f"unmatched_{side}")
        rest = np.ones(len(free))
        rest -= np.bincount(nodes, marginals, len(free))
        rests[f"unmatched_{side}"] = np.where(free > -np.inf, np.clip(rest, 0.0, 1.0), 0.0)
    return rests


def joined(whole: Assembly, engine: str) -> InferenceResult:
    """Return the answer for the whole problem, for one graph with two standard errors."""
    result = whole.result(engine, "asked for")
    if result.is_exact:
        return result
    told = result.diagnostics
    log_errors = np.asarray(result.log_partition_error)
    changes: dict[str, Any] = {
        "log_partition_error": float(log_errors.max(initial=0.0)),
        "marginal_error": result.largest_error,
    }
    if told.interval is None and len(log_errors) == 1 and told.is_trusted:
        value, reach = float(result.log_partition[0]), 2.0 * float(log_errors[0])
        if math.isfinite(reach):
            changes["interval"] = value - reach, value + reach
            changes["interval_certificate"] = "asymptotic"
    return result.told(**changes)
