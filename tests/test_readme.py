"""Every Python block of the README and of CONTRIBUTING runs, and prints what it shows."""

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_examples_print_what_they_show(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    source = "\n".join(block.group(1) for block in BLOCK.finditer(text))
    test = doctest.DocTestParser().get_doctest(source, {}, name, name, 0)
    report: list[str] = []
    result = doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.append)
    assert result.failed == 0, "".join(report)


def test_readme_has_the_promised_examples():
    blocks = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(blocks) >= 3
    assert all(">>>" in block for block in blocks)


def test_engine_table_lists_every_engine():
    from permatch.inference import ENGINES

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    table = text.partition("## Engines")[2].partition("##")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(ENGINES)
