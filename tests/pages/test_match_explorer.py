"""The page about matchings: what is in the file, and what a browser makes of it."""

import base64
import json
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest

from permatch import BipartiteGraph, MAPMatching, MatchingDistribution
from permatch.datasets.edge_table import EdgeTable
from permatch.pages import alternatives
from permatch.pages.divided import divide
from permatch.pages.explorer_page import pack, percent
from permatch.pages.match_explorer import match_page, write_match_page
from permatch.pages.model_view import model_view
from permatch.pages.shown import choose_shown
from tests.pages.accessibility import check_by_hand, sticks_out, violations
from tests.pages.browser import needs_browser, open_page

NAMES = ["distance", "overlap", "<b>noise</b>"]
COEF = np.array([-1.2, 0.8, 0.1])
ODD = ["</script><b>x</b>", "日本", "a&b\"'", "עברית", "e" * 300, "  f"]


def fitted(intercept=None):
    """Return a model with known weights; with an intercept, any node may be unmatched."""
    rng = np.random.default_rng(0)
    model = MAPMatching(alpha=1.0).fit(rng.normal(size=(2, 2, 2, 3)), [[0, 1]] * 2)
    model.coef_ = COEF
    if intercept is not None:
        model.unmatched_, model.unmatched_intercept_ = "any", intercept
    return model


def table_of(graphs, *, ids=None, left=None, matchings=None):
    return EdgeTable(
        graphs,
        matchings,
        ids or ([None] if len(graphs) == 1 else list(range(len(graphs)))),
        [left or [f"a{i}" for i in range(graph.n_left)] for graph in graphs],
        [[f"b{j}" for j in range(graph.n_right)] for graph in graphs],
        NAMES,
    )


def dense(n, k, seed, forbidden=()):
    rng = np.random.default_rng(seed)
    allowed = np.ones((n, k), dtype=bool)
    for pair in forbidden:
        allowed[pair] = False
    return BipartiteGraph(rng.normal(size=(n, k, 3)), allowed)


def chain(n, seed, scale=1.0):
    """Return a sparse graph: node i may be matched to i and i + 1, in runs of five."""
    rng = np.random.default_rng(seed)
    left = np.repeat(np.arange(n), 2)
    right = np.minimum(left + np.tile([0, 1], n), left - left % 5 + 4)
    keep = np.append(True, (left[1:] != left[:-1]) | (right[1:] != right[:-1]))
    left, right = left[keep], right[keep]
    features = scale * rng.normal(size=(len(left), 3))
    features[::7, 2] = 0.0
    return BipartiteGraph.from_edges(left, right, features, n, n)


@pytest.fixture(scope="module")
def odd():
    """One graph of names as bad as can be, with labels."""
    graph = dense(6, 6, 20, forbidden=[(0, 0), (2, 3)])
    table = table_of(
        [graph], ids=["mon</title>day"], left=ODD, matchings=[np.arange(6) - 1]
    )
    return model_view(fitted(0.1), table)


@pytest.fixture(scope="module")
def odd_page(odd, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "match.html"
    match_page(odd).write(path)
    return path


@pytest.fixture(scope="module")
def sparse():
    """Two graphs, of 8 and 3 components."""
    table = table_of([chain(40, 0), chain(15, 1)], ids=["one", "two"])
    return model_view(fitted(-0.5), table, n_best=4)


@pytest.fixture(scope="module")
def sparse_page(sparse, tmp_path_factory):
    path = tmp_path_factory.mktemp("sparse") / "match.html"
    match_page(sparse).write(path)
    return path


def data_in(html):
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html)
    return json.loads(text)


def numbers_in(packed):
    raw = base64.b64decode(packed["bytes"])
    return np.frombuffer(raw, dtype=f"<{packed['kind']}")


# ---- what is in the file


def test_the_page_needs_nothing_from_outside(odd_page):
    html = odd_page.read_text(encoding="utf-8")
    assert not re.search(r"(src|href)=[\"'](https?:)?//", html)
    assert "http" not in html.replace("http-equiv", "")
    assert len(re.findall(r"<script", html)) == len(re.findall(r"</script>", html)) == 2
    assert "<b>" not in html
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))


