"""Docstrings as they are written here, understood by Sphinx.

`name` in single quotes is a link where something public has that name, code otherwise; an
indented paragraph after prose is shown as it stands; what scikit-learn and Stone Soup add
to every class is left out.
"""

import re

from sphinx.util.nodes import make_refnode

_SECTION = re.compile(r"^-{3,}$")
#: What a bare name may link to; attributes of some other class are not meant.
_LINKED = {"class", "function", "exception", "module", "data"}


def setup(app):
    """Connect the hooks."""
    app.connect("autodoc-process-docstring", show_indented_as_it_stands, priority=400)
    app.connect("autodoc-process-docstring", keep_colon, priority=600)
    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("missing-reference", find_by_last_name)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def show_indented_as_it_stands(app, what, name, thing, options, lines):
    """Mark indented paragraphs before the first section as literal."""
    end = next((k - 1 for k, line in enumerate(lines) if _SECTION.match(line)), len(lines))
    shown, is_inside = [], False
    for k, line in enumerate(lines[:end]):
        is_indented = line.startswith(" ")
        is_after_blank = k > 0 and not lines[k - 1].strip()
        if is_indented and is_after_blank and not is_inside:
            if not shown or not _last_line(shown).endswith("::"):
                shown += [".. code-block:: text", ""]
            is_inside = True
        elif line.strip() and not is_indented:
            is_inside = False
        shown.append(line)
    lines[:end] = shown


def keep_colon(app, what, name, thing, options, lines):
    """Put back words before a colon that napoleon took for the type of a property."""
    marks = [k for k, line in enumerate(lines) if line.startswith(":type: ")]
    if what == "property" and marks:
        lines[0] = f"{lines.pop(marks[0]).removeprefix(':type: ')}: {lines[0]}"


def skip_foreign(app, what, name, thing, skip, options):
    """Leave out what scikit-learn and Stone Soup give to every class."""
    module = getattr(thing, "__module__", None) or ""
    return True if module.startswith(("sklearn.", "stonesoup.")) else None


def find_by_last_name(app, env, node, contnode):
    """Link a name in single quotes by its last part, or leave it as code."""
    if node.get("refdomain") != "py" or node.get("reftype") != "obj":
        return None
    domain = env.domains.python_domain
    target = node["reftarget"]
    found = [
        (name, entry)
        for name, entry in domain.objects.items()
        if (name == target or name.endswith("." + target)) and not entry.aliased
        if entry.objtype in _LINKED or "." in target
    ]
    if len(found) != 1:
        return contnode
    ((name, entry),) = found
    return make_refnode(
        app.builder, node["refdoc"], entry.docname, entry.node_id, contnode, name
    )


def _last_line(lines):
    return next((line for line in reversed(lines) if line.strip()), "")
