"""Pages that show what their code prints: find the code, run it, compare, refresh.

A page is plain Markdown, readable where it lies.  In it, these are run in order:

    ```python                what it prints stands in a ```text block right after it, the
                             figures it draws in the files of the images after that
    ```console               commands after `$ `, each with what it prints
    <!-- run CODE -->        Python that is not shown; what it prints is Markdown and stands
                             between the comment and <!-- end -->; after "run exactly" it
                             has to be the same to the letter
    8.9 %<!-- =CODE -->      a number in the text, with the expression that it is

All other blocks are left alone, and so is one after the line ``<!-- not run -->``.

What stands in a page is as good as what its code prints if the words are the same, and the
numbers nearly: see `is_alike`.  The tests ask for that; ``python docs/_ext/page_text.py
[PAGE ...]`` rewrites all that is not the same, times excepted, and ``make docs-refresh``
does so for all pages; with ``--check`` in front of the pages it only tells what is not.
"""

import difflib
import io
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [] if str(HERE) in sys.path else [str(HERE)]

from page_code import ROOT, PageCode, PageCodeError  # noqa: E402

DOCS = ROOT / "docs"
#: Numbers may differ by this share: processors round differently, samplers then draw
#: differently.
TOLERANCE = 0.02
#: Numbers below this are what rounding or a converged fit left, and as good as each other.
ROUNDING = 1e-5

_STEP = re.compile(
    r"^<!-- run(?P<exactly> exactly)?\n(?P<hidden>.*?)^-->\n"
    r"(?:(?P<told>(?:(?!^<!-- run\b).)*?)^<!-- end -->\n)?"
    r"|(?P<not_run>^<!-- not run -->\n)?"
    r"^(?P<ticks>`{3,})(?P<language>[^\n]*)\n(?P<body>.*?)^(?P=ticks)[ ]*\n"
    r"(?P<after>(?:\n```text\n(?P<output>.*?)^```\n)?"
    r"(?P<images>(?:\n!\[[^\]]*\]\([^)\s]+\.png\)\n)*))"
    r"|(?P<shown>-?\w[\w.,+-]*)(?P<percent> ?%)?<!-- =(?P<expression>.+?) -->",
    re.MULTILINE | re.DOTALL,
)
_COMMAND = re.compile(
    r"^\$ (?P<command>(?:.*\\\n)*.*)\n(?P<output>(?:(?!\$ ).*\n)*)", re.MULTILINE
)
_IMAGE = re.compile(r"\]\(([^)\s]+)\)")
_TIME = r"(?<![\w.])\d[\d.]*\s?(?:[mµn]?s|seconds?|min|minutes?)\b"
#: A time, which nobody compares, a number, or something else.
_PART = re.compile(
    rf"(?P<time>{_TIME})"
    r"|(?P<number>(?<![\w.])[-+]?\d+(?:,\d{3})*(?:\.\d*)?(?:e[-+]?\d+)?(?!\w))"
    r"|(?P<word>\.\.\.|[^\W\d]\w*|\S)",
)


def refreshed(path: Path, tolerance: float = TOLERANCE) -> tuple[str, dict[Path, bytes]]:
    """Return a page's text with what its code prints now, and the pictures that changed.

    What is as good as before is kept as it stands.

    Parameters
    ----------
    path : Path
        The page.
    tolerance : float
        Share by which numbers may differ, and pictures in the mean over their pixels, white
        being 1.  At 0, only times and what ``...`` stands for may.
    """
    text = path.read_text(encoding="utf-8")
    pictures: dict[Path, bytes] = {}
    with PageCode(path.name) as page:
        for_match = _Refresher(page, path.parent, pictures, tolerance)
        return _STEP.sub(for_match, text), pictures


