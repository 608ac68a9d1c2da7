"""``permatch rank``: from judged lists to a model to rankings, and what can go wrong."""

import csv
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import threading
import warnings
import weakref

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from typer.testing import CliRunner

import permatch as pm
from permatch import metrics
from permatch.cli.rank.commands import rank
from permatch.datasets import iterate_letor, read_letor
from permatch.estimators import (
    DORM,
    MAPMatching,
    QueryRidge,
    RankMatch,
    RankMatchCV,
    load,
)
from permatch.estimators.ranker import BaseRanker
from permatch.metrics.measures import MEASURES

OK, FAILURE, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130

COEF = np.array([2.0, 0.0, -1.0])
N_TRAIN, N_TEST, LENGTH = 40, 12, 15


def write_letor(path, rng, n_queries, first=1, n_features=3, has_documents=True):
    """Judged lists whose grades follow the planted coefficients, with some noise."""
    coef = np.resize(COEF, n_features)
    lines = []
    for query in range(first, first + n_queries):
        X = rng.normal(size=(LENGTH, n_features)).round(4)
        grades = np.digitize(X @ coef + 0.5 * rng.normal(size=LENGTH), [0.5, 2.0])
        for i, (grade, row) in enumerate(zip(grades, X, strict=True)):
            features = " ".join(f"{k}:{value}" for k, value in enumerate(row, start=1))
            comment = f" # docid = q{query}d{i}" * has_documents
            lines.append(f"{grade} qid:{query} {features}{comment}\n")
    path.write_text("".join(lines))
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A training, a validation and a test file."""
    folder = tmp_path_factory.mktemp("letor")
    rng = np.random.default_rng(11)
    return (
        write_letor(folder / "train.txt", rng, N_TRAIN),
        write_letor(folder / "vali.txt", rng, N_TEST, first=500),
        write_letor(folder / "test.txt", rng, N_TEST, first=900),
    )


def fit_by_command(path, *args):
    result = CliRunner().invoke(rank, ["fit", *map(str, args), "--model", str(path)])
    assert result.exit_code == OK, result.output
    return path


@pytest.fixture(scope="module")
def model_file(files, tmp_path_factory):
    """A model fitted by the command."""
    return fit_by_command(tmp_path_factory.mktemp("models") / "model.json", files[0])


@pytest.fixture
def call():
    """Run a command in this process."""
    runner = CliRunner()
    return lambda *args, **options: runner.invoke(rank, [*map(str, args)], **options)


def read_rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def files_in(folder):
    return sorted(path.name for path in folder.iterdir())


def assert_failed(result, message):
    assert result.exit_code == FAILURE, result.output
    assert result.stdout == ""
    assert message in result.stderr
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1


# ---- fit ---------------------------------------------------------------------------------


def test_fit_is_that_of_the_library(call, files, tmp_path):
    path = tmp_path / "model.json"
    result = call("fit", files[0], "-m", path, "--alpha", 2, "--valid", files[1], "--json")
    assert result.exit_code == OK, result.output
    assert result.stderr == ""
    summary = json.loads(result.stdout)
    data = read_letor(files[0])
    direct = RankMatch(alpha=2.0).fit(data.X, data.y, qid=data.qid)
    model = load(path)
    np.testing.assert_array_equal(model.coef_, direct.coef_)
    assert model.verbose is False
    assert summary["estimator"] == "RankMatch"
    assert summary["data"]["train"] == {
        "n_documents": N_TRAIN * LENGTH,
        "n_queries": N_TRAIN,
        "n_features": 3,
        "lengths": [LENGTH, LENGTH],
        "grades": {str(grade): int((data.y == grade).sum()) for grade in (0, 1, 2)},
        "n_queries_of_one_grade": 0,
    }
    assert summary["forms"] == {"exact": N_TRAIN, "profile": 0, "skipped": 0}
    assert summary["n_observations"] == N_TRAIN
    assert summary["is_converged"] is True
    for name, file in (("train", files[0]), ("validation", files[1])):
        part = read_letor(file)
        scores = direct.predict(part.X, qid=part.qid)
        for k in (1, 3, 5, 10):
            expected = metrics.ndcg(part.y, scores, part.qid, k)
            assert summary["measures"][name][f"NDCG@{k}"] == pytest.approx(expected)
    found = {row["feature"]: row["coef"] for row in summary["coefficients"]}
    assert found["feature 1"] > 0 > found["feature 3"]
    assert files_in(tmp_path) == ["model.json"]


def test_fit_with_a_validation_file_is_the_letor_protocol(call, files, tmp_path):
    path = tmp_path / "model.json"
    result = call(
        "fit", files[0], "-m", path, "--validation", files[1], "--alphas", "100,10,1",
        "--json",
    )  # fmt: skip
    assert result.exit_code == OK, result.output
    summary = json.loads(result.stdout)
    train, valid = read_letor(files[0]), read_letor(files[1])
    direct = RankMatchCV(alphas=[100.0, 10.0, 1.0])
    with warnings.catch_warnings(action="ignore"):  # the best alpha may be the last one
        direct.fit(
            train.X, train.y, qid=train.qid, validation=(valid.X, valid.y, valid.qid)
        )
    assert summary["alpha"] == direct.alpha_
    assert summary["n_splits"] == 1
    assert [row["alpha"] for row in summary["path"]] == [100.0, 10.0, 1.0]
    np.testing.assert_array_equal(load(path).coef_, direct.coef_)


def test_cross_validated_fit(call, files, tmp_path):
    arguments = ["fit", files[0], "-m", tmp_path / "m.json", "--cv", "--folds", 3]
    summary = json.loads(call(*arguments, "--alphas", "100,10,1,0.1", "--json").stdout)
    assert summary["estimator"] == "RankMatchCV"
    assert summary["n_splits"] == 3
    text = call(*arguments).stdout
    assert "MeanNDCG@10 on 3 folds" in text
    assert "chosen" in text


def test_alpha_chosen_by_evidence(call, files, tmp_path):
    path = tmp_path / "m.json"
    arguments = ["fit", files[0], "-m", path, "--alphas", "evidence"]
    text = call(*arguments, "--validation", files[1])
    assert text.exit_code == OK, text.output
    assert "alphas tried, by evidence, which holds no queries out" in text.stdout
    assert (
        load(path).alpha_
        == load(path).cv_results_["alphas"][np.argmax(load(path).cv_results_["mean_score"])]
    )
    wrong = call(*arguments, "--estimator", "dorm")
    assert wrong.exit_code == WRONG_USAGE
    assert "likelihood: --estimator rankmatch" in " ".join(wrong.stderr.split())


def test_how_sure_the_weights_are(call, files, tmp_path):
    path = tmp_path / "m.json"
    result = call("fit", files[0], "-m", path, "--inference", "laplace", "--json")
    assert result.exit_code == OK, result.output
    summary, model = json.loads(result.stdout), load(path)
    assert summary["inference"]["cov_type"] == model.posterior_.cov_type == "laplace"
    errors = [row["standard_error"] for row in summary["coefficients"]]
    assert errors == pytest.approx(model.posterior_.bse)
    for more in (["--estimator", "ridge"], ["--model-kind", "trees"]):
        wrong = call("fit", files[0], "-m", path, "--inference", "laplace", *more)
        assert wrong.exit_code == WRONG_USAGE
        assert "--inference needs weights with a" in " ".join(wrong.stderr.split())


def test_advice_is_in_the_words_of_the_command_line(call, tmp_path):
    path = tmp_path / "one.txt"
    path.write_text("1 qid:1 1:2 2:1\n0 qid:1 1:3 2:5\n")
    more = ["--alpha", "1", "--inference", "sandwich"]
    result = call("fit", path, "-m", tmp_path / "m.json", *more)
    assert result.exit_code == FAILURE
    words = " ".join(result.stderr.split())
    assert "error: --inference sandwich needs at least 2 clusters" in words
    assert "Use --inference laplace, or clusters that are smaller." in words


@pytest.mark.parametrize("size", ["all", "grades", "pairs", "3", "5"])
def test_subset_sizes(call, files, tmp_path, size):
    path = tmp_path / "m.json"
    result = call("fit", files[0], "-m", path, "--subset-size", size, "--seed", 5)
    assert result.exit_code == OK, result.output
    model = load(path)
    data = read_letor(files[0])
    direct = RankMatch(int(size) if size.isdigit() else size, random_state=5)
    direct.fit(data.X, data.y, qid=data.qid)
    np.testing.assert_array_equal(model.coef_, direct.coef_)


@pytest.mark.parametrize(
    ("text", "weights"), [("dcg", "dcg"), ("1,0.5,0", [1.0, 0.5, 0.0])], ids=str
)
def test_position_weights(call, files, tmp_path, text, weights):
    path = tmp_path / "m.json"
    result = call("fit", files[0], "-m", path, "--position-weights", text)
    assert result.exit_code == OK, result.output
    data = read_letor(files[0])
    direct = RankMatch(position_weights=weights).fit(data.X, data.y, qid=data.qid)
    np.testing.assert_array_equal(load(path).coef_, direct.coef_)
    assert load(path).position_weights == weights


def test_ridge(call, files, tmp_path):
    path = tmp_path / "model.json"
    result = call("fit", files[0], "-m", path, "--estimator", "ridge")
    assert result.exit_code == OK, result.output
    assert f"learned from   {N_TRAIN * LENGTH} documents" in result.stdout
    data = read_letor(files[0])
    direct = QueryRidge().fit(data.X, data.y, qid=data.qid)
    np.testing.assert_array_equal(load(path).coef_, direct.coef_)
    searched = call("fit", files[0], "-m", path, "--estimator", "ridge", "--cv", "--json")
    assert json.loads(searched.stdout)["estimator"] == "QueryRidgeCV"
    assert load(path).alpha_ == json.loads(searched.stdout)["alpha"]


def test_dorm(call, files, tmp_path):
    path = tmp_path / "m.json"
    result = call("fit", files[0], "-m", path, "--estimator", "dorm", "--n-subsets", 0.2)
    assert result.exit_code == OK, result.output
    assert "DORM on one document of each grade" in " ".join(result.stdout.split())
    assert "duality gap" in result.stdout
    data = read_letor(files[0])
    direct = DORM(n_subsets=0.2).fit(data.X, data.y, qid=data.qid)
    np.testing.assert_array_equal(load(path).coef_, direct.coef_)
    searched = call("fit", files[0], "-m", path, "--estimator", "dorm", "--cv", "--json")
    assert json.loads(searched.stdout)["estimator"] == "DORMCV"


def test_other_options_reach_the_estimator(call, files, tmp_path):
    path = tmp_path / "m.json"
    result = call(
        "fit", files[0], "-m", path, "--form", "profile", "--query-weight", "per-document",
        "--scaling", "standard", "--max-iter", 77, "--jobs", 2,
    )  # fmt: skip
    assert result.exit_code == OK, result.output
    params = load(path).get_params()
    expected = {"form": "profile", "query_weight": "per_document", "max_iter": 77}
    assert params | expected | {"scaling": "standard"} == params
    assert f"{N_TRAIN} profile" in result.stdout


def test_feature_names_are_kept(call, files, tmp_path):
    names = tmp_path / "names.txt"
    names.write_text("title\nbody\nage\n")
    path = tmp_path / "m.json"
    result = call("fit", files[0], "-m", path, "--feature-names", names)
    assert result.exit_code == OK, result.output
    assert "title" in result.stdout
    assert load(path).feature_names_ == ["title", "body", "age"]
    names.write_text("title\nbody\n")
    assert_failed(
        call("fit", files[0], "-m", path, "--feature-names", names), "3 different strings"
    )
    names.write_bytes(b"\xff\xfe\x00")
    assert_failed(
        call("fit", files[0], "-m", path, "--feature-names", names), "as UTF-8 text"
    )


def test_text_for_people(call, files, tmp_path):
    text = files[0].read_text() + "".join(f"1 qid:one 1:{k}\n" for k in range(4))
    train = tmp_path / "train.txt"
    train.write_text(text)
    result = call("fit", train, "-m", tmp_path / "m.json", "--valid", files[1])
    assert result.exit_code == OK, result.output
    for part in (
        "RankMatch on whole lists, alpha 1 train",
        "41 queries of 4 to 15 documents, 604 in total, 3 features",
        "40 lists, 40 exact; skipped 1 query with a single grade",
        "converged after", "gradient norm", "validation", "NDCG@10", "MAP", "feature 1",
    ):  # fmt: skip
        assert part in " ".join(result.stdout.split())
    assert "\x1b" not in result.stdout


def test_features_that_only_the_validation_file_has(call, files, tmp_path):
    wide = tmp_path / "wide.txt"
    lines = files[1].read_text().splitlines(True)
    wide.write_text("".join(line.replace(" #", " 5:1 #", 1) for line in lines))
    path = tmp_path / "m.json"
    assert call("fit", files[0], "-m", path, "--valid", wide).exit_code == OK
    assert load(path).n_features_in_ == 5
    assert call("fit", files[0], "-m", path, "--n-features", 7).exit_code == OK
    assert load(path).n_features_in_ == 7
    narrow = call("fit", files[0], "-m", path, "--n-features", 2)
    assert_failed(narrow, "line 1: documents must have at most 2 features")


def test_unfinished_fits_say_so_and_are_kept(call, files, tmp_path):
    path = tmp_path / "m.json"
    result = call(
        "fit", files[0], "-m", path, "--max-iter", 1, "-M", "3", "--alpha", "1e-6"
    )
    assert result.exit_code == OK
    assert result.stderr.startswith("warning: ")
    assert result.stderr.count("\n") == 1
    assert "not converged" in result.stdout
    assert load(path).is_converged_ is False


def test_standard_input_gzip_and_pipes(call, files, model_file, tmp_path):
    expected = call("predict", model_file, files[2]).stdout
    data = files[2].read_bytes()
    assert call("predict", model_file, "-", input=data).stdout == expected
    packed = tmp_path / "test.txt.gz"
    packed.write_bytes(gzip.compress(data))
    assert call("predict", model_file, packed).stdout == expected
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=[data])
    writer.start()
    assert call("predict", model_file, pipe).stdout == expected
    writer.join()
    broken = call("predict", model_file, "-", input=b"2 qid:1 1:0.5\n2 1:0.5\n")
    assert_failed(broken, "standard input, line 2: a line must name its query")


# ---- predict -----------------------------------------------------------------------------


def test_predicted_scores_are_those_of_the_model(call, files, model_file, tmp_path):
    data = read_letor(files[2])
    expected = load(model_file).predict(data.X, qid=data.qid)
    out = tmp_path / "scores.txt"
    result = call("predict", model_file, files[2], "--out", out)
    assert (result.exit_code, result.output) == (OK, "")
    np.testing.assert_array_equal(np.loadtxt(out), expected)
    assert call("predict", model_file, files[2]).stdout == out.read_text()
    assert call("predict", model_file, files[2], "--out", "-").stdout == out.read_text()


def test_trec_run_file(call, files, model_file):
    result = call("predict", model_file, files[2], "--format", "trec", "--run-name", "mine")
    data = read_letor(files[2])
    scores = load(model_file).predict(data.X, qid=data.qid)
    rows = [line.split(" ") for line in result.stdout.splitlines()]
    assert len(rows) == data.n_documents
    assert {(row[1], row[5]) for row in rows} == {("Q0", "mine")}
    by_document = {
        name: (str(query), score)
        for name, query, score in zip(data.doc_ids, data.qid, scores, strict=True)
    }
    ranks = {}
    for query, _, document, place, score, _ in rows:
        assert by_document[document] == (query, float(score))
        ranks.setdefault(query, []).append((int(place), -float(score)))
    for places in ranks.values():
        assert places == sorted(places)
        assert [place for place, _ in places] == list(range(1, LENGTH + 1))
    assert list(ranks) == [str(query) for query in range(900, 900 + N_TEST)]


def test_csv_and_json_lines_say_the_same_in_the_order_of_the_file(call, files, model_file):
    rows = read_rows(call("predict", model_file, files[2], "--format", "csv").stdout)
    text = call("predict", model_file, files[2], "--format", "jsonl").stdout
    objects = [json.loads(line) for line in text.splitlines()]
    assert [(row["query"], row["document"], row["rank"], row["score"]) for row in rows] == [
        (str(row["query"]), row["document"], str(row["rank"]), repr(row["score"]))
        for row in objects
    ]
    data = read_letor(files[2])
    assert [row["document"] for row in objects] == data.doc_ids.tolist()
    assert [row["query"] for row in objects] == data.qid.tolist()


def test_probabilities_of_grades(call, files, model_file, tmp_path):
    options = ("--probabilities", "--format")
    rows = read_rows(call("predict", model_file, files[2], *options, "csv").stdout)
    text = call("predict", model_file, files[2], *options, "jsonl").stdout
    data = read_letor(files[2])
    expected = load(model_file).predict_relevance(data.X, data.qid)
    found = [json.loads(line)["p_grades"] for line in text.splitlines()]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    names = [f"p_grade_{grade}" for grade in range(expected.shape[1])]
    table = [[float(row[name]) for name in names] for row in rows]
    np.testing.assert_allclose(table, expected, atol=1e-12)
    ridge = tmp_path / "ridge.json"
    call("fit", files[0], "--model", ridge, "--estimator", "ridge")
    done = call("predict", ridge, files[2], *options, "csv")
    assert_failed(done, "needs a model with a likelihood")


def test_documents_without_a_name_have_their_number(call, model_file, tmp_path, rng):
    path = write_letor(tmp_path / "plain.txt", rng, 2, has_documents=False)
    text = call("predict", model_file, path, "--format", "jsonl").stdout
    names = [json.loads(line)["document"] for line in text.splitlines()]
    assert names == [str(k) for k in range(1, 2 * LENGTH + 1)]


def test_equal_scores_keep_the_order_of_the_file(call, model_file, tmp_path):
    path = tmp_path / "ties.txt"
    path.write_text("".join(f"0 qid:1 1:1 # docid = {name}\n" for name in "cabd"))
    rows = call("predict", model_file, path, "--format", "trec").stdout.split()
    assert rows[2::6] == list("cabd")


@pytest.mark.parametrize("kind", ["scores", "trec", "csv", "jsonl"])
def test_predictions_stream(call, files, model_file, monkeypatch, kind):
    expected = call("predict", model_file, files[0], "--format", kind).stdout
    alive, most, n_blocks = weakref.WeakSet(), 0, 0

    def in_small_blocks(path, n_documents, **options):
        nonlocal most, n_blocks
        for data in iterate_letor(path, 2 * LENGTH, **options):
            alive.add(data)
            most, n_blocks = max(most, len(alive)), n_blocks + 1
            yield data
            del data

    monkeypatch.setattr("permatch.datasets.judged_blocks.iterate_letor", in_small_blocks)
    assert call("predict", model_file, files[0], "--format", kind).stdout == expected
    assert n_blocks == N_TRAIN // 2
    assert most <= 2  # the one at work, and the one being read


def test_blocks_are_as_small_as_features_are_many(call, files, model_file, monkeypatch):
    asked = []

    def spy(path, n_documents, **options):
        asked.append(n_documents)
        return iterate_letor(path, n_documents, **options)

    monkeypatch.setattr("permatch.datasets.judged_blocks.iterate_letor", spy)
    assert call("predict", model_file, files[2]).exit_code == OK
    assert asked[0] * 3 <= 1 << 20


def test_grades_are_not_looked_at(call, files, model_file, tmp_path):
    path = tmp_path / "new.txt"
    lines = files[2].read_text().splitlines(True)
    path.write_text("".join(f"0{line[1:]}" for line in lines))
    expected = call("predict", model_file, files[2]).stdout
    assert call("predict", model_file, path).stdout == expected


def test_features_that_do_not_fit_the_model(call, model_file, tmp_path, rng):
    path = write_letor(tmp_path / "wide.txt", rng, 2, n_features=4)
    out = tmp_path / "scores.txt"
    result = call("predict", model_file, path, "--out", out)
    message = "at most 3 features; got index 4. The model has 3 features: use a file"
    assert_failed(result, message)
    assert not out.exists()
    narrow = write_letor(tmp_path / "narrow.txt", rng, 2, n_features=2)
    result = call("predict", model_file, narrow)
    assert result.exit_code == OK
    assert result.stderr == (
        f"note: {narrow} has no feature beyond 2, the model has 3; missing features "
        "are 0.\n"
    )


# ---- evaluate ----------------------------------------------------------------------------


def test_measures_are_those_of_the_library(call, files, model_file):
    data = read_letor(files[2])
    scores = load(model_file).predict(data.X, qid=data.qid)
    result = call("evaluate", model_file, files[2], "--json")
    assert result.exit_code == OK, result.output
    answer = json.loads(result.stdout)
    assert (answer["n_queries"], answer["n_documents"]) == (N_TEST, len(data.y))
    found = {row["measure"]: row for row in answer["measures"]}
    lists = (data.y, scores, data.qid)
    expected = {
        **{f"NDCG@{k}": metrics.ndcg(*lists, k) for k in (1, 3, 5, 10)},
        "MeanNDCG@10": np.mean(metrics.ndcg(*lists, range(1, 11))),
        "MAP": metrics.average_precision(*lists),
        **{f"P@{k}": metrics.precision_at(*lists, k) for k in (1, 3, 5, 10)},
        "ERR@10": metrics.expected_reciprocal_rank(*lists),
        "MRR": metrics.reciprocal_rank(*lists),
        "Tau": metrics.kendall_tau(*lists),
    }
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert found[name]["mean"] == pytest.approx(value), name
    values = metrics.ndcg(*lists, 10, per_query=True)
    error = values.std(ddof=1) / np.sqrt(N_TEST)
    assert found["NDCG@10"]["standard_error"] == pytest.approx(error)
    assert found["NDCG@10"]["mean"] > 0.8


def test_scores_from_elsewhere(call, files, model_file, tmp_path):
    scores = tmp_path / "scores.txt"
    call("predict", model_file, files[2], "--out", scores)
    found = json.loads(call("evaluate", "--scores", scores, files[2], "--json").stdout)
    expected = json.loads(call("evaluate", model_file, files[2], "--json").stdout)
    assert found["measures"] == expected["measures"]
    assert_failed(
        call("evaluate", "--scores", scores, files[1], files[2]),
        f"one score per document, {2 * N_TEST * LENGTH}; it has {N_TEST * LENGTH}",
    )
    scores.write_text("1\nx\n")
    assert_failed(call("evaluate", "--scores", scores, files[2]), f"{scores}, line 2")


def test_several_files_are_measured_together(call, files, model_file):
    answers = [
        json.loads(call("evaluate", model_file, *names, "--json").stdout)
        for names in ([files[1]], [files[2]], [files[1], files[2]])
    ]
    means = [
        {row["measure"]: row["mean"] for row in answer["measures"]} for answer in answers
    ]
    assert answers[2]["n_queries"] == 2 * N_TEST
    for name in ("NDCG@3", "MAP", "MRR"):
        assert means[2][name] == pytest.approx((means[0][name] + means[1][name]) / 2)


def test_options_of_measures(call, files, model_file):
    def means(*options):
        answer = json.loads(
            call("evaluate", model_file, files[2], *options, "--json").stdout
        )
        return {row["measure"]: row["mean"] for row in answer["measures"]}

    data = read_letor(files[2])
    lists = (data.y, load(model_file).predict(data.X, qid=data.qid), data.qid)
    found = means("--metric", "ndcg(discount=letor)@2,4", "--metric", "MAP(threshold=2)")
    assert found == {
        str(measure): pytest.approx(measure(*lists))
        for measure in (
            metrics.NDCG(discount="letor") @ 2,
            metrics.NDCG(discount="letor") @ 4,
            metrics.MAP(threshold=2),
        )
    }
    assert found['NDCG(discount="letor")@4'] != pytest.approx(metrics.ndcg(*lists, 4))


def test_the_help_names_every_measure(call):
    text = call("evaluate", "--help").output
    assert all(f" {name}" in text for name in MEASURES)


def test_measures_of_every_query(call, files, model_file, tmp_path):
    path = tmp_path / "queries.csv"
    result = call("evaluate", model_file, files[2], "--per-query", path)
    assert result.exit_code == OK, result.output
    rows = read_rows(path.read_text())
    assert [row["query"] for row in rows] == [str(k) for k in range(900, 900 + N_TEST)]
    assert {row["file"] for row in rows} == {str(files[2])}
    assert {row["documents"] for row in rows} == {str(LENGTH)}
    data = read_letor(files[2])
    scores = load(model_file).predict(data.X, qid=data.qid)
    expected = metrics.ndcg(data.y, scores, data.qid, 10, per_query=True)
    assert [float(row["NDCG@10"]) for row in rows] == pytest.approx(expected.tolist())


def test_queries_without_relevant_documents(call, files, model_file, tmp_path):
    path = tmp_path / "test.txt"
    empty = "".join(f"0 qid:none 1:{k}\n" for k in range(3))
    path.write_text(files[2].read_text() + empty)
    answer = json.loads(call("evaluate", model_file, path, "--json").stdout)
    assert answer["n_queries_without_relevant"] == 1
    found = {row["measure"]: row for row in answer["measures"]}
    assert found["NDCG@10"]["n_queries"] == N_TEST + 1
    assert found["Tau"]["n_queries"] == N_TEST  # not defined where all grades are equal
    text = call("evaluate", model_file, path).stdout
    assert "1 without relevant documents count 0" in text
    path.write_text(empty)
    answer = json.loads(call("evaluate", model_file, path, "--json").stdout)
    assert answer["measures"][-1] == {
        "measure": "Tau", "mean": None, "standard_error": None, "n_queries": 0
    }  # fmt: skip
    assert call("evaluate", model_file, path).exit_code == OK


# ---- cv ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two folds in LETOR's layout, their names in both manners."""
    root = tmp_path_factory.mktemp("data") / "SMALL"
    rng = np.random.default_rng(5)
    names = [("train.txt", "vali.txt", "test.txt")]
    names += [("trainingset.TXT", "validationset.txt", "testset.txt")]
    for k, parts in enumerate(names, start=1):
        (root / f"Fold{k}").mkdir(parents=True)
        for j, name in enumerate(parts):
            n_queries = 20 if j == 0 else 8
            write_letor(root / f"Fold{k}" / name, rng, n_queries, first=100 * j)
    return root


