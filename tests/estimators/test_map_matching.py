"""MAPMatching: what it finds, the contract of scikit-learn, and what it refuses."""

import pickle
import signal

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

import permatch as pm
from permatch import errors
from permatch.estimators import MAPMatching
from permatch.graphs import BipartiteGraph
from permatch.objectives import MatchingLikelihood
from permatch.optimizers import SOLVERS
from tests.estimators import COEF, planted
from tests.helpers import ENGINES_WITH_MARGINALS
from tests.objectives import parts_of

# Two fits that both reach a gradient of 1e-6 agree to about that over the curvature.
COEF_TOL = 1e-5


@pytest.fixture
def data(rng):
    return planted(rng, 30, sizes=(3, 5, 4))


def likelihood(graphs, matchings, alpha, scale):
    """The objective of scaled coefficients, put together from outside."""
    parts, weights = parts_of(graphs, matchings), np.full(len(graphs), 1 / len(graphs))
    for part in parts:
        part.features[...] /= scale
    return MatchingLikelihood(parts, weights, alpha, pm.AutoEngine())


# ---- what it finds ---------------------------------------------------------------------


@pytest.mark.parametrize("case", ENGINES_WITH_MARGINALS, ids=str)
def test_the_gradient_vanishes_on_every_engine(case, rng):
    graphs, matchings = planted(rng, 20, sizes=(3, 6), forbidden=0.2)
    model = MAPMatching(engine=case.engine).fit(graphs, matchings)
    assert model.is_converged_
    objective = likelihood(graphs, matchings, model.alpha, model.scale_)
    _, grad = objective.value_and_grad(model.coef_ * model.scale_)
    assert np.abs(grad).max() <= 1.01e-6
    reference = MAPMatching().fit(graphs, matchings)
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=COEF_TOL)


def test_planted_coefficients_are_recovered_at_the_rate_of_the_root(rng):
    counts, n_seeds = [50, 200, 800], 8
    errors_by_count = np.zeros((len(counts), n_seeds))
    for k, stream in enumerate(rng.spawn(n_seeds)):
        graphs, matchings = planted(stream, max(counts))
        for row, count in enumerate(counts):
            model = MAPMatching(alpha=1e-6).fit(graphs[:count], matchings[:count])
            errors_by_count[row, k] = np.linalg.norm(model.coef_ - COEF)
    typical = np.sqrt(np.mean(errors_by_count**2, axis=1))
    slope = np.polyfit(np.log(counts), np.log(typical), 1)[0]
    # The rate is -1/2; eight repeats leave about 0.06 of uncertainty in the slope.
    assert -0.7 < slope < -0.3
    assert typical[-1] < 0.1


def test_solvers_agree(data):
    fits = [MAPMatching(solver=solver).fit(*data) for solver in (*SOLVERS, "newton-cg")]
    assert all(fit.is_converged_ for fit in fits)
    for fit in fits[1:]:
        np.testing.assert_allclose(fit.coef_, fits[0].coef_, atol=COEF_TOL)


@pytest.mark.parametrize("alpha", [1e-4, 1e-1])
def test_alpha_means_the_same_in_every_unit(alpha, data):
    graphs, matchings = data
    unit = np.array([1000.0, 1e-6, 1.0, 37.0])
    plain = MAPMatching(alpha).fit(graphs, matchings)
    other = MAPMatching(alpha).fit([graph * unit for graph in graphs], matchings)
    np.testing.assert_allclose(other.coef_ * unit, plain.coef_, atol=COEF_TOL)
    np.testing.assert_allclose(other.scale_, plain.scale_ * unit)
    for a, b in zip(
        plain.predict(graphs), other.predict([g * unit for g in graphs]), strict=True
    ):
        np.testing.assert_array_equal(a, b)


def test_without_scaling_alpha_acts_on_the_coefficients_themselves(data):
    graphs, matchings = data
    graphs = [graph * [10.0, 1.0, 1.0, 1.0] for graph in graphs]
    model = MAPMatching(alpha=0.5, scale_features=False).fit(graphs, matchings)
    np.testing.assert_array_equal(model.scale_, np.ones(4))
    checked = [BipartiteGraph(graph) for graph in graphs]
    _, grad = likelihood(checked, matchings, 0.5, 1.0).value_and_grad(model.coef_)
    assert np.abs(grad).max() <= 1.01e-6


