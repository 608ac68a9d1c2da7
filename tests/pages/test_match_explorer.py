"""The page about one graph, opened in a real browser."""

import base64
import json
import re
import warnings

import numpy as np
import pytest

from permatch import MatchingDistribution
from permatch.errors import SizeLimitError
from permatch.graphs import BipartiteGraph
from permatch.pages import match_view
from permatch.pages.explorer_page import pack, percent
from permatch.pages.match_explorer import match_page
from permatch.pages.match_view import MatchView, match_data
from tests.pages.accessibility import (
    check_by_hand,
    milliseconds,
    sticks_out,
    violations,
)
from tests.pages.browser import needs_browser, open_page

COEF = np.array([-1.2, 0.8, 0.1])
NAMES = ["distance", "overlap", "<b>noise</b>"]
LEFT = ["</script><b>x</b>", "日本", "a&b\"'", "עברית", "e" * 300, "  f"]
RIGHT = [f"b{j}" for j in range(6)]


def view_of(size, seed, left=None, right=None, forbidden=(), truth=True, engine="auto"):
    rng = np.random.default_rng(seed)
    allowed = np.ones((size, size), dtype=bool)
    for edge in forbidden:
        allowed[edge] = False
    graph = BipartiteGraph(rng.normal(size=(size, size, len(COEF))), allowed)
    law = MatchingDistribution(graph.scores(COEF), engine)
    return MatchView(
        name="mon</title>day",
        left=left or [f"a{i}" for i in range(size)],
        right=right or [f"b{j}" for j in range(size)],
        features=NAMES,
        coef=COEF,
        graph=graph,
        distribution=law,
        truth=law.mode() if truth else None,
        n_best=10,
        model="MAPMatching",
    )


@pytest.fixture(scope="module")
def view():
    """A graph whose likeliest and Bayes matching differ, names as bad as can be."""
    found = view_of(6, 20, LEFT, RIGHT, forbidden=[(0, 0), (2, 3)])
    assert (found.mode != found.bayes).any()
    return found


@pytest.fixture(scope="module")
def page(view, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "match.html"
    match_page(view).write(path)
    return path


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    path = tmp_path_factory.mktemp("large") / "match.html"
    match_page(view_of(100, 0)).write(path)
    return path


def data_in(path):
    html = path.read_text(encoding="utf-8")
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html)
    return json.loads(text)


def numbers_in(packed):
    raw = base64.b64decode(packed["bytes"])
    return np.frombuffer(raw, dtype=f"<{packed['kind']}")


# ---- what is in the file


def test_the_page_needs_nothing_from_outside(page):
    html = page.read_text(encoding="utf-8")
    assert not re.search(r"(src|href)=[\"'](https?:)?//", html)
    assert "http" not in html.replace("http-equiv", "")
    assert len(re.findall(r"<script", html)) == len(re.findall(r"</script>", html)) == 2
    assert "<b>" not in html
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))


def test_the_data_are_those_of_the_library(page, view):
    data, law = data_in(page), view.distribution
    assert data["left"] == LEFT
    assert data["features"] == NAMES
    rows, cols = numbers_in(data["rows"]), numbers_in(data["cols"])
    assert set(zip(rows, cols, strict=True)) == set(np.ndindex(6, 6)) - {(0, 0), (2, 3)}
    assert data["n_pairs"] == len(rows) == 34
    np.testing.assert_array_equal(numbers_in(data["chances"]), law.marginals[rows, cols])
    np.testing.assert_array_equal(numbers_in(data["scores"]), law.scores[rows, cols])
    values = numbers_in(data["values"]).reshape(34, 3)
    np.testing.assert_allclose(values, view.graph.features[rows, cols], rtol=1e-6)
    for edges, matching in [
        (data["mode"], law.mode()),
        (data["bayes"], law.bayes_matching()),
        *zip(data["best"], law.k_best(10).matchings, strict=True),
    ]:
        assert rows[edges].tolist() == list(range(6))
        assert cols[edges].tolist() == matching.tolist()
    assert data["errors"] is None


def test_exact_and_approximate_answers_are_called_so(page, large):
    assert "All probabilities are exact, computed by engine" in page.read_text(
        encoding="utf-8"
    )
    text = large.read_text(encoding="utf-8")
    assert '<p class="note approximate" id="how">Probabilities are approximate' in text
    assert "standard error" in text
    assert data_in(large)["errors"] is not None


def test_an_error_nobody_knows_and_a_tolerance_missed_are_said():
    unknown = match_page(view_of(9, 0, engine="bethe")).render()
    assert "approximate, estimated by engine bethe" in unknown
    assert "their error is unknown" in unknown
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        from permatch.inference import AutoEngine

        hurried = view_of(60, 0, engine=AutoEngine(tol=1e-9, budget=0.2))
        assert "did not reach its tolerance" in match_page(hurried).render()


