"""What a person sees while something long runs, and what scripts do not see."""

import os
import subprocess
import sys
import time

import pytest

from permatch import _progress
from permatch._progress import Stages, progress_bar

FIRST_CALL = """
import logging
logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
from permatch.kernels.intrinsics import seed_state, uniform  # little to compile
uniform(seed_state(0))
"""


@pytest.mark.slow
def test_compilation_is_announced_once_and_not_when_cached(tmp_path):
    said = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", FIRST_CALL],
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        said.append(done.stderr.count("permatch compiling kernels"))
    assert said == [1, 0]


@pytest.mark.parametrize(("is_terminal", "seconds"), [(False, 99.0), (True, 1.0)])
def test_no_bar_in_scripts_or_for_short_work(is_terminal, seconds, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal, raising=False)
    with progress_bar("work", 3, seconds, None) as on_progress:
        assert on_progress is None


def test_a_bar_for_long_work_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with progress_bar("work", 3, 99.0, None) as on_progress:
        assert on_progress is not None
        on_progress(3)
    assert "work" in capsys.readouterr().err


@pytest.mark.parametrize("is_terminal", [False, True])
def test_stages_are_shown_on_terminals_once_they_take_a_while(
    is_terminal, monkeypatch, capsys
):
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal, raising=False)
    monkeypatch.setattr(_progress, "PATIENCE", 0.01)
    with Stages("reading") as stages:
        time.sleep(0.2)
        stages.say("counting")
        assert (stages._status is not None) == is_terminal
    time.sleep(0.05)
    assert ("reading" in capsys.readouterr().err) == is_terminal