def test_a_common_offset_of_a_feature_changes_nothing(data):
    graphs, matchings = data
    plain = MAPMatching().fit(graphs, matchings)
    offset = np.array([1e6, -1e5, 0.0, 3.0])
    shifted = MAPMatching().fit([graph + offset for graph in graphs], matchings)
    assert shifted.is_converged_
    np.testing.assert_allclose(shifted.coef_, plain.coef_, atol=COEF_TOL)


def test_constant_features_get_no_weight(data):
    graphs, matchings = data
    graphs = [np.dstack([graph, np.full(graph.shape[:2], 1e7)]) for graph in graphs]
    model = MAPMatching().fit(graphs, matchings)
    assert model.is_converged_
    assert model.coef_[4] == 0.0
    assert model.scale_[4] == 1.0


def test_features_of_forbidden_edges_do_not_matter(rng):
    graphs, matchings = planted(rng, 20, forbidden=0.3)
    filled = []
    for graph in graphs:
        features = graph.features.copy()
        features[~graph.allowed] = 1e9
        filled.append(BipartiteGraph(features, graph.allowed))
    a, b = (MAPMatching().fit(some, matchings) for some in (graphs, filled))
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=1e-12)


def test_a_weight_of_two_is_the_graph_given_twice(data):
    graphs, matchings = data
    weights = np.resize([1, 2, 0, 3], len(graphs))
    times = np.repeat(np.arange(len(graphs)), weights)
    weighted = MAPMatching().fit(graphs, matchings, sample_weight=2.5 * weights)
    repeated = MAPMatching().fit([graphs[k] for k in times], [matchings[k] for k in times])
    np.testing.assert_allclose(weighted.scale_, repeated.scale_)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=COEF_TOL)


@pytest.mark.parametrize(
    ("bounds", "low", "high"),
    [
        ("non-negative", 0.0, np.inf),
        ("non-positive", -np.inf, 0.0),
        ((-0.3, 0.3), -0.3, 0.3),
        ((None, 0.7), -np.inf, 0.7),
        ((np.array([0.0, -0.5, -9.0, 0.1]), 9), np.array([0.0, -0.5, -9.0, 0.1]), 9.0),
    ],
)
def test_bounds_are_kept_in_the_units_of_the_user(bounds, low, high, data):
    graphs, matchings = data
    graphs = [graph * [1.0, 1.0, 7.0, 1 / 3] for graph in graphs]
    model = MAPMatching(1e-3, bounds=bounds).fit(graphs, matchings)
    assert model.is_converged_
    assert (model.coef_ >= low).all()
    assert (model.coef_ <= high).all()
    free = MAPMatching(1e-3).fit(graphs, matchings)
    is_outside = (free.coef_ < low) | (free.coef_ > high)
    assert is_outside.any()
    # No feasible step from where it ended goes down.
    checked, scale = [BipartiteGraph(graph) for graph in graphs], model.scale_
    coef = model.coef_ * scale
    _, grad = likelihood(checked, matchings, 1e-3, scale).value_and_grad(coef)
    projected = coef - np.clip(coef - grad, low * scale, high * scale)
    assert np.abs(projected).max() <= 1.01e-6


def test_graphs_of_size_zero_and_one_are_taken():
    graphs = [np.zeros((0, 0, 2)), np.ones((1, 1, 2))]
    model = MAPMatching().fit(graphs, [[], [0]])
    np.testing.assert_array_equal(model.coef_, 0.0)
    assert [matching.tolist() for matching in model.predict(graphs)] == [[], [0]]


def test_threads_change_no_bit(data):
    one, two = (MAPMatching(n_jobs=n).fit(*data) for n in (1, 2))
    np.testing.assert_array_equal(one.coef_, two.coef_)


# ---- how it ends -----------------------------------------------------------------------


