"""The kernels run without the compiler too, for debuggers and coverage."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import permatch as pm
from tests.helpers import ENGINES

CODE = """
import json, sys
import numpy as np
import permatch as pm
scores = np.array(json.load(sys.stdin))
answers = {}
for name in pm.inference.ENGINES:
    result = pm.infer(scores, name)
    marginals = None if result.marginals is None else result.marginals.tolist()
    answers[name] = (result.log_partition, marginals)
d = pm.MatchingDistribution(scores)
answers["sample"] = d.sample(3, rng=0).tolist()
answers["k_best"] = d.k_best(4).matchings.tolist()
print(json.dumps(answers))
"""


def test_plain_python_agrees_with_compiled_code(rng):
    scores = rng.normal(size=(4, 4))
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        input=json.dumps(scores.tolist()),
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    answers = json.loads(done.stdout)
    for case in ENGINES:
        log_partition, marginals = answers[case.engine.name]
        compiled = case.engine.infer(scores)
        assert log_partition == pytest.approx(compiled.log_partition, rel=1e-14)
        if case.has_marginals:
            np.testing.assert_allclose(marginals, compiled.marginals, rtol=1e-13)
    d = pm.MatchingDistribution(scores)
    assert answers["sample"] == d.sample(3, rng=0).tolist()
    assert answers["k_best"] == d.k_best(4).matchings.tolist()
