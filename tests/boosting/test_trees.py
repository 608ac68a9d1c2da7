"""Boosted trees: grown by any loss, kept as text, and refused if the text is damaged."""

import json
import pickle
import re

import numpy as np
import pytest
from scipy import sparse

from permatch.boosting import Trees
from permatch.boosting.options import check_monotone, check_tree_options
from permatch.boosting.tree_text import check_trees
from permatch.boosting.trees import Growth, grow_together
from permatch.errors import InvalidOptionError

pytest.importorskip("lightgbm")


class Squares:
    """Half the mean squared error."""

    def __init__(self, y):
        self.y = y

    def derivatives(self, scores):
        away = scores - self.y
        return float(np.mean(away**2)) / 2, away, np.ones(len(away))


OPTIONS = {"num_leaves": 6, "learning_rate": 0.3, "seed": 0, "num_threads": 1}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    return X, X[:, 0] * (X[:, 1] > 0) + 0.1 * rng.normal(size=400)


@pytest.fixture(scope="module")
def trees(data):
    X, y = data
    growth = Growth(X, Squares(y), OPTIONS)
    grow_together([growth], None, 5, 1)
    return growth.trees()


def test_a_tree_of_two_leaves_is_the_best_split(data):
    X, y = data
    options = OPTIONS | {"num_leaves": 2, "learning_rate": 1.0, "max_bin": 1000}
    options |= {"min_data_in_bin": 1, "min_data_in_leaf": 1}
    growth = Growth(X, Squares(y), options)
    grow_together([growth], None, 1, 1)
    values = growth.trees().predict(X)
    best = min(
        np.sum((y - np.where(side, y[side].mean(), y[~side].mean())) ** 2)
        for column in X.T
        for side in (column <= t for t in np.sort(column)[:-1])
    )
    np.testing.assert_allclose(np.sum((y - values) ** 2), best, rtol=1e-6)


def test_contributions_add_up_to_the_scores(trees, data):
    X, _ = data
    parts = trees.contributions(X)
    assert parts.shape == (400, 5)
    np.testing.assert_allclose(parts.sum(axis=1), trees.predict(X), atol=1e-12)
    np.testing.assert_allclose(trees.contributions(sparse.csr_array(X)), parts)


def test_gains_are_those_that_lightgbm_counts(trees):
    gains, counts = trees.gains()
    kinds = {kind: trees.booster.feature_importance(kind) for kind in ("gain", "split")}
    np.testing.assert_allclose(gains, kinds["gain"], rtol=1e-4)
    np.testing.assert_array_equal(counts, kinds["split"])


def test_sparse_rows_are_the_same_rows(trees, data):
    X, y = data
    X = np.where(np.abs(X) < 0.7, 0.0, X)
    growths = [
        Growth(form(X), Squares(y), OPTIONS) for form in (np.array, sparse.csr_array)
    ]
    for growth in growths:
        grow_together([growth], None, 4, 1)
    dense, thin = (growth.trees() for growth in growths)
    np.testing.assert_allclose(thin.predict(sparse.csr_array(X)), dense.predict(X))


def test_trees_do_not_depend_on_the_number_of_threads(data):
    X, y = data
    texts = set()
    for n in (1, 2, 3):
        options = OPTIONS | {"num_threads": n, "feature_fraction": 0.5, "bagging_freq": 1}
        growth = Growth(X, Squares(y), options | {"bagging_fraction": 0.5})
        grow_together([growth], None, 4, 1)
        texts.add(growth.trees().text)
    assert len(texts) == 1


def test_held_out_data_end_the_growth_and_choose_its_rounds(data):
    X, y = data
    noise = np.random.default_rng(1).normal(size=len(y))
    growth = Growth(X[:100], Squares(noise[:100] + y[:100]), OPTIONS, X[100:])

    def judge(scores):
        return -float(np.mean((scores - y[100:]) ** 2))

    grown = grow_together([growth], [judge], 200, 7)
    assert grown.is_early
    assert len(grown.history) == grown.best_round + 7
    scores = [row["score"] for row in grown.history]
    assert grown.best_score == max(scores) == scores[grown.best_round - 1]
    kept = growth.trees(grown.best_round)
    assert kept.sizes == (4, grown.best_round)
    assert judge(kept.predict(X[100:])) == pytest.approx(grown.best_score)


