"""Chains on the edges of sparse, rectangular and partial problems."""

import warnings

import numpy as np
import pytest
from scipy.stats import chi2

import permatch as pm
from permatch import errors
from permatch.inference.base import Job
from permatch.inference.chains.edge_draws import EdgeChainSamples
from permatch.inference.chains.edge_run import EdgeChains
from permatch.inference.chains.edge_target import build_target
from permatch.inference.enumeration import list_matchings
from permatch.kernels import edge_chain
from permatch.scores import check_problem
from tests.helpers import random_problem
from tests.inference.test_bethe_problems import enumerate_all, many_components


def solve(problem, **options):
    scores, left, right = problem
    engine = pm.SwapChain(**{"n_sweeps": 1500, **options})
    return engine.infer(scores, unmatched_left=left, unmatched_right=right)


def weights_of(problem, matchings):
    """Probabilities of matchings, given by edges."""
    structure = problem.structure
    totals = np.zeros(len(matchings))
    for k, chosen in enumerate(matchings):
        used = chosen[chosen >= 0]
        is_taken = np.zeros(structure.n_right, bool)
        is_taken[structure.right[used]] = True
        totals[k] = problem.scores[used].sum()
        totals[k] += problem.unmatched_left[chosen < 0].sum()
        totals[k] += problem.unmatched_right[~is_taken].sum()
    weights = np.exp(totals - totals.max())
    return weights / weights.sum()


@pytest.mark.parametrize("must", [0.0, 0.6])
@pytest.mark.parametrize("spread", [0.5, 2.0, 5.0])
def test_within_the_errors_reported(rng, spread, must):
    scaled, logs = [], []
    for k in range(6):
        n = rng.integers(3, 6, 2)
        problem = random_problem(rng, *n, spread, 0.2, must)
        found, exact = solve(problem, random_state=k), enumerate_all(problem)
        is_open = found.marginal_errors > 0
        gaps = (found.marginals - exact.marginals)[is_open]
        scaled.extend(gaps / found.marginal_errors[is_open])
        gap = found.log_partition - exact.log_partition
        logs.append(gap / max(found.log_partition_error, 1e-9))
        np.testing.assert_allclose(found.unmatched_left, exact.unmatched_left, atol=0.05)
        np.testing.assert_allclose(found.unmatched_right, exact.unmatched_right, atol=0.05)
        assert found.diagnostics.certificate in ("asymptotic", "exact")
    assert np.abs(scaled).max(initial=0) < 4.5
    assert np.abs(logs).max() < 3.5
    assert np.sqrt(np.mean(np.square(scaled))) < 1.3


@pytest.mark.parametrize("must", [0.0, 0.6])
def test_spread_of_300(rng, must):
    for k in range(3):
        problem = random_problem(rng, 5, 5, 300.0, 0.2, must)
        found, exact = solve(problem, random_state=k), enumerate_all(problem)
        gaps = np.abs(found.marginals - exact.marginals)
        assert (gaps <= 4.0 * found.marginal_errors + 1e-9).all()
        assert abs(found.log_partition - exact.log_partition) < max(
            4.0 * found.log_partition_error, 1e-6
        )


