"""Rankings whose positions fall into levels: exact inference of where documents stand.

Documents with scores s_i fill positions with weights w_j, the likelier the larger
``sum_j w_j s_{document at j}``.  Positions of equal weight form a level, and inside a level
every order is equally likely.  So all that has to be inferred are levels.  Level 0 is the
top one.  Each class below, and `BySwaps` of
`swaps`, answers the same four questions:

    log_excess          log of the sum over level assignments of exp(score - best score)
    level_marginals     (D, R), the probability of every level for every document
    above(i)            (D,), P(document i ranks above j), half if on the same level
    sample_levels(n, rng)   (n, D)
"""

import math
from functools import cached_property

import numpy as np

from permatch._parallel import run_tasks
from permatch._types import FloatArray, IntArray
from permatch.inference.auto import AutoEngine
from permatch.inference.subset_dp import SamplingTable
from permatch.kernels.ranking.levels import (
    EXACT,
    PROFILE,
    LevelLists,
    count_queries,
    tilt_queries,
)
from permatch.kernels.ranking.levels_dp import count_cells, draw_levels, fill_forward
from permatch.kernels.ranking.levels_draw import reject_levels
from permatch.kernels.ranking.levels_fourier import EXACT_TO
from permatch.kernels.ranking.levels_tilt import padded

#: A Fourier sum over R levels has about this many points to the power R - 1.
POINTS_PER_AXIS = 16
#: The largest list whose positions may all differ and yet be inferred exactly.
LARGEST_MATCHING = 22

_SAMPLES_PER_TASK = 64
_SAMPLES_PER_ROUND = 4096


class ByLevels:
    """Exact inference by counts of levels; see `permatch.kernels.ranking.levels`.

    Parameters
    ----------
    scores : ndarray of shape (D,)
        Scores of the documents.
    values : ndarray of shape (R,)
        Position weight of every level, falling.
    sizes : ndarray of shape (R,)
        Positions of every level, none 0.
    max_cells : int
        Maximum cells of the table for sampling.
    n_jobs : int
        Threads.
    """

    is_exact = True
    name = "levels"
    log_excess_error = 0.0

    def __init__(
        self,
        scores: FloatArray,
        values: FloatArray,
        sizes: IntArray,
        max_cells: int,
        n_jobs: int,
    ) -> None:
        self._scores, self._values, self._sizes = scores, values, sizes
        self._max_cells, self._n_jobs = max_cells, n_jobs

    @property
    def log_excess(self) -> float:
        """Log of the weight of all level assignments beside the best."""
        return self._inferred[0]

    @property
    def level_marginals(self) -> FloatArray:
        """Probability of every level for every document, (D, R)."""
        return self._inferred[1]

    @property
    def level_errors(self) -> FloatArray:
        """Standard errors of `level_marginals`: none."""
        return np.zeros_like(self.level_marginals)

    @cached_property
    def _inferred(self) -> tuple[float, FloatArray]:
        return _infer_levels(self._scores, self._values, self._sizes)

    def above(self, i: int) -> FloatArray:
        """Return the probability that document `i` ranks above each other, (D,)."""
        others = np.delete(np.arange(len(self._scores)), i)
        rest = np.ascontiguousarray(self._scores[others])
        result = np.zeros(len(self._scores))
        for level, size in enumerate(self._sizes):
            share = self.level_marginals[i, level]
            if share == 0.0 or not len(others):
                continue
            # Given the level of one document, the others follow the same model.
            sizes = self._sizes.copy()
            sizes[level] = size - 1
            marginals = _infer_levels(rest, self._values, sizes)[1]
            below = marginals[:, level + 1 :].sum(axis=1) + 0.5 * marginals[:, level]
            result[others] += share * below
        result[i] = 0.5
        return result

    def sample_levels(self, n: int, rng: np.random.Generator) -> IntArray:
        """Draw independent level assignments, (n, D)."""
        size = len(self._scores)
        order = _kernel_order(self._sizes)
        levels = np.zeros((n, size), dtype=np.int64)
        if len(self._sizes) < 2:
            return levels
        counts = self._sizes[order]
        marginals = _infer_list(self._scores, self._values[order], counts, PROFILE)[1]
        if size * count_cells(counts) <= self._max_cells:
            self._draw_from_table(marginals, counts, rng, levels)
        else:
            starts = range(0, n, _SAMPLES_PER_TASK)
            generators = rng.spawn(len(starts))

            def task(k: int) -> None:
                some = levels[starts[k] : starts[k] + _SAMPLES_PER_TASK]
                reject_levels(marginals, counts, generators[k], some)

            run_tasks(task, len(starts), self._n_jobs)
        return order[levels]

    def _draw_from_table(
        self,
        marginals: FloatArray,
        counts: IntArray,
        rng: np.random.Generator,
        levels: IntArray,
    ) -> None:
        forward = np.zeros((len(self._scores) + 1, int(count_cells(counts))))
        fill_forward(marginals, counts, forward)
        for begin in range(0, len(levels), _SAMPLES_PER_ROUND):
            part = levels[begin : begin + _SAMPLES_PER_ROUND]
            uniforms = rng.random(part.shape)
            starts = range(0, len(part), _SAMPLES_PER_TASK)

            def task(k: int, part=part, uniforms=uniforms, starts=starts) -> None:
                rows = slice(starts[k], starts[k] + _SAMPLES_PER_TASK)
                draw_levels(marginals, counts, forward, uniforms[rows], part[rows])

            run_tasks(task, len(starts), self._n_jobs)


