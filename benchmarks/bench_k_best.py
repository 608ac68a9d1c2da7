"""The k best matchings, against Murty's algorithm by repeated SciPy solves."""

import numpy as np

import permatch as pm
from benchmarks.harness import Report, milliseconds, race, spreads
from benchmarks.rivals import murty_scipy


def run(is_quick: bool) -> Report:
    report = Report("The 100 best matchings (rival: Murty by repeated SciPy solves)")
    rng = np.random.default_rng(4)
    kinds = {
        "m = 50, normal scores": rng.normal(size=(50, 50)),
        "m = 50, uniform scores": rng.random((50, 50)),
        "m = 50, whole numbers, many ties": rng.integers(0, 10, size=(50, 50)).astype(
            float
        ),
    }
    for what, scores in kinds.items():
        ours, theirs = race(
            lambda scores=scores: pm.k_best(scores, 100),
            lambda scores=scores: murty_scipy.k_best(scores, 100),
            repeats=2 if is_quick else 5,
        )
        found = pm.k_best(scores, 100).scores
        _, expected = murty_scipy.k_best(scores, 100)
        report.add(
            what,
            "SciPy Murty",
            milliseconds(ours.best),
            milliseconds(theirs.best),
            theirs.best / ours.best,
            "times faster",
            8.0,
            is_lower_better=False,
            accuracy=f"score lists differ by {np.abs(found - expected).max():.0e}",
            spread=spreads(ours, theirs),
        )
    return report