def test_probabilities_are_those_of_the_library_whatever_the_graph():
    graphs = [dense(4, 4, 1), dense(3, 5, 2), chain(10, 3)]
    for intercept in (None, -0.3):
        model = fitted(intercept)
        view = model_view(model, table_of(graphs))
        data = data_in(match_page(view).render())
        rows, cols = numbers_in(data["rows"]), numbers_in(data["cols"])
        starts = numbers_in(data["edge_starts"])
        chances = numbers_in(data["chances"])
        assert len(rows) == sum(graph.n_edges for graph in graphs)
        found = {}
        for c, name in enumerate(data["graphs"]):
            for edge in range(starts[c], starts[c + 1]):
                pair = data["left"][rows[edge]], data["right"][cols[edge]]
                found[(name, *pair)] = chances[edge]
        alone = np.sort(numbers_in(data["alone"][0]))
        assert len(found) == len(rows)
        true = np.concatenate([model.distribution(g).unmatched_left for g in graphs])
        np.testing.assert_allclose(alone, np.sort(true), atol=1e-6)
        for g, graph in enumerate(graphs):
            law = model.distribution(graph)
            s = graph.structure
            for i, j, p in zip(s.left, s.right, graph.pick(law.marginals), strict=True):
                assert found[(str(g), f"a{i}", f"b{j}")] == pytest.approx(p, abs=1e-6)


def test_components_come_by_expected_errors(sparse):
    shown = choose_shown(sparse)
    assert sorted(shown.components.tolist()) == list(range(11))
    errors = sparse.expected_errors[shown.components]
    assert (np.diff(errors) <= 0.0).all()
    # Decisions of links and of pairs without a link are wrong with p and 1 - p.
    first = shown.components[0]
    own = sparse.component_of_edge == first
    p, is_link = sparse.chances[own], sparse.is_link[own]
    assert errors[0] == pytest.approx((1 - p)[is_link].sum() + p[~is_link].sum())


def test_the_best_matchings_are_those_of_the_component(sparse):
    shown = choose_shown(sparse)
    found = alternatives.find_alternatives(sparse, shown.components.tolist())
    assert sorted(found) == list(range(11))
    for c, own in found.items():
        part = sparse.problem.graph(c)
        law = MatchingDistribution(
            part.dense(),
            "enumeration",
            unmatched_left=part.unmatched_left,
            unmatched_right=part.unmatched_right,
        )
        best = law.k_best(4)
        np.testing.assert_allclose(own.log_probs, law.log_prob(best.matchings), atol=1e-9)
        links = [own.first, *(np.setxor1d(own.first, more) for more in own.changes)]
        for edges, matching in zip(links, best.matchings, strict=True):
            rows = part.structure.left[edges - sparse.structure.edge_starts[c]]
            cols = part.structure.right[edges - sparse.structure.edge_starts[c]]
            assert matching[rows].tolist() == cols.tolist()
            assert len(edges) == (matching >= 0).sum()


def test_log_partitions_are_found_where_a_view_has_none(sparse, monkeypatch):
    known = alternatives.find_alternatives(sparse, range(11))
    bare = replace(sparse, log_partitions=None)
    for c, own in alternatives.find_alternatives(bare, range(11)).items():
        np.testing.assert_allclose(own.log_probs, known[c].log_probs, atol=1e-9)
    monkeypatch.setattr(alternatives, "_NARROW", 0)
    wide = alternatives.find_alternatives(bare, [3])
    assert wide[3].log_probs is None
    np.testing.assert_allclose(wide[3].losses, known[3].losses)
    monkeypatch.setattr(alternatives, "MAX_NODES", 4)
    assert alternatives.find_alternatives(bare, range(11)) == {}
    data = data_in(match_page(bare).render())
    assert data["best"] == [None] * 11
    assert data["why_missing"][0] == "Not computed: more than 4 nodes on a side."
    monkeypatch.undo()
    monkeypatch.setattr(alternatives, "MAX_CHANGES", 10)
    few = alternatives.find_alternatives(sparse, range(11))
    assert 1 <= len(few) < 11
    assert list(few) == list(range(len(few)))


