"""Nesting importance sampling: estimates, their errors, certificates, exact samples."""

import math

import numpy as np
import pytest

import permatch as pm
from permatch import _parallel
from permatch.errors import InfeasibleGraphError, InvalidOptionError, PrecisionError
from permatch.inference.exact import reduce_scores
from permatch.inference.nesting import Nesting
from permatch.inference.sampling import nesting_run
from permatch.inference.sampling.betting import Gambler, bet_until
from permatch.inference.sampling.nesting_table import NestingTable, deepen, tightest_plan
from permatch.inference.sampling.weighted import (
    add_sums,
    balanced_weights,
    empty_sums,
    estimate_from_filters,
    log_mean,
    make_plan,
)
from permatch.kernels.intrinsics import seed_state
from permatch.kernels.sliced import run_filter
from tests.helpers import random_scores
from tests.inference.goodness import THRESHOLD, cases, p_value

CASES = list(cases())
every_case = pytest.mark.parametrize("scores", CASES, ids=range(len(CASES)))


# ---- exact samples


@every_case
@pytest.mark.parametrize(("depth", "tail"), [(0, 0), (0, 3), (2, 2), (6, 0), (None, 8)])
def test_samples_fit_the_exact_distribution(scores, depth, tail):
    table = NestingTable.build(scores, depth, tail)
    samples = table.sample(20_000, np.random.default_rng(1))
    assert p_value(samples, scores) > THRESHOLD


@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize("head_from_end", [False, True])
def test_every_kind_of_plan_samples_exactly(is_transposed, head_from_end):
    scores = CASES[2]
    reduced, best = reduce_scores(scores)
    weights, offset = balanced_weights(reduced)
    plan = make_plan(
        weights,
        best + offset,
        depth=2,
        tail=2,
        is_transposed=is_transposed,
        head_from_end=head_from_end,
    )
    samples = NestingTable(plan).sample(20_000, np.random.default_rng(2))
    assert p_value(samples, scores) > THRESHOLD


@pytest.mark.parametrize("depth", [0, 3, 8])
def test_acceptance_is_what_the_gap_says(depth, rng):
    scores = random_scores(rng, 9, 1.5)
    table = NestingTable.build(scores, depth, tail=4)
    _, rate = table.sample_with_rate(4000, np.random.default_rng(3))
    expected = math.exp(pm.log_partition(scores) - table.plan.log_bound)
    assert rate == pytest.approx(expected, abs=4.0 * math.sqrt(expected / 4000 * expected))


def test_a_full_head_accepts_everything(rng):
    scores = random_scores(rng, 7, 3.0, 0.3)
    table = NestingTable.build(scores, 7)
    _, rate = table.sample_with_rate(100, np.random.default_rng(0))
    assert rate == 1.0
    assert table.plan.log_bound == pytest.approx(pm.log_partition(scores), abs=1e-9)


def test_samples_do_not_depend_on_threads(rng):
    table = NestingTable.build(random_scores(rng, 20, 1.0))
    one = table.sample(3000, np.random.default_rng(5), n_jobs=1)
    two = table.sample(3000, np.random.default_rng(5), n_jobs=2)
    np.testing.assert_array_equal(one, two)
    assert (np.sort(one, axis=1) == np.arange(20)).all()


def test_samples_beyond_the_tables_have_the_right_marginals(rng):
    scores = random_scores(rng, 26, 1.0)
    samples = NestingTable.build(scores).sample(4000, np.random.default_rng(1))
    shares = (samples[:, :, None] == np.arange(26)).mean(axis=0)
    result = Nesting().infer(scores)
    errors = np.hypot(result.marginal_errors, np.sqrt(result.marginals / 4000))
    assert (np.abs(shares - result.marginals) < 5.0 * errors).all()


@pytest.mark.parametrize("size", [0, 1])
def test_samples_of_tiny_graphs(size):
    table = NestingTable.build(np.zeros((size, size)))
    samples = table.sample(3, np.random.default_rng(0))
    assert samples.tolist() == [list(range(size))] * 3


