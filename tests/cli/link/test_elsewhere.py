"""``permatch link --from-disk``: a folder of pairs in, a folder of links out."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import permatch as pm
from permatch.cli.main import app
from permatch.linking import link_parts

OK, FAILURE, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130
PAIRS = {"left": list("aabc"), "right": list("xyyz"), "probability": [0.8, 0.3, 0.6, 0.1]}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(pa.table(PAIRS), folder / "0.parquet")
    return folder


def run(*arguments):
    return CliRunner().invoke(app, ["link", *map(str, arguments)])


def test_links_are_written_to_a_folder(folder):
    done = run(folder, "--from-disk", "--out", "links", "--review", "2")
    assert done.exit_code == OK
    assert "4 pairs of 3 left records and 3 right records" in done.stderr
    links = pm.Links.read("links/part-00000.parquet")
    assert np.array_equal(links["probability"], pm.link(PAIRS)["probability"])
    assert len(pm.Links.read("review.csv")) == 2


def test_a_folder_may_be_called_like_the_command(folder):
    folder.rename(folder.with_name("pairs"))
    assert run("pairs", "--from-disk", "--out", "links").exit_code == OK
    assert "Usage: permatch link" in run("pairs", "--help").stdout


def test_ctrl_c_says_how_to_go_on(folder, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(link_parts, "write_part", interrupted)
        done = run(folder, "--from-disk", "--out", "links")
    assert done.exit_code == INTERRUPTED
    assert "kept in links. Run the same command again to go on" in done.stderr
    assert run(folder, "--from-disk", "--out", "links").exit_code == OK


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--from-disk"], WRONG_USAGE, "name a folder with --out"),
        (["--from-disk", "--out", "x", "--links-only"], WRONG_USAGE, "--links-only is for"),
        (["--out", "x"], WRONG_USAGE, "add --from-disk"),
        (["--from-disk", "--dask", "tcp://h:1", "--out", "x"], WRONG_USAGE, "exclude"),
        (["--from-disk", "--out", "in"], FAILURE, "must be a new or empty folder"),
    ],
)
def test_mistakes_are_explained(folder, arguments, status, message):
    done = run("in/", *arguments)
    assert done.exit_code == status
    assert message in " ".join(done.stderr.split())