def test_folds_of_a_folder(call, folder, tmp_path):
    out = tmp_path / "folds.csv"
    arguments = ["cv", folder, "--alphas", "100,10,1,0.1", "--out", out]
    result = call(*arguments, "--json")
    assert result.exit_code == OK, result.output
    summary = json.loads(result.stdout)
    assert [row["fold"] for row in summary["folds"]] == ["1", "2"]
    parts = [
        read_letor(folder / "Fold1" / f"{name}.txt") for name in ("train", "vali", "test")
    ]
    train, valid, test = parts
    model = RankMatchCV(alphas=[100.0, 10.0, 1.0, 0.1])
    with warnings.catch_warnings(action="ignore"):  # the best alpha may be the last one
        model.fit(train.X, train.y, qid=train.qid, validation=(valid.X, valid.y, valid.qid))
    first = summary["folds"][0]
    assert first["alpha"] == model.alpha_
    assert (first["n_train"], first["n_validation"], first["n_test"]) == (20, 8, 8)
    scores = model.predict(test.X, qid=test.qid)
    expected = metrics.ndcg(test.y, scores, test.qid, 5)
    assert first["measures"]["NDCG@5"] == pytest.approx(expected)
    values = [row["measures"]["NDCG@5"] for row in summary["folds"]]
    assert summary["mean"]["NDCG@5"] == pytest.approx(np.mean(values))
    assert summary["spread"]["NDCG@5"] == pytest.approx(np.std(values, ddof=1))
    rows = read_rows(out.read_text())
    assert [float(row["NDCG@5"]) for row in rows] == values
    text = call(*arguments).stdout
    for part in ("fold", "alpha", "NDCG@10", "mean", "spread", "alpha chosen on its"):
        assert part in text
    assert list(summary["mean"]) == [
        "NDCG@1", "NDCG@3", "NDCG@5", "NDCG@10", "MeanNDCG@10", "MAP"
    ]  # fmt: skip


