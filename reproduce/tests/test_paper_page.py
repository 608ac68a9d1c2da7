"""The paper on one page, built from a tiny run and opened in a real browser."""

import json
import re
from html import unescape

import pytest

pytest.importorskip("skimage", reason="the horse comes with scikit-image")
pytest.importorskip("matplotlib", reason="the pictures are drawn by matplotlib")

from permatch.pages.html import Markup, markup, table
from reproduce.experiments.outcomes import CLAIMS
from reproduce.pages.paper import measured
from reproduce.pages.paper_ranking import show_time
from tests.pages.accessibility import check_by_hand, sticks_out, violations
from tests.pages.browser import needs_browser, open_page

BADGE = re.compile(
    r'<span class="badge [a-z-]+"(?P<more>[^>]*) data-claim="(?P<claim>[^"]+)">'
    r"(?P<verdict>[^<]+)</span>"
)


@pytest.fixture(scope="module")
def page(finished):
    return finished / "paper-quick.html"


@pytest.fixture(scope="module")
def html(page):
    return page.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def numbers(page):
    return json.loads(page.with_suffix(".json").read_text())["experiments"]


def words(html):
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def sections(html):
    """Return the parts of the page by claim."""
    found = re.split(r'<section class="claim" id="([^"]+)"[^>]*>', html)[1:]
    return dict(zip(found[::2], found[1::2], strict=True))


def test_the_page_needs_nothing_from_outside(html):
    assert not re.search(r"(src|href)=[\"'](https?:)?//", html)
    assert "<script" not in html
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    for target in re.findall(r'<a href="#([^"]+)"', html):
        assert target in ids


def test_every_verdict_is_that_of_the_numbers(html, numbers):
    badges = [(b["claim"], b["verdict"]) for b in BADGE.finditer(html)]
    expected = [(part["id"], part["verdict"]) for part in numbers]
    assert badges == expected * 2  # at the top, then section by section
    assert {claim for claim, _ in expected} == CLAIMS.keys()


def test_a_section_says_all_there_is_to_say(html, numbers):
    for part in numbers:
        section = sections(html)[part["id"]]
        text = words(section)
        assert part["claim"] in text
        assert part["reason"] in unescape(section)
        data = "" if part["command"] == "silhouettes" else " --data DATA"
        command = f"python -m reproduce {part['command']}{data} --out DIR --quick"
        assert command in text
        is_run = part["verdict"] != "not run: no data"
        assert section.count("<svg") == is_run
        assert ("Differences from the paper" in text) == is_run
        assert ("How the verdict was reached" in text) == is_run
        assert ("Missing data." in text) == (not is_run)
        assert text.count("--quick") == 1


def test_the_numbers_under_a_figure_are_those_of_the_file(html, numbers):
    found = {part["id"]: part for part in numbers}
    texts = {name: words(section) for name, section in sections(html).items()}
    for line in found["figure-3-left"]["summary"]:
        sign = "+" if " - " in line["method"] else ""
        assert f"{line['mean']:{sign}.3f} ± {line['spread']:.3f}" in texts["figure-3-left"]
    for line in found["figure-3-right"]["summary"]:
        assert f"{line['mean']:.3f}" in texts["figure-3-right"]
    for line in found["figure-2-ohsumed"]["summary"]["lines"]:
        assert f"{line['ndcg'][0]:.4f}" in texts["figure-2-ohsumed"]
    for test in found["figure-2-ohsumed"]["summary"]["tests"]:
        assert (
            f"{test['difference']:+.4f} {test['p_holm']:.3f}" in texts["figure-2-ohsumed"]
        )
    for line in found["table-1"]["summary"]:
        both = f"{show_time(line['model'])} {show_time(line['margin'])}"
        assert both.replace("\u00a0", " ") in texts["table-1"]
    for line in found["house"]["summary"]:
        assert f"{line['map']:.3f} ± {line['map_error']:.3f}" in texts["house"]


