"""Accuracy: 50-digit arithmetic where it is affordable, positive sums beyond."""

import math

import numpy as np
import pytest

import permatch as pm
from tests.helpers import (
    ENGINES,
    LOG_PARTITION_TOL,
    MARGINAL_TOL,
    exact_answer,
    log_partition_error,
    random_scores,
)

SPREADS = [1.0, 5.0, 20.0, 100.0]


@pytest.mark.parametrize("forbidden", [0.0, 0.4])
@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 8, 9, 10])
def test_against_fifty_digits(size, spread, forbidden, rng):
    for _ in range(3):
        scores = random_scores(rng, size, spread, forbidden)
        log_partition, marginals = exact_answer(scores)
        for case in ENGINES:
            if size > case.largest:
                continue
            found = case.engine.infer(scores)
            assert (
                log_partition_error(found.log_partition, log_partition) < LOG_PARTITION_TOL
            )
            if case.has_marginals:
                np.testing.assert_allclose(
                    found.marginals, marginals, rtol=0, atol=MARGINAL_TOL
                )


@pytest.mark.parametrize("forbidden", [0.0, 0.4])
@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("size", [11, 13, 16, 17, 19, 20, 21])
def test_against_positive_sums(size, spread, forbidden, rng):
    scores = random_scores(rng, size, spread, forbidden)
    expected = pm.SubsetDP().infer(scores)
    for case in ENGINES:
        if size > case.largest or case.engine.name == "subset_dp":
            continue
        found = case.engine.infer(scores)
        assert abs(found.log_partition - expected.log_partition) < LOG_PARTITION_TOL
        if case.has_marginals:
            np.testing.assert_allclose(
                found.marginals, expected.marginals, rtol=0, atol=MARGINAL_TOL
            )


@pytest.mark.parametrize("case", ENGINES, ids=str)
@pytest.mark.parametrize("offset", [1e6, -1e12, 1e300])
def test_a_common_offset_costs_no_digits(case, offset, rng):
    # Multiples of 2^-10 survive the addition of 1e12; 1e300 swallows them all.
    scores = np.round(rng.normal(size=(6, 6)) * 1024) / 1024
    shifted = scores + offset
    kept = shifted - offset
    found = case.engine.infer(shifted)
    expected = pm.infer(kept, "enumeration")
    assert found.log_partition == pytest.approx(
        6 * offset + expected.log_partition, rel=1e-15
    )
    if case.has_marginals:
        np.testing.assert_allclose(
            found.marginals, expected.marginals, rtol=0, atol=MARGINAL_TOL
        )


@pytest.mark.parametrize("case", ENGINES, ids=str)
@pytest.mark.parametrize("spread", [1e4, 1e8, 1e100, 1e299])
def test_any_spread_gives_the_best_matching(case, spread, rng):
    size = min(case.largest, 12)
    scores = np.clip(spread * rng.normal(size=(size, size)), -1e300, 1e300)
    best = pm.best_matching(scores)
    found = case.engine.infer(scores)
    assert found.log_partition == pytest.approx(
        scores[np.arange(size), best].sum(), rel=1e-12
    )
    if case.has_marginals:
        np.testing.assert_allclose(found.marginals, np.eye(size)[best], rtol=0, atol=1e-9)


def test_glynn_reports_a_residual_that_tracks_its_error(rng):
    for spread in SPREADS:
        scores = random_scores(rng, 16, spread)
        found = pm.Glynn().infer(scores)
        exact = pm.SubsetDP().infer(scores)
        error = np.abs(found.marginals - exact.marginals).max()
        residual = found.diagnostics.residual
        assert 0 <= residual < 1e-12
        # A handful of roundings of slack: both are near the last digit here.
        assert error < 4 * residual + 1e-14


@pytest.mark.parametrize("size", [5, 12, 19])
def test_glynn_falls_back_to_positive_sums(size, rng):
    scores = np.stack([random_scores(rng, size), random_scores(rng, size)])
    found = pm.Glynn(tol=0.0).infer(scores)
    expected = pm.SubsetDP().infer(scores)
    assert found.diagnostics.residual > 0
    assert found.diagnostics.n_fallback == 2
    np.testing.assert_array_equal(found.log_partition, expected.log_partition)
    np.testing.assert_array_equal(found.marginals, expected.marginals)