def test_standard_errors_are_over_the_queries_of_all_folds(call, folder):
    arguments = ["cv", folder, "--alpha", "1", "--metric", "NDCG@5,Tau"]
    summary = json.loads(call(*arguments, "--json").stdout)
    values = []
    for k, (train, test) in enumerate(
        [("train.txt", "test.txt"), ("trainingset.TXT", "testset.txt")], start=1
    ):
        known, held = (read_letor(folder / f"Fold{k}" / name) for name in (train, test))
        model = RankMatch(alpha=1.0).fit(known.X, known.y, known.qid)
        lists = held.y, model.predict(held.X), held.qid
        values.append(metrics.ndcg(*lists, 5, per_query=True))
    error = np.concatenate(values).std(ddof=1) / np.sqrt(16)
    assert summary["standard_error"]["NDCG@5"] == pytest.approx(error)
    assert summary["standard_error"]["Tau"] > 0
    text = " ".join(call(*arguments).stdout.split())
    assert f"error {error:.4f}" in text
    assert "Error: standard error of the mean over all test queries." in text


def test_cross_validation_against_another_method(call, files, tmp_path):
    out = tmp_path / "folds.csv"
    arguments = ["cv", files[0], "--folds", 3, "--alpha", 5]
    alone = json.loads(call(*arguments, "--json").stdout)
    ridge = json.loads(call(*arguments, "--estimator", "ridge", "--json").stdout)
    arguments += ["--against", "ridge", "--out", out]
    both = json.loads(call(*arguments, "--json").stdout)
    assert (both["estimator"], both["against"]) == ("rankmatch", "ridge")
    assert both["mean"] == alone["mean"]
    assert both["standard_error"] == alone["standard_error"]
    own = [row["measures"] for row in ridge["folds"]]
    assert [row["against"] for row in both["folds"]] == own  # the same folds
    found = {row["measure"]: row for row in both["comparisons"]}
    assert list(found) == ["MeanNDCG@10", "NDCG@10", "NDCG@5", "NDCG@1", "MAP"]
    row = found["MeanNDCG@10"]
    assert row["ranker"] == "rankmatch"
    assert row["n_wins"] + row["n_losses"] + row["n_ties"] == N_TRAIN
    sizes = [fold["n_test"] for fold in both["folds"]]
    for name, summary in (("mean", alone), ("baseline_mean", ridge)):
        means = [fold["measures"]["MeanNDCG@10"] for fold in summary["folds"]]
        assert row[name] == pytest.approx(np.average(means, weights=sizes))
    rows = read_rows(out.read_text())
    assert [float(row["MAP against"]) for row in rows] == [row["MAP"] for row in own]
    text = call(*arguments, env={"COLUMNS": "80"}).stdout
    assert "rankmatch against ridge" in text
    words = "Means here are over all test queries, above over folds"
    assert words in " ".join(text.split())
    assert "…" not in text
    assert f"{row['n_losses']} lost" in text
    assert max(map(len, text.splitlines())) <= 80
    chosen = json.loads(call(*arguments, "--metric", "MAP", "--json").stdout)
    assert [row["measure"] for row in chosen["comparisons"]] == ["MAP"]


