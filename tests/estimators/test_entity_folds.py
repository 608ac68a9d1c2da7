"""Folds of one graph: no match is cut, and nothing is in both parts."""

import numpy as np
import pytest

import permatch as pm
from permatch.errors import InvalidOptionError
from permatch.estimators.entity_folds import deal_entities, split_by_entity
from permatch.labels import check_known


def one_graph(n_links=40, n_left=60, n_right=50, seed=0):
    """A graph with a feature that tells matches, and its matching."""
    rng = np.random.default_rng(seed)
    matching = np.full(n_left, -1)
    matching[rng.permutation(n_left)[:n_links]] = rng.permutation(n_right)[:n_links]
    is_edge = rng.random((n_left, n_right)) < 0.03
    is_edge[np.nonzero(matching >= 0)[0], matching[matching >= 0]] = True
    left, right = np.nonzero(is_edge)
    features = rng.normal(size=(len(left), 2))
    features[:, 0] += 2.5 * (matching[left] == right)
    return pm.BipartiteGraph.from_edges(left, right, features, n_left, n_right), matching


def test_matches_stay_together_and_folds_are_even():
    matches = np.arange(10), np.arange(10)[::-1].copy()
    of_left, of_right = deal_entities(matches, (25, 17), 3, 0)
    assert (of_left[matches[0]] == of_right[matches[1]]).all()
    assert sorted(np.bincount(of_left[:10])) == [3, 3, 4]
    assert np.ptp(np.bincount(of_left[10:])) <= 1
    assert np.ptp(np.bincount(of_right[10:])) <= 1


def test_nodes_with_several_links_are_one_entity():
    of_left, of_right = deal_entities(
        (np.array([0, 1, 1]), np.array([0, 0, 2])), (2, 3), 2, 0
    )
    assert len({*of_left, of_right[0], of_right[2]}) == 1


def test_the_seed_decides():
    matches = np.arange(30), np.arange(30)
    first, again, other = (deal_entities(matches, (30, 30), 5, s)[0] for s in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


def test_parts_hold_all_but_the_pairs_between_them():
    graph, matching = one_graph()
    (known,) = check_known([graph], [matching])
    parts = split_by_entity(graph, known, 4, 0)
    assert sum(test.n_edges for _, (test, _) in parts) <= graph.n_edges
    assert sum(int(label.is_match.sum()) for _, (_, label) in parts) == 40
    for (train, train_label), (test, test_label) in parts:
        assert train.n_left + test.n_left == graph.n_left
        assert train.n_right + test.n_right == graph.n_right
        assert train_label.is_match.sum() + test_label.is_match.sum() == 40
        # Features tell which edge is which.
        rows = {tuple(row) for part in (train, test) for row in part.edge_features}
        assert len(rows) == train.n_edges + test.n_edges
        assert rows <= {tuple(row) for row in graph.edge_features}
        for part, label in ((train, train_label), (test, test_label)):
            assert part.edge_features[label.is_match, 0].mean() > 1.5


@pytest.mark.filterwarnings("ignore:the chosen alpha")
def test_alpha_is_chosen_on_one_graph():
    graph, matching = one_graph()
    options = {"scoring": "log_likelihood", "engine": "bethe", "tol": 1e-3}
    model = pm.MAPMatchingCV([0.1, 1.0, 10.0, 1000.0], cv=4, **options)
    model.fit([graph], [matching])
    assert model.cv_results_["scores"].shape == (4, 4)
    assert model.alpha_ < 1000.0
    # The last fit is on the whole graph, not on parts of it.
    same = pm.MAPMatching(model.alpha_, engine="bethe", tol=1e-3).fit([graph], [matching])
    np.testing.assert_allclose(model.coef_, same.coef_, rtol=1e-2)


def test_node_features_go_along():
    rng = np.random.default_rng(1)
    graph, matching = one_graph()
    structure = graph.structure
    graph = pm.BipartiteGraph.from_edges(
        structure.left, structure.right, graph.edge_features, 60, 50,
        left_features=np.arange(60.0)[:, None], right_features=rng.normal(size=(50, 2)),
    )  # fmt: skip
    (known,) = check_known([graph], [matching])
    for (train, _), (test, _) in split_by_entity(graph, known, 3, 0):
        found = np.concatenate([train.left_features, test.left_features])
        assert sorted(found[:, 0]) == list(range(60))
        assert train.right_features.shape[1] == 2


def test_too_few_matches_for_the_folds():
    graph, matching = one_graph(n_links=3)
    with pytest.raises(InvalidOptionError, match="number of matches of the only graph, 3"):
        pm.MAPMatchingCV(cv=5).fit([graph], [matching])
