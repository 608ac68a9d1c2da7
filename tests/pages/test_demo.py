"""The demo's page, built from a tiny run and opened in a real browser."""

import json
import re

import numpy as np
import pytest

pytest.importorskip("skimage", reason="the horse comes with scikit-image")
pytest.importorskip("matplotlib", reason="the pictures are drawn by matplotlib")

from permatch.pages import demo_learning, demo_linking
from permatch.pages.demo_learning import Setup
from permatch.pages.demo_page import demo_page
from permatch.plots import STYLES
from tests.pages.accessibility import check_report
from tests.pages.browser import needs_browser, open_page

TINY = Setup(
    n_train=(3, 6),
    n_test=12,
    map_alphas=(1.0, 0.1),
    margin_alphas=(0.1, 0.01),
    n_points=7,
    n_images=20,
    n_contour=80,
)


@pytest.fixture(scope="module")
def demo():
    return demo_learning.run(TINY)


@pytest.fixture(scope="module")
def linking():
    return demo_linking.run()


@pytest.fixture(scope="module")
def page(linking, demo, tmp_path_factory):
    path = tmp_path_factory.mktemp("demo") / "index.html"
    demo_page(linking, demo).write(path)
    (path.parent / "demo.json").write_text(demo.to_json(), encoding="utf-8")
    return path


def test_learning_helps_and_the_numbers_fit_together(demo):
    numbers = demo.numbers
    assert numbers["loss_learnt"] < numbers["loss_unweighted"]
    (row,) = (r for r in demo.rows if r["n"] == 6 and r["method"] == "map")
    assert numbers["loss_learnt"] == row["hamming_loss"]
    assert numbers["alpha"] == row["alpha"]
    other = demo_learning.draw(TINY, landmarks="new")
    row = demo_learning.measure(TINY, other, 6, "map")
    assert numbers["loss_new_landmarks"] == row["hamming_loss"]
    assert numbers["n_plausible"] == demo.reliability.counts.sum()
    assert demo.node_reliability.counts.sum() == TINY.n_test * TINY.n_points
    assert numbers["accuracy"] == demo.node_reliability.accuracy
    example = demo.example
    assert numbers["example_right_after"] == (example.after == example.truth).sum()
    assert numbers["example_right_before"] == (example.before == example.truth).sum()
    np.testing.assert_allclose(example.after_marginals.sum(axis=0), 1.0)


def test_linking_helps_and_only_it_finds_the_example(linking):
    threshold, greedy, linked = linking.rows
    assert linked["f1"] > max(threshold["f1"], greedy["f1"])
    assert linked["brier"] < threshold["brier"] == greedy["brier"]
    best = max(linking.example, key=lambda pair: pair["probability"])
    assert best["is_true"]
    assert best["pair_probability"] < 0.5 < best["probability"]


def test_the_page_needs_nothing_from_outside(page):
    html = page.read_text(encoding="utf-8")
    assert not re.search(r"(src|href)=[\"'](https?:)?//", html)
    assert "<script" not in html
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))


@needs_browser
@pytest.mark.parametrize(("width", "scheme"), [(1000, "light"), (360, "dark")])
def test_the_page_in_a_browser(page, tmp_path, width, scheme):
    content = json.loads((page.parent / "demo.json").read_text())
    numbers, rows = content["numbers"], content["rows"]
    with open_page(page, tmp_path, width, scheme) as driver:
        check_report(driver, "Two lists linked, a horse matched", 5)
        for row, name in (("unweighted", "loss_unweighted"), ("learned", "loss_learnt")):
            cell = driver.find_element("id", f"{row}-wrong-points").text
            assert cell == f"{100 * numbers[name]:.1f} %"
        cell = driver.find_element("id", "learned-right-points-in-the-pair-below").text
        assert cell == str(numbers["example_right_after"])
        for row in rows:
            label = STYLES[row["method"]][0].lower().replace(" ", "-")
            for n in TINY.n_train if row["n"] == 0 else [row["n"]]:
                cell = driver.find_element("id", f"{n}-{label}").text
                assert cell == f"{100 * row['hamming_loss']:.1f} %"
        body = driver.find_element("tag name", "body")
        assert f"alpha = {numbers['alpha']:g}" in body.text
        assert f"{numbers['evaluations']} evaluations" in body.text
        assert f"{numbers['calibration_error']:.4f}" in body.text
        assert f"{numbers['node_calibration_error']:.4f}" in body.text
        cell = driver.find_element("id", "learned-at-other-points-wrong-points").text
        assert cell == f"{100 * numbers['loss_new_landmarks']:.1f} %"
        # Nothing sticks out sideways, on a phone either.
        root = "document.documentElement"
        wide = driver.execute_script(f"return {root}.scrollWidth - {root}.clientWidth")
        assert wide <= 0
        style = "getComputedStyle(document.body)"
        paper = driver.execute_script(f"return {style}.backgroundColor")
        assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
