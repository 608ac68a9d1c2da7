"""The OHSUMED experiment: its rows, how it resumes, what chooses, what is tested."""

import json
import os
import shutil
import signal
from dataclasses import replace

import numpy as np
import pytest

from permatch.errors import InvalidOptionError, LetorFileError
from reproduce.experiments import ohsumed, ranking_fits, read_rows
from reproduce.experiments.letor_folds import load_folds
from reproduce.experiments.ohsumed import Config, run
from reproduce.experiments.ranking_fits import draw_seed
from reproduce.experiments.ranking_summary import (
    beside_published,
    compare,
    query_values,
    summarise,
)
from reproduce.experiments.rival_fits import RUN
from reproduce.rivals import RIVALS
from reproduce.tests.letor_folder import flip_grades, write_letor, write_published

LEARNERS = ("rankmatch", "dorm", "rankmatch_list", "ridge")
ONCE = [*LEARNERS, *RUN, "rankboost_published"]  # of a fold, in the first repeat


def without_times(rows):
    times = ("seconds", "fit_seconds")
    return [{k: v for k, v in row.items() if k not in times} for row in rows]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_published(write_letor(tmp_path_factory.mktemp("data")))


@pytest.fixture(scope="module")
def tiny(root):
    return Config.tiny(str(root))


@pytest.fixture(scope="module")
def finished(tiny, tmp_path_factory):
    """The rows of a tiny run, and the file they are in."""
    path = tmp_path_factory.mktemp("tiny") / "rows.jsonl"
    return list(run(tiny, path)), path


def test_rows_are_complete(finished, tiny):
    rows, path = finished
    assert [(row["repeat"], row["fold"], row["method"]) for row in rows] == [
        *((0, fold, method) for fold in range(1, 6) for method in ONCE),
        *((1, fold, method) for fold in range(1, 6) for method in ("rankmatch", "dorm")),
        (0, None, "ranksvm_published"),
    ]
    assert read_rows(path) == json.loads(json.dumps(rows)) == rows
    for row in rows:
        if row["method"] == "ranksvm_published":
            assert row["ndcg"] == [0.5] * 10
            assert row["ndcg_letor"] == [0.25] * 10
            continue
        assert np.shape(row["per_query"]) == (len(row["queries"]), 10) == (3, 10)
        np.testing.assert_allclose(np.mean(row["per_query"], axis=0), row["ndcg"])
        assert row["ndcg"][0] == row["ndcg_letor"][0]
        if row["method"] not in LEARNERS:
            assert "alpha" not in row
            assert ("chosen" in row) == (row["method"] in RUN)
            continue
        assert row["n_fits"] == 3
        best = max(row["path"], key=lambda step: step["validation_ndcg"])
        assert row["alpha"] == best["alpha"]
        tried = [step["alpha"] for step in row["path"]]
        assert tried == sorted(tried, reverse=True)
        assert row["is_edge"] == (row["alpha"] in (tried[0], tried[-1]))
        assert row["is_converged"]
        assert len(row["coef"]) == 4
        is_sampled = row["method"] in ("rankmatch", "dorm")
        assert row.get("subset_size") == (3 if is_sampled else None)


def test_both_learn_from_the_same_subsets(tiny, monkeypatch):
    from permatch.objectives import rank_losses

    drawn = []
    draw = rank_losses.draw_subsets

    def note(starts, grades, size, **options):
        subsets = draw(starts, grades, size, **options)
        drawn.append((options["random_state"], subsets.groups[0].rows.tobytes()))
        return subsets

    monkeypatch.setattr(rank_losses, "draw_subsets", note)
    list(run(replace(tiny, n_repeats=2)))
    assert len(drawn) == 20
    assert drawn[0::2] == drawn[1::2]  # RankMatch and DORM
    assert len(set(drawn)) == 10  # of every repeat and fold
    assert draw_seed(0, 1, 2) != draw_seed(0, 2, 1)


