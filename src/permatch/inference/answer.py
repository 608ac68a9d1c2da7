"""The result of inference: one type, from the engines to the user.

`InferenceResult` holds the result for one graph, a stack of graphs of one size, or a list.
Engines solve problems, edges (E,) -> (n_graphs,) and (E,), and stacks of dense squares,
(b, m, m) -> (b,) and (b, m, m); those that take squares one by one combine their results by
`stack`.  `Diagnostics` reports how the result was found and what
is known about its error.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Diagnostics:
    """How a result was found and what is known about its error.

    Attributes
    ----------
    engine : str
        Name of the engine that computed the result.
    choice : str
        Why this engine was used.
    size : int
        Nodes per side; the largest size if there are several.
    n_graphs : int
        Number of graphs.
    residual : float or None
        Largest relative disagreement among quantities that are equal in exact arithmetic,
        over all graphs: about the absolute error of marginals, not the relative error of
        tiny ones.  None for engines that only add positive numbers.
    n_fallback : int
        Graphs whose residual exceeded the tolerance and that were solved by `SubsetDP`.
    seconds : float
        Wall time, including scaling.
    parts : tuple of Diagnostics
        One per graph size if there are several, otherwise empty.
    certificate : str
        The guarantee: "exact" (up to rounding), "rigorous" (a bound that holds, or holds
        with the stated probability), "asymptotic" (standard errors, valid for many
        samples), "heuristic" (none).
    interval : pair of floats or None
        Lower and upper end for the log-partition, of the widest graph; see
        `interval_certificate`.
    interval_certificate : str
        "rigorous" or "asymptotic"; "" without an interval.
    delta : float
        Probability that a rigorous interval fails; 0 for deterministic bounds.
    log_partition_error : float or None
        Largest standard error of a log-partition, if known.
    marginal_error : float or None
        Largest standard error of a marginal, or a bound on the error.
    n_samples : int
        Draws over all graphs; 0 for engines that do not sample.
    effective_samples : float or None
        Fewest effective samples of a graph: the number of equally informative independent
        draws.
    acceptance : float or None
        Smallest acceptance rate of a graph, for engines that reject draws.
    r_hat : float or None
        Largest disagreement between chains; 1 if they agree.
    is_converged : bool
        Whether the engine reached its tolerance.
    steps : tuple of Diagnostics
        The engines `auto` tried in turn; otherwise empty.
    notes : tuple of str
        Remarks of the engine.
    figures : mapping from str
        Measurements specific to the engine, for a single graph: `SwapChain` has the inverse
        temperatures of its rungs (``betas``), their ``exchange_rates``, ...

    Examples
    --------
    >>> import numpy as np
    >>> import permatch as pm
    >>> told = pm.infer(np.zeros((12, 12))).diagnostics
    >>> told.engine, told.certificate, told.size, told.is_converged
    ('glynn', 'exact', 12, True)
    """

    engine: str
    choice: str
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
    notes: tuple[str, ...] = ()
    figures: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def reason(self) -> str:
        """Why this engine was used, and its remarks."""
        return "; ".join(filter(None, (self.choice, *self.notes)))

    @property
    def is_trusted(self) -> bool:
        """Whether something stands behind the errors."""
        return self.certificate != "heuristic"

    @property
    def is_settled(self) -> bool:
        """Whether the errors are known and within the tolerance."""
        return self.is_trusted and self.is_converged

    def shifted(self, offset: float) -> "Diagnostics":
        """Return the diagnostics with `offset` added to the log-partition.

        That holds for `steps` too, but not for `parts`: these are other graphs, or
        components, whose share in the offset is not known.
        """
        ends = self.interval
        return replace(
            self,
            interval=None if ends is None else (ends[0] + offset, ends[1] + offset),
            steps=tuple(step.shifted(offset) for step in self.steps),
        )


@dataclass(frozen=True, eq=False)
class InferenceResult:
    """Log-partition and marginals, shaped like the scores.

    Attributes
    ----------
    log_partition : float or ndarray of shape (b,)
        A float for one graph, an array for a stack or a list of b graphs.
    marginals : ndarray, sparse array, list of these, or None
        Probability of every edge, in the form of the scores: (n, k) for an array, (b, n, k)
        for a stack, sparse for a sparse array, one number per edge for `EdgeScores`, a list
        for a list; None from engines that compute only the log-partition.
    is_exact : bool
        Whether the result is exact up to rounding.
    diagnostics : Diagnostics
        The engine used, why, and its own measure of error.
    log_partition_error : float, ndarray or None
        Standard error of every log-partition; None if unknown.
    marginal_errors : like `marginals`, or None
        Standard error of every marginal; None if unknown.
    unmatched_left, unmatched_right : ndarray, list of ndarray, or None
        Probability of every node of staying unmatched: (n,) and (k,) for one graph, (b, n)
        and (b, k) for a stack, a list for a list.
    marginal_bounds : pair like `marginals`, or None
        Lower and upper ends that hold for certain.
    unmatched_left_bounds, unmatched_right_bounds : pair like `unmatched_left`, or None
        Likewise.

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
    unmatched_left: Any = None
    unmatched_right: Any = None
    marginal_bounds: Any = None
    unmatched_left_bounds: Any = None
    unmatched_right_bounds: Any = None

    def graph(self, k: int) -> "InferenceResult":
        """Return the result for one graph of a stack; its diagnostics are the stack's."""

        def one(values: Any) -> Any:
            return None if values is None else values[k]

        def pair(ends: Any) -> Any:
            return None if ends is None else (one(ends[0]), one(ends[1]))

        error = one(self.log_partition_error)
        return replace(
            self,
            log_partition=float(self.log_partition[k]),
            marginals=one(self.marginals),
            log_partition_error=None if error is None else float(error),
            marginal_errors=one(self.marginal_errors),
            unmatched_left=one(self.unmatched_left),
            unmatched_right=one(self.unmatched_right),
            marginal_bounds=pair(self.marginal_bounds),
            unmatched_left_bounds=pair(self.unmatched_left_bounds),
            unmatched_right_bounds=pair(self.unmatched_right_bounds),
        )

    def shifted(self, offset: float) -> "InferenceResult":
        """Return the result with `offset` added to the log-partition."""
        return replace(
            self,
            log_partition=offset + self.log_partition,
            diagnostics=self.diagnostics.shifted(offset),
        )

    def told(self, **changes: Any) -> "InferenceResult":
        """Return the same result with other diagnostics."""
        return replace(self, diagnostics=replace(self.diagnostics, **changes))

    def reported(self, **changes: Any) -> "InferenceResult":
        """Return the result for one graph with its largest errors in its diagnostics."""
        error = self.log_partition_error
        return self.told(
            log_partition_error=None if error is None else float(error),
            marginal_error=None if self.marginal_errors is None else self.largest_error,
            **changes,
        )

    @property
    def largest_error(self) -> float:
        """The largest standard error of a marginal; 0 if exact, NaN if unknown."""
        if self.is_exact:
            return 0.0
        if self.marginal_errors is None:
            return float("nan")
        return float(self.marginal_errors.max(initial=0.0))


