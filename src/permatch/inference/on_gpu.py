"""Arrays that lie on a GPU, for engines that compute there."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from permatch._parallel import Job
from permatch._progress import progress_bar
from permatch._validation import check_batch
from permatch.cuda.arrays import log_permanents
from permatch.cuda.dlpack import View, view
from permatch.cuda.driver import require_device
from permatch.cuda.sums import GLYNN_FROM
from permatch.errors import DeviceError, ScoreShapeError
from permatch.inference.answer import Diagnostics, InferenceResult
from permatch.inference.exact import EXACT_TOL, SignedSumEngine


@contextmanager
def shown(
    engine: SignedSumEngine, size: int, n_graphs: int, job: Job
) -> Iterator[Callable[[float], None] | None]:
    """Yield what shows the share that is done, if that is wanted."""
    seconds = n_graphs * 2.0 ** engine.log2_seconds(size)
    title = f"{type(engine).__name__}, size {size}"
    with progress_bar(title, 100, seconds, job.progress) as on_progress:
        yield None if on_progress is None else lambda share: on_progress(int(100 * share))


def infer_squares(engine: SignedSumEngine, scores: Any, job: Job) -> InferenceResult:
    """Solve a square, or a stack of squares, that lies on the GPU."""
    found = view(scores)
    shape = found.shape
    if len(shape) not in (2, 3) or shape[-1] != shape[-2]:
        raise ScoreShapeError(
            "scores on a GPU must be a square (m, m) or a stack of them (b, m, m); got "
            f"shape {shape}. Copy other graphs to the processor."
        )
    if found.device != (current := require_device().number):
        raise DeviceError(
            f"the scores must lie on the current CUDA device, {current}; they lie on "
            f"{found.device}. Make that one the current one, as by torch.cuda.set_device."
        )
    engine.check_size(shape[-1])
    if len(shape) == 3:
        return _infer_stack(engine, found, job)
    return _infer_stack(engine, found.stacked(), job).graph(0)


def _infer_stack(engine: SignedSumEngine, scores: View, job: Job) -> InferenceResult:
    """Solve a stack where it lies; graphs that lose digits are solved by the processor."""
    n_graphs, size = scores.shape[:2]
    if size < GLYNN_FROM or not n_graphs:
        host = scores.download(require_device())
        return engine.infer(host, n_jobs=job.n_jobs, progress=job.progress)
    start = time.perf_counter()
    with shown(engine, size, n_graphs, job) as show:
        log_partition, marginals, residuals = log_permanents(scores, show)
    is_poor = ~(residuals <= engine.tol_at(size))
    is_exact = bool((residuals[~is_poor] <= EXACT_TOL).all())
    if is_poor.any():  # NaN, or nothing feasible, is found out there too
        host = scores.download(require_device())
        check_batch(host)
        again = engine.infer(host[is_poor], n_jobs=job.n_jobs, progress=job.progress)
        log_partition[is_poor], marginals[is_poor] = again.log_partition, again.marginals
        is_exact &= again.is_exact
    residual = float(residuals[~is_poor].max(initial=0.0))
    told = Diagnostics(
        engine.name, "asked for", size, n_graphs, residual, n_fallback=int(is_poor.sum())
    )
    told = replace(told, seconds=time.perf_counter() - start)
    nobody = np.zeros((n_graphs, size))
    return InferenceResult(
        log_partition,
        marginals,
        is_exact,
        told,
        unmatched_left=nobody,
        unmatched_right=nobody,
    )