class ByMatching:
    """Exact inference on the graph of documents and positions, for short lists.

    Parameters
    ----------
    scores : ndarray of shape (D,)
        Scores of the documents.
    values : ndarray of shape (R,)
        Position weight of every level, falling.
    sizes : ndarray of shape (R,)
        Positions of every level.
    n_jobs : int
        Threads.
    """

    is_exact = True
    name = "matching"
    log_excess_error = 0.0

    def __init__(
        self, scores: FloatArray, values: FloatArray, sizes: IntArray, n_jobs: int
    ) -> None:
        weights = np.repeat(values, sizes)
        self._first = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.intp)
        self._level_of = np.repeat(np.arange(len(sizes)), sizes)
        self._sizes = sizes
        best = np.sort(scores)[::-1] @ weights
        # Shifting all scores alike, or all weights, moves every ranking by the same.
        self._edges = np.outer(scores - scores.mean(), weights - weights[-1])
        self._offset = best - scores.mean() * weights.sum()
        self._offset -= weights[-1] * np.sum(scores - scores.mean())
        self._n_jobs = n_jobs

    @property
    def log_excess(self) -> float:
        """Log of the weight of all level assignments beside the best."""
        orders = sum(math.lgamma(size + 1.0) for size in self._sizes)
        return float(self._inferred.log_partition - self._offset - orders)

    @property
    def level_marginals(self) -> FloatArray:
        """Probability of every level for every document, (D, R)."""
        return np.add.reduceat(self._inferred.marginals, self._first, axis=1)

    @property
    def level_errors(self) -> FloatArray:
        """Standard errors of `level_marginals`: none."""
        return np.zeros_like(self.level_marginals)

    @cached_property
    def _inferred(self):
        return AutoEngine().infer(self._edges, n_jobs=self._n_jobs)

    def above(self, i: int) -> FloatArray:
        """Return the probability that document `i` ranks above each other, (D,)."""
        size = len(self._edges)
        others = np.delete(np.arange(size), i)
        result = np.full(size, 0.5)
        if not len(others):
            return result
        # Given the position of one document, the others fill the rest.
        rows = self._edges[others]
        stack = np.stack([np.delete(rows, position, axis=1) for position in range(size)])
        marginals = AutoEngine().infer(stack, n_jobs=self._n_jobs).marginals
        result[others] = 0.0
        for p in range(size):
            below = marginals[p][:, p:].sum(axis=1)
            result[others] += self._inferred.marginals[i, p] * below
        return result

    def sample_levels(self, n: int, rng: np.random.Generator) -> IntArray:
        """Draw independent level assignments, (n, D)."""
        return self._level_of[self._table.sample(n, rng, self._n_jobs)]

    @cached_property
    def _table(self) -> SamplingTable:
        return SamplingTable.build(self._edges)


def can_count(sizes: IntArray, max_cells: int) -> bool:
    """Return whether `ByLevels` stays within `max_cells` cells."""
    counts = np.sort(sizes)[:-1]
    n_cells = min(np.prod(counts + 1.0), float(POINTS_PER_AXIS) ** len(counts))
    return float(n_cells * sizes.sum()) <= max_cells


def is_matching_quicker(sizes: IntArray) -> bool:
    """Return whether `ByMatching` takes less time than `ByLevels`."""
    n = int(sizes.sum())
    cells = np.prod(np.sort(sizes)[:-1] + 1.0)
    return n <= LARGEST_MATCHING and 2.0**n < float(cells * len(sizes))


def _kernel_order(sizes: IntArray) -> IntArray:
    """Return the levels with the largest first, then by rising size."""
    order = np.argsort(sizes, kind="stable")
    return np.roll(order, 1)


def _infer_levels(
    scores: FloatArray, values: FloatArray, sizes: IntArray
) -> tuple[float, FloatArray]:
    """Return the log-excess and level marginals (D, R); sizes may be 0."""
    result = np.zeros((len(scores), len(sizes)))
    present = np.nonzero(sizes)[0]
    order = present[_kernel_order(sizes[present])]
    if len(order) < 2:
        result[:, order] = 1.0
        return 0.0, result
    log_excess, marginals = _infer_list(scores, values[order], sizes[order], EXACT)
    result[:, order] = marginals[:, : len(scores)].T
    return log_excess, result


def _infer_list(
    scores: FloatArray, values: FloatArray, counts: IntArray, form: int
) -> tuple[float, FloatArray]:
    """Return the log-excess, or its bound, and the marginals (R, padded documents)."""
    size, n_levels = len(scores), len(values)
    marginals = np.empty((n_levels, padded(size)))
    by_value = np.argsort(values)
    places = np.empty(size, dtype=np.int64)  # of the best assignment
    places[np.argsort(scores)] = np.repeat(by_value, counts[by_value])
    lists = LevelLists(
        starts=np.array([0, size]),
        places=places,
        level_starts=np.array([0, n_levels]),
        values=values,
        counts=counts,
        marginal_starts=np.array([0, marginals.size]),
    )
    forms, flat, losses = np.array([form]), marginals.reshape(-1), np.empty(1)
    tilt_queries(scores, lists, forms, 0, 1, flat, losses)
    count_queries(lists, forms, 0, 1, flat, losses, np.empty(0), EXACT_TO)
    return float(losses[0]), marginals