def stack(
    answers: Sequence[InferenceResult], shape: tuple[int, ...], empty: Diagnostics
) -> InferenceResult:
    """Combine the results for the graphs of a stack (b, m, m).

    Among inexact results, exact ones have errors of 0, and unknown errors are NaN.
    `empty` are the diagnostics of a stack without graphs.
    """
    is_exact = all(answer.is_exact for answer in answers)
    if not answers:
        is_exact = empty.certificate == "exact"

    def errors(name: str, shape: tuple[int, ...]) -> Any:
        values = [getattr(answer, name) for answer in answers]
        if is_exact or (answers and all(value is None for value in values)):
            return None
        filled = [
            np.full(shape[1:], 0.0 if answer.is_exact else np.nan)
            if value is None
            else value
            for answer, value in zip(answers, values, strict=True)
        ]
        return np.array(filled, dtype=float).reshape(shape)

    told = [answer.diagnostics for answer in answers]
    return InferenceResult(
        np.array([answer.log_partition for answer in answers], dtype=float),
        np.array([answer.marginals for answer in answers], dtype=float).reshape(shape),
        is_exact,
        merge(told) if told else empty,
        errors("log_partition_error", shape[:1]),
        errors("marginal_errors", shape),
    )


def merge(several: Sequence[Diagnostics]) -> Diagnostics:
    """Combine the diagnostics of several graphs or stacks: the worst of each."""
    if len(several) == 1:
        return several[0]
    known = [told for told in several if told.n_graphs]
    intervals = [told.interval for told in known if told.interval is not None]
    certificates = [
        told.interval_certificate for told in known if told.interval is not None
    ]
    return Diagnostics(
        engine=several[0].engine if several else "",
        choice=several[0].choice if several else "",
        size=max((told.size for told in several), default=0),
        n_graphs=sum(told.n_graphs for told in several),
        residual=_largest(told.residual for told in several),
        n_fallback=sum(told.n_fallback for told in several),
        seconds=sum(told.seconds for told in several),
        certificate=weakest(told.certificate for told in known),
        interval=max(intervals, key=lambda ends: ends[1] - ends[0], default=None),
        interval_certificate=weakest(certificates) if intervals else "",
        delta=max((told.delta for told in known), default=0.0),
        log_partition_error=_largest(told.log_partition_error for told in several),
        marginal_error=_largest(told.marginal_error for told in several),
        n_samples=sum(told.n_samples for told in several),
        effective_samples=_least(told.effective_samples for told in several),
        acceptance=_least(told.acceptance for told in several),
        r_hat=_largest(told.r_hat for told in several),
        is_converged=all(told.is_converged for told in several),
        notes=tuple(sorted({note for told in several for note in told.notes})),
    )