def test_giving_up_says_how_far_it_got(rng):
    table = NestingTable.build(random_scores(rng, 40, 5.0), depth=0)
    with pytest.raises(
        PrecisionError, match=r"were requested. Request fewer, raise max_tr"
    ):
        table.sample(1000, np.random.default_rng(0), max_trials=4096)


def test_a_deeper_head_is_built_only_where_it_pays(rng):
    weights, offset = balanced_weights(reduce_scores(random_scores(rng, 20, 2.0))[0])
    plan = make_plan(weights, offset)
    exact = pm.log_partition(np.log(weights)) + offset
    assert deepen(plan, weights, offset, exact, 1.0, 8) is plan
    deeper = deepen(plan, weights, offset, exact, 1e5, 8)
    assert deeper.log_bound < plan.log_bound
    assert tightest_plan(weights, offset, 8, 8).log_bound < plan.log_bound


# ---- estimates


@pytest.mark.parametrize("spread", [0.5, 1.0, 2.0, 5.0])
@pytest.mark.parametrize("forbidden", [0.0, 0.5])
def test_estimates_meet_the_tolerance(spread, forbidden, rng):
    scores = random_scores(rng, 13, spread, forbidden)
    exact = pm.infer(scores)
    result = Nesting(tol=0.02).infer(scores)
    assert not result.is_exact
    assert result.diagnostics.certificate == "asymptotic"
    assert result.diagnostics.is_converged
    gap = abs(result.log_partition - exact.log_partition)
    assert gap <= 4.0 * result.log_partition_error + 1e-9
    assert np.abs(result.marginals - exact.marginals).max() < 0.02
    assert (result.marginals[~np.isfinite(scores)] == 0.0).all()
    assert (result.marginal_errors[~np.isfinite(scores)] == 0.0).all()
    np.testing.assert_allclose(result.marginals.sum(axis=0), 1.0, atol=1e-9)
    np.testing.assert_allclose(result.marginals.sum(axis=1), 1.0, atol=1e-9)


@pytest.mark.parametrize("spread", [1.0, 4.0])
def test_standard_errors_are_honest(spread, rng):
    scores = random_scores(rng, 12, spread)
    exact = pm.infer(scores)
    is_near, inside = [], []
    for seed in range(200):
        result = Nesting(n_samples=640, random_state=seed).infer(scores)
        gaps = np.abs(result.marginals - exact.marginals)
        is_near.append((gaps <= 2.0 * result.marginal_errors).mean())
        gap = abs(result.log_partition - exact.log_partition)
        inside.append(gap <= 2.0 * result.log_partition_error)
    assert np.mean(is_near) >= 0.9
    assert np.mean(inside) >= 0.9


def test_standard_errors_of_filters_are_honest(rng):
    scores = random_scores(rng, 12, 4.0)
    exact = pm.infer(scores)
    is_near = []
    for seed in range(200):
        engine = Nesting(particles=64, n_samples=640, tail=2, random_state=seed)
        result = engine.infer(scores)
        assert result.diagnostics.n_samples == 640
        gaps = np.abs(result.marginals - exact.marginals)
        is_near.append((gaps <= 2.0 * result.marginal_errors).mean())
    assert np.mean(is_near) >= 0.9


@pytest.mark.parametrize("depth", [0, 3])
def test_filters_are_unbiased(depth):
    scores = random_scores(np.random.default_rng(3), 14, 1.0, 0.75)
    reduced, best = reduce_scores(scores)
    weights, offset = balanced_weights(reduced)
    # The least certain columns first, so that there is something to resample.
    plan = make_plan(weights, best + offset, depth=depth, tail=1, head_from_end=True)
    ratios, n_resampled = [], 0
    exact = pm.log_partition(scores)
    for seed in range(2000):
        sums = empty_sums(14)
        n_resampled += run_filter(plan.tables, seed_state(seed), 32, sums)
        ratios.append(math.exp(plan.log_bound + log_mean(sums) - exact))
    assert n_resampled > 500
    assert abs(np.mean(ratios) - 1.0) < 4.0 * np.std(ratios) / math.sqrt(len(ratios))


