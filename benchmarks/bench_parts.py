"""Training on data in parts: from disk and on Dask beside memory.

20,000 queries of 100 documents with 136 features: 2.2 GB as float64.  The files are made
once in the folder of temporary files, and removed.  The rival is the same sum in memory on
two threads; the sides take turns.
"""

import json
import tempfile
import time
from pathlib import Path

import numpy as np

import permatch as pm
from benchmarks.harness import (
    Report,
    Timing,
    memory_bytes,
    milliseconds,
    race,
    run_python,
    spreads,
)

N_DOCUMENTS, N_FEATURES = 100, 136

_TIMES = """
import json
from benchmarks.bench_parts import measure_times
print(json.dumps(measure_times({folder!r}, {n_queries}, {repeats})))
"""

_DISK = """
import json
from benchmarks.bench_parts import measure_disk
print(json.dumps(measure_disk({folder!r})))
"""


def lists(n_queries, seed=0, first=0):
    """Return some queries: features, grades and ids."""
    rng = np.random.default_rng([seed, first])
    X = rng.normal(size=(n_queries * N_DOCUMENTS, N_FEATURES))
    hidden = X[:, :20] @ np.linspace(-0.5, 0.5, 20) + rng.normal(size=len(X))
    y = np.digitize(hidden, [0.8, 1.6])
    return X, y, np.repeat(np.arange(first, first + n_queries), N_DOCUMENTS)


def write_folder(folder, n_queries, n_files=20):
    """Write the queries to Parquet files, with boundaries that cut queries."""
    import pyarrow as pa
    from pyarrow import parquet

    per_file = n_queries // n_files
    names = [f"f{j}" for j in range(N_FEATURES)]
    held = None
    for k in range(n_files):
        X, y, qid = lists(per_file, first=k * per_file)
        columns = [*X.T, y, qid]
        if held is not None:
            columns = [np.concatenate(pair) for pair in zip(held, columns, strict=True)]
        cut = len(columns[-1]) - (37 if k < n_files - 1 else 0)
        held = [column[cut:] for column in columns]
        table = pa.table(
            {
                name: column[:cut]
                for name, column in zip([*names, "grade", "query"], columns, strict=True)
            }
        )
        parquet.write_table(table, Path(folder, f"part.{k}.parquet"))


def problem_of(*data, n_jobs=2):
    """Return the problem that a fit of whole lists solves."""
    from permatch._tables import Roles

    X, *roles = data
    model = pm.RankMatch(n_jobs=n_jobs)
    _, shards = model._open(X, Roles(*roles), None)
    return model._problem(shards, n_jobs)


def measure_times(folder, n_queries, repeats):
    """Return the seconds of evaluations on every side, and how far values differ."""
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    per_part = n_queries // 20
    parts = [lists(per_part, first=k * per_part) for k in range(20)]
    held = problem_of(*map(np.concatenate, zip(*parts, strict=True)))
    del parts
    stored = problem_of(folder, "grade", "query")
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        spread_out = problem_of(dd.read_parquet(folder), "grade", "query", n_jobs=1)
        coef = np.full(N_FEATURES, 0.05)
        found = {}
        for name, form in (("exact", None), ("profile", "profile")):
            objectives = [p.objective(1.0, form) for p in (held, stored, spread_out)]
            timings = race(
                *(lambda o=o: o.value_and_grad(coef) for o in objectives),
                repeats=repeats if form is None else 3 * repeats,  # short ones are noisy
            )
            found[name] = [timing.seconds for timing in timings]
        found |= measure_dask(held, spread_out, coef, repeats)
        curved = [p.objective(1.0, "profile") for p in (held, stored, spread_out)]
        timings = race(*(lambda o=o: o.hessian(coef) for o in curved), repeats=1)
        found["hessian"] = [timing.seconds for timing in timings]
        values = [objective.value_and_grad(coef)[0] for objective in objectives]
    found["differences"] = [abs(value / values[0] - 1.0) for value in values]
    return found


