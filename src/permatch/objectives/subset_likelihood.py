"""The negative log-likelihood of the observed order of small lists.

    value(scores) = sum_n weight_n ( log Z_n - <t_n, s_n> )
    slope(scores) = sum_n weight_n ( E[c of every document] - t_n )   at the documents of n
    curvature     = sum_n weight_n cov(c of every document)

Subset n has the scores s_n; placing its document i at position j scores ``c_j s_i``, Z sums
over all placements.  The observed weights t are c in order of decreasing grade.  With
``ties="average"`` documents of equal grade share the mean weight of their positions, which
gives the mean log-likelihood over all orders of the tied; with ``ties="first"`` they keep
the order drawn.  The value is convex in the scores and invariant to a constant added to the
scores of a query.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import sparse

from permatch._parallel import run_tasks
from permatch._types import FloatArray, IntArray
from permatch._validation import refuse_masked
from permatch.errors import InvalidOptionError, PrecisionError, SizeLimitError
from permatch.inference import Glynn
from permatch.kernels.ranking.subset_covariance import fill_covariances
from permatch.kernels.ranking.subsets import MAX_LANE_SIZE, add_short_lists
from permatch.objectives.subsets import SubsetGroup, Subsets

Ties = Literal["average", "first"]
PositionWeights = Any  # None, "dcg", or a non-increasing sequence

#: Largest subset size: a few hundredths of a second per subset.
MAX_SUBSET_SIZE = 20

# Steps of a task: about a millisecond, so that a thread is worth its start.
_TASK_COST = 400_000
# Subsets handed to an engine together; bounds the memory of their placements.
_SUBSETS_PER_STACK = 2048


def check_position_weights(position_weights: PositionWeights, size: int) -> FloatArray:
    """Return the weight of every position of a list, best first, (size,).

    None stands for ``size - j`` at position j = 1 .. size, as in the paper, "dcg" for
    ``1 / log2(1 + j)``.  Other weights must be finite, non-increasing and not all equal.

    Examples
    --------
    >>> check_position_weights(None, 3)
    array([2., 1., 0.])
    """
    if position_weights is None:
        return np.arange(size - 1, -1, -1.0)
    if isinstance(position_weights, str) and position_weights == "dcg":
        return dcg_weights(size)
    return as_position_weights(position_weights, size)


def dcg_weights(size: int) -> FloatArray:
    """Return ``1 / log2(1 + j)`` for the positions j = 1 .. size."""
    return 1.0 / np.log2(np.arange(2.0, size + 2.0))


def as_position_weights(
    position_weights: PositionWeights, size: int | None = None
) -> FloatArray:
    """Return checked weights of positions, best first, as many as there are positions.

    Without a `size` they are those of the first positions of a list.
    """
    if isinstance(position_weights, str):
        raise InvalidOptionError(
            "position_weights must be None, 'dcg' or a non-increasing sequence; got "
            f"{position_weights!r}."
        )
    refuse_masked(position_weights, "position_weights", InvalidOptionError)
    try:
        weights = np.array(position_weights, dtype=np.float64)
    except (TypeError, ValueError) as err:
        number = "a sequence of" if size is None else size
        raise InvalidOptionError(
            f"position_weights must be {number} numbers; {err}. Use 'dcg' for lists of any "
            "length."
        ) from err
    if weights.ndim != 1 or size not in (None, len(weights)):
        number = "position" if size is None else f"of the {size} positions"
        raise InvalidOptionError(
            f"position_weights must have one number for each {number}; got shape "
            f"{weights.shape}. None and 'dcg' work for any length."
        )
    if not np.isfinite(weights).all():
        raise InvalidOptionError(
            f"position_weights must be finite; got {weights.tolist()}."
        )
    if (np.diff(weights) > 0.0).any():
        worst = int(np.argmax(np.diff(weights) > 0.0))
        raise InvalidOptionError(
            "position_weights must be non-increasing; got "
            f"{weights[worst]:g} at position {worst + 1} before {weights[worst + 1]:g}. "
            "Sort them."
        )
    if not len(weights) or weights[0] == weights[-1]:
        got = f"{weights[0]:g} at all {len(weights)} positions" if len(weights) else "none"
        raise InvalidOptionError(
            "position_weights must not all be equal, or no order would be better than "
            f"another; got {got}."
        )
    return weights


@dataclass(frozen=True, eq=False)
class GradedSubsets:
    """n subsets of m documents, of p grade patterns, with all that needs no scores."""

    rows: IntArray  # documents, (n, m)
    weights: FloatArray  # (n,)
    patterns: IntArray  # the grade pattern of every subset, (n,)
    grades: IntArray  # the grade patterns that occur, each non-increasing, (p, m)
    position_weights: FloatArray  # (m,)
    targets: FloatArray  # observed position weights of the documents of a pattern, (p, m)
    # Subsets cuts[k]:cuts[k + 1] are task k; tasks share no query, so each adds to its own
    # slopes.
    cuts: IntArray

    @property
    def size(self) -> int:
        """Documents of a subset, m."""
        return self.rows.shape[1]


def grade_subsets(
    subsets: Subsets,
    grades: IntArray,
    position_weights: PositionWeights,
    query_weights: FloatArray,
    ties: Ties,
    cost: Callable[[int], int],
) -> list[GradedSubsets]:
    """Return the subsets, size by size, with patterns, weights and targets.

    A subset of query k weighs ``query_weights[k]`` over the number of its subsets; one of m
    documents costs ``cost(m)``, in units of which a task has about `_TASK_COST`.
    """
    each = np.asarray(query_weights, dtype=np.float64) / np.maximum(subsets.counts, 1)
    graded = []
    for group in subsets.groups:
        c = check_position_weights(position_weights, group.size)
        patterns, kinds = _find_patterns(grades[group.rows])
        targets = np.tile(c, (len(kinds), 1))
        if ties == "average":
            targets = _average_ties(c, kinds)
        cuts = _cut_tasks(group, max(1, _TASK_COST // cost(group.size)))
        rows = np.ascontiguousarray(group.rows)
        weights = each[group.owners]
        graded.append(GradedSubsets(rows, weights, patterns, kinds, c, targets, cuts))
    return graded


def _find_patterns(grades: IntArray) -> tuple[IntArray, IntArray]:
    """Return the number of every row's pattern, and the distinct rows."""
    base = int(grades.max()) + 1
    if base ** grades.shape[1] < 2**63:  # one number tells a pattern
        codes = np.zeros(len(grades), dtype=np.int64)
        for column in grades.T:
            codes = codes * base + column
        _, first, patterns = np.unique(codes, return_index=True, return_inverse=True)
        return patterns.astype(np.intp, copy=False).reshape(-1), grades[first]
    kinds, patterns = np.unique(grades, axis=0, return_inverse=True)
    return patterns.astype(np.intp, copy=False).reshape(-1), kinds


