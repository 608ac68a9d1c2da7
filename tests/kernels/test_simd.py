"""Vectors as wide as the machine's: same answers, never each other's compiled code."""

import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from numba import njit
from numba.core import config
from numba.core.codegen import get_host_cpu_features

import permatch as pm
from permatch.kernels.intrinsics import WIDTH, load, store, total
from permatch.kernels.small_batch import exp_in_place, log_in_place

NARROW = ",".join(
    feature.replace("+avx512", "-avx512")
    for feature in (config.CPU_FEATURES or get_host_cpu_features()).split(",")
)

ANSWER = """
import json, sys
import numpy as np
import permatch as pm
from permatch.kernels.intrinsics import WIDTH
stack, one = map(np.array, json.load(sys.stdin))
small = pm.infer(stack, "small_batch")
glynn = pm.infer(one, "glynn")
print(json.dumps([
    WIDTH, small.log_partition.tolist(), small.marginals.tolist(),
    glynn.log_partition, glynn.marginals.tolist(),
]))
"""

CACHED = """
import numpy as np
from permatch.kernels.nesting import make_scratch
from permatch.kernels.intrinsics import WIDTH
shape = make_scratch(1).forward.shape
stats = make_scratch.stats
print(WIDTH, shape[1], sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


def run(code, given="", **env):
    return subprocess.run(
        [sys.executable, "-c", code],
        input=given,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


@pytest.mark.slow
def test_narrow_vectors_give_the_same_answers(rng):
    stack, one = rng.normal(size=(11, 3, 3)), rng.normal(size=(9, 9))
    given = json.dumps([stack.tolist(), one.tolist()])
    width, *answers = json.loads(run(ANSWER, given, NUMBA_CPU_FEATURES=NARROW))
    assert width == 4
    small, glynn = pm.infer(stack, "small_batch"), pm.infer(one, "glynn")
    # One graph per lane: equal to the last bit.
    assert answers[0] == small.log_partition.tolist()
    assert answers[1] == small.marginals.tolist()
    # Sums over lanes are added in another order.
    assert answers[2] == pytest.approx(glynn.log_partition, rel=1e-14)
    np.testing.assert_allclose(answers[3], glynn.marginals, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.skipif(WIDTH == 4, reason="this machine's vectors are narrow anyway")
def test_compiled_code_of_another_width_is_not_used(tmp_path):
    cache = {"NUMBA_CACHE_DIR": str(tmp_path)}
    assert run(CACHED, **cache).split() == ["8", "8", "0", "1"]
    assert run(CACHED, **cache, NUMBA_CPU_FEATURES=NARROW).split() == ["4", "4", "0", "1"]
    assert run(CACHED, **cache).split() == ["8", "8", "1", "0"]


def test_exponentials_and_logarithms_are_right_to_the_last_place(rng):
    x = np.concatenate([[0.0, -1e-300, -np.inf, -700.0], -rng.exponential(5.0, 4092)])
    found = x.copy()
    exp_in_place(found, len(x))
    np.testing.assert_array_max_ulp(found, np.array([*map(math.exp, x)]), maxulp=1)
    x = np.concatenate([[1.0, 1e-150, 40320.0, 2.0], np.exp(rng.normal(0.0, 3.0, 4092))])
    found = x.copy()
    log_in_place(found, len(x))
    np.testing.assert_array_max_ulp(found, np.array([*map(math.log, x)]), maxulp=1)


def test_total_adds_a_whole_vector():
    @njit
    def add_up(x):
        store(x, 0, load(x, 0) + load(x, 0))
        return total(load(x, 0))

    assert add_up(np.arange(WIDTH, dtype=float)) == WIDTH * (WIDTH - 1)