def test_heavy_weights_call_for_particles(rng, monkeypatch):
    monkeypatch.setattr(nesting_run, "_HEAVY", 0.1)
    scores = random_scores(rng, 16, 4.0)
    result = Nesting(tol=0.05).infer(scores)
    assert "particle filters" in result.diagnostics.reason
    assert np.abs(result.marginals - pm.marginals(scores)).max() < 0.05
    plain = Nesting(tol=0.05, particles=None).infer(scores)
    assert "particle" not in plain.diagnostics.reason


def test_small_graphs_are_summed_over(rng):
    scores = random_scores(rng, 8, 2.0, 0.3)
    result = Nesting(certificate="rigorous").infer(scores)
    exact = pm.infer(scores)
    assert result.log_partition == pytest.approx(exact.log_partition, abs=1e-10)
    np.testing.assert_allclose(result.marginals, exact.marginals, atol=1e-11)
    assert not result.is_exact
    assert result.diagnostics.marginal_error == 0.0
    assert result.diagnostics.interval_certificate == "rigorous"
    low, high = result.diagnostics.interval
    assert low <= exact.log_partition <= high


@pytest.mark.parametrize("size", [0, 1, 2])
def test_tiny_graphs(size):
    result = Nesting().infer(np.full((size, size), 3.0))
    expected = 3.0 * size + math.lgamma(size + 1)
    assert result.log_partition == pytest.approx(expected, abs=1e-12)
    assert result.marginals.shape == (size, size)


def test_no_graphs():
    result = Nesting().infer(np.empty((0, 5, 5)))
    assert result.log_partition.shape == (0,)
    assert result.diagnostics.interval is None


@pytest.mark.parametrize("scale", [20.0, 400.0, 1e5])
def test_extreme_spreads(scale, rng):
    scores = random_scores(rng, 14, scale, 0.2) + 1e6
    exact = pm.infer(scores)
    result = Nesting(tol=0.05).infer(scores)
    gap = abs(result.log_partition - exact.log_partition)
    assert gap <= 4.0 * result.log_partition_error + 1e-3
    assert np.abs(result.marginals - exact.marginals).max() < 0.05


def test_equal_scores_need_few_draws():
    result = Nesting().infer(np.zeros((40, 40)))
    assert result.log_partition == pytest.approx(math.lgamma(41), abs=0.02)
    np.testing.assert_allclose(result.marginals, 1.0 / 40, atol=0.01)


def test_infeasible_graphs_are_refused():
    scores = np.zeros((12, 12))
    scores[:7, 6:] = -np.inf
    with pytest.raises(InfeasibleGraphError, match="no perfect matching"):
        Nesting().infer(scores)


def test_graphs_where_no_draw_survives_are_refused(monkeypatch, rng):
    monkeypatch.setattr(nesting_run, "add_chunk", _no_draw_survives)
    with pytest.raises(PrecisionError, match="none of 4096 could"):
        Nesting(particles=None, max_samples=4096).infer(random_scores(rng, 12))


def _no_draw_survives(tables, state, n_draws, sums):
    sums.totals[4] += n_draws


# ---- certificates


def test_a_rigorous_interval_may_be_out_of_reach(rng):
    engine = Nesting(certificate="rigorous", tol=0.1, max_samples=20_000)
    result = engine.infer(random_scores(rng, 40, 3.0))
    assert result.diagnostics.interval_certificate == "asymptotic"
    assert not result.diagnostics.is_converged
    assert "too few draws for a rigorous interval" in result.diagnostics.reason


