"""``permatch rank`` reads judged documents in all the forms that people have them."""

import csv
import gzip
import json
import os
import threading

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import dump_svmlight_file
from sklearn.pipeline import make_pipeline
from typer.testing import CliRunner

import permatch as pm
from permatch.cli.main import app
from permatch.datasets import RankingData, read_judged

OK, FAILURE, WRONG_USAGE = 0, 1, 2
NAMES = ["price", "age", "stock"]
N_QUERIES, LENGTH = 15, 8


def judged(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_QUERIES * LENGTH, 3)).round(4)
    merit = X @ [1.0, -0.5, 0.2] + 0.5 * rng.normal(size=len(X))
    qid = np.repeat(100 * seed + np.arange(N_QUERIES), LENGTH)
    names = np.array([f"d{k}" for k in range(len(X))])
    return RankingData(X, np.digitize(merit, [0.5, 1.5]), qid, names, None, NAMES)


def mixed(data):
    """The same documents in another order, queries apart."""
    order = np.random.default_rng(0).permutation(data.n_documents)
    return RankingData(
        data.X[order], data.y[order], data.qid[order], data.doc_ids[order], None, NAMES
    )


@pytest.fixture(scope="module")
def data():
    return judged(1), judged(2)


#: How files are written, and what the commands must be told.
FORMS = {
    "letor": ("{}.txt", "letor", []),
    "lightgbm": ("{}.rank", "lightgbm", []),
    "csv": ("{}.csv", "csv", ["--document", "docid"]),
    "parquet": ("{}.parquet", "parquet", ["--document", "docid"]),
}


@pytest.fixture(scope="module", params=FORMS)
def files(request, data, tmp_path_factory):
    """A training and a test file of a form, what to tell of it, and a model."""
    folder = tmp_path_factory.mktemp(request.param)
    pattern, form, options = FORMS[request.param]
    paths = [folder / pattern.format(name) for name in ("train", "test")]
    for path, own in zip(paths, data, strict=True):
        own.write(path, form)
    model = folder / "model.json"
    pm.RankMatch(alpha=2).fit(data[0].X, data[0].y, data[0].qid).save(model)
    return *paths, options, model


def call(*args, **options):
    return CliRunner(env={"COLUMNS": "100"}).invoke(
        app, ["rank", *map(str, args)], **options
    )


def answer(*args, **options):
    result = call(*args, **options)
    assert result.exit_code == OK, result.output
    return json.loads(result.stdout)


def refused(words, *args, code=FAILURE, **options):
    result = call(*args, **options)
    assert result.exit_code == code, result.output
    text = " ".join(result.stderr.replace("│", " ").split())
    assert words in text, text
    return text


# ---- every command, every form -----------------------------------------------------------


def test_fit(files, data, tmp_path):
    train, test, options, _ = files
    path = tmp_path / "m.json"
    found = answer("fit", train, "-m", path, "--alpha", 2, "--json", *options)
    direct = pm.RankMatch(alpha=2).fit(data[0].X, data[0].y, data[0].qid)
    model = pm.load(path)
    np.testing.assert_array_equal(model.coef_, direct.coef_)
    is_table = bool(options)
    assert model.feature_names_ == (NAMES if is_table else None)
    assert found["data"]["train"]["n_queries"] == N_QUERIES
    more = ["--cv", "--valid", test, "--json", *options]
    chosen = answer("fit", train, "-m", path, *more)
    searched = pm.RankMatchCV().fit(
        *(data[0].X, data[0].y, data[0].qid),
        validation=(data[1].X, data[1].y, data[1].qid),
    )
    assert chosen["alpha"] == searched.alpha_


@pytest.mark.parametrize("kind", ["scores", "csv"])
def test_predict(files, data, kind):
    _, test, options, model = files
    result = call("predict", model, test, "-f", kind, *options)
    assert result.exit_code == OK
    note = "columns taken in the order price, age, stock. --features names them."
    assert (note in result.stderr) == (test.suffix in (".csv", ".parquet"))
    scores = pm.load(model).predict(data[1].X)
    if kind == "scores":
        assert list(map(float, result.stdout.split())) == scores.tolist()
        return
    rows = list(csv.DictReader(result.stdout.splitlines()))
    assert [float(row["score"]) for row in rows] == scores.tolist()
    if test.suffix != ".rank":  # LightGBM's text has no names
        assert [row["document"] for row in rows] == data[1].doc_ids.tolist()
        assert [row["query"] for row in rows] == data[1].qid.astype(str).tolist()


