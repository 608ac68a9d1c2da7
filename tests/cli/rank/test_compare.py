"""``permatch rank compare``: models, pipelines, scores and runs against each other."""

import csv
import json

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from typer.testing import CliRunner

import permatch as pm
from permatch.cli.main import app
from permatch.datasets import read_letor

OK, FAILURE = 0, 1
N_QUERIES, LENGTH = 20, 9


def write_letor(path, seed):
    """Judged lists with document ids."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_QUERIES * LENGTH, 3)).round(4)
    merit = X @ [1.0, -0.5, 0.0] + 0.8 * rng.normal(size=len(X))
    lines = [
        f"{grade} qid:{100 * seed + row // LENGTH} 1:{a} 2:{b} 3:{c} # docid = d{row}\n"
        for row, (grade, (a, b, c)) in enumerate(
            zip(np.digitize(merit, [0.5, 1.5]), X, strict=True)
        )
    ]
    path.write_text("".join(lines))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A test file, two models fitted on others, and what they make of it."""
    folder = tmp_path_factory.mktemp("compare")
    train, test = write_letor(folder / "train.txt", 1), write_letor(folder / "test.txt", 2)
    data = read_letor(train)
    pm.RankMatch(alpha=1).fit(data.X, data.y, data.qid).save(folder / "new.json")
    worse = data.X * [0.0, 1.0, 1.0]
    pm.DORM(alpha=1).fit(worse, data.y, data.qid).save(folder / "old.json")
    for form, name in (("scores", "new.scores"), ("trec", "new.run")):
        result = call("predict", folder / "new.json", test, "-f", form, "-o", folder / name)
        assert result.exit_code == OK, result.output
    return folder


def call(*args, **options):
    runner = CliRunner(env={"COLUMNS": "100"})
    return runner.invoke(app, ["rank", *map(str, args)], **options)


def answer(*args, **options):
    result = call("compare", *args, "--json", "--resamples", 500, **options)
    assert result.exit_code == OK, result.output
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def of_library(folder):
    data = read_letor(folder / "test.txt")
    models = {name: pm.load(folder / name) for name in ("old.json", "new.json")}
    return pm.compare_rankers(
        models, data.X, data.y, data.qid, documents=data.doc_ids, n_resamples=500
    )


def test_it_is_that_of_the_library(folder, of_library):
    found = answer(folder / "old.json", folder / "new.json", folder / "test.txt")
    assert found["baseline"] == "old.json"
    assert found["rankers"] == {
        name: str(folder / name) for name in ("old.json", "new.json")
    }
    assert (found["n_queries"], found["n_documents"]) == (N_QUERIES, N_QUERIES * LENGTH)
    assert [row["measure"] for row in found["comparisons"]] == [
        "NDCG@10", "NDCG@5", "NDCG@1", "MAP"
    ]  # fmt: skip
    for row, own in zip(found["comparisons"], of_library.rows, strict=True):
        assert row["ranker"] == "new.json"
        assert (row["mean"], row["difference"]) == (own.mean, own.difference)
        assert (row["low"], row["high"]) == own.interval
        assert (row["p_value"], row["p_value_holm"]) == (own.p_value, own.p_holm)
        counts = row["n_wins"], row["n_losses"], row["n_ties"]
        assert counts == (own.n_wins, own.n_losses, own.n_ties)
    listed = found["queries"]["new.json"]
    assert [row["query"] for row in listed["most_won"]] == [
        query.query for query in of_library.most_won()
    ]
    assert [row["difference"] for row in listed["most_lost"]] == [
        query.difference for query in of_library.most_lost()
    ]
    assert found["written"] == []


def test_what_people_read(folder, of_library):
    names = folder / "old.json", folder / "new.json", folder / "test.txt"
    result = call("compare", *names, "--resamples", 500)
    assert result.exit_code == OK, result.output
    text = " ".join(result.stdout.split())
    row = of_library.row()
    assert f"baseline {names[0]} against {names[1]} judged {names[2]}: 20 quer" in text
    assert f"NDCG@10 {row.baseline_mean:.4f} {row.mean:.4f} {row.difference:+.4f}" in text
    assert f"{row.n_wins} {row.n_losses} {row.n_ties}" in text
    assert "new.json is better than old.json in NDCG@10 by" in text
    best = of_library.most_won()[0]
    assert f"won {row.n_wins} queries, most clearly {best.query} (" in text
    assert max(map(len, result.stdout.splitlines())) <= 100


