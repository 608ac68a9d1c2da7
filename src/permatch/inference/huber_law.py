"""Perfect samples by Huber and Law's accept-reject scheme: the sampler of the paper."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from permatch._parallel import run_slices
from permatch._types import FloatArray, IntArray
from permatch._validation import check_choice
from permatch.inference._options import keep
from permatch.inference.sampling.perfect import PerfectSampler, Trials
from permatch.inference.sampling.weighted import balanced_weights, columns_by_entropy
from permatch.kernels.bounds import fill_huber_law, huber_law_nodes
from permatch.kernels.huber_law import fill_ratios, try_some
from permatch.kernels.intrinsics import seed_state

_BOUNDS = ("published", "tight")
# Multiplications of a first slice of trials.
_FEW = 1e8


@dataclass(frozen=True, kw_only=True)
class HuberLaw(PerfectSampler):
    """Estimates from perfect samples, by the accept-reject scheme of the paper.

    Marginals are edge frequencies among independent exact samples, with binomial standard
    errors; the log-partition comes from the acceptance rate, with an interval that is valid
    for any number of samples.  The acceptance rate falls quickly with the size of the graph
    and the spread of the scores; `Nesting` goes much further.

    Parameters
    ----------
    max_size : int
        Largest graph accepted.
    random_state : int
        Seed; the same scores and seed give the same result.
    n_samples : int
        Exact samples per graph.
    epsilon : float, optional
        Relative error of the partition function to reach with probability 1 - delta; it
        then sets the number of samples.
    delta : float
        Probability that the interval of the log-partition fails.
    max_trials : int
        Maximum trials per graph; PrecisionError if they are not enough.
    bound : {"published", "tight"}
        Row factors of the bound: Huber and Law's, or slightly smaller ones that nest too.

    Notes
    -----
    O(m^2) per trial and exp(gap) trials per sample, where the gap between the logs of the
    bound and of the partition function is about 3 to 7 at m = 20.  The graph is transposed
    if that gives a smaller bound.

    References
    ----------
    M. Huber and J. Law, "Fast approximation of the permanent for very dense problems", SODA
    2008.

    Examples
    --------
    >>> import numpy as np
    >>> import permatch as pm
    >>> result = pm.HuberLaw(n_samples=500).infer(np.log([[3.0, 1.0], [2.0, 2.0]]))
    >>> result.is_exact, result.diagnostics.certificate
    (False, 'asymptotic')
    >>> bool(abs(result.marginals[0, 0] - 0.75) < 5 * result.marginal_errors[0, 0])
    True
    """

    max_size: int = 500
    bound: str = "published"

    name = "huber_law"
    largest_max_size: ClassVar[int] = 5000

    def __post_init__(self) -> None:
        super().__post_init__()
        keep(self, bound=check_choice(self.bound, "bound of HuberLaw", _BOUNDS))

    def log2_seconds(self, size: int) -> float:
        """Estimate log2 of the seconds one mild graph takes on one thread."""
        log_trials = math.log(self._n_needed) + 0.15 * size
        return math.log2(1e-9 * (1.0 + size * size)) + log_trials / math.log(2.0)

    def log2_bytes(self, size: int) -> float:
        """Estimate log2 of the bytes one graph needs."""
        return math.log2(8.0 * (size + 1.0) * (self._n_needed + self.trials_per_chunk))

    def _trials(self, reduced: FloatArray, key: tuple[int, ...]) -> tuple[Trials, float]:
        size = len(reduced)
        weights, bounds, order, is_transposed, log_bound = self._tables(reduced)
        shrinks, ratios = np.empty_like(weights), np.empty_like(weights)
        fill_ratios(weights, bounds, shrinks, ratios)

        def trials(chunk: int) -> tuple[IntArray, IntArray]:
            n = self.trials_per_chunk
            numbers = np.empty(n, np.int64)
            rows = np.empty((n, size), np.int64)
            state = seed_state(*key, chunk)
            n_found = 0

            def make(first: int, last: int) -> None:
                nonlocal n_found
                n_found = try_some(
                    shrinks, ratios, state, n_found, numbers, rows, first, last
                )

            run_slices(make, n, int(_FEW / (size * size + 1)) + 1)
            matchings = np.empty((n_found, size), dtype=np.intp)
            if is_transposed:
                matchings[:, order] = rows[:n_found]
            else:
                matchings[np.arange(n_found)[:, None], rows[:n_found]] = order
            return numbers[:n_found], matchings

        return trials, log_bound

    def _tables(
        self, reduced: FloatArray
    ) -> tuple[FloatArray, FloatArray, IntArray, bool, float]:
        """Return weights, bounds, order of columns, orientation and log bound."""
        balanced, offset = balanced_weights(reduced)
        nodes = huber_law_nodes(len(reduced)) if self.bound == "tight" else np.empty(0)
        tables = []
        for is_transposed in (False, True):
            weights = balanced.T if is_transposed else balanced
            order = columns_by_entropy(weights)
            # Rows as large as the bound allows, entries at most one: it is not homogeneous.
            largest = weights.max(axis=1, initial=0.0)
            ordered = np.ascontiguousarray(weights[:, order] / largest[:, None])
            bounds = np.empty((len(weights), len(weights) + 1))
            fill_huber_law(ordered, nodes, bounds)
            log_bound = offset + float(np.log(bounds[:, 0]).sum() + np.log(largest).sum())
            tables.append((ordered, bounds, order, is_transposed, log_bound))
        return min(tables, key=lambda table: table[-1])
