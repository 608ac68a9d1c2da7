"""Belief propagation: known values, the reference in logarithms, and an honest bracket."""

import math

import numpy as np
import pytest

import permatch as pm
from permatch.errors import InfeasibleGraphError, InvalidOptionError, SizeLimitError
from permatch.inference.bethe import Bethe
from permatch.kernels.projection import repair
from tests.helpers import random_scores

G4 = 0.5 * np.array([[0.0, 1, 2, 3], [1, 0, 1, 2], [3, 1, 0, 1], [2, 2, 1, 0]])


def in_logarithms(scores, n_sweeps=300):
    """Beliefs by the same fixed point, one logarithm of a sum after the other."""
    size = len(scores)
    to_col, to_row = np.zeros((size, size)), np.zeros((size, size))
    for _ in range(n_sweeps):
        for i in range(size):
            for j in range(size):
                to_col[i, j] = -np.logaddexp.reduce(np.delete(scores[i] + to_row[i], j))
        for i in range(size):
            for j in range(size):
                terms = np.delete(scores[:, j] + to_col[:, j], i)
                to_row[i, j] = -np.logaddexp.reduce(terms)
    return 1 / (1 + np.exp(-(scores + to_col + to_row)))


def many_graphs(rng, size, n_graphs):
    """Spreads from 0.5 to 5, some graphs with forbidden edges."""
    shape = (n_graphs, size, size)
    scores = rng.uniform(0.5, 5.0, (n_graphs, 1, 1)) * rng.normal(size=shape)
    is_forbidden = rng.random(shape) < rng.choice([0.0, 0.2, 0.6], (n_graphs, 1, 1))
    is_forbidden[:, np.arange(size), rng.permutation(size)] = False
    return np.where(is_forbidden, -np.inf, scores)


def test_known_value():
    found = Bethe(tol=1e-10).infer(G4)
    assert found.log_partition == pytest.approx(5.168796384930848, abs=1e-12)
    expected = [0.05066173, 0.15144321, 0.36007597, 0.4378191]
    np.testing.assert_allclose(found.marginals[0], expected, atol=1e-8)
    lower, upper = found.diagnostics.interval
    assert lower <= 6.198372554250848 <= upper
    assert not found.is_exact


@pytest.mark.parametrize("size", [2, 3, 4, 5, 30, 200])
def test_equal_scores(size):
    found = Bethe().infer(np.zeros((size, size)))
    expected = size * math.log(size) + size * (size - 1) * math.log1p(-1 / size)
    assert found.log_partition == pytest.approx(expected, abs=1e-11 * size)
    np.testing.assert_allclose(found.marginals, 1 / size)
    lower, upper = found.diagnostics.interval
    assert lower <= math.lgamma(size + 1) <= upper


def test_two_by_two_is_the_better_matching(rng):
    scores = 3 * rng.normal(size=(200, 2, 2))
    best = np.maximum(scores[:, 0, 0] + scores[:, 1, 1], scores[:, 0, 1] + scores[:, 1, 0])
    found = Bethe().infer(scores)
    np.testing.assert_allclose(found.log_partition, best, atol=1e-8)


@pytest.mark.parametrize("spread", [0.5, 2.0, 5.0])
@pytest.mark.parametrize("forbidden", [0.0, 0.3])
def test_beliefs_are_the_fixed_point(rng, spread, forbidden):
    scores = random_scores(rng, 8, spread, forbidden)
    found = Bethe(tol=1e-12, max_iter=300).infer(scores)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        expected = np.nan_to_num(in_logarithms(scores))
    np.testing.assert_allclose(found.marginals, expected, atol=1e-6)


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6])
def test_value_is_below_and_not_far_below(rng, size):
    scores = many_graphs(rng, size, 2000)
    exact = pm.SmallBatch().infer(scores)
    found = Bethe(bounds=False).infer(scores)
    gap = exact.log_partition - found.log_partition
    assert gap.min() >= -1e-10
    assert gap.max() <= 0.5 * size * math.log(2) + 1e-3  # not all have settled
    np.testing.assert_allclose(found.marginals.sum(axis=1), 1, atol=1e-11)
    np.testing.assert_allclose(found.marginals.sum(axis=2), 1, atol=1e-11)
    assert (found.marginals >= 0).all()
    assert (found.marginals[np.isneginf(scores)] == 0).all()


def test_marginals_are_the_gradient(rng):
    scores = random_scores(rng, 10, 1.5, 0.2)
    engine = Bethe(tol=1e-13)
    marginals = engine.infer(scores).marginals
    step = 1e-5
    for i, j in [(0, 0), (3, 4), (9, 2)]:
        if np.isneginf(scores[i, j]):
            continue
        up, down = scores.copy(), scores.copy()
        up[i, j] += step
        down[i, j] -= step
        slope = engine.infer(up).log_partition - engine.infer(down).log_partition
        assert slope / (2 * step) == pytest.approx(marginals[i, j], abs=1e-7)


@pytest.mark.parametrize("spread", [20.0, 100.0, 1e3, 1e5])
@pytest.mark.parametrize("size", [3, 12, 60])
def test_extreme_spreads(rng, spread, size):
    scores = spread * rng.normal(size=(size, size))
    found = Bethe().infer(scores)
    lower, upper = found.diagnostics.interval
    np.testing.assert_allclose(found.marginals.sum(axis=0), 1, atol=1e-9)
    np.testing.assert_allclose(found.marginals.sum(axis=1), 1, atol=1e-9)
    best = scores[np.arange(size), pm.best_matching(scores)].sum()
    assert best - 1e-7 <= lower <= upper < best + size
    if size <= 12:
        assert lower <= pm.log_partition(scores) <= upper


