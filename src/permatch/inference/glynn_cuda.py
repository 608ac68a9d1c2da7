"""Glynn's formula on an NVIDIA GPU."""

from dataclasses import dataclass

from permatch.errors import InvalidOptionError
from permatch.inference.exact import EXACT_TOL
from permatch.inference.glynn import Glynn


@dataclass(frozen=True, kw_only=True)
class GlynnCuda(Glynn):
    """`Glynn` on a GPU: ``Glynn(device="cuda")`` with the sizes and digits of a GPU.

    Parameters
    ----------
    max_size : int
        Largest graph accepted; time doubles with every node.
    tol : float
        Largest residual accepted for graphs too large for `SubsetDP`, to which smaller ones
        fall back from 1e-10; above that a result does not count as exact.
    device : "cuda"
        Where it computes.

    Examples
    --------
    >>> import permatch as pm
    >>> pm.GlynnCuda()
    GlynnCuda(max_size=40, tol=1e-08, device='cuda')
    """

    max_size: int = 40
    tol: float = 1e-8
    device: str = "cuda"
    name = "glynn_cuda"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.device != "cuda":
            raise InvalidOptionError(
                f"device of GlynnCuda must be 'cuda'; got {self.device!r}. Use Glynn."
            )

    def tol_at(self, size: int) -> float:
        """Return the largest residual accepted for graphs of a size."""
        is_small = size <= self.fallback.max_size
        return min(self.tol, EXACT_TOL) if is_small else self.tol