def test_evaluate_and_compare(files, data, tmp_path):
    _, test, options, model = files
    scores = pm.load(model).predict(data[1].X)
    expected = pm.metrics.ndcg(data[1].y, scores, data[1].qid, 10)
    found = answer("evaluate", model, test, "--metric", "NDCG@10", "--json", *options)
    assert found["measures"][0]["mean"] == pytest.approx(expected)
    given = tmp_path / "scores.txt"
    np.savetxt(given, scores)
    by_scores = answer(
        "evaluate", "--scores", given, test, "--metric", "NDCG@10", "--json", *options
    )
    assert by_scores["measures"] == found["measures"]
    same = answer("compare", model, given, test, "--json", "--resamples", 99, *options)
    assert same["comparisons"][0]["n_ties"] == N_QUERIES


def test_show_and_cv(files, tmp_path):
    train, test, options, model = files
    query = "2" if test.suffix == ".rank" else "201"
    page = tmp_path / "page.html"
    result = call("show", model, test, "-q", query, "-o", page, *options)
    assert result.exit_code == OK, result.output
    assert f"query {query}, {LENGTH} documents" in result.stdout
    found = answer("cv", train, "--folds", 3, "--alpha", 1, "--json", *options)
    assert sum(fold["n_test"] for fold in found["folds"]) == N_QUERIES


def test_queries_need_not_be_together(data, tmp_path):
    train, test = map(mixed, data)
    paths = [tmp_path / name for name in ("train.csv", "test.csv", "test.txt")]
    train.write(paths[0])
    test.write(paths[1])
    rows = zip(test.y, test.qid, test.X.tolist(), test.doc_ids, strict=True)
    paths[2].write_text(
        "".join(
            f"{grade} qid:{query} 1:{a} 2:{b} 3:{c} # docid = {name}\n"
            for grade, query, (a, b, c), name in rows
        )
    )
    path = tmp_path / "m.json"
    how = ["--scaling", "minmax", "--document", "docid"]  # needs whole queries
    answer("fit", paths[0], "-m", path, "--json", *how)
    direct = pm.RankMatch(scaling="minmax").fit(train.X, train.y, train.qid)
    np.testing.assert_allclose(pm.load(path).coef_, direct.coef_, rtol=1e-12)
    scores = pm.load(path).predict(test.X, test.qid)
    expected = pm.metrics.ndcg(test.y, scores, test.qid, 10)
    order = np.lexsort((-scores, [list(test.qid).index(q) for q in test.qid]))
    given = tmp_path / "scores.txt"
    for file, options in ((paths[1], ["--document", "docid"]), (paths[2], [])):
        assert call("predict", path, file, "-o", given, *options).exit_code == OK
        np.testing.assert_array_equal(np.loadtxt(given), scores)
        run = call("predict", path, file, "-f", "trec", *options).stdout.split()
        assert run[2::6] == test.doc_ids[order].tolist()
        assert run[3::6] == [str(k) for k in range(1, LENGTH + 1)] * N_QUERIES
        text = call("predict", path, file, "-f", "csv", *options).stdout
        rows = list(csv.DictReader(text.splitlines()))
        assert [row["document"] for row in rows] == test.doc_ids.tolist()
        for own in ([path], ["--scores", given]):
            found = answer(
                "evaluate", *own, file, "--metric", "NDCG@10", "--json", *options
            )
            assert found["measures"][0]["mean"] == pytest.approx(expected)
            assert found["n_queries"] == N_QUERIES
        same = answer("compare", path, given, file, "--json", "--resamples", 99, *options)
        assert same["comparisons"][0]["n_ties"] == N_QUERIES
        page = tmp_path / "page.html"
        shown = call("show", path, file, "-q", 203, "-o", page, *options)
        assert f"query 203, {LENGTH} documents" in shown.stdout, shown.output


def test_a_query_that_comes_back_late(data, tmp_path, monkeypatch):
    file, model = tmp_path / "test.txt", tmp_path / "m.json"
    data[1].write(file)
    file.write_text(file.read_text() + "0 qid:200 1:1 3:1\n")
    pm.RankMatch().fit(data[0].X, data[0].y, data[0].qid).save(model)
    assert len(call("predict", model, file).stdout.split()) == N_QUERIES * LENGTH + 1
    monkeypatch.setattr("permatch.cli.rank.scoring._BLOCK_VALUES", 3 * 20)
    monkeypatch.setattr("permatch._files.PIECE", 1 << 10)
    refused("give each query its own id, or read the file whole", "predict", model, file)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["scores", "trec", "jsonl"])
