"""The Markov chains of `SwapChain`: their distribution, and what they say of themselves."""

import itertools
import math
import warnings

import numpy as np
import pytest
from scipy import stats

import permatch as pm
from permatch.errors import InfeasibleGraphError, InvalidOptionError, SizeLimitError
from permatch.inference.base import Job
from permatch.inference.chains.run import balanced, burn_in
from permatch.inference.chains.starts import starting_matchings
from permatch.inference.subset_dp import SubsetDP
from permatch.inference.swap_chain import SwapChain, draw_chain
from tests.helpers import random_scores

PROPOSALS = ["swap", "block", "sequential", "mixed"]


def cyclic_support(size, high=0.0, low=-np.inf):
    """Two matchings, the identity and a shift, that no move of few rows connects."""
    scores = np.full((size, size), low)
    rows = np.arange(size)
    scores[rows, rows] = scores[rows, (rows + 1) % size] = high
    return scores


def ask(engine, scores):
    """The answer for one graph, without the warning that chains have not mixed."""
    return engine._answer_one(scores, Job())


def draw(engine, scores, n, thin):
    """States of rung 0 of the first chain, `thin` sweeps apart."""
    weights, offsets = balanced(scores[None], np.zeros(1, dtype=np.intp))
    chains = engine.start_chains(weights[0], offsets[0], (engine.random_state, 0))
    burn_in([chains], 2000, Job())
    return chains.run(0, n * thin, thin).trace.astype(np.intp)


def goodness_of_fit(matchings, scores):
    """p-value of the chi-square test against all permutations, rare ones pooled."""
    size = len(scores)
    every = np.array(list(itertools.permutations(range(size))))
    log_weights = scores[np.arange(size), every].sum(axis=1)
    expected = np.exp(log_weights - log_weights.max())
    expected *= len(matchings) / expected.sum()
    base = size ** np.arange(size)
    codes = every @ base
    order = np.argsort(codes)
    places = order[np.searchsorted(codes, matchings @ base, sorter=order)]
    observed = np.bincount(places, minlength=len(every))
    assert (observed[expected == 0.0] == 0).all()
    is_rare = expected < 5.0
    observed = np.append(observed[~is_rare], observed[is_rare].sum())
    expected = np.append(expected[~is_rare], expected[is_rare].sum())
    if expected[-1] == 0.0:
        observed, expected = observed[:-1], expected[:-1]
    return stats.chisquare(observed, expected).pvalue


@pytest.mark.parametrize("proposals", PROPOSALS)
@pytest.mark.parametrize("spread", [0.5, 2.0, 5.0])
def test_every_proposal_samples_the_target(proposals, spread):
    rng = np.random.default_rng(7)
    engine = SwapChain(proposals=proposals, block_size=3)
    p_values = [
        goodness_of_fit(draw(engine, scores, 4000, 10), scores)
        for scores in (
            random_scores(rng, 5, spread),
            random_scores(rng, 5, spread, forbidden=0.3),
        )
    ]
    assert min(p_values) > 0.005


@pytest.mark.parametrize("proposals", PROPOSALS)
def test_every_proposal_samples_the_target_without_tempering(proposals):
    scores = random_scores(np.random.default_rng(8), 5, 1.0)
    engine = SwapChain(proposals=proposals, block_size=4, tempering=False)
    assert goodness_of_fit(draw(engine, scores, 8000, 16), scores) > 0.005


def test_draw_chain_samples_the_target():
    scores = random_scores(np.random.default_rng(9), 5, 2.0, forbidden=0.2)
    matchings = draw_chain(scores, 5000, thin=16, rng=1)
    assert matchings.shape == (5000, 5)
    assert goodness_of_fit(matchings, scores) > 0.005
    np.testing.assert_array_equal(
        draw_chain(scores, 9, rng=1), draw_chain(scores, 9, rng=1)
    )
    assert draw_chain(np.zeros((0, 0)), 3).shape == (3, 0)
    assert draw_chain(np.zeros((3, 3)), 0).shape == (0, 3)


