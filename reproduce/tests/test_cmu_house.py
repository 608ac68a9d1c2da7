"""The house experiment: its pairs, its rows, how it resumes, the losses it must reach."""

import csv
import json
import os
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from typer.testing import CliRunner

import permatch as pm
from permatch.cuda.driver import available
from permatch.decoding import best_matching
from permatch.errors import InvalidOptionError, InvalidPointsError
from reproduce.app import app
from reproduce.experiments import cmu_house as experiment
from reproduce.experiments import read_rows
from reproduce.experiments.cmu_house import METHODS, Config, run, summarise
from reproduce.experiments.house_fits import Fit
from reproduce.experiments.house_frames import PARTS, find_folder, load_house
from reproduce.tests.house_folder import write_house

TIMES = {"seconds"}  # what may differ between two runs
# Wide enough for every table.
runner = CliRunner(env={"COLUMNS": "140"})


def without_times(rows):
    return [{k: v for k, v in row.items() if k not in TIMES} for row in rows]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_house(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def tiny(root):
    return Config.tiny(str(root))


@pytest.fixture(scope="module")
def finished(tiny, tmp_path_factory):
    """The rows of a tiny run, and the file they are in."""
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    return list(run(tiny, path)), path


# ---- the data ----------------------------------------------------------------------------


def test_pairs_are_dealt_out_in_turn(root):
    house = load_house(root)
    found = {part: house.frames(4, part) for part in PARTS}
    assert found["train"][:2] == [(0, 4), (3, 7)]
    assert found["validation"][0] == (1, 5)
    assert found["test"][0] == (2, 6)
    every = sorted(pair for pairs in found.values() for pair in pairs)
    assert every == [(i, i + 4) for i in range(20)]
    pairs = house.pairs(4, "test")
    left, right = house.nodes(2, 6)
    expected = (house.contexts[2][left[1]] - house.contexts[6][right[3]]) ** 2
    np.testing.assert_array_equal(pairs.graphs[0].features[1, 3], expected)
    np.testing.assert_array_equal(right[pairs.matchings[0]], left)


def test_ties_are_not_decided_for_the_truth(root):
    house = load_house(root)
    pairs = house.between([(i, i + 4) for i in range(20)], np.array([0, 2, 3, 5]))
    for (i, j), matching in zip(((i, i + 4) for i in range(20)), pairs[1], strict=True):
        left, right = house.nodes(i, j, np.array([0, 2, 3, 5]))
        np.testing.assert_array_equal(right[matching], left)
    blank = [best_matching(np.zeros((4, 4))) for _ in pairs.graphs]
    assert np.mean(np.array(blank) != np.array(pairs.matchings)) > 0.5  # 3/4 on average
    again = house.between([(0, 4)], np.array([0, 2, 3, 5]))
    np.testing.assert_array_equal(again.graphs[0].features, pairs.graphs[0].features)


def test_the_folder_is_found_or_explained(root, tmp_path, monkeypatch):
    assert find_folder(root) == find_folder(root / "cmu_house") == root / "cmu_house"
    monkeypatch.setenv("PERMATCH_DATA", str(root))
    assert find_folder() == root / "cmu_house"
    monkeypatch.delenv("PERMATCH_DATA")
    with pytest.raises(InvalidOptionError, match="--data DIR or set PERMATCH_DATA"):
        find_folder()
    with pytest.raises(InvalidOptionError, match="Set --data to the folder"):
        find_folder(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (np.zeros((3, 4, 2)), "got shapes"),
        (np.full((24, 6, 2), np.nan), "finite"),
        (np.array([{}]), "must be a numeric array"),
        (b"no array", "must be a numeric array"),
    ],
    ids=["shape", "nan", "objects", "text"],
)
def test_damaged_frames_are_refused(tmp_path, content, message):
    path = write_house(tmp_path) / "cmu_house" / "points.npy"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        np.save(path, content)
    with pytest.raises(InvalidPointsError, match=message):
        load_house(tmp_path)


def test_other_numbers_have_another_name(root, tiny, tmp_path):
    house, other = load_house(root), load_house(write_house(tmp_path, seed=1))
    name = tiny.fingerprint(house)
    assert tiny.fingerprint(other) != name
    assert replace(tiny, gaps=(3,), data=None).fingerprint(house) == name
    assert replace(tiny, n_draws=9).fingerprint(house) != name


# ---- the rows ----------------------------------------------------------------------------