def merge_sizes(engine: str, parts: Sequence[Diagnostics]) -> Diagnostics:
    """Combine the diagnostics of stacks of several sizes, keeping each."""
    if len(parts) == 1:
        return parts[0]
    choice = "several sizes: see parts" if parts else "no graphs"
    return replace(merge(parts), engine=engine, choice=choice, parts=tuple(parts), notes=())


def put_in_list(
    engine: str,
    places: Sequence[Any],
    answers: Sequence[InferenceResult],
    n_graphs: int,
) -> InferenceResult:
    """Return the result for a list of graphs, from those for stacks and their places."""

    def numbers(name: str) -> Any:
        values = [getattr(answer, name) for answer in answers]
        if values and all(value is None for value in values):
            return None
        every = np.zeros(n_graphs)
        for members, value in zip(places, values, strict=True):
            if value is not None:  # an engine that knows of no error is exact here
                every[members] = value
        return every

    def tables(name: str, end: int | None = None) -> Any:
        values = [getattr(answer, name) for answer in answers]
        if end is not None:
            values = [None if ends is None else ends[end] for ends in values]
        if values and all(value is None for value in values):
            return None
        every: list[Any] = [None] * n_graphs
        for members, value in zip(places, values, strict=True):
            for k, member in enumerate(members):
                every[member] = None if value is None else value[k]
        return every

    def pairs(name: str) -> Any:
        low, high = tables(name, 0), tables(name, 1)
        return None if low is None else (low, high)

    return InferenceResult(
        numbers("log_partition"),
        tables("marginals"),
        all(answer.is_exact for answer in answers),
        merge_sizes(engine, [answer.diagnostics for answer in answers]),
        numbers("log_partition_error"),
        tables("marginal_errors"),
        tables("unmatched_left"),
        tables("unmatched_right"),
        pairs("marginal_bounds"),
        pairs("unmatched_left_bounds"),
        pairs("unmatched_right_bounds"),
    )


#: From the strongest certificate to the weakest.
CERTIFICATES = ("exact", "rigorous", "asymptotic", "heuristic")


def weakest(certificates: Iterable[str]) -> str:
    """Return the weakest of some certificates, by default "exact"."""
    return max(certificates, key=CERTIFICATES.index, default="exact")


def _largest(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.max(known)) if known else None  # NaN is the worst of all


def _least(values: Iterable[float | None]) -> float | None:
    return min((value for value in values if value is not None), default=None)