class _Refresher:
    """Rewrites one step after another."""

    def __init__(
        self,
        page: PageCode,
        folder: Path,
        pictures: dict[Path, bytes],
        tolerance: float,
    ) -> None:
        self.page, self.folder, self.pictures = page, folder, pictures
        self.tolerance = tolerance

    def _is_kept(self, shown: str, told: str) -> bool:
        """Tell whether a page may go on showing what it shows."""
        if self.tolerance or "..." in shown:
            return is_alike(shown, told, self.tolerance)
        return _without_times(shown) == _without_times(told)

    def __call__(self, match: re.Match[str]) -> str:
        if match["expression"]:
            return self._number(match)
        if match["hidden"] is not None:
            return self._hidden(match)
        if match["not_run"] is None and match["language"] == "python":
            return self._python(match)
        if match["not_run"] is None and match["language"] == "console":
            return self._console(match)
        return match[0]

    def _number(self, match: re.Match[str]) -> str:
        value = self.page.evaluate(match["expression"])
        shown = number_as_shown(value, match["shown"], self.tolerance)
        if shown == match["shown"]:
            return match[0]
        return f"{shown}{match['percent'] or ''}<!-- ={match['expression']} -->"

    def _hidden(self, match: re.Match[str]) -> str:
        told = self.page.run(match["hidden"]).text
        end = f"\n{told.strip()}\n\n<!-- end -->\n" if told else ""
        if not match["exactly"] and self._is_kept(match["told"] or "", told):
            return match[0]
        return f"<!-- run{match['exactly'] or ''}\n{match['hidden']}-->\n{end}"

    def _python(self, match: re.Match[str]) -> str:
        outcome = self.page.run(match["body"])
        names = _IMAGE.findall(match["images"])
        if len(names) != len(outcome.figures):
            raise PageCodeError(
                f"{self.page.name}: this step draws {len(outcome.figures)} figures and is "
                f"followed by {len(names)} images; write ![what it shows](NAME.png) for "
                f"each after it:\n\n{match['body']}"
            )
        for name, figure in zip(names, outcome.figures, strict=True):
            if not is_same_picture(self.folder / name, figure, self.tolerance):
                self.pictures[self.folder / name] = figure
        if self._is_kept(match["output"] or "", outcome.text):
            return match[0]
        block = f"\n```text\n{outcome.text}```\n" if outcome.text else ""
        code = match[0][: len(match[0]) - len(match["after"])]
        return code + block + match["images"]

    def _console(self, match: re.Match[str]) -> str:
        def with_output(step: re.Match[str]) -> str:
            told = self.page.shell(step["command"])
            if self._is_kept(step["output"], told):
                return step[0]
            return f"$ {step['command']}\n{told}"

        ticks = match["ticks"]
        body = _COMMAND.sub(with_output, match["body"])
        return f"{ticks}console\n{body}{ticks}\n{match['after']}"


def number_as_shown(value: Any, shown: str, tolerance: float = TOLERANCE) -> str:
    """Return a value with as many digits as are shown, or what is shown if near."""
    if isinstance(value, str):
        return value
    digits = len(shown.partition(".")[2])
    written = f"{float(value):{',' if ',' in shown else ''}.{digits}f}"
    return shown if _is_near(shown, written, tolerance) else written


def is_alike(wanted: str, got: str, tolerance: float = TOLERANCE) -> bool:
    """Tell whether a page says what was printed.

    Words have to be the same and numbers near each other; times and the width of blanks may
    differ.  ``...`` stands for anything.
    """
    return _is_match([*_PART.finditer(wanted)], [*_PART.finditer(got)], tolerance)


def _is_match(
    wanted: list[re.Match[str]], got: list[re.Match[str]], tolerance: float
) -> bool:
    """Match parts against parts, where ``...`` takes as few as it can."""
    i = k = 0
    after_dots = taken = None
    while k < len(got):
        if i < len(wanted) and _is_part_alike(wanted[i], got[k], tolerance):
            i, k = i + 1, k + 1
        elif i < len(wanted) and wanted[i][0] == "...":
            i += 1
            after_dots, taken = i, k
        elif after_dots is not None and taken is not None:
            taken += 1
            i, k = after_dots, taken
        else:
            return False
    return all(part[0] == "..." for part in wanted[i:])


