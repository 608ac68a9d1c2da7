"""Exact answers where nodes may stay unmatched or edges are few, against pyehm's EHM2."""

import sys

import numpy as np

import permatch as pm
from benchmarks.harness import (
    Report,
    against_slow,
    milliseconds,
    race,
    run_python,
    spreads,
    timed,
)
from benchmarks.rivals import ehm2
from benchmarks.sparse_graphs import band, small_components
from permatch.scores import check_problem

FREE = {"unmatched_left": 0.0, "unmatched_right": 0.0}
#: How many times faster at each size, and how often the rival can be run.
DENSE = {10: (200.0, 5), 12: (300.0, 3), 14: (400.0, 2), 16: (500.0, 1)}

PEAK = """
import numpy as np
from benchmarks.bench_partial import solve
from benchmarks.harness import memory_bytes
from benchmarks.sparse_graphs import bytes_of, small_components

rng = np.random.default_rng(0)
solve(small_components(1000, rng))  # compiles, and loads what it needs
edges = small_components({n}, rng)
before = memory_bytes("VmRSS")
solve(edges)
print((memory_bytes("VmHWM") - before) / bytes_of(edges))
"""


def run(is_quick: bool) -> Report:
    report = Report("Partial and sparse matchings, exact, one thread")
    rng = np.random.default_rng(7)
    repeats = 3 if is_quick else 7
    _dense(report, rng, is_quick)
    _band(report, rng, is_quick)
    _rectangles(report, rng, is_quick)
    _small_components(report, rng, is_quick)
    scores = band(200, 6, rng)
    (ours,) = race(lambda: pm.infer(scores), repeats=repeats)
    _add_seconds(report, "perfect, band of 13, 200 x 200", ours, 0.1, pm.infer(scores))
    _capacities(report, rng, repeats)
    return report


def solve(edges: pm.EdgeScores):
    """Return log Z, marginals and mode of edges whose nodes may stay unmatched."""
    law = pm.MatchingDistribution(edges, **FREE)
    return law.log_partition, law.marginals, law.mode()


def _capacities(report, rng, repeats):
    """Add a band whose right nodes may have two links, which are counted."""
    scores = band(200, 6, rng)
    several = {**FREE, "capacity_right": 2}
    (ours,) = race(lambda: pm.infer(scores, **several), repeats=repeats)
    answer = pm.infer(scores, **several)
    what = "right nodes with two links, band of 13, 200 x 200"
    sums = answer.marginals.sum(axis=1) + answer.unmatched_left
    accuracy = f"left sums within {np.abs(sums - 1.0).max():.0e} of 1"
    note = f"{answer.diagnostics.figures['width']} bits per state"
    _add_seconds(report, what, ours, 0.5, answer, note=note, accuracy=accuracy)


def _dense(report, rng, is_quick):
    """Add dense squares in which everybody may stay unmatched."""
    missing = ehm2.why_missing()
    for size, (target, rounds) in list(DENSE.items())[: 1 if is_quick else None]:
        scores = rng.normal(size=(size, size))
        what = f"dense partial, {size} x {size}"
        if missing:
            (ours,) = race(lambda s=scores: pm.infer(s, **FREE))
            _add_seconds(report, what, ours, None, pm.infer(scores, **FREE), note=missing)
            continue
        ours, theirs, expected = against_slow(
            lambda s=scores: pm.infer(s, **FREE), lambda s=scores: ehm2.marginals(s), rounds
        )
        found = pm.infer(scores, **FREE).marginals
        report.add(
            what,
            "pyehm EHM2",
            milliseconds(ours.best),
            milliseconds(theirs.best),
            theirs.best / ours.best,
            "times faster",
            target,
            is_lower_better=False,
            accuracy=f"marginals differ by {np.abs(found - expected).max():.0e}",
            spread=spreads(ours, theirs),
        )
    scores = rng.normal(size=(12, 12) if is_quick else (20, 20))
    (ours,) = race(lambda: pm.infer(scores, **FREE), repeats=1 if is_quick else 3)
    answer = pm.infer(scores, **FREE)
    what, target = f"dense partial, {len(scores)} x {len(scores)}", 1.0
    _add_seconds(report, what, ours, None if is_quick else target, answer)


def _band(report, rng, is_quick):
    """Add a band; the rival, whose time grows faster than the band, gets a part of it."""
    size, part = (100, 14) if is_quick else (1000, 100)
    scores = band(size, 6, rng)
    (ours,) = race(lambda: pm.infer(scores, **FREE), repeats=3)
    answer = pm.infer(scores, **FREE)
    theirs, note = "", ehm2.why_missing()
    if not note:
        corner = scores[:part, :part]
        timing, expected = timed(lambda: ehm2.marginals(corner))
        found = pm.infer(corner, **FREE).marginals
        theirs = f"{milliseconds(timing.best)} for {part} x {part}"
        wide = band(100, 3, rng, spread=10.0)
        is_nan = np.isnan(ehm2.marginals(wide)[wide > -np.inf]).mean()
        own = np.isnan(pm.infer(wide, **FREE).marginals).mean()
        note = (
            f"marginals of the part differ by {np.abs(found - expected).max():.0e}; "
            f"band of 7, 100 x 100, scores N(0, 10^2): {is_nan:.0%} of EHM2's marginals "
            f"are NaN, {own:.0%} of ours"
        )
    what = f"partial, band of 13, {size} x {size}"
    target = None if is_quick else 0.3
    _add_seconds(report, what, ours, target, answer, "pyehm EHM2", theirs, note)


def _rectangles(report, rng, is_quick):
    """Add graphs of unequal sides, the larger one free to stay unmatched."""
    for shape, target in (((5, 30), 2e-4), ((10, 200), 15e-3)):
        scores = rng.normal(size=shape)
        (ours,) = race(lambda s=scores: pm.infer(s), repeats=9 if is_quick else 99)
        what = f"{shape[0]} x {shape[1]}, larger side free"
        _add_seconds(report, what, ours, target, pm.infer(scores))


def _small_components(report, rng, is_quick):
    """Add a large table that falls into small pieces: time, and memory of its own."""
    n = 3000 if is_quick else 100_000
    edges = small_components(n, rng)
    what = f"{n:,} + {n:,} nodes, {len(edges):,} edges in small components"
    (ours,) = race(lambda: solve(edges), repeats=3)
    answer = pm.infer(edges, **FREE)
    rows = np.bincount(edges.left, answer.marginals, n) + answer.unmatched_left
    n_parts = len(check_problem(edges, **FREE)[0].structure.components)
    accuracy = f"rows sum to 1 within {np.abs(rows - 1).max():.0e}"
    _add_seconds(
        report, f"{what}: log Z, marginals, mode", ours, None if is_quick else 1.0, answer,
        accuracy=accuracy, note=f"{n_parts:,} components",
    )  # fmt: skip
    if sys.platform == "linux":
        grown = float(run_python(PEAK.format(n=n)))
        target = None if is_quick else 20.0
        report.add(f"{what}: peak memory", "none", "", "", grown, "of the edges", target)


def _add_seconds(
    report, what, ours, target, answer, rival="none", theirs="", note="", accuracy=""
):
    """Add a row whose figure is a time."""
    report.add(
        what,
        rival,
        milliseconds(ours.best),
        theirs,
        ours.best,
        "s",
        target,
        accuracy=accuracy or ("exact" if answer.is_exact else "NOT EXACT"),
        spread=f"{ours.spread:.2f}",
        note=note,
    )
