"""The table of run times: what is timed, what it is divided by, what stands beside it."""

from dataclasses import replace

import pytest

from permatch.errors import InvalidOptionError
from reproduce.experiments import rank_runtime, read_rows
from reproduce.experiments.letor_folds import load_folds
from reproduce.experiments.rank_runtime import PAPER, Config, run, summarise
from reproduce.experiments.timed_fits import first_queries
from reproduce.tests.letor_folder import write_letor


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return Config.tiny(str(write_letor(tmp_path_factory.mktemp("data"))))


def test_rows_are_complete_and_kept(tiny, tmp_path, monkeypatch):
    path = tmp_path / "rows.jsonl"
    rows = list(run(tiny, path))
    assert [(row["repeat"], row["size"], row["method"]) for row in rows] == [
        (repeat, size, method)
        for repeat in (0, 1)
        for size in (3, 9, "all")
        for method in ("rankmatch", "dorm")
    ]
    observations = {3: 9 * 19, 9: 2, "all": 9}
    for row in rows:
        assert row["n_observations"] == observations[row["size"]]
        assert row["seconds"] > 0
        per_one = row["seconds"] / row["n_observations"]
        assert row["seconds_per_observation"] == pytest.approx(per_one)
        assert row["n_evaluations"] >= 1
    monkeypatch.setattr(rank_runtime, "timed", None)
    assert list(run(tiny, path)) == rows == read_rows(path)
    lines = summarise(rows)
    assert [line["size"] for line in lines] == [3, 9, "all"]
    assert (lines[0]["paper_model"], lines[0]["paper_margin"]) == PAPER[3]
    assert lines[1]["paper_model"] is None


def test_images_are_matched_too(tiny):
    pytest.importorskip("skimage", reason="needs scikit-image (extra 'vision')")
    config = replace(tiny, sizes=(), image_size=5, n_repeats=1)
    rows = list(run(config))
    assert [(row["task"], row["size"], row["method"]) for row in rows] == [
        ("images", 5, "map"),
        ("images", 5, "max_margin"),
    ]
    assert {row["n_observations"] for row in rows} == {2}
    assert rows[0]["is_converged"]


def test_the_summary_takes_medians():
    rows = [
        {"task": "ranking", "size": 5, "method": "rankmatch", "n_observations": 10}
        | {"seconds_per_observation": value, "n_evaluations": 4}
        for value in (0.1, 0.2, 0.9)
    ]
    (line,) = summarise(rows)
    assert line["model"] == 0.2
    assert line["margin"] is None
    assert (line["paper_model"], line["paper_margin"]) == (0.0030187, 0.0015328)


def test_first_queries_have_all_grades(tiny):
    train = load_folds("OHSUMED", tiny.data).folds[0].train
    few = first_queries(train, 2)
    assert len(few.ids) == 2
    assert few.ids == train.ids[:2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sizes": (1,)}, "every entry of sizes must be a whole number of at least 2"),
        ({"n_repeats": 0}, "n_repeats must be"),
    ],
    ids=["size", "repeats"],
)
def test_bad_configurations_are_refused(options, message):
    with pytest.raises(InvalidOptionError, match=message):
        Config(**options)
