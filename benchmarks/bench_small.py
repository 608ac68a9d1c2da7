"""A hundred thousand small graphs in one call, against np.exp of the same array."""

import numpy as np

import permatch as pm
from benchmarks.arithmetic import small_floor
from benchmarks.harness import Report, milliseconds, race, spreads

TARGETS = {3: 3.0, 4: 3.0, 5: 3.0, 6: None, 7: None, 8: 12.0}


def run(is_quick: bool) -> Report:
    report = Report(
        "100,000 small graphs in one call, one thread (rival: np.exp of the scores)"
    )
    rng = np.random.default_rng(2)
    for size, target in TARGETS.items():
        scores = rng.normal(size=(100_000, size, size))
        out = np.empty_like(scores)
        ours, theirs = race(
            lambda scores=scores: pm.infer(scores),
            lambda scores=scores, out=out: np.exp(scores, out=out),
            repeats=5 if is_quick else 15,
        )
        found = pm.infer(scores[:50])
        exact = pm.infer(scores[:50], "enumeration")
        floor = len(scores) * small_floor(size)
        report.add(
            f"m = {size}",
            "np.exp",
            milliseconds(ours.best),
            milliseconds(theirs.best),
            ours.best / theirs.best,
            "of rival",
            target,
            accuracy=f"marginals {np.abs(found.marginals - exact.marginals).max():.0e}",
            spread=spreads(ours, theirs),
            note=f"arithmetic alone would take {milliseconds(floor)}, "
            f"{floor / ours.best:.0%} of the time",
        )
    return report
