"""`auto` in a fit: what is exact, what is not, and what is said about it."""

import logging
import pickle

import numpy as np
import pytest
from scipy.optimize import check_grad

import permatch as pm
from permatch.errors import InvalidOptionError
from permatch.estimators.checks import check_data_set
from permatch.estimators.fit_plan import in_words, is_close, plan_fit
from permatch.estimators.scaling import design
from permatch.graphs import BipartiteGraph
from permatch.inference.learning import Closer, FitEngine, SamplingFitEngine
from permatch.objectives import MatchingLikelihood, Parameters

APPROXIMATE = "ignore:the fit is approximate:RuntimeWarning"
COEF = np.array([1.5, -1.0])
NARROW = pm.AutoEngine(exact_size=5)


def labelled(rng, sizes):
    """One sparse graph with a dense component per size, and a partial matching of it."""
    left, right, features, matching, first = [], [], [], [], 0
    for size in sizes:
        own = rng.normal(size=(size, size, 2))
        ends = np.zeros(size) - 0.5
        found = pm.MatchingDistribution(
            own @ COEF, unmatched_left=ends, unmatched_right=ends
        )
        truth = found.sample(1, rng=rng)[0]
        matching += np.where(truth >= 0, truth + first, -1).tolist()
        places = np.indices((size, size)).reshape(2, -1) + first
        left, right = [*left, *places[0]], [*right, *places[1]]
        features.append(own.reshape(-1, 2))
        first += size
    graph = BipartiteGraph.from_edges(left, right, np.concatenate(features), first, first)
    return [graph], [np.array(matching)]


def plan_of(data, budget=120.0, *, engine=None, is_any=True):
    checked = check_data_set(*data, None)
    parameters = Parameters.of(checked[0][0], is_any=is_any)
    return plan_fit(engine or pm.AutoEngine(), checked, parameters, budget, 30), parameters


def test_narrow_components_are_exact_and_nothing_is_said(rng, caplog):
    data = labelled(rng, [2, 3, 4, 5] * 5)
    with caplog.at_level(logging.INFO, "permatch.plans"):
        model = pm.MAPMatching().fit(*data)
    exact = pm.MAPMatching(engine="frontier").fit(*data)
    np.testing.assert_allclose(model.coef_, exact.coef_, rtol=1e-6)
    assert model.is_exact_
    assert exact.engine_report_ is None
    report = model.engine_report_
    assert (report["n_exact"], report["n_approximate"], report["n_sampled"]) == (20, 0, 0)
    assert report["n_pairs"] == 5 * (4 + 9 + 16 + 25)
    assert not caplog.records
    assert in_words(report) == "20 components solved exactly"


def test_what_does_not_fit_into_the_budget_is_approximated(rng, caplog):
    data = labelled(rng, [2, 3, 4] * 10 + [12])
    with (
        caplog.at_level(logging.INFO, "permatch.plans"),
        pytest.warns(RuntimeWarning, match="1 component .144 of 434 pairs. approximated"),
    ):
        model = pm.MAPMatching(budget=2e-3).fit(*data)
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.startswith("auto: 30 components exactly, 1 component (144 of 434 pairs) by")
    assert "per evaluation" in told
    assert not model.is_exact_
    assert np.isnan(model.gradient_error_)
    report = model.engine_report_
    assert (report["n_exact"], report["n_approximate"]) == (30, 1)
    exact = pm.MAPMatching().fit(*data)
    assert exact.is_exact_
    np.testing.assert_allclose(model.coef_, exact.coef_, atol=0.1)


def test_the_error_that_is_reported_holds(rng, monkeypatch):
    data = labelled(rng, [11])
    monkeypatch.setattr("permatch.estimators.fit_plan._LONG", 1e4)  # time to compile
    with pytest.warns(RuntimeWarning, match=r"certainly by at most 0\.\d+ from the true"):
        model = pm.MAPMatching(budget=1e5, engine=NARROW).fit(*data)
    report = model.engine_report_
    assert report["n_checked"] == 1
    assert report["is_certain"]
    truth = pm.MAPMatching(engine="frontier")
    vars(truth).update({k: v for k, v in vars(model).items() if k.endswith("_")})
    exact = truth.predict_marginals(data[0])[0]
    beliefs = truth.set_params(engine="bethe").predict_marginals(data[0])[0]
    off = np.abs(np.asarray(exact - beliefs)).max()
    assert 1e-5 < off <= report["largest_error"] + 1e-9