def test_methods_that_cannot_be_compared(call, files):
    for other, words in (
        ("rankmatch", "--against rankmatch is the method itself; name another."),
        ("x", "'x' is not one of 'rankmatch', 'dorm', 'ridge', 'trees'."),
    ):
        result = call("cv", files[0], "--against", other)
        assert result.exit_code == WRONG_USAGE
        assert words in " ".join(result.stderr.replace("│", " ").split())


def test_queries_of_a_file_test_once(call, files):
    arguments = ["cv", files[0], "--folds", 4, "--alphas", "10,1", "--seed", 3]
    summary = json.loads(call(*arguments, "--json").stdout)
    rows = summary["folds"]
    assert [row["n_test"] for row in rows] == [10, 10, 10, 10]
    assert [row["n_validation"] for row in rows] == [10, 10, 10, 10]
    assert [row["n_train"] for row in rows] == [20, 20, 20, 20]
    assert json.loads(call(*arguments, "--json").stdout) == summary
    assert summary["mean"]["NDCG@10"] > 0.8


def test_given_alpha_needs_no_validation_part(call, files):
    arguments = ["cv", files[0], "--folds", 2, "--alpha", "1", "--estimator", "dorm"]
    summary = json.loads(call(*arguments, "--json").stdout)
    assert summary["is_search"] is False
    assert [(row["n_train"], row["n_validation"]) for row in summary["folds"]] == [
        (20, 0),
        (20, 0),
    ]
    assert {row["alpha"] for row in summary["folds"]} == {1.0}
    assert "alpha given" in call(*arguments).stdout


