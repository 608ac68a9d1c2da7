"""README and CONTRIBUTING: links lead somewhere, examples are made by their script."""

import doctest
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name, language):
    """Return what stands in the fenced blocks of a language."""
    pattern = rf"^```{language}\n(.*?)^```$"
    return re.findall(pattern, text_of(name), re.MULTILINE | re.DOTALL)


def test_python_prints_what_is_shown():
    source = "\n".join(blocks("CONTRIBUTING.md", "python"))
    test = doctest.DocTestParser().get_doctest(source, {}, "CONTRIBUTING.md", None, 0)
    report: list[str] = []
    result = doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.append)
    assert result.failed == 0, "".join(report)


def test_the_front_page_tells_three_stories_with_numbers_and_a_picture():
    text = text_of("README.md")
    stories = re.split(r"^## ", text, flags=re.MULTILINE)[1:4]
    for story, words in zip(stories, ("Link", "Track", "Rank"), strict=True):
        assert story.startswith(words)
        assert re.search(r"^```(python|console)$", story, re.MULTILINE)
        assert len(re.findall(r"^\| .*<!-- =.* -->", story, re.MULTILINE)) >= 3
    (picture,) = re.findall(r"!\[[^]]+\]\(([^)]+)\)", text)
    assert (ROOT / picture).is_file()


def test_links_lead_to_files():
    for name in ("README.md", "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#\s]+)", text_of(name)):
            assert target.startswith("http") or (ROOT / target).is_file(), target


def test_the_examples_are_what_their_script_writes(tmp_path):
    script = tmp_path / "make.py"
    script.write_bytes((ROOT / "examples" / "make.py").read_bytes())
    subprocess.run([sys.executable, str(script)], check=True)
    for path in sorted((ROOT / "examples").glob("*.[ct][sx][vt]")):
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()
