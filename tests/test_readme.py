"""What README and CONTRIBUTING show is what happens, and their numbers are the files'."""

import doctest
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import MEASURED

ROOT = Path(__file__).resolve().parents[1]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
#: The command is there even where the package is not installed.
PRELUDE = f'permatch() {{ "{sys.executable}" -m permatch "$@"; }}\n'


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name, language):
    """Return what stands in the fenced blocks of a language."""
    pattern = rf"^```{language}\n(.*?)^```$"
    return re.findall(pattern, text_of(name), re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder like a clone's root, to write into."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
@pytest.mark.usefixtures("folder")
def test_python_prints_what_is_shown(name):
    source = "\n".join(blocks(name, "python"))
    test = doctest.DocTestParser().get_doctest(source, {}, name, name, 0)
    report: list[str] = []
    result = doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.append)
    assert result.failed == 0, "".join(report)


@pytest.mark.parametrize("session", blocks("README.md", "console"))
def test_commands_print_what_is_shown(session, folder):
    steps = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", session, re.MULTILINE)
    assert steps
    for command, shown in steps:
        done = subprocess.run(
            ["bash", "-c", PRELUDE + command],
            cwd=folder,
            env=os.environ | {"COLUMNS": "100", "TERM": "dumb"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert doctest.OutputChecker().check_output(shown, done.stdout, FLAGS), done.stdout


def test_there_are_three_snippets_and_a_picture():
    assert len(blocks("README.md", "console")) + len(blocks("README.md", "python")) == 3
    pictures = re.findall(r"!\[[^]]+\]\(([^)]+)\)", text_of("README.md"))
    assert len(pictures) == 1
    assert (ROOT / pictures[0]).is_file()


def test_links_lead_to_files():
    for name in ("README.md", "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#\s]+)", text_of(name)):
            assert target.startswith("http") or (ROOT / target).is_file(), target


def test_the_examples_are_what_their_script_writes(tmp_path):
    script = tmp_path / "make.py"
    script.write_bytes((ROOT / "examples" / "make.py").read_bytes())
    subprocess.run([sys.executable, str(script)], check=True)
    for path in sorted((ROOT / "examples").glob("*.[ct][sx][vt]")):
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


# ---- numbers

SOURCED = re.compile(r"(\d[\d.]*)( ?%)?<!-- =(.+?) -->", re.DOTALL)


def prose(text):
    """Return text without code, and without numbers whose source is given."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return SOURCED.sub("", re.sub(r"`[^`]*`", "", text))


def sources():
    """Return the files that commands wrote, as names for the expressions in comments."""
    demo = json.loads(text_of("docs/results/demo.json"))["numbers"]
    reports = json.loads(text_of("benchmarks/results.json"))["reports"]
    rows = [row for report in reports for row in report["rows"]]

    def figure(what):
        (found,) = (row["figure"] for row in rows if row["what"] == what)
        return found

    return {"demo": demo, "figure": figure}


def test_every_number_names_its_source():
    shown = prose(text_of("README.md")).replace("Python 3.11 to 3.13", "")
    assert MEASURED.findall(shown) == [], "say where it comes from: <!-- =expression -->"


def test_numbers_are_those_of_their_sources():
    found = SOURCED.findall(text_of("README.md"))
    assert len(found) >= 5
    for shown, _, expression in found:
        value = float(eval(expression, sources()))
        digits = len(shown.partition(".")[2])
        assert f"{value:.{digits}f}" == shown, f"{expression} is {value}, not {shown}"


def test_the_picture_is_described_by_its_numbers():
    (words,) = re.findall(r"!\[([^]]+)\]", text_of("README.md"))
    demo = sources()["demo"]
    right = [demo["example_right_before"], demo["example_right_after"]]
    assert re.findall(r"(\d+) of (\d+) right", " ".join(words.split())) == [
        (str(number), str(demo["size"])) for number in right
    ]


def test_a_drift_is_seen():
    assert MEASURED.findall(prose("It takes 3 s, `0.5`, 12 %<!-- =x --> and 4.5.")) == [
        "3 s",
        "4.5",
    ]
