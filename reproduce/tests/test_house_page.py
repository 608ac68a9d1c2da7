"""The page of the house, built from a tiny run and opened in a real browser."""

import re
from html import unescape

import pytest

pytest.importorskip("matplotlib", reason="the pictures are drawn by matplotlib")

from reproduce.experiments import cmu_house
from reproduce.experiments.cmu_house import summarise
from reproduce.experiments.house_frames import load_house
from reproduce.pages.house import house_page
from reproduce.plots import HOUSE_STYLES
from reproduce.tests.house_folder import write_house
from tests.pages.accessibility import check_report
from tests.pages.browser import needs_browser, open_page


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return cmu_house.Config.tiny(str(write_house(tmp_path_factory.mktemp("data"))))


@pytest.fixture(scope="module")
def rows(config):
    return list(cmu_house.run(config))


@pytest.fixture(scope="module")
def page(config, rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "house.html"
    house_page(config, load_house(config.data), rows).write(path)
    return path


def words(html):
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def slug(text):
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def test_the_page_needs_nothing_from_outside(page):
    html = page.read_text(encoding="utf-8")
    assert not re.search(r"(src|href)=[\"'](https?:)?//", html)
    assert "<script" not in html
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))


def test_the_page_says_what_must_be_said(page, rows):
    text = words(page.read_text(encoding="utf-8"))
    worst = max(row["check"]["largest"] for row in rows if "check" in row)
    assert "Both maximum a posteriori fits are therefore approximate" in text
    assert f"up to {worst:.2f} for a single edge" in text
    assert "only 6 test pairs" in text
    assert "python -m reproduce house --data DIR" in text
    assert "All chosen fits converged." in text


@pytest.mark.parametrize(
    ("saved", "said"),
    [
        ({2: 0.3, 6: 0.3}, "at gaps of 2, 6."),
        ({2: 0.0, 6: 0.3}, "at gaps of 6."),
        ({2: 0.3, 6: -0.3}, "at gaps of 2."),
        ({2: 0.0, 6: 0.0}, "At no gap are all learned weights clearly better"),
    ],
    ids=["both", "one", "worse", "none"],
)
def test_clearly_ahead_is_what_the_rule_says(config, rows, saved, said):
    hardness = {2: [0.1 * k for k in range(7)], 6: [0.1 * k for k in range(6)]}

    def changed(row):
        less = 0.0 if row["method"] == "unweighted" else saved[row["gap"]]
        hard = enumerate(hardness[row["gap"]])
        return row | {"losses": [loss - less * (1.0 + 0.01 * k) for k, loss in hard]}

    page = house_page(config, load_house(config.data), [changed(row) for row in rows])
    assert said in words(page.render())


def test_a_single_test_pair_shows_nothing(config, rows):
    single = [
        row | {"losses": [float(row["method"] == "unweighted")], "standard_error": None}
        for row in rows
    ]
    text = words(house_page(config, load_house(config.data), single).render())
    assert "At no gap are all learned weights clearly better" in text


def test_without_a_check_nothing_is_claimed(config, rows):
    bare = [{k: v for k, v in row.items() if k != "check"} for row in rows]
    text = words(house_page(config, load_house(config.data), bare).render())
    assert "for a single edge" not in text
    unfinished = [row | {"is_converged": False} for row in bare]
    text = words(house_page(config, load_house(config.data), unfinished).render())
    assert "8 of the chosen fits did not converge" in text


@needs_browser
@pytest.mark.parametrize(
    ("width", "scheme"), [(1000, "light"), (360, "dark")], ids=["wide", "phone"]
)
def test_the_page_in_a_browser(config, page, rows, tmp_path, width, scheme):
    with open_page(page, tmp_path, width, scheme) as driver:
        check_report(driver, "Matching the landmarks of a rotating house", 3)
        for line in summarise(rows):
            for method in config.methods:
                name = f"{line['gap']}-{slug(HOUSE_STYLES[method][0])}"
                cell = driver.find_element("id", name).text
                assert cell.startswith(f"{line[method]:.3f}")
            name = f"{line['gap']}-largest-error-of-an-edge"
            cell = driver.find_element("id", name).text
            assert cell == f"{line['check_largest']:.3f}"
        # Nothing sticks out sideways, on a phone either.
        root = "document.documentElement"
        wide = driver.execute_script(f"return {root}.scrollWidth - {root}.clientWidth")
        assert wide <= 0
        style = "getComputedStyle(document.body)"
        paper = driver.execute_script(f"return {style}.backgroundColor")
        assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
