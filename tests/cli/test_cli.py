"""The command line: what it prints, its exit codes, and the files it takes and refuses."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import permatch
from permatch.cli.main import app
from permatch.cli.shared.report import percent, percent_of_log
from permatch.cli.shared.terminal import one_line_errors
from permatch.datasets.score_matrix import read_score_matrix

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


F8 = "{'descr': '<f8', 'fortran_order': False"


def npy_header(text):
    """Return a .npy file with any header and 72 bytes of data."""
    header = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(72)


def assert_failed_in_one_line(result, message, code=FAILURE):
    assert result.exit_code == code, result.exception
    assert result.stdout == ""
    assert message in result.stderr
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1


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


@pytest.mark.parametrize("flag", ["-V", "--version"])
def test_version(call, flag):
    result = call(flag)
    assert result.exit_code == OK
    assert result.output == f"permatch {permatch.__version__}\n"


@pytest.mark.parametrize("flag", ["-h", "--help"])
@pytest.mark.parametrize("command", [[], ["demo"], ["infer"], ["engines"]])
def test_help_at_every_level(call, command, flag):
    result = call(*command, flag)
    assert result.exit_code == OK
    assert "bool" not in result.output  # a flag takes no value
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
        ["infer", "scores.csv", "--jobs", "1" + 400 * "0"],
        ["infer", "scores.csv", "--given", "0"],
        ["infer", "scores.csv", "--max-size", "-1"],
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
    def interrupt(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr("permatch.datasets.score_matrix.read_score_matrix", interrupt)
    assert call("infer", "scores.csv").exit_code == INTERRUPTED


def test_engines_lists_every_engine(call):
    from permatch.inference import ENGINES

    output = call("engines", env={"COLUMNS": "200"}).output
    assert all(re.search(rf"^{name} ", output, re.MULTILINE) for name in ENGINES)
    for words in ("exact up to size 30", "approximate", "O(m 2^m)", "O(m^2) per draw"):
        assert words in " ".join(output.split())


# ---- demo --------------------------------------------------------------------------------


@pytest.fixture
def tiny_demo(monkeypatch):
    pytest.importorskip("skimage", reason="the horse comes with scikit-image")
    pytest.importorskip("matplotlib", reason="the pictures are drawn by matplotlib")
    from permatch.pages import demo_learning
    from permatch.pages.demo_learning import Setup

    tiny = Setup(
        n_train=(2, 4),
        n_test=10,
        map_alphas=(1.0, 0.1),
        margin_alphas=(1.0, 0.1),
        n_points=6,
        n_images=12,
        n_contour=60,
    )
    monkeypatch.setattr(demo_learning, "SETUP", tiny)


def test_demo_reaches_its_conclusions_and_writes_its_page(call, tiny_demo, tmp_path):
    result = call("demo", "--out", tmp_path / "page", "--jobs", 1)
    assert result.exit_code == OK, result.stderr
    assert result.stderr == ""
    assert "\x1b" not in result.stdout
    text = " ".join(result.stdout.split())
    written = json.loads((tmp_path / "page" / "demo.json").read_text())
    _, greedy, linked = written["linking"]["rows"]
    assert greedy["f1"] < linked["f1"]
    assert f"F1 rises from {greedy['f1']:.3f} to {linked['f1']:.3f}" in text
    assert any(pair["is_true"] for pair in written["linking"]["example"])
    assert "same person" in text
    assert "two people" in text
    numbers = written["numbers"]
    assert f"the error from {100 * numbers['loss_unweighted']:.0f} % to" in text
    elsewhere = f"the same test pairs is {100 * numbers['loss_new_landmarks']:.0f} %"
    assert elsewhere in text
    assert f"is right for {numbers['accuracy']:.3f} of the points" in text
    assert (tmp_path / "page" / "index.html").stat().st_size > 10_000


def test_demo_without_the_extras_says_what_to_install(call, monkeypatch, tmp_path):
    from permatch.cli import demo

    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    result = call("demo", "--out", tmp_path / "page")
    assert result.exit_code == OK
    assert "install the extras 'vision' and 'plots' (in a clone" in result.stdout
    assert not (tmp_path / "page").exists()


def test_demo_that_cannot_write_says_so(call, tiny_demo, tmp_path):
    (tmp_path / "taken").write_text("a file")
    result = call("demo", "--out", tmp_path / "taken")
    assert result.exit_code == WRONG_USAGE
    assert "cannot write to" in result.stderr
    assert result.stdout == ""  # found out before anything was computed


# ---- infer -------------------------------------------------------------------------------


def test_json_agrees_with_the_library(call, score_file):
    path = score_file("2,1,\n1.5,2,0\n0,1,1\n")
    result = call("infer", path, "--json", "--k", 2, "--samples", 7, "--seed", 3)
    assert result.exit_code == OK
    assert result.stderr == ""
    answer = json.loads(result.stdout)
    assert list(answer) == [
        "file", "n_left", "n_right", "n_edges", "n_forbidden", "row_labels",
        "column_labels", "given", "engine",
        "reason", "is_exact", "certificate", "is_converged", "log_partition_error",
        "interval", "interval_certificate", "interval_delta", "marginal_error", "seconds",
        "steps", "log_partition", "entropy", "mode", "bayes_matching", "k_best",
        "edges", "marginals", "unmatched_left", "unmatched_right", "seed", "samples",
    ]  # fmt: skip
    d = permatch.MatchingDistribution(SCORES)
    assert answer["file"] == path
    assert (answer["n_left"], answer["n_right"], answer["n_edges"]) == (3, 3, 8)
    assert answer["n_forbidden"] == 1
    assert answer["unmatched_left"] == answer["unmatched_right"] == [0.0, 0.0, 0.0]
    assert answer["edges"] is None
    assert answer["row_labels"] is None
    assert answer["is_exact"] is True
    assert answer["log_partition"] == d.log_partition
    assert answer["entropy"] == d.entropy
    assert answer["marginals"] == d.marginals.tolist()
    assert answer["mode"]["matching"] == [0, 1, 2]
    assert answer["mode"]["score"] == 5.0
    assert answer["mode"]["log_probability"] == d.log_prob([0, 1, 2])
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


def test_given_edges_by_number_agree_with_the_library(call, score_file):
    path = score_file("2,1,\n1.5,2,0\n0,1,1\n")
    answer = json.loads(call("infer", path, "--given", "0:1", "--json").stdout)
    d = permatch.MatchingDistribution(SCORES, given={0: 1})
    assert answer["given"] == [[0, 1]]
    assert answer["marginals"] == d.marginals.tolist()
    assert answer["log_partition"] == d.log_partition
    assert "given           0 - 1\n" in call("infer", path, "--given", "0:1").stdout


@pytest.mark.parametrize(
    "given", [["ann:b:y", "bob:x"], ["ann : b:y", "1:0"], ["0:2", "0:2", "bob:0"]]
)
def test_given_edges_by_label(call, score_file, given):
    path = score_file("id,x,b,b:y\nann,2,1,0\nbob,1.5,2,0\neve,0,1,1\n")
    options = [part for edge in given for part in ("--given", edge)]
    answer = json.loads(call("infer", path, *options, "--json").stdout)
    assert answer["given"] == [[0, 2], [1, 0]]
    assert answer["mode"]["matching"] == [2, 0, 1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["ann:z"], "got 'ann:z'. The rows are 'ann', 'bob', 'bob'. The columns are 'x'"),
        (["3:0"], "from 0 to 2 and 2; got '3:0'"),
        (["-1:0"], "got '-1:0'"),
        (["bob:x"], "which matches 2 edges; use numbers"),
        (["ann:x", "0:1"], "each row at most once; got '0:1'"),
        (["ann:x", "1:0"], "every right node at most once"),
        (["2:2"], "edge (2, 2) has score -inf"),
    ],
)
def test_bad_given_edges_fail_in_one_line(call, score_file, given, message):
    path = score_file("id,x,y,b\nann,2,1,0\nbob,1,2,0\nbob,0,1,\n")
    options = [part for edge in given for part in ("--given", edge)]
    assert_failed_in_one_line(call("infer", path, *options), message)


def test_size_limit_names_the_options_that_help(call, score_file):
    path = score_file(np.zeros((10, 10)), "scores.npy")
    failed = call("infer", path, "--engine", "enumeration")
    assert_failed_in_one_line(failed, "--given ROW:COL or --max-size 10.")
    assert_failed_in_one_line(call("infer", path, "--max-size", 9), "--max-size 10.")
    assert call("infer", path, "--max-size", 9, "--given", "3:4").exit_code == OK
    assert call("infer", path, "--max-size", 10).exit_code == OK
    failed = call("infer", path, "-e", "small_batch", "--max-size", 9)
    assert_failed_in_one_line(failed, "must be at most 8, got 9", WRONG_USAGE)


def test_samples_out_of_reach_are_told_before_inference(call, score_file, monkeypatch):
    monkeypatch.setattr(permatch.AutoEngine, "_infer_stack", lambda *_: pytest.fail("ran"))
    path = score_file(np.zeros((25, 25)), "scores.npy")
    failed = call("infer", path, "--engine", "subset_dp", "--samples", 1)
    assert_failed_in_one_line(failed, "--given ROW:COL or --max-size 25.")
    scores = 5.0 * np.random.default_rng(0).normal(size=(90, 90))
    failed = call("infer", score_file(scores, "large.npy"), "--samples", 1000)
    assert_failed_in_one_line(failed, "engine='swap_chain'")


# ---- infer, approximately


@pytest.fixture
def large_file(score_file):
    return score_file(np.random.default_rng(0).normal(size=(40, 40)), "large.npy")


def test_large_graphs_are_answered_with_their_errors(call, large_file):
    result = call("infer", large_file, "--tol", 0.05, "--k", 1)
    assert result.exit_code == OK, result.stderr
    assert result.stderr == ""
    text = " ".join(result.stdout.split())
    for words in (
        "nesting, approximate (auto: beyond the exact engines: sparsified -> bethe ->",
        "certificate asymptotic: standard errors",
        "guaranteed",
        "standard error of a probability: at most 0.0",
        "engines tried",
        "its marginals have an unknown error",
    ):
        assert words in text
    assert re.search(r"log-partition 128\.\d+ ± 0\.0\d+ ", text)


def test_intervals_that_may_miss_say_so(call, score_file):
    file = score_file(np.random.default_rng(0).normal(size=(6, 6)), "small.npy")
    text = " ".join(call("infer", file, "--engine", "huber_law").stdout.split())
    assert "holds with probability 0.95" in text
    assert "guaranteed" not in text
    answer = json.loads(call("infer", file, "--engine", "huber_law", "--json").stdout)
    assert answer["interval_certificate"] == "rigorous"
    assert answer["interval_delta"] == 0.05


def test_intervals_of_bounds_hold_for_certain(call, score_file):
    file = score_file(np.random.default_rng(0).normal(size=(6, 6)), "small.npy")
    assert "guaranteed" in " ".join(call("infer", file, "--engine", "bethe").stdout.split())


def test_json_of_a_large_graph(call, large_file):
    result = call("infer", large_file, "--tol", 0.05, "--k", 0, "--json")
    answer = json.loads(result.stdout)
    assert answer["is_exact"] is False
    assert answer["certificate"] == "asymptotic"
    assert answer["is_converged"] is True
    low, high = answer["interval"]
    assert low < answer["log_partition"] < high
    assert answer["interval_certificate"] == "rigorous"
    steps = answer["steps"]
    assert [step["engine"] for step in steps] == ["sparsified", "bethe", "nesting"]
    assert steps[1]["marginal_error"] is None
    assert steps[2]["marginal_error"] == answer["marginal_error"] < 0.05


def test_a_tolerance_missed_is_told_without_a_warning(call, large_file):
    result = call("infer", large_file, "--tol", 1e-5, "--budget", 0.1, "--k", 0)
    assert result.exit_code == OK
    assert result.stderr == ""
    assert "the tolerance was not reached" in " ".join(result.stdout.split())


def test_a_certified_answer(call, score_file):
    scores = np.random.default_rng(0).normal(size=(40, 40)) + 40.0 * np.eye(40)
    result = call("infer", score_file(scores, "peaked.npy"), "--samples", 3)
    assert result.exit_code == OK
    text = " ".join(result.stdout.split())
    assert "sparsified, with a certified error" in text
    assert "rigorous: the error bound is guaranteed" in text
    assert "error of a probability: at most" in text


def test_options_an_engine_does_not_have(call, large_file):
    failed = call("infer", large_file, "--engine", "bethe", "--budget", 3)
    message = "--budget is not an option of the engine 'bethe'"
    assert_failed_in_one_line(failed, message, WRONG_USAGE)
    failed = call("infer", large_file, "--tol", 2)
    message = "tol of AutoEngine must be a number above 0"
    assert_failed_in_one_line(failed, message, WRONG_USAGE)


def test_the_seed_is_that_of_the_engine_too(call, large_file):
    answers = [
        json.loads(
            call("infer", large_file, "--tol", 0.1, "--seed", seed, "--json").stdout
        )["log_partition"]
        for seed in (0, 0, 1)
    ]
    assert answers[0] == answers[1] != answers[2]


@pytest.mark.parametrize("option", ["--k", "--samples"])
@pytest.mark.parametrize("number", [10**12, 10**23])
def test_more_answers_than_memory(call, score_file, option, number):
    path = score_file(np.zeros((20, 20)), "scores.npy")
    failed = call("infer", path, option, number)
    assert_failed_in_one_line(failed, "GiB of memory, and ")


def test_counts_are_written_as_people_do(call, score_file):
    result = call("infer", score_file("5\n"), "--samples", 1)
    for part in ("1 most probable matching\n", "1 sample, 1 distinct", "1.00 of 1 row\n"):
        assert part in result.stdout
    result = call("infer", score_file("1,2\n,4\n"))
    assert "2 x 2, 1 edge forbidden" in " ".join(result.stdout.split())


# ---- infer: sides of different sizes, nodes without a partner, tables of pairs


def test_a_rectangular_matrix(call, score_file):
    path = score_file("id,x,y,z\nann,1,0,\nbob,0,1,2\n")
    scores = [[1.0, 0.0, -np.inf], [0.0, 1.0, 2.0]]
    d = permatch.MatchingDistribution(scores)
    answer = json.loads(call("infer", path, "--json").stdout)
    assert answer["log_partition"] == d.log_partition
    assert answer["unmatched_left"] == [0.0, 0.0]
    assert answer["unmatched_right"] == d.unmatched_right.tolist()
    text = " ".join(call("infer", path).stdout.split())
    for part in ("2 x 3, 1 edge forbidden", "ann - x, bob - z", "unmatched"):
        assert part in text


def test_scores_of_staying_unmatched(call, score_file):
    path = score_file("id,x,y\nann,1,-3\nbob,-3,-4\n")
    options = ["--unmatched-left", "0.5", "--unmatched-right", "-0.25"]
    answer = json.loads(call("infer", path, *options, "--json", "--samples", 3).stdout)
    scores = np.array([[1.0, -3.0], [-3.0, -4.0]])
    d = permatch.MatchingDistribution(scores, unmatched_left=0.5, unmatched_right=-0.25)
    assert answer["mode"]["matching"] == [0, -1]
    assert answer["mode"]["score"] == 1.0 + 0.5 - 0.25
    assert answer["mode"]["log_probability"] == d.log_prob([0, -1])
    assert answer["unmatched_left"] == d.unmatched_left.tolist()
    assert answer["marginals"] == d.marginals.tolist()
    assert len(answer["k_best"]) == 5
    text = call("infer", path, *options).stdout
    assert "ann - x; unmatched: bob" in text
    assert "unmatched" in text.splitlines()[-1]
    plain = call("infer", score_file("1 -3\n-3 -4\n"), *options).stdout
    assert "0 -  (probability" in plain
    for wrong in ("nan", "inf"):
        assert call("infer", path, "--unmatched-left", wrong).exit_code == WRONG_USAGE


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_a_table_of_candidate_pairs(call, score_file, mark):
    text = "left,right,score,remark\nann,x,1.5,\nbob,x,2,old\nbob,y,0.5,\neve,y,-1,\n"
    path = score_file(text.replace(",", mark))
    edges = permatch.EdgeScores([0, 1, 1, 2], [0, 0, 1, 1], [1.5, 2.0, 0.5, -1.0])
    d = permatch.MatchingDistribution(edges, unmatched_left=0.0, unmatched_right=0.0)
    options = ["--unmatched-left", 0, "--unmatched-right", 0]
    answer = json.loads(call("infer", path, *options, "--json").stdout)
    assert answer["edges"] == [[0, 0], [1, 0], [1, 1], [2, 1]]
    assert answer["marginals"] == d.marginals.tolist()
    assert answer["row_labels"] == ["ann", "bob", "eve"]
    assert answer["mode"]["matching"] == d.mode().tolist()
    given = [*options, "--given", "bob:y", "--json"]
    known = json.loads(call("infer", path, *given).stdout)
    assert known["mode"]["matching"] == [0, 1, -1]
    text = " ".join(call("infer", path, *options).stdout.split())
    assert "3 x 2, 4 candidate pairs" in text
    assert "ann - x, bob - y; unmatched: eve" in text


def test_a_table_of_pairs_from_a_pipe_and_with_other_names(call, score_file):
    text = "a,b,weight\nann,x,1.5\nbob,x,2\nbob,y,0.5\n"
    names = ["--left-column", "a", "--right-column", "b", "--score-column", "weight"]
    found = call("infer", score_file(text), *names, "--json").stdout
    piped = call("infer", "-", *names, "--json", input=text).stdout
    for key in ("log_partition", "marginals", "row_labels"):
        assert json.loads(found)[key] == json.loads(piped)[key]
    assert json.loads(piped)["file"] == "standard input"


def test_many_pairs_show_the_best_of_each_row(call, score_file):
    lines = [f"a{i},b{j},{-abs(i - j)}" for i in range(300) for j in range(300)
             if abs(i - j) < 3]  # fmt: skip
    path = score_file("\n".join(["left,right,score", *lines]))
    options = ["--unmatched-left", -1, "--unmatched-right", -1, "--k", 1]
    text = call("infer", path, *options).stdout
    assert "best edges of each row, the first 200 rows" in text
    assert "300 x 300, 1494 candidate pairs" in " ".join(text.split())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("left,right,score\na,x,1\na,x,2\n", "has two, at line 2 of"),
        ("left,right,score\na,x,\n", "score; that of ('a', 'x'), line 2 of"),
        ("left,right,score\na,,1\n", "'right'; the cell is empty at line 2"),
        ("left,right,score\na,x,high\n", "'score' is 'high' at line 2"),
        ("graph,left,right,score\ng,a,x,1\nh,a,x,1\n", "pairs of one graph"),
        ("left,right,score\na,x,1\nb,x,1\nb,x2,-inf\nc,x2,-inf\n", "allowed edge"),
    ],
)
def test_bad_tables_of_pairs_fail_in_one_line(call, score_file, text, message):
    options = ["--unmatched-right", "0"] if "-inf" not in text else []
    assert_failed_in_one_line(call("infer", score_file(text), *options), message)


def test_improbable_matchings_keep_their_probability(call, score_file):
    result = call("infer", score_file("0,-1000\n-1000,0\n"))
    assert "2.6e-867 %" in result.stdout
    scores = np.random.default_rng(0).normal(size=(20, 20))
    result = call("infer", score_file(scores, "scores.npy"))
    assert len(re.findall(r"^ \d +\d\.\de-0\d % ", result.stdout, re.MULTILINE)) == 5


def test_bayes_matching_keeps_to_the_allowed_edges(call, score_file):
    # A star: the assignment with the most probability would use the forbidden corner.
    scores = np.full((11, 11), -np.inf)
    scores[10, :10] = scores[:10, 10] = scores[range(10), range(10)] = 0.0
    path = score_file(scores, "scores.npy")
    bayes = json.loads(call("infer", path, "--json").stdout)["bayes_matching"]
    assert np.isfinite(scores[range(11), bayes["matching"]]).all()
    assert bayes["score"] == 0.0


# ---- files -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("s.csv", "2,1,\n1.5,2,0\n0,1,1\n"),
        ("s.csv", "# a comment\r\n2, 1, -inf\r\n\r\n1.5, 2, 0\r\n0, 1, 1\r\n"),
        ("s.csv", "2;1;-Infinity\n1.5;2;0\n0;1;1"),
        ("s.tsv", "2\t1\t\n1.5\t2\t0\n0\t1\t1\n"),
        ("s.txt", "2 1 -inf\n  1.5 2   0\n0 1 1\n"),
        ("s.txt", "\t\n2 1 -inf\n\t\n1.5 2 0\n \t \n0 1 1\n\t\n"),
        ("s.csv", '"2",1,\n1.5,"2",0\n0,1,1\n'),
        ("s.dat", "\ufeff2,1,\n1.5,2,0\n0,1,1\n"),
        ("s.npy", SCORES),
        ("s.npy", np.asfortranarray(SCORES)),
    ],
)
def test_plain_formats(score_file, name, content):
    found = read_score_matrix(score_file(content, name))
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
    found = read_score_matrix(score_file(content))
    np.testing.assert_array_equal(found.scores, [[1.0, 2.0], [3.0, -np.inf]])
    assert (found.row_labels, found.column_labels) == (rows, cols)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("s.csv", "", "is empty"),
        ("s.csv", "\n \n# nothing\n", "is empty"),
        ("s.csv", "1,2\n3\n", "row 2 has 1 cell, row 1 has 2"),
        ("s.csv", "1,2\n3,x\n", "row 2, column 2 of the scores is 'x'"),
        ("s.csv", "1,x,2\n3,4,5\n6,7,8\n", "row 1, column 2 of the scores is 'x'"),
        ("s.csv", "1_0,2\n3,4\n", "row 1, column 1 of the scores is '1_0'"),
        ("s.csv", "0,5;1,2\n0,3;2,0\n", "is '0,5'. Use decimal points"),
        ("s.csv", ";x;y\na;0,5;1\nb;-,3;2\n", "is '0,5'. Use decimal points"),
        ("s.txt", "0,5 1,2\n0,3 2,0\n", "is '5 1'. Use decimal points"),
        ("s.csv", f"1,{140_000 * 'x'}\n3,4\n", "at most 131072 characters"),
        ("s.txt", f"1 {140_000 * 'x'}\n3 4\n", "xxx...'. Leave a cell empty"),
        ("s.tsv", "1\t2\n\t\n", "needs an allowed edge"),
        ("s.csv", "1,nan\n3,4\n", "must not contain NaN"),
        ("s.csv", "1,inf\n3,4\n", "inf at"),
        ("s.csv", "1,\n3,\n", "needs an allowed edge"),
        ("s.csv", "b1,b2,b3\n1,2\n3,4\n", "3 labels above 2 columns"),
        ("s.csv", "b1,b2\n1\n", "2 labels above 1 column."),
        ("s.txt", "once upon a time", "got one line of text"),
        ("s.csv", b"\xff\xfe\x00\x01", "must be UTF-8 text"),
        ("s.npy", b"not an array", "ends in .npy"),
        ("s.npy", b"\x93NUMPY\x01\x00", "must hold an array of numbers"),
        ("s.npy", npy_header(f"{F8}, 'shape': (100000000, 100000000)}}"), "NumPy says: "),
        ("s.npy", npy_header(f"{F8}, 'shape': (4294967296, 4294967296)}}"), "NumPy says: "),
        ("s.npy", npy_header(f"{F8}, 'shape': ({10**22}, 1)}}"), "NumPy says: "),
        ("s.npy", npy_header(f"{F8}, 'shape': (-1, -1)}}"), "NumPy says: "),
        ("s.npy", npy_header("{'descr': ((("), "must hold an array of numbers"),
        ("s.npy", np.zeros((2, 3, 3)), "got 2 x 3 x 3"),
        ("s.npy", np.array(1.0), "a single number"),
        ("s.npy", np.array([["a", "b"], ["c", "d"]]), "real numbers"),
        ("s.npy", np.zeros((1001, 1001)), "got 1001"),
    ],
)
def test_bad_files_fail_in_one_line(call, score_file, name, content, message):
    assert_failed_in_one_line(call("infer", score_file(content, name)), message)


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
        assert result.stderr.startswith(f"error: cannot open {path}: ")


def test_plain_numbers_take_the_fast_reader(score_file, monkeypatch):
    def refuse(*args):
        raise AssertionError("read cell by cell")

    monkeypatch.setattr("permatch.datasets.score_matrix._cut_cells", refuse)
    scores = np.random.default_rng(0).normal(size=(300, 300))
    scores[0, 1], scores[1, 0] = -np.inf, 1e-300
    for mark in (",", ";", "\t", " "):
        lines = [mark.join(map(repr, row)) for row in scores.tolist()]
        found = read_score_matrix(score_file("\n".join(lines)))
        np.testing.assert_array_equal(found.scores, scores)


def test_closed_standard_input(monkeypatch):
    monkeypatch.setattr("permatch.datasets.score_matrix.sys.stdin", None)
    with pytest.raises(permatch.errors.InvalidGraphError, match="cannot be read: it is cl"):
        read_score_matrix("-")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full disk")
@pytest.mark.parametrize(
    ("args", "unbuffered"),
    [
        (["infer", "-"], ""),
        (["infer", "-", "--json"], "1"),
        (["engines"], "1"),
        (["-h"], ""),
        (["-V"], ""),
    ],
)
def test_full_disk_fails_in_one_line(args, unbuffered):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "permatch", *args],
            input=b"0 1\n1 0\n",
            stdout=full,
            stderr=subprocess.PIPE,
            env=PLAIN_ENV | {"PYTHONUNBUFFERED": unbuffered},
        )
    assert done.returncode == FAILURE
    message = "error: cannot write: No space left on device. "
    assert done.stderr.decode() == f"{message}Make room, or write elsewhere.{os.linesep}"


@pytest.mark.parametrize(
    ("err", "message"),
    [
        (MemoryError(), "error: this needs more memory than is available. Ask for less.\n"),
        (MemoryError("1 TiB"), "more memory than is available (1 TiB). Ask for less.\n"),
        (
            UnicodeEncodeError("ascii", "caf\xe9", 3, 4, ""),
            "'\xe9' to standard output, whose",
        ),
    ],
)
def test_other_failures_fail_in_one_line(call, monkeypatch, err, message):
    def fail(*given):
        raise err

    monkeypatch.setattr("permatch.datasets.score_matrix.read_score_matrix", fail)
    assert_failed_in_one_line(call("infer", "scores.csv"), message)
    assert call("infer", "scores.csv", "--debug").exception is err


def test_broken_pipe_is_left_to_the_application():
    with pytest.raises(BrokenPipeError), one_line_errors(debug=False):
        raise BrokenPipeError


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
        (4.44e-9, "4.4e-07 %"),
        (5e-324, "4.9e-322 %"),
        (1 - 1e-9, "> 99.999 %"),
    ],
)
def test_percent_never_rounds_to_certainty(probability, text):
    assert percent(probability) == text


@pytest.mark.parametrize(
    ("log_probability", "text"),
    [
        (-np.inf, "0 %"),
        (0.0, "100 %"),
        (np.log(0.5), "50.0 %"),
        (-20.0, "2.1e-07 %"),
        (-744.0, "7.7e-322 %"),
        (-2000.0, "2.6e-867 %"),
        (-1e300, "< 1e-999999 %"),
    ],
)
def test_percent_of_log_never_underflows(log_probability, text):
    assert percent_of_log(log_probability) == text
