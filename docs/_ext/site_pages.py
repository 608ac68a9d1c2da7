"""What the site adds to pages that can be read without it.

`pm.name` in the text is a link to the reference, a ``text`` block after a ``python`` block
is drawn as its output, and what stands in a comment that begins with ``<!-- site`` is there
on the site only: tables of contents.
"""

import re

from docutils import nodes
from sphinx.addnodes import pending_xref

_ONLY_HERE = re.compile(r"^<!-- site\n(.*?)^-->$", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"pm\.([\w.]*\w)(?:\(\))?")


def setup(app):
    """Connect the hooks."""
    app.connect("source-read", show_what_is_for_the_site)
    app.connect("doctree-read", link_names)
    app.connect("doctree-read", join_output)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def show_what_is_for_the_site(app, docname, source):
    """Take the marks of a comment away from what is for the site."""
    source[0] = _ONLY_HERE.sub(r"\1", source[0])


def link_names(app, doctree):
    """Make every `pm.name` a link."""
    for literal in list(doctree.findall(nodes.literal)):
        found = _NAME.fullmatch(literal.astext())
        if found and not isinstance(literal.parent, (pending_xref, nodes.reference)):
            link = pending_xref(
                "",
                refdomain="py",
                reftype="obj",
                reftarget=f"permatch.{found[1]}",
                refdoc=app.env.docname,
                refexplicit=True,
            )
            literal.replace_self(link)
            link += literal


def join_output(app, doctree):
    """Mark what was printed as belonging to the code above it."""
    for block in doctree.findall(nodes.literal_block):
        before = block.parent[: block.parent.index(block)]
        is_after_code = before and isinstance(before[-1], nodes.literal_block)
        if block.get("language") == "text" and is_after_code:
            block["classes"] += ["printed"] * (before[-1].get("language") == "python")
