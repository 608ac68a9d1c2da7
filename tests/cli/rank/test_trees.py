"""``permatch rank --model-kind trees``: from judged lists to trees and rankings."""

import json
import os
import signal

import numpy as np
import pytest
from typer.testing import CliRunner

import permatch as pm
from permatch.boosting.rank_objective import ListLoss
from permatch.cli.rank.commands import rank
from permatch.datasets import read_letor
from tests.boosting.lists import crossed_lists

pytest.importorskip("lightgbm")

OK, FAILURE, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130
SMALL = ["--model-kind", "trees", "--rounds", 8, "--min-in-leaf", 5]


def write_lists(path, seed, n_queries):
    X, y, qid = crossed_lists(seed, n_queries)
    lines = [
        f"{grade} qid:{query} " + " ".join(f"{k}:{v:.3f}" for k, v in enumerate(row, 1))
        for grade, query, row in zip(y, qid, X, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A training, a validation and a test file."""
    folder = tmp_path_factory.mktemp("letor")
    names = {"train": 24, "vali": 10, "test": 10}
    return [
        write_lists(folder / f"{name}.txt", seed, n)
        for seed, (name, n) in enumerate(names.items())
    ]


@pytest.fixture
def call():
    """Run a command in this process."""
    return lambda *args, **options: CliRunner().invoke(rank, [*map(str, args)], **options)


@pytest.fixture(scope="module")
def model_file(files, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model.json"
    args = ["fit", files[0], "-m", path, *SMALL, "--leaves", 6]
    result = CliRunner().invoke(rank, [*map(str, args)])
    assert result.exit_code == OK, result.output
    return path


def test_fit_is_that_of_the_library(call, files, tmp_path):
    path = tmp_path / "model.json"
    options = ["--leaves", 6, "--learning-rate", 0.3, "--leaf-penalty", 1, "--seed", 3]
    result = call("fit", files[0], "-m", path, *SMALL, *options, "--json")
    assert result.exit_code == OK, result.output
    assert result.stderr == ""
    summary = json.loads(result.stdout)
    data = read_letor(files[0])
    direct = pm.BoostedRankMatch(
        num_leaves=6, n_rounds=8, min_data_in_leaf=5, learning_rate=0.3, lambda_l2=1.0,
        random_state=3,
    ).fit(data.X, data.y, qid=data.qid)  # fmt: skip
    model = pm.load(path)
    assert model.trees_ == direct.trees_
    assert model.verbose is False
    assert summary["estimator"] == "BoostedRankMatch"
    assert (summary["num_leaves"], summary["n_rounds"]) == (6, 8)
    assert summary["is_servable"] is True
    assert summary["forms"] == {"exact": 24, "profile": 0, "skipped": 0}
    shares = [row["share"] for row in summary["importances"]]
    np.testing.assert_allclose(shares, direct.feature_importances_)
    assert summary["measures"]["train"]["NDCG@10"] > 0.8


def test_report_for_people(call, files, tmp_path):
    text = call("fit", files[0], "-m", tmp_path / "m.json", *SMALL).stdout
    assert "8 trees of up to 31 leaves" in text
    assert "share of gain" in text
    assert "feature 2" in text


def test_a_second_file_ends_the_training(call, files, tmp_path):
    path = tmp_path / "model.json"
    options = ["--rounds", 300, "--patience", 3, "--json"]
    result = call("fit", files[0], "-m", path, *SMALL, *options, "--valid", files[1])
    assert result.exit_code == OK, result.output
    summary = json.loads(result.stdout)
    assert summary["n_rounds"] < 300
    assert summary["scoring"] == "MeanNDCG@10"
    assert set(summary["measures"]) == {"train", "validation"}
    model = pm.load(path)
    assert model.best_score_ == summary["score"]
    assert len(model.history_) == model.n_rounds_ + 3


@pytest.mark.filterwarnings("ignore:the score on held-out")
def test_leaves_are_chosen(call, files, tmp_path):
    path = tmp_path / "model.json"
    options = ["--cv", "--folds", 3, "--leaves", "2,6"]
    arguments = ["fit", files[0], "-m", path, *SMALL, *options]
    result = call(*arguments, "--json")
    assert result.exit_code == OK, result.output
    summary = json.loads(result.stdout)
    assert summary["estimator"] == "BoostedRankMatchCV"
    assert [row["num_leaves"] for row in summary["path"]] == [2, 6]
    assert summary["n_splits"] == 3
    assert pm.load(path).num_leaves_ == summary["num_leaves"]
    text = call(*arguments).stdout
    assert "leaves tried, MeanNDCG@10 on 3 folds" in text
    assert "chosen" in text


def test_models_are_used_like_others(call, files, model_file, tmp_path):
    model, data = pm.load(model_file), read_letor(files[2])
    result = call("predict", model_file, files[2])
    np.testing.assert_allclose(
        np.array(result.stdout.split(), dtype=float), model.predict(data.X)
    )
    assert result.stderr == ""
    found = json.loads(call("evaluate", model_file, files[2], "--json").stdout)
    (ndcg,) = [m["mean"] for m in found["measures"] if m["measure"] == "NDCG@10"]
    assert ndcg == pytest.approx(model.score(data.X, data.y, data.qid))
    page = tmp_path / "page.html"
    result = call("show", model_file, files[2], "--query", 3, "--out", page)
    assert result.exit_code == OK, result.output
    assert "exact probabilities" in result.stdout
    assert "BoostedRankMatch" in page.read_text(encoding="utf-8")
    for system in ("onnx", "solr", "elasticsearch"):
        out = tmp_path / system
        result = call("export", model_file, "--to", system, "--out", out)
        assert result.exit_code == OK, result.output
        assert out.stat().st_size > 0


def test_cross_validation(call, files, tmp_path):
    out = tmp_path / "folds.csv"
    result = call("cv", files[0], *SMALL, "--leaves", "2,6", "--folds", 3, "--out", out)
    assert result.exit_code == OK, result.output
    assert "rankmatch with trees" in result.stdout
    assert "leaves and trees chosen" in " ".join(result.stdout.split())
    more = [*SMALL, "--folds", 3, "--against", "rankmatch"]
    result = call("cv", files[0], *more, env={"COLUMNS": "80"})
    assert "rankmatch with trees against rankmatch" in result.stdout
    assert "…" not in result.stdout
    result = call("cv", files[0], "--folds", 3, "--alpha", 1, "--against", "trees")
    assert "rankmatch against rankmatch with trees" in result.stdout
    heads = out.read_text().splitlines()[0].split(",")
    assert heads[:7] == [
        "fold", "n_train", "n_validation", "n_test", "leaves", "trees", "is_converged",
    ]  # fmt: skip


def test_a_feature_that_no_tree_uses_may_be_missing(call, files, model_file, tmp_path):
    few = tmp_path / "few.txt"
    few.write_text("1 qid:1 1:0.5 2:1\n0 qid:1 1:-0.5 2:1\n")
    model = pm.load(model_file)
    assert (model.feature_importances_[2] > 0) == (
        "has no feature beyond 2" in call("predict", model_file, few).stderr
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--alpha", 1], "--alpha has no effect with --model-kind trees"),
        (["--cv", "--alphas", "1,2"], "--alphas has no effect with --model-kind trees"),
        (["--estimator", "dorm"], "--model-kind trees needs --estimator rankmatch"),
        (["--subset-size", 3], "--subset-size has no effect"),
        (["--n-subsets", 1], "--n-subsets has no effect"),
        (["--position-weights", "dcg"], "--position-weights has no effect"),
        (["--max-iter", 9], "--max-iter has no effect"),
        (["--leaves", "2,6"], "several --leaves to choose from need --cv"),
        (["--leaves", "1"], "numbers of at least 2"),
        (["--leaves", "many"], "numbers of at least 2"),
        (["--learning-rate", 0], "finite number above 0"),
        (["--from-disk"], "trees learn from data in memory"),
        (["--model-kind", "linear"], "--rounds needs --model-kind trees"),
        (["--model-kind", "forest"], "'forest' is not one of 'linear', 'trees'"),
    ],
    ids=str,
)
def test_wrong_usage(options, message, call, files, tmp_path):
    result = call("fit", files[0], "-m", tmp_path / "m.json", *SMALL, *options)
    assert result.exit_code == WRONG_USAGE, result.output
    assert message in " ".join(result.stderr.split())
    assert not list(tmp_path.iterdir())


def test_without_lightgbm(call, files, tmp_path, monkeypatch):
    monkeypatch.setattr("permatch._optional.find_spec", lambda name: None)
    result = call("fit", files[0], "-m", tmp_path / "m.json", *SMALL)
    assert result.exit_code == FAILURE
    assert (
        "--model-kind trees needs lightgbm: install the extra 'boosting'" in result.stderr
    )


def test_damaged_models_are_refused(call, files, model_file, tmp_path):
    path = tmp_path / "model.json"
    path.write_text(model_file.read_text().replace("num_leaves=6", "num_leaves=66", 1))
    result = call("predict", path, files[2])
    assert result.exit_code == FAILURE
    assert "is damaged: the value of trees_ cannot be read" in result.stderr


@pytest.mark.parametrize(
    ("options", "n_rounds", "when"),
    [
        (["--leaves", 4], 3, "interrupted after 3 rounds"),
        (["--leaves", "2,4", "--cv", "--folds", 2], 12, "interrupted after trying 2"),
    ],
    ids=["fit", "cv"],
)
def test_ctrl_c_writes_the_best_model_so_far(
    options, n_rounds, when, call, files, tmp_path, monkeypatch
):
    n_left, derivatives = n_rounds * (1 + ("--cv" in options)), ListLoss.derivatives

    def interrupted(self, scores):
        nonlocal n_left
        n_left -= 1
        if n_left < 0:
            os.kill(os.getpid(), signal.SIGINT)
        return derivatives(self, scores)

    monkeypatch.setattr(ListLoss, "derivatives", interrupted)
    path = tmp_path / "model.json"
    result = call("fit", files[0], "-m", path, *SMALL, *options)
    assert result.exit_code == INTERRUPTED, result.output
    assert when in result.stderr
    assert pm.load(path).is_converged_ is False
