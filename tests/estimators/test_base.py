"""What every fitted matcher answers, checked against enumeration and the distribution."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.utils.validation import check_is_fitted

import permatch as pm
from permatch import errors
from permatch.estimators import MAPMatching, feature_scale
from permatch.estimators.checks import check_graphs
from permatch.graphs import BipartiteGraph
from permatch.inference import all_matchings
from tests.estimators import planted

SIZES = (4, 2, 5, 9)


@pytest.fixture
def data(rng):
    return planted(rng, 12, sizes=SIZES)


@pytest.fixture
def model(data):
    return MAPMatching(alpha=0.1).fit(*data)


# ---- answers ---------------------------------------------------------------------------


def expected_answers(model, graph):
    """Mode, marginals and Bayes matching of a small graph, by enumeration."""
    size = len(graph)
    matchings = all_matchings(size)
    scores = graph @ model.coef_
    totals = scores[np.arange(size), matchings].sum(axis=1)
    probs = np.exp(totals - totals.max())
    probs /= probs.sum()
    marginals = np.zeros((size, size))
    for matching, prob in zip(matchings, probs, strict=True):
        marginals[np.arange(size), matching] += prob
    collected = marginals[np.arange(size), matchings].sum(axis=1)
    return matchings[totals.argmax()], marginals, matchings[collected.argmax()]


def test_answers_agree_with_enumeration_in_the_order_given(data, model):
    small = [graph for graph in data[0] if len(graph) <= 5]
    modes, marginals = model.predict(small), model.predict_marginals(small)
    bayes = model.predict(small, decode="bayes")
    for k, graph in enumerate(small):
        mode, table, best = expected_answers(model, graph)
        np.testing.assert_array_equal(modes[k], mode)
        np.testing.assert_allclose(marginals[k], table, atol=1e-12)
        np.testing.assert_array_equal(bayes[k], best)


def test_the_two_decoders_can_disagree():
    # The likeliest matching is a cycle; all others together prefer the diagonal.
    model = MAPMatching()
    model.coef_, model.scale_ = np.ones(1), np.ones(1)
    model.n_features_in_, model.feature_names_ = 1, None
    scores = np.log([[3.0, 2.9, 0.1], [0.1, 3.0, 3.4], [3.4, 0.1, 3.0]])
    differs = [
        k
        for k in range(200)
        if not np.array_equal(
            *[
                model.predict([noisy[:, :, None]], decode=decode)[0]
                for decode in ("mode", "bayes")
                for noisy in [scores + np.random.default_rng(k).normal(size=(3, 3))]
            ]
        )
    ]
    assert differs


def test_one_call_of_the_engine_per_size(data, model, monkeypatch):
    seen = []
    inner = pm.AutoEngine._answer

    def counted(self, scores, members, job):
        seen.append(scores.shape)
        return inner(self, scores, members, job)

    monkeypatch.setattr(pm.AutoEngine, "_answer", counted)
    model.predict_marginals(data[0])
    assert sorted(seen) == [(3, size, size) for size in sorted(SIZES)]


def test_samples_follow_the_marginals(data, model):
    small = [graph for graph in data[0] if len(graph) <= 5][:3]
    n_samples = 4000
    for graph, draws, marginals in zip(
        small,
        model.sample(small, n_samples, rng=7),
        model.predict_marginals(small),
        strict=True,
    ):
        size = len(graph)
        assert draws.shape == (n_samples, size)
        shares = np.stack([(draws == col).mean(axis=0) for col in range(size)], axis=1)
        # Five standard errors.
        margin = 5 * np.sqrt(marginals * (1 - marginals) / n_samples) + 1e-9
        assert (np.abs(shares - marginals) <= margin).all()


def test_samples_are_seeded_and_graphs_draw_on_their_own(data, model):
    graphs = [data[0][0], data[0][0]]
    first, again = (model.sample(graphs, 50, rng=3) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first[0], first[1])
    assert [draws.shape for draws in model.sample(graphs, 0)] == [(0, 4), (0, 4)]


def test_score_is_the_share_of_right_rows(data, model):
    graphs, matchings = data
    shares = [
        np.mean(a == b) for a, b in zip(model.predict(graphs), matchings, strict=True)
    ]
    assert model.score(graphs, matchings) == pytest.approx(np.mean(shares))
    weights = np.arange(12.0)
    expected = np.average(shares, weights=weights)
    assert model.score(graphs, matchings, weights) == pytest.approx(expected)


def test_log_likelihood_is_that_of_the_distributions(data, model):
    graphs, matchings = data
    log_probs = [
        model.distribution(graph).log_prob(matching)
        for graph, matching in zip(graphs, matchings, strict=True)
    ]
    assert model.log_likelihood(graphs, matchings) == pytest.approx(np.mean(log_probs))
    weights = np.arange(12.0)
    expected = np.average(log_probs, weights=weights)
    assert model.log_likelihood(graphs, matchings, weights) == pytest.approx(expected)


def test_log_likelihood_of_the_only_matching_is_zero(model):
    only = BipartiteGraph(1e5 * np.ones((3, 3, 4)), np.eye(3, dtype=bool))
    assert model.log_likelihood([only], [[0, 1, 2]]) == 0.0


def test_distribution_uses_engine_and_scores_of_the_model(data, model):
    model.set_params(engine=pm.SubsetDP())
    distribution = model.distribution(data[0][0])
    assert distribution.engine == pm.SubsetDP()
    np.testing.assert_array_equal(distribution.scores, data[0][0] @ model.coef_)


def test_a_bipartite_graph_is_taken_with_its_forbidden_edges(model, rng):
    allowed = np.roll(np.eye(4, dtype=bool), 1, axis=1) | np.eye(4, dtype=bool)
    graph = BipartiteGraph(rng.normal(size=(4, 4, 4)), allowed)
    (marginals,) = model.predict_marginals([graph])
    assert (marginals[~allowed] == 0).all()
    for decode in ("mode", "bayes"):
        (matching,) = model.predict([graph], decode=decode)
        assert allowed[np.arange(4), matching].all()


# ---- refusals --------------------------------------------------------------------------

CALLS = {
    "predict": lambda model, graphs, matchings: model.predict(graphs),
    "bayes": lambda model, graphs, matchings: model.predict(graphs, decode="bayes"),
    "predict_marginals": lambda model, graphs, matchings: model.predict_marginals(graphs),
    "sample": lambda model, graphs, matchings: model.sample(graphs, 1),
    "score": lambda model, graphs, matchings: model.score(graphs, matchings),
    "log_likelihood": lambda model, graphs, matchings: model.log_likelihood(
        graphs, matchings
    ),
    "distribution": lambda model, graphs, matchings: model.distribution(graphs[0]),
}


@pytest.mark.parametrize("name", CALLS)
def test_not_fitted(name, data):
    with pytest.raises(
        errors.NotFittedError, match=r"MAPMatching.*fit\(graphs, matchings\)"
    ):
        CALLS[name](MAPMatching(), *data)


def test_not_fitted_cannot_be_saved(tmp_path):
    with pytest.raises(errors.NotFittedError):
        MAPMatching().save(tmp_path / "model.json")
    assert not list(tmp_path.iterdir())


def test_scikit_learn_sees_whether_it_is_fitted(model):
    check_is_fitted(model)
    with pytest.raises(SklearnNotFittedError):
        check_is_fitted(MAPMatching())


@pytest.mark.parametrize("name", CALLS)
def test_another_number_of_features(name, data, model):
    graphs = [graph[:, :, :3] for graph in data[0]]
    with pytest.raises(errors.FeatureCountError, match="fitted on 4, graph 0 has 3"):
        CALLS[name](model, graphs, data[1])


@pytest.mark.parametrize("name", ["predict", "bayes", "predict_marginals"])
def test_a_graph_without_perfect_matching_is_named(name, data, model):
    infeasible = BipartiteGraph(np.zeros((3, 3, 4)), np.zeros((3, 3), dtype=bool))
    graphs = [*data[0], infeasible]
    with pytest.raises(
        errors.InfeasibleGraphError, match="(12 of size 3|this graph).*any'"
    ):
        CALLS[name](model, graphs, None)


def test_bad_requests(data, model):
    graphs, matchings = data
    with pytest.raises(errors.InvalidOptionError, match="'mode', 'bayes'; got 'map'"):
        model.predict(graphs, decode="map")
    with pytest.raises(errors.FeatureShapeError, match="Wrap it"):
        model.predict(graphs[0])
    with pytest.raises(errors.InvalidMatchingError, match="12 graphs and 11"):
        model.score(graphs, matchings[1:])
    with pytest.raises(errors.InvalidOptionError, match="n must be"):
        model.sample(graphs, -1)
    with pytest.raises(errors.InvalidOptionError, match="rng must be"):
        model.sample(graphs, 1, rng="x")
    with pytest.raises(errors.MarginalsUnavailableError):
        model.set_params(engine="ryser").predict_marginals(graphs)
    assert len(model.predict(graphs)) == 12  # the mode needs no engine


# ---- units -----------------------------------------------------------------------------


def test_scale_is_the_standard_deviation_over_allowed_edges(rng):
    graphs = check_graphs(
        [rng.normal(size=(size, size, 3)) * [1, 10, 0.1] for size in SIZES]
    )
    edges = np.concatenate([graph.features.reshape(-1, 3) for graph in graphs])
    np.testing.assert_allclose(feature_scale(graphs), edges.std(axis=0), rtol=1e-12)
    allowed = np.eye(4, dtype=bool)
    masked = BipartiteGraph(graphs[0].features, allowed)
    expected = graphs[0].features[allowed].std(axis=0)
    np.testing.assert_allclose(feature_scale([masked]), expected, rtol=1e-12)


def test_scale_of_weighted_graphs_is_that_of_repeated_ones(rng):
    graphs = check_graphs([rng.normal(size=(size, size, 3)) for size in SIZES])
    repeated = [graphs[0]] * 2 + [graphs[1]] + [graphs[2]] * 3 + [graphs[3]]
    weighted = feature_scale(graphs, np.array([2.0, 1.0, 3.0, 1.0]) / 7)
    np.testing.assert_allclose(weighted, feature_scale(repeated), rtol=1e-12)


@pytest.mark.parametrize("unit", [1e-200, 1e-3, 1.0, 1e200])
def test_scale_follows_the_unit(unit, rng):
    features = rng.normal(size=(6, 6, 2))
    scale = feature_scale([BipartiteGraph(features)])
    scaled = feature_scale([BipartiteGraph(unit * features)])
    np.testing.assert_allclose(scaled, unit * scale, rtol=1e-12)


def test_scale_keeps_its_digits_beside_a_large_mean(rng):
    features = rng.integers(0, 5, size=(6, 6, 1)).astype(float)
    scale = feature_scale([BipartiteGraph(features)])
    shifted = feature_scale([BipartiteGraph(features + 2.0**40)])
    np.testing.assert_allclose(shifted, scale, rtol=1e-12)


def test_features_without_spread_have_scale_one():
    graphs = [
        BipartiteGraph(np.full((3, 3, 2), [0.1, 1e12])),
        BipartiteGraph(np.empty((0, 0, 2))),
    ]
    np.testing.assert_array_equal(feature_scale(graphs), [1.0, 1.0])
    np.testing.assert_array_equal(feature_scale(graphs[1:]), [1.0, 1.0])


def test_bayes_decoding_keeps_to_the_allowed_edges():
    allowed = np.eye(5, dtype=bool)
    allowed[0, :] = allowed[:, 0] = True
    allowed[0, 0] = False
    graph = BipartiteGraph(np.ones((5, 5, 1)), allowed)
    model = MAPMatching().fit([graph], [pm.best_matching(graph.scores(np.zeros(1)))])
    (matching,) = model.predict([graph], decode="bayes")
    assert allowed[range(5), matching].all()
