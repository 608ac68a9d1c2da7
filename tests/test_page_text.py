"""Pages show what their code prints: how it is found, run, compared and rewritten."""

from pathlib import Path

import pytest

from tests.helpers import extension

page_code = extension("page_code")
page_text = extension("page_text")


@pytest.fixture
def refresh(tmp_path):
    """Return a function that refreshes a text as a page."""

    def as_page(text):
        path = tmp_path / "page.md"
        path.write_text(text, encoding="utf-8")
        return page_text.refreshed(path)

    return as_page


STALE = """\
<!-- run
x = 2
-->

```python
print("a", x)
x
```

It is 7<!-- =x --> and 7.00 %<!-- =100 / 3 -->, or 0<!-- ="1e-4" -->.

<!-- run exactly
print("| a |\\n|---|\\n| 1 |")
-->

```console
$ echo one \\
    two
$ echo three > file.txt
$ cat file.txt
two
```

<!-- not run -->
```python
1 / 0
```
"""
FRESH = """\
<!-- run
x = 2
-->

```python
print("a", x)
x
```

```text
a 2
2
```

It is 2<!-- =x --> and 33.33 %<!-- =100 / 3 -->, or 1e-4<!-- ="1e-4" -->.

<!-- run exactly
print("| a |\\n|---|\\n| 1 |")
-->

| a |
|---|
| 1 |

<!-- end -->

```console
$ echo one \\
    two
one two
$ echo three > file.txt
$ cat file.txt
three
```

<!-- not run -->
```python
1 / 0
```
"""


def test_outputs_are_written_where_they_belong(refresh):
    assert refresh(STALE) == (FRESH, {})
    assert refresh(FRESH) == (FRESH, {})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a 2\n2\n", "a 3\n2\n"),
        ("---|\n| 1 |", "---|\n| 1.0 |"),  # exactly
        ("\n| 1 |\n", "\n"),
        ("three\n```", "```"),
        ("```text\na 2\n2\n```\n\n", ""),
    ],
)
def test_a_drift_is_seen(refresh, before, after):
    assert FRESH.count(before) == 1
    assert refresh(FRESH.replace(before, after)) == (FRESH, {})


def test_a_refresh_keeps_no_number_that_changed(refresh, tmp_path):
    page = "```python\nprint(1000, '2 s', 'a' + ' b')\n```\n\n```text\n{}\n```\n"
    fresh = page.format("1000 2 s a b")
    for near in ("1001 2 s a b", "1000 2 s a  b"):
        assert refresh(page.format(near)) == (page.format(near), {})
        assert page_text.refreshed(tmp_path / "page.md", 0.0) == (fresh, {})
    for same in ("1000 3 s a b", "1000 ... b"):
        refresh(page.format(same))
        assert page_text.refreshed(tmp_path / "page.md", 0.0) == (page.format(same), {})


def test_output_without_its_cause_is_removed(refresh):
    assert refresh("```python\nx = 1\n```\n\n```text\n1\n```\n") == (
        "```python\nx = 1\n```\n",
        {},
    )


def test_figures_are_compared_by_what_they_show(refresh, tmp_path):
    plt = pytest.importorskip("matplotlib.pyplot")
    code = (
        "from matplotlib import pyplot\n_ = pyplot.figure(figsize=(2, 1)).text(0, 0, {!r})"
    )
    page = f"```python\n{code}\n```\n\n![words](words.png)\n"
    text, pictures = refresh(page.format("a"))
    assert text == page.format("a")
    assert list(pictures) == [tmp_path / "words.png"]
    (tmp_path / "words.png").write_bytes(pictures[tmp_path / "words.png"])
    assert refresh(page.format("a"))[1] == {}
    assert refresh(page.format("█████████████"))[1] != {}
    with pytest.raises(page_text.PageCodeError, match="draws 1 figures"):
        refresh(f"```python\n{code}\n```\n".format("a"))
    plt.close("all")


@pytest.mark.parametrize(
    ("wanted", "got", "is_alike"),
    [
        ("links  12", "links 12", True),
        ("links 12", "links 13", False),
        ("links 1200", "links 1201", True),
        ("0.978 of", "0.979 of", True),
        ("0.978 of", "0.998 of", False),
        ("took 0.3 s", "took 12 s", True),
        ("took 0.3 s", "took 0.3 kg", False),
        ("error 3e-15", "error 0e+00", True),
        ("error 3e-3", "error 4e-3", False),
        ("a\n...\nz", "a\nb 1\nc 2\nz", True),
        ("a\n...\nz", "a\nb", False),
        ("...", "", True),
        ("a1, b2", "a1, b3", False),
        ("-1.5", "1.5", False),
        ("[0. 1.]", "[0. 1.]", True),
        ("1,000", "1,010", True),
        ("", "a", False),
        ("a", "", False),
    ],
)
def test_outputs_are_alike_if_words_agree_and_numbers_nearly(wanted, got, is_alike):
    assert page_text.is_alike(wanted, got) == is_alike


def test_a_page_keeps_its_names_and_its_folder():
    before = Path.cwd()
    with page_code.PageCode("page") as page:
        assert page.run("x = 3\nprint('a')\nx").text == "a\n3\n"
        page.run("import pathlib\n_ = pathlib.Path('file.txt').write_text('seen')")
        assert page.shell("cat file.txt") == "seen\n"
        assert page.evaluate("x + 1") == 4
        assert page.shell("permatch --version").startswith("permatch")
        assert Path.cwd() == before
    assert not page.folder.exists()


def test_a_step_that_fails_is_shown():
    with page_code.PageCode("a page") as page:
        with pytest.raises(
            page_code.PageCodeError, match=r"(?s)a page.*1 / 0.*ZeroDivisionError"
        ):
            page.run("1 / 0")
        with pytest.raises(page_code.PageCodeError, match=r"`false` failed with status 1"):
            page.shell("false")
        with pytest.raises(page_code.PageCodeError, match=r"failed with status 2"):
            page.shell("permatch --no-such-option")
        with pytest.raises(page_code.PageCodeError, match="UserWarning"):
            page.run("import warnings\nwarnings.warn('no')")


def test_pages_that_differ_are_told_and_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(page_text, "ROOT", tmp_path)
    stale, fresh = tmp_path / "stale.md", tmp_path / "fresh.md"
    stale.write_text(STALE, encoding="utf-8")
    fresh.write_text(FRESH, encoding="utf-8")
    told = []
    assert page_text.check([str(stale), str(fresh)], told.append) == 1
    assert told[0].startswith("stale.md: differs\n--- ")
    assert told[1] == "fresh.md: ok"
    assert stale.read_text(encoding="utf-8") == STALE
