"""Intervals that hold for certain on graphs of any size: the path tree, one thread."""

import numpy as np

import permatch as pm
from benchmarks.harness import Report, milliseconds, race, timed
from benchmarks.sparse_graphs import random_edges

FREE = {"unmatched_left": 0.0, "unmatched_right": 0.0}
TARGETS = {0.1: 1.0, 0.01: 10.0}


def run(is_quick: bool) -> Report:
    report = Report("Path tree: intervals that hold for certain, log-odds N(-1, 2^2)")
    rng = np.random.default_rng(8)
    n = 2000 if is_quick else 100_000
    small, large = (random_edges(k, 4 * k, (-1.0, 2.0), rng) for k in (n, 2 * n))
    for tol, target in TARGETS.items():
        engine = pm.PathTree(tol=tol, sides="left")
        repeats = 1 if is_quick or tol < 0.1 else 5
        once, twice = race(
            lambda e=engine: e.infer(small, **FREE),
            lambda e=engine: e.infer(large, **FREE),
            repeats=repeats,
        )
        told, told_twice = (engine.infer(e, **FREE).diagnostics for e in (small, large))
        what = f"{n:,} + {n:,} nodes, {len(small):,} edges, tol {tol:g}"
        report.add(
            what,
            "none",
            milliseconds(once.best),
            "",
            once.best,
            "s",
            None if is_quick else target,
            accuracy=f"{told.certificate}, widest interval {told.figures['widest']:.3g}",
            spread=f"{once.spread:.2f}",
        )
        report.add(
            f"twice the nodes and edges, tol {tol:g}",
            "half as many",
            milliseconds(twice.best),
            milliseconds(once.best),
            twice.best / once.best,
            "times the time",
            None if is_quick else 2.5,
            accuracy=f"{told_twice.figures['steps'] / told.figures['steps']:.3g} times the "
            "steps",
            spread=f"{twice.spread:.2f}",
        )
    _holds(report, rng, 200 if is_quick else 10_000)
    return report


def _holds(report, rng, n_graphs):
    """Add how often an interval misses the exact answer, on graphs both engines can do."""
    graphs = [
        random_edges(int(n), int(2 * n), (-1.0, 2.0), rng)
        for n in rng.integers(2, 13, size=n_graphs)
    ]
    exact = pm.infer(graphs, "frontier", **FREE)
    engine = pm.PathTree(tol=0.01)
    ours, found = timed(lambda: engine.infer(graphs, **FREE))
    sums, reach = found.log_partition, found.log_partition_error
    misses, n_intervals, worst = 0, 0, -np.inf
    for truths, bounds in (
        (exact.marginals, found.marginal_bounds),
        (exact.unmatched_left, found.unmatched_left_bounds),
        (exact.unmatched_right, found.unmatched_right_bounds),
        ([exact.log_partition], ([sums - reach], [sums + reach])),
    ):
        truth, low, high = map(np.concatenate, (truths, *bounds))
        outside = np.maximum(low - truth, truth - high)
        misses += int((outside > 1e-12).sum())  # the exact answer is rounded
        n_intervals += len(truth)
        worst = max(worst, outside.max())
    report.add(
        f"{n_graphs:,} graphs of up to 12 + 12 nodes, tol 0.01",
        "frontier, exact",
        milliseconds(ours.best),
        "",
        misses,
        f"misses of {n_intervals:,} intervals",
        0,
        accuracy=f"none is outside by more than {max(worst, 0.0):.0e}",
    )
