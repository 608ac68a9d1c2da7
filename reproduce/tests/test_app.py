"""``python -m reproduce`` itself: what it runs when nothing is named, and its examples."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from reproduce.app import PROGRAM, app
from tests.test_examples import examples_in, help_texts

ROOT = Path(__file__).parents[2]
HELP = {name: text for name, _, text in help_texts(get_command(app), (PROGRAM,))}
EXAMPLES = [line for text in HELP.values() for line in examples_in(text)]


def stubbed(seen):
    """Return the program with commands that note their options and do nothing else."""
    group = get_command(app)
    for name, command in group.commands.items():
        command.callback = lambda name=name, **options: seen.append((name, options))
    return group


def call(words):
    """Return which command ran, and its options."""
    seen = []
    with pytest.raises(SystemExit) as left:
        stubbed(seen).main(words, prog_name=PROGRAM)
    assert not left.value.code
    return seen


def test_options_without_a_name_mean_all(tmp_path):
    options = ["--quick", "--data", str(tmp_path), "--jobs", "1"]
    assert call(options) == call(["all", *options])
    assert call(options)[0][0] == "all"


@pytest.mark.parametrize("words", [[], ["-h"], ["--help"]])
def test_help_names_every_experiment(words):
    found = CliRunner().invoke(app, words)
    for name in get_command(app).commands:
        assert re.search(rf"\b{name}\b", found.output)
    assert "make reproduce" in found.output


def test_wrong_usage_is_one_line_that_names_the_program():
    found = CliRunner().invoke(app, ["--bogus"], prog_name=PROGRAM)
    assert found.exit_code == 2
    assert found.stderr.count("\n") == 1
    assert found.stderr.endswith("Try 'python -m reproduce all --help'.\n")


def test_every_experiment_has_examples():
    assert len(EXAMPLES) > len(HELP)
    for name, text in HELP.items():
        assert any(line.startswith(name) for line in examples_in(text))


@pytest.mark.parametrize("line", EXAMPLES)
def test_examples_are_understood(line, tmp_path, monkeypatch):
    assert line.startswith(PROGRAM)
    for name in ("data", "letor", "cats"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    words = [word.replace("~", str(tmp_path)) for word in shlex.split(line)[3:]]
    assert len(call(words)) == ("--help" not in words)


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], "all --out results"),
        (["DATA=a b", "QUICK=1"], "all --out results --quick --data 'a b'"),
        (["ONLY=house", "DATA=d", "OUT=o"], "house --out o --data d"),
        (["ONLY=silhouettes", "DATA=d"], "silhouettes --out results"),
    ],
)
def test_make_says_the_same(given, expected):
    command = ["make", "--no-print-directory", "-n", "-o", ".venv/demo.stamp", "reproduce"]
    done = subprocess.run([*command, *given], cwd=ROOT, capture_output=True, text=True)
    words = shlex.split(done.stdout.replace("\\\n", ""))
    assert words[words.index("reproduce") + 1 :] == shlex.split(expected)