@pytest.mark.parametrize("kind", ["coins", "narrow", "constant"])
def test_bets_cover_whatever_the_distribution(kind):
    rng = np.random.default_rng(8)
    mean = 0.1
    draw = {
        "coins": lambda count: (rng.random(count) < mean).astype(float),
        "narrow": lambda count: rng.beta(100 * mean, 100 * (1.0 - mean), count),
        "constant": lambda count: np.full(count, mean),
    }[kind]
    is_covered = []
    for _ in range(200):
        found = bet_until(
            lambda first, count: draw(count),
            0.5 * mean,  # a poor guess costs draws only
            1.0,
            0.2,
            0.1,
            10**6,
            lambda done, wanted: wanted,
        )
        assert found is not None
        assert found.is_within(0.2)
        is_covered.append(found.low <= mean <= found.high)
    assert np.mean(is_covered) >= 0.9


def test_bets_on_nothing_but_zeros_know_only_an_upper_end():
    gambler = Gambler(0.05)
    gambler.bet(0.9, np.zeros(100))
    found = gambler.interval()
    assert found.low == 0.0
    assert 0.0 < found.high < 0.1


def test_a_failed_self_check_withdraws_the_certificate(rng, monkeypatch):
    monkeypatch.setattr(nesting_run, "disagree", lambda one, other, tol: True)
    diagnostics = Nesting(tol=0.05).infer(random_scores(rng, 12)).diagnostics
    assert diagnostics.certificate == "heuristic"
    assert not diagnostics.is_converged
    alone = Nesting(tol=0.05, transpose_check=False).infer(random_scores(rng, 12))
    assert alone.diagnostics.certificate == "asymptotic"


def test_too_few_samples_are_not_enough(rng):
    result = Nesting(tol=0.001, max_samples=5000).infer(random_scores(rng, 14, 2.0))
    assert not result.diagnostics.is_converged
    assert result.diagnostics.n_samples <= 5000 + 2048
    low, high = result.diagnostics.interval
    assert low < result.log_partition < high


def test_uneven_weights_are_not_trusted(rng):
    result = Nesting(n_samples=64, particles=None).infer(random_scores(rng, 60, 6.0))
    assert result.diagnostics.certificate == "heuristic"


def filter_ends(logs, tables):
    """Return filters of known log-weights and marginals."""
    plan = make_plan(np.ones((2, 2)), 0.0, depth=0, tail=0, is_transposed=False)
    ends = []
    for log, table in zip(logs, tables, strict=True):
        sums = empty_sums(2)
        sums.totals[:] = log, 64.0, 64.0, 1.0, 64
        sums.first[:] = 64.0 * table
        ends.append((plan, sums))
    return ends


def test_one_filter_that_outweighs_the_rest_knows_little():
    tables = [np.eye(2), *[np.eye(2)[::-1]] * 4]
    found = estimate_from_filters(filter_ends([50.0, 0.0, 1.0, 2.0, 3.0], tables))
    assert found.diagnostics.figures["effective_filters"] == pytest.approx(1.0)
    assert found.diagnostics.effective_samples <= 1.0
    assert found.diagnostics.figures["largest_share"] == pytest.approx(1.0)
    assert (found.marginal_errors > 0.5).all()
    assert found.log_partition_error > 10.0
    alike = estimate_from_filters(filter_ends([50.0, 0.0, 1.0, 2.0, 3.0], [np.eye(2)] * 5))
    assert (alike.marginal_errors > 0.5).all()


def test_filters_of_equal_weights_count_in_full():
    tables = [np.full((2, 2), 0.5) + shift for shift in (-0.02, -0.01, 0.0, 0.01, 0.02)]
    found = estimate_from_filters(filter_ends([0.0] * 5, tables))
    assert found.diagnostics.figures["effective_filters"] == pytest.approx(5.0)
    spread = np.std([table[0, 0] for table in tables], ddof=1) / math.sqrt(5)
    expected = math.hypot(spread, 1.0 / found.diagnostics.effective_samples)
    np.testing.assert_allclose(found.marginal_errors, expected)
    assert found.log_partition_error == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    "options", [{"particles": 64, "n_samples": 640}, {"n_samples": 64}]
)
def test_few_effective_draws_are_not_trusted(options, rng):
    diagnostics = Nesting(**options).infer(random_scores(rng, 12)).diagnostics
    assert diagnostics.certificate == "heuristic"
    assert not diagnostics.is_converged


