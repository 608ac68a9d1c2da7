"""``python -m reproduce all``: one page of everything, whenever it was interrupted."""

import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from reproduce.app import app
from reproduce.experiments import cmu_house, read_rows
from reproduce.experiments.outcomes import CLAIMS
from reproduce.experiments.rows import RowFile
from reproduce.tests.paper_run import make_tiny, shared_html, shared_json

pytest.importorskip("skimage", reason="needs scikit-image (extra 'vision')")
pytest.importorskip("matplotlib", reason="needs matplotlib (extra 'plots')")

# Wide enough for every table.
runner = CliRunner(env={"COLUMNS": "140"})

STEMS = ("silhouettes", "house", "ohsumed", "ohsumed-sample-size", "runtime")


def plain(text):
    """Undo the box around an error and its line breaks."""
    return " ".join(re.sub(r"[^\x20-\x7e]", " ", text).split())


def reproduce(out, data=None, command="all"):
    where = [] if data is None else ["--data", str(data)]
    return runner.invoke(app, [command, "--quick", "--out", str(out), *where])


def n_rows(folder):
    return sum(len(read_rows(path)) for path in folder.glob("*.jsonl"))


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    make_tiny(monkeypatch)


@pytest.fixture
def copy(finished, tmp_path):
    return Path(shutil.copytree(finished, tmp_path / "copy"))


def assert_same(folder, finished):
    assert shared_html(folder / "paper-quick.html") == shared_html(
        finished / "paper-quick.html"
    )
    assert shared_json(folder / "paper-quick.json") == shared_json(
        finished / "paper-quick.json"
    )
    assert not list(folder.glob(".*"))


# ---- an undisturbed run ------------------------------------------------------------------


def test_everything_is_written(finished):
    names = {path.name for path in finished.iterdir()}
    for stem in STEMS:
        for ending in ("jsonl", "csv", "png", "svg"):
            assert f"{stem}-quick.{ending}" in names
    assert {"house-quick.html", "ohsumed-quick.html", "paper-quick.html"} <= names
    content = json.loads((finished / "paper-quick.json").read_text())
    assert content["is_quick"] is True
    found = {part["id"]: part for part in content["experiments"]}
    assert found.keys() == CLAIMS.keys()
    absent = [name for name in found if found[name]["verdict"] == "not run: no data"]
    assert absent == ["figure-2-td2004", "figure-2-td2003"]
    text = (finished / "stdout.txt").read_text()
    assert "verdict on the claim" in text  # the house is not the paper's
    assert f"Written: {finished}/paper-quick.{{html, json}}" in text
    for part in found.values():
        lines = re.findall(rf"^{re.escape(part['source'])} .*$", text, re.M)
        assert any(part["verdict"] in line for line in lines)
        if part["id"] in absent:
            assert f"No {part['id'][-6:].upper()} folder of LETOR" in part["reason"]
            assert "Fold1 to Fold5" in part["reason"]
            continue
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", part["date"])
        assert part["seconds"] >= 0
        assert part["summary"]
        assert "data" not in part["config"]
        assert part["effects"]


def test_a_second_run_computes_nothing_and_changes_nothing(copy, data, monkeypatch):
    monkeypatch.setattr(RowFile, "add", lambda *args: pytest.fail("a row was computed"))
    before = {
        name: (copy / name).read_bytes()
        for name in ("paper-quick.html", "paper-quick.json")
    }
    assert reproduce(copy, data).exit_code == 0
    assert {name: (copy / name).read_bytes() for name in before} == before


def test_rows_are_shared_with_the_single_commands(copy, data, tmp_path, monkeypatch):
    alone = tmp_path / "alone"
    assert reproduce(alone, data, "house").exit_code == 0
    rows = read_rows(alone / "house-quick.jsonl")
    measure = cmu_house._measure
    monkeypatch.setattr(cmu_house, "_measure", lambda *args: pytest.fail("not used"))
    for path in copy.glob("*.jsonl"):
        if path.name != "house-quick.jsonl":
            shutil.copy(path, alone)
    assert reproduce(alone, data).exit_code == 0
    assert read_rows(alone / "house-quick.jsonl") == rows
    assert reproduce(copy, data, "house").exit_code == 0  # and the other way round
    monkeypatch.setattr(cmu_house, "_measure", measure)


def test_one_bar_names_what_runs(copy, data, monkeypatch):
    from rich.console import Console

    screen = io.StringIO()
    monkeypatch.setattr(
        "reproduce.commands.steps.Console",
        lambda stderr: Console(file=screen, force_terminal=True, width=100),
    )
    shares = []
    monkeypatch.setattr(
        "rich.progress.Progress.update",
        lambda self, task, completed, description: shares.append((completed, description)),
    )
    assert reproduce(copy, data).exit_code == 0
    done = [round(share, 9) for share, _ in shares]
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0.0, 1.0)
    titles = list(dict.fromkeys(title for _, title in shares))
    assert titles == ["OHSUMED", "silhouettes", "OHSUMED sample size", "run times", "house"]


