"""Scores reduced and scaled, and the base of exact engines on scaled weights.

Those work by positive sums, or by signed ones that may lose digits.
"""

from abc import abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import numpy as np

from permatch._parallel import Job
from permatch._types import FloatArray, IntArray
from permatch.errors import InvalidOptionError, PrecisionError
from permatch.inference.answer import Diagnostics, InferenceResult
from permatch.inference.base import AbstractEngine, check_feasible
from permatch.kernels.sliced import reduce_one, scale_stack

#: The largest residual with which an answer still counts as exact.
EXACT_TOL = 1e-10
# Entries handled by one scaling task; small enough to share out, large enough to be worth
# it.
_ENTRIES_PER_TASK = 1 << 16

#: Permanents (b,), marginals (b, m, m) where there are any, and residuals (b,).
Found = tuple[FloatArray, FloatArray | None, FloatArray]


def reduce_scores(scores: FloatArray) -> tuple[FloatArray, float]:
    """Shift rows and columns so that the best matching has score zero.

    Subtracting ``u[i] + v[j]`` from ``scores[i, j]`` multiplies every matching's weight by
    the same constant, so it moves the log-partition by a known offset and leaves the
    distribution alone. Taking ``u, v`` from the dual of the assignment problem makes every
    reduced score at most 0 and the best matching exactly 0.

    Parameters
    ----------
    scores : ndarray of shape (m, m)
        Log-weight of each edge; ``-inf`` forbids an edge.

    Returns
    -------
    reduced : ndarray of shape (m, m)
        Scores, all at most 0.
    offset : float
        ``log_partition(scores) == log_partition(reduced) + offset``: the best matching's
        score.

    Raises
    ------
    InfeasibleGraphError
        If the allowed edges contain no perfect matching.

    Notes
    -----
    O(m^3): one assignment by shortest augmenting paths.

    Examples
    --------
    >>> import numpy as np
    >>> reduced, offset = reduce_scores(np.array([[3.0, 1.0], [2.0, 2.0]]))
    >>> offset, float(reduced.max())
    (5.0, 0.0)
    >>> float(reduced[0, 0] + reduced[1, 1])
    0.0
    """
    reduced = np.empty_like(scores)
    offset = reduce_one(scores, reduced)
    check_feasible(np.array([offset]), scores[None], np.zeros(1, dtype=np.intp))
    return reduced, offset


@dataclass(frozen=True, kw_only=True)
class ScaledEngine(AbstractEngine):
    """An engine that works on weights scaled so that plain float64 sums are safe."""

    is_always_exact: ClassVar[bool] = True

    def _infer_stack(
        self, scores: FloatArray, members: IntArray, job: Job
    ) -> InferenceResult:
        n_graphs, size = scores.shape[:2]
        weights = np.empty_like(scores)
        offsets = np.empty(n_graphs)
        job.run_ranges(
            lambda first, last: scale_stack(scores, weights, offsets, first, last),
            n_graphs,
            1 + _ENTRIES_PER_TASK // (size * size + 1),
        )
        check_feasible(offsets, scores, members)
        permanents, marginals, residuals = found = self._permanents(weights, job)
        residual = float(residuals.max(initial=0.0))
        n_fallback, is_exact = self._mend(weights, found, job)
        told = Diagnostics(
            self.name, "asked for", size, n_graphs, residual, n_fallback=n_fallback
        )
        return InferenceResult(offsets + np.log(permanents), marginals, is_exact, told)

    @abstractmethod
    def _permanents(self, weights: FloatArray, job: Job) -> Found:
        """Return what is known of the permanents of scaled weights (b, m, m)."""

    def _mend(self, weights: FloatArray, found: Found, job: Job) -> tuple[int, bool]:
        """Do poor answers again, in place; return how many, and whether all are exact."""
        return 0, True


@dataclass(frozen=True, kw_only=True)
class SignedSumEngine(ScaledEngine):
    """A scaled engine that may lose digits to cancellation and measures how many.

    Parameters
    ----------
    tol : float
        Largest residual accepted; graphs above it are solved by the `fallback`.
    """

    tol: float = EXACT_TOL

    #: The engine of positive sums that graphs with large residuals are handed to.
    fallback: ClassVar[ScaledEngine]

    def __post_init__(self) -> None:
        super().__post_init__()
        is_number = isinstance(self.tol, Real) and not isinstance(self.tol, bool)
        if not (is_number and 0 <= self.tol < 1):
            raise InvalidOptionError(
                f"tol of {type(self).__name__} must be a number from 0 to 1, got "
                f"{self.tol!r}."
            )

    def tol_at(self, size: int) -> float:
        """Return the largest residual accepted for graphs of a size."""
        return self.tol

    def _mend(self, weights: FloatArray, found: Found, job: Job) -> tuple[int, bool]:
        permanents, marginals, residuals = found
        is_poor = ~(residuals <= self.tol_at(weights.shape[1]))
        is_exact = bool((residuals[~is_poor] <= EXACT_TOL).all())
        if not is_poor.any():
            return 0, is_exact
        name, other = type(self).__name__, self.fallback
        if weights.shape[1] > other.max_size:
            raise PrecisionError(
                f"{name} needs a residual of at most {self.tol:g}, got "
                f"{residuals.max():.2g} at size {weights.shape[1]}, where the fallback to "
                f"{type(other).__name__} would need too much memory. Accept it with "
                f"{name}(tol=...), or fix known edges (given={{row: col}}) to make the "
                "graph smaller."
            )
        better, tables, _ = other._permanents(weights[is_poor], job)
        permanents[is_poor] = better
        if marginals is not None:
            marginals[is_poor] = tables
        return int(is_poor.sum()), is_exact
