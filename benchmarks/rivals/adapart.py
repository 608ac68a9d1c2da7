"""Perfect samples by adaptive partitioning under Soules' bound: a reference method."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from benchmarks.rivals.adapart_kernels import soules_factors, soules_steps, try_chunk
from permatch._types import FloatArray, IntArray
from permatch.errors import PrecisionError
from permatch.inference._options import check_limited_count, keep
from permatch.inference.sampling.perfect import PerfectSampler, Trials
from permatch.inference.sampling.weighted import balanced_weights
from permatch.kernels.intrinsics import seed_state

# Partitions of size 60 so long take 0.3 GB.
_LONGEST_LIST = 10_000


@dataclass(frozen=True, kw_only=True)
class AdaPart(PerfectSampler):
    """Monte Carlo answers from perfect samples, by AdaPart under Soules' bound.

    The tightest of the cheap bounds, made usable by refining the partition wherever it does
    not nest.  Kept for comparison: a trial costs m times that of `HuberLaw`.

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
        Most trials per graph; PrecisionError if they do not suffice.
    max_list : int
        Longest partition of a node, as a multiple of the size; PrecisionError beyond.

    Notes
    -----
    O(m^2) for every refinement, of which a trial needs m or a few more.

    References
    ----------
    J. Kuck, T. Dao, H. Rezatofighi, A. Sabharwal and S. Ermon, "Approximating the permanent
    by sampling from adaptive partitions", NeurIPS 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from benchmarks.rivals.adapart import AdaPart
    >>> result = AdaPart(n_samples=500).infer(np.log([[3.0, 1.0], [2.0, 2.0]]))
    >>> result.is_exact, result.diagnostics.certificate
    (False, 'asymptotic')
    >>> bool(abs(result.marginals[0, 0] - 0.75) < 5 * result.marginal_errors[0, 0])
    True
    """

    max_size: int = 60
    max_list: int = 50

    name = "adapart"
    largest_max_size: ClassVar[int] = 60
    trials_per_chunk: ClassVar[int] = 512

    def __post_init__(self) -> None:
        super().__post_init__()
        most = check_limited_count(
            self.max_list,
            "max_list of AdaPart",
            1,
            _LONGEST_LIST,
            "Partitions that long would not fit into memory: use engine='nesting'.",
        )
        keep(self, max_list=most)

    def log2_seconds(self, size: int) -> float:
        """Estimate log2 of the seconds one mild graph takes on one thread."""
        log_trials = math.log(self._n_needed) + 0.12 * size
        return math.log2(3e-9 * (1.0 + size**3)) + log_trials / math.log(2.0)

    def log2_bytes(self, size: int) -> float:
        """Estimate log2 of the bytes one graph needs."""
        return math.log2(8.0 * (size + 1.0) * (self._n_needed + self.max_list * size))

    def _trials(self, reduced: FloatArray, key: tuple[int, ...]) -> tuple[Trials, float]:
        size = len(reduced)
        balanced, offset = balanced_weights(reduced)
        steps = soules_steps(size)
        tables = []
        for is_transposed in (False, True):
            weights = np.ascontiguousarray(balanced.T) if is_transposed else balanced
            order = np.argsort(-weights, axis=1, kind="stable")
            factors = np.empty(size)
            soules_factors(weights, order, steps, factors)
            log_bound = offset + float(np.log(factors).sum())
            tables.append((weights, order, is_transposed, log_bound))
        weights, order, is_transposed, log_bound = min(tables, key=lambda table: table[-1])

        def trials(chunk: int) -> tuple[IntArray, IntArray]:
            n = self.trials_per_chunk
            numbers = np.empty(n, np.int64)
            cols = np.empty((n, size), np.int64)
            n_found = try_chunk(
                weights,
                order,
                steps,
                self.max_list * size,
                seed_state(*key, chunk),
                n,
                numbers,
                cols,
                np.zeros(2, np.int64),
            )
            if n_found < 0:
                raise PrecisionError(
                    f"AdaPart keeps partitions of at most {self.max_list} times the size; "
                    f"one grew beyond at size {size}. Raise max_list, or use "
                    "engine='nesting'."
                )
            matchings = cols[:n_found].astype(np.intp)
            return numbers[:n_found], (
                np.argsort(matchings, axis=1) if is_transposed else matchings
            )

        return trials, log_bound