def test_growths_go_on_together(data):
    X, y = data
    halves = [slice(0, 200), slice(200, 400)]
    growths = [Growth(X[h], Squares(y[h]), OPTIONS, X[h]) for h in halves]
    judges = [lambda s, h=h: -float(np.mean((s - y[h]) ** 2)) for h in halves]
    seen = []
    grown = grow_together(growths, judges, 6, 10, seen.append)
    assert seen == [1, 2, 3, 4, 5, 6]
    np.testing.assert_allclose(
        np.mean(grown.scores, axis=1), [row["score"] for row in grown.history]
    )
    assert [growth.n_rounds for growth in growths] == [6, 6]


def test_nothing_to_split_ends_the_growth(data):
    X, _ = data
    growth = Growth(X, Squares(np.zeros(400)), OPTIONS)
    grown = grow_together([growth], None, 50, 1)
    assert len(grown.history) == grown.best_round == 1
    assert (growth.trees().predict(X) == 0.0).all()


def test_constant_features_make_a_constant(data):
    _, y = data
    growth = Growth(np.ones((400, 2)), Squares(y), OPTIONS)
    grow_together([growth], None, 3, 1)
    assert growth.trees().sizes == (2, 1)
    with pytest.raises(InvalidOptionError, match="not 0 throughout; all 2 are"):
        Growth(np.zeros((400, 2)), Squares(y), OPTIONS)


def test_ctrl_c_keeps_the_rounds_so_far(data):
    X, y = data

    class Interrupted(Squares):
        n_left = 4

        def derivatives(self, scores):
            self.n_left -= 1
            if self.n_left < 0:
                raise KeyboardInterrupt
            return super().derivatives(scores)

    growth = Growth(X, Interrupted(y), OPTIONS)
    grown = grow_together([growth], None, 50, 1)
    assert grown.is_interrupted
    assert grown.best_round == growth.trees(grown.best_round).sizes[1] == 4
    stopped = Interrupted(y)
    stopped.n_left = 0
    with pytest.raises(KeyboardInterrupt):
        grow_together([Growth(X, stopped, OPTIONS)], None, 50, 1)


def test_what_lightgbm_refuses_is_told(data):
    X, y = data
    with pytest.raises(InvalidOptionError, match=r"LightGBM must accept .*max_bin"):
        Growth(X, Squares(y), OPTIONS | {"max_bin": -1})


# ---- options -----------------------------------------------------------------------------


def test_monotone_constraints_by_name():
    assert check_monotone({"b": -1}, 3, ["a", "b", "c"]) == [0, -1, 0]
    assert check_monotone([1, 0, np.int64(-1)], 3, None) == [1, 0, -1]
    assert check_monotone(None, 3, None) is None


@pytest.mark.parametrize(
    ("constraints", "names", "message"),
    [
        ([1, 0], None, r"-1, 0 or 1 for each of the 3 features.*got \[1, 0\]"),
        ([1, 0, 2], None, r"got \[1, 0, 2\]"),
        (7, None, "got 7"),
        ({"d": 1}, ["a", "b", "c"], r"got the name 'd', and the features have a, b, c\."),
        ({"d": 1}, None, r"the features have no names\. Pass a DataFrame"),
    ],
)
def test_wrong_monotone_constraints(constraints, names, message):
    with pytest.raises(InvalidOptionError, match=message):
        check_monotone(constraints, 3, names)


def test_further_options():
    assert check_tree_options({"max_bin": 63}) == {"max_bin": 63}
    assert check_tree_options(None) == {}
    with pytest.raises(InvalidOptionError, match=r"must be some of .*; got 'objective'\."):
        check_tree_options({"objective": "binary"})
    with pytest.raises(InvalidOptionError, match=r"must be a dict .*; got list\."):
        check_tree_options(["max_bin"])


# ---- the text ----------------------------------------------------------------------------


def test_trees_survive_pickle_and_json(trees, data):
    X, _ = data
    scores = trees.predict(X)
    for again in (
        pickle.loads(pickle.dumps(trees)),
        Trees.from_json(json.loads(json.dumps(trees.to_json()))),
    ):
        assert again == trees
        np.testing.assert_array_equal(again.predict(X), scores)
    assert repr(trees) == "Trees(n_trees=5, n_features=4)"


