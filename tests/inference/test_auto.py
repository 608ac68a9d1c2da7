"""`auto`: exact where it can be, else from cheap to dear, and honest about it."""

import math
import warnings

import numpy as np
import pytest

import permatch as pm
from permatch import _parallel
from permatch._parallel import Allowance
from permatch.inference import bethe, nesting, sparsified, swap_chain
from permatch.inference.answer import Diagnostics, InferenceResult
from permatch.inference.auto import _Best
from permatch.inference.base import AbstractEngine, Goal, Job, factor_for_all
from permatch.inference.blocks import Sparsification
from tests.helpers import random_scores


def load_nothing(monkeypatch):
    """Spare a test the compilation of kernels it does not use."""
    for module in (bethe, nesting, sparsified, swap_chain):
        monkeypatch.setattr(module, "load_kernels", lambda engine: None)


def shuffled(rng, scores):
    return scores[rng.permutation(len(scores))][:, rng.permutation(len(scores))]


def in_blocks(rng, n_blocks, size, outside, spread=2.0):
    """Blocks of normal scores, shuffled, with everything else at one low score."""
    scores = np.full((n_blocks * size, n_blocks * size), outside)
    for k in range(n_blocks):
        part = slice(k * size, (k + 1) * size)
        scores[part, part] = random_scores(rng, size, spread)
    return shuffled(rng, scores)


def assert_covered(found, log_partition, marginals, delta=0.05):
    """The error reported covers the true one."""
    told = found.diagnostics
    size = len(marginals)
    gaps = np.abs(found.marginals - marginals)
    assert (gaps <= factor_for_all(size, delta) * found.marginal_errors + 1e-11).all()
    assert abs(found.log_partition - log_partition) <= 4 * found.log_partition_error + 1e-9
    if told.interval is not None:
        low, high = told.interval
        assert low - 1e-9 <= log_partition <= high + 1e-9
        assert told.interval_certificate == "rigorous"


# ---- what it picks


def test_small_graphs_are_answered_exactly(rng):
    picked = {size: pm.AutoEngine().select(size) for size in (0, 8, 9, 30, 31)}
    names = [engine and engine.name for engine in picked.values()]
    assert names == ["small_batch", "small_batch", "glynn", "glynn", None]
    assert pm.infer(random_scores(rng, 12)).is_exact
    assert pm.infer(random_scores(rng, 12)).diagnostics.steps == ()


def test_a_budget_too_short_for_the_exact_engine(rng):
    engine = pm.AutoEngine(budget=0.1)
    assert engine.select(24).name == "glynn"
    assert engine.select(29) is None
    assert pm.AutoEngine(budget=None, exact_size=40).select(40).name == "glynn"
    assert pm.AutoEngine(exact_size=0).select(1).name == "small_batch"
    assert pm.AutoEngine(exact_size=0).select(2) is None
    for size in (5, 29, 60):
        assert engine.log2_seconds(size) <= math.log2(0.1)
        assert engine.log2_bytes(size) > 0
    assert pm.AutoEngine(budget=None).log2_seconds(60) > math.log2(0.1)


def test_digits_lost_beyond_the_fallback_are_no_failure(rng, monkeypatch):
    def lose(*_):
        raise pm.errors.PrecisionError("lost")

    monkeypatch.setattr(pm.Glynn, "_infer_stack", lose)
    found = pm.AutoEngine(tol=0.1).infer(np.zeros((26, 26)))
    assert not found.is_exact
    np.testing.assert_allclose(found.marginals, 1 / 26, atol=0.1)


# ---- honest errors, on graphs whose answer is known


@pytest.mark.parametrize("forbidden", [0.0, 0.5])
@pytest.mark.parametrize("spread", [0.5, 1.0, 2.0, 5.0, 20.0])
@pytest.mark.parametrize("size", [20, 24])
def test_reported_errors_cover_the_true_ones(size, spread, forbidden, rng):
    scores = random_scores(rng, size, spread, forbidden)
    exact = pm.infer(scores)
    found = pm.AutoEngine(exact_size=0, tol=0.02, budget=None).infer(scores)
    assert exact.is_exact
    assert not found.is_exact
    assert_covered(found, exact.log_partition, exact.marginals)
    assert found.diagnostics.is_converged
    assert np.abs(found.marginals - exact.marginals).max() <= 0.02