@pytest.mark.parametrize("size", [8, 12])
@pytest.mark.parametrize("forbidden", [0.0, 0.5])
def test_stepping_stones_find_the_log_partition(size, forbidden):
    rng = np.random.default_rng(size)
    for spread in (0.5, 2.0, 5.0, 40.0):
        scores = random_scores(rng, size, spread, forbidden)
        report = ask(SwapChain(), scores)
        exact = SubsetDP().infer(scores)
        error = abs(report.log_partition - exact.log_partition)
        assert error <= 4.0 * report.log_partition_error
        assert report.log_partition_error < 0.2
        assert report.diagnostics.is_trusted


def test_rungs_exchange():
    scores = random_scores(np.random.default_rng(1), 12, 2.0)
    figures = ask(SwapChain(), scores).diagnostics.figures
    betas, rates = figures["betas"], figures["exchange_rates"]
    assert betas[0] == 1.0
    assert betas[-1] == 0.0
    assert (np.diff(betas) <= 0.0).all()
    assert rates.shape == (len(betas) - 1,)
    assert rates.min() > 0.4
    few = ask(SwapChain(tempering=4), scores).diagnostics.figures
    assert len(few["betas"]) == 4
    assert 0.05 < few["exchange_rates"].min() < 0.5
    assert few["exchange_rates"].max() <= 1.0


def test_two_modes_are_flagged_by_their_edges_and_solved_by_tempering():
    scores = cyclic_support(12, 6.0, 0.0)
    exact = SubsetDP().infer(scores)
    plain = ask(SwapChain(proposals="swap", tempering=False, n_sweeps=5000), scores)
    # The score alone would have let it pass.
    assert plain.diagnostics.figures["energy_r_hat"] < 1.1
    assert plain.diagnostics.r_hat > 1.2
    assert not plain.diagnostics.is_trusted
    assert math.isnan(plain.log_partition)
    tempered = ask(SwapChain(n_sweeps=5000), scores)
    assert tempered.diagnostics.is_trusted
    errors = np.abs(tempered.marginals - exact.marginals)
    assert errors.max() < 0.06
    assert np.mean(errors <= 2.0 * tempered.marginal_errors) > 0.9


def test_tempering_connects_what_forbidden_edges_keep_apart():
    scores = cyclic_support(10)
    for proposals in PROPOSALS:  # no block of six rows can move at all
        stuck = ask(SwapChain(proposals=proposals, tempering=False), scores)
        assert stuck.diagnostics.r_hat == np.inf
        assert not stuck.diagnostics.is_trusted
    report = ask(SwapChain(), scores)
    assert report.diagnostics.is_trusted
    assert abs(report.marginals[0, 0] - 0.5) < 3.0 * report.marginal_errors[0, 0]
    assert abs(report.log_partition - math.log(2.0)) < 4.0 * report.log_partition_error
    assert (report.marginals[scores == -np.inf] == 0.0).all()
    assert (report.marginal_errors[scores == -np.inf] == 0.0).all()


def test_a_block_as_large_as_the_cycle_connects_it_too():
    engine = SwapChain(proposals="block", tempering=False, block_size=8, n_sweeps=200)
    report = ask(engine, cyclic_support(8))
    assert report.diagnostics.is_trusted
    assert report.marginals[0, 0] == pytest.approx(0.5)  # exactly, by Rao-Blackwell


@pytest.mark.slow
def test_standard_errors_are_honest():
    rng = np.random.default_rng(12)
    shares, misses = [], []
    for spread, forbidden in ((1.0, 0.0), (3.0, 0.3)):
        scores = random_scores(rng, 12, spread, forbidden)
        exact = SubsetDP().infer(scores)
        is_uncertain = exact.marginals * (1.0 - exact.marginals) > 0.01
        for seed in range(30):
            report = ask(SwapChain(n_sweeps=400, random_state=seed), scores)
            errors = np.abs(report.marginals - exact.marginals)
            is_within = errors <= 2.0 * report.marginal_errors
            shares.append((is_within.mean(), is_within[is_uncertain].mean()))
            miss = report.log_partition - exact.log_partition
            misses.append(miss / report.log_partition_error)
    assert np.mean(shares, axis=0).min() >= 0.9
    assert np.mean(np.abs(misses) <= 2.0) >= 0.9
    assert 0.6 < np.sqrt(np.mean(np.square(misses))) < 1.4  # and not merely wide