def test_where_nodes_may_have_several_links_there_are_no_matchings(sparse):
    n_left = sparse.structure.n_left
    problem = replace(sparse.problem, capacity_left=np.full(n_left, 2))
    page = match_page(replace(sparse, problem=problem)).render()
    assert data_in(page)["best"] == [None] * 11
    assert data_in(page)["why_missing"][1] == "Not computed: nodes may have several links."


def test_what_does_not_fit_is_left_out_and_said():
    graph = chain(200, 5, scale=40.0)  # many decisions are certain
    view = model_view(fitted(-0.5), table_of([graph]))
    whole = choose_shown(view)
    assert len(whole.edges) == graph.n_edges
    assert "left-out" not in match_page(view).render()
    some = choose_shown(view, max_bytes=12_000)
    worst = np.zeros(view.n_components)
    doubt = np.minimum(view.chances, 1 - view.chances)
    np.maximum.at(worst, view.component_of_edge, doubt)
    assert some.n_certain == (worst < 1e-3).sum() > 0
    assert (worst[some.components] >= 1e-3).all()
    n = len(some.components)
    assert some.components.tolist() == whole.components[:n].tolist()
    page = match_page(view, 12_000).render()
    assert f"This page shows {n} of 40 components, the least certain." in page
    n_nodes = 400 - len(some.left) - len(some.right)
    n_pairs = graph.n_edges - len(some.edges)
    assert f"{n_nodes} nodes and {n_pairs} pairs are left out" in page
    assert f"among them {some.n_certain} components in which every pair" in page
    assert ">--marginals</span> writes all pairs to a table." in page
    # Of a component too large by itself, the pairs that are least certain stay.
    tiny = choose_shown(view, max_bytes=300)
    assert len(tiny.components) == 1
    own = view.component_of_edge == tiny.components[0]
    kept = np.sort(view.risks[tiny.edges])[::-1]
    np.testing.assert_array_equal(kept, np.sort(view.risks[own])[::-1][: len(kept)])


def test_large_components_are_divided_where_nothing_is_likely():
    rng = np.random.default_rng(3)
    left = np.concatenate([np.arange(40), np.arange(39)])
    right = np.concatenate([np.arange(40), np.arange(1, 40)])
    features = rng.normal(size=(79, 3))
    features[40:, 0] = np.where(np.arange(39) % 4 == 3, 40.0, features[40:, 0])
    graph = BipartiteGraph.from_edges(left, right, features, 40, 40)
    view = model_view(fitted(-0.3), table_of([graph], matchings=[np.arange(40)]))
    assert view.n_components == 1
    divided = divide(view)
    assert divided.view.n_components == 10  # runs of four
    assert (divided.sizes == 80).all()
    assert (divided.n_pairs, divided.n_nodes) == (9, 0)
    assert divided.view.label_errors.sum() == view.label_errors.sum()
    assert divided.view.chances.sum() == pytest.approx(view.chances.sum(), abs=1e-6)
    # What is left out hardly counts: the parts give the probabilities of the whole.
    parts = divided.view
    for c, own in alternatives.find_alternatives(parts, range(10)).items():
        part = parts.problem.graph(c)
        unmatched = part.unmatched_left, part.unmatched_right
        law = MatchingDistribution(
            part.dense(),
            "frontier",
            unmatched_left=unmatched[0],
            unmatched_right=unmatched[1],
        )
        chances = parts.chances[parts.component_of_edge == c]
        np.testing.assert_allclose(
            law.marginals[part.structure.left, part.structure.right], chances, atol=1e-6
        )
        assert own.log_probs[0] == pytest.approx(law.log_prob(law.mode()))
    page = match_page(view).render()
    assert "are divided into parts by leaving out 9 pairs below 0.1 %." in page
    assert "This page shows" not in page