def test_no_options_and_no_paths_are_kept(trees):
    assert trees.text.endswith("end of trees\n")
    assert "parameters" not in trees.text


def wrong(name, value, k=0):
    """Return a change of the values of a name in tree k, its size corrected."""

    def change(text):
        starts = [found.start() for found in re.finditer("Tree=", text)]
        ends = [*starts[1:], text.index("end of trees")]
        blocks = [text[a:b] for a, b in zip(starts, ends, strict=True)]
        found = re.search(rf"^{name}=(.*)$", blocks[k], re.M)
        new = value(found[1]) if callable(value) else value
        blocks[k] = blocks[k][: found.start(1)] + new + blocks[k][found.end(1) :]
        sizes = " ".join(str(len(block)) for block in blocks)
        head = re.sub("tree_sizes=.*", f"tree_sizes={sizes}", text[: starts[0]])
        return head + "".join(blocks) + "end of trees\n"

    return change


DAMAGES = {
    "nothing": (lambda text: "", "begins with 'tree'"),
    "not text": (lambda text: 3, "must be a text of LightGBM"),
    "not ASCII": (lambda text: text.replace("=", "＝"), "must be a text of LightGBM"),
    "foreign": (lambda text: "<xml>\n\n</xml>", "begins with 'tree'"),
    "truncated": (lambda text: text[:-200], "numbers|where tree_sizes|the sizes in"),
    "half": (lambda text: text[: len(text) // 2], "must"),
    "longer": (lambda text: text + "parameters:\n", "the sizes in tree_sizes"),
    "version": (lambda text: text.replace("=v4", "=v9"), "version .* must be v4, got 'v9'"),
    "classes": (lambda text: text.replace("num_class=1", "num_class=3"), "num_class"),
    "averaged": (
        lambda text: text.replace("\nmax_f", "\naverage_output\nmax_f"),
        "every line .* be name=value",
    ),
    "sizes": (lambda text: re.sub("tree_sizes=.*", "tree_sizes=-4", text), "whole numbers"),
    "one size": (lambda text: re.sub("tree_sizes=.*", "tree_sizes=9", text), "tree 0 must"),
    "features": (lambda text: re.sub("idx=3", "idx=30", text), "must name 31 features"),
    "twice": (
        wrong("num_cat", "0\nnum_cat=0"),
        "must be there once",
    ),
    "broken": (wrong("split_gain", lambda v: v + "\n9"), "every line .* be name=value"),
    "strange": (wrong("shrinkage", "0x1p-3"), "shrinkage of the trees must be numbers"),
    "empty line": (wrong("num_cat", "0\n"), "every line .* be name=value"),
    "more": (wrong("num_cat", "0=1"), "every line .* be name=value"),
    "categories": (wrong("num_cat", "1"), "num_cat of tree 0 must be 0, got '1'"),
    "linear": (wrong("is_linear", "1", 2), "is_linear of tree 2 must be 0"),
    "no leaves": (wrong("num_leaves", "0"), "tree 0 must have a leaf"),
    "more leaves": (wrong("num_leaves", "7"), "must be 6 finite numbers"),
    "half a leaf": (wrong("num_leaves", "5.5"), "num_leaves of the trees must be whole"),
    "text": (wrong("threshold", "a b c d e"), "threshold of the trees must be numbers"),
    "infinite": (wrong("leaf_value", "1 2 inf 3 4 5"), "must be numbers"),
    "too large": (wrong("leaf_value", "1 2 1e+999 3 4 5"), "6 finite numbers"),
    "beyond": (wrong("split_feature", "0 1 2 3 4"), "split by one of 4 features"),
    "below": (wrong("split_feature", "0 1 2 3 -1"), "split by one of 4 features"),
    "kinds": (wrong("decision_type", "1 2 2 2 2"), "comparisons of numbers"),
    "loop": (wrong("left_child", lambda v: v.replace("1", "0", 1)), "form a tree"),
    "far": (wrong("right_child", lambda v: f"99 {v.partition(' ')[2]}"), "form a tree"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_texts_are_refused(name, trees):
    damage, message = DAMAGES[name]
    with pytest.raises(ValueError, match=message):
        check_trees(damage(trees.text))


def test_a_change_that_is_none_is_accepted(trees):
    assert check_trees(wrong("is_linear", "0")(trees.text)) == (4, 5)