def test_history_counts_what_the_engine_did(data):
    model = MAPMatching().fit(*data)
    assert [row["iteration"] for row in model.history_] == list(range(model.n_iter_ + 1))
    losses = [row["loss"] for row in model.history_]
    assert losses == sorted(losses, reverse=True)
    assert model.history_[-1]["grad_norm"] <= model.tol
    assert model.history_[-1]["evaluations"] <= model.n_iter_ + 5


def test_stopping_early_warns_and_keeps_the_estimate(data):
    with pytest.warns(ConvergenceWarning, match=r"max_iter=2 was reached.*above tol=1e-06"):
        model = MAPMatching(max_iter=2).fit(*data)
    assert not model.is_converged_
    assert model.n_iter_ == 2
    assert model.history_[-1]["loss"] < model.history_[0]["loss"]
    assert model.score(*data) > 0.3


class Interrupting(pm.SubsetDP):
    """An engine at which somebody presses Ctrl-C during the n-th call."""

    calls_left = 4

    def _infer_stack(self, scores, members, job):
        Interrupting.calls_left -= 1
        if Interrupting.calls_left == 0:
            signal.raise_signal(signal.SIGINT)
        return super()._infer_stack(scores, members, job)


def test_ctrl_c_keeps_the_best_so_far(rng, monkeypatch):
    graphs, matchings = planted(rng, 20)
    monkeypatch.setattr(Interrupting, "calls_left", 4)
    with pytest.warns(ConvergenceWarning, match="interrupted after .*so far are kept"):
        model = MAPMatching(engine=Interrupting()).fit(graphs, matchings)
    assert not model.is_converged_
    assert np.abs(model.coef_).max() > 0
    assert len(model.history_) >= 2
    assert len(model.predict(graphs)) == 20
    # And goes on from there.
    model.set_params(warm_start=True, engine="auto").fit(graphs, matchings)
    assert model.is_converged_


def test_warm_start_begins_at_the_last_fit(data):
    model = MAPMatching(1e-3, warm_start=True).fit(*data)
    cold, coef = model.n_iter_, model.coef_
    assert model.fit(*data).n_iter_ == 0
    np.testing.assert_allclose(model.coef_, coef, rtol=1e-12)
    assert model.set_params(alpha=9e-4).fit(*data).n_iter_ < cold
    assert model.set_params(warm_start=False).fit(*data).n_iter_ >= cold


def test_warm_start_on_another_number_of_features_begins_at_zero(data):
    graphs, matchings = data
    model = MAPMatching(warm_start=True).fit(graphs, matchings)
    model.fit([graph[:, :, :2] for graph in graphs], matchings)
    fresh = MAPMatching().fit([graph[:, :, :2] for graph in graphs], matchings)
    np.testing.assert_array_equal(model.coef_, fresh.coef_)


def test_verbose_shows_a_bar_on_standard_error(data, capsys):
    MAPMatching(verbose=True).fit(*data)
    captured = capsys.readouterr()
    assert "MAPMatching" in captured.err
    assert captured.out == ""


# ---- scikit-learn ----------------------------------------------------------------------


def test_clone_and_parameters():
    engine = pm.Glynn(max_size=12)
    model = MAPMatching(alpha=0.5, engine=engine, bounds=(None, np.zeros(4)))
    copy = clone(model)
    assert copy.get_params()["alpha"] == 0.5
    assert copy.engine == engine
    assert not hasattr(copy, "coef_")
    assert copy.set_params(alpha=2.0, engine="glynn").alpha == 2.0
    assert "alpha=0.5" in repr(model)


def test_pickle_keeps_the_model(data):
    model = MAPMatching(engine=pm.SubsetDP()).fit(*data)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.coef_, model.coef_)
    assert again.score(*data) == model.score(*data)


def test_grid_search_over_lists_of_mixed_sizes(data):
    graphs, matchings = data
    search = GridSearchCV(MAPMatching(), {"alpha": [1e-3, 1e-1, 10.0]}, cv=3)
    search.fit(graphs, matchings)
    assert search.best_params_["alpha"] in (1e-3, 1e-1, 10.0)
    assert len(search.predict(graphs)) == len(graphs)
    assert search.score(graphs, matchings) > 0.3
    weighted = search.fit(graphs, matchings, sample_weight=np.ones(len(graphs)))
    assert weighted.best_estimator_.is_converged_


