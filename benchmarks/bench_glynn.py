"""Log-partition and all marginals of one graph, against a public value-only permanent."""

import numpy as np

import permatch as pm
from benchmarks.arithmetic import glynn_floor
from benchmarks.harness import Report, milliseconds, race, spreads
from permatch._parallel import run_tasks

TARGETS = {1: 0.5, 2: 0.28}


def seconds_to_start() -> float:
    """Seconds to start one thread more, and to wait for its end."""
    few, many = race(
        lambda: run_tasks(lambda k: None, 2, 2),
        lambda: run_tasks(lambda k: None, 10, 10),
        repeats=99,
    )
    return (many.best - few.best) / 8


def run(is_quick: bool) -> Report:
    from thewalrus import perm

    report = Report("One graph: log-partition and all marginals (rival: the value alone)")
    rng = np.random.default_rng(0)
    for size in (20,) if is_quick else (20, 24):
        scores = rng.normal(size=(size, size))
        weights = np.exp(scores)
        one, two, theirs = race(
            lambda scores=scores: pm.infer(scores, "glynn", n_jobs=1),
            lambda scores=scores: pm.infer(scores, "glynn", n_jobs=2),
            lambda weights=weights: perm(weights),
            repeats=21 if size == 20 else 7,
        )
        found = pm.infer(scores, "glynn")
        exact = pm.infer(scores, "subset_dp")
        error = abs(found.log_partition - exact.log_partition)
        marginal_error = np.abs(found.marginals - exact.marginals).max()
        their_error = abs(np.log(perm(weights)) - exact.log_partition)
        accuracy = f"{error:.0e}, marginals {marginal_error:.0e}; theirs {their_error:.0e}"
        floor = glynn_floor(size)
        for n_jobs, ours in ((1, one), (2, two)):
            report.add(
                f"m = {size}, {n_jobs} thread{'s' * (n_jobs > 1)}",
                "thewalrus perm",
                milliseconds(ours.best),
                milliseconds(theirs.best),
                ours.best / theirs.best,
                "of rival",
                TARGETS[n_jobs],
                accuracy=accuracy,
                spread=spreads(ours, theirs),
                note=f"arithmetic alone would take {milliseconds(floor)}, "
                f"{floor / ours.best:.0%} of the time"
                if n_jobs == 1
                else f"starting a thread takes {milliseconds(seconds_to_start())}",
            )
    return report
