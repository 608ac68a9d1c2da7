"""``permatch match fit --from-disk``: the model is that of the table in memory."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import permatch as pm
from permatch.cli.main import app
from tests.distributed.test_matching_parts import make_table, write

OK = 0


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = make_table(is_square=False, n_graphs=12).rename(columns={"graph": "day"})
    table.to_csv("table.csv", index=False)
    return write(table, tmp_path / "edges", 2)


def run(*arguments):
    return CliRunner().invoke(app, ["match", "fit", *map(str, arguments)])


def test_the_model_is_that_of_the_table(folder):
    more = ["--graph-column", "day", "--features", "x0,x1", "--alpha", "0.1"]
    done = run(folder, "--from-disk", "--model", "disk.json", *more)
    assert done.exit_code == OK, done.stderr
    assert "converged" in done.stdout
    assert run("table.csv", "--model", "memory.json", *more).exit_code == OK
    one, other = pm.load("disk.json"), pm.load("memory.json")
    assert np.allclose(one._weights(), other._weights(), rtol=0.0, atol=1e-6)
    assert one.columns_ == other.columns_
    assert one.feature_names_ == ["x0", "x1"]


def test_how_sure_the_weights_are(folder):
    more = ["--graph-column", "day", "--alpha", "0.1", "--inference", "laplace"]
    done = run(folder, "--from-disk", "--model", "disk.json", *more)
    assert done.exit_code == OK, done.stderr
    assert "95 % posterior interval" in done.stdout
    assert run("table.csv", "--model", "memory.json", *more).exit_code == OK
    one, other = (pm.load(name).posterior_ for name in ("disk.json", "memory.json"))
    np.testing.assert_allclose(one.covariance, other.covariance, rtol=1e-4)


@pytest.mark.filterwarnings("ignore:the chosen alpha")
def test_a_second_table_chooses_alpha(folder):
    later = pd.read_csv("table.csv")
    later[later["day"] >= "g08"].to_csv("later.csv", index=False)
    write(later[later["day"] >= "g08"], folder.parent / "later", 2)
    more = ["--graph-column", "day", "--cv", "--alphas", "1,0.1", "--json"]
    on_disk = run(folder, "--from-disk", "-m", "disk.json", *more, "--valid", "later")
    assert on_disk.exit_code == OK, on_disk.stderr
    in_memory = run("table.csv", "-m", "m.json", *more, "--valid", "later.csv")
    assert in_memory.exit_code == OK, in_memory.stderr
    one, other = json.loads(on_disk.stdout), json.loads(in_memory.stdout)
    scores = [row["score"] for row in other["path"]]
    assert [row["score"] for row in one["path"]] == pytest.approx(scores, rel=1e-6)
    assert one["valid_hamming_loss"] == pytest.approx(other["valid_hamming_loss"])
    plain = run(folder, "--from-disk", "-m", "m.json", *more[:2], "--valid", "later")
    assert plain.exit_code == OK, plain.stderr
    assert "% of validation nodes" in " ".join(plain.stdout.split())
    wrong = run(folder, "--from-disk", "-m", "m.json", *more[:2], "--valid", "later.csv")
    assert "must be a folder of Parquet files; it is a file" in wrong.stderr


def test_a_wrong_second_table_is_refused_before_the_fit(folder):
    bad = pd.read_csv("table.csv")
    write(bad.drop(columns="x1"), folder.parent / "bad", 2)
    write(bad.assign(label=7), folder.parent / "odd", 2)
    more = ["--from-disk", "-m", "m.json", "--graph-column", "day", "--alpha", "1"]
    for name, words in (("bad", "it lacks x1"), ("odd", "label")):
        wrong = run(folder, *more, "--valid", name)
        assert wrong.exit_code == 1, wrong.stdout
        assert words in wrong.stderr
        assert not Path("m.json").exists()
