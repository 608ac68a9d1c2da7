"""The measures of links, against scikit-learn and by hand."""

import numpy as np
import pytest
from sklearn.metrics import f1_score, log_loss, precision_score, recall_score

from reproduce.experiments.link_measures import (
    best_threshold,
    lead,
    measure_links,
    summarise_measures,
)
from reproduce.pages.links import measure_table, spread_text


def test_measures_are_those_of_scikit_learn(rng):
    true, p = rng.random(50) < 0.3, rng.random(50)
    found = measure_links(true, p > 0.5, p)
    assert found["precision"] == pytest.approx(precision_score(true, p > 0.5))
    assert found["recall"] == pytest.approx(recall_score(true, p > 0.5))
    assert found["f1"] == pytest.approx(f1_score(true, p > 0.5))
    assert found["brier"] == pytest.approx(np.mean((p - true) ** 2))
    assert found["log_loss"] == pytest.approx(log_loss(true, p))


def test_links_that_are_no_candidates_count_as_missed():
    found = measure_links([True, False], [True, False], None, n_true=4)
    assert (found["precision"], found["recall"], found["f1"]) == (1.0, 0.25, 0.4)
    assert found["brier"] is found["log_loss"] is None


def test_nothing_found_and_nothing_to_find():
    found = measure_links([], [], [])
    assert (found["precision"], found["recall"], found["f1"]) == (1.0, 1.0, 1.0)
    assert found["brier"] is None


def test_who_is_certain_and_wrong_pays_a_finite_price():
    assert 5.0 < measure_links([True, False], [False, False], [0.0, 0.0])["log_loss"] < 10.0


def test_the_best_threshold_is_found_by_trying_all(rng):
    for _ in range(20):
        values, true = rng.integers(0, 6, 12) / 6, rng.random(12) < 0.5
        cut = best_threshold(values, true, int(true.sum()) + 1)

        def f1(cut, values=values, true=true):
            return measure_links(true, values >= cut, None, int(true.sum()) + 1)["f1"]

        assert f1(cut) == max(f1(k / 12) for k in range(13))


def test_no_threshold_where_nothing_is_right():
    assert best_threshold([0.5, 0.2], [False, False], 3) == np.inf
    assert best_threshold([], [], 0) == np.inf


ROWS = [
    {"repeat": k, "gap": gap, "method": m, "f1": f1 + k / 10, "brier": b, "log_loss": None}
    for gap in (1, 5)
    for k in (0, 1, 2)
    for m, f1, b in (("ours", 0.5, 0.1 + k / 50), ("theirs", 0.3, 0.3))
]


def test_lines_have_mean_and_spread_by_method():
    lines = summarise_measures(ROWS, ("gap",), ("f1", "log_loss"))
    assert [(line["gap"], line["method"]) for line in lines] == [
        (1, "ours"), (1, "theirs"), (5, "ours"), (5, "theirs"),
    ]  # fmt: skip
    spread = {"mean": 0.6, "spread": 0.1, "n_repeats": 3}
    assert lines[0]["f1"] == pytest.approx(spread)
    assert lines[0]["log_loss"] is None


def test_less_brier_is_a_lead():
    rows = [row for row in ROWS if row["gap"] == 1]
    assert lead(rows, "ours", "theirs", "brier", "less").mean == pytest.approx(0.18)
    assert lead(rows, "ours", "theirs", "f1", "more").mean == pytest.approx(0.2)
    ratio = lead(rows, "ours", "theirs", "brier", "ratio", lambda a, b: a / b)
    assert ratio.mean == pytest.approx(0.4)
    assert ratio.low < ratio.mean < ratio.high


def test_the_table_shows_spreads():
    lines = summarise_measures(ROWS[:6], (), ("f1", "log_loss"))
    html = measure_table(lines, {"ours": "A", "theirs": "B"}, ("f1", "log_loss"), "a title")
    assert "0.600\u00a0±\u00a00.100" in html
    assert '<th scope="col">log-loss</th>' in html
    assert spread_text({"mean": 0.5, "spread": None, "n_repeats": 1}, 2) == "0.50"
