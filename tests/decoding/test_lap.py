"""Best matchings against enumeration, and their edge cases."""

import itertools
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from permatch.decoding import bayes_matching, best_matching
from permatch.errors import InfeasibleGraphError

# Sums of at most 6 scores up to 300: far above rounding, far below any real gap.
TOL = 1e-9

entries = st.one_of(st.floats(-300, 300), st.integers(-2, 2), st.just(-np.inf))
graphs = st.integers(1, 6).flatmap(lambda m: hnp.arrays(float, (m, m), elements=entries))


def total(scores, matching):
    return scores[np.arange(len(scores)), matching].sum()


def best_total(scores):
    m = len(scores)
    return max(total(scores, np.array(p)) for p in itertools.permutations(range(m)))


@given(graphs)
@settings(max_examples=60)
def test_best_matching_is_the_best_of_all(scores):
    expected = best_total(scores)
    if expected == -np.inf:
        with pytest.raises(InfeasibleGraphError, match="perfect matching"):
            best_matching(scores)
        return
    matching = best_matching(scores)
    assert matching.dtype == np.intp
    assert sorted(matching) == list(range(len(scores)))
    assert total(scores, matching) == pytest.approx(expected, abs=TOL)


def test_large_common_offsets_lose_no_digits(rng):
    # Multiples of 1/16 are exact beside 1e14, so the shifted problem is the same problem.
    scores = rng.integers(0, 64, (6, 6)) / 16
    offset = rng.integers(-100, 100, (6, 1)) * 1e12
    assert total(scores, best_matching(scores + offset)) == best_total(scores)


def test_extreme_scores():
    scores = np.array([[1e300, -1e300], [1e300, -np.inf]])
    assert best_matching(scores).tolist() == [1, 0]


def test_empty_and_single():
    assert best_matching(np.empty((0, 0))).shape == (0,)
    assert bayes_matching(np.empty((0, 0))).shape == (0,)
    assert best_matching(np.array([[-7.0]])).tolist() == [0]


@pytest.mark.parametrize(
    "scores",
    [
        [[-np.inf]],
        [[0.0, 0.0], [-np.inf, -np.inf]],
        [[-np.inf, 0.0], [-np.inf, 0.0]],
    ],
)
def test_infeasible(scores):
    with pytest.raises(InfeasibleGraphError, match=r"needs .* has .* Allow more edges"):
        best_matching(np.array(scores))


def test_bayes_matching_minimises_expected_hamming_loss(rng):
    every = np.array(list(itertools.permutations(range(4))))
    for _ in range(20):
        chance = rng.dirichlet(np.full(len(every), 0.1))
        marginals = np.zeros((4, 4))
        for matching, p in zip(every, chance, strict=True):
            marginals[np.arange(4), matching] += p
        loss = ((every[:, None, :] != every[None, :, :]).sum(axis=2) * chance).sum(axis=1)
        matching = bayes_matching(marginals)
        found = np.flatnonzero((every == matching).all(axis=1))
        assert loss[found] == pytest.approx(loss.min(), abs=TOL)


def test_bayes_matching_may_use_edges_of_probability_zero():
    # Row 9 takes over the column of one row in turn: no matching has the edge (9, 9).
    marginals = np.diag(np.full(10, 8 / 9))
    marginals[9] = marginals[:, 9] = 1 / 9
    marginals[9, 9] = 0.0
    assert bayes_matching(marginals).tolist() == list(range(10))


def test_import_leaves_scipy_alone():
    code = "import sys, permatch.decoding; sys.exit('scipy.optimize' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_large_graphs_agree_with_scipy(rng, monkeypatch):
    scores = rng.normal(size=(30, 30))
    scores[rng.random((30, 30)) < 0.5] = -np.inf
    np.fill_diagonal(scores, -9.0)
    expected = best_matching(scores)
    monkeypatch.setattr("permatch.decoding.lap._LARGE", 10)
    assert (best_matching(scores) == expected).all()
    scores[3] = -np.inf
    with pytest.raises(InfeasibleGraphError, match="Allow more edges"):
        best_matching(scores)
