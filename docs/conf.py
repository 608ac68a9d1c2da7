"""How the documentation is built: ``make docs``."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent / "src"), str(HERE.parent)]

from permatch import __version__  # noqa: E402

project = "permatch"
author = "permatch contributors"
copyright = author
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "docstrings",
    "mathml",
    "site_pages",
    "reachable",
    "self_contained",
]
exclude_patterns = ["_build", "_ext", "_templates"]
templates_path = ["_templates"]
nitpicky = True
default_role = "py:obj"
today_fmt = "%Y-%m-%d"

myst_enable_extensions = ["dollarmath", "deflist", "fieldlist", "colon_fence"]
myst_heading_anchors = 3

# Types stand in the docstrings, with shapes; signatures stay short enough to read.
autodoc_typehints = "none"
# The reference of `permatch.nn` is built without PyTorch, which is very large and whose own
# members it need not repeat.
autodoc_mock_imports = ["torch"]
autodoc_class_signature = "mixed"
autodoc_preserve_defaults = True
autosummary_generate = True
autosummary_ignore_module_all = False
napoleon_google_docstring = False
napoleon_use_param = False
napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]
add_module_names = False
python_maximum_signature_line_length = 60

html_theme = "furo"
html_title = f"permatch {release}"
html_static_path = ["_static"]
html_css_files = ["permatch.css"]
html_math_renderer = "mathml"
html_show_sphinx = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#0b5cad",
        "color-brand-content": "#0b5cad",
    },
    "dark_css_variables": {
        "color-brand-primary": "#7db8f0",
        "color-brand-content": "#7db8f0",
    },
}
