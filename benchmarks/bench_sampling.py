"""Exact independent samples."""

import numpy as np

import permatch as pm
from benchmarks.harness import Report, milliseconds, race


def run(is_quick: bool) -> Report:
    report = Report(
        "Exact samples: 100,000 at m = 20 on one thread, the table built before"
    )
    rng = np.random.default_rng(3)
    n = 100_000
    for spread in (0.5, 1.0, 5.0):
        d = pm.MatchingDistribution(spread * rng.normal(size=(20, 20)))
        (build,) = race(lambda d=d: pm.inference.SamplingTable.build(d.scores), repeats=3)
        (ours,) = race(lambda d=d: d.sample(n, rng=0), repeats=3 if is_quick else 7)
        drawn = d.sample(n, rng=0)
        frequency = np.array(
            [np.bincount(drawn[:, i], minlength=20) / n for i in range(20)]
        )
        report.add(
            f"spread {spread:g}",
            "none",
            milliseconds(ours.best),
            "",
            ours.best / n * 1e6,
            "us each",
            3.0,
            accuracy=f"edge frequencies within {np.abs(frequency - d.marginals).max():.4f}",
            spread=f"{ours.spread:.2f}",
            note=f"the table took {milliseconds(build.best)}",
        )
    return report
