"""Coefficients that are drawn to others than 0."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit

import permatch as pm
from permatch.errors import InvalidOptionError
from permatch.estimators.checks import check_data_set
from permatch.inference import all_matchings
from tests.estimators import planted

PRIOR = np.array([1.0, -2.0, 0.5, 3.0])
LEARNERS = {"map": pm.MAPMatching, "margin": pm.MaxMarginMatching}


@pytest.fixture(scope="module")
def data():
    return planted(np.random.default_rng(4), 12, sizes=(3, 4))


def penalised(model, coef, data, scale, alpha):
    """The objective, from its definition."""
    loss = 0.5 * alpha * np.sum(((coef - PRIOR) * scale) ** 2)
    for graph, matching in zip(*data, strict=True):
        scores = np.asarray(graph) @ coef
        every = all_matchings(len(scores))
        totals = scores[np.arange(len(scores)), every].sum(axis=1)
        true = scores[np.arange(len(scores)), matching].sum()
        if model is pm.MAPMatching:
            loss += (np.log(np.exp(totals).sum()) - true) / len(data[0])
        else:
            wrong = (every != matching).mean(axis=1)
            loss += (wrong + totals - true).max() / len(data[0])
    return loss


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("options", [{}, {"scale_features": False}])
def test_the_optimum_is_that_of_the_definition(name, options, data):
    kind = LEARNERS[name]
    tol = {"map": 1e-8, "margin": 1e-6}[name]
    model = kind(0.3, prior_coef=PRIOR, tol=tol, **options).fit(*data)

    def value(coef):
        return penalised(kind, coef, data, model.scale_, 0.3)

    best = value(model.coef_)
    slack = 1e-5 * best
    for start in (PRIOR, model.coef_, np.zeros(4)):
        assert minimize(value, start, method="Nelder-Mead").fun > best - slack
    assert best < value(PRIOR)


@pytest.mark.parametrize("name", LEARNERS)
def test_a_strong_penalty_gives_back_the_prior_and_a_weak_one_forgets_it(name, data):
    kind = LEARNERS[name]
    np.testing.assert_allclose(kind(1e9, prior_coef=PRIOR).fit(*data).coef_, PRIOR)
    if name == "map":
        free = kind(0.0, tol=1e-9).fit(*data).coef_
        drawn = kind(1e-9, prior_coef=PRIOR, tol=1e-9).fit(*data).coef_
        np.testing.assert_allclose(drawn, free, atol=1e-4)


def test_numbers_arrays_and_names_say_the_same(data):
    names = ["a", "b", "c", "d"]
    expected = pm.MAPMatching(1.0, prior_coef=[0, 0, -2.0, 0]).fit(*data).coef_
    named = pm.MAPMatching(1.0, prior_coef={"c": -2.0}).fit(*data, feature_names=names)
    np.testing.assert_array_equal(named.coef_, expected)
    number = pm.MAPMatching(1.0, prior_coef=-1).fit(*data).coef_
    every = pm.MAPMatching(1.0, prior_coef=np.full(4, -1.0)).fit(*data).coef_
    np.testing.assert_array_equal(number, every)


@pytest.mark.parametrize("solver", ["lbfgs", "bfgs", "newton-cg"])
def test_solvers_agree(solver, data):
    options = {"prior_coef": PRIOR, "tol": 1e-8}
    expected = pm.MAPMatching(0.3, **options).fit(*data).coef_
    found = pm.MAPMatching(0.3, solver=solver, **options).fit(*data).coef_
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_bounds_hold_whatever_the_prior(data):
    model = pm.MAPMatching(1e9, prior_coef=PRIOR, bounds="non-positive").fit(*data)
    np.testing.assert_allclose(model.coef_, np.minimum(PRIOR, 0.0), atol=1e-6)


def test_incomplete_labels_and_unmatched_nodes(data):
    graphs, matchings = data
    labels = [np.where(np.arange(len(m)) == 0, -2, m) for m in matchings]
    labels[0] = np.full(len(labels[0]), -1)
    model = pm.MAPMatching(1e9, prior_coef=PRIOR).fit(graphs, labels)
    assert model.unmatched_ == "any"
    np.testing.assert_allclose(model.coef_, PRIOR)
    # The score of staying unmatched is not drawn to anything.
    assert model.unmatched_intercept_ != 0.0


def test_what_is_observed_agrees_with_the_prior(data):
    """The evidence of one coefficient, by quadrature."""
    graphs = [np.asarray(graph)[:, :, :1] for graph in data[0]]
    model = pm.MAPMatching(0.5, prior_coef=-1.5, scale_features=False)
    model.fit(graphs, data[1])
    found = model.inference(graphs, data[1], cov_type="laplace")
    precision = 0.5 * len(graphs)

    def density(coef):
        model.coef_ = np.array([coef])
        log_prior = (
            0.5 * np.log(precision / (2 * np.pi)) - 0.5 * precision * (coef + 1.5) ** 2
        )
        total = len(graphs) * model.log_likelihood(graphs, data[1])
        return np.exp(total + log_prior - found.log_evidence)

    mode = found.params[0]
    mass, _ = quad(density, mode - 6 * found.bse[0], mode + 6 * found.bse[0])
    assert mass == pytest.approx(1.0, rel=0.05)  # Laplace's approximation
    assert found.llf == pytest.approx(
        len(graphs) * _likelihood_at(model, mode, graphs, data)
    )


def _likelihood_at(model, coef, graphs, data):
    model.coef_ = np.array([coef])
    return model.log_likelihood(graphs, data[1])


def test_intervals_are_those_of_the_moved_problem(data):
    """Both covariances are unchanged if features are such that the optimum is the prior."""
    free = pm.MAPMatching(0.0, tol=1e-10).fit(*data)
    drawn = pm.MAPMatching(0.2, prior_coef=free.coef_, tol=1e-10).fit(*data)
    np.testing.assert_allclose(drawn.coef_, free.coef_, atol=1e-6)
    for cov_type in ("laplace", "sandwich"):
        bse = drawn.inference(*data, cov_type=cov_type).bse
        assert (bse < free.inference(*data, cov_type=cov_type).bse).all()


@pytest.mark.filterwarnings("ignore:the chosen alpha")
def test_alpha_is_chosen_on_later_graphs(data):
    graphs, matchings = (values * 2 for values in data)
    splitter = TimeSeriesSplit(3)
    model = pm.MAPMatchingCV([1e6, 1.0, 1e-2], prior_coef=PRIOR, cv=splitter)
    model.fit(graphs, matchings)
    scores = model.cv_results_["scores"]
    assert scores.shape == (3, 3)
    for k, (train, test) in enumerate(splitter.split(graphs)):
        assert train.max() < test.min()
        part = [graphs[i] for i in train], [matchings[i] for i in train]
        other = pm.MAPMatching(1.0, prior_coef=PRIOR).fit(*part)
        held = [graphs[i] for i in test], [matchings[i] for i in test]
        assert scores[1, k] == pytest.approx(1 - other.score(*held))


def test_it_is_a_parameter_like_others(data, tmp_path):
    search = GridSearchCV(
        pm.MAPMatching(1.0), {"prior_coef": [0.0, -1.0]}, cv=2, error_score="raise"
    )
    assert search.fit(*data).best_params_["prior_coef"] in (0.0, -1.0)
    for prior in (-1.0, PRIOR, {"a": 1.0}):
        model = pm.MAPMatching(0.1, prior_coef=prior)
        model.fit(*data, feature_names=["a", "b", "c", "d"]).save(tmp_path / "m.json")
        again = pm.load(tmp_path / "m.json")
        np.testing.assert_equal(again.prior_coef, prior)
        posterior = again.inference(*data)
        np.testing.assert_allclose(posterior.bse, model.inference(*data).bse)


BAD = {
    "text": ("low", r"a number, an array of shape \(4,\) or a mapping .*; got 'low'"),
    "truth": (True, "must be a number, .* got True"),
    "length": ([1.0, 2.0], r"of shape \(4,\) .* got shape \(2,\)"),
    "missing": ([1.0, 2.0, np.nan, 0.0], "all finite; got nan for feature 2"),
    "infinite": (np.inf, "all finite; got inf"),
    "masked": (np.ma.masked_array(PRIOR, [1, 0, 0, 0]), "prior_coef"),
    "names unknown": ({"a": 1.0}, "names are not known; pass feature_names"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("kind", LEARNERS.values())
def test_bad_priors_are_refused(kind, name, data):
    prior, message = BAD[name]
    with pytest.raises(InvalidOptionError, match=message):
        kind(prior_coef=prior).fit(*data)


def test_a_name_that_is_no_feature_is_refused(data):
    model = pm.MAPMatching(prior_coef={"e": 1.0})
    with pytest.raises(InvalidOptionError, match="'e' is none of a, b, c, d. Correct"):
        model.fit(*data, feature_names=["a", "b", "c", "d"])
    with pytest.raises(InvalidOptionError, match="must be a number, an array"):
        pm.MAPMatching(prior_coef={"a": "x"}).fit(*data, feature_names=["a", "b", "c", "d"])


def test_planes_on_a_path_are_those_of_the_distance_from_the_prior(data):
    options = {"tol": 1e-4, "max_iter": 1000}
    checked = check_data_set(*data, None)
    model = pm.MaxMarginMatching(prior_coef=PRIOR).fit(*data)
    problem = model._problem(checked, 1)
    path = problem.path(options)
    for alpha in (1.0, 0.1, 0.01):
        found = path.advance(alpha)
        alone = problem.solve(alpha, None, **options)
        assert found.lower_bound <= alone.value
        assert alone.lower_bound <= found.value
