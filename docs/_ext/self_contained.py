"""After a build: no page may ask the network for a script, a style, a font or a picture."""

import re
from pathlib import Path

_ASKED_FOR = re.compile(
    r"<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc=[\"'](?:https?:)?//[^\"']*"
    r"|<link\b(?=[^>]*\brel=[\"'](?:stylesheet|icon|preload|preconnect|dns-prefetch))"
    r"[^>]*\bhref=[\"'](?:https?:)?//[^\"']*"
    r"|@import\s+(?:url\()?[\"']?(?:https?:)?//[^\"')]*"
    r"|url\([\"']?(?:https?:)?//[^\"')]*"
)


def setup(app):
    """Connect the check."""
    app.connect("build-finished", check)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def check(app, exception):
    """Raise if a file of the site needs something from outside."""
    if exception is not None or app.builder.format != "html":
        return
    faults = outside_requests(Path(app.outdir))
    if faults:
        from sphinx.errors import ExtensionError

        raise ExtensionError("the site must work without a network:\n" + "\n".join(faults))


def outside_requests(folder):
    """Return a line for everything the pages and styles of a folder would fetch."""
    return [
        f"{path.relative_to(folder)}: {match.group()}"
        for pattern in ("*.html", "*.css")
        for path in sorted(folder.rglob(pattern))
        for match in _ASKED_FOR.finditer(path.read_text(encoding="utf-8"))
    ]
