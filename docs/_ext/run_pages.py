"""Sphinx directives ``run`` and ``shell`` and the role ``calc``; see `page_code`."""

import time
from html import escape

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from page_code import PageCode, PageCodeError
from sphinx.errors import ExtensionError
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole

logger = logging.getLogger(__name__)
PAGES: dict[str, PageCode] = {}
SECONDS: dict[str, float] = {}


class Run(SphinxDirective):
    """Run Python and show the code, what it printed and what it drew."""

    has_content = True
    option_spec = {
        "hide-code": directives.flag,
        "hide-output": directives.flag,
        # what is printed is Markdown, to stand in the page
        "markdown": directives.flag,
        # what the figure shows, for those who do not see it; values stand in braces
        "alt": directives.unchanged_required,
        "caption": directives.unchanged_required,
    }

    def run(self):
        source = "\n".join(self.content)
        page = PAGES[self.env.docname]
        outcome = _timed(self.env.docname, page.run, source)
        shown = []
        if "hide-code" not in self.options:
            shown.append(_block(source, "python"))
        if outcome.text and "hide-output" not in self.options:
            if "markdown" in self.options:
                inside = nodes.container()
                lines = StringList(outcome.text.splitlines(), self.env.docname)
                self.state.nested_parse(
                    lines, self.content_offset, inside, match_titles=True
                )
                shown += inside.children
            else:
                shown.append(_block(outcome.text.rstrip("\n"), "text", "printed"))
        if outcome.figures and "alt" not in self.options:
            raise self.error("a step that draws needs an :alt: text")
        for svg in outcome.figures:
            shown.append(nodes.raw("", self._figure(page, svg), format="html"))
        return shown

    def _figure(self, page, svg):
        alternative, caption = (
            escape(page.evaluate("f" + repr(self.options.get(name, ""))))
            for name in ("alt", "caption")
        )
        return (
            f'<figure class="drawn"><div class="paper" role="img" '
            f'aria-label="{alternative}">{svg}</div>'
            + (f"<figcaption>{caption}</figcaption>" if caption else "")
            + "</figure>"
        )


class Shell(SphinxDirective):
    """Run commands and show them with what they printed."""

    has_content = True
    option_spec = {"hide-output": directives.flag}

    def run(self):
        source = "\n".join(self.content)
        outcome = _timed(self.env.docname, PAGES[self.env.docname].shell, source)
        if "hide-output" in self.options:
            return [_block("\n".join(f"$ {line}" for line in self.content), "console")]
        return [_block(outcome.text, "console")]


class Calc(SphinxRole):
    """Put the value of an expression into the text."""

    def run(self):
        try:
            value = PAGES[self.env.docname].evaluate(self.text)
        except PageCodeError as err:
            raise ExtensionError(str(err)) from None
        return [nodes.inline(value, value, classes=["calc"])], []


def setup(app):
    """Register the directives and the role."""
    app.add_directive("run", Run)
    app.add_directive("shell", Shell)
    app.add_role("calc", Calc())
    app.connect("source-read", _begin)
    app.connect("build-finished", _end)
    # pages share the working directory and warning filters of one process
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}


def _begin(app, docname, source):
    _close(docname)
    PAGES[docname] = PageCode(docname)


def _end(app, exception):
    for docname in list(PAGES):
        _close(docname)
    for docname, seconds in sorted(SECONDS.items(), key=lambda item: -item[1]):
        logger.info("code of %s: %.1f s", docname, seconds)


def _close(docname):
    if docname in PAGES:
        PAGES.pop(docname).close()


def _timed(docname, call, source):
    start = time.perf_counter()
    try:
        return call(source)
    except PageCodeError as err:
        raise ExtensionError(str(err)) from None
    finally:
        SECONDS[docname] = SECONDS.get(docname, 0.0) + time.perf_counter() - start


def _block(text, language, kind=""):
    block = nodes.literal_block(text, text, language=language)
    block["classes"] += [kind] if kind else []
    return block
