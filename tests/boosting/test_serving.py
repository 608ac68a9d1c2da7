"""Trees in the formats of the systems that serve them."""

import json

import numpy as np
import pytest

import permatch as pm
from permatch.boosting.serving import floor_single
from permatch.boosting.tree_text import Tree, read_trees
from permatch.errors import InvalidOptionError, MissingDependencyError
from tests.boosting.lists import crossed_lists

pytest.importorskip("lightgbm")

# Sums of some dozens of leaves in single precision.
SINGLE_TOL = 1e-5
NAMES = ["a", "b", "c"]


@pytest.fixture(scope="module")
def model():
    X, y, qid = crossed_lists()
    options = {"num_leaves": 15, "n_rounds": 12, "min_data_in_leaf": 2}
    return pm.BoostedRankMatch(**options).fit(X.round(1), y, qid, feature_names=NAMES)


@pytest.fixture(scope="module")
def documents(model):
    """Documents anywhere, and on thresholds and next to them."""
    trees = read_trees(model.trees_.text)
    thresholds = floor_single(np.concatenate([tree.thresholds for tree in trees]))
    features = np.concatenate([tree.features for tree in trees])
    is_usual = np.abs(thresholds) > 1e-30  # LightGBM takes smaller numbers for 0
    thresholds, features = thresholds[is_usual].astype(np.float32), features[is_usual]
    X = np.random.default_rng(0).normal(size=(3 * len(thresholds), 3)).astype(np.float32)
    sides = [thresholds, *(np.nextafter(thresholds, np.float32(s)) for s in (9e9, -9e9))]
    X[np.arange(len(X)), np.tile(features, 3)] = np.concatenate(sides)
    return X


def run_onnx(path, X):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (scores,) = session.run(["scores"], {"X": np.asarray(X, dtype=np.float32)})
    return scores


def test_onnx_runtime_gives_the_scores_of_the_model(model, documents, tmp_path):
    model.to_onnx(tmp_path / "model.onnx")
    scores = run_onnx(tmp_path / "model.onnx", documents)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, model.predict(documents), atol=SINGLE_TOL)
    assert run_onnx(tmp_path / "model.onnx", documents[:0]).shape == (0,)


def test_onnx_agrees_with_the_converter_of_lightgbm(model, documents, tmp_path):
    lightgbm, converter = map(pytest.importorskip, ("lightgbm", "onnxmltools"))
    types = pytest.importorskip("onnxmltools.convert.common.data_types")
    model.to_onnx(tmp_path / "ours.onnx")
    # which knows no objective of our own, and rounds thresholds
    text = model.trees_.text.replace("\nmax_feature", "\nobjective=regression\nmax_feature")
    shape = [("X", types.FloatTensorType([None, 3]))]
    booster = lightgbm.Booster(model_str=text)
    converted = converter.convert_lightgbm(booster, initial_types=shape, target_opset=13)
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    session = runtime.InferenceSession(converted.SerializeToString())
    X = np.random.default_rng(1).normal(size=(500, 3)).astype(np.float32)
    (theirs,) = session.run(None, {"X": X})
    ours = run_onnx(tmp_path / "ours.onnx", X)
    np.testing.assert_allclose(ours, theirs.ravel(), atol=SINGLE_TOL)


def score_in_solr(content, rows):
    """Score documents as Solr does, slack aside."""
    names = [feature["name"] for feature in content["features"]]

    def descend(node, row):
        while "value" not in node:
            place = row[names.index(node["feature"])]
            node = node["left" if place <= np.float32(node["threshold"]) else "right"]
        return np.float32(node["value"])

    trees = content["params"]["trees"]
    return [
        sum(descend(t["root"], row) * float(t["weight"]) for t in trees) for row in rows
    ]


def test_solr(model, documents, tmp_path):
    model.to_solr(tmp_path / "model.json", name="shop")
    content = json.loads((tmp_path / "model.json").read_text())
    assert content["class"] == "org.apache.solr.ltr.model.MultipleAdditiveTreesModel"
    assert content["name"] == "shop"
    assert [feature["name"] for feature in content["features"]] == NAMES
    found = score_in_solr(content, documents[::7])
    np.testing.assert_allclose(found, model.predict(documents[::7]), atol=SINGLE_TOL)


