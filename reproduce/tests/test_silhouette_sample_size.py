"""The silhouette experiment: its rows, how it resumes, and the losses it must reach."""

import json
import signal
from dataclasses import replace

import numpy as np
import pytest

from permatch.errors import InvalidOptionError
from permatch.pages.demo_learning import draw
from reproduce.experiments import read_rows
from reproduce.experiments import silhouette_sample_size as experiment
from reproduce.experiments.matching_trees import TREES, TreeGrid
from reproduce.experiments.silhouette_protocols import PROTOCOLS
from reproduce.experiments.silhouette_sample_size import Config, judged, run, summarise

pytest.importorskip("skimage", reason="needs scikit-image (extra 'vision')")
pytest.importorskip("lightgbm", reason="needs LightGBM (extra 'boosting')")

TINY = Config.tiny()
TIMES = {"seconds", "path"}  # what may differ between two runs


def without_times(rows):
    return [{k: v for k, v in row.items() if k not in TIMES} for row in rows]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The rows of a tiny run, and the file they are in."""
    path = tmp_path_factory.mktemp("tiny") / "rows.jsonl"
    return list(run(TINY, path)), path


def test_rows_are_complete(finished):
    rows, path = finished
    assert [(row["repeat"], row["n"], row["method"]) for row in rows] == [
        (repeat, n, method)
        for repeat in (0, 1)
        for n, method in [
            (0, "unweighted"),
            (2, "map"),
            (2, "max_margin"),
            (4, "map"),
            (4, "max_margin"),
            (4, "boosted"),
            (4, "pairs"),
        ]
    ]
    assert read_rows(path) == json.loads(json.dumps(rows)) == rows
    for row in rows:
        assert row["config"] == TINY.fingerprint()
        assert 0.0 <= row["hamming_loss"] <= 1.0
        if row["method"] == "unweighted":
            continue
        best = min(row["path"], key=lambda step: step["validation_loss"])
        if row["method"] in TREES:
            assert row["validation_loss"] == best["validation_loss"]
            assert row["n_evaluations"] >= row["chosen"]["n_rounds"] >= 1
            continue
        alphas = TINY.map_alphas if row["method"] == "map" else TINY.margin_alphas
        assert [step["alpha"] for step in row["path"]] == list(alphas)
        assert {key: row[key] for key in best} == best
        assert row["n_evaluations"] >= 1
        assert row["is_converged"]


def test_learning_helps(finished):
    rows, _ = finished
    means = {(line["n"], line["method"]): line["mean"] for line in summarise(rows)}
    assert means[4, "map"] < means[0, "unweighted"]
    assert means[4, "max_margin"] < means[0, "unweighted"]


def test_a_finished_run_computes_nothing(finished, monkeypatch):
    rows, path = finished
    monkeypatch.setattr(experiment, "draw_pairs", None)
    before, shares, seen = path.read_bytes(), [], []
    assert list(run(TINY, path, seen.append, on_progress=shares.append)) == rows
    assert path.read_bytes() == before
    assert seen == []
    assert shares[-1] == 1.0


def test_a_run_resumes_where_it_was_stopped(finished, tmp_path):
    rows, path = finished
    copy = tmp_path / "rows.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    copy.write_bytes(b"".join(lines[:7]) + lines[7][:30])
    seen, shares = [], []
    resumed = list(run(TINY, copy, seen.append, on_progress=shares.append))
    assert without_times(resumed) == without_times(rows)
    assert seen == resumed[7:]
    assert read_rows(copy) == resumed
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_more_sizes_and_repeats_add_to_the_same_rows(finished, monkeypatch, tmp_path):
    rows, path = finished
    copy = tmp_path / "rows.jsonl"
    copy.write_bytes(path.read_bytes())
    more = replace(TINY, n_train=(2, 3, 4), n_repeats=3)
    seen = []
    list(run(more, copy, seen.append))
    new = [(row["repeat"], row["n"]) for row in seen if row["method"] == "map"]
    assert new == [(0, 3), (1, 3), (2, 2), (2, 3), (2, 4)]
    fresh = [row for row in run(replace(more, n_repeats=1)) if row["n"] in (0, 2, 4)]
    assert without_times(fresh) == without_times(rows[:7])


def test_trees_learn_from_the_most_pairs_in_the_first_repeats(finished):
    rows, path = finished
    config = replace(TINY, n_repeats=3, n_tree_repeats=1)
    assert config.fingerprint() == TINY.fingerprint()
    tasks = [config.repeat_tasks(repeat) for repeat in range(3)]
    assert tasks[0][-2:] == [(4, "boosted"), (4, "pairs")]
    assert tasks[1] == tasks[2] == config.tasks()
    some = list(run(replace(config, n_repeats=2), path))
    assert some == [r for r in rows if r["repeat"] == 0 or r["method"] not in TREES]
    found = judged(config, some)
    beside = [effect.what for effect in found if "boosted" in effect.what]
    assert len(beside) == 3
    assert all(e.over == "1 repeat" and not e.is_judged for e in found[2:])
    assert len(judged(config, [r for r in some if r["method"] not in TREES])) == 2


def test_rows_that_are_older_than_the_trees_keep_their_name():
    names = {
        "same-landmarks": "2e41959d9093",
        "new-landmarks": "2f42e8c5035d",
    }
    for protocol, name in names.items():
        # Whatever the trees by default are by now.
        trees = TreeGrid((8,), (True, False), 0.1, 300, 20)
        assert Config(protocol=protocol, trees=trees).fingerprint() == name
    other = replace(Config(), trees=TreeGrid.tiny())
    assert other.fingerprint() != Config().fingerprint()


def test_threads_change_no_loss(finished):
    rows, _ = finished
    threaded = list(run(replace(TINY, n_repeats=1), n_jobs=2))
    assert without_times(threaded) == without_times(rows[:7])


@pytest.mark.parametrize("landmarks", ["same", "new"])
def test_no_pair_is_both_for_testing_and_for_training(landmarks):
    drawn = draw(TINY, 0, landmarks)
    sets = [drawn.test, drawn.train(4), drawn.validation(4)]
    contents = [{graph.features.tobytes() for graph in pairs.graphs} for pairs in sets]
    assert [len(content) for content in contents] == [TINY.n_test, 4, 4]
    assert len(set.union(*contents)) == TINY.n_test + 8
    few = drawn.train(2)
    for a, b in zip(few.graphs, sets[1].graphs, strict=False):
        assert a is b


def test_repeats_are_drawn_anew_and_again_alike():
    first, again, other = (draw(TINY, repeat) for repeat in (0, 0, 1))
    np.testing.assert_array_equal(first.images, again.images)
    np.testing.assert_array_equal(first.data.contexts, again.data.contexts)
    assert not np.array_equal(first.data.shears, other.data.shears)
    assert not np.array_equal(first.images, other.images)


def stop_after(monkeypatch, n_settled):
    """Let the verdict be settled once there are so many repeats; count the looks."""
    looks = []

    def is_enough(effects):
        looks.append(int(effects[0].over.split()[0]))
        return looks[-1] >= n_settled

    monkeypatch.setattr(experiment, "is_enough", is_enough)
    monkeypatch.setattr("reproduce.experiments.repeats.LOOKS", (2, 4, 6))
    return looks


def test_repeats_go_on_until_the_verdict_is_settled(monkeypatch, tmp_path):
    config = replace(TINY, n_train=(2,), n_repeats=None, n_tree_repeats=1)
    looks, path = stop_after(monkeypatch, 4), tmp_path / "rows.jsonl"
    shares = []
    rows = list(run(config, path, on_progress=shares.append))
    assert looks == [2, 4]
    assert [row["repeat"] for row in rows if row["n"] == 0] == [0, 1, 2, 3]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    # The rule alone decides what counts, not how many rows a file happens to have.
    fixed = list(run(replace(config, n_repeats=5), path))
    assert len(fixed) == 15 + 2
    assert list(run(config, path)) == rows
    counts = {line["method"]: line["n_repeats"] for line in summarise(rows)}
    assert counts.pop("boosted") == counts.pop("pairs") == 1
    assert set(counts.values()) == {4}


class Interrupted:
    """An estimator that is interrupted by Ctrl-C and keeps what it has, as ours do."""

    coef_ = np.zeros(60)
    is_converged_ = False
    n_iter_ = 0
    history_ = ()

    def set_params(self, **_):
        return self

    def fit(self, *_):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            return self
        raise AssertionError


def test_an_interrupted_fit_makes_no_row(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "permatch.estimators.MaxMarginMatching", lambda **_: Interrupted(), raising=False
    )
    path = tmp_path / "rows.jsonl"
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        list(run(TINY, path))
    assert signal.getsignal(signal.SIGINT) is handler
    assert [row["method"] for row in read_rows(path)] == ["unweighted", "map"]


def test_fingerprints_name_what_matters(tmp_path):
    assert replace(TINY, n_train=(3,), n_repeats=9).fingerprint() == TINY.fingerprint()
    assert replace(TINY, seed=1).fingerprint() != TINY.fingerprint()
    image = tmp_path / "image.png"
    prints = set()
    for content in (b"one", b"two"):
        image.write_bytes(content)
        prints.add(replace(TINY, image=str(image)).fingerprint())
    assert len(prints) == 2
    protocols = {replace(TINY, protocol=name).fingerprint() for name in PROTOCOLS}
    assert len(protocols) == 3
    assert replace(TINY, others=str(tmp_path)).fingerprint() == TINY.fingerprint()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_train": ()}, "n_train must contain at least one number"),
        ({"n_train": (2.5,)}, "every entry of n_train must be a whole number"),
        ({"map_alphas": (1.0, -1.0)}, "map_alphas must contain .* all above 0"),
        ({"n_repeats": 0}, "n_repeats must be a whole number of at least 1"),
        ({"protocol": "easy"}, "protocol must be one of .*new-landmarks"),
        ({"n_tree_repeats": -1}, "n_tree_repeats must be a whole number of at least 0"),
        ({"seed": -1}, "seed must be a whole number of at least 0"),
    ],
)
def test_bad_configurations_are_refused(options, message):
    with pytest.raises(InvalidOptionError, match=message):
        replace(TINY, **options)


def test_summary_pairs_the_repeats():
    losses = {"map": [0.1, 0.3], "max_margin": [0.2, 0.5]}
    rows = [
        {"n": 5, "method": method, "repeat": k, "hamming_loss": loss}
        | {"seconds": 1.0 + k, "n_evaluations": 10}
        for method, values in losses.items()
        for k, loss in enumerate(values)
    ]
    rows.append({"n": 0, "method": "unweighted", "repeat": 0, "hamming_loss": 0.6})
    lines = {line["method"]: line for line in summarise(rows)}
    assert lines["unweighted"]["spread"] is None
    assert lines["map"]["mean"] == pytest.approx(0.2)
    assert lines["map"]["spread"] == pytest.approx(np.std([0.1, 0.3], ddof=1))
    assert lines["map"]["seconds"] == 1.5
    difference = lines["map - max_margin"]
    assert difference["mean"] == pytest.approx(-0.15)
    assert difference["spread"] == pytest.approx(np.std([-0.1, -0.2], ddof=1))


@pytest.mark.slow
def test_sixty_pairs_bring_the_loss_of_the_horse_to_what_is_promised():
    config = Config(n_train=(60,), n_repeats=1, map_alphas=(0.01,), n_tree_repeats=0)
    losses = {row["method"]: row["hamming_loss"] for row in run(config, n_jobs=-1)}
    assert 0.45 <= losses["unweighted"] <= 0.65
    assert losses["map"] <= 0.14
