"""Self-contained HTML pages: results in, one file out that needs no network."""

from permatch.pages.html import Page, figure_svg, table

__all__ = ["Page", "figure_svg", "table"]
