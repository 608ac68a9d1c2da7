"""The page about one ranked list, opened in a real browser."""

import base64
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from permatch.boosting import BoostedRankMatch
from permatch.estimators import DORM, RankMatch
from permatch.pages import rank_explorer
from permatch.pages.explorer_page import percent
from permatch.pages.rank_explorer import rank_data, rank_page, rank_view
from permatch.ranking_distribution import RankingDistribution
from tests.pages.accessibility import (
    check_by_hand,
    milliseconds,
    sticks_out,
    violations,
)
from tests.pages.browser import needs_browser, open_page

N_DOCUMENTS = 12


@pytest.fixture(scope="module")
def lists():
    """Eight judged lists; the first feature counts, the last does not."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(8 * N_DOCUMENTS, 3))
    y = np.digitize(X @ [2.0, -1.0, 0.0] + 0.3 * rng.normal(size=len(X)), [0.0, 2.0])
    return X, y, np.repeat(np.arange(8), N_DOCUMENTS)


def view_of(model, lists, feature_names=("rank & file", "age", "<b>x</b>")):
    X, y, qid = lists
    model.fit(X, y, qid=qid, feature_names=feature_names)
    if isinstance(model, RankMatch):  # the page has intervals too
        model.inference(X, y, qid=qid)
    names = [f"d{i}" for i in range(N_DOCUMENTS)]
    names[0], names[1] = "</script><b>0</b>", "文" * 200
    return rank_view("q</title>1", names, X[:N_DOCUMENTS], y[:N_DOCUMENTS], model)


@pytest.fixture(scope="module")
def view(lists):
    return view_of(RankMatch(alpha=0.1, scaling="minmax"), lists)


@pytest.fixture(scope="module")
def page(view, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "rank.html"
    rank_page(view).write(path)
    return path


@pytest.fixture(scope="module")
def score_page(lists, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "dorm.html"
    rank_page(view_of(DORM(alpha=0.1), lists, feature_names=None)).write(path)
    return path


def numbers_in(packed):
    raw = base64.b64decode(packed["bytes"])
    return np.frombuffer(raw, dtype=f"<{packed['kind']}")


# ---- what is in the file


def test_the_page_needs_nothing_from_outside(page):
    html = page.read_text(encoding="utf-8")
    assert "http" not in html.replace("http-equiv", "")
    assert len(re.findall(r"<script", html)) == len(re.findall(r"</script>", html)) == 2
    assert "<b>" not in html
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))


def test_the_data_are_those_of_the_library(page, view):
    html = page.read_text(encoding="utf-8")
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html)
    data, order = json.loads(text), view.order
    assert (np.diff(view.scores[order]) <= 0).all()
    np.testing.assert_array_equal(numbers_in(data["scores"]), view.scores[order])
    pushes = numbers_in(data["pushes"]).reshape(N_DOCUMENTS, 3)
    gains = view.scores[order] - view.scores.mean()
    np.testing.assert_allclose(pushes.sum(axis=1), gains, atol=1e-5)
    sizes = data["levels"]["sizes"]
    chances = numbers_in(data["levels"]["chances"]).reshape(N_DOCUMENTS, len(sizes))
    marginals = np.repeat(chances / sizes, sizes, axis=1)
    np.testing.assert_array_equal(marginals, view.distribution.marginals[order])
    assert data["documents"] == [view.documents[i] for i in order]
    assert data["grades"] == view.grades[order].tolist()


def test_expected_and_likely_ranks(page, view):
    html = page.read_text(encoding="utf-8")
    assert "minmax" in html
    ranks = np.arange(1, N_DOCUMENTS + 1)
    mean = view.distribution.marginals[view.order[0]] @ ranks
    assert f"<bdi>{mean:.1f}</bdi>" in html
    assert rank_explorer._range(np.array([0.05, 0.85, 0.1, 0.0])) == "2"
    assert rank_explorer._range(np.array([0.25, 0.25, 0.25, 0.25])) == "1 to 4"
    assert rank_explorer._range(np.array([1.0])) == "1"
    assert rank_explorer._levels([1, 3, 5]) == "1, 2 to 4 and 5 to 9"
    assert rank_explorer._levels([4]) == "1 to 4"
    assert rank_explorer._levels([1] * 20) == "1, 2, 3, ... and 20"


def test_models_without_probabilities_show_scores_only(score_page):
    html = score_page.read_text(encoding="utf-8")
    assert "DORM models give scores but no probabilities" in html
    assert 'id="ranks"' not in html
    assert "feature 3" in html
    assert "expected rank" not in html


def test_intervals_of_the_best_level(lists):
    X, y, qid = lists
    model = RankMatch(alpha=0.1).fit(X, y, qid=qid)
    own, names = X[:N_DOCUMENTS], [str(i) for i in range(N_DOCUMENTS)]
    assert rank_view("1", names, own, y, model).best is None
    posterior = model.inference(X, y, qid=qid)
    view = rank_view("1", names, own, y[:N_DOCUMENTS], model)
    law = view.distribution
    chances = law.level_marginals[:, 0]
    low, high, words = view.best
    assert ((low <= chances) & (chances <= high)).all()
    drawn = []
    for weights in posterior.sample(400, rng=0):
        scores = model.score_slope_ * (own @ weights)
        drawn.append(RankingDistribution(scores, law.position_weights).level_marginals)
    ends = np.quantile(np.array(drawn)[:, :, 0], [0.025, 0.975], axis=0)
    np.testing.assert_allclose([low, high], ends, atol=0.05)
    html = rank_page(view).render()
    assert f"interval ({words})" in html
    assert words == "95 %, posterior interval of the weights"
    best = view.order[0]
    assert f"{percent(float(low[best]))} to {percent(float(high[best]))}" in html
    assert "of the best level" in html
    assert "interval (" not in rank_page(replace(view, best=None)).render()


def test_sampled_probabilities_are_called_so(lists):
    X, y, qid = lists
    model = RankMatch(alpha=0.1).fit(X, y, qid=qid)
    view = rank_view("1", [str(i) for i in range(len(X))], X, y, model)
    weights = np.arange(len(X), 0.0, -1.0)  # all positions differ: nothing exact
    law = RankingDistribution(view.scores, weights, n_samples=200)
    view = replace(view, distribution=law)
    assert not view.distribution.is_exact
    html = rank_page(view).render()
    assert 'class="note approximate" id="how">Rank probabilities are appr' in html
    assert re.search(r"largest standard error is [0-9.]+ %", html)


def test_long_lists_are_cut(view, monkeypatch):
    monkeypatch.setattr(rank_explorer, "MAX_DOCUMENTS", 5)
    assert len(rank_data(view)["documents"]) == 5
    html = rank_page(view).render()
    assert "the best 5 are shown" in html
    assert html.count("data-document=") == 5


# ---- what a browser makes of it


@needs_browser
@pytest.mark.parametrize(
    ("width", "scheme"), [(1300, "light"), (360, "dark")], ids=["wide", "phone"]
)
def test_the_page_in_a_browser(page, view, tmp_path, width, scheme):
    with open_page(page, tmp_path, width, scheme) as driver:
        assert driver.title == "Ranking of query q</title>1"
        check_by_hand(driver)
        assert violations(driver) == []
        for name in ("scores", "ranks"):
            canvas = driver.find_element("id", name)
            assert canvas.size["width"] > 200
            assert canvas.size["height"] > 200
        rows = driver.find_elements("css selector", "#document-table tbody tr")
        assert len(rows) == N_DOCUMENTS
        for row, i in zip(rows, view.order, strict=True):
            cells = [cell.text for cell in row.find_elements("css selector", "th, td")]
            assert cells[0] == view.documents[i]
            assert cells[3] == str(view.grades[i])
            within = view.distribution.marginals[i, :10].sum()
            assert cells[4] == percent(min(1.0, within))
        assert sticks_out(driver) <= 0
        paper = driver.execute_script(
            "return getComputedStyle(document.body).backgroundColor"
        )
        assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
        assert driver.get_log("browser") == []


@needs_browser
def test_slider_table_and_pointer(page, view, tmp_path, request):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    def shows(place):
        i = view.order[place]
        text = driver.find_element("id", "status").text
        assert f"{view.documents[i]}: rank {place + 1}, score " in text
        found = {}
        for row in driver.find_elements("css selector", "#details tbody tr"):
            name, value, moved = (
                cell.text.replace("−", "-")
                for cell in row.find_elements("css selector", "th, td")[:3]
            )
            found[name] = (float(value), float(moved))
        for k, name in enumerate(view.features):
            assert found[name][0] == pytest.approx(view.values[i, k], rel=1e-2)
            assert found[name][1] == pytest.approx(view.pushes[i, k], rel=1e-2)
        return text

    def column():
        cells = driver.find_elements("css selector", "#document-table td:nth-child(5)")
        return [cell.text for cell in cells]

    with open_page(page, tmp_path) as driver:
        driver.set_script_timeout(10)
        body = driver.find_element("tag name", "body")
        body.send_keys(Keys.TAB)
        slider = driver.find_element("id", "top")
        assert driver.switch_to.active_element == slider
        slider.send_keys(Keys.HOME, Keys.ARROW_RIGHT)
        driver.execute_async_script(
            "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))"
        )
        first_two = view.distribution.marginals[view.order, :2].sum(axis=1)
        assert column() == [percent(p) for p in first_two]
        assert driver.find_element("id", "top-now").text.startswith("2 ranks; ")
        times = [milliseconds(driver, slider, value) for value in (5, 1, 12)]
        request.node.user_properties.append(("milliseconds", [round(t) for t in times]))
        slider.send_keys(Keys.TAB)
        shows(0)
        driver.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
        shows(1)
        driver.switch_to.active_element.send_keys(Keys.END)
        shows(N_DOCUMENTS - 1)
        for name in ("scores", "ranks"):
            canvas = driver.find_element("id", name)
            driver.execute_script("arguments[0].scrollIntoView({block:'center'})", canvas)
            y = 18 + 22 * 3.5 - canvas.size["height"] / 2
            x = canvas.size["width"] / 2 - 10
            point = ActionChains(driver)
            point.move_to_element_with_offset(canvas, int(x), int(y)).perform()
            text = shows(3)
        last = view.distribution.marginals[view.order[3], -1]
        assert f"At rank {N_DOCUMENTS} with probability {percent(last)}." in text
        assert driver.get_log("browser") == []


@pytest.fixture(scope="module")
def tree_page(lists, tmp_path_factory):
    pytest.importorskip("lightgbm", reason="grows trees (extra 'boosting')")
    path = tmp_path_factory.mktemp("page") / "trees.html"
    model = BoostedRankMatch(num_leaves=4, n_rounds=20, min_data_in_leaf=5)
    view = view_of(model, lists)
    rank_page(view).write(path)
    return path, view


def test_the_splits_of_trees_are_in_the_data(tree_page, view):
    _, seen = tree_page
    assert rank_data(view)["moves"] is None
    moves = rank_data(seen)["moves"]
    assert moves == [seen.moves[i] for i in seen.order]
    assert all(0 < len(own) <= 12 for own in moves)


@needs_browser
def test_splits_in_a_browser(tree_page, tmp_path):
    path, seen = tree_page
    with open_page(path, tmp_path, 360) as driver:
        rows = driver.find_elements("css selector", "#document-table tbody tr")
        driver.execute_script("arguments[0].click()", rows[1])
        tables = driver.find_elements("css selector", "#details table")
        first = seen.moves[seen.order[1]][0]
        words = tables[1].find_element("css selector", "tbody tr").text
        assert seen.features[first.feature] in words
        assert ("above" if first.is_above else "at most") in words
        assert violations(driver) == []
        assert sticks_out(driver) <= 0
        assert driver.get_log("browser") == []


@needs_browser
def test_scores_alone_in_a_browser(score_page, tmp_path):
    from selenium.webdriver.common.keys import Keys

    with open_page(score_page, tmp_path, 360) as driver:
        assert violations(driver) == []
        driver.find_element("tag name", "body").send_keys(Keys.TAB)
        driver.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
        assert "rank 2, score" in driver.find_element("id", "status").text
        assert sticks_out(driver) <= 0
        assert driver.get_log("browser") == []
