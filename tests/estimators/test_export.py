"""Rankers in the formats of the systems that serve them."""

import json
import warnings
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import pytest

from permatch.errors import (
    InvalidOptionError,
    MissingDependencyError,
    NotFittedError,
    ServingWarning,
)
from permatch.estimators import DORM, BaseRanker, QueryRidge, RankMatch, RankMatchCV

METHODS = {"onnx": "to_onnx", "solr": "to_solr", "elasticsearch": "to_elasticsearch"}
# Single precision has 24 bits, and a score is a sum of a few products.
SINGLE_TOL = 1e-5


@pytest.fixture(scope="module")
def lists():
    """Twelve queries of ten documents; the second feature matters."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(120, 4))
    y = np.digitize(X[:, 1] + 0.5 * rng.normal(size=120), [0.0, 1.0])
    return X, y, np.repeat(np.arange(12), 10)


@pytest.fixture(scope="module")
def model(lists):
    return RankMatch(alpha=1.0).fit(*lists)


@pytest.fixture
def written(tmp_path):
    """Export a model and read what was written."""

    def write(model, system, **options):
        path = tmp_path / "model"
        getattr(model, METHODS[system])(path, **options)
        assert [file.name for file in tmp_path.iterdir()] == ["model"]
        return path.read_bytes() if system == "onnx" else json.loads(path.read_text())

    return write


def run_onnx(data, X):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    session = runtime.InferenceSession(data, providers=["CPUExecutionProvider"])
    (scores,) = session.run(["scores"], {"X": np.asarray(X, dtype=np.float32)})
    return session, scores


@pytest.mark.parametrize(
    "ranker",
    [RankMatch(alpha=1.0), RankMatchCV(alphas=[10.0, 1.0, 0.1], cv=3), DORM(alpha=0.1)],
    ids=["RankMatch", "RankMatchCV", "DORM"],
)
def test_onnx_runtime_gives_the_scores_of_the_model(lists, ranker, written):
    X, y, qid = lists
    ranker.fit(X, y, qid=qid)
    session, scores = run_onnx(written(ranker, "onnx"), X)
    assert scores.dtype == np.float32
    assert scores.shape == (len(X),)
    np.testing.assert_allclose(scores, ranker.predict(X), atol=SINGLE_TOL)
    assert [value.name for value in session.get_inputs()] == ["X"]
    assert session.get_inputs()[0].shape == ["n", 4]


@pytest.mark.parametrize("n_documents", [0, 1, 1000])
def test_onnx_takes_any_number_of_documents(model, rng, n_documents, written):
    X = rng.normal(size=(n_documents, 4))
    _, scores = run_onnx(written(model, "onnx"), X)
    np.testing.assert_allclose(scores, X @ model.coef_, atol=SINGLE_TOL)


def test_onnx_file_passes_the_checker_and_keeps_the_names(lists, written):
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    X, y, qid = lists
    model = RankMatch().fit(X, y, qid=qid, feature_names=list("abcd"))
    document = onnx.load_model_from_string(written(model, "onnx", name="shop"))
    onnx.checker.check_model(document, full_check=True)
    assert document.graph.name == "shop"
    assert document.producer_name == "permatch"
    (names,) = document.metadata_props
    assert (names.key, json.loads(names.value)) == ("features", list("abcd"))


def test_solr_linear_model(model, written):
    document = written(model, "solr", name="shop", feature_prefix="x")
    assert list(document) == ["class", "name", "features", "params"]
    assert document["class"] == "org.apache.solr.ltr.model.LinearModel"
    assert document["name"] == "shop"
    assert document["features"] == [{"name": f"x{k}"} for k in (1, 2, 3, 4)]
    assert list(document["params"]["weights"].values()) == model.coef_.tolist()
    assert list(document["params"]["weights"]) == ["x1", "x2", "x3", "x4"]


def test_elasticsearch_linear_model(model, written):
    document = written(model, "elasticsearch")
    inner = document["model"]["model"]
    assert document == {"model": {"name": "permatch", "model": inner}}
    assert inner["type"] == "model/linear"
    assert isinstance(inner["definition"], str)
    weights = json.loads(inner["definition"])
    assert weights == dict(zip(["f1", "f2", "f3", "f4"], model.coef_, strict=True))


def test_names_of_the_model_unless_others_are_given(lists, written):
    X, y, qid = lists
    model = RankMatch().fit(X, y, qid=qid, feature_names=list("abcd"))
    assert list(written(model, "solr")["params"]["weights"]) == list("abcd")
    others = ["title", "body", "age", "price"]
    found = written(model, "solr", feature_names=others)
    assert list(found["params"]["weights"]) == others
    with pytest.raises(InvalidOptionError, match="feature_names must be 4 different"):
        written(model, "solr", feature_names=["a", "b"])


@pytest.mark.parametrize("kind", [RankMatch, RankMatchCV, QueryRidge])
def test_a_fit_warns_at_once_of_what_cannot_be_served(lists, kind):
    words = r"scaling='standard' uses all .* this \w+ cannot be exported to ONNX, .* one by"
    with pytest.warns(ServingWarning, match=words) as caught:
        kind(scaling="standard").fit(*lists)
    ours = [own for own in caught if own.category is ServingWarning]
    assert [own.filename for own in ours] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error", ServingWarning)
        kind().fit(*lists)
    with pytest.raises(InvalidOptionError, match="scaling must be None or one of"):
        kind(scaling="log").fit(*lists)


@pytest.mark.parametrize("system", METHODS)
def test_scaling_within_queries_cannot_be_served(lists, system, written):
    assert RankMatch().is_servable
    model = RankMatch(scaling="minmax").fit(*lists)
    assert not model.is_servable
    expected = r"scaling='minmax', which uses .* Fit it with scaling=None .*--scaling none"
    with pytest.raises(InvalidOptionError, match=expected):
        written(model, system)


@dataclass(eq=False, repr=False)
class Longest(BaseRanker):
    """Prefers documents with large features; no system has a form for it."""

    scaling: str | None = None

    def _fit(self, queries):
        self.n_features_in_ = queries.n_features

    def _predict(self, documents):
        return documents.max(axis=1)


@pytest.mark.parametrize(
    ("system", "name"),
    [("onnx", "ONNX"), ("solr", "Solr"), ("elasticsearch", "Elasticsearch")],
)
def test_what_cannot_be_exported_is_refused(lists, system, name, written):
    with pytest.raises(NotFittedError, match="a fitted RankMatch"):
        written(RankMatch(), system)
    message = f"{name} has no form for a Longest; it has one for RankMatch, .*QueryRidgeCV"
    with pytest.raises(InvalidOptionError, match=message):
        written(Longest().fit(*lists), system)


@pytest.mark.parametrize("system", METHODS)
def test_names_and_coefficients_that_no_server_takes(lists, system, written):
    model = RankMatch().fit(*lists)
    with pytest.raises(InvalidOptionError, match="name must be a non-empty string"):
        written(model, system, name=" ")
    model.coef_ = np.array([1e39, 0.0, 0.0, 0.0])
    with pytest.raises(InvalidOptionError, match="must fit single precision"):
        written(model, system)


def test_without_onnx_the_extra_is_named(model, monkeypatch, tmp_path):
    monkeypatch.setattr(
        "permatch._optional.find_spec",
        lambda name: None if name == "onnx" else find_spec(name),
    )
    expected = r"^export to ONNX needs onnx: install the extra 'serving' \(in a clone"
    with pytest.raises(MissingDependencyError, match=expected):
        model.to_onnx(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())
