"""Links between two bibliographies: data, splits, methods, rows and page."""

import json
import re

import numpy as np
import pytest

pytest.importorskip("splink", reason="one of the methods is splink's")
pytest.importorskip("matplotlib", reason="the pictures are drawn by matplotlib")
pytest.importorskip("lightgbm", reason="some of the methods are trees")

from permatch.errors import InvalidOptionError, TableError
from reproduce.experiments import dblp_acm
from reproduce.experiments.bibliographies import find_folder, load_bibliographies
from reproduce.experiments.dblp_acm import (
    RIVALS,
    Config,
    effects,
    reliability,
    run,
    summarise,
    tree_effects,
)
from reproduce.experiments.link_methods import METHODS, assignment, single_best_links
from reproduce.experiments.link_trees import LEAF_COUNTS, pair_trees
from reproduce.pages.linking import linking_page
from reproduce.tests.bibliographies_folder import write_bibliographies
from tests.pages.accessibility import check_report
from tests.pages.browser import needs_browser, open_page


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_bibliographies(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def config(root):
    return Config.tiny(str(root))


@pytest.fixture(scope="module")
def rows(config):
    return list(run(config))


def test_records_and_links_are_read(root):
    tables = load_bibliographies(root)
    linked = np.flatnonzero(tables.partner >= 0)
    assert len(linked) > 40
    ids = tables.dblp["id"][tables.partner[linked]].astype(int) - 1000
    np.testing.assert_array_equal(ids, tables.acm["id"][linked].astype(int))
    # The damaged record lost its authors, and nothing else.
    record = [tables.acm[name][-1] for name in ("title", "authors", "venue", "year")]
    assert record == ["query data", "", "Very Large Data Bases", "2000"]


def test_no_paper_is_in_two_parts(root):
    tables = load_bibliographies(root)
    linked = np.flatnonzero(tables.partner >= 0)
    splits = [tables.halves(np.random.default_rng(k)) for k in range(3)]
    for first, second in [*splits, tables.of_venue("VLDB")]:
        np.testing.assert_array_equal(first[linked], second[tables.partner[linked]])
        assert set(second) == {0, 1}


def test_data_that_is_not_there_or_damaged_is_explained(root, tmp_path, monkeypatch):
    monkeypatch.delenv("PERMATCH_DATA", raising=False)
    assert find_folder(root) == root / "dblp_acm"
    with pytest.raises(InvalidOptionError, match="the DBLP-ACM data .* is required"):
        find_folder()
    folder = write_bibliographies(tmp_path) / "dblp_acm"
    (folder / "dblp.csv").write_text("id%title%authors%venue%year\n1%a%b%VLDB\n")
    with pytest.raises(TableError, match="line 2 has 4"):
        load_bibliographies(tmp_path)


def test_splink_and_greedy_agree_without_ties():
    from permatch.pages.demo_linking import greedy

    rng = np.random.default_rng(3)
    codes = rng.permutation(20 * 15)[:90]
    left, right = codes // 15, codes % 15
    values = rng.permutation(np.linspace(0.05, 0.95, 90))
    best = greedy(left, right, values) & (values >= 0.3)
    np.testing.assert_array_equal(single_best_links(left, right, values, 0.3), best)
    most = assignment(left, right, values)
    assert values[most].sum() >= values[greedy(left, right, values)].sum()
    for taken in (best, most):
        assert len(set(left[taken])) == len(set(right[taken])) == taken.sum()


def test_rows_have_all_methods_on_the_same_pairs(rows, config):
    assert [row["method"] for row in rows] == list(METHODS) * config.n_repeats
    for repeat in range(config.n_repeats):
        own = [row for row in rows if row["repeat"] == repeat]
        for name in ("n_pairs", "n_true"):
            assert len({row[name] for row in own}) == 1
        # Plausible pairs are those of all methods together.
        assert len({sum(row["bins"][0]) for row in own}) == 1
    assert all(0.0 <= row["brier"] <= 1.0 and row["f1"] > 0.3 for row in rows)
    json.dumps(rows, allow_nan=False)


def test_rows_are_resumed(rows, config, tmp_path, monkeypatch):
    path = tmp_path / "linking.jsonl"
    lines = [json.dumps(row) + "\n" for row in rows]
    path.write_text("".join(lines[:-1]))
    new = []
    again = list(run(config, path, new.append))
    drop = {"seconds"}
    assert [row["method"] for row in new] == [METHODS[-1]]
    for one, other in zip(rows, again, strict=True):
        assert {k: v for k, v in one.items() if k not in drop} == {
            k: v for k, v in other.items() if k not in drop
        }


def test_the_summary_is_that_of_the_rows(rows):
    lines = summarise(rows)
    assert [line["method"] for line in lines] == list(METHODS)
    briers = [row["brier"] for row in rows if row["method"] == "link"]
    (line,) = (line for line in lines if line["method"] == "link")
    assert line["brier"]["mean"] == pytest.approx(np.mean(briers))
    counts, chances, links = reliability(rows, "entities", "link")
    expected = np.abs(chances - links).sum() / counts.sum()
    assert line["calibration_error"] == pytest.approx(expected)
    ratios = [
        a["brier"] / b["brier"]
        for a in rows
        for b in rows
        if (a["method"], b["method"]) == ("link", "classifier")
        if a["repeat"] == b["repeat"]
    ]
    found = effects(rows, "entities")["brier"]
    assert found.mean == pytest.approx(np.exp(np.mean(np.log(ratios))))


def test_trees_are_compared_split_by_split(rows):
    found = tree_effects(rows, "entities")
    assert found.keys() == set(RIVALS)
    values = {(row["repeat"], row["method"]): row for row in rows}
    for rival, own in found.items():
        pairs = [(values[k, "boosted"], values[k, rival]) for k in (0, 1)]
        ratios = [a["log_loss"] / b["log_loss"] for a, b in pairs]
        assert own["log_loss"].mean == pytest.approx(np.exp(np.mean(np.log(ratios))))
        assert own["f1"].mean == pytest.approx(
            np.mean([a["f1"] - b["f1"] for a, b in pairs])
        )
    for row in rows:
        if "trees" in row["method"] or row["method"] == "boosted":
            assert row["told"]["num_leaves"] in LEAF_COUNTS


def test_trees_of_pairs_say_the_same_again_and_are_probabilities(root):
    tables = load_bibliographies(root)
    first, second = tables.halves(np.random.default_rng(0))
    parts = [
        tables.candidates(np.flatnonzero(first == k), np.flatnonzero(second == k), 3)
        for k in (0, 1)
    ]
    one, again = (pair_trees(*parts, seed=1) for _ in range(2))
    np.testing.assert_array_equal(one.probability, again.probability)
    for p, part in ((one.out_of_fold, parts[0]), (one.probability, parts[1])):
        assert len(p) == len(part)
        assert ((p > 0.0) & (p < 1.0)).all()
    # They tell links from others, also those they have not seen.
    assert one.out_of_fold[parts[0].is_link].mean() > 2 * one.out_of_fold.mean()


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"dropped": 1.0}, "dropped must be at least 0 and below 1; got 1.0"),
        ({"protocols": ("years",)}, "protocols must be some of"),
        ({"n_repeats": 0}, "n_repeats must be"),
    ],
)
def test_wrong_options_are_explained(option, message):
    with pytest.raises(InvalidOptionError, match=re.escape(message)):
        Config(**option)


@needs_browser
@pytest.mark.parametrize(("width", "scheme"), [(1000, "light"), (400, "dark")])
def test_the_page_in_a_browser(config, rows, tmp_path, width, scheme):
    path = tmp_path / "linking.html"
    linking_page(config, rows).write(path)
    with open_page(path, tmp_path, width, scheme) as driver:
        check_report(driver, "Linking two bibliographies", 1)
        text = driver.find_element("tag name", "body").text
        ratio = effects(rows, "entities")["brier"].mean
        assert f"is {ratio:.2f}" in text
        root = "document.documentElement"
        wide = driver.execute_script(f"return {root}.scrollWidth - {root}.clientWidth")
        assert wide <= 0


def test_the_experiment_is_listed():
    from reproduce import experiments

    assert experiments.dblp_acm is dblp_acm
