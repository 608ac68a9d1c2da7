"""`BoostedMatching`: the contract of matchers, with scores made by trees."""

import json
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

import permatch as pm
from permatch.boosting import MatchingObjective
from permatch.boosting.matching_objective import edge_rows
from permatch.errors import (
    FeatureCountError,
    InvalidOptionError,
    ModelFileError,
    NotFittedError,
)
from permatch.labels import check_known

pytest.importorskip("lightgbm")

FEW = {"num_leaves": 6, "n_rounds": 12, "learning_rate": 0.3}


def planted(rng, n_graphs, shape=(4, 4), is_any=False):
    """Graphs whose links depend on the product of two of three features."""
    graphs = rng.normal(size=(n_graphs, *shape, 3))
    alone = {"unmatched_left": 0.0, "unmatched_right": 0.0} if is_any else {}
    matchings = [
        pm.MatchingDistribution(3.0 * x[..., 0] * x[..., 1], **alone).sample(1, rng=k)[0]
        for k, x in enumerate(graphs)
    ]
    return graphs, matchings


@pytest.fixture(scope="module")
def square():
    return planted(np.random.default_rng(0), 60)


@pytest.fixture(scope="module")
def partial():
    return planted(np.random.default_rng(1), 60, (3, 5), is_any=True)


@pytest.fixture(scope="module")
def model(partial):
    return pm.BoostedMatching(**FEW).fit(*partial, feature_names=["a", "b", "c"])


def test_learns_what_a_linear_model_cannot(square):
    graphs, matchings = square
    train, test = (graphs[:40], matchings[:40]), (graphs[40:], matchings[40:])
    boosted = pm.BoostedMatching(**FEW).fit(*train)
    linear = pm.MAPMatching().fit(*train)
    assert boosted.score(*test) > linear.score(*test) + 0.15
    assert boosted.log_likelihood(*test) > linear.log_likelihood(*test) + 0.5
    assert boosted.unmatched_ == "larger"
    assert boosted.unmatched_intercept_ == 0.0


def test_loss_falls_and_starts_at_the_constant(model, partial):
    losses = [row["loss"] for row in model.history_]
    assert losses == sorted(losses, reverse=True)
    objective = MatchingObjective(*partial)
    start = -2.0 * model.unmatched_intercept_
    assert start == pytest.approx(objective.constant())
    at_start = objective.value(np.full(objective.n_edges, start)) / 60
    assert losses[0] == pytest.approx(at_start)
    assert model.is_exact_
    assert model.marginal_error_ == 0.0
    assert model.engine_report_["n_approximate"] == 0


def test_predictions_are_those_of_the_scores(model, partial):
    graph = partial[0][0]
    scores = model.trees_.predict(graph.reshape(-1, 3)).reshape(3, 5)
    alone = model.unmatched_intercept_
    d = pm.MatchingDistribution(scores, unmatched_left=alone, unmatched_right=alone)
    np.testing.assert_allclose(model.predict_marginals([graph])[0], d.marginals)
    np.testing.assert_array_equal(model.predict([graph])[0], d.mode())
    costs = pm.LinkCosts(missed=3.0)
    np.testing.assert_array_equal(
        model.predict([graph], "bayes", costs=costs)[0], d.bayes_matching(costs)
    )
    assert model.distribution(graph).log_partition == pytest.approx(d.log_partition)
    labels = [partial[1][0]]
    assert model.log_likelihood([graph], labels) == pytest.approx(d.log_prob(labels[0]))
    links = model.predict_links([graph], 0.2)
    assert (links["probability"] >= 0.2).all()
    np.testing.assert_array_equal(model.sample([graph], 5, rng=1)[0].shape, (5, 3))


def test_contributions_add_up(model, partial):
    rows = partial[0].reshape(-1, 3)
    parts = model.contributions(rows)
    assert parts.shape == (len(rows), 4)
    np.testing.assert_allclose(parts.sum(axis=1), model.trees_.predict(rows))
    assert model.feature_importances_[2] < 0.2 < model.feature_importances_[:2].min()


def test_features_of_nodes_are_learned_from(rng):
    """Whether a left node has a partner depends on a feature of the node alone."""
    graphs, matchings = [], []
    for _ in range(60):
        kind = rng.integers(0, 2, size=(3, 1))
        graphs.append(
            pm.BipartiteGraph(
                rng.normal(size=(3, 3, 1)), left_features=kind, right_features=kind * 0.0
            )
        )
        matchings.append(np.where(kind[:, 0] == 1, rng.permutation(3), -1))
    model = pm.BoostedMatching(**FEW).fit(graphs, matchings, feature_names=["x"])
    assert model.n_node_features_ == (1, 1)
    assert model.n_features_in_ == 1
    chances = np.concatenate([own.sum(axis=1) for own in model.predict_marginals(graphs)])
    kinds = np.concatenate([graph.left_features[:, 0] for graph in graphs])
    assert chances[kinds == 1].mean() > 0.8 > 0.2 > chances[kinds == 0].mean()
    assert model.trees_.booster.num_feature() == 3
    with pytest.raises(FeatureCountError, match="left_features"):
        model.predict([np.zeros((2, 2, 1))])


def test_validation_ends_the_fit(partial):
    graphs, matchings = partial
    held_out = graphs[40:], matchings[40:]
    options = FEW | {"n_rounds": 200, "patience": 5, "num_leaves": 20}
    model = pm.BoostedMatching(**options).fit(
        graphs[:40], matchings[:40], validation=held_out
    )
    assert len(model.history_) == model.n_rounds_ + 5 < 200
    best = max(row["score"] for row in model.history_)
    assert model.log_likelihood(*held_out) == pytest.approx(best)
    assert model.trees_.sizes[1] == model.n_rounds_


