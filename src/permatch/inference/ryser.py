"""The log-partition alone by Ryser's formula, as the paper suggests."""

import math
from dataclasses import dataclass

import numpy as np

from permatch._types import FloatArray
from permatch.inference.base import Job
from permatch.inference.exact import Found, SignedSumEngine
from permatch.inference.subset_dp import SubsetDP
from permatch.kernels.sliced import permanent_by_ryser


@dataclass(frozen=True, kw_only=True)
class Ryser(SignedSumEngine):
    """Log-partition by inclusion and exclusion over column subsets; no marginals.

    Included because the paper suggests it.  It loses far more digits than `Glynn`: the
    residual bounds the rounding error relative to the permanent, and a graph whose bound
    exceeds `tol` is solved by `SubsetDP`, at ordinary spreads from m = 13.

    Parameters
    ----------
    max_size : int
        Largest graph accepted; time doubles with every node.
    tol : float
        Largest error bound accepted before falling back.

    Notes
    -----
    O(m 2^m) time, O(m) memory.  Threads share graphs; a single graph uses one.

    References
    ----------
    H. J. Ryser, "Combinatorial Mathematics", Carus Mathematical Monographs 14 (1963).

    Examples
    --------
    >>> import numpy as np
    >>> import permatch as pm
    >>> result = pm.Ryser().infer(np.log([[3.0, 1.0], [2.0, 2.0]]))
    >>> round(float(np.exp(result.log_partition)), 9)  # 3 * 2 + 1 * 2
    8.0
    >>> result.marginals is None
    True
    """

    max_size: int = 24
    tol: float = 1e-10
    name = "ryser"
    fallback = SubsetDP()
    has_marginals = False

    def log2_seconds(self, size: int) -> float:
        """Estimate log2 of the seconds one graph takes on one thread."""
        return size + math.log2(size + 1) + math.log2(1e-9)

    def log2_bytes(self, size: int) -> float:
        """Estimate log2 of the bytes one graph needs."""
        return 4.0 + 2.0 * math.log2(size + 1)

    def _permanents(self, weights: FloatArray, job: Job) -> Found:
        values = np.empty(len(weights))
        bounds = np.empty(len(weights))

        def solve(g: int) -> None:
            values[g], bounds[g] = permanent_by_ryser(weights[g])

        seconds = len(weights) * 2.0 ** self.log2_seconds(weights.shape[1])
        job.run(solve, len(weights), "Ryser", seconds)
        return values, None, bounds