@pytest.mark.parametrize("part", ["test", "validation"])
def test_only_validation_chooses(root, tiny, tmp_path, part):
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    before = {
        row["method"]: row for row in run(replace(tiny, n_repeats=1)) if row["fold"] == 1
    }
    flip_grades(copy, 1, part)
    config = replace(tiny, n_repeats=1, data=str(copy))
    after = {row["method"]: row for row in run(config) if row["fold"] == 1}
    for method in RUN:
        assert (before[method]["path"] == after[method]["path"]) == (part == "test")
        if part == "test":
            assert before[method]["chosen"] == after[method]["chosen"]
            assert before[method]["ndcg"] != after[method]["ndcg"]
    for method in LEARNERS:
        same = [before[method][key] == after[method][key] for key in ("path", "coef")]
        assert same[0] == (part == "test")
        if part == "test":
            assert same[1]
            assert before[method]["alpha"] == after[method]["alpha"]
            assert before[method]["ndcg"] != after[method]["ndcg"]


def test_a_finished_run_computes_nothing(finished, tiny, monkeypatch):
    rows, path = finished
    monkeypatch.setattr(ohsumed, "_measure", None)
    before, shares, seen = path.read_bytes(), [], []
    assert list(run(tiny, path, seen.append, on_progress=shares.append)) == rows
    assert path.read_bytes() == before
    assert seen == []
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_a_run_resumes_where_it_was_stopped(finished, tiny, tmp_path):
    rows, path = finished
    copy = tmp_path / "rows.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    copy.write_bytes(b"".join(lines[:30]) + lines[30][:30])
    seen = []
    resumed = list(run(tiny, copy, seen.append, n_jobs=2))
    assert without_times(resumed) == without_times(rows)
    assert seen == resumed[30:]
    assert read_rows(copy) == resumed


def test_more_repeats_add_to_the_same_rows(finished, tiny, tmp_path):
    rows, path = finished
    copy = tmp_path / "rows.jsonl"
    copy.write_bytes(path.read_bytes())
    seen = []
    list(run(replace(tiny, n_repeats=3), copy, seen.append))
    assert [(row["repeat"], row["method"]) for row in seen] == [
        (2, "rankmatch"),
        (2, "dorm"),
    ] * 5


def test_an_interrupted_fit_makes_no_row(tiny, tmp_path, monkeypatch):
    class Interrupted:
        def fit(self, *_, **__):
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                return self
            raise AssertionError

    model = ranking_fits._model
    monkeypatch.setattr(
        ranking_fits,
        "_model",
        lambda method, *rest: Interrupted() if method == "dorm" else model(method, *rest),
    )
    path = tmp_path / "rows.jsonl"
    with pytest.raises(KeyboardInterrupt):
        list(run(tiny, path))
    assert [row["method"] for row in read_rows(path)] == ["rankmatch"]


def test_fingerprints_name_what_matters(root, tiny, tmp_path):
    data = load_folds("OHSUMED", root)
    name = tiny.fingerprint(data)
    assert replace(tiny, n_repeats=9, data="elsewhere").fingerprint(data) == name
    assert replace(tiny, seed=1).fingerprint(data) != name
    other = load_folds("OHSUMED", write_letor(tmp_path, seed=1))
    assert tiny.fingerprint(other) != name
    assert tiny.fingerprint(other, "frank") != tiny.fingerprint(data, "frank")


def test_what_a_method_does_not_depend_on_keeps_its_rows(root, tiny):
    data = load_folds("OHSUMED", root)
    methods = ("rankmatch", "ridge", *RUN)

    def changed(**options):
        other = replace(tiny, **options)
        return {
            m for m in methods if other.fingerprint(data, m) != tiny.fingerprint(data, m)
        }

    assert len({tiny.fingerprint(data, method) for method in methods}) == len(RUN) + 1
    assert changed(rival_rounds=4) == {m for m in RUN if RIVALS[m].has_rounds}
    assert changed(rival_values=2) == {m for m in RUN if RIVALS[m].grid}
    with_alpha = {m for m in RUN if RIVALS[m].has_alpha}
    assert changed(subset_alphas=(1.0, 0.1)) == {"rankmatch", "ridge", *with_alpha}
    drawn = {"qbrank", "isorank", "sortnet"}
    assert changed(seed=1) == {"rankmatch", "ridge", *drawn}
    assert changed(list_alphas=(1.0,)) == {"rankmatch", "ridge"}