def test_incomplete_labels_are_learned_from(partial):
    graphs, matchings = partial
    rng = np.random.default_rng(0)
    labels = [np.where(rng.random(3) < 0.3, -2, own) for own in matchings]
    labels[0] = pm.EdgeLabels(np.full((3, 5), -1))  # nothing is known
    some = pm.BoostedMatching(**FEW, unmatched="any").fit(graphs[:40], labels[:40])
    linear = pm.MAPMatching().fit(graphs[:40], matchings[:40])
    assert some.score(graphs[40:], matchings[40:]) > linear.score(
        graphs[40:], matchings[40:]
    )


def test_weights_of_zero_leave_graphs_out(partial):
    graphs, matchings = partial
    weights = np.repeat([1.0, 0.0], [40, 20])
    weighted = pm.BoostedMatching(**FEW).fit(graphs, matchings, weights)
    fewer = pm.BoostedMatching(**FEW).fit(graphs[:40], matchings[:40])
    assert weighted.trees_.text == fewer.trees_.text


def test_seeds_and_threads(partial):
    options = FEW | {"feature_fraction": 0.5, "n_rounds": 2}
    texts = {
        pm.BoostedMatching(**options, n_jobs=n).fit(*partial).trees_.text for n in (1, 2)
    }
    assert len(texts) == 1
    other = pm.BoostedMatching(**options, random_state=1).fit(*partial)
    assert other.trees_.text not in texts


def test_saved_models_are_the_same(model, partial, tmp_path):
    path = tmp_path / "model.json"
    model.save(path)
    for again in (pm.load(path), pickle.loads(pickle.dumps(model))):
        for old, new in zip(
            model.predict_marginals(partial[0]),
            again.predict_marginals(partial[0]),
            strict=True,
        ):
            np.testing.assert_array_equal(old, new)
        assert again.n_node_features_ == (0, 0)
        assert again.feature_names_ == ["a", "b", "c"]
        assert again.get_params() == model.get_params()
    document = json.loads(path.read_text())
    document["n_features"], document["feature_names"] = 4, None
    path.write_text(json.dumps(document))
    with pytest.raises(ModelFileError, match="trees must have the 4 features of edges"):
        pm.load(path)


def test_scikit_learn(partial):
    graphs, matchings = partial
    search = GridSearchCV(pm.BoostedMatching(**FEW), {"num_leaves": [2, 6]}, cv=2)
    search.fit(list(graphs), matchings)
    assert search.best_params_ == {"num_leaves": 6}
    assert clone(search.best_estimator_).num_leaves == 6


def test_ctrl_c_keeps_the_best_so_far(partial, monkeypatch):
    calls = []
    evaluate = MatchingObjective.derivatives

    def interrupt(self, scores):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return evaluate(self, scores)

    monkeypatch.setattr(MatchingObjective, "derivatives", interrupt)
    with pytest.warns(ConvergenceWarning, match="interrupted after 3 rounds"):
        model = pm.BoostedMatching(**FEW).fit(*partial)
    assert model.n_rounds_ == 3
    assert not model.is_converged_
    assert model.engine_report_["n_checked"] == 0
    model.predict(partial[0][:2])


def test_approximate_fits_warn(rng):
    n, per = 60, 5
    left = np.repeat(np.arange(n), per)
    right = rng.permuted(np.tile(np.arange(n), (n, 1)), axis=1)[:, :per].ravel()
    graph = pm.BipartiteGraph.from_edges(left, right, rng.normal(size=(n * per, 2)), n, n)
    matching = np.full(n, -1)
    matching[0] = right[0]
    model = pm.BoostedMatching(**FEW | {"n_rounds": 3}, budget=1e-3)
    with pytest.warns(RuntimeWarning, match="the fit is approximate: 1 component"):
        model.fit([graph], [matching])
    assert not model.is_exact_
    assert np.isnan(model.marginal_error_)
    assert model.engine_report_["n_approximate"] == 1


def test_rows_go_to_lightgbm_as_the_objective_has_them(partial):
    known = check_known([pm.BipartiteGraph(x) for x in partial[0]], partial[1])
    rows = edge_rows([pm.BipartiteGraph(x) for x in partial[0]])
    np.testing.assert_array_equal(rows, partial[0].reshape(-1, 3))
    np.testing.assert_array_equal(
        MatchingObjective(*partial).labels, np.concatenate([k.is_match for k in known])
    )


REFUSED = {
    "parts": (lambda m, data: m.fit("folder"), "learns from graphs in memory"),
    "inference": (lambda m, data: m.inference(*data), "a linear model with a likelihood"),
    "intervals": (
        lambda m, data: m.predict_marginals(data[0], uncertainty=1),
        "intervals of probabilities need",
    ),
    "validation": (
        lambda m, data: m.fit(*data, validation=3),
        r"validation must be a pair \(graphs, matchings\)",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_trees_cannot_do(model, partial, name):
    call, message = REFUSED[name]
    with pytest.raises(InvalidOptionError, match=message):
        call(clone(model) if name in ("parts", "validation") else model, partial)


BAD = {
    "num_leaves": 1,
    "n_rounds": 0,
    "learning_rate": 0.0,
    "budget": 0.0,
    "unmatched": "none",
    "patience": 0,
    "engine": "no such engine",
    "random_state": -1,
    "n_jobs": 0,
}


@pytest.mark.parametrize("name", BAD)
def test_bad_options(partial, name):
    with pytest.raises(ValueError, match=name):
        pm.BoostedMatching(**{name: BAD[name]}).fit(*partial)


def test_not_fitted(partial):
    with pytest.raises(NotFittedError, match=r"fit\(graphs, matchings\)"):
        pm.BoostedMatching().predict(partial[0])
