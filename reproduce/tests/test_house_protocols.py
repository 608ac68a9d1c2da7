"""The House where test pairs share less: the parts, the rows, what is said of them."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from permatch.errors import InvalidOptionError
from permatch.pages.demo_learning import Pairs
from reproduce.app import app
from reproduce.experiments.house_frames import PARTS, load_house
from reproduce.experiments.house_protocols import (
    CHOSEN,
    METHODS,
    PROTOCOLS,
    Config,
    choose_priors,
    explain,
    frames_of,
    landmarks_of,
    run,
    saved,
    summarise,
)
from reproduce.experiments.rows import read_rows
from reproduce.tests.house_folder import write_house

pytest.importorskip("lightgbm", reason="needs LightGBM (extra 'boosting')")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_house(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def tiny(root):
    return replace(Config.tiny(str(root)), gaps=(2,))


@pytest.fixture(scope="module")
def finished(tiny, tmp_path_factory):
    """The rows of a tiny run, and the file they are in."""
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    return list(run(tiny, path)), path


# ---- the parts ---------------------------------------------------------------------------


@pytest.mark.parametrize("gap", [10, 30, 50, 90])
def test_early_comes_before_late_and_no_frame_is_in_two_parts(gap):
    parts = frames_of("early-late", 111, gap, 10)
    frames = {part: {f for pair in parts[part] for f in pair} for part in PARTS}
    for first, second in (("train", "validation"), ("validation", "test")):
        assert not frames[first] & frames[second]
        assert max(parts[first])[0] < min(parts[second])[0]
    assert not frames["train"] & frames["test"]
    mixed = frames_of("early-late-mixed", 111, gap, 10)
    assert mixed["test"] == parts["test"]
    assert sorted(mixed["train"] + mixed["validation"]) == sorted(
        parts["train"] + parts["validation"]
    )


@pytest.mark.parametrize("gap", [10, 30, 50])
def test_near_far_learns_from_near_frames_and_tests_on_later_ones(gap):
    parts = frames_of("near-far", 111, gap, 10)
    gaps = {part: {j - i for i, j in parts[part]} for part in PARTS}
    assert gaps == {"train": {10}, "validation": {10}, "test": {gap}}
    ends = [(min(parts[part])[0], max(j for _, j in parts[part])) for part in PARTS]
    assert ends[0][1] < ends[1][0]
    assert ends[1][1] < ends[2][0]


def test_in_turn_is_what_the_experiment_of_the_house_does(root):
    house = load_house(root)
    parts = frames_of("in-turn", len(house.contexts), 4, 2)
    assert parts == {part: house.frames(4, part) for part in PARTS}


def test_halves_of_the_landmarks():
    new = landmarks_of("new-landmarks", 30, (0, 1))
    assert [len(new[part]) for part in PARTS] == [8, 7, 15]
    assert len(np.unique(np.concatenate(list(new.values())))) == 30
    same = landmarks_of("same-landmarks", 30, (0, 1))
    for part in PARTS:
        np.testing.assert_array_equal(same[part], new["test"])
    other = landmarks_of("new-landmarks", 30, (0, 2))
    assert not np.array_equal(other["test"], new["test"])


def test_a_gap_that_leaves_no_pair_is_refused(tiny):
    with pytest.raises(InvalidOptionError, match="a gap of 23 leaves none of 24 frames"):
        run(replace(tiny, gaps=(23,)))
    with pytest.raises(InvalidOptionError, match="protocols must be some of"):
        replace(tiny, protocols=("easy",))


# ---- the rows ----------------------------------------------------------------------------


def test_rows_are_complete(finished, tiny):
    rows, path = finished
    assert read_rows(path) == json.loads(json.dumps(rows, allow_nan=False)) == rows
    found = [tuple(row[k] for k in ("protocol", "gap", "repeat", "method")) for row in rows]
    assert found == tiny.tasks()
    assert {row["protocol"] for row in rows} == set(PROTOCOLS)
    for row in rows:
        assert row["hamming_loss"] == pytest.approx(np.mean(row["losses"]))
        if "alpha" in row:
            best = min(loss for _, loss in row["path"])
            tied = [alpha for alpha, loss in row["path"] if loss == best]
            assert row["alpha"] == max(tied)
            assert len(row["test_path"]) == len(row["path"])
        if row["method"] == "map_falling":
            assert max(row["coef"]) <= 0.0
            assert row["why"]["n_rising"] == 0


def test_a_strong_penalty_gives_back_what_it_draws_to(tiny, root):
    config = replace(tiny, protocols=("in-turn",), map_alphas=(1e9,))
    rows = {row["method"]: row for row in run(config)}
    np.testing.assert_allclose(rows["map_prior"]["coef"], -1.0, atol=1e-4)
    scaled = np.array(rows["map_scaled"]["coef"])
    assert np.ptp(scaled) < 1e-4
    assert scaled.mean() < 0.0
    assert rows["map_prior"]["losses"] == rows["unweighted"]["losses"]


def test_a_finished_run_computes_nothing(finished, tiny):
    rows, path = finished
    seen = []
    assert list(run(tiny, path, seen.append)) == rows
    assert seen == []


def test_what_may_be_wrong_is_counted():
    one, two = np.zeros((2, 2, 2)), np.zeros((2, 2, 2))
    one[0, 1] = one[1, 0] = [2.0, 1.0]
    two[0, 1] = two[1, 0] = [4.0, 1.0]
    from permatch.graphs import BipartiteGraph

    true = [np.arange(2)]
    train, test = (Pairs([BipartiteGraph(x)], true) for x in (one, two))
    found = explain(train, test, np.array([-1.0, 1.0]))
    assert found["share_beyond"] == pytest.approx(8.0 / 10.0)
    assert found["share_beyond_true"] == found["drift_test"] == 0.0
    assert (found["n_rising"], found["loss_falling"]) == (1, 0.0)
    assert found["share_rising"] == pytest.approx(1.0 / 3.0)
    wrong = explain(train, test, np.array([1.0, 0.0]))
    assert (wrong["train_loss"], wrong["loss_within"], wrong["n_rising"]) == (1.0, 1.0, 1)


# ---- what came out -----------------------------------------------------------------------


def test_the_prior_is_chosen_by_validation_and_ties_go_to_the_unweighted_score():
    key = {"config": "x", "protocol": "near-far", "gap": 5, "repeat": 0}
    rows = [
        key | {"method": method, "validation_loss": loss}
        for method, loss in (("map", 0.1), ("map_prior", 0.1), ("map_scaled", 0.2))
    ]
    (chosen,) = choose_priors(rows)
    assert (chosen["method"], chosen["prior"]) == (CHOSEN, "map_prior")
    rows[0]["validation_loss"] = 0.0
    assert choose_priors(rows)[0]["prior"] == "map"


def test_the_summary_is_that_of_the_rows(finished):
    rows, _ = finished
    lines = {(x["protocol"], x["gap"], x["method"]): x for x in summarise(rows)}
    assert {method for *_, method in lines} == {*METHODS, CHOSEN}
    own = [r for r in rows if (r["protocol"], r["method"]) == ("new-landmarks", "map")]
    line = lines["new-landmarks", 2, "map"]
    assert line["n_repeats"] == len(own) == 2
    assert line["loss"] == pytest.approx(np.mean([row["hamming_loss"] for row in own]))
    assert line["best_alpha"] == min(loss for _, loss in line["test_path"])
    film = lines["early-late", 2, "map"]
    assert film["saved"]["over"] == f"{film['n_test']} test pairs"
    gained = lines["early-late", 2, "unweighted"]["loss"] - film["loss"]
    assert film["saved"]["mean"] == pytest.approx(gained)
    assert "saved" not in lines["early-late", 2, "unweighted"]
    assert saved(own, own).mean == 0.0


def test_the_command(root, tmp_path, monkeypatch):
    monkeypatch.delenv("PERMATCH_DATA", raising=False)
    small = replace(Config.tiny(), gaps=(2,), protocols=("early-late",))
    monkeypatch.setattr(Config, "quick", lambda: small)
    options = ["house-protocols", "--quick", "--out", str(tmp_path)]
    runner = CliRunner(env={"COLUMNS": "200"})
    done = runner.invoke(app, [*options, "--data", str(root)])
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "house_protocols-quick.json").read_text())
    assert "data" not in found["config"]
    (line,) = (x for x in found["summary"] if x["method"] == "map")
    assert re.search(rf"early-late +2 .*{line['loss']:.3f}", done.stdout)
    absent = runner.invoke(app, options)
    assert absent.exit_code == 1
    assert "--data DIR or set PERMATCH_DATA" in absent.stderr