def test_rows_are_complete(finished, tiny, root):
    rows, path = finished
    expected = [(gap, method) for gap in tiny.gaps for method in METHODS]
    assert [(row["gap"], row["method"]) for row in rows] == expected
    assert read_rows(path) == json.loads(json.dumps(rows)) == rows
    n_test = {2: 7, 6: 6}
    for row in rows:
        assert row["config"] == tiny.fingerprint(load_house(root))
        assert 0.0 <= row["hamming_loss"] <= 1.0
        assert row["n_test"] == len(row["losses"]) == n_test[row["gap"]]
        assert row["hamming_loss"] == pytest.approx(np.mean(row["losses"]))
        if row["method"] == "unweighted":
            continue
        alphas = tiny.margin_alphas if row["method"] == "max_margin" else tiny.map_alphas
        assert [alpha for alpha, _ in row["path"]] == list(alphas)
        assert row["validation_loss"] == min(loss for _, loss in row["path"])
        assert row["is_converged"]
        assert row["is_edge"] == (row["alpha"] in (alphas[0], alphas[-1]))
        assert ("check" in row) == (row["method"] == "map")
        assert (row["gradient_error"] is None) == (row["method"] != "map_drawn")


def test_losses_of_single_pairs_are_in_the_order_of_the_frames(finished, root):
    house = load_house(root)
    (row,) = (
        row for row in finished[0] if (row["gap"], row["method"]) == (6, "unweighted")
    )
    for (i, j), loss in zip(house.frames(6, "test"), row["losses"], strict=True):
        left, right = house.nodes(i, j)
        apart = house.contexts[i][left][:, None] - house.contexts[j][right][None]
        matching = linear_sum_assignment((apart**2).sum(axis=2))[1]
        assert loss == np.mean(right[matching] != left)


def test_learning_helps(finished):
    (line,) = (line for line in summarise(finished[0]) if line["gap"] == 6)
    for method in METHODS[1:]:
        assert line[method] < line["unweighted"]


def test_the_check_is_a_distance_between_marginals(finished):
    for row in finished[0]:
        if row["method"] == "map":
            check = row["check"]
            assert check["n_pairs"] == 1
            assert 0.0 <= check["misplaced"] <= check["largest"] * 3
            assert check["sampler_error"] < 0.01


def test_a_finished_run_computes_nothing(finished, tiny, monkeypatch):
    rows, path = finished
    monkeypatch.setattr(experiment, "_measure", None)
    before, shares, seen = path.read_bytes(), [], []
    assert list(run(tiny, path, seen.append, on_progress=shares.append)) == rows
    assert path.read_bytes() == before
    assert seen == []
    assert shares[-1] == 1.0


def test_a_run_resumes_where_it_was_stopped(finished, tiny, tmp_path):
    rows, path = finished
    copy = tmp_path / "rows.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    copy.write_bytes(b"".join(lines[:5]) + lines[5][:30])
    seen = []
    resumed = list(run(tiny, copy, seen.append, n_jobs=2))
    assert without_times(resumed) == without_times(rows)
    assert seen == resumed[5:]


def test_summary_puts_methods_side_by_side(finished):
    lines = summarise(finished[0])
    assert [line["gap"] for line in lines] == [2, 6]
    row = next(r for r in finished[0] if (r["gap"], r["method"]) == (6, "map_drawn"))
    assert lines[1]["map_drawn"] == row["hamming_loss"]
    assert lines[1]["map_drawn_error"] == row["standard_error"]
    assert lines[1]["map_drawn_alpha"] == row["alpha"]
    assert lines[1]["check_n_pairs"] == 1


def test_of_equally_good_alphas_the_first_is_no_accident():
    fit = Fit(np.zeros(2), 3.0, [[10.0, 0.2], [3.0, 0.1], [1.0, 0.1]], 4, 9, True)
    row = fit.to_row()
    assert (row["validation_loss"], row["is_edge"]) == (0.1, False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gaps": ()}, "gaps must contain at least one number"),
        ({"gaps": (-1,)}, "gaps must contain .* of at least 0"),
        ({"gaps": (2.5,)}, "every entry of gaps must be a whole number"),
        ({"map_alphas": (1.0, 0.0)}, "map_alphas must contain .* all above 0"),
        ({"n_draws": 0}, "n_draws must be a whole number of at least 1"),
    ],
    ids=["none", "negative", "half", "alphas", "draws"],
)
def test_bad_configurations_are_refused(tiny, options, message):
    with pytest.raises(InvalidOptionError, match=message):
        replace(tiny, **options)


def test_a_gap_wider_than_the_film_is_refused(tiny):
    with pytest.raises(InvalidOptionError, match="gaps must be at most 21 for 24 frames"):
        run(replace(tiny, gaps=(22,)))


