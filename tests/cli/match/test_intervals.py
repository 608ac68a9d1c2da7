"""``permatch match`` with intervals: how sure weights and probabilities are."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from permatch.cli.match.commands import match
from permatch.datasets import edge_table_from_matches, read_edge_table
from permatch.errors import TableError
from permatch.estimators import load
from permatch.pages.match_explorer import match_page
from permatch.pages.model_view import model_view

EXAMPLES = Path(__file__).parents[3] / "examples"
TRAIN, NEW = EXAMPLES / "links.csv", EXAMPLES / "new_links.csv"


def call(*args):
    return CliRunner().invoke(match, [*map(str, args)])


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A model fitted by the command, and what it printed."""
    path = tmp_path_factory.mktemp("models") / "model.json"
    result = call("fit", TRAIN, "--model", path, "--inference", "sandwich", "--json")
    assert result.exit_code == 0, result.output
    return path, json.loads(result.stdout)


def test_fit_reports_and_stores_how_sure_the_weights_are(fitted):
    path, summary = fitted
    model, table = load(path), read_edge_table(TRAIN)
    expected = model.inference(table.graphs, table.matchings)
    low, high = expected.conf_int().T
    rows = summary["coefficients"]
    assert [row["standard_error"] for row in rows] == pytest.approx(expected.bse)
    assert [row["low"] for row in rows] == pytest.approx(low)
    assert [row["high"] for row in rows] == pytest.approx(high)
    assert summary["inference"]["cov_type"] == "sandwich"
    assert summary["inference"]["interval"] == "95 % posterior interval"
    np.testing.assert_array_equal(load(path).posterior_.covariance, expected.covariance)


def test_fit_shows_intervals(tmp_path):
    path = tmp_path / "m.json"
    result = call("fit", TRAIN, "-m", path, "--inference", "laplace", "--non-negative")
    assert result.exit_code == 0, result.output
    assert "95 % posterior interval" in result.stdout
    assert "at a bound" in result.stdout
    assert "note: At a bound" in result.stdout


def test_predict_writes_intervals(fitted):
    path, _ = fitted
    model = load(path)
    table = read_edge_table(NEW).arrange_features(model.feature_names_)
    result = call("predict", path, NEW, "--intervals", "--marginals")
    assert result.exit_code == 0, result.output
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    pairs = [row for row in rows if row["left"] and row["right"]]
    found = model.predict_marginals(table.graphs, uncertainty=model.posterior_)
    expected = np.concatenate([one.low for one in found])
    assert [float(row["probability_low"]) for row in pairs] == expected.tolist()
    for row in rows:
        ends = (row["probability_low"], row["probability"], row["probability_high"])
        low, chance, high = map(float, ends)
        assert low <= chance <= high
    alone = [row for row in rows if not (row["left"] and row["right"])]
    assert alone
    nodes = [own.high for one in found for own in (one.unmatched_left, one.unmatched_right)]
    assert [float(row["probability_high"]) for row in alone] == pytest.approx(
        np.concatenate(nodes)
    )


def test_wrong_usage(fitted, tmp_path):
    path, _ = fitted
    plain = tmp_path / "plain.json"
    assert call("fit", TRAIN, "--model", plain).exit_code == 0
    result = call("predict", plain, NEW, "--intervals")
    assert result.exit_code == 2
    assert "Fit it with --inference" in " ".join(result.stderr.split())
    result = call("predict", path, NEW, "--intervals", "--no-probabilities")
    assert "drop --no-probabilities" in " ".join(result.stderr.split())
    more = ("--inference", "laplace", "--estimator", "max-margin")
    result = call("fit", TRAIN, "--model", plain, *more)
    assert "--inference needs --estimator map" in " ".join(result.stderr.split())
    table = read_edge_table(NEW)
    with pytest.raises(TableError, match="intervals must have a pair of arrays per graph"):
        edge_table_from_matches(
            table, [np.full(g.n_left, -1) for g in table.graphs], intervals=[]
        )


def test_the_explorer_shows_intervals_of_exact_probabilities(fitted):
    model = load(fitted[0])
    table = read_edge_table(NEW).arrange_features(model.feature_names_)
    view = model_view(model, table)
    assert view.is_exact.all()
    assert view.with_interval.all()
    assert (view.low <= view.chances).all()
    assert (view.chances <= view.high).all()
    page = match_page(view).render()
    assert "interval (95 %, posterior interval of the weights)" in page
    del model.posterior_
    assert not model_view(model, table).with_interval.any()
