"""What inference returns."""

from dataclasses import dataclass
from typing import Any

from permatch._types import FloatArray


@dataclass(frozen=True)
class Diagnostics:
    """How an answer was found and what its engine knows about its error.

    Attributes
    ----------
    engine : str
        Name of the engine that computed the answer.
    reason : str
        Why this engine, in words.
    size : int
        Nodes per side; the largest one when graphs of several sizes were given.
    n_graphs : int
        Number of graphs answered together.
    residual : float or None
        Largest relative disagreement among quantities that are equal in exact arithmetic,
        over all graphs; None for engines that only add positive numbers and keep no such
        check.
    n_fallback : int
        Graphs whose residual was above the tolerance and that were done again by
        `SubsetDP`.
    seconds : float
        Wall time, scaling included.
    parts : tuple of Diagnostics
        One per graph size when graphs of several sizes were given, else empty.
    """

    engine: str
    reason: str
    size: int
    n_graphs: int = 1
    residual: float | None = None
    n_fallback: int = 0
    seconds: float = 0.0
    parts: tuple["Diagnostics", ...] = ()


@dataclass(frozen=True, eq=False)
class InferenceResult:
    """Log-partition and marginals, in the shape the scores came in.

    Attributes
    ----------
    log_partition : float or ndarray of shape (b,)
        A float for one (m, m) score matrix, an array for a stack or a list.
    marginals : ndarray, list of ndarray, or None
        Shape (m, m) for one score matrix, (b, m, m) for a stack, a list for a list of
        graphs; None from engines that compute the log-partition only.
    is_exact : bool
        Whether the answer is exact up to rounding.
    diagnostics : Diagnostics
        The engine used, why, and its own measure of error.
    """

    log_partition: Any
    marginals: Any
    is_exact: bool
    diagnostics: Diagnostics


@dataclass(frozen=True, eq=False)
class StackResult:
    """Answers for a stack of graphs of one size; `marginals` may be None."""

    log_partitions: FloatArray
    marginals: FloatArray | None
    diagnostics: Diagnostics
    is_exact: bool = True


def merge(engine: str, parts: list[Diagnostics]) -> Diagnostics:
    """Sum up the diagnostics of several stacks; one alone is returned as it is."""
    if len(parts) == 1:
        return parts[0]
    residuals = [part.residual for part in parts if part.residual is not None]
    return Diagnostics(
        engine=engine,
        reason="several sizes: see parts" if parts else "no graphs",
        size=max((part.size for part in parts), default=0),
        n_graphs=sum(part.n_graphs for part in parts),
        residual=max(residuals, default=None),
        n_fallback=sum(part.n_fallback for part in parts),
        seconds=sum(part.seconds for part in parts),
        parts=tuple(parts),
    )
