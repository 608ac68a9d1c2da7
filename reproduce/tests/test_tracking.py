"""The experiment on boxes: its data, its tracker, its rows, its page and its command."""

import json
import re
from html import unescape

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("motmetrics", reason="it judges the tracks")
pytest.importorskip("matplotlib", reason="the pictures are drawn by matplotlib")

from permatch.datasets import Boxes
from permatch.errors import InvalidOptionError
from reproduce.app import app
from reproduce.experiments import read_rows, tracking
from reproduce.experiments.box_tracker import (
    Track,
    follow,
    judge_tracks,
    lessons,
    link_by_iou,
)
from reproduce.experiments.frame_links import METHODS, assign
from reproduce.experiments.tracking import Config, run
from reproduce.experiments.tracking_summary import compare, summarise
from reproduce.experiments.tud_campus import imitate_detector, load_campus, thin_out
from reproduce.pages.tracking import tracking_page
from reproduce.tests.campus_folder import write_campus
from tests.pages.accessibility import check_report
from tests.pages.browser import needs_browser, open_page


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_campus(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def config(root):
    return Config.tiny(str(root))


@pytest.fixture(scope="module")
def rows(config):
    return list(run(config))


@pytest.fixture
def campus(root):
    return load_campus(root)


# ---- data


def test_parts_share_no_frames_or_no_people(campus):
    first, second = (campus.truth[mask] for mask in campus.halves("time"))
    assert first.frame.max() < second.frame.min()
    first, second = (campus.truth[mask] for mask in campus.halves("people"))
    assert not set(first.id) & set(second.id)
    assert len(first) + len(second) == len(campus.truth)


def test_the_detector_drops_and_moves(campus, rng):
    truth = campus.truth
    same = imitate_detector(truth, 0.0, 0.0, rng)
    assert same.box == pytest.approx(truth.box)
    seen = imitate_detector(truth, 0.5, 0.1, rng)
    assert 0.3 * len(truth) < len(seen) < 0.7 * len(truth)
    assert set(zip(seen.frame, seen.id, strict=True)) <= set(
        zip(truth.frame, truth.id, strict=True)
    )


def test_thinning_out_keeps_every_frame_once(campus):
    truth = campus.truth
    parts = [thin_out(truth, 3, phase) for phase in range(3)]
    assert sum(map(len, parts)) == len(truth)
    assert parts[1].at(2).box.tolist() == truth.at(5).box.tolist()
    assert np.array_equal(thin_out(truth, 1, 0).table, truth.table)


def test_gaps_must_fit(root):
    with pytest.raises(InvalidOptionError, match="below half of the 16 frames; got 8"):
        run(Config(gaps=(8,), data=str(root)))
    with pytest.raises(InvalidOptionError, match="drop must be"):
        Config(drop=1.0)


# ---- the tracker


def test_a_track_learns_its_velocity():
    track = Track.begin(1, np.array([0.0, 0.0, 20.0, 50.0]))
    for t in range(1, 30):
        track.predict()
        assert track.missed == 1
        track.update(np.array([3.0 * t, 0.0, 20.0, 50.0]))
    assert track.state[1] == pytest.approx([3.0, 0.0], abs=0.1)
    track.predict()
    assert track.box == pytest.approx([90.0, 0.0, 20.0, 50.0], abs=0.5)


def test_perfect_boxes_are_tracked_perfectly(campus):
    truth = campus.truth
    tracks = follow(truth.with_id(None), link_by_iou(0.1), 3)
    found = judge_tracks([(truth, tracks)])
    assert found["idf1"] == found["mota"] == 1.0
    assert found["n_objects"] == len(truth)


def test_measures_count_switches_misses_and_false_boxes():
    box = [[0.0, 0.0, 9.0, 9.0]]
    truth = Boxes([1, 2, 3, 4], [1, 1, 1, 1], box * 4)
    tracks = Boxes([1, 2, 4, 4], [7, 7, 8, 9], [*box * 3, [90.0, 90.0, 9.0, 9.0]])
    found = judge_tracks([(truth, tracks)])
    assert (found["switches"], found["misses"], found["false_positives"]) == (1, 1, 1)
    assert found["mota"] == pytest.approx(1 - 3 / 4)


def test_lessons_are_what_a_perfect_tracker_decides(campus):
    seen = imitate_detector(campus.truth, 0.3, 0.0, np.random.default_rng(1))
    known = lessons(seen, 2, campus.size, 1.5)
    graph, matching = known.graphs[0], known.matchings[0]
    assert graph.n_left == 0
    assert len(matching) == 0
    n_births = 0
    for graph, matching in zip(known.graphs, known.matchings, strict=True):
        assert len(matching) == graph.n_left
        n_births += graph.n_right - int((matching >= 0).sum())
    # Everyone is born once, and again if out of sight for more than two frames.
    n_rebirths = sum(
        int((np.diff(np.sort(seen.frame[seen.id == k])) > 3).sum()) for k in set(seen.id)
    )
    assert n_births == len(set(seen.id)) + n_rebirths
    # A track that is missed still waits, with its features.
    assert max(graph.left_features[:, 3].max(initial=0.0) for graph in known.graphs) > 0.0


def test_assignments_prefer_larger_sums(rng):
    from itertools import permutations

    from permatch.graphs import BipartiteGraph

    graph, values = BipartiteGraph(np.zeros((4, 4, 1))), rng.normal(size=16)
    table = values.reshape(4, 4)
    best = max(permutations(range(4)), key=lambda p: table[range(4), p].sum())
    assert assign([graph], values).reshape(4, 4).argmax(axis=1).tolist() == list(best)


# ---- rows


def test_rows_have_every_measure(rows, config):
    assert len(rows) == 2 * (2 * len(METHODS) + 2)
    for row in rows:
        names = ("idf1", "mota") if row["task"] == "tracks" else ("f1", "brier")
        assert all(0.0 <= row[name] <= 1.0 for name in names)
        assert len(row["chosen"]) == 2
    links = [row for row in rows if row["task"] == "links_time"]
    assert (
        len({(row["n_pairs"], row["n_true"]) for row in links if row["repeat"] == 0}) == 1
    )
    easy = {row["method"]: row["f1"] for row in links}
    assert easy["permatch"] > 0.8


def test_a_run_goes_on_where_it_stopped(config, rows, tmp_path, monkeypatch):
    path = tmp_path / "tracking.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows[:-1]))
    done = []
    again = list(run(config, path, done.append))
    assert [row["task"] for row in done] == ["tracks"]
    seconds = {"seconds": None}
    assert [row | seconds for row in again] == [row | seconds for row in rows]
    monkeypatch.setattr(tracking, "_measure", lambda *args: pytest.fail("not used"))
    assert list(run(config, path)) == again


def test_lines_and_leads(rows):
    lines = summarise(rows)
    assert len(lines) == 2 * len(METHODS) + 2
    assert all(line["brier"] is None for line in lines if line["task"] == "tracks")
    leads = compare(rows)
    assert len(leads) == 2 * 2 * 3 + 2
    key, effect = leads[1]
    assert key == {"task": "links_time", "gap": 2, "rival": "iou", "measure": "brier"}
    values = {
        (row["repeat"], row["method"]): row["brier"]
        for row in rows
        if row["task"] == "links_time"
    }
    differences = [values[k, "iou"] - values[k, "permatch"] for k in (0, 1)]
    assert effect.mean == pytest.approx(np.mean(differences))


# ---- the page and the command


def words(html):
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def test_the_page_shows_wins_and_losses(config, campus, rows):
    text = words(tracking_page(config, campus, rows).render())
    line = summarise(rows)[0]
    assert f"{line['f1']['mean']:.3f} ± {line['f1']['spread']:.3f}" in text
    assert "nobody is in both parts" in text
    assert "tell nothing about other videos" in text
    worse = [
        row | {"f1": 1e-3 * row["repeat"] if row["method"] == "permatch" else 0.9}
        for row in rows
        if row["task"] != "tracks"
    ]
    text = words(tracking_page(config, campus, worse).render())
    assert re.search(r"F1 IoU \+ Hungarian \u22120\.899 .{16} behind", text)


@needs_browser
def test_the_page_in_a_browser(config, campus, rows, tmp_path):
    path = tmp_path / "tracking.html"
    tracking_page(config, campus, rows).write(path)
    with open_page(path, tmp_path, 400, "light") as driver:
        check_report(driver, "Linking boxes and tracking people on TUD-Campus", 4)
        root = "document.documentElement"
        wide = driver.execute_script(f"return {root}.scrollWidth - {root}.clientWidth")
        assert wide <= 0


def test_the_command_writes_all_files(root, tmp_path, monkeypatch):
    monkeypatch.setattr(Config, "quick", Config.tiny)
    options = ["tracking", "--quick", "--data", str(root), "--out", str(tmp_path)]
    done = CliRunner(env={"COLUMNS": "140"}).invoke(app, options)
    assert done.exit_code == 0, done.output
    assert "tracking-quick.{jsonl, csv, html, json, png, svg}" in done.stdout
    assert "IoU + Hungarian" in done.stdout
    found = json.loads((tmp_path / "tracking-quick.json").read_text())
    assert found["is_quick"]
    assert "data" not in found["config"]
    assert str(root) not in (tmp_path / "tracking-quick.html").read_text()
    assert len(found["leads"]) == 14
    assert len(read_rows(tmp_path / "tracking-quick.jsonl")) == 16
    table = (tmp_path / "tracking-quick.csv").read_text().splitlines()
    assert len(table) == 1 + 8


def test_without_data_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.delenv("PERMATCH_DATA", raising=False)
    out = tmp_path / "out"
    done = CliRunner().invoke(app, ["tracking", "--out", str(out)])
    assert done.exit_code == 1
    assert "TUD-Campus (gt.txt) is required" in done.stderr
    assert not out.exists()