def test_another_version_of_a_rival_is_run_again(root, tiny, finished, monkeypatch):
    data = load_folds("OHSUMED", root)
    before = {m: tiny.fingerprint(data, m) for m in ("rankmatch", *RUN)}
    monkeypatch.setitem(RIVALS, "frank", replace(RIVALS["frank"], version=9))
    after = {m: tiny.fingerprint(data, m) for m in before}
    assert {m for m in before if before[m] != after[m]} == {"frank"}


def test_two_grades_add_all_pairs_and_nothing_published_is_needed(tmp_path):
    root = write_letor(tmp_path, "td2003", n_grades=2)
    config = replace(Config.tiny(str(root)), dataset="TD2003", n_repeats=1)
    rows = list(run(config))
    assert {row["dataset"] for row in rows} == {"TD2003"}
    methods = [row["method"] for row in rows]
    assert methods[: 5 + len(RUN)] == [*LEARNERS, "rankmatch_pairs", *RUN]
    assert rows[0]["subset_size"] == 2
    lines = summarise(rows)
    assert [line["method"] for line in lines][2] == "rankmatch_pairs"


def test_means_by_letors_discount_are_said_to_be_so(tmp_path):
    root = write_letor(tmp_path, "TD2003", n_grades=2)
    published = root / "letor" / "published"
    published.mkdir()
    cuts = ",".join(f"NDCG@{k}" for k in range(1, 11))
    (published / "letor1_ndcg_average.csv").write_text(
        f"dataset,method,{cuts}\nTD2003,RankSVM,{','.join(['0.4'] * 10)}\n"
    )
    config = replace(Config.tiny(str(root)), dataset="TD2003", n_repeats=1)
    rows = list(run(config))
    line = summarise(rows)[-1]
    assert (line["method"], line["variant"]) == ("ranksvm_published", "letor")
    assert line["ndcg"] == line["ndcg_letor"] == pytest.approx([0.4] * 10)
    (near,) = beside_published(rows)
    assert (near["method"], near["variant"]) == ("ranksvm", "letor")
    measured = next(line for line in summarise(rows) if line["method"] == "ranksvm")
    assert near["difference"] == pytest.approx(measured["mean_letor"] - 0.4)


def test_predictions_of_other_documents_are_refused(root, tiny, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    path = copy / "letor" / "published" / "RankBoost_OHSUMED" / "2_Prediction_7.txt"
    path.write_text("1.0\n")
    with pytest.raises(LetorFileError, match="one score for each of the 48 .* got 1"):
        list(run(replace(tiny, data=str(copy))))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_repeats": 0}, "n_repeats must be a whole number of at least 1"),
        ({"n_subsets": 0.0}, "n_subsets must be a finite number above 0"),
        ({"subset_alphas": ()}, "subset_alphas must contain at least one number"),
        ({"list_alphas": (1.0, -1.0)}, "list_alphas must contain .* all above 0"),
    ],
    ids=["repeats", "subsets", "no alphas", "negative alpha"],
)
def test_bad_configurations_are_refused(options, message):
    with pytest.raises(InvalidOptionError, match=message):
        Config(**options)


def row(method, repeat, fold, values, **more):
    """Return a row whose queries have these values at all cuts."""
    per_query = [[value] * 10 for value in values]
    ndcg = np.mean(per_query, axis=0).tolist()
    queries = [f"{fold}-{k}" for k in range(len(values))]
    return {
        "method": method,
        "repeat": repeat,
        "fold": fold,
        "ndcg": ndcg,
        "ndcg_letor": ndcg,
        "queries": queries,
        "per_query": per_query,
    } | more


def test_means_go_over_folds_then_repeats():
    rows = [
        row("rankmatch", 0, 1, [0.1, 0.3, 0.5]),
        row("rankmatch", 0, 2, [0.5]),
        row("rankmatch", 1, 1, [0.2, 0.2, 0.2]),
        row("rankmatch", 1, 2, [0.6]),
    ]
    (line,) = summarise(rows)
    assert line["ndcg"] == pytest.approx([0.4] * 10)  # (0.3 + 0.5) / 2 and (0.2 + 0.6) / 2
    assert line["spread"] == pytest.approx([0.0] * 10, abs=1e-12)
    assert line["mean"] == pytest.approx(0.4)
    rows[2]["ndcg"] = [0.4] * 10
    (line,) = summarise(rows)
    assert line["mean_spread"] == pytest.approx(np.std([0.4, 0.5], ddof=1))
    (alone,) = summarise(rows[:2])
    assert alone["spread"] is None
    assert alone["mean_spread"] is None