def test_warns_when_chains_have_not_mixed():
    scores = cyclic_support(10)
    engine = SwapChain(tempering=False, n_sweeps=100)
    message = (
        r"SwapChain has not mixed: graph 0 of size 10 should have R-hat at most 1\.05 and "
        r"at least 100 effective samples, got inf and \d+\. .* Raise n_sweeps \(now 100\), "
        r"or set tempering=True, or use another engine\."
    )
    with pytest.warns(RuntimeWarning, match=message):
        result = engine.infer(scores)
    told = result.diagnostics
    assert not told.is_converged
    assert told.certificate == "heuristic"
    assert told.interval is None
    assert math.isnan(told.log_partition_error)
    with pytest.warns(RuntimeWarning, match=r"graph 1 of size 10 \(like 1 other\)"):
        engine.infer([np.zeros((2, 2)), scores, scores])


# Graphs on which chains without rungs agree, and are wrong by the error given.
STUCK = [(10.0, 41, 0.16), (20.0, 38, 0.14), (40.0, 22, 0.07)]


@pytest.mark.parametrize(("spread", "seed", "error"), STUCK)
def test_chains_that_missed_likely_matchings_know_it(spread, seed, error):
    scores = spread * np.random.default_rng(seed).normal(size=(14, 14))
    exact = pm.infer(scores).marginals
    engine = SwapChain(tempering=False, random_state=seed)
    found = ask(engine, scores)
    assert found.diagnostics.r_hat < 1.05
    assert found.diagnostics.effective_samples > 100
    assert np.abs(found.marginals - exact).max() > error
    with pytest.warns(RuntimeWarning, match="it has missed likely matchings"):
        told = engine.infer(scores).diagnostics
    assert told.certificate == "heuristic"
    assert not told.is_converged


@pytest.mark.parametrize(("spread", "seed"), [case[:2] for case in STUCK])
def test_tempering_finds_what_chains_without_it_miss(spread, seed):
    scores = spread * np.random.default_rng(seed).normal(size=(14, 14))
    result = SwapChain(random_state=seed).infer(scores)
    assert result.diagnostics.certificate == "asymptotic"
    errors = np.abs(result.marginals - pm.infer(scores).marginals)
    assert (errors < 5 * result.marginal_errors).all()


def test_a_single_chain_that_lost_the_best_matching_knows_it():
    scores = 40.0 * np.random.default_rng(53).normal(size=(14, 14))
    engine = SwapChain(tempering=False, n_chains=1, random_state=53)
    with pytest.warns(RuntimeWarning, match="it has missed likely matchings"):
        result = engine.infer(scores)
    # It never came back to the best matching, and nothing else shows that.
    assert np.abs(result.marginals - pm.infer(scores).marginals).max() > 0.9
    assert result.diagnostics.r_hat < 1.05


@pytest.mark.parametrize("spread", [0.0, 1.0, 3.0])
def test_chains_that_get_around_have_missed_nothing(spread, rng):
    for _ in range(5):
        scores = spread * rng.normal(size=(8, 8))
        figures = ask(SwapChain(tempering=False), scores).diagnostics.figures
        assert figures["shortfall"] < 2.5


# Of sixty graphs each, those on which chains without rungs agree and are wrong.
AGREED = [
    (10.0, [3, 7, 25, 41, 42, 44, 51]),
    (20.0, [21, 31, 38, 54]),
    (40.0, [1, 12, 22, 50, 58]),
]


