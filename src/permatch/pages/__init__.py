"""Self-contained HTML pages: results in, one file out that needs no network."""

from permatch.pages.write import (
    write_comparison_page,
    write_links_page,
    write_model_page,
)

__all__ = ["write_comparison_page", "write_links_page", "write_model_page"]