def test_a_planted_matching_is_found_whole(rng):
    matching = rng.permutation(150)
    scores = rng.normal(size=(150, 150))
    scores[np.arange(150), matching] += 300
    found = Bethe().infer(scores)
    np.testing.assert_allclose(found.marginals[np.arange(150), matching], 1)
    lower, upper = found.diagnostics.interval
    assert upper - lower < 1e-6


def test_interval_holds_without_convergence(rng):
    scores = random_scores(rng, 12, 3.0, 0.2)
    found = Bethe(max_iter=1).infer(scores)
    assert not found.diagnostics.is_converged
    assert "did not converge in 1 sweeps" in found.diagnostics.reason
    lower, upper = found.diagnostics.interval
    assert lower <= pm.log_partition(scores) <= upper


@pytest.mark.parametrize("max_iter", [1, 5, 20])
@pytest.mark.parametrize("width", [1, 2, 6])
def test_beliefs_are_doubly_stochastic_without_convergence(rng, width, max_iter):
    reach = np.abs(np.subtract.outer(np.arange(120), np.arange(120)))
    scores = np.where(reach <= width, 3.0 * rng.normal(size=(120, 120)), -np.inf)
    result = Bethe(max_iter=max_iter).infer(scores)
    for axis in (0, 1):
        np.testing.assert_allclose(result.marginals.sum(axis=axis), 1.0, atol=1e-6)
    assert (result.marginals >= 0.0).all()
    assert (result.marginals[scores == -np.inf] == 0.0).all()
    lower, upper = result.diagnostics.interval
    best = scores[range(120), pm.MatchingDistribution(scores).mode()].sum()
    assert best - 1e-6 <= lower <= upper


@pytest.mark.parametrize("density", [0.05, 0.3, 1.0])
def test_any_table_is_repaired(rng, density):
    may_carry = rng.random((30, 30)) < density
    may_carry[range(30), rng.permutation(30)] = True
    table = np.where(may_carry, rng.random((30, 30)) ** 8, 0.0)
    assert repair(table, may_carry) < 1e-12
    np.testing.assert_allclose(table.sum(axis=0), 1.0, atol=1e-12)
    np.testing.assert_allclose(table.sum(axis=1), 1.0, atol=1e-12)
    assert (table >= 0.0).all()
    assert (table[~may_carry] == 0.0).all()


def test_a_table_beyond_repair_says_so():
    may_carry = np.array([[True, True], [False, False]])
    assert repair(np.where(may_carry, 0.5, 0.0), may_carry) == pytest.approx(1.0)


def test_report(rng):
    diagnostics = Bethe().infer(rng.normal(size=(30, 30))).diagnostics
    assert diagnostics.is_converged
    assert diagnostics.residual < 1e-8
    assert diagnostics.certificate == "heuristic"
    assert diagnostics.interval_certificate == "rigorous"
    without = Bethe(bounds=False).infer(rng.normal(size=(30, 30))).diagnostics
    assert without.interval is None
    assert without.interval_certificate == ""


def test_damping_leads_to_the_same_place(rng):
    scores = rng.normal(size=(20, 20))
    plain, damped = Bethe().infer(scores), Bethe(damping=0.5).infer(scores)
    assert plain.log_partition == pytest.approx(damped.log_partition, abs=1e-10)
    np.testing.assert_allclose(plain.marginals, damped.marginals, atol=1e-6)


def test_threads_and_company_do_not_matter(rng):
    scores = [random_scores(rng, size, 2.0, 0.1) for size in (1, 30, 7, 30, 50, 0, 7)]
    one, three = Bethe().infer(scores), Bethe().infer(scores, n_jobs=3)
    alone = [Bethe().infer(graph) for graph in scores]
    np.testing.assert_array_equal(one.log_partition, three.log_partition)
    np.testing.assert_array_equal(
        one.log_partition, [found.log_partition for found in alone]
    )
    for k, found in enumerate(alone):
        np.testing.assert_array_equal(one.marginals[k], three.marginals[k])
        np.testing.assert_array_equal(one.marginals[k], found.marginals)


@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (3, 0, 0), (0, 4, 4)], ids=str)
def test_nothing_to_do(shape):
    found = Bethe().infer(np.zeros(shape))
    np.testing.assert_array_equal(found.log_partition, np.zeros(shape[:-2]))
    assert found.marginals.shape == shape


def test_settled_rows_cost_nothing():
    scores = np.array([[3.0, 2.0], [1.0, -np.inf]])  # one matching only
    found = Bethe().infer(scores)
    assert found.log_partition == pytest.approx(3.0, abs=1e-14)
    np.testing.assert_array_equal(found.marginals, [[0, 1], [1, 0]])
    lower, upper = found.diagnostics.interval
    assert upper - lower < 1e-12


def test_infeasible_graphs_are_named():
    scores = np.zeros((3, 2, 2))
    scores[1, :, 0] = -np.inf
    with pytest.raises(InfeasibleGraphError, match="graph 1"):
        Bethe().infer(scores)


@pytest.mark.parametrize(
    "options",
    [
        {"tol": -1},
        {"tol": "a"},
        {"max_iter": 0},
        {"max_iter": 10**30},
        {"damping": 1.0},
        {"bounds": np.ones(2)},
        {"bounds": 1},
    ],
    ids=str,
)
def test_bad_options(options):
    with pytest.raises(InvalidOptionError, match=next(iter(options))):
        Bethe(**options)


def test_size_limit():
    with pytest.raises(SizeLimitError, match="at most 5"):
        Bethe(max_size=5).infer(np.zeros((6, 6)))