def test_a_matching_that_is_both_says_so():
    text = match_page(view_of(2, 0, truth=False)).render()
    assert "For this graph they are the same." in text
    assert "that agree with the labels" not in text
    assert "The 2 best matchings" in text
    assert "The best matching</h2>" in match_page(view_of(1, 0)).render()


def test_features_that_are_too_many_are_kept_for_the_likeliest_edges(monkeypatch):
    monkeypatch.setattr(match_view, "MAX_VALUES", 60)
    view = view_of(6, 1)
    data = match_data(view)
    kept = numbers_in(data["kept"])
    used = {i * 6 + j for m in [view.mode, view.bayes, *view.best.matchings]
            for i, j in enumerate(m.tolist())}  # fmt: skip
    assert len(numbers_in(data["rows"])) == 36
    assert used <= set(kept.tolist())
    assert len(numbers_in(data["values"])) == 3 * len(kept)


def test_graphs_too_large_for_a_page_are_refused(monkeypatch):
    monkeypatch.setattr("permatch.pages.match_explorer.MAX_NODES", 5)
    with pytest.raises(SizeLimitError, match="at most 5 nodes per side, got 6"):
        match_page(view_of(6, 0))


def test_numbers_beyond_single_precision_keep_theirs():
    assert pack(np.array([1e-60, 1.0]))["kind"] == "f8"
    assert pack(np.array([0.0, 1.0]))["kind"] == "f4"
    assert pack(np.array([]))["kind"] == "f4"


# ---- what a browser makes of it


@needs_browser
@pytest.mark.parametrize(
    ("width", "scheme"), [(1300, "light"), (360, "dark")], ids=["wide", "phone"]
)
def test_the_page_in_a_browser(page, view, tmp_path, width, scheme):
    law = view.distribution
    with open_page(page, tmp_path, width, scheme) as driver:
        assert driver.title == "Matchings of graph mon</title>day"
        check_by_hand(driver)
        assert violations(driver) == []
        for name in ("edges", "heat", "mode", "bayes"):
            canvas = driver.find_element("id", name)
            assert canvas.size["width"] > 140
            assert canvas.size["height"] > 40
        # The table in the page says what the library says.
        rows = driver.find_elements("css selector", "#best-table tbody tr")
        assert len(rows) == 10
        chances = [row.find_elements("tag name", "td")[0].text for row in rows]
        expected = [percent(p) for p in np.exp(law.log_prob(law.k_best(10).matchings))]
        assert chances == expected
        first = driver.find_element("css selector", "#edge-table tbody tr")
        i, j = divmod(int(law.marginals.argmax()), 6)
        cells = first.find_elements("css selector", "th, td")
        assert cells[0].text.split() == f"{LEFT[i]} – {RIGHT[j]}".split()
        assert cells[1].text == percent(law.marginals[i, j])
        assert sticks_out(driver) <= 0
        style = "getComputedStyle(document.body)"
        paper = driver.execute_script(f"return {style}.backgroundColor")
        assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
        assert driver.get_log("browser") == []


@needs_browser
def test_the_slider_by_keyboard_changes_what_is_drawn(page, view, tmp_path):
    from selenium.webdriver.common.keys import Keys

    def drawn():
        canvas = driver.find_element("id", "edges")
        said = driver.find_element("id", "threshold-now").text
        n_drawn = int(canvas.get_attribute("data-drawn"))
        assert re.search(rf": {n_drawn} edges?$", said)
        assert slider.get_attribute("aria-valuetext") == said
        wait_until(driver, lambda: table.get_attribute("data-listed") == str(n_drawn))
        n_rows = len(driver.find_elements("css selector", "#edge-table tbody tr"))
        assert n_rows == n_drawn
        return n_drawn

    with open_page(page, tmp_path) as driver:
        driver.set_script_timeout(10)
        slider = driver.find_element("id", "threshold")
        table = driver.find_element("id", "edge-table")
        marginals = view.distribution.marginals
        assert drawn() == (marginals >= 0.22**2).sum()
        before = picture(driver)
        press_tab(driver, 2)  # past the summary, which is there to be scrolled
        assert focused(driver) == "threshold"
        slider.send_keys(Keys.END)
        wait_for_frame(driver)
        assert drawn() == (marginals >= 1.0).sum()
        assert picture(driver) != before
        slider.send_keys(Keys.HOME)
        wait_for_frame(driver)
        assert drawn() == (marginals > 0.0).sum()
        slider.send_keys(Keys.ARROW_RIGHT * 50)
        wait_for_frame(driver)
        assert drawn() == (marginals >= 0.25).sum()
        assert driver.get_log("browser") == []


