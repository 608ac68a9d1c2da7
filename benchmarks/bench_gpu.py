"""Exact sums on one GPU: whole graphs, batches through a loss, and next to the processor.

Times are those of CUDA events around a call, the median of at least twenty, after a few
calls that are not timed.  Calls that are not differentiated are in PyTorch's inference
mode.  Needs PyTorch with CUDA: ``python -m benchmarks --only gpu --out
benchmarks/results_gpu.json``.
"""

import math
import statistics
import time
from collections.abc import Callable

import numpy as np

import permatch as pm
from benchmarks.harness import Report, race

REPEATS = 20
RESIDUAL = 1e-8

#: Nodes per side, and the milliseconds allowed.
GRAPHS = {30: 15.0, 36: 1200.0, 40: 22_000.0}
#: Graphs, nodes per side, and the milliseconds allowed forward and backward.
BATCHES = ((4096, 16, 6.0), (100_000, 8, 3.0))
#: Graphs, nodes per side: at least so many times the speed of two threads.
AGAINST_CPU = ((1, 24, 100.0), (1, 28, 100.0), (32, 24, 100.0))


def run(quick: bool) -> Report:
    """Measure on the current CUDA device."""
    import torch

    report = Report(
        f"One GPU ({torch.cuda.get_device_name()}, PyTorch {torch.__version__})"
    )
    rng = np.random.default_rng(0)
    _single_graphs(report, rng, quick)
    for n_graphs, size, most in BATCHES:
        _batch(report, n_graphs, size, most)
    for n_graphs, size in ((100_000, 8), (4096, 16), (1, 24), (1, 30)):
        _double_backward(report, n_graphs, size)
    for n_graphs, size, least in AGAINST_CPU:
        _against_cpu(report, rng, n_graphs, size, least)
    for size in (16, 20, 24):
        _against_piquasso(report, rng, size)
    return report


def _single_graphs(report: Report, rng: np.random.Generator, quick: bool) -> None:
    import torch

    for size, most in GRAPHS.items():
        if quick and size > 36:
            continue
        for kind in ("normal", "flat"):
            scores = (
                rng.normal(size=(size, size))
                if kind == "normal"
                else np.zeros((size, size))
            )
            table = torch.tensor(scores, device="cuda")
            if kind == "flat":  # the hardest: digits go where terms cancel
                found, seconds = _infer(table), []
            else:
                found, seconds = _timed(lambda table=table: _infer(table))
            rows = float((found.marginals.sum(-1) - 1.0).abs().max())
            columns = float((found.marginals.sum(-2) - 1.0).abs().max())
            accuracy = f"rows and columns off by {max(rows, columns):.1g}"
            what = f"one graph, m = {size}, {kind} scores: log-partition and marginals"
            if kind == "flat":
                error = abs(float(found.log_partition) - math.lgamma(size + 1))
                report.add(
                    what, "", "", "", max(rows, columns), "residual", RESIDUAL,
                    accuracy=f"log-partition off by {error:.1g}",
                )  # fmt: skip
                continue
            report.add(
                what, "", _ms(seconds), "", _median(seconds), "ms", most,
                accuracy=accuracy, spread=_spread(seconds),
            )  # fmt: skip


def _batch(report: Report, n_graphs: int, size: int, most: float) -> None:
    import torch

    from permatch.nn import MatchingNLL

    scores, loss = _scores(n_graphs, size), MatchingNLL()
    labels = torch.argsort(torch.rand(n_graphs, size, device="cuda"), dim=1)

    def step() -> torch.Tensor:
        scores.grad = None
        value = loss(scores, labels)
        value.backward()
        return value

    value, seconds = _timed(step)
    some = slice(0, 64)
    numbers = scores[some].detach().cpu().numpy()
    own = pm.infer(list(numbers)).marginals
    chosen = np.stack([np.eye(size)[row] for row in labels[some].cpu().numpy()])
    error = np.abs(
        n_graphs * scores.grad[some].cpu().numpy() - (np.stack(own) - chosen)
    ).max()
    report.add(
        f"{n_graphs:,} graphs, m = {size}: MatchingNLL, forward and backward",
        "", _ms(seconds), "", _median(seconds), "ms", most,
        accuracy=f"gradient off by {error:.1g}", spread=_spread(seconds),
    )  # fmt: skip