def test_cross_val_score_over_lists_and_stacks(rng, data):
    folds = KFold(3)
    scores = cross_val_score(MAPMatching(), *data, cv=folds)
    assert scores.shape == (3,)
    assert (scores > 0.2).all()
    graphs, matchings = planted(rng, 12)
    as_list = cross_val_score(MAPMatching(), graphs, matchings, cv=folds)
    as_stack = cross_val_score(
        MAPMatching(), np.stack(graphs), np.stack(matchings), cv=folds
    )
    np.testing.assert_array_equal(as_list, as_stack)


def test_metadata_routing_knows_the_weights():
    requests = MAPMatching().get_metadata_routing()
    assert set(requests.fit.requests) == {"sample_weight", "feature_names"}
    assert set(requests.score.requests) == {"sample_weight"}


# ---- what it refuses -------------------------------------------------------------------

GOOD = ([np.zeros((2, 2, 3)), np.ones((3, 3, 3))], [[0, 1], [2, 0, 1]])
HAS_NAN = np.zeros((3, 3, 3))
HAS_NAN[2, 1, 0] = np.nan

BAD_DATA = {
    "labels no permutation": (
        (GOOD[0], [[0, 0], [2, 0, 1]]),
        errors.InvalidMatchingError,
        r"graph 0 matches right node 0 to left nodes 0 and 1",
    ),
    "labels on forbidden edges": (
        ([BipartiteGraph(np.zeros((2, 2, 1)), ~np.eye(2, dtype=bool))], [[0, 1]]),
        errors.ForbiddenEdgeError,
        r"graph 0 uses the forbidden edge \(0, 0\)",
    ),
    "feature counts differ": (
        ([np.zeros((2, 2, 3)), np.zeros((3, 3, 2))], GOOD[1]),
        errors.FeatureCountError,
        "first graph has 3, graph 1 has 2",
    ),
    "empty": (([], []), errors.NoGraphsError, "at least one graph"),
    "nan": (
        ([GOOD[0][0], HAS_NAN], GOOD[1]),
        errors.NaNFeatureError,
        r"graph 1 must be finite; edge \(2, 1\) has nan in feature 0",
    ),
    "too few labels": ((GOOD[0], [[0, 1]]), errors.InvalidMatchingError, "2 graphs and 1"),
    "one graph": ((GOOD[0][0], [0, 1]), errors.FeatureShapeError, r"Wrap it: \[graph\]"),
    "too large": (
        ([np.zeros((2, 2, 1)), np.zeros((1001, 1001, 1))], [[0, 1], range(1001)]),
        errors.SizeLimitError,
        "at most 1000, got 1001",
    ),
}


@pytest.mark.parametrize("name", BAD_DATA)
def test_bad_data_is_refused_and_nothing_is_fitted(name):
    data, kind, message = BAD_DATA[name]
    model = MAPMatching()
    with pytest.raises(kind, match=message):
        model.fit(*data)
    assert not hasattr(model, "coef_")


