"""Boosted ranking next to rivals: the lists, the rows, and the command."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from reproduce.app import app
from reproduce.experiments.boosted_ranking import METHODS, Config, compare, run, summarise
from reproduce.experiments.rows import read_rows
from reproduce.experiments.stepped_lists import Stepped
from reproduce.experiments.tree_rivals import grow, mean_ndcg

pytest.importorskip("lightgbm", reason="needs LightGBM (extra 'boosting')")
pytest.importorskip("xgboost", reason="needs XGBoost (extra 'reproduce')")


@pytest.fixture(scope="module")
def fold():
    return Config.tiny().stepped.draw((0, 0))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder with the results of a quick run."""
    folder = tmp_path_factory.mktemp("quick")
    result = CliRunner().invoke(app, ["trees", "--quick", "--out", str(folder)])
    assert result.exit_code == 0, result.output
    assert "rank_xendcg" in result.stdout
    return folder


@pytest.fixture(scope="module")
def rows(folder):
    return read_rows(folder / "boosted_ranking-quick.jsonl")


def test_lists_have_their_shapes_and_shares(fold):
    assert [len(part.ids) for part in (fold.train, fold.validation, fold.test)] == [
        12,
        8,
        20,
    ]
    assert fold.train.X.shape[1] == 4 * 3 + 3
    assert fold.train.y.max() == 4
    assert 0.4 < np.mean(fold.train.y == 0) < 0.6
    of_query = fold.train.X[:, -3:]
    assert (of_query == of_query[fold.train.starts[:-1]][fold.train.qid]).all()


def test_lists_are_drawn_from_their_seed():
    lists = Stepped((3, 2, 2), (5, 6), 3, 2, 2, (1, 1, 1))
    one, same, other = (lists.draw((0, seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.test.X, same.test.X)
    np.testing.assert_array_equal(one.test.y, same.test.y)
    assert one.test.X.shape != other.test.X.shape or not np.allclose(
        one.test.X, other.test.X
    )


@pytest.mark.parametrize("objective", ["lambdarank", "rank:ndcg"])
def test_rivals_stop_at_their_best_round(objective, fold):
    options = {"num_leaves": 4, "learning_rate": 0.3, "patience": 2, "seed": 0}
    grown = grow(objective, fold, n_rounds=20, **options)
    assert grown.n_rounds <= 20
    valid = fold.validation
    assert mean_ndcg(valid, grown.predict(valid.X)) == pytest.approx(grown.score, abs=1e-6)


def test_rows_are_what_they_say(rows):
    assert [row["method"] for row in rows] == [*METHODS, *METHODS]
    for row in rows:
        assert len(row["values"]) == 20
        assert np.mean(row["values"]) == pytest.approx(np.mean(row["ndcg"]))
    assert {line["method"] for line in summarise(rows)} == set(METHODS)


def test_tests_are_paired_and_corrected(rows):
    tests = compare(rows, n_resamples=200)
    assert [test["method"] for test in tests] == [m for m in METHODS if m != "boosted"]
    values = {(row["repeat"], row["method"]): np.array(row["values"]) for row in rows}
    for test in tests:
        gaps = [values[k, "boosted"] - values[k, test["method"]] for k in (0, 1)]
        assert test["difference"] == pytest.approx(np.mean(gaps))
        np.testing.assert_allclose(test["by_repeat"], [np.mean(gap) for gap in gaps])
        assert test["p_holm"] >= test["p_value"]


def test_a_second_run_computes_nothing(folder, rows):
    assert list(run(Config.tiny(), folder / "boosted_ranking-quick.jsonl")) == rows
    assert read_rows(folder / "boosted_ranking-quick.jsonl") == rows


def test_results_do_not_tell_where_data_are(folder):
    found = json.loads((folder / "boosted_ranking-quick.json").read_text())
    assert "data" not in found["config"]
    assert len(found["summary"]) == len(METHODS)
