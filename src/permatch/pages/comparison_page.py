"""The page of `permatch rank compare`: is one ranker better, by how much, and where."""

import warnings
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from permatch.metrics import ComparedMeasure, ComparedQuery, RankerComparison
from permatch.metrics.comparison_words import HEADER, figures, mean_of, verdict
from permatch.pages.explorer_page import bidi, count
from permatch.pages.html import Markup, Page, drawing, figure_svg, table
from permatch.plots.ranking import query_differences

# Documents shown of a query.
_N_DOCUMENTS = 10


def comparison_page(
    comparison: RankerComparison, title: str = "Rankers compared", n_queries: int = 5
) -> Page:
    """Return the page about a comparison, with so many queries won and lost."""
    lists = comparison.lists
    page = Page(
        title,
        f"{len(lists.queries):,} queries, {count(len(lists.grades), 'document')}; the "
        f"baseline is {comparison.baseline}.",
    )
    page.add_heading("Is one better?")
    for ranker in comparison.rankers[1:]:
        page.add_text(verdict(comparison, comparison.row(ranker)))
    _add_measures(page, comparison)
    _add_chance(page, comparison)
    page.add_heading("Query by query")
    found = {}
    for ranker in comparison.rankers[1:]:
        most = (
            comparison.most_won(n_queries, ranker),
            comparison.most_lost(n_queries, ranker),
        )
        if len(comparison.rankers) > 2:
            page.add_heading(ranker, level=3)
        _add_differences(page, comparison, comparison.row(ranker))
        _add_queries(page, comparison, ranker, most)
        found[ranker] = [query for queries in most for query in queries]
    if any(found.values()):
        page.add_heading("Documents side by side")
        page.add_text(
            f"The first {_N_DOCUMENTS} documents of each of these queries. Those with a "
            "grade above 0 are bold."
        )
    for ranker, queries in found.items():
        for query in queries:
            _add_documents(page, comparison, ranker, query)
    return page


def _add_measures(page: Page, comparison: RankerComparison) -> None:
    for ranker in comparison.rankers[1:]:
        rows = [comparison.row(ranker, measure) for measure in comparison.measures]
        page.add_html(
            table(
                ["measure", comparison.baseline, ranker, *HEADER],
                [
                    [
                        str(row.measure),
                        mean_of(row.baseline_mean),
                        mean_of(row.mean),
                        *map(_whole, figures(row)),
                    ]
                    for row in rows
                ],
                f"{ranker} next to {comparison.baseline}: means over queries, their "
                "difference, and queries won, lost and tied.",
            )
        )


def _add_chance(page: Page, comparison: RankerComparison) -> None:
    n_tests = sum(not np.isnan(row.p_value) for row in comparison.rows)
    page.add_heading("What is chance")
    page.add_text(
        "Queries differ, and these are only some of all there could be: with others the "
        "difference would come out somewhat larger or smaller. The 95 % interval, from "
        "queries drawn again and again from these, shows how much."
    )
    page.add_text(
        "p answers another question. If the rankers were equally good, it would be a coin "
        "toss which of them does better on a query: how often would such tosses give a "
        "difference at least this large? (This is a paired randomisation test.)"
    )
    if n_tests > 1:
        page.add_text(
            f"Of many tests some come out small by luck. p (Holm) is corrected for the "
            f"{n_tests} tests of this page; below 0.05 a difference is called significant. "
            "The verdict is about the first measure, which should be chosen before looking."
        )
    page.add_text(
        "A difference that is not significant is not shown to be zero: there may be too "
        "few queries to see it. And what is significant may still be too small to matter."
    )


def _add_differences(
    page: Page, comparison: RankerComparison, row: ComparedMeasure
) -> None:
    ranker, baseline = row.ranker, comparison.baseline
    differences = comparison.differences(ranker)
    known = differences[~np.isnan(differences)]
    if not len(known):
        return
    words = (
        f"{ranker} is better on {row.n_wins}, {baseline} on {row.n_losses} of "
        f"{row.n_queries} queries, and they are equal on {row.n_ties}"
    )
    # Where the font of the pictures lacks a letter, the browser's has it.
    with warnings.catch_warnings(), drawing(8.0, 3.4) as (figure, axes):
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        interval = None if np.isnan(row.p_value) else row.interval
        query_differences(
            known, ranker, baseline, measure=str(row.measure), interval=interval, ax=axes
        )
        page.add_figure(
            figure_svg(figure),
            f"{row.measure} of {ranker} minus that of {baseline}, a bar per query: "
            f"{words}. The line is the mean, the grey band its 95 % interval.",
            f"Differences per query in {row.measure}: {words}.",
        )


def _add_queries(
    page: Page,
    comparison: RankerComparison,
    ranker: str,
    most: Sequence[Sequence[ComparedQuery]],
) -> None:
    baseline, lengths = comparison.baseline, np.diff(comparison.lists.starts)
    for word, queries in zip(("won", "lost"), most, strict=True):
        if not queries:
            page.add_text(f"{ranker} {word} no query.")
            continue
        page.add_html(
            table(
                ["query", baseline, ranker, "difference", "documents"],
                [
                    [
                        _link(comparison, ranker, query),
                        mean_of(query.baseline),
                        mean_of(query.value),
                        f"{query.difference:+.4f}",
                        lengths[query.position],
                    ]
                    for query in queries
                ],
                f"The queries that {ranker} {word} most clearly, by "
                f"{comparison.measures[0]}.",
            )
        )


def _add_documents(
    page: Page, comparison: RankerComparison, ranker: str, query: ComparedQuery
) -> None:
    lists, baseline = comparison.lists, comparison.baseline
    orders = [
        lists.best_first(query.position, comparison.rankers.index(name)).tolist()
        for name in (baseline, ranker)
    ]
    places = {row: place for place, row in enumerate(orders[0], start=1)}
    of = f", {escape(ranker)}" if len(comparison.rankers) > 2 else ""
    mark = _mark(comparison, ranker, query)
    page.add_html(f'<h3 id="{mark}">Query {bidi(query.query)}{of}</h3>')
    page.add_html(
        table(
            ["place", baseline, "its grade", ranker, "its grade", f"place in {baseline}"],
            [
                [
                    place,
                    _document(comparison, before),
                    lists.grades[before],
                    _document(comparison, after),
                    lists.grades[after],
                    places[after],
                ]
                for place, (before, after) in enumerate(zip(*orders, strict=True), start=1)
                if place <= _N_DOCUMENTS
            ],
            f"Query {query.query}: {comparison.measures[0]} {query.baseline:.4f} by "
            f"{baseline}, {query.value:.4f} by {ranker}.",
            is_text=True,
        )
    )


def _document(comparison: RankerComparison, row: int) -> Markup:
    name = bidi(comparison.lists.documents[row])
    is_relevant = comparison.lists.grades[row] > 0
    return Markup(f"<strong>{name}</strong>" if is_relevant else name)


def _link(comparison: RankerComparison, ranker: str, query: ComparedQuery) -> Markup:
    mark = _mark(comparison, ranker, query)
    return Markup(f'<a href="#{mark}">{bidi(query.query)}</a>')


def _mark(comparison: RankerComparison, ranker: str, query: ComparedQuery) -> str:
    return f"ranker-{comparison.rankers.index(ranker)}-query-{query.position}"


def _whole(cell: Any) -> Markup:
    """Return a cell that stays on one line."""
    return Markup(escape(str(cell)).replace(" ", "\u00a0"))