def _is_part_alike(one: re.Match[str], other: re.Match[str], tolerance: float) -> bool:
    if one.lastgroup != other.lastgroup:
        return False
    if one.lastgroup == "number":
        return _is_near(one[0], other[0], tolerance)
    return one.lastgroup == "time" or one[0] == other[0]


def _is_near(one: str, other: str, tolerance: float) -> bool:
    """Compare numbers: by share, to the last digit, or both nothing but rounding."""
    if one == other or not tolerance:
        return one == other
    try:
        a, b = (float(text.replace(",", "")) for text in (one, other))
    except ValueError:
        return False
    size = max(abs(a), abs(b))
    decimals = [len(text.partition(".")[2]) for text in (one, other)]
    last = 10.0 ** -min(decimals) if min(decimals) and "e" not in one + other else 0.0
    return size < ROUNDING or abs(a - b) <= max(tolerance * size, 1.001 * last)


def _without_times(text: str) -> str:
    """Return text with a mark for every time."""
    return re.sub(_TIME, "#", text.strip())


def is_same_picture(path: Path, png: bytes, tolerance: float = TOLERANCE) -> bool:
    """Tell whether a file shows what was drawn, give or take what fonts and lines do."""
    if not path.is_file():
        return False
    import numpy as np
    from matplotlib.image import imread

    old, new = (imread(source, format="png") for source in (path, io.BytesIO(png)))
    return old.shape == new.shape and float(np.abs(old - new).mean()) <= tolerance


def without_code(text: str) -> str:
    """Return the prose of a page: no code, formulas, addresses and sourced numbers."""
    for pattern in (
        r"^<!-- run\b.*?^-->\n(?:(?:(?!^<!-- run\b).)*?^<!-- end -->\n)?",
        r"^(`{3,}).*?^\1[ ]*$",
        r"\$\$.*?\$\$|\$[^$\n]+\$",
        r"-?\w[\w.,+-]*(?: ?%)?<!-- =.+? -->",
        r"(`+)(?!`).+?\1",
        r"\]\([^)]*\)|<[^>]*>",
    ):
        text = re.sub(pattern, "", text, flags=re.MULTILINE | re.DOTALL)
    return text


def pages() -> list[Path]:
    """Return the README and every page of the documentation."""
    left_out = {"_build", "generated"}
    inner = [p for p in sorted(DOCS.rglob("*.md")) if not left_out & set(p.parts)]
    return [ROOT / "README.md", *inner]


def differences(path: Path) -> list[str]:
    """Return how a page differs from what its code prints: lines of a diff, pictures."""
    text, pictures = refreshed(path)
    shown = path.read_text(encoding="utf-8")
    lines = difflib.unified_diff(shown.splitlines(), text.splitlines(), lineterm="")
    return [*lines, *(f"another picture: {picture.name}" for picture in pictures)]


def check(names: list[str], tell: Callable[[str], object] = print) -> int:
    """Tell how pages differ from what their code prints; return the number that do."""
    n_different = 0
    for path in [Path(name).resolve() for name in names] or pages():
        found = differences(path)
        n_different += bool(found)
        tell(
            "\n".join([f"{path.relative_to(ROOT)}: {'differs' if found else 'ok'}", *found])
        )
    return n_different


def main(names: list[str], tell: Callable[[str], object] = print) -> None:
    """Rewrite pages whose code prints something else than they show."""
    for path in [Path(name).resolve() for name in names] or pages():
        start = time.perf_counter()
        text, pictures = refreshed(path, tolerance=0.0)
        is_new = text != path.read_text(encoding="utf-8")
        if is_new:
            path.write_text(text, encoding="utf-8")
        for picture, png in pictures.items():
            picture.write_bytes(png)
        said = "rewritten" if is_new or pictures else "unchanged"
        tell(f"{path.relative_to(ROOT)}: {said}, {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--check"]:
        sys.exit(check(sys.argv[2:]) > 0)
    main(sys.argv[1:])