def _average_ties(position_weights: FloatArray, kinds: IntArray) -> FloatArray:
    """Return the mean position weight of the places with the same grade, (p, m)."""
    is_tied = (kinds[:, :, None] == kinds[:, None, :]).astype(np.float64)
    return is_tied @ position_weights / is_tied.sum(axis=2)


def _cut_tasks(group: SubsetGroup, per_task: int) -> IntArray:
    """Cut subsets into runs of about `per_task`, each of whole queries."""
    ends = np.append(np.flatnonzero(np.diff(group.owners)) + 1, len(group.owners))
    wanted = np.arange(per_task, len(group.owners) + per_task, per_task)
    cuts = ends[np.minimum(np.searchsorted(ends, wanted), len(ends) - 1)]
    return np.unique(np.append(cuts, 0))


def task_values(
    work: Callable[[int, int], float], cuts: IntArray, n_jobs: int
) -> FloatArray:
    """Return ``work(cuts[k], cuts[k + 1])`` for every task k."""
    values = np.empty(len(cuts) - 1)

    def task(k: int) -> None:
        values[k] = work(cuts[k], cuts[k + 1])

    run_tasks(task, len(values), n_jobs)
    return values


def check_finite(value: float) -> float:
    """Return the value of a loss, or raise if it is not finite."""
    if not math.isfinite(value):
        raise PrecisionError(
            "scores must be far from the limits of float64; the loss is "
            f"{value}. Divide the features by a large number."
        )
    return value


class SubsetLoss:
    """A loss of subsets in the order of their grades.

    Parameters
    ----------
    subsets : Subsets
        Small lists of documents.
    grades : ndarray of shape (n,)
        The grade of every document, at least 0.
    position_weights : None, "dcg" or sequence of float
        See `check_position_weights`.
    query_weights : ndarray of shape (q,)
        The total weight of the subsets of a query.
    ties : {"average", "first"}
        Documents of equal grade share their positions, or keep the order drawn.
    n_jobs : int
        Threads.
    """

    def __init__(
        self,
        subsets: Subsets,
        grades: IntArray,
        position_weights: PositionWeights,
        query_weights: FloatArray,
        *,
        ties: Ties = "average",
        n_jobs: int = 1,
    ) -> None:
        self.n_jobs = n_jobs
        self._n_documents = subsets.n_documents
        self._parts = grade_subsets(
            subsets, grades, position_weights, query_weights, ties, self._cost
        )

    @staticmethod
    def _cost(size: int) -> int:
        """Return about how many steps one list takes."""
        return size << size

    def value_and_slope(self, scores: FloatArray) -> tuple[float, FloatArray]:
        """Return the loss and its derivative, or a subgradient, by every score."""
        slope = np.zeros(self._n_documents)
        terms = [self._add(scores, part, slope) for part in self._parts]
        return check_finite(math.fsum(np.concatenate(terms))), slope

    def _add(
        self, scores: FloatArray, part: GradedSubsets, slope: FloatArray
    ) -> FloatArray:
        """Add the slopes of the subsets of one size; return their values, summed or not."""
        raise NotImplementedError


