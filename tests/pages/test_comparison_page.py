"""The page about rankers compared, opened in a real browser."""

import re

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="the pictures are drawn by matplotlib")

import permatch as pm
from permatch.metrics.comparison_words import figures, verdict
from permatch.pages import write_comparison_page
from permatch.pages.comparison_page import comparison_page
from tests.pages.accessibility import check_report, sticks_out
from tests.pages.browser import needs_browser, open_page

N_QUERIES, LENGTH = 24, 12
ODD = "文 & <b>$x_1</b>"


@pytest.fixture(scope="module")
def comparison():
    """Two rankers next to a baseline; names are anything but plain."""
    rng = np.random.default_rng(2)
    grades = rng.integers(3, size=N_QUERIES * LENGTH)
    queries = [f"q{k} </title>" if k == 3 else f"q{k}" for k in range(N_QUERIES)]
    noise = rng.normal(size=(3, len(grades)))
    scores = {
        "old.json": grades + 2.0 * noise[0],
        "new.json": grades + noise[1],
        ODD: grades + 2.0 * noise[2],
    }
    documents = [f"d{k} " + "long" * (k % 40) for k in range(len(grades))]
    return pm.compare_rankers(
        scores, None, grades, np.repeat(queries, LENGTH),
        measures="NDCG@5, MAP, Tau", documents=documents, n_resamples=500,
    )  # fmt: skip


@pytest.fixture(scope="module")
def page(comparison, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "compare.html"
    write_comparison_page(comparison, path, title="Rankers compared on <test>.txt")
    return path


def test_the_page_needs_nothing_from_outside(page):
    html = page.read_text(encoding="utf-8")
    assert not re.search(r"(src|href)=[\"'](https?:)?//", html)
    assert "<script" not in html
    assert "<b>" not in html
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    links = re.findall(r'href="#([^"]+)"', html)
    assert set(links) <= set(ids)


def test_the_same_again(comparison, page):
    html = comparison_page(comparison, "Rankers compared on <test>.txt").render()
    assert html == page.read_text(encoding="utf-8")


@needs_browser
@pytest.mark.parametrize(("width", "scheme"), [(1240, "light"), (400, "dark")])
def test_the_page_in_a_browser(comparison, page, tmp_path, width, scheme):
    with open_page(page, tmp_path, width, scheme) as driver:
        check_report(driver, "Rankers compared on <test>.txt", 2)
        assert sticks_out(driver) <= 0
        body = driver.find_element("tag name", "body").text
        for ranker in comparison.rankers[1:]:
            assert " ".join(verdict(comparison, comparison.row(ranker)).split()) in body
        tables = {
            found.find_element("css selector", "caption span").text: [
                [cell.text for cell in row.find_elements("css selector", "th, td")]
                for row in found.find_elements("css selector", "tbody tr")
            ]
            for found in driver.find_elements("tag name", "table")
        }
        captions = iter(tables)
        for ranker in comparison.rankers[1:]:
            rows = tables[next(captions)]
            for cells, measure in zip(rows, comparison.measures, strict=True):
                own = comparison.row(ranker, measure)
                assert cells[0] == str(measure)
                assert cells[1:3] == [f"{own.baseline_mean:.4f}", f"{own.mean:.4f}"]
                assert [cell.replace("\u00a0", " ") for cell in cells[3:]] == figures(own)
        for ranker in comparison.rankers[1:]:
            for found in (comparison.most_won(5, ranker), comparison.most_lost(5, ranker)):
                rows = tables[next(captions)]
                assert [cells[0] for cells in rows] == [own.query for own in found]
                assert [cells[3] for cells in rows] == [
                    f"{own.difference:+.4f}" for own in found
                ]
        # A link leads to the documents of its query, best first by either ranker.
        link = driver.find_element("css selector", "td a, th a")
        place = link.get_attribute("href").rpartition("#")[2]
        link.click()
        heading = driver.find_element("id", place)
        best = comparison.most_won(1)[0]
        assert heading.text == f"Query {best.query}, new.json"
        rows = tables[next(captions)]
        assert len(rows) == 10
        lists = comparison.lists
        orders = [lists.best_first(best.position, ranker).tolist() for ranker in (0, 1)]
        for k, cells in enumerate(rows):
            before, after = orders[0][k], orders[1][k]
            assert cells == [
                str(k + 1),
                lists.documents[before].strip(),
                str(lists.grades[before]),
                lists.documents[after].strip(),
                str(lists.grades[after]),
                str(orders[0].index(after) + 1),
            ]
        n_bold = sum(lists.grades[order[k]] > 0 for order in orders for k in range(10))
        shown = driver.find_elements("css selector", f"#{place} + .scroll strong")
        assert len(shown) == n_bold


def test_rankers_that_are_equal_have_a_page_too(tmp_path):
    scores = np.arange(8.0)
    grades, queries = [0, 1] * 4, [0, 0, 1, 1, 2, 2, 3, 3]
    found = pm.compare_rankers([scores, 2 * scores], None, grades, queries)
    write_comparison_page(found, tmp_path / "equal.html")
    html = (tmp_path / "equal.html").read_text()
    assert "have the same NDCG@10 on all 4 queries." in html
    assert "scores 2 won no query." in html
    assert "side by side" not in html


def test_a_measure_without_values_has_a_page_too(tmp_path):
    scores = {"a": np.arange(4.0), "b": -np.arange(4.0)}
    found = pm.compare_rankers(scores, None, [0] * 4, [0, 0, 1, 1], measures="Tau")
    write_comparison_page(found, tmp_path / "none.html")
    html = (tmp_path / "none.html").read_text()
    assert "Tau has a value on 0 queries" in html
    assert "<svg" not in html
