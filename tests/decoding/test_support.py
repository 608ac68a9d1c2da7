"""The edges that lie in some perfect matching."""

import numpy as np
from hypothesis import given

import permatch as pm
from permatch.assignment import best_assignment
from permatch.decoding import possible_edges
from permatch.decoding.support import find_support
from permatch.scores import check_problem
from tests.brute_force import all_matchings, random_problem
from tests.helpers import score_matrices


@given(scores=score_matrices())
def test_agrees_with_enumeration(scores):
    found = possible_edges(scores)
    counted = pm.Enumeration().infer(np.where(np.isfinite(scores), 0.0, -np.inf)).marginals
    np.testing.assert_array_equal(found, counted > 0)


def test_agrees_with_every_matching_of_problems(rng):
    for _ in range(150):
        parts = random_problem(rng)
        matchings, _ = all_matchings(*parts)
        n, k = parts[0].shape
        edges = np.zeros((n, k), dtype=bool)
        for i, j in np.ndindex(n, k):
            edges[i, j] = (matchings[:, i] == j).any()
        left = (matchings < 0).any(axis=0)
        right = np.array([(matchings != j).all(axis=1).any() for j in range(k)], dtype=bool)
        problem, layout = check_problem(*parts)
        found = find_support(problem, best_assignment(problem).matching)
        np.testing.assert_array_equal(layout.edges(found[0]), edges)
        np.testing.assert_array_equal(found[1], left)
        np.testing.assert_array_equal(found[2], right)
        free = {"unmatched_left": parts[1], "unmatched_right": parts[2]}
        np.testing.assert_array_equal(possible_edges(parts[0], **free), edges)
