"""What inference returns."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
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
        over all graphs: about the absolute error of marginals, not the relative error of
        tiny ones.  None for engines that only add positive numbers and keep no such check.
    n_fallback : int
        Graphs whose residual was above the tolerance and that were done again by
        `SubsetDP`.
    seconds : float
        Wall time, scaling included.
    parts : tuple of Diagnostics
        One per graph size when graphs of several sizes were given, else empty.
    certificate : str
        What stands behind the answer: "exact" (up to rounding), "rigorous" (a bound that
        holds, or holds with the stated probability), "asymptotic" (standard errors that
        hold for many samples), "heuristic" (no statement about the error).
    interval : pair of floats or None
        Lower and upper end for the log-partition, of the widest graph; what they mean is
        said by `interval_certificate`.
    interval_certificate : str
        "" without an interval, else "rigorous" or "asymptotic".
    delta : float
        Probability with which a rigorous interval may miss; 0 for bounds that hold for
        certain.
    log_partition_error : float or None
        Largest standard error of a log-partition; None where there is none.
    marginal_error : float or None
        Largest standard error of a marginal, or a bound on their error.
    n_samples : int
        Draws made, over all graphs; 0 for engines that do not draw.
    effective_samples : float or None
        Fewest effective samples of a graph: as many independent draws would tell as much.
    acceptance : float or None
        Smallest share of draws accepted, of engines that reject.
    r_hat : float or None
        Largest disagreement between chains; 1 if they agree.
    is_converged : bool
        Whether the engine met its own tolerance.
    steps : tuple of Diagnostics
        What `auto` tried, one after the other; else empty.

    Examples
    --------
    >>> import numpy as np
    >>> import permatch as pm
    >>> told = pm.infer(np.zeros((12, 12))).diagnostics
    >>> told.engine, told.certificate, told.size, told.is_converged
    ('glynn', 'exact', 12, True)
    """

    engine: str
    reason: str
    size: int
    n_graphs: int = 1
    residual: float | None = None
    n_fallback: int = 0
    seconds: float = 0.0
    parts: tuple["Diagnostics", ...] = ()
    certificate: str = "exact"
    interval: tuple[float, float] | None = None
    interval_certificate: str = ""
    delta: float = 0.0
    log_partition_error: float | None = None
    marginal_error: float | None = None
    n_samples: int = 0
    effective_samples: float | None = None
    acceptance: float | None = None
    r_hat: float | None = None
    is_converged: bool = True
    steps: tuple["Diagnostics", ...] = ()

    def shifted(self, offset: float) -> "Diagnostics":
        """Return the diagnostics of scores to which `offset` was added in all."""
        ends = self.interval
        return replace(
            self,
            interval=None if ends is None else (ends[0] + offset, ends[1] + offset),
            parts=tuple(part.shifted(offset) for part in self.parts),
            steps=tuple(step.shifted(offset) for step in self.steps),
        )


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
    log_partition_error : float, ndarray or None
        Standard error of every log-partition, shaped like them; None from engines that
        have none.
    marginal_errors : ndarray, list of ndarray, or None
        Standard error of every marginal, shaped like them.

    Examples
    --------
    >>> import numpy as np
    >>> import permatch as pm
    >>> result = pm.infer(np.zeros((10, 3, 3)))  # a stack of ten graphs
    >>> result.log_partition.shape, result.marginals.shape, result.is_exact
    ((10,), (10, 3, 3), True)
    """

    log_partition: Any
    marginals: Any
    is_exact: bool
    diagnostics: Diagnostics
    log_partition_error: Any = None
    marginal_errors: Any = None


@dataclass(frozen=True, eq=False)
class StackResult:
    """Answers for a stack of graphs of one size.

    `marginals` may be None; so are the errors of engines that have none.
    """

    log_partitions: FloatArray
    marginals: FloatArray | None
    diagnostics: Diagnostics
    is_exact: bool = True
    log_partition_errors: FloatArray | None = None
    marginal_errors: FloatArray | None = None


def merge(engine: str, parts: list[Diagnostics]) -> Diagnostics:
    """Sum up the diagnostics of several stacks; one alone is returned as it is."""
    if len(parts) == 1:
        return parts[0]
    known = [part for part in parts if part.n_graphs]
    intervals = [part.interval for part in known if part.interval is not None]
    return Diagnostics(
        engine=engine,
        reason="several sizes: see parts" if parts else "no graphs",
        size=max((part.size for part in parts), default=0),
        n_graphs=sum(part.n_graphs for part in parts),
        residual=_worst(part.residual for part in parts),
        n_fallback=sum(part.n_fallback for part in parts),
        seconds=sum(part.seconds for part in parts),
        parts=tuple(parts),
        certificate=weakest(part.certificate for part in known),
        interval=max(intervals, key=lambda ends: ends[1] - ends[0], default=None),
        interval_certificate=weakest(
            part.interval_certificate for part in known if part.interval is not None
        )
        if intervals
        else "",
        delta=max((part.delta for part in known), default=0.0),
        log_partition_error=_worst(part.log_partition_error for part in parts),
        marginal_error=_worst(part.marginal_error for part in parts),
        n_samples=sum(part.n_samples for part in parts),
        effective_samples=min(
            (e for part in parts if (e := part.effective_samples) is not None), default=None
        ),
        acceptance=min(
            (a for part in parts if (a := part.acceptance) is not None), default=None
        ),
        r_hat=_worst(part.r_hat for part in parts),
        is_converged=all(part.is_converged for part in parts),
    )


#: From what holds for certain to what is said without a statement about its error.
CERTIFICATES = ("exact", "rigorous", "asymptotic", "heuristic")


def weakest(certificates: Iterable[str]) -> str:
    """Return the weakest of some certificates; "exact" of none."""
    return max(certificates, key=CERTIFICATES.index, default="exact")


def _worst(errors: Iterable[float | None]) -> float | None:
    return max((error for error in errors if error is not None), default=None)
