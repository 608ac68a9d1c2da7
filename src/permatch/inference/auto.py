"""The engine that chooses an engine."""

from dataclasses import dataclass, replace

from permatch._types import FloatArray, IntArray
from permatch.inference.base import AbstractEngine, Job
from permatch.inference.glynn import Glynn
from permatch.inference.result import StackResult
from permatch.inference.small_batch import SmallBatch


@dataclass(frozen=True, kw_only=True)
class AutoEngine(AbstractEngine):
    """Pick the fastest exact engine for each graph size, and say so in the diagnostics.

    ==========  ==============  =======================================================
    size        engine          why
    ==========  ==============  =======================================================
    0 to 8      `SmallBatch`    one graph per SIMD lane
    9 to 30     `Glynn`         fewest operations; falls back to `SubsetDP` if its own
                                check says digits were lost
    above 30    none            `SizeLimitError` with the cost and the alternatives
    ==========  ==============  =======================================================

    Parameters
    ----------
    max_size : int
        Largest graph accepted.
    """

    max_size: int = 30
    name = "auto"

    def select(self, size: int) -> AbstractEngine:
        """Return the engine used for graphs of this size."""
        small = SmallBatch()
        return small if size <= small.max_size else Glynn(max_size=self.max_size)

    def log2_seconds(self, size: int) -> float:
        """Estimate log2 of the seconds one graph takes on one thread."""
        return self.select(size).log2_seconds(size)

    def log2_bytes(self, size: int) -> float:
        """Estimate log2 of the bytes one graph needs."""
        return self.select(size).log2_bytes(size)

    def _infer_stack(self, scores: FloatArray, members: IntArray, job: Job) -> StackResult:
        size = scores.shape[1]
        engine = self.select(size)
        result = engine._infer_stack(scores, members, job)
        reason = f"auto: the fastest exact engine at size {size} is {engine.name}"
        return replace(result, diagnostics=replace(result.diagnostics, reason=reason))
