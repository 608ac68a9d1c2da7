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

The curvature by score is that of the independent documents given their counts,

    curvature_k = weight_k ( diag(variances) - loadings loadings' ),

exactly that of the profile form and within about 1 % of that of the exact form.
"""

import math
from typing import Any

import numpy as np

from permatch._parallel import run_tasks
from permatch._types import FloatArray
from permatch.errors import InvalidOptionError, PrecisionError, SizeLimitError
from permatch.kernels.ranking.levels import (
    EXACT,
    PROFILE,
    SKIPPED,
    count_queries,
    curve_queries,
    slope_queries,
    tilt_queries,
)
from permatch.objectives.level_lists import sort_levels
from permatch.objectives.query_gram import cut_queries, gram_of_queries

FORMS = ("auto", "exact", "profile")

#: Documents of a task, about: enough to make threads worth while, few enough to share.
_TASK_SIZE = 1024
#: A Fourier sum over R levels has about this many points to the power R - 1.
_MOST_CELLS = 1e9  # about a minute a list and evaluation
_POINTS_PER_AXIS = 16

_WORDS = {SKIPPED: "skipped", EXACT: "exact", PROFILE: "profile"}


class WholeListLikelihood:
    """Value and slope of the negative log-likelihood of whole graded lists.

    Parameters
    ----------
    starts : ndarray of shape (q + 1,)
        First document of every query, and the number of documents at the end.
    grades : ndarray of shape (n,)
        Grade of every document, a whole number of at least 0.
    levels : ndarray of shape (number of grades,)
        Value of every grade; grades of equal value count as one.
    query_weights : ndarray of shape (q,)
        Weight of every query; sums to one.
    form : {"auto", "exact", "profile"}
        The likelihood itself, its upper bound, or the likelihood for queries of at most
        `max_cells` and the bound for others.
    max_cells : int
        Maximum cells of a query in the exact form of "auto": documents times the smaller of
        16^(R-1) for R grades and the product of ``n_l + 1`` over all grades but the
        commonest.  The default covers three grades up to about 1,000 documents.
    n_jobs : int
        Threads.

    Attributes
    ----------
    forms : ndarray of shape (q,)
        "exact", "profile" or "skipped" (queries with a single grade or weight 0).

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
        starts: np.ndarray,
        grades: np.ndarray,
        levels: np.ndarray,
        query_weights: np.ndarray,
        *,
        form: str = "auto",
        max_cells: int = 300_000,
        n_jobs: int = 1,
    ) -> None:
        self.starts = np.ascontiguousarray(starts, dtype=np.int64)
        self.query_weights = np.ascontiguousarray(query_weights, dtype=np.float64)
        self.form = form
        self.n_jobs = n_jobs
        self._max_cells = max_cells
        self._lists = sort_levels(self.starts, grades, levels)
        self._weights = np.repeat(self.query_weights, np.diff(self.starts))
        self._tasks = cut_queries(self.starts, _TASK_SIZE)
        self._codes = self._choose_forms(form)

    @property
    def forms(self) -> np.ndarray:
        """The form of every query: "exact", "profile" or "skipped"."""
        return np.array([_WORDS[int(code)] for code in self._codes], dtype="U7")

    def in_form(self, form: str) -> "WholeListLikelihood":
        """Return the likelihood of the same lists in another form.

        Parameters
        ----------
        form : {"auto", "exact", "profile"}
            The form.

        Returns
        -------
        WholeListLikelihood
            Shares all arrays with this one.
        """
        other = object.__new__(WholeListLikelihood)
        other.__dict__.update(self.__dict__)
        other.form = form
        other._codes = other._choose_forms(form)
        return other

    def value_and_slope(self, scores: FloatArray) -> tuple[float, FloatArray]:
        """Return the value and its derivative by every score.

        Parameters
        ----------
        scores : ndarray of shape (n,)
            Score of every document.

        Returns
        -------
        value : float
            The weighted negative log-likelihood.
        slope : ndarray of shape (n,)
            Its derivatives.
        """
        scores = _checked(scores)
        lists, codes = self._lists, self._codes
        losses = np.zeros(len(self.query_weights))
        slope = np.empty(len(scores))

        def task(k: int) -> None:
            span = self._tasks[k], self._tasks[k + 1]
            marginals = self._tilt(scores, *span, losses)
            count_queries(
                self.starts,
                lists.level_starts,
                lists.counts,
                lists.marginal_starts,
                codes,
                *span,
                marginals,
                losses,
            )
            slope_queries(
                self.starts,
                lists.places,
                lists.level_starts,
                lists.values,
                lists.marginal_starts,
                codes,
                *span,
                marginals,
                slope,
            )

        run_tasks(task, len(self._tasks) - 1, self.n_jobs)
        slope *= self._weights
        return math.fsum(losses * self.query_weights), slope

    def curvature(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the factors of the second derivatives by the scores.

        Parameters
        ----------
        scores : ndarray of shape (n,)
            Score of every document.

        Returns
        -------
        variances : ndarray of shape (n,)
            Weighted variance of the level of every document.
        loadings : ndarray of shape (n, R - 1)
            The second derivatives of a query are ``diag(variances) - loadings @
            loadings.T`` over its documents, and 0 between queries.
        """
        scores = _checked(scores)
        lists = self._lists
        losses = np.zeros(len(self.query_weights))
        variances = np.zeros(len(scores))
        most = int(np.max(np.diff(lists.level_starts), initial=1))
        loadings = np.zeros((len(scores), most - 1))

        def task(k: int) -> None:
            span = self._tasks[k], self._tasks[k + 1]
            marginals = self._tilt(scores, *span, losses)
            curve_queries(
                self.starts,
                lists.level_starts,
                lists.values,
                lists.marginal_starts,
                self._codes,
                *span,
                marginals,
                variances,
                loadings,
            )

        run_tasks(task, len(self._tasks) - 1, self.n_jobs)
        variances *= self._weights
        loadings *= np.sqrt(self._weights)[:, None]
        return variances, loadings

    def hessian(self, scores: FloatArray, documents: Any) -> FloatArray:
        """Return the second derivatives by the coefficients of a linear score.

        Parameters
        ----------
        scores : ndarray of shape (n,)
            Score of every document.
        documents : ndarray or scipy csr matrix of shape (n, d)
            Features of every document.

        Returns
        -------
        ndarray of shape (d, d)
            ``documents.T @ curvature @ documents``, positive semidefinite.

        Notes
        -----
        O(n d^2) time.  A few thousand documents are copied at a time.
        """
        return gram_of_queries(self.starts, *self.curvature(scores), documents)

    def _tilt(
        self, scores: FloatArray, first: int, last: int, losses: FloatArray
    ) -> FloatArray:
        """Return the tilted probabilities of some queries; fill their profile losses."""
        lists = self._lists
        marginals = np.empty(lists.marginal_starts[last] - lists.marginal_starts[first])
        tilt_queries(
            scores,
            self.starts,
            lists.places,
            lists.level_starts,
            lists.values,
            lists.counts,
            lists.marginal_starts,
            self._codes,
            first,
            last,
            marginals,
            losses,
        )
        return marginals

    def _choose_forms(self, form: str) -> np.ndarray:
        if form not in FORMS:
            raise InvalidOptionError(
                f"form must be one of {', '.join(map(repr, FORMS))}; got {form!r}."
            )
        lists = self._lists
        codes = np.full(len(self.query_weights), SKIPPED, dtype=np.int64)
        for q, weight in enumerate(self.query_weights):
            counts = lists.counts[lists.level_starts[q] : lists.level_starts[q + 1]]
            if len(counts) < 2 or weight == 0.0:
                continue
            codes[q] = PROFILE
            if form == "profile":
                continue
            n_points = float(_POINTS_PER_AXIS) ** (len(counts) - 1)
            n_cells = counts.sum() * min(n_points, np.prod(counts[1:] + 1.0))
            if form == "exact" and n_cells > _MOST_CELLS:
                raise SizeLimitError(
                    f"the exact form needs lists of at most {_MOST_CELLS:.0e} cells; list "
                    f"{q}, with {counts.sum()} documents in {len(counts)} grades, has "
                    f"{n_cells:.1e}. Use form='auto', or 'profile'."
                )
            if form == "exact" or n_cells <= self._max_cells:
                codes[q] = EXACT
        return codes


def _checked(scores: FloatArray) -> FloatArray:
    scores = np.ascontiguousarray(scores, dtype=np.float64)
    if not np.isfinite(scores).all():
        raise PrecisionError(
            "scores must be finite; features times coefficients exceed float64. "
            "Divide the features by a large number."
        )
    return scores