@pytest.mark.parametrize(("spread", "seeds"), AGREED)
def test_chains_without_tempering_are_right_or_say_so(spread, seeds):
    for seed in seeds:
        scores = spread * np.random.default_rng(seed).normal(size=(14, 14))
        report = ask(SwapChain(tempering=False, random_state=seed), scores)
        errors = np.abs(report.marginals - pm.infer(scores).marginals)
        is_right = (errors < 5 * report.marginal_errors + 1e-3).all()
        assert is_right or not report.diagnostics.is_trusted


def test_diagnostics_tell_the_story():
    scores = random_scores(np.random.default_rng(4), 6)
    result = SwapChain().infer(scores)
    told = result.diagnostics
    assert not result.is_exact
    assert told.engine == "swap_chain"
    assert told.reason.startswith("asked for; 4 chains of 2000 sweeps, ")
    assert "rungs that exchange" in told.reason
    assert told.certificate == told.interval_certificate == "asymptotic"
    assert told.interval[0] < result.log_partition < told.interval[1]
    assert told.log_partition_error == result.log_partition_error
    assert told.marginal_error == result.marginal_errors.max()
    assert told.n_samples == 8000
    assert told.effective_samples > 100
    assert 1.0 <= told.r_hat <= 1.05
    assert 0.0 < told.acceptance <= 1.0
    assert told.is_converged
    np.testing.assert_allclose(result.marginals.sum(axis=0), 1.0, atol=1e-12)
    np.testing.assert_allclose(result.marginals.sum(axis=1), 1.0, atol=1e-12)


def test_threads_change_no_bit():
    rng = np.random.default_rng(3)
    stack = np.stack([random_scores(rng, 7, 2.0, 0.3) for _ in range(3)])
    engine = SwapChain(n_sweeps=300, tol=0.02, max_sweeps=1200)
    one = engine.infer(stack, n_jobs=1)
    for n_jobs in (2, 5):
        other = engine.infer(stack, n_jobs=n_jobs)
        for name in (
            "log_partition",
            "marginals",
            "log_partition_error",
            "marginal_errors",
        ):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    alone = engine.infer(stack[0])
    np.testing.assert_array_equal(alone.marginals, one.marginals[0])
    as_list = engine.infer([np.zeros((2, 2)), *stack[1:]])
    np.testing.assert_array_equal(as_list.marginals[2], one.marginals[2])
    reseeded = SwapChain(n_sweeps=300, tol=0.02, max_sweeps=1200, random_state=1)
    assert (reseeded.infer(stack).log_partition != one.log_partition).all()


def test_smallest_graphs():
    engine = SwapChain(n_sweeps=400)
    empty = engine.infer(np.zeros((0, 0)))
    assert empty.log_partition == 0.0
    assert empty.marginals.shape == empty.marginal_errors.shape == (0, 0)
    single = engine.infer([[-3.5]])
    assert single.log_partition == -3.5
    assert single.log_partition_error == 0.0
    np.testing.assert_array_equal(single.marginals, [[1.0]])
    assert not single.is_exact
    pair = engine.infer(np.log([[3.0, 1.0], [2.0, 2.0]]))
    assert abs(pair.marginals[0, 0] - 0.75) < 3.0 * pair.marginal_errors[0, 0]
    assert abs(pair.log_partition - math.log(8.0)) < 4.0 * pair.log_partition_error
    assert engine.infer(np.zeros((0, 3, 3))).marginals.shape == (0, 3, 3)
    assert engine.infer([]).log_partition.shape == (0,)


def test_a_graph_with_one_matching():
    scores = np.triu(np.ones((6, 6)))
    scores[scores == 0.0] = -np.inf
    result = SwapChain().infer(scores)
    np.testing.assert_allclose(result.marginals, np.eye(6), atol=1e-12)
    assert abs(result.log_partition - 6.0) < 4.0 * result.log_partition_error


def test_infeasible_graphs_are_refused():
    scores = np.zeros((3, 3))
    scores[:, 0] = -np.inf
    for ask in (SwapChain().infer, lambda s: draw_chain(s, 2)):
        with pytest.raises(InfeasibleGraphError, match="no perfect matching"):
            ask(scores)


