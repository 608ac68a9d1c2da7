"""Links on a page: the same view as that of a model."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

import permatch as pm
from permatch.errors import InvalidOptionError
from permatch.inference import Frontier
from permatch.pages import write_links_page
from permatch.pages.alternatives import find_alternatives
from permatch.pages.links_view import links_view
from permatch.pages.match_explorer import match_page, write_match_page
from permatch.pages.match_view import DECISIONS
from permatch.pages.shown import choose_shown
from tests.pages.accessibility import check_by_hand, sticks_out, violations
from tests.pages.browser import needs_browser, open_page


def pairs_of(n, seed=0):
    """Return scored pairs of n + n records, in components of some ten, in mixed order."""
    rng = np.random.default_rng(seed)
    left = np.repeat(np.arange(n), 3)
    right = np.minimum(left + np.tile([0, 1, 2], n), left - left % 5 + 4)
    pairs = np.unique(np.stack([left, right]), axis=1)
    pairs = pairs[:, rng.permutation(len(pairs.T))]
    left, right = pairs
    chances = np.where(left == right, rng.beta(4, 2, len(left)), rng.beta(1, 5, len(left)))
    return {
        "id_a": [f"a{i}" for i in left],
        "id_b": [f"b{j}" for j in right],
        "probability": chances,
    }


@pytest.fixture(scope="module")
def links():
    return pm.link(pairs_of(40), left="id_a", right="id_b")


def test_a_view_has_the_rows_of_the_table(links):
    view = links_view(links)
    assert view.n_components == 8
    structure = view.structure
    found = {
        (view.left[i], view.right[j]): k
        for k, (i, j) in enumerate(zip(structure.left, structure.right, strict=True))
    }
    assert len(found) == len(links)
    for row, pair in enumerate(zip(links["id_a"], links["id_b"], strict=True)):
        edge = found[pair]
        assert view.chances[edge] == links["probability"][row]
        assert view.pair_chances[edge] == links["pair_probability"][row]
        assert DECISIONS[view.decisions[edge]] == links["decision"][row]
        assert view.alone_left[structure.left[edge]] == links["no_partner_left"][row]
        assert view.alone_right[structure.right[edge]] == links["no_partner_right"][row]
    assert view.low is None  # all are exact


def test_the_scores_are_those_the_probabilities_follow_from(links):
    view = links_view(links)
    np.testing.assert_allclose(view.evidence.values.sum(axis=1), view.problem.scores)
    for c, own in find_alternatives(view, range(8)).items():
        part = view.problem.graph(c)
        edges = pm.EdgeScores(part.structure.left, part.structure.right, part.scores)
        found = Frontier().infer(
            edges, unmatched_left=part.unmatched_left, unmatched_right=part.unmatched_right
        )
        chances = view.chances[view.component_of_edge == c]
        np.testing.assert_allclose(found.marginals, chances, atol=1e-9)
        best = view.problem.scores[own.first].sum()  # no partner: score 0
        assert own.log_probs[0] == pytest.approx(best - found.log_partition)


def test_of_a_model_what_every_feature_adds():
    rng = np.random.default_rng(4)
    pairs = pairs_of(40, seed=4)
    is_match = np.array(
        [a[1:] == b[1:] for a, b in zip(pairs["id_a"], pairs["id_b"], strict=True)]
    )
    del pairs["probability"]
    pairs |= {
        "label": is_match & (rng.random(len(is_match)) < 0.8),
        "close": rng.normal(size=len(is_match)) + 1.5 * is_match,
        "old": rng.integers(0, 2, len(is_match)),
    }
    names = {"left": "id_a", "right": "id_b"}
    model = pm.fit_links(pairs, label="label", **names)
    links = pm.link(pairs, model=model, expected_links=25, **names)
    view = links_view(links, model=model, pairs=pairs)
    evidence = view.evidence
    assert evidence.names[:2] == list(model.feature_names_)
    np.testing.assert_allclose(evidence.values @ evidence.weights, view.problem.scores)
    where = view.structure.left, view.structure.right
    for k in (0, 1, 50):
        pair = view.left[where[0][k]], view.right[where[1][k]]
        row = list(zip(pairs["id_a"], pairs["id_b"], strict=True)).index(pair)
        column = evidence.names.index("close")
        assert evidence.values[k, column] == pairs["close"][row]


def test_approximate_pairs_have_their_intervals(links):
    is_exact = links["is_exact"].copy()
    own = np.isin(links["id_a"], [f"a{k}" for k in range(5)])
    is_exact[own] = False
    table = dict(links.table) | {
        "is_exact": is_exact,
        "low": np.where(own, 0.0, links["low"]),
        "high": np.where(own, 0.9, links["high"]),
    }
    view = links_view(replace(links, table=table))
    assert (~view.is_exact).sum() == 1
    assert "interval (certain)" in match_page(view).render()
    assert f"The probabilities of {own.sum()} pairs are approximate" in view.how


def test_others_are_exact_only_if_there_are_others(links):
    def how(is_exact):
        table = dict(links.table) | {"is_exact": is_exact}
        return links_view(replace(links, table=table)).how

    none = np.zeros(len(links), dtype=bool)
    assert "All others" not in how(none)
    assert how(np.arange(len(links)) > 3).endswith("All others are exact.")


def test_what_is_left_out_is_counted(links, tmp_path, monkeypatch):
    path = tmp_path / "links.html"
    assert "left out" not in write_match_page(links_view(links), path)
    whole = choose_shown(links_view(links))
    monkeypatch.setattr(
        "permatch.pages.match_explorer.choose_shown",
        lambda view: choose_shown(view, 3_000),
    )
    words = write_match_page(links_view(links), path)
    n_left, n_right = map(int, re.match(r"(\d+) x (\d+) records in", words).groups())
    n_records = len(whole.left) + len(whole.right) - n_left - n_right
    assert f"; left out: {n_records} records and " in words
    own = links_view(links, node="a1")
    assert "left out" not in write_match_page(own, path)


def test_some_rows_are_no_view(links):
    with pytest.raises(InvalidOptionError, match="got some of their rows"):
        links_view(links.take(slice(3)))


def test_a_page_is_written_from_python(links, tmp_path):
    path = tmp_path / "links.html"
    assert write_links_page(links, str(path)).endswith("exact probabilities")
    assert path.read_text(encoding="utf-8") == match_page(links_view(links)).render()


def test_links_without_pairs_are_a_page():
    links = pm.link({"left": ["a"], "right": ["b"], "probability": [0.0]})
    page = match_page(links_view(links)).render()
    assert "There is no candidate pair." in page


def test_a_page_of_many_links_is_small(tmp_path):
    links = pm.link(pairs_of(50_000), left="id_a", right="id_b")
    path = tmp_path / "link.html"
    words = write_match_page(links_view(links), path)
    assert path.stat().st_size < 5_000_000
    shown, _, left_out = words.partition("; left out: ")
    assert shown.endswith("of 10,000 components, exact probabilities")
    assert re.fullmatch(r"[\d,]+ records and [\d,]+ pairs", left_out)
    html = path.read_text(encoding="utf-8")
    assert "</span> (in Python, Links.write) writes all pairs" in html
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html)
    assert len(json.loads(text)["best"]) > 1000


@needs_browser
@pytest.mark.parametrize("width", [1300, 400])
def test_links_in_a_browser(links, tmp_path, width):
    path = tmp_path / "link.html"
    costly = pm.link(
        pairs_of(40), left="id_a", right="id_b", costs=pm.LinkCosts(abstain=0.2)
    )
    assert (costly["decision"] == "review").any()
    match_page(links_view(costly)).write(path)
    with open_page(path, tmp_path, width) as driver:
        assert driver.title == "Links"
        check_by_hand(driver)
        assert violations(driver) == []
        status = driver.find_element("id", "status").text
        assert re.search(r"probability [\d.]+ %, [\d.]+ % by itself; ", status)
        assert "Find a record" in driver.find_element("css selector", "main").text
        details = driver.find_element("id", "details")
        switch = driver.find_element("id", "details-switch")
        is_narrow = width < 1152
        assert (switch.is_displayed(), details.is_displayed()) == (is_narrow, not is_narrow)
        # Details of a narrow page open with the first selection, and can be closed.
        first = driver.find_element("css selector", "#pair-table button")
        driver.execute_script("arguments[0].click()", first)
        assert details.is_displayed()
        if is_narrow:
            assert switch.get_attribute("aria-expanded") == "true"
            switch.click()
            assert not details.is_displayed()
            switch.click()
            assert violations(driver) == []
        details = details.text
        assert "log-odds of the pair by itself" in details
        assert "constant added to all" in details
        assert "for review" in driver.find_element("css selector", ".legend").text
        # The first of the alternatives shows its links.
        words = driver.find_elements("css selector", "#best-table td.words")
        assert re.search(r"a\d+ – b\d+", words[0].text)
        assert (
            "need not be the most probable set of links"
            in driver.find_element("id", "best-words").text
        )
        assert sticks_out(driver) <= 0
        assert driver.get_log("browser") == []