def test_the_whole_again_uses_the_folder_of_the_page(html):
    assert "python -m reproduce all --data DATA --out DIR --quick" in words(html)


def test_the_house_says_what_its_intervals_are_worth(html):
    text = words(sections(html)["house"])
    assert "CMU House, beyond the paper" in text
    assert "This experiment is not in the paper" in text
    assert text.count("look alike") == 2  # beside the numbers, and in the rule
    assert "too narrow" in text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (36.03, "36.0 s"),
        (1.0, "1.00 s"),
        (0.99996, "1.00 s"),
        (0.9334556, "933 ms"),
        (0.0150, "15.0 ms"),
        (1.43e-5, "14.3 µs"),
        (9.996e-4, "1.00 ms"),
        (1.2e-8, "0.0120 µs"),
        (1234.5, "1,234 s"),
    ],
)
def test_times_need_no_power_of_ten(seconds, text):
    assert show_time(seconds) == text.replace(" ", "\u00a0")


def test_times_are_marked(html, numbers):
    found = {part["id"]: part for part in numbers}
    outside = re.sub(r'<time class="measured">[^<]*</time>', "", html)
    for part in numbers:
        if part["date"]:
            assert part["date"] not in outside
    days = re.findall(r'<time class="measured">\d{4}-\d\d-\d\d</time>', html)
    assert len(days) == 1
    assert '<section class="claim" id="table-1" data-measured>' in html
    assert all(
        ("data-measured" in badge["more"]) == found[badge["claim"]]["is_measured"]
        for badge in BADGE.finditer(html)
    )


def test_markup_stays_and_text_is_escaped():
    assert markup("a < b") == "a &lt; b"
    assert markup(Markup("<b>a</b>")) == "<b>a</b>"
    assert measured("1 < 2") == '<time class="measured">1 &lt; 2</time>'
    cells = table(["a", "b"], [["<", Markup("<i>x</i>")]], "c", is_text=True)
    assert '<th scope="row">&lt;</th><td><i>x</i></td>' in cells
    assert '<table class="text">' in cells


@needs_browser
@pytest.mark.parametrize("width", [1200, 360], ids=["wide", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_in_a_browser(page, numbers, tmp_path, width, scheme):
    with open_page(page, tmp_path, width, scheme) as driver:
        assert driver.get_log("browser") == []
        assert driver.title == "The paper on one page"
        pictures = driver.find_elements("css selector", "figure svg")
        assert len(pictures) == 5
        for picture in pictures:
            assert picture.size["width"] > 200
            assert picture.size["height"] > 150
        for label in driver.find_elements("css selector", "figure .paper"):
            assert len(label.get_attribute("aria-label")) > 60
        for part in numbers:
            badge = driver.find_element("id", f"verdict-{part['id']}")
            assert badge.text == part["verdict"]
        assert sticks_out(driver) <= 0
        for cell in driver.find_elements("css selector", "#table-1 td"):
            lines = "const r = document.createRange(); r.selectNodeContents(arguments[0]);"
            tops = driver.execute_script(
                lines + "return [...r.getClientRects()].map((b) => b.top)", cell
            )
            assert len(set(tops)) <= 1  # no number is broken
        style = "getComputedStyle(document.body)"
        paper = driver.execute_script(f"return {style}.backgroundColor")
        assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
        check_by_hand(driver)
        assert violations(driver) == []


@needs_browser
def test_the_page_on_paper(page, tmp_path):
    with open_page(page, tmp_path, 794, "dark") as driver:  # A4
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        style = "getComputedStyle(document.body)"
        assert driver.execute_script(f"return {style}.backgroundColor").endswith(
            "(255, 255, 255)"
        )
        cut = """
          return [...document.querySelectorAll(".scroll, pre, figure .paper")]
            .filter((e) => getComputedStyle(e).overflowX !== "visible").length
        """
        assert driver.execute_script(cut) == 0
        assert sticks_out(driver) <= 0