def test_tolerance_is_met_by_more_sweeps():
    scores = random_scores(np.random.default_rng(5), 8)
    short = ask(SwapChain(n_sweeps=200), scores)
    engine = SwapChain(n_sweeps=200, tol=0.006)
    longer = ask(engine, scores)
    assert short.largest_error > 0.006 >= longer.largest_error
    assert 200 < longer.diagnostics.figures["n_sweeps"] < 100_000
    assert engine.infer(scores).diagnostics.is_converged
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        missed = SwapChain(n_sweeps=200, tol=1e-4, max_sweeps=400).infer(scores)
    assert not missed.diagnostics.is_converged


def test_budget_cuts_the_run_short():
    scores = random_scores(np.random.default_rng(5), 30)
    report = ask(SwapChain(n_sweeps=10**7, budget=0.1), scores)
    assert 16 <= report.diagnostics.figures["n_sweeps"] < 10**5


def test_starts_are_feasible_and_apart():
    scores = random_scores(np.random.default_rng(6), 9, 2.0, forbidden=0.4)
    starts = starting_matchings(scores, 5, np.random.default_rng(0))
    rows = np.arange(9)
    np.testing.assert_array_equal(np.sort(starts, axis=1), np.tile(rows, (5, 1)))
    totals = scores[rows, starts].sum(axis=1)
    assert np.isfinite(totals).all()
    assert totals[0] == totals.max()
    best = np.argmax(scores[rows, starts[0]])
    assert starts[1, best] != starts[0, best]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_sweeps": 3}, "n_sweeps of SwapChain must be a whole number of at least 16"),
        ({"n_chains": 0}, "n_chains of SwapChain"),
        ({"tempering": 0}, "tempering of SwapChain"),
        ({"block_size": 1}, "block_size of SwapChain must be a whole number of at least 2"),
        ({"block_size": 13}, "block_size of SwapChain must be at most 12, got 13"),
        ({"proposals": "jump"}, "proposals of SwapChain must be one of 'swap', 'block'"),
        ({"burn_in": -1}, "burn_in of SwapChain"),
        ({"tol": 0}, "tol of SwapChain must be a number above 0"),
        ({"tol": "a"}, "tol of SwapChain must be a number above 0"),
        ({"tol": 1e-300}, "tol of SwapChain must be at least 1e-100"),
        ({"budget": 0}, "budget of SwapChain must be a number of seconds above 0"),
        ({"budget": "a"}, "budget of SwapChain must be a number of seconds above 0"),
        ({"proposals": [1]}, "proposals of SwapChain must be one of 'swap', 'block'"),
        ({"n_chains": 10**7}, "n_chains of SwapChain must be at most 256"),
        ({"tempering": 10**9}, "tempering of SwapChain must be at most 1024"),
        ({"tempering": np.ones(2)}, "tempering of SwapChain must be a whole number"),
        ({"n_sweeps": 10**30}, "n_sweeps of SwapChain must be at most"),
        ({"random_state": -1}, "random_state of SwapChain"),
        ({"max_size": 10**6}, "max_size of SwapChain must be at most 2000"),
    ],
    ids=str,
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(InvalidOptionError, match=message):
        SwapChain(**options)


def test_numpy_integers_are_integers():
    scores = np.random.default_rng(0).normal(size=(6, 6))
    plain = SwapChain(n_sweeps=64, burn_in=64, n_chains=2, tempering=3)
    numpy = SwapChain(
        n_sweeps=np.int64(64),
        burn_in=np.int64(64),
        n_chains=np.int32(2),
        tempering=np.int16(3),
    )
    assert plain == numpy
    np.testing.assert_array_equal(
        ask(plain, scores).marginals, ask(numpy, scores).marginals
    )
    assert SwapChain(tempering=np.False_).tempering is False


def test_too_large_a_graph_is_refused_with_its_cost():
    with pytest.raises(SizeLimitError, match="SwapChain handles graphs of size at most 5"):
        SwapChain(max_size=5).infer(np.zeros((6, 6)))
