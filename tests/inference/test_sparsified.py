"""The certified shortcut: the bound is never below the error, and often next to it."""

import math

import numpy as np
import pytest

import permatch as pm
from permatch.errors import InfeasibleGraphError, InvalidOptionError, SizeLimitError
from permatch.inference.blocks import _Search
from permatch.inference.sparsified import Sparsified, sparsify
from permatch.kernels.sparsified import fill_cofactors, fill_regrets, log_growth
from tests.helpers import random_scores


def shuffled(rng, scores):
    size = len(scores)
    return scores[rng.permutation(size)][:, rng.permutation(size)]


def planted(rng, size, height):
    return shuffled(rng, rng.normal(size=(size, size)) + height * np.eye(size))


def in_blocks(rng, n_blocks, size, depth):
    """Blocks of normal scores, everything outside `depth` lower."""
    scores = rng.normal(size=(n_blocks * size, n_blocks * size))
    within = np.kron(np.eye(n_blocks), np.ones((size, size))) > 0
    return shuffled(rng, np.where(within, scores, scores - depth))


def kept_only(scores, split):
    """The graph without its dropped edges."""
    return np.where(split.kept, scores, -np.inf)


def test_planted_matching(rng):
    scores = planted(rng, 200, 40.0)
    found = Sparsified().infer(scores)
    assert not found.is_exact
    assert found.log_partition_error < 1e-9
    diagnostics = found.diagnostics
    assert diagnostics.certificate == diagnostics.interval_certificate == "rigorous"
    lower, upper = diagnostics.interval
    assert lower <= found.log_partition <= upper < lower + 1e-9
    best = scores[np.arange(200), pm.best_matching(scores)].sum()
    assert found.log_partition == pytest.approx(best, abs=1e-9)
    assert found.marginal_errors.max() < 1e-9


def test_blocks_of_five(rng):
    rng_copy = np.random.default_rng(20090715)
    scores = rng_copy.normal(size=(200, 200))
    expected = math.fsum(
        pm.log_partition(scores[k : k + 5, k : k + 5]) for k in range(0, 200, 5)
    )
    found = Sparsified().infer(in_blocks(rng, 40, 5, 200.0))
    assert found.log_partition == pytest.approx(expected, abs=1e-9)
    assert found.log_partition_error < 1e-9
    assert "40 blocks" in found.diagnostics.reason
    np.testing.assert_allclose(found.marginals.sum(axis=0), 1, atol=1e-12)


def random_cases(rng, n_cases):
    """Small graphs of all kinds, each with a random partition."""
    for _ in range(n_cases):
        size = int(rng.integers(2, 9))
        scores = random_scores(
            rng, size, rng.choice([0.5, 1, 2, 4, 8, 20]), rng.choice([0.0, 0.3, 0.6])
        )
        scores[np.arange(size), rng.permutation(size)] += rng.choice([0, 3, 8, 20])
        labels = rng.integers(0, rng.integers(1, size + 1), size)
        yield scores, np.unique(labels, return_inverse=True)[1]


@pytest.mark.parametrize("largest_exact", [14, 1])
def test_bound_is_above_the_error(rng, largest_exact):
    cases = list(random_cases(rng, 3000))
    searches = [_Search.start(scores) for scores, _ in cases]
    assert None not in searches
    splits = [
        search.judge(labels, 0.1, largest_exact)
        for search, (_, labels) in zip(searches, cases, strict=True)
    ]
    full = pm.infer([scores for scores, _ in cases])
    kept = pm.infer(
        [kept_only(scores, split) for (scores, _), split in zip(cases, splits, strict=True)]
    )
    bounds = np.array([split.log_error_bound for split in splits])
    errors = full.log_partition - kept.log_partition
    assert (errors <= bounds + 1e-11).all()
    is_known = np.isfinite(bounds) & (errors > 1e-6)
    assert is_known.sum() > 500
    for k in np.flatnonzero(np.isfinite(bounds)):
        shift = np.abs(full.marginals[k] - kept.marginals[k]).max()
        assert shift <= -math.expm1(-bounds[k]) + 1e-11
    if largest_exact > 1:
        assert np.median(bounds[is_known] / errors[is_known]) < 1.1


@pytest.mark.parametrize("tol", [1e-9, 1e-4, 0.3])
def test_answers_are_within_what_is_reported(rng, tol):
    n_answered = 0
    for _ in range(30):
        scores = random_scores(rng, 13, rng.choice([3.0, 10.0, 30.0]), 0.2)
        try:
            found = Sparsified(tol=tol, max_block=8).infer(scores)
        except SizeLimitError:
            continue
        n_answered += 1
        exact = pm.infer(scores)
        bound = found.log_partition_error or 0.0
        assert bound <= tol
        error = exact.log_partition - found.log_partition
        assert -1e-9 <= error <= bound + 1e-9
        shifts = np.abs(exact.marginals - found.marginals)
        assert shifts.max() <= (found.diagnostics.marginal_error or 0.0) + 1e-10
        if found.diagnostics.interval:
            lower, upper = found.diagnostics.interval
            assert lower <= exact.log_partition <= upper
    assert n_answered >= 3


def test_exact_if_nothing_is_dropped(rng):
    scores = in_blocks(rng, 4, 5, np.inf)
    found = Sparsified().infer(scores)
    assert found.is_exact
    assert found.log_partition_error is None
    assert found.diagnostics.certificate == "exact"
    exact = pm.infer(scores)
    assert found.log_partition == pytest.approx(exact.log_partition, abs=1e-9)
    np.testing.assert_allclose(found.marginals, exact.marginals, atol=1e-10)