def test_parts_share_no_query(rng):
    from permatch.cli.rank.folds import part_queries
    from permatch.queries import check_queries

    queries = check_queries(
        rng.normal(size=(33, 2)), np.tile([0, 1, 2], 11), qid=np.repeat(range(11), 3)
    )
    folds = part_queries(queries, 4, 0, is_search=True)
    assert sorted(np.concatenate([fold.test.ids for fold in folds])) == list(range(11))
    for fold in folds:
        ids = [*fold.train.ids, *fold.validation.ids, *fold.test.ids]
        assert sorted(ids) == list(range(11))


def test_folds_that_cannot_be_made(call, files, tmp_path):
    assert_failed(call("cv", files[0], "--folds", 41), "at most the number of queries, 40")
    assert_failed(call("cv", files[0], "--folds", 2), "at least 3")
    assert_failed(call("cv", tmp_path), str(tmp_path))
    assert_failed(call("cv", tmp_path / "absent"), "No such file")


# ---- export ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plain_model(files, tmp_path_factory):
    """A model without scaling within queries, with names."""
    folder = tmp_path_factory.mktemp("plain")
    (folder / "names.txt").write_text("title\nbody\nage\n")
    return fit_by_command(
        folder / "plain.json",
        files[0], "--feature-names", folder / "names.txt",
    )  # fmt: skip