@pytest.mark.filterwarnings(APPROXIMATE)
def test_gradients_belong_to_values_whatever_is_approximated(rng):
    data = labelled(rng, [2, 3, 9])
    plan, parameters = plan_of(data, engine=NARROW)
    assert plan.n_approximate == 1
    found = design(check_data_set(*data, None), parameters)
    objective = MatchingLikelihood(found.parts, found.shares, 0.01, plan.engine)
    assert not objective.is_exact

    def value(coef):
        return objective.evaluate(coef).value

    def grad(coef):
        return objective.evaluate(coef).grad

    assert check_grad(value, grad, rng.normal(size=3)) < 1e-4


def test_the_engine_of_a_component_does_not_change_with_scores(rng):
    data = labelled(rng, [3, 10])
    plan, parameters = plan_of(data, engine=NARROW)
    found = design(check_data_set(*data, None), parameters)
    (table,) = found.parts
    for scale in (0.0, 1.0, 300.0):
        answer = plan.engine.infer_problem(table.problem(scale * np.ones(3)), _job())
        engines = {part.engine for part in answer.diagnostics.parts}
        assert engines == {"frontier", "bethe"}
        assert not answer.is_exact
    frontier = pm.Frontier().infer_problem(table.problem(np.ones(3)), _job())
    answer = plan.engine.infer_problem(table.problem(np.ones(3)), _job())
    small = table.structure.left < 3
    np.testing.assert_allclose(answer.marginals[small], frontier.marginals[small])


def _job():
    from permatch._parallel import Job

    return Job()


@pytest.mark.parametrize(
    ("budget", "kind", "n_sampled"), [(120.0, SamplingFitEngine, 1), (0.1, FitEngine, 0)]
)
def test_dense_squares_are_sampled_if_there_is_time(rng, budget, kind, n_sampled):
    graphs = [rng.normal(size=(32, 32, 1)), rng.normal(size=(5, 5, 1))]
    data = graphs, [np.arange(32), np.arange(5)]
    plan, _ = plan_of(data, budget, is_any=False)
    assert type(plan.engine) is kind
    assert plan.engine.draws == bool(n_sampled)
    assert (plan.n_exact, plan.n_sampled, plan.n_approximate) == (
        1,
        n_sampled,
        1 - n_sampled,
    )
    answer = plan.engine.infer(graphs[0][..., 0])
    assert answer.diagnostics.engine != "glynn"
    assert plan.engine.infer(graphs[1][..., 0]).is_exact


def test_squares_with_forbidden_edges_are_solved_by_components(rng):
    allowed = np.kron(np.eye(4, dtype=bool), np.ones((5, 5), dtype=bool))
    graph = BipartiteGraph(rng.normal(size=(20, 20, 2)), allowed)
    model = pm.MAPMatching().fit([graph], [np.arange(20)])
    assert model.is_exact_
    assert model.engine_report_["n_exact"] == 4
    whole = pm.MAPMatching(engine="frontier").fit([graph], [np.arange(20)])
    np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-6)


def test_nothing_to_match():
    data = [np.zeros((0, 3, 1))], [[]]
    model = pm.MAPMatching(unmatched="any").fit(*data)
    assert model.engine_report_["n_approximate"] == 0


@pytest.mark.filterwarnings(APPROXIMATE)
def test_models_are_copied_and_saved_with_their_report(rng, tmp_path):
    data = labelled(rng, [2, 9])
    model = pm.MAPMatching(budget=0.5, engine=NARROW).fit(*data)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_equal(again.engine_report_, model.engine_report_)  # NaN too
    model.save(tmp_path / "m.json")
    loaded = pm.load(tmp_path / "m.json")
    np.testing.assert_equal(loaded.engine_report_, model.engine_report_)


