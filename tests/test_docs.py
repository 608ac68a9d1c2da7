"""The documentation: complete, links lead somewhere, pages show what their code prints."""

import importlib
import json
import re
from pathlib import Path

import pytest
import typer

import permatch as pm
from permatch.inference import ENGINES
from tests.helpers import DOCS, MEASURED, extension

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    path
    for pattern in ("*.md", "*.rst")
    for path in DOCS.rglob(pattern)
    if not {"_build", "_templates", "generated"} & set(path.parts)
)
MARKDOWN = [path for path in PAGES if path.suffix == ".md"]
#: What shows what its code prints, read where it lies.
SHOWN = [ROOT / "README.md", *MARKDOWN]
ROOMS = (
    "inference", "decoding", "linking", "estimators", "boosting", "datasets", "features",
    "metrics", "pages", "plots", "tracking",
)  # fmt: skip


extension("page_code")  # which page_text imports
page_text = extension("page_text")
benchmark_page = extension("benchmark_page")
TYPER = extension("command_page").TYPER
self_contained = extension("self_contained")
reachable = extension("reachable")


def name_of(path):
    return path.relative_to(DOCS if DOCS in path.parents else ROOT).as_posix()


# ---- the reference


def listed(room):
    """Return the names described on a page of the reference, and those only mentioned."""
    text = (DOCS / "api" / f"{room}.rst").read_text(encoding="utf-8")
    tables = re.findall(r"^\.\. autosummary::\n(?:   :.*\n)*\n((?:   \w+\n)+)", text, re.M)
    described = set(" ".join(tables).split()) | set(re.findall(r"py:data:: (\w+)", text))
    _, _, also = text.partition("Also available here, documented in")
    return described, set(re.findall(r"(?<!:)`(\w+)`", also))


def test_every_public_name_is_described():
    described, _ = listed("permatch")
    assert described | {"errors"} == set(pm.__all__)


@pytest.mark.parametrize("room", ROOMS)
def test_every_name_of_a_room_is_described_once(room):
    names = set(importlib.import_module(f"permatch.{room}").__all__)
    described, mentioned = listed(room)
    assert described | mentioned == names
    assert mentioned == names & set(pm.__all__)
    assert not described & mentioned


def test_every_name_of_nn_is_described():
    pytest.importorskip("torch", reason="PyTorch is not installed (extra 'torch')")
    described, _ = listed("nn")
    assert described == set(pm.nn.__all__)


@pytest.mark.parametrize("room", [*ROOMS, "nn"])
def test_every_room_is_in_the_table_of_the_reference(room):
    assert f"]({room}.rst)" in (DOCS / "api" / "index.md").read_text(encoding="utf-8")


def test_decision_pages_speak_of_everything_there_is_to_choose():
    engines = (DOCS / "choosing" / "engine.md").read_text(encoding="utf-8")
    assert [name for name in ENGINES if f"`{name}`" not in engines] == []
    estimators = (DOCS / "choosing" / "estimator.md").read_text(encoding="utf-8")
    rooms = pm.estimators.__all__, pm.boosting.__all__
    learners = set(pm.__all__) & set().union(*rooms)
    learners -= {"QueryScaler", "load"}
    assert [name for name in learners if f"`pm.{name}`" not in estimators] == []


# ---- links


def test_every_page_is_in_a_table_of_contents():
    found = {"index.md"}
    for path in MARKDOWN:
        text = path.read_text(encoding="utf-8")
        for block in re.findall(r"^```\{toctree\}\n(.*?)^```", text, re.M | re.S):
            for entry in (line for line in block.split() if not line.startswith(":")):
                (page,) = (
                    path.parent.joinpath(entry).resolve().with_suffix(suffix)
                    for suffix in (".md", ".rst")
                    if path.parent.joinpath(entry).resolve().with_suffix(suffix).is_file()
                )
                found.add(name_of(page))
    assert found == {name_of(path) for path in PAGES}


@pytest.mark.parametrize("path", MARKDOWN, ids=name_of)
def test_links_lead_to_files(path):
    text = path.read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#\s]+)", text)
    for target in targets:
        assert target.startswith("http") or (path.parent / target).is_file(), target


@pytest.mark.parametrize("path", MARKDOWN, ids=name_of)
def test_names_in_the_text_exist(path):
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    for name in re.findall(r"(?<!`)`pm\.([\w.]*\w)[(`]", text):
        found = pm
        for part in name.split("."):
            found = getattr(found, part)


@pytest.mark.parametrize("path", MARKDOWN, ids=name_of)
def test_pages_can_be_read_without_the_site(path):
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"^<!-- (?:site|run).*?^-->$", "", text, flags=re.M | re.S)
    assert re.findall(r"^(?:```|:::)\{.*|\{[\w:]+\}`", text, re.M) == []