def test_nodes_with_very_many_partners_keep_them():
    n = 1200  # all of them equally improbable
    view = model_view(fitted(0.0), table_of([dense(1, n, 0)]))
    even = replace(
        view,
        chances=np.full(n, 0.9 / n),
        alone_left=np.array([0.1]),
        alone_right=np.full(n, 1 - 0.9 / n),
        decisions=np.zeros(n, dtype=int),
    )
    assert divide(even).n_pairs == 0
    alone = replace(even, alone_left=np.array([0.9]))
    assert (divide(alone).n_pairs, divide(alone).n_nodes) == (n, n + 1)
    words = "No pair is likely enough to be shown."
    assert words not in match_page(even).render()
    assert words in match_page(alone).render()
    assert "that have no other" in match_page(alone).render()


def test_a_page_of_100_000_nodes_is_small(tmp_path):
    n = 50_000
    view = model_view(fitted(-0.5), table_of([chain(n, 7)]))
    path = tmp_path / "large.html"
    words = write_match_page(view, path)
    assert path.stat().st_size < 5_000_000
    assert path.stat().st_size > 2_000_000  # there is much to show
    assert re.fullmatch(
        r"[\d,]+ x [\d,]+ nodes in [\d,]+ of 10,000 components, exact probabilities; "
        r"left out: [\d,]+ nodes and [\d,]+ pairs",
        words,
    )


def test_one_node_is_a_way_to_its_component(sparse):
    table = table_of([chain(40, 0)])
    view = model_view(fitted(-0.5), table, node="a7")
    page = match_page(view).render()
    assert "This page shows 1 of 8 components, those asked for." in page
    assert data_in(page)["left"] == ["a5", "a6", "a7", "a8", "a9"]


def test_exact_and_approximate_answers_are_called_so(odd_page):
    text = odd_page.read_text(encoding="utf-8")
    assert '<p class="note" id="how">All probabilities are exact, computed by' in text
    model = fitted()
    model.engine = "bethe"
    unknown = match_page(model_view(model, table_of([dense(9, 9, 0)]))).render()
    assert '<p class="note approximate" id="how">Probabilities are approximate' in unknown
    assert "estimated by engine bethe" in unknown
    assert "their error is unknown" in unknown
    assert data_in(unknown)["low"] is None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        from permatch.inference import AutoEngine, PathTree

        model.engine = AutoEngine(tol=1e-9, budget=0.2)
        hurried = model_view(model, table_of([dense(50, 50, 0)]))
        page = match_page(hurried).render()
        assert "did not reach its tolerance" in page
        assert "interval (two standard errors)" in page
        model = fitted(0.0)
        model.engine = PathTree()
        view = model_view(model, table_of([chain(10, 0)]))
        if not view.is_exact.all():
            assert "interval (certain)" in match_page(view).render()
            assert (view.low <= view.chances).all()


def test_scores_far_apart_give_numbers_all_the_same():
    graph = chain(10, 2, scale=300.0)
    data = data_in(match_page(model_view(fitted(0.0), table_of([graph]))).render())
    for name in ("chances", "scores", "errors", "values"):
        assert np.isfinite(numbers_in(data[name])).all()
    assert data["chances"]["kind"] == "f4"
    for own in data["best"]:
        assert np.isfinite(own["losses"]).all()
        assert max(own["logs"]) <= 0.0
    # What must be matched has no score of staying alone; 1 x k and k x 1 have pages.
    for shape in ((1, 3), (3, 1), (1, 1)):
        view = model_view(fitted(), table_of([dense(*shape, 0)]))
        data = data_in(match_page(view).render())
        smaller = numbers_in(data["alone_scores"][shape[0] > shape[1]])
        assert (smaller == -np.inf).all()


def test_a_view_without_pairs_is_a_page():
    graph = BipartiteGraph.from_edges([], [], np.zeros((0, 3)), 2, 3)
    page = match_page(model_view(fitted(0.0), table_of([graph]))).render()
    assert "There is no candidate pair." in page


def test_numbers_beyond_single_precision_keep_theirs():
    assert pack(np.array([1e-60, 1.0]))["kind"] == "f8"
    assert pack(np.array([0.0, 1.0]))["kind"] == "f4"
    assert pack(np.array([]))["kind"] == "f4"


# ---- what a browser makes of it


def text_of(driver, name):
    return driver.find_element("id", name).text


