"""Training on data in parts: from disk and on Dask beside memory.

20,000 queries of 100 documents with 136 features: 2.2 GB as float64.  The files are made
once in the folder of temporary files, and removed.  A rival here is the same sum in memory
on two threads, in a process of its own.
"""

import json
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.harness import Report, milliseconds, run_python

N_DOCUMENTS, N_FEATURES = 100, 136

# Best time of an evaluation and of a Hessian, of both forms, and memory above imports.
_SIDE = """
import json
from benchmarks.bench_parts import measure_side
print(json.dumps(measure_side({kind!r}, {folder!r}, {n_queries}, {repeats})))
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


def measure_side(kind, folder, n_queries, repeats):
    """Return the best times of one side and its peak memory above imports, in bytes."""
    import time

    import permatch as pm
    from benchmarks.harness import memory_bytes
    from permatch.distributed import open_queries

    model = pm.RankMatch(n_jobs=1 if kind == "dask" else 2)
    small = lists(4)
    model.fit(*small)  # compiles, and loads what it needs
    import pyarrow.parquet  # noqa: F401

    before, began = memory_bytes("VmHWM"), time.perf_counter()
    closing = []
    if kind == "memory":
        parts = [lists(n_queries // 20, first=k * (n_queries // 20)) for k in range(20)]
        data = [np.concatenate(column) for column in zip(*parts, strict=True)]
        del parts
    elif kind == "disk":
        data = [folder, "grade", "query"]
    else:
        import dask.dataframe as dd
        from distributed import Client, LocalCluster

        cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
        client = Client(cluster)
        closing = [client, cluster]
        data = [dd.read_parquet(folder), "grade", "query"]
    opened = open_queries(*data)
    problem = model._problem(opened.shards, model.n_jobs)
    found = {"opened": time.perf_counter() - began}
    coef = np.full(N_FEATURES, 0.05)
    for name, form in (("exact", None), ("profile", "profile")):
        objective = problem.objective(1.0, form)
        found[name] = []
        for _ in range(repeats):
            began = time.perf_counter()
            value, grad = objective.value_and_grad(coef)
            found[name].append(time.perf_counter() - began)
    began = time.perf_counter()
    problem.objective(1.0, "profile").hessian(coef)
    found["hessian"] = time.perf_counter() - began
    found["memory"] = memory_bytes("VmHWM") - before
    found["value"], found["forms"] = value, problem.fitted["forms_"]
    for one in closing:
        one.close()
    return found


def measure(kind, folder, n_queries, repeats):
    """Measure one side in a process of its own."""
    code = _SIDE.format(kind=kind, folder=str(folder), n_queries=n_queries, repeats=repeats)
    return json.loads(run_python(code).splitlines()[-1])


def run(is_quick: bool) -> Report:
    n_queries, repeats = (2_000, 3) if is_quick else (20_000, 5)
    n_bytes = 8 * n_queries * N_DOCUMENTS * N_FEATURES
    report = Report(
        f"Data in parts: {n_queries:,} queries x {N_DOCUMENTS} documents x {N_FEATURES} "
        f"features, {n_bytes / 1e9:.2f} GB"
    )
    with tempfile.TemporaryDirectory() as folder:
        write_folder(folder, n_queries)
        sides = {
            kind: measure(kind, folder, n_queries, repeats)
            for kind in ("memory", "disk", "dask")
        }
    best = {kind: min(found["exact"]) for kind, found in sides.items()}
    spread = {
        kind: f"{max(found['exact']) / min(found['exact']):.2f}"
        for kind, found in sides.items()
    }
    memory = sides["memory"]
    same = f"values differ by {abs(sides['disk']['value'] / memory['value'] - 1):.0e}"
    report.add(
        "Dask, LocalCluster(n_workers=2), overhead per evaluation",
        "in memory, two threads",
        milliseconds(best["dask"]),
        milliseconds(best["memory"]),
        1e3 * (best["dask"] - best["memory"]),
        "ms",
        100.0,
        accuracy=f"values differ by {abs(sides['dask']['value'] / memory['value'] - 1):.0e}",
        spread=f"{spread['dask']}, {spread['memory']}",
    )
    report.add(
        "from Parquet on disk, an evaluation, cache warm",
        "in memory, two threads",
        milliseconds(best["disk"]),
        milliseconds(best["memory"]),
        best["disk"] / best["memory"],
        "of memory",
        3.0,
        accuracy=same,
        spread=f"{spread['disk']}, {spread['memory']}",
    )
    report.add(
        "from Parquet on disk, memory above import",
        "the data as float64",
        f"{sides['disk']['memory'] / 1e9:.2f} GB",
        f"{n_bytes / 1e9:.2f} GB",
        sides["disk"]["memory"] / 1e9,
        "GB",
        1.5,
    )
    report.add(
        "from Parquet on disk, until the first evaluation",
        "in memory",
        f"{sides['disk']['opened']:.1f} s",
        f"{memory['opened']:.1f} s",
        sides["disk"]["opened"],
        "s",
        None,
        note="decodes, checks and writes the rows once",
    )
    return report