def _double_backward(report: Report, n_graphs: int, size: int) -> None:
    import torch

    from permatch.nn import log_partition

    scores = _scores(n_graphs, size)
    along = torch.randn_like(scores)

    def backward() -> torch.Tensor:
        return torch.autograd.grad(log_partition(scores).sum(), scores)[0]

    (slope,) = torch.autograd.grad(log_partition(scores).sum(), scores, create_graph=True)

    def twice() -> torch.Tensor:
        return torch.autograd.grad(slope, scores, along, retain_graph=True)[0]

    _, once = _timed(backward)
    _, again = _timed(twice)
    report.add(
        f"{n_graphs:,} graph{'s' * (n_graphs > 1)}, m = {size}: double backward",
        "forward and backward", _ms(again), _ms(once), _median(again) / _median(once),
        "times", 4.0, spread=_spread(again),
    )  # fmt: skip


def _against_cpu(
    report: Report, rng: np.random.Generator, n_graphs: int, size: int, least: float
) -> None:
    import torch

    scores = rng.normal(size=(n_graphs, size, size))
    table = torch.tensor(scores, device="cuda")
    found, seconds = _timed(lambda: _infer(table))
    (cpu,) = race(lambda: pm.infer(scores, n_jobs=2), repeats=7)
    error = np.abs(found.marginals.cpu().numpy() - pm.infer(scores).marginals).max()
    report.add(
        f"{n_graphs} graph{'s' * (n_graphs > 1)}, m = {size}",
        "pm.infer, two threads of the same machine",
        _ms(seconds), f"{1e3 * cpu.best:.1f} ms", 1e3 * cpu.best / _median(seconds),
        "times as fast", least, is_lower_better=False,
        accuracy=f"marginals differ by {error:.1g}", spread=_spread(seconds),
    )  # fmt: skip


def _against_piquasso(report: Report, rng: np.random.Generator, size: int) -> None:
    import torch

    scores = rng.normal(size=(size, size))
    table = torch.tensor(scores, device="cuda")
    found, seconds = _timed(lambda: _infer(table))
    what = f"one graph, m = {size}: ours with all marginals, theirs the permanent alone"
    for rival, start in (
        ("piquasso, GPU", _piquasso_gpu),
        ("piquasso, CPU", _piquasso_cpu),
    ):
        try:
            permanent = start(np.exp(scores))
            value = permanent()
        except Exception as err:
            why = f"{type(err).__name__}: {err}".splitlines()[0][:120]
            note = f"not run: {why}"
            report.add(what, rival, _ms(seconds), "", None, "", None, note=note)
            continue
        taken = []
        for _ in range(REPEATS if size <= 20 else 3):
            start_time = time.perf_counter()
            permanent()
            taken.append(1e3 * (time.perf_counter() - start_time))
        error = abs(math.log(value.real) - float(found.log_partition))
        report.add(
            what, rival, _ms(seconds), _ms(taken), _median(taken) / _median(seconds),
            "times as fast", None, is_lower_better=False,
            accuracy=f"logarithms differ by {error:.1g}", spread=_spread(seconds),
        )  # fmt: skip


def _piquasso_gpu(weights: np.ndarray) -> Callable[[], complex]:
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp
    from piquasso.jax_extensions import permanent

    if not permanent._gpu:
        raise RuntimeError("its GPU extension did not load")
    ones = jnp.ones(len(weights), dtype=jnp.uint64)
    matrix = jnp.asarray(weights, dtype=jnp.complex128)
    call = jax.jit(permanent.perm)
    return lambda: complex(call(matrix, ones, ones))


def _piquasso_cpu(weights: np.ndarray) -> Callable[[], complex]:
    from piquasso._math.permanent import permanent

    ones = np.ones(len(weights), dtype=np.int32)
    matrix = weights.astype(np.complex128)
    return lambda: complex(permanent(matrix, ones, ones))


def _infer(table):
    """Return values that nobody differentiates."""
    import torch

    from permatch.nn import infer

    with torch.inference_mode():
        return infer(table)


def _scores(n_graphs: int, size: int):
    import torch

    torch.manual_seed(0)
    shape = (n_graphs, size, size)
    return torch.randn(*shape, dtype=torch.float64, device="cuda", requires_grad=True)


def _timed(call: Callable[[], object]) -> tuple[object, list[float]]:
    """Return what a call returns, and the milliseconds of many."""
    import torch

    for _ in range(3):
        start = time.perf_counter()
        found = call()
        if time.perf_counter() - start > 3.0:  # warm long before it ends
            break
    taken = []
    for _ in range(REPEATS):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        found = call()
        last.record()
        torch.cuda.synchronize()
        taken.append(first.elapsed_time(last))
    return found, taken


def _median(milliseconds: list[float]) -> float:
    return statistics.median(milliseconds)


def _ms(milliseconds: list[float]) -> str:
    return f"{_median(milliseconds):.3g} ms"


def _spread(milliseconds: list[float]) -> str:
    return f"{max(milliseconds) / min(milliseconds):.2f}"