@pytest.mark.parametrize("outside", [-np.inf, -200.0, -20.0])
@pytest.mark.parametrize("exact_size", [30, 0])
def test_blocks_of_known_answers(outside, exact_size, rng):
    scores = in_blocks(rng, 3, 20, outside)
    exact = pm.Sparsified(tol=1e-5).infer(scores)
    assert exact.is_exact == (outside == -np.inf)
    assert (exact.log_partition_error or 0.0) < 1e-5
    engine = pm.AutoEngine(exact_size=exact_size, tol=0.02, budget=None)
    found = engine.infer(scores)
    if exact_size and outside == -np.inf:  # components, not blocks
        assert found.is_exact
        assert found.diagnostics.engine == "glynn"
        assert "3 components" in found.diagnostics.choice
        assert abs(found.log_partition - exact.log_partition) < 1e-9
        np.testing.assert_allclose(found.marginals, exact.marginals, rtol=0, atol=1e-11)
        return
    first = found.diagnostics.steps[0]
    assert first.engine == "sparsified"
    assert "3 blocks, the largest of size 20" in first.reason
    if exact_size:
        assert found.is_exact == exact.is_exact
        assert found.diagnostics.engine == "sparsified"
        assert abs(found.log_partition - exact.log_partition) < 1e-9
        np.testing.assert_allclose(found.marginals, exact.marginals, rtol=0, atol=1e-11)
        if not found.is_exact:
            assert found.diagnostics.certificate == "rigorous"
            assert found.log_partition_error < 1e-5
    else:
        assert found.diagnostics.engine == "nesting"
        assert not found.is_exact
        slack = 1e-5 * (outside == -20.0)
        assert np.abs(found.marginals - exact.marginals).max() <= 0.02
        assert_covered(found, exact.log_partition + slack, exact.marginals)


def test_small_blocks_are_exact_and_large_ones_drawn(rng):
    scores = np.full((60, 60), -300.0)
    scores[:20, :20], scores[20:, 20:] = (
        random_scores(rng, 20, 2.0),
        random_scores(rng, 40, 1.0),
    )
    found = pm.AutoEngine(exact_size=20, tol=0.02, budget=None).infer(scores)
    exact = pm.infer(scores[:20, :20])
    np.testing.assert_allclose(found.marginals[:20, :20], exact.marginals, atol=1e-11)
    assert found.marginal_errors[:20, :20].max() < 1e-100
    assert found.marginal_errors[20:, 20:].max() > 1e-4
    assert found.diagnostics.engine == "nesting"
    assert "1 solved exactly" in found.diagnostics.steps[0].reason


@pytest.mark.parametrize("kind", ["planted", "blocks"])
def test_peaked_scores_of_two_hundred_rows_are_certified(kind, rng):
    if kind == "planted":
        scores = shuffled(rng, rng.normal(size=(200, 200)) + 40.0 * np.eye(200))
    else:
        scores = in_blocks(rng, 40, 5, -200.0, 1.0)
    found = pm.infer(scores)
    assert found.diagnostics.certificate == "rigorous"
    assert found.log_partition_error < 1e-9
    assert found.diagnostics.is_converged
    assert [step.engine for step in found.diagnostics.steps] == ["sparsified"]


def test_scores_that_are_not_peaked_go_on_to_the_samplers(rng):
    scores = rng.normal(size=(100, 100)) + 2.0 * np.eye(100)
    with pytest.raises(pm.errors.SizeLimitError):
        pm.Sparsified().infer(scores)
    found = pm.AutoEngine(tol=0.05, budget=None).infer(scores)
    assert found.diagnostics.engine == "nesting"
    assert found.diagnostics.is_converged


# ---- the story