# ---- the command -------------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch):
    """Make ``--quick`` quicker still, and forget where real data is."""
    pytest.importorskip("matplotlib", reason="needs matplotlib (extra 'plots')")
    monkeypatch.delenv("PERMATCH_DATA", raising=False)
    monkeypatch.setattr(Config, "quick", Config.tiny)


def test_everything_is_written_and_the_numbers_agree(quick, root, tmp_path):
    arguments = ["house", "--quick", "--data", str(root), "--out", str(tmp_path)]
    done = runner.invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [f"house-quick.{end}" for end in ("csv", "html", "jsonl", "png", "svg")]
    lines = summarise(read_rows(tmp_path / "house-quick.jsonl"))
    with (tmp_path / "house-quick.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    for line, cells in zip(lines, table, strict=True):
        for method in METHODS:
            assert float(cells[method]) == pytest.approx(line[method])
            text = f"{line[method]:.3f} +- {line[f'{method}_error']:.3f}"
            assert text in done.stdout
        assert float(cells["check_largest"]) == pytest.approx(line["check_largest"])
    worst = max(line["check_largest"] for line in lines)
    said = " ".join(done.stdout.split())
    assert "The likelihood is approximate" in said
    assert f"the largest error of an edge was {worst:.2f}" in said


def test_ctrl_c_keeps_the_rows_and_says_how_to_go_on(quick, root, tmp_path, monkeypatch):
    measure, n_measured = experiment._measure, 0

    def interrupted(*args):
        nonlocal n_measured
        n_measured += 1
        if n_measured == 3:
            raise KeyboardInterrupt
        return measure(*args)

    monkeypatch.setattr(experiment, "_measure", interrupted)
    arguments = ["house", "--quick", "--data", str(root), "--out", str(tmp_path)]
    stopped = runner.invoke(app, arguments)
    assert stopped.exit_code == 130
    assert "2 finished rows are in" in stopped.stderr
    assert runner.invoke(app, arguments).exit_code == 0
    assert n_measured == 3 + 6


def test_absent_data_is_explained(quick, tmp_path):
    done = runner.invoke(app, ["house", "--out", str(tmp_path)])
    assert done.exit_code == 1
    assert "--data DIR or set PERMATCH_DATA" in done.stderr


def test_help_teaches():
    done = runner.invoke(app, ["house", "--help"])
    text = " ".join(re.sub(r"[^\x20-\x7e]", " ", done.stdout).split())
    for word in ("--data", "PERMATCH_DATA", "--quick", "Examples", "Bethe"):
        assert word in text


# ---- the real house ----------------------------------------------------------------------

DATA = os.environ.get("PERMATCH_DATA")


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.skipif(not DATA, reason="needs the CMU House: set PERMATCH_DATA")
def test_the_losses_on_the_house_are_what_is_promised():
    promised = {50: 0.07, 70: 0.15, 90: 0.22}
    before = {50: 0.145, 70: 0.367, 90: 0.524}
    config = Config(gaps=tuple(promised), margin_alphas=(3.0, 0.3))
    for line in summarise(run(config, n_jobs=-1)):
        gap = line["gap"]
        assert line["unweighted"] == pytest.approx(before[gap], abs=0.001)
        assert line["map"] <= promised[gap]
        assert line["map_drawn"] <= promised[gap]
        assert line["max_margin"] <= promised[gap]
        assert line["check_sampler_error"] < 0.01


def test_on_a_gpu_exact_gradients_are_added(quick, root, tmp_path, monkeypatch):
    # Where there is none, the exact engine of the processor stands in: the house is small.
    monkeypatch.setattr("reproduce.commands.house.require_device", lambda: None)
    monkeypatch.setattr(experiment, "GlynnCuda", pm.Glynn)
    arguments = ["house", "--quick", "--data", str(root), "--out", str(tmp_path)]
    done = runner.invoke(app, [*arguments, "--device", "cuda"])
    assert done.exit_code == 0, done.output
    assert "MAP, exact" in done.stdout
    rows = read_rows(tmp_path / "house-quick.jsonl")
    exact = [row for row in rows if row["method"] == "map_exact"]
    assert [row["gradient_error"] for row in exact] == [0.0] * len(exact) != []
    assert "exact gradients ran on a GPU" in (tmp_path / "house-quick.html").read_text()


@pytest.mark.skipif(available() is None, reason="there is a GPU here")
def test_without_a_gpu_the_device_is_refused(root, tmp_path):
    arguments = ["house", "--data", str(root), "--out", str(tmp_path)]
    done = runner.invoke(app, [*arguments, "--device", "cuda"])
    assert done.exit_code != 0
    assert "requires an NVIDIA GPU" in done.output + str(done.exception)
