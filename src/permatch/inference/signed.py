"""Engines with signed sums: they watch their error and fall back to positive sums."""

from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from permatch._types import FloatArray
from permatch.errors import InvalidOptionError, PrecisionError
from permatch.inference.base import Job
from permatch.inference.scaling import Permanents, ScaledEngine
from permatch.inference.subset_dp import SubsetDP


@dataclass(frozen=True, kw_only=True)
class SignedSumEngine(ScaledEngine):
    """A scaled engine that may lose digits to cancellation and can tell how many.

    Parameters
    ----------
    tol : float
        Largest residual accepted; graphs above it are done again by `SubsetDP`.
    """

    tol: float = 1e-11

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.tol, int | float) or not self.tol >= 0:
            raise InvalidOptionError(
                f"tol of {type(self).__name__} must be a number of at least 0, got "
                f"{self.tol!r}."
            )

    def _permanents(self, weights: FloatArray, job: Job) -> Permanents:
        signed = self._signed_permanents(weights, job)
        assert (
            signed.residuals is not None
        )  # an engine with signed sums has to watch itself
        (poor,) = np.nonzero(~(signed.residuals <= self.tol))
        if poor.size == 0:
            return signed
        size = weights.shape[1]
        positive = SubsetDP()
        if size > positive.max_size:
            raise PrecisionError(
                f"{type(self).__name__} promises a residual of at most {self.tol:g}, got "
                f"{signed.residuals.max():.2g} at size {size}, where the fallback to "
                "SubsetDP would need too much memory. Accept it with "
                f"{type(self).__name__}(tol=...), or fix known edges "
                "(given={row: col}) to make the graph smaller."
            )
        redone = positive._permanents(weights[poor], job)
        signed.values[poor] = redone.values
        if signed.marginals is not None:
            signed.marginals[poor] = redone.marginals
        return replace(signed, n_fallback=poor.size)

    @abstractmethod
    def _signed_permanents(self, weights: FloatArray, job: Job) -> Permanents:
        """Return permanents with residuals, good or bad."""
