"""``permatch match --model-kind trees``: from labelled pairs to trees and links."""

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import permatch as pm
from permatch.cli.match.commands import match
from permatch.datasets import read_edge_table

pytest.importorskip("lightgbm")

OK, FAILURE, WRONG_USAGE = 0, 1, 2
SMALL = ["--model-kind", "trees", "--rounds", 8, "--min-in-leaf", 5]
SIZE = 4


def write_pairs(path, seed, n_graphs):
    """Write graphs whose matches are told by the product of two features."""
    rng = np.random.default_rng(seed)
    rows = [["graph", "a", "b", "label", "one", "two"]]
    for g in range(n_graphs):
        x = rng.normal(size=(SIZE, SIZE, 2)).round(3)
        partner = pm.best_matching(x[..., 0] * x[..., 1])
        rows += [
            [g, f"a{i}", f"b{j}", int(partner[i] == j), *x[i, j]]
            for i in range(SIZE)
            for j in range(SIZE)
        ]
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


COLUMNS = ["--left-column", "a", "--right-column", "b"]


def read(path):
    return read_edge_table(path, graph="graph", left="a", right="b", label="label")


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """A training, a validation and a test table."""
    folder = tmp_path_factory.mktemp("pairs")
    sizes = {"train": 40, "valid": 15, "test": 15}
    return [
        write_pairs(folder / f"{name}.csv", seed, n)
        for seed, (name, n) in enumerate(sizes.items())
    ]


@pytest.fixture
def call():
    """Run a command in this process."""
    return lambda *args: CliRunner().invoke(match, [*map(str, args)])


