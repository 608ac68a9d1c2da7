"""Filters on the edges of a problem: independent groups of particles, and their estimates.

A filter says of every component a mean weight, unbiased for its partition function, and
shares of edges.  Estimates weigh filters by their mean weights; errors come from how they
differ.  Half of them walk over the right nodes, whose draws are quite different.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from permatch._types import BoolArray, FloatArray, IntArray
from permatch.inference.base import Job
from permatch.inference.belief_propagation import beliefs, finite_components
from permatch.kernels.edge_filter import FilterPlan, fill_order, fill_tables, run_filters
from permatch.problems import Problem

# Messages are only a guide: no need for the last digits.
_TOL, _MOST_SWEEPS = 1e-6, 300
# Those of belief propagation are too sure of themselves where blocks are all but matched,
# above all where nodes must be; with larger shares of their own flow weights vary more in
# large sparse graphs.
_KEPT, _KEPT_IF_STRICT = 0.1, 0.5
# Particles of a filter: about so many visits of edges, within these limits.
_VISITS, _FEWEST_PARTICLES, _MOST_PARTICLES = 1 << 20, 16, 256
# Filters that are run whatever the time.
_FEWEST_FILTERS = 2
# Edges of one task; beliefs that are held at once.
_EDGES_PER_TASK, _MOST_KEPT = 1 << 11, 1 << 24


@dataclass(frozen=True, eq=False)
class Walk:
    """Filters that walk over one side: their plan, and the places of their edges."""

    plan: FilterPlan
    places: IntArray

    @classmethod
    def over(cls, problem: Problem, places: IntArray, job: Job) -> "Walk":
        """Prepare the walk over the left nodes of a problem whose graphs are connected."""
        structure = problem.structure
        kept = np.where(finite_components(problem), _KEPT, _KEPT_IF_STRICT)
        found = beliefs(problem, tol=_TOL, max_iter=_MOST_SWEEPS, kept=kept, job=job)
        edges = found.scaled.edges
        order = np.empty(structure.n_left, dtype=np.int64)
        sides = structure.starts, structure.right
        fill_order(*sides, *structure.by_right, structure.left, order)
        q, d = np.empty((2, structure.n_edges))
        sums = np.empty(structure.n_right)
        fill_tables(
            *sides, order, edges.weights, found.to_right, edges.free_right, q, d, sums
        )
        begin = found.scaled.offsets + np.bincount(
            structure.graph_of_right, np.log(sums), structure.n_graphs
        )
        starts = structure.left_starts, structure.right_starts
        plan = FilterPlan(*sides, *starts, order, edges.free_left, q, d, begin)
        return cls(plan, places)


@dataclass(eq=False)
class _Pool:
    """Sums over filters of W, W^2 and beliefs, W being weights relative to a reference."""

    n_graphs: int
    of_edge: IntArray
    reference: FloatArray = field(init=False)
    sums: FloatArray = field(init=False)  # of W, W^2, W times effective particles
    count: IntArray = field(init=False)
    edges: FloatArray = field(init=False)  # of W b, W^2 b, W^2 b^2

    def __post_init__(self) -> None:
        self.reference = np.full(self.n_graphs, -np.inf)
        self.sums = np.zeros((3, self.n_graphs))
        self.count = np.zeros(self.n_graphs, dtype=np.int64)
        self.edges = np.zeros((3, len(self.of_edge)))

    def add(self, graphs: IntArray, logs: FloatArray, n: FloatArray, b: FloatArray) -> None:
        """Add a filter; components other than `graphs` have logs of ``-inf``."""
        new = np.maximum(self.reference, logs)
        safe = np.where(new == -np.inf, 0.0, new)
        old, weight = np.exp(self.reference - safe), np.exp(logs - safe)
        self.reference = new
        self.sums *= np.array([old, old**2, old])
        self.sums += np.array([weight, weight**2, weight * n])
        self.count[graphs] += 1
        shrunk, own = old[self.of_edge], weight[self.of_edge]
        self.edges *= np.array([shrunk, shrunk**2, shrunk**2])
        self.edges += np.array([own * b, own**2 * b, (own * b) ** 2])


@dataclass(frozen=True, eq=False)
class FilterEstimates:
    """What filters say: of edges (n_edges,), and of components (n,)."""

    marginals: FloatArray
    errors: FloatArray
    log_partition: FloatArray
    log_errors: FloatArray
    n_effective: FloatArray
    effective_filters: FloatArray
    largest_errors: FloatArray


class EdgeFilters:
    """All filters of a problem whose graphs are connected."""

    def __init__(
        self, problem: Problem, seed: int, is_checked: bool, particles: int, job: Job
    ) -> None:
        structure = problem.structure
        self.problem, self.seed, self.job = problem, seed, job
        self.n_edges = np.diff(structure.edge_starts)
        self.of_edge = structure.graph_of_left[structure.left]
        self.n_particles = np.clip(
            _VISITS // np.maximum(self.n_edges, 1), _FEWEST_PARTICLES, _MOST_PARTICLES
        )
        if particles:
            self.n_particles[:] = particles
        self.walks = [Walk.over(problem, np.arange(structure.n_edges), job)]
        if is_checked:
            places = structure.by_right[1]
            self.walks.append(Walk.over(problem.transposed(), places, job))
        n_graphs = structure.n_graphs
        self.pool = _Pool(n_graphs, self.of_edge)
        self.sides = [_Pool(n_graphs, np.zeros(0, np.int64)) for _ in self.walks]
        self.n_begun = 0

    def run(self, n_filters: int, graphs: IntArray) -> None:
        """Run filters on every side for some components."""
        at_once = max(_MOST_KEPT // max(len(self.of_edge), 1), 1)
        for first in range(0, n_filters, at_once):
            count = min(at_once, n_filters - first)
            for side in range(len(self.walks)):
                self._run_side(side, count, graphs)
            self.n_begun += count

    def _run_side(self, side: int, count: int, graphs: IntArray) -> None:
        walk = self.walks[side]
        n_graphs = len(self.n_edges)
        logs = np.full((count, n_graphs), -np.inf)
        effective = np.zeros((count, n_graphs))
        shares = np.zeros((count, len(self.of_edge)))
        streams = [
            np.random.SeedSequence([self.seed, side, self.n_begun + k])
            .generate_state(4 * n_graphs, np.uint64)
            .reshape(-1, 4)
            for k in range(count)
        ]
        reached = np.cumsum(self.n_edges[graphs])
        total = int(reached[-1]) if len(graphs) else 0
        tasks = np.searchsorted(reached, np.arange(0, total, _EDGES_PER_TASK), "left")
        cuts = np.unique(np.concatenate([tasks, [len(graphs)]]))
        n_tasks = len(cuts) - 1

        def work(task: int) -> None:
            k, part = divmod(task, n_tasks)
            run_filters(
                walk.plan,
                self.n_particles,
                streams[k],
                graphs[cuts[part] : cuts[part + 1]],
                logs[k],
                effective[k],
                shares[k],
            )

        self.job.run(work, count * n_tasks)
        for k in range(count):
            own = np.empty(len(self.of_edge))
            own[walk.places] = shares[k]
            self.pool.add(graphs, logs[k], effective[k], own)
            self.sides[side].add(graphs, logs[k], effective[k], np.zeros(0))

    def estimates(self) -> FilterEstimates:
        """Return what all filters so far say together."""
        pool, of_edge = self.pool, self.of_edge
        log_partition, log_errors, filters = _log_means(pool)
        total = np.maximum(pool.sums[0], 1e-300)
        marginals = pool.edges[0] / total[of_edge]
        squares = pool.edges[2] - 2.0 * marginals * pool.edges[1]
        squares += marginals**2 * pool.sums[1][of_edge]
        growth = pool.count / np.maximum(pool.count - 1, 1)
        errors = np.sqrt(np.maximum(squares, 0.0) * growth[of_edge]) / total[of_edge]
        n_effective = _effective(pool)
        # What none of n draws showed has together a probability of about 1 / n.
        errors = np.minimum(np.hypot(errors, 1.0 / n_effective[of_edge]), 1.0)
        largest = np.zeros(len(total))
        np.maximum.at(largest, of_edge, errors)
        return FilterEstimates(
            np.clip(marginals, 0.0, 1.0),
            errors,
            log_partition,
            log_errors,
            n_effective,
            filters,
            largest,
        )

    def is_even(self) -> BoolArray:
        """Return of which components the walks over both sides agree."""
        if len(self.sides) == 1:
            return np.ones(len(self.n_edges), dtype=bool)
        (one, its, _), (other, theirs, _) = (_log_means(side) for side in self.sides)
        with np.errstate(invalid="ignore"):
            return np.abs(one - other) <= 4.0 * np.hypot(its, theirs) + 1e-9


def _log_means(pool: _Pool) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the logs of mean weights, their errors, and how many filters are effective."""
    count = np.maximum(pool.count, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = pool.reference + np.log(pool.sums[0] / count)
        ratio = pool.sums[1] / pool.sums[0] ** 2
        errors = np.sqrt(np.maximum(ratio - 1.0 / count, 0.0) * count / (count - 1))
        filters = 1.0 / ratio
    errors = np.hypot(errors, 1.0 / _effective(pool))
    errors = np.where(np.isfinite(errors) & np.isfinite(values), errors, np.inf)
    return values, errors, np.nan_to_num(filters, nan=0.0)


def _effective(pool: _Pool) -> FloatArray:
    """Return how many draws of equal weight filters are worth."""
    with np.errstate(divide="ignore", invalid="ignore"):
        counts = pool.sums[0] * pool.sums[2] / pool.sums[1]
    return np.maximum(np.nan_to_num(counts, nan=0.0), 1e-3)


def run_until(
    filters: EdgeFilters,
    n_first: int,
    is_good: Callable[[FilterEstimates], BoolArray] | None,
    growth: Callable[[FilterEstimates], float],
    affordable: Callable[[float, float], float],
    most: int,
) -> FilterEstimates:
    """Run filters until all components are good, out of time, or at `most` of them."""
    everything = np.arange(len(filters.n_edges))
    n_begun = min(n_first, _FEWEST_FILTERS)
    filters.run(n_begun, everything)
    filters.run(int(affordable(n_begun, n_first - n_begun)), everything)
    found = filters.estimates()
    while is_good is not None:
        some = np.nonzero(~is_good(found))[0]
        wanted = filters.n_begun * (min(max(growth(found), 1.2), 8.0) - 1.0)
        wanted = min(wanted, most - filters.n_begun)
        count = int(min(affordable(filters.n_begun, wanted), math.inf))
        if not len(some) or count < 1:
            break
        filters.run(count, some)
        found = filters.estimates()
    return found