@needs_browser
def test_features_of_an_edge_by_pointer_menu_and_keyboard(page, view, tmp_path):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.select import Select

    law = view.distribution

    def shows(i, j):
        text = driver.find_element("id", "status").text
        assert " ".join(f"{LEFT[i]} – {RIGHT[j]}".split()) in text
        assert f"probability {percent(law.marginals[i, j])}, " in text
        rows = driver.find_elements("css selector", "#details tbody tr")
        found = {}
        for row in rows:
            name, value, _, adds = (
                cell.text.replace("−", "-")
                for cell in row.find_elements("css selector", "th, td")[:4]
            )
            found[name] = (float(value), float(adds))
        features = view.graph.features[i, j]
        for name, value, coef in zip(NAMES, features, COEF, strict=True):
            assert found[name][0] == pytest.approx(value, rel=1e-2)
            assert found[name][1] == pytest.approx(value * coef, rel=1e-2)

    with open_page(page, tmp_path) as driver:
        driver.set_script_timeout(10)
        # The keyboard: Tab goes into the table, arrows along its rows.
        press_tab(driver, 3)
        order = np.argsort(-law.marginals.ravel(), kind="stable")
        shows(*divmod(int(order[0]), 6))
        driver.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
        shows(*divmod(int(order[1]), 6))
        driver.switch_to.active_element.send_keys(Keys.END)
        driver.switch_to.active_element.send_keys(Keys.ARROW_DOWN, Keys.HOME)
        shows(*divmod(int(order[0]), 6))
        # One more Tab leaves the table for the next.
        driver.switch_to.active_element.send_keys(Keys.TAB)
        row = int(np.flatnonzero(view.mode != view.bayes)[0])
        shows(row, int(view.bayes[row]))
        # The menus reach every edge, forbidden ones too.
        Select(driver.find_element("id", "left")).select_by_index(1)
        Select(driver.find_element("id", "right")).select_by_index(4)
        shows(1, 4)
        Select(driver.find_element("id", "left")).select_by_index(0)
        Select(driver.find_element("id", "right")).select_by_index(0)
        assert "not allowed" in driver.find_element("id", "status").text
        # The pointer: a cell of the heat map, then a name beside the edges.
        box = driver.execute_script(
            "const c = document.getElementById('heat');"
            "c.scrollIntoView({block: 'center'});"
            "return [c.clientWidth, c.clientHeight];"
        )
        heat = driver.find_element("id", "heat")
        # Cells are 44 pixels and end at the lower edge; names stand left of them.
        left_edge = driver.execute_script(
            "const pen = arguments[0].getContext('2d'); pen.font = '12px system-ui, "
            "sans-serif'; return Math.round(Math.min(arguments[0].clientWidth * 0.25, "
            "Math.max(...arguments[1].map((t) => pen.measureText(t.slice(0, 80)).width)))"
            " + 8);", heat, LEFT,
        )  # fmt: skip
        point = ActionChains(driver)
        x = left_edge + 44 * 2.5 - box[0] / 2
        y = box[1] / 2 - 2 - 44 * 1.5
        point.move_to_element_with_offset(heat, int(x), int(y)).perform()
        shows(4, 2)
        edges = driver.find_element("id", "edges")
        half = edges.size["height"] / 2
        point = ActionChains(driver)
        x = -edges.size["width"] / 2 + 6
        point.move_to_element_with_offset(
            edges, int(x), int(14 + 26 * 3.5 - half)
        ).perform()
        shows(3, int(law.marginals[3].argmax()))
        assert driver.get_log("browser") == []


@needs_browser
def test_one_of_the_best_matchings_is_shown_in_the_pictures(page, tmp_path):
    from selenium.webdriver.common.keys import Keys

    with open_page(page, tmp_path) as driver:
        empty = picture(driver, "edges-mark")
        button = driver.find_element("css selector", "#best-table button")
        driver.execute_script("arguments[0].focus()", button)
        assert "Matching 1 is the mode." in driver.find_element("id", "status").text
        first = picture(driver, "edges-mark")
        assert first != empty
        button.send_keys(Keys.ARROW_DOWN)
        text = driver.find_element("id", "status").text
        assert re.search(r"Matching 2 differs from the mode in \d edges of 6", text)
        assert picture(driver, "edges-mark") != first


@needs_browser
def test_a_hundred_nodes_a_side_stay_fluid(large, tmp_path, request):
    with open_page(large, tmp_path) as driver:
        driver.set_script_timeout(30)
        slider = driver.find_element("id", "threshold")
        times = [milliseconds(driver, slider, value) for value in (30, 10, 5, 1, 0, 60)]
        request.node.user_properties.append(("milliseconds", [round(t) for t in times]))
        canvas = driver.find_element("id", "edges")
        assert 0 < int(canvas.get_attribute("data-drawn")) < 100
        assert violations(driver) == []
        assert driver.get_log("browser") == []