def test_draws_of_failed_bets_are_counted(rng):
    scores = random_scores(rng, 14, 1.0)
    plain = Nesting(n_samples=640).infer(scores).diagnostics
    assert plain.n_samples == 640
    options = {"n_samples": 640, "certificate": "rigorous", "epsilon": 0.02}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("permatch.inference.nesting.draws_needed", lambda *_: 0.0)
        failed = Nesting(max_samples=256, **options).infer(scores).diagnostics
    assert "too few draws for a rigorous interval" in failed.reason
    assert failed.n_samples >= 640 + 256


def banded_scores(rng, size, width, spread):
    scores = spread * rng.normal(size=(size, size))
    nodes = np.arange(size)
    scores[np.abs(np.subtract.outer(nodes, nodes)) > width] = -np.inf
    return scores


@pytest.mark.parametrize("spread", [1.0, 8.0])
@pytest.mark.parametrize("particles", ["auto", 256])
def test_errors_cover_where_few_edges_are_allowed(spread, particles, rng):
    scores = banded_scores(rng, 18, 2, spread)
    exact = pm.infer(scores)
    assert exact.is_exact
    result = Nesting(tol=0.03, particles=particles).infer(scores)
    gaps = np.abs(result.marginals - exact.marginals)
    assert (gaps <= 6.0 * result.marginal_errors + 1e-12).all()
    gap = abs(result.log_partition - exact.log_partition)
    assert gap <= 5.0 * result.log_partition_error + 1e-9


# ---- seeds, threads, budget, options


def test_answers_do_not_depend_on_threads(rng):
    stack = np.stack([random_scores(rng, 14, 3.0) for _ in range(3)])
    for engine in (Nesting(tol=0.03), Nesting(particles=64, n_samples=2000)):
        for scores in (stack, stack[0]):
            one = engine.infer(scores, n_jobs=1)
            three = engine.infer(scores, n_jobs=3)
            np.testing.assert_array_equal(one.log_partition, three.log_partition)
            np.testing.assert_array_equal(one.marginals, three.marginals)
            np.testing.assert_array_equal(one.marginal_errors, three.marginal_errors)
            assert one.diagnostics.interval == three.diagnostics.interval


def test_the_seed_decides(rng):
    scores = random_scores(rng, 12, 2.0)
    answers = [Nesting(n_samples=64, random_state=s).infer(scores) for s in (0, 0, 1)]
    assert answers[0].log_partition == answers[1].log_partition
    assert answers[0].log_partition != answers[2].log_partition


def test_lists_of_graphs(rng):
    graphs = [random_scores(rng, size) for size in (3, 12, 0, 12)]
    result = Nesting(tol=0.05).infer(graphs)
    assert result.log_partition_error.shape == (4,)
    assert result.diagnostics.certificate == "asymptotic"
    assert [len(table) for table in result.marginal_errors] == [3, 12, 0, 12]


@pytest.mark.parametrize("options", [{}, {"n_samples": 10**9}, {"particles": 128}])
def test_the_budget_ends_the_draws(options, rng, monkeypatch):
    now = [0.0]

    def clock():
        now[0] += 0.03  # so long takes every look at the clock
        return now[0]

    monkeypatch.setattr(_parallel, "_clock", clock)
    engine = Nesting(tol=1e-5, max_samples=10**9, budget=0.2, **options)
    if "n_samples" in options:
        monkeypatch.setattr(
            nesting_run.NestingRun, "_run", _without_drawing(nesting_run.NestingRun._run)
        )
    result = engine.infer(random_scores(rng, 12, 2.0))
    assert not result.diagnostics.is_converged
    assert now[0] < 0.5