@pytest.fixture(scope="module")
def model_file(tables, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model.json"
    args = ["fit", tables[0], "-m", path, *COLUMNS, *SMALL, "--leaves", 6]
    result = CliRunner().invoke(match, [*map(str, args)])
    assert result.exit_code == OK, result.output
    return path


def answer(result):
    assert result.exit_code == OK, result.output
    return json.loads(result.stdout)


def test_fit_is_that_of_the_library(call, tables, tmp_path):
    path = tmp_path / "model.json"
    options = ["--leaves", 6, "--learning-rate", 0.3, "--leaf-penalty", 1, "--seed", 3]
    summary = answer(
        call("fit", tables[0], "-m", path, *COLUMNS, *SMALL, *options, "--json")
    )
    data = read(tables[0])
    direct = pm.BoostedMatching(
        num_leaves=6, n_rounds=8, min_data_in_leaf=5, learning_rate=0.3, lambda_l2=1.0,
        random_state=3,
    ).fit(data.graphs, data.matchings, feature_names=["one", "two"])  # fmt: skip
    model = pm.load(path)
    assert model.trees_ == direct.trees_
    assert model.verbose is False
    assert summary["estimator"] == "BoostedMatching"
    assert (summary["num_leaves"], summary["n_rounds"]) == (6, 8)
    assert summary["unmatched"] == "larger"
    assert [row["feature"] for row in summary["importances"]] == ["one", "two"]
    shares = [row["share"] for row in summary["importances"]]
    np.testing.assert_allclose(shares, direct.feature_importances_)
    assert summary["hamming_loss"] == 1.0 - direct.score(data.graphs, data.matchings)


def test_report_for_people(call, tables, tmp_path):
    result = call("fit", tables[0], "-m", tmp_path / "m.json", *COLUMNS, *SMALL)
    text = " ".join(result.stdout.split())
    assert "8 trees of up to 31 leaves, engine auto" in text
    assert "share of gain" in text
    assert "Hamming loss" in text


def test_a_second_table_ends_the_training(call, tables, tmp_path):
    path = tmp_path / "model.json"
    options = ["--rounds", 300, "--patience", 3, "--learning-rate", 0.5, "--json"]
    arguments = ["fit", tables[0], "-m", path, *COLUMNS, *SMALL, *options]
    summary = answer(call(*arguments, "--valid", tables[1]))
    assert summary["n_rounds"] < 300
    data = read(tables[1])
    model = pm.load(path)
    assert summary["valid_hamming_loss"] == 1.0 - model.score(data.graphs, data.matchings)
    assert len(model.history_) == model.n_rounds_ + 3


@pytest.mark.filterwarnings("ignore:the score on held-out")
@pytest.mark.parametrize("scoring", ["log-likelihood", "hamming"])
def test_leaves_are_chosen(call, tables, tmp_path, scoring):
    path = tmp_path / "model.json"
    options = ["--cv", "--folds", 3, "--leaves", "2,6", "--scoring", scoring]
    arguments = ["fit", tables[0], "-m", path, *COLUMNS, *SMALL, *options]
    summary = answer(call(*arguments, "--json"))
    assert summary["estimator"] == "BoostedMatchingCV"
    assert [row["num_leaves"] for row in summary["path"]] == [2, 6]
    assert summary["n_splits"] == 3
    assert pm.load(path).num_leaves_ == summary["num_leaves"]
    text = call(*arguments).stdout
    sign = "minus " if scoring == "hamming" else ""
    assert f"leaves tried, {sign}{scoring} of 3 folds" in text
    assert "chosen" in text


def test_predict_and_evaluate_agree_with_the_library(call, tables, model_file):
    data, model = read(tables[2]), pm.load(model_file)
    summary = answer(call("evaluate", model_file, tables[2], "--json"))
    loss = 1.0 - model.score(data.graphs, data.matchings)
    assert summary["hamming_loss"] == pytest.approx(loss)
    assert summary["log_likelihood"] == pytest.approx(
        model.log_likelihood(data.graphs, data.matchings)
    )
    result = call("predict", model_file, tables[2])
    assert result.exit_code == OK, result.output
    rows = list(csv.DictReader(result.stdout.splitlines()))
    assert list(rows[0])[:3] == ["graph", "a", "b"]
    links = [(row["a"], row["b"]) for row in rows if row["graph"] == "0"]
    partner = model.predict(data.graphs[:1])[0]
    assert set(links) == {(f"a{i}", f"b{j}") for i, j in enumerate(partner)}


@pytest.mark.filterwarnings("ignore:the score on held-out")
def test_cross_validation(call, tables, tmp_path):
    out = tmp_path / "folds.csv"
    arguments = ["cv", tables[0], *COLUMNS, *SMALL, "--leaves", "2,6", "--folds", 3]
    summary = answer(call(*arguments, "--out", out, "--json"))
    assert summary["estimator"] == "map with trees"
    assert {row["leaves"] for row in summary["folds"]} <= {2, 6}
    assert all(1 <= row["trees"] <= 8 for row in summary["folds"])
    with open(out, encoding="utf-8") as file:
        assert [row["trees"] for row in csv.DictReader(file)] == [
            str(row["trees"]) for row in summary["folds"]
        ]
    text = " ".join(call(*arguments).stdout.split())
    assert "leaves and trees chosen on its validation part" in text


def test_the_page_of_a_graph(call, tables, model_file, tmp_path):
    out = tmp_path / "match.html"
    result = call("show", model_file, tables[2], "--graph", "3", "--out", out)
    assert result.exit_code == OK, result.output
    text = out.read_text(encoding="utf-8")
    assert "BoostedMatching" in text
    for name in ("one", "two", "a0", "b3"):
        assert name in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--alpha", "0.1"], "--alpha has no effect with --model-kind trees"),
        (["--cv", "--alphas", "1,2"], "--alphas has no effect with --model-kind trees"),
        (["--prior-coef", "1"], "--prior-coef has no effect with --model-kind trees"),
        (["--non-negative"], "--non-negative has no effect with --model-kind trees"),
        (["--non-positive"], "--non-positive has no effect with --model-kind trees"),
        (["--max-iter", "3"], "--max-iter has no effect with --model-kind trees"),
        (["--inference", "laplace"], "--inference needs --model-kind linear"),
        (["--estimator", "max-margin"], "--model-kind trees needs --estimator map"),
        (["--leaves", "2,6"], "several --leaves to choose from need --cv"),
        (["--from-disk"], "trees learn from data in memory"),
    ],
)
def test_options_that_trees_do_not_have(call, tables, tmp_path, options, message):
    path = tmp_path / "m.json"
    result = call("fit", tables[0], "-m", path, *COLUMNS, *SMALL, *options)
    assert result.exit_code == WRONG_USAGE
    assert message in " ".join(result.stderr.replace("│", " ").split())
    assert not path.exists()


def test_options_of_trees_need_trees(call, tables, tmp_path):
    result = call("fit", tables[0], "-m", tmp_path / "m.json", "--leaves", 4)
    assert result.exit_code == WRONG_USAGE
    assert "--leaves needs --model-kind trees" in result.stderr


def test_cv_refuses_a_penalty(call, tables):
    result = call("cv", tables[0], *COLUMNS, *SMALL, "--alpha", 0.1)
    assert result.exit_code == WRONG_USAGE
    assert "--alpha has no effect with --model-kind trees" in " ".join(
        result.stderr.replace("│", " ").split()
    )
