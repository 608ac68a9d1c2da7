"""``python -m reproduce silhouettes``: what it writes, says, and keeps when stopped."""

import csv
import json
import re

import pytest
from typer.testing import CliRunner

from reproduce.app import app
from reproduce.experiments import read_rows
from reproduce.experiments import silhouette_sample_size as experiment
from reproduce.experiments.silhouette_sample_size import Config

pytest.importorskip("skimage", reason="needs scikit-image (extra 'vision')")
pytest.importorskip("lightgbm", reason="needs LightGBM (extra 'boosting')")
pytest.importorskip("matplotlib", reason="needs matplotlib (extra 'plots')")

runner = CliRunner()


def plain(text):
    """Undo the box around an error and its line breaks."""
    return " ".join(re.sub(r"[^\x20-\x7e]", " ", text).split())


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    """Make ``--quick`` quicker still."""
    monkeypatch.setattr(Config, "quick", Config.tiny)


def test_everything_is_written_and_the_numbers_agree(tmp_path):
    out = tmp_path / "deep" / "folder"
    done = runner.invoke(app, ["silhouettes", "--quick", "--out", str(out)])
    assert done.exit_code == 0, done.output
    names = sorted(path.name for path in out.iterdir())
    assert names == [
        f"silhouettes-quick.{ending}" for ending in ("csv", "json", "jsonl", "png", "svg")
    ]
    rows = read_rows(out / "silhouettes-quick.jsonl")
    assert len(rows) == 14
    with (out / "silhouettes-quick.csv").open(newline="") as file:
        lines = {(line["n"], line["method"]): line for line in csv.DictReader(file)}
    losses = [
        row["hamming_loss"] for row in rows if (row["n"], row["method"]) == (4, "map")
    ]
    mean = float(lines["4", "map"]["mean"])
    assert mean == pytest.approx(sum(losses) / 2)
    found = json.loads((out / "silhouettes-quick.json").read_text())
    (own,) = (x for x in found["summary"] if (x["n"], x["method"]) == (4, "map"))
    assert own["mean"] == pytest.approx(mean)
    assert len(found["effects"]) == 2 + 3  # what is judged or beside it, and of trees
    assert found["config"]["protocol"] == "same-landmarks"
    (line,) = re.findall(r"^ +4 +.*$", done.stdout, re.M)
    assert f"{mean:.3f} +- " in line
    assert done.stderr == ""
    assert (out / "silhouettes-quick.png").read_bytes().startswith(b"\x89PNG")

    again = runner.invoke(
        app, ["silhouettes", "--quick", "--out", str(out), "--repeats", "1"]
    )
    assert again.exit_code == 0
    assert "+-" not in again.stdout.partition("Hamming")[0]
    assert read_rows(out / "silhouettes-quick.jsonl") == rows


def test_ctrl_c_keeps_the_rows_and_says_how_to_go_on(tmp_path, monkeypatch):
    measure, n_measured = experiment.measure, 0

    def interrupted(*args, **options):
        nonlocal n_measured
        n_measured += 1
        if n_measured == 3:
            raise KeyboardInterrupt
        return measure(*args, **options)

    monkeypatch.setattr(experiment, "measure", interrupted)
    arguments = ["silhouettes", "--quick", "--out", str(tmp_path)]
    stopped = runner.invoke(app, arguments)
    assert stopped.exit_code == 130
    assert "2 finished rows are in" in stopped.stderr
    assert "Run the same command again" in stopped.stderr
    assert len(read_rows(tmp_path / "silhouettes-quick.jsonl")) == 2
    resumed = runner.invoke(app, arguments)
    assert resumed.exit_code == 0
    assert n_measured == 3 + 8
    assert len(read_rows(tmp_path / "silhouettes-quick.jsonl")) == 14


def test_another_protocol_has_files_of_its_own(tmp_path):
    options = ["silhouettes", "--quick", "--out", str(tmp_path)]
    done = runner.invoke(app, [*options, "--protocol", "new-landmarks"])
    assert done.exit_code == 0, done.output
    assert "Protocol: new-landmarks" in plain(done.stdout)
    assert (tmp_path / "silhouettes-new-landmarks-quick.csv").exists()
    unknown = runner.invoke(app, [*options, "--protocol", "easy"])
    assert unknown.exit_code == 2
    assert "same-landmarks, new-landmarks, other-silhouette" in plain(unknown.stderr)
    unused = runner.invoke(app, [*options, "--others", str(tmp_path)])
    assert unused.exit_code == 1
    assert "--others is for --protocol other-silhouette" in plain(unused.stderr)


def test_another_image(tmp_path):
    missing = runner.invoke(
        app, ["silhouettes", "--image", str(tmp_path / "none.png"), "-o", str(tmp_path)]
    )
    assert missing.exit_code == 1
    assert "none.png: No such file or directory" in missing.stderr
    text = tmp_path / "notes.txt"
    text.write_text("no picture")
    refused = runner.invoke(app, ["silhouettes", "--image", str(text), "-o", str(tmp_path)])
    assert refused.exit_code == 1
    assert "notes.txt must be an image" in refused.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [(["--jobs", "0"], "all processors"), (["--repeats", "0"], "--repeats")],
)
def test_wrong_usage(options, message):
    done = runner.invoke(app, ["silhouettes", *options])
    assert done.exit_code == 2
    assert message in plain(done.stderr)


def test_a_folder_that_cannot_be_is_refused_at_once(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    done = runner.invoke(app, ["silhouettes", "--out", str(file)])
    assert done.exit_code == 2
    assert "cannot write to" in plain(done.stderr)


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setattr("permatch._optional.find_spec", lambda name: None)
    done = runner.invoke(app, ["silhouettes"])
    assert done.exit_code == 1
    assert "'.[vision]'" in done.stderr
