"""Fixtures shared by the tests of the experiments."""

import pytest
from typer.testing import CliRunner

from reproduce.app import app
from reproduce.tests.paper_run import make_tiny, write_data
from tests.conftest import interrupts_are_heard, rng

__all__ = ["interrupts_are_heard", "rng"]


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """A folder of small data sets."""
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="session")
def finished(data, tmp_path_factory):
    """A folder after one undisturbed run of everything; not to be written to."""
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as monkeypatch:
        make_tiny(monkeypatch)
        options = ["all", "--quick", "--data", str(data), "--out", str(folder)]
        done = CliRunner(env={"COLUMNS": "140"}).invoke(app, options)
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    (folder / "stdout.txt").write_text(done.stdout)
    return folder
