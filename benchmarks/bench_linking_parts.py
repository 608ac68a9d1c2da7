"""Linking more pairs than are held in memory: from Parquet files, and on Dask."""

import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Report, run_python
from benchmarks.scored_pairs import simulate

_FILES = 20

# Times of the processor: others may use the machine.
_FROM_DISK = """
import json, time
import permatch as pm
from benchmarks.harness import memory_bytes
from permatch._shards import Passes

pm.link({{"left": [1, 1, 2], "right": [1, 2, 2], "probability": [0.5, 0.4, 0.3]}})
before, times = memory_bytes("VmRSS"), [time.process_time()]
start, begin = time.perf_counter(), Passes.begin
def noted(self):
    times.append(time.process_time())
    begin(self)
Passes.begin = noted
pm.link({!r}, out={!r})
times.append(time.process_time())
print(json.dumps([time.perf_counter() - start, times, memory_bytes("VmHWM") - before]))
"""

_ON_DASK = """
import json, time
import dask.dataframe
from distributed import Client, LocalCluster
import permatch as pm
from benchmarks.harness import memory_bytes

cluster = LocalCluster(n_workers={}, threads_per_worker=1, dashboard_address=None)
with cluster, Client(cluster):
    frame = dask.dataframe.read_parquet({!r})
    before, start = memory_bytes("VmRSS"), time.perf_counter()
    links = pm.link(frame, out={!r})
    seconds = time.perf_counter() - start
print(json.dumps([seconds, memory_bytes("VmHWM") - before]))
"""


def run(is_quick: bool) -> Report:
    report = Report("Linking in parts: scored pairs on disk and on Dask")
    n_pairs = 400_000 if is_quick else 10_000_000
    with tempfile.TemporaryDirectory() as folder:
        source = _write_pairs(Path(folder, "pairs"), n_pairs)
        what = f"{n_pairs:,} pairs"
        out = [str(Path(folder, name)) for name in ("disk", "one", "two")]
        seconds, times, peak = _told(_FROM_DISK.format(source, out[0]))
        report.add(
            f"link from disk, {what}, one thread",
            "none",
            f"{seconds:.0f} s",
            "",
            peak / 1e9,
            "GB of memory beside the package",
            None if is_quick else 3.0,
        )
        spent = np.diff(times)
        for part, own in (
            ("to find components and group pairs by them", spent[0]),
            (f"a pass that counts links, mean of {len(spent) - 2}", spent[1:-1].mean()),
            ("the last pass, which links and writes", spent[-1]),
        ):
            figure = 1e6 * own / n_pairs
            report.add(
                f"{part}, {what}", "none", f"{own:.1f} s", "", figure, "us a pair", None
            )
        one, _ = _told(_ON_DASK.format(1, source, out[1]))
        two, driver = _told(_ON_DASK.format(2, source, out[2]))
        is_same = _digest(out[1]) == _digest(out[2]) == _digest(out[0])
        report.add(
            f"link on Dask, two workers, {what}",
            "one worker",
            f"{two:.0f} s",
            f"{one:.0f} s",
            float(is_same),
            "same constant, exact probabilities and their decisions, to the last bit",
            1.0,
            is_lower_better=False,
            note=f"{driver / 1e9:.2f} GB in the process that asks for it",
        )
    return report


def _told(code: str) -> list[Any]:
    return json.loads(run_python(code).splitlines()[-1])


def _write_pairs(folder: Path, n_pairs: int) -> str:
    """Write pairs with text as ids to files of Parquet."""
    import pyarrow
    import pyarrow.parquet

    folder.mkdir()
    pairs = simulate(n_pairs, 2 * n_pairs // 5, np.random.default_rng(5))
    for k, rows in enumerate(np.array_split(np.arange(len(pairs.left)), _FILES)):
        table = {
            "unique_id_l": np.char.add("a", pairs.left[rows].astype(str)),
            "unique_id_r": np.char.add("b", pairs.right[rows].astype(str)),
            "match_weight": pairs.score[rows] / np.log(2.0),
        }
        pyarrow.parquet.write_table(pyarrow.table(table), folder / f"{k}.parquet")
    return str(folder)


def _digest(folder: str) -> str:
    """Return a text that tells the exact probabilities of two folders of links apart."""
    from pyarrow import dataset

    from permatch.linking.files import read_kept

    found = dataset.dataset(folder, format="parquet")
    columns = ["row", "probability", "decision", "is_exact", "low", "high"]
    digest = hashlib.sha256(str(read_kept(Path(found.files[0]))["offset"]).encode())
    for file in sorted(found.files):
        table = dataset.dataset(file).to_table(columns=columns).to_pandas()
        exact = table[table.is_exact]
        for name in columns[:2]:
            digest.update(exact[name].to_numpy().tobytes())
        digest.update("".join(exact.decision).encode())
    return digest.hexdigest()
