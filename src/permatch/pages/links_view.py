"""What a page shows of links: pairs of records and their one-to-one probabilities."""

from dataclasses import replace
from typing import Any

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch.errors import InvalidOptionError
from permatch.estimators import BaseMatcher, LinearMatcher
from permatch.linking import Links
from permatch.linking.models import features_of, model_columns
from permatch.linking.pairs import choose_roles, read_pairs
from permatch.pages.explorer_page import count
from permatch.pages.match_view import DECISIONS, Evidence, MatchView
from permatch.pages.model_view import explained
from permatch.problems import Structure


def links_view(
    links: Links,
    *,
    model: BaseMatcher | None = None,
    pairs: Any = None,
    n_best: int = 10,
    node: str | None = None,
    source: str = "",
) -> MatchView:
    """Return the pairs of a table of links.

    Parameters
    ----------
    links : Links
        As `permatch.link` returns them.
    model, pairs : BaseMatcher and table, optional
        The model and the table that `permatch.link` was given, to show what each feature
        adds; default: the log-odds of a pair as a whole.
    n_best : int
        How many of the most probable sets of links to list for a component.
    node : str, optional
        Show only the components of the records of this name; none if there is no such
        record.
    source : str
        Where the pairs come from, for the title.

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
        title=f"Links of {source}" if source else "Links",
        lead=_lead(links, odds.structure),
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
        evidence=_evidence(links, odds.scores[part.edges], rows, model, pairs),
        low=links["low"][rows] if is_rough.any() else None,
        high=links["high"][rows] if is_rough.any() else None,
        interval="certain" if is_rough.any() else "",
        pair_chances=None if np.isnan(chances).any() else chances,
        n_best=n_best,
        node="record",
        matchings=("set of links", "sets of links"),
    )
    return view if node is None else view.having(node)


def _evidence(
    links: Links,
    odds: FloatArray,
    rows: IntArray,
    model: BaseMatcher | None,
    pairs: Any,
) -> Evidence:
    """Return what the scores are made of: what a model adds, or the log-odds as a whole."""
    constant = np.full(len(rows), links.offset)
    if model is None:
        names = ["log-odds of the pair by itself", "constant added to all"]
        return Evidence(names, np.stack([odds, constant], axis=1))
    roles = choose_roles(*links.id_columns, {}, model_columns(model))
    names = list(model.feature_names_ or ())
    features = features_of(read_pairs(pairs, roles).columns, names)
    if not isinstance(model, LinearMatcher):
        return explained(
            model, names, features[rows], [("constant added to all", links.offset)]
        )
    return Evidence(
        [*names, "against no partner of either record", "constant added to all"],
        np.column_stack([features[rows], np.ones(len(rows)), constant]),
        np.array([*model.coef_, -2.0 * model.unmatched_intercept_, 1.0]),
    )


def _names(ids: np.ndarray) -> list[str]:
    return [str(name) for name in ids.tolist()]


def _numbers(words: np.ndarray) -> Any:
    """Return the numbers of decisions in words."""
    found = np.zeros(len(words), dtype=np.int64)
    for number, word in enumerate(DECISIONS):
        found[words == word] = number
    return found


def _lead(links: Links, structure: Structure) -> str:
    n_links, n_review = (
        int((links["decision"] == word).sum()) for word in ("link", "review")
    )
    return (
        f"{structure.n_left:,} left and {count(structure.n_right, 'right record')}, "
        f"{count(len(links), 'candidate pair')}; {n_links:,} linked, "
        f"{n_review:,} for review, {links.expected_links:,.1f} links expected."
    )


def _how_found(links: Links) -> str:
    n_rough = int((~links["is_exact"].astype(bool)).sum())
    if not n_rough:
        return "All probabilities are exact."
    others = " All others are exact." if n_rough < len(links) else ""
    return (
        f"The probabilities of {count(n_rough, 'pair')} are approximate; they lie for "
        f"certain in the intervals shown.{others}"
    )