def test_blocks_make_no_difference(data, tmp_path, monkeypatch, form, kind):
    pattern, form, options = FORMS[form]
    file, model = tmp_path / pattern.format("test"), tmp_path / "m.json"
    data[1].write(file, form)
    pm.RankMatch(scaling="minmax").fit(data[0].X, data[0].y, data[0].qid).save(model)
    expected = call("predict", model, file, "-f", kind, *options)
    assert expected.exit_code == OK
    monkeypatch.setattr("permatch.cli.rank.scoring._BLOCK_VALUES", 3 * 20)
    monkeypatch.setattr("permatch.datasets.table_text.BLOCK_ROWS", 5)
    monkeypatch.setattr("permatch.datasets.judged_tables._BATCH_VALUES", 3 * 5)
    assert call("predict", model, file, "-f", kind, *options).stdout == expected.stdout
    late = RankingData(
        np.vstack([data[1].X, data[1].X[:1]]),
        np.append(data[1].y, 0),
        np.append(data[1].qid, data[1].qid[0]),
        None, None, NAMES,
    )  # fmt: skip
    if form in ("csv", "parquet"):  # the others are written sorted
        late.write(file, form)
        words = "must be together in a table that is read in blocks; query 200 comes back"
        assert words in refused("Sort the table by query", "predict", model, file)


# ---- columns -----------------------------------------------------------------------------


@pytest.fixture
def frame(data):
    own = data[0]
    found = pd.DataFrame(own.X, columns=NAMES)
    return found.assign(label=own.y, query=own.qid, name=own.doc_ids, code=7)


def test_columns_are_named(frame, data, tmp_path):
    path, model = tmp_path / "lists.csv", tmp_path / "m.json"
    frame[["code", "stock", "label", "name", "age", "query", "price"]].to_csv(
        path, index=False
    )
    how = ["--grade", "label", "--qid", "query"]
    answer("fit", path, "-m", model, "--json", *how, "--features", "price,age,stock")
    found = pm.load(model)
    assert found.feature_names_ == NAMES
    direct = pm.RankMatch().fit(data[0].X, data[0].y, data[0].qid)
    np.testing.assert_array_equal(found.coef_, direct.coef_)
    names = tmp_path / "names.txt"
    names.write_text("price\nage\nstock\n")
    same = tmp_path / "same.json"
    answer("fit", path, "-m", same, "--json", *how, "--feature-names", names)
    assert pm.load(same).feature_names_ == NAMES
    expected = direct.predict(data[0].X).tolist()
    result = call("predict", model, path, "--qid", "query")  # by name; no grades
    assert list(map(float, result.stdout.split())) == expected
    no_names = tmp_path / "plain.json"
    direct.save(no_names)
    refused(
        "must have the 3 features of the model; it has 5 columns of features, 'code', "
        "'stock', 'label', 'age', 'price'. Name those to use, in the order",
        *("predict", no_names, path, "--qid", "query"),
    )
    by_order = ["--features", "price,age,stock"]
    result = call("predict", no_names, path, "--qid", "query", *by_order)
    assert list(map(float, result.stdout.split())) == expected
    frame.drop(columns="age").to_csv(path, index=False)
    refused("'age' not found in", "predict", model, path, "--qid", "query")
    refused(
        "'q', 'age' not found", "evaluate", model, path, "--grade", "label", "--qid", "q"
    )
    refused(
        "--features and --feature-names exclude each other",
        *("fit", path, "-m", same, *by_order, "--feature-names", names),
        code=WRONG_USAGE,
    )


def test_a_table_for_models_with_and_without_names(frame, data, tmp_path):
    path, named, plain = (tmp_path / name for name in ("a.csv", "named.json", "p.json"))
    frame[["stock", "label", "query", "price", "age"]].to_csv(path, index=False)
    how = ["--grade", "label", "--qid", "query"]
    own = data[0]
    X = pd.DataFrame(own.X, columns=NAMES)
    pm.RankMatch().fit(X, own.y, own.qid).save(named)
    pm.RankMatch().fit(own.X, own.y, own.qid).save(plain)
    words = "nothing says which column is which of its features. Name its columns"
    refused(words, "compare", plain, named, path, *how)
    more = ["--features", "price,age,stock", "--json", "--resamples", "99"]
    (row, *_) = answer("compare", plain, named, path, *how, *more)["comparisons"]
    assert row["n_ties"] == N_QUERIES  # the same model
    args = "predict", named, path, "--qid", "query"
    expected = call(*args)
    assert (expected.exit_code, expected.stderr) == (OK, "")
    assert call(*args, "--features", "stock,age,price").stdout == expected.stdout
    words = "which knows them by name: 'age' not found in 'stock', 'price'. Drop"
    refused(words, *args, "--features", "stock,price")


