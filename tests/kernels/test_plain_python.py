"""The kernels run without the compiler too, for debuggers and coverage."""

import json
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

import permatch as pm
from tests.helpers import APPROXIMATE, ENGINES, ON_GPU, PARTIAL_ONLY
from tests.kernels.tangent_cases import every_way

# As little work as possible: without the compiler a draw takes a millisecond.
CASES = [*ENGINES, *(case for case in APPROXIMATE if case.engine.name != "auto")]
QUICK = {case.engine.name: case.quick or case.engine for case in CASES}
FREE = {case.engine.name: case.engine for case in PARTIAL_ONLY}

CODE = """
import json, sys, warnings
import numpy as np
import permatch as pm
from permatch.inference import ENGINES
from tests.kernels.tangent_cases import every_way
warnings.simplefilter("ignore")
scores, engines = json.load(sys.stdin)
scores = np.array(scores)
kinds = {kind.__name__: kind for kind in ENGINES.values()}
answers = {}
for name, (engine, free) in engines.items():
    result = eval(engine, kinds).infer(scores, unmatched_left=free, unmatched_right=free)
    marginals = None if result.marginals is None else result.marginals.tolist()
    answers[name] = (result.log_partition, marginals)
d = pm.MatchingDistribution(scores)
answers["sample"] = d.sample(3, rng=0).tolist()
answers["k_best"] = d.k_best(4).matchings.tolist()
several = {"unmatched_left": 0.0, "unmatched_right": 0.5, "capacity_right": 2}
answers["several"] = pm.infer(scores, "frontier", **several).marginals.tolist()
answers["tangents"] = [values.tolist() for values in every_way(scores)]
print(json.dumps(answers))
"""


@pytest.mark.slow
def test_plain_python_agrees_with_compiled_code(rng):
    on_gpu = {case.engine.name for case in ON_GPU}  # kernels of CUDA, not of Numba
    assert set(QUICK) | set(FREE) | on_gpu == set(pm.inference.ENGINES)
    scores = rng.normal(size=(4, 4))
    engines = {name: (repr(engine), None) for name, engine in QUICK.items()}
    engines |= {name: (repr(engine), 0.0) for name, engine in FREE.items()}
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        input=json.dumps([scores.tolist(), engines]),
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    answers = json.loads(done.stdout)
    for name, engine in (QUICK | FREE).items():
        log_partition, marginals = answers[name]
        free = engines[name][1]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # so few sweeps do not mix
            compiled = engine.infer(scores, unmatched_left=free, unmatched_right=free)
        # Long sums of the approximate ones differ by more than a rounding or two.
        rtol = 1e-14 if compiled.is_exact else 1e-12
        assert log_partition == pytest.approx(compiled.log_partition, rel=rtol)
        if engine.has_marginals:
            np.testing.assert_allclose(marginals, compiled.marginals, rtol=10 * rtol)
    d = pm.MatchingDistribution(scores)
    assert answers["sample"] == d.sample(3, rng=0).tolist()
    assert answers["k_best"] == d.k_best(4).matchings.tolist()
    several = {"unmatched_left": 0.0, "unmatched_right": 0.5, "capacity_right": 2}
    counted = pm.infer(scores, "frontier", **several).marginals
    np.testing.assert_allclose(answers["several"], counted, rtol=1e-13)
    for plain, compiled in zip(answers["tangents"], every_way(scores), strict=True):
        np.testing.assert_allclose(plain, compiled, atol=1e-14)