def test_export_to_onnx_runs(call, files, plain_model, tmp_path):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    out = tmp_path / "model.onnx"
    result = call("export", plain_model, "--to", "onnx", "--out", out)
    assert (result.exit_code, result.output) == (OK, "")
    data = read_letor(files[2])
    session = runtime.InferenceSession(out.read_bytes(), providers=["CPUExecutionProvider"])
    (scores,) = session.run(["scores"], {"X": data.X.astype(np.float32)})
    np.testing.assert_allclose(scores, load(plain_model).predict(data.X), atol=1e-4)


def test_export_to_search_engines(call, plain_model, tmp_path):
    coef = dict(zip(["title", "body", "age"], load(plain_model).coef_, strict=True))
    out = tmp_path / "model.json"
    result = call("export", plain_model, "--to", "solr", "--out", out, "--name", "shop")
    assert (result.exit_code, result.output) == (OK, "")
    document = json.loads(out.read_text())
    assert document["name"] == "shop"
    assert document["params"]["weights"] == coef
    call("export", plain_model, "--to", "elasticsearch", "--out", out)
    definition = json.loads(out.read_text())["model"]["model"]["definition"]
    assert json.loads(definition) == coef
    names = tmp_path / "names.txt"
    names.write_text("a\nb\nc\n")
    call("export", plain_model, "-t", "solr", "-o", out, "--feature-names", names)
    assert list(json.loads(out.read_text())["params"]["weights"]) == ["a", "b", "c"]


def test_export_of_nameless_features(call, files, tmp_path):
    model = fit_by_command(tmp_path / "m.json", files[0])
    out = tmp_path / "out.json"
    call("export", model, "-t", "solr", "-o", out, "--feature-prefix", "x")
    assert list(json.loads(out.read_text())["params"]["weights"]) == ["x1", "x2", "x3"]


def test_a_model_that_scales_says_at_once_that_it_cannot_be_exported(call, files, tmp_path):
    path, out = tmp_path / "m.json", tmp_path / "out.json"
    result = call("fit", files[0], "-m", path, "--scaling", "minmax")
    said = " ".join(result.stdout.split())
    assert "serving cannot be exported: minmax scaling needs all documents of" in said
    result = call("fit", files[0], "-m", path, "--scaling", "minmax", "--json")
    assert json.loads(result.stdout)["is_servable"] is False
    result = call("export", path, "--to", "solr", "--out", out)
    assert_failed(result, "--scaling none")
    assert files_in(tmp_path) == ["m.json"]