def test_one_way_streets_are_not_dropped_edges(rng):
    scores = rng.normal(size=(40, 40))
    scores[20:, :20] = -np.inf  # so that the edges at [:20, 20:] are in no matching
    split = sparsify(shuffled(rng, scores))
    assert split.n_dropped == 0
    assert split.log_error_bound == 0
    assert split.largest_block == 20


def test_flat_scores_are_refused(rng):
    scores = rng.normal(size=(60, 60))
    with pytest.raises(SizeLimitError, match="not peaked enough"):
        Sparsified().infer(scores)
    # The trivial partition, which has nothing across, is what is left.
    assert sparsify(scores).largest_block == 60


def test_blocks_too_large_to_solve_are_split_off(rng):
    scores = in_blocks(rng, 3, 40, 400.0)
    split = sparsify(scores)
    assert split.is_certified
    assert split.log_error_bound < 1e-9
    assert sorted(len(rows) for rows, _ in split.blocks) == [40, 40, 40]
    assert split.kept.sum() == 3 * 40 * 40
    with pytest.raises(SizeLimitError):
        Sparsified().infer(scores)


def test_larger_blocks_are_solved(rng):
    scores = in_blocks(rng, 4, 15, 60.0)
    found = Sparsified(max_block=16).infer(scores)
    assert found.log_partition_error < 1e-9
    assert "largest of size 15" in found.diagnostics.reason
    with pytest.raises(SizeLimitError):
        Sparsified(max_block=14).infer(scores)


def test_a_promising_bound_is_worth_exact_cofactors(rng):
    split = sparsify(in_blocks(rng, 3, 18, 17.5))
    assert split.is_certified
    assert split.largest_block == 18


def test_bound_ignores_shifts(rng):
    scores = planted(rng, 40, 12.0)
    shifts = 100 * rng.normal(size=(40, 1)), 100 * rng.normal(size=40)
    plain, shifted = sparsify(scores, 0.9), sparsify(scores + shifts[0] + shifts[1], 0.9)
    assert plain.log_error_bound == pytest.approx(shifted.log_error_bound, rel=1e-6)


def test_regrets(rng):
    for _ in range(10):
        scores = random_scores(rng, 6, 2.0, 0.3)
        matching = pm.best_matching(scores)
        search = _Search.start(scores)
        losses = -np.log(
            search.weights, where=search.weights > 0, out=np.full((6, 6), -np.inf)
        )
        regrets = np.empty((6, 6))
        fill_regrets(losses, regrets)
        best = scores[np.arange(6), matching].sum()
        for i in range(6):
            for k in range(6):
                forced = scores.copy()
                col = search.col_of[k]
                forced[i] = -np.inf
                forced[i, col] = scores[i, col]
                try:
                    there = pm.best_matching(forced)
                except InfeasibleGraphError:
                    assert regrets[i, k] == np.inf
                    continue
                loss = best - forced[np.arange(6), there].sum()
                assert regrets[i, k] == pytest.approx(loss, abs=1e-9)


def test_cofactors(rng):
    weights = np.exp(random_scores(rng, 6, 2.0, 0.3))
    cofactors = np.empty((6, 6))
    fill_cofactors(weights, cofactors)
    marginals = pm.marginals(
        np.log(weights, where=weights > 0, out=np.full((6, 6), -np.inf))
    )
    np.testing.assert_allclose(cofactors * weights, marginals, atol=1e-14)


def test_growth(rng):
    transfer = rng.random((12, 12)) / 13
    expected = -np.linalg.slogdet(np.eye(12) - transfer)[1]
    assert log_growth(transfer.copy()) == pytest.approx(expected)
    assert log_growth(transfer * 3) == np.inf
    small = 1e-20 * transfer
    assert log_growth(small.copy()) == pytest.approx(np.trace(small), rel=1e-12)


def test_threads_and_company_do_not_matter(rng):
    scores = [planted(rng, size, 35.0) for size in (1, 12, 40, 12, 0)]
    one, two = Sparsified().infer(scores), Sparsified().infer(scores, n_jobs=2)
    np.testing.assert_array_equal(one.log_partition, two.log_partition)
    for k, graph in enumerate(scores):
        alone = Sparsified().infer(graph)
        assert alone.log_partition == one.log_partition[k]
        np.testing.assert_array_equal(alone.marginals, two.marginals[k])


@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (2, 0, 0), (0, 3, 3)], ids=str)
def test_nothing_to_do(shape):
    found = Sparsified().infer(np.zeros(shape))
    assert found.is_exact
    np.testing.assert_array_equal(found.log_partition, np.zeros(shape[:-2]))
    assert found.marginals.shape == shape


def test_extreme_scores(rng):
    scores = planted(rng, 50, 1e6)
    found = Sparsified().infer(scores)
    best = scores[np.arange(50), pm.best_matching(scores)].sum()
    assert found.log_partition == pytest.approx(best, rel=1e-15)
    assert found.log_partition_error < 1e-100


def test_errors():
    scores = np.zeros((3, 2, 2))
    scores[1, :, 0] = -np.inf
    with pytest.raises(InfeasibleGraphError, match="graph 1"):
        Sparsified().infer(scores)
    with pytest.raises(InfeasibleGraphError):
        sparsify(scores[1])
    with pytest.raises(InvalidOptionError, match="tol"):
        Sparsified(tol=-1.0)
    with pytest.raises(InvalidOptionError, match="max_size"):
        Sparsified(max_block=99)
