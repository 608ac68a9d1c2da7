"""Engines with signed sums: they watch their error and fall back to positive sums."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from numbers import Real

from permatch._types import FloatArray
from permatch.errors import InvalidOptionError, PrecisionError
from permatch.inference.base import Job
from permatch.inference.scaling import Permanents, ScaledEngine
from permatch.inference.subset_dp import SubsetDP

#: The largest residual with which an answer still counts as exact.
EXACT_TOL = 1e-10


@dataclass(frozen=True, kw_only=True)
class SignedSumEngine(ScaledEngine):
    """A scaled engine that may lose digits to cancellation and can tell how many.

    Parameters
    ----------
    tol : float
        Largest residual accepted; graphs above it are done again by `SubsetDP`.
    """

    tol: float = EXACT_TOL

    def __post_init__(self) -> None:
        super().__post_init__()
        if (
            isinstance(self.tol, bool)
            or not isinstance(self.tol, Real)
            or not 0 <= self.tol < 1
        ):
            raise InvalidOptionError(
                f"tol of {type(self).__name__} must be a number from 0 to 1, got "
                f"{self.tol!r}."
            )

    def _permanents(self, weights: FloatArray, job: Job) -> Permanents:
        signed = self._signed_permanents(weights, job)
        residuals = signed.residuals
        if residuals is None:  # an engine with signed sums has to watch itself
            raise TypeError(f"{type(self).__name__} returned no residuals")
        is_poor = ~(residuals <= self.tol)
        is_exact = bool((residuals[~is_poor] <= EXACT_TOL).all())
        if not is_poor.any():
            return replace(signed, is_exact=is_exact)
        size = weights.shape[1]
        positive = SubsetDP()
        if size > positive.max_size:
            raise PrecisionError(
                f"{type(self).__name__} promises a residual of at most {self.tol:g}, got "
                f"{residuals.max():.2g} at size {size}, where the fallback to SubsetDP "
                "would need too much memory. Accept it with "
                f"{type(self).__name__}(tol=...), or fix known edges "
                "(given={row: col}) to make the graph smaller."
            )
        redone = positive._permanents(weights[is_poor], job)
        signed.values[is_poor] = redone.values
        if signed.marginals is not None:
            signed.marginals[is_poor] = redone.marginals
        return replace(signed, n_fallback=int(is_poor.sum()), is_exact=is_exact)

    @abstractmethod
    def _signed_permanents(self, weights: FloatArray, job: Job) -> Permanents:
        """Return permanents with residuals, good or bad."""