def score_in_elasticsearch(definition, rows):
    """Score documents as the plugin does, which checks these fields."""

    def descend(node, row, depth=0):
        if "leaf" in node:
            return np.float32(node["leaf"])
        first, second = node["children"]
        assert (node["yes"], node["no"]) == (first["nodeid"], second["nodeid"])
        assert node["depth"] == depth
        is_below = np.float32(node["split_condition"]) > row[NAMES.index(node["split"])]
        return descend(first if is_below else second, row, depth + 1)

    return [sum(descend(root, row) for root in definition) for row in rows]


def test_elasticsearch(model, documents, tmp_path):
    model.to_elasticsearch(tmp_path / "model.json")
    content = json.loads((tmp_path / "model.json").read_text())["model"]["model"]
    assert content["type"] == "model/xgboost+json"
    found = score_in_elasticsearch(json.loads(content["definition"]), documents[::7])
    np.testing.assert_allclose(found, model.predict(documents[::7]), atol=SINGLE_TOL)


def test_a_constant_is_a_leaf(tmp_path):
    X, y, qid = crossed_lists(n_queries=2, length=4)
    model = pm.BoostedRankMatch(n_rounds=3).fit(X, y, qid)  # too few for two leaves
    assert model.trees_.sizes == (3, 1)
    for method in ("to_onnx", "to_solr", "to_elasticsearch"):
        getattr(model, method)(tmp_path / method)
    assert (run_onnx(tmp_path / "to_onnx", X) == 0.0).all()
    content = json.loads((tmp_path / "to_solr").read_text())
    assert content["params"]["trees"] == [{"weight": "1", "root": {"value": "0.0"}}]


def test_floors_of_single_precision():
    values = np.array([0.1, -0.1, 0.5, 1e300, -1e300, 16777217.0])
    found = floor_single(values)
    single = found.astype(np.float32)
    assert (single[[0, 1, 2, 5]] == found[[0, 1, 2, 5]]).all()
    assert (found <= values).all()
    assert (np.nextafter(single[:3], np.float32(9)) > values[:3]).all()
    assert found[2] == 0.5
    assert found[3] == np.finfo(np.float32).max


def test_models_of_scaled_queries_are_refused(tmp_path):
    X, y, qid = crossed_lists()
    model = pm.BoostedRankMatch(n_rounds=1, scaling="minmax").fit(X, y, qid)
    with pytest.raises(InvalidOptionError, match="fitted with scaling='minmax'"):
        model.to_onnx(tmp_path / "model.onnx")


def test_what_does_not_fit_is_refused(model, tmp_path, monkeypatch):
    def put(*trees):
        monkeypatch.setattr(
            "permatch.boosting.boosted_rank_match.read_trees", lambda text: list(trees)
        )

    zeros = np.zeros(0, dtype=np.int64)
    put(Tree(zeros, zeros * 1.0, zeros * 1.0, zeros, zeros, np.array([1e39]), zeros * 1.0))
    for method in ("to_onnx", "to_solr", "to_elasticsearch"):
        with pytest.raises(InvalidOptionError, match="leaves of trees to export must fit"):
            getattr(model, method)(tmp_path / "model")
    n = 300
    chain = np.append(np.arange(1, n), -n - 1)
    deep = Tree(
        np.zeros(n, int),
        np.zeros(n),
        np.zeros(n),
        -1 - np.arange(n),
        chain,
        np.zeros(n + 1),
        np.zeros(n),
    )
    put(deep)
    for method in ("to_solr", "to_elasticsearch"):
        with pytest.raises(InvalidOptionError, match="200 splits deep; got one of 299"):
            getattr(model, method)(tmp_path / "model")
    model.to_onnx(tmp_path / "model")


def test_without_onnx(model, tmp_path, monkeypatch):
    monkeypatch.setattr("permatch._optional.find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match="needs onnx: install the extra"):
        model.to_onnx(tmp_path / "model.onnx")