@pytest.mark.parametrize("move", ["_left_pass", "_swap_pass", "_right_pass", "_exchange"])
def test_every_move_leaves_the_target_alone(rng, move):
    """Start from exact draws, make one move, and compare with the exact probabilities."""
    scores, left, right = random_problem(rng, 3, 3, 1.0, 0.0)
    problem, _ = check_problem(scores, left, right)
    matchings = list_matchings(problem)
    target = build_target(problem, 4)
    edges = target.edges
    n, chosen = 20_000, []
    stream = np.random.SeedSequence(3).generate_state(4, np.uint64)
    rungs = 2 if move == "_exchange" else 1
    tables = []
    for r in range(rungs):
        beta = edges.betas[0, r]
        totals = np.array([(beta * edges.theta[m[m >= 0]]).sum() for m in matchings])
        totals += np.array([(m >= 0).sum() for m in matchings]) * np.log(beta)
        weights = np.exp(totals - totals.max())
        tables.append(weights / weights.sum())
    np.testing.assert_allclose(tables[0], weights_of(problem, matchings), atol=1e-12)
    draws = [rng.choice(len(matchings), n, p=table) for table in tables]
    for k in range(n):
        state = edge_chain.ChainState(
            np.full((4, 3), -1), np.full((4, 3), -1), stream[None]
        )
        totals = np.zeros((4, 2))
        for r in range(rungs):
            used = matchings[draws[r][k]]
            state.left_edge[r] = used
            state.right_edge[r, edges.right[used[used >= 0]]] = used[used >= 0]
            edge_chain._add_up(edges, state.left_edge[r], 0, totals[r])
        rows = edges.weights[0], state.left_edge[0], state.right_edge[0]
        if move == "_exchange":
            sums = np.zeros((3, 1))
            edge_chain._exchange(edges, state, 0, 0, stream, totals, sums)
        elif move == "_swap_pass":
            edge_chain._swap_pass(edges, *rows, 0, stream)
        else:
            tally = np.zeros(len(edges.theta))
            getattr(edge_chain, move)(edges, *rows, 0, stream, tally, False)
        chosen.append(state.left_edge[0].copy())
    assert p_value(np.array(chosen), matchings, tables[0]) > 1e-4


def p_value(chosen, matchings, probabilities):
    place = {tuple(m): k for k, m in enumerate(matchings.tolist())}
    counts = np.bincount([place[tuple(m)] for m in chosen.tolist()], minlength=len(place))
    expected = probabilities * len(chosen)
    is_rare = expected < 5
    seen = np.append(counts[~is_rare], counts[is_rare].sum())
    wanted = np.append(expected[~is_rare], expected[is_rare].sum())
    is_used = wanted > 0
    seen, wanted = seen[is_used], wanted[is_used]
    return chi2.sf(((seen - wanted) ** 2 / wanted).sum(), len(wanted) - 1)


@pytest.mark.parametrize("must", [0.0, 0.7])
def test_samples_have_the_right_frequencies(rng, must):
    scores, left, right = random_problem(rng, 4, 3, 1.0, 0.2, must)
    problem, _ = check_problem(scores, left, right)
    matchings = list_matchings(problem)
    ends = np.where(matchings >= 0, problem.structure.right[matchings], -1)
    samples = EdgeChainSamples(problem, 4, 200).sample(3000, rng)
    assert p_value(samples, ends, weights_of(problem, matchings)) > 1e-4


def test_nodes_that_must_be_matched_always_are(rng):
    scores = rng.normal(size=(6, 9))
    found = pm.SwapChain(n_sweeps=800).infer(scores)
    assert (found.unmatched_left == 0).all()
    np.testing.assert_allclose(found.marginals.sum(axis=1), 1.0, atol=1e-12)
    problem, _ = check_problem(scores)
    samples = EdgeChainSamples(problem, 12, 100).sample(50, rng)
    assert (samples >= 0).all()
    assert all(len(set(s.tolist())) == 6 for s in samples)


def test_trees_are_exact_and_others_are_not(rng):
    tree = np.array([[0.5, 1.0, -np.inf], [-np.inf, 0.2, 0.3]])
    found, exact = (
        pm.infer(tree, engine, unmatched_left=0.1, unmatched_right=-0.2)
        for engine in ("swap_chain", "enumeration")
    )
    assert found.is_exact
    np.testing.assert_allclose(found.marginals, exact.marginals, atol=1e-12)
    assert found.log_partition == pytest.approx(exact.log_partition, abs=1e-12)
    assert not solve(random_problem(rng, 3, 3, 1.0, 0.0)).is_exact


