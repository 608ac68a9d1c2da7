"""Pipelines that prepare features: in one file, and in the systems that serve them."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import permatch as pm
from permatch.errors import InvalidOptionError, ModelFileError, NotFittedError
from tests.estimators.stores import as_documents, elasticsearch_features, solr_features
from tests.estimators.test_persistence import same_attributes

# Single precision has 24 bits, and a score is a sum of a few products.
SINGLE_TOL = 2e-5
OPTIONS = {"log1p": ["clicks", "age"], "categories": ["brand", "size"]}
PREPARATIONS = ["indicator", "median", "zero"]


def make_lists(n_queries=30):
    """Return documents with counts, gaps and brands that matter, and their grades."""
    rng = np.random.default_rng(7)
    n = 8 * n_queries
    clicks, age = np.floor(rng.lognormal(2.0, 2.0, (2, n)))
    rating = rng.normal(3.0, 1.0, n)
    brand = rng.choice(["acme", "b & c", "none of it"], n)
    merit = np.log1p(clicks) + rating + (brand == "acme") + 0.5 * rng.normal(size=n)
    rating[rng.random(n) < 0.3] = np.nan
    age[rng.random(n) < 0.2] = np.nan
    table = pd.DataFrame(
        {
            "query": np.repeat(np.arange(n_queries), 8),
            "clicks": clicks,
            "rating": rating,
            "brand": np.where(rng.random(n) < 0.1, None, brand),
            "title": rng.normal(size=n),
            "age": age,
            "size": rng.integers(0, 4, n),
        }
    )
    return table, np.digitize(merit, [5.0, 7.0])


@pytest.fixture(scope="module")
def lists():
    return make_lists()


@pytest.fixture(scope="module", params=PREPARATIONS)
def pipeline(lists, request):
    preparation = pm.FeaturePreparation(**OPTIONS, missing=request.param)
    return make_pipeline(preparation, pm.RankMatch(qid="query")).fit(*lists)


@pytest.fixture
def written(tmp_path):
    """Export a pipeline and read what was written."""

    def write(model, to, **options):
        path = tmp_path / "model"
        pm.export(model, path, to=to, **options)
        assert [file.name for file in tmp_path.iterdir()] == ["model"]
        return path.read_bytes() if to == "onnx" else json.loads(path.read_text())

    return write


@pytest.fixture
def new(lists):
    """Documents with gaps and categories that training has not seen."""
    table, _ = lists
    new = table.sample(100, random_state=0, replace=True).reset_index(drop=True)
    new.loc[0:1, "brand"] = ["unheard of", None]
    new.loc[2:3, ["clicks", "rating", "age"]] = [[1e6, np.nan, np.nan], [0.0, -1e3, 7e3]]
    new.loc[4, "size"] = 77
    return new


# ---- files -----------------------------------------------------------------------------


def test_everything_survives(lists, pipeline, tmp_path, new):
    pm.save(pipeline, tmp_path / "model.json")
    again = pm.load(tmp_path / "model.json")
    assert isinstance(again, Pipeline)
    assert [name for name, _ in again.steps] == ["featurepreparation", "rankmatch"]
    same_attributes(pipeline[0], again[0])
    same_attributes(pipeline[1], again[1])
    assert again.predict(new).tobytes() == pipeline.predict(new).tobytes()
    assert again.score(*lists) == pipeline.score(*lists)
    assert again.fit(*lists)[-1].is_converged_


def test_the_file_is_plain_json(pipeline, tmp_path):
    pm.save(pipeline, tmp_path / "model.json")
    text = (tmp_path / "model.json").read_text(encoding="utf-8")
    document = json.loads(text, parse_constant=pytest.fail)
    assert list(document) == ["format", "schema", "version", "class", "steps"]
    assert document["class"] == "Pipeline"
    assert document["steps"][0]["class"] == "FeaturePreparation"
    assert document["steps"][1]["class"] == "RankMatch"


def test_a_preparation_alone_and_what_a_search_found(lists, tmp_path, new):
    table, grade = lists
    path = tmp_path / "model.json"
    for options in (OPTIONS | {"missing": "indicator"}, {"missing": "zero"}):
        preparation = pm.FeaturePreparation(**options).fit(table)
        preparation.save(path)
        same_attributes(preparation, pm.load(path))
        pd.testing.assert_frame_equal(
            pm.load(path).transform(new), preparation.transform(new)
        )
    arrays = pm.FeaturePreparation(log1p=[0]).fit(np.ones((3, 2)))
    arrays.save(path)
    assert pm.load(path).transform(np.ones((1, 2))).tolist() == [[np.log1p(1.0), 1.0]]
    pipeline = Pipeline([("ready", preparation), ("rank", pm.QueryRidge(qid="query"))])
    grid = {"ready__missing": ["zero", "median"]}
    search = GridSearchCV(pipeline, grid, cv=GroupKFold(3))
    search.fit(table, grade, groups=table["query"])
    pm.save(search.best_estimator_, path)
    np.testing.assert_array_equal(pm.load(path).predict(new), search.predict(new))


def test_what_cannot_be_saved(lists, pipeline, tmp_path):
    table, grade = lists
    path = tmp_path / "model.json"
    scaled = make_pipeline(StandardScaler(), pm.RankMatch())
    message = "two steps, a FeaturePreparation and a ranker; got StandardScaler, RankMatch"
    with pytest.raises(ModelFileError, match=message):
        pm.save(scaled, path)
    for steps in ([pipeline[0]], [pipeline[0], pm.MAPMatching()], [pipeline[1]]):
        with pytest.raises(ModelFileError, match="must have two steps"):
            pm.save(make_pipeline(*steps), path)
    with pytest.raises(NotFittedError, match="a fitted FeaturePreparation is required"):
        pm.save(make_pipeline(pm.FeaturePreparation(), pm.RankMatch()), path)
    with pytest.raises(ModelFileError, match="MAPMatching, .*got .*StandardScaler"):
        pm.save(StandardScaler(), path)
    with pytest.raises(NotFittedError, match="a fitted RankMatch is required"):
        pm.save(pm.RankMatch(), path)
    assert not list(tmp_path.iterdir())


def test_every_truncation_is_refused(pipeline, tmp_path):
    path = tmp_path / "model.json"
    pm.save(pipeline, path)
    data = path.read_bytes()
    for length in {*range(0, 300, 17), *range(300, len(data) - 2, 211), len(data) - 2}:
        path.write_bytes(data[:length])
        with pytest.raises(ModelFileError, match="model.json is "):
            pm.load(path)


def changed(document, *keys, value):
    """Return a copy of a document with another value somewhere."""
    copy = json.loads(json.dumps(document))
    place = copy
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    return copy


PLAN = ("steps", 0, "fitted", "plan_")
CHANGES = {
    "no steps": (("steps",), None, "steps must be a list of objects"),
    "step": (("steps", 0), 3, "steps must be a list of objects"),
    "one step": (("steps",), [], "must have two steps"),
    "name": (("steps", 0, "name"), 3, "steps must have different names"),
    "same name": (("steps", 0, "name"), "rankmatch", "steps must have different names"),
    "class": (("steps", 0, "class"), "os.system", "class 'os.system', unknown to"),
    "order": (("steps", 0, "class"), "RankMatch", "coef must be a list"),
    "pipeline": (("steps", 0, "class"), "Pipeline", "class 'Pipeline', unknown to"),
    "option": (("steps", 0, "params"), {"depth": 3}, "has no parameter 'depth'"),
    "plan": (PLAN, 3, "value of plan_ cannot be read .*must be a list"),
    "no plan": (("steps", 0, "fitted"), {}, "is damaged: .*plan_"),
    "fewer": (PLAN, [], "plan_ must have a column for every feature"),
    "column": ((*PLAN, 0), {"dict": {"name": "query"}}, "value of plan_ cannot be read"),
    "not a column": ((*PLAN, 0), [1], "value of plan_ cannot be read"),
    "kind": ((*PLAN, 0, "dict", "kind"), "code", "is not a column"),
    "type": ((*PLAN, 0, "dict", "is_log"), 1, "is not a column"),
    "category": ((*PLAN, 3, "dict", "categories"), {"tuple": [1]}, "is not a column"),
    "fill": ((*PLAN, 1, "dict", "fill"), {"float": "inf"}, "must be finite"),
    "renamed": ((*PLAN, 1, "dict", "name"), "klicks", "plan_ must have a column for"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changed_files(name, lists, tmp_path):
    keys, value, message = CHANGES[name]
    path = tmp_path / "model.json"
    preparation = pm.FeaturePreparation(**OPTIONS, missing="median")
    pm.save(make_pipeline(preparation, pm.RankMatch(qid="query")).fit(*lists), path)
    path.write_text(json.dumps(changed(json.loads(path.read_text()), *keys, value=value)))
    with pytest.raises(ModelFileError, match=message):
        pm.load(path)


# ---- ONNX ------------------------------------------------------------------------------


def run_onnx(data, table):
    """Return the scores of a table, with columns by the names in the file."""
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    session = runtime.InferenceSession(data, providers=["CPUExecutionProvider"])
    names = session.get_modelmeta().custom_metadata_map
    given = {}
    if features := json.loads(names["features"]):
        given["X"] = table[features].to_numpy(dtype=np.float32)
    if "categories" in names:
        columns = json.loads(names["categories"])
        words = table[columns].astype(object)
        given["categories"] = words.where(words.notna(), "").astype(str).to_numpy(object)
    (scores,) = session.run(["scores"], given)
    assert [value.name for value in session.get_inputs()] == list(given)
    return scores


def test_onnx_takes_the_raw_columns(pipeline, new, written):
    data = written(pipeline, "onnx", name="shop")
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    onnx.checker.check_model(onnx.load_model_from_string(data), full_check=True)
    expected = pipeline.predict(new)
    found = run_onnx(data, new)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=SINGLE_TOL)
    for n in (0, 1):
        assert run_onnx(data, new[:n]).shape == (n,)


@pytest.mark.parametrize("columns", [["clicks", "title"], ["brand"], ["title"], ["rating"]])
def test_onnx_of_a_few_columns(lists, new, columns, written):
    table, grade = lists
    options = {name: [c for c in OPTIONS[name] if c in columns] for name in OPTIONS}
    preparation = pm.FeaturePreparation(**options, missing="indicator")
    pipeline = make_pipeline(preparation, pm.RankMatch(qid="query"))
    pipeline.fit(table[["query", *columns]], grade)
    found = run_onnx(written(pipeline, "onnx"), new)
    expected = pipeline.predict(new)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=SINGLE_TOL)


def test_onnx_of_columns_that_are_kept(lists, new, written):
    table, grade = lists
    preparation = pm.FeaturePreparation(keep=["query", "title"], log1p="clicks")
    pipeline = make_pipeline(preparation, pm.RankMatch(qid="query"))
    pipeline.fit(table[["query", "title", "clicks"]], grade)
    assert pipeline[-1].columns_ == ["title", "clicks_log1p"]
    found = run_onnx(written(pipeline, "onnx"), new)
    expected = pipeline.predict(new)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=SINGLE_TOL)
    assert list(written(pipeline, "solr")["params"]["weights"]) == ["title", "clicks_log1p"]


def test_onnx_of_arrays_and_values_that_are_refused_here(lists, written):
    table, grade = lists
    X = table[["clicks", "rating", "title"]].to_numpy()
    qid = table["query"].to_numpy()
    pipeline = make_pipeline(
        pm.FeaturePreparation(log1p=[0], missing="indicator"), pm.RankMatch()
    ).fit(X, grade, rankmatch__qid=qid)
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    data = written(pipeline, "onnx")
    session = runtime.InferenceSession(data, providers=["CPUExecutionProvider"])
    (found,) = session.run(["scores"], {"X": X.astype(np.float32)})
    expected = pipeline.predict(X)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=SINGLE_TOL)
    (found,) = session.run(["scores"], {"X": np.float32([[-0.5, 1.0, 1.0]])})
    assert np.isnan(found).all()  # there is no error that a graph could raise
    whole = make_pipeline(pm.FeaturePreparation(), pm.RankMatch())
    whole.fit(X[:, [0, 2]], grade, rankmatch__qid=qid)
    session = runtime.InferenceSession(written(whole, "onnx"))
    (found,) = session.run(["scores"], {"X": np.float32([[1.0, np.nan], [1.0, 1.0]])})
    assert np.isnan(found).tolist() == [True, False]


# ---- feature stores --------------------------------------------------------------------


def test_solr_gives_the_scores_of_the_pipeline(pipeline, new, written):
    new["size"] = new["size"].astype(str)
    model = written(pipeline, "solr", name="shop")
    definitions = written(pipeline, "solr-features")
    weights = model["params"]["weights"]
    assert model["name"] == "shop"
    assert [feature["name"] for feature in model["features"]] == list(weights)
    found = [
        sum(weights[name] * features[name] for name in weights)
        for features in (solr_features(definitions, doc) for doc in as_documents(new))
    ]
    np.testing.assert_allclose(found, pipeline.predict(new), rtol=1e-9, atol=1e-9)


def test_elasticsearch_gives_the_scores_of_the_pipeline(pipeline, new, written):
    new["size"] = new["size"].astype(str)
    content = written(pipeline, "elasticsearch")["model"]["model"]
    assert content["type"] == "model/linear"
    weights = json.loads(content["definition"])
    definitions = written(pipeline, "elasticsearch-features")
    found = []
    for document in as_documents(new):
        features = elasticsearch_features(definitions, document)
        found.append(sum(weights[name] * features[name] for name in weights))
    np.testing.assert_allclose(found, pipeline.predict(new), rtol=1e-9, atol=1e-9)


def test_what_is_defined(lists, written):
    table, grade = lists
    preparation = pm.FeaturePreparation(**OPTIONS, missing="indicator")
    pipeline = make_pipeline(preparation, pm.RankMatch(qid="query")).fit(table, grade)
    fill = preparation.fill_
    found = {item["name"]: item["params"] for item in written(pipeline, "solr-features")}
    assert "title" not in found
    assert found["clicks_log1p"] == {"q": "{!func}ln(sum(1,clicks))"}
    assert found["rating_missing"] == {"q": "{!func}if(exists(rating),0,1)"}
    rating = f"{{!func}}if(exists(rating),rating,{fill['rating']!r})"
    assert found["rating_filled"] == {"q": rating}
    age = f"{{!func}}if(exists(age),ln(sum(1,age)),{fill['age']!r})"
    assert found["age_log1p"] == {"q": age}
    assert found["brand=b & c"] == {"fq": ["{!term f=brand}b & c"]}
    features = written(pipeline, "elasticsearch-features")["features"]
    found = {item["name"]: item for item in features}
    assert found["clicks_log1p"] == {
        "name": "clicks_log1p",
        "params": [],
        "template_language": "derived_expression",
        "template": "ln(1 + clicks)",
    }
    age = f"age_missing == 1 ? {fill['age']!r} : ln(1 + age)"
    assert found["age_log1p"]["template"] == age
    query = found["brand=b & c"]["template"]["constant_score"]["filter"]
    assert query == {"term": {"brand": "b & c"}}
    # What a feature is made of comes before it.
    order = list(found)
    assert order.index("age_missing") < order.index("age_log1p")
    # A pipeline that changes nothing needs no definitions.
    plain = make_pipeline(pm.FeaturePreparation(), pm.RankMatch(qid="query"))
    plain.fit(table[["query", "clicks", "title"]], grade)
    assert written(plain, "elasticsearch-features") == {"features": []}
    assert list(written(plain, "solr")["params"]["weights"]) == ["clicks", "title"]


def test_what_cannot_be_defined(lists, written):
    table, grade = lists

    def fitted(table, **options):
        ranker = pm.RankMatch(qid="query")
        return make_pipeline(pm.FeaturePreparation(**options), ranker).fit(table, grade)

    named = fitted(table[["query", "clicks"]].rename(columns={"clicks": "n clicks"}),
                   log1p="n clicks")  # fmt: skip
    for to, system in (("solr", "Solr"), ("elasticsearch-features", "Elasticsearch")):
        message = f"{system} computes 'n clicks_log1p' from the field 'n clicks', whose"
        with pytest.raises(InvalidOptionError, match=message):
            written(named, to)
    braces = table.assign(brand="{{a}}")[["query", "title", "brand"]]
    with pytest.raises(InvalidOptionError, match="start of a parameter; 'brand={{a}}' has"):
        written(fitted(braces, categories="brand"), "elasticsearch")
    filled = table[["query", "rating"]].assign(rating_filled=1.0, x=table["title"])
    with pytest.raises(InvalidOptionError, match="two features called 'rating_filled'"):
        written(fitted(filled, missing="median"), "solr")
    X = table[["clicks", "title"]].to_numpy()
    arrays = make_pipeline(pm.FeaturePreparation(log1p=0), pm.RankMatch())
    arrays.fit(X, grade, rankmatch__qid=table["query"])
    with pytest.raises(InvalidOptionError, match="fitted on an array.*Fit it on a data f"):
        written(arrays, "elasticsearch")


def test_what_cannot_be_exported(lists, pipeline, tmp_path):
    table, grade = lists
    path = tmp_path / "model"
    scaled = pm.RankMatch(qid="query", scaling="minmax")
    whole = make_pipeline(pm.FeaturePreparation(), scaled)
    whole.fit(table[["query", "title"]], grade)
    model = pm.RankMatch(qid="query").fit(table[["query", "title"]], grade)
    strange = make_pipeline(pm.FeaturePreparation().fit(table[["clicks"]]), model)
    cases = [
        (whole, "onnx", InvalidOptionError, "scaling='minmax', which uses all documents"),
        (model, "solr-features", InvalidOptionError, "only a pipeline with a FeaturePr"),
        (pipeline, "lucene", InvalidOptionError, "to must be .*'elasticsearch-features'"),
        (pm.MAPMatching(), "onnx", InvalidOptionError, "must be a ranker, or a pipeline"),
        (strange, "onnx", InvalidOptionError, "'title' is none of them. Fit the pipeline"),
        (
            make_pipeline(StandardScaler(), pm.RankMatch()),
            "onnx",
            ModelFileError,
            "a pipeline to save or export must have two steps",
        ),
        (
            make_pipeline(pm.FeaturePreparation(), pm.RankMatch()),
            "solr",
            NotFittedError,
            "a fitted RankMatch is required",
        ),
    ]
    for given, to, error, message in cases:
        with pytest.raises(error, match=message):
            pm.export(given, path, to=to)
    assert not path.exists()


def test_a_model_alone_is_exported_as_by_its_methods(lists, tmp_path):
    table, grade = lists
    model = pm.RankMatch(qid="query").fit(table[["query", "clicks", "title"]], grade)
    for to in ("onnx", "solr", "elasticsearch"):
        pm.export(model, tmp_path / "a", to=to, name="shop")
        getattr(model, f"to_{to}")(tmp_path / "b", name="shop")
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
