"""MaxMarginMatching: what it learns, the estimator contract, and what it refuses."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold

from permatch.errors import (
    FeatureCountError,
    ForbiddenEdgeError,
    InvalidMatchingError,
    InvalidOptionError,
    NaNFeatureError,
    NoGraphsError,
    NotFittedError,
)
from permatch.estimators import MaxMarginMatching, load
from permatch.graphs import BipartiteGraph
from permatch.objectives import MatchingHinge
from tests.objectives import parts_of

N_FEATURES = 4


def noisy_pairs(rng, n_graphs, sizes=(4, 5, 6), noise=(0.2, 0.5, 3.0, 5.0)):
    """Points and their moved copies; some descriptors tell more than others."""
    graphs, matchings = [], []
    for k in range(n_graphs):
        size = sizes[k % len(sizes)]
        left, matching = rng.normal(size=(size, len(noise))), rng.permutation(size)
        right = np.empty_like(left)
        right[matching] = left + np.array(noise) * rng.normal(size=left.shape)
        graphs.append((left[:, None] - right[None]) ** 2)
        matchings.append(matching)
    return graphs, matchings


def separable(rng, n_graphs, sizes=(3, 5, 6), allowed_share=1.0):
    """Graphs labelled with the best matching under planted coefficients."""
    planted = np.array([2.0, -1.0, 0.5, 0.0])
    graphs, matchings = [], []
    for k in range(n_graphs):
        size = sizes[k % len(sizes)]
        matching = rng.permutation(size)
        features = rng.normal(size=(size, size, N_FEATURES))
        features[np.arange(size), matching] += 1.5 * planted
        allowed = rng.random((size, size)) < allowed_share
        allowed[np.arange(size), matching] = True
        graphs.append(BipartiteGraph(features, allowed))
        matchings.append(matching)
    return graphs, matchings


def objective(model, graphs, matchings, weights=None):
    """The penalised hinge at the fitted coefficients, from the unscaled features."""
    if weights is None:
        weights = np.full(len(graphs), 1.0 / len(graphs))
    graphs = [
        graph if isinstance(graph, BipartiteGraph) else BipartiteGraph(graph)
        for graph in graphs
    ]
    hinge = MatchingHinge(parts_of(graphs, matchings), weights)
    scaled = model.coef_ * model.scale_
    risk, _ = hinge.risk_and_subgradient(model.coef_)
    return 0.5 * model.alpha * scaled @ scaled + risk


# ---- what it learns --------------------------------------------------------------------


@pytest.mark.parametrize("allowed_share", [1.0, 0.6])
def test_separable_data_are_fitted_perfectly(allowed_share, rng):
    graphs, matchings = separable(rng, 12, allowed_share=allowed_share)
    model = MaxMarginMatching(alpha=1e-5).fit(graphs, matchings)
    assert model.score(graphs, matchings) == 1.0
    # Every label wins by the whole margin: nothing but the penalty is left.
    assert objective(model, graphs, matchings) < 1e-3


def test_learns_which_descriptors_tell(rng):
    graphs, matchings = noisy_pairs(rng, 90)
    model = MaxMarginMatching(alpha=1e-2).fit(graphs[:30], matchings[:30])
    unweighted = MaxMarginMatching(alpha=1e-2).fit(graphs[:30], matchings[:30])
    unweighted.coef_ = -np.ones(N_FEATURES)
    test = graphs[30:], matchings[30:]
    assert model.score(*test) > unweighted.score(*test) + 0.2
    assert model.coef_[:2].max() < 3 * model.coef_[2:].min() < 0


@pytest.mark.parametrize("alpha", [1e-3, 1e-1])
def test_objective_and_gap_are_what_they_say(alpha, rng):
    graphs, matchings = noisy_pairs(rng, 20)
    model = MaxMarginMatching(alpha).fit(graphs, matchings)
    assert model.is_converged_
    assert model.gap_ <= model.tol
    last = model.history_[-1]
    assert last["gap"] == model.gap_
    assert last["iteration"] == model.n_iter_
    value = objective(model, graphs, matchings)
    assert value == pytest.approx(last["loss"], rel=1e-9)
    # No other coefficients do better by more than the gap.
    for step in (1e-3, 1e-2, 1e-1, 1.0):
        other = clone(model)
        other.scale_ = model.scale_
        other.coef_ = model.coef_ + step * rng.normal(size=N_FEATURES) / model.scale_
        assert objective(other, graphs, matchings) >= last["lower_bound"]


def test_strong_penalties_shrink(rng):
    graphs, matchings = noisy_pairs(rng, 10)
    norms = [
        np.linalg.norm(
            (m := MaxMarginMatching(alpha).fit(graphs, matchings)).coef_ * m.scale_
        )
        for alpha in (1e-2, 1.0, 100.0)
    ]
    assert norms == sorted(norms, reverse=True)
    assert norms[-1] < 0.1


def test_units_of_the_features_do_not_matter(rng):
    graphs, matchings = noisy_pairs(rng, 15)
    units = np.array([1e-3, 1.0, 1e3, 7.0])
    model = MaxMarginMatching(tol=1e-8).fit(graphs, matchings)
    other = MaxMarginMatching(tol=1e-8).fit([g * units for g in graphs], matchings)
    np.testing.assert_allclose(other.scale_, model.scale_ * units, rtol=1e-9)
    np.testing.assert_allclose(other.coef_ * units, model.coef_, rtol=1e-2, atol=1e-4)


def test_without_scaling_the_scale_is_one(rng):
    graphs, matchings = noisy_pairs(rng, 10)
    model = MaxMarginMatching(scale_features=False).fit(graphs, matchings)
    assert model.scale_.tolist() == [1.0] * N_FEATURES
    assert objective(model, graphs, matchings) == pytest.approx(model.history_[-1]["loss"])


def test_sample_weight_equals_duplication(rng):
    graphs, matchings = noisy_pairs(rng, 12)
    counts = rng.integers(0, 4, size=12)
    counts[:2] = 0, 3
    repeated = np.repeat(np.arange(12), counts)
    options = {"alpha": 0.1, "tol": 1e-7}
    weighted = MaxMarginMatching(**options).fit(graphs, matchings, counts)
    doubled = MaxMarginMatching(**options).fit(
        [graphs[k] for k in repeated], [matchings[k] for k in repeated]
    )
    np.testing.assert_allclose(weighted.scale_, doubled.scale_, rtol=1e-12)
    assert weighted.history_[-1]["loss"] == pytest.approx(
        doubled.history_[-1]["loss"], rel=2e-7
    )
    # The penalty makes the minimum sharp: |error|^2 <= 2 gap value / alpha.
    np.testing.assert_allclose(
        weighted.coef_ * weighted.scale_, doubled.coef_ * doubled.scale_, atol=2e-3
    )


def test_large_graphs_need_no_engine(rng):
    graphs, matchings = noisy_pairs(rng, 4, sizes=(45,), noise=(0.02, 0.05, 3.0, 5.0))
    model = MaxMarginMatching(alpha=1e-2).fit(graphs, matchings)
    assert model.predict(graphs)[0].shape == (45,)
    assert model.score(graphs, matchings) > 0.8


def test_sizes_zero_and_one(rng):
    graphs, matchings = noisy_pairs(rng, 6, sizes=(0, 1, 4))
    model = MaxMarginMatching().fit(graphs, matchings)
    assert [len(matching) for matching in model.predict(graphs)] == [0, 1, 4] * 2
    trivial = MaxMarginMatching().fit(graphs[:2], matchings[:2])
    assert trivial.coef_.tolist() == [0.0] * N_FEATURES
    assert trivial.gap_ == 0.0


def test_constant_features_get_no_weight(rng):
    graphs, matchings = noisy_pairs(rng, 10)
    graphs = [np.dstack([graph, np.full(graph.shape[:2], 3.0)]) for graph in graphs]
    model = MaxMarginMatching().fit(graphs, matchings)
    assert abs(model.coef_[-1]) < 1e-12


def test_threads_change_nothing(rng):
    graphs, matchings = noisy_pairs(rng, 10)
    one = MaxMarginMatching().fit(graphs, matchings)
    many = MaxMarginMatching(n_jobs=3).fit(graphs, matchings)
    assert one.coef_.tolist() == many.coef_.tolist()


def test_predictions_and_their_probabilities(rng):
    graphs, matchings = noisy_pairs(rng, 20)
    model = MaxMarginMatching().fit(graphs, matchings)
    marginals = model.predict_marginals(graphs)
    for table, graph in zip(marginals, graphs, strict=True):
        assert table.shape == graph.shape[:2]
        np.testing.assert_allclose(table.sum(axis=1), 1.0)
    bayes = model.predict(graphs, decode="bayes")
    assert [sorted(matching) for matching in bayes] == [list(range(len(g))) for g in graphs]
    assert model.log_likelihood(graphs, matchings) < 0.0


# ---- the run -----------------------------------------------------------------------------


def test_warm_start_begins_at_the_last_fit(rng):
    graphs, matchings = noisy_pairs(rng, 30)
    model = MaxMarginMatching(alpha=1e-3, warm_start=True).fit(graphs, matchings)
    value, n_iter = model.history_[-1]["loss"], model.n_iter_
    model.fit(graphs, matchings)
    assert model.history_[0]["loss"] == pytest.approx(value, rel=1e-9)
    assert model.n_iter_ < n_iter
    # Another number of features: nothing to begin at.
    model.fit([graph[:, :, :2] for graph in graphs], matchings)
    assert model.coef_.shape == (2,)


def test_too_few_rounds_warn_and_keep_the_estimate(rng):
    graphs, matchings = noisy_pairs(rng, 30)
    model = MaxMarginMatching(alpha=1e-4, max_iter=3)
    message = r"did not converge: max_iter=3 was reached, and the duality gap is .*tol="
    with pytest.warns(ConvergenceWarning, match=message) as caught:
        model.fit(graphs, matchings)
    assert caught[0].filename == __file__
    assert not model.is_converged_
    assert model.gap_ > model.tol
    assert model.n_iter_ == 3
    assert model.score(graphs, matchings) > 0.2


def test_ctrl_c_keeps_the_best_so_far(rng, monkeypatch):
    graphs, matchings = noisy_pairs(rng, 30)
    evaluate = MatchingHinge.risk_and_subgradient
    calls = []

    def interrupted(self, coef):
        calls.append(coef)
        if len(calls) > 12:
            raise KeyboardInterrupt
        return evaluate(self, coef)

    monkeypatch.setattr(MatchingHinge, "risk_and_subgradient", interrupted)
    model = MaxMarginMatching(alpha=1e-4)
    with pytest.warns(ConvergenceWarning, match="interrupted after .* rounds; the best"):
        model.fit(graphs, matchings)
    assert not model.is_converged_
    assert model.score(graphs, matchings) > 0.2


def test_verbose_shows_progress(rng, capsys):
    graphs, matchings = noisy_pairs(rng, 6)
    MaxMarginMatching(verbose=True).fit(graphs, matchings)
    captured = capsys.readouterr()
    assert "MaxMarginMatching" in captured.err
    assert captured.out == ""


# ---- the estimator contract --------------------------------------------------------------


def test_clone_and_params(rng):
    model = MaxMarginMatching(0.3, tol=1e-2, max_iter=99, n_jobs=2, engine="glynn")
    model.fit(*noisy_pairs(rng, 5))
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert copy.get_params()["alpha"] == 0.3
    assert not hasattr(copy, "coef_")


def test_pickle(rng):
    graphs, matchings = noisy_pairs(rng, 8)
    model = MaxMarginMatching().fit(graphs, matchings, feature_names=list("abcd"))
    copy = pickle.loads(pickle.dumps(model))
    assert copy.coef_.tolist() == model.coef_.tolist()
    assert copy.feature_names_ == list("abcd")
    assert copy.score(graphs, matchings) == model.score(graphs, matchings)


def test_save_and_load(rng, tmp_path):
    graphs, matchings = noisy_pairs(rng, 8)
    model = MaxMarginMatching(0.05).fit(graphs, matchings, feature_names=list("abcd"))
    model.save(tmp_path / "model.json")
    copy = load(tmp_path / "model.json")
    assert isinstance(copy, MaxMarginMatching)
    assert copy.coef_.tolist() == model.coef_.tolist()
    assert copy.get_params() == model.get_params()
    assert copy.history_ == model.history_
    assert copy.gap_ == model.gap_
    assert copy.feature_names_ == list("abcd")


def test_grid_search(rng):
    graphs, matchings = noisy_pairs(rng, 24)
    search = GridSearchCV(
        MaxMarginMatching(),
        {"alpha": [1e-3, 1e-1, 100.0]},
        cv=KFold(3),
        error_score="raise",
    )
    search.fit(graphs, matchings)
    assert search.best_params_["alpha"] in (1e-3, 1e-1, 100.0)
    scores = search.cv_results_["mean_test_score"]
    assert scores.shape == (3,)
    assert search.best_score_ == scores.max()
    assert search.predict(graphs[:2])[0].shape == (len(graphs[0]),)


# ---- bad input ---------------------------------------------------------------------------

GOOD = [np.arange(8.0).reshape(2, 2, 2), np.ones((3, 3, 2))]
LABELS = [[0, 1], [2, 0, 1]]
NOT_A_NUMBER = [GOOD[0], np.where(np.arange(18).reshape(3, 3, 2) == 9, np.nan, 1.0)]
FORBIDDEN = [GOOD[0], BipartiteGraph(GOOD[1], ~np.eye(3, dtype=bool))]

BAD_DATA = {
    "no permutation": (
        GOOD,
        [[0, 1], [2, 2, 1]],
        InvalidMatchingError,
        "graph 1 matches right node 2 to left nodes 0 and 1",
    ),
    "too few labels": (GOOD, LABELS[:1], InvalidMatchingError, "2 graphs and 1 matchings"),
    "forbidden label": (
        FORBIDDEN,
        [[0, 1], [1, 0, 2]],
        ForbiddenEdgeError,
        r"graph 1 uses the forbidden edge \(2, 2\)",
    ),
    "feature counts": (
        [GOOD[0], np.ones((3, 3, 5))],
        LABELS,
        FeatureCountError,
        "graph 1 has 5",
    ),
    "empty": ([], [], NoGraphsError, "at least one graph"),
    "nan": (NOT_A_NUMBER, LABELS, NaNFeatureError, r"graph 1 .*edge \(1, 1\) has nan"),
}


@pytest.mark.parametrize("name", BAD_DATA)
def test_bad_data(name):
    graphs, matchings, error, message = BAD_DATA[name]
    model = MaxMarginMatching()
    with pytest.raises(error, match=message):
        model.fit(graphs, matchings)
    assert not hasattr(model, "coef_")


BAD_OPTIONS = {
    "alpha": ([0, 0.0, -1.0, np.nan, np.inf, "1", None, True], "alpha must be a finite"),
    "tol": ([0.0, -1e-3, "small"], "tol must be a finite number above 0"),
    "max_iter": ([0, 1.5, None], "max_iter must be a whole number of at least 1"),
    "n_jobs": ([0, "two"], "n_jobs must be a whole number other than 0"),
    "engine": (["nonsense"], "nonsense"),
}


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, (values, _) in BAD_OPTIONS.items() for value in values],
)
def test_bad_options(name, value):
    with pytest.raises(InvalidOptionError, match=BAD_OPTIONS[name][1]):
        MaxMarginMatching(**{name: value}).fit(GOOD, LABELS)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], r"shape \(2,\); got shape \(1,\)"),
        ([1.0, -1.0], "graph 1 has -1.0"),
        ([0.0, 0.0], "above 0 for at least one"),
        ([1.0, np.nan], "graph 1 has nan"),
    ],
)
def test_bad_weights(weights, message):
    with pytest.raises(InvalidOptionError, match=message):
        MaxMarginMatching().fit(GOOD, LABELS, weights)


def test_bad_feature_names():
    with pytest.raises(InvalidOptionError, match="2 different strings"):
        MaxMarginMatching().fit(GOOD, LABELS, feature_names=["a", "a"])


def test_needs_a_fit():
    with pytest.raises(NotFittedError, match="fitted MaxMarginMatching"):
        MaxMarginMatching().predict(GOOD)


def test_graphs_of_another_kind_are_refused_after_the_fit():
    model = MaxMarginMatching().fit(GOOD, LABELS)
    with pytest.raises(FeatureCountError, match="fitted on 2"):
        model.predict([np.ones((2, 2, 3))])
