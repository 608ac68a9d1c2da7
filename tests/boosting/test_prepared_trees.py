"""Pipelines of prepared features and trees, in files and in serving systems."""

import json

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import permatch as pm
from tests.boosting.test_serving import SINGLE_TOL
from tests.estimators.stores import as_documents, elasticsearch_features, solr_features
from tests.estimators.test_pipelines import OPTIONS, PREPARATIONS, make_lists, run_onnx

pytest.importorskip("lightgbm")


@pytest.fixture(scope="module", params=PREPARATIONS)
def pipeline(request):
    preparation = pm.FeaturePreparation(**OPTIONS, missing=request.param)
    trees = pm.BoostedRankMatch(qid="query", n_rounds=20, min_data_in_leaf=5)
    return make_pipeline(preparation, trees).fit(*make_lists())


@pytest.fixture
def new():
    return make_lists()[0].sample(60, random_state=1).astype({"size": str})


def test_files(pipeline, new, tmp_path):
    pm.save(pipeline, tmp_path / "model.json")
    again = pm.load(tmp_path / "model.json")
    assert again.predict(new).tobytes() == pipeline.predict(new).tobytes()


def test_onnx(pipeline, new, tmp_path):
    pm.export(pipeline, tmp_path / "model.onnx", to="onnx")
    found = run_onnx(tmp_path / "model.onnx", new)
    np.testing.assert_allclose(found, pipeline.predict(new), atol=SINGLE_TOL)


def exported(pipeline, path, to):
    pm.export(pipeline, path, to=to)
    return json.loads(path.read_text())


def test_solr(pipeline, new, tmp_path):
    model = exported(pipeline, tmp_path / "model", "solr")
    definitions = exported(pipeline, tmp_path / "features", "solr-features")

    def descend(node, features):
        while "value" not in node:
            is_left = features[node["feature"]] <= float(node["threshold"])
            node = node["left" if is_left else "right"]
        return float(node["value"])

    rows = [solr_features(definitions, document) for document in as_documents(new)]
    trees = [tree["root"] for tree in model["params"]["trees"]]
    found = [sum(descend(tree, row) for tree in trees) for row in rows]
    np.testing.assert_allclose(found, pipeline.predict(new), atol=SINGLE_TOL)


@pytest.mark.parametrize("absent", [0.0, np.nan], ids=["zero", "nan"])
def test_elasticsearch(pipeline, new, tmp_path, absent):
    content = exported(pipeline, tmp_path / "model", "elasticsearch")["model"]["model"]
    definitions = exported(pipeline, tmp_path / "features", "elasticsearch-features")

    def descend(node, features):
        while "leaf" not in node:
            value = features[node["split"]]
            way = "yes" if value < node["split_condition"] else "no"
            child = node["missing" if np.isnan(value) else way]
            (node,) = (below for below in node["children"] if below["nodeid"] == child)
        return node["leaf"]

    rows = [
        elasticsearch_features(definitions, document, absent)
        for document in as_documents(new)
    ]
    trees = json.loads(content["definition"])
    found = [sum(descend(tree, row) for tree in trees) for row in rows]
    np.testing.assert_allclose(found, pipeline.predict(new), atol=SINGLE_TOL)
