"""After a build: pages that can be read without seeing them and used without a mouse.

What scrolls sideways on a narrow screen can be reached by keyboard, the parts of a page
have names of their own, and the parameters of a signature are no list of definitions.
"""

import re
from pathlib import Path

#: Elements that may be wider than the screen.
_SCROLLING = re.compile(
    r"<(pre|div class=\"math[^\"]*\"|div class=\"table-wrapper[^\"]*\")"
    r"(?![^>]*tabindex)"
)
_PARAMETERS = re.compile(r"<dl>\n((?:<dd>.*</dd>\n)+)</dl>")
_MAIN = '<article role="main" id="furo-main-content">'
_NAMES = {
    '<aside class="sidebar-drawer"': 'aria-label="Site"',
    '<aside class="toc-drawer"': 'aria-label="On this page"',
    '<aside class="toc-drawer no-toc"': 'aria-label="On this page"',
}


def setup(app):
    """Connect the step."""
    app.connect("build-finished", finish)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def finish(app, exception):
    """Rewrite every page of the site that needs it."""
    if exception is not None or app.builder.format != "html":
        return
    for path in sorted(Path(app.outdir).rglob("*.html")):
        text = path.read_text(encoding="utf-8")
        better = reachable(text)
        if better != text:
            path.write_text(better, encoding="utf-8")


def reachable(text):
    """Return a page with all that it needs."""
    text = _SCROLLING.sub(r'<\1 tabindex="0"', text)
    for start, name in _NAMES.items():
        text = text.replace(f"{start}>", f"{start} {name}>")
    if "<h1" not in text:  # the page that searches
        text = text.replace(_MAIN, f"{_MAIN}\n<h1>Search</h1>")
    return _PARAMETERS.sub(_as_spans, text)


def _as_spans(match):
    inside = match.group(1).replace("<dd>", "<span>").replace("</dd>", "</span>")
    return f'<span class="parameters">{inside}</span>'