def _without_drawing(run):
    """Carry out at most four tasks of a round: the rest would take too long for a test."""

    def first_tasks(self, tasks, work):
        parts = run(self, tasks[:4], work)
        return [*parts, *[empty_sums(self._size) for _ in tasks[4:]]]

    return first_tasks


def test_more_samples_than_there_is_time_for(rng):
    result = Nesting(n_samples=10**12, budget=0.05).infer(random_scores(rng, 9))
    assert 0 < result.diagnostics.n_samples < 10**9
    assert not result.diagnostics.is_converged


def test_rounds_do_not_change_the_answer(rng, monkeypatch):
    scores = random_scores(rng, 12, 2.0)
    engine = Nesting(n_samples=50_000, particles=None)
    whole = engine.infer(scores)
    monkeypatch.setattr(nesting_run, "_TASKS_AT_ONCE", 3)
    rounds = engine.infer(scores)
    assert rounds.diagnostics.n_samples == whole.diagnostics.n_samples
    np.testing.assert_array_equal(rounds.marginals, whole.marginals)


def test_numpy_integers_are_integers(rng):
    scores = random_scores(rng, 12, 2.0)
    plain = Nesting(particles=64, n_samples=640, tail=2)
    numpy = Nesting(particles=np.int64(64), n_samples=np.int32(640), tail=np.int8(2))
    assert plain == numpy
    assert "filters of 64" in numpy.infer(scores).diagnostics.reason
    np.testing.assert_array_equal(
        plain.infer(scores).marginals, numpy.infer(scores).marginals
    )


def test_sums_add_up_in_any_scale():
    one, other = empty_sums(1), empty_sums(1)
    one.totals[:] = 0.0, 2.0, 2.0, 1.0, 2
    other.totals[:] = 100.0, 1.0, 1.0, 1.0, 1
    whole = add_sums([one, other, empty_sums(1)], 1)
    assert log_mean(whole) == pytest.approx(100.0 - math.log(3.0))
    assert whole.totals[4] == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tol": 0.0}, "tol of Nesting must be a number above 0 and below 1, or None"),
        ({"delta": 1.0}, "delta of Nesting must be"),
        ({"epsilon": None}, "epsilon of Nesting must be"),
        ({"n_samples": 0}, "n_samples of Nesting must be a whole number of at least 1"),
        ({"depth": 30}, "depth of Nesting must be at most 22"),
        ({"tail": 13}, "tail of Nesting must be at most 12"),
        ({"certificate": "sure"}, "certificate of Nesting must be one of 'asymptotic'"),
        ({"budget": 0}, "budget of Nesting must be a number of seconds above 0"),
        ({"random_state": -1}, "random_state of Nesting must be"),
        ({"particles": "many"}, "particles of Nesting"),
        ({"max_size": 10**6}, "max_size of Nesting must be at most"),
        ({"tol": 1e-300}, "tol of Nesting must be at least 1e-100, got 1e-300"),
        ({"tol": 10**400}, "tol of Nesting must be a number above 0 and below 1"),
        ({"particles": 10**9}, "particles of Nesting, .* must be at most 100000"),
        ({"particles": 10**30}, "particles of Nesting, .* must be at most 100000"),
        ({"particles": np.zeros(2)}, "particles of Nesting"),
        ({"n_samples": 10**30}, "n_samples of Nesting must be at most"),
        ({"max_samples": 10**30}, "max_samples of Nesting must be at most"),
        ({"certificate": np.array(["asymptotic"] * 2)}, "certificate of Nesting"),
        ({"transpose_check": np.ones(2)}, "transpose_check of Nesting must be True or"),
        ({"budget": "a"}, "budget of Nesting must be a number of seconds"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_options_are_checked(options, message):
    with pytest.raises(InvalidOptionError, match=message):
        Nesting(**options)