def test_the_story_is_told_step_by_step(rng):
    found = pm.AutoEngine(tol=0.03, budget=None).infer(rng.normal(size=(40, 40)))
    told = found.diagnostics
    assert told.reason == (
        "auto: beyond the exact engines: sparsified -> bethe -> nesting; tolerance reached"
    )
    blocks, bethe, nesting = told.steps
    assert (
        blocks.reason
        == "no blocks of at most 24 nodes with a bound of 0.03; no larger ones"
    )
    assert bethe.reason == "its marginals have an unknown error"
    assert nesting.reason.startswith("marginals within 0.0")
    assert bethe.interval == told.interval
    assert bethe.interval_certificate == told.interval_certificate == "rigorous"
    assert nesting.interval_certificate == "asymptotic"
    assert told.interval[0] <= nesting.interval[0] < nesting.interval[1] <= told.interval[1]
    assert bethe.marginal_error is None
    assert nesting.marginal_error == told.marginal_error == found.marginal_errors.max()
    assert nesting.n_samples > 0
    assert [step.is_converged for step in told.steps] == [False, False, True]
    assert 0 < sum(step.seconds for step in told.steps) <= told.seconds


def test_stacks_and_lists_have_a_part_for_every_graph(rng):
    engine = pm.AutoEngine(exact_size=12, tol=0.1, budget=None)
    stack = rng.normal(size=(3, 14, 14))
    found = engine.infer(stack)
    assert found.diagnostics.n_graphs == 3
    assert [len(part.steps) for part in found.diagnostics.parts] == [3, 3, 3]
    assert found.marginal_errors.shape == stack.shape
    mixed = engine.infer([stack[0], rng.normal(size=(5, 5)), stack[1]])
    assert not mixed.is_exact
    assert mixed.marginal_errors[1] is None
    np.testing.assert_array_equal(mixed.marginals[0], found.marginals[0])


def test_offsets_move_the_intervals(rng):
    engine = pm.AutoEngine(exact_size=0, tol=0.1, budget=None)
    scores = random_scores(rng, 12)
    found, moved = engine.infer(scores), engine.infer(scores + 50.0)
    for one, other in zip(
        found.diagnostics.steps[1:], moved.diagnostics.steps[1:], strict=True
    ):
        np.testing.assert_allclose(np.array(other.interval) - one.interval, 600.0)


def test_offsets_move_the_graph_and_its_steps_but_no_other_graphs():
    step = Diagnostics("bethe", "", 2, interval=(0.0, 2.0))
    part = Diagnostics("nesting", "", 2, interval=(0.5, 1.5), steps=(step,))
    told = Diagnostics("auto", "", 4, interval=(1.0, 3.0), steps=(step,), parts=(part,))
    moved = told.shifted(5.0)
    assert moved.interval == (6.0, 8.0)
    assert [step.interval for step in moved.steps] == [(5.0, 7.0)]
    assert moved.parts == (part,)
    assert Diagnostics("auto", "", 4, parts=(part,)).shifted(5.0).interval is None


def test_a_budget_that_cannot_be_kept_is_an_error(rng):
    message = r"at least 0.11 s for graphs of size 500, got 0.05: belief .* Raise budget"
    with pytest.raises(pm.errors.InvalidOptionError, match=message):
        pm.AutoEngine(budget=0.05).infer(rng.normal(size=(500, 500)))


def test_missing_the_tolerance_is_a_warning_and_no_error(rng):
    engine = pm.AutoEngine(tol=1e-4, budget=0.05)
    scores = random_scores(rng, 40, 3.0)
    with pytest.warns(
        RuntimeWarning, match=r"did not reach tol=0.0001 for graph 0 of size 40 within"
    ) as w:
        found = engine.infer(scores)
    assert w[0].filename == __file__
    assert not found.diagnostics.is_converged
    assert "tolerance not reached" in found.diagnostics.reason
    with pytest.warns(RuntimeWarning, match=r"graph 0 \(like 1 other\)"):
        engine.infer(np.stack([scores, scores]))


