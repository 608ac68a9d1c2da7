"""Importance sampling on the edges of a problem: how many filters, and what they report."""

from dataclasses import replace

import numpy as np

from permatch._parallel import Allowance
from permatch._types import BoolArray
from permatch.inference.answer import Diagnostics, InferenceResult
from permatch.inference.base import Job, factor_for_all
from permatch.inference.belief_propagation import beliefs
from permatch.inference.edge_answers import joined, unmatched, with_trees
from permatch.inference.sampling.edge_filters import (
    EdgeFilters,
    FilterEstimates,
    run_until,
)
from permatch.inference.sampling.nesting_run import Settings
from permatch.problems import Problem

# Filters of a first round, on every side.
_FIRST_ROUND, _FEWEST_FILTERS = 16, 4
# With fewer effective filters, or draws, the errors are not trusted.
_FEWEST_EFFECTIVE_FILTERS, _FEWEST_EFFECTIVE = 5.0, 100.0


def infer_edges(
    problem: Problem,
    settings: Settings,
    seed: int,
    budget: float | None,
    epsilon: float | None,
    job: Job,
) -> InferenceResult:
    """Draw on the components of a problem that are not trees.

    With `epsilon` the interval of the log-partition is one that holds for certain.
    """
    watch = Allowance(budget)
    whole, is_open = with_trees(problem, "nesting", job)
    if is_open.any():
        part = problem.select(np.nonzero(is_open)[0])
        whole.add(part, _draw(part.problem, settings, seed, watch, job))
    result = joined(whole, "nesting")
    if epsilon is None or result.is_exact:
        return result
    return _with_guarantee(problem, result, epsilon, job)


def _draw(
    problem: Problem, settings: Settings, seed: int, watch: Allowance, job: Job
) -> InferenceResult:
    particles = settings.particles if isinstance(settings.particles, int) else 0
    filters = EdgeFilters(problem, seed, settings.transpose_check, particles, job)
    n_sides = len(filters.walks)
    n_first = _FIRST_ROUND
    tol, most = settings.tol, settings.max_samples
    if settings.n_samples is not None:
        tol, most = None, settings.n_samples
        few = max(settings.n_samples // (2 * n_sides * _FEWEST_FILTERS), 2)
        filters.n_particles = np.minimum(filters.n_particles, few)
        per_filter = n_sides * int(filters.n_particles.max())
        n_first = max(-(-settings.n_samples // per_filter), _FEWEST_FILTERS)
    factor = factor_for_all(problem.structure.n_edges, settings.delta)

    def is_good(found: FilterEstimates) -> BoolArray:
        return _is_trusted(filters, found) & (factor * found.largest_errors <= (tol or 0.0))

    def growth(found: FilterEstimates) -> float:
        worst = float(found.largest_errors.max(initial=0.0))
        return 1.1 * (factor * worst / (tol or 1.0)) ** 2

    found = run_until(
        filters,
        n_first,
        None if tol is None else is_good,
        growth,
        watch.affordable,
        max(most // (n_sides * int(filters.n_particles.max())), 1),
    )
    found = _without_gaps(problem, found)
    is_trusted = bool(_is_trusted(filters, found).all())
    is_converged = is_trusted and (tol is None or bool(is_good(found).all()))
    n_filters = n_sides * filters.n_begun
    low, high = int(filters.n_particles.min()), int(filters.n_particles.max())
    sizes = f"{low} to {high}" if low < high else f"{high}"
    told = Diagnostics(
        "nesting",
        "asked for",
        0,
        problem.structure.n_graphs,
        certificate="asymptotic" if is_trusted else "heuristic",
        n_samples=n_filters * high,
        effective_samples=float(found.n_effective.min()),
        is_converged=is_converged,
        notes=(f"{n_filters} filters of {sizes} particles",),
    )
    return InferenceResult(
        found.log_partition,
        found.marginals,
        False,
        told,
        found.log_errors,
        found.errors,
        **unmatched(problem, found.marginals),
    )


def _without_gaps(problem: Problem, found: FilterEstimates) -> FilterEstimates:
    """Return beliefs where no draw ended in a matching: the next best there is."""
    is_lost = found.log_partition == -np.inf
    if not is_lost.any():
        return found
    own = beliefs(problem)
    structure = problem.structure
    is_edge = is_lost[structure.graph_of_left[structure.left]]
    return replace(
        found,
        log_partition=np.where(is_lost, own.log_partition, found.log_partition),
        marginals=np.where(is_edge, own.marginals, found.marginals),
    )


def _is_trusted(filters: EdgeFilters, found: FilterEstimates) -> BoolArray:
    """Return of which components enough draws stand behind the errors."""
    return (
        (found.effective_filters >= min(_FEWEST_EFFECTIVE_FILTERS, filters.n_begun))
        & (found.n_effective >= _FEWEST_EFFECTIVE)
        & filters.is_even()
    )


def _with_guarantee(
    problem: Problem, result: InferenceResult, epsilon: float, job: Job
) -> InferenceResult:
    """Replace the interval by that of belief propagation, of the widest graph."""
    found = beliefs(problem, bounds=True, job=job)
    if found.lower is None or found.upper is None:
        return result
    widths = found.upper - found.lower
    widest = int(np.argmax(widths))
    is_narrow = bool(widths[widest] <= 2.0 * epsilon)
    told = result.diagnostics
    note = () if is_narrow else ("the interval is that of belief propagation",)
    return result.told(
        interval=(float(found.lower[widest]), float(found.upper[widest])),
        interval_certificate="rigorous",
        is_converged=told.is_converged and is_narrow,
        notes=(*told.notes, *note),
    )
