"""Engines that answer from exact independent samples, by accept and reject."""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch._validation import check_count
from permatch.errors import PrecisionError
from permatch.inference._options import (
    LEAST_FRACTION,
    MOST_DRAWS,
    check_fraction,
    check_limited_count,
    keep,
)
from permatch.inference.base import AbstractEngine, Job
from permatch.inference.result import Diagnostics, StackResult
from permatch.inference.sampling.gbas import CoinEstimate, heads_needed
from permatch.inference.scaling import reduce_stack

_ADVICE = (
    "Raise max_trials, or use engine='nesting', whose weighted draws need no acceptance."
)

#: Makes one chunk of trials: the number of the chunk -> the numbers, within the chunk, of
#: the accepted trials, and their matchings.
Trials = Callable[[int], tuple[IntArray, IntArray]]


@dataclass(frozen=True, eq=False)
class Accepted:
    """Exact samples, and what it took to get them.

    Attributes
    ----------
    matchings : ndarray of shape (n, m)
        Independent samples.
    coins : CoinEstimate
        Trials and acceptances.
    log_bound : float
        A trial is accepted with probability ``Z / exp(log_bound)``.
    """

    matchings: IntArray
    coins: CoinEstimate
    log_bound: float

    @property
    def acceptance(self) -> float:
        """Share of trials accepted."""
        return self.coins.n_heads / self.coins.n_tosses

    def log_partition(self, has_known_error: bool) -> tuple[float, float]:
        """Return an estimate and its standard error.

        With `has_known_error` it is the one whose relative error has a known distribution,
        else the one of smaller variance.
        """
        coins = self.coins
        if has_known_error:
            return self.log_bound + coins.log_probability, 1.0 / math.sqrt(coins.n_heads)
        share = (coins.n_heads - 1) / (coins.n_tosses - 1)
        error = math.sqrt((1.0 - self.acceptance) / coins.n_heads)
        return self.log_bound + math.log(share), error

    def marginals(self) -> tuple[FloatArray, FloatArray]:
        """Return the shares of the edges among the samples, and their standard errors."""
        n, size = self.matchings.shape
        cells = np.arange(size) * size + self.matchings
        counts = np.bincount(cells.ravel(), minlength=size * size).reshape(size, size)
        shares = counts / n
        # One sample more or less stands behind every error: an edge never seen is possible.
        return shares, np.hypot(np.sqrt(shares * (1.0 - shares) / n), 1.0 / n)


@dataclass(frozen=True, kw_only=True)
class PerfectSampler(AbstractEngine):
    """An engine whose trials, when accepted, are exact independent samples.

    Parameters
    ----------
    max_size : int
        Largest graph accepted.
    n_samples : int
        Exact samples per graph.
    epsilon : float, optional
        Relative error of the partition function asked for, but for probability `delta`; it
        then says how many samples are drawn.
    delta : float
        Probability with which the interval of the log-partition may miss.
    max_trials : int
        Most trials per graph.
    random_state : int
        Seed; the same scores and seed give the same answer.
    """

    n_samples: int = 1000
    epsilon: float | None = None
    delta: float = 0.05
    max_trials: int = 10_000_000
    random_state: int = 0

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
            random_state=check_count(self.random_state, f"random_state of {name}", 0),
        )

    @property
    def _n_needed(self) -> int:
        if self.epsilon is None:
            return self.n_samples
        return heads_needed(self.epsilon, self.delta)

    @abstractmethod
    def _trials(self, reduced: FloatArray, key: tuple[int, ...]) -> tuple[Trials, float]:
        """Return what makes trials for reduced scores, and the log of its bound."""

    def _infer_stack(self, scores: FloatArray, members: IntArray, job: Job) -> StackResult:
        reduced, offsets = reduce_stack(scores, members)
        n_graphs, size = scores.shape[:2]
        log_partitions, errors = np.empty(n_graphs), np.empty(n_graphs)
        marginals, marginal_errors = np.empty_like(scores), np.empty_like(scores)
        ends, acceptances = np.empty((n_graphs, 2)), np.empty(n_graphs)
        n_trials = np.empty(n_graphs, dtype=np.int64)
        # One graph shares out its chunks over the threads; several share out themselves.
        inner = job if n_graphs == 1 else Job()

        def solve(g: int) -> None:
            key = (self.random_state, int(members[g]))
            accepted = self._accept(reduced[g], key, inner)
            log_partitions[g], errors[g] = accepted.log_partition(self.epsilon is not None)
            low, high = accepted.coins.log_interval(self.delta)
            ends[g] = accepted.log_bound + low, accepted.log_bound + high
            marginals[g], marginal_errors[g] = accepted.marginals()
            # Impossible edges are known to be out, however few samples there were.
            marginal_errors[g] *= reduced[g] > -np.inf
            n_trials[g], acceptances[g] = accepted.coins.n_tosses, accepted.acceptance

        if n_graphs == 1:
            solve(0)
        else:
            job.run(solve, n_graphs)
        ends += offsets[:, None]
        interval = None
        if n_graphs:
            low, high = ends[np.argmax(ends[:, 1] - ends[:, 0])]
            interval = float(low), float(high)
        diagnostics = Diagnostics(
            engine=self.name,
            reason="asked for",
            size=size,
            n_graphs=n_graphs,
            certificate="asymptotic",
            interval=interval,
            interval_certificate="rigorous" if interval else "",
            delta=self.delta if interval else 0.0,
            log_partition_error=float(errors.max(initial=0.0)),
            marginal_error=float(marginal_errors.max(initial=0.0)),
            n_samples=int(n_trials.sum()),
            effective_samples=float(self._n_needed),
            acceptance=float(acceptances.min(initial=1.0)),
        )
        return StackResult(
            log_partitions + offsets, marginals, diagnostics, False, errors, marginal_errors
        )

    def _accept(self, reduced: FloatArray, key: tuple[int, ...], job: Job) -> Accepted:
        """Make chunks of trials until enough are accepted."""
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
                    return Accepted(np.concatenate(found), coins, log_bound)
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
