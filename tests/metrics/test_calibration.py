"""Reliability curves, from their definition and on models whose calibration is known."""

import numpy as np
import pytest

import permatch as pm
from permatch.errors import InvalidGraphError, InvalidMatchingError, InvalidOptionError
from permatch.graphs import BipartiteGraph
from permatch.known import Known
from permatch.labels import EdgeLabels
from permatch.metrics import calibration, node_calibration

STRATEGIES = ("uniform", "quantile")


def predictions(rng, n_graphs=40, sizes=(2, 3, 5), spread=1.5):
    """Marginals of random graphs, and matchings drawn from those very distributions."""
    marginals, matchings = [], []
    for k in range(n_graphs):
        size = sizes[k % len(sizes)]
        d = pm.MatchingDistribution(spread * rng.normal(size=(size, size)))
        marginals.append(d.marginals)
        matchings.append(d.sample(1, rng=rng)[0])
    return marginals, matchings


def pooled(marginals, matchings):
    """Every edge's probability and whether it is matched, one at a time."""
    return np.array(
        [
            (table[i, j], matching[i] == j)
            for table, matching in zip(marginals, matchings, strict=True)
            for i in range(len(table))
            for j in range(len(table))
        ]
    ).T


@pytest.mark.parametrize("least", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("n_bins", [1, 4, 10])
def test_every_bin_is_its_definition(strategy, n_bins, least, rng):
    marginals, matchings = predictions(rng)
    result = calibration(
        marginals, matchings, n_bins, strategy=strategy, min_probability=least
    )
    predicted, is_matched = pooled(marginals, matchings)
    is_plausible = predicted >= least
    assert result.n_left_out == (~is_plausible).sum()
    predicted, is_matched = predicted[is_plausible], is_matched[is_plausible]
    assert result.confidence == pytest.approx(predicted.mean())
    assert result.accuracy == pytest.approx(is_matched.mean())
    limits = result.bin_edges
    assert len(limits) == len(result.counts) + 1 == n_bins + 1
    error = 0.0
    for k in range(n_bins):
        is_last = k == n_bins - 1
        below = predicted <= limits[k + 1] if is_last else predicted < limits[k + 1]
        inside = (predicted >= limits[k]) & below
        assert result.counts[k] == inside.sum()
        if inside.any():
            assert result.mean_predicted[k] == pytest.approx(predicted[inside].mean())
            assert result.observed[k] == pytest.approx(is_matched[inside].mean())
            gap = abs(predicted[inside].mean() - is_matched[inside].mean())
            error += inside.mean() * gap
    assert result.counts.sum() == len(predicted)
    assert result.expected_calibration_error == pytest.approx(error)


def test_widths_or_masses_are_equal(rng):
    # Not size 2, whose edges have equal probabilities in pairs.
    marginals, matchings = predictions(rng, sizes=(3, 5))
    uniform = calibration(marginals, matchings, 8)
    np.testing.assert_allclose(np.diff(uniform.bin_edges), 1 / 8)
    quantile = calibration(marginals, matchings, 8, strategy="quantile")
    assert quantile.counts.max() - quantile.counts.min() <= 2


def test_matchings_drawn_from_the_model_are_calibrated(rng):
    # 38,000 edges, 10,000 nodes: the share of a bin is off by at most 0.015 or so.
    marginals, matchings = predictions(rng, n_graphs=3000)
    for strategy in STRATEGIES:
        for measure in (calibration, node_calibration):
            result = measure(marginals, matchings, strategy=strategy)
            assert result.expected_calibration_error < 0.025
        result = calibration(marginals, matchings, strategy=strategy)
        np.testing.assert_allclose(result.observed, result.mean_predicted, atol=0.05)


def test_overconfidence_shows(rng):
    marginals, matchings = predictions(rng, n_graphs=300)
    sure = [pm.marginals(5.0 * np.log(table)) for table in marginals]
    honest = calibration(marginals, matchings).expected_calibration_error
    result = calibration(sure, matchings)
    assert result.expected_calibration_error > 3 * honest
    assert result.observed[-1] < result.mean_predicted[-1]
    assert result.observed[0] > result.mean_predicted[0]


def test_certain_and_right():
    matchings = [np.array([1, 0, 2]), np.array([0, 1])]
    tables = [np.eye(len(matching))[matching] for matching in matchings]
    result = calibration(tables, matchings, min_probability=0.0)
    assert result.expected_calibration_error == 0.0
    assert result.counts[[0, -1]].tolist() == [8, 5]
    assert result.observed[[0, -1]].tolist() == [0.0, 1.0]
    assert np.isnan(result.observed[1:-1]).all()
    assert np.isnan(result.mean_predicted[1:-1]).all()


def test_equal_probabilities_share_a_bin():
    third = np.full((3, 3), 1 / 3)
    result = calibration([third] * 4, [np.arange(3)] * 4, strategy="quantile")
    assert result.counts.tolist() == [36]
    assert result.observed[0] == pytest.approx(1 / 3)
    assert result.expected_calibration_error == pytest.approx(0.0, abs=1e-15)


def test_rounding_beyond_the_ends_is_forgiven():
    table = np.array([[1.0 + 1e-13, -1e-13], [-1e-13, 1.0 + 1e-13]])
    result = calibration([table], [[0, 1]], 4, min_probability=0.0)
    assert result.counts.tolist() == [2, 0, 0, 2]
    assert result.expected_calibration_error == 0.0


def test_empty_graphs_add_nothing():
    table = np.array([[0.5, 0.5], [0.5, 0.5]])
    result = calibration([np.empty((0, 0)), table], [[], [1, 0]], 1)
    assert result.counts.tolist() == [4]


def test_improbable_edges_do_not_hide_the_others(rng):
    # A matcher of 30 nodes that says 60 % and is never right.
    table = np.full((30, 30), 0.4 / 29)
    table[np.arange(30), (np.arange(30) + 1) % 30] = 0.6
    truth = [np.arange(30)]
    assert (
        calibration([table], truth, min_probability=0.0).expected_calibration_error < 0.05
    )
    result = calibration([table], truth)
    assert result.expected_calibration_error == pytest.approx(0.6)
    assert (result.counts.sum(), result.n_left_out) == (30, 870)


# ---- by node -----------------------------------------------------------------------------


def by_node(marginals, matchings):
    """Every left node's confidence and whether it is right, one at a time."""
    found = []
    for table, matching in zip(marginals, matchings, strict=True):
        for row, partner in zip(np.asarray(table), matching, strict=True):
            best, alone = int(np.argmax(row)), 1.0 - row.sum()
            guess = -1 if alone > row[best] else best
            if partner != -2:
                found.append((max(row[best], alone), guess == partner))
    return np.array(found).T


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_confidence_is_that_of_the_most_probable_partner(strategy, rng):
    marginals, matchings = predictions(rng)
    matchings[3] = np.full(len(matchings[3]), -2)
    matchings[5] = np.where(np.arange(len(matchings[5])) == 1, -2, matchings[5])
    confidence, is_right = by_node(marginals, matchings)
    result = node_calibration(marginals, matchings, 5, strategy=strategy)
    assert result.counts.sum() == len(confidence)
    assert result.confidence == pytest.approx(confidence.mean())
    assert result.accuracy == pytest.approx(is_right.mean())
    bins = np.digitize(confidence, result.bin_edges[1:-1])
    for k in np.unique(bins):
        assert result.mean_predicted[k] == pytest.approx(confidence[bins == k].mean())
        assert result.observed[k] == pytest.approx(is_right[bins == k].mean())


def test_nodes_may_be_predicted_to_stay_alone(rng):
    graphs, marginals, matchings = [], [], []
    for _ in range(60):
        scores = rng.normal(size=(3, 4))
        d = pm.MatchingDistribution(scores, unmatched_left=0.5, unmatched_right=0.0)
        graphs.append(BipartiteGraph(scores[..., None]))
        marginals.append(d.marginals)
        matchings.append(d.sample(1, rng=rng)[0])
    confidence, is_right = by_node(marginals, matchings)
    result = node_calibration(marginals, matchings)
    assert result.confidence == pytest.approx(confidence.mean())
    assert result.accuracy == pytest.approx(is_right.mean())
    again = node_calibration(marginals, matchings, graphs=graphs)
    np.testing.assert_array_equal(again.counts, result.counts)
    assert again.accuracy == result.accuracy


def test_nodes_on_lists_of_edges_and_what_is_known_of_them():
    graph = BipartiteGraph.from_edges([0, 0, 1, 1, 3], [0, 1, 0, 2, 2], np.zeros((5, 1)))
    chances = [0.7, 0.1, 0.2, 0.3, 0.25]  # node 2 has no edge
    truth = [[0, 2, -1, -1]]
    result = node_calibration([chances], truth, graphs=[graph])
    # Nodes 0, 1 and 3: their partner 0 at 0.7, alone at 0.5 (wrong), alone at 0.75.
    assert result.counts.sum() == 3
    assert result.confidence == pytest.approx((0.7 + 0.5 + 0.75) / 3)
    assert result.accuracy == pytest.approx(2 / 3)
    # Of node 0 it is only known that 1 is not its partner; node 3 has none.
    labels = EdgeLabels([-1, 0, 0, 1, 0])
    partly = node_calibration([chances], [labels], graphs=[graph])
    assert partly.counts.sum() == 2


def test_no_node_of_which_anything_is_known_is_an_error():
    with pytest.raises(InvalidGraphError, match="at least one left node .* got none in 1"):
        node_calibration([HALF], [[-2, -2]])
    with pytest.raises(InvalidGraphError, match="at least one left node .* got none in 0"):
        node_calibration([], [])
    with pytest.raises(InvalidMatchingError, match=r"know the left nodes; .* \(2,\)"):
        node_calibration([HALF[0]], [EdgeLabels([1, 0])])


HALF = np.full((2, 2), 0.5)
BAD = {
    "lengths": (([HALF], []), {}, InvalidMatchingError, "got 1 and 0"),
    "no edges": (([], []), {}, InvalidGraphError, "at least one edge"),
    "no graph": (
        ([HALF[None]], [[0]]),
        {},
        InvalidGraphError,
        r"graph 0 has shape \(1, 2, 2\)",
    ),
    "no such node": (
        ([HALF], [[0, 2]]),
        {},
        InvalidMatchingError,
        "nodes 0 .. 1; .* has 2",
    ),
    "edges": (
        ([HALF[0]], [[0, 1]]),
        {},
        InvalidMatchingError,
        "need EdgeLabels or the graphs; .* Pass graphs=",
    ),
    "shapes": (
        ([HALF], [EdgeLabels([1, 0, 0, 1])]),
        {},
        InvalidMatchingError,
        r"shapes \(4,\) and \(2, 2\)",
    ),
    "scores": (
        ([HALF, 7 * HALF], [[0, 1]] * 2),
        {},
        InvalidGraphError,
        r"edge \(0, 0\) of graph 1 has 3.5. Give probabilities, not scores",
    ),
    "nan": (([HALF * np.nan], [[0, 1]]), {}, InvalidGraphError, "has nan"),
    "no permutation": (
        ([HALF, HALF], [[0, 1], [1, 1]]),
        {},
        InvalidMatchingError,
        "each at most once, .* for graph 1",
    ),
    "bins": (([HALF], [[0, 1]]), {"n_bins": 0}, InvalidOptionError, "n_bins must be"),
    "strategy": (
        ([HALF], [[0, 1]]),
        {"strategy": "even"},
        InvalidOptionError,
        "one of 'uniform', 'quantile'; got 'even'",
    ),
    "least": (
        ([HALF], [[0, 1]]),
        {"min_probability": 1.5},
        InvalidOptionError,
        "min_probability must be a number from 0 to 1; got 1.5. 0 counts all",
    ),
    "not plausible": (
        ([HALF], [[0, 1]]),
        {"min_probability": 0.6},
        InvalidGraphError,
        "of at least 0.6; got none in 1 graphs, and 4 that are less probable",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    arguments, options, error, message = BAD[name]
    with pytest.raises(error, match=message):
        calibration(*arguments, **options)


def test_labels_of_edges_and_nodes_that_are_not_known():
    """On a list of edges as on an array; unknown pairs are left out."""
    chances = np.array([[0.9, 0.1], [0.4, 0.6], [0.2, 0.3]])
    whole = calibration([chances], [[0, -1, 1]], n_bins=2)
    values = np.array([[1, 0], [0, 0], [0, 1]])
    for table, labels in ((chances, values), (chances.ravel(), values.ravel())):
        found = calibration([table], [EdgeLabels(labels)], n_bins=2)
        np.testing.assert_array_equal(found.counts, whole.counts)
        np.testing.assert_array_equal(found.observed, whole.observed)
    part = calibration([chances], [[0, -2, 1]], n_bins=2)
    assert part.counts.sum() == 4
    labels = np.where([[False, False], [True, True], [False, False]], -1, values)
    found = calibration([chances.ravel()], [EdgeLabels(labels.ravel())], n_bins=2)
    np.testing.assert_array_equal(found.counts, part.counts)


def test_labels_with_their_graphs():
    """Whatever form labels and marginals have, the edges are those of the graph."""
    left, right = np.array([1, 0, 0]), np.array([1, 1, 0])
    chances = np.array([0.6, 0.1, 0.9])
    edges = BipartiteGraph.from_edges(left, right, np.zeros((3, 1)))
    table, allowed = np.zeros((2, 2)), np.zeros((2, 2), dtype=bool)
    table[left, right], allowed[left, right] = chances, True
    dense = BipartiteGraph(np.zeros((2, 2, 1)), allowed)
    known = Known(matched={0: 0}, unmatched_left=[1])
    for label in ([0, -1], known):
        for marginals, graph in ((chances, edges), (table, dense)):
            found = calibration([marginals], [label], 2, graphs=[graph])
            assert found.counts.tolist() == [1, 2]
            assert found.observed.tolist() == [0.0, 0.5]
    part = calibration([chances], [Known(apart=[(1, 1)])], 2, graphs=[edges])
    assert part.counts.tolist() == [0, 1]
    with pytest.raises(InvalidMatchingError, match="Pass graphs="):
        calibration([table], [known])
    with pytest.raises(InvalidMatchingError, match="matchings must be a list"):
        calibration([table], known)
    with pytest.raises(InvalidGraphError, match="shaped like the graph"):
        calibration([table], [[0, -1]], graphs=[edges])
    with pytest.raises(InvalidGraphError, match="Label more edges"):
        calibration([chances], [[-2, -2]], graphs=[edges])