def test_export_of_a_pipeline(call, files, tmp_path):
    table = pd.DataFrame({"query": [1, 1, 2, 2], "clicks": [9, 0, 5, 1]})
    preparation = pm.FeaturePreparation(log1p="clicks")
    pipeline = make_pipeline(preparation, pm.RankMatch(qid="query"))
    path, out = tmp_path / "pipeline.json", tmp_path / "out.json"
    pm.save(pipeline.fit(table, [1, 0, 1, 0]), path)
    for to in ("solr", "solr-features", "elasticsearch", "elasticsearch-features"):
        result = call("export", path, "--to", to, "--out", out, "--name", "shop")
        assert (result.exit_code, result.output) == (OK, "")
        pm.export(pipeline, tmp_path / "same.json", to=to, name="shop")
        assert out.read_bytes() == (tmp_path / "same.json").read_bytes()
    names = tmp_path / "names.txt"
    names.write_text("a\n")
    result = call("export", path, "--to", "solr", "-o", out, "--feature-names", names)
    assert_failed(result, "Rename the columns and fit again")
    preparation.save(path)
    message = "a FeaturePreparation, which prepares the features of tables. permatch rank t"
    assert_failed(call("export", path, "--to", "solr", "-o", out), message)


# ---- wrong usage and failures ------------------------------------------------------------


@pytest.mark.parametrize("flag", ["-h", "--help"])
@pytest.mark.parametrize(
    "command", [[], ["fit"], ["predict"], ["evaluate"], ["cv"], ["export"]]
)
def test_help_teaches_by_example(call, command, flag):
    result = call(*command, flag)
    assert result.exit_code == OK
    assert "permatch rank" in result.output
    assert "Examples" in result.output


@pytest.mark.parametrize(
    "args",
    [
        ["fit"],
        ["fit", "TRAIN"],
        ["fit", "TRAIN", "-m", "NEW", "--alpha", "1", "--cv"],
        ["fit", "TRAIN", "-m", "NEW", "--alpha", "1", "--alphas", "1,2"],
        ["fit", "TRAIN", "-m", "NEW", "--alpha", "-1"],
        ["fit", "TRAIN", "-m", "NEW", "--alphas", "1,x"],
        ["fit", "TRAIN", "-m", "NEW", "--alphas", ""],
        ["fit", "TRAIN", "-m", "NEW", "--cv", "--folds", "1"],
        ["fit", "TRAIN", "-m", "NEW", "--estimator", "guess"],
        ["fit", "TRAIN", "-m", "NEW", "--estimator", "dorm", "--form", "exact"],
        ["fit", "TRAIN", "-m", "NEW", "--estimator", "dorm", "--subset-size", "pairs"],
        ["fit", "TRAIN", "-m", "NEW", "--estimator", "ridge", "--subset-size", "3"],
        ["fit", "TRAIN", "-m", "NEW", "--estimator", "ridge", "--max-iter", "3"],
        ["fit", "TRAIN", "-m", "NEW", "--estimator", "ridges"],
        ["fit", "TRAIN", "-m", "NEW", "--subset-size", "1"],
        ["fit", "TRAIN", "-m", "NEW", "--subset-size", "some"],
        ["fit", "TRAIN", "-m", "NEW", "--n-subsets", "0"],
        ["fit", "TRAIN", "-m", "NEW", "--n-subsets", "nan"],
        ["fit", "TRAIN", "-m", "NEW", "--scaling", "log"],
        ["fit", "TRAIN", "-m", "NEW", "--jobs", "0"],
        ["fit", "TRAIN", "-m", "NEW", "--at", "0"],
        ["fit", "TRAIN", "-m", "TRAIN"],
        ["fit", "-", "-m", "NEW", "--valid", "-"],
        ["predict", "MODEL"],
        ["predict", "MODEL", "TRAIN", "--format", "xml"],
        ["predict", "MODEL", "TRAIN", "--run-name", "two words"],
        ["predict", "MODEL", "TRAIN", "--run-name", ""],
        ["predict", "MODEL", "TRAIN", "--out", "TRAIN"],
        ["predict", "MODEL", "TRAIN", "--out", "MODEL"],
        ["evaluate"],
        ["evaluate", "MODEL"],
        ["evaluate", "MODEL", "-", "-"],
        ["evaluate", "MODEL", "TRAIN", "--at", "ten"],
        ["evaluate", "MODEL", "TRAIN", "--per-query", "TRAIN"],
        ["cv", "TRAIN", "--alpha", "1", "--alphas", "1,2"],
        ["cv", "TRAIN", "--out", "TRAIN"],
        ["export", "MODEL", "--to", "solr"],
        ["export", "MODEL", "--to", "paper", "--out", "NEW"],
        ["export", "MODEL", "--to", "solr", "--out", "MODEL"],
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2_and_writes_nothing(
    call, files, model_file, tmp_path, args
):
    places = {"TRAIN": files[0], "MODEL": model_file, "NEW": tmp_path / "new.json"}
    before = files[0].read_bytes(), model_file.read_bytes()
    result = call(*(places.get(arg, arg) for arg in args))
    assert result.exit_code == WRONG_USAGE, result.output
    assert result.stdout == ""
    assert (files[0].read_bytes(), model_file.read_bytes()) == before
    assert files_in(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "at least one line"),
        ("1 1:2\n", "line 1: a line must name its query"),
        ("x qid:1 1:2\n", "line 1"),
        ("1 qid:1 1:nan\n", "line 1"),
        ("1 qid:1 1:1\n1 qid:1 1:2\n", "documents of different grades"),
    ],
    ids=["empty", "no query", "no grade", "nan", "one grade"],
)
def test_bad_files_fail_in_one_line_and_leave_the_old_model(call, tmp_path, text, message):
    train, model = tmp_path / "train.txt", tmp_path / "model.json"
    train.write_text(text)
    model.write_text("old")
    assert_failed(call("fit", train, "--model", model), message)
    assert model.read_text() == "old"
    assert files_in(tmp_path) == ["model.json", "train.txt"]