def test_columns_of_text_are_named(frame, tmp_path):
    path, model = tmp_path / "lists.csv", tmp_path / "m.json"
    frame.drop(columns="code").to_csv(path, index=False)
    how = ["fit", path, "-m", model, "--grade", "label", "--qid", "query"]
    result = call(*how)
    assert result.exit_code == OK
    assert f"note: columns of text in {path} are not learned from: 'name'." in result.stderr
    assert pm.load(model).feature_names_ == NAMES
    assert call(*how, "--document", "name").stderr == ""
    assert call(*how, "--features", "age").stderr == ""


def test_a_model_knows_its_queries(frame, data, tmp_path):
    model, path = tmp_path / "m.json", tmp_path / "new.parquet"
    columns = [*NAMES, "query"]
    pm.RankMatch(qid="query").fit(frame[columns], frame["label"]).save(model)
    frame[columns[::-1]].to_parquet(path)
    result = call("predict", model, path)
    assert result.exit_code == OK, result.output
    expected = pm.load(model).predict(data[0].X)
    assert list(map(float, result.stdout.split())) == expected.tolist()


def test_scores_need_no_features(data, tmp_path):
    path, scores = tmp_path / "judged.csv", tmp_path / "scores.txt"
    path.write_text("qid,grade\n1,0\n2,1\n1,1\n")
    scores.write_text("1\n2\n3\n")
    found = answer("evaluate", "--scores", scores, path, "--metric", "MRR", "--json")
    assert (found["measures"][0]["mean"], found["n_queries"]) == (1.0, 2)


def test_training_and_validation_have_the_same_columns(data, tmp_path):
    train, valid = tmp_path / "train.csv", tmp_path / "valid.csv"
    data[0].write(train)
    frame = data[1].to_pandas()[["stock", "price", "qid", "age", "grade"]]
    frame.assign(more=1.0).to_csv(valid, index=False)
    model = tmp_path / "m.json"
    found = answer("fit", train, "-m", model, "--valid", valid, "--json")
    assert found["data"]["validation"]["n_features"] == 3
    scores = pm.load(model).predict(data[1].X)
    expected = pm.metrics.ndcg(data[1].y, scores, data[1].qid, 10)
    assert found["measures"]["validation"]["NDCG@10"] == pytest.approx(expected)
    frame.drop(columns="age").to_csv(valid, index=False)
    refused("'age' not found", "fit", train, "-m", model, "--valid", valid)
    text = tmp_path / "valid.txt"
    data[1].write(text)
    refused(
        f"{train} is a table, {text} LETOR text. Convert one of them",
        *("fit", train, "-m", model, "--valid", text),
    )


# ---- text --------------------------------------------------------------------------------


def test_features_from_zero(data, tmp_path):
    path, model = tmp_path / "sklearn.txt", tmp_path / "m.json"
    own = data[0]
    dump_svmlight_file(own.X, own.y, str(path), query_id=own.qid)
    refused(
        "or read them as numbered from 0 (zero_based=True, --z", "fit", path, "-m", model
    )
    answer("fit", path, "-m", model, "--zero-based", "--json")
    direct = pm.RankMatch().fit(own.X, own.y, own.qid)
    np.testing.assert_allclose(pm.load(model).coef_, direct.coef_, rtol=1e-6)
    for command in ("predict", "evaluate"):
        assert call(command, model, path, "--zero-based").exit_code == OK
        assert call(command, model, path).exit_code == FAILURE
    assert call("cv", path, "--zero-based", "--folds", 3, "-a", 1).exit_code == OK


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes of POSIX")
def test_side_files_of_packed_files_and_pipes(data, tmp_path):
    plain, model = tmp_path / "rank.train", tmp_path / "m.json"
    data[0].write(plain, "lightgbm")
    direct = pm.RankMatch().fit(data[0].X, data[0].y, data[0].qid)
    packed = tmp_path / "rank.train.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    answer("fit", packed, "-m", model, "--json")
    np.testing.assert_array_equal(pm.load(model).coef_, direct.coef_)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "pipe.query").write_bytes((tmp_path / "rank.train.query").read_bytes())
    writer = threading.Thread(target=lambda: pipe.write_bytes(plain.read_bytes()))
    writer.start()
    answer("fit", pipe, "-m", model, "--json")
    writer.join()
    np.testing.assert_array_equal(pm.load(model).coef_, direct.coef_)
    content = plain.read_bytes()
    words = "standard input, line 1: a line must name its query right after the grade"
    refused(words, "fit", "-", "-m", model, input=content)