def cells(driver, table, row):
    rows = driver.find_elements("css selector", f"#{table} tbody tr")
    return [cell.text for cell in rows[row].find_elements("css selector", "th, td")]


def press(driver, *keys):
    driver.switch_to.active_element.send_keys(*keys)


def wait_until(driver, is_so):
    from selenium.webdriver.support.wait import WebDriverWait

    WebDriverWait(driver, 10, poll_frequency=0.05).until(lambda _: is_so())


def picture(driver):
    return driver.execute_script("return document.getElementById('edges').toDataURL()")


@needs_browser
@pytest.mark.parametrize(
    ("width", "scheme"), [(1300, "light"), (400, "dark")], ids=["wide", "phone"]
)
def test_the_page_in_a_browser(odd_page, odd, tmp_path, width, scheme):
    with open_page(odd_page, tmp_path, width, scheme) as driver:
        assert driver.title == "Matchings of graph mon</title>day"
        check_by_hand(driver)
        assert violations(driver) == []
        canvas = driver.find_element("id", "edges")
        assert canvas.size["width"] >= 80
        assert canvas.size["height"] > 100
        # The least certain pair is selected.
        edge = int(np.argmin(np.abs(odd.chances - 0.5)))
        structure = odd.structure
        name = f"{ODD[structure.left[edge]]} – b{structure.right[edge]}"
        assert " ".join(name.split()) in text_of(driver, "status")
        assert f"probability {percent(odd.chances[edge])}" in text_of(driver, "status")
        pressed = driver.find_elements("css selector", ".sides [aria-pressed=true]")
        assert len(pressed) == 2
        # Every node has its name, whole, and the probability of having no partner.
        nodes = driver.find_elements("css selector", "#left-nodes button")
        assert len(nodes) == 6
        for node in nodes:
            k = int(node.get_attribute("data-node"))
            words = node.text.replace("\xa0", " ")
            assert "".join(ODD[k].split()) in "".join(words.split())
            assert f"no partner {percent(odd.alone_left[k])}" in " ".join(words.split())
        first = cells(driver, "pair-table", 0)
        best = int(odd.chances.argmax())
        assert first[1] == percent(odd.chances[best])
        chances = [cells(driver, "best-table", k)[1] for k in range(10)]
        found = alternatives.find_alternatives(odd, [0])[0]
        assert chances == [percent(p) for p in np.exp(found.log_probs)]
        assert sticks_out(driver) <= 0
        style = "getComputedStyle(document.body)"
        paper = driver.execute_script(f"return {style}.backgroundColor")
        assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
        assert driver.get_log("browser") == []


# Bars begin in the middle of their cell, to the right if the feature speaks for the pair.
BARS = """
  return [...document.querySelectorAll("#details .bar")].map((bar) => {
    const [own, cell] = [bar, bar.closest("td")].map((e) => e.getBoundingClientRect());
    const middle = (cell.left + cell.right) / 2;
    return (bar.classList.contains("up") ? own.left : own.right) - middle;
  }).filter((away) => Math.abs(away) > 1.5);
"""
CUT = """
  const cut = [];
  for (const e of document.querySelectorAll("main *")) {
    const style = getComputedStyle(e);
    const hides = style.overflowX === "hidden" || style.overflowX === "clip"
      || style.textOverflow === "ellipsis";
    if (hides && e.scrollWidth > e.clientWidth + 1) cut.push(e.outerHTML.slice(0, 80));
    if (e.matches("th, td, button, p, h1, h2, h3, figcaption, small")) {
      let box = e.parentElement;
      while (box && getComputedStyle(box).overflowX === "visible") box = box.parentElement;
      const right = e.getBoundingClientRect().right;
      if (!box && right > innerWidth + 1) cut.push(e.outerHTML.slice(0, 80));
    }
  }
  return cut;
"""
SCROLLS = """
  return [...document.querySelectorAll(".scroll, .tall")].filter((e) => e.clientWidth)
    .map((e) => [e.scrollWidth - e.clientWidth, getComputedStyle(e).overflowX,
                 e.tabIndex, getComputedStyle(e).backgroundImage.split("gradient").length]);
"""