@pytest.mark.parametrize("columns", ["80", "100"])
def test_measures_are_named_on_usual_terminals(folder, columns):
    names = folder / "old.json", folder / "new.json", folder / "test.txt"
    args = ["compare", *names, "--metric", "NDCG(discount=letor)@5,MAP", "--resamples", 99]
    runner = CliRunner(env={"COLUMNS": columns})
    result = runner.invoke(app, ["rank", *map(str, args)])
    assert result.exit_code == OK, result.output
    assert "MAP" in result.stdout
    assert 'letor")@5' in result.stdout.replace(" \n", "")


def test_several_models_and_other_scores(folder):
    names = [folder / name for name in ("old.json", "new.json", "new.scores", "new.run")]
    found = answer(*names, folder / "test.txt", "--metric", "NDCG@3", "--metric", "MAP")
    rows = {(row["ranker"], row["measure"]): row for row in found["comparisons"]}
    assert len(rows) == 6
    for measure in ("NDCG@3", "MAP"):
        same = [rows[path.name, measure] for path in names[1:]]
        assert len({row["mean"] for row in same}) == 1
        assert len({row["p_value"] for row in same}) == 1
    assert all(row["p_value_holm"] >= row["p_value"] for row in rows.values())
    scores = answer(names[2], names[3], folder / "test.txt")  # no model at all
    assert all(row["n_ties"] == N_QUERIES for row in scores["comparisons"])
    assert "have the same NDCG@10 on all 20 queries" in scores["comparisons"][0]["verdict"]


def test_files_of_the_same_name_are_told_apart(folder, tmp_path):
    other = tmp_path / "new.json"
    other.write_text((folder / "old.json").read_text())
    found = answer(folder / "new.json", other, folder / "test.txt")
    assert list(found["rankers"]) == [str(folder / "new.json"), str(other)]


def test_the_judged_file_from_standard_input(folder):
    names = folder / "old.json", folder / "new.json"
    text = (folder / "test.txt").read_text()
    piped = answer(*names, "-", input=text)
    assert piped["comparisons"] == answer(*names, folder / "test.txt")["comparisons"]


def test_files_written(folder, tmp_path, of_library):
    pytest.importorskip("matplotlib")
    page, table = tmp_path / "page.html", tmp_path / "queries.csv"
    names = folder / "old.json", folder / "new.json", folder / "test.txt"
    result = call("compare", *names, "-o", page, "--csv", table, "--resamples", 500)
    assert result.exit_code == OK, result.output
    assert f"wrote {page}" in result.stdout.replace("\n", "")
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["query"] for row in rows] == [str(k) for k in range(200, 220)]
    values = [float(row["NDCG@10 new.json"]) for row in rows]
    np.testing.assert_array_equal(values, of_library.values[1, 0])
    html = page.read_text()
    assert "<title>Rankers compared on test.txt</title>" in html
    document = of_library.lists.documents[0]
    assert document == "d0"
    best = of_library.most_won()[0].position
    first = of_library.lists.best_first(best, 1)[0]
    assert of_library.lists.documents[first] in html


def test_seeds_decide(folder):
    names = folder / "old.json", folder / "new.json", folder / "test.txt"
    intervals = [
        [row["low"] for row in answer(*names, "--seed", seed)["comparisons"]]
        for seed in (1, 1, 2)
    ]
    assert intervals[0] == intervals[1] != intervals[2]


