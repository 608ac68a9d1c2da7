"""``permatch match fit --from-disk``: the model is that of the table in memory."""

import numpy as np
import pytest
from typer.testing import CliRunner

import permatch as pm
from permatch.cli.main import app
from tests.distributed.test_matching_parts import make_table, write

OK, WRONG_USAGE = 0, 2


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


def test_a_second_table_needs_memory(folder):
    done = run(folder, "--from-disk", "--model", "m.json", "--valid", "table.csv")
    assert done.exit_code == WRONG_USAGE
    assert "choose alpha with --cv" in " ".join(done.stderr.split())