def test_nothing_is_fetched_from_outside(tmp_path):
    (tmp_path / "page.html").write_text(
        '<a href="https://example.org">a link is fine</a>'
        '<script src="_static/own.js"></script><script src="https://cdn.example/x.js">'
    )
    (tmp_path / "style.css").write_text('@import url("//fonts.example/f.css");')
    found = self_contained.outside_requests(tmp_path)
    assert [line.split(":")[0] for line in found] == ["page.html", "style.css"]


def test_what_scrolls_can_be_reached_by_keyboard():
    page = '<aside class="sidebar-drawer"><h1>a</h1><pre>x</pre><div class="math">y</div>'
    once = reachable.reachable(page)
    assert once.count('tabindex="0"') == 2
    assert 'aria-label="Site"' in once
    assert reachable.reachable(once) == once


# ---- numbers


@pytest.mark.parametrize("path", SHOWN, ids=name_of)
def test_prose_states_no_number_that_could_drift(path):
    prose = page_text.without_code(path.read_text(encoding="utf-8"))
    prose = re.sub(r"Python 3\.\d+( to 3\.\d+)?", "", prose)
    assert MEASURED.findall(prose) == [], "compute it: 1.23<!-- =expression -->"


def test_the_check_of_prose_sees_numbers():
    prose = page_text.without_code(
        "It takes 3 s, `0.5` of 4.5<!-- =x -->, -1 %<!-- =y -->, not $1.5$ or 12 %.\n"
        "<!-- run\n0.1\n-->\n2.5\n<!-- end -->\n"
    )
    assert MEASURED.findall(prose) == ["3 s", "12 %"]


def test_citation_file_and_page_name_the_same_paper():
    file = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    page = (DOCS / "citing.md").read_text(encoding="utf-8")
    assert "cff-version: 1.2.0" in file
    for fact in (
        "Exponential Family Graph Matching and Ranking",
        "arXiv:0904.2623",
        "2009",
    ):
        assert fact in file
        assert fact in page
    assert "license: BSD-3-Clause" in file


def test_the_version_is_the_same_everywhere():
    version = pm.__version__
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    notes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(
        rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", notes, re.MULTILINE
    )


# ---- code


@pytest.mark.slow
@pytest.mark.parametrize("path", SHOWN, ids=name_of)
def test_a_page_shows_what_its_code_prints(path):
    pytest.importorskip("skimage")
    pytest.importorskip("matplotlib")
    for name in ("stonesoup", "splink"):
        if path.stem.endswith(name):
            pytest.importorskip(name)
    if path.stem == "neural_matching":
        pytest.importorskip("torch", reason="PyTorch is not installed (extra 'torch')")
    if path.stem == "commands" and not typer.__version__.startswith(f"{TYPER}."):
        pytest.skip(f"the page of commands is made with typer {TYPER}")
    changes = page_text.differences(path)
    advice = f"make docs-refresh PAGES={path.relative_to(ROOT).as_posix()}"
    assert not changes, "\n".join([advice, *changes])


# ---- the benchmark page


def test_benchmark_page_without_figures_says_how_to_get_them(tmp_path):
    page = benchmark_page.page(tmp_path / "results.json")
    assert "make bench" in page
    assert not MEASURED.findall(page)


def test_benchmark_page_shows_date_machine_and_every_row(tmp_path):
    row = {
        "what": "m = 20", "rival": "other", "ours": "4 ms", "theirs": "9 ms",
        "figure": 0.4321, "unit": "of rival", "target": 0.4, "is_lower_better": True,
        "accuracy": "1e-15", "spread": "1.1 / 1.2", "note": "a note", "is_met": False,
    }  # fmt: skip
    free = row | {"what": "m = 24", "target": None, "is_met": None, "note": ""}
    free |= {"figure": 12345.6, "unit": "times faster"}
    content = {
        "date": "2009-07-15",
        "machine": "x86_64, 2 x something",
        "python": "3.11.7",
        "reports": [{"title": "One graph", "rows": [row, free]}],
    }
    results = tmp_path / "results.json"
    results.write_text(json.dumps(content))
    page = benchmark_page.page(results)
    for fact in (
        "2009-07-15", "2 x something", "## One graph", "| m = 20 | 4 ms | other | 9 ms |",
        "0.432 of rival", "≤ 0.4, **not met**", "0 of 1 targets met", "- m = 20: a note",
        "| m = 24 |", "12,346 times faster",
    ):  # fmt: skip
        assert fact in page


def test_benchmark_page_names_every_benchmark():
    names = importlib.import_module("benchmarks.__main__").NAMES
    text = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", text, re.M) == list(names)


def test_benchmark_rows_have_the_fields_the_page_reads():
    fields = set(importlib.import_module("benchmarks.harness").Row.__dataclass_fields__)
    assert fields >= {"what", "rival", "ours", "theirs", "figure", "unit", "target", "note"}
