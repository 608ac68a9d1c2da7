"""Rankings by Markov chains: estimates where nothing exact is within reach.

The log-partition is integrated along the way from equal chances to the scores,

    log Z(1) = log Z(0) + integral over b from 0 to 1 of E_b(total score),

with E_b the mean where scores are multiplied by b; chains estimate it at the nodes of a
Gauss rule in the cube root of b.
"""

import math
from functools import cached_property

import numpy as np

from permatch._parallel import run_tasks
from permatch._types import FloatArray, IntArray
from permatch.kernels.ranking.levels_draw import run_chain

_N_CHAINS = 8
_N_TEMPERATURES = 24


class BySwaps:
    """Estimates from chains of swaps, for lists too large for anything exact.

    Half of the chains start from the best ranking, half from random ones, and the first
    fifth of each is dropped.  Standard errors are those between the chains, so they grow
    when chains have not forgotten where they began.

    Parameters
    ----------
    scores : ndarray of shape (D,)
        Scores of the documents.
    values : ndarray of shape (R,)
        Position weight of every level, falling.
    sizes : ndarray of shape (R,)
        Positions of every level.
    n_samples : int
        Total number of rankings drawn.
    seed : int
        Where the chains' random numbers begin.
    n_jobs : int
        Threads.
    """

    is_exact = False
    name = "swaps"

    def __init__(
        self,
        scores: FloatArray,
        values: FloatArray,
        sizes: IntArray,
        n_samples: int,
        seed: int,
        n_jobs: int,
    ) -> None:
        self._scores = scores - scores.mean()
        self._weights = np.repeat(values, sizes)
        self._sizes = sizes
        self._level_of = np.repeat(np.arange(len(sizes)), sizes)
        self._n_samples, self._seed, self._n_jobs = n_samples, seed, n_jobs
        size = len(scores)
        self._n_swaps = math.ceil(size * max(1.0, math.log(size + 1.0)))

    @property
    def log_excess(self) -> float:
        """Log of the weight of all level assignments beside the best, estimated."""
        return self._integral[0]

    @property
    def log_excess_error(self) -> float:
        """Standard error of `log_excess`."""
        return self._integral[1]

    @property
    def level_marginals(self) -> FloatArray:
        """Probability of every level for every document, (D, R), estimated."""
        return self._shares.mean(axis=0)

    @property
    def level_errors(self) -> FloatArray:
        """Standard errors of `level_marginals`."""
        return self._shares.std(axis=0, ddof=1) / math.sqrt(_N_CHAINS)

    def above(self, i: int) -> FloatArray:
        """Return the estimated probability that document `i` ranks above each other."""
        levels = self._levels.reshape(-1, self._levels.shape[2])
        own = levels[:, i : i + 1]
        return (own < levels).mean(axis=0) + 0.5 * (own == levels).mean(axis=0)

    def sample_levels(self, n: int, rng: np.random.Generator) -> IntArray:
        """Draw nearly independent level assignments, (n, D)."""
        kept = self._chains(-(-n // _N_CHAINS), rng.spawn(_N_CHAINS))[0]
        # chain by chain they are alike: take them in turn
        return kept.transpose(1, 0, 2).reshape(-1, kept.shape[2])[:n].astype(np.int64)

    @cached_property
    def _levels(self) -> np.ndarray:
        generators = np.random.default_rng(self._seed).spawn(_N_CHAINS)
        return self._chains(-(-self._n_samples // _N_CHAINS), generators)[0]

    @cached_property
    def _shares(self) -> FloatArray:
        """Share of every level for every document, chain by chain, (chains, D, R)."""
        n_levels = len(self._sizes)
        return np.stack(
            [(self._levels == level).mean(axis=1) for level in range(n_levels)], axis=2
        )

    @cached_property
    def _integral(self) -> tuple[float, float]:
        """Integrate the mean score along the way from equal chances to the scores."""
        nodes, shares = np.polynomial.legendre.leggauss(_N_TEMPERATURES)
        nodes, shares = 0.5 * (nodes + 1.0), 0.5 * shares
        best = float(np.sort(self._scores)[::-1] @ self._weights)
        n = max(8, -(-self._n_samples // (_N_CHAINS * _N_TEMPERATURES)))
        seed = np.random.SeedSequence(self._seed).spawn(2)[1]
        generators = np.random.default_rng(seed).spawn(_N_CHAINS)
        # Most happens where scores are small beside 1: more nodes there.
        found = np.zeros(_N_CHAINS)
        for node, share in zip(nodes, shares, strict=True):
            _, totals = self._chains(n, generators, float(node**3))
            lacking = totals.mean(axis=1) / node**3 - best
            found += 3.0 * node**2 * share * lacking
        all_orders = math.lgamma(len(self._scores) + 1.0)
        orders = sum(math.lgamma(size + 1.0) for size in self._sizes)
        error = found.std(ddof=1) / math.sqrt(_N_CHAINS)
        return float(found.mean() + all_orders - orders), float(error)

    def _chains(
        self, n: int, generators: list[np.random.Generator], share: float = 1.0
    ) -> tuple[np.ndarray, FloatArray]:
        """Return levels (chains, n, D) and total scores, the scores multiplied first."""
        size = len(self._scores)
        levels = np.empty((_N_CHAINS, n, size), dtype=np.int32)
        totals = np.empty((_N_CHAINS, n))
        scores = share * self._scores

        def task(k: int) -> None:
            generator = generators[k]
            order = np.argsort(-scores, kind="stable")
            if k % 2:
                order = generator.permutation(size)
            n_all = n + max(1, n // 4)
            orders, sums = np.empty((n_all, size), np.int64), np.empty(n_all)
            run_chain(scores, self._weights, order, self._n_swaps, generator, orders, sums)
            rows = np.arange(n)[:, None]
            levels[k][rows, orders[n_all - n :]] = self._level_of
            totals[k] = sums[n_all - n :]

        run_tasks(task, _N_CHAINS, self._n_jobs)
        return levels, totals