def test_files_that_cannot_be_read_or_written(call, files, model_file, tmp_path):
    absent = tmp_path / "absent.txt"
    assert_failed(call("fit", absent, "-m", tmp_path / "m.json"), f"{absent}: No such")
    assert_failed(call("predict", absent, files[2]), f"{absent}: No such")
    assert_failed(call("evaluate", model_file, absent), f"{absent}: No such")
    nowhere = tmp_path / "nowhere" / "m.json"
    assert_failed(call("fit", files[0], "-m", nowhere), f"{nowhere}: its folder does not")
    out = call("predict", model_file, files[2], "--out", nowhere)
    assert_failed(out, f"{nowhere}: its folder does not")
    assert_failed(call("fit", files[0], "-m", tmp_path), f"{tmp_path}: Is a directory")
    assert files_in(tmp_path) == []


def test_models_that_are_no_rankers(call, files, tmp_path, rng):
    path = tmp_path / "model.json"
    graphs = list(rng.normal(size=(5, 3, 3, 3)))
    MAPMatching().fit(graphs, [[0, 1, 2]] * 5).save(path)
    assert_failed(call("predict", path, files[2]), "it is a MAPMatching, which matches")
    assert_failed(call("evaluate", path, files[2]), "permatch match")
    path.write_text("{}")
    assert_failed(call("predict", path, files[2]), str(path))


def test_closed_standard_input(monkeypatch):
    from permatch.datasets.sources import local_file
    from permatch.errors import LetorFileError

    monkeypatch.setattr("permatch.datasets.sources.sys.stdin", None)
    with (
        pytest.raises(LetorFileError, match="it is closed. Pipe in a file"),
        local_file("-"),
    ):
        pass


# ---- Ctrl-C ------------------------------------------------------------------------------


@pytest.fixture
def interrupt_after(monkeypatch):
    """Press Ctrl-C within the given computation of all scores."""
    from permatch.objectives.ranking import LinearScores

    def interrupt_after(n_evaluations):
        counter = iter(range(1, 10**6))
        scores = LinearScores.scores

        def interrupted(self, coef, *args, **options):
            if next(counter) == n_evaluations:
                signal.raise_signal(signal.SIGINT)
            return scores(self, coef, *args, **options)

        monkeypatch.setattr(LinearScores, "scores", interrupted)

    return interrupt_after


@pytest.mark.parametrize("options", [["-M", "3"], ["--estimator", "dorm"]])
def test_ctrl_c_saves_the_best_model_so_far(
    call, files, tmp_path, interrupt_after, options
):
    path = tmp_path / "m.json"
    interrupt_after(6)
    result = call("fit", files[0], "-m", path, *options, "--alpha", "1e-4")
    assert result.exit_code == INTERRUPTED
    assert result.stdout == ""
    assert "interrupted after" in result.stderr
    assert files_in(tmp_path) == ["m.json"]
    model = load(path)
    assert model.is_converged_ is False
    assert model.coef_[0] > 0 > model.coef_[2]


def test_ctrl_c_before_the_first_step_writes_nothing(
    call, files, tmp_path, interrupt_after
):
    interrupt_after(1)
    result = call("fit", files[0], "-m", tmp_path / "m.json")
    assert result.exit_code == INTERRUPTED
    assert "before the first step; there is no model yet" in result.stderr
    assert files_in(tmp_path) == []


def test_ctrl_c_while_cross_validating(call, files, tmp_path, interrupt_after):
    interrupt_after(6)
    result = call("cv", files[0], "--alphas", "10,1", "--out", tmp_path / "folds.csv")
    assert result.exit_code == INTERRUPTED
    assert result.stderr == "interrupted; nothing was written.\n"
    assert files_in(tmp_path) == []


def test_ctrl_c_keeps_finished_folds(call, files, tmp_path, monkeypatch):
    from permatch.cli.rank import folds

    fit, answers = folds.fit_model, iter([False, False, True])

    def interrupted(*args, **options):
        return next(answers) or fit(*args, **options)

    monkeypatch.setattr(folds, "fit_model", interrupted)
    out = tmp_path / "folds.csv"
    result = call("cv", files[0], "--alpha", "1", "--out", out)
    assert result.exit_code == INTERRUPTED
    assert result.stderr == "interrupted after 2 of 5 folds; only these are reported.\n"
    assert [row["fold"] for row in read_rows(out.read_text())] == ["1", "2"]
    assert "mean" in result.stdout


def test_ctrl_c_while_predicting_leaves_the_old_file(
    call, files, model_file, tmp_path, monkeypatch
):
    predict, n_calls = BaseRanker.predict, 0

    def interrupted(self, *args, **options):
        nonlocal n_calls
        n_calls += 1
        if n_calls == 3:
            raise KeyboardInterrupt
        return predict(self, *args, **options)

    out = tmp_path / "scores.txt"
    out.write_text("old")
    monkeypatch.setattr(BaseRanker, "predict", interrupted)
    monkeypatch.setattr("permatch.cli.rank.scoring._BLOCK_VALUES", 3 * LENGTH)
    result = call("predict", model_file, files[2], "--out", out)
    assert result.exit_code == INTERRUPTED
    assert n_calls == 3
    assert out.read_text() == "old"
    assert files_in(tmp_path) == ["scores.txt"]


# ---- in a process of its own -------------------------------------------------------------


def test_clean_in_a_pipe(files, tmp_path):
    plain = {"FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "COLUMNS"}
    env = {key: value for key, value in os.environ.items() if key not in plain}
    code = "from permatch.cli.rank.commands import rank; rank(prog_name='permatch rank')"

    def run(*args):
        command = [sys.executable, "-c", code, *map(str, args)]
        return subprocess.run(
            command, capture_output=True, text=True, env=env, encoding="utf-8", check=False
        )

    path = tmp_path / "m.json"
    done = run("fit", files[0], "--model", path, "--validation", files[1])
    assert (done.returncode, done.stderr) == (OK, "")
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
    done = run("evaluate", path, files[2])
    assert (done.returncode, done.stderr) == (OK, "")
    done = run("predict", path, files[2], "--format", "trec")
    assert (done.returncode, done.stderr) == (OK, "")
    assert done.stdout.startswith("900 Q0 q900d")


def test_validation_of_data_in_parts_needs_a_search(tmp_path):
    more = ["--model", str(tmp_path / "m.json"), "--from-disk"]
    done = CliRunner().invoke(rank, ["fit", "in", "--validation", "other", *more])
    assert done.exit_code == 2
    assert "--validation only serves to choose alpha" in " ".join(done.stderr.split())