def test_options_are_checked():
    for options, message in (
        ({"tol": 0.0}, "tol of AutoEngine"),
        ({"delta": 1.5}, "delta of AutoEngine"),
        ({"budget": 0.0}, "budget of AutoEngine must be a number of seconds above 0"),
        ({"exact_size": 61}, "exact_size of AutoEngine must be at most 60, got 61"),
        ({"random_state": -1}, "random_state of AutoEngine"),
        ({"max_size": 2001}, "max_size of AutoEngine must be at most 2000"),
    ):
        with pytest.raises(pm.errors.InvalidOptionError, match=message):
            pm.AutoEngine(**options)


# ---- the budget, by a clock of our own


class Clock:
    """Time that passes only when engines are asked."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def slow_machine(monkeypatch):
    """Return a function that installs engines which take time of a clock, and the clock."""

    def install(slowness, *, effective=900.0, is_trusted=True, is_converged=False):
        clock = Clock()
        asked = []
        monkeypatch.setattr(_parallel, "_clock", clock)

        def _answer_one(engine, scores, job):
            size = len(scores)
            seconds = getattr(engine, "budget", None)
            is_pilot = engine.name == "nesting" and engine.n_samples is not None
            if is_pilot:
                seconds = 2.5e-9 * size**3 + 1024 * (1e-6 + 2e-10 * size**2)
                seconds *= slowness
            elif engine.name == "bethe":
                seconds = slowness * 2e-6 * size**2 * (1.0 if engine.bounds else 0.5)
            else:
                seconds *= 1.1  # engines that keep to their budget overrun it a little
                if engine.name == "nesting" and engine.particles is not None:
                    n = 4096 if engine.particles == "auto" else engine.particles
                    once = slowness * 10 * n * (2e-6 + 8e-10 * size**2)
                    seconds = max(seconds, once)
            asked.append(engine)
            clock.now += seconds
            told = Diagnostics(
                engine.name,
                "asked for",
                size,
                certificate="asymptotic" if is_trusted else "heuristic",
                effective_samples=effective,
                marginal_error=0.02,
                log_partition_error=0.1,
                is_converged=is_converged,
            )
            nothing = np.full_like(scores, 0.02)
            return InferenceResult(1.0, 1.0 + 0 * nothing, False, told, 0.1, nothing)

        def plan(scores, tol, max_block, *, is_any_size):
            clock.now += slowness * (5e-9 if is_any_size else 1.5e-9) * len(scores) ** 3

        monkeypatch.setattr(AbstractEngine, "_answer_one", _answer_one)
        monkeypatch.setattr(sparsified, "plan_blocks", plan)
        load_nothing(monkeypatch)
        return clock, asked

    return install


@pytest.mark.parametrize("effective", [900.0, 20.0, 2.0])
@pytest.mark.parametrize("is_trusted", [True, False])
@pytest.mark.parametrize("slowness", [0.5, 2.0])
@pytest.mark.parametrize("size", [40, 300, 1000])
@pytest.mark.parametrize("budget", [0.1, 1.0, 10.0])
def test_the_budget_is_not_overrun_by_more_than_half(
    slow_machine, budget, size, slowness, is_trusted, effective
):
    clock, asked = slow_machine(slowness, effective=effective, is_trusted=is_trusted)
    pm.AutoEngine(budget=budget)._escalate(np.zeros((size, size)), 0, Job())
    least = slowness * 2e-6 * size**2  # one pass of belief propagation is always made
    assert clock.now <= 1.5 * max(budget, least)
    assert asked[0].name == "bethe"


def test_time_left_is_given_to_the_samplers(slow_machine):
    engine = pm.AutoEngine(budget=10.0)
    _, asked = slow_machine(1.0)
    engine._escalate(np.zeros((40, 40)), 0, Job())
    names = [engine.name for engine in asked]
    assert names == ["bethe", "nesting", "nesting"]
    assert asked[-1].budget == pytest.approx(10.0, abs=0.1)
    _, asked = slow_machine(1.0, effective=2.0, is_trusted=False)
    engine._escalate(np.zeros((40, 40)), 0, Job())
    names = [engine.name for engine in asked]
    assert names == ["bethe", "nesting", "nesting", "swap_chain"]
    assert asked[2].budget == pytest.approx(6.0, abs=0.1)
    assert asked[3].budget == pytest.approx(3.4, abs=0.2)


def test_without_time_there_is_an_answer_of_unknown_error(slow_machine):
    _, asked = slow_machine(1.0, is_trusted=False)
    found = pm.AutoEngine(budget=0.01)._escalate(np.zeros((500, 500)), 0, Job())
    assert [engine.name for engine in asked] == ["bethe"]
    assert not asked[0].bounds
    told = [step.reason for step in found.diagnostics.steps]
    assert told[0] == "no time to look"
    assert all("not tried: it would take about" in reason for reason in told[2:])


def test_what_compiling_takes_does_not_count(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(_parallel, "_clock", clock)
    time = Allowance(2.0)
    with time.free():
        clock.now += 60.0
    assert time.left == 2.0
    clock.now += 1.5
    assert time.seconds == 1.5
    assert time.left == 0.5
    assert Allowance(None).left == math.inf


# ---- when engines fail or disagree


def test_chains_take_over_where_no_draw_survives(rng, monkeypatch):
    def fail(*_):
        raise pm.errors.PrecisionError("none")

    monkeypatch.setattr(pm.Nesting, "_infer_stack", fail)
    load_nothing(monkeypatch)
    scores = random_scores(rng, 9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = pm.AutoEngine(exact_size=0, tol=0.1, budget=None).infer(scores)
    assert found.diagnostics.engine == "swap_chain"
    steps = {step.engine: step for step in found.diagnostics.steps}
    assert steps["nesting"].reason == "no draw could be completed to a perfect matching"
    assert np.abs(found.marginals - pm.marginals(scores)).max() < 0.1


def part(certificate, error, *, value=0.0, log_error=0.1, effective=None, ends=None):
    """An answer for a graph of two; `ends` are an interval that holds."""
    told = Diagnostics(
        certificate,
        "",
        2,
        certificate=certificate,
        effective_samples=effective,
        interval=ends,
        interval_certificate="rigorous" if ends else "",
    )
    errors = np.full((2, 2), error)
    marginals = np.full((2, 2), 0.5)
    is_exact = certificate == "exact"
    return InferenceResult(value, marginals, is_exact, told, log_error, errors)


def best_of(one, other):
    best = _Best(one)
    best.add(other)
    return best


def test_the_better_answer_is_kept():
    guess = part("heuristic", math.nan, ends=(-1.0, 1.0))
    few = part("heuristic", 0.2, effective=9.0)
    many = part("heuristic", 0.2, effective=900.0)
    known = part("asymptotic", 0.01, effective=900.0)
    rough = part("heuristic", 0.0005, effective=900.0, log_error=0.7)
    outside = part("heuristic", 0.0005, effective=900.0, value=-20.0)
    for better, worse in (
        (guess, few),
        (guess, rough),
        (guess, outside),
        (many, guess),
        (known, many),
    ):
        for best in (best_of(better, worse), best_of(worse, better)):
            assert best.answer.marginal_errors is better.marginal_errors
    assert best_of(guess, known).bracket == (-1.0, 1.0)
    assert best_of(None, known).answer is known
    assert best_of(known, None).answer is known


def test_what_lies_outside_an_interval_that_holds_is_not_trusted():
    guess = part("heuristic", math.nan, ends=(-1.0, 1.0))
    near, far = (part("asymptotic", 0.01, value=value) for value in (1.2, 9.0))
    assert best_of(guess, near).is_settled
    assert best_of(guess, near).answer.log_partition == 1.0
    assert not best_of(guess, far).is_trusted
    for best in (best_of(guess, far), best_of(far, guess)):
        assert best.answer.marginal_errors is guess.marginal_errors
    unknown = part("heuristic", 0.1, value=math.nan)
    assert best_of(guess, unknown).answer.log_partition == 0.0


def test_parts_add_up():
    two = np.arange(2)
    split = Sparsification(((two, two + 2), (two + 2, two)), 0.5, True, 4, rounding=0.25)
    whole = split.join([part("exact", 0.0, log_error=0.0), part("asymptotic", 0.1)])
    assert whole.log_partition_error == pytest.approx(0.1 + 0.5)
    assert whole.diagnostics.interval is None
    assert whole.diagnostics.certificate == "asymptotic"
    mass = -math.expm1(-0.5)
    np.testing.assert_allclose(whole.marginal_errors[:2, :2], mass)
    np.testing.assert_allclose(whole.marginal_errors[2:, :2], mass + 0.1)
    one = Sparsification(((two, two),), 0.5, True, 4, rounding=0.25)
    joined = one.join([part("heuristic", 0.1, ends=(1.0, 2.0))])
    assert joined.diagnostics.interval == (0.75, 2.75)
    exact = one.join([part("exact", 0.0, value=1.0)]).diagnostics
    assert exact.interval == pytest.approx((0.75, 1.75))
    assert exact.certificate == exact.interval_certificate == "rigorous"


# ---- drawing within a time


def goal(seconds, tol=0.01):
    return Goal(tol, 0.05, 7, Allowance(seconds))


def test_filters_get_through_where_single_draws_do_not(rng, monkeypatch):
    _answer_one = AbstractEngine._answer_one

    def no_single_draw(engine, scores, job):
        if engine.particles is None:
            raise pm.errors.PrecisionError("none")
        return _answer_one(engine, scores, job)

    monkeypatch.setattr(AbstractEngine, "_answer_one", no_single_draw)
    scores = random_scores(rng, 14, 2.0, 0.6)
    answer, _ = pm.Nesting()._attempt(scores, goal(60.0, tol=0.1), Job())
    assert answer.diagnostics.is_settled
    assert np.abs(answer.marginals - pm.marginals(scores)).max() < 0.1


def test_two_runs_are_pooled_by_their_errors():
    known = part("asymptotic", 0.02, value=1.0, effective=100.0)
    other = part("asymptotic", 0.01, value=1.1, effective=400.0)
    pooled = nesting._pooled(known, other, goal(None, tol=0.1))
    assert pooled.log_partition == pytest.approx(0.2 * 1.0 + 0.8 * 1.1)
    assert pooled.largest_error == pytest.approx(math.hypot(0.2 * 0.02, 0.8 * 0.01))
    assert pooled.log_partition_error == pytest.approx(0.1 * math.hypot(0.2, 0.8))
    assert pooled.diagnostics.effective_samples == 500.0
    assert pooled.diagnostics.is_settled
    missed = nesting._pooled(known, other, goal(None))
    assert not missed.diagnostics.is_settled
    far = part("asymptotic", 0.01, value=9.0)
    assert not nesting._pooled(known, far, goal(None)).diagnostics.is_trusted


def test_a_pilot_that_used_up_the_time_is_the_answer(slow_machine):
    _, asked = slow_machine(10.0)
    answer, _ = pm.Nesting()._attempt(np.zeros((300, 300)), goal(1.0), Job())
    assert [engine.n_samples for engine in asked] == [1024]
    assert not answer.diagnostics.is_settled


def test_hopeless_filters_that_are_trusted_get_the_rest_of_the_time(slow_machine):
    clock, asked = slow_machine(1.0, effective=2.0)
    answer, _ = pm.Nesting()._attempt(np.zeros((60, 60)), goal(10.0), Job())
    budgets = [engine.budget for engine in asked]
    assert budgets[1:] == [pytest.approx(6.0, abs=0.1), pytest.approx(3.4, abs=0.2)]
    assert asked[1].random_state != asked[2].random_state
    assert answer.largest_error == pytest.approx(0.02 / math.sqrt(2))
    assert clock.now < 12.0


def test_filters_of_which_one_outweighs_the_rest_do_not_beat_belief_propagation(rng):
    scores = 20.0 * rng.normal(size=(120, 120))
    one, other = (
        pm.Nesting(particles=64, n_samples=640, random_state=seed)._answer_one(
            scores, Job()
        )
        for seed in (0, 5)
    )
    gaps = np.abs(one.marginals - other.marginals)
    assert (gaps <= 4.0 * np.hypot(one.marginal_errors, other.marginal_errors)).all()
    assert not one.diagnostics.is_trusted
    guess, _ = pm.Bethe()._attempt(scores, goal(None), Job())
    assert best_of(guess, one).answer.diagnostics.engine == "bethe"
