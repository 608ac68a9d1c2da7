"""How much memory there is, and that engines refuse to take more."""

import math

import numpy as np
import pytest
from scipy import sparse

import permatch as pm
from permatch import _memory
from permatch._memory import available_memory, held_bytes
from permatch.errors import SizeLimitError
from permatch.inference import SamplingTable, all_matchings
from permatch.queries import check_queries

GIB = 2.0**30


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


MEMINFO = {"proc/meminfo": "MemTotal: 16777216 kB\nMemAvailable:  8388608 kB\n"}
V2 = {
    "proc/self/cgroup": "0::/a/b\n",
    "sys/fs/cgroup/a/b/memory.max": "max\n",
    "sys/fs/cgroup/a/b/memory.current": "0\n",
    "sys/fs/cgroup/a/memory.max": f"{4 * 2**30}\n",
    "sys/fs/cgroup/a/memory.current": f"{3 * 2**30}\n",
    "sys/fs/cgroup/a/memory.stat": f"anon 5\ninactive_file {2**30}\n",
}
V1 = {
    "proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/elsewhere\n0::/\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{2**30}\n",
    "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{2**29}\n",
}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param(MEMINFO, 8 * GIB, id="no control group"),
        pytest.param(MEMINFO | V2, 2 * GIB, id="version 2, limit above"),
        pytest.param(MEMINFO | V1, GIB / 2, id="version 1, seen as the root"),
        pytest.param(
            MEMINFO | V1 | {"sys/fs/cgroup/memory/memory.usage_in_bytes": f"{2**31}"},
            0.0,
            id="limit exceeded",
        ),
    ],
)
def test_available_memory(tmp_path, files, expected):
    assert available_memory(write(tmp_path, files)) == expected


def test_without_meminfo_it_is_all_there_is(tmp_path, monkeypatch):
    counts = {"SC_PHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr("os.sysconf", counts.__getitem__, raising=False)
    assert available_memory(tmp_path) == 4_096_000


def test_where_nothing_is_known_nothing_is_refused(tmp_path, monkeypatch):
    monkeypatch.delattr("os.sysconf", raising=False)
    assert available_memory(tmp_path) == math.inf


def test_this_machine_has_some():
    assert available_memory() > 0


@pytest.fixture
def one_gib(monkeypatch, tmp_path):
    meminfo = {"proc/meminfo": "MemAvailable: 1048576 kB\n"}
    monkeypatch.setattr(_memory, "_ROOT", write(tmp_path, meminfo))


@pytest.mark.usefixtures("one_gib")
@pytest.mark.parametrize(
    ("engine", "size", "needed"),
    [
        (pm.SubsetDP(max_size=31), 31, "32 GiB"),
        (pm.SubsetDP(max_size=27), 27, "2.0 GiB"),
        (pm.Bethe(max_size=5000), 4000, "1.9 GiB"),
        (pm.Nesting(particles=100_000), 1000, "3.2 GiB"),
        (pm.HuberLaw(n_samples=10**8), 20, "GiB"),
    ],
)
def test_engines_refuse_with_both_figures(engine, size, needed):
    with pytest.raises(SizeLimitError, match=rf"{needed}.*about 1.0 GiB are available"):
        engine.check_size(size)


@pytest.mark.usefixtures("one_gib")
def test_every_thread_needs_its_own():
    engine = pm.SubsetDP(max_size=26)
    engine.check_size(25)
    with pytest.raises(SizeLimitError, match=r"4 of them at a time.*n_jobs"):
        engine.check_size(25, 4)


@pytest.mark.usefixtures("one_gib")
def test_arrays_are_refused_with_both_figures():
    wanted = [
        lambda: SamplingTable.build(np.zeros((28, 28))),
        lambda: SamplingTable.build(np.zeros((3, 3))).sample(
            10**9, np.random.default_rng(0)
        ),
        lambda: pm.k_best(np.zeros((20, 20)), 10**7),
        lambda: all_matchings(13),
    ]
    for ask in wanted:
        with pytest.raises(SizeLimitError, match=r"needs .* GiB .* 1 GiB are available"):
            ask()


@pytest.mark.usefixtures("one_gib")
def test_enumeration_takes_little_memory_at_any_size():
    pm.Enumeration(max_size=13).check_size(13)


def test_enumeration_block_by_block_agrees_with_subset_dp(rng, monkeypatch):
    monkeypatch.setattr("permatch.inference.enumeration._ROWS_AT_ONCE", 3)
    scores = 3.0 * rng.normal(size=(7, 7))
    scores[rng.random((7, 7)) < 0.4] = -np.inf
    np.fill_diagonal(scores, -20.0)
    found, expected = pm.Enumeration().infer(scores), pm.SubsetDP().infer(scores)
    assert found.log_partition == pytest.approx(expected.log_partition, abs=1e-12)
    assert found.marginals == pytest.approx(expected.marginals, abs=1e-12)


def test_bytes_are_found_at_any_depth():
    queries = check_queries(np.zeros((40, 6)), np.arange(40) % 3, np.arange(40) // 10)
    arrays = queries.documents, queries.grades, queries.starts, queries.ids, queries.weights
    n_bytes = sum(own.nbytes for own in arrays)
    assert held_bytes(queries) == n_bytes
    assert held_bytes([(queries, {"a": queries})] * 1000) == 2000 * n_bytes
    stored = sparse.csr_array(np.eye(50))
    own = stored.data.nbytes + stored.indices.nbytes + stored.indptr.nbytes
    assert held_bytes(stored) == own
    assert held_bytes(("text", None, 3.0, [])) == 0
