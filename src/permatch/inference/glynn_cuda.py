"""Glynn's formula on an NVIDIA GPU."""

from dataclasses import dataclass

from permatch.inference.glynn import Glynn


@dataclass(frozen=True, kw_only=True)
class GlynnCuda(Glynn):
    """`Glynn` on a GPU: ``Glynn(device="cuda")`` with the sizes and digits of a GPU.

    Parameters
    ----------
    max_size : int
        Largest graph accepted; time doubles with every node.
    tol : float
        Largest residual accepted before falling back to `SubsetDP`; above 1e-10 the result
        does not count as exact.
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