class SubsetLikelihood(SubsetLoss):
    """Negative log-likelihood of subsets in the order of their grades.

    O(M^2) exponentials and O(M 2^M) additions per subset; memory for the subsets and one
    slope per document.
    """

    def __init__(self, subsets: Subsets, *args: Any, **options: Any) -> None:
        largest = max(group.size for group in subsets.groups)
        if largest > MAX_SUBSET_SIZE:
            raise SizeLimitError(
                f"subset_size must be at most {MAX_SUBSET_SIZE} for a likelihood, whose "
                f"cost doubles with every document; got {largest}. Use 'all' for whole "
                "lists, or a margin (DORM)."
            )
        super().__init__(subsets, *args, **options)

    def hessian(self, scores: FloatArray, documents: Any) -> FloatArray:
        """Return the second derivatives by the coefficients of a linear score, (d, d).

        O(M^2 2^M) time per subset.  The covariances of some thousand subsets are held at a
        time, as a sparse matrix by document.
        """
        result = np.zeros((documents.shape[1],) * 2)
        for part in self._parts:
            for first in range(0, len(part.rows), _SUBSETS_PER_STACK):
                some = slice(first, first + _SUBSETS_PER_STACK)
                own = self._covariances(scores, part, some)
                result += _gram(part.rows[some], own, documents)
        return 0.5 * (result + result.T)

    def _covariances(
        self, scores: FloatArray, part: GradedSubsets, some: slice
    ) -> FloatArray:
        """Return the covariance of the position weights of some subsets, weighted."""
        rows = part.rows[some]
        found = np.empty((len(rows), part.size, part.size))
        per_task = max(1, _TASK_COST // (part.size**2 << part.size))

        def fill(k: int) -> None:
            own = slice(k * per_task, (k + 1) * per_task)
            fill_covariances(scores, rows[own], part.position_weights, found[own])

        run_tasks(fill, -(-len(rows) // per_task), self.n_jobs)
        return found * part.weights[some, None, None]

    def _add(
        self, scores: FloatArray, part: GradedSubsets, slope: FloatArray
    ) -> FloatArray:
        if part.size > MAX_LANE_SIZE:
            return _add_long_lists(scores, part, slope, self.n_jobs)
        own = part.rows, part.patterns, part.targets, part.weights, part.position_weights

        def add(first: int, last: int) -> float:
            return add_short_lists(scores, *own, slope, first, last, (0,) * part.size)

        return task_values(add, part.cuts, self.n_jobs)


def _gram(rows: IntArray, covariances: FloatArray, documents: Any) -> FloatArray:
    """Return ``X' C X``, with X the documents and C the covariances (n, m, m) by row."""
    present, places = np.unique(rows, return_inverse=True)
    places = places.reshape(rows.shape)
    size = rows.shape[1]
    at = np.repeat(places, size, axis=1).ravel(), np.tile(places, (1, size)).ravel()
    together = sparse.coo_array((covariances.ravel(), at), (len(present),) * 2).tocsr()
    own = documents[present]
    found = own.T @ (together @ own)
    return found.toarray() if sparse.issparse(found) else np.asarray(found)


def _add_long_lists(
    scores: FloatArray, part: GradedSubsets, slope: FloatArray, n_jobs: int
) -> FloatArray:
    """Return the values of subsets too long for lanes, and add to `slope`."""
    c, terms = part.position_weights, []
    engine = Glynn(max_size=MAX_SUBSET_SIZE)
    for first in range(0, len(part.rows), _SUBSETS_PER_STACK):
        some = slice(first, first + _SUBSETS_PER_STACK)
        rows, targets = part.rows[some], part.targets[part.patterns[some]]
        own = scores[rows]
        own -= own.max(axis=1, keepdims=True)  # which changes no answer, and saves digits
        check_finite(float(own.sum()))
        placed = engine.infer(own[:, :, None] * c, n_jobs=n_jobs, check=False)
        weights = part.weights[some]
        terms.append(weights * (placed.log_partition - (targets * own).sum(axis=1)))
        steps = weights[:, None] * (placed.marginals @ c - targets)
        slope += np.bincount(rows.ravel(), steps.ravel(), minlength=len(slope))
    return np.concatenate(terms)
