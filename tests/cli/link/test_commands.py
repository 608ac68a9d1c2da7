"""``permatch link``: a table of pairs in, links out, and every way to get it wrong."""

import numpy as np
import pytest
from typer.testing import CliRunner

import permatch as pm
from permatch.cli.main import app
from permatch.linking import solving

OK, FAILURE, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130

TABLE = """left,right,probability,score
a,x,0.8,1
a,y,0.3,2
b,y,0.6,1
c,z,0.1,0
"""


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "pairs.csv"
    path.write_text(TABLE)
    return path


def run(*arguments, **more):
    return CliRunner().invoke(app, ["link", *map(str, arguments)], **more)


def test_links_are_written(table):
    done = run(table, "--out", "links.csv")
    assert done.exit_code == OK
    assert done.stdout == ""
    assert "4 pairs of 3 left records and 3 right records" in done.stderr
    links = pm.Links.read("links.csv")
    assert np.allclose(links["probability"], pm.link(table)["probability"])


def test_standard_input_and_output(table):
    done = run("-", "--links-only", input=TABLE)
    assert done.exit_code == OK
    lines = done.stdout.splitlines()
    assert lines[0].startswith("left,right,probability,pair_probability")
    assert [line[:3] for line in lines[1:]] == ["a,x", "b,y"]
    assert run("-", "--links-only", "--out", "-", input=TABLE).stdout == done.stdout


def test_pairs_to_review(table):
    done = run(table, "-o", "links.parquet", "--review", "2")
    assert done.exit_code == OK
    assert "wrote review.csv" in done.stderr
    found = pm.Links.read("review.csv")
    wanted = pm.link(table).review(2)
    assert found["left"].tolist() == wanted["left"].tolist()
    assert np.allclose(found["gain"], wanted["gain"])
    assert len(pm.Links.read("links.parquet")) == 4


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (["--score", "score"], {"score": "score"}),
        (["--expected-links", "none"], {"expected_links": None}),
        (["--expected-links", "1.25"], {"expected_links": 1.25}),
        (["--false", "5"], {"costs": pm.LinkCosts(false=5.0)}),
        (["--abstain", "0.1"], {"costs": pm.LinkCosts(abstain=0.1)}),
        (["--capacity-left", "2"], {"capacity_left": 2}),
    ],
)
def test_options_are_those_of_the_function(table, arguments, options):
    done = run(table, "-o", "links.csv", *arguments)
    assert done.exit_code == OK
    found, wanted = pm.Links.read("links.csv"), pm.link(table, **options)
    assert np.allclose(found["probability"], wanted["probability"])
    assert found["decision"].tolist() == wanted["decision"].tolist()


def test_a_model_scores_the_pairs(table):
    labelled = {
        "left": ["a", "a", "b", "c"],
        "right": ["x", "y", "y", "z"],
        "score": [2.0, 0.5, 1.0, -1.0],
        "label": [1, 0, 1, 0],
    }
    model = pm.fit_links(labelled, features=["score"])
    model.save("model.json")
    assert run(table, "-o", "links.csv", "--model", "model.json").exit_code == OK
    found, wanted = pm.Links.read("links.csv"), pm.link(table, model=model)
    assert np.allclose(found["probability"], wanted["probability"])


def test_warnings_are_single_lines(table):
    rows = [f"{i},{2 * i + k},0.9" for i in range(3) for k in range(2)]
    table.write_text("\n".join(["left,right,probability", *rows]))
    done = run(table)
    assert done.exit_code == OK
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("warning:")]
    assert "set --expected-links" in line


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--expected-links", "many"], WRONG_USAGE, "must be pairs, none, or a number"),
        (["--expected-links", "9"], FAILURE, "must be below 3"),
        (["--left", "id"], FAILURE, "the column 'id'; its columns are 'left', 'right'"),
        (["--out", "pairs.csv"], WRONG_USAGE, "would overwrite an input"),
        (["--review", "2", "--review-out", "no/r.csv"], FAILURE, "folder does not exist"),
        (["--review", "0"], WRONG_USAGE, "--review"),
        (["-o", "review.csv", "--review", "2"], WRONG_USAGE, "must be different files"),
        (["-o", "m.json", "--model", "m.json"], WRONG_USAGE, "would overwrite an input"),
        (["-o", "links.xlsx"], FAILURE, "files that end in .csv, .tsv, .csv.gz"),
        (["--wrong", "-1"], WRONG_USAGE, "--wrong"),
        (["--probability", "score"], FAILURE, "pass it as --weight; if it holds log-odds"),
        (["--probability", "score", "--weight", "score"], FAILURE, "got --probability and"),
        (["--model", "no.json"], FAILURE, "no.json"),
    ],
)
def test_mistakes_are_explained(table, arguments, status, message):
    table.with_name("m.json").write_text("{}")
    done = run("pairs.csv", *arguments)
    assert done.exit_code == status
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_missing_columns_are_to_be_named_by_options(table):
    table.write_text("a,b,p\n1,2,0.5\n")
    done = run("pairs.csv")
    assert done.exit_code == FAILURE
    assert "Name the columns that hold them: --left and --right." in done.stderr


def test_no_arguments_show_the_help():
    for arguments in ([], ["-h"], ["--help"]):
        done = run(*arguments)
        assert done.exit_code == OK
        assert "Usage: permatch link [OPTIONS]" in done.output.replace("root", "permatch")
        assert "permatch link show" in done.output


def test_ctrl_c_while_intervals_are_narrowed_writes_what_is_decided(table, monkeypatch):
    def interrupted(*given):
        import os
        import signal

        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError  # not reached: the signal raises

    def nothing(self, share):
        return np.zeros(len(self.problem.structure.components), dtype=bool)

    from permatch.linking import bounding

    monkeypatch.setattr(solving.Solver, "_affordable", nothing)
    monkeypatch.setattr(bounding, "_MODERATE", 0)
    monkeypatch.setattr(bounding, "_STEPS", 0)
    monkeypatch.setattr(solving.Solver, "refine", interrupted)
    rows = [f"{i},{j},{0.8 if i == j else 0.4}" for i in range(6) for j in range(6)]
    table.write_text("\n".join(["left,right,probability", *rows, "a,x,0.9"]))
    done = run(table, "-o", "links.csv", "--expected-links", "none")
    assert done.exit_code == INTERRUPTED
    assert "left for review" in done.stderr
    assert "review" in pm.Links.read("links.csv")["decision"].tolist()


def test_ctrl_c_before_writes_nothing(table, monkeypatch):
    def interrupted(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(solving.Solver, "solve", interrupted)
    done = run(table, "-o", "links.csv")
    assert done.exit_code == INTERRUPTED
    assert "nothing was written" in done.stderr
