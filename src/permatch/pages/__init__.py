"""Self-contained HTML pages: results in, one file out that needs no network."""

from permatch.pages.html import Page, drawing, figure_svg, table

__all__ = ["Page", "drawing", "figure_svg", "table"]
