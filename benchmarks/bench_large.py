"""Past the exact sizes: samplers, Bethe and the certified shortcut, on one thread."""

import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np

import permatch as pm
from benchmarks.harness import Report, milliseconds, race, spreads
from benchmarks.rivals.adapart import AdaPart

PLOT = Path("benchmarks/error_against_time.png")


def run(is_quick: bool) -> Report:
    report = Report("Graphs past the exact sizes, one thread")
    repeats = 3 if is_quick else 7
    rng = np.random.default_rng(4)
    _certified_estimates(report, rng, repeats)
    for size, limit in ((30, 3.0), (50, 8.0)):
        scores = 2.0 * rng.normal(size=(size, size))
        engine = pm.Nesting(tol=0.01)
        (ours,) = race(lambda s=scores, e=engine: e.infer(s), repeats=repeats)
        told = engine.infer(scores).diagnostics
        report.add(
            f"scores N(0, 2^2), m = {size}, marginals to 0.01",
            "HuberLaw gets no sample",
            milliseconds(ours.best),
            _huber_law_accepts(scores),
            ours.best,
            "s",
            limit,
            accuracy=f"largest standard error {told.marginal_error:.4f}",
            spread=f"{ours.spread:.2f}",
        )
    scores = 2.0 * rng.normal(size=(200, 200))
    (ours,) = race(lambda: pm.Bethe().infer(scores), repeats=repeats)
    told = pm.Bethe().infer(scores).diagnostics
    width = told.interval[1] - told.interval[0]
    report.add(
        "Bethe with its interval, m = 200", "none", milliseconds(ours.best), "",
        ours.best, "s", 0.2, accuracy=f"interval of width {width:.1f}",
        spread=f"{ours.spread:.2f}",
    )  # fmt: skip
    for what, scores in peaked_graphs(rng).items():
        (ours,) = race(lambda s=scores: pm.Sparsified().infer(s), repeats=repeats)
        told = pm.Sparsified().infer(scores).diagnostics
        report.add(
            f"certified shortcut, m = 200, {what}", "none", milliseconds(ours.best), "",
            ours.best, "s", 1.0, accuracy=f"bound {told.marginal_error:.0e} (1e-9 wanted)",
            spread=f"{ours.spread:.2f}",
        )  # fmt: skip
    _budgets(report, is_quick)
    _errors_against_time(report, is_quick)
    return report


def peaked_graphs(rng):
    """Return scores (200, 200) with a planted diagonal, and in forty blocks, shuffled."""
    planted = rng.normal(size=(200, 200)) + 40.0 * np.eye(200)
    blocks = rng.normal(size=(200, 200)) - 200.0
    for k in range(0, 200, 5):
        blocks[k : k + 5, k : k + 5] += 200.0
    return {
        name: scores[rng.permutation(200)][:, rng.permutation(200)]
        for name, scores in (("planted diagonal", planted), ("forty blocks", blocks))
    }


def _certified_estimates(report, rng, repeats):
    """Race the two samplers to a relative error of 0.1 with probability 0.95."""
    scores = np.log(rng.uniform(size=(50, 50)))
    nesting = pm.Nesting(certificate="rigorous", tol=None, epsilon=0.1, delta=0.05)
    plain = pm.HuberLaw(epsilon=0.1, delta=0.05)
    # What is random in the work of a sampler is averaged over seeds.
    engines = [
        [replace(e, random_state=seed) for seed in range(5)] for e in (nesting, plain)
    ]
    ours, theirs = race(
        *(lambda es=es: [e.infer(scores) for e in es] for es in engines), repeats=repeats
    )
    told = nesting.infer(scores).diagnostics
    rival = plain.infer(scores).diagnostics
    report.add(
        "uniform weights, m = 50, (0.1, 0.05)",
        "plain HuberLaw",
        milliseconds(ours.best / 5),
        milliseconds(theirs.best / 5),
        theirs.best / ours.best,
        "times faster",
        4.0,
        is_lower_better=False,
        accuracy=f"{told.interval_certificate}, {rival.interval_certificate}",
        spread=spreads(ours, theirs),
    )


