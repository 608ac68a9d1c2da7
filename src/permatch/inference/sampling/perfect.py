"""Engines that answer from exact independent samples, by accept and reject."""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from permatch._parallel import Job
from permatch._types import FloatArray, IntArray
from permatch.errors import PrecisionError
from permatch.inference._options import (
    LEAST_FRACTION,
    MOST_DRAWS,
    RandomEngine,
    check_fraction,
    check_limited_count,
    higher_limit,
    keep,
    more_draws,
    smaller_error,
)
from permatch.inference.answer import Diagnostics, InferenceResult
from permatch.inference.sampling.gbas import CoinEstimate, heads_needed

_ADVICE = "Raise max_trials, or use engine='nesting', which accepts every draw."

# Fewer samples tell nothing; errors asked for with less effort stay below this.
_FEWEST_DRAWS, _LARGEST_EPSILON = 32, 0.5

#: Makes one chunk of trials: the number of the chunk -> the numbers, within the chunk, of
#: the accepted trials, and their matchings.
Trials = Callable[[int], tuple[IntArray, IntArray]]


@dataclass(frozen=True, kw_only=True)
class PerfectSampler(RandomEngine):
    """An engine whose trials, when accepted, are exact independent samples.

    Parameters
    ----------
    max_size : int
        Largest graph accepted.
    random_state : int
        Seed; the same scores and seed give the same answer.
    n_samples : int
        Exact samples per graph.
    epsilon : float, optional
        Relative error of the partition function asked for, but for probability `delta`; it
        then says how many samples are drawn.
    delta : float
        Probability with which the interval of the log-partition may miss.
    max_trials : int
        Maximum trials per graph.
    """

    n_samples: int = 1000
    epsilon: float | None = None
    delta: float = 0.05
    max_trials: int = 10_000_000

    #: Trials of one task; fixed, so that samples do not depend on the number of threads.
    trials_per_chunk: ClassVar[int] = 4096

    def __post_init__(self) -> None:
        super().__post_init__()
        name = type(self).__name__
        keep(
            self,
            n_samples=check_limited_count(
                self.n_samples, f"n_samples of {name}", 2, MOST_DRAWS
            ),
            epsilon=check_fraction(self.epsilon, f"epsilon of {name}", is_optional=True),
            delta=check_fraction(self.delta, f"delta of {name}", lowest=LEAST_FRACTION),
            max_trials=check_limited_count(
                self.max_trials, f"max_trials of {name}", 1, MOST_DRAWS
            ),
        )

    @property
    def _n_needed(self) -> int:
        if self.epsilon is None:
            return self.n_samples
        return heads_needed(self.epsilon, self.delta)

    @abstractmethod
    def _trials(self, reduced: FloatArray, key: tuple[int, ...]) -> tuple[Trials, float]:
        """Return what makes trials for reduced scores, and the log of its bound."""

    def with_effort(self, factor: float) -> Self:
        """Return the engine that draws `factor` times as much."""
        return replace(
            self,
            n_samples=more_draws(self.n_samples, factor, _FEWEST_DRAWS),
            max_trials=higher_limit(self.max_trials, factor),
            epsilon=smaller_error(self.epsilon, factor, _LARGEST_EPSILON),
        )

    def _infer_stack(
        self, scores: FloatArray, members: IntArray, job: Job
    ) -> InferenceResult:
        return self._answer_each(scores, members, job, self._infer_one)

    def _infer_one(
        self, reduced: FloatArray, key: tuple[int, int], job: Job
    ) -> InferenceResult:
        """Answer a graph by the shares of edges among samples, and that of trials kept."""
        matchings, coins, log_bound = self._accept(reduced, key, job)
        n, size = matchings.shape
        cells = np.arange(size) * size + matchings
        counts = np.bincount(cells.ravel(), minlength=size * size).reshape(size, size)
        shares = counts / n
        # One sample more or less stands behind every error: an edge never seen is possible.
        errors = np.hypot(np.sqrt(shares * (1.0 - shares) / n), 1.0 / n)
        acceptance = coins.n_heads / coins.n_tosses
        if self.epsilon is not None:  # the estimate whose error has a known distribution
            log_share, log_error = coins.log_probability, 1.0 / math.sqrt(coins.n_heads)
        else:  # the one of smaller variance
            log_share = math.log((coins.n_heads - 1) / (coins.n_tosses - 1))
            log_error = math.sqrt((1.0 - acceptance) / coins.n_heads)
        low, high = coins.log_interval(self.delta)
        told = Diagnostics(
            engine=self.name,
            choice="asked for",
            size=size,
            certificate="asymptotic",
            interval=(log_bound + low, log_bound + high),
            interval_certificate="rigorous",
            delta=self.delta,
            n_samples=coins.n_tosses,
            effective_samples=float(self._n_needed),
            acceptance=acceptance,
        )
        return InferenceResult(
            log_bound + log_share, shares, False, told, log_error, errors
        )

    def _accept(
        self, reduced: FloatArray, key: tuple[int, ...], job: Job
    ) -> tuple[IntArray, CoinEstimate, float]:
        """Make chunks of trials until enough are accepted.

        Return exact samples (n, m), the trials and acceptances it took, and the log of the
        bound: a trial is accepted with probability ``Z / bound``.
        """
        trials, log_bound = self._trials(reduced, (*key, 0))
        needed, per_chunk = self._n_needed, self.trials_per_chunk
        found: list[IntArray] = []
        n_found = n_done = n_chunks_done = 0
        n_chunks = 1
        while True:
            parts: list[tuple[IntArray, IntArray]] = [
                (np.empty(0, np.intp), np.empty((0, len(reduced)), np.intp))
            ] * n_chunks

            def make(
                k: int,
                parts: list[tuple[IntArray, IntArray]] = parts,
                first: int = n_chunks_done,
            ) -> None:
                parts[k] = trials(first + k)

            job.run(make, n_chunks)
            for numbers, matchings in parts:
                missing = needed - n_found
                if len(numbers) >= missing:
                    found.append(matchings[:missing])
                    n_done += int(numbers[missing - 1]) + 1
                    rng = np.random.default_rng(np.random.SeedSequence((*key, 1)))
                    # Given the number of trials, the sum of their exponentials is Gamma.
                    coins = CoinEstimate(needed, n_done, float(rng.gamma(n_done)))
                    return np.concatenate(found), coins, log_bound
                found.append(matchings)
                n_found += len(numbers)
                n_done += per_chunk
            n_chunks_done += n_chunks
            if n_done >= self.max_trials:
                raise self._too_few(len(reduced), n_found, n_done, log_bound)
            wanted = 1.1 * (needed - n_found) * n_done / max(n_found, 1)
            wanted = min(wanted, self.max_trials - n_done, 4.0 * n_done)
            n_chunks = max(1, math.ceil(wanted / per_chunk))

    def _too_few(
        self, size: int, n_found: int, n_done: int, log_bound: float
    ) -> PrecisionError:
        """Return the error that says how far the trials got, and what that tells."""
        known = ""
        if n_found == 0:  # log Z <= log U + log(ln(1 / delta) / N), but for delta
            limit = log_bound + math.log(math.log(1.0 / self.delta) / n_done)
            known = (
                f"With probability {1.0 - self.delta:g} the log-partition is at most "
                f"{limit:.6g} above the score of the best matching. "
            )
        return PrecisionError(
            f"{type(self).__name__} at size {size} needs {self._n_needed} accepted trials, "
            f"got {n_found} in {n_done}. {known}{_ADVICE}"
        )
