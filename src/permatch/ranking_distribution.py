"""The distribution over the rankings of one list."""

import math
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from permatch._types import FloatArray, IntArray, Seed
from permatch._validation import (
    MAX_SCORE,
    check_count,
    check_jobs,
    check_rng,
    refuse_masked,
)
from permatch.errors import (
    InfiniteScoreError,
    InvalidOptionError,
    NaNScoreError,
    ScoreShapeError,
    ScoreTypeError,
)
from permatch.inference.ranking.levels import (
    LARGEST_MATCHING,
    ByLevels,
    ByMatching,
    can_count,
    is_matching_quicker,
)
from permatch.inference.ranking.swaps import BySwaps


class RankingDistribution:
    """The distribution ``p(ranking) ∝ exp(sum over positions of weight times score)``.

    Positions of equal weight form a level; within a level all orders are equally likely.
    With few levels, or few documents, results are exact up to rounding.  Otherwise they
    are estimates from `n_samples` rankings: `is_exact` is False and `standard_errors`
    reports their accuracy.  Inference runs on first use and is cached.

    Parameters
    ----------
    scores : array of shape (D,)
        Score of every document.
    position_weights : array of shape (D,)
        Weight of every position, best first; non-increasing.
    n_samples : int
        Rankings sampled if exact inference is out of reach.
    max_cells : int
        Maximum cells of exact inference: documents times the smaller of 16^(R-1) for R
        levels and the product of ``n_l + 1`` over all level sizes but the largest.  Lists
        of up to 22 documents are always exact.
    random_state : int
        Seed of the sampled rankings.
    n_jobs : int, optional
        Threads; None means one, -1 all processors.  Results do not depend on it.

    Examples
    --------
    Three documents, one top position.

    >>> import numpy as np
    >>> d = RankingDistribution(np.log([6.0, 3.0, 1.0]), [1.0, 0.0, 0.0])
    >>> d.level_marginals[:, 0].round(6)
    array([0.6, 0.3, 0.1])
    >>> d.mode()
    array([0, 1, 2])
    >>> round(d.prob_above(0, 2), 6), d.is_exact
    (0.75, True)
    """

    def __init__(
        self,
        scores: ArrayLike,
        position_weights: ArrayLike,
        *,
        n_samples: int = 10_000,
        max_cells: int = 1 << 24,
        random_state: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        self._scores = _check_vector(scores, "scores")
        self._weights = _check_vector(position_weights, "position_weights")
        _check_weights(self._weights, len(self._scores))
        values, sizes = np.unique(-self._weights, return_counts=True)
        self._values, self._sizes = np.ascontiguousarray(-values), sizes.astype(np.int64)
        n_samples = check_count(n_samples, "n_samples", 8)
        max_cells = check_count(max_cells, "max_cells", 1)
        seed = check_count(random_state, "random_state", 0)
        jobs = check_jobs(n_jobs)
        # copies: kernels compile anew for arrays that cannot be written to
        parts = (self._scores.copy(), self._values, self._sizes)
        is_exact = can_count(self._sizes, max_cells)
        self._engine: ByLevels | ByMatching | BySwaps
        if is_matching_quicker(self._sizes) or (
            not is_exact and self.size <= LARGEST_MATCHING
        ):
            self._engine = ByMatching(*parts, jobs)
        elif is_exact:
            self._engine = ByLevels(*parts, max_cells, jobs)
        else:
            self._engine = BySwaps(*parts, n_samples, seed, jobs)

    # ---- what was asked

    @property
    def size(self) -> int:
        """Number of documents, D."""
        return len(self._scores)

    @property
    def scores(self) -> FloatArray:
        """The scores, (D,), read-only."""
        return self._scores

    @property
    def position_weights(self) -> FloatArray:
        """The weights of the positions, (D,), read-only."""
        return self._weights

    @property
    def level_sizes(self) -> IntArray:
        """Number of positions of every level, best level first, (R,)."""
        return self._sizes

    @property
    def level_weights(self) -> FloatArray:
        """Position weight of every level, best level first, (R,)."""
        return self._values

    @property
    def is_exact(self) -> bool:
        """Whether results are exact up to rounding instead of estimates from samples."""
        return self._engine.is_exact

    @property
    def method(self) -> str:
        """The method of inference: "levels", "matching" (both exact) or "swaps"."""
        return self._engine.name

    # ---- inference

    @cached_property
    def log_partition(self) -> float:
        """Log of the total weight of all D! rankings."""
        orders = sum(math.lgamma(size + 1.0) for size in self._sizes)
        return self._total(self.mode()) + self._engine.log_excess + orders

    @cached_property
    def level_marginals(self) -> FloatArray:
        """Probability of every level for every document, (D, R); rows sum to one."""
        found = np.ascontiguousarray(self._engine.level_marginals)
        found.flags.writeable = False
        return found

    @cached_property
    def marginals(self) -> FloatArray:
        """Probability of every position for every document, (D, D)."""
        full = np.repeat(self.level_marginals / self._sizes, self._sizes, axis=1)
        full.flags.writeable = False
        return full

    @cached_property
    def standard_errors(self) -> FloatArray:
        """Standard errors of `marginals`, (D, D); 0 if exact."""
        return np.repeat(self._engine.level_errors / self._sizes, self._sizes, axis=1)

    @property
    def log_partition_error(self) -> float:
        """Standard error of `log_partition`; 0 if exact."""
        return self._engine.log_excess_error

    # ---- questions

    def prob_above(self, i: Any, j: Any) -> Any:
        """Return the probability that document `i` ranks above document `j`.

        Within a level both orders are equally likely; ``i == j`` gives 0.5.

        Parameters
        ----------
        i : int or integer array
            Documents, counted from 0.
        j : int or integer array
            Documents to compare with; broadcast against `i`.

        Returns
        -------
        float or ndarray
            One probability per pair.

        Notes
        -----
        Costs as much as one inference per level and distinct `i`.
        """
        first, second = check_pairs(i, j, self.size)
        result = np.empty(first.shape)
        for document in np.unique(first):
            is_here = first == document
            result[is_here] = self._above(int(document))[second[is_here]]
        return float(result) if result.ndim == 0 else result

    def sample(self, n: int, rng: Seed = None) -> IntArray:
        """Draw rankings.

        Parameters
        ----------
        n : int
            Number of rankings.
        rng : int, numpy.random.Generator or None
            Seed or generator; None uses fresh entropy.

        Returns
        -------
        ndarray of shape (n, D)
            ``orders[k, p]`` is the document at position p of ranking k.  Independent exact
            draws if `is_exact`; otherwise states of Markov chains.
        """
        n = check_count(n, "n", 0)
        generator = check_rng(rng)
        levels = self._engine.sample_levels(n, generator)
        return np.argsort(levels + generator.random(levels.shape), axis=1)

    def mode(self) -> IntArray:
        """Return the likeliest ranking, (D,): by decreasing score, ties in order."""
        return np.argsort(-self._scores, kind="stable")

    def __repr__(self) -> str:
        words = "exact" if self.is_exact else "sampled"
        return (
            f"RankingDistribution(size={self.size}, levels={len(self._sizes)}, "
            f"method={self.method!r}, {words})"
        )

    def _above(self, document: int) -> FloatArray:
        return np.clip(self._engine.above(document), 0.0, 1.0)

    def _total(self, order: IntArray) -> float:
        return math.fsum(self._weights * self._scores[order])


def _check_vector(values: ArrayLike, name: str) -> FloatArray:
    refuse_masked(values, name, ScoreTypeError)
    array = np.asarray(values)
    if array.ndim != 1 or not array.size:
        raise ScoreShapeError(
            f"{name} must be a list of at least one number; got shape {array.shape}. "
            "Pass the documents of one query at a time."
        )
    if array.dtype.kind not in "fiu":
        raise ScoreTypeError(
            f"{name} must hold real numbers (float or int), got dtype {array.dtype}. "
            f"Convert it with np.asarray({name}, dtype=float)."
        )
    array = array.astype(np.float64)
    if np.isnan(array).any():
        raise NaNScoreError(
            f"{name} must not contain NaN; got one at {int(np.argmax(np.isnan(array)))}. "
            "Drop the document, or give it a number."
        )
    largest = np.abs(array).max()
    if not largest < math.sqrt(MAX_SCORE):
        raise InfiniteScoreError(
            f"{name} must be below {math.sqrt(MAX_SCORE):g} in size; got {largest}. "
            "Use smaller numbers."
        )
    array.flags.writeable = False
    return array


def _check_weights(weights: FloatArray, size: int) -> None:
    if len(weights) != size:
        raise InvalidOptionError(
            f"position_weights must have one weight for each of the {size} positions; got "
            f"{len(weights)}. Repeat the last weight for the remaining positions."
        )
    rises = np.nonzero(np.diff(weights) > 0.0)[0]
    if len(rises):
        p = int(rises[0])
        raise InvalidOptionError(
            f"position_weights must be non-increasing; position {p} has {weights[p]:g} and "
            f"position {p + 1} has {weights[p + 1]:g}. Sort them, best position first."
        )


def check_pairs(i: Any, j: Any, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return two sets of documents of a list of some size, broadcast."""
    first, second = _check_index(i, "i", size), _check_index(j, "j", size)
    try:
        first, second = np.broadcast_arrays(first, second)
    except ValueError as err:
        raise InvalidOptionError(
            "i and j must have shapes that broadcast; got "
            f"{first.shape} and {second.shape}. Give as many of both, or one of one."
        ) from err
    return first, second


def _check_index(index: Any, name: str, size: int) -> np.ndarray:
    refuse_masked(index, name, InvalidOptionError)
    array = np.asarray(index)
    if not array.size:  # NumPy takes an empty list for floats
        array = array.astype(np.intp)
    is_whole = array.dtype.kind in "iu"
    if not is_whole or (array.size and (array.min() < 0 or array.max() >= size)):
        raise InvalidOptionError(
            f"{name} must name documents 0 .. {size - 1}; got {index!r}. Documents are "
            "counted from 0, in the order of the scores."
        )
    return array
