"""Levels of whole lists next to each other: the lists, the rows, and the command."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from reproduce.app import app
from reproduce.experiments.position_choice import METHODS, OPTIONS, Config, compare, run
from reproduce.experiments.rows import read_rows
from reproduce.experiments.short_lists import Short
from reproduce.tests.letor_folder import write_letor


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder with the results of a quick run."""
    folder = tmp_path_factory.mktemp("quick")
    result = CliRunner().invoke(app, ["positions", "--quick", "--out", str(folder)])
    assert result.exit_code == 0, result.output
    assert "grades ahead by" in result.stdout
    return folder


@pytest.fixture(scope="module")
def rows(folder):
    return read_rows(folder / "positions-quick.jsonl")


def test_lists_are_as_said():
    fold = Short().draw((0, 0))
    train = fold.train
    lengths = np.diff(train.starts)
    assert train.X.shape[1] == 46
    assert (train.X.min(), train.X.max()) == (0.0, 1.0)
    assert (lengths.min(), lengths.max()) == (8, 32)
    assert set(train.y) == {0, 1, 2}
    has_none = np.maximum.reduceat(train.y, train.starts[:-1]) == 0
    assert 0.2 < has_none.mean() < 0.4
    same, other = Short().draw((0, 0)), Short().draw((0, 1))
    np.testing.assert_array_equal(same.test.X, fold.test.X)
    assert other.test.X.shape != fold.test.X.shape or (other.test.X != fold.test.X).any()


def test_rows_are_what_they_say(rows):
    assert [row["method"] for row in rows] == [*METHODS, *METHODS]
    for row in rows:
        assert len(row["values"]) == 15
        assert np.mean(row["values"]) == pytest.approx(np.mean(row["ndcg"]))
    for repeat in (0, 1):
        own = {row["method"]: row for row in rows if row["repeat"] == repeat}
        chosen = own.pop("chosen")
        assert chosen["validation"] == max(row["validation"] for row in own.values())
        assert chosen["values"] == own[chosen["options"]]["values"]


def test_tests_are_paired(rows):
    tests = compare(rows, n_resamples=200)
    assert [test["method"] for test in tests] == [*METHODS[1:]]
    values = {(row["repeat"], row["method"]): np.array(row["values"]) for row in rows}
    for test in tests:
        gaps = [values[k, "grades"] - values[k, test["method"]] for k in (0, 1)]
        assert test["difference"] == pytest.approx(np.mean(gaps))


def test_a_second_run_computes_nothing(folder, rows):
    assert list(run(Config.tiny(), folder / "positions-quick.jsonl")) == rows


def test_results_do_not_tell_where_data_are(folder):
    found = json.loads((folder / "positions-quick.json").read_text())
    assert "data" not in found["config"]
    assert {line["method"] for line in found["summary"]} == set(METHODS)


def test_folds_of_letor(tmp_path):
    config = Config(("ohsumed",), 1, alphas=(0.1, 1.0), data=str(write_letor(tmp_path)))
    rows = list(run(config))
    assert [row["method"] for row in rows] == [*OPTIONS, "chosen"]
    assert all(len(row["ndcg"]) == 10 for row in rows)