def _budgets(report, is_quick):
    """Add by how much `auto` overruns its budget, kernels warm."""
    rng = np.random.default_rng(6)
    for graph in _unlike_graphs(rng, 40).values():
        _auto_seconds(graph, 1.0)
    for size in (200,) if is_quick else (200, 500, 1000):
        shortest = pm.Bethe.least_seconds(size)  # shorter ones are refused
        budgets = (shortest, 0.5, 2.0) if is_quick else (shortest, 0.5, 2.0, 5.0)
        for what, scores in _unlike_graphs(rng, size).items():
            _auto_seconds(scores, shortest)  # loads kernels that other graphs do not need
            taken = [_auto_seconds(scores, budget) for budget in budgets]
            report.add(
                f"auto, m = {size}, {what}",
                f"budgets of {', '.join(f'{budget:.2g}' for budget in budgets)} s",
                ", ".join(map(milliseconds, taken)),
                "",
                max(t / budget for t, budget in zip(taken, budgets, strict=True)),
                "of the budget",
                1.5,
            )


def _unlike_graphs(rng, size):
    """Return scores (size, size) that keep engines busy in different ways."""
    apart = np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    return {
        "equal scores": np.zeros((size, size)),
        "scores 0 and 1": (rng.random((size, size)) < 0.5).astype(float),
        "spread 5": 5.0 * rng.normal(size=(size, size)),
        "spread 100": 100.0 * rng.normal(size=(size, size)),
        "band of 13": np.where(apart <= 6, rng.normal(size=(size, size)), -np.inf),
    }


def _auto_seconds(scores, budget):
    """Return the seconds `auto` takes, by the clock on the wall."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        start = time.perf_counter()
        pm.AutoEngine(budget=budget).infer(scores)
        return time.perf_counter() - start


def _huber_law_accepts(scores):
    try:
        told = pm.HuberLaw(n_samples=2, max_trials=100_000).infer(scores).diagnostics
    except pm.errors.PrecisionError:
        return "0 of 100,000 trials"
    return f"{told.acceptance:.1e} of trials"


def _errors_against_time(report, is_quick):
    """Add what every engine gets wrong for its time at m = 20, and plot it."""
    rng = np.random.default_rng(5)
    points = {}
    for spread in (1.0,) if is_quick else (0.5, 1.0, 2.0, 5.0):
        scores = spread * rng.normal(size=(20, 20))
        exact = pm.infer(scores, "glynn")
        for name, engines in _engines(is_quick).items():
            for engine in engines:
                try:
                    (timing,) = race(lambda s=scores, e=engine: e.infer(s), repeats=1)
                    result = engine.infer(scores)
                except pm.errors.PrecisionError:
                    continue
                error = float(np.abs(result.marginals - exact.marginals).max())
                points.setdefault((spread, name), []).append((timing.best, error))
    for (spread, name), found in points.items():
        seconds, error = found[-1]
        report.add(
            f"m = 20, spread {spread:g}: {name}", "exact (glynn)", milliseconds(seconds),
            "", error, "largest error of a marginal", None,
            accuracy=", ".join(f"{e:.1e} in {milliseconds(s)}" for s, e in found[:-1]),
        )  # fmt: skip
    _plot(points)


def _engines(is_quick):
    """Return every approximate engine with more and more work."""
    work = (1, 4) if is_quick else (1, 4, 16)
    return {
        "bethe": [pm.Bethe()],
        "nesting": [pm.Nesting(n_samples=4000 * k) for k in work],
        "huber_law": [pm.HuberLaw(n_samples=500 * k, max_trials=5_000_000) for k in work],
        "adapart": [AdaPart(n_samples=50 * k, max_trials=100_000) for k in work[:2]],
        "swap_chain": [pm.SwapChain(n_sweeps=1000 * k) for k in work],
    }


def _plot(points):
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return
    by_spread = sorted({spread for spread, _ in points})
    figure = Figure(figsize=(4 * len(by_spread), 3.6), layout="constrained")
    axes = figure.subplots(1, len(by_spread), sharey=True, squeeze=False)[0]
    markers = dict(zip(_engines(True), "osD^v", strict=True))
    for axis, spread in zip(axes, by_spread, strict=True):
        for (at, name), found in points.items():
            if at == spread:
                axis.loglog(*zip(*found, strict=True), marker=markers[name], label=name)
        axis.set(title=f"scores N(0, {spread:g}²)", xlabel="seconds, one thread")
    axes[0].set_ylabel("largest error of a marginal")
    axes[0].legend(fontsize="small")
    figure.suptitle("Error against time at m = 20")
    figure.savefig(PLOT, dpi=150)