@needs_browser
def test_nothing_is_cut_off_and_tables_scroll_at_400_pixels(sparse_page, tmp_path):
    with open_page(sparse_page, tmp_path, 400) as driver:
        assert driver.execute_script(CUT) == []
        found = driver.execute_script(SCROLLS)
        assert any(more > 0 for more, *_ in found)  # some table is too wide
        for _, overflow, stop, shadows in found:
            assert overflow == "auto"
            assert stop == 0  # the keyboard can scroll it
            assert shadows == 7  # six gradients
        assert sticks_out(driver) <= 0


@needs_browser
def test_components_open_by_keyboard_and_pointer(sparse_page, sparse, tmp_path):
    from selenium.webdriver.common.keys import Keys

    shown = choose_shown(sparse)
    with open_page(sparse_page, tmp_path, 1300) as driver:

        def is_open(rank):
            c = shown.components[rank]
            own = np.flatnonzero(sparse.component_of_edge == c)
            edge = own[np.argmax(np.minimum(sparse.chances, 1 - sparse.chances)[own])]
            s = sparse.structure
            name = f"{sparse.left[s.left[edge]]} – {sparse.right[s.right[edge]]}"
            assert text_of(driver, "open-title") == f"Component of {name}"
            assert f"of graph {sparse.graphs[c]}, {len(own)} pairs" in text_of(
                driver, "open-words"
            )
            assert name in text_of(driver, "status")
            assert len(driver.find_elements("css selector", "#pair-table tbody tr")) == len(
                own
            )
            current = driver.find_elements("css selector", "[aria-current=true]")
            assert [b.get_attribute("data-component") for b in current] == [str(rank)]

        is_open(0)
        driver.find_element("css selector", "#component-table [data-component='2']").click()
        is_open(2)
        before = picture(driver)
        press(driver, Keys.ARROW_DOWN)
        is_open(3)
        assert picture(driver) != before
        press(driver, Keys.END)
        is_open(10)
        press(driver, Keys.HOME)
        is_open(0)
        assert violations(driver) == []
        assert driver.get_log("browser") == []


@needs_browser
def test_pairs_nodes_and_matchings_are_described(sparse_page, sparse, tmp_path):
    from selenium.webdriver.common.keys import Keys

    first = choose_shown(sparse).components[0]
    own = np.flatnonzero(sparse.component_of_edge == first)
    with open_page(sparse_page, tmp_path, 1300) as driver:
        # A pair, by the keyboard: what each feature adds; nothing adds no bar.
        button = driver.find_element("css selector", "#pair-table button")
        driver.execute_script("arguments[0].focus()", button)
        order = own[np.argsort(-sparse.chances[own], kind="stable")]
        seen_zero = False
        for edge in order:
            for row in driver.find_elements("css selector", "#details tbody tr"):
                name, value, _, adds = (
                    cell.text.replace("−", "-")
                    for cell in row.find_elements("css selector", "th, td")[:4]
                )
                k = NAMES.index(name)
                true = sparse.evidence.values[edge, k]
                assert float(value) == pytest.approx(true, rel=1e-2)
                assert float(adds) == pytest.approx(true * COEF[k], rel=1e-2)
                assert len(row.find_elements("css selector", ".bar")) == 1
                assert true != 0.0
            n_zero = int((sparse.evidence.values[edge] == 0.0).sum())
            folded = driver.find_elements("css selector", "#details .idle summary")
            assert len(folded) == (n_zero > 0)
            if n_zero:
                assert folded[0].text.startswith(f"{n_zero} feature")
                seen_zero = True
            assert "Score of having no partner: " in text_of(driver, "details")
            press(driver, Keys.ARROW_DOWN)
        assert seen_zero
        assert driver.execute_script(BARS) == []
        # A node, and from it to the other side.
        driver.find_element("css selector", "#left-nodes button").click()
        node = int(driver.switch_to.active_element.get_attribute("data-node"))
        name = data_in(sparse_page.read_text(encoding="utf-8"))["left"][node]
        assert text_of(driver, "status").startswith(f"{name} (left node): no partner with")
        press(driver, Keys.ARROW_RIGHT)
        assert "(right node): no partner with probability" in text_of(driver, "status")
        assert driver.switch_to.active_element.get_attribute("data-side") == "1"
        # A matching.
        before = picture(driver)
        driver.find_elements("css selector", "#best-table button")[1].click()
        assert text_of(driver, "status").startswith("Alternative 2 has ")
        assert picture(driver) != before
        assert driver.get_log("browser") == []


