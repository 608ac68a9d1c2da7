"""The negative log-likelihood of whole graded lists and its slope by score.

    p(levels | scores) = exp(sum_i v_{a_i} s_i) / Z,
    value(scores)      = sum_k weight_k ( log Z_k - sum_{i in k} v_{r_i} s_i )
    slope_i            = weight_k ( E v_{a_i} - v_{r_i} )

where Z_k sums over all ways to give as many documents of query k to every level as have its
grade: the likelihood of which documents fill which block of positions.  It takes no pairs
and no subsets, costs O(D) for lists of two or three grades, and is convex in the scores.

The profile form replaces log Z_k by its upper bound F_k, the minimum over one offset a
level of the log-partition of independent documents.  It is convex too, cheaper, and its
optimum lies within a few per cent.

The curvature of the profile form by score is that of independent documents whose counts
are known to first order,

    curvature_k = weight_k ( diag(variances) - loadings loadings' ),

within about 1 % of that of the exact form, which is a covariance given the counts, in lists
of 100 documents, and within 5 % in lists of 20.
"""

import copy
import math
import threading
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from permatch._parallel import run_tasks
from permatch._progress import progress_bar
from permatch._types import FloatArray, IntArray
from permatch._validation import check_choice
from permatch.errors import SizeLimitError
from permatch.kernels.intrinsics import WIDTH
from permatch.kernels.ranking.levels import (
    EXACT,
    PROFILE,
    SKIPPED,
    LevelLists,
    count_queries,
    curve_queries,
    derive_queries,
    slope_queries,
    tilt_queries,
)
from permatch.kernels.ranking.levels_curvature import curve_exactly
from permatch.kernels.ranking.levels_fourier import EXACT_TO, SINGLE_TO
from permatch.objectives.query_gram import cut_queries, dense_rows, gram_of_queries

FORMS = ("auto", "exact", "profile")

# Documents of a task, about: enough to make threads worth while, few enough to share.
_TASK_SIZE = 1024
# Sums of second derivatives that are made side by side, and the time of a cell of them.
_SUMS, _SECONDS_PER_CELL = 8, 4e-9
# A Fourier sum over R levels has about this many points to the power R - 1.
_POINTS_PER_AXIS = 16
# Cells of a list, its documents times the smaller of these points and the product of
# ``n_l + 1`` over all grades but the commonest: the most in the exact form of "auto", about
# 1,000 documents of three grades, and the most of all, about a minute per evaluation.
_MAX_CELLS = 300_000
_MOST_CELLS = 1e9
# The most cells per document in the exact form of "auto" in single precision.
_MAX_PER_DOCUMENT = _POINTS_PER_AXIS**2

_WORDS = {SKIPPED: "skipped", EXACT: "exact", PROFILE: "profile"}

#: Lists, their forms, the first of some queries and the one after the last, and marginals.
Tilted = tuple[LevelLists, IntArray, int, int, FloatArray]


class _Workspace(threading.local):
    """An array for `count_queries` to work in, one per thread."""

    array: FloatArray = np.empty(0)