# ---- interruptions -----------------------------------------------------------------------


@pytest.mark.slow
def test_ctrl_c_at_random_rows_gives_the_same_page(data, finished, tmp_path, monkeypatch):
    add, rng = RowFile.add, random.Random(0)
    patience = 0

    def interrupted(self, row):
        nonlocal patience
        patience -= 1
        if patience == 0:
            if rng.random() < 0.5:  # before or after it is kept
                add(self, row)
            raise KeyboardInterrupt
        add(self, row)

    monkeypatch.setattr(RowFile, "add", interrupted)
    for _ in range(100):
        patience = rng.randint(2, 60)
        done = reproduce(tmp_path, data)
        if done.exit_code == 0:
            break
        assert done.exit_code == 130
        assert done.stderr.count("\n") == 1
        assert f"{n_rows(tmp_path)} finished rows are in {tmp_path}" in done.stderr
        assert "Run the same command again" in done.stderr
    assert n_rows(tmp_path) == n_rows(finished)
    assert_same(tmp_path, finished)


def test_ctrl_c_while_writing_leaves_whole_files(copy, data, finished, monkeypatch):
    with monkeypatch.context() as context:
        context.setattr(
            "permatch.pages.html.resource",
            lambda name: (_ for _ in ()).throw(KeyboardInterrupt),
        )
        assert reproduce(copy, data).exit_code == 130
    assert_same(copy, finished)


@pytest.mark.slow
def test_a_killed_run_gives_the_same_page(data, finished, tmp_path):
    command = [
        sys.executable,
        "-m",
        "reproduce.tests.paper_run",
        "all",
        "--quick",
    ]
    command += ["--data", str(data), "--out", str(tmp_path)]
    environment = {name: os.environ[name] for name in os.environ if name != "PERMATCH_DATA"}
    root = Path(__file__).parents[2]
    wanted = 23
    with subprocess.Popen(
        command, cwd=root, env=environment, stdout=subprocess.DEVNULL
    ) as process:
        while process.poll() is None and n_rows(tmp_path) < wanted:
            time.sleep(0.01)
        process.kill()
    assert wanted <= n_rows(tmp_path)
    assert reproduce(tmp_path, data).exit_code == 0
    assert_same(tmp_path, finished)


# ---- what is missing or wrong ------------------------------------------------------------


def test_without_data_the_silhouettes_still_run(tmp_path):
    done = reproduce(tmp_path)
    assert done.exit_code == 0, done.output
    assert "set its location with --data DIR or PERMATCH_DATA" in plain(done.stdout)
    content = json.loads((tmp_path / "paper-quick.json").read_text())
    for part in content["experiments"]:
        is_run = part["id"] == "figure-3-left"
        assert (part["verdict"] != "not run: no data") == is_run
        if not is_run:
            assert "--data DIR, or set PERMATCH_DATA to DIR" in part["reason"]
    assert [path.name for path in tmp_path.glob("*.jsonl")] == ["silhouettes-quick.jsonl"]


def test_the_page_holds_no_folder_of_this_machine(finished, data, tmp_path, monkeypatch):
    for folder in (tmp_path / "given", tmp_path / "set"):
        folder.mkdir()
    monkeypatch.setenv("PERMATCH_DATA", str(tmp_path / "set"))
    for out, where in (("a", tmp_path / "given"), ("b", None)):
        assert reproduce(tmp_path / out, where).exit_code == 0
    for folder in (finished, tmp_path / "a", tmp_path / "b"):
        for ending in ("html", "json"):
            text = (folder / f"paper-quick.{ending}").read_text(encoding="utf-8")
            for place in (data, tmp_path, finished, Path.home()):
                assert str(place) not in text


def test_damaged_rows_are_told_before_anything_runs(data, tmp_path, monkeypatch):
    monkeypatch.setattr(RowFile, "add", lambda *args: pytest.fail("a row was computed"))
    (tmp_path / "house-quick.jsonl").write_text("no JSON\n")
    done = reproduce(tmp_path, data)
    assert done.exit_code == 1
    assert "house-quick.jsonl must contain rows of this experiment" in done.stderr


def test_a_folder_that_cannot_be_is_refused_at_once(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    done = reproduce(file)
    assert done.exit_code == 2
    assert "cannot write to" in plain(done.stderr)


def test_a_data_folder_that_is_not_there_is_wrong_usage(tmp_path):
    done = reproduce(tmp_path, tmp_path / "none")
    assert done.exit_code == 2
    assert "--data" in plain(done.stderr)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("permatch._optional.find_spec", lambda name: None)
    done = reproduce(tmp_path)
    assert done.exit_code == 1
    assert "'.[vision]'" in done.stderr


def test_help_teaches():
    done = runner.invoke(app, ["all", "--help"])
    assert done.exit_code == 0
    for word in ("--data", "PERMATCH_DATA", "--quick", "Examples", "paper.html", "--debug"):
        assert word in plain(done.stdout)
