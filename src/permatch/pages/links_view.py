"""What a page shows of links: pairs of records and their one-to-one probabilities."""

from dataclasses import replace
from typing import Any

import numpy as np

from permatch.errors import InvalidOptionError
from permatch.linking import Links
from permatch.pages.explorer_page import count
from permatch.pages.match_view import DECISIONS, Evidence, MatchView


def links_view(links: Links, *, n_best: int = 10, node: str | None = None) -> MatchView:
    """Return the pairs of a table of links.

    Parameters
    ----------
    links : Links
        As `permatch.link` returns them.
    n_best : int
        How many of the most probable sets of links to list for a component.
    node : str, optional
        Show only the components of the records of this name; none if there is no such
        record.

    Returns
    -------
    MatchView
        The input of `permatch.pages.match_explorer.match_page`.
    """
    if links.problem is None or links.rows is None:
        raise InvalidOptionError(
            "a page needs all links as permatch.link returns them; got some of their rows. "
            "Show the whole table."
        )
    odds = links.problem
    whole = replace(odds, scores=odds.scores + links.offset)
    part = whole.select(np.arange(len(whole.structure.components)))
    problem, rows = part.problem, links.rows[part.edges]
    structure = problem.structure
    first_left = structure.starts[:-1]
    starts, by_right = structure.by_right
    first_right = by_right[starts[:-1]]
    left, right = links.id_columns
    is_rough = ~links["is_exact"][rows].astype(bool)
    owner = structure.graph_of_left[structure.left]
    n_rough = np.bincount(owner[is_rough], minlength=structure.n_graphs)
    chances = links["pair_probability"][rows]
    view = MatchView(
        name="",
        title="Links",
        lead=_lead(links),
        how=_how_found(links),
        table="permatch link --out (in Python, Links.write) writes all pairs to a table.",
        problem=problem,
        left=_names(links[left][rows[first_left]]),
        right=_names(links[right][rows[first_right]]),
        graphs=[],
        chances=links["probability"][rows],
        alone_left=links["no_partner_left"][rows[first_left]],
        alone_right=links["no_partner_right"][rows[first_right]],
        decisions=_numbers(links["decision"][rows]),
        is_exact=n_rough == 0,
        evidence=Evidence(
            ["log-odds of the pair by itself", "constant added to all"],
            np.stack([odds.scores[part.edges], np.full(len(rows), links.offset)], axis=1),
        ),
        low=links["low"][rows] if is_rough.any() else None,
        high=links["high"][rows] if is_rough.any() else None,
        interval="certain" if is_rough.any() else "",
        pair_chances=None if np.isnan(chances).any() else chances,
        n_best=n_best,
    )
    return view if node is None else view.having(node)


def _names(ids: np.ndarray) -> list[str]:
    return [str(name) for name in ids.tolist()]


def _numbers(words: np.ndarray) -> Any:
    """Return the numbers of decisions in words."""
    found = np.zeros(len(words), dtype=np.int64)
    for number, word in enumerate(DECISIONS):
        found[words == word] = number
    return found


def _lead(links: Links) -> str:
    n_links, n_review = (
        int((links["decision"] == word).sum()) for word in ("link", "review")
    )
    assert links.problem is not None
    structure = links.problem.structure
    return (
        f"{structure.n_left:,} left and {count(structure.n_right, 'right record')}, "
        f"{count(len(links), 'candidate pair')}; {n_links:,} linked, "
        f"{n_review:,} for review, {links.expected_links:,.1f} links expected."
    )


def _how_found(links: Links) -> str:
    n_rough = int((~links["is_exact"].astype(bool)).sum())
    if not n_rough:
        return "All probabilities are exact."
    return (
        f"The probabilities of {count(n_rough, 'pair')} are approximate; they lie for "
        "certain in the intervals shown. All others are exact."
    )
