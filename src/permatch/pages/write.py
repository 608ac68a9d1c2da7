"""Pages about links, matchings and comparisons, from Python.

The modules that make them take long to load, so they are loaded when needed.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from permatch.datasets import EdgeTable
    from permatch.estimators import BaseMatcher
    from permatch.linking import Links
    from permatch.metrics import RankerComparison
    from permatch.pages.match_view import MatchView


def write_links_page(
    links: "Links",
    path: str | Path,
    *,
    model: "BaseMatcher | None" = None,
    pairs: Any = None,
    n_best: int = 10,
) -> str:
    """Write a page about links and how certain they are.

    It lists the components of the table, the least certain first, and opens one at a time.
    It needs no network.  ``permatch link show`` writes the same page.

    Parameters
    ----------
    links : Links
        As `permatch.link` returns them.
    path : path
        The HTML file; an existing one is replaced.
    model, pairs : fitted model and table, optional
        Those that `permatch.link` was given, to show what each feature adds.
    n_best : int
        How many of the most probable sets of links to list for a component.

    Returns
    -------
    str
        What the page shows, in words.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import permatch as pm
    >>> from permatch.pages import write_links_page
    >>> pairs = {"left": ["a", "a", "b"], "right": ["x", "y", "y"]}
    >>> links = pm.link(pairs | {"probability": [0.8, 0.3, 0.6]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_links_page(links, pathlib.Path(folder, "links.html"))
    '2 x 2 records, exact probabilities'
    """
    from permatch.pages.links_view import links_view

    return _write(links_view(links, model=model, pairs=pairs, n_best=n_best), path)


def write_model_page(
    model: "BaseMatcher", table: "EdgeTable", path: str | Path, *, n_best: int = 10
) -> str:
    """Write a page about what a fitted model makes of a table of pairs.

    ``permatch match show`` writes the same page.

    Parameters
    ----------
    model : BaseMatcher
        A fitted model, such as `permatch.MAPMatching`.
    table : EdgeTable
        Graphs with the features of the model, in its order, as from
        `permatch.datasets.read_edge_table`.
    path : path
        The HTML file; an existing one is replaced.
    n_best : int
        How many of the best matchings to list for a component.

    Returns
    -------
    str
        What the page shows, in words.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import permatch as pm
    >>> from permatch.datasets import read_edge_table
    >>> from permatch.pages import write_model_page
    >>> pairs = {"left": ["a", "a", "b", "b"], "right": ["x", "y", "x", "y"]}
    >>> table = read_edge_table(pairs | {"close": [2, 0, 0, 1], "label": [1, 0, 0, 1]})
    >>> model = pm.MAPMatching().fit(table.graphs, table.matchings)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_model_page(model, table, pathlib.Path(folder, "matches.html"))
    '2 x 2 nodes, exact probabilities'
    """
    from permatch.pages.model_view import model_view

    return _write(model_view(model, table, n_best=n_best), path)


def write_comparison_page(
    comparison: "RankerComparison",
    path: str | Path,
    *,
    title: str = "Rankers compared",
    n_queries: int = 5,
) -> None:
    """Write a page about rankers compared: what differs, by chance or not, and where.

    It needs no network, and to be written the extra ``plots``.  ``permatch rank compare``
    writes the same page.

    Parameters
    ----------
    comparison : RankerComparison
        As `permatch.compare_rankers` returns it.
    path : path
        The HTML file; an existing one is replaced.
    title : str
        What stands at the top.
    n_queries : int
        How many of the queries most won, and most lost, are shown with their documents.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> import permatch as pm
    >>> from permatch.pages import write_comparison_page
    >>> rng = np.random.default_rng(0)
    >>> grades, queries = rng.integers(3, size=80), np.repeat(np.arange(8), 10)
    >>> scores = {"old": rng.normal(size=80), "new": grades + rng.normal(size=80)}
    >>> result = pm.compare_rankers(scores, None, grades, queries)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_comparison_page(result, pathlib.Path(folder, "compare.html"))
    """
    from permatch.pages.comparison_page import comparison_page

    comparison_page(comparison, title, n_queries).write(Path(path))


def _write(view: "MatchView", path: str | Path) -> str:
    from permatch.pages.match_explorer import write_match_page

    return write_match_page(view, Path(path))
