"""`MatchingObjective`: derivatives of the likelihood, in the form boosting asks for."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone

import permatch as pm
from permatch.boosting import MatchingObjective
from permatch.boosting.matching_objective import edge_rows
from permatch.errors import (
    InvalidMatchingError,
    InvalidOptionError,
    PrecisionError,
    ScoreShapeError,
)
from tests.objectives.test_partial_likelihood import labelled

# Central differences at this step: rounding and curvature each leave about 1e-10.
STEP = 1e-4
DIFFERENCE_TOL = 1e-7


def differences(function, scores):
    """Central differences of a function of the scores, one row per score."""
    return np.array(
        [
            (np.asarray(function(scores + step)) - function(scores - step)) / (2 * STEP)
            for step in STEP * np.eye(len(scores))
        ]
    )


@pytest.fixture
def complete(rng):
    return MatchingObjective(*labelled(rng, True), sample_weight=[1, 2, 0, 0.5, 1, 3])


@pytest.mark.parametrize("is_any", [False, True])
@pytest.mark.parametrize("hidden", [0.0, 0.5])
@pytest.mark.parametrize("spread", [1.0, 10.0])
def test_derivatives_against_finite_differences(is_any, hidden, spread, rng):
    graphs, labels = labelled(rng, is_any, (1, 1), hidden)
    weights = rng.random(len(graphs))
    objective = MatchingObjective(
        graphs, labels, weights, unmatched="any" if is_any else "larger"
    )
    scores = spread * rng.normal(size=objective.n_edges)
    gradient, curvature = objective(scores)
    slopes = differences(objective.value, scores)
    np.testing.assert_allclose(gradient, slopes, rtol=0, atol=DIFFERENCE_TOL)
    # With all known it is the second derivative; else it lies above, and never below 0.
    second = np.diagonal(differences(lambda s: objective(s)[0], scores))
    assert objective.is_convex == (hidden == 0.0)
    if objective.is_convex:
        np.testing.assert_allclose(curvature, second, rtol=0, atol=DIFFERENCE_TOL)
    assert (curvature >= np.maximum(second, 0.0) - DIFFERENCE_TOL).all()


def test_partly_known_edges_count_by_what_is_known():
    """One left node, two right: known not to be the second, so the first or nobody."""
    objective = MatchingObjective(
        np.zeros((1, 1, 2, 1)), [pm.EdgeLabels([[-1, 0]])], unmatched="any"
    )
    found = objective.evaluate([0.0, 0.0])  # three matchings of equal weight
    assert found.value == pytest.approx(-np.log(2 / 3))
    np.testing.assert_allclose(found.gradient, [1 / 3 - 1 / 2, 1 / 3])
    np.testing.assert_allclose(found.curvature, [2 / 9, 2 / 9])
    np.testing.assert_array_equal(objective.labels, [-1, 0])


def test_weights_repeat_graphs(rng):
    graphs, labels = labelled(rng, True)
    weighted = MatchingObjective(graphs, labels, [2, 1, 1, 1, 1, 1])
    repeated = MatchingObjective([graphs[0], *graphs], [labels[0], *labels])
    scores = rng.normal(size=weighted.n_edges)
    first = scores[: graphs[0].n_edges]
    twice = repeated.evaluate(np.concatenate([first, scores]))
    once = weighted.evaluate(scores)
    assert once.value == pytest.approx(twice.value)
    np.testing.assert_allclose(
        once.gradient[: len(first)], 2 * twice.gradient[: len(first)]
    )


@pytest.mark.parametrize("size", [0.0, 1e3, 1e100])
def test_extreme_scores(complete, size, rng):
    found = complete.evaluate(size * rng.normal(size=complete.n_edges))
    assert np.isfinite(found.value)
    assert np.isfinite(found.gradient).all()
    assert (found.curvature >= 0.0).all()
    assert found.is_exact
    assert found.error == 0.0


def test_rows_are_edges_graph_by_graph_with_the_features_of_their_nodes(rng):
    graphs, labels = labelled(rng, True, (2, 1))
    objective = MatchingObjective(graphs, labels)
    start = 0
    for graph, label in zip(graphs, labels, strict=True):
        for e in range(graph.n_edges):
            i, j = graph.structure.left[e], graph.structure.right[e]
            row = [
                *graph.edge_features[e],
                *graph.left_features[i],
                *graph.right_features[j],
            ]
            np.testing.assert_array_equal(objective.features[start + e], row)
            assert objective.labels[start + e] == (label[i] == j)
        start += graph.n_edges
    assert start == objective.n_edges == len(edge_rows(graphs))


def test_constant_expects_as_many_links_as_are_known(rng):
    graphs, labels = labelled(rng, True)
    objective = MatchingObjective(graphs, labels)
    scores = np.full(objective.n_edges, objective.constant())
    assert objective(scores)[0].sum() == pytest.approx(0.0, abs=1e-2)
    assert MatchingObjective(np.zeros((1, 2, 2, 1)), [[1, 0]]).constant() == 0.0
    nobody = MatchingObjective(np.zeros((1, 2, 2, 1)), [[-1, -1]])
    assert nobody.constant() == -30.0
    one = MatchingObjective(np.zeros((1, 1, 1, 1)), [[0]], unmatched="any")
    assert one.constant() == 30.0


@pytest.mark.parametrize("engine", [pm.Bethe(), pm.SwapChain(n_sweeps=300)])
def test_approximate_engines_say_how_far_off_they_may_be(engine, rng):
    graphs, labels = labelled(rng, True)
    exact = MatchingObjective(graphs, labels)
    objective = MatchingObjective(graphs, labels, engine=engine)
    scores = rng.normal(size=exact.n_edges)
    found, true = objective.evaluate(scores), exact.evaluate(scores)
    assert not found.is_exact
    assert np.isnan(found.error) == (not engine.draws)
    np.testing.assert_allclose(found.gradient, true.gradient, atol=0.3)
    again = objective.evaluate(scores)
    np.testing.assert_array_equal(found.gradient, again.gradient)  # the same draws


def wide(rng, n=40, per=4):
    """A sparse graph too wide for exact inference in no time, and a matching."""
    left = np.repeat(np.arange(n), per)
    right = rng.permuted(np.tile(np.arange(n), (n, 1)), axis=1)[:, :per].ravel()
    graph = pm.BipartiteGraph.from_edges(left, right, rng.normal(size=(n * per, 2)), n, n)
    matching = np.full(n, -1)
    matching[0] = right[0]
    return graph, matching


def test_beliefs_start_from_those_of_the_last_round(rng):
    graph, matching = wide(rng)
    objective = MatchingObjective([graph], [matching], budget=1e-3)
    assert objective.plan.n_approximate == 1
    scores = rng.normal(size=objective.n_edges)
    for _ in range(3):
        scores = scores + 0.1 * rng.normal(size=objective.n_edges)
        afresh = clone(objective)
        assert afresh is not objective
        assert afresh.graphs is objective.graphs
        warm, cold = objective.evaluate(scores), afresh.evaluate(scores)
        np.testing.assert_allclose(warm.gradient, cold.gradient, atol=1e-6)
    sweeps = [
        one.likelihood.evaluate(scores + 1e-3).results[0].diagnostics.notes
        for one in (objective, clone(objective))
    ]
    warm, cold = (int(note[0].split()[3]) for note in sweeps)
    assert warm < cold
    report = objective.compare(scores)
    assert report["n_approximate"] == 1
    assert objective.evaluate(scores).is_exact is False


def test_threads_change_no_bit(rng):
    graphs, labels = labelled(rng, True)
    objectives = [MatchingObjective(graphs, labels, n_jobs=n) for n in (1, 2)]
    scores = rng.normal(size=objectives[0].n_edges)
    one, two = (objective.evaluate(scores) for objective in objectives)
    assert one.value == two.value
    np.testing.assert_array_equal(one.gradient, two.gradient)


def test_copies_say_the_same(complete, rng):
    scores = rng.normal(size=complete.n_edges)
    expected = complete(scores)
    for other in (
        pickle.loads(pickle.dumps(complete)),
        copy.deepcopy(complete),
        clone(complete),
    ):
        np.testing.assert_array_equal(other(scores), expected)


def planted(rng, n_graphs=30):
    """Graphs whose links are told by a product of two features."""
    graphs = rng.normal(size=(n_graphs, 4, 5, 3))
    matchings = [
        pm.MatchingDistribution(3.0 * x[..., 0] * x[..., 1], unmatched_left=0.0,
                                unmatched_right=0.0).sample(1, rng=k)[0]
        for k, x in enumerate(graphs)
    ]  # fmt: skip
    return graphs, matchings


def test_lightgbm_learns_with_it(rng):
    lightgbm = pytest.importorskip("lightgbm")
    objective = MatchingObjective(*planted(rng))
    start = objective.constant()
    data = lightgbm.Dataset(
        objective.features,
        objective.labels,
        init_score=np.full(objective.n_edges, start),
    )
    options = {"objective": objective, "num_leaves": 7, "verbosity": -1, "num_threads": 1}
    losses = []

    def follow(scores, _):
        losses.append(objective.value(scores))
        return "loss", losses[-1], False

    booster = lightgbm.train(options, data, 15, valid_sets=[data], feval=follow)
    assert losses == sorted(losses, reverse=True)
    scores = start + booster.predict(objective.features)
    assert objective.value(scores) == pytest.approx(losses[-1])
    assert losses[-1] < 0.6 * objective.value(np.full(objective.n_edges, start))
    model = lightgbm.LGBMRegressor(
        objective=objective, n_estimators=3, verbosity=-1, n_jobs=1
    )
    fitted = clone(model).fit(objective.features, objective.labels)
    loss = objective.value(fitted.predict(objective.features))
    assert loss < objective.value(np.zeros(objective.n_edges))


def test_xgboost_learns_with_it(rng):
    xgboost = pytest.importorskip("xgboost")
    objective = MatchingObjective(*planted(rng))
    start = objective.constant()
    data = xgboost.DMatrix(objective.features, objective.labels)
    data.set_base_margin(np.full(objective.n_edges, start))
    options = {"max_leaves": 7, "min_child_weight": 1e-3, "nthread": 1}
    booster = xgboost.train(options, data, 15, obj=objective)
    scores = booster.predict(data, output_margin=True)
    before = objective.value(np.full(objective.n_edges, start))
    assert objective.value(scores) < 0.6 * before


BAD_SCORES = {
    "one too few": (np.zeros(3), ScoreShapeError, r"shape \(\d+,\); got shape \(3,\)"),
    "words": (["a"], ScoreShapeError, "one number per edge"),
    "nan": (np.nan, PrecisionError, "edge 1 has nan. Lower the learning rate"),
    "infinite": (np.inf, PrecisionError, "edge 1 has inf"),
}


@pytest.mark.parametrize("name", BAD_SCORES)
def test_bad_scores(complete, name):
    given, error, message = BAD_SCORES[name]
    if isinstance(given, float):
        value, given = given, np.zeros(complete.n_edges)
        given[1] = value
    with pytest.raises(error, match=message):
        complete(given)


def test_masked_scores(complete):
    scores = np.ma.masked_less(np.zeros(complete.n_edges), 1.0)
    with pytest.raises(InvalidOptionError, match="masked"):
        complete(scores)


def test_bad_options(rng):
    graphs, labels = labelled(rng, True)
    for options, message in (
        ({"unmatched": "some"}, "unmatched"),
        ({"engine": "none"}, "engine"),
        ({"budget": -1.0}, "budget of MatchingObjective"),
        ({"n_rounds": 0}, "n_rounds"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"sample_weight": [1.0]}, "sample_weight"),
    ):
        with pytest.raises(ValueError, match=message):
            MatchingObjective(graphs, labels, **options)
    with pytest.raises(InvalidMatchingError, match="unmatched='any'"):
        MatchingObjective([np.zeros((2, 2, 1))], [[0, -1]], unmatched="larger")
    with pytest.raises(InvalidMatchingError, match="nothing is known"):
        MatchingObjective([np.zeros((2, 2, 1))], [[-2, -2]], unmatched="any")
    with pytest.raises(pm.errors.MarginalsUnavailableError):
        MatchingObjective(graphs, labels, engine="ryser")
    with pytest.raises(pm.errors.SizeLimitError):
        MatchingObjective([np.zeros((25, 25, 1))], [np.arange(25)], engine="subset_dp")


def test_names_what_it_is(complete):
    n = complete.n_edges
    assert repr(complete) == f"MatchingObjective(6 graphs, {n} edges, engine='auto')"
