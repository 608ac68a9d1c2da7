"""The sample-size experiment: nested subsets, shared by both methods, and its summary."""

from dataclasses import replace

import numpy as np
import pytest

from permatch.errors import InvalidOptionError
from reproduce.experiments import ohsumed, ohsumed_sample_size, read_rows
from reproduce.experiments.ohsumed_sample_size import Config, run, summarise
from reproduce.tests.letor_folder import write_letor


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return Config.tiny(str(write_letor(tmp_path_factory.mktemp("data"))))


@pytest.fixture(scope="module")
def finished(tiny, tmp_path_factory):
    path = tmp_path_factory.mktemp("tiny") / "rows.jsonl"
    return list(run(tiny, path)), path


def test_rows_are_complete_and_kept(finished, tiny, monkeypatch):
    rows, path = finished
    assert [(r["repeat"], r["n_subsets"], r["fold"], r["method"]) for r in rows] == [
        (repeat, share, fold, method)
        for repeat in (0, 1)
        for share in (0.1, 0.5)
        for fold in range(1, 6)
        for method in ("rankmatch", "dorm")
    ]
    assert read_rows(path) == rows
    few, many = (
        {r["n_observations"] for r in rows if r["n_subsets"] == share}
        for share in (0.1, 0.5)
    )
    assert few == {9 * 5}  # round(0.1 * 16 * 3) of each query
    assert many == {9 * 24}
    monkeypatch.setattr(ohsumed_sample_size, "learn_and_measure", None)
    shares = []
    assert list(run(tiny, path, on_progress=shares.append)) == rows
    assert shares[-1] == 1.0


def test_both_learn_from_the_same_subsets_and_more_include_fewer(tiny, monkeypatch):
    from permatch.objectives import rank_losses

    drawn = []
    draw = rank_losses.draw_subsets

    def note(starts, grades, size, **options):
        subsets = draw(starts, grades, size, **options)
        (group,) = subsets.groups
        drawn.append(group.rows[group.owners == 2])
        return subsets

    monkeypatch.setattr(rank_losses, "draw_subsets", note)
    list(run(replace(tiny, n_repeats=1)))
    for model, margin in zip(drawn[0::2], drawn[1::2], strict=True):
        np.testing.assert_array_equal(model, margin)
    few, many = drawn[0], drawn[10]  # of fold 1
    np.testing.assert_array_equal(few, many[: len(few)])
    assert len(many) > len(few)


def test_the_fits_are_those_of_the_first_experiment(tiny):
    alphas = tiny.alphas
    first = ohsumed.Config(data=tiny.data, n_repeats=1, n_subsets=0.5, subset_alphas=alphas)
    wanted = {
        (row["fold"], row["method"]): row["coef"]
        for row in ohsumed.run(first)
        if row["method"] in ("rankmatch", "dorm")
    }
    found = {
        (row["fold"], row["method"]): row["coef"]
        for row in run(replace(tiny, n_repeats=1, n_subsets=(0.5,)))
    }
    assert found == wanted


def test_more_sizes_and_repeats_add_to_the_same_rows(finished, tiny, tmp_path):
    rows, path = finished
    copy = tmp_path / "rows.jsonl"
    copy.write_bytes(path.read_bytes())
    seen = []
    more = replace(tiny, n_subsets=(0.1, 0.2, 0.5), n_repeats=2)
    assert len(list(run(more, copy, seen.append))) == 60
    assert {row["n_subsets"] for row in seen} == {0.2}


def test_summary_pairs_the_repeats():
    first = {"rankmatch": [0.5, 0.7], "dorm": [0.4, 0.4]}
    rows = [
        {"n_subsets": 0.1, "method": method, "repeat": repeat, "fold": fold}
        | {"ndcg": [value + shift] + [0.0] * 9, "n_observations": 50, "is_edge": False}
        | {"seconds": 1.0, "queries": [fold], "per_query": [[value + shift] + [0.0] * 9]}
        for method, values in first.items()
        for repeat, value in enumerate(values)
        for fold, shift in ((1, -0.1), (2, 0.1))
    ]
    lines = {line["method"]: line for line in summarise(rows)}
    model = lines["rankmatch"]
    assert model["mean"] == pytest.approx(0.6)
    assert model["spread"] == pytest.approx(np.std([0.5, 0.7], ddof=1))
    assert model["mean_of_ten"] == pytest.approx(0.06)
    assert model["seconds"] == 2.0
    assert lines["rankmatch - dorm"]["mean"] == pytest.approx(0.2)
    assert lines["rankmatch - dorm"]["detectable"] == pytest.approx(0.0, abs=1e-9)
    assert lines["rankmatch - dorm"]["spread"] == pytest.approx(np.std([0.1, 0.3], ddof=1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_subsets": ()}, "n_subsets must contain at least one number"),
        ({"n_subsets": (0.1, -1.0)}, "all finite and above 0"),
        ({"alphas": (0.0,)}, "alphas must contain at least one number, all above 0"),
        ({"n_repeats": 0}, "n_repeats must be"),
    ],
    ids=["none", "negative", "alphas", "repeats"],
)
def test_bad_configurations_are_refused(options, message):
    with pytest.raises(InvalidOptionError, match=message):
        Config(**options)
