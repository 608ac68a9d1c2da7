"""Formulas as MathML, which browsers draw themselves: no script, no font, no network."""

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

logger = logging.getLogger(__name__)


def setup(app):
    """Register the renderer under the name ``mathml``."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def visit_math(translator, node):
    """Write a formula that stands in a line."""
    translator.body.append(_mathml(node))
    raise nodes.SkipNode


def visit_block(translator, node):
    """Write a formula on a line of its own, with its number if it has one."""
    translator.body.append(translator.starttag(node, "div", CLASS="math"))
    if node.get("number"):
        number = get_node_equation_number(translator, node)
        translator.body.append(f'<span class="eqno">({number})</span>')
    translator.body.append(_mathml(node, is_block=True))
    translator.body.append("</div>\n")
    raise nodes.SkipNode


def _mathml(node, is_block=False):
    try:
        return tex2mathml(node.astext(), as_block=is_block)
    except MathError as err:
        logger.warning("formula not understood: %s: %s", node.astext(), err, location=node)
        return f"<code>{node.astext()}</code>"
