"""The edges that lie in some perfect matching."""

import numpy as np
from hypothesis import given

import permatch as pm
from permatch.decoding import possible_edges
from tests.helpers import score_matrices


@given(scores=score_matrices())
def test_agrees_with_enumeration(scores):
    allowed = np.isfinite(scores)
    found = possible_edges(allowed, pm.best_matching(scores))
    counted = pm.Enumeration().infer(np.where(allowed, 0.0, -np.inf)).marginals
    np.testing.assert_array_equal(found, counted > 0)
