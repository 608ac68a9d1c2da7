"""The command line: what it prints, its exit codes, and the files it takes and refuses."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import permatch
from permatch.cli.main import app
from permatch.cli.score_file import read_scores
from permatch.cli.terminal import percent

OK, FAILURE, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130
SCORES = np.array([[2.0, 1.0, -np.inf], [1.5, 2.0, 0.0], [0.0, 1.0, 1.0]])
PLAIN_ENV = {
    key: value
    for key, value in os.environ.items()
    if key not in {"FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "COLUMNS"}
}


@pytest.fixture
def call():
    """Run the application in this process."""
    runner = CliRunner()
    return lambda *args, **options: runner.invoke(app, [*map(str, args)], **options)


@pytest.fixture
def score_file(tmp_path):
    """Write a file and return its path."""

    def write(content, name="scores.csv"):
        path = tmp_path / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif isinstance(content, str):
            path.write_text(content, encoding="utf-8")
        else:
            np.save(path, content)
        return str(path)

    return write


def run(*args, stdin=""):
    """Run the installed package in a process of its own, its output piped."""
    command = [sys.executable, "-m", "permatch", *map(str, args)]
    return subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        text=True,
        env=PLAIN_ENV,
        encoding="utf-8",
    )


# ---- the application ---------------------------------------------------------------------


def test_version(call):
    result = call("--version")
    assert result.exit_code == OK
    assert result.output == f"permatch {permatch.__version__}\n"


@pytest.mark.parametrize("flag", ["-h", "--help"])
@pytest.mark.parametrize("command", [[], ["demo"], ["infer"], ["engines"]])
def test_help_at_every_level(call, command, flag):
    result = call(*command, flag)
    assert result.exit_code == OK
    assert "Usage: permatch" in " ".join(result.output.split()).replace("root", "permatch")


def test_help_teaches_by_example(call):
    assert "permatch demo" in call("--help").output
    assert "permatch infer scores.csv" in call("infer", "--help").output


@pytest.mark.parametrize(
    "args",
    [
        ["nonsense"],
        ["infer"],
        ["infer", "scores.csv", "--k", "-1"],
        ["infer", "scores.csv", "--k", "many"],
        ["infer", "scores.csv", "--jobs", "0"],
        ["infer", "scores.csv", "--nonsense"],
    ],
)
def test_wrong_usage_exits_with_2(call, args):
    assert call(*args).exit_code == WRONG_USAGE


def test_unknown_engine_is_wrong_usage_and_lists_the_known_ones(call):
    result = call("infer", "scores.csv", "--engine", "warp")
    assert result.exit_code == WRONG_USAGE
    assert "glynn" in result.stderr


def test_ctrl_c_exits_with_130(call, monkeypatch):
    def interrupt(source):
        raise KeyboardInterrupt

    monkeypatch.setattr("permatch.cli.infer.read_scores", interrupt)
    assert call("infer", "scores.csv").exit_code == INTERRUPTED


def test_engines_lists_every_engine(call):
    from permatch.inference import ENGINES

    output = call("engines").output
    assert all(re.search(rf"^{name} ", output, re.MULTILINE) for name in ENGINES)


# ---- demo --------------------------------------------------------------------------------


def test_demo_reaches_the_conclusion_and_is_clean_in_a_pipe():
    done = run("demo")
    assert done.returncode == OK, done.stderr
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
    text = " ".join(done.stdout.split())
    assert "So it is a1-b2 and a2-b1." in text
    assert "99.91 %" in text
    assert "479,001,600 matchings" in text


def test_demo_is_deterministic_but_for_the_time(call):
    first, second = (re.sub(r"[\d.]+ ms", "", call("demo").output) for _ in range(2))
    assert first == second


# ---- infer -------------------------------------------------------------------------------


def test_json_agrees_with_the_library(call, score_file):
    path = score_file("2,1,\n1.5,2,0\n0,1,1\n")
    result = call("infer", path, "--json", "--k", 2, "--samples", 7, "--seed", 3)
    assert result.exit_code == OK
    assert result.stderr == ""
    answer = json.loads(result.stdout)
    assert list(answer) == [
        "file", "size", "n_forbidden", "row_labels", "column_labels", "engine", "reason",
        "is_exact", "log_partition", "entropy", "mode", "bayes_matching", "k_best",
        "marginals", "seed", "samples",
    ]  # fmt: skip
    d = permatch.MatchingDistribution(SCORES)
    assert answer["file"] == path
    assert answer["size"] == 3
    assert answer["n_forbidden"] == 1
    assert answer["row_labels"] is None
    assert answer["is_exact"] is True
    assert answer["log_partition"] == d.log_partition
    assert answer["entropy"] == d.entropy
    assert answer["marginals"] == d.marginals.tolist()
    assert answer["mode"]["matching"] == [0, 1, 2]
    assert answer["mode"]["score"] == 5.0
    assert answer["k_best"][0] == answer["mode"]
    assert len(answer["k_best"]) == 2
    assert answer["bayes_matching"]["matching"] == d.bayes_matching().tolist()
    assert answer["samples"] == d.sample(7, rng=3).tolist()


def test_json_is_all_that_is_printed_in_a_pipe():
    done = run("infer", "-", "--json", "--jobs", "2", stdin="0 1\n1 0\n")
    assert done.returncode == OK, done.stderr
    assert done.stderr == ""
    assert json.loads(done.stdout)["mode"]["matching"] == [1, 0]


def test_text_output_shows_everything(call, score_file):
    path = score_file("id,x,y\nann,1.5,-0.5\nbob,0,1\n")
    result = call("infer", path, "--samples", 20)
    assert result.exit_code == OK
    for part in (
        "log-partition", "entropy", "best matching", "Bayes matching", "20 samples",
        "percent", "2 most probable", "ann - x, bob - y", "95.3 %",
    ):  # fmt: skip
        assert part in result.stdout
    assert "\x1b" not in result.stdout


def test_labels_are_not_read_as_markup(call, score_file):
    result = call("infer", score_file("id,[red]x,y\n[bold]ann,1,0\nbob,0,1\n"))
    assert result.exit_code == OK
    assert "[bold]ann - [red]x" in result.stdout


def test_large_graphs_show_the_best_edges_of_each_row(call, score_file):
    path = score_file(4.0 * np.eye(13), "scores.npy")
    result = call("infer", path, "--k", 0)
    assert result.exit_code == OK
    assert "best edges of each row" in result.stdout
    assert "most probable matchings" not in result.stdout


def test_engine_without_marginals_gives_what_it_has(call, score_file):
    path = score_file("2,1,\n1.5,2,0\n0,1,1\n")
    answer = json.loads(call("infer", path, "--engine", "ryser", "--json").stdout)
    assert answer["engine"] == "ryser"
    assert answer["marginals"] is None
    assert answer["entropy"] is None
    assert answer["mode"]["matching"] == [0, 1, 2]
    assert call("infer", path, "--engine", "ryser").exit_code == OK


@pytest.mark.parametrize("size", [0, 1])
def test_smallest_graphs(call, score_file, size):
    path = score_file(np.zeros((size, size)), "scores.npy")
    assert call("infer", path, "--samples", 2).exit_code == OK
    answer = json.loads(call("infer", path, "--json").stdout)
    assert answer["log_partition"] == 0.0
    assert answer["mode"]["matching"] == list(range(size))


# ---- files -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("s.csv", "2,1,\n1.5,2,0\n0,1,1\n"),
        ("s.csv", "# a comment\r\n2, 1, -inf\r\n\r\n1.5, 2, 0\r\n0, 1, 1\r\n"),
        ("s.csv", "2;1;-Infinity\n1.5;2;0\n0;1;1"),
        ("s.tsv", "2\t1\t\n1.5\t2\t0\n0\t1\t1\n"),
        ("s.txt", "2 1 -inf\n  1.5 2   0\n0 1 1\n"),
        ("s.dat", "\ufeff2,1,\n1.5,2,0\n0,1,1\n"),
        ("s.npy", SCORES),
        ("s.npy", np.asfortranarray(SCORES)),
    ],
)
def test_plain_formats(score_file, name, content):
    found = read_scores(score_file(content, name))
    np.testing.assert_array_equal(found.scores, SCORES)
    assert (found.row_labels, found.column_labels) == (None, None)


@pytest.mark.parametrize(
    ("content", "rows", "cols"),
    [
        (",b1,b2\na1,1,2\na2,3,\n", ["a1", "a2"], ["b1", "b2"]),
        ("who,b1,b2\na1,1,2\na2,3,\n", ["a1", "a2"], ["b1", "b2"]),
        ("b1,b2\na1,1,2\na2,3,\n", ["a1", "a2"], ["b1", "b2"]),
        ("b1,b2\n1,2\n3,\n", None, ["b1", "b2"]),
        ("a1,1,2\na2,3,\n", ["a1", "a2"], None),
        (",0,1\n0,1,2\n1,3,\n", ["0", "1"], ["0", "1"]),
        ('"","b 1","b,2"\n"a 1",1,2\n"a,2",3,\n', ["a 1", "a,2"], ["b 1", "b,2"]),
    ],
)
def test_labels(score_file, content, rows, cols):
    found = read_scores(score_file(content))
    np.testing.assert_array_equal(found.scores, [[1.0, 2.0], [3.0, -np.inf]])
    assert (found.row_labels, found.column_labels) == (rows, cols)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("s.csv", "", "is empty"),
        ("s.csv", "\n \n# nothing\n", "is empty"),
        ("s.csv", "1,2\n3\n", "row 2 has 1 cells, row 1 has 2"),
        ("s.csv", "1,2,3\n4,5,6\n", "got 2 x 3"),
        ("s.csv", "1,2\n3,x\n", "row 2, column 2 of the scores is 'x'"),
        ("s.csv", "1,x,2\n3,4,5\n6,7,8\n", "row 1, column 2 of the scores is 'x'"),
        ("s.csv", "1,nan\n3,4\n", "must not contain NaN"),
        ("s.csv", "1,inf\n3,4\n", "inf at"),
        ("s.csv", "1,\n3,\n", "no perfect matching"),
        ("s.csv", "b1,b2,b3\n1,2\n3,4\n", "3 labels above 2 columns"),
        ("s.txt", "once upon a time", "got one line of text"),
        ("s.csv", b"\xff\xfe\x00\x01", "must be UTF-8 text"),
        ("s.npy", b"not an array", "ends in .npy"),
        ("s.npy", b"\x93NUMPY\x01\x00", "must hold an array of numbers"),
        ("s.npy", np.zeros((2, 3)), "got 2 x 3"),
        ("s.npy", np.zeros((2, 3, 3)), "got 2 x 3 x 3"),
        ("s.npy", np.array(1.0), "a single number"),
        ("s.npy", np.array([["a", "b"], ["c", "d"]]), "real numbers"),
        ("s.npy", np.zeros((60, 60)), "got 60"),
    ],
)
def test_bad_files_fail_in_one_line(call, score_file, name, content, message):
    result = call("infer", score_file(content, name))
    assert result.exit_code == FAILURE
    assert result.stdout == ""
    assert message in result.stderr
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1


def test_object_arrays_are_never_unpickled(call, tmp_path):
    path = tmp_path / "objects.npy"
    np.save(path, np.array([[None]]), allow_pickle=True)
    result = call("infer", path)
    assert result.exit_code == FAILURE
    assert "must hold an array of numbers" in result.stderr


def test_missing_file_and_folder(call, tmp_path):
    for path in (tmp_path / "absent.csv", tmp_path):
        result = call("infer", path)
        assert result.exit_code == FAILURE
        assert result.stderr.startswith(f"error: cannot read {path}: ")


def test_failures_in_a_process_of_their_own():
    done = run("infer", "-", stdin="1,2\n3\n")
    assert (done.returncode, done.stdout) == (FAILURE, "")
    assert done.stderr.startswith("error: standard input must have rows of equal length")
    assert run("infer", "-", "--k", "x").returncode == WRONG_USAGE


def test_debug_shows_the_traceback():
    done = run("infer", "-", "--debug", stdin="1,2\n3\n")
    assert done.returncode == FAILURE
    assert "Traceback" in done.stderr


@pytest.mark.parametrize(
    ("probability", "text"),
    [
        (0.0, "0 %"),
        (1.0, "100 %"),
        (0.5, "50.0 %"),
        (0.9991, "99.91 %"),
        (0.9999, "99.99 %"),
        (0.0002, "0.02 %"),
        (1e-9, "< 0.001 %"),
        (1 - 1e-9, "> 99.999 %"),
    ],
)
def test_percent_never_rounds_to_certainty(probability, text):
    assert percent(probability) == text