def test_tables_from_standard_input(data, tmp_path):
    model = tmp_path / "m.json"
    data[0].write(tmp_path / "train.csv")
    data[0].write(tmp_path / "train.parquet")
    for name in ("train.csv", "train.parquet"):
        content = (tmp_path / name).read_bytes()
        assert call("fit", "-", "-m", model, input=content).exit_code == OK
        assert pm.load(model).feature_names_ == NAMES
    bad = b"qid,grade,price,age,stock\n1,,2,3,x\n"
    refused("'stock' is 'x' at line 2 of standard input", "predict", model, "-", input=bad)
    new = bad.replace(b"x", b"4")  # not judged yet
    assert call("predict", model, "-", input=new).exit_code == OK
    words = "standard input: grades must be whole numbers from 0 to 31; got nan at row 0"
    refused(words, "evaluate", model, "-", input=new)


# ---- pipelines ---------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_pipelines(frame, tmp_path, ending):
    rng = np.random.default_rng(3)
    frame["brand"] = rng.choice(["acme", "globex"], len(frame))
    frame = frame.sample(frac=1.0, random_state=0, ignore_index=True)
    preparation = pm.FeaturePreparation(categories=["brand"])
    pipeline = make_pipeline(preparation, pm.RankMatch(scaling="minmax", qid="query"))
    columns = [*NAMES, "brand", "query"]
    pipeline.fit(frame[columns], frame["label"])
    path, file = tmp_path / "m.json", tmp_path / f"new.{ending}"
    pm.save(pipeline, path)
    (frame.to_csv(file, index=False) if ending == "csv" else frame.to_parquet(file))
    scores = pipeline.predict(frame[columns])
    how = ["--grade", "label", "--document", "name"]
    result = call("predict", path, file, *how)
    np.testing.assert_allclose(list(map(float, result.stdout.split())), scores, rtol=1e-12)
    found = answer("evaluate", path, file, "--metric", "NDCG@5", "--json", *how)
    expected = pm.metrics.ndcg(frame["label"], scores, frame["query"], 5)
    assert found["measures"][0]["mean"] == pytest.approx(expected)
    chances = call("predict", path, file, "--probabilities", "-f", "jsonl", *how).stdout
    rows = [json.loads(line)["p_grades"] for line in chances.splitlines()]
    assert np.allclose(np.sum(rows, axis=1), 1.0)
    page = tmp_path / "page.html"
    shown = call("show", path, file, "-q", 103, "-o", page, *how)
    assert shown.exit_code == OK, shown.output
    assert "brand=acme" in page.read_text()
    text = tmp_path / "new.txt"
    text.write_text("1 qid:1 1:0.5\n")
    refused(
        "must be a table, CSV or Parquet, with the columns that the model prepares, '",
        *("predict", path, text),
    )
    refused("'grade' not found", "evaluate", path, file)
    unnamed = tmp_path / "unnamed.json"
    numbers = frame[NAMES].to_numpy(), frame["label"], frame["query"]
    pm.RankMatch().fit(*numbers).save(unnamed)
    refused("cannot be used beside a pipeline", "compare", path, unnamed, file, *how)
    same = ["--features", ",".join(NAMES), "--json", "--resamples", "99"]
    assert answer("compare", path, unnamed, file, *how, *same)["n_queries"] == N_QUERIES


