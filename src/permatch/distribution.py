"""The distribution over the perfect matchings of one graph."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from permatch._types import BoolArray, FloatArray, IntArray, Seed
from permatch._validation import (
    check_count,
    check_given,
    check_jobs,
    check_matchings,
    check_rng,
    check_scores,
)
from permatch.decoding import (
    KBest,
    bayes_matching,
    best_matching,
    k_best,
    possible_edges,
)
from permatch.errors import InfeasibleGraphError, InvalidGraphError, InvalidMatchingError
from permatch.inference import (
    AbstractEngine,
    Diagnostics,
    InferenceResult,
    MatchingSamples,
    find_engine,
    reduce_scores,
    require_marginals,
)
from permatch.inference.base import Samples


class MatchingDistribution:
    """The distribution ``p(matching) ∝ exp(sum of the scores of its edges)``.

    Inference runs on first use and is cached.  The object is immutable: conditioning
    returns a new one.

    If the engine is not exact (`is_exact`), the log-partition and the marginals are
    estimates with reported errors, and so is everything computed from them: probabilities,
    entropy, divergences, the Bayes matching.  The mode, the k best matchings, ratios of
    probabilities and samples are exact at any size; for the one exception see `sample`.

    Parameters
    ----------
    scores : array of shape (m, m)
        Log-weight of each edge; ``-inf`` forbids an edge.
    engine : str or engine object
        Computes the log-partition and the marginals.
    given : mapping from row to column, optional
        Edges known to be matched.  The distribution is conditioned on them, and inference
        costs only as much as the remaining rows.
    n_jobs : int, optional
        Threads; None means one, -1 all processors.  Results do not depend on it.

    Examples
    --------
    Two customers, two accounts.  a1-b1 is the best single pair, but it leaves a2 with an
    account that hardly fits.

    >>> import numpy as np
    >>> import permatch as pm
    >>> p = np.array([[0.95, 0.94], [0.93, 0.01]])
    >>> d = pm.MatchingDistribution(np.log(p / (1 - p)))
    >>> d.mode()
    array([1, 0])
    >>> d.marginals.round(3)
    array([[0.001, 0.999],
           [0.999, 0.001]])
    """

    def __init__(
        self,
        scores: ArrayLike,
        engine: str | AbstractEngine = "auto",
        *,
        given: Mapping[int, int] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self._scores = check_scores(scores).copy()
        self._scores.flags.writeable = False
        self._engine = find_engine(engine)
        self._n_jobs = check_jobs(n_jobs)
        self._given = check_given(given, self.size) if given is not None else {}
        is_open = np.ones((2, self.size), dtype=bool)
        for row, col in self._given.items():
            is_open[0, row] = is_open[1, col] = False
            if self._scores[row, col] == -np.inf:
                raise InfeasibleGraphError(
                    f"a given edge must be allowed; edge ({row}, {col}) has score -inf. "
                    "Drop it from `given`, or give it a score."
                )
        self._rows, self._cols = np.nonzero(is_open[0])[0], np.nonzero(is_open[1])[0]

    # ---- what was asked

    @property
    def size(self) -> int:
        """Nodes per side, m."""
        return len(self._scores)

    @property
    def scores(self) -> FloatArray:
        """The scores, (m, m), read-only."""
        return self._scores

    @property
    def given(self) -> dict[int, int]:
        """The edges known to be matched, row to column."""
        return dict(self._given)

    @property
    def engine(self) -> AbstractEngine:
        """The engine that computes the log-partition and the marginals."""
        return self._engine

    # ---- inference

    @property
    def log_partition(self) -> float:
        """Log of the total weight of all matchings that contain the given edges."""
        return self._offset + self._inferred.log_partition

    @cached_property
    def marginals(self) -> FloatArray:
        """Probability of every edge, (m, m); rows and columns sum to one."""
        require_marginals(self._engine)
        full = np.zeros((self.size, self.size))
        full[np.ix_(self._rows, self._cols)] = self._inferred.marginals
        for row, col in self._given.items():
            full[row, col] = 1.0
        full.flags.writeable = False
        return full

    @cached_property
    def entropy(self) -> float:
        """Entropy of the matching in nats, ``-E log p``; 0 if only one is possible."""
        possible = self._possible
        expected = np.sum(self.marginals[possible] * self._reduced_full[possible])
        return max(0.0, float(self._inferred.log_partition - expected))

    @property
    def is_exact(self) -> bool:
        """Whether the log-partition and marginals are exact up to rounding."""
        return self._inferred.is_exact

    @property
    def log_partition_error(self) -> float | None:
        """Standard error of the log-partition, or a bound; 0 if exact, None if unknown."""
        return 0.0 if self.is_exact else self._inferred.log_partition_error

    @cached_property
    def marginal_errors(self) -> FloatArray | None:
        """Standard errors of the marginals, (m, m); 0 if exact, None if unknown."""
        full = np.zeros((self.size, self.size))
        if not self.is_exact:
            if self._inferred.marginal_errors is None:
                return None
            full[np.ix_(self._rows, self._cols)] = self._inferred.marginal_errors
            full[~self._possible] = 0.0
        full.flags.writeable = False
        return full

    @cached_property
    def diagnostics(self) -> Diagnostics:
        """The engine used, why, and its own measure of error."""
        return self._inferred.diagnostics.shifted(self._offset)

    # ---- questions

    def log_prob(self, matching: ArrayLike) -> Any:
        """Return the log-probability of a matching, or of each matching of a stack.

        Parameters
        ----------
        matching : array of shape (m,) or (n, m)
            ``matching[i]`` is the column of row i, counted from 0.

        Returns
        -------
        float or ndarray of shape (n,)
            ``-inf`` for matchings that use a forbidden edge or contradict a given one.
        """
        matchings = check_matchings(matching, self.size)
        totals = self._reduced_full[np.arange(self.size), matchings].sum(axis=1)
        log_probs = totals - self._inferred.log_partition
        # Rounding must not push a probability above 1.
        log_probs = np.minimum(log_probs, 0.0)
        return float(log_probs[0]) if np.ndim(matching) == 1 else log_probs

    def sample(self, n: int, rng: Seed = None) -> IntArray:
        """Draw matchings, independent and exact with all engines but one.

        Up to 24 open rows, samples come from an exact table.  Beyond that, whatever the
        engine, the graph is split where blocks share less than 1e-12 of the mass, and large
        blocks are sampled by exact rejection; `SizeLimitError` if hardly any draw would be
        accepted.  The exception is ``engine="swap_chain"`` beyond 24 open rows: its samples
        are states of one Markov chain, approximate and dependent.

        Parameters
        ----------
        n : int
            Number of matchings.
        rng : int, numpy.random.Generator or None
            Seed or generator; None uses fresh entropy.

        Returns
        -------
        ndarray of shape (n, m)
            One matching per row.

        Notes
        -----
        The first call fills a table of 2^m doubles; later ones take about a microsecond per
        sample.  Beyond 24 rows, tables take up to a second, and the cost of a sample is
        that of rejected draws, exponential in size and spread: for normal scores of spread
        1 about 3 ms at m = 30, 10 ms at m = 50 and 0.1 s at m = 80; at spread 2 about 0.5 s
        at m = 50.  At most 1e8 draws are made, or 1e11 / m^2 if that is less (minutes);
        `SizeLimitError` when that is not enough.
        """
        n = check_count(n, "n", 0)
        generator = check_rng(rng)
        return self._embed(self._samples.sample(n, generator, self._n_jobs))

    def mode(self) -> IntArray:
        """Return the likeliest matching, (m,): a maximum-weight assignment."""
        return self._embed(best_matching(self._core)[None])[0]

    def bayes_matching(self) -> IntArray:
        """Return the matching that minimises the expected Hamming loss, (m,).

        It maximises the sum of the marginals of its edges, hence the expected number of
        correct edges; it need not be the likeliest matching.
        """
        return bayes_matching(self.marginals, self._possible)

    def k_best(self, k: int) -> KBest:
        """Return the `k` likeliest matchings, best first.

        Parameters
        ----------
        k : int
            Number of matchings; fewer are returned if fewer exist.

        Returns
        -------
        KBest
            ``matchings`` (n, m) and their total ``scores`` (n,), including the given edges.
        """
        best = k_best(self._core, k)
        return KBest(self._embed(best.matchings), best.scores + self._given_score)

    def kl(self, other: "MatchingDistribution") -> float:
        """Return the Kullback-Leibler divergence from `other` to this one, in nats.

        Parameters
        ----------
        other : MatchingDistribution
            A distribution over matchings of the same size.

        Returns
        -------
        float
            ``E[log p - log q]`` under this distribution p; ``inf`` if `other` rules out a
            matching that this one allows.
        """
        if not isinstance(other, MatchingDistribution) or other.size != self.size:
            raise InvalidGraphError(
                f"other must be a MatchingDistribution of size {self.size}; got "
                f"{other.size if isinstance(other, MatchingDistribution) else type(other)}."
            )
        possible = self._possible
        if (possible & ~other._possible).any():
            return float("inf")
        own, theirs = self._reduced_full[possible], other._reduced_full[possible]
        gap = np.sum(self.marginals[possible] * (own - theirs))
        log_ratio = other._inferred.log_partition - self._inferred.log_partition
        return max(0.0, float(gap + log_ratio))

    def condition(self, given: Mapping[int, int]) -> "MatchingDistribution":
        """Return the distribution given more edges.

        Parameters
        ----------
        given : mapping from row to column
            Edges known to be matched, in addition to those already given.

        Returns
        -------
        MatchingDistribution
            Same scores, engine and threads.
        """
        more = check_given(given, self.size)
        clash = {row: col for row, col in more.items() if self._given.get(row, col) != col}
        if clash:
            raise InvalidMatchingError(
                "given edges must agree with those already given, "
                f"{self._given}; got {clash}. Start from a distribution without them."
            )
        return MatchingDistribution(
            self._scores, self._engine, given={**self._given, **more}, n_jobs=self._n_jobs
        )

    def __repr__(self) -> str:
        n_allowed = int(np.isfinite(self._scores).sum())
        parts = [f"size={self.size}", f"edges={n_allowed}", f"engine={self._engine.name!r}"]
        if self._given:
            parts.append(f"given={self._given}")
        if "_inferred" in self.__dict__:
            parts.append(f"log_partition={self.log_partition:.6g}")
            if self._engine.has_marginals:
                parts.append(f"entropy={self.entropy:.4g} nats")
        else:
            parts.append("not inferred yet")
        return f"MatchingDistribution({', '.join(parts)})"

    # ---- the part left open by the given edges

    @cached_property
    def _core(self) -> FloatArray:
        return np.ascontiguousarray(self._scores[np.ix_(self._rows, self._cols)])

    @cached_property
    def _given_score(self) -> float:
        return float(sum(self._scores[row, col] for row, col in self._given.items()))

    @cached_property
    def _reduction(self) -> tuple[FloatArray, float]:
        return reduce_scores(self._core)

    @property
    def _reduced(self) -> FloatArray:
        # Everything below works on reduced scores: their sums are small, so differences
        # such as log-probabilities keep their digits however large the scores are.
        return self._reduction[0]

    @property
    def _offset(self) -> float:
        return self._reduction[1] + self._given_score

    @cached_property
    def _inferred(self) -> InferenceResult:
        self._engine.check_size(len(self._core))
        return self._engine.infer(self._reduced, n_jobs=self._n_jobs, check=False)

    @cached_property
    def _samples(self) -> Samples:
        return self._engine.own_samples(self._core) or MatchingSamples.build(self._core)

    @cached_property
    def _possible(self) -> BoolArray:
        """The edges that lie in some perfect matching, whatever their weight."""
        return possible_edges(np.isfinite(self._reduced_full), self.mode())

    @property
    def _reduced_full(self) -> FloatArray:
        full = np.full((self.size, self.size), -np.inf)
        full[np.ix_(self._rows, self._cols)] = self._reduced
        for row, col in self._given.items():
            full[row, col] = 0.0
        return full

    def _embed(self, matchings: IntArray) -> IntArray:
        """Complete matchings (n, open rows) of the open part by the given edges."""
        if not self._given:
            return matchings
        full = np.empty((len(matchings), self.size), dtype=np.intp)
        full[:, self._rows] = self._cols[matchings]
        for row, col in self._given.items():
            full[:, row] = col
        return full