def test_threads_and_seeds(rng):
    edges = many_components(rng, 300)
    sides = {"unmatched_left": 0.0, "unmatched_right": 0.5}
    engine = pm.SwapChain(n_sweeps=200, n_chains=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        one, four = (engine.infer(edges, n_jobs=n, **sides) for n in (1, 4))
        other = pm.SwapChain(n_sweeps=200, n_chains=2, random_state=1).infer(edges, **sides)
    np.testing.assert_array_equal(one.marginals, four.marginals)
    assert one.log_partition == four.log_partition
    assert (one.marginals != other.marginals).any()
    exact = pm.infer(edges, "enumeration", **sides)
    gap = (one.log_partition - exact.log_partition) / one.log_partition_error
    assert abs(gap) < 3.5
    rows = np.bincount(edges.left, one.marginals, edges.n_left) + one.unmatched_left
    np.testing.assert_allclose(rows, 1.0, atol=0.05)


def test_slices_do_not_change_the_result(rng):
    scores, left, right = random_problem(rng, 4, 4, 1.0, 0.0)
    problem, _ = check_problem(scores, left, right)
    target = build_target(problem, 4)
    answers = []
    for cuts in ([0, 50], [0, 1, 2, 17, 31, 50]):
        chains = EdgeChains.start(target, 1, 0)
        chains.run(1, np.arange(1), Job())  # makes sums
        sums = chains.outputs[0]
        sums = type(sums)(*(np.zeros_like(s) for s in sums))
        sums = sums._replace(
            slopes=np.zeros((8, 4, 1)), energies=np.zeros((50, 1)), links=np.zeros((50, 1))
        )
        for begin, end in zip(cuts[:-1], cuts[1:], strict=True):
            edge_chain.run_graphs(
                target.edges,
                chains.states[0],
                sums,
                50,
                1,
                chains.periods,
                np.arange(1),
                begin,
                end,
            )
        answers.append(sums)
    for one, other in zip(*answers, strict=True):
        np.testing.assert_array_equal(one, other)
    assert answers[0].count_sums[0, 0] == 50


def test_tolerance_is_reached(rng):
    problem = random_problem(rng, 5, 5, 1.0, 0.0)
    rough = solve(problem, n_sweeps=100)
    fine = solve(problem, n_sweeps=100, tol=0.004)
    assert rough.marginal_errors.max() > 0.004
    assert fine.marginal_errors.max() <= 0.004
    assert fine.diagnostics.is_converged
    assert fine.diagnostics.n_samples > rough.diagnostics.n_samples


def test_budget_ends_it(rng):
    problem = random_problem(rng, 30, 30, 1.0, 0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found = solve(problem, n_sweeps=10**6, budget=0.2)
    assert 0 < found.diagnostics.n_samples < 10**6


def test_without_rungs_the_log_partition_is_unknown(rng):
    found = solve(random_problem(rng, 4, 4, 1.0, 0.0), tempering=False)
    assert np.isnan(found.log_partition)
    assert found.diagnostics.interval is None
    assert found.diagnostics.is_trusted


def test_chains_that_do_not_agree_say_so():
    # A long cycle of two perfect matchings, next to nothing between them.
    n = 40
    rows = np.arange(n)
    scores = np.full((n, n), -np.inf)
    scores[rows, rows] = scores[rows, (rows + 1) % n] = 0.0
    engine = pm.SwapChain(n_sweeps=32, tempering=False)
    with pytest.warns(RuntimeWarning, match="component of 80 edges"):
        found = engine.infer(scores, unmatched_left=-12.0, unmatched_right=-12.0)
    assert found.diagnostics.certificate == "heuristic"


def test_a_distribution_draws_wide_components_from_a_chain(rng):
    scores = rng.normal(size=(26, 27))  # too wide for exact tables
    exact = pm.MatchingDistribution(scores, unmatched_left=0.0, unmatched_right=0.0)
    with pytest.raises(errors.SizeLimitError, match="engine='swap_chain'"):
        exact.sample(1, rng=0)
    engine = pm.SwapChain(n_sweeps=100, tempering=4)
    d = pm.MatchingDistribution(scores, engine, unmatched_left=0.0, unmatched_right=0.0)
    samples = d.sample(400, rng=0)
    assert samples.shape == (400, 26)
    assert (d.sample(3, rng=0) == samples[:3]).all()
    beliefs_ = pm.Bethe().infer(scores, unmatched_left=0.0, unmatched_right=0.0)
    assert (samples == -1).mean() == pytest.approx(beliefs_.unmatched_left.mean(), abs=0.03)
    for sample in samples[:20]:
        ends = sample[sample >= 0]
        assert len(set(ends.tolist())) == len(ends)