def test_tables_pipelines_and_trees(folder, tmp_path):
    pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(240, 2)), columns=["price", "age"])
    frame["brand"] = rng.choice(["x", "y"], size=240)
    frame["query"] = np.repeat([f"q{k}" for k in range(24)], 10)
    merit = frame["price"] + (frame["brand"] == "x") + rng.normal(size=240)
    frame["label"] = np.digitize(merit, [0.5, 1.5])
    frame["name"] = [f"item {k}" for k in range(240)]
    train, test = frame.iloc[:120], frame.iloc[120:]
    preparation = pm.FeaturePreparation(categories=["brand"])
    pipeline = make_pipeline(preparation, pm.RankMatch(alpha=1))
    features = ["price", "age", "brand"]
    pipeline.fit(train[features], train["label"], rankmatch__qid=train["query"])
    pm.save(pipeline, tmp_path / "pipeline.json")
    numbers = train[["price", "age"]], train["label"], train["query"]
    trees = pm.BoostedRankMatch(n_rounds=4, min_data_in_leaf=5).fit(*numbers)
    trees.save(tmp_path / "trees.json")
    narrow = pm.RankMatch(alpha=1).fit(train[["age"]], *numbers[1:])
    narrow.save(tmp_path / "narrow.json")
    names = [f"{name}.json" for name in ("narrow", "trees", "pipeline")]
    models = {"narrow": narrow, "trees": trees, "pipeline": pipeline}
    whole = pm.compare_rankers(models, test, "label", "query", n_resamples=500)
    test.to_csv(tmp_path / "test.csv", index=False)
    test.to_csv(tmp_path / "test.tsv", index=False, sep="\t")
    test.to_parquet(tmp_path / "test.parquet")
    for file in ("test.csv", "test.tsv", "test.parquet"):
        found = answer(
            *[tmp_path / name for name in names], tmp_path / file,
            "--grade", "label", "--qid", "query", "--document", "name",
        )  # fmt: skip
        assert [row["p_value"] for row in found["comparisons"]] == [
            row.p_value for row in whole.rows
        ]
        assert found["n_queries_without_relevant"] == 0
    lacking = call("compare", *[tmp_path / name for name in names], tmp_path / "test.csv")
    assert lacking.exit_code == FAILURE
    assert "test.csv must have the columns 'grade', 'qid'; 'grade'" in lacking.stderr
    broken = tmp_path / "broken.csv"
    broken.write_text("grade,qid,price\n1,2\n1,2,3,4,5\n")
    result = call("compare", *[tmp_path / name for name in names], broken)
    assert "broken.csv must be a complete CSV or Parquet file; pandas says" in result.stderr
    assert result.stderr.startswith("error: ")


def test_a_pipeline_on_letor_text(folder, tmp_path):
    data = read_letor(folder / "train.txt")
    pipeline = make_pipeline(pm.FeaturePreparation(), pm.RankMatch(alpha=1))
    pipeline.fit(data.X, data.y, rankmatch__qid=data.qid)
    pm.save(pipeline, tmp_path / "pipeline.json")
    found = answer(folder / "new.json", tmp_path / "pipeline.json", folder / "test.txt")
    assert found["comparisons"][0]["n_ties"] == N_QUERIES


def test_what_is_wrong_is_said_before_anything_is_written(folder, tmp_path):
    data = read_letor(folder / "train.txt")
    wide = np.column_stack([data.X, data.X])
    pm.RankMatch(alpha=1).fit(wide, data.y, data.qid).save(tmp_path / "wide.json")
    page = tmp_path / "page.html"
    for other, words in (
        ("wide.json", f"new.json has 3, {tmp_path / 'wide.json'} has 6. Write the scores"),
        ("cut.json", "is a truncated or damaged permatch model"),
    ):
        path = tmp_path / other
        if not path.exists():
            path.write_text((folder / "new.json").read_text()[:300])
        names = folder / "new.json", path, folder / "test.txt"
        result = call("compare", *names, "--out", page)
        assert result.exit_code == FAILURE
        assert result.stderr.startswith("error: ")
        assert result.stderr.count("\n") == 1
        assert words in result.stderr
        assert not page.exists()


def test_a_run_cannot_tell_equal_queries_of_two_files_apart(folder, tmp_path):
    twin = tmp_path / "twin.txt"
    twin.write_text((folder / "test.txt").read_text())
    files = folder / "test.txt", twin
    result = call("evaluate", "--scores", folder / "new.run", *files)
    assert result.exit_code == FAILURE
    words = " ".join(result.stderr.split())
    assert "query ids must differ between files where a TREC run has the scores" in words
    assert f"200 is in {files[0]} and in {twin}. Measure them one by one." in words
    both = tmp_path / "both.scores"
    both.write_text(2 * (folder / "new.scores").read_text())  # by order
    assert call("evaluate", "--scores", both, *files).exit_code == OK


def test_evaluate_takes_a_run(folder):
    names = folder / "new.run", folder / "new.scores"
    found = [
        json.loads(call("evaluate", "--scores", name, folder / "test.txt", "--json").stdout)
        for name in names
    ]
    assert found[0]["measures"] == found[1]["measures"]