@needs_browser
def test_printed_it_is_black_on_white(page, tmp_path):
    with open_page(page, tmp_path, scheme="dark") as driver:
        dark = picture(driver)
        driver.execute_script("dispatchEvent(new Event('beforeprint'))")
        light = picture(driver)
        assert light != dark
        driver.execute_script("dispatchEvent(new Event('afterprint'))")
        assert picture(driver) == dark
        pdf = base64.b64decode(driver.execute_cdp_cmd("Page.printToPDF", {})["data"])
        assert pdf.startswith(b"%PDF")


def picture(driver, name="edges"):
    return driver.execute_script(
        "return document.getElementById(arguments[0]).toDataURL()", name
    )


def press_tab(driver, times):
    from selenium.webdriver.common.keys import Keys

    driver.find_element("tag name", "body").send_keys(Keys.TAB * times)


def wait_until(driver, is_so):
    from selenium.webdriver.support.wait import WebDriverWait

    WebDriverWait(driver, 10, poll_frequency=0.05).until(lambda _: is_so())


def focused(driver):
    return driver.execute_script("return document.activeElement.id")


def wait_for_frame(driver):
    driver.execute_async_script(
        "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))"
    )


# ---- nodes without a partner


def partial_view(seed=3, engine="frontier", **unmatched):
    rng = np.random.default_rng(seed)
    left, right = np.nonzero(rng.random((5, 4)) < 0.7)
    graph = BipartiteGraph.from_edges(left, right, rng.normal(size=(len(left), 3)), 5, 4)
    law = MatchingDistribution(graph.scores(COEF), engine, **unmatched)
    return MatchView(
        name="",
        left=[f"a{i}" for i in range(5)],
        right=[f"b{j}" for j in range(4)],
        features=NAMES,
        coef=COEF,
        graph=graph,
        distribution=law,
        truth=law.mode(),
        n_best=10,
        model="MAPMatching",
    )


@pytest.mark.parametrize(
    ("unmatched", "n_alone"),
    [
        ({"unmatched_left": 0.0, "unmatched_right": -0.5}, 5 + 4),
        ({"unmatched_left": 0.0, "unmatched_right": -np.inf}, 5),
        ({}, 5),  # there are more left nodes than right ones
    ],
)
def test_unmatched_nodes_are_edges_to_nobody_in_particular(unmatched, n_alone):
    view = partial_view(**unmatched)
    law, data = view.distribution, match_data(view)
    rows, cols = numbers_in(data["rows"]), numbers_in(data["cols"])
    chances, scores = numbers_in(data["chances"]), numbers_in(data["scores"])
    assert len(rows) - data["n_pairs"] == n_alone
    assert data["right"][-1] == "(unmatched)"
    assert (data["left"][-1] == "(unmatched)") == (n_alone == 9)
    alone = slice(data["n_pairs"], data["n_pairs"] + 5)
    np.testing.assert_array_equal(chances[alone], law.unmatched_left)
    assert (scores[alone] == 0.0).all()
    # Rows sum to one, and so do columns, whatever stands in place of a partner.
    np.testing.assert_allclose(np.bincount(rows, chances)[:5], 1.0, atol=1e-12)
    np.testing.assert_allclose(np.bincount(cols, chances)[:4], 1.0, atol=1e-12)
    for edges, matching in zip(data["best"], law.k_best(10).matchings, strict=True):
        partner = np.where(matching < 0, 4, matching)
        assert cols[edges[:5]].tolist() == partner.tolist()
        n_lonely = 4 - (matching >= 0).sum()
        assert len(edges) == 5 + (n_lonely if n_alone == 9 else 0)
    text = match_page(view).render()
    assert "5 left and 4 right nodes" in text
    assert "<title>Matchings</title>" in text
    assert "(unmatched)" in text


@needs_browser
def test_a_partial_graph_in_a_browser(tmp_path):
    view = partial_view(unmatched_left=0.0, unmatched_right=-0.5)
    path = tmp_path / "partial.html"
    match_page(view).write(path)
    with open_page(path, tmp_path) as driver:
        from selenium.webdriver.support.select import Select

        check_by_hand(driver)
        Select(driver.find_element("id", "left")).select_by_index(2)
        Select(driver.find_element("id", "right")).select_by_index(4)
        text = driver.find_element("id", "status").text
        chance = percent(float(view.distribution.unmatched_left[2]))
        assert f"a2 – (unmatched): probability {chance}, score 0" in text
        assert driver.get_log("browser") == []
