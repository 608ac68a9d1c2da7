"""The page of the rankings, built from a tiny run and opened in a real browser."""

import re
from dataclasses import replace
from html import unescape

import pytest

pytest.importorskip("matplotlib", reason="the pictures are drawn by matplotlib")

from reproduce.experiments import ohsumed
from reproduce.experiments.ranking_summary import beside_published, compare, summarise
from reproduce.experiments.rival_fits import RUN
from reproduce.pages.ohsumed import ohsumed_page
from reproduce.plots import label_of
from reproduce.rivals import RIVALS
from reproduce.tests.letor_folder import write_letor, write_published
from tests.pages.accessibility import check_report
from tests.pages.browser import needs_browser, open_page


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    root = write_published(write_letor(tmp_path_factory.mktemp("data")))
    return ohsumed.Config.tiny(str(root))


@pytest.fixture(scope="module")
def rows(config):
    return list(ohsumed.run(config))


@pytest.fixture(scope="module")
def tests_(rows):
    return compare(rows, ohsumed.BASELINE, n_resamples=500)


@pytest.fixture(scope="module")
def page(config, rows, tests_, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "ohsumed.html"
    ohsumed_page(config, rows, tests_).write(path)
    return path


def slug(text):
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def test_the_page_needs_nothing_from_outside(page):
    html = page.read_text(encoding="utf-8")
    assert not re.search(r"(src|href)=[\"'](https?:)?//", html)
    assert "<script" not in html
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))


def test_the_page_says_what_must_be_said(page, rows, tests_):
    text = re.sub(r"<[^>]+>", " ", page.read_text(encoding="utf-8"))
    text = " ".join(unescape(text).split())
    assert "With 15 queries, most gaps in the figure are noise" in text
    assert "Holm" in text
    assert "The vertical axis does not start at 0" in text
    assert "the paper's NDCG: gain 2^grade - 1, discount 1 / log(1 + position)" in text
    assert "Published results have no test" in text
    assert "C-CRF-style (Qin et al., NIPS 2008) is left out: it needs a matrix" in text
    for rival in RIVALS.values():
        if not rival.needs_similarity:
            assert f"{rival.name} {rival.source} {rival.certain} {rival.reading}" in text
    assert "A name that ends in '-style'" in text
    near = {line["method"]: line for line in beside_published(rows)}
    assert near.keys() == {"rankboost", "ranksvm"}
    for line in near.values():
        where = "within" if line["is_within"] else "not within"
        assert f"{RIVALS[line['method']].name} is {where} one standard error" in text
        assert f"{line['difference']:+.4f}, with a standard error of" in text
    assert "python -m reproduce ohsumed --data DIR --repeats 2" in text
    n_above = sum(test["difference"] > 0 for test in tests_)
    assert f"is number {n_above + 1} of the {len(tests_) + 1} methods measured" in text
    significant = [test for test in tests_ if test["p_holm"] <= 0.05]
    assert ("none is significant" in text) == (not significant)


def test_a_clear_winner_is_named(config, rows, tests_):
    changed = [test | {"p_holm": 0.01} for test in tests_[:1]] + tests_[1:]
    html = ohsumed_page(config, rows, changed).render()
    n = len(tests_)
    assert n == 3 + len(RUN)
    assert "differ" in html.partition(f"After Holm&#x27;s correction for {n}")[2][:200]


def test_a_single_repeat_has_no_bands(config, rows, tests_):
    once = [row for row in rows if row["repeat"] == 0]
    html = ohsumed_page(replace(config, n_repeats=1), once, tests_).render()
    assert "A single repeat, so no bands." in html
    assert "±" not in html


@needs_browser
@pytest.mark.parametrize(
    ("width", "scheme"), [(1000, "light"), (360, "dark")], ids=["wide", "phone"]
)
def test_the_page_in_a_browser(page, rows, tests_, tmp_path, width, scheme):
    summary = summarise(rows)
    with open_page(page, tmp_path, width, scheme) as driver:
        check_report(driver, "Learning to rank OHSUMED", 3)
        for line in summary:
            name = slug(label_of(line))
            cell = driver.find_element("id", f"{name}-1").text
            assert cell.startswith(f"{line['ndcg'][0]:.4f}")
            assert ("±" in cell) == (line["spread"] is not None)
            cell = driver.find_element("id", f"{name}-mean").text
            assert cell.startswith(f"{line['mean']:.4f}")
            if line["method"] in RUN:
                cell = driver.find_element("id", f"{name}-seconds-per-fit").text
                assert float(cell) == pytest.approx(line["fit_seconds"], rel=0.01)
        labels = {line["method"]: slug(label_of(line)) for line in summary}
        for test in tests_:
            name = labels[test["method"]]
            cell = driver.find_element("id", f"{name}-p-after-holm").text
            assert cell == f"{test['p_holm']:.3f}"
            cell = driver.find_element("id", f"{name}-difference").text
            assert cell == f"{test['difference']:+.4f}"
        (ridge,) = (line for line in summary if line["method"] == "ridge")
        cell = driver.find_element("id", "query-centred-ridge-fold-1").text
        assert cell == f"{ridge['alphas'][1][0]:g}"
        # Nothing sticks out sideways, on a phone either.
        root = "document.documentElement"
        wide = driver.execute_script(f"return {root}.scrollWidth - {root}.clientWidth")
        assert wide <= 0
        style = "getComputedStyle(document.body)"
        paper = driver.execute_script(f"return {style}.backgroundColor")
        assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