def test_ids_beside_a_pipeline_stay_as_they_are(frame, tmp_path):
    frame["brand"] = "acme"
    names = {100: "NA", 101: "null", 102: "nan"}
    frame["query"] = [names.get(k, str(k)) for k in frame["query"]]
    frame.loc[0, "name"] = ""
    frame.loc[1, "name"] = "NA"
    pipeline = make_pipeline(
        pm.FeaturePreparation(categories=["brand"]), pm.RankMatch(qid="query")
    )
    pipeline.fit(frame[[*NAMES, "brand", "query"]], frame["label"])
    path, file = tmp_path / "m.json", tmp_path / "new.csv"
    pm.save(pipeline, path)
    frame.to_csv(file, index=False)
    result = call("predict", path, file, "--document", "name", "-f", "csv")
    assert result.exit_code == OK, result.output
    rows = [line.split(",")[:2] for line in result.stdout.splitlines()[1:]]
    assert [row[0] for row in rows] == frame["query"].tolist()
    assert [row[1] for row in rows[:3]] == ["1", "NA", frame["name"][2]]
    frame.loc[3, "query"] = ""
    frame.to_csv(file, index=False)
    words = "query ids must not be missing; 'query' is empty at row 3 (counted from 0) of"
    refused(words, "predict", path, file)


def test_tables_without_documents_are_called_so(frame, tmp_path):
    frame["brand"] = "acme"
    preparation = pm.FeaturePreparation(categories=["brand"])
    pipeline = make_pipeline(preparation, pm.RankMatch(qid="query"))
    pipeline.fit(frame[[*NAMES, "brand", "query"]], frame["label"])
    prepared, plain, file = tmp_path / "p.json", tmp_path / "m.json", tmp_path / "a.csv"
    pm.save(pipeline, prepared)
    pm.RankMatch(qid="query").fit(frame[[*NAMES, "query"]], frame["label"]).save(plain)
    empty = "must hold a table of judged documents; it is empty. Write a header with the"
    for text, words in (
        ("", empty),
        ("\n", empty),
        ("price,age,stock,brand,query\n", "must have at least one document; it has a he"),
    ):
        file.write_text(text)
        refused(words, "predict", plain, file)
        refused(words, "predict", prepared, file)


def test_a_file_that_is_missing_is_named(files, tmp_path):
    out = tmp_path / "out.txt"
    words = "cannot open nofile.txt: No such file or directory. Check the path."
    assert str(out) not in refused(words, "predict", files[3], "nofile.txt", "-o", out)
    assert not out.exists()


# ---- what is wrong, in words -------------------------------------------------------------


def test_options_of_the_other_form(data, tmp_path):
    table, text, model = tmp_path / "a.csv", tmp_path / "a.txt", tmp_path / "m.json"
    data[0].write(table)
    data[0].write(text)
    pm.RankMatch().fit(data[0].X, data[0].y, data[0].qid).save(model)
    for option in ("--grade", "--qid", "--document", "--features"):
        words = f"{option} has no effect on {text}, LETOR text, which has no columns. Drop"
        for command in (
            ["fit", text, "-m", model],
            ["evaluate", model, text],
            ["cv", text],
        ):
            refused(words, *command, option, "x", code=WRONG_USAGE)
    words = "has no effect on {}, a table, whose columns are the features: --features n"
    for option in (["--zero-based"], ["--n-features", 3]):
        refused(
            option[0] + " " + words.format(table),
            *("fit", table, "-m", model, *option),
            code=WRONG_USAGE,
        )
    refused("--zero-based", "predict", model, table, "--zero-based", code=WRONG_USAGE)
    folder = tmp_path / "folder"
    folder.mkdir()
    data[0].write(folder / "part.parquet")
    disk = ["fit", folder, "-m", model, "--from-disk"]
    refused("data in parts; drop it", *disk, "--document", "x", code=WRONG_USAGE)
    assert call(*disk, "--features", "age,stock").exit_code == OK
    assert pm.load(model).feature_names_ == ["age", "stock"]


def test_tables_without_a_header(tmp_path):
    path = tmp_path / "l.csv"
    path.write_text("1,1,0.5\n0,1,0.3\n")
    words = "must begin with a header, the names of its columns; got numbers only, '1', '1'"
    refused(words, "fit", path, "-m", tmp_path / "m.json")
    with pytest.raises(
        pm.errors.TableError, match="Write a first line such as qid,grade,p"
    ):
        read_judged(path)


def test_missing_columns(tmp_path):
    path = tmp_path / "l.csv"
    path.write_text("grade,price\n1,2\n0,3\n")
    text = refused("'qid' not found", "fit", path, "-m", tmp_path / "m.json")
    for option in ("--grade", "--qid", "--document", "--features"):
        assert option in text
        for command in ("fit", "predict", "evaluate", "show", "cv", "compare"):
            assert option in call(command, "--help").stdout
