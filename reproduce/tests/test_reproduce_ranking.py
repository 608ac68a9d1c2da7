"""``python -m reproduce ohsumed`` and its sisters: what they write, say and refuse."""

import csv
import re

import pytest
from typer.testing import CliRunner

from reproduce.app import app
from reproduce.experiments import ohsumed, ohsumed_sample_size, rank_runtime, read_rows
from reproduce.experiments.ranking_summary import summarise
from reproduce.experiments.rival_fits import RUN
from reproduce.tests.letor_folder import write_letor, write_published

pytest.importorskip("matplotlib", reason="needs matplotlib (extra 'plots')")

# Wide enough for every table.
runner = CliRunner(env={"COLUMNS": "140"})


def plain(text):
    """Undo the box around an error and its line breaks."""
    return " ".join(re.sub(r"[^\x20-\x7e]", " ", text).split())


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    """Make ``--quick`` quicker still, and forget where real data is."""
    monkeypatch.delenv("PERMATCH_DATA", raising=False)
    for module in (ohsumed, ohsumed_sample_size, rank_runtime):
        monkeypatch.setattr(module.Config, "quick", module.Config.tiny)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_published(write_letor(tmp_path_factory.mktemp("data")))


def read_csv(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_ohsumed_writes_everything_and_the_numbers_agree(root, tmp_path, monkeypatch):
    monkeypatch.setenv("PERMATCH_DATA", str(root))
    done = runner.invoke(app, ["ohsumed", "--quick", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [
        f"ohsumed-quick.{end}" for end in ("csv", "html", "jsonl", "png", "svg")
    ]
    rows = read_rows(tmp_path / "ohsumed-quick.jsonl")
    lines = {line["method"]: line for line in read_csv(tmp_path / "ohsumed-quick.csv")}
    assert list(lines) == [
        "rankmatch",
        "rankmatch_list",
        "dorm",
        "ridge",
        *RUN,
        "rankboost_published",
        "ranksvm_published",
    ]
    for line in summarise(rows):
        assert float(lines[line["method"]]["mean"]) == pytest.approx(line["mean"])
        assert f"{line['mean']:.4f}" in done.stdout
        assert f"{line['ndcg'][9]:.4f}" in done.stdout
    assert lines["rankmatch"]["p_holm"] == lines["ranksvm_published"]["p_holm"] == ""
    assert float(lines["dorm"]["p_holm"]) >= float(lines["dorm"]["p_value"])
    assert "15 queries" in plain(done.stdout)
    assert float(lines["frank"]["fit_seconds"]) > 0
    assert "Not run: C-CRF-style, which needs similarities" in plain(done.stdout)
    assert re.search(r"RankSVM is [+-]0\.\d{4} from its published mean", plain(done.stdout))
    again = runner.invoke(
        app, ["ohsumed", "--quick", "--out", str(tmp_path), "--repeats", "1"]
    )
    assert again.exit_code == 0
    assert "+-" not in again.stdout.partition("NDCG with")[0]


def test_another_data_set(tmp_path):
    root = write_letor(tmp_path / "data", "TD2004", n_grades=2)
    out = tmp_path / "out"
    arguments = ["--data", str(root), "--dataset", "td2004", "--quick", "--out", str(out)]
    done = runner.invoke(app, ["ohsumed", *arguments])
    assert done.exit_code == 0, done.output
    assert "RankMatch, all pairs" in done.stdout
    assert (out / "td2004-quick.html").exists()
    done = runner.invoke(app, ["ohsumed-sample-size", *arguments])
    assert done.exit_code == 0, done.output
    assert (out / "td2004-sample-size-quick.jsonl").exists()


def test_sample_sizes(root, tmp_path):
    done = runner.invoke(
        app,
        ["ohsumed-sample-size", "--quick", "--data", str(root), "--out", str(tmp_path)],
    )
    assert done.exit_code == 0, done.output
    lines = read_csv(tmp_path / "ohsumed-sample-size-quick.csv")
    methods = [line["method"] for line in lines[:3]]
    assert methods == ["rankmatch", "dorm", "rankmatch - dorm"]
    for line in lines:
        assert f"{float(line['mean']):.3f} +- {float(line['spread']):.3f}" in done.stdout
    assert (tmp_path / "ohsumed-sample-size-quick.svg").exists()


def test_run_times(root, tmp_path):
    arguments = ["runtime", "--quick", "--data", str(root), "--out", str(tmp_path)]
    done = runner.invoke(app, [*arguments, "--jobs", "2"])
    assert done.exit_code == 0, done.output
    lines = read_csv(tmp_path / "runtime-quick.csv")
    assert [line["size"] for line in lines] == ["3", "9", "all"]
    assert "0.666 ms" in done.stdout  # of the paper
    assert "2 threads" in done.stdout


def test_ctrl_c_keeps_the_rows_and_says_how_to_go_on(root, tmp_path, monkeypatch):
    measure, n_measured = ohsumed._measure, 0

    def interrupted(*args):
        nonlocal n_measured
        n_measured += 1
        if n_measured == 3:
            raise KeyboardInterrupt
        return measure(*args)

    monkeypatch.setattr(ohsumed, "_measure", interrupted)
    arguments = ["ohsumed", "--quick", "--data", str(root), "--out", str(tmp_path)]
    stopped = runner.invoke(app, arguments)
    assert stopped.exit_code == 130
    assert "2 finished rows are in" in stopped.stderr
    assert "Run the same command again" in stopped.stderr
    assert runner.invoke(app, arguments).exit_code == 0
    n_rows = len(read_rows(tmp_path / "ohsumed-quick.jsonl"))
    assert n_measured == n_rows + 1  # the one that was stopped twice


@pytest.mark.parametrize("command", ["ohsumed", "ohsumed-sample-size", "runtime"])
def test_absent_data_is_explained(command, tmp_path):
    done = runner.invoke(app, [command, "--out", str(tmp_path)])
    assert done.exit_code == 1
    assert "--data DIR or set PERMATCH_DATA" in done.stderr
    done = runner.invoke(app, [command, "--out", str(tmp_path), "--data", str(tmp_path)])
    assert done.exit_code == 1
    assert "OHSUMED" in done.stderr
    assert "Set --data to" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--jobs", "0"], "all processors"),
        (["--repeats", "0"], "--repeats"),
        (["--dataset", "MQ2007"], "is not one of OHSUMED, TD2003, TD2004"),
        (["--seed", "-1"], "--seed"),
    ],
    ids=["jobs", "repeats", "dataset", "seed"],
)
def test_wrong_usage(options, message):
    done = runner.invoke(app, ["ohsumed", *options])
    assert done.exit_code == 2
    assert message in plain(done.stderr)


@pytest.mark.parametrize("command", ["ohsumed", "ohsumed-sample-size", "runtime"])
def test_help_teaches(command):
    done = runner.invoke(app, [command, "--help"])
    assert done.exit_code == 0
    text = plain(done.stdout)
    for word in ("--data", "PERMATCH_DATA", "--quick", "Examples", "the paper's"):
        assert word in text


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setattr("permatch._optional.find_spec", lambda name: None)
    done = runner.invoke(app, ["ohsumed"])
    assert done.exit_code == 1
    assert "'.[plots]'" in done.stderr
