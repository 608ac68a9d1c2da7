"""Laws that every engine obeys: one table of engines, random graphs, forbidden edges."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import permatch as pm
from tests.helpers import (
    APPROXIMATE,
    ENGINES,
    ENGINES_WITH_MARGINALS,
    LOG_PARTITION_TOL,
    MARGINAL_TOL,
    score_matrices,
)

every_engine = pytest.mark.parametrize("case", ENGINES, ids=str)
every_engine_with_marginals = pytest.mark.parametrize(
    "case", ENGINES_WITH_MARGINALS, ids=str
)
shifts = st.floats(-1e3, 1e3)


def close(found, expected, scores):
    """Equal up to the rounding of scores of this size."""
    size_of_scores = np.abs(scores[np.isfinite(scores)]).sum() if scores.size else 0.0
    return abs(found - expected) <= LOG_PARTITION_TOL + 1e-14 * size_of_scores


@every_engine
@given(scores=score_matrices())
def test_agrees_with_the_definition(case, scores):
    found, expected = case.engine.infer(scores), pm.Enumeration().infer(scores)
    assert close(found.log_partition, expected.log_partition, scores)
    assert found.is_exact
    if case.has_marginals:
        np.testing.assert_allclose(
            found.marginals, expected.marginals, rtol=0, atol=MARGINAL_TOL
        )


@every_engine
@given(scores=score_matrices(min_size=1), shift=shifts, data=st.data())
def test_adding_to_a_row_adds_to_the_log_partition(case, scores, shift, data):
    row = data.draw(st.integers(0, len(scores) - 1))
    shifted = scores.copy()
    shifted[row] += shift
    before, after = case.engine.infer(scores), case.engine.infer(shifted)
    assert abs(after.log_partition - before.log_partition - shift) < LOG_PARTITION_TOL * 10
    if case.has_marginals:
        np.testing.assert_allclose(after.marginals, before.marginals, rtol=0, atol=1e-10)


@every_engine
@given(scores=score_matrices())
def test_transposing_transposes(case, scores):
    found, transposed = case.engine.infer(scores), case.engine.infer(scores.T)
    assert close(transposed.log_partition, found.log_partition, scores)
    if case.has_marginals:
        np.testing.assert_allclose(
            transposed.marginals, found.marginals.T, rtol=0, atol=MARGINAL_TOL
        )


@every_engine
@given(scores=score_matrices(), seed=st.integers(0, 2**32 - 1))
def test_permuting_permutes(case, scores, seed):
    rng = np.random.default_rng(seed)
    rows, cols = rng.permutation(len(scores)), rng.permutation(len(scores))
    found, permuted = case.engine.infer(scores), case.engine.infer(scores[rows][:, cols])
    assert close(permuted.log_partition, found.log_partition, scores)
    if case.has_marginals:
        np.testing.assert_allclose(
            permuted.marginals, found.marginals[rows][:, cols], rtol=0, atol=MARGINAL_TOL
        )


@every_engine_with_marginals
@given(scores=score_matrices())
def test_rows_and_columns_sum_to_one(case, scores):
    marginals = case.engine.infer(scores).marginals
    np.testing.assert_allclose(marginals.sum(axis=0), 1, rtol=0, atol=MARGINAL_TOL)
    np.testing.assert_allclose(marginals.sum(axis=1), 1, rtol=0, atol=MARGINAL_TOL)
    assert ((marginals >= 0) & (marginals <= 1)).all()
    assert (marginals[np.isneginf(scores)] == 0).all()


@every_engine
@given(scores=score_matrices())
def test_lies_between_the_best_matching_and_all_matchings(case, scores):
    size = len(scores)
    best = scores[np.arange(size), pm.best_matching(scores)].sum()
    found = case.engine.infer(scores).log_partition
    assert found >= best - LOG_PARTITION_TOL
    assert found <= best + math.lgamma(size + 1) + LOG_PARTITION_TOL


@every_engine_with_marginals
@given(scores=score_matrices(min_size=1, max_size=5, largest=5.0), data=st.data())
def test_marginals_are_the_gradient(case, scores, data):
    size = len(scores)
    i, j = data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, size - 1))
    if np.isneginf(scores[i, j]):
        return
    step = 1e-4
    up, down = scores.copy(), scores.copy()
    up[i, j] += step
    down[i, j] -= step
    slope = (
        case.engine.infer(up).log_partition - case.engine.infer(down).log_partition
    ) / (2 * step)
    # Central differences: the error is step^2 times a third derivative of at most 1.
    assert slope == pytest.approx(case.engine.infer(scores).marginals[i, j], abs=1e-7)


@every_engine
@pytest.mark.parametrize("size", [0, 1, 2, 5, 8])
def test_equal_scores_count_matchings(case, size):
    found = case.engine.infer(np.zeros((size, size)))
    assert found.log_partition == pytest.approx(math.lgamma(size + 1), abs=1e-13)
    if case.has_marginals:
        np.testing.assert_allclose(found.marginals, np.full((size, size), 1 / max(size, 1)))


@pytest.mark.parametrize("case", [*ENGINES_WITH_MARGINALS, *APPROXIMATE], ids=str)
@pytest.mark.parametrize("kind", ["one", "stack", "list"])
def test_edges_in_no_perfect_matching_have_marginal_zero(case, kind):
    # The first four rows need the first four columns: no other row can have one of them.
    graphs = np.random.default_rng(0).normal(size=(6, 8, 8))
    graphs[:, :4, 4:] = -np.inf
    scores = {"one": graphs[0], "stack": graphs, "list": [graphs[0], graphs[1, 1:, 1:]]}
    found = case.engine.infer(scores[kind]).marginals
    for marginals in [found] if kind == "one" else found:
        n_first = len(marginals) - 4
        assert (marginals[n_first:, :n_first] == 0.0).all()