@pytest.mark.parametrize("size", [9, 20, 27])
def test_flat_graphs_lose_the_most_digits_and_still_keep_the_promise(size):
    # Nothing cancels more than equal weights do.
    found = pm.infer(np.zeros((size, size)), n_jobs=2)
    assert found.is_exact
    assert abs(found.log_partition - math.lgamma(size + 1)) < LOG_PARTITION_TOL
    np.testing.assert_allclose(found.marginals, 1 / size, rtol=0, atol=MARGINAL_TOL)


def test_long_walks_are_refreshed_rightly(rng):
    # From size 26 on, a chunk is so long that its column sums are recomputed on the way.
    blocks = [random_scores(rng, 13), random_scores(rng, 13)]
    scores = np.full((26, 26), -np.inf)
    scores[:13, :13], scores[13:, 13:] = blocks
    shuffle = rng.permutation(26)
    found = pm.Glynn().infer(scores[shuffle][:, shuffle], n_jobs=2)
    parts = [pm.SubsetDP().infer(block) for block in blocks]
    total = sum(part.log_partition for part in parts)
    assert abs(found.log_partition - total) < LOG_PARTITION_TOL
    expected = np.zeros((26, 26))
    expected[:13, :13], expected[13:, 13:] = (part.marginals for part in parts)
    expected = expected[shuffle][:, shuffle]
    np.testing.assert_allclose(found.marginals, expected, rtol=0, atol=MARGINAL_TOL)
    assert found.diagnostics.n_fallback == 0


def test_a_vanished_permanent_falls_back():
    from permatch.kernels.glynn import finish

    permanent, residual = finish(np.ones((9, 9)), np.zeros((1, 9, 9)), np.empty((9, 9)))
    assert permanent == 0.0
    assert residual == np.inf


def test_a_loose_tolerance_does_not_pass_as_exact(rng, monkeypatch):
    from permatch.inference import exact

    scores = random_scores(rng, 9)
    assert pm.Glynn(tol=0.5).infer(scores).is_exact
    monkeypatch.setattr(exact, "EXACT_TOL", 1e-300)
    assert not pm.Glynn(tol=0.5).infer(scores).is_exact
    assert pm.Glynn(tol=0.0).infer(scores).is_exact


def test_glynn_does_not_fall_back_without_need(rng):
    assert pm.Glynn().infer(random_scores(rng, 12)).diagnostics.n_fallback == 0


def test_ryser_falls_back_where_its_bound_is_poor(rng):
    found = pm.Ryser().infer(random_scores(rng, 14))
    assert found.diagnostics.residual > 1e-10
    assert found.diagnostics.n_fallback == 1


def test_no_fallback_beyond_its_memory(rng, monkeypatch):
    monkeypatch.setattr(pm.Glynn, "fallback", pm.SubsetDP(max_size=8))
    with pytest.raises(
        pm.errors.PrecisionError, match=r"residual of at most 0.*size 10.*tol="
    ):
        pm.Glynn(tol=0.0).infer(random_scores(rng, 10))


@pytest.mark.parametrize("spread", [0.0, 1.0, 10.0])
def test_the_residual_of_glynn_is_about_the_absolute_error_of_marginals(spread, rng):
    for _ in range(10):
        scores = random_scores(rng, 12, spread)
        found, expected = pm.Glynn().infer(scores), pm.SubsetDP().infer(scores)
        error = np.abs(found.marginals - expected.marginals).max()
        assert error < 20 * max(found.diagnostics.residual, 1e-16)


def test_positive_sums_keep_the_digits_of_tiny_marginals(rng):
    scores = random_scores(rng, 8, 20.0)
    _, exact = exact_answer(scores)
    assert 0.0 < exact.min() < 1e-30
    for engine in (pm.SubsetDP(), pm.SmallBatch()):
        found = engine.infer(scores).marginals
        np.testing.assert_allclose(found, exact, rtol=1e-10, atol=0.0)
