import numpy as np
import pytest

import permatch as pm
from permatch.boosting.splits import find_moves
from permatch.boosting.tree_text import read_trees

pytest.importorskip("lightgbm", reason="grows trees (extra 'boosting')")


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 3))
    y = np.digitize(X[:, 0] * X[:, 1], [0.3, 1.0])
    model = pm.BoostedRankMatch(num_leaves=5, n_rounds=12, learning_rate=0.3)
    return model.fit(X, y, group=[20] * 20), X[:20]


def slow_moves(trees, row):
    """By the definition: a row goes down every tree, a node at a time."""
    moved = {}
    for tree in trees:
        node = 0
        while node >= 0 and len(tree.features):
            k, threshold = int(tree.features[node]), tree.thresholds[node]
            child = tree.left[node] if row[k] <= threshold else tree.right[node]
            value = tree.values[-1 - child] if child < 0 else tree.expected[child]
            moved[k, threshold] = (
                moved.get((k, threshold), 0.0) + value - tree.expected[node]
            )
            node = child
    return moved


def test_moves_are_those_of_the_definition(fitted):
    model, X = fitted
    trees = read_trees(model.trees_.text)
    for row, moves in zip(X, find_moves(trees, X, 10_000), strict=True):
        expected = slow_moves(trees, row)
        found = {(move.feature, move.threshold): move.move for move in moves}
        assert found == pytest.approx({k: v for k, v in expected.items() if v})
        assert all(m.is_above == (row[m.feature] > m.threshold) for m in moves)
        sizes = [abs(move.move) for move in moves]
        assert sizes == sorted(sizes, reverse=True)


def test_moves_add_up_to_the_score(fitted):
    model, X = fitted
    trees = read_trees(model.trees_.text)
    start = sum(t.expected[0] if len(t.features) else t.values[0] for t in trees)
    moves = find_moves(trees, X, 10_000)
    total = np.array([sum(move.move for move in row) for row in moves])
    np.testing.assert_allclose(start + total, model.predict(X), atol=1e-9)


def test_only_the_largest_are_kept(fitted):
    model, X = fitted
    moves = model._moves(X, 3)
    assert [len(row) for row in moves] == [3] * len(X)
    assert moves == [row[:3] for row in model._moves(X, 100)]