BAD_OPTIONS = {
    "negative alpha": ({"alpha": -1.0}, "alpha must be a finite number of at least 0.*-1"),
    "nan alpha": ({"alpha": np.nan}, "alpha must be.*got nan"),
    "infinite alpha": ({"alpha": np.inf}, "alpha must be.*got inf"),
    "text alpha": ({"alpha": "1"}, "alpha must be.*got '1'"),
    "boolean alpha": ({"alpha": True}, "alpha must be.*got True"),
    "solver": ({"solver": "newton"}, "one of 'lbfgs', 'bfgs', 'newton-cg'; got 'newton'"),
    "bfgs with bounds": (
        {"solver": "bfgs", "bounds": "non-negative"},
        "'bfgs' does not support bounds.*solver='lbfgs', or bounds=None",
    ),
    "bounds name": ({"bounds": "positive"}, "'non-negative'.*got 'positive'"),
    "bounds single": ({"bounds": 1.0}, r"a pair .low, high..*got 1.0"),
    "bounds shape": ({"bounds": (np.zeros(2), 1.0)}, r"arrays of shape \(3,\)"),
    "bounds crossed": (
        {"bounds": (1.0, [2.0, 0.0, 2.0])},
        "feature 1 has low 1.0 and high 0",
    ),
    "bounds nan": ({"bounds": (np.nan, 1.0)}, "feature 0 has low nan"),
    "bounds infinite": ({"bounds": (np.inf, np.inf)}, "at most its high bound; feature 0"),
    "tol": ({"tol": 0.0}, "tol must be a finite number above 0; got 0.0"),
    "max_iter": ({"max_iter": 0}, "max_iter must be a whole number of at least 1"),
    "n_jobs": ({"n_jobs": 0}, "n_jobs must be"),
    "engine": ({"engine": "glyn"}, "engine must be one of.*got 'glyn'"),
}


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_bad_options(name):
    options, message = BAD_OPTIONS[name]
    with pytest.raises(errors.InvalidOptionError, match=message):
        MAPMatching(**options).fit(*GOOD)


def test_an_engine_without_marginals_cannot_train():
    with pytest.raises(errors.MarginalsUnavailableError, match="Ryser.*Use one of"):
        MAPMatching(engine="ryser").fit(*GOOD)


BAD_WEIGHTS = {
    "length": ([1.0], r"one number per graph, shape \(2,\); got shape \(1,\)"),
    "negative": ([1.0, -2.0], "graph 1 has -2.0"),
    "nan": ([np.nan, 1.0], "graph 0 has nan"),
    "all zero": ([0.0, 0.0], "all are 0"),
    "text": (["a", "b"], "one number per graph"),
}


@pytest.mark.parametrize("name", BAD_WEIGHTS)
def test_bad_weights(name):
    weights, message = BAD_WEIGHTS[name]
    with pytest.raises(errors.InvalidOptionError, match=message):
        MAPMatching().fit(*GOOD, sample_weight=weights)


def test_feature_names_are_kept_or_refused():
    assert MAPMatching().fit(*GOOD).feature_names_ is None
    names = np.array(["a", "b", "c"])
    assert MAPMatching().fit(*GOOD, feature_names=names).feature_names_ == ["a", "b", "c"]
    for bad in (["a", "b"], ["a", "b", "a"], "abc"):
        with pytest.raises(errors.InvalidOptionError, match="3 different strings"):
            MAPMatching().fit(*GOOD, feature_names=bad)
    with pytest.raises(errors.InvalidOptionError, match="must be strings"):
        MAPMatching().fit(*GOOD, feature_names=[1, 2, 3])


def test_numbers_beyond_float64_are_said_to_be():
    rng = np.random.default_rng(0)
    graphs = [rng.normal(size=(3, 3, 2)) for _ in range(3)]
    labels = [[0, 1, 2]] * 3
    with pytest.raises(errors.PrecisionError, match="too little for float64"):
        MAPMatching().fit([1e-310 * graph for graph in graphs], labels)
    with pytest.raises(errors.PrecisionError, match="exceed float64"):
        MAPMatching(scale_features=False).fit([1e200 * graph for graph in graphs], labels)


@pytest.mark.parametrize("kind", [MAPMatching, pm.MaxMarginMatching])
@pytest.mark.parametrize("scale_features", [True, False])
def test_features_near_the_largest_float_get_advice_that_works(kind, scale_features):
    features = np.random.default_rng(0).uniform(-1.7, 1.7, size=(3, 4, 4, 2)) * 1e308
    labels = [[0, 1, 2, 3]] * 3
    model = kind(scale_features=scale_features)
    advice = r"those of feature 0 are not\. Divide it by a large number\.$"
    with pytest.raises(errors.PrecisionError, match=advice):
        model.fit(features, labels)
    model.fit(features / 1e308, labels)
    model.coef_ += 1.0
    with pytest.raises(
        errors.PrecisionError, match="graph 0 times .* Divide the features by a large"
    ):
        model.predict(features)
    with pytest.raises(errors.PrecisionError, match="in both fit and predict"):
        model.log_likelihood(features, labels)
