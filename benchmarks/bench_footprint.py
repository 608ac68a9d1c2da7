"""Memory of the default engine, import time and the one cold compilation."""

import sys
import tempfile

from benchmarks.harness import Report, run_python

# Numba imports half of itself (57 MB) when a compiled function is first called; that is
# import, too.
MEMORY = """
import numpy as np
import permatch as pm
from benchmarks.harness import memory_bytes
from permatch.inference import Glynn
from numba.core.registry import cpu_target
cpu_target.typing_context.refresh()
cpu_target.target_context.refresh()
before = memory_bytes("VmHWM")
pm.infer(np.random.default_rng(0).normal(size=(24, 24)), "glynn", n_jobs=2)
print((memory_bytes("VmHWM") - before) / 2**20)
"""

IMPORT = """
import time
start = time.perf_counter()
import permatch
print(time.perf_counter() - start)
"""

FIRST = """
import time
import numpy as np
import permatch as pm
scores = np.random.default_rng(0).normal(size=(12, 12))
start = time.perf_counter()
pm.infer(scores)
print(time.perf_counter() - start)
"""


def run(is_quick: bool) -> Report:
    report = Report("Footprint (each in a fresh interpreter)")
    if sys.platform == "linux":
        run_python(MEMORY)  # fills the cache of compiled kernels
        grown = [float(run_python(MEMORY)) for _ in range(3)]
        report.add(
            "peak memory of Glynn, m = 24, above the imports",
            "none",
            "",
            "",
            max(grown),
            "MB",
            50.0,
        )
    times = [float(run_python(IMPORT)) for _ in range(5)]
    report.add("import permatch", "none", "", "", min(times), "s", 0.7)
    cold, warm = float("inf"), float("inf")
    for _ in range(1 if is_quick else 3):
        with tempfile.TemporaryDirectory() as empty:
            cold = min(cold, float(run_python(FIRST, NUMBA_CACHE_DIR=empty)))
            warm = min(warm, float(run_python(FIRST, NUMBA_CACHE_DIR=empty)))
    report.add(
        "first answer, kernels compiled (once per machine)", "none", "", "", cold, "s", 15.0
    )
    report.add("first answer, kernels read from disk", "none", "", "", warm, "s", None)
    return report
