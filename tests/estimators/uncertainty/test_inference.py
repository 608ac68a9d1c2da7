"""Inference after a fit: its numbers, its words, and what it refuses."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

import permatch as pm
from permatch.errors import InvalidOptionError, ModelFileError, PrecisionError
from permatch.estimators.uncertainty.covariance import (
    Derivatives,
    invert,
    laplace,
    sandwich,
)
from permatch.estimators.uncertainty.posterior import Posterior
from tests.estimators import planted

COEF = np.array([1.0, -0.5, 0.0])
ENDS = ("unmatched_left", "unmatched_right")


def judged(rng, n_queries=40, length=8, n_features=3):
    X = rng.normal(size=(n_queries * length, n_features)) * [1.0, 10.0, 0.1][:n_features]
    y = np.digitize(X[:, 0] + rng.normal(size=len(X)), [0.0, 1.0])
    return X, y, np.repeat(np.arange(n_queries), length)


def labelled(rng, n_graphs=30, size=4, n_right=None, unmatched=None):
    graphs = rng.normal(size=(n_graphs, size, n_right or size, 3)) * [1.0, 10.0, 0.1]
    graphs[..., 1] += 100.0
    coef = COEF / [1.0, 10.0, 0.1]
    ends = {} if unmatched is None else dict.fromkeys(ENDS, unmatched)
    labels = [
        pm.MatchingDistribution((g - [0, 100.0, 0]) @ coef, **ends).sample(1, rng=k)[0]
        for k, g in enumerate(graphs)
    ]
    return list(graphs), labels


# ---- the numbers


def test_standard_errors_of_a_conditional_logit(rng):
    models = pytest.importorskip("statsmodels.discrete.conditional_models")
    X, _, qid = judged(rng)
    utility = X @ [1.0, -0.05, 2.0] + rng.gumbel(size=len(X))
    y = (utility == np.repeat(utility.reshape(-1, 8).max(axis=1), 8)).astype(int)
    theirs = models.ConditionalLogit(y, X, groups=qid).fit(method="newton", disp=0)
    model = pm.RankMatch(alpha=0.0, tol=1e-10).fit(X, y, qid=qid)
    ours = model.inference(X, y, qid=qid, cov_type="laplace")
    np.testing.assert_allclose(ours.params, theirs.params, rtol=1e-6)
    np.testing.assert_allclose(ours.bse, theirs.bse, rtol=1e-6)
    np.testing.assert_allclose(ours.cov_params(), theirs.cov_params(), rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(ours.conf_int(), theirs.conf_int(), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(ours.conf_int(0.2), theirs.conf_int(0.2), rtol=1e-5)
    np.testing.assert_allclose(ours.tvalues, theirs.tvalues, rtol=1e-5)
    np.testing.assert_allclose(ours.pvalues, theirs.pvalues, rtol=1e-4)
    assert ours.llf == pytest.approx(theirs.llf, rel=1e-9)


def test_units_of_features_change_nothing_but_units(rng):
    graphs, labels = labelled(rng, n_right=3, unmatched=0.2)
    units, shift = np.array([1.0, 1000.0, 0.01]), np.array([0.0, -3.0, 50.0])
    others = [graph * units + shift for graph in graphs]
    for cov_type in ("laplace", "sandwich"):
        one, two = (
            pm.MAPMatching(1e-3, unmatched="any", tol=1e-9)
            .fit(own, labels)
            .inference(own, labels, cov_type=cov_type)
            for own in (graphs, others)
        )
        assert one.names == ("x1", "x2", "x3", "unmatched intercept")
        # The intercept moves with the shift: compare a function that does not.
        np.testing.assert_allclose(two.bse[:3] * units, one.bse[:3], rtol=1e-5)
        moves = np.eye(4)
        moves[:3, :3] = np.diag(units)
        moves[3, :3] = -0.5 * shift
        expected = moves @ two.covariance @ moves.T
        np.testing.assert_allclose(expected, one.covariance, rtol=1e-3, atol=1e-8)


def test_units_of_features_do_not_change_wald_tests(rng):
    graphs, labels = labelled(rng)
    one, two = (
        pm.MAPMatching(0.0, tol=1e-9)
        .fit(own, labels)
        .inference(own, labels)
        .wald_test(["x1", "x2", "x3"])
        for own in (graphs, [graph * [1e-7, 1.0, 1e7] for graph in graphs])
    )
    assert two == pytest.approx(one, rel=1e-6)


def test_weights_count_as_copies(rng):
    graphs, labels = labelled(rng)
    weights = np.array([2.0, 1.0, 0.0] * 10)
    copies = [k for k, weight in enumerate(weights) for _ in range(int(weight))]
    model = pm.MAPMatching(1e-2, tol=1e-9)
    one = model.fit(graphs, labels, sample_weight=weights).inference(
        graphs, labels, sample_weight=weights, cov_type="laplace"
    )
    graphs, labels = [graphs[k] for k in copies], [labels[k] for k in copies]
    model.fit(graphs, labels)
    two = model.inference(graphs, labels, cov_type="laplace")
    three = model.inference(graphs, labels, clusters=copies)
    assert (one.nobs, two.nobs, three.n_clusters) == (30.0, 30.0, 20)
    np.testing.assert_allclose(one.covariance, two.covariance, rtol=1e-5, atol=1e-9)
    assert one.llf == pytest.approx(two.llf)
    assert one.log_evidence == pytest.approx(two.log_evidence)


def test_weights_of_queries_count_as_copies(rng):
    X, y, qid = judged(rng, n_queries=12)
    weights = np.where(qid % 2, 2.0, 1.0)
    model = pm.RankMatch(alpha=0.1, tol=1e-9, scale_features=False)
    model.fit(X, y, qid=qid, sample_weight=weights)
    one = model.inference(X, y, qid=qid, sample_weight=weights, cov_type="laplace")
    rows = np.concatenate([np.arange(len(X)), np.flatnonzero(qid % 2)])
    twice = np.concatenate([qid, qid[qid % 2 == 1] + 100])
    model.fit(X[rows], y[rows], qid=twice)
    two = model.inference(X[rows], y[rows], qid=twice, cov_type="laplace")
    three = model.inference(X[rows], y[rows], qid=twice, clusters=twice % 100)
    np.testing.assert_allclose(one.covariance, two.covariance, rtol=1e-5, atol=1e-9)
    assert (one.nobs, two.nobs, three.n_clusters) == (18.0, 18.0, 12)


def test_formulas():
    rng = np.random.default_rng(0)
    hessian = np.cov(rng.normal(size=(3, 9))) + np.eye(3)
    gradients = rng.normal(size=(6, 3))
    params = np.array([1.0, 2.0, 3.0])
    found = Derivatives(
        params=params,
        value=0.0,
        hessian=hessian,
        gradients=gradients,
        shares=np.full(6, 1 / 6),
        penalties=np.array([0.1, 0.1, 0.0]),
        is_free=np.ones(3, dtype=bool),
    )
    inverse = invert(found, ("a", "b", "c"))
    np.testing.assert_allclose(laplace(found, inverse, 6.0), np.linalg.inv(6 * hessian))
    scores = gradients + [0.1 / 6, 0.2 / 6, 0.0]
    sums = scores[::2] + scores[1::2]
    middle = 1.5 * sums.T @ sums + np.diag([0.1, 0.1, 0.0]) / 6
    outer = np.linalg.inv(hessian)
    clusters = np.repeat([0, 1, 2], 2)
    np.testing.assert_allclose(
        sandwich(found, inverse, 6.0, clusters), outer @ middle @ outer
    )


def test_both_covariances_agree_where_the_model_is_right(rng):
    graphs, labels = planted(rng, 600, sizes=(3,))
    model = pm.MAPMatching(1e-3).fit(graphs, labels)
    one = model.inference(graphs, labels, cov_type="laplace")
    two = model.inference(graphs, labels)
    np.testing.assert_allclose(two.bse, one.bse, rtol=0.2)


def test_evidence_by_integration(rng):
    graphs, labels = [g[..., :1] for g in labelled(rng)[0]], labelled(rng)[1]
    model = pm.MAPMatching(0.05, tol=1e-9).fit(graphs, labels)
    model.inference(graphs, labels, cov_type="laplace")
    n, alpha = len(graphs), 0.05
    grid = np.linspace(-0.5, 2.5, 61)
    scale = model.scale_[0]
    logs = [
        n * _log_likelihood(model, w / scale, graphs, labels) - 0.5 * n * alpha * w**2
        for w in grid
    ]
    mass = np.trapezoid(np.exp(logs - np.max(logs)), grid)
    expected = np.max(logs) + np.log(mass) + 0.5 * np.log(n * alpha / (2 * np.pi))
    assert model.log_evidence_ == pytest.approx(expected, abs=0.02)


def _log_likelihood(model, coef, graphs, labels):
    model.coef_ = np.array([coef])
    return model.log_likelihood(graphs, labels)


@pytest.mark.parametrize("subset_size", ["pairs", 3, "grades"])
def test_overlapping_observations_have_a_sandwich(subset_size, rng):
    X, y, qid = judged(rng)
    model = pm.RankMatch(subset_size, alpha=1e-3).fit(X, y, qid=qid)
    posterior = model.inference(X, y, qid=qid)
    assert np.isnan(posterior.log_evidence)
    assert "composite log-likelihood: " in " ".join(str(posterior).split())
    assert (posterior.bse > 0.0).all()
    whole = pm.RankMatch(alpha=1e-3).fit(X, y, qid=qid).inference(X, y, qid=qid)
    # Differently weighted, the same order of magnitude.
    assert (posterior.bse < 10.0 * whole.bse).all()
    with pytest.raises(InvalidOptionError, match=r"needs a likelihood .* Use cov_type='sa"):
        model.inference(X, y, qid=qid, cov_type="laplace")


def test_long_lists_say_that_they_are_approximate(rng):
    X, y, qid = judged(rng)
    model = pm.RankMatch(form="profile", alpha=0.1).fit(X, y, qid=qid)
    assert "profile form" in model.inference(X, y, qid=qid).notes[0]


def test_searches_use_the_chosen_alpha(rng):
    X, y, qid = judged(rng)
    model = pm.RankMatchCV(alphas=[0.01, 0.1, 1.0], cv=3).fit(X, y, qid=qid)
    assert model.inference(X, y, qid=qid).penalty == model.alpha_
    graphs, labels = labelled(rng)
    chosen = pm.MAPMatchingCV([1e-3, 1e-2], cv=3, scoring="log_likelihood")
    with warnings.catch_warnings(action="ignore"):  # an end of the path
        chosen.fit(graphs, labels)
    assert chosen.inference(graphs, labels).penalty == chosen.alpha_


def test_components_of_a_single_graph_are_the_clusters(rng):
    graphs, labels = labelled(rng, n_graphs=40, size=3, n_right=2, unmatched=0.2)
    many = pm.MAPMatching(0.01 / 40, unmatched="any", tol=1e-9).fit(graphs, labels)
    left, right = (np.arange(40 * n).reshape(40, n) for n in (3, 2))
    one = pm.BipartiteGraph.from_edges(
        np.repeat(left, 2, axis=1).ravel(),
        np.tile(right, (1, 3)).ravel(),
        np.concatenate([graph.reshape(-1, 3) for graph in graphs]),
    )
    matching = np.concatenate(
        [np.where(own < 0, -1, own + 2 * k) for k, own in enumerate(labels)]
    )
    whole = pm.MAPMatching(0.01, tol=1e-9).fit([one], [matching])
    np.testing.assert_allclose(whole.coef_, many.coef_, rtol=1e-5)
    expected = many.inference(graphs, labels)
    found = whole.inference([one], [matching])
    assert (found.units, found.nobs, found.n_clusters) == ("components", 40.0, 40)
    assert found.penalty == 0.01
    np.testing.assert_allclose(found.covariance, expected.covariance, rtol=1e-4, atol=1e-9)
    assert found.llf == pytest.approx(expected.llf)
    by_laplace = whole.inference([one], [matching], cov_type="laplace")
    expected = many.inference(graphs, labels, cov_type="laplace")
    np.testing.assert_allclose(by_laplace.bse, expected.bse, rtol=1e-5)
    assert by_laplace.log_evidence == pytest.approx(expected.log_evidence)


# ---- the words


def test_with_a_penalty_there_are_posterior_intervals_and_no_tests(rng):
    graphs, labels = labelled(rng)
    posterior = pm.MAPMatching(0.01).fit(graphs, labels).inference(graphs, labels)
    text = str(posterior.summary())
    assert "95 % posterior intervals" in text
    assert "P>|z|" not in text
    for ask in (
        lambda: posterior.pvalues,
        lambda: posterior.tvalues,
        lambda: posterior.wald_test("x1"),
    ):
        with pytest.raises(InvalidOptionError, match=r"without a penalty.*alpha=0\.01"):
            ask()


def test_without_a_penalty_there_are_wald_tests(rng):
    X, y, qid = judged(rng)
    names = ["clicks", "age", "length"]
    model = pm.RankMatch(alpha=0.0).fit(X, y, qid=qid, feature_names=names)
    posterior = model.inference(X, y, qid=qid)
    summary = posterior.summary(alpha=0.1)
    assert "90 % confidence intervals" in summary.as_text()
    frame = summary.to_pandas()
    assert list(frame.index) == names
    assert list(frame.columns) == ["coef", "std err", "z", "P>|z|", "[0.05", "0.95]"]
    np.testing.assert_array_equal(frame["P>|z|"], posterior.pvalues)
    html = posterior._repr_html_()
    assert html.count("<tr>") == 4
    assert "clicks" in html
    statistic, degrees, p = posterior.wald_test(["age"])
    assert statistic == pytest.approx(posterior.zvalues[1] ** 2)
    assert (degrees, p) == (1, pytest.approx(posterior.pvalues[1]))
    both = posterior.wald_test([[1.0, 0.0, 0.0], [0.0, 1.0, -1.0]])
    assert both[1] == 2
    with pytest.raises(InvalidOptionError, match="must be among clicks, age, length"):
        posterior.wald_test(["speed"])
    for wrong in ([[1.0, 2.0]], [], [["clicks"]], [[1.0], [2.0, 3.0]]):
        with pytest.raises(InvalidOptionError, match="rows of 3 numbers"):
            posterior.wald_test(wrong)
    with pytest.raises(InvalidOptionError, match="must be finite numbers; got nan"):
        posterior.wald_test([[np.nan, 1.0, 0.0]])
    with pytest.raises(InvalidOptionError, match="must be independent"):
        posterior.wald_test(["age", "age"])


def test_draws_have_the_covariance(rng):
    X, y, qid = judged(rng)
    posterior = pm.RankMatch(alpha=0.1).fit(X, y, qid=qid).inference(X, y, qid=qid)
    drawn = posterior.sample(20_000, rng=0)
    within = (drawn - posterior.params) / posterior.bse
    expected = posterior.covariance / np.outer(posterior.bse, posterior.bse)
    np.testing.assert_allclose(np.cov(within.T), expected, atol=0.05)
    np.testing.assert_allclose(within.mean(axis=0), 0.0, atol=0.05)


def test_draws_with_fewer_clusters_than_parameters(rng):
    X, y, qid = judged(rng)
    model = pm.RankMatch(alpha=0.0).fit(X, y, qid=qid)
    posterior = model.inference(X, y, qid=qid, clusters=qid % 3)  # they sum to zero
    root = posterior.root()
    np.testing.assert_allclose(root @ root.T, posterior.covariance, rtol=1e-6, atol=1e-9)
    assert np.isfinite(posterior.sample(10, rng=0)).all()


def test_frozen(rng):
    X, y, qid = judged(rng)
    posterior = pm.RankMatch(alpha=0.1).fit(X, y, qid=qid).inference(X, y, qid=qid)
    with pytest.raises(AttributeError):
        posterior.penalty = 0.0
    with pytest.raises(ValueError, match="read-only"):
        posterior.params[0] = 1.0


# ---- files


def test_saved_alone_and_with_the_model(rng, tmp_path):
    graphs, labels = labelled(rng)
    model = pm.MAPMatching(0.0, bounds=(0.0, None)).fit(graphs, labels)
    posterior = model.inference(graphs, labels)
    posterior.save(tmp_path / "posterior.json")
    model.save(tmp_path / "model.json")
    for again in (
        Posterior.load(tmp_path / "posterior.json"),
        pm.load(tmp_path / "model.json").posterior_,
    ):
        assert str(again) == str(posterior)
        assert again.covariance.tobytes() == posterior.covariance.tobytes()
        assert again.names == posterior.names
    assert not hasattr(model.fit(graphs, labels), "posterior_")


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d.pop("format"),
        lambda d: d.update(schema=99),
        lambda d: d["posterior"].pop("params"),
        lambda d: d["posterior"]["covariance"].update(shape=[9]),
        lambda d: d["posterior"].update(names={"tuple": ["x1"]}),
        lambda d: d["posterior"].update(more=1),
    ],
)
def test_damaged_files(damage, rng, tmp_path):
    X, y, qid = judged(rng)
    path = tmp_path / "posterior.json"
    pm.RankMatch(alpha=0.1).fit(X, y, qid=qid).inference(X, y, qid=qid).save(path)
    document = json.loads(path.read_text())
    damage(document)
    path.write_text(json.dumps(document))
    with pytest.raises(ModelFileError, match=r"must be a posterior .* Save the posterior"):
        Posterior.load(path)


# ---- what is refused, and what is noted


@pytest.mark.parametrize("subset_size", ["all", "profile", "pairs", 3])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_constant_features_of_documents_are_refused(subset_size, seed):
    form = "profile" if subset_size == "profile" else "auto"
    subset_size = "all" if form == "profile" else subset_size
    rng = np.random.default_rng(seed)
    X, y, qid = judged(rng, length=4)
    columns = {"ones": np.ones(len(X)), "per query": rng.normal(size=40)[qid]}
    for name, column in columns.items():
        for is_scaled in (True, False):
            wide = np.c_[X[:, :2], column * (1.0 if is_scaled else 1e-3)]
            options = {"form": form, "scale_features": is_scaled}
            model = pm.RankMatch(subset_size, alpha=0.0, **options)
            model.fit(wide, y, qid=qid, feature_names=["a", "b", name])
            for cov_type in ("sandwich", "laplace")[: 2 if subset_size == "all" else 1]:
                with pytest.raises(PrecisionError, match=f"do not determine {name}, "):
                    model.inference(wide, y, qid=qid, cov_type=cov_type)


def test_small_units_are_no_constants(rng):
    X, y, qid = judged(rng)
    options = {"alpha": 0.0, "scale_features": False, "tol": 1e-13}
    X[:, 2] *= 1e-6
    with warnings.catch_warnings(action="ignore"):  # a flat objective
        model = pm.RankMatch(**options).fit(X, y, qid=qid)
    model.is_converged_ = True
    assert np.isfinite(model.inference(X, y, qid=qid, cov_type="laplace").bse).all()


def test_all_coefficients_at_a_bound(rng):
    graphs, labels = labelled(rng)
    model = pm.MAPMatching(0.1, bounds=(0.0, 1e-6)).fit(graphs, labels)
    for cov_type in ("laplace", "sandwich"):
        posterior = model.inference(graphs, labels, cov_type=cov_type)
        assert posterior.is_fixed.all()
        assert np.isnan(posterior.bse).all()
        assert "At a bound" in str(posterior)


def test_other_models_have_no_likelihood(rng):
    X, y, qid = judged(rng)
    for model in (pm.DORM(), pm.QueryRidge(), pm.MaxMarginMatching()):
        with pytest.raises(
            InvalidOptionError, match="needs a linear model with a likelihood"
        ):
            model.inference(X, y, qid=qid)


def test_bad_options(rng):
    X, y, qid = judged(rng)
    model = pm.RankMatch(alpha=0.1).fit(X, y, qid=qid)
    with pytest.raises(InvalidOptionError, match="cov_type must be one of 'sandwich', 'la"):
        model.inference(X, y, qid=qid, cov_type="HC0")
    with pytest.raises(InvalidOptionError, match="at least 2 clusters"):
        model.inference(X, y, qid=qid, clusters=np.zeros(len(X)))
    with pytest.raises(InvalidOptionError, match="one label for each of the 320 documents"):
        model.inference(X, y, qid=qid, clusters=[1, 2])
    with pytest.raises(InvalidOptionError, match="equal for all documents of a query"):
        model.inference(X, y, qid=qid, clusters=np.arange(len(X)))
    for gap in (np.nan, None, pd.NaT, pd.NA):
        clusters = pd.Series(qid, dtype=object).mask(qid == 1, gap)
        with pytest.raises(InvalidOptionError, match="document 8 is .*Give it a cluster"):
            model.inference(X, y, qid=qid, clusters=clusters)
    with pytest.raises(InvalidOptionError, match="alpha must be below 1"):
        model.inference(X, y, qid=qid).conf_int(95)
    with pytest.raises(pm.errors.NotFittedError):
        pm.RankMatch().inference(X, y, qid=qid)


def test_coefficients_at_a_bound_are_held(rng):
    graphs, labels = labelled(rng)
    model = pm.MAPMatching(0.0, bounds=(0.0, None)).fit(graphs, labels)
    posterior = model.inference(graphs, labels, cov_type="laplace")
    assert posterior.is_fixed.tolist()[:2] == [False, True]
    assert np.isnan(posterior.bse[1])
    assert not posterior.covariance[1].any()
    assert "At a bound" in posterior.notes[0]
    assert "x2" in posterior.notes[0]
    # The others are those of a fit without the feature.
    kept = np.flatnonzero(~posterior.is_fixed)
    few = [graph[..., kept] for graph in graphs]
    other = pm.MAPMatching(0.0).fit(few, labels).inference(few, labels, cov_type="laplace")
    np.testing.assert_allclose(posterior.bse[kept], other.bse, rtol=1e-4)


def test_separable_data_have_no_standard_errors():
    graphs = [np.array([[[1.0], [0.0]], [[0.0], [1.0]]])] * 3
    model = pm.MAPMatching(0.0)
    with pytest.warns(ConvergenceWarning):
        model.fit(graphs, [[0, 1]] * 3)
    with pytest.raises(PrecisionError, match=r"separable .* alpha above 0"):
        model.inference(graphs, [[0, 1]] * 3)


def test_fits_that_ended_early(rng):
    graphs, labels = labelled(rng)
    model = pm.MAPMatching(1e-3, max_iter=1)
    with pytest.warns(ConvergenceWarning):
        model.fit(graphs, labels)
    with pytest.raises(PrecisionError, match=r"from its optimum.*or lower tol"):
        model.inference(graphs, labels)


def test_features_that_the_data_do_not_determine(rng):
    graphs, labels = labelled(rng)
    for graph in graphs:
        graph[..., 2] = graph[..., 0]
    model = pm.MAPMatching(0.0).fit(graphs, labels)
    with pytest.raises(PrecisionError, match=r"do not determine x1, x3"):
        model.inference(graphs, labels)
    for graph in graphs:
        graph[..., 2] = 7.0
    model = pm.MAPMatching(0.0).fit(graphs, labels)
    with pytest.raises(PrecisionError, match=r"do not determine x3"):
        model.inference(graphs, labels)
    # With a penalty, what is left is the prior.
    model = pm.MAPMatching(0.5).fit(graphs, labels)
    for cov_type in ("laplace", "sandwich"):
        posterior = model.inference(graphs, labels, cov_type=cov_type)
        assert posterior.bse[2] == pytest.approx(1 / np.sqrt(0.5 * len(graphs)))


def test_the_penalty_is_that_of_the_fit(rng, tmp_path):
    graphs, labels = labelled(rng)
    model = pm.MAPMatching(0.1).fit(graphs, labels)
    expected = model.inference(graphs, labels)
    model.save(tmp_path / "model.json")
    for again in (model, pm.load(tmp_path / "model.json")):
        again.set_params(alpha=0.0)
        found = again.inference(graphs, labels)
        assert found.penalty == again.alpha_ == 0.1
        np.testing.assert_array_equal(found.covariance, expected.covariance)
        with pytest.raises(InvalidOptionError, match="has alpha=0.1, which pulls"):
            _ = found.pvalues
    assert model.fit(graphs, labels).alpha_ == 0.0


def test_other_data_than_those_of_the_fit(rng):
    graphs, labels = labelled(rng)
    model = pm.MAPMatching(1e-3).fit(graphs, labels)
    with pytest.warns(UserWarning, match=r"seem not to be those of the fit"):
        model.inference(graphs[:10], labels[::-1][:10], cov_type="laplace")
    with pytest.raises(InvalidOptionError, match=r"the matchings given need 'any'"):
        model.inference(graphs, [[-1, *label[1:]] for label in labels])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.inference(graphs, labels)


def test_approximate_engines(rng):
    graphs, labels = labelled(rng)
    exact = pm.MAPMatching(1e-2).fit(graphs, labels)
    model = pm.MAPMatching(1e-2, engine="bethe").fit(graphs, labels)
    found = model.inference(graphs, labels)
    assert "Inference is approximate" in found.notes[0]
    assert np.isnan(found.log_evidence)
    expected = exact.inference(graphs, labels)
    assert expected.hessian_method in ("pair minors", "dual numbers")
    assert (found.bse > expected.bse / 3).all()  # the order of magnitude


def test_few_clusters_are_noted(rng):
    graphs, labels = labelled(rng, n_graphs=10)
    posterior = pm.MAPMatching(0.1).fit(graphs, labels).inference(graphs, labels)
    assert "Only 10 clusters for 3 parameters" in posterior.notes[0]


def test_incomplete_labels(rng):
    graphs, labels = labelled(rng, n_graphs=60)
    some = [np.where(rng.random(4) < 0.3, -2, label) for label in labels]
    model = pm.MAPMatching(1e-3)
    full = model.fit(graphs, labels).inference(graphs, labels, cov_type="laplace")
    less = model.fit(graphs, some).inference(graphs, some, cov_type="laplace")
    assert (less.bse > full.bse).all()  # less is known