def test_tests_average_repeats_first_and_are_corrected():
    rng = np.random.default_rng(5)
    base = rng.uniform(0.2, 0.8, 40)
    rows = [
        row("rankmatch", 0, 1, base - 0.05),
        row("rankmatch", 1, 1, base + 0.05),
        row("dorm", 0, 1, base + 0.1 + 0.01 * rng.normal(size=40)),
        row("ridge", 0, 1, base + 0.2 * rng.normal(size=40)),
    ]
    values = query_values(rows)
    assert values["rankmatch"][1, "1-3"] == pytest.approx([base[3]] * 10)
    tests = {test["method"]: test for test in compare(rows, "rankmatch", n_resamples=2000)}
    better, noise = tests["dorm"], tests["ridge"]
    assert better["difference"] == pytest.approx(0.1, abs=0.01)
    assert better["low"] < better["difference"] < better["high"]
    assert better["p_value"] == pytest.approx(1 / 2001)
    assert better["p_holm"] == pytest.approx(2 / 2001)
    assert noise["p_holm"] == noise["p_value"] > 0.05
    assert noise["detectable"] == pytest.approx(2.8 * noise["sd"] / np.sqrt(40))
    assert compare(rows, "absent") == []
    # What is published is no method of this run: neither tested nor counted by Holm.
    more = [*rows, row("rankboost_published", 0, 1, base - 0.2)]
    again = {test["method"]: test for test in compare(more, "rankmatch", n_resamples=2000)}
    assert again == tests


def test_how_near_a_rival_is_to_what_is_published():
    rng = np.random.default_rng(5)
    ours, theirs = (0.5 + 0.1 * rng.normal(size=(2, 30)) for _ in range(2))
    rows = [row("rankboost", 0, k + 1, ours[k]) for k in range(2)]
    rows += [row("rankboost_published", 0, k + 1, theirs[k]) for k in range(2)]
    assert [line["method"] for line in beside_published(rows[:2])] == []
    (line,) = beside_published(rows)
    difference = ours.mean() - theirs.mean()
    error = ours.std(ddof=1) / np.sqrt(60)
    assert line["difference"] == pytest.approx(difference)
    assert (line["error"], line["n_queries"]) == (pytest.approx(error), 60)
    assert line["is_within"] == (abs(difference) <= error)
    paired = (ours - theirs).std(ddof=1) / np.sqrt(60)
    assert line["paired_error"] == pytest.approx(paired)
    assert line["by_fold"][2] == pytest.approx([ours[1].mean(), theirs[1].mean()])
    rows[:2] = [row("rankboost", 0, k + 1, ours[k] + 2 * error) for k in range(2)]
    assert not beside_published(rows)[0]["is_within"] or difference < -error


needs_data = pytest.mark.skipif(
    not os.environ.get("PERMATCH_DATA"), reason="PERMATCH_DATA is not set: no OHSUMED"
)


@pytest.mark.data
@pytest.mark.slow
@needs_data
def test_ohsumed_reaches_what_is_promised():
    rows = list(run(Config.quick(), n_jobs=-1))
    lines = {line["method"]: line for line in summarise(rows)}
    assert lines["rankmatch"]["mean"] >= 0.460
    assert lines["rankmatch_list"]["mean"] >= 0.474
    assert lines["ridge"]["mean"] == pytest.approx(0.486, abs=0.005)
    assert lines["dorm"]["mean"] >= 0.455
    # As published, to the digits that are.
    letor = [0.4977, 0.4827, 0.4726, 0.4609, 0.4502, 0.4417, 0.4391, 0.4364, 0.4333, 0.4356]
    found = lines["rankboost_published"]["ndcg_letor"]
    assert found == pytest.approx(letor, abs=5.1e-5)
    assert lines["ranksvm_published"]["mean"] == pytest.approx(0.4607, abs=1e-4)
    near = {line["method"]: line for line in beside_published(rows)}
    assert near["ranksvm"]["is_within"]  # with the options of a full run