class WholeListLikelihood:
    """Value and slope of the negative log-likelihood of whole graded lists.

    Parameters
    ----------
    starts : ndarray of shape (q + 1,)
        First document of every query, and the number of documents at the end.
    grades : ndarray of shape (n,)
        Grade of every document, a whole number of at least 0.
    levels : ndarray of shape (number of grades,) or (q, number of grades)
        Value of every grade, rising; or of every grade in every query.
    query_weights : ndarray of shape (q,)
        Weight of every query; sums to one.
    form : {"auto", "exact", "profile"}
        The likelihood itself, a lower bound of it, or the likelihood for lists that are
        not too long and the bound for others.
    is_single : bool
        Whether `derivatives` are wanted in single precision, and quickly: "auto" then
        takes the exact form for lists of up to three grades, and for others that cost no
        more per document.
    n_jobs : int
        Threads.

    Examples
    --------
    >>> import numpy as np
    >>> starts, grades = np.array([0, 3]), np.array([1, 0, 0])
    >>> loss = WholeListLikelihood(starts, grades, np.array([0.0, 1.0]), np.ones(1))
    >>> value, slope = loss.value_and_slope(np.zeros(3))
    >>> round(float(np.exp(-value)), 6), slope.round(6)
    (0.333333, array([-0.666667,  0.333333,  0.333333]))
    """

    def __init__(
        self,
        starts: IntArray,
        grades: IntArray,
        levels: FloatArray,
        query_weights: FloatArray,
        *,
        form: str = "auto",
        is_single: bool = False,
        n_jobs: int = 1,
    ) -> None:
        self.is_single = is_single
        self.starts = np.ascontiguousarray(starts, dtype=np.int64)
        self.query_weights = np.ascontiguousarray(query_weights, dtype=np.float64)
        self.n_jobs = n_jobs
        self._lists = _list_levels(self.starts, grades, levels)
        self._weights = np.repeat(self.query_weights, np.diff(self.starts))
        self._tasks = cut_queries(self.starts, _TASK_SIZE)
        self._codes = self._choose_forms(form)

    @property
    def forms(self) -> np.ndarray:
        """The form of every query (q,): "exact", "profile", or "skipped".

        Queries with a single grade or weight 0 are skipped.
        """
        return np.array([_WORDS[int(code)] for code in self._codes], dtype="U7")

    def in_form(self, form: str) -> Self:
        """Return the likelihood of the same lists in another form, sharing all arrays."""
        other = copy.copy(self)
        other._codes = other._choose_forms(form)
        return other

    def value_and_slope(self, scores: FloatArray) -> tuple[float, FloatArray]:
        """Return the loss and its derivative by every score."""
        losses, slope = self.losses_and_slope(scores)
        return math.fsum(losses * self.query_weights), slope * self._weights

    def losses_and_slope(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the loss of every query, unweighted, and its derivative by every score."""
        slope = np.empty(len(scores))
        losses = self._infer(scores, EXACT_TO, lambda given: slope_queries(*given, slope))
        return losses, slope

    def derivatives(self, scores: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return the loss, and its first and second derivative by every score alone.

        The second derivative is the variance of the document's level, given how many
        documents every level has in the exact form; it is never below 0.
        """
        slope, variances = np.empty(len(scores)), np.empty(len(scores))
        exponent = SINGLE_TO if self.is_single else EXACT_TO
        losses = self._infer(
            scores, exponent, lambda given: derive_queries(*given, slope, variances)
        )
        loss = math.fsum(losses * self.query_weights)
        return loss, slope * self._weights, variances * self._weights

    def evaluate_curved(
        self, scores: FloatArray, documents: Any
    ) -> tuple[float, FloatArray, FloatArray]:
        """Return the loss, its slope, and by the way the `hessian` of the profile form.

        Loss and slope are right to about seven digits.
        """
        slope, (variances, loadings) = np.empty(len(scores)), self._no_curvature()
        losses = self._infer(
            scores,
            SINGLE_TO,
            lambda given: slope_queries(*given, slope),
            lambda tilted: curve_queries(*tilted, variances, loadings),
        )
        curved = self._weighted(variances, loadings)
        hessian = gram_of_queries(self.starts, *curved, documents, self.n_jobs)
        return math.fsum(losses * self.query_weights), slope * self._weights, hessian

    def curvature(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the factors of the second derivatives of the profile form by the scores.

        These are ``diag(variances) - loadings @ loadings.T`` over the documents of a query,
        with variances (n,) and loadings (n, R - 1), and 0 between queries.
        """
        losses, (variances, loadings) = self._no_losses(), self._no_curvature()
        self._tilt(
            scores, losses, lambda tilted: curve_queries(*tilted, variances, loadings)
        )
        return self._weighted(variances, loadings)

    def _no_losses(self) -> FloatArray:
        return np.zeros(len(self.query_weights))

    def _no_curvature(self) -> tuple[FloatArray, FloatArray]:
        """Return variances and loadings of 0."""
        n_documents = len(self._weights)
        most = int(np.max(np.diff(self._lists.level_starts), initial=1))
        return np.zeros(n_documents), np.zeros((n_documents, most - 1))

    def _weighted(
        self, variances: FloatArray, loadings: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return variances and loadings by the weights of the queries."""
        variances *= self._weights
        loadings *= np.sqrt(self._weights)[:, None]
        return variances, loadings

    def _infer(
        self,
        scores: FloatArray,
        exponent: float,
        use: Callable[[Tilted], object],
        look: Callable[[Tilted], object] | None = None,
    ) -> FloatArray:
        """Return the loss of every query, unweighted, and use its marginals.

        `look` is given those of the profile form first.
        """
        losses, own = self._no_losses(), _Workspace()

        def finish(queries: Tilted) -> None:
            if look is not None:
                look(queries)
            own.array = count_queries(*queries, losses, own.array, exponent)
            use(queries)

        self._tilt(scores, losses, finish)
        return losses

    def hessian(self, scores: FloatArray, documents: Any) -> FloatArray:
        """Return the second derivatives by the coefficients of a linear score, (d, d).

        Exact in both forms.  O(n d^2) time in the profile form, and n d more for every
        point of the Fourier sum in the exact one.  A few thousand documents (n, d) are
        copied at a time.
        """
        result = np.zeros((documents.shape[1],) * 2)
        is_exact = self._codes == EXACT
        if not is_exact.all():
            other = copy.copy(self)
            other._codes = np.where(is_exact, SKIPPED, self._codes)
            curved = other.curvature(scores)
            result += gram_of_queries(self.starts, *curved, documents, self.n_jobs)
        if is_exact.any():
            result += self._exact_hessian(scores, documents)
        return result

    def _exact_hessian(self, scores: FloatArray, documents: Any) -> FloatArray:
        """Return the second derivatives of the lists in the exact form."""
        lists, starts, n_features = self._lists, self.starts, documents.shape[1]
        losses = np.zeros(len(self._codes))
        parts = np.zeros((_SUMS, n_features, n_features))
        work = _Workspace()

        def curve(first: int, last: int, total: FloatArray) -> None:
            size = lists.marginal_starts[last] - lists.marginal_starts[first]
            tilted, own = np.empty(size), (lists, self._codes, first, last)
            tilt_queries(scores, *own, tilted, losses)
            given = tilted.copy()
            work.array = count_queries(*own, given, losses, work.array, EXACT_TO)
            for q in np.flatnonzero(self._codes[first:last] == EXACT) + first:
                rows = dense_rows(documents, starts[q], starts[q + 1])
                variances, weight = np.empty(len(rows)), self.query_weights[q]
                tables = tilted, given, rows, weight
                curve_exactly(lists, q, first, *tables, total, variances)
                total += rows.T @ (variances[:, None] * rows)

        n_tasks = len(self._tasks) - 1
        seconds = self._exact_seconds(n_features)
        with progress_bar("second derivatives", n_tasks, seconds, None) as show:
            # The same tasks for every sum, in the same order, on any number of threads.
            for begin in range(0, n_tasks, _SUMS):
                ends = self._tasks[begin : begin + _SUMS + 1]

                def task(k: int, ends: IntArray = ends) -> None:
                    curve(ends[k], ends[k + 1], parts[k])

                run_tasks(task, len(ends) - 1, self.n_jobs)
                if show is not None:
                    show(begin + len(ends) - 1)
        result = parts.sum(axis=0)
        return 0.5 * (result + result.T)

    def _exact_seconds(self, n_features: int) -> float:
        """Return about how long the second derivatives of the exact form take."""
        is_exact = self._codes == EXACT
        n_levels = np.diff(self._lists.level_starts)[is_exact]
        n_points = 0.5 * float(_POINTS_PER_AXIS) ** (n_levels - 1)
        n_cells = float(n_points @ np.diff(self.starts)[is_exact])
        return _SECONDS_PER_CELL * n_cells * n_features / self.n_jobs

    def _tilt(
        self, scores: FloatArray, losses: FloatArray, finish: Callable[[Tilted], object]
    ) -> None:
        """Fill the profile losses; hand on the tilted marginals, some queries at a time."""
        starts = self._lists.marginal_starts

        def task(k: int) -> None:
            first, last = self._tasks[k], self._tasks[k + 1]
            marginals = np.empty(starts[last] - starts[first])
            queries = self._lists, self._codes, first, last, marginals
            tilt_queries(scores, *queries, losses)
            finish(queries)

        run_tasks(task, len(self._tasks) - 1, self.n_jobs)

    def _choose_forms(self, form: str) -> IntArray:
        check_choice(form, "form", FORMS)
        starts, counts = self._lists.level_starts, self._lists.counts
        n_levels = np.diff(starts)
        codes = np.full(len(n_levels), SKIPPED, dtype=np.int64)
        used = np.flatnonzero((n_levels > 1) & (self.query_weights != 0.0))
        codes[used] = PROFILE
        if form == "profile" or not len(used):
            return codes
        ways = counts + 1.0
        is_any = n_levels > 0
        ways[starts[:-1][is_any]] = 1.0  # of all levels but the commonest
        n_ways = np.ones(len(n_levels))
        n_ways[is_any] = np.multiply.reduceat(ways, starts[:-1][is_any])
        n_points = float(_POINTS_PER_AXIS) ** (n_levels[used] - 1)
        per_document = np.minimum(n_points, n_ways[used])
        n_cells = np.diff(self.starts)[used] * per_document
        if form == "exact" and (n_cells > _MOST_CELLS).any():
            worst = int(np.argmax(n_cells > _MOST_CELLS))
            q = used[worst]
            raise SizeLimitError(
                f"the exact form needs lists of at most {_MOST_CELLS:.0e} cells; list "
                f"{q}, with {np.diff(self.starts)[q]} documents in {n_levels[q]} grades, "
                f"has {n_cells[worst]:.1e}. Use form='auto', or 'profile'."
            )
        is_short = (
            per_document <= _MAX_PER_DOCUMENT if self.is_single else n_cells <= _MAX_CELLS
        )
        codes[used[is_short | (form == "exact")]] = EXACT
        return codes


def _list_levels(starts: IntArray, grades: IntArray, levels: FloatArray) -> LevelLists:
    """Lay out the levels of every query; ties among counts are broken by value."""
    n_levels, n_queries = levels.shape[-1], len(starts) - 1
    owners = np.repeat(np.arange(n_queries), np.diff(starts))
    counts = np.bincount(owners * n_levels + grades, minlength=n_queries * n_levels)
    counts = counts.reshape(n_queries, n_levels)
    key = np.where(counts > 0, counts, counts.max(initial=0) + 1)  # absent levels last
    order = np.argsort(key, axis=1, kind="stable")
    n_present = (counts > 0).sum(axis=1)
    places = np.empty((n_queries, n_levels), dtype=np.int64)
    np.put_along_axis(places, order, np.arange(1, n_levels + 1)[None, :], axis=1)
    queries = np.nonzero(n_present)[0]
    places[queries, order[queries, n_present[queries] - 1]] = 0
    level_starts = np.concatenate([[0], np.cumsum(n_present)]).astype(np.int64)
    at_query, at_level = np.nonzero(counts)
    targets = level_starts[at_query] + places[at_query, at_level]
    listed_values, listed_counts = np.empty(len(targets)), np.empty(len(targets), np.int64)
    by_query = np.broadcast_to(levels, counts.shape)
    listed_values[targets] = by_query[at_query, at_level]
    listed_counts[targets] = counts[at_query, at_level]
    padded = -(-np.diff(starts) // WIDTH) * WIDTH  # lengths of the rows of the tables
    return LevelLists(
        starts=starts,
        places=places[owners, grades],
        level_starts=level_starts,
        values=listed_values,
        counts=listed_counts,
        marginal_starts=np.concatenate([[0], np.cumsum(n_present * padded)]).astype(
            np.int64
        ),
    )