@pytest.mark.filterwarnings(APPROXIMATE)
def test_an_interrupt_while_results_are_compared_leaves_a_fitted_model(rng, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(FitEngine, "compare", interrupted)
    model = pm.MAPMatching(budget=0.5, engine=NARROW).fit(*labelled(rng, [2, 9]))
    assert model.is_converged_
    assert model.engine_report_["n_checked"] == 0
    assert "was not measured" in in_words(model.engine_report_)


def test_one_unknown_error_makes_the_largest_unknown():
    known = Closer(1, 0.1, 0.2, True)
    unknown = Closer(2, 0.05, np.nan, False)
    for found in ([known, unknown], [unknown, known], [Closer(), known, unknown]):
        joined = Closer.joined(found)
        assert (joined.n_checked, joined.largest_difference) == (3, 0.1)
        assert np.isnan(joined.largest_error)
        assert not joined.is_certain
    assert Closer.joined([known, Closer()]).largest_error == 0.2
    assert Closer.joined([]).n_checked == 0


@pytest.mark.parametrize(
    ("budget", "seconds"), [(2.0, 0.2), (90.0, 9.0), (1e4, 10.0), (np.inf, 10.0)]
)
def test_comparing_takes_no_longer_than_the_fit_or_a_few_seconds(rng, budget, seconds):
    plan, _ = plan_of(labelled(rng, [9]), budget, engine=NARROW)
    assert plan.seconds_to_compare == pytest.approx(seconds)


@pytest.mark.filterwarnings(APPROXIMATE, "ignore:the chosen alpha")
def test_a_search_treats_a_component_alike_on_all_folds(rng):
    graphs, truth = [], []
    for size in (3, 9, 3, 9, 3, 9):
        own = labelled(rng, [size])
        graphs, truth = graphs + own[0], truth + own[1]
    options = {"engine": NARROW, "budget": 0.5, "scoring": "log_likelihood"}
    model = pm.MAPMatchingCV([1.0, 0.1], cv=2, **options).fit(graphs, truth)
    assert model.engine_report_["n_exact"] == 3
    assert model.engine_report_["n_approximate"] == 3
    assert np.isfinite(model.cv_results_["scores"]).all()


@pytest.mark.parametrize("budget", [0, -1.0, "long", np.nan])
def test_a_budget_is_a_time(rng, budget):
    with pytest.raises(
        InvalidOptionError, match="budget of MAPMatching must be a number of"
    ):
        pm.MAPMatching(budget=budget).fit(*labelled(rng, [2]))


def test_without_a_budget_inference_is_as_ever(rng, caplog):
    data = labelled(rng, [2, 9])
    with caplog.at_level(logging.INFO, "permatch.plans"):
        model = pm.MAPMatching(budget=None).fit(*data)
    assert model.is_exact_
    assert model.engine_report_ is None
    assert not caplog.records
    plan, _ = plan_of(data, np.inf, engine=NARROW)
    with caplog.at_level(logging.INFO, "permatch.plans"):
        plan.announce(None, is_limited=False)
    (told,) = [record.getMessage() for record in caplog.records]
    assert "no budget; 1 component too wide" in told
    assert "takes up to 10 seconds per evaluation, and a fit needs about 30" in told


@pytest.mark.parametrize(
    ("n_approximate", "n_checked", "largest_error", "is_silent"),
    [(0, 0, np.nan, True), (2, 2, 0.009, True), (2, 2, 0.011, False), (2, 1, 0.009, False),
     (1, 0, np.nan, False), (1, 1, np.nan, False)],
)  # fmt: skip
def test_no_warning_within_the_tolerance(
    n_approximate, n_checked, largest_error, is_silent
):
    report = {"n_approximate": n_approximate, "n_checked": n_checked}
    report |= {"largest_error": largest_error}
    assert is_close(report, pm.AutoEngine()) is is_silent
