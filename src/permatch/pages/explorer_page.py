"""Pages that answer to the pointer and the keyboard: their scripts and data are inside.

Arrays travel as base64 of little-endian numbers, so that a page of a hundred nodes a side
stays small and opens at once.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from permatch.pages.html import Page, resource

# Nothing is ever fetched, whatever stands in the data.
_POLICY = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
    "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">"
)
# Numbers that single precision holds without becoming 0 or infinite.
_SINGLE = (1e-37, 1e38)


@dataclass
class ExplorerPage(Page):
    """A page with a script, its data, and room for details beside the charts.

    `scripts` are the names of files of this package, which run in this order as one; `data`
    is what they read, as JSON.
    """

    scripts: tuple[str, ...] = ()
    data: dict[str, Any] = field(default_factory=dict)

    def render(self) -> str:
        """Return the whole page."""
        data = to_script_json(self.data)
        code = "".join(map(resource, ("explorer.js", *self.scripts)))
        scripts = (
            f'<script type="application/json" id="data">{data}</script>\n'
            f'<script>\n"use strict";\n(() => {{\n{code}}})();\n</script>'
        )
        return self._render(_POLICY, resource("explorer.css"), scripts)

    def open_charts(self) -> None:
        """Begin the column of charts."""
        self.add_html('<div class="explorer"><div class="charts">')

    def close_charts(self, title: str, hint: str) -> None:
        """End the column of charts; beside it stand the details of what is pointed at."""
        self.add_html(
            '</div><section class="details" aria-labelledby="details-title" tabindex="0">'
            f'<div class="top"><h2 id="details-title">{escape(title)}</h2>'
            '<button type="button" id="details-switch" aria-controls="details" hidden>'
            "</button></div>"
            f'<p id="status" role="status">{escape(hint)}</p>'
            '<div id="details"></div>'
            "<noscript><p>Figures need JavaScript; tables do not.</p></noscript>"
            "</section></div>"
        )

    def add_canvas(self, name: str, alternative: str, legend: str, caption: str) -> None:
        """Add a picture that the script draws, with what it says in words.

        The words stand in the label and, once more, between the tags.
        """
        label = escape(alternative)
        self.add_html(
            f'<figure>{legend}<div class="stack"><canvas id="{name}" role="img" '
            f'aria-label="{label}">{label}</canvas>'
            f'<canvas id="{name}-mark" class="mark" aria-hidden="true"></canvas></div>'
            f"<figcaption>{escape(caption)}</figcaption></figure>"
        )


def button_table(
    name: str,
    header: Sequence[str],
    rows: Sequence[tuple[Mapping[str, Any], Sequence[Any]]],
    caption: str,
    *,
    words: Sequence[int] = (),
) -> str:
    """Return a table whose rows begin with a button; arrow keys go from one to the next.

    A row is what the button stands for (its data attributes) and its cells; columns named
    in `words` hold words rather than numbers.  A pair of names is the name of an edge.
    """
    kinds = [' class="words"' if k in words else "" for k in range(len(header))]
    heads = "".join(
        f'<th scope="col"{kind}>{escape(cell)}</th>'
        for kind, cell in zip(kinds, header, strict=True)
    )
    lines = [
        f'<div class="scroll"><table class="rows" id="{name}">'
        f"<caption>{escape(caption)}</caption><thead><tr>{heads}</tr></thead><tbody>"
    ]
    for k, (means, (first, *others)) in enumerate(rows):
        marks = "".join(f' data-{key}="{escape(str(v))}"' for key, v in means.items())
        stop = "" if k == 0 else ' tabindex="-1"'  # one stop of the Tab key per table
        lines.append(
            f'<tr><th scope="row"><button type="button"{marks}{stop}>{_clipped(first)}'
            "</button></th>"
        )
        lines += [
            f"<td{kind}>{_clipped(cell) if kind else bidi(cell)}</td>"
            for kind, cell in zip(kinds[1:], others, strict=True)
        ]
        lines.append("</tr>")
    lines.append("</tbody></table></div>")
    return "".join(lines)


def bidi(text: Any) -> str:
    """Return names that do not turn their surroundings round, in whatever script."""
    if isinstance(text, list):
        return ", ".join(map(bidi, text))
    if isinstance(text, tuple):
        return " – ".join(map(bidi, text))
    return f"<bdi>{escape(str(text))}</bdi>"


def _clipped(text: Any) -> str:
    """Return names of which a table shows some lines, however long they are."""
    return f'<span class="clip">{bidi(text)}</span>'


def legend(entries: Sequence[tuple[str, str]]) -> str:
    """Return a legend of (class of the sample, words) entries."""
    items = "".join(
        f'<li><span class="sample {kind}" aria-hidden="true"></span>{escape(words)}</li>'
        for kind, words in entries
    )
    return f'<ul class="legend">{items}</ul>'


def slider(name: str, words: str, lowest: int, highest: int, value: int, shown: str) -> str:
    """Return a slider with its label and the words that say what it does now."""
    return (
        f'<p class="control"><label for="{name}">{escape(words)}</label> '
        f'<input type="range" id="{name}" min="{lowest}" max="{highest}" step="1" '
        f'value="{value}" autocomplete="off" aria-describedby="{name}-now"> '
        f'<output id="{name}-now" for="{name}">{escape(shown)}</output></p>'
    )


def pack(array: np.ndarray, kind: Any = None) -> dict[str, str]:
    """Return an array as text; single precision unless told otherwise, or out of reach.

    Examples
    --------
    >>> pack(np.array([1.0, 2.0]))
    {'kind': 'f4', 'bytes': 'AACAPwAAAEA='}
    """
    if kind is None:
        sizes = np.abs(array[array != 0.0])
        is_single = not sizes.size or (
            sizes.min() > _SINGLE[0] and sizes.max() < _SINGLE[1]
        )
        kind = np.float32 if is_single else np.float64
    numbers = np.ascontiguousarray(array, dtype=np.dtype(kind).newbyteorder("<"))
    text = base64.b64encode(numbers.tobytes()).decode("ascii")
    return {"kind": numbers.dtype.str[1:], "bytes": text}


def to_script_json(data: dict[str, Any]) -> str:
    r"""Return JSON that no browser takes for markup, whatever the names in it.

    Examples
    --------
    >>> to_script_json({"id": "</script>"})
    '{"id": "\\u003c/script\\u003e"}'
    """
    text = json.dumps(data, allow_nan=False)  # non-ASCII comes out as \\u....
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def percent(probability: float) -> str:
    """Write a probability as a percentage, never rounded to a false 0 or 100.

    The scripts of the pages write them alike.

    Examples
    --------
    >>> [percent(p) for p in (0.0, 2e-5, 0.5, 0.99996, 1.0)]
    ['0 %', '0.002 %', '50.0 %', '> 99.99 %', '100 %']
    """
    share = 100.0 * probability
    if share in (0.0, 100.0):
        return f"{share:.0f} %"
    if share < 0.0005:
        return "< 0.001 %"
    if share > 99.99:
        return "> 99.99 %"
    digits = 1 if 1.0 <= share <= 99.0 else 2 if share >= 0.01 else 3
    return f"{share:.{digits}f} %"


def percent_of_log(log_probability: float) -> str:
    """Write the probability with this logarithm, which float64 may round to zero.

    Examples
    --------
    >>> [percent_of_log(x) for x in (0.0, -1.0, -30.0, -3000.0)]
    ['100 %', '36.8 %', '9e-12 %', '1e-1301 %']
    """
    if log_probability == -np.inf:
        return "0 %"
    if log_probability >= np.log(5e-6):
        return percent(float(np.exp(log_probability)))
    exponent = log_probability / np.log(10.0) + 2.0  # in per cent
    whole = int(np.floor(exponent))
    lead = round(10.0 ** (exponent - whole))
    return f"1e{whole + 1} %" if lead == 10 else f"{lead}e{whole} %"


def count(number: int, noun: str) -> str:
    """Write a number of things.

    Examples
    --------
    >>> count(1, "pair"), count(2000, "pair")
    ('1 pair', '2,000 pairs')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
