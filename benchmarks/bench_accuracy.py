"""Accuracy as the spread of the scores grows, beside the rival's on the same weights."""

import numpy as np

import permatch as pm
from benchmarks.harness import Report


def run(is_quick: bool) -> Report:
    from thewalrus import perm

    report = Report(
        "Accuracy: error of log Z at m = 16 (exact: positive sums), three graphs each"
    )
    rng = np.random.default_rng(1)
    for spread in (1.0, 5.0, 20.0, 100.0):
        ours, theirs = [], []
        for _ in range(3):
            scores = spread * rng.normal(size=(16, 16))
            exact = pm.infer(scores, "subset_dp").log_partition
            ours.append(abs(pm.infer(scores, "glynn").log_partition - exact))
            with np.errstate(all="ignore"):
                permanent = perm(np.exp(scores))
                if not np.isfinite(permanent):
                    theirs.append(str(permanent))
                elif permanent <= 0:
                    theirs.append(f"negative ({permanent:.0e})")
                else:
                    theirs.append(f"{abs(np.log(permanent) - exact):.0e}")
        report.add(
            f"spread {spread:g}",
            "thewalrus perm",
            f"{max(ours):.0e}",
            ", ".join(theirs),
            max(ours),
            "error",
            1e-10,
        )
    return report
