"""Probabilities of grades next to each other: the rows, the curves, and the command."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from reproduce.app import app
from reproduce.experiments.letor_folds import Lists
from reproduce.experiments.relevance import (
    EVENTS,
    METHODS,
    Config,
    measure,
    run,
    split_by_shares,
    summarise,
)
from reproduce.experiments.rows import read_rows
from reproduce.tests.letor_folder import write_letor


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder with the results of a quick run."""
    folder = tmp_path_factory.mktemp("quick")
    result = CliRunner().invoke(app, ["relevance", "--quick", "--out", str(folder)])
    assert result.exit_code == 0, result.output
    assert "expected calibration error" in " ".join(result.stdout.split())
    assert "…" not in result.stdout
    return folder


@pytest.fixture(scope="module")
def rows(folder):
    return read_rows(folder / "relevance-quick.jsonl")


def test_rows_are_complete(rows):
    names = [(row["repeat"], row["method"], row["event"]) for row in rows]
    assert names == [(k, m, e) for k in (0, 1) for m in METHODS for e in EVENTS]
    for row in rows:
        counts, predicted, observed = row["bins"]
        assert sum(observed) <= sum(counts)
        away = np.abs(np.subtract(predicted, observed)).sum() / sum(counts)
        assert row["calibration_error"] == pytest.approx(away)
    slopes = {row["method"]: row.get("slope") for row in rows}
    assert slopes["learned"] == 1.0 != slopes["calibrated"]
    assert slopes["rate"] is None


def test_figures_are_what_they_are_called():
    chances = np.array([[0.6, 0.3, 0.1], [0.2, 0.3, 0.5], [0.9, 0.1, 0.0]])
    lists = Lists(np.zeros((3, 1)), np.array([0, 2, 0]), np.array([1, 1, 2]))
    found = measure(chances, lists, "relevant")
    assert found["brier"] == pytest.approx((0.4**2 + 0.2**2 + 0.1**2) / 3)
    assert found["log_loss"] == pytest.approx(-np.log([0.6, 0.8, 0.9]).mean())
    assert found["calibration_error"] == pytest.approx((0.4 + 0.2 + 0.1) / 3)
    assert found["squares"][4] == pytest.approx(0.4**2)
    assert measure(chances, lists, "highest")["brier"] == pytest.approx(0.26 / 3)


def test_shares_are_split_to_whole_numbers():
    assert split_by_shares(10, np.array([0.06, 0.13, 0.81])).tolist() == [1, 1, 8]
    assert split_by_shares(1, np.array([0.5, 0.5])).tolist() == [1, 0]


def test_summaries_pool_the_bins(rows, folder):
    (line,) = (
        line
        for line in summarise(rows)
        if (line["event"], line["method"]) == ("relevant", "learned")
    )
    own = [r for r in rows if (r["event"], r["method"]) == ("relevant", "learned")]
    assert line["log_loss"]["mean"] == pytest.approx(np.mean([r["log_loss"] for r in own]))
    assert sum(b["count"] for b in line["bins"]) == sum(sum(r["bins"][0]) for r in own)
    found = json.loads((folder / "relevance-quick.json").read_text())
    assert "data" not in found["config"]
    assert found["summary"] == summarise(rows)
    assert (folder / "relevance-quick-short.svg").exists()


def test_a_second_run_computes_nothing(folder, rows):
    assert list(run(Config.tiny(), folder / "relevance-quick.jsonl")) == rows


def test_folds_of_letor(tmp_path):
    config = Config(("ohsumed",), 1, alphas=(0.1, 1.0), data=str(write_letor(tmp_path)))
    rows = list(run(config))
    assert len(rows) == len(METHODS) * len(EVENTS)