@needs_browser
def test_a_node_is_found_by_its_name(sparse_page, tmp_path):
    from selenium.webdriver.common.keys import Keys

    with open_page(sparse_page, tmp_path, 1300) as driver:
        box = driver.find_element("id", "find")
        box.send_keys("A38")
        wait_until(driver, lambda: text_of(driver, "found") != "")
        assert text_of(driver, "found") == "1 node in 1 component of this page"
        assert len(driver.find_elements("css selector", "#component-table tbody tr")) == 1
        box.send_keys(Keys.ENTER)
        assert text_of(driver, "status").startswith("a38 (left node)")
        box.clear()
        box.send_keys("zzz", Keys.ENTER)
        assert text_of(driver, "found") == "0 nodes in 0 components of this page"
        assert violations(driver) == []
        assert driver.get_log("browser") == []


@needs_browser
def test_a_large_component_is_drawn_around_what_is_selected(tmp_path):
    rng = np.random.default_rng(2)
    n = 80  # one long chain
    left = np.concatenate([np.arange(n), np.arange(n - 1)])
    right = np.concatenate([np.arange(n), np.arange(1, n)])
    graph = BipartiteGraph.from_edges(left, right, rng.normal(size=(len(left), 3)), n, n)
    view = model_view(fitted(-0.2), table_of([graph]))
    path = tmp_path / "chain.html"
    match_page(view).write(path)
    with open_page(path, tmp_path, 1300) as driver:

        def drawn():
            nodes = driver.find_elements("css selector", ".sides button bdi")
            return {node.text for node in nodes}

        assert 2 < len(drawn()) <= 24
        words = text_of(driver, "drawn")
        assert re.search(r"The \d+ nodes nearest to what is selected, of 160\.", words)
        box = driver.find_element("id", "find")
        box.send_keys("b79", "\ue007")
        assert "b79" in drawn()
        assert "a79" in drawn()
        far = driver.find_elements("css selector", "#left-nodes button")[0]
        far.click()
        assert driver.switch_to.active_element.get_attribute("aria-pressed") == "true"
        rows = driver.find_elements("css selector", "#pair-table tbody tr")
        assert len(rows) == 100
        driver.find_element("id", "more-pairs").click()
        rows = driver.find_elements("css selector", "#pair-table tbody tr")
        assert len(rows) == len(left)
        assert not driver.find_element("id", "more-pairs").is_displayed()
        assert driver.get_log("browser") == []


@needs_browser
def test_printed_it_is_black_on_white(odd_page, tmp_path):
    with open_page(odd_page, tmp_path, scheme="dark") as driver:
        dark = picture(driver)
        driver.execute_script("dispatchEvent(new Event('beforeprint'))")
        assert picture(driver) != dark
        driver.execute_script("dispatchEvent(new Event('afterprint'))")
        assert picture(driver) == dark
        pdf = base64.b64decode(driver.execute_cdp_cmd("Page.printToPDF", {})["data"])
        assert pdf.startswith(b"%PDF")


@needs_browser
def test_names_of_features_break_after_underscores_only(sparse, tmp_path):
    names = ["street_is_the_same", "a" * 40, "noise"]
    path = tmp_path / "names.html"
    match_page(replace(sparse, evidence=replace(sparse.evidence, names=names))).write(path)
    with open_page(path, tmp_path, 1200) as driver:
        heads = driver.find_elements("css selector", "#details tbody th")
        breaks = {
            head.text: (
                len(head.find_elements("css selector", "wbr")),
                head.value_of_css_property("overflow-wrap"),
            )
            for head in heads
        }
        assert breaks["street_is_the_same"] == (3, "normal")
        assert breaks["a" * 40] == (0, "anywhere")
