"""MAPMatching with engines that approximate or draw: what it finds, what it says."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import permatch as pm
from permatch.errors import PrecisionError, SizeLimitError
from permatch.estimators import MAPMatching, MAPMatchingCV
from permatch.estimators.checks import check_data_set
from permatch.estimators.scaling import design
from permatch.graphs import BipartiteGraph
from permatch.inference import Bethe, Glynn, HuberLaw, Nesting, Sparsified, SwapChain
from permatch.objectives import MatchingLikelihood, Parameters
from permatch.optimizers import minimize
from tests.estimators import planted

# Nesting sums up to twelve nodes exactly; without its tail it has something to draw.
NESTING = Nesting(n_samples=512, tail=0)
HUBER_LAW = HuberLaw(n_samples=500)
SAMPLERS = {
    "huber_law": HUBER_LAW,
    "nesting": NESTING,
    "swap_chain": SwapChain(n_sweeps=128, n_chains=2),
}
ALPHA = 0.01


@pytest.fixture(scope="module")
def data():
    return planted(np.random.default_rng(20090715), 24, sizes=(5, 7))


@pytest.fixture(scope="module")
def exact(data):
    return MAPMatching(ALPHA).fit(*data)


def objective(data, engine):
    """The objective of scaled coefficients, put together from outside."""
    checked = check_data_set(*data, None)
    found = design(checked, Parameters.of(checked[0][0], is_any=False))
    return MatchingLikelihood(found.parts, found.shares, ALPHA, engine)


def true_gradient(model, data):
    coef = model.coef_ * model.scale_
    return objective(data, pm.AutoEngine()).value_and_grad(coef)[1]


# ---- learning with draws ---------------------------------------------------------------


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.filterwarnings("ignore:at the fitted coefficients SwapChain:RuntimeWarning")
def test_the_gradient_vanishes_within_the_error_that_is_reported(name, data, exact):
    model = MAPMatching(ALPHA, engine=SAMPLERS[name]).fit(*data)
    assert model.is_converged_
    assert not model.is_exact_
    error = model.gradient_error_
    assert 0.0 < error < 0.1
    # Four entries, errors that eight seeds know to about a quarter.
    assert np.abs(true_gradient(model, data)).max() <= 4.0 * error
    np.testing.assert_allclose(model.coef_, exact.coef_, atol=0.3)


def test_more_draws_bring_smaller_errors_and_better_coefficients(data, exact):
    few, many = (
        MAPMatching(ALPHA, engine=HuberLaw(n_samples=n)).fit(*data) for n in (100, 6400)
    )
    # 64 times as many draws have an eighth of the error.
    # Eight seeds know each of them to about a quarter.
    assert many.gradient_error_ == pytest.approx(few.gradient_error_ / 8, rel=0.8)
    assert np.abs(many.coef_ - exact.coef_).max() < 0.05


def test_draws_grow_towards_the_optimum(data, monkeypatch):
    seen = []
    infer = HuberLaw.infer

    def noting(self, *args, **options):
        seen.append(self.n_samples)
        return infer(self, *args, **options)

    monkeypatch.setattr(HuberLaw, "infer", noting)
    model = MAPMatching(ALPHA, engine=HuberLaw(n_samples=1600)).fit(*data)
    assert seen == sorted(seen)
    assert set(seen) == {100, 400, 1600}
    last = model.history_[-1]
    n_measured = 7  # after the last step, with other seeds
    assert last["evaluations"] + n_measured == len(seen) / 2  # two sizes of graphs
    assert last["iteration"] == model.n_iter_
    for name in ("iteration", "evaluations", "seconds"):
        values = [row[name] for row in model.history_]
        assert values == sorted(values)


def test_a_tolerance_within_reach_is_reached(data):
    plain = MAPMatching(ALPHA, engine=HUBER_LAW).fit(*data)
    tol = 0.6 * plain.gradient_error_  # 500 draws are not enough, 64 times as many are
    model = MAPMatching(ALPHA, engine=HUBER_LAW, tol=tol).fit(*data)
    assert model.is_converged_
    assert 2.0 * model.gradient_error_ <= tol
    assert model.history_[-1]["grad_norm"] <= tol


def test_the_same_seed_gives_the_same_coefficients(data):
    fits = [
        MAPMatching(ALPHA, engine=NESTING, n_jobs=n_jobs).fit(*data) for n_jobs in (1, 2)
    ]
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
    assert fits[0].gradient_error_ == fits[1].gradient_error_
    other = MAPMatching(ALPHA, engine=replace(NESTING, random_state=1)).fit(*data)
    assert not np.array_equal(fits[0].coef_, other.coef_)


def test_bounds_are_kept_and_only_free_coordinates_need_to_vanish(data):
    model = MAPMatching(ALPHA, engine=NESTING, bounds="non-negative").fit(*data)
    assert model.is_converged_
    assert (model.coef_ >= 0.0).all()
    assert model.coef_[1] == 0.0


def test_the_full_bfgs_takes_draws_too(data, exact):
    model = MAPMatching(ALPHA, engine=HUBER_LAW, solver="bfgs").fit(*data)
    assert model.is_converged_
    np.testing.assert_allclose(model.coef_, exact.coef_, atol=0.2)


def test_max_iter_counts_all_runs(data):
    with pytest.warns(ConvergenceWarning, match="max_iter=2 was reached"):
        model = MAPMatching(ALPHA, engine=HuberLaw(n_samples=3200), max_iter=2).fit(*data)
    assert model.n_iter_ == 2
    assert not model.is_converged_


# ---- what is said of errors ------------------------------------------------------------


def test_exact_engines_have_no_gradient_error(exact, data):
    assert exact.gradient_error_ == 0.0
    assert exact.is_exact_
    model = MAPMatching(ALPHA, engine=Glynn()).fit(*data)
    assert (model.gradient_error_, model.is_exact_) == (0.0, True)


def ring(n_graphs, size, rng):
    """Graphs with two matchings each: every edge of a matching changes with all others."""
    allowed = (np.eye(size) + np.roll(np.eye(size), 1, axis=1)) > 0.0
    graphs = [
        BipartiteGraph(rng.normal(size=(size, size, 2)), allowed) for _ in range(n_graphs)
    ]
    turns = rng.integers(2, size=n_graphs)
    return graphs, [(np.arange(size) + turn) % size for turn in turns]


@pytest.mark.parametrize("name", ["huber_law", "nesting", "ring"])
def test_the_gradient_error_is_that_of_other_seeds(name, data, rng):
    """Also where all rows of a graph change together, which single edges do not tell."""
    graphs, matchings = ring(12, 8, rng) if name == "ring" else data
    engine = SAMPLERS.get(name, NESTING)
    model = MAPMatching(ALPHA, engine=engine).fit(graphs, matchings)
    coef = model.coef_ * model.scale_
    found = [
        objective((graphs, matchings), replace(engine, random_state=seed))
        .evaluate(coef)
        .grad
        for seed in range(100, 140)
    ]
    spread = np.std(found, axis=0, ddof=1).max()
    assert 0.5 * spread <= model.gradient_error_ <= 2.5 * spread


def test_one_noisy_feature_does_not_hide_the_others(data):
    graphs, matchings = data
    scaled = [graph * [100.0, 1.0, 1.0, 1.0] for graph in graphs]
    options = {"alpha": 1e-6, "scale_features": False}
    exact = MAPMatching(**options).fit(scaled, matchings)
    model = MAPMatching(**options, engine="huber_law").fit(scaled, matchings)
    assert model.is_converged_
    np.testing.assert_allclose(model.coef_[1:], exact.coef_[1:], atol=0.2)


def test_neighbouring_points_share_their_errors(data, exact):
    noisy, true = objective(data, NESTING), objective(data, pm.AutoEngine())
    coef = exact.coef_ * exact.scale_
    steps = [0.0, 1e-3, -1e-3]
    noise = [
        noisy.evaluate(coef + s).grad - true.value_and_grad(coef + s)[1] for s in steps
    ]
    change = np.abs(np.array(noise[1:]) - noise[0]).max()
    assert change < 0.5 * np.abs(noise[0]).max()


def test_graphs_of_different_sizes_draw_differently():
    assert NESTING.with_seed(0) == NESTING
    seeds = {NESTING.with_seed(k).random_state for k in range(5)}
    assert len(seeds) == 5
    assert Bethe().with_seed(3) == Bethe()


def test_effort_scales_draws_and_tolerances():
    assert HUBER_LAW.with_effort(4.0).n_samples == 2000
    assert Nesting(tol=0.01).with_effort(4.0).tol == pytest.approx(0.005)
    assert Nesting(tol=0.01).with_effort(4.0).max_samples == 16_000_000
    few = SwapChain(n_sweeps=2000).with_effort(1 / 16)
    assert (few.n_sweeps, few.max_sweeps) == (128, SwapChain().max_sweeps)
    assert HuberLaw(n_samples=10).with_effort(1 / 16).n_samples == 10
    assert Bethe().with_effort(4.0) == Bethe()
    assert not Glynn().draws


@pytest.mark.parametrize(
    ("engine", "option"),
    [
        (HuberLaw(max_trials=10**15), "max_trials"),
        (Nesting(n_samples=10**15), "n_samples"),
        (SwapChain(max_sweeps=10**9), "max_sweeps"),
    ],
)
def test_effort_stays_within_what_engines_take(engine, option):
    assert getattr(engine.with_effort(4.0), option) == getattr(engine, option)


def test_a_gradient_within_its_noise_ends_the_run():
    goal = np.array([1.0, -2.0])
    points = []

    def value_and_grad(x):
        points.append(x)
        return float(np.sum((x - goal) ** 2)), 2 * (x - goal)

    optimum = minimize(
        value_and_grad, np.zeros(2), is_zero=lambda x, grad: np.abs(grad).max() <= 5.0
    )
    assert (optimum.is_converged, optimum.n_iter, len(points)) == (True, 0, 1)
    optimum = minimize(
        value_and_grad,
        np.zeros(2),
        tol=1e-12,
        is_zero=lambda x, grad: np.abs(grad).max() <= 0.1,
    )
    assert optimum.is_converged
    assert optimum.grad_norm <= 0.1
    assert "is zero within its noise" in optimum.message
    assert optimum.history[-1]["grad_norm"] == optimum.grad_norm


def test_an_unmixed_chain_warns_once(data):
    graphs, matchings = data
    chain = SwapChain(n_sweeps=32, n_chains=2, burn_in=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        MAPMatching(1.0, engine=chain).fit(graphs[:4:2], matchings[:4:2])
    found = [w for w in caught if issubclass(w.category, RuntimeWarning)]
    assert len(found) == 1
    message = "SwapChain reports its results for graphs of size 5"
    assert message in str(found[0].message)
    assert found[0].filename == __file__


@pytest.mark.parametrize(
    ("engine", "is_doubtful"),
    [
        (Nesting(tol=1e-4, max_samples=512, tail=0), True),
        (Bethe(max_iter=2), True),
        (Bethe(), False),
        (NESTING, False),
    ],
)
def test_answers_an_engine_does_not_stand_by_are_warned_of(engine, is_doubtful, data):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        MAPMatching(0.1, engine=engine, tol=1e-3).fit(*data)
    found = [w for w in caught if issubclass(w.category, RuntimeWarning)]
    assert len(found) == is_doubtful


@pytest.mark.parametrize("n_evaluations", [0, 3, 9, 20, 30])
def test_ctrl_c_keeps_what_is_known(n_evaluations, data, monkeypatch):
    seen = []
    infer = HuberLaw.infer

    def interrupted(self, *args, **options):
        seen.append(self.n_samples)
        if len(seen) == 2 * n_evaluations + 1:
            raise KeyboardInterrupt
        return infer(self, *args, **options)

    monkeypatch.setattr(HuberLaw, "infer", interrupted)
    with pytest.warns(ConvergenceWarning, match="was interrupted after"):
        model = MAPMatching(ALPHA, engine=HuberLaw(n_samples=1600)).fit(*data)
    assert not model.is_converged_
    assert np.isfinite(model.coef_).all()
    assert np.isnan(model.gradient_error_) == (n_evaluations < 8)


@pytest.mark.filterwarnings("ignore:at the fitted coefficients SwapChain:RuntimeWarning")
def test_an_engine_without_log_partitions_cannot_learn(data):
    with pytest.raises(
        PrecisionError, match="SwapChain with these options does not.*tempering=True"
    ):
        MAPMatching(engine=SwapChain(n_sweeps=128, tempering=False)).fit(*data)


def test_graphs_beyond_the_engine_are_refused_with_advice():
    graph, label = np.zeros((12, 12, 1)), [range(12)]
    with pytest.raises(SizeLimitError, match="at most 10, got 12"):
        MAPMatching(engine=HuberLaw(max_size=10)).fit([graph], label)


# ---- Bethe -----------------------------------------------------------------------------


@pytest.mark.parametrize("spread", [0.5, 2.0])
def test_value_and_gradient_of_bethe_agree(spread, data):
    approximate = objective(data, Bethe(bounds=False, tol=1e-13))
    coef = spread * np.array([1.0, -0.5, 0.3, 0.2])
    found = approximate.evaluate(coef)
    assert np.isnan(found.grad_bounds).all()
    assert not found.is_exact
    step = 1e-4
    differences = [
        approximate.value_and_grad(coef + h)[0] - approximate.value_and_grad(coef - h)[0]
        for h in step * np.eye(4)
    ]
    np.testing.assert_allclose(found.grad, np.array(differences) / (2 * step), atol=1e-6)


def test_bethe_learns_without_bounds_and_says_nothing_of_errors(data, exact, monkeypatch):
    asked = []
    infer = Bethe.infer

    def noting(self, *args, **options):
        asked.append(self.bounds)
        return infer(self, *args, **options)

    monkeypatch.setattr(Bethe, "infer", noting)
    model = MAPMatching(ALPHA, engine=Bethe()).fit(*data)
    assert set(asked) == {False}
    assert model.is_converged_
    assert not model.is_exact_
    assert np.isnan(model.gradient_error_)
    assert model.history_[-1]["grad_norm"] <= 1e-6
    # Another objective, but not a very different one.
    np.testing.assert_allclose(model.coef_, exact.coef_, atol=0.5)
    again = MAPMatching(ALPHA, engine="bethe").fit(*data)
    np.testing.assert_array_equal(again.coef_, model.coef_)


def test_a_bound_on_what_was_dropped_counts_as_an_error():
    rng = np.random.default_rng(0)
    graphs = [rng.normal(size=(4, 4, 1)) + 3 * np.eye(4)[..., None] for _ in range(5)]
    model = MAPMatching(ALPHA, engine=Sparsified(max_block=4)).fit(graphs, [range(4)] * 5)
    assert model.is_converged_
    assert model.gradient_error_ <= 1e-8


# ---- around the fit --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bethe", "huber_law", "nesting"])
def test_predictions_and_files_work_with_approximate_engines(name, data, exact, tmp_path):
    graphs, matchings = data
    model = MAPMatching(ALPHA, engine=name).fit(graphs, matchings)
    # Where two matchings are about equally good, Bethe is far off.
    atol = 0.5 if name == "bethe" else 0.1
    for table, truth in zip(
        model.predict_marginals(graphs), exact.predict_marginals(graphs), strict=True
    ):
        np.testing.assert_allclose(table.sum(axis=1), 1.0, atol=1e-6)
        np.testing.assert_allclose(table, truth, atol=atol)
    assert model.score(graphs, matchings) == pytest.approx(exact.score(*data), abs=0.1)
    likelihood = model.log_likelihood(graphs, matchings)
    assert likelihood == pytest.approx(exact.log_likelihood(*data), abs=1.0)
    assert len(model.predict(graphs, decode="bayes")) == len(graphs)
    model.save(tmp_path / "model.json")
    again = pm.load(tmp_path / "model.json")
    assert again.engine == model.engine
    assert again.is_exact_ is False
    np.testing.assert_equal(again.gradient_error_, model.gradient_error_)


def test_cross_validation_tells_the_error_of_the_chosen_fit(data):
    graphs, matchings = data
    model = MAPMatchingCV([1.0, 0.1, 0.001], engine=NESTING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # any alpha may win
        model.fit(graphs[:16], matchings[:16], validation=(graphs[16:], matchings[16:]))
    assert model.is_converged_
    assert model.gradient_error_ > 0.0
    assert model.is_exact_ is False
    exactly = MAPMatchingCV([1.0, 0.1, 0.01], scoring="log_likelihood", cv=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        exactly.fit(graphs, matchings)
    assert (exactly.gradient_error_, exactly.is_exact_) == (0.0, True)


def test_exact_fits_go_straight_to_the_optimizer(data, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("there is no noise to look for")

    monkeypatch.setattr("permatch.estimators.likelihood_problem.minimize_noisy", refuse)
    for engine in ("auto", "glynn"):
        model = MAPMatching(engine=engine).fit(*data)
        assert model.is_exact_
        assert model.gradient_error_ == 0.0


def test_an_engine_that_turns_out_not_to_be_exact_is_found_out(data, monkeypatch):
    expected = MAPMatching(engine="bethe").fit(*data)
    monkeypatch.setattr(Bethe, "is_exact_for", lambda self, size: True)
    model = MAPMatching(engine="bethe").fit(*data)
    assert not model.is_exact_
    np.testing.assert_array_equal(model.coef_, expected.coef_)


def test_advice_on_unreliable_results_can_be_followed():
    # On two by two nodes messages run in a circle, and settle too slowly.
    data = np.random.default_rng(1).normal(size=(6, 2, 2, 2)), [np.arange(2)] * 6
    with pytest.warns(RuntimeWarning, match="graphs of size 2 as unreliable") as caught:
        MAPMatching(ALPHA, engine="bethe").fit(*data)
    (message,) = [str(warning.message) for warning in caught]
    assert "Use engine='auto', which solves graphs of this size exactly" in message
    assert MAPMatching(ALPHA, engine="auto").fit(*data).is_exact_