def measure_dask(held, spread_out, coef, repeats):
    """Return what Dask adds: a pass that does nothing, and seconds of the processor.

    The latter, of the client and its workers, do not depend on who else uses the machine.
    """
    from distributed import get_client

    def processor():
        return time.process_time() + sum(get_client().run(time.process_time).values())

    used = []
    for problem in (held, spread_out):
        objective, own = problem.objective(1.0, "profile"), []
        for _ in range(repeats):
            began = processor()
            objective.value_and_grad(coef)
            own.append(processor() - began)
        used.append(min(own))
    (empty,) = race(lambda: spread_out.shards.map(do_nothing, coef), repeats=6 * repeats)
    return {"processor": used, "empty": empty.seconds}


def do_nothing(shard, coef):
    """Stand for an evaluation that takes no time."""


def measure_disk(folder):
    """Return the seconds until a fit begins, and the memory of it and an evaluation."""
    import pyarrow.parquet  # noqa: F401

    pm.RankMatch(n_jobs=2).fit(*lists(4))  # compiles, and loads what it needs
    before, began = memory_bytes("VmRSS"), time.perf_counter()
    objective = problem_of(folder, "grade", "query").objective(1.0)
    seconds = time.perf_counter() - began
    objective.value_and_grad(np.full(N_FEATURES, 0.05))
    return seconds, memory_bytes("VmHWM") - before


def run(is_quick: bool) -> Report:
    n_queries, repeats = (2_000, 3) if is_quick else (20_000, 5)
    n_bytes = 8 * n_queries * N_DOCUMENTS * N_FEATURES
    report = Report(
        f"Data in parts: {n_queries:,} queries x {N_DOCUMENTS} documents x {N_FEATURES} "
        f"features, {n_bytes / 1e9:.2f} GB"
    )
    with tempfile.TemporaryDirectory() as folder:
        write_folder(folder, n_queries)
        _measure(report, folder, n_queries, repeats, n_bytes)
    return report


def _measure(report: Report, folder, n_queries, repeats, n_bytes) -> None:
    more = {"folder": folder, "n_queries": n_queries, "repeats": repeats}
    times = json.loads(run_python(_TIMES.format(**more)).splitlines()[-1])
    seconds, memory = json.loads(run_python(_DISK.format(folder=folder)).splitlines()[-1])
    for form in ("exact", "profile"):
        _add_times(report, form, times)
    empty, (memory_used, dask_used) = Timing(tuple(times["empty"])), times["processor"]
    report.add(
        "Dask, LocalCluster(n_workers=2), a pass that computes nothing",
        "none",
        milliseconds(empty.best),
        "",
        1e3 * empty.best,
        "ms",
        100.0,
        spread=spreads(empty),
    )
    report.add(
        "Dask, LocalCluster(n_workers=2), profile form, processor seconds added",
        "in memory, two threads",
        milliseconds(dask_used),
        milliseconds(memory_used),
        1e3 * (dask_used - memory_used),
        "ms",
        None,
    )
    held, stored = (min(own) for own in times["hessian"][:2])
    report.add(
        "from Parquet on disk, second derivatives",
        "in memory, two threads",
        milliseconds(stored),
        milliseconds(held),
        stored / held,
        "of memory",
        None,
    )
    report.add(
        "from Parquet on disk, memory above import",
        "the data as float64",
        f"{memory / 1e9:.2f} GB",
        f"{n_bytes / 1e9:.2f} GB",
        memory / 1e9,
        "GB",
        1.5,
    )
    report.add(
        "from Parquet on disk, until the first evaluation",
        "none",
        f"{seconds:.1f} s",
        "",
        seconds,
        "s",
        None,
        note="decodes, checks and writes the rows once",
    )


def _add_times(report: Report, form: str, times) -> None:
    held, stored, spread_out = (Timing(tuple(own)) for own in times[form])
    _, of_disk, of_dask = (f"values differ by {own:.0e}" for own in times["differences"])
    report.add(
        f"Dask, LocalCluster(n_workers=2), {form} form, overhead per evaluation",
        "in memory, two threads",
        milliseconds(spread_out.best),
        milliseconds(held.best),
        1e3 * (spread_out.best - held.best),
        "ms",
        100.0,
        accuracy=of_dask,
        spread=spreads(spread_out, held),
    )
    report.add(
        f"from Parquet on disk, {form} form, an evaluation, cache warm",
        "in memory, two threads",
        milliseconds(stored.best),
        milliseconds(held.best),
        stored.best / held.best,
        "of memory",
        3.0,
        accuracy=of_disk,
        spread=spreads(stored, held),
    )
