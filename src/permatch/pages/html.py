"""One HTML file per page: style and pictures inside, light and dark, narrow and wide."""

import io
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from permatch._files import whole_file
from permatch._optional import require


class Markup(str):
    """Text that is HTML already, where other text would be escaped."""


@dataclass
class Page:
    """A page under construction: its title, one sentence under it, and its parts."""

    title: str
    lead: str = ""
    parts: list[str] = field(default_factory=list)

    def add_heading(self, text: str, *, level: int = 2) -> None:
        """Begin a new part, or with a larger `level` a part of a part."""
        self.parts.append(f"<h{level}>{escape(text)}</h{level}>")

    def add_text(self, text: str) -> None:
        """Add a paragraph of plain text."""
        self.parts.append(f"<p>{markup(text)}</p>")

    def add_code(self, text: str) -> None:
        """Add lines to be typed; the keyboard can reach them, to scroll long ones."""
        self.parts.append(f'<pre tabindex="0"><code>{escape(text)}</code></pre>')

    def add_html(self, html: str) -> None:
        """Add markup as it is, such as a `table`."""
        self.parts.append(html)

    def add_figure(
        self, svg: str, caption: str, alternative: str, *, is_narrow: bool = False
    ) -> None:
        """Add a picture with its caption and what it says to those who cannot see it."""
        kind = ' class="narrow"' if is_narrow else ""
        label = escape(alternative)
        # On narrow screens a wide picture scrolls, which takes the focus for keyboards.
        self.parts.append(
            f'<figure{kind}><div class="paper" role="img" tabindex="0" '
            f'aria-label="{label}">{svg}</div>'
            f"<figcaption>{escape(caption)}</figcaption></figure>"
        )

    def render(self) -> str:
        """Return the whole page."""
        return self._render()

    def _render(self, policy: str = "", style: str = "", scripts: str = "") -> str:
        lead = f'<p class="lead">{escape(self.lead)}</p>' if self.lead else ""
        return (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">{policy}'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            '<link rel="icon" href="data:,">'
            f"<title>{escape(self.title)}</title><style>{resource('style.css')}{style}"
            f"</style></head>\n<body><main><h1>{escape(self.title)}</h1>{lead}\n"
            + "\n".join(self.parts)
            + f"\n</main>{scripts}</body></html>\n"
        )

    def write(self, path: Path) -> None:
        """Write the page in one step: readers see the old file or the new one."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as file:
            file.write(self.render())


def markup(content: Any) -> Markup:
    """Return text or a number as HTML; what is HTML already stays as it is."""
    return content if isinstance(content, Markup) else Markup(escape(str(content)))


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[Any]],
    caption: str,
    ids: bool = False,
    *,
    is_text: bool = False,
) -> str:
    """Return a table; with `ids` every cell gets the id ``row-column`` from its labels.

    The keyboard can reach it, to scroll one that is wider than the page.  With `is_text`
    cells are set as sentences, not as numbers.
    """
    label = escape(caption)
    kind = ' class="text"' if is_text else ""
    lines = [
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">'
        f"<table{kind}><caption><span>{label}</span></caption><thead><tr>"
    ]
    lines += [f'<th scope="col">{escape(str(cell))}</th>' for cell in header]
    lines.append("</tr></thead><tbody>")
    for row in rows:
        lines.append(f'<tr><th scope="row">{markup(row[0])}</th>')
        for name, cell in zip(header[1:], row[1:], strict=True):
            mark = f' id="{_slug(row[0])}-{_slug(name)}"' if ids else ""
            lines.append(f"<td{mark}>{markup(cell)}</td>")
        lines.append("</tr>")
    lines.append("</tbody></table></div>")
    return "".join(lines)


@contextmanager
def drawing(width: float, height: float) -> Iterator[tuple[Any, Any]]:
    """Yield a matplotlib figure and its Axes, for `figure_svg`; closed at the end."""
    pyplot = require("matplotlib.pyplot", "plots", what="a page with pictures")
    with pyplot.rc_context({"svg.fonttype": "none", "svg.hashsalt": "permatch"}):
        figure, axes = pyplot.subplots(figsize=(width, height), layout="constrained")
        try:
            yield figure, axes
        finally:
            pyplot.close(figure)


def figure_svg(figure: Any) -> str:
    """Return a matplotlib figure as an SVG element to stand inside a page."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    # The page decides on the size; ids must not clash with those of the next picture.
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    mark = f"f{zlib.crc32(svg.encode()):08x}"
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{mark}-\1"', svg)
    return re.sub(r'(xlink:href="|url\()#', rf"\1#{mark}-", svg)


def _slug(text: Any) -> str:
    return re.sub(r"[^a-z0-9]+", "-", str(text).lower()).strip("-")


@cache
def resource(name: str) -> str:
    """Return the text of a file of this package."""
    return files("permatch.pages").joinpath(name).read_text(encoding="utf-8")
